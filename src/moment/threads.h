/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the threads of a moment do: which task each polls, and what is on its stack from there on. */
#pragma once

#include "base/error.h"
#include "trace/moment.h"

struct thread_use {
	const struct moment_task *task;	  /* the innermost task or closure that runs there; NULL */
	const struct moment_task *worker; /* the runtime's loop that it runs; NULL: none */
	const struct moment_task *root;	  /* the future of its block_on; NULL: none */
	/* The stack from the task's poll (or the closure's begin) inward: at most this number of
	 * frames, the innermost first; 0: none is known to be the task's. Without a task all of
	 * the program's own that runs there. */
	size_t n_frames;
	bool in_place; /* the task is in block_in_place: another thread is the worker */
	bool parked;   /* it runs no task, and sleeps in a system call */
};

/* Of each thread, in the moment's order; free. NULL: out of memory. */
struct thread_use *moment_thread_uses(const struct trace_moment *m);
/* How many frames of its thread's stack are the task's: the stack of a task that runs. 0: it does not
 * run, or they are not known. */
size_t moment_task_frames(const struct trace_moment *m, const struct thread_use *uses,
			  const struct moment_task *t);
/* "futex", NULL if the thread is in no system call. */
const char *moment_call_name(const struct moment_thread *t);
