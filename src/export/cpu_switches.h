/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What CPUs ran, as far as a recording with --sched knows it: at each switch of a recorded thread who
 * ran before and after, and who ran while one waited. Two threads may have a record of one switch;
 * between those that are known, others may have run, which no record shows: (not recorded).
 */
#pragma once

#include "timeline/timeline.h"
#include "trace/trace.h"

struct cpu_thread {
	uint32_t tid;
	const char *name;
};

struct cpu_switch {
	uint64_t time_ns;
	uint32_t cpu;
	bool prev_runs; /* it would go on if it could; else it sleeps */
	bool prev_deep; /* it sleeps and can't be interrupted */
	bool known;	/* the state of prev */
	struct cpu_thread prev, next;
};

struct cpu_waking {
	uint64_t time_ns;
	uint32_t cpu; /* on which it runs then */
	struct cpu_thread woken, waker;
};

struct cpu_switches {
	struct cpu_switch *items;
	size_t n, cap;
	struct cpu_waking *wakings;
	size_t n_wakings, wakings_cap;
};

/* Of a thread's time off the CPU; nothing if it is not known how. 0 or -ENOMEM. */
int cpu_switches_add(struct cpu_switches *c, const struct trace_reader *r,
		     const struct tl_off_cpu *off);
/* By CPU and time, so that each switch is from the thread that the one before was to. 0 or -ENOMEM. */
int cpu_switches_finish(struct cpu_switches *c);
void cpu_switches_done(struct cpu_switches *c);
