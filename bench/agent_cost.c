/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the agent costs per event, in nanoseconds of one thread in a tight loop: polls and wakes of
 * a task that does nothing, through the agent's own image, against the same calls without it. The
 * ring is drained in between, outside of the time measured. rdtsc alone is most of it.
 */
#include "tests/unit/agent_area.h"

#include <time.h>

enum { ROUNDS = 90, CALLS = 100000, BATCH = 1000 };

struct task {
	uint64_t state, next;
	const void *const *vtable;
	uint64_t owner, id, words[8];
};

typedef void (*task_fn)(struct task *);

static void nothing(struct task *t)
{
	(void)t;
	__asm__ volatile("");
}

/* What tokio's own poll does to the state at the least. */
static void transitions(struct task *t)
{
	__atomic_fetch_xor(&t->state, 5, __ATOMIC_ACQ_REL);
	__atomic_fetch_xor(&t->state, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_or(&t->state, 4, __ATOMIC_ACQ_REL);
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void drain(struct area *a)
{
	struct ring *r = area_my_ring(a);

	if (r)
		__atomic_store_n(&r->tail, r->head, __ATOMIC_RELEASE);
}

static int order(const void *x, const void *y)
{
	double a = *(const double *)x, b = *(const double *)y;

	return (a > b) - (a < b);
}

/* One call's time, the least of the rounds: other work on the machine only adds to it. */
static double measure(struct area *a, task_fn volatile fn, struct task *t)
{
	double rounds[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		double sum = 0;
		for (int j = 0; j < CALLS / BATCH; j++) {
			drain(a);
			double start = now_ns();
			for (int k = 0; k < BATCH; k++)
				fn(t);
			sum += now_ns() - start;
		}
		rounds[i] = sum / CALLS;
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), order);
	return rounds[0];
}

static void only_rdtsc(struct task *t)
{
	(void)t;
	__builtin_ia32_rdtsc();
}

/* A chain of coroutines, each in the state of its first await point: the program, and the bytes from
 * `offset` on, 8 apart, that it looks at. */
static const struct agent_step *chain_program(uint64_t words[64], int32_t offset, uint16_t n)
{
	struct agent_step *steps = (struct agent_step *)words;
	uint16_t at = 1;

	steps[0] = (struct agent_step){.next = at, .delta = offset};
	for (uint16_t i = 0; i < n; i++) {
		struct agent_node *node = (struct agent_node *)&words[at];
		uint16_t next = (uint16_t)(at + 2 + 5);

		*node = (struct agent_node){.n = 4, .size = 1};
		node->steps[3] = (struct agent_step){
			.point = i + 1, .next = i + 1 < n ? next : 0, .delta = i + 1 < n ? 8 : 0};
		at = next;
	}
	return steps;
}

/* ---- two futures in boxes in each other, below a task's ---- */

struct boxed {
	uint64_t states[4];
};

typedef uint64_t (*boxed_fn)(struct boxed *, void *);
static struct boxed outer_box, inner_box;
static boxed_fn volatile poll_outer, poll_inner;

static uint64_t inner_body(struct boxed *b, void *cx)
{
	(void)b;
	(void)cx;
	__asm__ volatile("");
	return 1;
}

static uint64_t outer_body(struct boxed *b, void *cx)
{
	(void)b;
	return poll_inner(&inner_box, cx) + 1;
}

static void with_boxes(struct task *t)
{
	(void)t;
	poll_outer(&outer_box, NULL);
	__asm__ volatile("");
}

static struct agent_hook *box_hook(struct area *a, uint16_t kind, boxed_fn body,
				   const struct agent_step *program)
{
	struct agent_hook *hook = area_hook(a, AH_FUTURE, kind, (const void *)body);

	hook->future.result = (struct agent_result){.from = AR_STATE, .size = 1, .ready = 1};
	hook->future.pending = 2;
	hook->future.value_bytes = sizeof(struct boxed);
	hook->flags |= AGENT_HOOK_CHAIN | AGENT_HOOK_SHOWN;
	hook->program = (uint64_t)program;
	return hook;
}

int main(void)
{
	static struct area area;
	struct area *a = &area;
	const void *vtable[4] = {0};
	struct task task = {.state = 64 * 3 + 4 + 8, .vtable = vtable, .id = 7};

	area_new(a, 4, 65536);
	struct agent_hook *poll = area_hook(a, AH_TOKIO_POLL, 0, nothing);
	struct agent_hook *busy = area_hook(a, AH_TOKIO_POLL, 1, transitions);
	struct agent_hook *wake = area_hook(a, AH_TOKIO_WAKE, AGENT_KIND_NONE, nothing);
	poll->task.id_offset = busy->task.id_offset = offsetof(struct task, id);
	poll->task.end_offset = busy->task.end_offset = sizeof(struct task);
	poll->task.vtable_offset = busy->task.vtable_offset = wake->task.vtable_offset = 16;
	vtable[0] = area_stub(a, poll);

	double call = measure(a, nothing, &task);
	double ticks = measure(a, only_rdtsc, &task) - call;
	double work = measure(a, transitions, &task);
	double poll_ns = measure(a, (task_fn)area_stub(a, poll), &task) - call;
	double busy_ns = measure(a, (task_fn)area_stub(a, busy), &task) - work;
	double wake_ns = measure(a, (task_fn)area_stub(a, wake), &task) - call;
	for (int i = 0; i < 3; i++)
		((char *)&task.words[i])[7] = 3;
	static uint64_t words[3][64];
	poll->program = busy->program =
		(uint64_t)chain_program(words[0], offsetof(struct task, words) + 7, 3);
	double at_ns = measure(a, (task_fn)area_stub(a, poll), &task) - call;
	double busy_at_ns = measure(a, (task_fn)area_stub(a, busy), &task) - work;

	struct agent_hook *around = area_hook(a, AH_TOKIO_POLL, 2, with_boxes);
	around->task = poll->task;
	around->program = (uint64_t)chain_program(words[1], offsetof(struct task, words) + 7, 4);
	for (int i = 0; i < 4; i++)
		((char *)&task.words[i])[7] = 3, outer_box.states[i] = inner_box.states[i] = 3;
	poll_outer = outer_body;
	poll_inner = inner_body;
	double plain_boxes = measure(a, with_boxes, &task);
	double near_ns = measure(a, (task_fn)area_stub(a, around), &task) - plain_boxes;
	const struct agent_step *four = chain_program(words[2], 0, 4);
	poll_outer = (boxed_fn)area_stub(a, box_hook(a, 3, outer_body, four));
	poll_inner = (boxed_fn)area_stub(a, box_hook(a, 4, inner_body, four));
	double deep_ns = measure(a, (task_fn)area_stub(a, around), &task) - plain_boxes;

	a->live->enabled = 0;
	double off = measure(a, (task_fn)area_stub(a, poll), &task) - call;

	printf("rdtsc                          %6.1f ns\n", ticks);
	printf("poll, two events               %6.1f ns  %5.1f per event\n", poll_ns, poll_ns / 2);
	printf("poll that changes its state    %6.1f ns  %5.1f per event\n", busy_ns, busy_ns / 2);
	printf("poll, await point of three    %6.1f ns  %+5.1f\n", at_ns, at_ns - poll_ns);
	printf("poll that changes, of three    %6.1f ns  %+5.1f\n", busy_at_ns,
	       busy_at_ns - busy_ns);
	printf("poll, twelve in two boxes      %6.1f ns  %+5.1f for the boxes\n", deep_ns,
	       deep_ns - near_ns);
	printf("wake, one event                %6.1f ns\n", wake_ns);
	printf("switched off                   %6.1f ns\n", off);
	return 0;
}
