/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * When threads are off their CPUs, why, and their system calls: what only the kernel knows.
 *
 * The events of each thread have a stream of their own, apart from those of the main source; the
 * clock is the same, so a system call that was made in a poll lies between the poll's ends.
 */
#include "base/compare.h"
#include "base/cpu_yield.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/vec.h"
#include "capture/sched/sched.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "capture/drain_interval.h"
#include "capture/samples/stacks.h"
#include "capture/threads.h"
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)SCHED_PREEMPTED == TX_PREEMPTED && (int)SCHED_SLEEPING == TX_SLEEPING &&
		       (int)SCHED_UNINTERRUPTIBLE == TX_UNINTERRUPTIBLE &&
		       (int)SCHED_OTHER == TX_OTHER,
	       "both count reasons alike");

/* Threads of the machine that a trace names, so that one of many short ones stays small. */
#define MAX_NEIGHBOURS 65536u

struct joined {
	uint32_t tgid, process; /* trace index */
	uint64_t n_syscalls, n_off_cpu;
};

struct capture {
	struct capture_shared *shared;
	const struct sched_backend_ops *ops;
	struct sched_backend *backend;
	struct joined *joined;
	size_t n_joined;
	struct map streams;    /* (stream_key(), tid): index of the stream + 1 */
	struct map neighbours; /* (process and thread, hash of its name): its index + 1 */
	struct drain_interval pace;
	uint64_t drain_start_ns;
	uint64_t n_unknown_lost;
	struct capture_loss lost;
};

/* ---- from the kernel's records to events ---- */

/* Each is a stream of its own: stacks wait for their names, and a stream is in order of time. */
enum stream { S_EVENTS = 0, S_STACKS };

static uint64_t stream_key(const struct joined *j, enum stream which)
{
	return (uint64_t)which << 32 | j->process;
}

static int stream_of(struct capture *c, const struct joined *j, uint32_t tid, enum stream which,
		     uint32_t *ret_index)
{
	uint64_t key = stream_key(j, which);
	uintptr_t known = (uintptr_t)map_get(&c->streams, key, tid);
	struct capture_thread *thread;
	char name[16];

	if (known) {
		*ret_index = (uint32_t)(known - 1);
		return 0;
	}
	process_thread_name((pid_t)j->tgid, (pid_t)tid, name);
	thread = capture_threads_get(c->shared->threads, j->process, tid, name);
	if (!thread)
		return -ENOMEM;
	TRY(capture_threads_stream(c->shared->threads, thread, ret_index));
	return map_put(&c->streams, key, tid, (void *)((uintptr_t)*ret_index + 1));
}

static void forget_streams(struct capture *c, const struct joined *j, uint32_t tid)
{
	map_remove(&c->streams, stream_key(j, S_EVENTS), tid);
	map_remove(&c->streams, stream_key(j, S_STACKS), tid);
}

static struct joined *find_joined(struct capture *c, uint32_t tgid)
{
	for (size_t i = 0; i < c->n_joined; i++)
		if (c->joined[i].tgid == tgid)
			return &c->joined[i];
	return NULL;
}

static int put(struct capture *c, uint32_t stream, const struct trace_event *e)
{
	return trace_writer_events(c->shared->writer, stream, e, 1);
}

static int put_loss(struct capture *c, uint32_t stream, uint64_t time, uint64_t n)
{
	const struct trace_event e = {.time = time,
				      .thread = stream,
				      .type = TE_LOST,
				      .kind = TRACE_KIND_NONE,
				      .value = n};

	capture_loss_add(&c->lost, n, time, time);
	return put(c, stream, &e);
}

/* ---- who has the CPUs ---- */

/* The number of a thread in events: the index of its record + 1; 0: not known, or there are too many. */
static int neighbour_of(struct capture *c, const struct sched_who *who, uint64_t *ret_number)
{
	struct trace_neighbour n = {.pid = who->tgid, .tid = who->tid};
	char name[sizeof(who->name) + 1];
	uint64_t key = (uint64_t)who->tgid << 32 | who->tid, hash;
	uintptr_t known;
	uint32_t index;

	*ret_number = 0;
	if (!(who->flags & SCHED_KNOWN))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)sizeof(who->name), who->name);
	/* Each CPU has a thread of the name swapper/NUMBER for it. */
	if (who->flags & SCHED_IDLE) {
		n.flags = TRACE_NEIGHBOUR_IDLE;
		snprintf(name, sizeof(name), "idle");
	}
	hash = hash_string(n.flags, name);
	known = (uintptr_t)map_get(&c->neighbours, key, hash);
	if (!known && c->neighbours.n < MAX_NEIGHBOURS) {
		n.name = name;
		TRY(trace_writer_neighbour(c->shared->writer, &n, &index));
		known = (uintptr_t)index + 1;
		TRY(map_put(&c->neighbours, key, hash, (void *)known));
	}
	*ret_number = known;
	return 0;
}

static int put_of(struct capture *c, const struct trace_event *off, enum trace_event_type type,
		  const struct sched_who *who, uint64_t value)
{
	struct trace_event e = {.time = off->time,
				.thread = off->thread,
				.type = type,
				.kind = TRACE_KIND_NONE,
				.value = value};

	if (who)
		TRY(neighbour_of(c, who, &e.task));
	return put(c, e.thread, &e);
}

static int compare_runs(const void *a, const void *b)
{
	const struct sched_run *x = a, *y = b;

	return ASCENDING(x->begin_ns, y->begin_ns);
}

/* The CPU's runs from the moment at which the thread was ready until it got one. Where none is known,
 * nothing is. A thread that waits is not the one that runs: what says so is another CPU's
 * record that changed while it was read. */
static int put_runs(struct capture *c, const struct trace_event *off, const struct sched_switch *s,
		    size_t n_runs)
{
	struct sched_run runs[SCHED_RUNS];
	uint64_t at = s->ready_ns, end = off->time;
	bool any = false;

	memcpy(runs, s->runs, n_runs * sizeof(*runs));
	qsort(runs, n_runs, sizeof(*runs), compare_runs);
	for (size_t i = 0; i < n_runs; i++) {
		const struct sched_run *run = &runs[i];
		uint64_t from = run->begin_ns > at ? run->begin_ns : at,
			 to = run->end_ns < end ? run->end_ns : end;

		if (!run->begin_ns || !(run->who.flags & SCHED_KNOWN) || from >= to ||
		    (run->who.tid == s->event.tid && run->who.tgid == s->event.tgid))
			continue;
		if (from > at)
			TRY(put_of(c, off, TE_RAN_INSTEAD, NULL, from - at));
		TRY(put_of(c, off, TE_RAN_INSTEAD, &run->who, to - from));
		at = to;
		any = true;
	}
	return any && at < end ? put_of(c, off, TE_RAN_INSTEAD, NULL, end - at) : 0;
}

int sched_take_switch(struct capture *c, const struct sched_switch *s, size_t len)
{
	const struct sched_event *from = &s->event;
	struct joined *j = find_joined(c, from->tgid);
	struct trace_event e = {.time = from->time,
				.type = TE_OFF_CPU,
				.arg = from->arg,
				.kind = TRACE_KIND_NONE,
				.task = from->number,
				.value = from->value};
	size_t n_runs;

	if (!j || len < offsetof(struct sched_switch, runs))
		return 0;
	TRY(stream_of(c, j, from->tid, S_EVENTS, &e.thread));
	if (from->lost)
		TRY(put_loss(c, e.thread, e.time, from->lost));
	if (s->left_cpu)
		TRY(put_of(c, &e, TE_LEFT_CPU, &s->next, s->left_cpu));
	if (s->got_cpu)
		TRY(put_of(c, &e, TE_GOT_CPU, &s->before, s->got_cpu));
	if (s->ready_ns && s->ready_ns <= e.time && from->arg != SCHED_PREEMPTED)
		TRY(put_of(c, &e, TE_WOKEN, &s->waker, e.time - s->ready_ns));
	n_runs = (len - offsetof(struct sched_switch, runs)) / sizeof(s->runs[0]);
	if (s->ready_ns)
		TRY(put_runs(c, &e, s, n_runs < SCHED_RUNS ? n_runs : SCHED_RUNS));
	j->n_off_cpu++;
	return put(c, e.thread, &e);
}

int sched_take(struct capture *c, const struct sched_event *from)
{
	struct joined *j = find_joined(c, from->tgid);
	struct trace_event e = {.time = from->time, .kind = TRACE_KIND_NONE, .value = from->value};

	if (!j)
		return 0;
	if (from->type == SCHED_EXIT && !from->lost) {
		forget_streams(c, j, from->tid);
		return 0;
	}
	TRY(stream_of(c, j, from->tid, S_EVENTS, &e.thread));
	if (from->lost)
		TRY(put_loss(c, e.thread, e.time, from->lost));
	switch (from->type) {
	case SCHED_SYSCALL:
		e.type = TE_SYSCALL;
		e.arg = from->number < UINT16_MAX ? (uint16_t)from->number : UINT16_MAX;
		e.task = (uint64_t)from->result;
		j->n_syscalls++;
		return put(c, e.thread, &e);
	case SCHED_EXIT:
		forget_streams(c, j, from->tid);
		return 0;
	default:
		return 0;
	}
}

int sched_take_stack(struct capture *c, const struct sched_stack *s, size_t len)
{
	struct joined *j = find_joined(c, s->event.tgid);
	struct trace_event e = {.time = s->event.time,
				.type = TE_SAMPLE,
				.arg = TM_BLOCKED,
				.kind = TRACE_KIND_NONE};
	int rc = j ? stream_of(c, j, s->event.tid, S_STACKS, &e.thread) : 0;

	if (rc < 0 || !j)
		return rc;
	return capture_stacks_put_copy(c->shared->stacks, &e, j->process, &s->stack,
				       len - offsetof(struct sched_stack, stack));
}

void sched_count_lost(struct capture *c, uint64_t n)
{
	c->n_unknown_lost += n;
}

/* ---- the source ---- */

static bool forbidden(int code)
{
	return code == -EPERM || code == -EACCES;
}

static int explain(const struct capture_options *opt, int code, const struct error *why,
		   struct error *err)
{
	const char *option = opt->syscalls ? "--syscalls" : "--sched";
	const char *without = opt->syscalls ? "; --sched works without, as does everything else"
					    : "; everything else works without";

	if (forbidden(code) && geteuid() == 0)
		return error_set(err, code,
				 "%s: the kernel refuses it to this root, which lacks CAP_BPF and "
				 "CAP_PERFMON or is kept from bpf(2) by a seccomp filter (a "
				 "container?): add them (docker run --cap-add=BPF "
				 "--cap-add=PERFMON) or run pollux on the host%s",
				 option, without);
	if (forbidden(code))
		return error_set(err, code,
				 "%s needs root, or CAP_BPF and CAP_PERFMON (setcap "
				 "cap_bpf,cap_perfmon+ep on pollux)%s",
				 option, without);
	return error_set(err, code, "%s is not possible%s: %s%s", option,
			 POLLUX_BPF ? " on this kernel" : "", why->text, without);
}

static int sched_open(struct capture_shared *shared, struct capture **ret_capture,
		      struct error *err)
{
	static const struct sched_backend_ops *const backends[] = {
#if POLLUX_BPF
		&sched_backend_btf,
		&sched_backend_plain,
#endif
		&sched_backend_perf,
	};
	const struct capture_options *opt = shared->options;
	struct capture *c = calloc(1, sizeof(*c));
	struct error first = {0}, why = {0};
	int rc = -ENOTSUP;

	if (!c)
		return error_sys(err, -ENOMEM, "cannot record the scheduler");
	c->shared = shared;
	error_set(&first, rc, "this pollux was built without BPF");
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]) && !c->backend; i++) {
		if (backends[i]->no_syscalls && opt->syscalls)
			continue;
		rc = backends[i]->open(c, opt, &c->backend, &why);
		log_debug(LOG_KERNEL, "scheduler by %s: %s", backends[i]->name,
			  rc < 0 ? why.text : "used");
		if (rc == 0)
			c->ops = backends[i];
		else if (i == 0)
			first = why;
	}
	if (!c->backend) {
		free(c);
		return explain(opt, first.code, &first, err);
	}
	drain_interval_init(&c->pace, PACE_MAX_NS);
	*ret_capture = c;
	return 0;
}

static int sched_join(struct capture *c, pid_t pid, uint32_t process, struct error *err)
{
	if (!GROW_ONE(c->joined, c->n_joined))
		return error_sys(err, -ENOMEM, "cannot record the scheduler");
	c->joined[c->n_joined++] = (struct joined){.tgid = (uint32_t)pid, .process = process};
	return c->ops->join(c->backend, pid, err);
}

static int64_t sched_drain(struct capture *c, uint64_t *ret_watermark_ns, struct error *err)
{
	uint64_t now = clock_monotonic_ns(), before = c->drain_start_ns;
	double fill = 0;
	int rc = c->ops->drain(c->backend, &fill);

	c->drain_start_ns = now;
	if (rc < 0)
		return error_sys(err, rc, "cannot write the trace");
	/* What was stamped before the drain before this one is in the buffers by now. */
	*ret_watermark_ns = before;
	cpu_yield_buffer_fill(fill);
	return (int64_t)drain_interval_next(&c->pace, fill, before ? now - before : PACE_MIN_NS);
}

static int emit_coverage(const struct capture *c, struct capture_stats *stats)
{
	const struct capture_options *opt = c->shared->options;
	const char *less =
		!c->ops->no_numbers ? ""
		: c->ops->no_uninterruptible && !POLLUX_BPF
			? "this pollux was built without BPF: it is not known in which system call "
			  "a thread waits, nor whether a signal can wake it"
		: c->ops->no_uninterruptible
			? "without the right to use BPF (root, or CAP_BPF and CAP_PERFMON) it is "
			  "not known in which system call a thread waits, nor whether a signal can "
			  "wake it"
		: access("/sys/kernel/btf/vmlinux", F_OK) < 0
			? "this kernel does not describe its types (BTF): in which system call a "
			  "thread waits is seen with --syscalls only"
			: "this kernel refused the program that reads its types "
			  "(POLLUX_DEBUG=kernel "
			  "says why): in which system call a thread waits is seen with --syscalls "
			  "only";

	for (size_t i = 0; i < c->n_joined; i++) {
		const struct joined *j = &c->joined[i];
		struct trace_coverage one = {.process = j->process, .note = ""};

		if (opt->syscalls) {
			one.item = "system calls";
			one.seen = one.total = j->n_syscalls;
			TRY(capture_emit_coverage(c->shared->writer, stats, &one));
		}
		if (opt->sched) {
			one.item = "times off CPU";
			one.seen = one.total = j->n_off_cpu;
			if (!opt->syscalls || c->ops->no_uninterruptible)
				one.note = less;
			TRY(capture_emit_coverage(c->shared->writer, stats, &one));
		}
	}
	if (c->n_unknown_lost && c->n_joined) {
		const struct trace_coverage one = {
			.process = c->joined[0].process,
			.item = "system calls and times off CPU of some threads",
			.total = c->n_unknown_lost,
			.note = "the buffer was full when they ended, or there were too many "
				"threads at once: a larger --ring-size loses less"};
		TRY(capture_emit_coverage(c->shared->writer, stats, &one));
	}
	return 0;
}

static int sched_close(struct capture *c, struct capture_stats *stats, struct error *err)
{
	int rc = c->ops->end(c->backend);

	if (rc == 0)
		rc = emit_coverage(c, stats);
	capture_loss_add(&stats->lost, c->lost.n + c->n_unknown_lost, c->lost.first_ns,
			 c->lost.last_ns);
	c->ops->free(c->backend);
	map_done(&c->streams);
	map_done(&c->neighbours);
	free(c->joined);
	free(c);
	return rc < 0 ? error_sys(err, rc, "cannot write the trace") : 0;
}

const struct capture_ops capture_sched = {
	.name = "sched",
	.open = sched_open,
	.join = sched_join,
	.drain = sched_drain,
	.close = sched_close,
};
