/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent's image, run in this process: polls, wakes, ends, calls and spawns of made-up tasks
 * whose state words change as tokio's and async-task's do. What the hooks write into the ring is
 * compared event by event. Rings, threads and signals: test_agent_ring.c.
 */
#include "agent/agent.h"
#include "agent_area.h"
#include "tokio_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unwind.h>

/* ---- a task of tokio's shape ---- */

enum { RUNNING = 1, COMPLETE = 2, NOTIFIED = 4, JOIN = 8, CANCELLED = 32, REF = 64 };

struct tokio_task {
	uint64_t state, next;
	void **vtable;
	uint64_t owner;
	uint64_t scheduler; /* 32 */
	uint64_t id;	    /* 40 */
	uint64_t stage[8];  /* 48 */
};

typedef void (*task_fn)(void *);
typedef bool (*run_fn)(void *);

static struct area area;
static struct agent_hook *poll_hook, *schedule_hook, *dealloc_hook, *shutdown_hook, *read_hook,
	*wake_hook, *call_hook, *panic_hook, *root_wake_hook;
static void *vtable[4];
static struct tokio_task task;
static int n_deallocs, n_originals;
static void (*scenario)(struct tokio_task *);

static void tokio_poll_orig(void *header)
{
	n_originals++;
	scenario(header);
}

static void tokio_dealloc_orig(void *header)
{
	n_deallocs++;
	((struct tokio_task *)header)->state = 0xdead;
}

static void count_orig(void *header)
{
	(void)header;
	n_originals++;
}

static void shutdown_orig(void *header)
{
	struct tokio_task *t = header;

	n_originals++;
	if (!(t->state & (RUNNING | COMPLETE)))
		t->state |= COMPLETE;
	t->state = (t->state | CANCELLED) - REF;
}

static long call_result;
static long call_args[7];
static void (*call_inside)(void);

/* Where it returns to, and what the thunk pushed before. */
static uint64_t call_frame[5];

static long call_orig(long a, long b, long c, long d, long e, long f, long g)
{
	long args[7] = {a, b, c, d, e, f, g};

	memcpy(call_frame, (const uint64_t *)__builtin_frame_address(0) + 1, sizeof(call_frame));
	memcpy(call_args, args, sizeof(args));
	if (call_inside)
		call_inside();
	errno = EAGAIN;
	return call_result;
}

/* As std's panic_unwind raises it: class, cleanup, two words of the unwinder's, canary, payload. */
#define PAYLOAD 0x5000
static uint64_t rust_exception[7] = {0x54535552005a4f4d, 0, 0, 0, 0x4000, PAYLOAD};

static void raise_orig(void *exception)
{
	(void)exception;
	n_originals++;
}

/* Takes the output, and the handle is there yet. */
static uint64_t read_args[2];

static void (*on_read)(struct tokio_task *t, uint64_t *dst);

static void read_orig(struct tokio_task *t, uint64_t dst, uint64_t waker)
{
	read_args[0] = dst;
	read_args[1] = waker;
	if (on_read)
		on_read(t, (uint64_t *)dst);
	memset(t->stage, 0xa5, sizeof(t->stage));
}

static struct agent_hook *tokio_hook(enum agent_hook_type type, void *orig)
{
	struct agent_hook *h = area_hook(&area, type, 5, orig);

	h->task.id_offset = offsetof(struct tokio_task, id);
	h->task.end_offset = sizeof(struct tokio_task);
	h->task.vtable_offset = offsetof(struct tokio_task, vtable);
	h->task.vtable = (uint64_t)vtable;
	h->task.drop_ref = (uint64_t)tokio_dealloc_orig;
	return h;
}

static int setup(void **state)
{
	(void)state;
	area_new(&area, 4, 4096);
	poll_hook = tokio_hook(AH_TOKIO_POLL, tokio_poll_orig);
	schedule_hook = tokio_hook(AH_TOKIO_SCHEDULE, count_orig);
	dealloc_hook = tokio_hook(AH_TOKIO_DEALLOC, tokio_dealloc_orig);
	shutdown_hook = tokio_hook(AH_TOKIO_SHUTDOWN, shutdown_orig);
	read_hook = tokio_hook(AH_TOKIO_READ, read_orig);
	wake_hook = tokio_hook(AH_TOKIO_WAKE, count_orig);
	wake_hook->kind = AGENT_KIND_NONE;
	wake_hook->task.poll_offset = 0;
	call_hook = area_hook(&area, AH_WAIT, AC_EPOLL_WAIT, call_orig);
	panic_hook = area_hook(&area, AH_PANIC, AGENT_KIND_NONE, raise_orig);
	root_wake_hook = area_hook(&area, AH_ROOT_WAKE, 9, count_orig);
	vtable[0] = area_stub(&area, poll_hook);
	task = (struct tokio_task){.state = REF * 3 | JOIN | NOTIFIED, .vtable = vtable, .id = 77};
	n_deallocs = n_originals = 0;
	call_inside = NULL;
	return 0;
}

static int setup_large(void **state)
{
	(void)state;
	area_new(&area, 1, 1 << 17);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	/* The agent's frames are registered with the unwinder, so the area stays, as in a program.
	 */
	area.live->enabled = 0;
	return 0;
}

static void call(struct agent_hook *hook, void *arg)
{
	((task_fn)area_stub(&area, hook))(arg);
}

static uint64_t tokio_ref(void)
{
	return 5ull << 48 | task.id;
}

/* The next event of this thread's ring is this one, and not before the last one. */
static uint64_t last_ticks;

#define expect(type, word1) expect_event(type, word1, __LINE__)
static void expect_event(int type, uint64_t word1, int line)
{
	struct ring *r = area_my_ring(&area);
	struct agent_event e = {0};

	if (!r || !area_next(&area, r, &e))
		fail_msg("line %d: no event, but type %d was expected", line, type);
	if ((int)(e.word0 & 255) != type || e.word1 != word1)
		fail_msg("line %d: type %d word %lx, but type %d word %lx was expected", line,
			 (int)(e.word0 & 255), e.word1, type, word1);
	if (e.word0 >> 8 < last_ticks)
		fail_msg("line %d: time goes backwards", line);
	last_ticks = e.word0 >> 8;
}

static void expect_thread(void)
{
	last_ticks = 0;
	expect(AE_THREAD, (uint64_t)syscall(SYS_gettid));
}

static void expect_nothing(void)
{
	struct ring *r = area_my_ring(&area);
	struct agent_event e;

	if (r && area_next(&area, r, &e))
		fail_msg("event of type %d, but none was expected", (int)(e.word0 & 255));
}

/* ---- tokio's polls ---- */

static void run_then(struct tokio_task *t, uint64_t set, uint64_t clear, int refs)
{
	assert_false(t->state & (RUNNING | COMPLETE));
	t->state = ((t->state & ~(uint64_t)NOTIFIED & ~clear) | set) + (uint64_t)(refs * REF);
}

static void to_pending(struct tokio_task *t)
{
	run_then(t, 0, 0, -1);
}

static void to_ready(struct tokio_task *t)
{
	run_then(t, COMPLETE, 0, -1);
}

static void to_ready_unowned(struct tokio_task *t)
{
	/* Nobody else knows the task: handle dropped, released by its owner. */
	assert_int_equal(t->state / REF, 4);
	run_then(t, COMPLETE, JOIN, -3);
}

static void store_join_error(struct tokio_task *t, bool panic, bool id_first)
{
	uint64_t *at = &t->stage[2];

	if (id_first)
		*at++ = t->id;
	*at++ = panic ? PAYLOAD : 0;
	*at++ = panic ? (uint64_t)vtable : 0x1234567; /* stale when there is no box */
	if (!id_first)
		*at++ = t->id;
	t->state |= COMPLETE;
	t->state -= REF;
}

static void aborted_pending(struct tokio_task *t)
{
	t->state |= CANCELLED;
	store_join_error(t, false, false);
}

static void aborted_pending_id_first(struct tokio_task *t)
{
	t->state |= CANCELLED;
	store_join_error(t, false, true);
}

static void aborted_ready(struct tokio_task *t)
{
	to_ready(t);
	t->state |= CANCELLED | NOTIFIED;
}

/* Between our look and tokio's: to run it clears NOTIFIED, and finds it cancelled. */
static void aborted_unpolled(struct tokio_task *t)
{
	t->state = (t->state & ~(uint64_t)NOTIFIED) | CANCELLED;
	store_join_error(t, false, false);
}

static void panics(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, false);
}

static void panics_id_first(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, true);
}

/* The output is another JoinError: the one of a task that was awaited. */
static void catches_a_panic_awaits_another(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	t->stage[0] = t->id;
	t->stage[1] = 0x6000;
	t->stage[2] = (uint64_t)vtable;
	to_ready(t);
}

/* The one who waits for the task takes the output before we come to it. */
static void panics_output_taken(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, false);
	call(root_wake_hook, t);
	memset(t->stage, 0xa5, sizeof(t->stage));
}

/* The same without being woken: it asked for the output just then. */
static void read_output(struct tokio_task *t)
{
	void (*read)(void *, uint64_t, uint64_t) =
		(void (*)(void *, uint64_t, uint64_t))area_stub(&area, read_hook);

	read(t, 11, 12);
}

static void aborted_output_read(struct tokio_task *t)
{
	t->state |= CANCELLED;
	store_join_error(t, false, false);
	read_output(t);
}

static void panics_output_read(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, true);
	read_output(t);
}

/* It asks, and takes the output before we or tokio's own look can tell. */
static void aborted_asked_then_taken(struct tokio_task *t)
{
	t->state |= CANCELLED;
	read_output(t);
	store_join_error(t, false, false);
	memset(t->stage, 0xa5, sizeof(t->stage));
}

/* It asks, and waits; the task had come to its natural end. */
static void aborted_asked_ready(struct tokio_task *t)
{
	t->state |= CANCELLED;
	read_output(t);
	to_ready(t);
	t->state |= 16 | NOTIFIED; /* a waker is set */
}

static void pending_output_asked_for(struct tokio_task *t)
{
	read_output(t);
	aborted_pending(t);
}

/* It asks, and in that moment the task is complete: what is handed out is all that there is. */
static void hand_out_panic(struct tokio_task *t, uint64_t *dst)
{
	t->state = (t->state | COMPLETE) - REF;
	dst[1] = t->id;
	dst[2] = PAYLOAD;
	dst[3] = (uint64_t)vtable;
}

static void hand_out_value(struct tokio_task *t, uint64_t *dst)
{
	t->state = (t->state | COMPLETE) - REF;
	dst[1] = 5;
}

static void read_while_it_ends(struct tokio_task *t, void (*how)(struct tokio_task *, uint64_t *))
{
	uint64_t handed[4] = {0};
	void (*read)(void *, uint64_t *, uint64_t) =
		(void (*)(void *, uint64_t *, uint64_t))area_stub(&area, read_hook);

	call(panic_hook, rust_exception);
	on_read = how;
	read(t, handed, 12);
	on_read = NULL;
	t->state &= ~(uint64_t)JOIN; /* and the handle is gone */
}

static void panics_while_asked(struct tokio_task *t)
{
	read_while_it_ends(t, hand_out_panic);
}

static void catches_while_asked(struct tokio_task *t)
{
	read_while_it_ends(t, hand_out_value);
}

/* Complete, with its output stored; then its runtime is shut down. */
static void ready_then_shut_down(struct tokio_task *t)
{
	t->state |= COMPLETE;
	t->stage[0] = t->id;
	t->stage[1] = 0;
	call(shutdown_hook, t);
}

static void catches_a_panic(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	to_ready(t);
}

static void panics_detached(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	run_then(t, COMPLETE, JOIN, -1);
}

static void aborted_detached(struct tokio_task *t)
{
	run_then(t, COMPLETE | CANCELLED | NOTIFIED, JOIN, -1);
}

static void catches_and_pends(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	to_pending(t);
}

static void poll_as(void (*how)(struct tokio_task *))
{
	task = (struct tokio_task){.state = REF * 3 | JOIN | NOTIFIED, .vtable = vtable, .id = 77};
	scenario = how;
	call(poll_hook, &task);
}

static void test_poll_outcomes(void **state)
{
	static const struct {
		void (*how)(struct tokio_task *);
		int type;
	} cases[] = {
		{to_pending, AE_POLL_PENDING},
		{to_ready, AE_POLL_READY},
		{aborted_pending, AE_POLL_CANCELLED},
		{aborted_pending_id_first, AE_POLL_CANCELLED},
		{aborted_ready, AE_POLL_READY},
		{aborted_unpolled, AE_POLL_ABORTED},
		{panics, AE_POLL_PANICKED},
		{panics_id_first, AE_POLL_PANICKED},
		{catches_a_panic, AE_POLL_READY},
		{catches_a_panic_awaits_another, AE_POLL_READY},
		{ready_then_shut_down, AE_POLL_READY},
		{panics_detached, AE_POLL_PANICKED}, /* the output is gone: taken for granted */
		{aborted_detached, AE_POLL_CANCELLED},
		{catches_and_pends, AE_POLL_PENDING},
		{to_pending, AE_POLL_PENDING}, /* nothing sticks */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		poll_as(cases[i].how);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, tokio_ref());
		expect(cases[i].type, tokio_ref());
		expect_nothing();
		assert_int_equal(task.state / REF, 2);
		assert_int_equal(n_deallocs, 0);
	}
	assert_int_equal(area.state->registered, 2);
}

static const struct tokio_end_row *row;

static void as_row(struct tokio_task *t)
{
	if (row->raised)
		call(panic_hook, rust_exception);
	tokio_end_words(row, t->stage);
	t->state = 3 * REF | row->after;
}

/* The same rows as the kernel source's. */
static void test_tokio_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TOKIO_ENDS; i++) {
		row = &tokio_ends[i];
		poll_as(as_row);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, tokio_ref());
		expect((int)agent_end_event(row->end), tokio_ref());
		expect_nothing();
	}
}

static void test_output_taken(void **state)
{
	(void)state;
	poll_as(panics_output_taken);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_ROOT_WAKE, 9ull << 48 | ((uint64_t)&task & 0xffffffffffff));
	expect(AE_POLL_PANICKED, tokio_ref());
	expect_nothing();
}

/* The poll that comes to this knows it. */
static void expect_poll(void (*how)(struct tokio_task *), int type)
{
	poll_as(how);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(type, tokio_ref());
	expect_nothing();
}

static void test_output_read(void **state)
{
	(void)state;
	poll_as(aborted_output_read);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_CANCELLED, tokio_ref());
	expect_nothing();
	assert_int_equal(read_args[0], 11);
	assert_int_equal(read_args[1], 12);
	expect_poll(panics_output_read, AE_POLL_PANICKED);
}

static void test_output_asked_for_early(void **state)
{
	(void)state;
	poll_as(pending_output_asked_for);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_CANCELLED, tokio_ref());
	expect_poll(aborted_asked_then_taken, AE_POLL_CANCELLED);
	expect_poll(aborted_asked_ready, AE_POLL_READY);
	expect_poll(panics_while_asked, AE_POLL_PANICKED);
	expect_poll(catches_while_asked, AE_POLL_READY);
}

/* ---- await points ---- */

/* A future in the cell: a coroutine whose state 3 holds another one 9 bytes on; of that one states
 * 3 and 4 are await points, and 4 holds an enum whose tag has 8 bytes and only one value of
 * interest. */
enum { OUTER = 3, INNER = 12, TAG = 16 };

static uint64_t program_words[64];

static void make_program(void)
{
	struct agent_step *root = (struct agent_step *)program_words;
	struct agent_node *outer = (struct agent_node *)&program_words[1];
	struct agent_node *inner = (struct agent_node *)&program_words[8];
	struct agent_node *tag = (struct agent_node *)&program_words[16];

	memset(program_words, 0, sizeof(program_words));
	*root = (struct agent_step){.next = 1, .delta = offsetof(struct tokio_task, stage) + OUTER};
	*outer = (struct agent_node){.n = 4, .size = 1};
	outer->steps[3] = (struct agent_step){.point = 11, .next = 8, .delta = INNER - OUTER};
	*inner = (struct agent_node){.base = 1, .n = 4, .size = 2};
	inner->steps[2] = (struct agent_step){.point = 12};
	inner->steps[3] = (struct agent_step){.next = 16, .delta = TAG - INNER};
	*tag = (struct agent_node){.base = 1ull << 63, .n = 1, .size = 8};
	tag->steps[0] = (struct agent_step){.point = 13};
	tag->steps[1] = (struct agent_step){.point = 65535};
	poll_hook->program = (uint64_t)program_words;
}

static struct {
	uint8_t outer;
	uint16_t inner;
	uint64_t tag;
} stand;

static void stands_pending(struct tokio_task *t)
{
	char *future = (char *)t->stage;

	memcpy(future + OUTER, &stand.outer, sizeof(stand.outer));
	memcpy(future + INNER, &stand.inner, sizeof(stand.inner));
	memcpy(future + TAG, &stand.tag, sizeof(stand.tag));
	to_pending(t);
}

static void stands_running_elsewhere(struct tokio_task *t)
{
	stands_pending(t);
	t->state |= RUNNING;
}

static void test_await_points(void **state)
{
	static const struct {
		uint8_t outer;
		uint16_t inner;
		uint64_t tag, point;
	} cases[] = {
		{3, 3, 0, 12},		/* the innermost */
		{3, 1, 0, 11},		/* the inner one was not polled yet */
		{3, 0, 0, 11},		/* below the base */
		{3, 0x1234, 0, 11},	/* no such state: of another size it would be one */
		{3, 4, 1ull << 63, 13}, /* through the enum */
		{3, 4, (1ull << 63) + 1, 65535}, /* all its other values */
		{0, 3, 0, 0},			 /* not polled: no point */
		{200, 3, 0, 0},
	};

	(void)state;
	make_program();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		stand.outer = cases[i].outer;
		stand.inner = cases[i].inner;
		stand.tag = cases[i].tag;
		poll_as(stands_pending);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, tokio_ref());
		if (cases[i].point)
			expect(AE_POLL_PENDING_AT, cases[i].point << 48 | task.id);
		else
			expect(AE_POLL_PENDING, tokio_ref());
		assert_int_equal(task.state / REF, 2);
	}
	/* Somebody polls it already: what we read may be half of this, half of that. */
	stand.outer = stand.inner = 3;
	poll_as(stands_running_elsewhere);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	/* It is over: no ring has it. */
	poll_as(to_ready);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_READY, tokio_ref());
	/* A program that leads out of the task, to where nothing is, ends there. */
	((struct agent_node *)&program_words[8])->steps[2] =
		(struct agent_step){.point = 12, .next = 16, .delta = -(1 << 30)};
	for (area.state->may_call = AGENT_MAY_ASK + 1; area.state->may_call--;) {
		poll_as(stands_pending);
		expect(AE_POLL_BEGIN, tokio_ref());
		expect(AE_POLL_PENDING_AT, 12ull << 48 | task.id);
	}
	area.state->may_call = AGENT_MAY_ASK;
	/* A program that leads in a circle ends, too. */
	((struct agent_node *)&program_words[1])->steps[3] =
		(struct agent_step){.point = 14, .next = 1, .delta = 0};
	poll_as(stands_pending);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING_AT, 14ull << 48 | task.id);
	expect_nothing();
}

static void test_last_reference_is_ours(void **state)
{
	(void)state;
	poll_as(to_ready_unowned);
	assert_int_equal(n_deallocs, 1);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_READY, 5ull << 48 | 77);
	expect(AE_DROP, 5ull << 48 | 77);
	expect_nothing();
}

static void not_polled(struct tokio_task *t)
{
	t->state -= REF;
}

static void cancelled_before(struct tokio_task *t)
{
	store_join_error(t, false, false);
}

static void test_poll_that_is_none(void **state)
{
	(void)state;
	/* Shut down while it was in a queue: only a reference is dropped. */
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	task.state = REF * 2 | COMPLETE | NOTIFIED;
	scenario = not_polled;
	call(poll_hook, &task);
	expect_nothing();
	assert_int_equal(task.state / REF, 1);
	call(poll_hook, &task);
	expect(AE_DROP, tokio_ref());
	assert_int_equal(n_deallocs, 1);

	/* Aborted while it waited: the future is dropped, not polled. */
	task = (struct tokio_task){
		.state = REF * 3 | NOTIFIED | CANCELLED, .vtable = vtable, .id = 78};
	scenario = cancelled_before;
	call(poll_hook, &task);
	expect(AE_CANCEL, tokio_ref());
	expect_nothing();
}

static void switch_off(struct tokio_task *t)
{
	area.live->enabled = 0;
	to_ready_unowned(t);
}

static void test_switched_off_inside_a_poll(void **state)
{
	(void)state;
	poll_as(switch_off);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect_nothing();
	assert_int_equal(n_deallocs, 1); /* the reference was given back all the same */

	/* Off: nothing is recorded, held or changed. */
	n_deallocs = 0;
	task.state = REF * 3 | NOTIFIED | JOIN;
	scenario = to_pending;
	call(poll_hook, &task);
	call(schedule_hook, &task);
	call(wake_hook, &task);
	expect_nothing();
	assert_int_equal(task.state / REF, 2);
}

static void test_shutdown(void **state)
{
	(void)state;
	task.state = REF * 3;
	call(shutdown_hook, &task);
	expect_thread();
	expect(AE_CANCEL, tokio_ref());
	assert_int_equal(task.state / REF, 2);
	/* Complete already, or running elsewhere: not ended by this. */
	call(shutdown_hook, &task);
	task.state = REF * 3 | RUNNING;
	call(shutdown_hook, &task);
	expect_nothing();
	/* The last reference. */
	task.state = REF;
	call(shutdown_hook, &task);
	expect(AE_CANCEL, 5ull << 48 | 77);
	expect(AE_DROP, 5ull << 48 | 77);
	assert_int_equal(n_deallocs, 1);
	expect_nothing();
}

static void test_wakes_and_schedule(void **state)
{
	(void)state;
	task.state = REF * 3;
	call(wake_hook, &task);
	call(schedule_hook, &task); /* the wake's consequence */
	expect_thread();
	expect(AE_WAKE, tokio_ref());
	expect_nothing();
	call(schedule_hook, &task); /* something else's */
	expect(AE_SCHEDULE, tokio_ref());
	call(wake_hook, &task);
	task.id = 78;
	call(schedule_hook, &task); /* another task's */
	task.id = 77;
	expect(AE_WAKE, tokio_ref());
	expect(AE_SCHEDULE, 5ull << 48 | 78);

	task.state = REF * 3 | RUNNING;
	call(wake_hook, &task);
	expect(AE_WAKE_RUNNING, tokio_ref());
	task.state = REF * 3 | RUNNING | NOTIFIED;
	call(wake_hook, &task);
	expect(AE_WAKE_NOOP, tokio_ref());
	task.state = REF * 3 | NOTIFIED;
	call(wake_hook, &task);
	expect(AE_WAKE_NOOP, tokio_ref());
	task.state = REF * 3 | COMPLETE;
	call(wake_hook, &task);
	expect(AE_WAKE_NOOP, tokio_ref());

	/* A kind that isn't hooked. */
	task.state = REF * 3;
	vtable[0] = tokio_poll_orig;
	call(wake_hook, &task);
	expect(AE_WAKE, (uint64_t)AGENT_KIND_NONE << 48 | ((uint64_t)&task & 0xffffffffffff));

	int n = n_originals;
	call(dealloc_hook, &task);
	expect(AE_DROP, tokio_ref());
	assert_int_equal(n_deallocs, 1);
	assert_int_equal(n, 10);

	struct agent_hook *root = area_hook(&area, AH_ROOT_WAKE, 9, count_orig);
	call(root, &task);
	expect(AE_ROOT_WAKE, 9ull << 48 | ((uint64_t)&task & 0xffffffffffff));
	assert_int_equal(n_originals, n + 1);
}

static struct agent_hook *inner_hook;
static struct tokio_task inner;

static void polls_another(struct tokio_task *t)
{
	if (t != &inner) {
		call(inner_hook, &inner);
		inner.state = REF * 3 | NOTIFIED;
	}
	to_pending(t);
}

static void recurses(struct tokio_task *t)
{
	if (n_originals < 40)
		call(poll_hook, t);
}

static void test_nested_polls(void **state)
{
	(void)state;
	inner_hook = tokio_hook(AH_TOKIO_POLL, tokio_poll_orig);
	inner_hook->kind = 6;
	inner_hook->flags |= AGENT_HOOK_TASK;
	inner = (struct tokio_task){.state = REF * 3 | NOTIFIED, .vtable = vtable, .id = 1};
	poll_as(polls_another);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_BEGIN, 6ull << 48 | 1);
	expect(AE_POLL_PENDING, 6ull << 48 | 1);
	expect(AE_POLL_PENDING, tokio_ref());
	assert_int_equal(poll_hook->flags, AGENT_HOOK_WORKER | AGENT_HOOK_FRAME); /* learned */
	assert_int_equal(inner_hook->flags, AGENT_HOOK_TASK | AGENT_HOOK_FRAME);

	/* Deeper than the notes reach: passed through, counted. */
	n_originals = 0;
	poll_as(recurses);
	struct ring *r = area_my_ring(&area);
	assert_int_equal(n_originals, 40);
	uint64_t shown = (r->head - r->tail) / sizeof(struct agent_event);
	struct agent_event e;
	uint64_t lost = 0;
	while (area_next(&area, r, &e)) {
		if ((e.word0 & 255) == AE_LOST) {
			lost += e.word1;
			shown--;
		}
	}
	assert_int_equal(lost, 2 * (40 - 17));
	assert_int_equal(shown + lost, 1 + 39 * 2 + 1);
	poll_as(to_pending);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
}

/* ---- calls ---- */

static long the_call(void)
{
	typedef long (*seven_fn)(long, long, long, long, long, long, long);

	return ((seven_fn)area_stub(&area, call_hook))(1, 2, 3, 4, 5, 6, 7);
}

static void check_call(void)
{
	static const long args[7] = {1, 2, 3, 4, 5, 6, 7};

	memset(call_args, 0, sizeof(call_args));
	call_result = -42;
	errno = 0;
	assert_int_equal(the_call(), -42);
	assert_int_equal(errno, EAGAIN);
	assert_memory_equal(call_args, args, sizeof(args));
}

static void blocks(struct tokio_task *t)
{
	check_call();
	to_pending(t);
}

static void wait_a_little(void)
{
	usleep(2000);
}

static void test_waits(void **state)
{
	struct agent_event e;

	(void)state;
	check_call(); /* a thread without a ring isn't looked at */
	assert_null(area_my_ring(&area));
	area.state->n_roots = 2; /* others are in a block_on */
	area.state->roots[0] = area.state->roots[1] = (uint32_t)getppid();
	check_call();
	assert_null(area_my_ring(&area));
	area.state->roots[1] = (uint32_t)syscall(SYS_gettid);
	check_call();
	expect_thread();
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);
	assert_int_equal(area.state->roots[1], 0);
	poll_as(to_pending);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());

	check_call();
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);

	area.state->call_min_ticks = 1000000; /* under half a millisecond anywhere */
	poll_as(blocks);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	call_inside = wait_a_little;
	poll_as(blocks);
	expect(AE_POLL_BEGIN, tokio_ref());
	assert_true(area_next(&area, area_my_ring(&area), &e));
	assert_int_equal(e.word0 & 255, AE_BLOCK);
	assert_int_equal(e.word1 >> 48, AC_EPOLL_WAIT);
	assert_in_range(e.word1 & 0xffffffffffff, 1000000, 100000000000);
	expect(AE_POLL_PENDING, tokio_ref());
	call_inside = NULL;

	/* What an epoll came back with. */
	call_result = 0;
	assert_int_equal(the_call(), 0);
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48 | AGENT_UNPARK_IDLE);

	/* In a worker's main loop a call is a park. */
	poll_hook->flags |= AGENT_HOOK_WORKER;
	poll_as(blocks);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_POLL_PENDING, tokio_ref());
	expect_nothing();
}

static struct agent_hook *send_hook;

static void send_it(void)
{
	typedef long (*six_fn)(long, long, long, long, long, long);
	static const long args[6] = {1, 2, 3, 4, 5, 6};

	memset(call_args, 0, sizeof(call_args));
	call_result = -43;
	errno = 0;
	uint64_t before = arch_ticks();
	assert_int_equal(((six_fn)area_stub(&area, send_hook))(1, 2, 3, 4, 5, 6), -43);
	assert_int_equal(errno, EAGAIN);
	assert_memory_equal(call_args, args, sizeof(args));
	if (!area.live->enabled)
		return;
	/* by which one that isn't over is found: process/open_call.c */
	assert_in_range(call_frame[1], before, arch_ticks());
	assert_int_equal(call_frame[2], (uint64_t)send_hook);
	assert_int_equal(call_frame[4], 1);
}

static void sends(struct tokio_task *t)
{
	send_it();
	to_pending(t);
}

static void expect_long_send(void)
{
	struct agent_event e;

	expect(AE_DESCRIPTOR, 1ull << 32 | 4); /* its first and fourth argument */
	assert_true(area_next(&area, area_my_ring(&area), &e));
	assert_int_equal(e.word0 & 255, AE_BLOCK);
	assert_int_equal(e.word1 >> 48, AC_SENDTO);
	assert_in_range(e.word1 & 0xffffffffffff, 1000000, 100000000000);
}

/* Of other calls than waits only those that were long are recorded, in polls and outside of
 * them. */
static void test_calls(void **state)
{
	(void)state;
	send_hook = area_hook(&area, AH_CALL, AC_SENDTO, call_orig);
	area.state->call_min_ticks = 1000000;
	area.state->n_roots = 1;
	area.state->roots[0] = (uint32_t)syscall(SYS_gettid);
	call_inside = wait_a_little;
	send_it(); /* a thread without a ring isn't looked at, not even in a block_on */
	assert_null(area_my_ring(&area));
	assert_int_equal(area.state->roots[0], (uint32_t)syscall(SYS_gettid));
	area.state->n_roots = 0;
	call_inside = NULL;
	poll_as(sends);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	send_it();
	expect_nothing();
	call_inside = wait_a_little;
	poll_as(sends);
	expect(AE_POLL_BEGIN, tokio_ref());
	expect_long_send();
	expect(AE_POLL_PENDING, tokio_ref());
	send_it();
	expect_long_send();
	area.live->enabled = 0;
	send_it();
	area.live->enabled = 1;
	expect_nothing();
}

typedef long (*syscall_fn)(long, ...);

static void test_futex_operations(void **state)
{
	struct agent_hook *h;

	(void)state;
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	h = area_hook(&area, AH_WAIT, AC_FUTEX, call_orig);
	syscall_fn fn = (syscall_fn)area_stub(&area, h);
	for (long op = 0; op < 256; op++) {
		long base = op & 127;
		assert_int_equal(fn(SYS_futex, 2L, op, 4L, 5L, 6L, 7L), call_result);
		assert_int_equal(call_args[2], op);
		assert_int_equal(call_args[6], 7);
		if (base == 0 || base == 6 || base == 9 || base == 13) {
			expect(AE_PARK, (uint64_t)AC_FUTEX << 48);
			expect(AE_UNPARK, (uint64_t)AC_FUTEX << 48);
		}
		expect_nothing();
	}
	fn(SYS_getpid, 0L, 0L);
	expect_nothing();
}

/* Whether the agent may make no more system calls, once the program has made this one. */
static bool confines(const struct agent_hook *h, long nr, long what, long then)
{
	syscall_fn fn = (syscall_fn)area_stub(&area, h);
	uint32_t all = AGENT_MAY_ASK | AGENT_MAY_WAKE | AGENT_MAY_GETTID;

	area.state->may_call = all;
	assert_int_equal(fn(nr, what, then, 4L, 5L, 6L, 7L), call_result);
	assert_int_equal(call_args[0], nr);
	assert_int_equal(call_args[1], what);
	assert_int_equal(call_args[2], then);
	assert_int_equal(call_args[3], 4);
	assert_int_equal(call_args[6], 7);
	bool none = !area.state->may_call;
	assert_true(none || area.state->may_call == all);
	area.state->may_call = all;
	expect_nothing();
	return none;
}

/* Also while it is switched off: the tool may be about to enable it. */
static void test_calls_that_confine(void **state)
{
	struct agent_hook *prctl_hook, *load_hook, *syscall_hooks[2];

	(void)state;
	prctl_hook = area_hook(&area, AH_CONFINE, AGENT_CONFINE_PRCTL, call_orig);
	load_hook = area_hook(&area, AH_CONFINE, AGENT_CONFINE_LOAD, call_orig);
	syscall_hooks[0] = area_hook(&area, AH_CONFINE, AGENT_CONFINE_SYSCALL, call_orig);
	syscall_hooks[1] = area_hook(&area, AH_WAIT, AC_FUTEX, call_orig);
	for (uint32_t live = 2; live--;) {
		area.live->enabled = live;
		for (long option = 0; option < 80; option++)
			assert_int_equal(confines(prctl_hook, option, 2, 3), option == 22);
		assert_true(confines(load_hook, 0x1234, 0, 0));
		for (int i = 0; i < 2; i++) {
			const struct agent_hook *h = syscall_hooks[i];

			assert_true(confines(h, SYS_seccomp, 0, 0));
			assert_true(confines(h, SYS_seccomp, 1, 1));
			assert_false(confines(h, SYS_seccomp, 2, 0)); /* it only asks */
			assert_true(confines(h, SYS_prctl, 22, 2));
			assert_false(confines(h, SYS_prctl, 38, 1));
			assert_false(confines(h, SYS_getpid, 22, 22));
		}
	}
}

#define NO_RING 77

/* The exit status of a child that is forked, with the ring being written to or not, and writes on
 * if there is memory. */
static int write_in_child(const struct agent_hook *h, bool busy)
{
	typedef pid_t (*fork_fn)(void);
	struct ring *r = area_my_ring(&area);
	struct agent_notes *n = (struct agent_notes *)((char *)area.state + area.image->notes);
	int status;

	n->busy = busy;
	pid_t pid = ((fork_fn)area_stub(&area, h))();
	if (pid == 0) {
		int ends[2];
		if (pipe(ends) || write(ends[1], r, 1) != 1)
			_exit(NO_RING);
		r->head = 1;
		r->dropped = 2;
		area.rings->asleep = 3;
		*((char *)(r + 1) + n->owner.mask) = 4;
		_exit(r->head == 1 ? 0 : 1);
	}
	n->busy = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_not_equal(area.rings->asleep, 3);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_fork_in_an_event(void **state)
{
	struct agent_hook *h = area_hook(&area, AH_FORK, 0, (const void *)fork);

	(void)state;
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	assert_int_equal(write_in_child(h, true), 0);
	/* Else there are none. */
	assert_int_equal(write_in_child(h, false), NO_RING);
	area.live->enabled = 0;
	assert_int_equal(write_in_child(h, true), 0);
	expect_nothing();
}

/* Without permission the agent takes no ring for a thread whose tid needs a system call. */
static void test_no_gettid_without_leave(void **state)
{
	(void)state;
	area.state->tid_offset = 0;
	area.state->may_call = AGENT_MAY_ASK | AGENT_MAY_WAKE;
	poll_as(to_pending);
	expect_nothing();
	assert_int_equal(area.state->no_ring, 2);
	area.state->may_call |= AGENT_MAY_GETTID;
	usleep(10000); /* it looks again after a while */
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
}

/* ---- trampolines ---- */

/*
 * Runs the bytes of a trampoline with known values in every register, the flags and the red zone,
 * and stores what it finds afterwards: rax rbx rcx rdx rsi rdi rbp r8..r15 flags, then 16 words of
 * red zone.
 */
void through_trampoline(const void *code, uint64_t *ret_values);
__asm__(".text\n"
	".globl through_trampoline\n"
	".type through_trampoline, @function\n"
	"through_trampoline:\n"
	"push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"push %rsi\n"
	"sub $512, %rsp\n"
	"mov %rdi, 256(%rsp)\n" /* the trampoline's address, jumped to through memory */
	"lea 1f(%rip), %rax\n"
	"mov %rax, 264(%rsp)\n" /* where it comes back */
	".set i, 1\n"
	".rept 16\n"
	"movq $0x5a00 + i, -8 * i(%rsp)\n"
	".set i, i + 1\n"
	".endr\n"
	"mov $101, %eax; mov $102, %ebx; mov $103, %ecx; mov $104, %edx; mov $105, %esi\n"
	"mov $106, %edi; mov $107, %ebp; mov $108, %r8d; mov $109, %r9d; mov $110, %r10d\n"
	"mov $111, %r11d; mov $112, %r12d; mov $113, %r13d; mov $114, %r14d; mov $115, %r15d\n"
	"cmp $102, %rax\n" /* carry, sign */
	"jmp *256(%rsp)\n"
	"1: mov %rax, 272(%rsp)\n"
	"pushfq\n"
	"pop %rax\n"
	"mov %rax, 392(%rsp)\n"
	"mov %rbx, 280(%rsp); mov %rcx, 288(%rsp); mov %rdx, 296(%rsp); mov %rsi, 304(%rsp)\n"
	"mov %rdi, 312(%rsp); mov %rbp, 320(%rsp); mov %r8, 328(%rsp); mov %r9, 336(%rsp)\n"
	"mov %r10, 344(%rsp); mov %r11, 352(%rsp); mov %r12, 360(%rsp); mov %r13, 368(%rsp)\n"
	"mov %r14, 376(%rsp); mov %r15, 384(%rsp)\n"
	"mov 512(%rsp), %rdi\n"
	"lea 272(%rsp), %rsi\n"
	"mov $16, %ecx\n"
	"rep movsq\n"
	".set i, 2\n" /* the first word was used by our own pushfq */
	".rept 15\n"
	"mov -8 * i(%rsp), %rax\n"
	"stosq\n"
	".set i, i + 1\n"
	".endr\n"
	"add $520, %rsp\n"
	"pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
	"ret\n"
	".size through_trampoline, . - through_trampoline\n");

static uint8_t *make_trampoline(struct agent_hook *hook)
{
	static const uint8_t head[] = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50, 0xb8};
	static const uint8_t tail[] = {
		0x58, 0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0,
		0,    0xff, 0xa4, 0x24, 0x08, 0x01, 0,	  0}; /* jmp *264(%rsp) */
	uint32_t i = (uint32_t)(hook - area.hooks);
	uint64_t thunk = (uint64_t)area.image + area.image->thunks[hook->type];
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at = p;

	at = mempcpy(at, head, sizeof(head));
	at = mempcpy(at, &i, 4);
	at = mempcpy(at, "\xff\x15\x00\x00\x00\x00", 6); /* call *address after */
	uint8_t *next = at;
	at = mempcpy(at, tail, sizeof(tail));
	int32_t rel = (int32_t)(at - next);
	memcpy(next - 4, &rel, 4);
	memcpy(at, &thunk, 8);
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	return p;
}

static void check_trampoline(const uint8_t *code)
{
	uint64_t got[31] = {0};

	through_trampoline(code, got);
	for (uint64_t i = 0; i < 15; i++)
		assert_int_equal(got[i], 101 + i);
	assert_int_equal(got[15] & 0x8d5, 0x95); /* of 101 - 102: CF PF AF SF, no ZF, no OF */
	for (uint64_t i = 0; i < 15; i++)
		assert_int_equal(got[16 + i], 0x5a02 + i);
}

static void test_trampolines(void **state)
{
	uint64_t next_id = 1001;

	(void)state;
	struct agent_hook *spawn = area_hook(&area, AH_SPAWN, 3, NULL);
	struct agent_hook *root = area_hook(&area, AH_ROOT_ENTER, 4, NULL);
	const uint8_t *at_spawn = make_trampoline(spawn);
	spawn->spawn.next_id = (uint64_t)&next_id;
	check_trampoline(at_spawn);
	expect_thread();
	expect(AE_SPAWN, 3ull << 48 | 1000);
	next_id = 1002;
	check_trampoline(at_spawn);
	expect(AE_SPAWN, 3ull << 48 | 1001);
	spawn->spawn.next_id = 0;
	check_trampoline(at_spawn);
	expect(AE_SPAWN, 3ull << 48);
	check_trampoline(make_trampoline(root));
	expect(AE_ROOT_ENTER, 4ull << 48);
	area.live->enabled = 0;
	check_trampoline(at_spawn);
	expect_nothing();
}

static const uint8_t *trampoline_there;

static void trampoline_on_its_stack(void)
{
	check_trampoline(trampoline_there);
}

/* Reads what came up to AE_SPAWN; false if there was no stack. */
static bool read_stack(const uint8_t *stack, size_t len, const uint8_t *code)
{
	struct ring *r = area_my_ring(&area);
	uint64_t sp = 0, last = 0, found = 0;
	struct agent_event e;
	unsigned n = 0;

	while (area_next(&area, r, &e) && (e.word0 & 255) == AE_STACK) {
		uint64_t which = e.word1 >> 48, word = e.word1 & 0xffffffffffff;

		if (n < 3) {
			const uint64_t registers[] = {0x1234, word, 107};

			assert_int_equal(which, AGENT_STACK_IP + n);
			assert_int_equal(word, registers[n]);
			sp = n == 1 ? word : sp;
		} else {
			assert_true(which < AGENT_STACK_WORDS && (n == 3 || which > last));
			assert_in_range(sp + which * 8, (uint64_t)stack, (uint64_t)stack + len - 8);
			found += word == (uint64_t)code;
			last = which;
		}
		n++;
	}
	assert_int_equal(e.word0 & 255, AE_SPAWN);
	assert_true(!n || found);
	return n;
}

/* The stack ends before what would be copied of it, and nothing is mapped after its end. */
static void test_stack_of_a_spawn(void **state)
{
	const size_t len = 16384;
	uint8_t *stack =
		mmap(NULL, len + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct agent_hook *spawn = area_hook(&area, AH_SPAWN, 3, NULL);
	static ucontext_t there, back;
	static unsigned n;

	(void)state;
	mprotect(stack + len, 4096, PROT_NONE);
	spawn->slot = 0x1234;
	area.state->stacks = AGENT_STACKS_SPAWNS;
	trampoline_there = make_trampoline(spawn);
	/* Until half of the ring is full; what comes then has no stack, and is there. */
	for (unsigned i = 0; i < 400; i++) {
		getcontext(&there);
		there.uc_stack.ss_sp = stack;
		there.uc_stack.ss_size = len;
		there.uc_link = &back;
		makecontext(&there, trampoline_on_its_stack, 0);
		swapcontext(&back, &there);
	}
	area.state->stacks = 0;
	expect_thread();
	for (unsigned i = 0; i < 400; i++) {
		bool there_is = read_stack(stack, len, trampoline_there);

		assert_true(there_is || i);
		n += there_is;
	}
	expect_nothing();
	assert_in_range(n, 1, 399);
	assert_int_equal(area_my_ring(&area)->dropped, 0);
	munmap(stack, len + 4096);
}

/* ---- async-task ---- */

enum { A_SCHEDULED = 1, A_RUNNING = 2, A_COMPLETED = 4, A_CLOSED = 8, A_TASK = 16, A_REF = 256 };

struct async_task {
	void **vtable;
	uint64_t state;
	void *awaiter[2];
	uint64_t future[4];
};

static void *async_vtable[8];
static struct async_task atask;
static struct agent_hook *run_hook, *awake_hook;
static bool (*run_scenario)(struct async_task *);
static int n_destroyed;

static bool run_orig(void *header)
{
	return run_scenario(header);
}

static void drop_ref_orig(void *header)
{
	struct async_task *t = header;

	t->state -= A_REF;
	if (t->state < A_REF && !(t->state & A_TASK))
		n_destroyed++;
}

static int setup_async(void **state)
{
	setup(state);
	run_hook = area_hook(&area, AH_ASYNC_RUN, 8, run_orig);
	run_hook->task.vtable = (uint64_t)async_vtable;
	run_hook->task.state_offset = run_hook->task.vtable_offset = OFFSET_UNKNOWN;
	run_hook->task.drop_ref = (uint64_t)drop_ref_orig;
	awake_hook = area_hook(&area, AH_ASYNC_WAKE, AGENT_KIND_NONE, count_orig);
	awake_hook->task.vtable_offset = 0;
	awake_hook->task.state_offset = OFFSET_UNKNOWN;
	awake_hook->task.poll_offset = 40;
	async_vtable[5] = area_stub(&area, run_hook);
	atask = (struct async_task){async_vtable, A_SCHEDULED | A_TASK | A_REF, {NULL, NULL}, {3}};
	n_destroyed = 0;
	return 0;
}

static uint64_t async_ref(void)
{
	return 8ull << 48 | ((uint64_t)&atask & 0xffffffffffff);
}

/* What run() does to the state at the end, its own reference included. */
static void run_to(struct async_task *t, uint64_t set)
{
	t->state = ((t->state & ~(uint64_t)(A_SCHEDULED | A_RUNNING)) | set);
	drop_ref_orig(t);
}

static bool run_pending(struct async_task *t)
{
	run_to(t, 0);
	return false;
}

static bool run_woken(struct async_task *t)
{
	t->state |= A_SCHEDULED;
	return true;
}

static bool run_ready(struct async_task *t)
{
	run_to(t, t->state & A_TASK ? A_COMPLETED : A_COMPLETED | A_CLOSED);
	return false;
}

static bool run_cancelled(struct async_task *t)
{
	run_to(t, A_CLOSED);
	return false;
}

static bool run_raised(struct async_task *t)
{
	call(panic_hook, rust_exception);
	t->future[0] = PAYLOAD; /* the output */
	return run_ready(t);
}

static bool run_caught(struct async_task *t)
{
	call(panic_hook, rust_exception);
	t->future[0] = 3;
	return run_ready(t);
}

static bool run_as(bool (*how)(struct async_task *), uint64_t state)
{
	run_scenario = how;
	atask.state = state;
	return ((run_fn)area_stub(&area, run_hook))(&atask);
}

static void test_runs(void **state)
{
	static const struct {
		bool (*how)(struct async_task *);
		int type;
		uint64_t before, after;
		bool drop;
	} cases[] = {
		{run_pending, AE_POLL_PENDING, A_TASK | 2 * A_REF, A_TASK | A_REF, false},
		{run_woken, AE_POLL_PENDING, A_TASK | A_REF, A_TASK | A_SCHEDULED | A_REF, false},
		{run_ready, AE_POLL_READY, A_TASK | A_REF, A_TASK | A_COMPLETED, false},
		{run_ready, AE_POLL_READY, A_REF, A_COMPLETED | A_CLOSED, true},
		{run_ready, AE_POLL_READY, 2 * A_REF, A_COMPLETED | A_CLOSED | A_REF, false},
		{run_cancelled, AE_POLL_CANCELLED, A_TASK | A_REF, A_TASK | A_CLOSED, false},
		{run_cancelled, AE_POLL_CANCELLED, A_REF, A_CLOSED, true},
		{run_raised, AE_POLL_PANICKED, A_TASK | A_REF, A_TASK | A_COMPLETED, false},
		{run_caught, AE_POLL_READY, A_TASK | A_REF, A_TASK | A_COMPLETED, false},
		/* detached, pending, never woken again: as run() itself would have left it
		 */
		{run_pending, AE_POLL_PENDING, A_REF, 0, true},
	};

	(void)state;
	expect_nothing();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		n_destroyed = 0;
		assert_int_equal(run_as(cases[i].how, cases[i].before | A_SCHEDULED),
				 cases[i].how == run_woken);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, async_ref());
		expect(cases[i].type, async_ref());
		if (cases[i].drop)
			expect(AE_DROP, async_ref());
		expect_nothing();
		assert_int_equal(atask.state, cases[i].after);
		assert_int_equal(n_destroyed, cases[i].drop);
	}
	assert_int_equal(run_hook->task.vtable_offset, 0);
	assert_int_equal(run_hook->task.state_offset, 8);

	/* Closed before: the run only drops the future. */
	run_as(run_cancelled, A_CLOSED | A_SCHEDULED | A_TASK | A_REF);
	expect(AE_CANCEL, async_ref());
	expect_nothing();
}

static bool run_pending_then_detached(struct async_task *t)
{
	run_pending(t);
	t->state &= ~(uint64_t)A_TASK; /* the handle's owner saw us, so it left it to us */
	return false;
}

static void test_the_last_to_leave_a_pending_task(void **state)
{
	struct agent_hook *schedule = area_hook(&area, AH_ASYNC_SCHEDULE, 8, count_orig);

	(void)state;
	schedule->task.vtable = (uint64_t)async_vtable;
	run_as(run_pending_then_detached, A_SCHEDULED | A_TASK | A_REF);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
	expect(AE_SCHEDULE, async_ref());
	expect_nothing();
	assert_int_equal(atask.state,
			 A_SCHEDULED | A_CLOSED | A_REF); /* to have its future dropped */
	assert_int_equal(n_originals, 1);
	assert_int_equal(n_destroyed, 0);
	run_as(run_cancelled, atask.state);
	expect(AE_CANCEL, async_ref());
	expect(AE_DROP, async_ref());
	assert_int_equal(n_destroyed, 1);
}

static void test_header_that_cannot_be_learned(void **state)
{
	(void)state;
	atask.awaiter[1] = (void *)(A_SCHEDULED | A_REF); /* looks like a state, too */
	run_as(run_ready, A_SCHEDULED | A_REF * 2);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_UNKNOWN, async_ref());
	assert_int_equal(run_hook->task.state_offset, OFFSET_UNKNOWN);
	assert_int_equal(atask.state / A_REF, 1);
	run_as(run_woken, A_SCHEDULED | A_REF);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref()); /* run() says so */
	atask.awaiter[1] = NULL;
	run_as(run_ready, A_SCHEDULED | A_REF * 2);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_READY, async_ref());
}

static void test_async_wakes(void **state)
{
	(void)state;
	awake_hook->task.vtable_offset = OFFSET_UNKNOWN; /* found by the vtables of known kinds */
	atask.state = A_REF | A_TASK;
	call(awake_hook, &atask); /* state not yet known: a wake */
	expect_thread();
	expect(AE_WAKE, async_ref());
	run_as(run_pending, A_SCHEDULED | A_REF | A_TASK);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
	atask.state = A_REF | A_TASK | A_RUNNING;
	call(awake_hook, &atask);
	expect(AE_WAKE_RUNNING, async_ref());
	atask.state = A_REF | A_TASK | A_SCHEDULED;
	call(awake_hook, &atask);
	expect(AE_WAKE_NOOP, async_ref());
	atask.state = A_REF | A_TASK | A_COMPLETED;
	call(awake_hook, &atask);
	expect(AE_WAKE_NOOP, async_ref());
	atask.state = A_REF | A_TASK;
	call(awake_hook, &atask);
	expect(AE_WAKE, async_ref());
	call(area_hook(&area, AH_ASYNC_SCHEDULE, 8, count_orig), &atask);
	expect(AE_SCHEDULE, async_ref());
	call(area_hook(&area, AH_ASYNC_CANCEL, 8, count_orig), &atask);
	expect(AE_CANCEL, async_ref());
	call(area_hook(&area, AH_ASYNC_DESTROY, 8, count_orig), &atask);
	expect(AE_DROP, async_ref());
}

/* ---- unwinding through the frames ---- */

/*
 * int catching(run_fn fn, void *arg): calls fn(arg); 1 if an exception came out of it. A frame with
 * a personality of its own, since C has no catch.
 */
int catching(void *fn, void *arg);
__asm__(".text\n"
	".globl catching\n"
	".type catching, @function\n"
	"catching:\n"
	".cfi_startproc\n"
	".cfi_personality 0x1b, catching_personality\n"
	"push %rbp\n"
	".cfi_def_cfa_offset 16\n"
	".cfi_offset %rbp, -16\n"
	"mov %rsp, %rbp\n"
	".cfi_def_cfa_register %rbp\n"
	"mov %rdi, %rax\n"
	"mov %rsi, %rdi\n"
	"call *%rax\n"
	"xor %eax, %eax\n"
	"pop %rbp\n"
	".cfi_remember_state\n"
	".cfi_def_cfa %rsp, 8\n"
	"ret\n"
	".globl catching_landing\n"
	"catching_landing:\n"
	".cfi_restore_state\n"
	"mov $1, %eax\n"
	"pop %rbp\n"
	".cfi_def_cfa %rsp, 8\n"
	"ret\n"
	".cfi_endproc\n"
	".size catching, . - catching\n");
extern const char catching_landing[];

_Unwind_Reason_Code catching_personality(int version, _Unwind_Action actions,
					 _Unwind_Exception_Class class,
					 struct _Unwind_Exception *exc,
					 struct _Unwind_Context *context);
_Unwind_Reason_Code catching_personality(int version, _Unwind_Action actions,
					 _Unwind_Exception_Class class,
					 struct _Unwind_Exception *exc,
					 struct _Unwind_Context *context)
{
	(void)version;
	(void)class;
	(void)exc;
	if (actions & _UA_SEARCH_PHASE)
		return _URC_HANDLER_FOUND;
	_Unwind_SetIP(context, (_Unwind_Ptr)catching_landing);
	return _URC_INSTALL_CONTEXT;
}

static struct _Unwind_Exception exception;

static bool run_panics(struct async_task *t)
{
	/* As async-task's guard does in passing; a frame in between that is cleaned up would be
	 * too. */
	run_to(t, A_CLOSED);
	exception.exception_class = 0x504f4c4c55580000;
	_Unwind_RaiseException(&exception);
	abort();
}

static bool run_nested_panic(struct async_task *t)
{
	static struct async_task other;

	if (t == &other)
		return run_panics(t);
	other = (struct async_task){async_vtable, A_SCHEDULED | A_REF, {NULL, NULL}, {3}};
	assert_int_equal(catching(area_stub(&area, run_hook), &other), 1);
	assert_int_equal(other.state, A_CLOSED);
	return run_ready(t);
}

static ucontext_t here, there;
static struct async_task left;

static bool run_leaves(struct async_task *t)
{
	swapcontext(&there, &here);
	return run_ready(t);
}

static void run_on_another_stack(void)
{
	run_scenario = run_leaves;
	call(run_hook, &left);
}

static bool run_panics_with_one_left(struct async_task *t)
{
	static char stack[65536];

	left = (struct async_task){async_vtable, A_SCHEDULED | A_TASK | A_REF, {NULL, NULL}, {3}};
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, run_on_another_stack, 0);
	swapcontext(&here, &there);
	return run_panics(t);
}

/* A panic passes a run's frame, while the innermost open run is on another stack. */
static void test_panic_of_another_stack(void **state)
{
	(void)state;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
	run_scenario = run_panics_with_one_left;
	atask.state = A_SCHEDULED | A_REF | A_TASK;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	/* That one's reference is given back, and no other. */
	assert_int_equal(atask.state, A_CLOSED | A_TASK);
	assert_int_equal(left.state / A_REF, 2);
	swapcontext(&here, &there);
	assert_int_equal(left.state / A_REF, 0);
	assert_int_equal(n_destroyed, 0);
}

static void test_panic_through_a_run(void **state)
{
	(void)state;
	/* The first run registers the frames, the second is wrapped for sure. */
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());

	run_scenario = run_panics;
	atask.state = A_SCHEDULED | A_REF;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PANICKED, async_ref());
	expect(AE_DROP, async_ref());
	assert_int_equal(n_destroyed, 1);
	assert_int_equal(atask.state, A_CLOSED);

	run_scenario = run_panics;
	atask.state = A_SCHEDULED | A_REF | A_TASK;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PANICKED, async_ref());
	expect_nothing();
	assert_int_equal(atask.state, A_CLOSED | A_TASK);

	n_destroyed = 0;
	run_as(run_nested_panic, A_SCHEDULED | A_REF | A_TASK);
	struct agent_event e;
	expect(AE_POLL_BEGIN, async_ref());
	static const int inner_types[] = {AE_POLL_BEGIN, AE_POLL_PANICKED, AE_DROP};
	for (int i = 0; i < 3; i++) {
		assert_true(area_next(&area, area_my_ring(&area), &e));
		assert_int_equal(e.word0 & 255, inner_types[i]);
		assert_int_not_equal(e.word1, async_ref());
	}
	expect(AE_POLL_READY, async_ref());
	expect_nothing();

	/* Switched off on the way: nothing is written, the reference is given back. */
	n_destroyed = 0;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
}

/* ---- no frame where a panic passes and the unwinder doesn't know it ---- */

static void read_panics(struct tokio_task *t, uint64_t *dst)
{
	(void)t;
	(void)dst;
	_Unwind_RaiseException(&exception);
	abort();
}

/* Runs are jumped to; of Tokio's polls no panic comes, so they are seen whole. */
static void check_without_frames(void)
{
	poll_as(to_pending);
	expect_thread();
	expect(AE_POLL_BEGIN, tokio_ref());
	expect(AE_POLL_PENDING, tokio_ref());
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_UNSEEN, async_ref());
	expect_nothing();
	run_scenario = run_panics;
	atask.state = A_SCHEDULED | A_REF;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_UNSEEN, async_ref());
	((long (*)(long, ...))area_stub(&area, call_hook))(1);
	expect(AE_PARK, (uint64_t)AC_EPOLL_WAIT << 48);
	expect(AE_UNPARK, (uint64_t)AC_EPOLL_WAIT << 48);
	on_read = read_panics;
	assert_int_equal(catching(area_stub(&area, read_hook), &task), 1);
	on_read = NULL;
	expect_nothing();
}

static void test_hooks_without_frames(void **state)
{
	(void)state;
	poll_hook->flags &= (uint16_t)~AGENT_HOOK_FRAME;
	run_hook->flags &= (uint16_t)~AGENT_HOOK_FRAME;
	read_hook->flags &= (uint16_t)~AGENT_HOOK_FRAME;
	check_without_frames();
	assert_int_equal(area.state->registered, 2); /* for others */
}

/* The output is asked for before any poll has registered the frames, then after it. */
static void test_panic_through_a_read(void **state)
{
	(void)state;
	on_read = read_panics;
	assert_int_equal(catching(area_stub(&area, read_hook), &task), 1);
	assert_int_equal(area.state->registered, 0);
	poll_as(to_pending);
	assert_int_equal(area.state->registered, 2);
	assert_int_equal(catching(area_stub(&area, read_hook), &task), 1);
	on_read = NULL;
}

static int n_registered;
static bool knows_frames;

static void other_register_frame(const void *begin)
{
	assert_ptr_equal(begin, (void *)area.state->eh_frame);
	n_registered++;
	__asm__ volatile("pxor %%xmm0, %%xmm0" : : : "xmm0");
}

static const void *other_find_fde(void *pc, void *bases)
{
	(void)pc;
	(void)bases;
	return knows_frames ? &knows_frames : NULL;
}

static void add_unwinder(bool knows)
{
	knows_frames = knows;
	area.state->unwinders[1] =
		(struct agent_unwinder){(uint64_t)other_register_frame, (uint64_t)other_find_fde};
	area.state->n_unwinders = 2;
	n_registered = 0;
}

/* An unwinder that is given the frames and does not know them then is another one than expected. */
static void test_unwinder_that_does_not_know(void **state)
{
	(void)state;
	add_unwinder(false);
	check_without_frames();
	assert_int_equal(n_registered, 1);
	assert_int_equal(area.state->registered, 3);
}

static double vector_argument;

static void takes_a_vector(void *future, void *context, double argument)
{
	(void)future;
	(void)context;
	vector_argument = argument;
}

/* An optimiser may have made a field of the future an argument. */
static void test_arguments_while_registering(void **state)
{
	typedef void (*poll_fn)(void *, void *, double);

	(void)state;
	add_unwinder(false);
	((poll_fn)area_stub(&area, area_hook(&area, AH_FUTURE, 9, takes_a_vector)))(&task, NULL,
										    1.5);
	assert_int_equal(n_registered, 1);
	assert_true(vector_argument == 1.5);
}

/* By an earlier recording: it isn't given again. */
static void test_unwinder_that_knows_already(void **state)
{
	(void)state;
	add_unwinder(true);
	poll_as(to_pending);
	assert_int_equal(n_registered, 0);
	assert_int_equal(area.state->registered, 2);
}

/* ---- forks in the middle of it ---- */

/*
 * The child returns through the agent's frames and continues. It has no rings: to read one would
 * end it. What its copy of a task holds of the agent's is given back as in the parent.
 */
static enum { FORK_LIBC, FORK_RAW, FORK_CLONE, FORK_HOWS } fork_how;
static bool in_child;
static int fork_status;

static void fork_here(void)
{
	pid_t pid = fork_how == FORK_LIBC  ? fork()
		    : fork_how == FORK_RAW ? (pid_t)syscall(SYS_fork)
					   : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	in_child = !pid;
	fork_status = -1;
	if (pid > 0)
		waitpid(pid, &fork_status, 0);
}

/* After it: the child says by its exit status whether all is right in it. */
static void after_fork(bool right)
{
	if (in_child)
		_exit(right && !area.live->enabled ? 0 : 1);
	assert_int_equal(fork_status, 0);
}

static void forks_pending(struct tokio_task *t)
{
	fork_here();
	to_pending(t);
}

static void shutdown_forks(void *header)
{
	fork_here();
	shutdown_orig(header);
}

static void spawns_pending(struct tokio_task *t)
{
	/* posix_spawn: the child runs in our memory until it executes. */
	char *const argv[] = {"true", NULL};
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, NULL), 0);
	assert_int_equal(waitpid(pid, &fork_status, 0), pid);
	to_pending(t);
}

static struct agent_hook *fork_wait;

static void waits_pending(struct tokio_task *t)
{
	call(fork_wait, NULL);
	to_pending(t);
}

static void test_fork_inside(void **state)
{
	struct agent_hook *shutdown = tokio_hook(AH_TOKIO_SHUTDOWN, shutdown_forks);
	struct agent_hook *wait = area_hook(&area, AH_WAIT, AC_EPOLL_WAIT, call_orig);
	struct agent_hook *other = area_hook(&area, AH_CALL, AC_READ, call_orig);

	(void)state;
	poll_as(to_pending); /* a ring, and the frames are registered */
	for (int how = 0; how < FORK_HOWS; how++) {
		fork_how = how;
		poll_as(forks_pending);
		after_fork(task.state / REF == 2);

		task.state = REF * 3;
		call(shutdown, &task);
		after_fork(task.state / REF == 2);

		/* A park and a long call, outside of a task's poll and inside. */
		call_inside = fork_here;
		call(wait, NULL);
		after_fork(true);
		call(other, NULL);
		after_fork(true);
		fork_wait = wait;
		poll_as(waits_pending);
		after_fork(task.state / REF == 2);
		fork_wait = other;
		poll_as(waits_pending);
		after_fork(task.state / REF == 2);
		call_inside = NULL;
	}
	poll_as(spawns_pending);
	assert_int_equal(fork_status, 0);
	assert_int_equal(area.live->enabled, 1);
}

static bool run_forks_then_panics(struct async_task *t)
{
	fork_here();
	return in_child ? run_panics(t) : run_pending(t);
}

/* The inner run is over, and taken from the notes, when the outer one panics. */
static bool run_forks_inside_then_panics(struct async_task *t)
{
	static struct async_task other;

	if (t == &other) {
		fork_here();
		return run_pending(t);
	}
	other = (struct async_task){async_vtable, A_SCHEDULED | A_TASK | 2 * A_REF, {0}, {3}};
	((run_fn)area_stub(&area, run_hook))(&other);
	if (!in_child)
		return run_pending(t);
	if (other.state != (A_TASK | A_REF))
		_exit(2);
	return run_panics(t);
}

static void test_fork_inside_a_run(void **state)
{
	(void)state;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF); /* registers */
	for (int how = 0; how < FORK_HOWS; how++) {
		static bool (*const ways[])(struct async_task *) = {run_forks_then_panics,
								    run_forks_inside_then_panics};

		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
			fork_how = how;
			run_scenario = ways[i];
			atask.state = A_SCHEDULED | A_REF | A_TASK;
			int caught = catching(area_stub(&area, run_hook), &atask);
			after_fork(caught == 1 && atask.state == (A_CLOSED | A_TASK));
			assert_int_equal(caught, 0);
		}
	}
}

/* Switched off while an inner run is open: what comes out of the outer one is the outer one's. */
static bool run_switched_off_then_panics(struct async_task *t)
{
	static struct async_task other;

	if (t == &other) {
		area.live->enabled = 0;
		return run_pending(t);
	}
	other = (struct async_task){async_vtable, A_SCHEDULED | A_TASK | 2 * A_REF, {0}, {3}};
	((run_fn)area_stub(&area, run_hook))(&other);
	assert_int_equal(other.state, A_TASK | A_REF);
	return run_panics(t);
}

static void test_switched_off_inside_a_run(void **state)
{
	(void)state;
	run_as(run_pending, A_SCHEDULED | A_TASK | A_REF); /* registers */
	run_scenario = run_switched_off_then_panics;
	atask.state = A_SCHEDULED | A_REF | A_TASK;
	assert_int_equal(catching(area_stub(&area, run_hook), &atask), 1);
	assert_int_equal(atask.state, A_CLOSED | A_TASK);
}

static int n_frames_through;

static void count_frames(struct tokio_task *t)
{
	void *frames[64];

	n_frames_through = backtrace(frames, 64);
	if (t)
		to_pending(t);
}

static __attribute__((noinline)) void count_directly(void)
{
	count_frames(NULL);
	__asm__ volatile("");
}

static void test_backtrace_through_a_poll(void **state)
{
	(void)state;
	count_directly();
	int plain = n_frames_through;
	assert_in_range(plain, 4, 60);
	poll_as(count_frames); /* registers the frames first */
	assert_in_range(n_frames_through, plain, plain + 4);
}

int main(void)
{
#define WITH(name, up) cmocka_unit_test_setup_teardown(name, up, teardown)
	const struct CMUnitTest tests[] = {
		WITH(test_poll_outcomes, setup),
		WITH(test_tokio_ends, setup),
		WITH(test_output_taken, setup),
		WITH(test_output_read, setup),
		WITH(test_output_asked_for_early, setup),
		WITH(test_await_points, setup),
		WITH(test_last_reference_is_ours, setup),
		WITH(test_poll_that_is_none, setup),
		WITH(test_switched_off_inside_a_poll, setup),
		WITH(test_shutdown, setup),
		WITH(test_wakes_and_schedule, setup),
		WITH(test_nested_polls, setup),
		WITH(test_waits, setup),
		WITH(test_calls, setup),
		WITH(test_futex_operations, setup),
		WITH(test_calls_that_confine, setup),
		WITH(test_no_gettid_without_leave, setup),
		WITH(test_fork_in_an_event, setup),
		WITH(test_trampolines, setup),
		WITH(test_stack_of_a_spawn, setup_large),
		WITH(test_runs, setup_async),
		WITH(test_the_last_to_leave_a_pending_task, setup_async),
		WITH(test_header_that_cannot_be_learned, setup_async),
		WITH(test_async_wakes, setup_async),
		WITH(test_panic_through_a_run, setup_async),
		WITH(test_panic_of_another_stack, setup_async),
		WITH(test_hooks_without_frames, setup_async),
		WITH(test_panic_through_a_read, setup),
		WITH(test_unwinder_that_does_not_know, setup_async),
		WITH(test_arguments_while_registering, setup),
		WITH(test_unwinder_that_knows_already, setup),
		WITH(test_fork_inside, setup),
		WITH(test_fork_inside_a_run, setup_async),
		WITH(test_switched_off_inside_a_run, setup_async),
		WITH(test_backtrace_through_a_poll, setup),
	};
	return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
