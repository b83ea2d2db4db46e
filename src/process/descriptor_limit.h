/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A descriptor for the remote call that makes the rings (agent_mapping.c), in a process that has
 * none left. That is what a program looks like that pollux is wanted for: one that leaks sockets.
 */
#ifndef POLLUX_PROCESS_DESCRIPTOR_LIMIT_H
#define POLLUX_PROCESS_DESCRIPTOR_LIMIT_H

#include "process/process.h"

#include <sys/resource.h>

struct descriptor_limit {
	uint64_t open, limit, hard; /* open: those below the limit */
};
/* 0 or negative errno. */
int descriptor_limit_read(const struct process *p, struct descriptor_limit *ret);
/* All are taken, and the limit can't be raised by the likes of us; the sentence says what can be
 * done. */
bool descriptor_limit_refused(const struct process *p, const struct descriptor_limit *d,
			      struct error *err);

/* The limit as it was, if it was raised. */
struct descriptor_room {
	struct rlimit before, raised;
	bool is_raised;
};
/* If all are taken, raises the limit by one. -EMFILE with a sentence: it can't be raised. */
int descriptor_limit_make_room(const struct process *p, struct descriptor_room *ret,
			       struct error *err);
/* Puts it back, unless the program has set another meanwhile. */
void descriptor_limit_put_back(const struct process *p, const struct descriptor_room *room);

#endif
