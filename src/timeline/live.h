/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tasks that are alive when a trace ends, by the names that its moments know: a sink of the
 * timeline. Zeroed at first. */
#pragma once

#include "base/map.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

struct live_task {
	uint64_t serial, number; /* as in struct tl_task */
	uint64_t since_ns;	 /* when it came into the state in which it is; 0: not known */
	bool quiet;		 /* it had no event in the whole recording */
	bool unpolled;		 /* or no other than wakes */
};

struct live_tasks {
	struct map by_name; /* (kind, id) to index + 1 */
	struct live_task *v;
	size_t n, cap;
	struct map polls; /* serial of a task whose poll is open at the end to when that began */
	/* the wait that is open at the end and was emitted last */
	uint64_t open_task, open_since_ns;
};

/* Its context are the live tasks. */
extern const struct timeline_sink live_tasks_sink;
/* A task of a moment, of this kind in the trace; NULL: none of that name was alive. */
const struct live_task *live_task(const struct live_tasks *live, const struct trace_reader *r,
				  uint32_t kind, const struct moment_task *t);
void live_tasks_done(struct live_tasks *live);
