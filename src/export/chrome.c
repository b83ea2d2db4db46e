/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chrome's trace event format, for Catapult (chrome://tracing) and, as JSON, for Perfetto.
 *
 *     process per traced program   a lane per thread: polls by family, futures in them, blocking
 *                                  and system calls, parks; below it the functions that samples saw
 *     pseudo-process per family    a lane per task, or packed: the task's life, below it the
 *                                  requests that it handles, and below these waiting, scheduled,
 *                                  polls and what is inside of them
 *     another for its futures      packed lanes: an instance's life, its polls, its waits
 *
 * What the viewers ask for was measured, not read: only complete events ("X"), because begin and
 * end events must be sorted, and the timeline gives slices when they end; times in µs with three
 * decimals from the trace's first event, so that doubles keep every ns; a cname outside of the
 * viewer's list kills the whole import; sort indexes, or lanes are in the order of their text. A
 * flow is one wake that led to a poll: its "s" must lie inside a slice (a wake from outside of all
 * polls gets a slice of 1 ns), its "f" just inside the poll, or it would bind to the slice that
 * ends there.
 */
#include "export/chrome.h"

#include "base/error.h"
#include "base/units.h"

#include <errno.h>
#include <stdlib.h>

static const struct limits chrome_limits = {
	.max_slices = 1000000, /* Catapult: 17 s for about this many */
	.max_lanes = 500,
	.ceiling_bytes = 500000000, /* 2^29-24 characters: an empty view without a word */
	.ceiling_lanes = 2000,	    /* 12 s; 5000: 39 s */
	.slice_bytes = 172,
	.flow_bytes = 210,
	.lane_bytes = 220,
	.flows = true,
	.requests = true,
	.futures = true,
	.stacks = true,
	.viewer = "Chrome's trace viewer",
};

#define LONG_POLL_NS NSEC_PER_MSEC

static const struct head poll_heads[TO_N] = {
	[TO_PENDING] = HEAD("poll", "poll", POLLED),
	[TO_READY] = HEAD("poll", "poll", POLLED),
	[TO_PANICKED] = HEAD("poll", "poll: panicked", LONG_POLL),
	[TO_CANCELLED] = HEAD("poll", "poll: cancelled", POLLED),
	[TO_UNKNOWN] = HEAD("poll", "poll: end not seen", POLLED),
};
static const struct head worst_poll_head = HEAD("poll", "poll", LONG_POLL);
static const struct head waiting_head = HEAD("wait", "waiting", WAIT_OTHER);
static const struct head scheduled_head = HEAD("wait", "scheduled", "thread_state_runnable");
static const struct head unknown_head = HEAD("wait", "not known", "thread_state_unknown");
static const struct head section_head = HEAD("block", "block_in_place", "yellow");
/* A single ns must never colour a whole pixel: this colour is the first in the list.
 */
static const struct head wake_head = HEAD("wake", "wake", "thread_state_uninterruptible");

/* ---- tasks ---- */

/* A request that is over: around its polls and waits. The viewers colour it by its name. */
static void request_slice(struct chrome *c, const struct lane_slot *at,
			  const struct request_span *r)
{
	char *p = out_room(&c->out);

	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"request\",\"name\":\"");
	p = put_string(p, chrome_kind_short(c, r->round.kind));
	*p++ = '"';
	p = put_span(c, p, at->family->pid, lane_of(at)->tid, r->begin_ns, r->end_ns);
	p = put_lit(p, ",\"args\":{\"handler\":\"");
	p = put_string(p, chrome_kind_label(c, r->round.kind));
	p = put_lit(p, "\",\"polls\":");
	p = put_u64(p, r->n_polls);
	p = put_lit(p, "}}");
	out_used(&c->out, p);
}

/* Takes a poll or wait into account, where it is drawn. True: a request begins with it. */
static bool follow_request(struct chrome *c, struct lane_slot *at, const struct tl_round *round,
			   bool poll, struct span span)
{
	bool begins = round->serial && round->serial != at->request.round.serial;
	struct request_span over;

	if (request_goes_on(&at->request, round, poll, span.begin_ns, span.end_ns, &over) &&
	    at->shown)
		request_slice(c, at, &over);
	return begins;
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	return chrome_task(ctx, task) ? 0 : -ENOMEM;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct chrome *c = ctx;
	struct chrome_task *t = chrome_task(c, task);
	if (!t)
		return -ENOMEM;

	uint64_t end_ns = task->end_ns && task->end_ns < c->sel.to_ns ? task->end_ns : c->sel.to_ns;
	if (end_ns < t->placed.last_ns)
		end_ns = t->placed.last_ns;
	follow_request(c, &t->placed, &(struct tl_round){0}, false, (struct span){end_ns, end_ns});
	if (t->placed.shown) {
		const struct lane_family *f = t->placed.family;
		char *p = out_room(&c->out);
		p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"task\",\"cname\":\"grey\",\"name\":\"");
		p = put_mem(p, f->label, f->label_len);
		p = put_lit(p, " #");
		p = put_u64(p, task->number);
		*p++ = '"';
		p = put_span(c, p, f->pid, lane_of(&t->placed)->tid, t->placed.begin_ns, end_ns);
		p = put_lit(p, ",\"args\":{\"task\":");
		p = put_u64(p, task->number);
		if (task->id != task->number) {
			p = put_lit(p, ",\"id\":");
			p = put_u64(p, task->id);
		}
		if (task->parent) {
			p = put_lit(p, ",\"spawned by task\":");
			p = put_u64(p, task->parent_number);
		}
		if (!task->spawn_seen)
			p = put_lit(p, ",\"spawned\":\"not seen\"");
		p = put_lit(p, ",\"end\":\"");
		p = put_string(p, task->end_ns ? trace_outcome_name(task->outcome) : "alive");
		p = put_lit(p, "\",\"polls\":");
		p = put_u64(p, task->n_polls);
		p = put_lit(p, ",\"wakes\":");
		p = put_u64(p, task->n_wakes);
		p = put_lit(p, ",\"polled_us\":");
		p = put_us(p, task->poll_ns);
		p = put_lit(p, ",\"waiting_us\":");
		p = put_us(p, task->wait_ns);
		p = put_lit(p, ",\"scheduled_us\":");
		p = put_us(p, task->sched_ns);
		p = put_lit(p, "}}");
		out_used(&c->out, p);
	}
	int r = 0;
	if (t->placed.shown)
		r = chrome_end_stack(c, &t->placed.stack, t->placed.family->pid,
				     lane_of(&t->placed)->stacks_tid);
	lanes_task_end(&c->sel.lanes, &t->placed, task->end_ns);
	task->user = NULL;
	pool_put(&c->tasks, t);
	return r < 0 ? r : c->out.error;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct chrome *c = ctx;
	struct chrome_task *t = chrome_task(c, wait->task);
	if (!t)
		return -ENOMEM;
	struct span span = place(&t->placed, wait->begin_ns, wait->end_ns);
	if (!t->placed.shown || span.begin_ns == span.end_ns)
		return 0;
	if (follow_request(c, &t->placed, &wait->round, false, span))
		span.begin_ns = inside(span.begin_ns, span.end_ns);
	const struct place_label *label =
		wait->state == TS_WAITING ? chrome_place(c, wait->place) : NULL;
	char *p = out_room(&c->out);
	if (label) {
		p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"wait\",\"name\":\"");
		p = put_string(p, label->name);
		p = put_lit(p, "\",\"cname\":\"");
		p = put_string(p, label->cname);
		*p++ = '"';
	} else {
		p = put_head(p, wait->state == TS_WAITING     ? &waiting_head
				: wait->state == TS_SCHEDULED ? &scheduled_head
							      : &unknown_head);
	}
	p = put_span(c, p, t->placed.family->pid, lane_of(&t->placed)->tid, span.begin_ns,
		     span.end_ns);
	if (label) {
		p = put_lit(p, ",\"args\":{\"at\":\"");
		p = put_string(p, label->at);
		p = put_lit(p, "\",\"for\":\"");
		p = put_string(p, label->awaits);
		p = put_lit(p, "\"}");
	}
	*p++ = '}';
	out_used(&c->out, p);
	return c->out.error;
}

/* ---- wakes and the polls that they led to ---- */

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct chrome *c = ctx;
	if (wake->effect == TW_NOOP || !wake->by_waker)
		return 0;
	struct chrome_task *t = chrome_task(c, wake->task);
	struct thread_lane *thread = lanes_thread(&c->sel.lanes, wake->thread);
	if (!t || !thread)
		return -ENOMEM;

	struct wake_ref ref = {.serial = wake->serial, .time_ns = wake->time_ns};
	const struct chrome_task *source = wake->source_task ? wake->source_task->user : NULL;
	if (source && source->placed.shown) {
		ref.pid = source->placed.family->pid;
		ref.tid = lane_of(&source->placed)->tid;
	} else if (thread->shown) {
		ref.pid = thread->pid;
		ref.tid = thread->tid;
		ref.own_slice = !source; /* no poll, or one that the filter keeps back */
	} else {
		return 0; /* no lane to come from */
	}
	/* Of those that come while it is polled, the first counts. */
	if (t->n_wakes == MAX_WAKES)
		t->n_wakes--;
	t->wakes[t->n_wakes++] = ref;
	return 0;
}

/* The wake that led to this poll. It and those before it are forgotten. */
static bool take_wake(struct chrome_task *t, const struct tl_poll *poll, struct wake_ref *ret)
{
	bool found = false;
	unsigned n = 0;
	for (unsigned i = 0; i < t->n_wakes; i++) {
		const struct wake_ref ref = t->wakes[i];
		if (poll->wake_serial && ref.serial == poll->wake_serial) {
			*ret = ref;
			found = true;
		} else if (ref.serial > poll->wake_serial && ref.time_ns > poll->begin_ns) {
			t->wakes[n++] = ref;
		}
	}
	t->n_wakes = n;
	return found;
}

static char *put_flow(char *p, uint64_t id, uint32_t pid, uint32_t tid, uint64_t ts_ns)
{
	p = put_lit(p, ",\"cat\":\"wake\",\"name\":\"wake\",\"id\":");
	p = put_u64(p, id);
	p = put_place(p, pid, tid, ts_ns);
	*p++ = '}';
	return p;
}

static void flow(struct chrome *c, const struct wake_ref *from, uint32_t pid, uint32_t tid,
		 uint64_t poll_ns)
{
	uint64_t id = ++c->n_flows;
	char *p = out_room(&c->out);

	if (from->own_slice) {
		p = put_head(p, &wake_head);
		p = put_span(c, p, from->pid, from->tid, from->time_ns, from->time_ns + 1);
		*p++ = '}';
	}
	p = put_lit(p, ",\n{\"ph\":\"s\"");
	p = put_flow(p, id, from->pid, from->tid, from->time_ns - c->sel.base_ns);
	p = put_lit(p, ",\n{\"ph\":\"f\",\"bp\":\"e\"");
	p = put_flow(p, id, pid, tid, poll_ns - c->sel.base_ns);
	out_used(&c->out, p);
}

static char *put_outcome(char *p, const struct tl_poll *poll)
{
	p = put_lit(p, "\"outcome\":\"");
	p = put_string(p, trace_outcome_name(poll->outcome));
	*p++ = '"';
	if (!poll->begin_seen)
		p = put_lit(p, ",\"begin\":\"not seen\"");
	if (!poll->end_seen)
		p = put_lit(p, ",\"end\":\"not seen\"");
	if (poll->inferred)
		p = put_lit(p, ",\"inferred\":true");
	return p;
}

static void task_poll(struct chrome *c, struct chrome_task *t, const struct tl_poll *poll,
		      const struct head *head, struct span span, uint32_t tid)
{
	char *p = out_room(&c->out);
	p = put_head(p, head);
	p = put_span(c, p, t->placed.family->pid, lane_of(&t->placed)->tid, span.begin_ns,
		     span.end_ns);
	p = put_lit(p, ",\"args\":{");
	p = put_outcome(p, poll);
	p = put_lit(p, ",\"thread\":");
	p = put_u64(p, tid);
	if (poll->n_blocks) {
		p = put_lit(p, ",\"blocked_us\":");
		p = put_us(p, poll->blocked_ns);
	}
	if (poll->woken_inside)
		p = put_lit(p, ",\"woken inside\":true");
	p = put_lit(p, "}}");
	out_used(&c->out, p);
}

static void thread_poll(struct chrome *c, const struct chrome_task *t, const struct tl_poll *poll,
			const struct thread_lane *thread, uint64_t begin_ns, bool worst)
{
	const struct lane_family *f = t->placed.family;
	bool handles = poll->round.serial != 0;
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"poll\",\"name\":\"");
	p = handles ? put_string(p, chrome_kind_short(c, poll->round.kind))
		    : put_mem(p, f->label, f->label_len);
	p = put_lit(p, " #");
	p = put_u64(p, poll->task->number);
	if (!poll->end_seen)
		p = put_lit(p, ": end not seen");
	p = worst ? put_lit(p, "\",\"cname\":\"" TERRIBLE "\"")
		  : put_lit(p, "\",\"cname\":\"" BUSY "\"");
	p = put_span(c, p, thread->pid, thread->tid, begin_ns, poll->end_ns);
	p = put_lit(p, ",\"args\":{\"task\":");
	p = put_u64(p, poll->task->number);
	if (handles) {
		p = put_lit(p, ",\"family\":\"");
		p = put_mem(p, f->label, f->label_len);
		*p++ = '"';
	}
	*p++ = ',';
	p = put_outcome(p, poll);
	p = put_lit(p, "}}");
	out_used(&c->out, p);
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct chrome *c = ctx;
	struct chrome_task *t = chrome_task(c, poll->task);
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, poll->thread);
	if (!t || !thread)
		return -ENOMEM;

	struct span span = place(&t->placed, poll->begin_ns, poll->end_ns);
	if (follow_request(c, &t->placed, &poll->round, true, span))
		span.begin_ns = inside(span.begin_ns, span.end_ns);
	uint64_t length = poll->end_ns - poll->begin_ns; /* on the thread's lane: see inside() */
	uint64_t begin_ns = poll->begin_ns + (poll->depth < length ? poll->depth : length);
	bool worst = tl_poll_measured(poll) && length >= LONG_POLL_NS &&
		     t->placed.family->role != TR_BLOCKING; /* these are to block */
	bool open = poll->outcome >= TO_UNKNOWN && poll->end_ns >= c->sel.to_ns;
	const struct head *head = worst			  ? &worst_poll_head
				  : open		  ? &poll_heads[TO_PENDING]
				  : poll->outcome >= TO_N ? &poll_heads[TO_UNKNOWN]
							  : &poll_heads[poll->outcome];
	const struct trace_thread *tt = trace_reader_thread(c->reader, poll->thread);
	if (t->placed.shown)
		task_poll(c, t, poll, head, span, tt ? tt->tid : 0);
	if (thread->shown)
		thread_poll(c, t, poll, thread, begin_ns, worst);

	struct wake_ref wake;
	if (take_wake(t, poll, &wake)) {
		if (t->placed.shown)
			flow(c, &wake, t->placed.family->pid, lane_of(&t->placed)->tid,
			     inside(span.begin_ns, span.end_ns));
		else if (thread->shown)
			flow(c, &wake, thread->pid, thread->tid, inside(begin_ns, poll->end_ns));
	}
	return c->out.error;
}

/* ---- what blocks a thread ---- */

static void call_slice(struct chrome *c, const char *before, unsigned call, const char *after,
		       uint32_t pid, uint32_t tid, uint64_t begin_ns, uint64_t end_ns)
{
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"block\",\"name\":\"");
	p = put_string(p, before);
	p = put_string(p, trace_call_name(call));
	p = put_string(p, after);
	p = put_span(c, p, pid, tid, begin_ns, end_ns);
	*p++ = '}';
	out_used(&c->out, p);
}

static int on_block(void *ctx, const struct tl_block *block)
{
	static const char mauve[] = "\",\"cname\":\"thread_state_uninterruptible\"";
	struct chrome *c = ctx;
	const char *head = block->nonblocking ? "in " : "blocked in ";
	struct chrome_task *t = block->task ? chrome_task(c, block->task) : NULL;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, block->thread);
	if (!thread || (block->task && !t))
		return -ENOMEM;
	if (t && t->placed.shown)
		call_slice(c, head, block->call, mauve, t->placed.family->pid,
			   lane_of(&t->placed)->tid,
			   deeper(inside_poll(&t->placed, block->begin_ns, block->end_ns),
				  block->end_ns, level_on_task(LEVEL_BLOCK, block->depth)),
			   block->end_ns);
	if (thread->shown)
		call_slice(c, head, block->call, mauve, thread->pid, thread->tid,
			   deeper(block->begin_ns, block->end_ns,
				  level_on_thread(LEVEL_BLOCK, block->depth)),
			   block->end_ns);
	return c->out.error;
}

static int on_park(void *ctx, const struct tl_park *park)
{
	struct chrome *c = ctx;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, park->thread);
	if (!thread)
		return -ENOMEM;
	if (thread->shown)
		call_slice(c, "parked in ", park->call, "\",\"cname\":\"thread_state_sleeping\"",
			   thread->pid, thread->tid, park->begin_ns, park->end_ns);
	return c->out.error;
}

static void section_slice(struct chrome *c, uint32_t pid, uint32_t tid, uint64_t begin_ns,
			  uint64_t end_ns)
{
	char *p = out_room(&c->out);
	p = put_head(p, &section_head);
	p = put_span(c, p, pid, tid, begin_ns, end_ns);
	*p++ = '}';
	out_used(&c->out, p);
}

static int on_section(void *ctx, const struct tl_section *section)
{
	struct chrome *c = ctx;
	struct chrome_task *t = chrome_task(c, section->task);
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, section->thread);
	if (!t || !thread)
		return -ENOMEM;
	if (t->placed.shown)
		section_slice(c, t->placed.family->pid, lane_of(&t->placed)->tid,
			      inside_poll(&t->placed, section->begin_ns, section->end_ns),
			      section->end_ns);
	if (thread->shown)
		section_slice(c, thread->pid, thread->tid,
			      inside(section->begin_ns, section->end_ns), section->end_ns);
	return c->out.error;
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	struct chrome *c = ctx;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, loss->thread);
	if (!thread)
		return -ENOMEM;
	if (!thread->shown)
		return 0;
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"loss\",\"cname\":\"bad\",\"name\":\"lost ");
	p = put_u64(p, loss->n_events);
	p = put_lit(p, " events\"");
	p = put_span(c, p, thread->pid, thread->tid, loss->begin_ns, loss->end_ns);
	*p++ = '}';
	out_used(&c->out, p);
	return c->out.error;
}

static const struct timeline_sink chrome_sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.section = on_section,
	.park = on_park,
	.syscall = chrome_syscall,
	.off_cpu = chrome_off_cpu,
	.sample = chrome_sample,
	.future_poll = chrome_future_poll,
	.future_end = chrome_future_end,
	.loss = on_loss,
};

static int write_events(struct chrome *c, const struct export_options *opt, struct error *err)
{
	lanes_restart(&c->sel.lanes);
	int r = timeline_replay(c->reader, &c->sel.filter, &chrome_sink, c, opt->progress,
				opt->progress_ctx, NULL, NULL, err);
	if (r == 0)
		r = chrome_end_stacks(c);
	/* Also when the trace broke off in the middle: what is there is a whole file. */
	out_write(&c->out, "\n]}\n", 4);
	int flushed = out_flush(&c->out);
	if (flushed == -EPIPE)
		return -EPIPE;
	if (flushed < 0)
		return error_sys(err, flushed, "cannot write");
	return r;
}

static int chrome_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			struct export_summary *ret_summary, struct error *err)
{
	struct chrome c = {.reader = reader};
	int r;

	TRY(limits_run(reader, opt, &chrome_limits, &c.sel, err));
	pool_init(&c.tasks, sizeof(struct chrome_task));
	pool_init(&c.futures, sizeof(struct lane_future));
	r = out_init(&c.out, file);
	if (r == 0)
		r = chrome_head(&c);
	if (r == 0)
		r = write_events(&c, opt, err);
	else if (r == -ENOMEM)
		error_set(err, r, "out of memory");

	*ret_summary = (struct export_summary){.slices = c.n_slices,
					       .flows = c.n_flows,
					       .lanes = c.sel.n_lanes,
					       .bytes = c.out.bytes,
					       .cut_slices = c.sel.cut_slices,
					       .cut_tasks = c.sel.n_tasks - c.sel.shown_tasks};
	memcpy(ret_summary->notice, c.sel.notice, sizeof(ret_summary->notice));
	for (uint32_t i = 0; i < c.n_places; i++) {
		free(c.places[i].name);
		free(c.places[i].at);
		free(c.places[i].awaits);
	}
	free(c.places);
	for (uint32_t i = 0; i < c.n_kind_labels; i++)
		free(c.kind_labels[i]);
	free(c.kind_labels);
	for (uint32_t i = 0; i < c.n_kind_shorts; i++)
		free(c.kind_shorts[i]);
	free(c.kind_shorts);
	pool_done(&c.tasks);
	pool_done(&c.futures);
	out_done(&c.out);
	export_scope_done(&c.sel);
	return r;
}

const struct export_ops export_chrome = {
	.name = "chrome",
	.extension = ".json",
	.viewers = "Chrome's trace viewer, Perfetto",
	.begin = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"exporter\":\"pollux ",
	.write = chrome_write,
};
