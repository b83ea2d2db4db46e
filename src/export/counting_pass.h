/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One pass over a trace that counts what an exporter would draw: slices by lane and over time,
 * tasks, threads. Memory grows with what is alive, with families and threads, and with the number
 * of tasks to be kept as the busiest.
 */
#pragma once

#include "export/limits.h"
#include "timeline/pool.h"

/* Slices by the time of their begin; the bins double their width when time runs on. */
#define BINS_N 4096u
struct bins {
	uint64_t first_ns, width_ns;
	uint64_t slices[BINS_N], bytes[BINS_N];
};
void bins_add(struct bins *b, uint64_t ns, uint64_t bytes);
/* The latest time before which no more than that many slices and bytes begin. */
uint64_t bins_until(const struct bins *b, uint64_t max_slices, uint64_t max_bytes);

/* The n tasks of most weight: a heap with the lightest on top. */
struct top_task {
	struct lane_family *family;
	uint64_t serial, number, weight, n_slices, n_samples;
};
struct top {
	struct top_task *tasks;
	size_t n, max, cap;
};
int top_add(struct top *t, const struct top_task *task);

struct counts {
	struct lanes *lanes;
	const struct limits *limits;
	bool shown_only;    /* count only what is on lanes that are shown */
	bool found_workers; /* a family turned out to be workers' loops: its counts are void */

	const struct trace_reader *reader;
	struct pool tasks, futures; /* of those alive */
	struct top top;
	struct bins bins;
	uint64_t n_slices, n_flows, n_tasks, bytes;
	struct timeline_totals totals;
	uint64_t base_ns;
};

/* Counts into `s`, whose lanes, limits, shown_only and top.max the caller has set. */
int counting_pass_run(struct counts *s, struct trace_reader *r, const struct replay_filter *filter,
		      void (*progress)(void *ctx, uint64_t done, uint64_t total),
		      void *progress_ctx, struct error *err);
void counts_clear(struct counts *s); /* the counts; lanes, limits and top.max stay */
void counts_done(struct counts *s);
