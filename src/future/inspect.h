/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All tasks of a process as they are now, or of a core as they were: found in its memory, nothing
 * executed there.
 *
 * Every task of every runtime and scheduler has a header that points at its kind's vtable, so
 * one search of the writable memory for the vtables' addresses finds them all: multi_thread,
 * current_thread, LocalSet, blocking, async-executor, made before or after anything. What it finds
 * is checked (state word, reference count, links, id) before it counts as a task.
 *
 * Source: Tokio runtime/task/{core,state}.rs, async-task header.rs and state.rs.
 */
#pragma once

#include "base/error.h"
#include "future/await.h"
#include "trace/moment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct inspect;
struct inspect_kind;

struct inspect_task {
	uint64_t addr; /* of its header */
	uint64_t id;   /* the runtime's, 0 where it has none */
	struct inspect_kind *kind;
	uint64_t raw_state;
	uint32_t refs;
	enum inspect_state state;
	bool cancelled, join_interest;
	uint64_t owner; /* Tokio: id of the owning list, 0: none (finished, or a blocking task) */
	struct await_node *tree;    /* NULL: see why */
	const char *no_tree_reason; /* "finished", "no debug information: ..." */
	size_t thread; /* it runs there: index + 1 of the result's threads; 0: not known */
	const struct dw_type *root; /* of a block_on: its future, which lies at addr */
	const char *queue;	    /* scheduled: the run queue that has it; NULL: not known */
	bool in_no_queue;	    /* scheduled, but proven to be in none and on no worker */
	bool torn;		    /* with no_stop: it changed whenever it was read */
	bool ghost;		    /* proven to be none: it runs, but on no thread */
	bool doubtful; /* without a stop: what must hold of a task did not, in one reading */
};

struct inspect_thread {
	pid_t tid;
	char name[32]; /* "" if not known */
};

struct inspect_options {
	bool no_stop;  /* read without stopping; changes meanwhile show as unreadable */
	bool finished; /* also tasks that are done and only kept for their join handle */
	unsigned max_depth;
	size_t max_tasks; /* more are left out, and counted; 0: no limit */
};

struct inspect_result {
	struct inspect_task *tasks; /* by runtime, id, address */
	size_t n_tasks;
	size_t n_left_out;		/* of what may be tasks */
	struct inspect_thread *threads; /* as they were stopped; none without a stop */
	size_t n_threads;
	uint64_t now_ns;  /* CLOCK_MONOTONIC at the moment that the trees show; 0: a core */
	uint64_t stop_ns; /* how long threads were stopped */
	bool stopped;	  /* all of it is of one moment */
	size_t n_torn;	  /* tasks that changed whenever they were read, without a stop */
	size_t n_missed;  /* reads that the copy did not have: the program changed between the walks
			   */
};

int inspect_open(pid_t pid, struct inspect **ret_inspect, struct error *err);
/* From a core file: everything as it was then. `exe` NULL: the program that the core names. */
int inspect_open_core(const char *path, const char *exe, struct inspect **ret_inspect,
		      struct error *err);
void inspect_free(struct inspect *in);

/* One look. The result refers to the inspect; free it first. */
int inspect_snapshot(struct inspect *in, const struct inspect_options *opt,
		     struct inspect_result *ret_result, struct error *err);
void inspect_result_done(struct inspect_result *r);

/* The result as others know it. Its trees are the result's, and names the inspect's: done with
 * moment_done() before them. */
int inspect_moment(struct inspect *in, const struct inspect_result *r,
		   struct trace_moment *ret_moment, struct error *err);
