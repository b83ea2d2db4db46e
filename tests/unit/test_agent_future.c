/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The agent's way around a future's poll: what is recorded, and that nothing is changed by it. */
#include "agent_area.h"

#include "agent/agent.h"
#include "agent/runtime_tokio.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define AGENT_REFS ((1ull << 48) - 1)
#define POINTER_NODE 16u

struct pair {
	uint64_t first, second;
};
struct large {
	uint64_t tag, words[8];
};

/* A coroutine whose state is at 16. */
struct future {
	uint64_t words[2];
	uint8_t state;
};

/* struct agent_node without its steps. */
struct node {
	uint64_t base;
	uint32_t n;
	uint8_t kind, size;
};
_Static_assert(sizeof(struct node) == sizeof(struct agent_node), "node");

static struct area area;
static struct future *polled;
static uint64_t seen[6];

static void note(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	const uint64_t all[6] = {a, b, c, d, e, f};

	memcpy(seen, all, sizeof(seen));
}

static struct pair poll_pair(struct future *f, uint64_t cx, uint64_t c, uint64_t d, uint64_t e,
			     uint64_t g)
{
	note((uint64_t)f, cx, c, d, e, g);
	polled = f;
	f->state = cx == 7 ? 1 : 3;
	return (struct pair){cx == 7 ? 0 : 1, 0x1234567890abcdefULL};
}

static struct large poll_large(struct future *f, uint64_t cx)
{
	polled = f;
	return (struct large){cx, {1, 2, 3}};
}

static int setup(void **state)
{
	area_new(&area, 4, 1 << 16);
	(void)state;
	return 0;
}

static void expect_event(uint64_t type, uint64_t kind, const void *future)
{
	struct agent_event e = {0};

	assert_true(area_next(&area, area_my_ring(&area), &e));
	if ((e.word0 & 0xff) == AE_THREAD)
		assert_true(area_next(&area, area_my_ring(&area), &e));
	assert_int_equal(e.word0 & 0xff, type);
	assert_int_equal(e.word1, kind << 48 | (uint64_t)future);
}

static void expect_nothing(void)
{
	struct agent_event e;

	assert_false(area_next(&area, area_my_ring(&area), &e));
}

static struct agent_hook *state_hook(void)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 5, (const void *)poll_pair);

	hook->future.result = (struct agent_result){
		.from = AR_STATE, .offset = offsetof(struct future, state), .size = 1, .ready = 1};
	hook->future.pending = 2;
	return hook;
}

static void test_state(void **state)
{
	struct agent_hook *hook = state_hook();
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, hook);
	const uint64_t given[5] = {6, 11, 12, 13, 14};
	struct future f = {.state = 0};

	struct pair p = poll(&f, 6, 11, 12, 13, 14);
	assert_int_equal(seen[0], &f);
	assert_memory_equal(seen + 1, given, sizeof(given));
	assert_int_equal(p.first, 1);
	assert_int_equal(p.second, 0x1234567890abcdefULL);
	expect_event(AE_FUTURE_BEGIN, 5, &f);
	expect_event(AE_FUTURE_PENDING, 5, &f);
	p = poll(&f, 7, 0, 0, 0, 0);
	assert_int_equal(p.first, 0);
	expect_event(AE_FUTURE_BEGIN, 5, &f);
	expect_event(AE_FUTURE_READY, 5, &f);
	/* Where the state is there for certain it says whether it was ever polled. */
	hook->flags |= AGENT_HOOK_SHOWN;
	f.state = 0;
	poll(&f, 6, 11, 12, 13, 14);
	expect_event(AE_FUTURE_FIRST, 5, &f);
	expect_event(AE_FUTURE_PENDING, 5, &f);
	poll(&f, 7, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 5, &f);
	expect_event(AE_FUTURE_READY, 5, &f);
	expect_nothing();
	(void)state;
}

/* Each poll of it polls the one below, down to none. */
static struct pair (*poll_deeper)(struct future *, uint64_t);
static uintptr_t lowest; /* stack address */
static int n_deeper;

static struct pair deeper(struct future *f, uint64_t context)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (!lowest || here < lowest)
		lowest = here;
	if (n_deeper-- > 0)
		poll_deeper(f, context);
	f->state = 3;
	return (struct pair){1, 0};
}

/* The stack that a program recurses on is its own: from some depth on no frames of ours are there.
 */
static void test_deep(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 5, (const void *)deeper);
	struct future f = {.state = 0};
	uint64_t dropped = area_my_ring(&area)->dropped;
	long used[2];

	hook->future.result = state_hook()->future.result;
	hook->future.pending = 2;
	for (int i = 0; i < 2; i++) {
		poll_deeper = i ? area_stub(&area, hook) : (void *)deeper;
		lowest = 0;
		n_deeper = 5000;
		poll_deeper(&f, 6);
		used[i] = (long)((uintptr_t)__builtin_frame_address(0) - lowest);
	}
	assert_true(used[1] - used[0] < 256 << 10);
	assert_int_equal(area_my_ring(&area)->dropped - dropped, 2 * (5001 - AGENT_MAX_FUTURES));
	struct agent_event e;
	while (area_next(&area, area_my_ring(&area), &e))
		;
	/* and again from the top */
	n_deeper = 0;
	poll_deeper(&f, 6);
	expect_event(AE_FUTURE_BEGIN, 5, &f);
	expect_event(AE_FUTURE_PENDING, 5, &f);
	(void)state;
}

/* ---- chains of futures in boxes ---- */

/* A task of Tokio's that has references. Its poll polls boxes, each of which may poll others. */
struct boxed_task {
	uint64_t state, words[4], id;
};

struct box {
	struct future future; /* its state: 1 ready, 3 pending when the poll is over */
	struct box *const *inside;
	uint8_t end;
};

static void (*poll_box)(struct box *);
static struct box *const *of_the_task;

static void box_body(struct box *b)
{
	for (struct box *const *one = b->inside; one && *one; one++)
		poll_box(*one);
	b->future.state = b->end;
}

static void boxed_task_poll(struct boxed_task *task)
{
	(void)task;
	for (struct box *const *one = of_the_task; *one; one++)
		poll_box(*one);
}

enum { BOX_KIND = 17, BOXED_TASK_KIND = 18, LINK = AGENT_CHAIN_KIND + BOX_KIND };

/* The task is polled: its boxes make these links. */
static void expect_chain(struct box *const *boxes, const uint16_t *links, size_t n)
{
	static struct agent_hook *task_hook;
	struct boxed_task task = {.state = 3 * TOKIO_REFERENCE, .id = 4};

	if (!task_hook) {
		struct agent_hook *hook =
			area_hook(&area, AH_FUTURE, BOX_KIND, (const void *)box_body);

		hook->future.result = state_hook()->future.result;
		hook->future.pending = 2;
		hook->flags |= AGENT_HOOK_CHAIN;
		hook->future.value_bytes = sizeof(struct box);
		poll_box = area_stub(&area, hook);
		task_hook = area_hook(&area, AH_TOKIO_POLL, BOXED_TASK_KIND,
				      (const void *)boxed_task_poll);
		task_hook->task.id_offset = offsetof(struct boxed_task, id);
		task_hook->task.end_offset = sizeof(task);
		task_hook->flags |= AGENT_HOOK_TASK;
	}
	of_the_task = boxes;
	((void (*)(struct boxed_task *))area_stub(&area, task_hook))(&task);
	assert_int_equal(task.state, 3 * TOKIO_REFERENCE);
	expect_event(AE_POLL_BEGIN, BOXED_TASK_KIND, (void *)4);
	for (size_t i = 0; i < n; i += 4) {
		struct agent_event e;
		uint64_t word = 0;

		for (size_t k = i; k < n && k < i + 4; k++)
			word |= (uint64_t)links[k] << 16 * (k - i);
		assert_true(area_next(&area, area_my_ring(&area), &e));
		assert_int_equal(e.word0 & 0xff, AE_CHAIN);
		assert_int_equal(e.word1, word);
	}
	expect_event(AE_POLL_PENDING, BOXED_TASK_KIND, (void *)4);
	expect_nothing();
}

static void test_chain(void **state)
{
	static const uint16_t two[] = {LINK, LINK}, others[] = {LINK, AGENT_CHAIN_OTHERS, LINK};
	struct box pending = {.end = 3}, other = {.end = 4}, ready = {.end = 1};
	struct box outer = {.end = 3, .inside = (struct box *[]){&pending, NULL}};
	struct box both = {.end = 3, .inside = (struct box *[]){&pending, &ready, &other, NULL}};
	struct box done = {.end = 1, .inside = (struct box *[]){&pending, NULL}};

	expect_chain((struct box *[]){NULL}, NULL, 0);
	expect_chain((struct box *[]){&pending, NULL}, two, 1);
	/* What was ready is awaited no longer, nor what is in it. */
	expect_chain((struct box *[]){&ready, NULL}, NULL, 0);
	expect_chain((struct box *[]){&pending, &done, NULL}, two, 1);
	expect_chain((struct box *[]){&outer, NULL}, two, 2);
	/* The last one counts, and that there are others. */
	expect_chain((struct box *[]){&both, NULL}, others, 3);
	expect_chain((struct box *[]){&outer, &pending, NULL}, others, 2);
	(void)state;
}

/* The outermost are left out of a chain that is too long. */
static void test_long_chain(void **state)
{
	enum { DEEP = AGENT_CHAIN_MAX + 9 };
	struct box *inside[DEEP][2] = {0}, boxes[DEEP] = {0};
	uint16_t links[AGENT_CHAIN_MAX];

	for (size_t i = 0; i < DEEP; i++) {
		boxes[i] = (struct box){.end = 3, .inside = inside[i]};
		inside[i][0] = i + 1 < DEEP ? &boxes[i + 1] : NULL;
	}
	for (size_t i = 0; i < AGENT_CHAIN_MAX; i++)
		links[i] = LINK;
	expect_chain((struct box *[]){&boxes[0], NULL}, links, AGENT_CHAIN_MAX);
	/* One beside it finds no room: then it is only known that there are others. */
	expect_chain((struct box *[]){&boxes[0], &boxes[DEEP - 1], NULL},
		     (uint16_t[]){AGENT_CHAIN_OTHERS}, 1);
	(void)state;
}

/* Boxes deep in each other cost no more stack than those that are hooked, and no event. */
static void test_many_boxes(void **state)
{
	enum { DEEP = AGENT_MAX_FUTURES + 9 };
	struct box *inside[DEEP][2] = {0}, boxes[DEEP] = {0};
	uint16_t links[AGENT_CHAIN_MAX];
	uint64_t dropped = area_my_ring(&area)->dropped;

	for (size_t i = 0; i < DEEP; i++) {
		boxes[i] = (struct box){.end = 3, .inside = inside[i]};
		inside[i][0] = i + 1 < DEEP ? &boxes[i + 1] : NULL;
	}
	for (size_t i = 0; i < AGENT_CHAIN_MAX; i++)
		links[i] = LINK;
	expect_chain((struct box *[]){&boxes[0], NULL}, links, AGENT_CHAIN_MAX);
	assert_int_equal(area_my_ring(&area)->dropped, dropped);
	(void)state;
}

/* The outermost handler in a task that serves is recorded; its chain is as before. */
static void test_handler(void **state)
{
	struct box pending = {.end = 3}, ready = {.end = 1};
	struct box outer = {.end = 3, .inside = (struct box *[]){&pending, NULL}};
	struct agent_hook *hooks = area.hooks, *box = NULL, *task = NULL;
	struct boxed_task t = {.state = 3 * TOKIO_REFERENCE, .id = 4};
	struct agent_event e;

	for (uint32_t i = 0; i < area.n_hooks; i++) {
		box = hooks[i].kind == BOX_KIND ? &hooks[i] : box;
		task = hooks[i].kind == BOXED_TASK_KIND ? &hooks[i] : task;
	}
	assert_non_null(box);
	assert_non_null(task);
	box->flags |= AGENT_HOOK_HANDLER | AGENT_HOOK_SHOWN;
	/* This task does not serve. */
	expect_chain((struct box *[]){&pending, NULL}, (uint16_t[]){LINK}, 1);
	task->flags |= AGENT_HOOK_SERVES;
	of_the_task = (struct box *[]){&outer, &ready, NULL};
	outer.future.state = 0;
	((void (*)(struct boxed_task *))area_stub(&area, task))(&t);
	expect_event(AE_POLL_BEGIN, BOXED_TASK_KIND, (void *)4);
	expect_event(AE_FUTURE_FIRST, BOX_KIND, &outer);
	expect_event(AE_FUTURE_PENDING, BOX_KIND, &outer);
	expect_event(AE_FUTURE_FIRST, BOX_KIND, &ready);
	expect_event(AE_FUTURE_READY, BOX_KIND, &ready);
	assert_true(area_next(&area, area_my_ring(&area), &e));
	assert_int_equal(e.word0 & 0xff, AE_CHAIN);
	assert_int_equal(e.word1, LINK | (uint64_t)LINK << 16);
	expect_event(AE_POLL_PENDING, BOXED_TASK_KIND, (void *)4);
	expect_nothing();
	/* Nor is it recorded outside of a task's poll. */
	poll_box(&pending);
	expect_nothing();
	box->flags &= (uint16_t)~AGENT_HOOK_HANDLER;
	task->flags &= (uint16_t)~AGENT_HOOK_SERVES;
	(void)state;
}

/* ---- a future that a library's object has in a box ---- */

struct in_box {
	uint64_t tag; /* 1: there is a future */
	struct future future;
};

struct object {
	uint64_t words[2];
	struct in_box *box;
	uint64_t tag, state; /* after the method */
	bool moves;	     /* into another box */
	bool untouched;
};

static struct in_box another_box;
static void (*method)(struct object *);
static struct object *of_the_connection;

static void method_body(struct object *o)
{
	if (o->untouched)
		return;
	if (o->moves)
		o->box = &another_box;
	o->box->tag = o->tag;
	o->box->future.state = (uint8_t)o->state;
}

static void connection_poll(struct boxed_task *task)
{
	(void)task;
	method(of_the_connection);
}

enum { HELD_KIND = 27, CONNECTION_KIND = 28, LAST_STATE = 4 };

/* The connection is polled: `first` and `end` are the events of its future's poll, 0: there are none. */
static void expect_held(struct agent_hook *task, struct object *o, uint64_t first, uint64_t end,
			bool linked)
{
	struct boxed_task t = {.state = 3 * TOKIO_REFERENCE, .id = 4};
	/* The box may be no pointer. */
	const void *future = (const void *)((uintptr_t)o->box + offsetof(struct in_box, future));
	struct agent_event e;

	of_the_connection = o;
	((void (*)(struct boxed_task *))area_stub(&area, task))(&t);
	expect_event(AE_POLL_BEGIN, CONNECTION_KIND, (void *)4);
	if (first) {
		expect_event(first, HELD_KIND, future);
		expect_event(end, HELD_KIND, future);
	}
	if (linked) {
		assert_true(area_next(&area, area_my_ring(&area), &e));
		assert_int_equal(e.word0 & 0xff, AE_CHAIN);
		assert_int_equal(e.word1, AGENT_CHAIN_KIND + HELD_KIND);
	}
	expect_event(AE_POLL_PENDING, CONNECTION_KIND, (void *)4);
	expect_nothing();
}

static bool is_memory(uint64_t at)
{
	char bytes[sizeof(struct in_box)];
	struct iovec here = {bytes, sizeof(bytes)}, there = {(void *)at, sizeof(bytes)};

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) > 0;
}

/* The hook of the method, and that of the task that calls it. */
static struct agent_hook *hold(struct agent_hook **ret_task)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, HELD_KIND, (const void *)method_body);
	struct agent_hook *task =
		area_hook(&area, AH_TOKIO_POLL, CONNECTION_KIND, (const void *)connection_poll);

	hook->future.held_offset = offsetof(struct object, box);
	hook->future.future_offset = offsetof(struct in_box, future);
	hook->flags |= AGENT_HOOK_CHAIN | AGENT_HOOK_HELD | AGENT_HOOK_HANDLER;
	method = area_stub(&area, hook);
	task->task.id_offset = offsetof(struct boxed_task, id);
	task->task.end_offset = sizeof(struct boxed_task);
	task->flags |= AGENT_HOOK_TASK | AGENT_HOOK_SERVES;
	*ret_task = task;
	return hook;
}

static void test_held(void **state)
{
	struct agent_hook *task, *hook = hold(&task);
	struct in_box box = {.tag = 1};
	struct object o = {.box = &box, .tag = 1, .state = 3};

	hook->future.result = (struct agent_result){
		.from = AR_STATE, .offset = offsetof(struct future, state), .size = 1, .ready = 1};
	hook->future.pending = 2;
	hook->future.tag_size = sizeof(box.tag);
	hook->future.tag_some = 1;

	/* It isn't known yet where the future is. */
	expect_held(task, &o, 0, 0, false);
	hook->last_state = LAST_STATE;
	/* The first poll, the next ones, the last. */
	box.future.state = 0;
	expect_held(task, &o, AE_FUTURE_FIRST, AE_FUTURE_PENDING, true);
	o.state = LAST_STATE;
	expect_held(task, &o, AE_FUTURE_BEGIN, AE_FUTURE_PENDING, true);
	o.tag = 0;
	expect_held(task, &o, AE_FUTURE_BEGIN, AE_FUTURE_READY, false);
	/* Now there is none, */
	expect_held(task, &o, 0, 0, false);
	/* or it has returned, */
	box = (struct in_box){1, {.state = 1}};
	expect_held(task, &o, 0, 0, false);
	/* or it is not polled by the method, */
	box = (struct in_box){1, {.state = 0}};
	o = (struct object){.box = &box, .tag = 1, .state = 0};
	expect_held(task, &o, AE_FUTURE_FIRST, AE_FUTURE_PENDING, false);
	/* or the object has another box since. */
	o.moves = true;
	o.state = 3;
	expect_held(task, &o, AE_FUTURE_FIRST, AE_FUTURE_READY, false);
	/* Where the tag is a value of the state. */
	hook->future.tag_size = 0;
	box = (struct in_box){7, {.state = 3}};
	o = (struct object){.box = &box, .tag = 7, .state = LAST_STATE + 1};
	expect_held(task, &o, AE_FUTURE_BEGIN, AE_FUTURE_READY, false);
	expect_held(task, &o, 0, 0, false);
	/* What is no pointer is not followed. */
	o = (struct object){.untouched = true};
	for (uint64_t wrong = 0; wrong < 1ull << 62; wrong = 3 * wrong + 1) {
		if (is_memory(wrong)) /* a sanitizer's */
			continue;
		o.box = (struct in_box *)wrong;
		hook->future.tag_size = wrong % 2 ? 8 : 0;
		expect_held(task, &o, 0, 0, false);
	}
	/* Nor is more read than there is, whatever the debug information says of sizes. */
	char *pages = mmap(NULL, 2 * AGENT_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	assert_int_equal(mprotect(pages + AGENT_PAGE, AGENT_PAGE, PROT_NONE), 0);
	o.box = (struct in_box *)(void *)(pages + AGENT_PAGE - 3);
	for (int tagged = 0; tagged < 2; tagged++) {
		hook->future.tag_size = tagged ? 3 : 0;
		hook->future.tag_some = 0;
		hook->future.result.offset = 0;
		hook->future.future_offset = 0;
		hook->future.result.size = tagged ? 1 : 3;
		expect_held(task, &o, 0, 0, false);
	}
	munmap(pages, 2 * AGENT_PAGE);
	(void)state;
}

/* The same of a future that is no coroutine: that the box has one shows that it waits. */
static void test_held_written(void **state)
{
	enum { NONE = 9 };
	struct agent_hook *task, *hook = hold(&task);
	struct in_box box = {.tag = 1};
	struct object o = {.box = &box, .tag = 1};

	hook->future.result = (struct agent_result){
		.from = AR_PRESENT, .offset = offsetof(struct in_box, tag), .size = 8};
	hook->future.pending = NONE;

	expect_held(task, &o, 0, 0, false);
	hook->last_state = 1;
	/* Without a program it has no await point, and no link. */
	expect_held(task, &o, AE_FUTURE_BEGIN, AE_FUTURE_PENDING, false);
	o.tag = NONE;
	expect_held(task, &o, AE_FUTURE_BEGIN, AE_FUTURE_READY, false);
	expect_held(task, &o, 0, 0, false);
	/* The object has another box since. */
	box.tag = 1;
	o = (struct object){.box = &box, .tag = 1, .moves = true};
	another_box.tag = 1;
	expect_held(task, &o, AE_FUTURE_BEGIN, AE_FUTURE_READY, false);
	/* What is no memory is not read. */
	o = (struct object){.untouched = true, .box = (struct in_box *)(void *)(8 * AGENT_PAGE)};
	if (!is_memory((uint64_t)o.box))
		expect_held(task, &o, 0, 0, false);
	(void)state;
}

/* ---- one that the method makes and drops as well ---- */

static void (*make)(void *), (*flush)(void *);
/* What the method does, one after another: m it makes a future, p polls it, r that returns, f it calls flush(). */
static const char *script;

static void make_body(void *first_member)
{
	struct object *o = first_member;

	o->box->tag = 1;
	o->box->future.state = 0;
}

static void flush_body(void *o)
{
	(void)o;
}

static void around_body(struct object *o)
{
	for (const char *step = script; *step; step++)
		switch (*step) {
		case 'm':
			make(&o->words[0]);
			break;
		case 'p':
			o->box->future.state = 3;
			break;
		case 'r':
			o->box->tag = 0;
			break;
		case 'x': /* a function of the same name on another object */
			make(&(struct object){.box = o->box});
			break;
		default:
			flush(o);
		}
}

static void around_poll(struct boxed_task *task)
{
	(void)task;
	method(of_the_connection);
}

enum { AROUND_KIND = 29, AROUND_TASK_KIND = 30, LOOK_KIND = 31 };

/* The events of a poll: B begin, F the first one, P pending, R ready, of the object's future; L a link. */
static void expect_around(struct agent_hook *task, struct object *o, const char *does,
			  const char *events)
{
	struct boxed_task t = {.state = 3 * TOKIO_REFERENCE, .id = 4};
	struct agent_event e;

	of_the_connection = o;
	script = does;
	((void (*)(struct boxed_task *))area_stub(&area, task))(&t);
	expect_event(AE_POLL_BEGIN, AROUND_TASK_KIND, (void *)4);
	for (; *events; events++) {
		if (*events == 'L') {
			assert_true(area_next(&area, area_my_ring(&area), &e));
			assert_int_equal(e.word0 & 0xff, AE_CHAIN);
			assert_int_equal(e.word1, AGENT_CHAIN_KIND + AROUND_KIND);
			continue;
		}
		expect_event(*events == 'B'   ? AE_FUTURE_BEGIN
			     : *events == 'F' ? AE_FUTURE_FIRST
			     : *events == 'P' ? AE_FUTURE_PENDING
					      : AE_FUTURE_READY,
			     AROUND_KIND, &o->box->future);
	}
	expect_event(AE_POLL_PENDING, AROUND_TASK_KIND, (void *)4);
	expect_nothing();
}

static void test_around(void **state)
{
	struct agent_hook *hook =
		area_hook(&area, AH_FUTURE, AROUND_KIND, (const void *)around_body);
	struct agent_hook *task =
		area_hook(&area, AH_TOKIO_POLL, AROUND_TASK_KIND, (const void *)around_poll);
	struct agent_hook *making = area_hook(&area, AH_FUTURE, LOOK_KIND, (const void *)make_body);
	struct agent_hook *flushing =
		area_hook(&area, AH_FUTURE, LOOK_KIND, (const void *)flush_body);
	struct in_box box = {0};
	struct object o = {.box = &box};

	hook->future.held_offset = offsetof(struct object, box);
	hook->future.future_offset = offsetof(struct in_box, future);
	hook->future.result = making->future.result = flushing->future.result =
		(struct agent_result){.from = AR_STATE,
				      .offset = offsetof(struct future, state),
				      .size = 1,
				      .ready = 1};
	hook->future.pending = 2;
	hook->future.tag_size = sizeof(box.tag);
	hook->future.tag_some = 1;
	hook->flags |= AGENT_HOOK_CHAIN | AGENT_HOOK_HELD | AGENT_HOOK_AROUND | AGENT_HOOK_HANDLER;
	making->flags |= AGENT_HOOK_CHAIN | AGENT_HOOK_LOOK;
	flushing->flags |= AGENT_HOOK_CHAIN | AGENT_HOOK_LOOK;
	method = area_stub(&area, hook);
	make = area_stub(&area, making);
	flush = area_stub(&area, flushing);
	task->task.id_offset = offsetof(struct boxed_task, id);
	task->task.end_offset = sizeof(struct boxed_task);
	task->flags |= AGENT_HOOK_TASK | AGENT_HOOK_SERVES;

	/* It isn't known yet where the future is. */
	expect_around(task, &o, "mprf", "");
	hook->last_state = LAST_STATE;
	/* Nothing to do; a request that is answered at once, two of them, one that waits for a while. */
	expect_around(task, &o, "", "");
	expect_around(task, &o, "f", "");
	expect_around(task, &o, "mprf", "FR");
	expect_around(task, &o, "mpr", "FR");
	expect_around(task, &o, "mprfmprf", "FRFR");
	expect_around(task, &o, "mprmpr", "FRFR");
	expect_around(task, &o, "mpf", "FPL");
	expect_around(task, &o, "f", "BPL");
	expect_around(task, &o, "", "BPL");
	expect_around(task, &o, "rfmp", "BRFPL");
	expect_around(task, &o, "r", "BR");
	/* Of another object nothing is known. */
	expect_around(task, &o, "xrf", "");
	/* Outside of the method what it calls is not looked at. */
	make(&o);
	flush(&o);
	expect_nothing();
	expect_around(task, &o, "prf", "BR");
	/* Of a program's own task it is no request, but its await point. */
	task->flags &= (uint16_t)~AGENT_HOOK_SERVES;
	expect_around(task, &o, "mp", "L");
	expect_around(task, &o, "rf", "");
	(void)state;
}

/* What a boxed future returned that was written by hand: pending, also in memory, or not. */
static struct pair written_pair(struct future *f, uint64_t cx)
{
	(void)cx;
	return (struct pair){f->words[0], 5};
}

static struct large written_large(struct future *f, uint64_t cx)
{
	(void)cx;
	return (struct large){.tag = f->words[0]};
}

static struct pair (*poll_written)(struct future *, uint64_t);
static struct large (*poll_written_large)(struct future *, uint64_t);
static struct future *of_the_written;

static void written_task_poll(struct boxed_task *task)
{
	(void)task;
	if (poll_written) {
		struct pair p = poll_written(of_the_written, 3);

		assert_int_equal(p.first, of_the_written->words[0]);
		assert_int_equal(p.second, 5);
	} else {
		assert_int_equal(poll_written_large(of_the_written, 3).tag,
				 of_the_written->words[0]);
	}
}

/* A boxed future that was written by hand is recorded from when it is known what it returns; the coroutine in it
 * is a link as long as it is pending. */
static void test_written_box(void **state)
{
	enum { WRITTEN_KIND = 29, WRITTEN_TASK_KIND = 30, PENDING = 2, POINT = 33 };
	struct {
		struct agent_step first;
		struct node node;
		struct agent_step steps[5];
	} program = {
		.first = {.next = 1, .delta = offsetof(struct future, state)},
		.node = {.n = 4, .kind = NODE_STATE, .size = 1},
		.steps = {[3] = {.point = POINT}},
	};
	struct agent_hook *task =
		area_hook(&area, AH_TOKIO_POLL, WRITTEN_TASK_KIND, (const void *)written_task_poll);
	static struct future future;

	task->task.id_offset = offsetof(struct boxed_task, id);
	task->task.end_offset = sizeof(struct boxed_task);
	task->flags |= AGENT_HOOK_TASK;
	of_the_written = &future;
	for (int memory = 0; memory < 2; memory++) {
		struct agent_hook *hook = area_hook(&area, AH_FUTURE, WRITTEN_KIND,
						    memory ? (const void *)written_large
							   : (const void *)written_pair);

		hook->flags |= AGENT_HOOK_CHAIN;
		hook->future.value_bytes = sizeof(future);
		hook->program = (uint64_t)&program;
		poll_written = memory ? NULL : area_stub(&area, hook);
		poll_written_large = memory ? area_stub(&area, hook) : NULL;
		/* What it returns isn't known, pending, ready, pending with another state in it. */
		for (int how = 0; how < 4; how++) {
			struct boxed_task t = {.state = 3 * TOKIO_REFERENCE, .id = 4};
			struct agent_event e;

			if (how == 1) {
				hook->future.pending = PENDING;
				hook->future.result =
					(struct agent_result){.from = memory ? AR_MEMORY : AR_FIRST,
							      .size = 8,
							      .ready = AR_ANY_READY};
			}
			future = (struct future){.words = {how == 2 ? 0 : PENDING},
						 .state = how == 3 ? 1 : 3};
			((void (*)(struct boxed_task *))area_stub(&area, task))(&t);
			expect_event(AE_POLL_BEGIN, WRITTEN_TASK_KIND, (void *)4);
			if (how == 1) {
				assert_true(area_next(&area, area_my_ring(&area), &e));
				assert_int_equal(e.word0 & 0xff, AE_CHAIN);
				assert_int_equal(e.word1, POINT);
			}
			expect_event(AE_POLL_PENDING, WRITTEN_TASK_KIND, (void *)4);
			expect_nothing();
		}
	}
	(void)state;
}

/* A recording that is switched off in the middle, a poll outside of every task's. */
static void test_chain_apart(void **state)
{
	struct box pending = {.end = 3};

	expect_chain((struct box *[]){&pending, NULL}, (uint16_t[]){LINK}, 1);
	for (size_t i = 0; i < 2 * AGENT_CHAIN_MAX; i++)
		poll_box(&pending);
	area.live->enabled = 0;
	poll_box(&pending);
	area.live->enabled = 1;
	expect_nothing();
	expect_chain((struct box *[]){&pending, NULL}, (uint16_t[]){LINK}, 1);
	(void)state;
}

/* ---- polls on other stacks ---- */

static ucontext_t on_own_stack, coroutine;
static char coroutine_stack[1 << 16];
static bool leaves; /* the next poll of the coroutine's future is left in its middle */

static struct pair poll_leaving(struct future *f, uint64_t cx)
{
	(void)cx;
	if (leaves) {
		leaves = false;
		swapcontext(&coroutine, &on_own_stack);
	}
	f->state = 3;
	return (struct pair){1, 0};
}

static struct pair (*poll_inside)(struct future *, uint64_t);
static struct future left_future;

static void coroutine_body(void)
{
	poll_inside(&left_future, 6);
	for (;;)
		swapcontext(&coroutine, &on_own_stack);
}

static void enter_coroutine(void)
{
	swapcontext(&on_own_stack, &coroutine);
}

static struct pair poll_around(struct future *f, uint64_t cx)
{
	(void)cx;
	if (leaves)
		enter_coroutine();
	f->state = 3;
	return (struct pair){1, 0};
}

static void *go_on_elsewhere(void *unused)
{
	(void)unused;
	enter_coroutine();
	return NULL;
}

static struct agent_hook *hook_of(struct pair (*poll)(struct future *, uint64_t), uint16_t flags)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 5, (const void *)poll);

	hook->future.result = state_hook()->future.result;
	hook->future.pending = 2;
	hook->flags |= flags;
	return hook;
}

static uint64_t take_events(uint64_t *ret_ends)
{
	struct agent_event e;
	uint64_t n = 0;

	*ret_ends = 0;
	while (area_next(&area, area_my_ring(&area), &e)) {
		n++;
		*ret_ends += (e.word0 & 0xff) == AE_FUTURE_PENDING;
	}
	return n;
}

/*
 * Coroutines of a program, of whatever library, are left in the middle of a poll, and the poll around each
 * ends. The first is gone on with later, by this thread or another one, or is not, the others never are:
 * whatever is polled after that is recorded as ever.
 */
static void left_on_another_stack(uint16_t flags, bool goes_on, bool elsewhere)
{
	struct pair (*around)(struct future *, uint64_t) =
		area_stub(&area, hook_of(poll_around, flags));
	struct agent_hook *plain = state_hook();
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, plain);
	struct future f = {.state = 0};
	uint64_t ends, dropped;
	pthread_t thread;

	poll_inside = area_stub(&area, hook_of(poll_leaving, flags));
	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = coroutine_stack;
	coroutine.uc_stack.ss_size = sizeof(coroutine_stack);
	makecontext(&coroutine, coroutine_body, 0);
	for (unsigned i = 0; i < 2 * AGENT_MAX_FUTURES; i++) {
		leaves = true;
		left_future.state = 0;
		/* that of the last turn is gone, with what was on its stack */
		memset(coroutine_stack, 0xff, sizeof(coroutine_stack));
		makecontext(&coroutine, coroutine_body, 0);
		around(&f, 6);
		if (!i && goes_on && elsewhere) {
			assert_int_equal(pthread_create(&thread, NULL, go_on_elsewhere, NULL), 0);
			pthread_join(thread, NULL);
		} else if (!i && goes_on) {
			enter_coroutine();
		}
		take_events(&ends);
		dropped = area_my_ring(&area)->dropped;
		for (unsigned k = 0; k < 3; k++)
			poll(&f, 6, 0, 0, 0, 0);
		assert_int_equal(take_events(&ends), 6);
		assert_int_equal(ends, 3);
		assert_int_equal(area_my_ring(&area)->dropped, dropped);
	}
}

static void test_left_on_another_stack(void **state)
{
	for (int how = 0; how < 3; how++) {
		left_on_another_stack(0, how > 0, how > 1);
		left_on_another_stack(AGENT_HOOK_CHAIN, how > 0, how > 1);
	}
	(void)state;
}

/* What is in a box may be forgotten, and its memory used otherwise, as soon as it was polled: the agent
 * doesn't look at it any more. */
static struct box *forgotten;

static void forget_body(struct box *b)
{
	(void)b;
	poll_box(forgotten);
	munmap(forgotten, 4096);
}

static void test_forgotten(void **state)
{
	struct box around = {.end = 3};
	struct agent_hook *hook = hook_of(
		(struct pair(*)(struct future *, uint64_t))(void *)forget_body, AGENT_HOOK_CHAIN);
	void (*poll)(struct box *) = area_stub(&area, hook);
	uint64_t ends;

	for (int i = 0; i < 3; i++) {
		forgotten = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
		assert_true(forgotten != MAP_FAILED);
		forgotten->end = 3;
		around.future.state = 3;
		poll(&around);
	}
	take_events(&ends);
	/* of what is polled after that the chain has nothing of it */
	struct box pending = {.end = 3};
	expect_chain((struct box *[]){&pending, NULL}, (uint16_t[]){LINK}, 1);
	expect_chain((struct box *[]){NULL}, NULL, 0);
	(void)state;
}

static struct agent_notes *notes_at(uint32_t i)
{
	return (struct agent_notes *)agent_mapping_owner(&area, i);
}

static bool chain_is_given;

static void *take_the_chain(void *arg)
{
	struct agent_notes *n = arg;

	for (uint16_t v = 0; !__atomic_load_n(&chain_is_given, __ATOMIC_RELAXED); v++) {
		__atomic_store_n(&n->n_chain, v % 8, __ATOMIC_RELAXED);
		__atomic_store_n(&n->chain_base, v % 5, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Another thread has the same notes, as after a second attach that has given them away: the links
 * are of no use then, and the notes of others stay as they are. */
static void test_chain_of_two_threads(void **state)
{
	enum { TURNS = 300000, DEEP = 6 };
	struct box *inside[DEEP][4] = {0}, boxes[DEEP] = {0}, beside = {.end = 3};
	struct agent_notes *mine = NULL, *next;
	struct boxed_task t = {.state = 3 * TOKIO_REFERENCE, .id = 4};
	struct agent_hook *task = NULL;
	struct agent_event e;
	pthread_t thread;

	for (uint32_t i = 0; i < area.n_hooks; i++)
		task = area.hooks[i].kind == BOXED_TASK_KIND ? &area.hooks[i] : task;
	for (uint32_t i = 0; i + 1 < area.state->n_rings && !mine; i++)
		if ((uint32_t)agent_mapping_owner(&area, i)->claim == (uint32_t)syscall(SYS_gettid))
			mine = notes_at(i);
	assert_non_null(task);
	assert_non_null(mine);
	next = mine + 1;
	memset(next->polls, 0x5a, sizeof(next->polls));
	for (size_t i = 0; i < DEEP; i++) {
		boxes[i] = (struct box){.end = 3, .inside = inside[i]};
		inside[i][0] = &beside;
		inside[i][1] = i + 1 < DEEP ? &boxes[i + 1] : &beside;
		inside[i][2] = &beside;
	}
	of_the_task = (struct box *[]){&boxes[0], &beside, NULL};
	assert_int_equal(pthread_create(&thread, NULL, take_the_chain, mine), 0);
	for (size_t i = 0; i < TURNS; i++) {
		((void (*)(struct boxed_task *))area_stub(&area, task))(&t);
		while (area_next(&area, area_my_ring(&area), &e))
			;
	}
	__atomic_store_n(&chain_is_given, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	mine->n_chain = mine->chain_base = 0;
	for (size_t i = 0; i < sizeof(next->polls); i++)
		assert_int_equal(((uint8_t *)next->polls)[i], 0x5a);
	memset(next->polls, 0, sizeof(next->polls));
	(void)state;
}

static void test_off(void **state)
{
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, state_hook());
	struct future f = {.state = 0};

	area.live->enabled = 0;
	assert_int_equal(poll(&f, 6, 0, 0, 0, 0).first, 1);
	area.live->enabled = 1;
	expect_nothing();
	(void)state;
}

/* By what is returned: in the first register, in the second, in memory. */
static void test_returned(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 6, (const void *)poll_pair);
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, hook);
	struct future f = {.state = 0};

	hook->future.result = (struct agent_result){.from = AR_FIRST, .size = 1, .ready = 0};
	hook->future.pending = 1;
	poll(&f, 6, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 6, &f);
	expect_event(AE_FUTURE_PENDING, 6, &f);
	poll(&f, 7, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 6, &f);
	expect_event(AE_FUTURE_READY, 6, &f);
	hook->future.pending = 9; /* neither is what was returned */
	poll(&f, 6, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 6, &f);
	expect_event(AE_FUTURE_UNKNOWN, 6, &f);
	hook->future.result =
		(struct agent_result){.from = AR_SECOND, .size = 4, .ready = AR_ANY_READY};
	hook->future.pending = 0x90abcdef;
	poll(&f, 6, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 6, &f);
	expect_event(AE_FUTURE_PENDING, 6, &f);
	(void)state;
}

static void test_memory(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 7, (const void *)poll_large);
	struct large (*poll)(struct future *, uint64_t) = area_stub(&area, hook);
	struct future f = {.state = 0};

	hook->flags |= AGENT_HOOK_MEMORY;
	hook->future.result =
		(struct agent_result){.from = AR_MEMORY, .size = 8, .ready = AR_ANY_READY};
	hook->future.pending = 4;
	struct large l = poll(&f, 4);
	assert_ptr_equal(polled, &f);
	assert_int_equal(l.words[2], 3);
	expect_event(AE_FUTURE_BEGIN, 7, &f);
	expect_event(AE_FUTURE_PENDING, 7, &f);
	poll(&f, 5);
	expect_event(AE_FUTURE_BEGIN, 7, &f);
	expect_event(AE_FUTURE_READY, 7, &f);
	(void)state;
}

static struct future *borrowed;

static uint64_t poll_borrowed(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
			      uint64_t f)
{
	note(a, b, c, d, e, f);
	borrowed->state = 3;
	return 77;
}

/* Behind one pointer or two, from any argument; the other arguments are no pointers. */
static void test_borrowed(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 9, (const void *)poll_borrowed);
	uint64_t (*poll)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, hook);
	struct future f = {0}, *owner = &f, **borrower = &owner;

	borrowed = &f;
	hook->future.result = (struct agent_result){
		.from = AR_STATE, .offset = offsetof(struct future, state), .size = 1, .ready = 1};
	hook->future.pending = 2;
	hook->flags |= AGENT_HOOK_INDIRECT;
	for (uint16_t n = 1; n <= 2; n++) {
		for (uint16_t i = 0; i < 6; i++) {
			uint64_t a[6] = {11, 12, 13, 14, 15, 16};

			a[i] = n == 1 ? (uint64_t)&owner : (uint64_t)&borrower;
			hook->future.argument = i + 1;
			hook->future.n_pointers = n;
			f.state = 0;
			assert_int_equal(poll(a[0], a[1], a[2], a[3], a[4], a[5]), 77);
			assert_memory_equal(seen, a, sizeof(a));
			expect_event(AE_FUTURE_BEGIN, 9, &f);
			expect_event(AE_FUTURE_PENDING, 9, &f);
		}
	}
	expect_nothing();
	(void)state;
}

/* Layout programs are written word by word here: a node's head, a step. */
/* `size`: of a state; 0: branches; POINTER_NODE. */
static uint16_t put_node(uint64_t *words, size_t *n, uint64_t base, uint32_t steps, uint32_t size)
{
	const struct node node = {base, steps,
				  size ? size == POINTER_NODE ? NODE_POINTER : NODE_STATE
				       : NODE_BRANCHES,
				  size == POINTER_NODE ? 0 : (uint8_t)size};
	uint16_t at = (uint16_t)*n;

	memcpy(words + at, &node, sizeof(node));
	*n += sizeof(node) / 8 + steps + 1;
	return at;
}

static void put_step(uint64_t *words, uint16_t node, uint32_t i, uint16_t point, uint16_t next,
		     int64_t delta)
{
	const struct agent_step step = {point, next, (int32_t)delta};

	memcpy(words + node + sizeof(struct node) / 8 + i, &step, sizeof(step));
}

/* A program that lists what lies in it: the future itself at point 21, then two side by side, the
 * second of them at its second state. */
static void test_list(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 8, (const void *)poll_pair);
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, hook);
	struct {
		struct future f;
		uint8_t pad[7], first, second;
	} all = {.first = 3, .second = 4};
	static struct {
		struct agent_step root;
		struct node own;
		struct agent_step own_steps[2];
		struct node apart;
		struct agent_step apart_steps[3];
		struct node leaf;
		struct agent_step leaf_steps[3];
	} program = {
		.root = {0, 1, offsetof(struct future, state)},
		.own = {3, 1, NODE_STATE, 1},
		.own_steps = {{21, 5, 0}, {0, 0, 0}},
		.apart = {0, 2, NODE_BRANCHES, 0},
		.apart_steps = {{0, 10, 8}, {0, 10, 9}},
		.leaf = {3, 2, NODE_STATE, 1},
		.leaf_steps = {{22, 0, 0}, {23, 0, 0}},
	};
	uint64_t own = (uint64_t)&all.f.state;

	assert_int_equal(offsetof(__typeof__(program), apart), 5 * 8);
	assert_int_equal(offsetof(__typeof__(program), leaf), 10 * 8);
	assert_ptr_equal(&all.first, &all.f.state + 15);
	program.apart_steps[0].delta = (int32_t)(&all.first - &all.f.state);
	program.apart_steps[1].delta = (int32_t)(&all.second - &all.f.state);
	hook->future.result = state_hook()->future.result;
	hook->future.pending = 2;
	hook->flags |= AGENT_HOOK_LIST;
	hook->program = (uint64_t)&program;
	poll(&all.f, 6, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 8, &all.f);
	expect_event(AE_FUTURE_SNAPSHOT_END, 21, (void *)own);
	expect_event(AE_FUTURE_SNAPSHOT_END, 22, &all.first);
	expect_event(AE_FUTURE_SNAPSHOT_END, 23, &all.second);
	expect_event(AE_FUTURE_PENDING, 8, &all.f);
	poll(&all.f, 7, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 8, &all.f);
	expect_event(AE_FUTURE_SNAPSHOT_BEGIN, 21, (void *)own);
	expect_event(AE_FUTURE_SNAPSHOT_BEGIN, 22, &all.first);
	expect_event(AE_FUTURE_SNAPSHOT_BEGIN, 23, &all.second);
	expect_event(AE_FUTURE_READY, 8, &all.f);
	/* alone, it has its point at its end, and no list */
	program.own_steps[0].next = 0;
	poll(&all.f, 6, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 8, &all.f);
	expect_event(AE_FUTURE_PENDING_AT, 21, &all.f);
	expect_nothing();
}

/* The same where the tool has told of the states in which it is alone. */
static void test_alone(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 8, (const void *)poll_pair);
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, hook);
	struct future f = {.state = 0};
	uint64_t words[32] = {0};
	size_t n = 1;
	uint16_t node = put_node(words, &n, 0, 5, 1), leaf = put_node(words, &n, 0, 1, 1);
	const struct agent_step root = {0, node, offsetof(struct future, state)};

	memcpy(words, &root, sizeof(root));
	put_step(words, node, 3, 23, 0, 0);
	put_step(words, node, 4, 24, leaf, -16); /* its first byte is the state of another */
	put_step(words, leaf, 0, 25, 0, 0);
	hook->future.result = state_hook()->future.result;
	hook->future.pending = 2;
	hook->flags |= AGENT_HOOK_LIST;
	hook->program = (uint64_t)words;
	hook->future.alone = 1 << 0 | 1 << 3;
	poll(&f, 6, 0, 0, 0, 0); /* from 0 to 3 */
	expect_event(AE_FUTURE_BEGIN, 8, &f);
	expect_event(AE_FUTURE_PENDING_AT, 23, &f);
	f.state = 4;
	poll(&f, 6, 0, 0, 0, 0); /* from 4 to 3 */
	expect_event(AE_FUTURE_BEGIN, 8, &f);
	expect_event(AE_FUTURE_SNAPSHOT_BEGIN, 24, &f.state);
	expect_event(AE_FUTURE_SNAPSHOT_BEGIN, 25, &f);
	expect_event(AE_FUTURE_PENDING_AT, 23, &f);
	poll(&f, 7, 0, 0, 0, 0);
	expect_event(AE_FUTURE_BEGIN, 8, &f);
	expect_event(AE_FUTURE_READY, 8, &f);
	expect_nothing();
	(void)state;
}

/*
 * A future that is no coroutine holds two: one by value, from which a pointer leads to a third, and
 * one behind a pointer. When it is ready, what it holds by value is told once more, as suspended or
 * returned, and no pointer is followed.
 */
static void test_previous(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 9, (const void *)poll_pair);
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, hook);
	uint8_t third = 3, fourth = 3;
	struct {
		struct future f;
		uint8_t *to_third, *to_fourth;
		uint8_t second;
	} all = {.to_third = &third, .to_fourth = &fourth};
	int64_t second = (int64_t)((uint64_t)&all.second - (uint64_t)&all);
	int64_t to_third = (int64_t)((uint64_t)&all.to_third - (uint64_t)&all.second);
	int64_t to_fourth = (int64_t)((uint64_t)&all.to_fourth - (uint64_t)&all);
	uint64_t words[64] = {0};
	size_t n = 1;
	uint16_t both = put_node(words, &n, 0, 2, 0), held = put_node(words, &n, 1, 3, 1);
	uint16_t near = put_node(words, &n, 41, 0, POINTER_NODE);
	uint16_t far = put_node(words, &n, 42, 0, POINTER_NODE);
	uint16_t leaf = put_node(words, &n, 3, 1, 1);
	const struct agent_step root = {0, both, 0};

	assert_true(n <= 64);
	memcpy(words, &root, sizeof(root));
	put_step(words, both, 0, 0, held, second);
	put_step(words, both, 1, 0, far, to_fourth);
	put_step(words, held, 0, 33, 0, 0); /* it has returned */
	put_step(words, held, 2, 34, near, to_third);
	put_step(words, near, 0, 0, leaf, 0);
	put_step(words, far, 0, 0, leaf, 0);
	put_step(words, leaf, 0, 35, 0, 0);
	hook->future.result =
		(struct agent_result){.from = AR_FIRST, .size = 1, .ready = AR_ANY_READY};
	hook->future.pending = 1;
	hook->flags |= AGENT_HOOK_LIST;
	hook->program = (uint64_t)words;

	for (int i = 0; i < 3; i++) {
		const bool ready = i > 0;

		all.second = i < 2 ? 3 : 1;
		poll(&all.f, ready ? 7 : 6, 0, 0, 0, 0);
		expect_event(AE_FUTURE_BEGIN, 9, &all.f);
		for (int at = 0; at < (ready ? 1 : 2); at++) {
			uint64_t type = at ? AE_FUTURE_SNAPSHOT_END : AE_FUTURE_SNAPSHOT_BEGIN;

			expect_event(type, i < 2 ? 34 : 33, &all.second);
			if (i < 2) {
				expect_event(type, 41, &all.to_third);
				expect_event(type, 41, &third);
				expect_event(type, 35, &third);
			}
			expect_event(type, 42, &all.to_fourth);
			expect_event(type, 42, &fourth);
			expect_event(type, 35, &fourth);
		}
		if (ready)
			expect_event(AE_FUTURE_SNAPSHOT_PREV, i < 2 ? 34 : 33, &all.second);
		expect_event(ready ? AE_FUTURE_READY : AE_FUTURE_PENDING, 9, &all.f);
		expect_nothing();
	}
	(void)state;
}

/* ---- wrong debug information ---- */

enum { PAGE = 4096, FAR_KIND = 10, OWN_POINT = 61, POINTER = 62, POINT = 63 };

/* A coroutine that ends with the first of two pages, of which the second can't be touched, and a
 * program that goes on from its state to what isn't in it. */
struct far {
	struct agent_hook *hook;
	struct future *f;
	char *pages;
	uint64_t words[32];
};

static void far_init(struct far *far)
{
	*far = (struct far){.hook = area_hook(&area, AH_FUTURE, FAR_KIND, (const void *)poll_pair)};
	far->pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(far->pages != MAP_FAILED);
	assert_int_equal(mprotect(far->pages + PAGE, PAGE, PROT_NONE), 0);
	far->f = (struct future *)(far->pages + PAGE) - 1;
	far->f->state = 3;
	far->hook->future.result = state_hook()->future.result;
	far->hook->future.pending = 2;
	far->hook->flags = AGENT_HOOK_FRAME | AGENT_HOOK_LIST | AGENT_HOOK_SHOWN;
	far->hook->program = (uint64_t)far->words;
}

static void far_done(struct far *far)
{
	assert_int_equal(munmap(far->pages, 2 * PAGE), 0);
	area.n_hooks -= 2;
}

/* Goes on to a state of `size` bytes, or by a pointer, so far from the coroutine's own. */
static void far_program(struct far *far, int64_t delta, uint32_t size, uint32_t zero_bits)
{
	size_t n = 1;
	uint16_t node = put_node(far->words, &n, 3, 1, 1), next, leaf;
	const struct agent_step root = {0, node, offsetof(struct future, state)};

	next = put_node(far->words, &n, size == POINTER_NODE ? POINTER : 0, 0, size);
	leaf = put_node(far->words, &n, 0, 0, 1);
	((struct node *)(far->words + next))->n = zero_bits;
	memcpy(far->words, &root, sizeof(root));
	put_step(far->words, node, 0, OWN_POINT, next, delta);
	put_step(far->words, next, 0, size == POINTER_NODE ? 0 : POINT,
		 size == POINTER_NODE ? leaf : 0, 0);
	put_step(far->words, leaf, 0, POINT, 0, 0);
}

static void far_poll(struct far *far)
{
	struct pair (*poll)(struct future *, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) =
		area_stub(&area, far->hook);

	assert_int_equal(poll(far->f, 6, 0, 0, 0, 0).first, 1);
}

/* It is seen there, behind a pointer if `slot` isn't NULL. */
static void far_seen(struct far *far, const void *slot, const void *at)
{
	far_poll(far);
	expect_event(AE_FUTURE_BEGIN, FAR_KIND, far->f);
	for (uint64_t type = AE_FUTURE_SNAPSHOT_BEGIN; type <= AE_FUTURE_SNAPSHOT_END; type++) {
		expect_event(type, OWN_POINT, &far->f->state);
		if (slot) {
			expect_event(type, POINTER, slot);
			expect_event(type, POINTER, at);
		}
		expect_event(type, POINT, at);
	}
	expect_event(AE_FUTURE_PENDING, FAR_KIND, far->f);
	expect_nothing();
}

/* It isn't looked for there, and all else is seen. */
static void far_unseen(struct far *far)
{
	far_poll(far);
	expect_event(AE_FUTURE_BEGIN, FAR_KIND, far->f);
	expect_event(AE_FUTURE_PENDING_AT, OWN_POINT, far->f);
	expect_nothing();
}

static void test_far_steps(void **state)
{
	struct far far;

	far_init(&far);
	far_program(&far, -8, 8, 0); /* within the page */
	far_seen(&far, NULL, &far.f->words[1]);
	far_program(&far, 8, 1, 0); /* the first byte behind it */
	far_unseen(&far);
	far_program(&far, 4, 8, 0); /* half behind it */
	far_unseen(&far);
	for (int64_t delta = PAGE; delta < INT32_MAX; delta *= 3) {
		struct agent_event e;

		/* somewhere, and nobody knows what is there */
		far_program(&far, delta, 8, 0);
		far_poll(&far);
		far_program(&far, -delta, 8, 0);
		far_poll(&far);
		while (area_next(&area, area_my_ring(&area), &e))
			;
	}
	/* once there is something the kernel says so, and is not believed in the next poll */
	far_program(&far, 8, 1, 0);
	assert_int_equal(mprotect(far.pages + PAGE, PAGE, PROT_READ), 0);
	far_seen(&far, NULL, far.pages + PAGE);
	assert_int_equal(mprotect(far.pages + PAGE, PAGE, PROT_NONE), 0);
	far_unseen(&far);
	/* where it mustn't be asked */
	assert_int_equal(mprotect(far.pages + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
	area.state->may_call = 0;
	far_unseen(&far);
	/* but what its own code begins with is there */
	far.f = (struct future *)(far.pages + PAGE - offsetof(struct future, state));
	far.f->state = 3;
	far_program(&far, -8, 8, 0);
	far_seen(&far, NULL, &far.f->words[1]);
	area.state->may_call = AGENT_MAY_ASK;
	far_done(&far);
	(void)state;
}

static void test_far_pointers(void **state)
{
	static const uint64_t none[] = {0,	    8,		1 << 12,       0x1a225f5a560,
					1ull << 47, 1ull << 63, UINT64_MAX - 7};
	struct far far;
	uint64_t *slot, target[2] = {0};

	far_init(&far);
	slot = &far.f->words[1];
	far_program(&far, -8, POINTER_NODE, 7);
	*slot = (uint64_t)&target[0];
	far_seen(&far, slot, &target[0]);
	*slot = (uint64_t)&target[0] + 4; /* not aligned for what it should be */
	far_unseen(&far);
	*slot = (uint64_t)far.pages + PAGE;
	far_unseen(&far);
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		*slot = none[i];
		far_unseen(&far);
	}
	/* where the kernel mustn't be asked only what is known to be there is seen */
	area.state->may_call = 0;
	*slot = (uint64_t)&target[0];
	far_unseen(&far);
	*slot = (uint64_t)far.f;
	far_seen(&far, slot, far.f);
	area.state->may_call = AGENT_MAY_ASK;
	/* the pointer itself */
	far_program(&far, 8, POINTER_NODE, 0);
	far_unseen(&far);
	far_program(&far, -7, POINTER_NODE, 0);
	far_unseen(&far);
	far_done(&far);
	(void)state;
}

/* A seccomp filter that kills for the question, which isn't asked then. */
static void test_far_seccomp(void **state)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = 4, .filter = filter};
	uint64_t target = 0;
	struct far far;
	int status;

	far_init(&far);
	far_program(&far, -8, POINTER_NODE, 7);
	far.f->words[1] = (uint64_t)&target;
	for (uint32_t may_ask = 0; may_ask < 2; may_ask++) {
		pid_t pid = fork();

		if (pid == 0) {
			/* It records on, into rings of its own. */
			if (mmap(area.rings, area.rings_bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
				_exit(1);
			area.live->enabled = 1;
			area.state->may_call = may_ask;
			if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
			    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
				_exit(1);
			struct pair (*poll)(struct future *, uint64_t) = area_stub(&area, far.hook);
			_exit(poll(far.f, 6).first == 1 ? 0 : 2);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (may_ask)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
		else
			assert_int_equal(status, 0);
	}
	far_done(&far);
	(void)state;
}

static uint64_t poll_number(uint64_t a)
{
	return a + 1;
}

/* What should be borrowed, or be the place of the result, and is none. */
static void test_far_arguments(void **state)
{
	struct agent_hook *hook = area_hook(&area, AH_FUTURE, 11, (const void *)poll_number);
	uint64_t (*poll)(uint64_t, uint64_t) = area_stub(&area, hook);
	struct far far;
	uint64_t wrong[4], slot;

	far_init(&far);
	wrong[0] = (uint64_t)far.pages + PAGE;
	wrong[1] = 0x1a225f5a56a;
	wrong[2] = 5;
	wrong[3] = UINT64_MAX - 7;
	for (size_t i = 0; i < 4; i++) {
		hook->future.result =
			(struct agent_result){.from = AR_STATE, .size = 1, .ready = 1};
		hook->future.pending = 2;
		hook->flags = AGENT_HOOK_FRAME | AGENT_HOOK_INDIRECT;
		hook->future.argument = 1;
		hook->future.n_pointers = 1;
		assert_int_equal(poll(wrong[i], 0), wrong[i] + 1);
		slot = wrong[i];
		assert_int_equal(poll((uint64_t)&slot, 0), (uint64_t)&slot + 1);
		expect_nothing();
		/* the future itself */
		hook->flags = AGENT_HOOK_FRAME | AGENT_HOOK_LIST;
		assert_int_equal(poll(wrong[i], 0), wrong[i] + 1);
		expect_event(AE_FUTURE_BEGIN, 11, (void *)(wrong[i] & AGENT_REFS));
		expect_event(AE_FUTURE_UNKNOWN, 11, (void *)(wrong[i] & AGENT_REFS));
		/* the result */
		hook->future.result =
			(struct agent_result){.from = AR_MEMORY, .size = 8, .ready = 1};
		hook->flags = AGENT_HOOK_FRAME | AGENT_HOOK_MEMORY;
		assert_int_equal(poll(wrong[i], 1), wrong[i] + 1);
		expect_event(AE_FUTURE_BEGIN, 11, (void *)1);
		expect_event(AE_FUTURE_UNKNOWN, 11, (void *)1);
		expect_nothing();
	}
	far_done(&far);
	(void)state;
}

/* A block_on: its frame has a future that is suspended, and waits twice, by what is in %rdi; the
 * address of the future goes to (%rsi). */
__asm__(".text\n"
	".type wait_twice, @function\n"
	"wait_twice:\n"
	"	push %rbx\n"
	"	sub $48, %rsp\n"
	"	mov %rdi, %rbx\n"
	"	lea 8(%rsp), %rax\n"
	"	mov %rax, (%rsi)\n"
	"	movb $3, 24(%rsp)\n" /* the state */
	"	call *%rbx\n"
	"wait_twice_back:\n"
	"	call *%rbx\n" /* nobody knows of this one */
	"	movzbl 24(%rsp), %eax\n"
	"	add $48, %rsp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size wait_twice, . - wait_twice\n");
extern const char wait_twice_back[];
int wait_twice(void *wait, struct future **ret_future);

static int n_waits;

static void waits(void)
{
	if (n_waits++ == 0)
		expect_event(AE_FUTURE_PENDING_AT, 51, polled);
	else
		expect_event(AE_FUTURE_BEGIN, 8, polled);
	expect_nothing();
}

/* `park` has `n_sites` from `first` on; at `site` the future lies 8 bytes up the stack and stands
 * at `point`. */
static void set_root(struct agent_hook *park, struct agent_hook *first, uint16_t n_sites,
		     struct agent_hook *site, uint64_t words[static 16], uint16_t point)
{
	size_t n = 1;
	uint16_t node = put_node(words, &n, 3, 1, 1);
	const struct agent_step root = {0, node, offsetof(struct future, state)};

	memcpy(words, &root, sizeof(root));
	put_step(words, node, 0, point, 0, 0);
	park->park.first_site = (uint32_t)(first - area.hooks);
	park->park.n_sites = n_sites;
	site->future.result = state_hook()->future.result;
	site->future.pending = 2;
	site->future.frame_offset = 8;
	site->flags |= AGENT_HOOK_LIST;
	site->program = (uint64_t)words;
}

static void test_root(void **state)
{
	struct agent_hook *park = area_hook(&area, AH_ROOT_PARK, 0, (const void *)waits);
	struct agent_hook *other = area_hook(&area, AH_ROOT_SITE, 7, (const void *)wait_twice);
	struct agent_hook *site = area_hook(&area, AH_ROOT_SITE, 8, wait_twice_back);
	uint64_t words[16] = {0};

	set_root(park, other, 2, site, words, 51);
	assert_int_equal(wait_twice(area_stub(&area, park), &polled), 3);
	assert_int_equal(n_waits, 2);
	(void)state;
}

/* The same with a future that should be where there is no stack. */
static void test_root_nowhere(void **state)
{
	struct agent_hook *park = area_hook(&area, AH_ROOT_PARK, 0, (const void *)expect_nothing);
	struct agent_hook *site = area_hook(&area, AH_ROOT_SITE, 8, wait_twice_back);
	uint64_t words[16] = {0};

	set_root(park, site, 1, site, words, 51);
	site->future.frame_offset = -(1 << 30);
	assert_int_equal(wait_twice(area_stub(&area, park), &polled), 3);
	expect_nothing();
	(void)state;
}

/* The same, four times and from one place. */
__asm__(".text\n"
	".type wait_often, @function\n"
	"wait_often:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	sub $56, %rsp\n"
	"	mov %rdi, %rbx\n"
	"	mov $4, %ebp\n"
	"	lea 8(%rsp), %rax\n"
	"	mov %rax, (%rsi)\n"
	"	movb $3, 24(%rsp)\n"
	"1:	call *%rbx\n"
	"wait_often_back:\n"
	"	dec %ebp\n"
	"	jne 1b\n"
	"	add $56, %rsp\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size wait_often, . - wait_often\n");
extern const char wait_often_back[];
void wait_often(void *wait, struct future **ret_future);

/* Whether it was woken, so that a poll follows: the second time only. */
static bool waits_and_tells(void)
{
	int n = n_waits++;

	if (n == 2)
		expect_event(AE_FUTURE_BEGIN, 9, polled);
	if (n == 0 || n == 2)
		expect_event(AE_FUTURE_PENDING_AT, 52, polled);
	expect_nothing();
	return n == 1;
}

static void test_root_reported(void **state)
{
	struct agent_hook *park = area_hook(&area, AH_ROOT_PARK, 0, (const void *)waits_and_tells);
	struct agent_hook *site = area_hook(&area, AH_ROOT_SITE, 9, wait_often_back);
	uint64_t words[16] = {0};

	set_root(park, site, 1, site, words, 52);
	site->flags |= AGENT_HOOK_RETURNS_READY;
	n_waits = 0;
	wait_often(area_stub(&area, park), &polled);
	assert_int_equal(n_waits, 4);
	expect_nothing();
	(void)state;
}

/* async-io's: a wait, a poll, and the future is ready: then one more call of what waits, which goes on
 * to another such function, and one of what is called at the end of all, after %rdx times more. */
__asm__(".text\n"
	".type wait_and_end, @function\n"
	"wait_and_end:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	push %r12\n"
	"	sub $48, %rsp\n"
	"	mov %rdi, %rbx\n"
	"	mov %rsi, %rbp\n"
	"	mov %rdx, %r12\n"
	"	mov %rsp, (%rcx)\n"
	"	movb $3, 16(%rsp)\n"
	"	call *%rbx\n"
	"wait_and_end_back:\n"
	"	call *%rbp\n" /* before the end it is called, too */
	"end_before_back:\n"
	"	movb $1, 16(%rsp)\n"
	"	test %r12, %r12\n"
	"	je 1f\n"
	"	call *%rbx\n"
	"wait_when_ready_back:\n"
	"1:	call *%rbp\n"
	"end_back:\n"
	"	add $48, %rsp\n"
	"	pop %r12\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size wait_and_end, . - wait_and_end\n");
extern const char wait_and_end_back[], end_before_back[], wait_when_ready_back[], end_back[];
void wait_and_end(void *wait, void *end, uint64_t once_more, struct future **ret_future);

/* The thunk's way into the other function, as by a jump at the end of the first. */
__asm__(".text\n"
	"jumps_on:\n"
	"	mov inner_wait(%rip), %rax\n"
	"	jmp *%rax\n");
extern const char jumps_on[];
void *inner_wait;

static void is_over(void)
{
}

static bool is_woken(void)
{
	return true;
}

static void test_root_ready(void **state)
{
	struct agent_hook *wait = area_hook(&area, AH_ROOT_PARK, 0, jumps_on);
	struct agent_hook *inner = area_hook(&area, AH_ROOT_PARK, 0, (const void *)is_woken);
	struct agent_hook *end = area_hook(&area, AH_ROOT_PARK, 0, (const void *)is_over);
	const char *backs[] = {wait_and_end_back, end_before_back, wait_when_ready_back, end_back};
	struct agent_hook *sites[4];
	uint64_t words[16] = {0};

	for (size_t i = 0; i < 4; i++)
		sites[i] = area_hook(&area, AH_ROOT_SITE, 9, backs[i]);
	for (size_t i = 0; i < 4; i++) {
		set_root(wait, sites[0], 4, sites[i], words, 52);
		sites[i]->future.frame_offset = 0;
		sites[i]->flags |= i % 2 ? AGENT_HOOK_ROOT_END : AGENT_HOOK_RETURNS_READY;
	}
	inner->park = end->park = wait->park;
	end->flags |= AGENT_HOOK_ROOT_END;
	inner_wait = area_stub(&area, inner);
	((bool (*)(void))area_stub(&area,
				   wait))(); /* another's: of the test before nothing stays */
	for (int i = 0; i < 8; i++) {
		bool once_more = i & 1, seen_end = i & 2; /* an optimiser may leave no call of it */

		wait_and_end(area_stub(&area, wait),
			     seen_end ? area_stub(&area, end) : (void *)is_over, once_more,
			     &polled);
		expect_event(AE_FUTURE_PENDING_AT, 52, polled);
		expect_event(AE_FUTURE_BEGIN, 9, polled);
		if (once_more || seen_end)
			expect_event(AE_FUTURE_READY, 9, polled);
		expect_nothing();
	}
	(void)state;
}

/* ---- forks in the middle of it ---- */

static bool in_child;
static int fork_status;
static struct agent_hook *inner_hook;

static struct pair forks(struct future *f, uint64_t cx)
{
	pid_t pid = fork();

	(void)cx;
	in_child = !pid;
	if (pid)
		waitpid(pid, &fork_status, 0);
	f->state = 3;
	return (struct pair){1, 2};
}

static struct pair polls_inner(struct future *f, uint64_t cx)
{
	struct pair (*poll)(struct future *, uint64_t) = area_stub(&area, inner_hook);
	struct future inner = {.state = 0};
	struct pair p = poll(&inner, cx);

	f->state = inner.state;
	return p;
}

/* The child has no rings: a look at one would end it. It comes back through both frames, and polls
 * again. */
static void test_fork_inside_a_poll(void **state)
{
	struct agent_hook *outer = state_hook();
	struct pair (*poll)(struct future *, uint64_t) = area_stub(&area, outer);
	struct future f = {.state = 0};

	(void)state;
	outer->orig = (uint64_t)polls_inner;
	outer->flags |= AGENT_HOOK_LIST;
	inner_hook = state_hook();
	inner_hook->orig = (uint64_t)forks;
	fork_status = -1;
	struct pair p = poll(&f, 6);
	if (in_child) {
		bool right = p.first == 1 && p.second == 2 && f.state == 3;

		inner_hook->orig = (uint64_t)poll_pair;
		p = poll(&f, 7);
		_exit(right && p.first == 0 && f.state == 1 ? 0 : 1);
	}
	assert_int_equal(fork_status, 0);
	expect_event(AE_FUTURE_BEGIN, 5, &f);
	struct agent_event e;
	for (int i = 0; i < 2; i++)
		assert_true(area_next(&area, area_my_ring(&area), &e)); /* the inner one */
	expect_event(AE_FUTURE_PENDING, 5, &f);
	expect_nothing();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_state),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_returned),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_borrowed),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_previous),
		cmocka_unit_test(test_root),
		cmocka_unit_test(test_root_reported),
		cmocka_unit_test(test_root_ready),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_fork_inside_a_poll),
		cmocka_unit_test(test_far_steps),
		cmocka_unit_test(test_far_pointers),
		cmocka_unit_test(test_far_seccomp),
		cmocka_unit_test(test_far_arguments),
		cmocka_unit_test(test_root_nowhere),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_long_chain),
		cmocka_unit_test(test_chain_apart),
		cmocka_unit_test(test_left_on_another_stack),
		cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_chain_of_two_threads),
		cmocka_unit_test(test_many_boxes),
		cmocka_unit_test(test_handler),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_held_written),
		cmocka_unit_test(test_around),
		cmocka_unit_test(test_written_box),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
