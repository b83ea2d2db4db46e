/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * async-task's tasks (async-std, smol, async-executor, async-global-executor, blocking), 4.0
 * to 4.7. A task is one allocation:
 *
 *     header    state, awaiter (two words), vtable, in an order that is the compiler's
 *     then      a bool with 4.6 and later; the schedule function; the future, later its output
 *
 * Source: async-task/src/{raw,state,header,runnable,task}.rs, 4.7.1.
 */
#pragma once

#include "agent/runtimes.h"

/* ---- the vtable ---- */

enum async_slot {
	ASYNC_SLOT_SCHEDULE,
	ASYNC_SLOT_DROP_FUTURE,
	ASYNC_SLOT_GET_OUTPUT,
	ASYNC_SLOT_DROP_REF,
	ASYNC_SLOT_DESTROY,
	ASYNC_SLOT_RUN,
	ASYNC_SLOT_CLONE_WAKER,
	ASYNC_N_FUNCTIONS,
	ASYNC_SLOT_LAYOUT_INFO = ASYNC_N_FUNCTIONS, /* since 4.3 */
};

/* ---- the state word ---- */

#define ASYNC_SCHEDULED 1u
#define ASYNC_RUNNING 2u
#define ASYNC_COMPLETED 4u
#define ASYNC_CLOSED 8u
#define ASYNC_TASK 16u /* there is a Task, the handle of who awaits it; no reference of its own */
#define ASYNC_REFERENCE 256u /* one; the count is above the bits */

/* With which it is made. */
#define ASYNC_FIRST_STATE (ASYNC_SCHEDULED | ASYNC_TASK | ASYNC_REFERENCE)

/* Words that every header has. No more of a task may be there to be read. */
#define ASYNC_HEADER_WORDS 4u
/* The output is after the header, a bool and the schedule function, before this word. */
#define ASYNC_OUTPUT_WORDS 16u

/* None of these: it is idle, or in a queue. */
#define ASYNC_LIFECYCLE (ASYNC_RUNNING | ASYNC_COMPLETED | ASYNC_CLOSED)

RUNTIME_INLINE uint64_t async_references(uint64_t state)
{
	return state / ASYNC_REFERENCE;
}

/* Whether it can be a task's that is there. What is scheduled or runs has a Runnable, which is a
 * reference, and is not complete. */
RUNTIME_INLINE bool async_is_state(uint64_t state)
{
	const uint64_t runnable = ASYNC_SCHEDULED | ASYNC_RUNNING;

	if (async_references(state) >= MAX_REFERENCES)
		return false;
	if (state & runnable)
		return async_references(state) && !(state & ASYNC_COMPLETED);
	return async_references(state) || state & ASYNC_TASK;
}

/* Only the holder of the one reference knows the task. */
RUNTIME_INLINE bool async_is_alone(uint64_t state)
{
	return async_references(state) == 1 && !(state & ASYNC_TASK);
}

/* The offset of the state, in a task that is about to run: scheduled, not running, not completed,
 * with a reference. OFFSET_UNKNOWN: no word is like that, or more than one. */
RUNTIME_INLINE uint16_t async_state_offset(const uint64_t words[ASYNC_HEADER_WORDS])
{
	uint16_t found = OFFSET_UNKNOWN;
	unsigned n = 0;

	for (unsigned i = 0; i < ASYNC_HEADER_WORDS; i++) {
		const uint64_t bits = ASYNC_SCHEDULED | ASYNC_RUNNING | ASYNC_COMPLETED;

		if ((words[i] & bits) == ASYNC_SCHEDULED && async_references(words[i]) &&
		    async_references(words[i]) < MAX_REFERENCES) {
			found = (uint16_t)(i * 8);
			n++;
		}
	}
	return n == 1 ? found : OFFSET_UNKNOWN;
}

RUNTIME_INLINE enum wake_effect async_wake_effect(uint64_t state)
{
	return state & (ASYNC_COMPLETED | ASYNC_CLOSED | ASYNC_SCHEDULED) ? WAKE_NOOP
	       : state & ASYNC_RUNNING					  ? WAKE_RUNNING
									  : WAKE_SCHEDULES;
}

/* ---- how a run ended ---- */

/*
 * By the state when run() had returned, without saying that the task was woken meanwhile.
 * `payload`: the output is the payload of a panic that was raised in it, as that of a task that
 * hands its panic to who awaits it (Builder::propagate_panic); it stays there when it was taken.
 */
RUNTIME_INLINE enum poll_end async_end(uint64_t after, bool payload)
{
	if (after & ASYNC_COMPLETED)
		return payload ? END_PANICKED : END_READY;
	/* Closed and scheduled: it ended pending and was closed since. */
	if ((after & (ASYNC_CLOSED | ASYNC_SCHEDULED)) == ASYNC_CLOSED)
		return END_CANCELLED;
	return END_PENDING;
}
