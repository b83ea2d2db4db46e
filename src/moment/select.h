/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which tasks of a moment are meant. */
#pragma once

#include "moment/graph.h"
#include "moment/threads.h"

/* Each list is NULL or 0-terminated; of one, any word will do, and a task is meant by all lists. */
struct task_selection {
	bool finished; /* also tasks that have ended, and that only a join handle keeps */
	const char *const *families;  /* parts of names */
	const char *const *tasks;     /* ids or 0xADDRESS */
	const char *const *states;    /* "idle", "scheduled", "running", "done" */
	const char *const *waits_for; /* parts of what it waits for, in words or of its kind */
	const char *const *with;    /* parts of names of functions that are in its tree or stack */
	const char *const *without; /* the same: none of them is */
	uint64_t longer_than_ns;    /* it has been in its state for longer; 0: does not matter */
	const uint64_t *for_ns; /* for how long each task has, by its index, 0: not known; NULL */
};

/* Whether anything is left out. */
bool task_selection_is_all(const struct task_selection *s);
/* Of the graph's moment; `uses` as of moment_thread_uses(). */
bool task_selected(const struct task_selection *s, const struct graph *g,
		   const struct thread_use *uses, const struct moment_task *t);
/* The words that a state is chosen by. */
bool task_state_is_known(const char *word);
