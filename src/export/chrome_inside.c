/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is inside of polls, in Chrome's format: nested slices of futures' polls, of system calls, of
 * time off the CPU; and two kinds of separate lanes, because their slices nest with none of these:
 * a lane below a task or thread for the functions that samples saw, and lanes on which instances of
 * futures are polled and wait.
 */
#include "export/chrome.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/syscalls.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define STACK_TEXT_MAX 2000u
#define STACK_TEXT_FRAMES 12u

const char *chrome_kind_short(struct chrome *c, uint32_t kind)
{
	if (!GROW_ZERO(c->kind_shorts, kind, c->n_kind_shorts))
		return "?";
	char **label = &c->kind_shorts[kind];
	if (!*label) {
		_cleanup_free_ char *name = kind_short(&c->sel.labels, c->reader, kind);

		*label = name ? lanes_label(name) : NULL;
	}
	return *label ? *label : "?";
}

const char *chrome_kind_label(struct chrome *c, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(c->reader, kind);
	if (!k || !k->name || !*k->name)
		return "future";
	if (!GROW_ZERO(c->kind_labels, kind, c->n_kind_labels))
		return "future";
	char **label = &c->kind_labels[kind];
	if (!*label)
		*label = lanes_label(kind_label(&c->sel.labels, c->reader, kind));
	return *label ? *label : "future";
}

/* ---- futures ---- */

static char *put_begin(char *p, const char *cat, const char *name)
{
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"");
	p = put_string(p, cat);
	p = put_lit(p, "\",\"name\":\"");
	p = put_string(p, name);
	*p++ = '"';
	return p;
}

static void nested_poll(struct chrome *c, const struct tl_future_poll *poll, uint32_t pid,
			uint32_t tid, uint64_t begin_ns)
{
	const struct place_label *place = chrome_place(c, poll->place);
	char *p = put_begin(out_room(&c->out), "future", chrome_kind_label(c, poll->future->kind));
	p = put_span(c, p, pid, tid, begin_ns, poll->end_ns);
	p = put_lit(p, ",\"args\":{\"instance\":");
	p = put_u64(p, poll->future->serial);
	p = put_lit(p, ",\"outcome\":\"");
	p = put_string(p, trace_outcome_name(poll->outcome));
	if (!poll->end_seen)
		p = put_lit(p, "\",\"end\":\"not seen");
	if (place) {
		p = put_lit(p, "\",\"at\":\"");
		p = put_string(p, place->at);
	}
	p = put_lit(p, "\",\"self_us\":");
	p = put_us(p, poll->self_ns);
	if (poll->waited_ns) {
		p = put_lit(p, ",\"waited_us\":");
		p = put_us(p, poll->waited_ns);
	}
	p = put_lit(p, "}}");
	out_used(&c->out, p);
}

static void instance_slice(struct chrome *c, const struct lane_future *at, const char *name,
			   const char *cname, uint64_t begin_ns, uint64_t end_ns)
{
	char *p = put_begin(out_room(&c->out), "future", name);
	p = put_lit(p, ",\"cname\":\"");
	p = put_string(p, cname);
	*p++ = '"';
	p = put_span(c, p, at->family->pid, at->family->lanes[at->lane].tid, begin_ns, end_ns);
	*p++ = '}';
	out_used(&c->out, p);
}

int chrome_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	struct chrome *c = ctx;
	struct chrome_task *t = poll->task ? chrome_task(c, poll->task) : NULL;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, poll->thread);
	struct lane_future *at;
	if (!thread || (poll->task && !t))
		return -ENOMEM;

	TRY(lanes_future_poll(&c->sel.lanes, &c->futures, poll->future, poll->outcome, &at));
	if (t && t->placed.shown)
		nested_poll(c, poll, t->placed.family->pid, lane_of(&t->placed)->tid,
			    deeper(inside_poll(&t->placed, poll->begin_ns, poll->end_ns),
				   poll->end_ns, level_on_task(LEVEL_FUTURE, poll->depth)));
	if (thread->shown)
		nested_poll(c, poll, thread->pid, thread->tid,
			    deeper(poll->begin_ns, poll->end_ns,
				   level_on_thread(LEVEL_FUTURE, poll->depth)));
	if (!at || !at->shown)
		return c->out.error;

	uint64_t first = at->begin_ns > c->sel.from_ns ? at->begin_ns : c->sel.from_ns;
	if (at->last_ns <= first)
		at->last_ns = first + 1; /* inside of the instance's own slice */
	uint64_t since = poll->begin_ns - poll->waited_ns;
	if (since < at->last_ns)
		since = at->last_ns;
	if (poll->waited_ns && since < poll->begin_ns) {
		instance_slice(c, at, "waiting", "thread_state_iowait", since, poll->begin_ns);
		at->last_ns = poll->begin_ns;
	}
	uint64_t begin = poll->begin_ns > at->last_ns ? poll->begin_ns : at->last_ns;
	if (begin <= poll->end_ns) {
		instance_slice(c, at, "poll", "thread_state_running", begin, poll->end_ns);
		at->last_ns = poll->end_ns;
	}
	return c->out.error;
}

int chrome_future_end(void *ctx, struct tl_future *future)
{
	struct chrome *c = ctx;
	struct lane_future *at = future->user;
	if (!at)
		return 0;
	uint64_t begin = at->begin_ns > c->sel.from_ns ? at->begin_ns : c->sel.from_ns;
	uint64_t end =
		future->end_ns && future->end_ns < c->sel.to_ns ? future->end_ns : c->sel.to_ns;
	if (end < at->last_ns)
		end = at->last_ns;
	if (at->shown) {
		char *p =
			put_begin(out_room(&c->out), "future", chrome_kind_label(c, future->kind));
		p = put_span(c, p, at->family->pid, at->family->lanes[at->lane].tid, begin, end);
		p = put_lit(p, ",\"args\":{\"instance\":");
		p = put_u64(p, future->serial);
		if (future->task) {
			p = put_lit(p, ",\"task\":");
			p = put_u64(p, future->task->number);
		}
		if (future->parent) {
			p = put_lit(p, ",\"polled by instance\":");
			p = put_u64(p, future->parent->serial);
		}
		p = put_lit(p, ",\"end\":\"");
		p = put_string(p, !future->end_ns ? "alive"
				  : future->outcome == TO_CANCELLED
					  ? "dropped"
					  : trace_outcome_name(future->outcome));
		p = put_lit(p, "\",\"polls\":");
		p = put_u64(p, future->n_polls);
		p = put_lit(p, ",\"polled_us\":");
		p = put_us(p, future->poll_ns);
		p = put_lit(p, ",\"self_us\":");
		p = put_us(p, future->self_ns);
		p = put_lit(p, ",\"waiting_us\":");
		p = put_us(p, future->wait_ns);
		p = put_lit(p, "}}");
		out_used(&c->out, p);
	}
	lanes_future_end(at, future->end_ns);
	future->user = NULL;
	pool_put(&c->futures, at);
	return c->out.error;
}

/* ---- system calls, off the CPU ---- */

static char *put_call(char *p, uint32_t number)
{
	const char *name = syscall_name(number);
	if (name)
		return put_string(p, name);
	p = put_lit(p, "system call ");
	return put_u64(p, number);
}

static char *put_i64(char *p, int64_t v)
{
	if (v < 0)
		*p++ = '-';
	return put_u64(p, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void call_slice(struct chrome *c, const struct tl_syscall *call, uint32_t pid, uint32_t tid,
		       uint64_t begin_ns)
{
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"sys\",\"name\":\"");
	p = put_call(p, call->number);
	p = put_lit(p, "\",\"cname\":\"thread_state_iowait\"");
	p = put_span(c, p, pid, tid, begin_ns, call->end_ns);
	p = put_lit(p, ",\"args\":{\"nr\":");
	p = put_u64(p, call->number);
	p = put_lit(p, ",\"result\":");
	p = put_i64(p, call->result);
	p = put_lit(p, "}}");
	out_used(&c->out, p);
}

static void off_slice(struct chrome *c, const struct tl_off_cpu *off, uint32_t pid, uint32_t tid,
		      uint64_t begin_ns)
{
	char *p = out_room(&c->out);
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"sched\",\"name\":\"off CPU, ");
	p = put_string(p, trace_off_cpu_name(off->reason));
	if (off->syscall) {
		p = put_lit(p, " in ");
		p = put_call(p, off->syscall - 1);
	}
	p = off->reason == TX_PREEMPTED ? put_lit(p, "\",\"cname\":\"thread_state_runnable\"")
					: put_lit(p, "\",\"cname\":\"thread_state_sleeping\"");
	p = put_span(c, p, pid, tid, begin_ns, off->end_ns);
	*p++ = '}';
	out_used(&c->out, p);
}

int chrome_syscall(void *ctx, const struct tl_syscall *call)
{
	struct chrome *c = ctx;
	struct chrome_task *t = call->task ? chrome_task(c, call->task) : NULL;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, call->thread);
	if (!thread || (call->task && !t))
		return -ENOMEM;
	if (t && t->placed.shown)
		call_slice(c, call, t->placed.family->pid, lane_of(&t->placed)->tid,
			   deeper(inside_poll(&t->placed, call->begin_ns, call->end_ns),
				  call->end_ns, level_on_task(LEVEL_CALL, call->depth)));
	if (thread->shown)
		call_slice(c, call, thread->pid, thread->tid,
			   deeper(call->begin_ns, call->end_ns,
				  level_on_thread(LEVEL_CALL, call->depth)));
	return c->out.error;
}

int chrome_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct chrome *c = ctx;
	struct chrome_task *t = off->task ? chrome_task(c, off->task) : NULL;
	const struct thread_lane *thread = lanes_thread(&c->sel.lanes, off->thread);
	if (!thread || (off->task && !t))
		return -ENOMEM;
	if (t && t->placed.shown)
		off_slice(c, off, t->placed.family->pid, lane_of(&t->placed)->tid,
			  deeper(inside_poll(&t->placed, off->begin_ns, off->end_ns), off->end_ns,
				 level_on_task(LEVEL_OFF_CPU, off->depth)));
	if (thread->shown)
		off_slice(c, off, thread->pid, thread->tid,
			  deeper(off->begin_ns, off->end_ns,
				 level_on_thread(LEVEL_OFF_CPU, off->depth)));
	return c->out.error;
}

/* ---- samples ---- */

struct stack_place {
	struct chrome *c;
	uint32_t pid, tid;
};

static int stack_slice(void *ctx, const struct stack_slice *slice)
{
	const struct stack_place *at = ctx;
	struct chrome *c = at->c;
	_cleanup_buf_ struct buf name = BUF_INIT;
	uint64_t begin = slice->begin_ns, end = slice->end_ns;
	if (begin < c->sel.from_ns)
		begin = c->sel.from_ns;
	if (!at->tid || end < begin)
		return 0;
	stack_frame_name(slice->frame, &name);
	char *label = buf_failed(&name) ? NULL : lanes_label(name.data);
	if (!label)
		return -ENOMEM;
	char *p = put_begin(out_room(&c->out), "stack", label);
	p = put_span(c, p, at->pid, at->tid, deeper(begin, end, slice->depth), end);
	*p++ = '}';
	out_used(&c->out, p);
	free(label);
	return c->out.error;
}

/* Who keeps a thread too long: a moment on its lane, with the stack. */
static int long_poll(struct chrome *c, const struct tl_sample *sample,
		     const struct thread_lane *thread)
{
	_cleanup_buf_ struct buf text = BUF_INIT, json = BUF_INIT;
	const struct trace_stack *s =
		sample->stack ? trace_reader_stack(c->reader, (uint32_t)(sample->stack - 1)) : NULL;
	for (unsigned n = 0; s && n < STACK_TEXT_FRAMES && text.len < STACK_TEXT_MAX; n++) {
		buf_str(&text, n ? "\n" : "");
		stack_frame_name(trace_reader_frame(c->reader, s->frame), &text);
		s = s->parent ? trace_reader_stack(c->reader, s->parent - 1) : NULL;
	}
	buf_printf(&json,
		   ",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"stack_sample\",\"name\":\"long poll, "
		   "%s\",\"cname\":\"bad\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":",
		   sample->type == TM_LONG_BLOCKED ? "blocked" : "running", thread->pid,
		   thread->tid);
	char ts[32], *end = put_us(ts, sample->time_ns - c->sel.base_ns);
	buf_add(&json, ts, (size_t)(end - ts));
	buf_str(&json, ",\"args\":{\"stack\":");
	json_quote_shown(&json, text.data ? text.data : "not known");
	buf_str(&json, "}}");
	if (buf_failed(&json) || buf_failed(&text))
		return -ENOMEM;
	c->n_slices++;
	out_write(&c->out, json.data, json.len);
	return c->out.error;
}

int chrome_sample(void *ctx, const struct tl_sample *sample)
{
	struct chrome *c = ctx;
	struct chrome_task *t = sample->task ? chrome_task(c, sample->task) : NULL;
	struct thread_lane *thread = lanes_thread(&c->sel.lanes, sample->thread);
	if (!thread || (sample->task && !t))
		return -ENOMEM;
	if (sample->type == TM_LONG_RUNNING || sample->type == TM_LONG_BLOCKED)
		return thread->shown ? long_poll(c, sample, thread) : 0;
	if (!stack_lane_wants(sample))
		return 0;
	struct stack_place at = {.c = c};
	int r = 0;
	if (thread->shown) {
		at.pid = thread->stacks_pid;
		at.tid = thread->stacks_tid;
		r = stack_lane_sample(&thread->stack, c->reader, sample, stack_slice, &at);
	}
	if (r == 0 && t && t->placed.shown) {
		at.pid = t->placed.family->pid;
		at.tid = lane_of(&t->placed)->stacks_tid;
		r = stack_lane_sample(&t->placed.stack, c->reader, sample, stack_slice, &at);
	}
	return r;
}

int chrome_end_stack(struct chrome *c, struct stack_lane *l, uint32_t pid, uint32_t tid)
{
	int r = stack_lane_end(l, stack_slice, &(struct stack_place){c, pid, tid});
	stack_lane_done(l);
	return r;
}

int chrome_end_stacks(struct chrome *c)
{
	struct lanes *l = &c->sel.lanes;
	for (uint32_t i = 0; i < l->n_threads; i++)
		TRY(chrome_end_stack(c, &l->threads[i].stack, l->threads[i].pid,
				     l->threads[i].stacks_tid));
	return 0;
}
