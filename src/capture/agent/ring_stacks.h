/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks from the agent: the words that it wrote of one (AE_STACK) put together again, and walked
 * when the event comes that they belong to.
 */
#pragma once

#include "capture/agent/source.h"

/* Of the options: which stacks the agent is asked for (enum agent_stacks). */
uint32_t ring_stacks_wanted(const struct capture_options *opt);

/* `wanted` as that says. -ENOMEM. */
int ring_stacks_init(struct source *s, uint32_t wanted);
void ring_stacks_done(struct source *s);

/* One word that a ring holds (AE_STACK), and when it was. Nonsense is left out. */
void ring_stacks_word(struct source *s, uint32_t ring, const struct agent_event *raw,
		      uint64_t time_ns);
/* Another thread's ring now, or events are missing. */
void ring_stacks_forget(struct source *s, uint32_t ring);
/* Any other event: the one that has the stack, or one that has none. 0 or what the writer says. */
int ring_stacks_event(struct drain *d, struct source *s, uint32_t ring,
		      const struct trace_event *e);
/* A panic starts (AE_RAISE): its stack was before this, and perhaps its message, of which this is a part
 * (AE_TEXT). */
void ring_stacks_text(struct source *s, uint32_t ring, const struct agent_event *raw);
int ring_stacks_raise(struct drain *d, struct source *s, uint32_t ring);
/* How many spawns had theirs. */
int ring_stacks_emit(struct drain *d, const struct source *s, struct capture_stats *stats);
