/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tokio's tasks, 1.23 and later (seen up to 1.54.1). A task is a Cell<T, S> on the heap:
 *
 *     header     state, queue_next, vtable, owner_id
 *     core       scheduler, id, stage: the future, later its output
 *     trailer    links of the list of tasks, the waker of the join handle
 *
 * and its vtable, a static of its kind, is ten words: seven functions and three offsets in the
 * cell.
 *
 * Source: tokio/src/runtime/task/{core,state,harness,raw,waker,error}.rs.
 */
#pragma once

#include "agent/runtimes.h"

/* ---- the header and the vtable ---- */

/* From the header, in bytes. */
#define TOKIO_STATE_OFFSET 0u
#define TOKIO_NEXT_OFFSET 8u /* queue_next */
#define TOKIO_VTABLE_OFFSET 16u
#define TOKIO_OWNER_OFFSET 24u
#define TOKIO_MIN_HEADER_BYTES 32u

/* Words of the vtable. */
enum tokio_slot {
	TOKIO_SLOT_POLL,
	TOKIO_SLOT_SCHEDULE,
	TOKIO_SLOT_DEALLOC,
	TOKIO_SLOT_READ, /* try_read_output */
	TOKIO_SLOT_DROP_JOIN,
	TOKIO_SLOT_DROP_ABORT,
	TOKIO_SLOT_SHUTDOWN,
	TOKIO_N_FUNCTIONS,
	TOKIO_SLOT_TRAILER = TOKIO_N_FUNCTIONS, /* offsets in the cell */
	TOKIO_SLOT_SCHEDULER,
	TOKIO_SLOT_ID,
	TOKIO_N_SLOTS, /* with tokio_unstable there is one more */
};

/* ---- the state word ---- */

#define TOKIO_RUNNING 1u
#define TOKIO_COMPLETE 2u
#define TOKIO_NOTIFIED 4u
#define TOKIO_JOIN_INTEREST 8u
#define TOKIO_JOIN_WAKER 16u
#define TOKIO_CANCELLED 32u
#define TOKIO_REFERENCE 64u /* one; the count is above the bits */

/* None of these: it is idle, or in a queue. */
#define TOKIO_LIFECYCLE (TOKIO_RUNNING | TOKIO_COMPLETE)

RUNTIME_INLINE uint64_t tokio_references(uint64_t state)
{
	return state / TOKIO_REFERENCE;
}

/* Whether it can be a task's that is there: of one that was freed the word is whatever the
 * allocator put there. */
RUNTIME_INLINE bool tokio_is_state(uint64_t state)
{
	return tokio_references(state) && tokio_references(state) < MAX_REFERENCES;
}

/* In a queue, so that a thread may begin to poll it at any moment. */
RUNTIME_INLINE bool tokio_is_queued(uint64_t state)
{
	return (state & (TOKIO_LIFECYCLE | TOKIO_CANCELLED | TOKIO_NOTIFIED)) == TOKIO_NOTIFIED;
}

RUNTIME_INLINE enum wake_effect tokio_wake_effect(uint64_t state)
{
	return state & (TOKIO_COMPLETE | TOKIO_NOTIFIED) ? WAKE_NOOP
	       : state & TOKIO_RUNNING			 ? WAKE_RUNNING
							 : WAKE_SCHEDULES;
}

/* ---- the output ---- */

/* A JoinError is within this many first words of the output: a tag or two may be before it. */
#define TOKIO_ERROR_WORDS 6u

/* The output is somewhere between the id and the trailer: up to this many words after the id's. */
RUNTIME_INLINE uint32_t tokio_output_words(uint32_t id_offset, uint32_t trailer_offset)
{
	return trailer_offset >= id_offset + 8 ? (trailer_offset - id_offset) / 8 - 1 : 0;
}

/* What the output of a task is compared with. */
struct tokio_error {
	uint64_t id; /* the task's */
	bool raised; /* a panic was raised in its poll: it may be the one with this payload */
	struct panic_payload payload;
	bool cancelled; /* it may be that of a cancelled task */
};

/*
 * Whether n words from `at` on hold a JoinError of this task: cancelled, or with the panic of its
 * poll. JoinError { repr, id } has the task's id next to repr, a Box<dyn Any>, null for
 * "cancelled": three words, in either order. No more than `max` words are read: a loop of a program
 * in the kernel needs a bound that is a constant.
 */
RUNTIME_INLINE bool tokio_has_error(runtime_word *word, uint64_t at, uint32_t n, uint32_t max,
				    const struct tokio_error *e, bool panic)
{
	for (uint32_t i = 0; i < max && i < n; i++) {
		uint64_t box;

		if (word(at + i * 8) != e->id)
			continue;
		/* The box's data, of two words that both are within. */
		if (i >= 2) {
			box = word(at + (i - 2) * 8);
			if (panic ? panic_is_payload(&e->payload, box) : !box)
				return true;
		}
		if (i + 2 < n) {
			box = word(at + (i + 1) * 8);
			if (panic ? panic_is_payload(&e->payload, box) : !box)
				return true;
		}
	}
	return false;
}

/*
 * How a task ended by what is stored as its output in n words from `at` on, END_UNKNOWN if there is
 * no error. Its place depends on the output's type, and remains of the future next to it may hold
 * the same words by chance. A panic's payload is known and no chance matches it; "cancelled" is
 * only accepted where the output begins.
 */
RUNTIME_INLINE enum poll_end tokio_output(runtime_word *word, uint64_t at, uint32_t n, uint32_t max,
					  const struct tokio_error *e)
{
	if (e->raised && tokio_has_error(word, at, n, max, e, true))
		return END_PANICKED;
	if (e->cancelled && tokio_has_error(word, at, n < TOKIO_ERROR_WORDS ? n : TOKIO_ERROR_WORDS,
					    TOKIO_ERROR_WORDS, e, false))
		return END_CANCELLED;
	return END_UNKNOWN;
}

/* ---- how a poll ended ---- */

/* What was seen of a poll after which the task is complete, or freed. */
struct tokio_poll {
	uint64_t after;	  /* the state when it had returned */
	uint64_t queried; /* the state after its output was looked at */
	bool freed;	  /* the state can't be read: `after` is its last known value, `now` 0 */
	bool raised;	  /* a panic was raised in it */
	bool finished;	  /* its runtime was shut down when the task was complete already */
	bool shut_down;	  /* its runtime was shut down while it ran, */
	bool shut_queued; /* by a thread that saw the task wait in a queue */
	bool taken;	  /* the output may be another thread's already, which has not said what it
			   * was */
	/* What its output says, tokio_output(). END_READY: it was looked at while it was surely
	 * there, and was no error. */
	enum poll_end output;
};

RUNTIME_INLINE bool tokio_was_cancelled(const struct tokio_poll *p)
{
	return p->after & TOKIO_CANCELLED && !p->finished;
}

/* Whether the task ended by itself, as nothing speaks against it. */
RUNTIME_INLINE bool tokio_ended_plainly(const struct tokio_poll *p)
{
	return !tokio_was_cancelled(p) && !p->raised;
}

/* Else: whether it was polled at all. To run a task clears NOTIFIED, also if it is cancelled by
 * then; an abort of a running task sets both. So without NOTIFIED the abort came first. Who sees a
 * queued task and shuts it down leaves NOTIFIED as it is: with it, he came first. */
RUNTIME_INLINE bool tokio_was_polled(const struct tokio_poll *p)
{
	if (p->raised || p->shut_down || p->freed)
		return true;
	return p->shut_queued ? !(p->after & TOKIO_NOTIFIED) : p->after & TOKIO_NOTIFIED;
}

/*
 * How it ended. The output can't be read if there is no join handle: it was dropped at once. Then a
 * raised panic counts as the end, and an abort during the poll as obeyed, unless traces of it are
 * left; but a runtime that is shut down meets tasks at their natural end as often as not, so that
 * case stays unknown.
 */
RUNTIME_INLINE enum poll_end tokio_end(const struct tokio_poll *p)
{
	if (tokio_ended_plainly(p))
		return p->freed && p->shut_down ? END_UNKNOWN : END_READY;
	if (!tokio_was_polled(p))
		return END_UNPOLLED;
	if (p->output != END_UNKNOWN)
		return p->output;
	if (p->taken)
		return END_UNKNOWN;
	/* No error, and it was still there when that was seen. */
	if (p->after & p->queried & TOKIO_JOIN_INTEREST)
		return END_READY;
	if (p->raised)
		return END_PANICKED;
	return p->shut_down || p->shut_queued ? END_UNKNOWN : END_CANCELLED;
}
