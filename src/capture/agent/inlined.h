/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Futures without a poll function of their own: what is known of their polls becomes events. */
#pragma once

#include "capture/agent/source.h"

/* From now on futures are recorded; the source's rings are known. `wanted` must stay. -ENOMEM or
 * 0. */
int inlined_init(struct source *s, const struct futures_wanted *wanted);
void inlined_done(struct source *s);
/* The await points of a kind's program, numbered from p->first, as futures. */
int inlined_points(struct drain *d, struct source *s, const struct place_program *p);

/* An event of a ring: it is written, with those of futures in between. */
int inlined_event(struct drain *d, struct source *s, uint32_t ring, const struct trace_event *e);
/* AE_FUTURE_SNAPSHOT_BEGIN, AE_FUTURE_SNAPSHOT_END, AE_FUTURE_SNAPSHOT_PREV. */
int inlined_add_snapshot_item(struct drain *d, struct source *s, uint32_t ring,
			      const struct agent_event *raw, uint32_t thread);
/* Adds to the coverage what isn't known of them. */
/* The thread, or the recording, ends: before that is recorded. */
int inlined_thread_end(struct drain *d, struct source *s, uint32_t ring, uint32_t thread);
int inlined_end(struct drain *d, const struct source *s, struct capture_stats *stats);
/* Events were lost, or another thread has the ring. */
void inlined_forget(struct source *s, uint32_t ring);
