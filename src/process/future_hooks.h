/*
 * Hooks of futures' polls: words of data are slots like any other, and calls in the code are made
 * to lead to a stub by changing their four bytes of target.
 */
#ifndef POLLUX_PROCESS_FUTURE_HOOKS_H
#define POLLUX_PROCESS_FUTURE_HOOKS_H

#include "process/hooks.h"

/* Plans the hooks of an object's futures; those that are left alone get their `trouble`. */
int future_hooks_plan(struct hooks *h, const struct process *p, struct hooked_object *o,
		      struct error *err);
/* Plans the hook of one call: four bytes at `at` that lead to `target`, both addresses in the
 * process. What isn't there as expected is counted as left. -ENOMEM or 0. */
int future_hooks_call(struct hooks *h, const struct process *p, uint64_t at, uint64_t target,
		      const struct agent_hook *like);
/* Where the calls will lead to. */
void future_hooks_place(struct hooks *h, const struct layout *l);
/* All threads are stopped. Calls that are not as they were are left alone and counted. */
int future_hooks_patch(struct hooks *h, struct process *p);
/* Back, where ours still stands. All threads are stopped. */
int future_hooks_unpatch(struct hooks *h, struct process *p);

/* A later attach's look at what an earlier one left: whether hook number i of the table is a call
 * that still leads to its stub. */
bool future_hooks_left(const struct process *p, const struct agent_hook *hook, uint64_t stub);
/* Puts such a call back. All threads are stopped. */
int future_hooks_undo(const struct process *p, const struct agent_hook *hook);

#endif
