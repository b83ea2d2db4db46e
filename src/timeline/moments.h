/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tasks of a trace's moments, for the timeline. Zeroed before the first use. */
#pragma once

#include "base/map.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

struct tl_moments {
	uint32_t n_read; /* of the reader's moments */
	uint32_t n_kinds;
	struct map kinds; /* (vtable and object, process) to index + 1 of a kind */
	struct map ends;  /* process + 1 of which there is a moment of the end */
	struct map alive; /* (kind, id) of the tasks in those */
};

/* Gives the timeline, if there is one, what was read since the last call; kinds of tasks that
 * lived before are used. 0 or negative errno. */
int tl_moments_feed(struct tl_moments *m, struct trace_reader *r, struct timeline *tl,
		    struct error *err);
/* After the last event. */
void tl_moments_end(struct tl_moments *m, struct trace_reader *r, struct timeline *tl,
		    uint64_t begin_ns);
void tl_moments_done(struct tl_moments *m);

/* The kind of a moment's task; TRACE_KIND_NONE: the trace has none. */
uint32_t tl_moments_kind(struct tl_moments *m, const struct trace_reader *r, uint32_t process,
			 const struct moment_kind *kind);
/* The name that events have of a task. */
uint64_t tl_moments_name(const struct trace_reader *r, uint32_t kind, const struct moment_task *t);
