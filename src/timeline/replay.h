/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A trace file through the timeline, and the filter that report and export share. The loop that
 * every reader needs is here once.
 */
#pragma once

#include "timeline/timeline.h"
#include "trace/trace.h"

struct replay_filter {
	/* Window in ns from the trace's first event; to_ns 0 = to the end. The timeline is fed from
	 * the start, for states need the past, up to the window's end, where all is as at a trace's
	 * end. The sink gets what ends in the window or reaches into it; slices are cut at its
	 * begin, and the numbers of tl_thread are those of the window. */
	uint64_t from_ns, to_ns;
	/* Time of the trace's first event, for a reader that gives a part of its events only; 0: the
	 * first one that it gives. */
	uint64_t base_ns;
	/* Each NULL or a 0-terminated list. A family matches if the kind's name contains the text;
	 * a thread if its tid equals or its name contains it; a task by the number that is shown.
	 */
	const char *const *families;
	const char *const *threads;
	const char *const *tasks;
	/* A word that matches nothing, or a window beyond the end, is no error: what is replayed is
	 * but a part of what was asked for. */
	bool lenient;
};

/* Runs the reader to its end (or until the sink stops it). *ret_totals and ret_base_ns (time of the
 * first event: the zero of the filter's window; known to the sink already) may be NULL. `progress`
 * may be NULL; it is called now and then. A filter of NULL lets everything through; one of which a
 * word matches nothing is -ENOENT, at the end, with a sentence that says what there is. */
int timeline_replay(struct trace_reader *r, const struct replay_filter *filter,
		    const struct timeline_sink *sink, void *sink_ctx,
		    void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
		    struct timeline_totals *ret_totals, uint64_t *ret_base_ns, struct error *err);

/* Reads all events, so that it is known which kinds are used, and rewinds. */
int replay_use_kinds(struct trace_reader *r, struct error *err);

/* How long the recording lasted: from when all was in place, or its first event if that came
 * sooner, to its end; or how long the window is. Of a reader that was replayed with that filter. */
uint64_t replay_length_ns(const struct trace_reader *r, const struct replay_filter *filter,
			  uint64_t base_ns, uint64_t end_ns);
