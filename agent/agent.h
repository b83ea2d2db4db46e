/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent's internals: where its state lies, and the few words that it keeps on each thread.
 * See docs/agent-safety.md for the rules that all of this obeys. In short: no libc, no system call but
 * those of enum agent_may, no lock, no wait, nothing of its own in the image but code.
 */
#pragma once

#include "agent/ring.h"
#include "agent/runtime_tokio.h"
#include "agent/arch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* An invariant of the agent's own notes, in the images of sanitized builds and of tests alone: in a
 * program nothing may end by a check. Never of what the program or the tool can write. */
#ifdef AGENT_CHECKS
#define agent_check(x) ((x) ? (void)0 : __builtin_trap())
#else
#define agent_check(x) ((void)sizeof(x))
#endif

#define AGENT_REF_MASK ((1ULL << 48) - 1)
/* The smallest page that there is: of a larger one the kernel is asked more often than need be. */
#define AGENT_PAGE 4096u

/* Where a thread's ring is found by its thread pointer. */
struct agent_thread {
	uint64_t thread;	   /* the thread pointer, 0: the slot is free */
	struct agent_notes *notes; /* on its ring */
	uint64_t claim;		   /* agent_owner.claim as it was when it was claimed */
	uint64_t reserved;
};
_Static_assert(sizeof(struct agent_thread) == 32, "agent_thread");

#define AGENT_THREAD_BITS 13
#define AGENT_N_THREADS (1u << AGENT_THREAD_BITS) /* eight times AGENT_MAX_RINGS */
#define AGENT_THREAD_PROBES 64u

/* A poll that is open on a thread. */
struct agent_poll {
	uint64_t ref;		     /* kind << 48 | task */
	void *header;		     /* the task */
	struct agent_hook *hook;     /* the poll slot's hook */
	uint32_t flags;		     /* enum agent_poll_flags */
	uint32_t generation;	     /* of the ring: another one means that the notes were reset */
	uint16_t chain;		     /* as agent_notes.chain_base, */
	uint16_t chain_outer;	     /* and that of the poll around it */
	uint16_t handler_outer;	     /* agent_notes.handler around it */
	struct panic_payload raised; /* POLL_RAISED */
};

enum agent_poll_flags {
	POLL_WORKER = AGENT_HOOK_WORKER, /* a worker's main loop */
	POLL_TASK = AGENT_HOOK_TASK,	 /* never to be learned as one */
	POLL_RAISED = 4,		 /* a panic was raised while this was the innermost poll */
	POLL_FINISHED = 8,		 /* it was complete when its runtime was shut down */
	POLL_ASYNC = 16,		 /* an async-task run, through which a panic may unwind */
	POLL_HELD = 32,			 /* we hold a reference */
	POLL_CLOSED = 64,		 /* was cancelled before it began */
	POLL_ALONE = 128,		 /* there was no other reference to the task when it
					  * began */
	POLL_OUTCOME_SAVED = 256,	 /* its output was looked at in time ... */
	POLL_PANICKED = 512,		 /* ... and was the panic, */
	POLL_ABORTED = 1024,		 /* or the error of an aborted task */
	POLL_SHUT_DOWN = 2048,		 /* its runtime was shut down meanwhile */
	POLL_QUERIED = 4096,   /* its output was queried before it was complete: by who can't say
			      * whether the output was taken */
	POLL_SHUT_IDLE = 8192, /* its runtime was shut down, by who saw it wait in a queue */
	POLL_READING = 16384,  /* as POLL_QUERIED: by who is about to say so */
};

#define AGENT_MAX_POLLS 17u
#define AGENT_N_PAGES 8u

/* A poll of a future that is open on a thread: it lies in the thunk's frame. */
struct agent_future {
	struct agent_future *outer; /* the one in whose poll this was called; may be none */
	struct agent_notes *notes;
	uint64_t claim; /* the ring's, when it began */
	struct agent_hook *hook;
	const void *future;
	void *result;	      /* AGENT_HOOK_MEMORY: its address */
	uint32_t listed;      /* futures in it were listed at its begin */
	uint32_t depth;	      /* the number that was open with it */
	uint64_t chain_outer; /* AGENT_HOOK_CHAIN: agent_notes.chain_base around it */
};

/* What the thread's block_on did last, as far as its calls show. */
enum agent_root {
	ROOT_POLLS = 0,
	ROOT_WAITS, /* it polls nothing before it waits again */
	ROOT_OVER,
};

/*
 * The agent's notes on a ring and the thread that owns it, for that thread only. The first cache
 * line is all that a recorded event touches besides the event itself and the ring's head.
 */
struct agent_notes {
	struct agent_owner owner;
	uint64_t head;	   /* as ring.head */
	uint64_t limit;	   /* below it head has room for one more event; 0: agent_room() first */
	struct ring *ring; /* written to, never read but for `tail` */
	uint64_t wake;	   /* the reference of the last AE_WAKE ... */
	uint64_t wake_end; /* ... and the head after it */
	uint32_t ring_pos; /* of head in the ring, where it is below limit */
	uint8_t busy;	   /* an event is being written: a signal handler's is dropped */
	uint16_t depth;	   /* of polls */
	struct agent_poll polls[AGENT_MAX_POLLS];
	struct agent_future *futures; /* the innermost open one */
	const void *shutting;	      /* the task that this thread shuts down; others look at it */
	uint64_t lost;		      /* events that were dropped; AE_LOST will report them */
	uint64_t far_begin, far_end;  /* as the ring's */
	uint8_t unnamed;	      /* AE_THREAD is still to be written, before anything else */
	uint8_t root;		      /* enum agent_root */
	uint16_t n_futures;	      /* open ones, as far as they count (AGENT_MAX_FUTURES) */
	/* Pages that the kernel has just read for us (agent_readable): forgotten when an outermost
	 * poll begins, and soon after `asked`. */
	uint32_t n_pages;
	uint64_t asked; /* ticks, of the first one */
	uint64_t pages[AGENT_N_PAGES];
	/* What futures in boxes await, as far as their polls have ended in those that are open: a
	 * stack of links (AE_CHAIN). Those of the innermost open one begin at chain_base. */
	uint16_t n_chain, chain_base;
	uint16_t chain_first, chain_end; /* of the poll that was just closed */
	uint16_t chain[AGENT_CHAIN_MAX];
	uint64_t resources[AGENT_CHAIN_MAX]; /* by link, as agent_point() gives it */
	uint16_t handler; /* a handler's poll is open in the innermost poll of a task */
	/* AGENT_HOOK_AROUND: the object of the open method, NULL: none is open; the future that it has, as far as
	 * was seen, and whether a poll of that is recorded. */
	uint16_t around_open;
	void *around;
	const void *around_future;
	struct agent_hook *around_hook;
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct agent_notes, owner) == 0, "agent_owner");
_Static_assert(offsetof(struct agent_notes, polls) == 64, "one line");

/* The first image.state_bytes of the state part. Memory that no thread or ring has needed yet was
 * never touched. */
struct agent_private {
	struct agent_state state;
	uint64_t no_ring_until;	 /* ticks: no ring was free, don't look before */
	uint64_t n_raised;	 /* Tokio polls open in which a panic was raised */
	uint64_t no_raise_until; /* ticks: the stacks of panics before that are left out */
	struct agent_thread threads[AGENT_N_THREADS] __attribute__((aligned(64)));
	struct agent_notes notes[AGENT_MAX_RINGS];
};

/* The start of the image. The tool fills it before it writes the image; it is never written
 * later. */
extern const struct agent_image agent_image __attribute__((visibility("hidden")));

static inline struct agent_private *agent_private(void)
{
	return (struct agent_private *)agent_image.state;
}

static inline struct agent_state *agent_state(void)
{
	return (struct agent_state *)agent_image.state;
}

static inline struct agent_hook *agent_hooks(void)
{
	return (struct agent_hook *)agent_image.hooks;
}

static inline bool agent_live(void)
{
	return __atomic_load_n(&((struct agent_switch *)agent_image.live)->enabled,
			       __ATOMIC_RELAXED);
}

/* Whether the agent may make a system call, one of enum agent_may. */
static inline bool agent_may(uint32_t call)
{
	return __atomic_load_n(&agent_state()->may_call, __ATOMIC_RELAXED) & call;
}

static inline uint64_t agent_claim(const struct agent_notes *n)
{
	return __atomic_load_n(&n->owner.claim, __ATOMIC_RELAXED);
}

/* Whether the tool has given the ring back that was claimed so. Acquire: all that the dead thread
 * wrote to its notes comes before what their next owner writes. */
static inline bool agent_is_dead(const struct agent_notes *n, uint64_t claim)
{
	return __atomic_load_n(&n->owner.dead, __ATOMIC_ACQUIRE) == (uint32_t)(claim >> 32);
}

static inline uint64_t agent_slot_of(uint64_t thread)
{
	return thread * 0x9e3779b97f4a7c15ULL >> (64 - AGENT_THREAD_BITS);
}

/* Whether the slot's ring is still this thread's: neither was the ring given to another nor is the
 * thread another one at a dead one's thread pointer. */
static inline bool agent_slot_holds(const struct agent_thread *slot, uint64_t thread)
{
	uint32_t tid_offset = agent_state()->tid_offset;

	return agent_claim(slot->notes) == slot->claim &&
	       !agent_is_dead(slot->notes, slot->claim) &&
	       (!tid_offset || *(uint32_t *)(thread + tid_offset) == (uint32_t)slot->claim);
}

/* thread.c: the slow ways */
struct agent_notes *agent_find_notes(uint64_t thread);
/* Where a search for polls goes on; all zero at first. */
struct agent_search {
	uint32_t ring, poll;
};
struct agent_poll *agent_find_poll(const void *header, struct agent_search *at);
bool agent_is_shutting(const void *header);
struct agent_notes *agent_peek_notes_slowly(uint64_t thread);
struct agent_notes *agent_kept_notes_slowly(uint64_t thread);
struct agent_notes *agent_root_notes(void);
void agent_no_ring(uint32_t n_events);
bool agent_room(struct agent_notes *n, uint64_t ticks);
bool agent_has_room(struct agent_notes *n, uint64_t n_events);
void agent_lose(struct agent_notes *n, uint64_t n_events);
void agent_register(void);
bool agent_unwound_register(void *context, uint64_t from, int number, uint64_t *ret_value);
void agent_child(void); /* called in the child of a fork() */

/* Whether the agent may have a frame where a panic passes: its unwinder knows the frame. The frames
 * are registered now if they were not, so this is called only where a poll starts. */
static inline bool agent_may_frame(const struct agent_hook *hook)
{
	const uint32_t *registered = &agent_state()->registered;

	if (unlikely(!__atomic_load_n(registered, __ATOMIC_RELAXED)))
		agent_register();
	return likely(hook->flags & AGENT_HOOK_FRAME &&
		      __atomic_load_n(registered, __ATOMIC_ACQUIRE) == 2);
}

/* The calling thread's, with a ring that is claimed if it has none yet; NULL when no ring is free.
 */
static inline struct agent_notes *agent_notes(void)
{
	uint64_t thread = arch_thread();
	struct agent_thread *slot = &agent_private()->threads[agent_slot_of(thread)];

	if (likely(slot->thread == thread && agent_slot_holds(slot, thread)))
		return slot->notes;
	return agent_find_notes(thread);
}

/* The same, but never claims one. */
static inline struct agent_notes *agent_peek_notes(void)
{
	uint64_t thread = arch_thread();
	struct agent_thread *slot = &agent_private()->threads[agent_slot_of(thread)];

	if (likely(slot->thread == thread && agent_slot_holds(slot, thread)))
		return slot->notes;
	return agent_peek_notes_slowly(thread);
}

/* The notes in which the calling thread has a poll open; NULL: another recording has them. Also in
 * a fork's child, where the thread has another tid, but its own copy of them. */
static inline struct agent_notes *agent_kept_notes(void)
{
	uint64_t thread = arch_thread();
	struct agent_thread *slot = &agent_private()->threads[agent_slot_of(thread)];

	if (likely(slot->thread == thread && agent_claim(slot->notes) == slot->claim))
		return slot->notes;
	return agent_kept_notes_slowly(thread);
}

/* Records one event, or drops and counts it. `ticks` is when it was, 0: now. */
static inline void agent_put_at(struct agent_notes *n, uint64_t ticks, uint64_t type,
				uint64_t word1)
{
	if (unlikely(n->busy)) {
		agent_lose(n, 1);
		return;
	}
	n->busy = 1;
	arch_barrier_local();
	/* A signal handler may have forked since this was last asked, and this be the child, which
	 * has no rings. If one forks from here on: agent_child(). */
	if (unlikely(!agent_live())) {
		n->busy = 0;
		return;
	}
	if (!ticks)
		ticks = arch_ticks();
	if (likely(n->head < n->limit) || agent_room(n, ticks)) {
		struct ring *r = n->ring;
		uint64_t head = n->head;
		uint32_t place = n->ring_pos, mask = n->owner.mask;
		/* Within the ring also if who was the last to write here did so for old rings. */
		struct agent_event *event =
			(struct agent_event *)((char *)(r + 1) + (place & mask));
		event->word0 = ticks << 8 | type;
		event->word1 = word1;
		/* A ring is larger than a cache, and what follows (a locked instruction) waits for
		 * our stores: two lines ahead, that is 5 ns per event cheaper in a ring of a
		 * megabyte. */
		arch_prefetch((char *)(r + 1) + ((place + 128) & mask));
		n->ring_pos = place + (uint32_t)sizeof(*event);
		n->head = head + sizeof(*event);
		__atomic_store_n(&r->head, head + sizeof(*event), __ATOMIC_RELEASE);
	}
	arch_barrier_local();
	n->busy = 0;
}

/* In which call the thread waits (struct ring). Written as an event is: a child that was forked
 * meanwhile has no rings. */
static inline void agent_put_wait(struct agent_notes *n, uint64_t wait)
{
	uint8_t was = n->busy;

	n->busy = 1;
	arch_barrier_local();
	if (likely(agent_live()))
		__atomic_store_n(&n->ring->wait, wait, __ATOMIC_RELAXED);
	arch_barrier_local();
	n->busy = was;
}

static inline void agent_put(struct agent_notes *n, uint64_t type, uint64_t word1)
{
	agent_put_at(n, 0, type, word1);
}

/* A task's drop comes last, though what came before it was another thread's a moment ago. */
static inline void agent_put_drop(struct agent_notes *n, uint64_t ref)
{
	agent_put_at(n, arch_ticks_after(), AE_DROP, ref);
}

static inline uint64_t agent_ref(uint64_t kind, uint64_t task)
{
	return kind << 48 | (task & AGENT_REF_MASK);
}

_Static_assert(AE_POLL_READY == AE_POLL_PENDING + END_READY &&
		       AE_POLL_PANICKED == AE_POLL_PENDING + END_PANICKED &&
		       AE_POLL_CANCELLED == AE_POLL_PENDING + END_CANCELLED &&
		       AE_POLL_UNKNOWN == AE_POLL_PENDING + END_UNKNOWN,
	       "enum poll_end");
_Static_assert(AE_WAKE_RUNNING == AE_WAKE + WAKE_RUNNING && AE_WAKE_NOOP == AE_WAKE + WAKE_NOOP,
	       "enum wake_effect");

static inline uint64_t agent_end_event(enum poll_end end)
{
	return unlikely(end == END_UNPOLLED) ? AE_POLL_ABORTED : AE_POLL_PENDING + end;
}

/* A word of our own program, for runtime_*.h. */
static inline uint64_t agent_word(uint64_t addr)
{
	return *(const uint64_t *)addr;
}

static inline uint64_t *agent_state_of(const struct agent_hook *hook, const void *header)
{
	return (uint64_t *)((uintptr_t)header + hook->task.state_offset);
}

/* A task whose poll slot's hook is known: by its id where there is one, else by its address. */
static inline uint64_t agent_task_ref(const struct agent_hook *hook, const void *header)
{
	if (hook->task.id_offset)
		return agent_ref(hook->kind,
				 *(const uint64_t *)((const char *)header + hook->task.id_offset));
	return agent_ref(hook->kind, (uint64_t)header);
}

/* Links of futures in what begins here come after those that are there. Returns the base of what is
 * around. */
static inline uint16_t agent_chain_open(struct agent_notes *n)
{
	uint16_t outer = n->chain_base;

	n->chain_base = n->n_chain;
	return outer;
}

/* poll.c */
struct agent_poll *agent_poll_open(struct agent_notes *n, struct agent_hook *hook, void *header,
				   uint64_t ref, uint32_t flags);
bool agent_poll_close(struct agent_notes *n, struct agent_poll *poll, uint32_t generation);
const struct agent_hook *agent_header_hook(const struct agent_hook *wake, const void *header);
void agent_tokio_save_outcome(struct agent_poll *poll, uint64_t state);

/* A wake may be the one that lets another thread take the output of the task that is polled here:
 * the last moment at which it is surely there. */
static inline void agent_save_outcome(struct agent_notes *n)
{
	if (!n->depth)
		return;
	struct agent_poll *poll = &n->polls[n->depth - 1];
	if (poll->flags & POLL_ASYNC)
		return;
	uint64_t state = *(uint64_t *)((char *)poll->header + poll->hook->task.state_offset);
	if (unlikely(state & TOKIO_COMPLETE))
		agent_tokio_save_outcome(poll, state);
}
