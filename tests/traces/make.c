/*
 * Makes the sample traces beside this file: good/ holds what must be read whole, bad/ what is cut,
 * damaged or hostile. Run by hand when a sample is added (`make_traces tests/traces`); the results
 * are committed, so that later versions are tested with the files of earlier ones. What a reader
 * must make of each stands in tests/unit/test_trace_damage.c.
 */
#include "tests/traces/file.h"
#include "tests/traces/inside.h"
#include "tests/traces/moment.h"
#include "tests/traces/requests.h"
#include "tests/traces/sample.h"
#include "tests/traces/switches.h"

#include <sys/stat.h>

static const char *base;

static void fail(const char *what)
{
	fprintf(stderr, "make_traces: %s\n", what);
	exit(1);
}

static void store(const char *name, struct buf *b)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", base, name);
	FILE *f = fopen(path, "wb");
	if (!f || buf_failed(b) || (b->len && fwrite(b->data, b->len, 1, f) != 1) || fclose(f) != 0)
		fail(path);
	buf_done(b);
}

static struct buf load(const char *name)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", base, name);
	struct buf b = file_load(path);
	if (buf_failed(&b))
		fail(path);
	return b;
}

static void copy(struct buf *to, const struct buf *from, size_t begin, size_t end)
{
	buf_add(to, from->data + begin, end - begin);
}

/* A chunk that others may add later, in the middle; a chunk with a flag; META with an unknown
 * record and with a process record that has grown; a longer header. */
static void make_future(const struct buf *small)
{
	struct buf b = BUF_INIT, meta = BUF_INIT;
	struct plx_header h;
	size_t first = sizeof(h);

	memcpy(&h, small->data, sizeof(h));
	h.minor = 99;
	h.header_bytes = sizeof(h) + 24;
	h.other_features = 1ULL << 63;
	buf_add(&b, &h, sizeof(h));
	buf_str(&b, "twenty-four bytes more..");
	file_seal_header(&b);

	file_add_chunk(&b, 4711, 0, "what is this?", 13);
	file_add_chunk(&b, PLX_EVENTS, 1, "an encoding to come", 19);
	buf_uleb(&meta, 99);
	buf_uleb(&meta, 3);
	buf_str(&meta, "abc");
	/* a thread 3 that the sample does not have, with a field more */
	buf_uleb(&meta, PLX_THREAD);
	buf_uleb(&meta, 1 + 1 + 1 + 1 + 2 + 1 + 5);
	buf_uleb(&meta, 3);
	buf_uleb(&meta, 0);
	buf_uleb(&meta, 99);
	buf_uleb(&meta, 2);
	buf_str(&meta, "t3");
	buf_uleb(&meta, 0);
	buf_str(&meta, "extra");
	file_add_chunk(&b, PLX_META, 0, meta.data, meta.len);
	buf_done(&meta);
	copy(&b, small, first, small->len);
	store("good/future.plx", &b);
}

/* An EVENTS payload's head for one shape; the columns' sizes and bytes follow. */
static void put_head(struct buf *b, uint64_t n, uint8_t how)
{
	buf_uleb(b, 0);
	buf_uleb(b, n);
	buf_add(b, "\0\0\0\0\0\0\0", 8);
	buf_uleb(b, 1);
	buf_uleb(b, TE_WAKE);
	buf_uleb(b, 0);
	buf_char(b, (char)how);
}

/* Six columns as they are, sizes given, filled with `fill`. */
static void put_columns(struct buf *b, const size_t sizes[6], char fill)
{
	buf_uleb(b, 6);
	for (int i = 0; i < 6; i++) {
		buf_uleb(b, sizes[i]);
		buf_uleb(b, sizes[i]);
	}
	for (int i = 0; i < 6; i++)
		for (size_t k = 0; k < sizes[i]; k++)
			buf_char(b, fill);
}

/* The sample with one hostile EVENTS chunk, its checksums right, in front of its own. */
static void store_hostile(const char *name, const struct buf *small, struct buf *payload)
{
	struct buf b = BUF_INIT;
	size_t at = file_find_chunk(small, PLX_EVENTS, 0);

	copy(&b, small, 0, at);
	file_add_chunk(&b, PLX_EVENTS, 0, payload->data, payload->len);
	copy(&b, small, at, small->len);
	store(name, &b);
	buf_done(payload);
}

static void make_hostile(const struct buf *small)
{
	struct buf p = BUF_INIT;

	put_head(&p, 4, PLX_NAME_OPEN);
	put_columns(&p, (const size_t[6]){4, 4, 0, 0, 0, 0}, 0);
	store_hostile("bad/open-of-nothing.plx", small, &p);

	put_head(&p, 4, PLX_NAME_LISTED);
	put_columns(&p, (const size_t[6]){4, 4, 0, 4, 4, 0}, 0);
	store_hostile("bad/name-not-listed.plx", small, &p);

	put_head(&p, 4, PLX_NAME_NEW | PLX_VALUE);
	put_columns(&p, (const size_t[6]){4, 4, 0, 0, 0, 5}, 0);
	store_hostile("bad/rest-too-short.plx", small, &p);

	put_head(&p, 100, PLX_NAME_NEW | PLX_PUSH);
	put_columns(&p, (const size_t[6]){100, 100, 0, 0, 0, 200}, 0);
	store_hostile("bad/stack-too-deep.plx", small, &p);

	put_head(&p, 4, PLX_NAME_NONE);
	put_columns(&p, (const size_t[6]){4, 4, 0, 0, 0, 0}, (char)0xff);
	store_hostile("bad/shape-unknown.plx", small, &p);

	put_head(&p, 4, PLX_NAME_NONE);
	put_columns(&p, (const size_t[6]){3, 4, 0, 0, 0, 0}, 0);
	store_hostile("bad/tags-too-few.plx", small, &p);

	put_head(&p, 1ULL << 40, PLX_NAME_NONE);
	put_columns(&p, (const size_t[6]){4, 4, 0, 0, 0, 0}, 0);
	store_hostile("bad/events-too-many.plx", small, &p);

	/* Columns that promise a lot and hold no zstd frame. */
	put_head(&p, 65536, PLX_NAME_NONE);
	buf_uleb(&p, 6);
	for (int i = 0; i < 6; i++) {
		buf_uleb(&p, 65536);
		buf_uleb(&p, 2);
	}
	buf_str(&p, "no zstd here");
	store_hostile("bad/no-frame.plx", small, &p);
}

static void make_damaged(const struct buf *small)
{
	struct buf b = BUF_INIT;
	size_t events = file_find_chunk(small, PLX_EVENTS, 1);
	size_t end = file_find_chunk(small, PLX_END, 0);

	store("bad/empty.plx", &b);
	buf_str(&b, "# started on Mon Jan  1 00:00:00 2024\n\n");
	store("bad/text.plx", &b);
	copy(&b, small, 0, 40);
	store("bad/cut-in-header.plx", &b);
	copy(&b, small, 0, sizeof(struct plx_header));
	store("bad/header-only.plx", &b);
	copy(&b, small, 0, events + 7);
	store("bad/cut-in-chunk-header.plx", &b);
	copy(&b, small, 0, events + 30);
	store("bad/cut-in-chunk.plx", &b);
	copy(&b, small, 0, end);
	store("bad/no-end.plx", &b);

	copy(&b, small, 0, small->len);
	b.data[events + 25] ^= 0x10;
	store("bad/flip-in-events.plx", &b);
	copy(&b, small, 0, small->len);
	b.data[events + 4] ^= 0x01;
	store("bad/flip-in-chunk-header.plx", &b);
	copy(&b, small, 0, small->len);
	b.data[sizeof(struct plx_header) + 20] ^= 0x01;
	store("bad/flip-in-meta.plx", &b);

	copy(&b, small, 0, small->len);
	b.data[8] = 2;
	file_seal_header(&b);
	store("bad/next-version.plx", &b);
	copy(&b, small, 0, small->len);
	b.data[16] = 4;
	file_seal_header(&b);
	store("bad/needed-feature.plx", &b);

	/* A chunk of 4 GiB, sealed. */
	struct plx_chunk_header h = {.type = PLX_EVENTS, .size = UINT32_MAX};
	h.checksum = plx_crc32c(&h, offsetof(struct plx_chunk_header, checksum));
	copy(&b, small, 0, events);
	buf_add(&b, &h, sizeof(h));
	store("bad/huge-chunk.plx", &b);
}

/* A moment one of whose chunks is no zstd frame; one whose kind is cut, so that its tasks have none. */
static void make_moments(const struct buf *good)
{
	struct buf b = BUF_INIT, payload = BUF_INIT;
	size_t start = file_find_chunk(good, PLX_MOMENT, 0);
	struct plx_chunk_header h;

	copy(&b, good, 0, good->len);
	memset(b.data + start + sizeof(h) + 6, 0, 8);
	file_seal_chunk(&b, start);
	store("bad/moment-no-frame.plx", &b);

	buf_uleb(&payload, 0);
	buf_uleb(&payload, MOMENT_START);
	buf_uleb(&payload, 14);
	buf_add(&payload, "\1\3\1\2\3\3\2\0\1\4\3\0\0\0", 14);
	memcpy(&h, good->data + start, sizeof(h));
	copy(&b, good, 0, start);
	file_add_chunk(&b, PLX_MOMENT, 0, payload.data, payload.len);
	copy(&b, good, start + sizeof(h) + h.size, good->len);
	store("bad/moment-no-kind.plx", &b);
	buf_done(&payload);
}

int main(int argc, char **argv)
{
	static const struct trace_thread none = {0};
	struct error err = {0};
	struct trace_writer *w;
	char path[4096];

	if (argc != 2)
		fail("usage: make_traces FOLDER");
	base = argv[1];
	snprintf(path, sizeof(path), "%s/good", base);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/bad", base);
	mkdir(path, 0755);

	snprintf(path, sizeof(path), "%s/good/no-events.plx", base);
	uint32_t index;
	if (trace_writer_open(path, &w, &err) < 0 || trace_writer_thread(w, &none, &index) < 0 ||
	    trace_writer_close(w, &err) < 0)
		fail(err.text);
	snprintf(path, sizeof(path), "%s/good/small.plx", base);
	if (sample_write(path, &err) < 0)
		fail(err.text);

	snprintf(path, sizeof(path), "%s/good/inside.plx", base);
	if (inside_write(path, &err) < 0)
		fail(err.text);
	snprintf(path, sizeof(path), "%s/good/requests.plx", base);
	if (requests_write(path, &err) < 0)
		fail(err.text);
	snprintf(path, sizeof(path), "%s/good/switches.plx", base);
	if (switches_write(path, &err) < 0)
		fail(err.text);
	snprintf(path, sizeof(path), "%s/good/moments.plx", base);
	if (moment_sample_write(path, &err) < 0)
		fail(err.text);
	struct buf moments = load("good/moments.plx");
	make_moments(&moments);
	buf_done(&moments);
	struct buf small = load("good/small.plx");
	make_future(&small);
	make_damaged(&small);
	make_hostile(&small);
	buf_done(&small);
	return 0;
}
