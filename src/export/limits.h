/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What of a trace is shown: which tasks, which threads, up to when. Viewers handle a limited number
 * of lanes and slices (each format knows its own numbers), so before anything is written a counting
 * pass reads the trace once. What is too much is cut by plain rules and reported:
 *
 *   lanes   threads get at most half of the budget, workers and busy ones first; families share
 *           the rest evenly, small ones in full. In a packed family the lanes on top go, in one
 *           with a lane per task those that did least.
 *   slices  by time: all is shown from the window's start to the moment when the budget is
 *           used up. What is shown has no holes.
 */
#pragma once

#include "export/export.h"
#include "export/lanes.h"

/* What a viewer bears, and what things cost in the format. */
struct limits {
	uint64_t max_slices, max_lanes;	       /* by default: what it opens without waiting */
	uint64_t ceiling_bytes, ceiling_lanes; /* beyond: it fails or freezes */
	unsigned slice_bytes, flow_bytes, lane_bytes;
	bool flows;
	bool futures;	      /* draws instances of futures on lanes of their own */
	bool requests;	      /* draws a task's requests around its polls */
	bool stacks;	      /* draws samples as slices on lanes of their own */
	bool tasks_by_choice; /* lanes for tasks only when the filter names tasks */
	const char *viewer;   /* for messages: "Chrome's trace viewer" */
};

struct export_scope {
	struct lanes lanes;
	struct replay_filter filter; /* with the window that fits */
	uint64_t base_ns;	     /* time of the trace's first event: the zero of all output */
	uint64_t from_ns, to_ns;     /* the window shown, absolute */
	uint64_t n_slices, n_flows, n_lanes, est_bytes;
	uint64_t n_tasks, n_threads; /* in the window, shown or not */
	uint64_t shown_tasks, shown_threads;
	uint64_t cut_slices; /* at least */
	struct timeline_totals totals;
	struct kind_labels labels;
	char notice[256]; /* "" or what was cut and how to get it */
};

/* Surveys and decides; leaves the reader rewound. -EFBIG beyond the ceilings unless opt->force. */
int limits_run(struct trace_reader *r, const struct export_options *opt,
	       const struct limits *limits, struct export_scope *ret, struct error *err);
void export_scope_done(struct export_scope *s);
