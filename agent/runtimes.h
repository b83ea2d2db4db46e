/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is known of every runtime's tasks in memory, for the agent, for the programs in the kernel
 * (BPF) and for the tool alike: this header, and one for each kind of task.
 *
 *     runtimes.h              how a poll ended, what a wake does, how a panic is known
 *     runtime_tokio.h         Tokio's tasks
 *     runtime_async_task.h    async-task's: async-std, smol, async-executor
 *
 * Freestanding and pure: constants, and functions of what the caller has read. How memory is read
 * is the caller's matter: the agent reads its own, a program in the kernel copies words that may be
 * gone. Everything is inlined, since neither of them can call anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RUNTIME_INLINE static inline __attribute__((always_inline))

/* The offset of a word in a task's header, if unknown. */
#define OFFSET_UNKNOWN 0xffffu

/* A task never has this number of references: a word with this many is no state of a task. */
#define MAX_REFERENCES (1u << 24)

/* How a poll ended: as enum trace_outcome, and as the agent's events, in one order. */
enum poll_end {
	END_PENDING = 0,
	END_READY,
	END_PANICKED,
	END_CANCELLED,
	END_UNKNOWN,
	END_UNPOLLED, /* it was none: the task was cancelled before, and dropped instead */
};

/* What a wake does, in the same orders. */
enum wake_effect {
	WAKE_SCHEDULES = 0,
	WAKE_RUNNING, /* the task is being polled: it is scheduled again by who polls it */
	WAKE_NOOP,    /* it is scheduled already, or over */
};

/* A word of memory that may be anything, 0 if it can't be read. */
typedef uint64_t runtime_word(uint64_t addr);

/*
 * What _Unwind_RaiseException() gets, since about Rust 1.60: an _Unwind_Exception of four words,
 * the first of which is its class, "MOZ\0RUST", then a canary and the payload, a Box<dyn Any> of
 * two words; before that there was no canary. So the payload's address is one of two words.
 *
 * Source: library/panic_unwind/src/gcc.rs.
 */
#define PANIC_CLASS 0x54535552005a4f4dULL
#define PANIC_PAYLOAD_WORD 4u

struct panic_payload {
	uint64_t words[2]; /* 0 if not known */
};

/* What core's and std's panics say is in the payload's box as a &'static str (pointer, length) or as a
 * String (capacity and pointer in either order, length). Which of them it is follows from the
 * size of what is in the box, which is this word of its vtable; but other payloads have these
 * sizes, too. */
#define PANIC_CANARY_WORDS 1u
#define PANIC_VTABLE_SIZE_WORD 1u
#define PANIC_STR_BYTES 16u
#define PANIC_STRING_BYTES 24u

RUNTIME_INLINE bool panic_is_payload(const struct panic_payload *p, uint64_t word)
{
	return word && (word == p->words[0] || word == p->words[1]);
}
