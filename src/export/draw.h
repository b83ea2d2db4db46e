/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What of a trace is drawn, and where: the part that all timelines have in common. It follows the
 * timeline, decides which slice lies on which lane between which times, and calls a pen, which writes
 * it in a format. A pen gets all groups and lanes first, in the order in which they are shown.
 *
 *     a group per traced program   a lane per thread: polls by family, futures in them, blocking
 *                                  and system calls, parks
 *     a group per family           a lane per task, or packed: the task's life, below it the
 *                                  requests that it handles, and below these waiting, scheduled,
 *                                  polls and what is inside them
 *     another for its futures      packed lanes: an instance's life, its polls, its waits
 *     a group of findings          a lane each, with the time that it is about
 *     groups of stacks             what samples saw of threads; a family's are in its own group
 *
 * Slices come when they end, so what is inside comes before what is around it. Slices of a lane
 * nest: each begins and ends inside those around it, 1 ns after what begins at the same time,
 * for viewers take the one that comes first for the outer one. Where two threads' clocks disagree
 * a little, a task's slices are cut so that they touch.
 */
#pragma once

#include "export/export.h"
#include "export/gauge.h"
#include "export/limits.h"
#include "export/short_names.h"
#include "timeline/pool.h"

/* Of a task's wakes, those that may lead to its next poll. */
#define DRAW_MAX_WAKES 4

enum draw_group_type { GROUP_THREADS, GROUP_FAMILY, GROUP_STACKS, GROUP_CUT, GROUP_FINDINGS };

struct draw_group {
	enum draw_group_type type;
	uint32_t pid; /* of the traced process, or a number that none of these has */
	const char *name;
	const char *site;		  /* where a family's tasks are spawned; NULL: not known */
	const struct lane_family *family; /* of GROUP_FAMILY */
	const struct trace_process *process; /* of threads and stacks */
	uint64_t rank;
};

struct draw_lane {
	struct draw_at at;
	enum draw_group_type group;
	bool stacks;			  /* functions that samples saw */
	const struct thread_lane *thread; /* NULL: of a family */
	const struct lane_family *family; /* NULL: of a thread */
	const char *name;
	uint64_t rank; /* in its group */
};

enum draw_type {
	DRAW_TASK,	    /* task: its life */
	DRAW_REQUEST,	    /* request: of a task, around its polls and waits */
	DRAW_POLL,	    /* poll: on its task's lane and on its thread's */
	DRAW_WAIT,	    /* wait */
	DRAW_WAKE,	    /* a moment (1 ns) outside of all polls that an arrow begins at */
	DRAW_BLOCK,	    /* block */
	DRAW_SECTION,	    /* section: block_in_place */
	DRAW_PARK,	    /* park */
	DRAW_LOSS,	    /* loss */
	DRAW_SYSCALL,	    /* syscall */
	DRAW_OFF_CPU,	    /* off_cpu */
	DRAW_FUTURE_POLL,   /* future_poll: inside the task's poll */
	DRAW_INSTANCE,	    /* future: its life, on a lane of its own */
	DRAW_INSTANCE_POLL, /* on that lane */
	DRAW_INSTANCE_WAIT,
	DRAW_STACK,   /* frame: a function on the stack */
	DRAW_FINDING, /* finding: on a lane of its own */
	DRAW_N_TYPES
};

struct draw_slice {
	enum draw_type type;
	struct draw_at at;
	bool on_task;		   /* the task's lane; else the thread's */
	bool worst;		   /* of polls: long enough to harm others */
	bool open;		   /* of polls: it goes on at the window's end */
	uint64_t begin_ns, end_ns; /* as CLOCK_MONOTONIC has it; begin_ns <= end_ns */
	uint64_t flow;		   /* of a poll: number of the arrow that ends here; 0: none */
	union {
		const struct tl_task *task;
		const struct request_span *request;
		const struct tl_poll *poll;
		const struct tl_wait *wait;
		const struct tl_block *block;
		const struct tl_park *park;
		const struct tl_loss *loss;
		const struct tl_syscall *syscall;
		const struct tl_off_cpu *off_cpu;
		const struct tl_future_poll *future_poll;
		const struct tl_future *future;
		const struct trace_frame *frame; /* NULL: not known */
		const struct export_finding *finding;
	};
	const struct lane_family *family; /* of polls and tasks: the task's */
};

/* A wake that led to a poll. */
struct draw_flow {
	uint64_t number; /* from 1 */
	struct draw_at from, to;
	uint64_t from_ns, to_ns;
};

/* Where an await point is, for people. */
enum wait_class { WAIT_FOR_OTHER, WAIT_FOR_TIMER, WAIT_FOR_CHANNEL, WAIT_FOR_LOCK, WAIT_FOR_TASK };
struct place_text {
	char *name;   /* "main.rs:12 app::order"; NULL: not made yet */
	char *at;     /* "src/main.rs:12 app::order" */
	char *awaits; /* "tokio::time::sleep::Sleep" */
	enum wait_class class;
};

struct pen {
	int (*group)(void *ctx, const struct draw_group *group);
	int (*lane)(void *ctx, const struct draw_lane *lane);
	int (*slice)(void *ctx, const struct draw_slice *slice);
	/* After the slices of the poll; `slice.flow` names it. NULL: no arrows. */
	int (*flow)(void *ctx, const struct draw_flow *flow);
	/* A sample of a poll that takes long: a moment on its thread's lane. NULL: not drawn. */
	int (*long_poll)(void *ctx, const struct tl_sample *sample, struct draw_at at);
	/* Samples of the CPU as they are, instead of slices; `at`: the thread's lane. */
	int (*sample)(void *ctx, const struct tl_sample *sample, struct draw_at at);
	/* A time off the CPU of a thread that is shown, besides its slices. NULL: not wanted. */
	int (*off_cpu)(void *ctx, const struct tl_off_cpu *off);
	/* In the end, of all tasks and threads, shown or not: "ready tasks", "busy workers". */
	int (*counter)(void *ctx, const char *name, const struct gauge *gauge);
};

struct draw {
	struct trace_reader *reader;
	struct export_scope sel;
	const struct pen *pen;
	void *ctx;
	struct pool tasks, futures;
	struct short_names names;  /* of requests and futures */
	struct place_text *places; /* by index, made when wanted */
	uint32_t n_places;
	uint32_t n_lanes; /* that the pen has got */
	struct gauge ready, busy;
	const struct export_options *opt;
	struct draw_at *findings; /* their lanes, opt->n_findings of them */
	uint64_t n_slices, n_flows;
};

/* Counts the trace and decides what is shown. 0, or as limits_run(). Then draw_run(), draw_done(). */
int draw_init(struct draw *d, struct trace_reader *r, const struct export_options *opt,
	      const struct limits *limits, const struct pen *pen, void *ctx, struct error *err);
/* Groups and lanes to the pen; adds a group that says what was cut. 0 or a pen's error. */
int draw_names(struct draw *d);
/* The slices. Where the trace breaks off, all before is drawn. */
int draw_run(struct draw *d, const struct export_options *opt, struct error *err);
void draw_summary(const struct draw *d, uint64_t bytes, struct export_summary *ret);
void draw_done(struct draw *d);

/* NULL: not known. */
const struct place_text *draw_place(struct draw *d, uint64_t place);
/* "ready", "dropped", ..., "alive". */
const char *draw_future_end(const struct tl_future *future);
/* "futex", or "system call 777", and "off CPU, sleeping in futex". */
void draw_syscall_name(struct buf *out, uint32_t number);
void draw_off_cpu_name(struct buf *out, const struct tl_off_cpu *off);
/* Functions of a sample's stack, innermost first, a line each; "not known" without one. */
void draw_stack_text(const struct draw *d, const struct tl_sample *sample, struct buf *out);

/* lane_names.c: groups and lanes in their order, with their numbers, to the pen. */
int lane_names_emit(struct draw *d);
