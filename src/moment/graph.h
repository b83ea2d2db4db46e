/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who waits for whom: edges between the tasks of a moment that memory proves, and what follows from
 * them.
 */
#pragma once

#include "base/error.h"
#include "base/map.h"
#include "trace/moment.h"

#include <stdbool.h>
#include <stddef.h>

struct graph {
	const struct trace_moment *moment;
	/* The crates that are the program's own, NULL-terminated; the caller's, NULL after graph_make():
	 * by where their source lies. */
	const char *const *own;
	struct map by_addr; /* header -> index + 1 of a task */
	struct map locks;   /* address as in await_node.resource -> struct graph_lock */
	struct graph_cycle *cycles;
	size_t n_cycles;
	struct graph_lost *lost;
	size_t n_lost;
	struct graph_held *held; /* what tasks hold in locals, each one of its node's `held` */
	size_t n_held, cap_held;
};

struct graph_held {
	size_t task;
	const struct await_node *node; /* whose local it is: an await point of the task */
	const struct await_held *held;
};

/* What is seen of a lock: who has a guard or a permit of it, and who waits. */
struct graph_lock {
	size_t *holders; /* indexes of tasks */
	size_t n_holders;
	size_t n_waiting; /* leaves that wait for it */
};

/* Tasks each of which waits for the next and for nothing else, the last for the first. */
struct graph_cycle {
	size_t *tasks;			  /* indexes */
	const struct await_node **leaves; /* the leaf by which each waits */
	size_t n;
};

/* A task that can never run again, though it is not done. */
struct graph_lost {
	size_t task;
	const char *proof;
	bool pending; /* it awaits a future without a size: std::future::pending(), say */
};

int graph_make(const struct trace_moment *m, struct graph *ret_graph, struct error *err);
void graph_done(struct graph *g);

/* What is seen of the lock that a leaf waits for; NULL: it waits for none. */
const struct graph_lock *graph_lock(const struct graph *g, const struct await_node *leaf);
/* The task that a leaf waits for: an awaited task, or the holder of the lock; NULL if not known. */
const struct moment_task *graph_target(const struct graph *g, const struct await_node *leaf);
/* The guard of the lock that blocks a thread: it sleeps on a word of that lock. NULL: none is known. */
const struct graph_held *graph_blocked_by(const struct graph *g, const struct moment_thread *t);
/* The leaf that a task with this tree waits for, NULL: none; in *own, unless there is none, the
 * innermost await point of the program's own code around it. */
const struct await_node *graph_leaf(const struct graph *g, const struct await_node *tree,
				    const struct await_node **own);
