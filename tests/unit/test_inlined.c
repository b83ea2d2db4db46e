/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * capture: the polls of futures that have no function of their own, inferred from where they were
 * when a poll around them began and where they are at its end (src/capture/agent/inlined.c).
 *
 * expect() compares what was written, a word for each event:
 *
 *     (  )p     the task's poll begins; ends pending
 *     [  ]r     the poll of a future that has a function of its own begins; ends ready
 *     +2 -2c    the poll of the inlined future at point 2 (10, 18, ...) begins; ends cancelled
 *     @         before one of these: at the same time as the event before
 *
 * The letter is the outcome's first: pending, ready, cancelled, unknown or unseen.
 * "( @+0 +1 @-1r @+2 @-2p @-0p @)p" says: as the task's poll began, so did that of the future at
 * point 0, and later that of the one in it at point 1, which was ready at once; the one at point 2
 * followed it, and is pending, as are those around it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/buf.h"
#include "capture/agent/inlined.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_POINTS = 64, TASK = 0, FIRST_FUTURE = 1, N_FUTURES = 8 };

static struct drain drain;
static struct source source;
static struct ring_area area;
static int file;
static uint64_t now;

static uint64_t seed = 88172645463325252ULL;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int setup(void **state)
{
	const struct trace_process process = {.pid = 1, .exe = "p", .cmdline = "p"};
	const struct trace_thread thread = {.tid = 1, .name = "t"};
	struct error err = {0};
	uint32_t index;

	(void)state;
	memset(&drain, 0, sizeof(drain));
	source = (struct source){.n_kinds = 1, .points.n = N_POINTS};
	file = memfd_create("trace", 0);
	assert_int_equal(trace_writer_open_fd(dup(file), &drain.writer, &err), 0);
	assert_int_equal(trace_writer_process(drain.writer, &process, &index), 0);
	assert_int_equal(trace_writer_thread(drain.writer, &thread, &index), 0);
	for (uint32_t i = 0; i < FIRST_FUTURE + N_FUTURES; i++) {
		const struct trace_kind kind = {.role = i < FIRST_FUTURE ? TR_TASK : TR_FUTURE,
						.name = "k",
						.full_name = "k"};

		assert_int_equal(trace_writer_kind(drain.writer, &kind, &index), 0);
	}
	source.rings.n_rings = 1;
	source.rings.area = &area;
	source.kinds = calloc(1, sizeof(*source.kinds));
	assert_int_equal(map_put(&source.by_index, TASK, 0, source.kinds), 0);
	source.points.v = calloc(N_POINTS, sizeof(*source.points.v));
	for (uint32_t i = 0; i < N_POINTS; i++)
		source.points.v[i] = (struct await_point){.kind = TASK, .future = TRACE_KIND_NONE};
	assert_int_equal(inlined_init(&source, NULL), 0);
	now = 1000;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	inlined_done(&source);
	map_done(&source.by_index);
	free(source.kinds);
	free(source.points.v);
	close(file);
	return 0;
}

/* Point i: a future of kind i % N_FUTURES, of that size, named by its address. It was ready when
 * what awaits it goes on, and when it is gone. */
static void point(uint32_t i, uint64_t size)
{
	source.points.v[i] = (struct await_point){.kind = TASK,
						  .place = i,
						  .future = FIRST_FUTURE + i % N_FUTURES,
						  .info.size = size,
						  .info.proof = READY_IF_MOVED_ON};
}

/* A pointer to that many bytes. */
static void pointer_point(uint32_t i, uint64_t size)
{
	source.points.v[i] = (struct await_point){
		.kind = TASK, .future = TRACE_KIND_NONE, .info = {.kind = POINT_BOX, .size = size}};
}

/* One that may be dropped by what awaits it. */
static void unsure_point(uint32_t i, uint64_t size)
{
	point(i, size);
	source.points.v[i].info.proof = READY_UNPROVEN;
}

static void event(uint16_t type, uint32_t kind, uint64_t task, uint16_t arg)
{
	const struct trace_event e = {
		.time = now += 10, .type = type, .arg = arg, .kind = kind, .task = task};

	assert_int_equal(inlined_event(&drain, &source, 0, &e), 0);
}

static void snapshot_item(enum agent_event_type type, uint32_t point, uint64_t addr)
{
	const struct agent_event raw = {type, (uint64_t)point << 48 | addr};

	assert_int_equal(inlined_add_snapshot_item(&drain, &source, 0, &raw, 0), 0);
}

static void expect(const char *expected)
{
	struct trace_reader *r;
	struct error err = {0};
	struct buf text = BUF_INIT;
	struct trace_event e;
	uint64_t before = 0;

	assert_int_equal(drain_flush(&drain), 0);
	assert_int_equal(trace_writer_close(drain.writer, &err), 0);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(trace_reader_open_fd(dup(file), &r, &err), 0);
	while (trace_reader_next(r, &e, &err) == 1) {
		const char how = *trace_outcome_name(e.arg);

		if (text.len)
			buf_char(&text, ' ');
		if (e.time == before)
			buf_char(&text, '@');
		before = e.time;
		if (e.type == TE_POLL_BEGIN)
			buf_str(&text, "(");
		else if (e.type == TE_POLL_END)
			buf_printf(&text, ")%c", how);
		else if (e.type == TE_ROOT_ENTER)
			buf_str(&text, "enter");
		else if (e.kind == TASK)
			buf_printf(&text, e.type == TE_FUTURE_BEGIN ? "[" : "]%c", how);
		else if (e.type == TE_FUTURE_BEGIN)
			buf_printf(&text, "+%u", e.kind - FIRST_FUTURE);
		else
			buf_printf(&text, "-%u%c", e.kind - FIRST_FUTURE, how);
	}
	buf_char(&text, '\0');
	assert_string_equal(text.data, expected);
	buf_done(&text);
	trace_reader_free(r);
}

/* a in the task, b in a, c in b at point 1, d in b at point 9. */
static void line(void)
{
	point(0, 1000);
	point(1, 500);
	point(9, 500);
	point(2, 100);
	point(3, 100);
}

static void test_line(void **state)
{
	(void)state;
	line();
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 2, 0x1020);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 9, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 3, 0x1020);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	/* c has ended at some time in it, d has begun since. */
	expect("( @+0 @+1 @+2 -2r @+3 @-3p @-1p @-0p @)p");
}

/* The first poll: nothing stood there. The last one: nothing stands there any more. */
static void test_first_and_last(void **state)
{
	(void)state;
	line();
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	event(TE_POLL_END, TASK, 1, TO_READY);
	expect("( +0 @-0p @)p ( @+0 -0r @)r");
}

/* Side by side in a join: when each is polled isn't known. */
static void test_side_by_side(void **state)
{
	(void)state;
	point(0, 1000);
	point(1, 100);
	point(2, 100);
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 2, 0x1100);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 2, 0x1100);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	expect("( @+0 +1 @-1r @+2 @-2p @-0p @)p");
}

/* Beside something that isn't told: the same. */
static void test_beside(void **state)
{
	(void)state;
	point(0, 1000);
	point(1, 500);
	point(2, 100);
	source.points.v[1].info.concurrent = true;
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 2, 0x1020);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 1, 0x1010);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	expect("( @+0 +2 @-2r @+1 @-1p @-0p @)p");
}

/* Two of a kind at two places are two; what is not known to lie there is not told. */
static void test_places_and_unknown_points(void **state)
{
	(void)state;
	point(0, 100);
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 17, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 5000, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x2000);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	/* ready or dropped: where the task itself stands tells nothing of that */
	expect("( @+0 -0u @+0 @-0p @)p");
}

/* A select!: how its branches ended is known as long as what awaits them is, or was left behind. */
static void test_select(void **state)
{
	(void)state;
	point(0, 1000);
	point(8, 1000); /* the same future behind its select! */
	unsure_point(1, 100);
	unsure_point(2, 100);
	for (int i = 0; i < 2; i++) {
		event(TE_POLL_BEGIN, TASK, 1, 0);
		snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
		snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x1010);
		snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 2, 0x1100);
		snapshot_item(AE_FUTURE_SNAPSHOT_END, i ? 8 : 0, 0x1000);
		event(TE_POLL_END, TASK, 1, TO_PENDING);
	}
	expect("( @+0 -1u @-2u @-0p @)p ( @+0 -1u @-2u @-0p @)p");
}

/* Of a future that is ready, the end tells what is still in its memory: one has returned, one is
 * suspended, with what it awaits; the third is overwritten. */
static void test_previous(void **state)
{
	(void)state;
	point(0, 1000);
	source.points.v[0].info.self = true;
	unsure_point(1, 100);
	unsure_point(2, 100);
	point(3, 20);
	unsure_point(4, 100);
	unsure_point(5, 100);
	pointer_point(10, 100);
	point(9, 0);
	source.points.v[9].info.kind = POINT_RETURNED;
	event(TE_FUTURE_BEGIN, TASK, 0x1000, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 2, 0x1100);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 3, 0x1110);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 10, 0x1150); /* in 2, leads to 5 */
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 10, 0x9000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 5, 0x9000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 4, 0x1200);
	snapshot_item(AE_FUTURE_SNAPSHOT_PREV, 9, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_PREV, 2, 0x1100);
	snapshot_item(AE_FUTURE_SNAPSHOT_PREV, 3, 0x1110);
	event(TE_FUTURE_END, TASK, 0x1000, TO_READY);
	expect("[ +1 @-1r @-2c @-3c @-5u @-4u @]r");
	assert_int_equal(source.n_inlined_ends, 5);
	assert_int_equal(source.n_inlined_unknown, 2);
}

/* Who is dropped takes what it awaits with it, also if that is ready whenever it goes on. */
static void test_dropped_together(void **state)
{
	(void)state;
	point(0, 1000);
	point(8, 1000);
	unsure_point(1, 100);
	point(2, 10);
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 2, 0x1020);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 8, 0x1000);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	expect("( @+0 @+1 @+2 -2u @-1u @-0p @)p");
}

/* One that has returned among others that haven't, where they are still awaited. */
static void test_returned(void **state)
{
	(void)state;
	point(0, 1000);
	unsure_point(1, 100);
	unsure_point(2, 100);
	point(9, 0);
	source.points.v[9].info.kind = POINT_RETURNED;
	for (int i = 0; i < 2; i++) {
		event(TE_POLL_BEGIN, TASK, 1, 0);
		snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
		snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, i ? 9 : 1, 0x1010);
		snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 2, 0x1100);
		snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
		snapshot_item(AE_FUTURE_SNAPSHOT_END, 9, 0x1010);
		snapshot_item(AE_FUTURE_SNAPSHOT_END, 2, 0x1100);
		event(TE_POLL_END, TASK, 1, TO_PENDING);
	}
	expect("( @+0 +1 @-1r @+2 @-2p @-0p @)p ( @+0 @+2 -2p @-0p @)p");
}

/* What lies behind a pointer is in what holds that, wherever it leads to. */
static void test_pointer(void **state)
{
	(void)state;
	point(0, 1000);
	point(1, 100);
	point(2, 100);
	point(3, 10);
	pointer_point(10, 200);
	for (int i = 0; i < 2; i++) {
		enum agent_event_type type = i ? AE_FUTURE_SNAPSHOT_END : AE_FUTURE_SNAPSHOT_BEGIN;

		if (!i)
			event(TE_POLL_BEGIN, TASK, 1, 0);
		snapshot_item(type, 0, 0x1000);
		snapshot_item(type, 10, 0x1100); /* the pointer lies in 0 ... */
		snapshot_item(type, 10, 0x9000); /* ... and leads to 1 and 2 */
		snapshot_item(type, 1, 0x9000);
		snapshot_item(type, 3, 0x9010); /* of 1 */
		snapshot_item(type, 2, 0x9064);
	}
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	expect("( @+0 +1 @+3 @-3p @-1p @+2 @-2p @-0p @)p");
}

/* Of a block_on's future the first begin isn't seen, nor that it was left. */
static void test_root(void **state)
{
	(void)state;
	source.kinds[TASK].block_on = true;
	point(0, 1000);
	source.points.v[0].info.self = true;
	point(1, 100);
	point(2, 100);
	source.points.v[2].info.hooked_parent = 1; /* told by its own function */
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 1, 0x1010);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 2, 0x1100);
	event(TE_FUTURE_END, TASK, 0x1000, TO_PENDING);
	event(TE_FUTURE_BEGIN, TASK, 0x1000, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x1010);
	event(TE_ROOT_ENTER, TRACE_KIND_NONE, 0, 0);
	event(TE_FUTURE_END, TASK, 0x2000, TO_PENDING);
	event(TE_FUTURE_BEGIN, TASK, 0x2000, 0);
	event(TE_FUTURE_BEGIN, TASK, 0x3000, 0);
	expect("[ @+1 @-1p @]p [ @+1 @-1u @]u enter [ @]p [ @]u [");
}

/* After a loss an end alone says nothing of what lay in it before. */
static void test_forgotten(void **state)
{
	(void)state;
	line();
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	inlined_forget(&source, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	expect("( )p");
}

/* A poll claims what is being polled as a part of the poll around it, as only memory that was
 * scribbled over can say: it doesn't end what is open there, nor begins it once more. */
static void test_open_around(void **state)
{
	(void)state;
	point(0, 16);
	point(1, 16);
	event(TE_POLL_BEGIN, TASK, 1, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	event(TE_FUTURE_BEGIN, TASK, 0x2000, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_BEGIN, 1, 0x3000);
	event(TE_FUTURE_END, TASK, 0x2000, TO_READY);
	event(TE_FUTURE_BEGIN, TASK, 0x2000, 0);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 1, 0x3000);
	event(TE_FUTURE_END, TASK, 0x2000, TO_PENDING);
	snapshot_item(AE_FUTURE_SNAPSHOT_END, 0, 0x1000);
	event(TE_POLL_END, TASK, 1, TO_PENDING);
	expect("( @+0 [ @+1 -1u @]r [ +1 @-1p @]p -0p @)p");
}

/* Whatever a target that scribbles makes the agent's events say: polls lie in each other, nothing
 * is written anywhere else. */
static void test_any_events(void **state)
{
	enum { N_ADDRS = 2048 };
	static uint64_t n_open[FIRST_FUTURE + N_FUTURES][N_ADDRS];
	struct trace_reader *r;
	struct error err = {0};
	struct trace_event e;
	uint64_t n = 0;

	(void)state;
	for (uint32_t i = 0; i < N_POINTS; i++) {
		source.points.v[i] = (struct await_point){
			.kind = rnd() % 8 ? TASK : TRACE_KIND_NONE,
			.future = rnd() % 8 ? FIRST_FUTURE + (uint32_t)(rnd() % N_FUTURES)
					    : TRACE_KIND_NONE,
			.by_state = rnd() & 1,
			.place = (uint32_t)(rnd() % 8),
			.info = {.kind = rnd() % 3 ? POINT_AWAIT
						   : (enum point_kind)(rnd() % (POINT_BOX + 1)),
				 .proof = rnd() & 1   ? READY_IF_MOVED_ON
					  : rnd() & 1 ? READY_IF_GONE
						      : READY_UNPROVEN,
				 .size = rnd() % 3 ? rnd() % 256 : rnd(),
				 .state_offset = (uint32_t)(rnd() % 64),
				 .hooked_parent = rnd() % 4 ? 0 : (uint32_t)(rnd() % 4),
				 .own = rnd() & 1,
				 .self = rnd() & 1},
		};
	}
	for (int i = 0; i < 200000; i++) {
		uint64_t what = rnd() % 16;

		if (what < 3)
			event(rnd() & 1 ? TE_POLL_BEGIN : TE_FUTURE_BEGIN, TASK, rnd() % 4, 0);
		else if (what < 6)
			event(rnd() & 1 ? TE_POLL_END : TE_FUTURE_END, TASK, rnd() % 4,
			      (uint16_t)(rnd() % (TO_ABORTED + 1)));
		else if (what == 6 && rnd() % 64 == 0)
			inlined_forget(&source, 0);
		else
			snapshot_item((enum agent_event_type[]){AE_FUTURE_SNAPSHOT_BEGIN,
								AE_FUTURE_SNAPSHOT_END,
								AE_FUTURE_SNAPSHOT_PREV}[rnd() % 3],
				      (uint32_t)(rnd() % (N_POINTS + 4)), rnd() % 1024);
	}
	assert_int_equal(drain_flush(&drain), 0);
	assert_int_equal(trace_writer_close(drain.writer, &err), 0);
	lseek(file, 0, SEEK_SET);
	assert_int_equal(trace_reader_open_fd(dup(file), &r, &err), 0);
	while (trace_reader_next(r, &e, &err) == 1) {
		assert_true(e.kind < FIRST_FUTURE + N_FUTURES);
		uint64_t *open = &n_open[e.kind][e.task % N_ADDRS];

		if (e.kind == TASK)
			continue;
		n++;
		if (e.type == TE_FUTURE_BEGIN)
			++*open;
		else if (*open)
			--*open;
		else /* dropped, maybe unpolled */
			assert_true(e.arg == TO_CANCELLED || e.arg == TO_UNKNOWN);
	}
	assert_true(n > 5000);
	trace_reader_free(r);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(test_line),	 WITH(test_first_and_last),
		WITH(test_side_by_side), WITH(test_places_and_unknown_points),
		WITH(test_forgotten),	 WITH(test_any_events),
		WITH(test_select),	 WITH(test_previous),
		WITH(test_returned),	 WITH(test_dropped_together),
		WITH(test_pointer),	 WITH(test_root),
		WITH(test_beside),	 WITH(test_open_around),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
