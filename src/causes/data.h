/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the files of this module share:
 *
 *     causes.c   the sink: segments of tasks and threads, and where units begin and end
 *     history.c  the window of segments
 *     blocks.c   segments of a thread, summed up
 *     walk.c     backwards from the end of a stretch of time: which causes it has
 *     tree.c     sums by cause
 *     words.c    what causes are called
 *     text.c, json.c
 */
#pragma once

#include "base/buf.h"
#include "causes/blocks.h"
#include "causes/causes.h"
#include "causes/history.h"
#include "causes/tree.h"
#include "trace/labels.h"
#include "trace/waits_for.h"

/* How long no worker looked for events. */
struct unlooked {
	uint64_t from_ns, to_ns; /* 0: not at all */
	uint32_t thread;	 /* that had looked last before */
};

struct off_cpu {
	uint64_t begin_ns, end_ns;
	uint32_t thread;
	uint16_t call;
	bool ready;		 /* it waited for a CPU; else it slept */
	bool named;		 /* as a segment's */
	uint32_t ran, neighbour; /* who had the CPU: as a node's, and itself; 0: not known */
	uint64_t ran_head;	 /* newest segment there, where it is a thread of the program's */
	uint64_t ran_open;	 /* as a segment's `open` */
};

/* Stretches off the CPU that are not in the history yet, in the order of time. */
struct offs {
	struct off_cpu *items;
	size_t n, cap;
};

/* Where a task is, since the end of its last segment. */
struct task_past {
	/* Two lines of a processor's cache have what most items need. */
	_Alignas(64) uint64_t serial; /* 0: the slot is free */
	uint64_t number;
	uint64_t head;		    /* number of its newest segment; 0: none */
	uint64_t first_ns, last_ns; /* of all its segments: first begin, last end */
	uint32_t kind;
	uint8_t role;	  /* enum trace_role */
	uint8_t woken_by; /* enum woken_by, of the wake that ends its wait now; as what follows */
	bool by_driver;	  /* the thread had just waited for events */
	bool whole;	  /* its spawn was seen */
	uint32_t waker_kind, waker_thread;
	uint64_t cause, waker_task;
	/* Off its CPU within the poll that is open, since its newest segment: a call that it was in
	 * meanwhile is reported later. */
	struct offs off;
	struct parts parts;	  /* since first_ns */
	uint64_t stack, stack_ns; /* the last that was taken in a call of its */
	struct unlooked unlooked;
	uint64_t round_ns;
	uint32_t round_head; /* point at which it began; 0: with the task */
	bool in_round;
	bool waited_in_round; /* for something else than what its family waits for between rounds */
};

struct thread_past {
	uint64_t head;	      /* number of the newest segment on it */
	struct blocks blocks; /* of those before the newest */
	bool driver;	      /* its last park was a wait for events */
	bool polls;	      /* it polls tasks */
	bool polling;	      /* a poll that is open, of a task of this kind */
	uint32_t polling_kind;
	struct unlooked unlooked; /* before that park, which returned at once */
	struct offs off;	  /* outside of polls, since its newest segment */
};

/* The last wait for events in a process. */
struct last_look {
	uint64_t end_ns; /* 0: none yet */
	uint32_t thread;
};

/* What is known of a kind of tasks. */
struct kind_past {
	bool handlers; /* its tasks serve requests that are known as such */
	/* Its tasks begin a round where they are woken from this point. */
	uint64_t head; /* point, see causes_point(); 0: none yet */
	unsigned head_rank;
	uint64_t head_votes;
	struct tree *tree; /* without a handler */
};

/* A place as it reads: those that read the same are one point. */
struct point {
	uint32_t place; /* 1 + index of the first such place */
	bool known;
	enum wait_for waits_for;
};

/* A thread of the machine that had a CPU instead of one of the program's. */
struct neighbour {
	uint32_t same;	 /* 1 + index of the first of that name; 0: not looked at yet */
	uint32_t thread; /* 1 + index of the program's thread that it is; 0: of another program */
};

/* What of a tree is shown. */
struct shown_tree {
	const struct tree *tree;
	enum unit_type type;
	uint64_t ns;
	bool matters; /* it was asked for, or has much time; these come first */
	struct slow_set slow;
	struct cell *cells; /* of the slowest, by node */
};

#define TASKS_PER_PAGE 64u
#define PARTS_KEPT 16u

struct causes {
	struct trace_reader *reader;
	struct causes_options opt;
	struct history history;
	struct task_past **task_pages; /* by slot */
	size_t n_task_pages, cap_task_pages;
	struct thread_past *threads;
	size_t n_threads;
	struct last_look *looks; /* by process */
	size_t n_looks;
	struct kind_past *kinds;
	size_t n_kinds;
	struct point *points; /* by place */
	size_t n_points;
	struct map same_points; /* by hash of the text */
	struct map same_stacks; /* by hash of the line of the program's own code */
	struct neighbour *neighbours;
	size_t n_neighbours;
	struct map same_neighbours; /* (process or 0, hash of the name): as `same` */
	struct map thread_numbers;  /* (pid, tid): 1 + index of the thread */
	uint32_t n_numbered;	    /* threads that are in it */
	bool names_neighbours;	    /* the trace says who had a CPU */
	bool has_parks;
	struct map trees; /* by kind, handler */
	struct trees all_trees;
	uint64_t n_trees_left_out;
	uint64_t credit; /* segments that may be looked at */
	size_t n_parts;	 /* of the tasks that live */
	bool out_of_memory;
	/* when all is collected */
	struct kind_labels labels;
	char **shorts; /* by kind */
	struct shown_tree *shown;
	size_t n_shown;
};

/* Steps of a walk for each item of the timeline, on the average; and of one walk. */
#define CREDIT_PER_ITEM 12
#define CREDIT_MAX (1u << 20)
#define WALK_MAX 65536
#define WALK_DEPTH 8
/* Times off the CPU that a task keeps until it is known whether they were in a call. */
#define MAX_OFF_CPU 1024
/* Items of the parts of all living tasks. */
#define MAX_PARTS ((size_t)1 << 22)

/* ---- walk.c ---- */

/* What a task did from a to b: its segments, newest first, and, after the newest, a poll that is
 * open. The parts are of nodes of that tree. */
void walk_own(struct causes *c, struct tree *t, struct parts *out, uint64_t head, uint64_t a,
	      uint64_t b);
/* In place of that, where there are too many parts. */
void walk_nothing(struct causes *c, struct tree *t, struct parts *out, uint64_t ns);

/* ---- words.c ---- */

void words_family(const struct causes *c, struct buf *out, const struct tree *t);
/* What a node is called below another. Safe for a terminal. */
void words_node(const struct causes *c, struct buf *out, const struct tree *t, uint32_t node);
/* " (longest: task 7)": that of its longest stretch, if known. */
void words_longest(const struct causes *c, struct buf *out, const struct node *n);
/* Shorter, for a sentence. */
void words_short(const struct causes *c, struct buf *out, const struct tree *t, uint32_t node);
/* The same in JSON: "waiting". */
const char *words_type(const struct tree *t, uint32_t node);
const char *words_reason(uint32_t reason);
