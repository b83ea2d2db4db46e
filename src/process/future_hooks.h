/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hooks of futures' polls: words of data are slots like any other, calls in the code are those of
 * call_hooks.h.
 */
#pragma once

#include "process/hooks.h"

/* Plans the hooks of an object's futures; those that are left alone get their `trouble`. `near`:
 * its code reaches the agent. */
int future_hooks_plan(struct hooks *h, const struct process *p, struct hooked_object *o, bool near,
		      struct error *err);
/* Gives those their `trouble` that hooks_patch_across() has dropped. */
void future_hooks_cover_dropped(struct hooks *h, struct hooked_object *const *objects,
				size_t n_objects);
