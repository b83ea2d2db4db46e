/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the agent costs per event, in nanoseconds of one thread in a tight loop: polls and wakes of
 * a task that does nothing, through the agent's own image, against the same calls without it. The
 * ring is drained in between, outside of the time measured. rdtsc alone is most of it.
 */
#include "tests/unit/agent_area.h"

#include <time.h>

enum { ROUNDS = 9, CALLS = 1000000, BATCH = 1000 };

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

/* Median over the rounds of one call's time. */
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
	return rounds[ROUNDS / 2];
}

static void only_rdtsc(struct task *t)
{
	(void)t;
	__builtin_ia32_rdtsc();
}

/* A chain of three coroutines, each in the state of its first await point: the program and the
 * bytes that it looks at. */
static const struct agent_step *chain_program(void)
{
	static uint64_t words[64];
	struct agent_step *steps = (struct agent_step *)words;
	uint16_t at = 1;

	steps[0] = (struct agent_step){.next = at, .delta = offsetof(struct task, words) + 7};
	for (uint16_t i = 0; i < 3; i++) {
		struct agent_node *node = (struct agent_node *)&words[at];
		uint16_t next = (uint16_t)(at + 2 + 5);

		*node = (struct agent_node){.n = 4, .size = 1};
		node->steps[3] = (struct agent_step){
			.point = i + 1, .next = i < 2 ? next : 0, .delta = i < 2 ? 8 : 0};
		at = next;
	}
	return steps;
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
	poll->program = busy->program = (uint64_t)chain_program();
	double at_ns = measure(a, (task_fn)area_stub(a, poll), &task) - call;
	double busy_at_ns = measure(a, (task_fn)area_stub(a, busy), &task) - work;
	a->live->enabled = 0;
	double off = measure(a, (task_fn)area_stub(a, poll), &task) - call;

	printf("rdtsc                          %6.1f ns\n", ticks);
	printf("poll, two events               %6.1f ns  %5.1f per event\n", poll_ns, poll_ns / 2);
	printf("poll that changes its state    %6.1f ns  %5.1f per event\n", busy_ns, busy_ns / 2);
	printf("poll, await point of three    %6.1f ns  %+5.1f\n", at_ns, at_ns - poll_ns);
	printf("poll that changes, of three    %6.1f ns  %+5.1f\n", busy_at_ns,
	       busy_at_ns - busy_ns);
	printf("wake, one event                %6.1f ns\n", wake_ns);
	printf("switched off                   %6.1f ns\n", off);
	return 0;
}
