/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel reports to every user of its own threads: when each leaves a CPU and returns, by
 * the switch records of perf events (PERF_RECORD_SWITCH). A record says whether the thread was
 * still to run; not in what way it sleeps, nor in which system call.
 *
 * Such an event belongs to one thread and, to be inherited by the threads that it makes, to one
 * CPU. So each thread has one per CPU; all of a CPU write into one buffer. A thread comes back on
 * another CPU than it left, so the records of all buffers are put in order of time first: each look
 * takes what was stamped before it began, the rest waits for the next. A thread that was made while
 * the list was read may have two events; of two records of the same switch the second adds nothing.
 */
#include "base/clock.h"
#include "base/map.h"
#include "base/order.h"
#include "base/vec.h"
#include "capture/perf_ring.h"
#include "capture/sched/sched.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES (512u << 10) /* what a user may lock per CPU by default, but for one page */

enum switch_kind { LEFT, LEFT_READY, CAME, ENDED, LOST };

struct switch_event {
	struct order_item order;
	uint64_t n_lost;
	uint32_t tgid, tid;
	enum switch_kind kind;
	uint32_t cpu; /* + 1 */
};

/* A thread that is off its CPU. */
struct absent {
	uint64_t since_ns;
	uint32_t cpu; /* that it left, + 1 */
	uint16_t reason;
};

struct sched_backend {
	struct capture *capture;
	unsigned n_cpus;
	struct perf_ring *rings; /* by CPU; without a page: that CPU has no event yet */
	int *owners;		 /* by CPU: the event that the ring belongs to */
	int *fds;
	size_t n_fds, cap_fds;
	struct order waiting; /* struct switch_event */
	struct map absent;    /* (tgid, tid) */
	uint32_t taken_cpu;   /* whose records are taken now, + 1 */
};

static int event_open(pid_t tid, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.context_switch = 1,
		.task = 1,
		.inherit = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	long fd = syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static void forget_absent(struct sched_backend *w)
{
	map_free(&w->absent, free);
	w->absent = (struct map){0};
}

static void backend_free(struct sched_backend *w)
{
	for (unsigned i = 0; i < w->n_cpus && w->rings; i++)
		perf_ring_close(&w->rings[i]);
	for (size_t i = 0; i < w->n_fds; i++)
		close(w->fds[i]);
	forget_absent(w);
	free(w->rings);
	free(w->owners);
	free(w->fds);
	order_done(&w->waiting);
	free(w);
}

static int backend_open(struct capture *c, const struct capture_options *opt,
			struct sched_backend **ret, struct error *err)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	struct sched_backend *w = calloc(1, sizeof(*w));
	int probe;

	(void)opt;
	if (w && n > 0) {
		w->capture = c;
		order_init(&w->waiting, sizeof(struct switch_event), SIZE_MAX);
		w->n_cpus = (unsigned)n;
		w->rings = calloc(w->n_cpus, sizeof(*w->rings));
		w->owners = calloc(w->n_cpus, sizeof(*w->owners));
	}
	if (!w || !w->rings || !w->owners) {
		if (w)
			backend_free(w);
		return error_sys(err, -ENOMEM, "cannot record the scheduler");
	}
	probe = event_open(0, -1);
	if (probe < 0) {
		backend_free(w);
		return error_sys(err, probe, "perf events are refused");
	}
	close(probe);
	*ret = w;
	return 0;
}

static int add_event(struct sched_backend *w, pid_t tid, unsigned cpu)
{
	struct perf_ring *ring = &w->rings[cpu];
	int fd = event_open(tid, (int)cpu), rc = 0;

	if (fd < 0)
		return fd;
	if (!GROW(w->fds, w->n_fds, w->cap_fds)) {
		close(fd);
		return -ENOMEM;
	}
	w->fds[w->n_fds++] = fd;
	if (ring->page) {
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, w->owners[cpu]) < 0)
			rc = -errno;
	} else {
		rc = perf_ring_open(ring, fd, RING_BYTES);
		w->owners[cpu] = fd;
	}
	return rc;
}

/* Events for all threads of a process that aren't in `done` yet. Says how many they were. */
static int add_threads(struct sched_backend *w, pid_t pid, struct map *done)
{
	char path[32];
	struct dirent *d;
	DIR *dir;
	int rc = 0, n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && rc == 0 && (d = readdir(dir))) {
		pid_t tid = (pid_t)strtol(d->d_name, NULL, 10);

		if (tid <= 0 || map_get(done, (uint64_t)tid, 0))
			continue;
		rc = map_put(done, (uint64_t)tid, 0, w);
		for (unsigned cpu = 0; cpu < w->n_cpus && rc == 0; cpu++) {
			rc = add_event(w, tid, cpu);
			if (rc == -ENODEV || rc == -ESRCH)
				rc = 0; /* this CPU is off, the thread is gone */
		}
		n++;
	}
	if (dir)
		closedir(dir);
	return rc < 0 ? rc : n;
}

static int backend_join(struct sched_backend *w, pid_t pid, struct error *err)
{
	struct map done = {0};
	struct rlimit files;
	int rc;

	/* An event per thread and CPU takes many of them. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	do {
		rc = add_threads(w, pid, &done);
	} while (rc > 0);
	map_done(&done);
	return rc < 0 ? error_sys(err, rc, "cannot follow the threads of process %d", pid) : 0;
}

/* ---- from records to events ---- */

static int take_record(void *context, const struct perf_event_header *h)
{
	struct sched_backend *w = context;
	const unsigned char *body = (const unsigned char *)(h + 1);
	struct switch_event one = {.kind = LOST, .cpu = w->taken_cpu};

	switch (h->type) {
	case PERF_RECORD_SWITCH:
		one.kind = !(h->misc & PERF_RECORD_MISC_SWITCH_OUT)	   ? CAME
			   : h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT ? LEFT_READY
									   : LEFT;
		break;
	case PERF_RECORD_EXIT: /* pid, ppid, tid, ptid, time */
		one.kind = ENDED;
		body += 24;
		break;
	case PERF_RECORD_LOST: /* id, lost */
		memcpy(&one.n_lost, body + 8, 8);
		body += 16;
		break;
	default:
		return 0;
	}
	/* All end with the thread that it is about, and the time. */
	if (body + 16 > (const unsigned char *)h + h->size)
		return 0;
	memcpy(&one.tgid, body, 4);
	memcpy(&one.tid, body + 4, 4);
	memcpy(&one.order.time, body + 8, 8);
	return order_put(&w->waiting, &one);
}

static int leave(struct sched_backend *w, const struct switch_event *h)
{
	struct absent *a;
	int rc;

	if (map_get(&w->absent, h->tgid, h->tid))
		return 0;
	a = malloc(sizeof(*a));
	if (!a)
		return -ENOMEM;
	*a = (struct absent){h->order.time, h->cpu,
			     h->kind == LEFT_READY ? SCHED_PREEMPTED : SCHED_SLEEPING};
	rc = map_put(&w->absent, h->tgid, h->tid, a);
	if (rc < 0)
		free(a);
	return rc;
}

static int emit(struct sched_backend *w, const struct switch_event *h)
{
	struct sched_switch s = {.event = {.time = h->order.time, .tgid = h->tgid, .tid = h->tid}};
	struct sched_event *e = &s.event;
	struct absent *a;
	int rc = 0;

	switch (h->kind) {
	case LEFT:
	case LEFT_READY:
		return leave(w, h);
	case LOST:
		/* Who came and who left is not known now. */
		forget_absent(w);
		sched_count_lost(w->capture, h->n_lost);
		return 0;
	case CAME:
	case ENDED:
		a = map_remove(&w->absent, h->tgid, h->tid);
		if (h->kind == ENDED) {
			e->type = SCHED_EXIT;
			rc = sched_take(w->capture, e);
		} else if (a) {
			e->type = SCHED_OFF_CPU;
			e->arg = a->reason;
			e->value = h->order.time - a->since_ns;
			s.left_cpu = a->cpu;
			s.got_cpu = h->cpu;
			rc = sched_take_switch(w->capture, &s, offsetof(struct sched_switch, runs));
		}
		free(a);
		return rc;
	}
	return 0;
}

/* Takes what is there; reports what was stamped before `until`. */
static int drain_until(struct sched_backend *w, uint64_t until, double *ret_fill)
{
	struct switch_event one;
	int rc = 0;

	for (unsigned i = 0; i < w->n_cpus && rc == 0; i++) {
		if (!w->rings[i].page)
			continue;
		w->taken_cpu = i + 1;
		rc = perf_ring_drain(&w->rings[i], take_record, w);
		if (w->rings[i].fill > *ret_fill)
			*ret_fill = w->rings[i].fill;
	}
	while (rc == 0 && order_next(&w->waiting, until, &one))
		rc = emit(w, &one);
	return rc;
}

static int backend_drain(struct sched_backend *w, double *ret_fill)
{
	return drain_until(w, clock_monotonic_ns(), ret_fill);
}

static int backend_end(struct sched_backend *w)
{
	double fill = 0;

	for (size_t i = 0; i < w->n_fds; i++)
		ioctl(w->fds[i], PERF_EVENT_IOC_DISABLE, 0);
	return drain_until(w, UINT64_MAX, &fill);
}

const struct sched_backend_ops sched_backend_perf = {
	.name = "perf events",
	.no_syscalls = true,
	.no_numbers = true,
	.no_uninterruptible = true,
	.open = backend_open,
	.join = backend_join,
	.drain = backend_drain,
	.end = backend_end,
	.free = backend_free,
};
