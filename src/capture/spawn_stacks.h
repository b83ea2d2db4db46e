/*
 * Stacks of spawns from the agent: the words that it wrote of a stack (AE_STACK) put together
 * again, and walked when the spawn comes that they belong to.
 */
#ifndef POLLUX_CAPTURE_SPAWN_STACKS_H
#define POLLUX_CAPTURE_SPAWN_STACKS_H

#include "capture/source.h"

/* Of the options: whether they are wanted. -ENOMEM. */
int spawn_stacks_init(struct source *s);
void spawn_stacks_done(struct source *s);

/* One word that thread's ring holds (AE_STACK). Nonsense is left out. */
void spawn_stacks_word(struct source *s, uint32_t ring, const struct agent_event *raw);
/* Another thread's ring now, or events are missing. */
void spawn_stacks_forget(struct source *s, uint32_t ring);
/* The spawn itself. 0 or what the writer says. */
int spawn_stacks_spawn(struct drain *d, struct source *s, uint32_t ring,
		       const struct trace_event *e);
int spawn_stacks_tell(struct drain *d, const struct source *s, struct capture_stats *stats);

#endif
