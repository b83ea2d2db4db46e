/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For the tests of the agent's image, which run it in this process: made-up tasks whose state words
 * change as tokio's and async-task's do, hooked; and the events that the hooks have to write,
 * compared one by one. A test uses some of it.
 */
#pragma once

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

#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

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

/* The words of a caller's frame, whatever a sanitizer has put between its variables. */
__attribute__((no_sanitize("address"))) static void copy_frame(const volatile uint64_t *frame)
{
	for (size_t i = 0; i < sizeof(call_frame) / sizeof(*call_frame); i++)
		call_frame[i] = frame[i];
}

static long call_orig(long a, long b, long c, long d, long e, long f, long g)
{
	long args[7] = {a, b, c, d, e, f, g};

	copy_frame((const uint64_t *)__builtin_frame_address(0) + 1);
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

static int setup_rings(uint32_t ring_bytes)
{
	area_new(&area, 4, ring_bytes);
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
	call_result = -42; /* of epoll_wait: it was interrupted, not idle */
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_rings(4096);
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

static void panics(struct tokio_task *t)
{
	call(panic_hook, rust_exception);
	store_join_error(t, true, false);
}

static void poll_as(void (*how)(struct tokio_task *))
{
	task = (struct tokio_task){.state = REF * 3 | JOIN | NOTIFIED, .vtable = vtable, .id = 77};
	scenario = how;
	call(poll_hook, &task);
}

/* ---- await points ---- */

/* A future in the cell: a coroutine whose state 3 holds another one 9 bytes on; of that one states
 * 3 and 4 are await points, and 4 holds an enum whose tag has 8 bytes and only one value of
 * interest. */
enum { OUTER = 3, INNER = 12, TAG = 16 };

/* ---- calls ---- */

typedef long (*syscall_fn)(long, ...);

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

static bool run_ready(struct async_task *t)
{
	run_to(t, t->state & A_TASK ? A_COMPLETED : A_COMPLETED | A_CLOSED);
	return false;
}

static bool run_as(bool (*how)(struct async_task *), uint64_t state)
{
	run_scenario = how;
	atask.state = state;
	return ((run_fn)area_stub(&area, run_hook))(&atask);
}

/* ---- unwinding through the frames ---- */

static struct _Unwind_Exception exception;

static ucontext_t here, there;
static struct async_task left;
