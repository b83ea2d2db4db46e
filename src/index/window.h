/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What happened in a window of a trace, exactly, from the events around it alone.
 *
 *        feed from               window                  feed to
 *     ─────┼───────────┼───────────┼─────────────────┼───────────┼─────
 *          │ exact_ns  │ exact_ns  │ from         to │ exact_ns  │
 *
 * A slice that overlaps the window and is no longer than exact_ns lies within exact_ns around it; what
 * it begins with (the poll before a wait) may begin that much earlier and still be short. All longer
 * ones are among the index's spans, also those that are open when the feed begins: their polls are fed
 * first, so that their ends are understood.
 */
#pragma once

#include "index/index.h"

/* Events that are read for one window: what takes a tenth of a second. */
#define WINDOW_EVENTS 750000u

struct window {
	const struct index *ix;
	uint64_t from_ns, to_ns; /* CLOCK_MONOTONIC */
	/* Each slice that overlaps the window, in no order; a task's life only if it is longer than
	 * exact_ns. */
	int (*slice)(void *ctx, const struct index_span *span);
	/* What else the timeline emits for the events that are fed, short or long, or NULL;
	 * `poll`, `wait`, `block`, `park`, `off_cpu`, `syscall`, `task_end` are not called. */
	const struct timeline_sink *also;
	void *ctx;
	uint64_t max_events; /* 0: WINDOW_EVENTS */
	/* Outputs. */
	bool exact; /* false: there are too many events, only long slices were emitted */
	uint64_t fed_ns, fed_to_ns; /* the first and last time of which events were fed */
};

/* The reader has all tables (trace_reader_skip_events()); `fd` is another descriptor of its file, taken
 * in every case. 0 or negative errno. */
int window_read(struct window *w, struct trace_reader *r, int fd, struct error *err);
