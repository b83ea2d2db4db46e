/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * When threads are off their CPUs, why, and their system calls: what only the kernel knows.
 *
 * The events of each thread have a stream of their own, apart from those of the main source; the
 * clock is the same, so a system call that was made in a poll lies between the poll's ends.
 */
#include "base/cpu_yield.h"
#include "base/error.h"
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
#include <stdlib.h>
#include <unistd.h>

_Static_assert((int)SCHED_PREEMPTED == TX_PREEMPTED && (int)SCHED_SLEEPING == TX_SLEEPING &&
		       (int)SCHED_UNINTERRUPTIBLE == TX_UNINTERRUPTIBLE &&
		       (int)SCHED_OTHER == TX_OTHER,
	       "both count reasons alike");

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
	struct map streams; /* (stream_key(), tid): index of the stream + 1 */
	struct drain_interval pace;
	uint64_t drain_start_ns;
	uint64_t n_events, n_unknown_lost;
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
	c->n_events++;
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
	case SCHED_OFF_CPU:
		e.type = TE_OFF_CPU;
		e.arg = from->arg;
		e.task = from->number;
		j->n_off_cpu++;
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

static int tell_coverage(const struct capture *c, struct capture_stats *stats)
{
	const struct capture_options *opt = c->shared->options;
	const char *less =
		!c->ops->no_numbers ? ""
		: c->ops->no_uninterruptible && !POLLUX_BPF
			? "this pollux was built without BPF: it is not seen in which system call "
			  "a thread waits, and whether it can be interrupted"
		: c->ops->no_uninterruptible
			? "without the right to use BPF (root, or CAP_BPF and CAP_PERFMON) it is "
			  "not seen in which system call a thread waits, and whether it can be "
			  "interrupted"
			: "this kernel does not describe its types (BTF): in which system call a "
			  "thread waits is seen with --syscalls only";

	for (size_t i = 0; i < c->n_joined; i++) {
		const struct joined *j = &c->joined[i];
		struct trace_coverage one = {.process = j->process, .note = ""};

		if (opt->syscalls) {
			one.item = "system calls";
			one.seen = one.total = j->n_syscalls;
			TRY(capture_tell_coverage(c->shared->writer, stats, &one));
		}
		if (opt->sched) {
			one.item = "times off CPU";
			one.seen = one.total = j->n_off_cpu;
			if (!opt->syscalls || c->ops->no_uninterruptible)
				one.note = less;
			TRY(capture_tell_coverage(c->shared->writer, stats, &one));
		}
	}
	if (c->n_unknown_lost && c->n_joined) {
		const struct trace_coverage one = {
			.process = c->joined[0].process,
			.item = "system calls and times off CPU of some threads",
			.total = c->n_unknown_lost,
			.note = "the buffer was full when they ended, or there were too many "
				"threads at once: a larger --ring-size loses less"};
		TRY(capture_tell_coverage(c->shared->writer, stats, &one));
	}
	return 0;
}

static int sched_close(struct capture *c, struct capture_stats *stats, struct error *err)
{
	int rc = c->ops->end(c->backend);

	if (rc == 0)
		rc = tell_coverage(c, stats);
	stats->n_events += c->n_events;
	capture_loss_add(&stats->lost, c->lost.n + c->n_unknown_lost, c->lost.first_ns,
			 c->lost.last_ns);
	c->ops->free(c->backend);
	map_done(&c->streams);
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
