/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The sources: the process' CPU clock; the second number of /proc/PID/task/TID/schedstat; and
 * cpu.stat and the quota of the process' cgroup and of those above it (process/cgroups.h).
 */
#include "capture/cpu_use.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "base/units.h"
#include "process/cgroups.h"
#include "process/process.h"
#include "process/threads.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_LEVELS 16
#define MAX_THREADS 256u /* a look at one takes ten microseconds */

struct throttling {
	uint64_t n_periods, n_throttled, throttled_ns;
};

/* A cgroup. */
struct level {
	char *folder;
	struct throttling before, after;
	uint64_t quota_ns, period_ns;
};

struct cpu_use {
	struct process process; /* its directory only */
	struct level levels[MAX_LEVELS];
	size_t n_levels;
	struct map threads; /* (tid, 0) -> index + 1 of its run delay */
	uint64_t before[MAX_THREADS], now[MAX_THREADS];
	uint32_t n_threads;
	bool begun;
	clockid_t clock;
	uint64_t cpu_before_ns;
	struct trace_cpu sum;
};

/* ---- cgroups ---- */

static bool read_throttling(const char *folder, struct throttling *ret)
{
	char text[1024];

	if (!cgroup_read(folder, "cpu.stat", text, sizeof(text)))
		return false;
	ret->n_periods = cgroup_number(text, "nr_periods");
	ret->n_throttled = cgroup_number(text, "nr_throttled");
	/* Version 1 has ns, 2 has us. */
	ret->throttled_ns = cgroup_number(text, "throttled_time") +
			    cgroup_number(text, "throttled_usec") * 1000;
	return true;
}

static void read_quota(struct level *l)
{
	char quota[64], period[64];
	long long quota_us = 0, period_us = 0;

	if (cgroup_read(l->folder, "cpu.max", quota, sizeof(quota))) {
		if (sscanf(quota, "%lld %lld", &quota_us, &period_us) != 2)
			quota_us = 0; /* "max" */
	} else if (cgroup_read(l->folder, "cpu.cfs_quota_us", quota, sizeof(quota)) &&
		   cgroup_read(l->folder, "cpu.cfs_period_us", period, sizeof(period))) {
		quota_us = strtoll(quota, NULL, 10);
		period_us = strtoll(period, NULL, 10);
	}
	l->quota_ns = quota_us > 0 ? (uint64_t)quota_us * 1000 : 0;
	l->period_ns = quota_us > 0 && period_us > 0 ? (uint64_t)period_us * 1000 : 0;
}

static bool add_level(void *arg, const char *folder)
{
	struct cpu_use *u = arg;
	struct level *l = &u->levels[u->n_levels];

	if (u->n_levels == MAX_LEVELS || !read_throttling(folder, &l->before))
		return false;
	l->after = l->before;
	l->folder = strdup(folder);
	u->n_levels += l->folder != NULL;
	return l->folder != NULL;
}

/* ---- threads ---- */

static void look_at_thread(struct cpu_use *u, pid_t tid)
{
	char name[48], text[128];
	uint64_t ran, delay;
	uintptr_t i = (uintptr_t)map_get(&u->threads, (uint64_t)tid, 0);

	snprintf(name, sizeof(name), "task/%d/schedstat", tid);
	if (process_read_file(&u->process, name, text, sizeof(text)) <= 0 ||
	    sscanf(text, "%lu %lu", &ran, &delay) != 2)
		return;
	if (!i) {
		if (u->n_threads == MAX_THREADS ||
		    map_put(&u->threads, (uint64_t)tid, 0, (void *)(uintptr_t)(u->n_threads + 1)) <
			    0)
			return;
		i = ++u->n_threads;
		u->before[i - 1] = u->begun ? 0 : delay;
	}
	u->now[i - 1] = delay;
}

static void look_at_threads(struct cpu_use *u)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n = 0;

	if (threads_list(&u->process, &tids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		look_at_thread(u, tids[i]);
}

/* ---- the process ---- */

static uint64_t cpu_clock(const struct cpu_use *u)
{
	struct timespec ts;

	if (clock_gettime(u->clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

struct cpu_use *cpu_use_begin(pid_t pid, uint32_t process)
{
	struct cpu_use *u = calloc(1, sizeof(*u));
	char name[32];

	if (!u)
		return NULL;
	u->sum = (struct trace_cpu){.process = process};
	snprintf(name, sizeof(name), "/proc/%d", pid);
	u->process = (struct process)PROCESS_INIT;
	u->process.proc_fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (clock_getcpuclockid(pid, &u->clock) == 0)
		u->cpu_before_ns = cpu_clock(u);
	if (u->process.proc_fd >= 0) {
		cgroups_each(&u->process, "cpu", add_level, u);
		look_at_threads(u);
	}
	u->begun = true;
	return u;
}

void cpu_use_look(struct cpu_use *u)
{
	uint64_t cpu = u->cpu_before_ns ? cpu_clock(u) : 0;

	if (cpu > u->cpu_before_ns)
		u->sum.cpu_ns = cpu - u->cpu_before_ns;
	if (u->process.proc_fd >= 0)
		look_at_threads(u);
	for (size_t i = 0; i < u->n_levels; i++) {
		read_throttling(u->levels[i].folder, &u->levels[i].after);
		read_quota(&u->levels[i]);
	}
}

/* What the cgroup adds; of several the one that was throttled most often. */
static void add_throttling(struct trace_cpu *sum, const struct level *l)
{
	uint64_t n = l->after.n_throttled - l->before.n_throttled;

	if (!l->quota_ns || l->after.n_throttled < l->before.n_throttled ||
	    (sum->quota_ns && n <= sum->n_throttled))
		return;
	sum->n_throttled = n;
	sum->n_periods = l->after.n_periods - l->before.n_periods;
	sum->throttled_ns = l->after.throttled_ns - l->before.throttled_ns;
	sum->quota_ns = l->quota_ns;
	sum->period_ns = l->period_ns;
	sum->cgroup = l->folder;
}

struct trace_cpu cpu_use_sum(const struct cpu_use *u)
{
	struct trace_cpu sum = u->sum;

	sum.n_threads = u->n_threads;
	for (uint32_t i = 0; i < u->n_threads; i++)
		sum.run_delay_ns += u->now[i] > u->before[i] ? u->now[i] - u->before[i] : 0;
	for (size_t i = 0; i < u->n_levels; i++)
		add_throttling(&sum, &u->levels[i]);
	return sum;
}

void cpu_use_free(struct cpu_use *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < u->n_levels; i++)
		free(u->levels[i].folder);
	map_done(&u->threads);
	process_close(&u->process);
	free(u);
}
