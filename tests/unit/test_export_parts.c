/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the exporters are made of: packing, the spilling stack, bins, the output buffer. */
#include "export/export.h"
#include "export/gauge.h"
#include "export/lanes.h"
#include "export/out.h"
#include "export/proto.h"
#include "export/spill.h"
#include "export/counting_pass.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static uint32_t take(struct pack *p, uint64_t begin)
{
	uint32_t lane = UINT32_MAX;
	assert_int_equal(pack_take(p, begin, &lane), 0);
	return lane;
}

static void test_pack_lowest_free(void **state)
{
	struct pack p = {0};
	assert_int_equal(take(&p, 10), 0);
	assert_int_equal(take(&p, 11), 1);
	assert_int_equal(take(&p, 12), 2);
	pack_give(&p, 1, 20);
	pack_give(&p, 0, 21);
	assert_int_equal(take(&p, 20), 1); /* lane 0 is free, but not since 20 */
	assert_int_equal(take(&p, 21), 0);
	assert_int_equal(take(&p, 22), 3);
	pack_clear(&p);
	assert_int_equal(take(&p, 0), 0);
	pack_done(&p);
}

/* Against the plainest thing that could be right. */
static int add_value(void *ctx, uint64_t at_ns, double value)
{
	struct {
		unsigned n;
		double last;
	} *seen = ctx;

	(void)at_ns;
	seen->n++;
	seen->last = value;
	return 0;
}

/* The last part of a window may be shorter than the others. */
static void test_gauge_of_a_window_that_no_part_divides(void **state)
{
	struct {
		unsigned n;
		double last;
	} seen = {0};
	struct gauge g;

	assert_int_equal(gauge_init(&g, 5, 5 + GAUGE_BINS + 1), 0);
	gauge_add(&g, 0, 5 + GAUGE_BINS + 1);
	assert_int_equal(gauge_each(&g, add_value, &seen), 0);
	assert_int_equal(seen.n, 1);
	assert_true(seen.last == 1);
	gauge_done(&g);
}

static const struct trace_kind *some_kind(const void *ctx, uint32_t kind)
{
	static const struct trace_kind k = {.name = "serve", .role = TR_TASK};

	(void)ctx;
	(void)kind;
	return &k;
}

/* One that still lives at the end has its lane for itself, also where another's life is reported after that. */
static void test_lane_of_a_task_that_lives_on(void **state)
{
	const struct tl_task first = {.serial = 1, .spawn_ns = 100},
			     late = {.serial = 2, .spawn_ns = 50};
	struct lanes l = {.kind = some_kind};
	struct lane_slot one, other;

	assert_int_equal(lanes_task_begin(&l, &first, &one), 0);
	lanes_task_end(&l, &one, first.end_ns);
	assert_int_equal(lanes_task_begin(&l, &late, &other), 0);
	assert_int_not_equal(one.lane, other.lane);
	lanes_task_end(&l, &other, late.end_ns);
	lanes_done(&l);
}

static void test_pack_never_overlaps(void **state)
{
	enum { N = 20000, LIVE = 300 };
	struct pack p = {0};
	uint32_t live[LIVE];
	static uint64_t lane_end[N];
	unsigned n = 0, most = 0;
	uint64_t now = 1000;

	srand(7);
	for (unsigned i = 0; i < N; i++) {
		now += (unsigned)rand() % 3;
		if (n == LIVE || (n && rand() % 2)) {
			unsigned k = (unsigned)rand() % n;
			lane_end[live[k]] = now;
			pack_give(&p, live[k], now);
			live[k] = live[--n];
		} else {
			uint64_t begin = now - (unsigned)rand() % 5;
			uint32_t lane = take(&p, begin);
			assert_true(lane_end[lane] <= begin);
			for (unsigned k = 0; k < n; k++)
				assert_int_not_equal(live[k], lane);
			live[n++] = lane;
		}
		most = n > most ? n : most;
	}
	assert_true(p.n >= most && p.n < most + 20);
	pack_done(&p);
}

static void test_spill_reverses(void **state)
{
	struct spill_file file;
	struct spill a, b;
	const uint64_t n = 30000; /* several blocks each */
	spill_file_init(&file);
	spill_init(&a, &file, 24);
	spill_init(&b, &file, 16);
	for (uint64_t i = 0; i < n; i++) {
		assert_int_equal(spill_push(&a, (uint64_t[]){i, ~i, 3 * i}), 0);
		assert_int_equal(spill_push(&b, (uint64_t[]){i, 7 * i}), 0);
	}
	assert_true(file.bytes > 0);
	uint64_t x[3];
	for (uint64_t i = n; i-- > 0;) {
		assert_int_equal(spill_pop(&a, x), 1);
		assert_true(x[0] == i && x[1] == ~i && x[2] == 3 * i);
	}
	assert_int_equal(spill_pop(&a, x), 0);
	for (uint64_t i = n; i-- > n / 2;)
		assert_int_equal(spill_pop(&b, x), 1);
	assert_int_equal(spill_push(&b, (uint64_t[]){5, 6}), 0);
	assert_int_equal(spill_pop(&b, x), 1);
	assert_true(x[0] == 5 && x[1] == 6);
	for (uint64_t i = n / 2; i-- > 0;) {
		assert_int_equal(spill_pop(&b, x), 1);
		assert_true(x[0] == i && x[1] == 7 * i);
	}
	assert_int_equal(spill_pop(&b, x), 0);
	spill_done(&a);
	spill_done(&b);
	spill_file_done(&file);
}

static void test_bins(void **state)
{
	struct bins *b = calloc(1, sizeof(*b));
	assert_non_null(b);
	for (uint64_t i = 0; i < 100000; i++)
		bins_add(b, 5000 + i * 1000, 10);
	uint64_t until = bins_until(b, 30000, UINT64_MAX);
	assert_true(until <= 5000 + 30000 * 1000ull && until > 5000 + 29000 * 1000ull);
	until = bins_until(b, UINT64_MAX, 200000);
	assert_true(until <= 5000 + 20000 * 1000ull && until > 5000 + 19000 * 1000ull);
	assert_true(bins_until(b, UINT64_MAX, UINT64_MAX) >= 5000 + 100000 * 1000ull);
	assert_true(bins_until(b, 0, 0) > 5000); /* never nothing */
	free(b);
}

static void test_top_keeps_heaviest(void **state)
{
	struct top t = {.max = 50};
	for (uint64_t i = 0; i < 1000; i++)
		assert_int_equal(
			top_add(&t, &(struct top_task){.serial = i, .weight = i * 7919 % 1000}), 0);
	assert_int_equal(t.n, 50);
	for (size_t i = 0; i < t.n; i++)
		assert_true(t.tasks[i].weight >= 950);
	free(t.tasks);
}

static void check_us(uint64_t ns, const char *expect)
{
	char text[40];
	*put_us(text, ns) = 0;
	assert_string_equal(text, expect);
}

static void test_numbers(void **state)
{
	char text[40];
	for (uint64_t v = 1, i = 0; i < 20; i++, v *= 10) {
		char expect[40];
		*put_u64(text, v - 1) = 0;
		snprintf(expect, sizeof(expect), "%llu", (unsigned long long)(v - 1));
		assert_string_equal(text, expect);
	}
	*put_u64(text, UINT64_MAX) = 0;
	assert_string_equal(text, "18446744073709551615");
	check_us(0, "0.000");
	check_us(7, "0.007");
	check_us(89, "0.089");
	check_us(120, "0.120");
	check_us(1000, "1.000");
	check_us(1234567, "1234.567");
	check_us(UINT64_MAX, "18446744073709551.615");
}

static void test_out_full_disk(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct out o;
	assert_non_null(full);
	assert_int_equal(out_init(&o, full), 0);
	for (int i = 0; i < 200000; i++)
		out_used(&o, put_lit(out_room(&o), "0123456789"));
	assert_int_equal(out_flush(&o), -ENOSPC);
	out_done(&o);
	fclose(full);
}

static void test_out_keeps_all(void **state)
{
	FILE *f = tmpfile();
	struct out o;
	char *big = malloc(3 * OUT_BUFFER_BYTES);
	assert_non_null(big);
	memset(big, 'x', 3 * OUT_BUFFER_BYTES);
	assert_int_equal(out_init(&o, f), 0);
	for (int i = 0; i < 100000; i++)
		out_used(&o, put_u64(out_room(&o), 10000 + i % 10000));
	out_write(&o, big, 3 * OUT_BUFFER_BYTES);
	out_write(&o, "end", 3);
	assert_int_equal(out_flush(&o), 0);
	assert_int_equal(o.bytes, 500000 + 3 * OUT_BUFFER_BYTES + 3);
	assert_int_equal(ftell(f), o.bytes);
	out_done(&o);
	free(big);
	fclose(f);
}

static void test_label(void **state)
{
	char *label = lanes_label("a\"b\\\n\xff");
	assert_string_equal(label, "a\\\"b\\\\\\n\xef\xbf\xbd");
	free(label);

	char name[5000];
	memset(name, 1, sizeof(name) - 1); /* six bytes each when escaped */
	name[sizeof(name) - 1] = 0;
	label = lanes_label(name);
	assert_true(strlen(label) <= LABEL_MAX && strlen(label) > LABEL_MAX / 2);
	free(label);
}

static char *export_of(const char *path, const char *format)
{
	const struct export_options opt = {0};
	struct export_summary summary;
	struct trace_reader *r;
	struct error err = {0};
	size_t size;
	char *text = NULL;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(trace_reader_open(path, &r, &err), 0);
	assert_int_equal(export_find(format)->write(r, &opt, out, &summary, &err), 0);
	fclose(out);
	trace_reader_free(r);
	return text;
}

/* A poll whose end was not seen is drawn as far as it is known to have lasted, marked as such, and
 * is in no sum. */
static void test_unseen_end(void **state)
{
	static const struct trace_event events[] = {
		{.time = 1000, .type = TE_POLL_BEGIN, .task = 1},
		{.time = 6000000,
		 .type = TE_BLOCK,
		 .arg = 7,
		 .kind = TRACE_KIND_NONE,
		 .value = 1000},
		{.time = 9000000, .type = TE_THREAD_BEGIN, .kind = TRACE_KIND_NONE},
		{.time = 9001000, .type = TE_POLL_BEGIN, .task = 2},
		{.time = 9003000, .type = TE_POLL_END, .arg = TO_READY, .task = 2},
	};
	const struct trace_process process = {.pid = 1, .exe = "app", .cmdline = "app"};
	const struct trace_kind kind = {.name = "job", .full_name = "job"};
	const struct trace_thread thread = {.tid = 1, .name = "main"};
	char path[] = "/tmp/test_export.XXXXXX", *text;
	struct trace_writer *w;
	struct error err = {0};
	uint32_t index;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(trace_writer_open(path, &w, &err), 0);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	assert_int_equal(trace_writer_kind(w, &kind, &index), 0);
	assert_int_equal(trace_writer_thread(w, &thread, &index), 0);
	assert_int_equal(trace_writer_events(w, 0, events, sizeof(events) / sizeof(events[0])), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);

	text = export_of(path, "chrome");
	assert_non_null(strstr(text, "\"name\":\"job #1: end not seen\""));
	assert_non_null(strstr(text, "\"polls\":1,\"wakes\":0,\"polled_us\":0.000"));
	assert_non_null(strstr(text, "\"polls\":1,\"wakes\":0,\"polled_us\":2.000"));
	free(text);
	text = export_of(path, "speedscope");
	assert_non_null(strstr(text, "end not seen"));
	/* The sum over all tasks: 2 us of polls. */
	assert_non_null(strstr(text, "\"weights\":[2000"));
	free(text);
	unlink(path);
}

/* All in the order of pushing, twice, with blocks in between that others wrote. */
struct spill_walk {
	uint64_t next, n;
};

static int next_record(void *ctx, const void *record)
{
	struct spill_walk *w = ctx;
	uint64_t v;
	memcpy(&v, record, sizeof(v));
	assert_int_equal(v, w->next++);
	return w->n && w->next == w->n ? -7 : 0;
}

static void test_spill_each(void **state)
{
	struct spill_file file;
	spill_file_init(&file);
	for (uint64_t n = 0; n <= 20000; n = n * 3 + 1) {
		struct spill a, b;
		spill_init(&a, &file, sizeof(uint64_t));
		spill_init(&b, &file, sizeof(uint64_t));
		for (uint64_t i = 0; i < n; i++) {
			assert_int_equal(spill_push(&a, &i), 0);
			assert_int_equal(spill_push(&b, &(uint64_t){~i}), 0);
		}
		for (unsigned k = 0; k < 2; k++) {
			struct spill_walk w = {0};
			assert_int_equal(spill_each(&a, next_record, &w), 0);
			assert_int_equal(w.next, n);
		}
		if (n > 2) { /* what the function says ends it */
			struct spill_walk w = {.n = n / 2};
			assert_int_equal(spill_each(&a, next_record, &w), -7);
		}
		spill_done(&a);
		spill_done(&b);
	}
	spill_file_done(&file);
}

/* The mean over each bin, against intervals that are counted one by one. */
struct gauge_sum {
	uint64_t at_ns, until_ns;
	double value, area;
};

static int sum_gauge(void *ctx, uint64_t at_ns, double value)
{
	struct gauge_sum *s = ctx;
	s->area += s->value * (double)(at_ns - s->at_ns);
	assert_true(at_ns >= s->at_ns);
	assert_true(value >= 0);
	s->at_ns = at_ns;
	s->value = value;
	return 0;
}

static void test_gauge(void **state)
{
	const uint64_t ends[] = {1001, 1000 + GAUGE_BINS, 1001 + GAUGE_BINS, 5000000};
	srand(3);
	for (size_t k = 0; k < 4; k++) {
		struct gauge g;
		struct gauge_sum sum = {.at_ns = 1000};
		double area = 0;
		assert_int_equal(gauge_init(&g, 1000, ends[k]), 0);
		for (unsigned i = 0; i < 500; i++) {
			uint64_t begin = 900 + (uint64_t)rand() % (ends[k] - 800);
			uint64_t end = begin + (uint64_t)rand() % (ends[k] - 900);
			gauge_add(&g, begin, end);
			begin = begin > 1000 ? begin : 1000;
			end = end < ends[k] ? end : ends[k];
			area += end > begin ? (double)(end - begin) : 0;
		}
		assert_int_equal(gauge_each(&g, sum_gauge, &sum), 0);
		/* The last bin may reach beyond the window: nothing is counted there. */
		sum_gauge(&sum, 1000 + g.n * g.width_ns, 0);
		assert_true(sum.area > area * 0.999999 - 1 &&
			    sum.area < area * 1.000001 + 1 + 500.0 * (double)g.width_ns);
		gauge_done(&g);
	}
}

/* Messages inside, of lengths whose own length is one, two and three bytes. */
static void test_proto_nesting(void **state)
{
	const size_t lengths[] = {0, 1, 124, 125, 126, 127, 128, 16379, 16380, 16384, 70000};
	for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		struct buf b = BUF_INIT;
		char *text = calloc(lengths[k] + 1, 1);
		memset(text, 'x', lengths[k]);
		size_t outer = proto_begin(&b, 1), inner = proto_begin(&b, 200);
		proto_text(&b, 3, text);
		proto_end(&b, inner);
		proto_u64(&b, 4, 300);
		proto_end(&b, outer);
		assert_false(buf_failed(&b));

		/* read back: tag and length, three times */
		const unsigned char *p = (const unsigned char *)b.data, *end = p + b.len;
		const unsigned want_tags[] = {1 << 3 | 2, 200 << 3 | 2, 3 << 3 | 2};
		for (unsigned level = 0; level < 3; level++) {
			uint64_t v[2] = {0, 0};
			for (unsigned i = 0; i < 2; i++)
				for (unsigned shift = 0;; shift += 7) {
					v[i] |= (uint64_t)(*p & 0x7f) << shift;
					if (!(*p++ & 0x80))
						break;
				}
			assert_int_equal(v[0], want_tags[level]);
			if (level == 0)
				assert_int_equal(v[1], end - p);
			else if (level == 1)
				assert_int_equal(v[1], end - p - 3); /* the field after it */
			else
				assert_int_equal(v[1], lengths[k]);
		}
		assert_memory_equal(p, text, lengths[k]);
		assert_memory_equal(end - 3, "\x20\xac\x02", 3);
		free(text);
		buf_done(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gauge),
		cmocka_unit_test(test_spill_each),
		cmocka_unit_test(test_proto_nesting),
		cmocka_unit_test(test_pack_lowest_free),
		cmocka_unit_test(test_pack_never_overlaps),
		cmocka_unit_test(test_lane_of_a_task_that_lives_on),
		cmocka_unit_test(test_gauge_of_a_window_that_no_part_divides),
		cmocka_unit_test(test_spill_reverses),
		cmocka_unit_test(test_bins),
		cmocka_unit_test(test_top_keeps_heaviest),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_out_full_disk),
		cmocka_unit_test(test_out_keeps_all),
		cmocka_unit_test(test_label),
		cmocka_unit_test(test_unseen_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
