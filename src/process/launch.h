/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Starting a program and parking it where its relocations are done and nothing of it has run. */
#pragma once

#include "process/follow.h"
#include "process/inject.h"
#include "process/threads.h"

/* Forks on the calling thread (a program may have asked for a signal at its death), traces on the
 * tracer. On failure the child is gone and reaped. */
int launch_parked(struct tracer *tracer, char *const argv[], struct process *ret_process,
		  struct entry_stop *ret_parked, struct error *err);
/* Lets it go. */
int launch_go(struct tracer *tracer, struct process *p, const struct entry_stop *parked,
	      struct error *err);
/* Lets it go, but follows it to its next exec; the tracer belongs to *ret_follow then. */
int launch_follow(struct tracer *tracer, struct process *p, const struct entry_stop *parked,
		  struct follow **ret_follow);
/* Parks the program that a followed one has executed. -ECHILD: it has ended, *ret_status is
 * waitpid's. */
int launch_next(struct tracer *tracer, pid_t pid, struct process *ret_process,
		struct entry_stop *ret_parked, int *ret_status, struct error *err);
/* Ends and reaps it instead. */
void launch_abort(struct process *p);
