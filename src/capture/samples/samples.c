/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CPU samples: where the threads of the program are, sampled at a rate per second of CPU time.
 *
 * A perf event counts cycles, or, where there is no such counter (virtual machines), time on a CPU;
 * it fires at the frequency asked for, and the kernel then writes a record with the registers and a
 * copy of the top of the user stack, which pollux unwinds (capture/samples/stacks.h): Rust programs
 * have no frame pointers by which the kernel could. One event for each thread and CPU: only events
 * of a CPU may share a buffer and be inherited by the threads that come later. All of it works for
 * one's own programs without any right; then only user code counts (kernel.perf_event_paranoid=2).
 *
 * The list of threads is read twice, since one may be made in between: a thread that only the
 * second list has may have inherited its events already. It shows by the number in its samples, and
 * the events that it needs not are closed again.
 *
 * Buffers are of CPUs, streams of the trace of threads, which move: samples are put in order where
 * they wait for their names.
 */
#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "base/cpu_yield.h"
#include "base/units.h"
#include "base/vec.h"
#include "capture/capture.h"
#include "capture/drain_interval.h"
#include "capture/perf_ring.h"
#include "capture/samples/stacks.h"
#include "capture/threads.h"
#include "process/process.h"
#include "process/threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS 1024u
#define RING_MAX_BYTES (4u << 20)
#define RINGS_BYTES (64u << 20) /* of all CPUs, while that leaves each RING_FAIR_BYTES */
#define RING_FAIR_BYTES (512u << 10)
#define STACK_DEFAULT_BYTES 8192u
#define STACK_MAX_BYTES 65528u
/* How long pollux waits for what is loaded in a process before samples go without stacks. */
#define READY_NS (3000 * NSEC_PER_MSEC)
#ifndef PERF_FORMAT_LOST
#define PERF_FORMAT_LOST (1u << 4)
#endif

struct event {
	int fd;
	pid_t tid;
	uint64_t id; /* of its samples; known of late ones only */
	bool late;   /* by the second look at the threads */
};

struct process_samples {
	pid_t pid;
	uint32_t process; /* trace index */
	uint64_t joined_ns;
	uint64_t n;
	char refused[128]; /* why some threads or CPUs are missing */
	uint64_t n_refused;
};

/* Whose samples go where. */
struct sample_stream {
	uint32_t thread; /* trace index of its first record: shows that the tid was reused */
	uint32_t index;
};

struct capture {
	struct capture_shared *shared;
	struct perf_event_attr attr;
	bool cycles;
	uint32_t asked_hz;
	struct perf_ring *rings; /* by CPU; those that are online have a page */
	int *ring_fds;
	unsigned n_cpus;
	size_t ring_bytes;
	struct event *events;
	size_t n_events, events_cap;
	size_t n_late;
	struct process_samples *processes;
	size_t n_processes;
	struct map streams; /* (process, tid) -> struct sample_stream */
	struct drain_interval pace;
	uint64_t drained_ns, watermark_ns;
	uint64_t n_throttled;
	struct capture_loss lost;
};

/* What the kernel writes for each sample, up to the registers; the order is that of
 * perf_event_open(2). */
struct sample_head {
	struct perf_event_header header;
	uint64_t id, ip;
	uint32_t pid, tid;
	uint64_t time, period;
	uint64_t regs_abi;
};
#define SAMPLE_TYPE                                                                                \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_PERIOD | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

static int event_open(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* ---- what the machine allows ---- */

static uint64_t read_setting(const char *path, uint64_t otherwise)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char text[32] = "";

	return f && fgets(text, sizeof(text), f) ? strtoull(text, NULL, 10) : otherwise;
}

/* Tries on ourselves what will be asked of the program's threads. */
static int try_event(struct perf_event_attr *attr)
{
	int fd = event_open(attr, 0, -1);

	if (fd == -EACCES || fd == -EPERM) {
		attr->exclude_kernel = 1;
		fd = event_open(attr, 0, -1);
	}
	if (fd == -EINVAL && attr->read_format) {
		attr->read_format = 0; /* before 6.0 */
		fd = event_open(attr, 0, -1);
	}
	if (fd == -EINVAL && attr->inherit_thread) {
		attr->inherit_thread =
			0; /* before 5.13: forked children come along, and are sorted out */
		fd = event_open(attr, 0, -1);
	}
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int choose_event(struct capture *c, const struct capture_options *opt, struct error *err)
{
	uint64_t max_hz = read_setting("/proc/sys/kernel/perf_event_max_sample_rate", 100000);
	uint32_t stack = opt->stack_bytes ? opt->stack_bytes : STACK_DEFAULT_BYTES;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.freq = 1,
		.sample_freq = opt->cpu_hz < max_hz || !max_hz ? opt->cpu_hz : max_hz,
		.sample_type = SAMPLE_TYPE,
		.read_format = PERF_FORMAT_LOST,
		.sample_regs_user = ARCH_PERF_REGS,
		.sample_stack_user = (stack < STACK_MAX_BYTES ? stack : STACK_MAX_BYTES) & ~7u,
		.inherit = 1,
		.inherit_thread = 1,
		.exclude_hv = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX / 2, /* no event waits for it */
	};
	int rc;

	c->attr = attr;
	c->cycles = true;
	rc = try_event(&c->attr);
	if (rc < 0 && rc != -EMFILE) {
		c->attr = attr;
		c->attr.type = PERF_TYPE_SOFTWARE;
		c->attr.config = PERF_COUNT_SW_CPU_CLOCK;
		c->cycles = false;
		rc = try_event(&c->attr);
	}
	if (rc == -EACCES || rc == -EPERM)
		return error_set(
			err, rc,
			"cannot sample CPUs (--cpu): perf_event_open is forbidden here, "
			"kernel.perf_event_paranoid is %lld: run as root, or set it to 2; in a "
			"container, allow the system call",
			(long long)read_setting("/proc/sys/kernel/perf_event_paranoid", 0));
	if (rc < 0)
		return error_sys(err, rc, "cannot sample CPUs (--cpu): perf_event_open");
	return 0;
}

static void samples_free(struct capture *c)
{
	for (size_t i = 0; i < c->n_events; i++)
		if (c->events[i].fd >= 0)
			close(c->events[i].fd);
	for (unsigned i = 0; c->rings && i < c->n_cpus; i++)
		perf_ring_close(&c->rings[i]);
	map_free(&c->streams, free);
	free(c->events);
	free(c->processes);
	free(c->rings);
	free(c->ring_fds);
	free(c);
}

static int samples_open(struct capture_shared *shared, struct capture **ret_capture,
			struct error *err)
{
	struct capture *c = calloc(1, sizeof(*c));
	long n = sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit files;
	size_t bytes;
	int rc;

	if (!c)
		return error_sys(err, -ENOMEM, "cannot sample CPUs");
	c->shared = shared;
	c->n_cpus = n < 1 ? 1 : n > MAX_CPUS ? MAX_CPUS : (unsigned)n;
	c->rings = calloc(c->n_cpus, sizeof(*c->rings));
	c->ring_fds = malloc(c->n_cpus * sizeof(*c->ring_fds));
	c->asked_hz = shared->options->cpu_hz;
	rc = c->rings && c->ring_fds ? choose_event(c, shared->options, err)
				     : error_sys(err, -ENOMEM, "cannot sample CPUs");
	if (rc < 0) {
		samples_free(c);
		return rc;
	}
	/* A descriptor for each thread on each CPU. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	bytes = RING_MAX_BYTES;
	while (bytes > RING_FAIR_BYTES && bytes * c->n_cpus > RINGS_BYTES)
		bytes /= 2;
	while (bytes < shared->options->ring_bytes && bytes < 1u << 28)
		bytes *= 2;
	c->ring_bytes = bytes;
	/* A quarter of it filled by one CPU that is busy all the time. */
	drain_interval_init(&c->pace,
			    bytes / (sizeof(struct sample_head) + c->attr.sample_stack_user) *
				    (250 * NSEC_PER_MSEC / c->attr.sample_freq));
	*ret_capture = c;
	return 0;
}

/* ---- a process joins ---- */

static int keep_event(struct capture *c, int fd, pid_t tid, bool late)
{
	struct event *e;

	if (!GROW(c->events, c->n_events, c->events_cap)) {
		close(fd);
		return -ENOMEM;
	}
	e = &c->events[c->n_events++];
	*e = (struct event){.fd = fd, .tid = tid, .late = late};
	if (late && ioctl(fd, PERF_EVENT_IOC_ID, &e->id) == 0)
		c->n_late++;
	return 0;
}

static void refuse(struct process_samples *p, int rc)
{
	if (!p->n_refused++)
		snprintf(p->refused, sizeof(p->refused), "%s",
			 rc == -EMFILE || rc == -ENFILE
				 ? "too few file descriptors are allowed (ulimit -n)"
				 : strerror(-rc));
}

/* One thread on all CPUs. -ESRCH: it is gone. */
static int add_thread(struct capture *c, struct process_samples *p, pid_t tid, bool late)
{
	for (unsigned cpu = 0; cpu < c->n_cpus; cpu++) {
		struct perf_ring *r = &c->rings[cpu];
		int fd = event_open(&c->attr, tid, (int)cpu), rc = 0;

		if (fd == -ENODEV) /* that CPU is off */
			continue;
		if (fd == -ESRCH)
			return fd;
		if (fd < 0) {
			refuse(p, fd);
			if (fd == -EMFILE || fd == -ENFILE)
				return 0;
			continue;
		}
		if (r->page && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, c->ring_fds[cpu]) < 0)
			rc = -errno;
		else if (!r->page)
			rc = perf_ring_open(r, fd, c->ring_bytes);
		if (rc < 0) {
			close(fd);
			refuse(p, rc);
			continue;
		}
		if (c->ring_fds[cpu] < 0)
			c->ring_fds[cpu] = fd;
		TRY(keep_event(c, fd, tid, late));
	}
	return 0;
}

static bool listed(pid_t tid, const pid_t *tids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (tids[i] == tid)
			return true;
	return false;
}

static int add_threads(struct capture *c, struct process_samples *p, struct error *err)
{
	_cleanup_free_ pid_t *before = NULL, *after = NULL;
	struct process handle = PROCESS_INIT;
	size_t n_before = 0, n_after = 0;
	int rc;

	TRY(process_open(p->pid, &handle, err));
	rc = threads_list(&handle, &before, &n_before);
	for (size_t i = 0; i < n_before && rc == 0; i++) {
		rc = add_thread(c, p, before[i], false);
		if (rc == -ESRCH)
			rc = 0;
	}
	if (rc == 0)
		rc = threads_list(&handle, &after, &n_after);
	for (size_t i = 0; i < n_after && rc == 0; i++) {
		if (listed(after[i], before, n_before))
			continue;
		rc = add_thread(c, p, after[i], true);
		if (rc == -ESRCH)
			rc = 0;
	}
	process_close(&handle);
	return rc < 0 ? error_sys(err, rc, "cannot sample process %d", p->pid) : 0;
}

static int samples_join(struct capture *c, pid_t pid, uint32_t process, struct error *err)
{
	struct process_samples *p;

	if (!GROW_ONE(c->processes, c->n_processes))
		return error_sys(err, -ENOMEM, "cannot sample process %d", pid);
	p = &c->processes[c->n_processes++];
	*p = (struct process_samples){
		.pid = pid, .process = process, .joined_ns = clock_monotonic_ns()};
	if (c->n_processes == 1)
		memset(c->ring_fds, 0xff, c->n_cpus * sizeof(*c->ring_fds));
	return add_threads(c, p, err);
}

/* ---- records ---- */

static struct process_samples *process_of(struct capture *c, uint32_t pid)
{
	for (size_t i = 0; i < c->n_processes; i++)
		if ((uint32_t)c->processes[i].pid == pid)
			return &c->processes[i];
	return NULL;
}

/* A thread of the second look: its own events are closed once it shows that it had inherited
 * some. */
static void settle_late(struct capture *c, pid_t tid, uint64_t id)
{
	bool late = false, own = false;

	for (size_t i = 0; i < c->n_events; i++) {
		const struct event *e = &c->events[i];

		late = late || (e->late && e->tid == tid);
		own = own || (e->late && e->tid == tid && e->id == id);
	}
	if (!late || own)
		return;
	for (size_t i = c->n_events; i-- > 0;) {
		struct event *e = &c->events[i];

		/* What a buffer hangs on stays. */
		if (!e->late || e->tid != tid || listed(e->fd, c->ring_fds, c->n_cpus))
			continue;
		close(e->fd);
		*e = c->events[--c->n_events];
		c->n_late--;
	}
}

/* Where the samples of a thread go. A late sample of one that has ended goes where its others went.
 */
static int stream_of(struct capture *c, const struct process_samples *p, uint32_t tid,
		     uint32_t *ret_index)
{
	struct sample_stream *s = map_get(&c->streams, p->process, tid);
	const struct capture_thread *t = capture_threads_find(c->shared->threads, p->process, tid);
	int rc;

	if (s && (!t || t->index == s->thread)) {
		*ret_index = s->index;
		return 0;
	}
	if (!t) {
		char name[16];

		process_thread_name(p->pid, (pid_t)tid, name);
		t = capture_threads_get(c->shared->threads, p->process, tid, name);
		if (!t)
			return -ENOMEM;
	}
	if (!s && !(s = map_new(&c->streams, p->process, tid, sizeof(*s))))
		return -ENOMEM;
	rc = capture_threads_stream(c->shared->threads, t, &s->index);
	s->thread = t->index;
	*ret_index = s->index;
	return rc;
}

/* The stack of a sample: registers, then a copy of what the stack pointer points at. */
static int walk_sample(struct capture *c, const struct process_samples *p,
		       const struct sample_head *h, capture_stack *ret_stack)
{
	const uint8_t *at = (const uint8_t *)(h + 1);
	const uint8_t *end = (const uint8_t *)h + h->header.size;
	struct arch_perf_regs regs;
	uint64_t size, copied;
	int rc;

	*ret_stack = 0;
	/* The thread is ending, or is none of user code. */
	if (h->regs_abi != PERF_SAMPLE_REGS_ABI_64 || end - at < (ptrdiff_t)(sizeof(regs) + 8))
		return 0;
	memcpy(&regs, at, sizeof(regs));
	at += sizeof(regs);
	memcpy(&size, at, sizeof(size));
	at += sizeof(size);
	if (!size || size > (uint64_t)(end - at) || (uint64_t)(end - at) - size < sizeof(copied))
		size = copied = 0;
	else
		memcpy(&copied, at + size, sizeof(copied));
	const struct unwind_start start = {
		.ip = regs.pc,
		.sp = regs.sp,
		.bp = regs.fp,
		.bp_known = true,
		.stack = at,
		.stack_addr = regs.sp,
		.stack_bytes = copied < size ? copied : size,
	};
	bool kernel = (h->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	rc = capture_stacks_walk(c->shared->stacks, p->process, &start,
				 kernel ? CL_KERNEL : CL_NONE, ret_stack);
	return rc == -EAGAIN ? 0 : rc;
}

static int take_sample(struct capture *c, const struct sample_head *h)
{
	struct process_samples *p;
	struct trace_event e = {.time = h->time,
				.type = TE_SAMPLE,
				.arg = c->cycles ? TM_CYCLES : TM_CPU_CLOCK,
				.kind = TRACE_KIND_NONE,
				.task = h->period};
	capture_stack stack;

	if (h->header.size < sizeof(*h))
		return 0;
	p = process_of(c, h->pid);
	if (!p) /* a forked child, see try_event() */
		return 0;
	if (c->n_late)
		settle_late(c, (pid_t)h->tid, h->id);
	TRY(walk_sample(c, p, h, &stack));
	TRY(capture_stacks_seen(c->shared->stacks, p->process, h->tid, h->time, stack));
	TRY(stream_of(c, p, h->tid, &e.thread));
	p->n++;
	return capture_stacks_put(c->shared->stacks, &e, stack);
}

/* It happened since the buffers were emptied the last time. */
static void note_loss(struct capture *c, uint64_t n)
{
	uint64_t now = clock_monotonic_ns();

	capture_loss_add(&c->lost, n, c->drained_ns ? c->drained_ns : now, now);
}

static int take_record(void *context, const struct perf_event_header *h)
{
	struct capture *c = context;
	uint64_t lost;

	switch (h->type) {
	case PERF_RECORD_SAMPLE:
		return take_sample(c, (const struct sample_head *)h);
	case PERF_RECORD_LOST: /* id, number */
		if (h->size >= sizeof(*h) + 16) {
			memcpy(&lost, (const uint8_t *)(h + 1) + 8, sizeof(lost));
			note_loss(c, lost);
		}
		return 0;
	case PERF_RECORD_THROTTLE:
		c->n_throttled++;
		return 0;
	default:
		return 0;
	}
}

static int take_all(struct capture *c, double *ret_fill)
{
	int rc = 0;

	*ret_fill = 0;
	for (unsigned cpu = 0; cpu < c->n_cpus && rc == 0; cpu++) {
		struct perf_ring *r = &c->rings[cpu];

		if (!r->page)
			continue;
		rc = perf_ring_drain(r, take_record, c);
		if (r->fill > *ret_fill)
			*ret_fill = r->fill;
	}
	return rc;
}

/* Some buffer has little room left. */
static bool nearly_full(const struct capture *c)
{
	for (unsigned cpu = 0; cpu < c->n_cpus; cpu++) {
		const struct perf_event_mmap_page *page = c->rings[cpu].page;

		if (page && __atomic_load_n(&page->data_head, __ATOMIC_RELAXED) - page->data_tail >
				    c->rings[cpu].bytes / 4 * 3)
			return true;
	}
	return false;
}

/* What is loaded in the processes is known, or has taken too long. */
static bool ready(const struct capture *c, uint64_t now)
{
	for (size_t i = 0; i < c->n_processes; i++)
		if (now - c->processes[i].joined_ns < READY_NS &&
		    !capture_stacks_ready(c->shared->stacks, c->processes[i].process))
			return false;
	return true;
}

static int64_t samples_drain(struct capture *c, uint64_t *ret_watermark_ns, struct error *err)
{
	uint64_t now = clock_monotonic_ns();
	uint64_t wait;
	double fill;
	int rc = 0;

	*ret_watermark_ns = c->watermark_ns ? c->watermark_ns : now;
	if (!c->watermark_ns)
		c->watermark_ns = *ret_watermark_ns;
	if (!ready(c, now) && !nearly_full(c))
		return PACE_MIN_NS;
	rc = take_all(c, &fill);
	if (rc < 0)
		return error_sys(err, rc, "cannot write the trace");
	c->watermark_ns = *ret_watermark_ns = now - CAPTURE_STACKS_SETTLE_NS;
	cpu_yield_buffer_fill(fill);
	wait = drain_interval_next(&c->pace, fill, now - c->drained_ns);
	c->drained_ns = now;
	return (int64_t)wait;
}

/* ---- the end ---- */

/* The kernel's own count of what found no room: the records report a loss only when the next one
 * fits. */
static uint64_t count_lost(const struct capture *c)
{
	uint64_t sum = 0, value[2];

	for (size_t i = 0; i < c->n_events && c->attr.read_format; i++)
		if (read(c->events[i].fd, value, sizeof(value)) == sizeof(value))
			sum += value[1];
	return sum;
}

static int cover(struct capture *c, struct capture_stats *stats)
{
	for (size_t i = 0; i < c->n_processes; i++) {
		const struct process_samples *p = &c->processes[i];
		/* Losses are those of a CPU: whose they were isn't known. */
		uint64_t lost = i == 0 ? c->lost.n : 0;
		char note[512] = "";
		size_t len = 0;
		struct trace_coverage record = {.process = p->process,
						.item = "CPU samples",
						.seen = p->n,
						.total = p->n + lost,
						.note = note};

		if (lost)
			len += (size_t)snprintf(note + len, sizeof(note) - len,
						"%llu found the buffers full; ",
						(unsigned long long)lost);
		if (c->n_throttled && i == 0)
			len += (size_t)snprintf(note + len, sizeof(note) - len,
						"the kernel paused sampling %llu times "
						"(kernel.perf_event_max_sample_rate); ",
						(unsigned long long)c->n_throttled);
		if (c->attr.sample_freq < c->asked_hz)
			len += (size_t)snprintf(note + len, sizeof(note) - len,
						"the kernel allows %llu a second; ",
						(unsigned long long)c->attr.sample_freq);
		if (c->attr.exclude_kernel)
			len += (size_t)snprintf(note + len, sizeof(note) - len,
						"limited to user code: kernel time needs root; ");
		if (p->n_refused)
			len += (size_t)snprintf(note + len, sizeof(note) - len,
						"not everywhere: %s; ", p->refused);
		if (len)
			note[len - 2] = 0;
		TRY(capture_emit_coverage(c->shared->writer, stats, &record));
	}
	return 0;
}

static int samples_close(struct capture *c, struct capture_stats *stats, struct error *err)
{
	uint64_t lost;
	double fill;
	int rc;

	for (size_t i = 0; i < c->n_events; i++)
		ioctl(c->events[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	for (size_t i = 0; i < c->n_processes; i++)
		if (!capture_stacks_ready(c->shared->stacks, c->processes[i].process))
			capture_stacks_wait(c->shared->stacks, READY_NS);
	rc = take_all(c, &fill);
	lost = count_lost(c);
	if (lost > c->lost.n)
		note_loss(c, lost - c->lost.n);
	capture_loss_add(&stats->lost, c->lost.n, c->lost.first_ns, c->lost.last_ns);
	if (rc == 0)
		rc = cover(c, stats);
	samples_free(c);
	return rc < 0 ? error_sys(err, rc, "cannot write the trace") : 0;
}

const struct capture_ops capture_samples = {
	.name = "samples",
	.open = samples_open,
	.join = samples_join,
	.drain = samples_drain,
	.close = samples_close,
};
