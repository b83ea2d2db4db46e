/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What several answers need: the window that is asked for, places, ids of tasks and polls. */
#pragma once

#include "index/index.h"
#include "trace/labels.h"
#include "view/answer.h"

/* Window of a request in CLOCK_MONOTONIC: from <= t < to, never empty. 0 or -EINVAL. */
struct view_window {
	uint64_t from_ns, to_ns;
};
int view_window(const struct view_source *v, const struct view_request *q, struct view_window *ret,
		struct error *err);
/* The trace's file with a position of its own: a descriptor or negative errno. */
int view_open_again(const struct view_source *v, struct error *err);
/* A reader of its own on the trace. */
int view_reader(const struct view_source *v, struct trace_reader **ret, struct error *err);
/* "5.17": a task by the number of its kind and its name there. False: it is none. */
bool view_parse_task(const char *text, uint32_t *ret_kind, uint64_t *ret_task);
/* A text of up to 96 bytes. */
const char *view_task_id(char text[static 96], uint32_t kind, uint64_t task);
/* What is in the window of a series of the index: its inner cells, and a part of the outer ones as if they were even;
 * `most`: the largest of its cells. 0 or negative errno. */
int view_sum(const struct view_source *v, const struct view_window *w, uint32_t series, bool most,
	     uint64_t *ret, struct error *err);

/* "0,8,12": ids of lanes that there are, up to VIEW_MAX_LANES. 0, -EINVAL, -ENOENT. */
#define VIEW_MAX_LANES 256u
int view_lanes(const struct view_source *v, const char *text, uint32_t ret_lanes[VIEW_MAX_LANES],
	       unsigned *ret_n, struct error *err);

/* The report of a window from the index alone. */
int view_sums_report(const struct view_source *v, const struct view_window *w, struct buf *out,
		     struct error *err);

/* The places that an answer names, and the numbers of its tasks. */
struct view_places {
	uint64_t *places;
	size_t n, cap;
	struct numbered_task {
		uint32_t kind;
		uint64_t task, begin_ns, number;
	} * tasks; /* that their runtime names by address; read when the first one is needed */
	size_t n_tasks, tasks_cap;
	bool tasks_read;
};
/* 0: none. False: out of memory. */
bool view_add_place(struct view_places *p, uint64_t place);
/* The number by which people and reports know the task that lived at that time: the runtime's id, or, of one that is named by its
 * address, pollux's own. A text of up to 96 bytes. */
const char *view_task_number(char text[static 96], const struct view_source *v,
			     struct view_places *p, uint32_t kind, uint64_t task, uint64_t at_ns);
/* Which task of its address it was, for those that are named by that: a number that no other one has; 0 for all others. */
uint64_t view_task_serial(const struct view_source *v, struct view_places *p, uint32_t kind,
			  uint64_t task, uint64_t at_ns);
/* "places": {"7": {…}}; frees it. */
void view_write_places(struct view_places *p, const struct trace_reader *r, struct json *j);
/* The members of a place's object. */
void view_write_place(const struct trace_reader *r, uint64_t place, struct json *j);
