/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loads the agent's image into the process that runs the test, as the loader does from outside: the
 * area with image, stubs, state, switch and rings. Tests then call through stubs as a program calls
 * through its hooked slots. Header only: a test links it by including it.
 */
#pragma once

#include "agent/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

extern const unsigned char pollux_agent_image[], pollux_agent_image_end[];

#define AREA_HOOKS 256u /* a page of stubs */

struct area {
	struct agent_image *image;
	uint8_t *stubs;
	struct agent_state *state;
	struct agent_hook *hooks;
	struct agent_switch *live;
	struct ring_area *rings;
	uint32_t n_hooks;
	size_t rings_bytes;
};

extern void __register_frame(const void *begin);
extern const void *_Unwind_Find_FDE(void *pc, void *bases);

static inline uint64_t area_thread_pointer(void)
{
	uint64_t thread;

	__asm__("movq %%fs:0, %0" : "=r"(thread));
	return thread;
}

/* Where the C library keeps the tid, as the loader finds it. */
static inline uint32_t area_tid_offset(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	for (uint32_t off = 0; off < 2048; off += 4)
		if (*(uint32_t *)(area_thread_pointer() + off) == tid)
			return off;
	return 0;
}

static inline void area_new(struct area *a, uint32_t n_rings, uint32_t ring_bytes)
{
	const struct agent_image *built = (const struct agent_image *)pollux_agent_image;
	size_t stubs = 4096;
	size_t state =
		(built->state_bytes + AREA_HOOKS * sizeof(struct agent_hook) + 4095) & ~4095ul;
	size_t rings =
		sizeof(struct ring_area) + (size_t)n_rings * (sizeof(struct ring) + ring_bytes);
	size_t all = built->image_bytes + stubs + state + 4096 + rings;
	uint8_t *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		abort();
	memcpy(base, pollux_agent_image, built->image_bytes);
	a->image = (struct agent_image *)base;
	a->stubs = base + built->image_bytes;
	a->state = (struct agent_state *)(a->stubs + stubs);
	a->hooks = (struct agent_hook *)((uint8_t *)a->state + built->state_bytes);
	a->live = (struct agent_switch *)((uint8_t *)a->state + state);
	a->rings = (struct ring_area *)((uint8_t *)a->live + 4096);
	a->n_hooks = 0;
	/* Children have neither these nor the switch. */
	if (mmap(a->rings, rings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) == MAP_FAILED ||
	    madvise(a->rings, rings, MADV_DONTFORK) || madvise(a->live, 4096, MADV_WIPEONFORK))
		abort();

	a->image->state = (uint64_t)a->state;
	a->image->hooks = (uint64_t)a->hooks;
	a->image->live = (uint64_t)a->live;
	*(uint32_t *)(base + built->stubs_range) = AREA_HOOKS * AGENT_STUB_BYTES;
	*a->state = (struct agent_state){
		.magic = AGENT_MAGIC,
		.abi = AGENT_ABI,
		.n_hooks = AREA_HOOKS,
		.area = (uint64_t)base,
		.area_bytes = all,
		.stubs = (uint64_t)a->stubs,
		.hooks = (uint64_t)a->hooks,
		.live = (uint64_t)a->live,
		.rings = (uint64_t)a->rings,
		.tid_offset = area_tid_offset(),
		.may_call = AGENT_MAY_ASK | AGENT_MAY_WAKE | AGENT_MAY_GETTID | AGENT_MAY_COPY,
		.n_unwinders = 1,
		.unwinders = {{(uint64_t)__register_frame, (uint64_t)_Unwind_Find_FDE,
			       (uint64_t)_Unwind_GetGR}},
		.eh_frame = (uint64_t)base + built->eh_frame,
		.n_rings = n_rings,
		.ring_bytes = ring_bytes,
		.no_ring_ticks = 1 << 21, /* about a millisecond */
	};
	a->rings_bytes = rings;
	if (mprotect(base, built->image_bytes + stubs, PROT_READ | PROT_EXEC))
		abort();
	a->live->enabled = 1;
}

/* A hook with its stub; the rest of the entry is the caller's to fill. */
static inline struct agent_hook *area_hook(struct area *a, enum agent_hook_type type, uint16_t kind,
					   const void *orig)
{
	uint32_t i = a->n_hooks++;
	uint8_t *stub = a->stubs + (size_t)i * AGENT_STUB_BYTES;
	const uint8_t *thunk = (const uint8_t *)a->image + a->image->thunks[type];
	int32_t rel = (int32_t)(thunk - (stub + 10));

	if (i >= AREA_HOOKS || mprotect(a->stubs, 4096, PROT_READ | PROT_WRITE))
		abort();
	stub[0] = 0xb8; /* mov $i,%eax */
	memcpy(stub + 1, &i, 4);
	stub[5] = 0xe9; /* jmp thunk */
	memcpy(stub + 6, &rel, 4);
	memset(stub + 10, 0xcc, 6);
	if (mprotect(a->stubs, 4096, PROT_READ | PROT_EXEC))
		abort();
	a->hooks[i] = (struct agent_hook){
		.type = type, .kind = kind, .orig = (uint64_t)orig, .flags = AGENT_HOOK_FRAME};
	return &a->hooks[i];
}

static inline void *area_stub(const struct area *a, const struct agent_hook *hook)
{
	return a->stubs + (hook - a->hooks) * AGENT_STUB_BYTES;
}

static inline struct ring *area_ring(const struct area *a, uint32_t i)
{
	return (struct ring *)((uint8_t *)(a->rings + 1) +
			       (size_t)i * (sizeof(struct ring) + a->state->ring_bytes));
}

/* Who has it: the start of the agent's notes. */
static inline struct agent_owner *agent_mapping_owner(const struct area *a, uint32_t i)
{
	return (struct agent_owner *)((uint8_t *)a->state + a->image->notes +
				      (size_t)i * a->image->notes_bytes);
}

/* What the tool does with a dead thread's ring. */
static inline void area_give(const struct area *a, uint32_t i)
{
	struct agent_owner *o = agent_mapping_owner(a, i);

	__atomic_store_n(&o->dead, (uint32_t)(o->claim >> 32), __ATOMIC_RELEASE);
}

/* The calling thread's ring, NULL if it has none. */
static inline struct ring *area_my_ring(const struct area *a)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	for (uint32_t i = 0; i < a->state->n_rings; i++)
		if ((uint32_t)agent_mapping_owner(a, i)->claim == tid)
			return area_ring(a, i);
	return NULL;
}

/* Takes the next event out of a ring. */
static inline bool area_next(const struct area *a, struct ring *r, struct agent_event *ret)
{
	uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);
	uint64_t tail = r->tail, run;

	if (head == tail)
		return false;
	/* In the other order than they are written. */
	uint64_t far_end = __atomic_load_n(&r->far_end, __ATOMIC_ACQUIRE);
	uint64_t far_begin = __atomic_load_n(&r->far_begin, __ATOMIC_ACQUIRE);

	*ret = *(struct agent_event *)((uint8_t *)(r + 1) + ring_place(tail, far_begin, far_end,
								       a->state->ring_bytes, &run));
	__atomic_store_n(&r->tail, tail + sizeof(*ret), __ATOMIC_RELEASE);
	return true;
}
