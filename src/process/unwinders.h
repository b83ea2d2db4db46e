/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Through which unwinder the panics of an object go, and which unwinders of a process accept the
 * agent's frames.
 */
#pragma once

#include "agent/ring.h"
#include "process/objects.h"

enum unwinder {
	UNWINDER_UNBOUND, /* the loader has not said yet */
	UNWINDER_OWN,	  /* linked into the object, and does not accept them */
	UNWINDER_OTHER,	  /* another library, which does not accept them */
	UNWINDER_KNOWN,	  /* libgcc's, as one of struct unwinders */
};

/* All of libgcc's that were found, as the agent gets them. */
struct unwinders {
	struct agent_unwinder v[AGENT_MAX_UNWINDERS];
	uint32_t n;
};

/* Looks at an object of the process; adds its unwinder if that is libgcc's. */
enum unwinder unwinders_add(struct unwinders *u, const struct process *p,
			    const struct process_objects *objects, const struct process_object *o);
/* Adds the other copies of libgcc_s: not only the unwinder of its object may unwind a frame. libc
 * uses libgcc_s.so.1 to end a thread. */
void unwinders_add_libraries(struct unwinders *u, const struct process_objects *objects);

/* Whether the panics of an object abort: its std calls an unwinder, for backtraces, but starts no
 * panic. */
bool unwinders_abort(const struct process_object *o);
