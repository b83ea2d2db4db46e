/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent's C code, compiled as ordinary code under ThreadSanitizer (the image itself can't be):
 * threads that claim rings, write and end while a reader drains the rings and gives dead threads'
 * rings back, as the tool does.
 */
#include "agent/agent.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The header that the thunks' file defines in the image; the agent knows it as a constant. */
extern struct agent_image image __asm__("agent_image");
struct agent_image image;

void agent_tokio_poll(void *header, struct agent_hook *hook);
void agent_tokio_wake(void *header, struct agent_hook *hook);

enum { N_RINGS = 8, RING_BYTES = 4096, N_THREADS = 4, N_LIVES = 50, N_POLLS = 200 };

struct task {
	uint64_t state, next;
	void **vtable;
	uint64_t owner, id;
};

static struct agent_hook hooks[2];
static struct ring_area *rings;
static uint64_t n_read, n_lost;
static int done;
static int n_dead; /* what the kernel orders for real threads: an end comes before it is seen */

static void pend(void *header)
{
	struct task *t = header;

	__atomic_fetch_xor(&t->state, 1, __ATOMIC_ACQ_REL);
	__atomic_fetch_xor(&t->state, 1, __ATOMIC_ACQ_REL);
}

static struct task shared; /* woken by all */

static void *live(void *arg)
{
	struct task task = {.state = 64 * 3, .id = (uint64_t)arg, .vtable = shared.vtable};

	__atomic_load_n(&n_dead, __ATOMIC_ACQUIRE); /* we may have a dead thread's thread pointer */
	for (int i = 0; i < N_POLLS; i++) {
		agent_tokio_poll(&task, &hooks[0]);
		agent_tokio_wake(&shared, &hooks[1]);
	}
	__atomic_fetch_add(&n_dead, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

static void *generations(void *arg)
{
	for (int i = 0; i < N_LIVES; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, live, arg))
			abort();
		pthread_join(thread, NULL);
	}
	return NULL;
}

static struct ring *ring_at(uint32_t i)
{
	return (struct ring *)((char *)(rings + 1) +
			       (size_t)i * (RING_BYTES + sizeof(struct ring)));
}

static void drain(struct ring *r)
{
	uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE), run;
	uint64_t far_end = __atomic_load_n(&r->far_end, __ATOMIC_ACQUIRE);
	uint64_t far_begin = __atomic_load_n(&r->far_begin, __ATOMIC_ACQUIRE);

	for (; r->tail != head; __atomic_store_n(&r->tail, r->tail + 16, __ATOMIC_RELEASE)) {
		struct agent_event *e =
			(struct agent_event *)((char *)(r + 1) + ring_place(r->tail, far_begin,
									    far_end, RING_BYTES,
									    &run));
		uint64_t type = e->word0 & 255;
		if (!type || type >= AE_N_TYPES)
			abort();
		if (type == AE_LOST)
			n_lost += e->word1;
		else
			n_read += type != AE_THREAD;
	}
}

static void *reader(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		for (uint32_t i = 0; i < N_RINGS; i++) {
			struct ring *r = ring_at(i);
			struct agent_owner *owner = &agent_private()->notes[i].owner;
			uint64_t claim = __atomic_load_n(&owner->claim, __ATOMIC_ACQUIRE);
			bool dead = (uint32_t)claim &&
				    syscall(SYS_tgkill, getpid(), (uint32_t)claim, 0) != 0;
			__atomic_load_n(&n_dead, __ATOMIC_ACQUIRE);
			drain(r);
			if (dead)
				__atomic_store_n(&owner->dead, (uint32_t)(claim >> 32),
						 __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

static uint32_t tid_offset(void)
{
	uint64_t thread;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	__asm__("movq %%fs:0, %0" : "=r"(thread));
	for (uint32_t off = 0; off < 2048; off += 4)
		if (*(uint32_t *)(thread + off) == tid)
			return off;
	return 0;
}

int main(void)
{
	static struct agent_switch live_switch = {.enabled = 1};
	static void *vtable[4];
	size_t bytes = sizeof(*rings) + N_RINGS * (sizeof(struct ring) + RING_BYTES);
	struct agent_state *state = mmap(NULL, sizeof(struct agent_private), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t threads[N_THREADS], reads;

	rings = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*state = (struct agent_state){
		.n_hooks = 2,
		.stubs = 0x1000, /* the vtable's poll slot holds "stub 0" */
		.hooks = (uint64_t)hooks,
		.live = (uint64_t)&live_switch,
		.rings = (uint64_t)rings,
		.tid_offset = tid_offset(),
		.n_rings = N_RINGS,
		.ring_bytes = RING_BYTES,
		.no_ring_ticks = 1 << 21,
		.may_call = AGENT_MAY_WAKE | AGENT_MAY_GETTID,
	};
	image.state = (uint64_t)state;
	image.hooks = (uint64_t)hooks;
	image.live = (uint64_t)&live_switch;
	vtable[0] = (void *)0x1000;
	shared = (struct task){.state = 64 * 3, .vtable = vtable, .id = 999};
	hooks[0] = (struct agent_hook){.type = AH_TOKIO_POLL,
				       .orig = (uint64_t)pend,
				       .task = {.id_offset = offsetof(struct task, id),
						.vtable_offset = 16,
						.end_offset = sizeof(struct task)}};
	hooks[1] = (struct agent_hook){.type = AH_TOKIO_WAKE, .task.vtable_offset = 16};

	pthread_create(&reads, NULL, reader, NULL);
	for (uint64_t i = 0; i < N_THREADS; i++)
		pthread_create(&threads[i], NULL, generations, (void *)(i + 1));
	for (int i = 0; i < N_THREADS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	pthread_join(reads, NULL);
	uint64_t rest = 0;
	for (uint32_t i = 0; i < N_RINGS; i++) {
		drain(ring_at(i));
		rest += ring_at(i)->dropped;
	}
	rest -= n_lost;
	uint64_t all = n_read + n_lost + rest + state->no_ring;
	printf("%lu read, %lu lost, %lu not yet counted, %lu without a ring\n", n_read, n_lost,
	       rest, state->no_ring);
	if (all != (uint64_t)N_THREADS * N_LIVES * N_POLLS * 3 || !n_read) {
		printf("that is %lu events, but %lu were sent\n", all,
		       (uint64_t)N_THREADS * N_LIVES * N_POLLS * 3);
		return 1;
	}
	return 0;
}
