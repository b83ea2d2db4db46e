/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that are in a block_on at the attach: found by their stacks.
 */
#pragma once

#include "process/hooks.h"

struct root_thread {
	pid_t tid;
	uint64_t sp;
	uint16_t call; /* in which it blocks, TB_NONE: in none that parks */
};

struct roots {
	struct root_thread *threads; /* all, as they were stopped */
	size_t n_threads;
	struct attach_root v[AGENT_MAX_ROOTS];
	size_t n;
};

/* Takes note of the threads' registers: they are stopped, and this is their tracer. */
int roots_note(struct roots *r, const struct process_stop *stopped);
/* Reads the stacks of those threads. A thread too many, and a stack that can't be read, is none. */
int roots_find(struct roots *r, const struct process *p, const struct hooks *h,
	       struct hooked_object *const *objects, size_t n_objects);
void roots_done(struct roots *r);
