/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Trees of causes, one a family: the time of all its units, summed up by cause. Private to this
 * module.
 *
 * A unit's parts are nodes with times; they add up to the unit's length. When the unit is over, its
 * parts go into the sums of the nodes and of all above them. The sums are also kept by the length
 * of the unit, in steps of 1/32 of a power of two, so that the slowest units have a tree, too,
 * without a second pass.
 */
#pragma once

#include "base/hist.h"
#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_type {
	NT_ROOT = 0,
	NT_POLLED,  /* on a CPU, as far as is known */
	NT_CALL,    /* b: enum trace_call; a: 1 + index of a stack that was taken there, 0: none */
	NT_SYSCALL, /* off the CPU; b: number + 1 of the system call, 0: none or not known */
	NT_PREEMPTED, /* without a CPU; b: 1: that was recorded; below: who had it */
	NT_READY,     /* below: what its worker did */
	NT_WAIT,      /* b: 1 + index of the place; below: what for */
	NT_TASK,      /* a: kind that it waits for; below: what that did */
	NT_HOLDER,    /* a: kind that has the lock; below: the same */
	NT_SPAWNER,   /* a: kind that was to spawn the task above; below: the same */
	NT_HELD,      /* a: kind that the worker polled */
	NT_RUNTIME,   /* the worker was between polls */
	NT_ASLEEP,    /* the worker was parked */
	NT_NO_CPU,    /* the worker was without a CPU between polls; below: the same */
	NT_RAN,	      /* a: 1 + index of the first neighbour of that name, 0: not known */
	NT_STARTING,  /* the thread that took it was new */
	NT_IO,
	NT_TIMER,
	NT_DRIVER,
	NT_UNLOOKED, /* no thread looked for events; below: what the one did that was to */
	NT_OUTSIDE,  /* a: index of the thread */
	NT_YIELD,
	NT_NOT_TAKEN, /* ready, and no thread took it */
	NT_CANCELLED, /* it waited until it was cancelled */
	NT_OPEN,      /* it waits still */
	NT_FURTHER,   /* more tasks behind tasks than are followed */
	NT_UNKNOWN,   /* a: enum unknown_reason */
	NT_N
};

enum unknown_reason {
	UR_STATE = 0, /* the task's state is not known: events were lost, or it began before */
	UR_WINDOW,    /* longer ago than what is kept */
	UR_BEFORE,    /* before the first event of the task or thread */
	UR_WAKE,      /* the wake was not seen */
	UR_BUDGET,    /* too much would have to be looked at */
	UR_N
};

/* Sums of the units of one length. */
struct cell {
	uint64_t n, n_units, ns, max_ns;
};

enum unit_type { UNIT_TASK = 0, UNIT_ROUND, UNIT_PART, UNIT_N };

struct node_sums {
	uint64_t n;	/* stretches of time */
	struct hist ns; /* of a unit that has any */
};

struct node {
	uint32_t parent, a;
	uint64_t b;
	uint8_t type, depth;
	/* The longest stretch that a task of kind `a` accounts for, and its number; NT_RAN: 1 + index of
	 * the neighbour. */
	uint64_t longest_ns, longest_task;
	/* while a unit is summed up */
	uint64_t unit, unit_n, unit_ns;
	/* UNIT_N of them, with all that is below. Elsewhere: walks only look at what is above. */
	struct node_sums *sums;
};

struct part {
	uint32_t node, n;
	uint64_t ns;
};

struct parts {
	struct part *items; /* in the order of their nodes */
	size_t n, cap;
	size_t last; /* to which was added last: walks are alike */
};

struct unit {
	enum unit_type type;
	uint64_t length, task; /* task: number */
};

struct unit_sums {
	struct hist length;
	uint64_t longest_task;
	struct map cells; /* (node, length) to struct cell, of node 0 too */
	uint64_t n_left_out;
};

/* Of a node, by type: the child that was looked for last; 0: none yet. */
struct last_children {
	uint32_t nodes[NT_N];
};

struct tree {
	uint32_t kind, handler; /* handler: TRACE_KIND_NONE: none */
	struct node *nodes;
	size_t n_nodes;
	struct map by_key;
	struct last_children *last; /* by node */
	size_t n_last;
	struct unit_sums units[UNIT_N];
	uint64_t n_units; /* numbers given out */
	uint32_t *touched;
	size_t n_touched, cap_touched;
};

/* What all trees share. */
struct trees {
	size_t n_nodes, n_cells; /* there are limits */
};

#define TREE_MAX_NODES 1024
#define TREES_MAX_NODES 8192
#define TREES_MAX_CELLS ((size_t)1 << 18)
#define TREE_MAX_DEPTH 24

/* 0 or -ENOMEM. */
int tree_init(struct tree *t, struct trees *all);
void tree_done(struct tree *t);
/* By its key; a new one where there was none. The parent itself where there are too many or memory is
 * out. */
uint32_t tree_find_child(struct tree *t, struct trees *all, uint32_t parent, enum node_type type,
			 uint32_t a, uint64_t b);
/* The same. Walks are alike, so it mostly is the one of its type that was looked for last. */
static inline uint32_t tree_child(struct tree *t, struct trees *all, uint32_t parent,
				  enum node_type type, uint32_t a, uint64_t b)
{
	uint32_t node = t->last[parent].nodes[type];

	if (node && t->nodes[node].a == a && t->nodes[node].b == b)
		return node;
	return tree_find_child(t, all, parent, type, a, b);
}
/* n stretches, ns in all. 0 or -ENOMEM. */
int parts_insert(struct parts *p, uint32_t node, uint32_t n, uint64_t ns);
/* The same. Mostly the node is there, the one before or next to it. */
static inline int parts_add_many(struct parts *p, uint32_t node, uint32_t n, uint64_t ns)
{
	size_t at = p->last;

	if (at < p->n && p->items[at].node < node)
		at++;
	else if (at && p->items[at].node > node)
		at--;
	if (at >= p->n || p->items[at].node != node)
		return parts_insert(p, node, n, ns);
	p->last = at;
	p->items[at].n += n;
	p->items[at].ns += ns;
	return 0;
}
static inline int parts_add(struct parts *p, uint32_t node, uint64_t ns)
{
	return parts_add_many(p, node, 1, ns);
}
void parts_done(struct parts *p);
/* The unit is over. Its parts add up to its length. 0 or -ENOMEM. */
int tree_add_unit(struct tree *t, struct trees *all, const struct unit *unit,
		  const struct parts *p);
/* The time of a stretch that is that task's, which is of the node's kind. */
void tree_note_task(struct tree *t, uint32_t node, uint64_t ns, uint64_t task);
/* Forgets the units of that type. */
void tree_clear(struct tree *t, struct trees *all, enum unit_type type);

/* The slowest `part` of the units, and as many as are as long as the shortest of these, to 1/32. */
struct slow_set {
	uint32_t from; /* length step */
	uint64_t n, ns, from_ns;
};
struct slow_set tree_slowest(const struct tree *t, enum unit_type type, double part);
/* Of each node in that set (free); NULL: out of memory. */
struct cell *tree_slow_cells(const struct tree *t, enum unit_type type, const struct slow_set *set);
