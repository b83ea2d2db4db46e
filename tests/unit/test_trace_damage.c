/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Damaged, cut and hostile trace files. Three promises are held here: what a reader gives of a
 * broken file is true (each thread's events are some of its real ones, in order), that something is
 * missing is reported, and nothing that a file holds can crash a reader.
 */
#include "tests/traces/file.h"
#include "tests/traces/sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#define SMALL POLLUX_TESTS "/traces/good/small.plx"

static struct buf small;
static struct file_read whole;

static int load_small(void **state)
{
	small = file_load(SMALL);
	if (buf_failed(&small))
		return -1;
	whole = file_read_bytes(small.data, small.len);
	return whole.opened == 0 && whole.code == 0 && !whole.truncated ? 0 : -1;
}

static int unload(void **state)
{
	file_read_done(&whole);
	buf_done(&small);
	return 0;
}

static struct buf copy_of_small(size_t len)
{
	struct buf b = BUF_INIT;
	buf_add(&b, small.data, len);
	return b;
}

/* Each thread's events are a subsequence of its real ones (`prefix`: its first ones). */
static void check_true(const struct file_read *f, bool prefix)
{
	for (uint32_t thread = 0; thread < SAMPLE_THREADS; thread++) {
		size_t at = 0;
		for (size_t i = 0; i < f->n; i++) {
			if (f->events[i].thread != thread)
				continue;
			for (;; at++) {
				assert_true(at < whole.n);
				if (whole.events[at].thread != thread)
					continue;
				bool same = !memcmp(&whole.events[at], &f->events[i],
						    sizeof(f->events[i]));
				assert_true(same || !prefix);
				if (same)
					break;
			}
			at++;
		}
	}
}

static void test_cut_at_every_byte(void **state)
{
	size_t most = 0;
	for (size_t len = 0; len < small.len; len++) {
		struct file_read f = file_read_bytes(small.data, len);
		assert_int_equal(f.opened, len < sizeof(struct plx_header) ? -EBADMSG : 0);
		if (f.opened == 0) {
			assert_int_equal(f.code, 0);
			assert_true(f.truncated);
			assert_non_null(strstr(f.story, "lost"));
			check_true(&f, true);
			/* More bytes never give fewer events. */
			assert_true(f.n >= most);
			most = f.n;
		}
		file_read_done(&f);
	}
	assert_int_equal(most, whole.n);
}

static void test_flip_every_byte(void **state)
{
	static const uint8_t flips[] = {0x01, 0x80, 0xff};
	for (size_t at = 0; at < small.len; at++) {
		for (size_t k = 0; k < sizeof(flips); k++) {
			struct buf b = copy_of_small(small.len);
			b.data[at] = (char)(b.data[at] ^ flips[k]);
			struct file_read f = file_read_bytes(b.data, b.len);
			/* Every byte is under a checksum. */
			if (at < sizeof(struct plx_header)) {
				assert_true(f.opened < 0);
			} else {
				assert_int_equal(f.opened, 0);
				assert_int_equal(f.code, 0);
				assert_true(f.truncated);
				check_true(&f, false);
			}
			file_read_done(&f);
			buf_done(&b);
		}
	}
}

/* With right checksums the parsers themselves are reached. */
static void test_flip_every_byte_and_seal(void **state)
{
	size_t next;
	for (size_t chunk = sizeof(struct plx_header);; chunk = next) {
		struct buf b = copy_of_small(small.len);
		next = file_seal_chunk(&b, chunk);
		buf_done(&b);
		if (!next)
			break;
		for (size_t at = chunk + sizeof(struct plx_chunk_header); at < next; at++) {
			for (unsigned flip = 1; flip < 256;
			     flip = flip < 128 ? flip * 2 : flip + 31) {
				b = copy_of_small(small.len);
				b.data[at] = (char)(b.data[at] ^ flip);
				assert_true(file_seal_chunk(&b, chunk) == next);
				struct file_read f = file_read_bytes(b.data, b.len);
				assert_int_equal(f.opened, 0);
				assert_int_equal(f.code, 0);
				for (uint32_t i = 0; i < trace_reader_n_kinds(f.reader) && i < 10;
				     i++)
					trace_reader_kind(f.reader, i);
				file_read_done(&f);
				buf_done(&b);
			}
		}
	}
}

/* A chunk whose sealed payload is cut short, or empty. */
static void test_short_payloads(void **state)
{
	for (size_t chunk = sizeof(struct plx_header);;) {
		struct plx_chunk_header h;
		if (chunk + sizeof(h) > small.len)
			break;
		memcpy(&h, small.data + chunk, sizeof(h));
		const char *payload = small.data + chunk + sizeof(h);
		for (size_t size = 0; size < h.size; size++) {
			struct buf b = copy_of_small(chunk);
			file_add_chunk(&b, h.type, 0, payload, size);
			buf_add(&b, payload + h.size, small.len - chunk - sizeof(h) - h.size);
			struct file_read f = file_read_bytes(b.data, b.len);
			assert_int_equal(f.code, 0);
			check_true(&f, false);
			if (h.type != PLX_META || !size)
				assert_true(f.truncated || h.type == PLX_META);
			file_read_done(&f);
			buf_done(&b);
		}
		chunk += sizeof(h) + h.size;
	}
}

/* A chunk taken out: its events are missing, all others are there, and the number is reported. */
static void test_missing_chunk(void **state)
{
	for (unsigned i = 0; file_find_chunk(&small, PLX_EVENTS, i); i++) {
		struct plx_chunk_header h;
		size_t at = file_find_chunk(&small, PLX_EVENTS, i);
		memcpy(&h, small.data + at, sizeof(h));
		struct buf b = copy_of_small(at);
		size_t next = at + sizeof(h) + h.size;
		buf_add(&b, small.data + next, small.len - next);
		struct file_read f = file_read_bytes(b.data, b.len);
		char want[64];
		snprintf(want, sizeof(want), "%zu of %zu events are lost", whole.n - f.n, whole.n);
		assert_true(f.truncated && f.n < whole.n && f.n > whole.n / 2);
		assert_non_null(strstr(f.story, want));
		check_true(&f, false);
		file_read_done(&f);
		buf_done(&b);
	}
}

/* Noise in place of a payload, sealed. */
static void test_noise(void **state)
{
	uint64_t random = 1;
	for (int round = 0; round < 3000; round++) {
		_cleanup_buf_ struct buf b = copy_of_small(sizeof(struct plx_header));
		for (int chunk = 0; chunk < 4; chunk++) {
			char payload[300];
			random = random * 6364136223846793005ULL + 1442695040888963407ULL;
			size_t size = random >> 33 & 0xff;
			for (size_t i = 0; i < size; i++) {
				random = random * 6364136223846793005ULL + 1442695040888963407ULL;
				/* Small numbers pass more checks. */
				payload[i] = (char)(random >> 60 ? random >> 33 & 7 : random >> 33);
			}
			file_add_chunk(&b, 1 + chunk % 3, 0, payload, size);
		}
		struct file_read f = file_read_bytes(b.data, b.len);
		assert_int_equal(f.opened, 0);
		assert_int_equal(f.code, 0);
		assert_true(f.truncated);
		file_read_done(&f);
	}
}

struct sample {
	const char *name;
	int opened;
	bool truncated;
	int n_missing; /* of the sample's events; -1: all; -2: some */
	const char *says;
};

static const struct sample samples[] = {
	{"good/no-events.plx", 0, false, -1, ""},
	{"good/small.plx", 0, false, 0, ""},
	{"good/future.plx", 0, false, 0, ""},
	{"bad/empty.plx", -EBADMSG, false, -1, "the file is empty"},
	{"bad/text.plx", -EBADMSG, false, -1, "not a pollux trace"},
	{"bad/cut-in-header.plx", -EBADMSG, false, -1, "cut within its header"},
	{"bad/next-version.plx", -ENOTSUP, false, -1, "format version 2.0"},
	{"bad/needed-feature.plx", -ENOTSUP, false, -1, "features 0x4"},
	{"bad/header-only.plx", 0, true, -1, "without an end mark"},
	{"bad/cut-in-chunk-header.plx", 0, true, -2, "within a chunk's header"},
	{"bad/cut-in-chunk.plx", 0, true, -2, "within a chunk"},
	{"bad/no-end.plx", 0, true, 0, "without an end mark"},
	{"bad/flip-in-events.plx", 0, true, -2, "1 damaged chunk of the trace was skipped"},
	{"bad/flip-in-chunk-header.plx", 0, true, -2, "at a damaged chunk header"},
	{"bad/flip-in-meta.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/huge-chunk.plx", 0, true, -2, "at a damaged chunk header"},
	{"bad/open-of-nothing.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/name-not-listed.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/rest-too-short.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/stack-too-deep.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/shape-unknown.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/tags-too-few.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/events-too-many.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
	{"bad/no-frame.plx", 0, true, 0, "1 damaged chunk of the trace was skipped"},
};

static void test_samples(void **state)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const struct sample *s = &samples[i];
		char path[4096];
		snprintf(path, sizeof(path), "%s/traces/%s", POLLUX_TESTS, s->name);
		struct file_read f = file_read_path(path);
		const char *said = f.opened < 0 ? f.err.text : f.story;
		if (f.opened != s->opened || f.code != 0 || f.truncated != s->truncated ||
		    !strstr(said, s->says))
			fail_msg("%s: opened %d, code %d, truncated %d: %s", s->name, f.opened,
				 f.code, f.truncated, said);
		/* A hostile chunk may give a few true-looking events before it fails: events of the
		 * sample begin at its start. */
		size_t n = 0;
		for (size_t e = 0; e < f.n; e++)
			n += f.events[e].time >= SAMPLE_START;
		size_t missing = whole.n - n;
		if (s->n_missing == -2 ? missing == 0 || missing == whole.n
				       : missing != (s->n_missing == -1 ? whole.n : 0))
			fail_msg("%s: %zu events are missing", s->name, missing);
		file_read_done(&f);
	}
}

static void test_future_keeps_what_it_knows(void **state)
{
	struct file_read f = file_read_path(POLLUX_TESTS "/traces/good/future.plx");
	assert_int_equal(trace_reader_n_threads(f.reader), 4);
	assert_int_equal(trace_reader_thread(f.reader, 3)->tid, 99);
	assert_string_equal(trace_reader_thread(f.reader, 3)->name, "t3");
	assert_int_equal(f.n, whole.n);
	assert_memory_equal(f.events, whole.events, whole.n * sizeof(*whole.events));
	file_read_done(&f);
}

/* Metadata that was in a damaged chunk leaves a gap; what others are called is not shifted. */
static void test_lost_metadata_leaves_gaps(void **state)
{
	struct buf b = copy_of_small(sizeof(struct plx_header));
	struct buf meta = BUF_INIT;

	buf_add(&meta,
		"\x03\x07\x05\x00\x2a\x03"
		"abc",
		9); /* thread 5, tid 42 */
	file_add_chunk(&b, PLX_META, 0, meta.data, meta.len);
	struct file_read f = file_read_bytes(b.data, b.len);
	assert_int_equal(trace_reader_n_threads(f.reader), 6);
	for (uint32_t i = 0; i < 5; i++)
		assert_null(trace_reader_thread(f.reader, i));
	assert_int_equal(trace_reader_thread(f.reader, 5)->tid, 42);
	assert_string_equal(trace_reader_thread(f.reader, 5)->name, "abc");
	file_read_done(&f);
	buf_done(&meta);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_flip_every_byte),
		cmocka_unit_test(test_flip_every_byte_and_seal),
		cmocka_unit_test(test_short_payloads),
		cmocka_unit_test(test_missing_chunk),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_future_keeps_what_it_knows),
		cmocka_unit_test(test_lost_metadata_leaves_gaps),
	};
	return cmocka_run_group_tests(tests, load_small, unload);
}
