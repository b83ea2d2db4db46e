/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The programs in the kernel: loading them, attaching them, their ring, their tables (core.c).
 */
#pragma once

#include "capture/bpf_ring.h"
#include "capture/kernel/object.h"

struct kernel_core;

struct kernel_core_options {
	uint64_t ring_bytes;
	bool spawn_stacks;
	bool event_per_probe; /* a perf event for each, as for a kernel before 6.6 */
};

int kernel_core_open(const struct kernel_core_options *opt, struct kernel_core **ret_core,
		     struct error *err);
void kernel_core_free(struct kernel_core *core);
/* Whether begins are reported (they are at first); what has begun reports its end in any case. */
void kernel_core_gate(struct kernel_core *core, bool open);
/* What one hit costs the program, measured on the way. */
uint64_t kernel_core_cost_ps(const struct kernel_core *core);
struct bpf_ring *kernel_core_ring(struct kernel_core *core);
int kernel_core_emit_hooks(struct kernel_core *core, struct kernel_hooks *hooks);
/* The layout program of the tasks with this vtable in a process. -ENOSPC: there is no room. */
int kernel_core_layout(struct kernel_core *core, pid_t pid, uint64_t vtable, const uint64_t *words,
		       size_t n);

/* File descriptors that hold probes in place; closing them takes the probes out. */
struct kernel_links {
	int *fds;
	size_t n;
};

/* Puts probes into one process (0: into all that have or will have the file). Sites that the kernel
 * refuses are marked. Negative errno: nothing could be attached. */
int kernel_core_attach(struct kernel_core *core, enum kernel_program program, int file_fd,
		       pid_t pid, struct kernel_site *sites, size_t n, struct kernel_links *links,
		       struct error *err);
void kernel_links_close(struct kernel_links *links);
/* From here on system calls are not recorded, not even their ends. */
void kernel_core_end_calls(struct kernel_core *core);
/* What no thread has reported: of threads that still exist, one call of `emit` each; and the number
 * of losses of all others. */
int kernel_core_rest(struct kernel_core *core,
		     int (*emit)(void *context, const struct kernel_thread *t), void *context,
		     uint64_t *ret_other_losses);
