/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The requests that a connection's task serves, one after another: instances of handlers, called
 * rounds. A task is in the round that was polled last in its last poll, if that is still pending. So
 * a handler that is dropped while it waits, by a timeout say, has its task until the task is polled
 * without it; and of several at once (a FuturesUnordered) the one that was polled last has it. What
 * belongs to what is decided when it is reported, and only once.
 */
#include "timeline/state.h"

/* The poll of a task around the innermost future; NULL: there is none, or the task is elsewhere. */
static struct frame *frame_around(struct thread *th, uint32_t n_frames)
{
	struct frame *f = &th->root_poll;

	if (n_frames && n_frames <= th->n_frames && !th->frames[n_frames - 1].worker)
		f = &th->frames[n_frames - 1];
	return f->task ? f : NULL;
}

/* The innermost that is being polled in that poll of a task. */
static const struct future *open_round(const struct thread *th, uint32_t n_frames)
{
	for (uint32_t i = th->n_futures; i-- > 0 && th->futures[i].n_frames == n_frames;) {
		const struct future *f = th->futures[i].future;

		if (f && tl_is_round(&f->tl))
			return f;
	}
	return NULL;
}

void round_of_new(const struct thread *th, struct future *f)
{
	const struct future *around = open_round(th, th->n_frames);

	if (around)
		f->tl.round = around->tl.round;
	else if (f->kind->handler && f->tl.task)
		f->tl.round = (struct tl_round){.serial = f->tl.serial, .kind = f->tl.kind};
}

void round_polled(struct thread *th, const struct future *f)
{
	struct frame *frame = frame_around(th, th->n_frames);

	if (!frame)
		return;
	frame->pending = frame->task->round = f->tl.round;
	if (!frame->longest.serial)
		frame->longest = f->tl.round;
}

void round_poll_end(struct thread *th, const struct future *f, uint32_t n_frames, uint64_t length,
		    enum trace_outcome outcome)
{
	struct frame *frame = frame_around(th, n_frames);
	const struct future *around = open_round(th, n_frames);

	if (!frame)
		return;
	if (length > frame->longest_ns) {
		frame->longest = f->tl.round;
		frame->longest_ns = length;
	}
	bool over = outcome == TO_READY || outcome == TO_PANICKED || outcome == TO_CANCELLED;

	if (over && frame->pending.serial == f->tl.serial)
		frame->pending = (struct tl_round){0};
	frame->task->round = around ? around->tl.round : frame->pending;
}

void round_over(const struct future *f)
{
	struct task *task = (struct task *)f->tl.task;

	if (task && task->round.serial == f->tl.serial)
		task->round = (struct tl_round){0};
}

void round_task_polled(const struct frame *f)
{
	f->task->round = f->pending;
}
