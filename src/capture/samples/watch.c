/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Long polls: what a poll is at that goes on for longer than it should, seen while it does.
 *
 * The main source says of each thread since when its poll is open (capture/threads.h), as of its
 * last look, a few ms ago. Where that is too long, the stack is taken: a blocked thread's by
 * reading it; a running one's by its next CPU sample, if there are any, else by one short stop
 * (capture/samples/stack_sampler.h). While the same poll goes on that is repeated at twice the time
 * each.
 *
 * The poll may have been over by then already, which we learn a moment later only: so a stack waits
 * until the main source has looked again, and goes into the trace if its poll was open at its time.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "base/units.h"
#include "base/vec.h"
#include "capture/capture.h"
#include "capture/drain_interval.h"
#include "capture/samples/stacks.h"
#include "capture/samples/stack_sampler.h"
#include "capture/threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_MIN_NS NSEC_PER_MSEC
#define LOOK_MAX_NS (20 * NSEC_PER_MSEC)
/* A sample up to this old still shows what a thread does now. */
#define FRESH_NS (2 * NSEC_PER_MSEC)
/* A sample of a thread that runs has come by then. */
#define SAMPLE_NS (PACE_MAX_NS + 5 * NSEC_PER_MSEC)
/* By then the main source, which is drained before us, has looked again. */
#define SURE_NS (PACE_MAX_NS + 5 * NSEC_PER_MSEC)

struct watched_process {
	uint32_t process;
	struct process handle;
	uint64_t n_polls, n_seen; /* that took long; of which there is a stack */
	uint64_t n_refused;
	const char *refused;
};

struct watched {
	struct watched_process *process;
	uint32_t tid;
	uint32_t thread, stream; /* trace indices */
	uint64_t number;	 /* of its poll */
	uint64_t begin_ns;
	uint64_t due_ns;		   /* of this look */
	uint64_t wait_ns;		   /* for a sample until then; 0: no */
	uint64_t last_number, last_end_ns; /* of the long poll before */
	bool asked;			   /* a stack is being taken */
	bool seen;			   /* of this poll there is a stack */
};

/* A stack that waits to be sure. */
struct pending_stack {
	struct watched *watched;
	uint64_t number, begin_ns, time_ns;
	uint16_t type; /* enum trace_sample */
	capture_stack stack;
	uint32_t stream;
};

struct capture {
	struct capture_shared *shared;
	struct stack_sampler *sampler;
	uint64_t long_ns, look_ns;
	struct watched_process **processes;
	size_t n_processes;
	struct map threads; /* (process, tid) -> struct watched */
	struct pending_stack *candidates;
	size_t n, cap;
};

static void watch_free(struct capture *c)
{
	map_free(&c->threads, free);
	for (size_t i = 0; i < c->n_processes; i++) {
		process_close(&c->processes[i]->handle);
		free(c->processes[i]);
	}
	free(c->processes);
	free(c->candidates);
	free(c);
}

static int watch_open(struct capture_shared *shared, struct capture **ret_capture,
		      struct error *err)
{
	struct capture *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return error_sys(err, -ENOMEM, "cannot watch polls");
	c->shared = shared;
	c->long_ns = shared->options->long_poll_ns;
	c->look_ns = c->long_ns / 4;
	if (c->look_ns > LOOK_MAX_NS)
		c->look_ns = LOOK_MAX_NS;
	if (c->look_ns < LOOK_MIN_NS)
		c->look_ns = LOOK_MIN_NS;
	rc = stack_sampler_new(&c->sampler, err);
	if (rc < 0) {
		free(c);
		return rc;
	}
	*ret_capture = c;
	return 0;
}

static int watch_join(struct capture *c, pid_t pid, uint32_t process, struct error *err)
{
	struct watched_process *p = calloc(1, sizeof(*p));
	int rc;

	if (!p || !GROW_ONE(c->processes, c->n_processes)) {
		free(p);
		return error_sys(err, -ENOMEM, "cannot watch process %d", pid);
	}
	*p = (struct watched_process){.process = process, .handle = PROCESS_INIT};
	rc = process_open(pid, &p->handle, err);
	if (rc < 0) {
		free(p);
		return rc;
	}
	c->processes[c->n_processes++] = p;
	return 0;
}

/* ---- who takes long ---- */

static struct watched_process *process_of(const struct capture *c, uint32_t process)
{
	for (size_t i = 0; i < c->n_processes; i++)
		if (c->processes[i]->process == process)
			return c->processes[i];
	return NULL;
}

static struct watched *watched_of(struct capture *c, const struct capture_thread *t)
{
	struct watched *w = map_get(&c->threads, t->process, t->tid);
	struct watched_process *p = process_of(c, t->process);

	if (w || !p)
		return w;
	w = map_new(&c->threads, t->process, t->tid, sizeof(*w));
	if (w)
		*w = (struct watched){.process = p, .tid = t->tid, .thread = UINT32_MAX};
	return w;
}

static int add_candidate(struct capture *c, const struct pending_stack *one)
{
	if (!GROW(c->candidates, c->n, c->cap))
		return -ENOMEM;
	c->candidates[c->n++] = *one;
	return 0;
}

/* The same poll is looked at again when it has taken twice as long. */
static void looked(struct watched *w, uint64_t now)
{
	w->wait_ns = 0;
	while (w->due_ns <= now)
		w->due_ns += w->due_ns - w->begin_ns;
}

/* The thread's poll is long by now: takes its stack, or asks for it. */
static int look_at(struct capture *c, struct capture_thread *t, struct watched *w, uint64_t now)
{
	uint64_t sampled_ns = 0;
	capture_stack stack =
		capture_stacks_last(c->shared->stacks, t->process, t->tid, &sampled_ns);
	struct sampler_job *job;

	if (w->thread != t->index) {
		TRY(capture_threads_stream(c->shared->threads, t, &w->stream));
		w->thread = t->index;
	}
	if (stack && sampled_ns > w->begin_ns && sampled_ns + FRESH_NS >= w->due_ns) {
		looked(w, now);
		return add_candidate(c, &(struct pending_stack){.watched = w,
								.number = w->number,
								.begin_ns = w->begin_ns,
								.time_ns = sampled_ns,
								.type = TM_LONG_RUNNING,
								.stack = stack,
								.stream = w->stream});
	}
	if (now < w->wait_ns)
		return 0;
	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	*job = (struct sampler_job){.process = &w->process->handle,
				    .tid = (pid_t)w->tid,
				    .may_stop = !c->shared->options->cpu_hz || w->wait_ns,
				    .user = w,
				    .number = w->number,
				    .begin_ns = w->begin_ns};
	w->asked = true;
	stack_sampler_submit(c->sampler, job);
	return 0;
}

static int look(struct capture *c, uint64_t now)
{
	struct capture_thread *t;
	size_t pos = 0;

	while ((t = capture_threads_next(c->shared->threads, &pos))) {
		struct watched *w;

		if (!t->poll_begin_ns || now < t->poll_begin_ns + c->long_ns)
			continue;
		w = watched_of(c, t);
		if (!w && process_of(c, t->process))
			return -ENOMEM;
		if (!w)
			continue;
		if (w->number != t->poll_number || w->begin_ns != t->poll_begin_ns) {
			w->last_number = w->number;
			w->last_end_ns = t->watched == w->number ? t->watched_end_ns : 0;
			w->number = t->poll_number;
			w->begin_ns = t->poll_begin_ns;
			w->due_ns = t->poll_begin_ns + c->long_ns;
			w->wait_ns = 0;
			w->seen = false;
			w->process->n_polls++;
			t->watched = w->number;
			t->watched_end_ns = 0;
		}
		if (!w->asked && now >= w->due_ns)
			TRY(look_at(c, t, w, now));
	}
	return 0;
}

/* ---- what came of it ---- */

static int take_answer(struct capture *c, struct sampler_job *job)
{
	struct watched *w = job->user;
	struct pending_stack one = {.watched = w,
				    .number = job->number,
				    .begin_ns = job->begin_ns,
				    .time_ns = job->time_ns,
				    .type = job->taken == TAKEN_BLOCKED ? TM_LONG_BLOCKED
									: TM_LONG_RUNNING,
				    .stream = w->stream};
	const struct unwind_start start = {
		.ip = job->ip,
		.sp = job->sp,
		.bp = job->bp,
		.bp_known = job->taken == TAKEN_RUNNING,
		.stack = job->stack,
		.stack_addr = job->sp,
		.stack_bytes = job->stack_bytes,
	};
	int rc;

	w->asked = false;
	if (job->taken == TAKEN_RUNS) {
		if (job->number == w->number)
			w->wait_ns = clock_monotonic_ns() + SAMPLE_NS;
		return 0;
	}
	if (job->number == w->number)
		looked(w, clock_monotonic_ns());
	if (job->taken == TAKEN_NOT) {
		w->process->n_refused++;
		w->process->refused = job->reason;
		return 0;
	}
	rc = capture_stacks_walk(c->shared->stacks, w->process->process, &start, CL_NONE,
				 &one.stack);
	if (rc == -EAGAIN)
		return 0;
	return rc < 0 ? rc : add_candidate(c, &one);
}

static int take_answers(struct capture *c)
{
	struct sampler_job *job;
	int rc = 0;

	while (rc == 0 && (job = stack_sampler_poll(c->sampler))) {
		rc = take_answer(c, job);
		sampler_job_free(job);
	}
	return rc;
}

/* Was its poll open at its time? 1, 0; -EAGAIN: that isn't known yet. */
static int was_open(const struct capture *c, const struct pending_stack *one, uint64_t now)
{
	const struct watched *w = one->watched;
	const struct capture_thread *t =
		capture_threads_find(c->shared->threads, w->process->process, w->tid);

	if (one->number == w->last_number)
		return w->last_end_ns >= one->time_ns;
	if (one->number != w->number || !t || t->index != w->thread)
		return 0;
	if (t->watched_end_ns)
		return t->watched_end_ns >= one->time_ns;
	if (now < one->time_ns + SURE_NS)
		return -EAGAIN;
	return t->poll_number == one->number && t->poll_begin_ns;
}

static int emit(struct capture *c, const struct pending_stack *one)
{
	const struct trace_event e = {.time = one->time_ns,
				      .thread = one->stream,
				      .type = TE_SAMPLE,
				      .arg = one->type,
				      .kind = TRACE_KIND_NONE,
				      .task = one->time_ns - one->begin_ns};
	struct watched *w = one->watched;

	if (w->number == one->number && !w->seen) {
		w->seen = true;
		w->process->n_seen++;
	}
	return capture_stacks_put(c->shared->stacks, &e, one->stack);
}

/* Emits those that are sure by now. *ret_oldest_ns: of what is left. */
static int settle(struct capture *c, uint64_t now, uint64_t *ret_oldest_ns)
{
	size_t left = 0;
	int rc = 0;

	*ret_oldest_ns = UINT64_MAX;
	for (size_t i = 0; i < c->n && rc == 0; i++) {
		const struct pending_stack one = c->candidates[i];
		int open = one.time_ns > one.begin_ns ? was_open(c, &one, now) : 0;

		if (open > 0)
			rc = emit(c, &one);
		if (open >= 0)
			continue;
		c->candidates[left++] = one;
		if (one.time_ns < *ret_oldest_ns)
			*ret_oldest_ns = one.time_ns;
	}
	c->n = left;
	return rc;
}

static int64_t watch_drain(struct capture *c, uint64_t *ret_watermark_ns, struct error *err)
{
	uint64_t now = clock_monotonic_ns(), before = now - CAPTURE_STACKS_SETTLE_NS, oldest;
	int rc = take_answers(c);

	rc = rc < 0 ? rc : settle(c, now, &oldest);
	rc = rc < 0 ? rc : look(c, now);
	if (rc < 0)
		return error_sys(err, rc, "cannot write the trace");
	/* An answer that is still on its way is about a moment after this one. */
	*ret_watermark_ns = oldest < before ? oldest : before;
	return (int64_t)c->look_ns;
}

static int watch_close(struct capture *c, struct capture_stats *stats, struct error *err)
{
	uint64_t oldest, stop_ns = 0;
	int rc = take_answers(c);

	if (rc == 0)
		rc = settle(c, UINT64_MAX, &oldest);
	stack_sampler_free(c->sampler, &stop_ns);
	stats->cost.stop_ns += stop_ns;
	for (size_t i = 0; i < c->n_processes && rc == 0; i++) {
		const struct watched_process *p = c->processes[i];
		char note[160] = "";
		const struct trace_coverage record = {.process = p->process,
						      .item = "stacks of long polls",
						      .seen = p->n_seen,
						      .total = p->n_polls,
						      .note = note};

		if (p->n_refused)
			snprintf(note, sizeof(note), "%llu times the thread %s",
				 (unsigned long long)p->n_refused, p->refused);
		else if (p->n_seen < p->n_polls)
			snprintf(note, sizeof(note), "%s",
				 "the others had ended before pollux could read their stacks");
		if (p->n_polls)
			rc = capture_emit_coverage(c->shared->writer, stats, &record);
	}
	watch_free(c);
	return rc < 0 ? error_sys(err, rc, "cannot write the trace") : 0;
}

const struct capture_ops capture_watch = {
	.name = "watch",
	.open = watch_open,
	.join = watch_join,
	.drain = watch_drain,
	.close = watch_close,
};
