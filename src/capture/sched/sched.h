/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Private to this folder: the source (sched.c) and its backends, the best first: BPF on a kernel
 * that describes its types, on one that doesn't, and the switch records of perf events, which need
 * no right but show less.
 */
#pragma once

#include "capture/capture.h"

#include <linux/types.h>

#include "capture/samples/user_stack.h"

#include "capture/sched/event.h"

struct sched_backend;

struct sched_backend_ops {
	const char *name;
	/* What it can't report: system calls; which system call a thread is in when it leaves its
	 * CPU; a sleep from one that can't be interrupted. */
	bool no_syscalls, no_numbers, no_uninterruptible;
	/* -EPERM, -EACCES: not allowed; other errors: this kernel can't. */
	int (*open)(struct capture *c, const struct capture_options *opt,
		    struct sched_backend **ret, struct error *err);
	int (*join)(struct sched_backend *w, pid_t pid, struct error *err);
	/* Gives what is there to sched_take(), and says how full the fullest buffer was. */
	int (*drain)(struct sched_backend *w, double *ret_fill);
	/* Nothing happens any more after it; what did is given to sched_take(), with the losses
	 * that were not reported as events of type SCHED_NOTHING. */
	int (*end)(struct sched_backend *w);
	void (*free)(struct sched_backend *w);
};

extern const struct sched_backend_ops sched_backend_btf, sched_backend_plain, sched_backend_perf;

/* One event, of another type than the two below; 0 or what the writer says. */
int sched_take(struct capture *c, const struct sched_event *from);
/* A time off the CPU; the record has `runs` if its length says so. */
int sched_take_switch(struct capture *c, const struct sched_switch *s, size_t len);
/* A stack, whose record has this many bytes: more than up to the stack itself. */
int sched_take_stack(struct capture *c, const struct sched_stack *s, size_t len);
/* This many belong to no known thread. */
void sched_count_lost(struct capture *c, uint64_t n);
