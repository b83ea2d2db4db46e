/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which calls through a descriptor may wait: not those through one that is set to be non-blocking,
 * as all sockets and eventfds of an async runtime are. The kernel says so in /proc/PID/fdinfo,
 * which pollux reads a moment after the call.
 */
#pragma once

#include "base/map.h"
#include "process/process.h"
#include "trace/event.h"

#include <stdbool.h>
#include <stdint.h>

struct descriptors {
	bool seen[TB_N], waits[TB_N]; /* by call: the descriptor seen last */
	struct map known;	      /* (descriptor, 0) -> what was seen of it, and when */
	uint32_t n_looks;	      /* since descriptors_tidy() */
};

void descriptors_done(struct descriptors *d);
/* Before a drain: it may look at some more. */
void descriptors_tidy(struct descriptors *d);
/* Whether a call (enum trace_call) through it may have waited. `flags` are the call's own. One that
 * is gone, and was never looked at, is guessed at. */
bool descriptors_may_wait(struct descriptors *d, const struct process *p, unsigned call,
			  uint32_t fd, uint32_t flags, uint64_t length_ns, uint64_t now_ns);
