/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Live sources of events behind one ops table. A source turns what it sees into the vocabulary of
 * trace/event.h and writes it; it knows nothing of what the events mean.
 *
 * A recording has one main source (agent or kernel), which starts or finds the processes and knows
 * their tasks, and any number of others that add what they see of the same processes (samples,
 * scheduler, system calls). The set holds them together: it announces each process to the others,
 * drains all, ends the rounds of the trace, sums up.
 */
#pragma once

#include "base/error.h"
#include "trace/coverage.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct capture;
struct capture_set;
struct capture_threads; /* capture/threads.h */
struct capture_stacks;	/* capture/samples/stacks.h */
struct places_ops;	/* process/places.h */

enum capture_futures { CF_NONE = 0, CF_GENERATED, CF_ALL };

struct capture_options {
	const pid_t *pids; /* attach to these ... */
	size_t n_pids;
	char *const *argv;   /* ... or start this (NULL-terminated) ... */
	const char *exe;     /* ... or every process of this binary; only one of three */
	uint64_t ring_bytes; /* per thread; of the kernel's buffers, per CPU */
	const struct places_ops *places; /* who knows await points; NULL: none are recorded */
	uint64_t
		places_wait_ns; /* a recording of a running program begins when they are known, or that late */
	const char *const *own; /* crates that are the program's own; NULL: by their source */
	bool near;		/* only those of a task's own functions, not on into boxes */
	bool kernel;		/* the main source is the kernel, not the agent */
	bool force;		/* seccomp filters that can't be read are risked */
	uint32_t cpu_hz;	/* samples of the CPU; 0: none */
	uint32_t stack_bytes;	/* copied of the stack by each sample; 0: as is usual */
	bool sched, syscalls;
	bool if_possible;      /* these two, cpu_hz and lock_stacks, only where they exist */
	uint64_t long_poll_ns; /* stacks of polls longer than this; 0: none */
	bool spawn_stacks;     /* the stack of each spawn */
	bool lock_stacks;      /* the stack of each long wait for a lock */
	enum capture_futures futures;
	const char *const *include, *const *exclude; /* of futures, by name; NULL or 0-terminated */
	/* Reads all tasks of a process as they are now and calls `emit` with them
	 * (future/moments.h). NULL: the trace gets no moments. */
	int (*moments)(pid_t pid, int (*emit)(void *ctx, struct trace_moment *m), void *ctx,
		       struct error *err);
};

/* Events that were lost, and the time from the first to the last; all 0 if none were. */
struct capture_loss {
	uint64_t n, first_ns, last_ns;
};

void capture_loss_add(struct capture_loss *loss, uint64_t n, uint64_t first_ns, uint64_t last_ns);

/* Of the moments of all processes at the start, or at the end. */
struct capture_moment_cost {
	uint64_t n_tasks, n_processes, stop_ns;
};

struct capture_stats {
	struct capture_loss lost;
	struct trace_cost cost;
	struct capture_moment_cost moments[MOMENT_N];
	int exit_status; /* of the program, as from waitpid; -1 if still running, or not known */
	pid_t child;	 /* the launched program if it still runs, for waitpid; else 0 */
	struct coverage_list coverage; /* of all processes; capture_stats_done() */
	size_t n_processes;	       /* that were recorded */
	char *program; /* what the launched one executed at last; NULL: but what was launched */
	struct error why_empty; /* why no process was, if it is known */
};
void capture_stats_done(struct capture_stats *s);
/* Writes it into the trace and keeps a copy for the end. */
int capture_emit_coverage(struct trace_writer *w, struct capture_stats *s,
			  const struct trace_coverage *c);
/* Only the copy: the trace knows of it already. */
int capture_keep_coverage(struct capture_stats *s, const struct trace_coverage *c);

/* What the sources of one recording share. */
struct capture_shared {
	const struct capture_options *options;
	struct trace_writer *writer;
	struct capture_threads *threads;
	struct capture_stacks *stacks; /* NULL if no option asks for stacks */
	/* The main source calls this for every process that it begins with, when the process is in
	 * the trace (`process` is its index) and before events flow; a program that pollux started
	 * is stopped then, with its libraries loaded. An error ends the recording. */
	int (*joined)(struct capture_shared *shared, pid_t pid, uint32_t process,
		      struct error *err);
	struct capture_set *set;
};

struct capture_ops {
	const char *name; /* "agent", "kernel", "samples", ... */
	/* A main source finds, loads, enables: on success events flow. Any other only makes
	 * itself ready. The shared outlives the source. */
	int (*open)(struct capture_shared *shared, struct capture **ret_capture, struct error *err);
	/* Not of main sources: a process joins, see capture_shared. What can't be had, but is not
	 * what the user asked for by name, becomes coverage and no error. */
	int (*join)(struct capture *c, pid_t pid, uint32_t process, struct error *err);
	/* Writes all that is there now. *ret_watermark_ns: what happened before it is written.
	 * Returns ns after which it likes to be called again, 0 when all targets are gone and
	 * drained (main sources), negative errno. */
	int64_t (*drain)(struct capture *c, uint64_t *ret_watermark_ns, struct error *err);
	/* Main sources, may be NULL: sleeps, until its buffers fill up earlier than thought: true
	 * then. A signal ends it too. */
	bool (*wait)(struct capture *c, uint64_t ns);
	/* Detaches, drains the rest, adds its coverage, losses and cost to *stats, which others
	 * have added to. Frees c in every case. */
	int (*close)(struct capture *c, struct capture_stats *stats, struct error *err);
	/* Main sources: the launched program: its pid while it runs, else 0; its status from
	 * waitpid, -1 while it runs. */
	pid_t (*child)(const struct capture *c);
	int (*exit_status)(const struct capture *c);
};

extern const struct capture_ops capture_agent;	 /* main */
extern const struct capture_ops capture_kernel;	 /* main: USDT probes and uprobes */
extern const struct capture_ops capture_samples; /* CPU samples by perf events */
extern const struct capture_ops capture_sched;	 /* off-CPU time and system calls */
extern const struct capture_ops capture_watch;	 /* stacks of long polls */

/* Opens what the options ask for. On failure nothing is left anywhere. */
int capture_set_open(const struct capture_options *opt, struct trace_writer *w,
		     struct capture_set **ret_set, struct error *err);
/* Drains all sources, ends a round when it is time; returns as capture_ops.drain. */
int64_t capture_set_drain(struct capture_set *s, struct error *err);
/* Sleeps for as long as the last drain said; a signal ends it, or a source that can't wait. */
void capture_set_wait(struct capture_set *s, uint64_t ns);
/* The main source is closed last. Writes the cost. Frees s in every case. */
int capture_set_close(struct capture_set *s, const char *reason, struct capture_stats *ret_stats,
		      struct error *err);
pid_t capture_set_child(const struct capture_set *s);
int capture_set_exit_status(const struct capture_set *s);
