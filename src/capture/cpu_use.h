/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the CPUs give the recorded processes, as the kernel counts it in any case: CPU time, how
 * long threads were ready to run without a CPU, and how often a cgroup was throttled. Read from
 * outside, at the begin, once in a while, and at the end.
 */
#pragma once

#include "trace/trace.h"

#include <stdint.h>
#include <sys/types.h>

struct cpu_use;

/* A process joins: what it used before does not count. NULL: out of memory. */
struct cpu_use *cpu_use_begin(pid_t pid, uint32_t process);
/* What it has used by now: nothing can be asked of a process that is gone. */
void cpu_use_look(struct cpu_use *u);
/* What was seen last; the text is u's. */
struct trace_cpu cpu_use_sum(const struct cpu_use *u);
void cpu_use_free(struct cpu_use *u);
