/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The control groups of a process, where version 1 or 2 is mounted in the usual places. In a container what is
 * mounted may be the container's own group, whatever path /proc/PID/cgroup has: so the folder itself is the
 * last one that is looked at.
 */
#pragma once

#include "process/process.h"

/* Calls fn for the process' group of a controller ("cpu", "memory") and all above it, the innermost first. `fn`
 * gives false for a folder that is not one of the controller's. */
void cgroups_each(const struct process *p, const char *controller,
		  bool (*fn)(void *arg, const char *folder), void *arg);

/* Reads a small file of a group into a 0-terminated buffer. False: it isn't there, or empty. */
bool cgroup_read(const char *folder, const char *name, char *out, size_t size);
/* The number after a word at the begin of a line; 0 if it isn't there. */
uint64_t cgroup_number(const char *text, const char *word);

/* How much more memory may be used before a limit of groups, with what the kernel can take back from caches. */
struct cgroup_memory {
	uint64_t left;	   /* bytes; UINT64_MAX: no limit */
	const char *limit; /* the file of the lowest limit */
};

/* Of one group and those seen before, in *m. False: it is none of memory's. */
bool cgroup_memory_in(const char *folder, struct cgroup_memory *m);
/* Of the process' groups. */
struct cgroup_memory cgroups_memory_left(const struct process *p);
