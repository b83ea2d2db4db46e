/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is open on a thread: a stack of polls, innermost last. At its bottom may be a worker's loop,
 * which the runtime runs as a task of its own kind (Tokio: a blocking task): no poll of a task, so
 * polls inside it have depth 0. Polls in polls are real: a LocalSet in a task, a runtime started in
 * a blocking task.
 *
 * A kind whose name does not show that it is a worker's loop is recognised when a task is polled
 * inside its poll.
 */
#include "timeline/state.h"

#include "base/vec.h"

#include <errno.h>

static struct frame *poll_top(struct thread *th)
{
	return th->n_frames ? &th->frames[th->n_frames - 1] : NULL;
}

struct frame *poll_open(struct thread *th)
{
	struct frame *top = poll_top(th);
	return top && !top->worker ? top : NULL;
}

void poll_working(struct timeline *tl, struct thread *th, uint64_t t)
{
	th->tl.worker = true;
	if (th->working)
		return;
	th->working = true;
	EMIT(tl, worker_begin, th->tl.thread, t);
}

void poll_not_working(struct timeline *tl, struct thread *th, uint64_t t)
{
	if (!th->working)
		return;
	th->working = false;
	EMIT(tl, worker_end, th->tl.thread, t);
}

/* ---- ends ---- */

/* What the end of its poll makes of the task. */
static void go_on(struct timeline *tl, struct task *task, const struct frame *f, uint64_t t,
		  enum trace_outcome outcome)
{
	bool certain = task->n_losses == tl->n_losses && !f->unseen;
	bool woken = task->woken_inside;
	task->n_losses = tl->n_losses;
	task->place = f->place;
	task->resource = f->resource;
	if (outcome == TO_ABORTED)
		outcome = TO_CANCELLED;
	task->end_unseen = outcome == TO_UNSEEN;
	task->woken_inside = woken && outcome == TO_UNSEEN;
	if (outcome == TO_READY || outcome == TO_PANICKED || outcome == TO_CANCELLED)
		task_end(tl, task, outcome, t);
	else if (task->end_inside)
		task_end(tl, task, task->end_inside, t);
	else if (task->drop_inside)
		task_end(tl, task, outcome == TO_PENDING ? TO_CANCELLED : TO_UNKNOWN, t);
	else if (outcome == TO_UNSEEN)
		task_state(tl, task, TS_UNKNOWN, t);
	else if (tl->finished)
		task->since_ns = t; /* still in its poll */
	else if (outcome == TO_UNKNOWN)
		task_state(tl, task, TS_UNKNOWN, t);
	else if (woken)
		task_scheduled(tl, task, t, task->wake_inside);
	else
		task_state(tl, task, certain ? TS_WAITING : TS_UNKNOWN, t);
}

void poll_finish(struct timeline *tl, struct thread *th, struct frame *f, uint64_t t,
		 enum trace_outcome outcome)
{
	if (f->worker && outcome == TO_UNSEEN)
		outcome = TO_UNKNOWN;
	if (t < f->begin_ns || outcome == TO_UNSEEN)
		t = f->begin_ns;
	if (t < f->until_ns)
		t = f->until_ns;
	/* The end may have come from another thread's clock. */
	if (th->last_ns < t)
		th->last_ns = t;
	if (f->root)
		root_finish(tl, f->root, t);
	struct task *task = f->task;
	if (!task)
		return;
	if (f->worker) {
		poll_not_working(tl, th, t);
		go_on(tl, task, f, t, outcome);
		return;
	}
	if (f->section_ns) {
		struct tl_section section = {
			.task = &task->tl,
			.thread = th->tl.thread,
			.begin_ns = f->section_ns,
			.end_ns = t,
		};
		EMIT(tl, section, &section);
	}
	if (outcome == TO_ABORTED) {
		task->tl.n_polls--;
		f->kind->n_polls--;
		if (!f->depth)
			th->tl.n_polls--;
		task->thread = NO_THREAD;
		go_on(tl, task, f, f->begin_ns, outcome);
		return;
	}
	struct tl_poll poll = {
		.task = &task->tl,
		.thread = th->tl.thread,
		.depth = f->depth,
		.begin_ns = f->begin_ns,
		.end_ns = t,
		.outcome = outcome == TO_UNSEEN ? TO_UNKNOWN : outcome,
		.begin_seen = !f->unseen,
		.end_seen = outcome != TO_UNSEEN,
		.inferred = f->inferred,
		.woken_inside = task->woken_inside,
		.scheduled_ns = f->scheduled_ns,
		.wake_serial = f->wake_serial,
		.place = f->place,
		.blocked_ns = f->blocked_ns,
		.n_blocks = f->n_blocks,
		.section_ns = f->section_ns,
		.round = f->longest,
	};
	task->polled_ns = f->begin_ns;
	task->polled_until_ns = t;
	task->tl.poll_ns += tl_poll_measured(&poll) ? t - f->begin_ns : 0;
	if (!f->depth) {
		th->tl.busy_ns += tl_poll_held_ns(&poll);
		th->tl.n_unmeasured += !tl_poll_measured(&poll);
	}
	task->polled_on = th->tl.thread + 1;
	task->polled_parks = th->n_parks;
	round_task_polled(f);
	EMIT(tl, poll, &poll);
	if (!f->inferred)
		task->thread = NO_THREAD;
	go_on(tl, task, f, t, outcome);
}

static void poll_pop(struct timeline *tl, struct thread *th, uint64_t t, enum trace_outcome outcome)
{
	if (th->n_futures)
		future_close(tl, th, t, outcome);
	struct frame f = th->frames[--th->n_frames];
	poll_finish(tl, th, &f, t, outcome);
	if (th->n_frames)
		poll_top(th)->until_ns = t;
	if (th->n_futures && !f.worker && outcome != TO_ABORTED)
		future_polled_task(th, outcome == TO_UNSEEN ? 0 : t - f.begin_ns, t);
}

void poll_close_all(struct timeline *tl, struct thread *th, uint64_t t, enum trace_outcome outcome,
		    bool workers)
{
	while (th->n_frames && (workers || !poll_top(th)->worker))
		poll_pop(tl, th, t, outcome);
}

/* The task is polled elsewhere now, so its poll on that thread has ended; only the event that says
 * so is still to come. */
static void poll_detach(struct timeline *tl, struct task *task, uint64_t t)
{
	struct thread *th = tl->threads[task->thread];
	for (uint32_t i = th->n_frames; i-- > 0;) {
		struct frame *f = &th->frames[i];
		if (f->task != task)
			continue;
		struct frame ended = *f;
		f->task = f->root = NULL;
		poll_finish(tl, th, &ended, task->idle_ns ? task->idle_ns : t, TO_PENDING);
		return;
	}
}

/* ---- begins ---- */

/* A poll that was taken for a task's is a worker's loop. */
static void becomes_worker(struct timeline *tl, struct thread *th, struct frame *f)
{
	f->worker = true;
	f->task->tl.role = TR_WORKER;
	f->task->tl.n_polls--;
	th->tl.n_polls--;
	/* Its blocking calls were parks. */
	th->tl.blocked_ns -= f->blocked_ns;
	th->tl.parked_ns += f->blocked_ns;
	poll_working(tl, th, f->begin_ns);
}

/* What was open when a poll of kind k begins: sees to it that it can stay below. */
static void make_way(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t)
{
	struct frame *top = poll_top(th);
	if (top && !top->worker && th->n_frames == 1 && top->task && k->role == TR_TASK) {
		if (top->kind->maybe_worker && !top->root) {
			top->kind->maybe_worker = false;
			top->kind->role = TR_WORKER;
		}
		if (top->kind->role == TR_WORKER)
			becomes_worker(tl, th, top);
	}
	/* A worker's loop has nothing below it; and what runs on the blocking pool does not run in
	 * one. So the end of what is open was not seen. */
	if (top && (k->role == TR_WORKER || (k->role == TR_BLOCKING && top->worker))) {
		tl->n_inconsistent++;
		poll_close_all(tl, th, t, TO_UNSEEN, true);
	}
	if (th->n_frames >= MAX_OPEN) {
		tl->n_inconsistent++;
		poll_close_all(tl, th, t, TO_UNSEEN, false);
	}
}

/* The task that is to be polled, not being polled; NULL for an ended one. */
static struct task *poll_task(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name,
			      uint64_t t)
{
	struct task *task = task_unless_reused(tl, th, k, task_find(tl, k, name));
	if (task && task->tl.state == TS_POLLING) {
		if (task->thread == th->tl.thread) {
			/* No poll is inside itself: its end was not seen. */
			tl->n_inconsistent++;
			while (poll_top(th)->task != task)
				poll_pop(tl, th, t, TO_UNSEEN);
			poll_pop(tl, th, t, TO_UNSEEN);
		} else {
			poll_detach(tl, task, t);
		}
		task = task_find(tl, k, name);
	}
	if (task && task->tl.state == TS_DONE) {
		tl->n_inconsistent++;
		if (!k->address_named)
			return NULL;
		task_forget(tl, task);
		task = NULL;
	}
	return task ? task : task_new(tl, k, name, th, t, TASK_OF_ANY_SPAWN);
}

static struct frame *poll_push(struct timeline *tl, struct thread *th)
{
	if (!GROW(th->frames, th->n_frames, th->cap_frames)) {
		timeline_fail(tl, -ENOMEM);
		return NULL;
	}
	return &th->frames[th->n_frames++];
}

void poll_begin(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t)
{
	if (th->parked) {
		tl->n_inconsistent++;
		poll_park_end(tl, th, t);
	}
	if (th->n_frames)
		make_way(tl, th, k, t);
	if (th->root_poll.task)
		root_gap_end(tl, th, t, TO_PENDING);
	struct task *task = poll_task(tl, th, k, name, t);
	if (tl->failed)
		return;
	spawn_note_given(th, k);
	if (task) {
		task_settle(tl, task);
		t = timeline_at_task(th, task, t);
	}
	struct frame *top = poll_top(th);
	uint32_t depth = !top ? 0 : top->worker ? top->depth : top->depth + 1;
	struct frame *f = poll_push(tl, th);
	if (!f)
		return;
	*f = (struct frame){
		.task = task,
		.kind = k,
		.name = name,
		.begin_ns = t,
		.depth = depth,
		.worker = k->role == TR_WORKER,
	};
	th->complete = true;
	th->after_unpark = false;
	th->unseen = 0;
	if (!task)
		return;

	if (task->tl.state == TS_SCHEDULED) {
		f->scheduled_ns = task->scheduled_ns;
		f->wake_serial = task->wake_serial;
	}
	task->thread = th->tl.thread;
	task_state(tl, task, TS_POLLING, t);
	task->tl.role = k->role;
	task->woken_inside = task->unqueued = task->self_woken = false;
	task->queued_by = task->woken_by = 0;
	task->idle_ns = 0;
	if (f->worker) {
		poll_working(tl, th, t);
		return;
	}
	task->tl.n_polls++;
	k->n_polls++;
	if (!depth) {
		th->tl.n_polls++;
		if (k->role == TR_ROOT) {
			th->tl.root = true;
			if (k->loops)
				poll_working(tl, th, t);
		} else if (k->role == TR_TASK) {
			th->loops = true;
			if (!k->maybe_worker)
				poll_working(tl, th, t);
		}
	}
}

/* An end whose begin was not seen: before the recording, in a loss, or broken. */
static void end_unseen(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name,
		       uint64_t t, enum trace_outcome outcome, uint64_t place)
{
	if (th->complete || poll_open(th))
		tl->n_inconsistent++;
	root_gap_end(tl, th, t, TO_PENDING);
	struct task *task = task_find(tl, k, name);
	if (task && (task->tl.state == TS_DONE || task->tl.state == TS_POLLING)) {
		tl->n_inconsistent++;
		return;
	}
	if (!task && !(task = task_new(tl, k, name, th, t, TASK_OF_ANY_SPAWN)))
		return;
	task_settle(tl, task);
	t = timeline_at_task(th, task, t);
	task_state(tl, task, TS_POLLING, t);
	task->woken_inside = task->self_woken = false;
	struct frame *top = poll_open(th);
	struct frame f = {
		.task = task,
		.kind = k,
		.name = name,
		.begin_ns = t,
		.depth = top ? top->depth + 1 : 0,
		.worker = k->role == TR_WORKER,
		.unseen = true,
		.place = place,
		.resource = th->resource,
	};
	if (f.worker) {
		th->tl.worker = true;
	} else {
		task->tl.n_polls++;
		k->n_polls++;
		if (!f.depth)
			th->tl.n_polls++;
	}
	poll_finish(tl, th, &f, t, outcome);
}

void poll_end(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t,
	      enum trace_outcome outcome, uint64_t place)
{
	if (th->parked) {
		tl->n_inconsistent++;
		poll_park_end(tl, th, t);
	}
	for (uint32_t i = th->n_frames; i-- > 0;) {
		struct frame *f = &th->frames[i];
		if (f->kind != k || f->name != name)
			continue;
		/* The ends of those inside were not seen. */
		for (; th->n_frames > i + 1; tl->n_inconsistent++)
			poll_pop(tl, th, t, TO_UNSEEN);
		if (k->role == TR_WORKER && !f->worker && f->task && !i)
			becomes_worker(tl, th, f);
		else if (outcome == TO_PENDING)
			k->maybe_worker = false;
		f->place = outcome == TO_PENDING ? place : 0;
		f->resource = th->resource;
		th->unseen = outcome == TO_UNSEEN && f->task ? f->task->tl.serial : 0;
		th->unseen_losses = tl->n_losses;
		poll_pop(tl, th, t, outcome);
		if (!poll_open(th))
			root_gap_begin(tl, th, t, false);
		return;
	}
	end_unseen(tl, th, k, name, t, outcome, outcome == TO_PENDING ? place : 0);
}

/* ---- blocking calls and parks ---- */

/* Another thread is the worker meanwhile. */
static bool in_block_in_place(const struct thread *th)
{
	for (uint32_t i = 0; i < th->n_frames; i++)
		if (th->frames[i].section_ns)
			return true;
	return false;
}

void poll_block(struct timeline *tl, struct thread *th, uint16_t arg, uint64_t t, uint64_t ns)
{
	uint16_t call = arg & TRACE_CALL_NUMBER;
	bool nonblocking = arg & TRACE_CALL_NONBLOCKING || trace_call_waits_for_cpu(call);
	/* Nothing else happened on this thread meanwhile. */
	uint64_t before = th->n_events > 1 ? th->before_ns : th->before.until_ns;
	uint64_t begin = ns > t || t - ns < before ? before : t - ns;
	if (th->parked) {
		tl->n_inconsistent++;
		poll_park_end(tl, th, begin);
	}
	struct frame *f = poll_open(th);
	if (!f && th->root_poll.task && !root_parks(call))
		return; /* in the block_on's poll, or after it */
	if (!f && nonblocking)
		return;
	if (!f) {
		/* In the loop of a worker that the source took for a task. */
		poll_park(tl, th, call, begin);
		poll_unpark(tl, th, call, t);
		return;
	}
	/* The runtime's own, after it has let the task go. */
	if (!f->task)
		return;
	/* The system call in it has times of another clock: it did not begin before. But one call is
	 * not in two of these. */
	if (th->call_begin_ns < begin && th->call_end_ns > begin &&
	    th->call_begin_ns >= f->until_ns && begin - th->call_begin_ns < CLOCKS_APART_NS)
		begin = th->call_begin_ns;
	if (begin < f->begin_ns)
		begin = f->begin_ns;
	f->until_ns = t;
	bool keeps_worker = !nonblocking && !in_block_in_place(th);
	if (keeps_worker) {
		f->n_blocks++;
		f->blocked_ns += t - begin;
		th->tl.blocked_ns += t - begin;
	}
	struct tl_block block = {
		.task = &f->task->tl,
		.thread = th->tl.thread,
		.depth = future_depth(th),
		.call = call,
		.keeps_worker = keeps_worker,
		.nonblocking = nonblocking,
		.begin_ns = begin,
		.end_ns = t,
		.round = f->task->round,
	};
	EMIT(tl, block, &block);
}

static bool waits_for_io(uint16_t call)
{
	return call == TB_EPOLL_WAIT || call == TB_EPOLL_PWAIT || call == TB_EPOLL_PWAIT2;
}

bool root_parks(uint16_t call)
{
	return call == TB_FUTEX || waits_for_io(call);
}

void poll_park(struct timeline *tl, struct thread *th, uint16_t call, uint64_t t)
{
	if (th->parked) {
		tl->n_inconsistent++;
		poll_park_end(tl, th, t);
	}
	/* The source says that no poll is open: so its end was not seen. */
	if (poll_open(th)) {
		tl->n_inconsistent++;
		poll_close_all(tl, th, t, TO_UNSEEN, false);
	}
	root_park(tl, th, call, t);
	if (th->root_early && root_parks(call) && th->root->tl.state == TS_UNKNOWN)
		task_state(tl, th->root, TS_WAITING, t);
	th->parked = th->complete = true;
	th->after_unpark = false;
	th->park_call = call;
	th->park_ns = t;
	th->n_parks++;
	if (waits_for_io(call))
		th->driver = tl->drivers_seen = true;
}

void poll_park_end(struct timeline *tl, struct thread *th, uint64_t t)
{
	root_decide(tl, th, false);
	if (t < th->park_ns)
		t = th->park_ns;
	th->parked = false;
	th->tl.parked_ns += t - th->park_ns;
	struct tl_park park = {
		.thread = th->tl.thread,
		.call = th->park_call,
		.begin_ns = th->park_ns,
		.end_ns = t,
	};
	EMIT(tl, park, &park);
}

void poll_unpark(struct timeline *tl, struct thread *th, uint16_t arg, uint64_t t)
{
	th->looked = arg & TRACE_CALL_IDLE && th->parked && t - th->park_ns < LOOK_NS;
	if (th->parked)
		poll_park_end(tl, th, t);
	else if (th->complete)
		tl->n_inconsistent++;
	th->after_unpark = true;
	root_gap_begin(tl, th, t, true);
}
