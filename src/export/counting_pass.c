/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The counting pass in front of an export. It places every task just as the writing pass will,
 * so its counts by lane are exact; the number of bytes is an estimate from the format's own cost
 * per slice and flow.
 */
#include "export/counting_pass.h"

#include "base/error.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct counted_task {
	struct lane_slot placed;
	uint64_t n_slices, n_samples, weight;
	size_t name_len;
};

static void bins_widen(struct bins *b)
{
	for (unsigned i = 0; i < BINS_N / 2; i++) {
		b->slices[i] = b->slices[2 * i] + b->slices[2 * i + 1];
		b->bytes[i] = b->bytes[2 * i] + b->bytes[2 * i + 1];
	}
	memset(b->slices + BINS_N / 2, 0, sizeof(b->slices) / 2);
	memset(b->bytes + BINS_N / 2, 0, sizeof(b->bytes) / 2);
	b->width_ns *= 2;
}

void bins_add(struct bins *b, uint64_t ns, uint64_t bytes)
{
	if (!b->width_ns) {
		b->first_ns = ns;
		b->width_ns = 1;
	}
	uint64_t since = ns > b->first_ns ? ns - b->first_ns : 0;
	while (since / BINS_N >= b->width_ns)
		bins_widen(b);
	b->slices[since / b->width_ns]++;
	b->bytes[since / b->width_ns] += bytes;
}

uint64_t bins_until(const struct bins *b, uint64_t max_slices, uint64_t max_bytes)
{
	uint64_t slices = 0, bytes = 0;
	unsigned i;

	for (i = 0; i < BINS_N; i++) {
		slices += b->slices[i];
		bytes += b->bytes[i];
		if (slices > max_slices || bytes > max_bytes)
			break;
	}
	return b->first_ns + b->width_ns * (i ? i : 1);
}

static void top_sift_up(struct top *t, size_t i)
{
	while (i > 0) {
		size_t parent = (i - 1) / 2;
		if (t->tasks[parent].weight <= t->tasks[i].weight)
			return;
		struct top_task swap = t->tasks[parent];
		t->tasks[parent] = t->tasks[i];
		t->tasks[i] = swap;
		i = parent;
	}
}

static void top_sift_down(struct top *t)
{
	for (size_t i = 0;;) {
		size_t child = 2 * i + 1;
		if (child >= t->n)
			return;
		if (child + 1 < t->n && t->tasks[child + 1].weight < t->tasks[child].weight)
			child++;
		if (t->tasks[i].weight <= t->tasks[child].weight)
			return;
		struct top_task swap = t->tasks[child];
		t->tasks[child] = t->tasks[i];
		t->tasks[i] = swap;
		i = child;
	}
}

int top_add(struct top *t, const struct top_task *task)
{
	if (!t->max)
		return 0;
	if (t->n == t->max) {
		if (t->tasks[0].weight >= task->weight)
			return 0;
		t->tasks[0] = *task;
		top_sift_down(t);
		return 0;
	}
	if (!GROW(t->tasks, t->n, t->cap))
		return -ENOMEM;
	t->tasks[t->n++] = *task;
	top_sift_up(t, t->n - 1);
	return 0;
}

static struct counted_task *task_of(struct counts *s, struct tl_task *task)
{
	if (task->user)
		return task->user;
	struct counted_task *t = pool_get(&s->tasks);
	if (!t || lanes_task_begin(s->lanes, task, &t->placed) < 0)
		return NULL;
	t->name_len = strlen(t->placed.family->name);
	return task->user = t;
}

static void count(struct counts *s, uint64_t begin_ns, uint64_t bytes)
{
	s->n_slices++;
	s->bytes += bytes;
	bins_add(&s->bins, begin_ns, bytes);
}

static int count_task_slice(struct counts *s, struct counted_task *t, uint64_t begin_ns,
			    uint64_t bytes)
{
	t->n_slices++;
	if (!t->placed.counts)
		return 0;
	if (!s->shown_only) {
		t->placed.family->n_slices++;
		if (!s->lanes->by_task)
			t->placed.family->lanes[t->placed.lane].n_slices++;
	}
	if (t->placed.shown || !s->shown_only)
		count(s, begin_ns, bytes);
	return 0;
}

static int count_thread_slice(struct counts *s, uint32_t thread, uint64_t begin_ns,
			      uint64_t busy_ns, uint64_t bytes)
{
	struct thread_lane *t = lanes_thread(s->lanes, thread);
	if (!t)
		return -ENOMEM;
	if (!s->shown_only) {
		t->n_slices++;
		t->busy_ns += busy_ns;
	}
	if (t->shown || !s->shown_only)
		count(s, begin_ns, bytes);
	return 0;
}

/* ---- samples ---- */

struct counted {
	struct counts *s;
	struct counted_task *task;
	uint32_t thread;
};

static uint64_t stack_bytes(const struct counts *s, const struct stack_slice *slice)
{
	const char *name = slice->frame ? slice->frame->function : NULL;
	return s->limits->slice_bytes + (name ? strlen(name) : 0);
}

static int count_task_stack(void *ctx, const struct stack_slice *slice)
{
	const struct counted *c = ctx;
	return count_task_slice(c->s, c->task, slice->begin_ns, stack_bytes(c->s, slice));
}

static int count_thread_stack(void *ctx, const struct stack_slice *slice)
{
	const struct counted *c = ctx;
	return count_thread_slice(c->s, c->thread, slice->begin_ns, 0, stack_bytes(c->s, slice));
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct counts *s = ctx;
	struct counted c = {.s = s, .thread = sample->thread};
	struct thread_lane *thread = lanes_thread(s->lanes, sample->thread);
	if (!thread)
		return -ENOMEM;
	if (!s->limits->stacks)
		return 0;
	if (sample->type == TM_LONG_RUNNING || sample->type == TM_LONG_BLOCKED)
		return count_thread_slice(s, sample->thread, sample->time_ns, 0,
					  s->limits->slice_bytes);
	if (!stack_lane_wants(sample))
		return 0;
	thread->n_samples += !s->shown_only;
	int r = stack_lane_sample(&thread->stack, s->reader, sample, count_thread_stack, &c);
	if (r < 0 || !sample->task)
		return r;
	c.task = task_of(s, sample->task);
	if (!c.task)
		return -ENOMEM;
	c.task->n_samples++;
	if (c.task->placed.counts && !s->shown_only && !s->lanes->by_task)
		c.task->placed.family->lanes[c.task->placed.lane].n_samples++;
	return stack_lane_sample(&c.task->placed.stack, s->reader, sample, count_task_stack, &c);
}

/* ---- tasks and threads ---- */

static int on_task_begin(void *ctx, struct tl_task *task)
{
	struct counts *s = ctx;
	return task_of(s, task) ? 0 : -ENOMEM;
}

/* A request that is over is a slice. */
static int count_request(struct counts *s, struct counted_task *t, const struct tl_round *round,
			 bool poll, uint64_t begin_ns, uint64_t end_ns)
{
	struct request_span over;

	return s->limits->requests && request_goes_on(&t->placed.request, round, poll, begin_ns,
						      end_ns, &over)
		       ? count_task_slice(s, t, over.begin_ns, s->limits->slice_bytes)
		       : 0;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct counts *s = ctx;
	struct counted_task *t = task_of(s, task);
	if (!t)
		return -ENOMEM;

	struct lane_family *f = t->placed.family;
	if (task->role == TR_WORKER && f->role != TR_WORKER) {
		f->role = TR_WORKER;
		s->found_workers = true;
	}
	count_request(s, t, &(struct tl_round){0}, false, 0, 0);
	count_task_slice(s, t, t->placed.begin_ns, s->limits->slice_bytes + t->name_len);
	stack_lane_end(&t->placed.stack, count_task_stack, &(struct counted){s, t, 0});
	stack_lane_done(&t->placed.stack);
	lanes_task_end(s->lanes, &t->placed, task->end_ns);
	s->n_tasks += t->placed.counts && tl_role_counts(task->role);
	int r = 0;
	if (t->placed.counts && !s->shown_only) {
		f->n_tasks++;
		if (!s->lanes->by_task) {
			struct task_lane *lane = &f->lanes[t->placed.lane];
			if (!lane->n_tasks++)
				lane->number = task->number;
		}
		r = top_add(&s->top, &(struct top_task){.family = f,
							.serial = task->serial,
							.number = task->number,
							.weight = t->weight,
							.n_slices = t->n_slices,
							.n_samples = t->n_samples});
	}
	task->user = NULL;
	pool_put(&s->tasks, t);
	return r;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct counts *s = ctx;
	struct counted_task *t = task_of(s, poll->task);
	if (!t)
		return -ENOMEM;

	uint64_t ns = tl_poll_measured(poll) ? poll->end_ns - poll->begin_ns : 0;
	t->weight += ns;
	t->placed.family->poll_ns += s->shown_only ? 0 : ns;
	if (poll->wake_serial && s->limits->flows) {
		s->n_flows++;
		s->bytes += s->limits->flow_bytes;
	}

	TRY(count_request(s, t, &poll->round, true, poll->begin_ns, poll->end_ns));
	TRY(count_task_slice(s, t, poll->begin_ns, s->limits->slice_bytes));
	return count_thread_slice(s, poll->thread, poll->begin_ns, poll->depth ? 0 : ns,
				  s->limits->slice_bytes + t->name_len);
}

/* One from outside of all polls gets a slice of its own, for its flow to begin in. */
static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct counts *s = ctx;
	bool own_slice = !wake->source_task || !wake->source_task->user;
	if (!s->limits->flows || !own_slice || !wake->by_waker || wake->effect == TW_NOOP)
		return 0;
	return count_thread_slice(s, wake->thread, wake->time_ns, 0, s->limits->slice_bytes);
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct counts *s = ctx;
	struct counted_task *t = task_of(s, wait->task);
	if (!t)
		return -ENOMEM;
	uint64_t ns = wait->end_ns - wait->begin_ns;
	if (wait->state == TS_SCHEDULED)
		t->weight += ns;
	if (!s->shown_only) {
		t->placed.family->wait_ns += wait->state == TS_WAITING ? ns : 0;
		t->placed.family->sched_ns += wait->state == TS_SCHEDULED ? ns : 0;
	}
	TRY(count_request(s, t, &wait->round, false, wait->begin_ns, wait->end_ns));
	return count_task_slice(s, t, wait->begin_ns, s->limits->slice_bytes);
}

/* Something inside a poll: drawn on the task's lane and on the thread's. */
static int count_inside(struct counts *s, struct tl_task *task, uint32_t thread, uint64_t begin_ns)
{
	if (task) {
		struct counted_task *t = task_of(s, task);
		if (!t)
			return -ENOMEM;
		count_task_slice(s, t, begin_ns, s->limits->slice_bytes);
	}
	return count_thread_slice(s, thread, begin_ns, 0, s->limits->slice_bytes);
}

static int on_block(void *ctx, const struct tl_block *block)
{
	return count_inside(ctx, block->task, block->thread, block->begin_ns);
}

static int on_syscall(void *ctx, const struct tl_syscall *call)
{
	return count_inside(ctx, call->task, call->thread, call->begin_ns);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	return count_inside(ctx, off->task, off->thread, off->begin_ns);
}

static void count_future_slice(struct counts *s, const struct lane_future *p, uint64_t begin_ns)
{
	if (!s->shown_only) {
		p->family->n_slices++;
		p->family->lanes[p->lane].n_slices++;
	}
	if (p->shown || !s->shown_only)
		count(s, begin_ns, s->limits->slice_bytes);
}

static int on_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	struct counts *s = ctx;
	struct lane_future *p;
	int r = lanes_future_poll(s->lanes, &s->futures, poll->future, poll->outcome, &p);
	if (r == 0)
		r = count_inside(s, poll->task, poll->thread, poll->begin_ns);
	if (r < 0 || !p)
		return r;
	count_future_slice(s, p, poll->begin_ns);
	if (poll->waited_ns)
		count_future_slice(s, p, poll->begin_ns - poll->waited_ns);
	return 0;
}

static int on_future_end(void *ctx, struct tl_future *future)
{
	struct counts *s = ctx;
	struct lane_future *p = future->user;
	if (!p)
		return 0;
	count_future_slice(s, p, future->begin_ns);
	if (!s->shown_only) {
		struct task_lane *lane = &p->family->lanes[p->lane];

		p->family->n_tasks++;
		if (!lane->n_tasks++)
			lane->kind = future->kind;
		lane->mixed = lane->mixed || lane->kind != future->kind;
	}
	lanes_future_end(p, future->end_ns);
	future->user = NULL;
	pool_put(&s->futures, p);
	return 0;
}

static int on_section(void *ctx, const struct tl_section *section)
{
	return count_inside(ctx, section->task, section->thread, section->begin_ns);
}

static int on_park(void *ctx, const struct tl_park *park)
{
	struct counts *s = ctx;
	return count_thread_slice(s, park->thread, park->begin_ns, 0, s->limits->slice_bytes);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	struct counts *s = ctx;
	return count_thread_slice(s, loss->thread, loss->begin_ns, 0, s->limits->slice_bytes);
}

static int on_worker_begin(void *ctx, uint32_t thread, uint64_t time_ns)
{
	struct counts *s = ctx;
	struct thread_lane *t = lanes_thread(s->lanes, thread);

	(void)time_ns;
	if (!t)
		return -ENOMEM;
	t->worker = true;
	return 0;
}

static int on_thread_end(void *ctx, const struct tl_thread *thread)
{
	return thread->worker ? on_worker_begin(ctx, thread->thread, thread->end_ns) : 0;
}

static const struct timeline_sink counting_sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.future_poll = on_future_poll,
	.future_end = on_future_end,
	.section = on_section,
	.park = on_park,
	.loss = on_loss,
	.worker_begin = on_worker_begin,
	.thread_end = on_thread_end,
};

int counting_pass_run(struct counts *s, struct trace_reader *r, const struct replay_filter *filter,
		      void (*progress)(void *ctx, uint64_t done, uint64_t total),
		      void *progress_ctx, struct error *err)
{
	lanes_restart(s->lanes);
	s->reader = r;
	s->lanes->futures = s->limits->futures;
	pool_init(&s->tasks, sizeof(struct counted_task));
	pool_init(&s->futures, sizeof(struct lane_future));
	int ret = timeline_replay(r, filter, &counting_sink, s, progress, progress_ctx, &s->totals,
				  &s->base_ns, err);
	for (uint32_t i = 0; i < s->lanes->n_threads; i++)
		stack_lane_end(&s->lanes->threads[i].stack, count_thread_stack,
			       &(struct counted){.s = s, .thread = i});
	pool_done(&s->tasks);
	pool_done(&s->futures);
	return ret;
}

void counts_clear(struct counts *s)
{
	memset(&s->bins, 0, sizeof(s->bins));
	memset(&s->totals, 0, sizeof(s->totals));
	s->top.n = 0;
	s->found_workers = false;
	s->n_slices = s->n_flows = s->n_tasks = s->bytes = s->base_ns = 0;
}

void counts_done(struct counts *s)
{
	free(s->top.tasks);
	s->top = (struct top){0};
}
