/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where things are drawn. Threads have a lane each. Tasks are grouped by family; a family's tasks
 * have a lane each, or, packed, share lanes when their lives don't overlap, so that lanes count
 * concurrency and not tasks.
 *
 * Packing is decided as tasks begin and end, in the order of the timeline, by a rule without
 * memory of the future (the lowest lane that is free). So two passes over one trace place every
 * task alike, and nothing needs to be kept of a task that has ended.
 */
#pragma once

#include "base/map.h"
#include "export/sample_slices.h"
#include "timeline/pool.h"
#include "timeline/timeline.h"
#include "trace/labels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- packing: intervals into the fewest lanes, online ---- */

struct pack {
	uint64_t *free_ns;   /* since when a lane is free */
	uint64_t *free_bits; /* one bit a lane: free now */
	uint32_t n, cap;
};

void pack_done(struct pack *p);
void pack_clear(struct pack *p); /* no lanes, as at the start */
/* The lowest lane that is free since `begin_ns` or before; opens a new one if there is none. */
int pack_take(struct pack *p, uint64_t begin_ns, uint32_t *ret_lane);
void pack_give(struct pack *p, uint32_t lane, uint64_t end_ns);

/* ---- lanes of tasks and threads ---- */

/* A lane as viewers know it. */
struct draw_at {
	uint32_t pid, tid; /* tid 0: there is none */
	uint32_t index;	   /* in the order in which lanes are named, from 0 */
};

struct task_lane {
	uint64_t n_slices;
	uint64_t n_tasks;
	uint64_t number; /* of its first task */
	uint32_t kind;	 /* of futures: of its first one; `mixed`: there are others */
	bool mixed;
	uint64_t n_samples;	      /* with stacks: they have a lane of their own below */
	struct draw_at at, stacks_at; /* of the lane, and of its samples'; set if shown */
};

/* Names of generic types run to kilobytes; a slice shows no more. */
#define LABEL_MAX 1024u

struct lane_family {
	uint32_t kind;
	uint32_t index;	  /* in struct lanes */
	unsigned role;	  /* enum trace_role */
	const char *name; /* belongs to the trace's reader, or to the labels */
	char *short_name; /* kind_short(), or the name where two families would have one */
	char *label;	  /* that as in a JSON string: escaped, cut, without quotes */
	size_t label_len; /* at most LABEL_MAX */
	uint64_t n_tasks, n_slices;
	uint64_t poll_ns, wait_ns, sched_ns;
	struct pack pack;
	struct task_lane *lanes;
	uint32_t n_lanes, cap_lanes;
	uint32_t n_shown;     /* lanes [0, n_shown) are shown */
	uint64_t shown_tasks; /* tasks on them */
	uint32_t pid;	      /* the pseudo-process of its lanes; set if any is shown */
};

/* The outermost slices that a lane got last, in order: a later one lies around them, or after them. */
#define LANE_NEST 8u
struct lane_nest {
	struct {
		uint64_t begin_ns, end_ns;
	} spans[LANE_NEST];
	unsigned n;
};

struct thread_lane {
	bool shown, worker;
	uint64_t n_slices, busy_ns, n_samples;
	struct draw_at at, stacks_at; /* set if shown */
	struct stack_lane stack;
	struct lane_nest nest;
};

/* A request that a task handles, from the begin of the first poll that belongs to it to the end of the
 * last, or of the wait after it: so requests contain their polls and never overlap. */
struct request_span {
	struct tl_round round; /* serial 0: none is open */
	uint64_t begin_ns, end_ns, n_polls;
};

/* Of each poll and wait of a task. True: another request, *ret_over, is over with it. */
bool request_goes_on(struct request_span *r, const struct tl_round *round, bool poll,
		     uint64_t begin_ns, uint64_t end_ns, struct request_span *ret_over);

/* A task that is alive, as exporters keep it in tl_task.user. First member of their own. */
struct lane_slot {
	struct lane_family *family;
	uint32_t lane;
	bool counts; /* a task, and not a worker's own loop */
	bool shown;
	uint64_t begin_ns;
	uint64_t last_ns; /* end of the last slice on its lane: the next one begins no earlier */
	struct request_span request;
	struct stack_lane stack;
	struct lane_nest nest; /* of what is inside its polls */
};

/* An instance of a future that waits for something, and so has a lane; in tl_future.user. */
struct lane_future {
	struct lane_family *family; /* of role future: all futures in tasks of one family */
	uint32_t lane;
	bool shown;
	uint64_t begin_ns, last_ns;
};

struct lanes {
	struct lane_family **families; /* in order of appearance */
	size_t n_families, cap_families;
	struct map by_kind;	  /* (kind, 0: tasks, 1: the futures in them) */
	struct lane_family *last; /* the one looked up last */
	bool futures;		  /* instances of futures have lanes */

	bool by_task;	   /* lanes of `chosen` tasks instead of packed ones */
	struct map chosen; /* serial -> lane + 1, when by_task */

	struct thread_lane *threads; /* by index of the thread */
	uint32_t n_threads;

	const struct trace_kind *(*kind)(const void *ctx, uint32_t kind);
	const void *kind_ctx;
};

void lanes_done(struct lanes *l);
/* A name as in a JSON string, at most LABEL_MAX bytes (free); NULL when out of memory. */
char *lanes_label(const char *name);
/* Families get distinct names from now on, and short ones: `labels` must outlive them. 0 or -ENOMEM. */
int lanes_relabel(struct lanes *l, const struct trace_reader *r, const struct kind_labels *labels);
/* NULL when out of memory. */
struct thread_lane *lanes_thread(struct lanes *l, uint32_t thread);
/* A task appears; call once, in the timeline's order, and _end at its end. 0 or -ENOMEM. */
int lanes_task_begin(struct lanes *l, const struct tl_task *task, struct lane_slot *ret_placed);
void lanes_task_end(struct lanes *l, const struct lane_slot *p, uint64_t end_ns);
/* Where an instance is drawn that is polled; NULL: nowhere, for it was ready at once. The futures
 * around it have got their lanes before it. */
int lanes_future_poll(struct lanes *l, struct pool *placed, struct tl_future *future,
		      enum trace_outcome outcome, struct lane_future **ret_placed);
/* Gives the lane back; the placed stays valid until pool_put(). */
void lanes_future_end(const struct lane_future *p, uint64_t end_ns);
/* Before another pass: all packed lanes are free again. What is shown stays. */
void lanes_restart(struct lanes *l);
/* Forgets the counts of tasks, lanes and threads, and what is shown. */
void lanes_forget(struct lanes *l);
