/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How polls of Tokio's tasks end, one row each: what a poll leaves in its task, and the end that
 * follows. The rule by itself (test_runtimes.c), the agent (test_agent*.c) and the kernel source
 * (test_kernel.c) must all come to it. Before the poll the task is queued and has a join handle.
 */
#pragma once

#include "agent/runtime_tokio.h"

enum tokio_output { OUTPUT_NONE = 0, OUTPUT_CANCELLED, OUTPUT_PANIC };

enum { ENDS_ID = 77, ENDS_PAYLOAD = 0x5000, ENDS_VTABLE = 0x6000, ENDS_WORDS = 8 };

static const struct tokio_end_row {
	const char *says;
	uint64_t after; /* bits of the state, without the count */
	bool raised;	/* a panic, in the poll */
	enum tokio_output output;
	enum poll_end end;
} tokio_ends[] = {
#define OVER TOKIO_COMPLETE
#define HANDLE TOKIO_JOIN_INTEREST
#define QUEUED TOKIO_NOTIFIED
#define ABORTED TOKIO_CANCELLED
	{"it ended", OVER | HANDLE, false, OUTPUT_NONE, END_READY},
	{"it ended, and nobody awaits it", OVER, false, OUTPUT_NONE, END_READY},
	{"aborted too late", OVER | HANDLE | QUEUED | ABORTED, false, OUTPUT_NONE, END_READY},
	{"aborted while it was polled", OVER | HANDLE | QUEUED | ABORTED, false, OUTPUT_CANCELLED,
	 END_CANCELLED},
	{"aborted while it was polled, and nobody awaits it", OVER | QUEUED | ABORTED, false,
	 OUTPUT_NONE, END_CANCELLED},
	{"aborted before it was polled", OVER | HANDLE | ABORTED, false, OUTPUT_CANCELLED,
	 END_UNPOLLED},
	{"a panic", OVER | HANDLE, true, OUTPUT_PANIC, END_PANICKED},
	{"a panic that it caught", OVER | HANDLE, true, OUTPUT_NONE, END_READY},
	{"a panic, and nobody awaits it", OVER, true, OUTPUT_NONE, END_PANICKED},
	{"a panic, then an abort", OVER | HANDLE | QUEUED | ABORTED, true, OUTPUT_PANIC,
	 END_PANICKED},
	{"a panic that it caught, then an abort", OVER | HANDLE | QUEUED | ABORTED, true,
	 OUTPUT_CANCELLED, END_CANCELLED},
#undef OVER
#undef HANDLE
#undef QUEUED
#undef ABORTED
};

enum { N_TOKIO_ENDS = sizeof(tokio_ends) / sizeof(tokio_ends[0]) };

/* What follows the id in the task: the output, or what the future left there. */
static inline void tokio_end_words(const struct tokio_end_row *row, uint64_t ret[ENDS_WORDS])
{
	for (unsigned i = 0; i < ENDS_WORDS; i++)
		ret[i] = 0xa5a5a5a5;
	if (row->output == OUTPUT_NONE)
		return;
	ret[1] = row->output == OUTPUT_PANIC ? ENDS_PAYLOAD : 0;
	ret[2] = ENDS_VTABLE;
	ret[3] = ENDS_ID;
}
