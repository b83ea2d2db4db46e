/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hooks of libc's functions that the agent must know of wherever they are called: those through
 * which a program puts itself, or one of its threads, under a seccomp filter (agent/ring.h,
 * AH_CONFINE), and fork() (AH_FORK).
 */
#pragma once

#include "process/hooks.h"

/* Plans those of all objects, with what is hooked otherwise in the table already. -ENOMEM or 0. */
int libc_hooks_plan(struct hooks *h, const struct process *p, const struct process_objects *objects,
		    const struct process_maps *maps);
