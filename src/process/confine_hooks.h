/*
 * Hooks of the functions through which a program puts itself, or one of its threads, under a
 * seccomp filter: the agent makes no more system calls from then on (agent/ring.h, AH_CONFINE).
 */
#ifndef POLLUX_PROCESS_CONFINE_HOOKS_H
#define POLLUX_PROCESS_CONFINE_HOOKS_H

#include "process/hooks.h"

/* Plans those of all objects, with what is hooked otherwise in the table already. -ENOMEM or 0. */
int confine_hooks_plan(struct hooks *h, const struct process *p,
		       const struct process_objects *objects, const struct process_maps *maps);

#endif
