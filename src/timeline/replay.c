/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A trace file through the timeline. Without a filter the reader's sink is the timeline's own. With
 * one there is a sink in between: it passes on what matches and cuts slices at the window's begin.
 * The window's end is simpler: the timeline is fed up to there and finished.
 *
 * Names that may change (threads) are matched each time, those of tasks once per task: the result
 * is noted in tl_task.passed. Of a task that only serves a handler of the wanted name what belongs
 * to such rounds passes.
 */
#include "timeline/replay.h"

#include "base/vec.h"
#include "timeline/match.h"
#include "timeline/moments.h"

#include <errno.h>
#include <stdlib.h>

#define EVENTS_PER_PROGRESS 65536

/* Bits of tl_task.passed, and of tl_future.passed. */
enum passed {
	PASS_DECIDED = 1,
	PASS_ALL = 2,	 /* all of it */
	PASS_ROUNDS = 4, /* what belongs to rounds that match */
	PASS_EMITTED = 8,
};

/* What is reported of a thread at the end, counted in the window only. */
struct replay_thread {
	struct tl_thread tl;
	uint64_t working_ns; /* since */
};

struct replay {
	struct trace_reader *reader;
	const struct replay_filter *filter;
	const struct timeline_sink *sink;
	void *ctx;
	uint64_t from_ns;
	struct replay_thread *threads;
	size_t n_threads;
	struct match match;
	bool out_of_memory; /* for `match` */
	uint8_t *handlers;  /* by kind: enum passed */
	uint32_t n_handlers;
};

/* ---- what matches ---- */

static bool matches_thread(const struct replay *rp, uint32_t thread)
{
	const char *const *list = rp->filter->threads;
	if (!list)
		return true;
	const struct trace_thread *t = trace_reader_thread(rp->reader, thread);
	return t && match_thread(list, t);
}

static bool matches_number(const struct replay *rp, const struct tl_task *task)
{
	const struct replay_filter *f = rp->filter;
	return !f->tasks || match_number(f->tasks, task->number);
}

static bool matches_kind(const struct replay *rp, uint32_t kind)
{
	const char *const *list = rp->filter->families;

	return !list || match_kind(list, rp->reader, trace_reader_kind(rp->reader, kind));
}

static bool matches_handler(struct replay *rp, const struct tl_round *round)
{
	if (!round->serial || !GROW_ZERO(rp->handlers, round->kind, rp->n_handlers)) {
		rp->out_of_memory = rp->out_of_memory || round->serial;
		return false;
	}
	uint8_t *passed = &rp->handlers[round->kind];
	if (!*passed) {
		*passed = PASS_DECIDED | (matches_kind(rp, round->kind) ? PASS_ALL : 0);
		rp->out_of_memory = rp->out_of_memory ||
				    match_note_handler(&rp->match, round->kind, *passed & PASS_ALL);
	}
	return *passed & PASS_ALL;
}

/* NULL: something of the whole task. */
static bool wanted(struct replay *rp, struct tl_task *task, const struct tl_round *round)
{
	if (!task->passed) {
		bool number = matches_number(rp, task),
		     all = number && matches_kind(rp, task->kind);

		task->passed = PASS_DECIDED | (all ? PASS_ALL : number ? PASS_ROUNDS : 0);
		rp->out_of_memory = rp->out_of_memory || match_note(&rp->match, task, all) < 0;
	}
	/* What a round is called is noted in any case: a word may match no other one. */
	bool matches = round && rp->filter->families && matches_handler(rp, round);
	return task->passed & PASS_ALL || (task->passed & PASS_ROUNDS && matches);
}

static int emit(const struct replay *rp, struct tl_task *task)
{
	if (task->passed & PASS_EMITTED)
		return 0;
	task->passed |= PASS_EMITTED;
	return rp->sink->task_begin ? rp->sink->task_begin(rp->ctx, task) : 0;
}

/* Cuts a slice at the window's begin; false if nothing is left of it. */
static bool clip(const struct replay *rp, uint64_t *begin, uint64_t *end)
{
	if (*end < rp->from_ns || (*end == rp->from_ns && *begin < *end))
		return false;
	if (*begin < rp->from_ns)
		*begin = rp->from_ns;
	return true;
}

static struct replay_thread *seen_thread(struct replay *rp, uint32_t thread)
{
	return GROW_ZERO(rp->threads, thread, rp->n_threads) ? &rp->threads[thread] : NULL;
}

/* ---- the sink between ---- */

static int pass_task_begin(void *ctx, struct tl_task *task)
{
	struct replay *rp = ctx;
	/* Otherwise with its first slice in the window, or on a thread that matches. */
	bool at_once = !rp->filter->threads && task->spawn_ns >= rp->from_ns;
	return wanted(rp, task, NULL) && at_once ? emit(rp, task) : 0;
}

static int pass_task_end(void *ctx, struct tl_task *task)
{
	struct replay *rp = ctx;
	bool in_window = !task->end_ns || task->end_ns >= rp->from_ns;
	bool emitted = task->passed & PASS_EMITTED;
	if (!emitted && (!wanted(rp, task, NULL) || rp->filter->threads || !in_window))
		return 0;
	int r = emit(rp, task);
	return r < 0 || !rp->sink->task_end ? r : rp->sink->task_end(rp->ctx, task);
}

static int pass_poll(void *ctx, const struct tl_poll *poll)
{
	struct replay *rp = ctx;
	struct tl_poll p = *poll;
	uint64_t blocked_before = p.task->blocked_before_ns;
	p.task->blocked_before_ns = 0;
	if (!clip(rp, &p.begin_ns, &p.end_ns) || !matches_thread(rp, p.thread))
		return 0;
	if (p.begin_ns != poll->begin_ns)
		p.scheduled_ns = p.wake_serial = 0;
	if (blocked_before > p.blocked_ns)
		blocked_before = p.blocked_ns;
	p.blocked_ns -= blocked_before;
	if (!p.depth) {
		struct replay_thread *t = seen_thread(rp, p.thread);
		if (!t)
			return -ENOMEM;
		t->tl.n_polls += !p.inferred;
		t->tl.busy_ns += tl_poll_held_ns(&p);
		t->tl.n_unmeasured += !tl_poll_measured(&p);
	}
	if (!wanted(rp, p.task, &p.round))
		return 0;
	int r = emit(rp, p.task);
	return r < 0 || !rp->sink->poll ? r : rp->sink->poll(rp->ctx, &p);
}

static int pass_wait(void *ctx, const struct tl_wait *wait)
{
	struct replay *rp = ctx;
	struct tl_wait w = *wait;
	if (!clip(rp, &w.begin_ns, &w.end_ns) || !wanted(rp, w.task, &w.round))
		return 0;
	if (rp->filter->threads && !(w.task->passed & PASS_EMITTED))
		return 0;
	int r = emit(rp, w.task);
	return r < 0 || !rp->sink->wait ? r : rp->sink->wait(rp->ctx, &w);
}

static int pass_wake(void *ctx, const struct tl_wake *wake)
{
	struct replay *rp = ctx;
	if (wake->time_ns < rp->from_ns || !matches_thread(rp, wake->thread) ||
	    !wanted(rp, wake->task, &wake->round))
		return 0;
	int r = emit(rp, wake->task);
	return r < 0 || !rp->sink->wake ? r : rp->sink->wake(rp->ctx, wake);
}

static int pass_block(void *ctx, const struct tl_block *block)
{
	struct replay *rp = ctx;
	struct tl_block b = *block;
	if (b.begin_ns < rp->from_ns)
		b.task->blocked_before_ns +=
			(b.end_ns < rp->from_ns ? b.end_ns : rp->from_ns) - b.begin_ns;
	if (!clip(rp, &b.begin_ns, &b.end_ns) || !matches_thread(rp, b.thread))
		return 0;
	struct replay_thread *t = seen_thread(rp, b.thread);
	if (!t)
		return -ENOMEM;
	t->tl.blocked_ns += b.keeps_worker ? b.end_ns - b.begin_ns : 0;
	if (!wanted(rp, b.task, &b.round))
		return 0;
	int r = emit(rp, b.task);
	return r < 0 || !rp->sink->block ? r : rp->sink->block(rp->ctx, &b);
}

/* Events of other sources on a thread, in a poll or outside of all. */
static bool passes_aux(struct replay *rp, struct tl_task *task, uint32_t thread,
		       const struct tl_round *round)
{
	if (!matches_thread(rp, thread))
		return false;
	return task ? wanted(rp, task, round) : !rp->filter->families && !rp->filter->tasks;
}

static int pass_syscall(void *ctx, const struct tl_syscall *call)
{
	struct replay *rp = ctx;
	struct tl_syscall c = *call;
	if (!clip(rp, &c.begin_ns, &c.end_ns) || !passes_aux(rp, c.task, c.thread, &c.round))
		return 0;
	int r = c.task ? emit(rp, c.task) : 0;
	return r < 0 || !rp->sink->syscall ? r : rp->sink->syscall(rp->ctx, &c);
}

static int pass_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct replay *rp = ctx;
	struct tl_off_cpu o = *off;
	if (!clip(rp, &o.begin_ns, &o.end_ns) || !passes_aux(rp, o.task, o.thread, &o.round))
		return 0;
	int r = o.task ? emit(rp, o.task) : 0;
	return r < 0 || !rp->sink->off_cpu ? r : rp->sink->off_cpu(rp->ctx, &o);
}

static int pass_sample(void *ctx, const struct tl_sample *sample)
{
	struct replay *rp = ctx;
	if (sample->time_ns < rp->from_ns ||
	    !passes_aux(rp, sample->task, sample->thread, &sample->round))
		return 0;
	int r = sample->task ? emit(rp, sample->task) : 0;
	return r < 0 || !rp->sink->sample ? r : rp->sink->sample(rp->ctx, sample);
}

static int pass_machine(void *ctx, const struct tl_machine *machine)
{
	struct replay *rp = ctx;
	if (machine->time_ns < rp->from_ns || !passes_aux(rp, machine->task, machine->thread, NULL))
		return 0;
	return rp->sink->machine ? rp->sink->machine(rp->ctx, machine) : 0;
}

static int pass_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	struct replay *rp = ctx;
	struct tl_future_poll p = *poll;
	if (!clip(rp, &p.begin_ns, &p.end_ns) ||
	    !passes_aux(rp, p.task, p.thread, &p.future->round))
		return 0;
	uint64_t length = p.end_ns - p.begin_ns, since = p.begin_ns - rp->from_ns;
	if (p.self_ns > length)
		p.self_ns = length;
	if (p.begin_ns != poll->begin_ns)
		p.waited_ns = 0;
	else if (p.waited_ns > since)
		p.waited_ns = since;
	int r = p.task ? emit(rp, p.task) : 0;
	if (r == 0 && rp->sink->future_poll)
		r = rp->sink->future_poll(rp->ctx, &p);
	p.future->passed |= PASS_EMITTED;
	return r;
}

/* Of those that were polled in the window, or wait in it. */
static int pass_future_end(void *ctx, struct tl_future *future)
{
	struct replay *rp = ctx;
	bool in_window = !future->end_ns || future->end_ns >= rp->from_ns;
	if (!(future->passed & PASS_EMITTED) &&
	    (!in_window || rp->filter->threads ||
	     (future->task ? !wanted(rp, future->task, &future->round)
			   : rp->filter->families || rp->filter->tasks)))
		return 0;
	int r = future->task ? emit(rp, future->task) : 0;
	if (future->last_wait_since_ns < rp->from_ns) {
		uint64_t before = rp->from_ns - future->last_wait_since_ns;
		future->last_wait_ns -=
			before < future->last_wait_ns ? before : future->last_wait_ns;
	}
	return r < 0 || !rp->sink->future_end ? r : rp->sink->future_end(rp->ctx, future);
}

static int pass_section(void *ctx, const struct tl_section *section)
{
	struct replay *rp = ctx;
	struct tl_section s = *section;
	if (!clip(rp, &s.begin_ns, &s.end_ns) || !matches_thread(rp, s.thread) ||
	    !wanted(rp, s.task, NULL))
		return 0;
	int r = emit(rp, s.task);
	return r < 0 || !rp->sink->section ? r : rp->sink->section(rp->ctx, &s);
}

static int pass_park(void *ctx, const struct tl_park *park)
{
	struct replay *rp = ctx;
	struct tl_park p = *park;
	if (!clip(rp, &p.begin_ns, &p.end_ns) || !matches_thread(rp, p.thread))
		return 0;
	struct replay_thread *t = seen_thread(rp, p.thread);
	if (!t)
		return -ENOMEM;
	t->tl.parked_ns += p.end_ns - p.begin_ns;
	return rp->sink->park ? rp->sink->park(rp->ctx, &p) : 0;
}

static int pass_loss(void *ctx, const struct tl_loss *loss)
{
	struct replay *rp = ctx;
	struct tl_loss l = *loss;
	if (!clip(rp, &l.begin_ns, &l.end_ns) || !matches_thread(rp, l.thread))
		return 0;
	struct replay_thread *t = seen_thread(rp, l.thread);
	if (!t)
		return -ENOMEM;
	if (!l.aux)
		t->tl.lost += l.n_events;
	return rp->sink->loss ? rp->sink->loss(rp->ctx, &l) : 0;
}

static int pass_stray_wake(void *ctx, uint32_t kind, uint32_t thread, uint64_t time_ns)
{
	struct replay *rp = ctx;
	const struct trace_kind *k = trace_reader_kind(rp->reader, kind);
	if (time_ns < rp->from_ns || rp->filter->tasks || !matches_thread(rp, thread))
		return 0;
	if (rp->filter->families && !match_kind(rp->filter->families, rp->reader, k))
		return 0;
	return rp->sink->stray_wake ? rp->sink->stray_wake(rp->ctx, kind, thread, time_ns) : 0;
}

/* Both are reported at the end, when it is known whether they reach into the window. */
static int pass_worker_begin(void *ctx, uint32_t thread, uint64_t time_ns)
{
	struct replay *rp = ctx;
	struct replay_thread *t = seen_thread(rp, thread);
	if (!t)
		return -ENOMEM;
	t->working_ns = time_ns;
	return 0;
}

static int pass_worker_end(void *ctx, uint32_t thread, uint64_t time_ns)
{
	struct replay *rp = ctx;
	struct replay_thread *t = seen_thread(rp, thread);
	if (!t)
		return -ENOMEM;
	uint64_t begin = t->working_ns, end = time_ns;
	if (!clip(rp, &begin, &end) || !matches_thread(rp, thread))
		return 0;
	int r = rp->sink->worker_begin ? rp->sink->worker_begin(rp->ctx, thread, begin) : 0;
	return r < 0 || !rp->sink->worker_end ? r : rp->sink->worker_end(rp->ctx, thread, end);
}

static int pass_thread_end(void *ctx, const struct tl_thread *thread)
{
	struct replay *rp = ctx;
	struct replay_thread *t = seen_thread(rp, thread->thread);
	if (!t)
		return -ENOMEM;
	struct tl_thread clipped = t->tl;
	clipped.thread = thread->thread;
	clipped.worker = thread->worker;
	clipped.root = thread->root;
	clipped.begin_ns = thread->begin_ns;
	clipped.end_ns = thread->end_ns;
	bool active = clipped.busy_ns || clipped.parked_ns || clipped.n_polls || clipped.lost;
	if (!thread->n_polls && !clipped.n_unmeasured)
		clipped.n_unmeasured = thread->n_unmeasured; /* all the time in a poll */
	if (!clip(rp, &clipped.begin_ns, &clipped.end_ns) && !active)
		return 0;
	if (!matches_thread(rp, thread->thread))
		return 0;
	return rp->sink->thread_end ? rp->sink->thread_end(rp->ctx, &clipped) : 0;
}

static const struct timeline_sink pass = {
	.task_begin = pass_task_begin,
	.task_end = pass_task_end,
	.poll = pass_poll,
	.wait = pass_wait,
	.wake = pass_wake,
	.block = pass_block,
	.section = pass_section,
	.park = pass_park,
	.syscall = pass_syscall,
	.off_cpu = pass_off_cpu,
	.sample = pass_sample,
	.machine = pass_machine,
	.future_poll = pass_future_poll,
	.future_end = pass_future_end,
	.loss = pass_loss,
	.stray_wake = pass_stray_wake,
	.worker_begin = pass_worker_begin,
	.worker_end = pass_worker_end,
	.thread_end = pass_thread_end,
};

/* ---- the loop ---- */

static const struct trace_kind *reader_kind(const void *ctx, uint32_t kind)
{
	return trace_reader_kind(ctx, kind);
}

static bool lets_all_through(const struct replay_filter *f)
{
	return !f || (!f->from_ns && !f->families && !f->threads && !f->tasks);
}

static uint64_t sum_or_max(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* The recording went on after its last event. One that is cut off ends where its file is complete: what has no
 * end in the file after that may be over. */
static uint64_t end_of(const struct trace_reader *r, uint64_t base_ns, uint64_t last_ns,
		       uint64_t to_ns)
{
	const struct trace_cost *cost = trace_reader_cost(r);
	uint64_t end = cost && cost->end_ns > last_ns ? cost->end_ns : last_ns;
	uint64_t complete = trace_reader_complete_ns(r);

	if (complete != UINT64_MAX && (!cost || !cost->end_ns || complete < end))
		end = complete > base_ns ? complete : base_ns;
	return end < to_ns ? end : to_ns;
}

uint64_t replay_length_ns(const struct trace_reader *r, const struct replay_filter *filter,
			  uint64_t base_ns, uint64_t end_ns)
{
	const struct trace_cost *cost = trace_reader_cost(r);
	bool window = filter && (filter->from_ns || filter->to_ns);
	uint64_t begin = sum_or_max(base_ns, filter ? filter->from_ns : 0);
	if (!window && cost && cost->begin_ns && cost->begin_ns < begin)
		begin = cost->begin_ns;
	return end_ns > begin ? end_ns - begin : 0;
}

int replay_use_kinds(struct trace_reader *r, struct error *err)
{
	struct tl_moments moments = {0};
	struct trace_event ev;
	int ret;

	do
		ret = trace_reader_next(r, &ev, err);
	while (ret > 0);
	if (ret == 0)
		ret = tl_moments_feed(&moments, r, NULL, err);
	tl_moments_done(&moments);
	return ret < 0 ? ret : trace_reader_rewind(r, err);
}

/* Whether an event after the window ends a call, or a time off the CPU, that began in the window:
 * then that is cut at the window's end. */
static bool cut_at(struct trace_event *ev, uint64_t to_ns)
{
	bool has_length = ev->type == TE_BLOCK || ev->type == TE_SYSCALL || ev->type == TE_OFF_CPU;
	uint64_t since = ev->time - to_ns;
	if (!has_length || ev->value <= since)
		return false;
	ev->value -= since;
	ev->time = to_ns;
	return true;
}

int timeline_replay(struct trace_reader *r, const struct replay_filter *filter,
		    const struct timeline_sink *sink, void *sink_ctx,
		    void (*progress)(void *ctx, uint64_t done, uint64_t total), void *progress_ctx,
		    struct timeline_totals *ret_totals, uint64_t *ret_base_ns, struct error *err)
{
	struct replay rp = {.reader = r, .filter = filter, .sink = sink, .ctx = sink_ctx};
	bool all = lets_all_through(filter);
	rp.match = (struct match){.reader = r, .filter = filter};
	struct timeline *tl =
		timeline_new(all ? sink : &pass, all ? sink_ctx : &rp, reader_kind, r);
	if (!tl)
		return error_set(err, -ENOMEM, "out of memory");

	uint64_t base = 0, last = 0, to = UINT64_MAX, n = 0;
	struct tl_moments moments = {0};
	struct trace_event ev;
	int ret;
	while ((ret = trace_reader_next(r, &ev, err)) > 0) {
		if (tl_moments_due(&moments, r) &&
		    (ret = tl_moments_feed(&moments, r, tl, err)) < 0)
			break;
		if (!n++) {
			last = ev.time;
			base = filter && filter->base_ns && filter->base_ns < last ? filter->base_ns
										   : last;
			if (ret_base_ns)
				*ret_base_ns = base;
			if (filter) {
				rp.from_ns = sum_or_max(base, filter->from_ns);
				to = filter->to_ns ? sum_or_max(base, filter->to_ns) : to;
			}
		}
		if (progress && n % EVENTS_PER_PROGRESS == 0) {
			uint64_t done, total;
			trace_reader_progress(r, &done, &total);
			progress(progress_ctx, done, total);
		}
		/* The trace ends there, also without a note of its end, as of a recording that was killed. */
		if (ev.time > last)
			last = ev.time;
		uint64_t complete = trace_reader_complete_ns(r);
		if (complete < to)
			to = complete > base ? complete : base;
		/* After the window only what was under way counts, and what is at the file's end:
		 * coverage, cost. */
		if (ev.time > to && !cut_at(&ev, to)) {
			timeline_look_ahead(tl, &ev);
			continue;
		}
		ret = timeline_feed(tl, &ev, err);
		if (ret < 0)
			break;
	}
	/* Without a single event all the recording is a blank. */
	const struct trace_process *first = trace_reader_process(r, 0);
	const struct trace_cost *cost = trace_reader_cost(r);
	if (ret >= 0 && !n && first)
		base = last = cost && cost->begin_ns ? cost->begin_ns : first->start_ns;
	if (ret >= 0)
		ret = tl_moments_feed(&moments, r, tl, err);
	if (ret >= 0)
		tl_moments_end(&moments, r, tl, base);
	tl_moments_done(&moments);
	if (ret >= 0)
		ret = timeline_finish(tl, end_of(r, base, last, to), err);
	if (ret >= 0 && rp.out_of_memory)
		ret = error_set(err, -ENOMEM, "out of memory");
	if (ret >= 0 && !all && !filter->lenient)
		ret = match_check(&rp.match, end_of(r, base, last, UINT64_MAX) - base, err);
	if (ret >= 0 && ret_totals)
		timeline_totals(tl, ret_totals);
	if (ret >= 0 && ret_base_ns)
		*ret_base_ns = base;
	timeline_free(tl);
	free(rp.threads);
	free(rp.handlers);
	match_done(&rp.match);
	return ret < 0 ? ret : 0;
}
