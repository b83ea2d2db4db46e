/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tasks and the workers of a trace's moments, for the timeline. Zeroed before the first use. */
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

	/* Workers, by (process, tid): of the start's moments struct timeline_before_thread, until the trace's
	 * record of the thread is read; of the end's one that was parked, or was not */
	struct map workers, last_workers;
	struct map lasts;	    /* process + 1 of which a moment of the end shows all threads */
	uint32_t n_threads;	    /* of the reader's that were looked at */
	struct found_worker *found; /* those that the timeline knows */
	size_t n_found;
};

/* Gives the timeline, if there is one, what was read since the last call; kinds of tasks that
 * lived before are used. 0 or negative errno. */
int tl_moments_feed(struct tl_moments *m, struct trace_reader *r, struct timeline *tl,
		    struct error *err);
/* Whether there is something for it: a cheap question, to be asked before each event is fed. */
static inline bool tl_moments_due(const struct tl_moments *m, const struct trace_reader *r)
{
	return m->n_read < trace_reader_n_moments(r) ||
	       (m->workers.n && m->n_threads < trace_reader_n_threads(r));
}
/* After the last event. */
void tl_moments_end(struct tl_moments *m, struct trace_reader *r, struct timeline *tl,
		    uint64_t begin_ns);
void tl_moments_done(struct tl_moments *m);

/* The kind of a moment's task; TRACE_KIND_NONE: the trace has none. */
uint32_t tl_moments_kind(struct tl_moments *m, const struct trace_reader *r, uint32_t process,
			 const struct moment_kind *kind);
/* The name that events have of a task. */
uint64_t tl_moments_name(const struct trace_reader *r, uint32_t kind, const struct moment_task *t);
