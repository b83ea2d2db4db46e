/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What was seen inside polls that are open: kept until they end. */
#pragma once

#include "base/map.h"
#include "timeline/timeline.h"

struct poll_note {
	uint64_t serial; /* of the task */
	uint16_t call;	 /* the blocking call that took longest; TB_NONE */
	uint32_t n_calls;
	uint64_t call_ns, calls_ns; /* it; all of them */
	uint64_t preempted_ns;
	uint64_t cpu_ns; /* by samples of its CPU time */
	uint32_t n_cpu;	 /* the number of them */
	/* 1 + index, of a poll that takes long: the last that was taken in the longest call, else the last
	 * of all; 0 */
	uint64_t stack, stack_ns;
	bool blocked_stack; /* the thread was off its CPU then */
	/* Of the call above, when one was taken in it: what comes later is not where it was called. */
	uint64_t in_call_stack;
	bool in_call, in_call_blocked;
};

struct poll_notes_of_thread {
	struct poll_note *open;
	size_t n;
};

/* Zeroed at first. */
struct poll_notes {
	struct map threads; /* by number: struct poll_notes_of_thread */
};

void poll_notes_done(struct poll_notes *notes);
/* Each does nothing to an item that is in no poll. 0 or -ENOMEM. */
int poll_notes_block(struct poll_notes *notes, const struct tl_block *block);
int poll_notes_sample(struct poll_notes *notes, const struct tl_sample *sample);
int poll_notes_off_cpu(struct poll_notes *notes, const struct tl_off_cpu *off);
/* What is known of a poll that ends; zero if nothing. It is forgotten. */
struct poll_note poll_notes_take(struct poll_notes *notes, const struct tl_poll *poll);
