/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looking whether a thread of the target got a further seccomp filter, of whatever way it comes by.
 * No thread is stopped.
 */
#pragma once

#include "base/map.h"
#include "process/process.h"

struct seccomp_watch {
	struct map known; /* by tid: how many filters it had, + 1 */
	long most;	  /* that any of them had: a new thread may have them from its maker */
	pid_t *tids;	  /* this round's, of which those before `next` were looked at */
	size_t n, next;
};

/* Notes what there is. Negative errno if that fails. */
int seccomp_watch_begin(struct seccomp_watch *w, const struct process *p);
void seccomp_watch_done(struct seccomp_watch *w);
/* Whether a thread has more than it had, of all; or of the main thread and the next few, since to
 * look at a thread takes some 10 us. */
bool seccomp_watch_all(const struct seccomp_watch *w, const struct process *p);
bool seccomp_watch_some(struct seccomp_watch *w, const struct process *p);
