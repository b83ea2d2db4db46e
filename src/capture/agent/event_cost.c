/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What one event costs in the program, measured here: the agent's own image, laid out in this
 * process as the loader lays it out in another, is called as a runtime calls it (a poll, which is
 * two events, and a wake), and the same calls without it are taken off. Each round goes once
 * through a ring of a megabyte, so most of it comes from beyond the first caches, as in a program.
 * CPU time counts, of the round in the middle: others may want the processor meanwhile.
 *
 * What it can't show is the program's own cache misses on the agent's lines. A storm of yields on
 * Tokio costs 22 to 25 ns an event where this says 20 (docs/agent.md); a loop that only takes a
 * stamp and stores two words, which is the event itself, would say 8.
 */
#include "capture/agent/event_cost.h"

#include "arch/code.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/units.h"
#include "process/agent_mapping.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUNDS = 9, RING_BYTES = 1 << 20, N_HOOKS = 2 };
/* Of three events; a round doesn't fill the ring. */
enum { CALLS = RING_BYTES / 16 / 3 - 1 };

struct fake_task {
	uint64_t state, next;
	const uint64_t *vtable;
	uint64_t owner, id, rest[8];
};

typedef void (*task_fn)(struct fake_task *task);

static __attribute__((noinline)) void nothing(struct fake_task *task)
{
	__asm__ volatile("" : : "r"(task) : "memory");
}

struct area {
	size_t bytes;
	uint8_t *base, *stubs;
	struct ring *ring;
	task_fn poll, wake;
	uint64_t vtable[4];
};

static void put_stub(struct area *a, const struct agent_image *image, uint32_t i,
		     enum agent_hook_type type)
{
	uint8_t *stub = a->stubs + i * AGENT_STUB_BYTES;

	arch_put_stub(stub, (uint64_t)stub, i, (uint64_t)a->base + image->thunks[type]);
}

static bool agent_mapping_open(struct area *a)
{
	size_t image_bytes;
	const struct agent_image *built = agent_mapping_image(&image_bytes);
	size_t state_bytes =
		(built->state_bytes + N_HOOKS * sizeof(struct agent_hook) + PAGE - 1) / PAGE * PAGE;

	a->bytes = image_bytes + PAGE + state_bytes + PAGE + sizeof(struct ring_area) +
		   sizeof(struct ring) + RING_BYTES;
	a->base = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (a->base == MAP_FAILED)
		return false;
	a->stubs = a->base + image_bytes;
	uint8_t *state = a->stubs + PAGE, *live = state + state_bytes, *rings = live + PAGE;
	struct agent_image *image = (struct agent_image *)a->base;
	struct agent_hook *hooks = (struct agent_hook *)(state + built->state_bytes);

	memcpy(image, built, image_bytes);
	image->state = (uint64_t)state;
	image->hooks = (uint64_t)hooks;
	image->live = (uint64_t)live;
	*(struct agent_state *)state = (struct agent_state){
		.magic = AGENT_MAGIC,
		.abi = AGENT_ABI,
		.n_hooks = N_HOOKS,
		.stubs = (uint64_t)a->stubs,
		.hooks = (uint64_t)hooks,
		.live = (uint64_t)live,
		.rings = (uint64_t)rings,
		.registered = 2, /* nothing unwinds through it here */
		.n_rings = 1,
		.ring_bytes = RING_BYTES,
		.may_call = AGENT_MAY_GETTID, /* of our own thread, once */
	};
	for (uint32_t i = 0; i < N_HOOKS; i++)
		hooks[i] = (struct agent_hook){
			.orig = (uint64_t)nothing,
			.flags = AGENT_HOOK_TASK,
			.task = {.drop_ref = (uint64_t)nothing,
				 .id_offset = offsetof(struct fake_task, id),
				 .vtable_offset = offsetof(struct fake_task, vtable)},
		};
	hooks[0].task.end_offset = sizeof(struct fake_task);
	put_stub(a, built, 0, AH_TOKIO_POLL);
	put_stub(a, built, 1, AH_TOKIO_WAKE);
	a->vtable[0] = (uint64_t)a->stubs;
	a->poll = (task_fn)(uintptr_t)a->stubs;
	a->wake = (task_fn)(uintptr_t)(a->stubs + AGENT_STUB_BYTES);
	a->ring = (struct ring *)(rings + sizeof(struct ring_area));
	((struct agent_switch *)live)->enabled = 1;
	if (mprotect(a->base, image_bytes + PAGE, PROT_READ | PROT_EXEC) < 0) {
		munmap(a->base, a->bytes);
		return false;
	}
	return true;
}

static uint64_t round_ns(task_fn poll, task_fn wake, struct fake_task *task)
{
	/* Through memory, so that the calls without the agent are calls, too. */
	volatile task_fn fns[2] = {poll, wake};
	uint64_t began = clock_cpu_ns();

	for (unsigned i = 0; i < CALLS; i++) {
		fns[0](task);
		fns[1](task);
	}
	return clock_cpu_ns() - began;
}

uint64_t event_cost_ps(void)
{
	uint64_t with[ROUNDS], without[ROUNDS];
	/* idle, joinable, with three references */
	struct fake_task task = {.state = 64 * 3 | 8, .id = 7};
	struct area a;

	if (!agent_mapping_open(&a))
		return 0;
	task.vtable = a.vtable;
	round_ns(a.poll, a.wake, &task);
	for (unsigned i = 0; i < ROUNDS; i++) {
		__atomic_store_n(&a.ring->tail, a.ring->head, __ATOMIC_RELEASE);
		with[i] = round_ns(a.poll, a.wake, &task);
		without[i] = round_ns(nothing, nothing, &task);
	}
	uint64_t n = a.ring->head / sizeof(struct agent_event), dropped = a.ring->dropped;
	munmap(a.base, a.bytes);
	/* The first event of a ring names its thread. */
	if (dropped || n != 1 + 3ull * CALLS * (ROUNDS + 1))
		return 0;
	qsort(with, ROUNDS, sizeof(with[0]), compare_u64);
	qsort(without, ROUNDS, sizeof(without[0]), compare_u64);
	uint64_t cost_ns = with[ROUNDS / 2], base_ns = without[ROUNDS / 2];
	return cost_ns > base_ns ? (cost_ns - base_ns) * 1000 / (3ull * CALLS) : 0;
}
