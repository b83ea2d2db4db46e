/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hooks of calls in the code: each is made to lead to a stub by changing its four bytes of target.
 */
#pragma once

#include "process/hooks.h"

#define CALL_HOOKS_FIELD 4u /* bytes of a relative target */

/* Whether the four bytes at `at` lead to `target`, both addresses in the process; *ret_saved: they
 * themselves. */
bool call_hooks_read(const struct process *p, uint64_t at, uint64_t target, uint64_t *ret_saved);
/* The hook, whose slot and saved bytes are set, is one of a call. -ENOMEM or 0. */
int call_hooks_add(struct hooks *h, struct agent_hook *hook);
/* Plans the hook of one call, with type and kind of `like`. What isn't there as expected is counted
 * as left. -ENOMEM or 0. */
int call_hooks_plan(struct hooks *h, const struct process *p, uint64_t at, uint64_t target,
		    const struct agent_hook *like);
/* Where the calls will lead to. */
void call_hooks_place(struct hooks *h, const struct layout *l);
/* Of `n` calls from `first` on; all threads are stopped. Calls that are not as they were are left alone and counted. */
int call_hooks_patch(struct hooks *h, struct process *p, size_t first, size_t n);
/* Restores those of them that still lead to the stubs. All threads are stopped. */
int call_hooks_unpatch(struct hooks *h, struct process *p, size_t first, size_t n);

/* Whether its four bytes lie in two pages; then these two change it, as hooks_patch_across() and
 * hooks_unpatch_across() say, and the two above don't. */
bool call_hooks_across(const struct hook_call *c);
int call_hooks_patch_across(struct hooks *h, struct across *x,
			    const struct process_objects *objects, struct error *err);
int call_hooks_unpatch_across(struct hooks *h, struct across *x,
			      const struct process_objects *objects, bool dropped,
			      struct error *err);

/* A later attach's look at what an earlier one left: whether the hook is a call that still leads to
 * its stub. */
bool call_hooks_left(const struct process *p, const struct agent_hook *hook, uint64_t stub);
/* Puts such a call back. All threads are stopped. */
int call_hooks_undo(const struct process *p, const struct agent_hook *hook);
