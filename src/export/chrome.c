/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Chrome's trace event format, for Catapult (chrome://tracing) and, as JSON, for Perfetto: a pen of
 * draw.h, whose groups are processes and whose lanes are threads here.
 *
 * What the viewers ask for was measured, not read: only complete events ("X"), because begin and
 * end events must be sorted, and the slices come when they end; times in µs with three decimals
 * from the trace's first event, so that doubles keep every ns; a cname outside of the viewer's list
 * kills the whole import; sort indexes, or lanes are in the order of their text. A flow is one wake
 * that led to a poll.
 */
#include "export/draw.h"
#include "export/formats.h"
#include "export/out.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/syscalls.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* Where slices are too thin, Catapult draws the colour that is last in its own list. There a poll
 * comes after a park, and the very worst polls after all that we use. */
#define TERRIBLE "terrible"
/* On tasks' lanes: later than all of waits. */
#define POLLED "cq_build_attempt_passed"
#define LONG_POLL "cq_build_attempt_failed"
#define BUSY "background_memory_dump" /* teal */

/* Pale, so that polls and requests stand out. All come before the polls' in the viewer's list. */
static const char *const wait_colours[] = {
	[WAIT_FOR_OTHER] = "thread_state_sleeping", /* a socket, mostly */
	[WAIT_FOR_TIMER] = "grey",
	[WAIT_FOR_CHANNEL] = "cq_build_running", /* yellow */
	[WAIT_FOR_TASK] = "cq_build_passed",	 /* light green */
	[WAIT_FOR_LOCK] = "cq_build_failed",	 /* light red */
};

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

/* An await point, its texts as in a JSON string. */
struct place_label {
	char *name; /* NULL: not made yet */
	char *at, *awaits;
	const char *cname;
};

struct chrome {
	struct draw draw;
	struct out out;
	struct buf names;	    /* of groups and lanes */
	struct place_label *places; /* by index, made when wanted */
	uint32_t n_places;
	char **kind_labels, **kind_shorts; /* by index, NULL until wanted */
	uint32_t n_kind_labels, n_kind_shorts;
};

/* ---- pieces of text ---- */

/* All that is known of a slice before it is drawn. */
struct head {
	const char *text;
	size_t len;
};
#define HEAD_TEXT(cat, name, cname)                                                                \
	",\n{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"cname\":\"" cname "\""
#define HEAD(...)                                                                                  \
	{                                                                                          \
		HEAD_TEXT(__VA_ARGS__), sizeof(HEAD_TEXT(__VA_ARGS__)) - 1                         \
	}

static const struct head poll_heads[TO_N] = {
	[TO_PENDING] = HEAD("poll", "poll", POLLED),
	[TO_READY] = HEAD("poll", "poll", POLLED),
	[TO_PANICKED] = HEAD("poll", "poll: panicked", LONG_POLL),
	[TO_CANCELLED] = HEAD("poll", "poll: cancelled", POLLED),
	[TO_UNKNOWN] = HEAD("poll", "poll: end not seen", POLLED),
};
static const struct head worst_poll_head = HEAD("poll", "poll", LONG_POLL);
static const struct head waiting_head = HEAD("wait", "waiting", "thread_state_sleeping");
static const struct head scheduled_head = HEAD("wait", "scheduled", "thread_state_runnable");
static const struct head unknown_head = HEAD("wait", "not known", "thread_state_unknown");
static const struct head section_head = HEAD("block", "block_in_place", "yellow");
/* A single ns must never colour a whole pixel: this colour is the first in the list.
 */
static const struct head wake_head = HEAD("wake", "wake", "thread_state_uninterruptible");

static char *put_head(char *p, const struct head *h)
{
	return put_mem(p, h->text, h->len);
}

static char *put_place(char *p, struct draw_at at, uint64_t ts_ns)
{
	p = put_lit(p, ",\"pid\":");
	p = put_u64(p, at.pid);
	p = put_lit(p, ",\"tid\":");
	p = put_u64(p, at.tid);
	p = put_lit(p, ",\"ts\":");
	return put_us(p, ts_ns);
}

static uint64_t since_base(const struct chrome *c, uint64_t ns)
{
	return ns > c->draw.sel.base_ns ? ns - c->draw.sel.base_ns : 0;
}

/* Lane and time of a slice; what may follow is args and the closing brace. */
static char *put_span(const struct chrome *c, char *p, const struct draw_slice *s)
{
	p = put_place(p, s->at, since_base(c, s->begin_ns));
	p = put_lit(p, ",\"dur\":");
	return put_us(p, s->end_ns - s->begin_ns);
}

static char *put_string(char *p, const char *s)
{
	return put_mem(p, s, strlen(s));
}

static char *put_begin(char *p, const char *cat, const char *name)
{
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"");
	p = put_string(p, cat);
	p = put_lit(p, "\",\"name\":\"");
	p = put_string(p, name);
	*p++ = '"';
	return p;
}

/* ---- names, as in a JSON string ---- */

static const char *kind_short_label(struct chrome *c, uint32_t kind)
{
	if (!GROW_ZERO(c->kind_shorts, kind, c->n_kind_shorts))
		return "?";
	char **label = &c->kind_shorts[kind];
	if (!*label) {
		*label = lanes_label(short_name(&c->draw.names, kind));
	}
	return *label ? *label : "?";
}

static const char *kind_full_label(struct chrome *c, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(c->draw.reader, kind);
	if (!k || !k->name || !*k->name)
		return "future";
	if (!GROW_ZERO(c->kind_labels, kind, c->n_kind_labels))
		return "future";
	char **label = &c->kind_labels[kind];
	if (!*label)
		*label = lanes_label(kind_label(&c->draw.sel.labels, c->draw.reader, kind));
	return *label ? *label : "future";
}

/* NULL: not known. */
static const struct place_label *place_label(struct chrome *c, uint64_t place)
{
	uint32_t i = (uint32_t)(place - 1);
	const struct place_text *text = draw_place(&c->draw, place);

	if (!text || !GROW_ZERO(c->places, i, c->n_places))
		return NULL;
	struct place_label *label = &c->places[i];
	if (label->name)
		return label;
	label->at = lanes_label(text->at);
	label->awaits = lanes_label(text->awaits);
	label->cname = wait_colours[text->class];
	label->name = label->at && label->awaits ? lanes_label(text->name) : NULL;
	return label->name ? label : NULL;
}

/* ---- slices ---- */

static char *put_task(char *p, const struct chrome *c, const struct draw_slice *s)
{
	const struct tl_task *task = s->task;

	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"task\",\"cname\":\"grey\",\"name\":\"");
	p = put_mem(p, s->family->label, s->family->label_len);
	p = put_lit(p, " #");
	p = put_u64(p, task->number);
	*p++ = '"';
	p = put_span(c, p, s);
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
	return put_lit(p, "}}");
}

/* The viewers colour it by its name. */
static char *put_request(char *p, struct chrome *c, const struct draw_slice *s)
{
	p = put_begin(p, "request", kind_short_label(c, s->request->round.kind));
	p = put_span(c, p, s);
	p = put_lit(p, ",\"args\":{\"handler\":\"");
	p = put_string(p, kind_full_label(c, s->request->round.kind));
	p = put_lit(p, "\",\"polls\":");
	p = put_u64(p, s->request->n_polls);
	return put_lit(p, "}}");
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

static char *put_task_poll(char *p, const struct chrome *c, const struct draw_slice *s)
{
	const struct tl_poll *poll = s->poll;
	const struct trace_thread *tt = trace_reader_thread(c->draw.reader, poll->thread);

	p = put_head(p, s->worst		? &worst_poll_head
			: s->open		? &poll_heads[TO_PENDING]
			: poll->outcome >= TO_N ? &poll_heads[TO_UNKNOWN]
						: &poll_heads[poll->outcome]);
	p = put_span(c, p, s);
	p = put_lit(p, ",\"args\":{");
	p = put_outcome(p, poll);
	p = put_lit(p, ",\"thread\":");
	p = put_u64(p, tt ? tt->tid : 0);
	if (poll->n_blocks) {
		p = put_lit(p, ",\"blocked_us\":");
		p = put_us(p, poll->blocked_ns);
	}
	if (poll->woken_inside)
		p = put_lit(p, ",\"woken inside\":true");
	return put_lit(p, "}}");
}

static char *put_thread_poll(char *p, struct chrome *c, const struct draw_slice *s)
{
	const struct tl_poll *poll = s->poll;
	const struct lane_family *f = s->family;
	bool handles = poll->round.serial != 0;

	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"poll\",\"name\":\"");
	p = handles ? put_string(p, kind_short_label(c, poll->round.kind))
		    : put_mem(p, f->label, f->label_len);
	p = put_lit(p, " #");
	p = put_u64(p, poll->task->number);
	if (!poll->end_seen)
		p = put_lit(p, ": end not seen");
	p = s->worst ? put_lit(p, "\",\"cname\":\"" TERRIBLE "\"")
		     : put_lit(p, "\",\"cname\":\"" BUSY "\"");
	p = put_span(c, p, s);
	p = put_lit(p, ",\"args\":{\"task\":");
	p = put_u64(p, poll->task->number);
	if (handles) {
		p = put_lit(p, ",\"family\":\"");
		p = put_mem(p, f->label, f->label_len);
		*p++ = '"';
	}
	*p++ = ',';
	p = put_outcome(p, poll);
	return put_lit(p, "}}");
}

static char *put_wait(char *p, struct chrome *c, const struct draw_slice *s)
{
	const struct place_label *label =
		s->wait->state == TS_WAITING ? place_label(c, s->wait->place) : NULL;

	if (!label) {
		p = put_head(p, s->wait->state == TS_WAITING	 ? &waiting_head
				: s->wait->state == TS_SCHEDULED ? &scheduled_head
								 : &unknown_head);
		p = put_span(c, p, s);
		*p++ = '}';
		return p;
	}
	p = put_begin(p, "wait", label->name);
	p = put_lit(p, ",\"cname\":\"");
	p = put_string(p, label->cname);
	*p++ = '"';
	p = put_span(c, p, s);
	p = put_lit(p, ",\"args\":{\"at\":\"");
	p = put_string(p, label->at);
	p = put_lit(p, "\",\"for\":\"");
	p = put_string(p, label->awaits);
	return put_lit(p, "\"}}");
}

static char *put_plain(char *p, const struct chrome *c, const struct draw_slice *s,
		       const struct head *head)
{
	p = put_head(p, head);
	p = put_span(c, p, s);
	*p++ = '}';
	return p;
}

static char *put_blocking(char *p, const struct chrome *c, const struct draw_slice *s,
			  const char *before, unsigned call, const char *cname)
{
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"block\",\"name\":\"");
	p = put_string(p, before);
	p = put_string(p, trace_call_name(call));
	p = put_lit(p, "\",\"cname\":\"");
	p = put_string(p, cname);
	*p++ = '"';
	p = put_span(c, p, s);
	*p++ = '}';
	return p;
}

static char *put_loss(char *p, const struct chrome *c, const struct draw_slice *s)
{
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"loss\",\"cname\":\"bad\",\"name\":\"lost ");
	p = put_u64(p, s->loss->n_events);
	p = put_lit(p, " events\"");
	p = put_span(c, p, s);
	*p++ = '}';
	return p;
}

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

static char *put_syscall(char *p, const struct chrome *c, const struct draw_slice *s)
{
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"sys\",\"name\":\"");
	p = put_call(p, s->syscall->number);
	p = put_lit(p, "\",\"cname\":\"thread_state_iowait\"");
	p = put_span(c, p, s);
	p = put_lit(p, ",\"args\":{\"nr\":");
	p = put_u64(p, s->syscall->number);
	p = put_lit(p, ",\"result\":");
	p = put_i64(p, s->syscall->result);
	return put_lit(p, "}}");
}

static char *put_off_cpu(char *p, const struct chrome *c, const struct draw_slice *s)
{
	p = put_lit(p, ",\n{\"ph\":\"X\",\"cat\":\"sched\",\"name\":\"off CPU, ");
	p = put_string(p, trace_off_cpu_name(s->off_cpu->reason));
	if (s->off_cpu->syscall) {
		p = put_lit(p, " in ");
		p = put_call(p, s->off_cpu->syscall - 1);
	}
	p = s->off_cpu->reason == TX_PREEMPTED
		    ? put_lit(p, "\",\"cname\":\"thread_state_runnable\"")
		    : put_lit(p, "\",\"cname\":\"thread_state_sleeping\"");
	p = put_span(c, p, s);
	*p++ = '}';
	return p;
}

/* What a slice's name leaves out. */
static char *put_full_name(char *p, struct chrome *c, uint32_t kind)
{
	const char *full = kind_full_label(c, kind);

	if (!strcmp(full, kind_short_label(c, kind)))
		return p;
	p = put_lit(p, ",\"future\":\"");
	p = put_string(p, full);
	*p++ = '"';
	return p;
}

static char *put_future_poll(char *p, struct chrome *c, const struct draw_slice *s)
{
	const struct tl_future_poll *poll = s->future_poll;
	const struct place_label *place = place_label(c, poll->place);

	p = put_begin(p, "future", kind_short_label(c, poll->future->kind));
	p = put_span(c, p, s);
	p = put_lit(p, ",\"args\":{\"instance\":");
	p = put_u64(p, poll->future->serial);
	p = put_full_name(p, c, poll->future->kind);
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
	return put_lit(p, "}}");
}

static char *put_instance(char *p, struct chrome *c, const struct draw_slice *s)
{
	const struct tl_future *future = s->future;

	p = put_begin(p, "future", kind_short_label(c, future->kind));
	p = put_span(c, p, s);
	p = put_lit(p, ",\"args\":{\"instance\":");
	p = put_u64(p, future->serial);
	p = put_full_name(p, c, future->kind);
	if (future->task) {
		p = put_lit(p, ",\"task\":");
		p = put_u64(p, future->task->number);
	}
	if (future->parent) {
		p = put_lit(p, ",\"polled by instance\":");
		p = put_u64(p, future->parent->serial);
	}
	p = put_lit(p, ",\"end\":\"");
	p = put_string(p, draw_future_end(future));
	p = put_lit(p, "\",\"polls\":");
	p = put_u64(p, future->n_polls);
	p = put_lit(p, ",\"polled_us\":");
	p = put_us(p, future->poll_ns);
	p = put_lit(p, ",\"self_us\":");
	p = put_us(p, future->self_ns);
	p = put_lit(p, ",\"waiting_us\":");
	p = put_us(p, future->wait_ns);
	return put_lit(p, "}}");
}

static char *put_instance_part(char *p, const struct chrome *c, const struct draw_slice *s,
			       const char *name, const char *cname)
{
	p = put_begin(p, "future", name);
	p = put_lit(p, ",\"cname\":\"");
	p = put_string(p, cname);
	*p++ = '"';
	p = put_span(c, p, s);
	*p++ = '}';
	return p;
}

static int stack_slice(struct chrome *c, const struct draw_slice *s)
{
	_cleanup_buf_ struct buf name = BUF_INIT;

	trace_frame_name(&name, s->frame);
	_cleanup_free_ char *label = buf_failed(&name) ? NULL : lanes_label(name.data);
	if (!label)
		return -ENOMEM;
	char *p = put_begin(out_room(&c->out), "stack", label);
	p = put_span(c, p, s);
	*p++ = '}';
	out_used(&c->out, p);
	return c->out.error;
}

static int finding_slice(struct chrome *c, const struct draw_slice *s)
{
	_cleanup_buf_ struct buf json = BUF_INIT;
	char place[160], *end = put_span(c, place, s);

	buf_str(&json, ",\n{\"ph\":\"X\",\"cat\":\"finding\",\"cname\":\"yellow\",\"name\":");
	json_quote_shown(&json, s->finding->title);
	buf_add(&json, place, (size_t)(end - place));
	buf_str(&json, ",\"args\":{\"finding\":");
	json_quote_shown(&json, s->finding->text);
	if (s->finding->advice) {
		buf_str(&json, ",\"advice\":");
		json_quote_shown(&json, s->finding->advice);
	}
	buf_str(&json, "}}");
	if (buf_failed(&json))
		return -ENOMEM;
	out_write(&c->out, json.data, json.len);
	return c->out.error;
}

static char *put_slice(char *p, struct chrome *c, const struct draw_slice *s)
{
	switch (s->type) {
	case DRAW_TASK:
		return put_task(p, c, s);
	case DRAW_REQUEST:
		return put_request(p, c, s);
	case DRAW_POLL:
		return s->on_task ? put_task_poll(p, c, s) : put_thread_poll(p, c, s);
	case DRAW_WAIT:
		return put_wait(p, c, s);
	case DRAW_WAKE:
		return put_plain(p, c, s, &wake_head);
	case DRAW_BLOCK:
		return put_blocking(p, c, s, s->block->nonblocking ? "in " : "blocked in ",
				    s->block->call, "thread_state_uninterruptible");
	case DRAW_SECTION:
		return put_plain(p, c, s, &section_head);
	case DRAW_PARK:
		return put_blocking(p, c, s, "parked in ", s->park->call, "thread_state_sleeping");
	case DRAW_LOSS:
		return put_loss(p, c, s);
	case DRAW_SYSCALL:
		return put_syscall(p, c, s);
	case DRAW_OFF_CPU:
		return put_off_cpu(p, c, s);
	case DRAW_FUTURE_POLL:
		return put_future_poll(p, c, s);
	case DRAW_INSTANCE:
		return put_instance(p, c, s);
	case DRAW_INSTANCE_POLL:
		return put_instance_part(p, c, s, "poll", "thread_state_running");
	case DRAW_INSTANCE_WAIT:
		return put_instance_part(p, c, s, "waiting", "thread_state_iowait");
	case DRAW_STACK:
	case DRAW_FINDING:
	case DRAW_N_TYPES:
		break; /* have functions of their own */
	}
	return p;
}

static int on_slice(void *ctx, const struct draw_slice *s)
{
	struct chrome *c = ctx;

	if (s->type == DRAW_STACK)
		return stack_slice(c, s);
	if (s->type == DRAW_FINDING)
		return finding_slice(c, s);
	out_used(&c->out, put_slice(out_room(&c->out), c, s));
	return c->out.error;
}

static char *put_flow(char *p, const struct chrome *c, uint64_t number, struct draw_at at,
		      uint64_t ns)
{
	p = put_lit(p, ",\"cat\":\"wake\",\"name\":\"wake\",\"id\":");
	p = put_u64(p, number);
	p = put_place(p, at, since_base(c, ns));
	*p++ = '}';
	return p;
}

static int on_flow(void *ctx, const struct draw_flow *flow)
{
	struct chrome *c = ctx;
	char *p = out_room(&c->out);

	p = put_lit(p, ",\n{\"ph\":\"s\"");
	p = put_flow(p, c, flow->number, flow->from, flow->from_ns);
	p = put_lit(p, ",\n{\"ph\":\"f\",\"bp\":\"e\"");
	p = put_flow(p, c, flow->number, flow->to, flow->to_ns);
	out_used(&c->out, p);
	return c->out.error;
}

static int on_long_poll(void *ctx, const struct tl_sample *sample, struct draw_at at)
{
	struct chrome *c = ctx;
	_cleanup_buf_ struct buf text = BUF_INIT, json = BUF_INIT;

	draw_stack_text(&c->draw, sample, &text);
	buf_printf(&json,
		   ",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"stack_sample\",\"name\":\"long poll, "
		   "%s\",\"cname\":\"bad\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"ts\":",
		   sample->type == TM_LONG_BLOCKED ? "blocked" : "running", at.pid, at.tid);
	char ts[32], *end = put_us(ts, since_base(c, sample->time_ns));
	buf_add(&json, ts, (size_t)(end - ts));
	buf_str(&json, ",\"args\":{\"stack\":");
	json_quote_shown(&json, text.data ? text.data : "");
	buf_str(&json, "}}");
	if (buf_failed(&json) || buf_failed(&text))
		return -ENOMEM;
	out_write(&c->out, json.data, json.len);
	return c->out.error;
}

/* ---- names and order of the lanes ---- */

static void metadata(struct buf *b, const char *what, uint32_t pid, uint32_t tid, const char *key,
		     const char *text, uint64_t number)
{
	buf_printf(b, "%s\n{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRIu32, b->len ? "," : "", what,
		   pid);
	if (tid)
		buf_printf(b, ",\"tid\":%" PRIu32, tid);
	buf_printf(b, ",\"args\":{\"%s\":", key);
	if (text)
		json_quote_shown(b, text);
	else
		buf_u64(b, number);
	buf_str(b, "}}");
}

static void name_lane(struct buf *b, uint32_t pid, uint32_t tid, const char *name, uint64_t rank)
{
	metadata(b, "thread_name", pid, tid, "name", name, 0);
	metadata(b, "thread_sort_index", pid, tid, "sort_index", NULL, rank);
}

static void emit_cut(struct chrome *c, const struct draw_group *group)
{
	const struct draw_slice s = {.at = {.pid = group->pid, .tid = 1},
				     .begin_ns = c->draw.sel.from_ns,
				     .end_ns = c->draw.sel.to_ns};
	char place[160], *p = put_span(c, place, &s);

	name_lane(&c->names, group->pid, 1, "scope of this export", 0);
	buf_str(&c->names, ",\n{\"ph\":\"X\",\"cat\":\"cut\",\"cname\":\"yellow\",\"name\":");
	json_quote_shown(&c->names, group->name);
	buf_add(&c->names, place, (size_t)(p - place));
	buf_char(&c->names, '}');
}

static int on_group(void *ctx, const struct draw_group *group)
{
	struct chrome *c = ctx;
	struct buf *b = &c->names;

	metadata(b, "process_name", group->pid, 0, "name",
		 group->type == GROUP_CUT ? "cut" : group->name, 0);
	metadata(b, "process_sort_index", group->pid, 0, "sort_index", NULL, group->rank);
	if (group->type == GROUP_CUT)
		emit_cut(c, group);
	if (group->site) { /* viewers split labels at commas */
		_cleanup_free_ char *site = strdup(group->site);

		for (char *s = site; s && *s; s++)
			if (*s == ',')
				*s = ';';
		if (site)
			metadata(b, "process_labels", group->pid, 0, "labels", site, 0);
	}
	return buf_failed(b) ? -ENOMEM : 0;
}

static int on_lane(void *ctx, const struct draw_lane *lane)
{
	struct chrome *c = ctx;

	name_lane(&c->names, lane->at.pid, lane->at.tid, lane->name, lane->rank);
	return buf_failed(&c->names) ? -ENOMEM : 0;
}

static void other_data(const struct chrome *c, struct buf *b)
{
	const struct export_scope *sel = &c->draw.sel;
	struct json j;
	json_init(&j, b, false);
	json_object(&j, NULL);
	json_string(&j, "displayTimeUnit", "ns");
	json_object(&j, "otherData");
	json_string(&j, "exporter", "pollux " POLLUX_VERSION);
	json_string(&j, "cut", *sel->notice ? sel->notice : "nothing");
	json_u64(&j, "events lost", sel->totals.n_lost);
	json_u64(&j, "tasks", sel->n_tasks);
	json_u64(&j, "tasks shown", sel->shown_tasks);
	json_u64(&j, "from_ns", sel->from_ns - sel->base_ns);
	json_u64(&j, "to_ns", sel->to_ns - sel->base_ns);
	json_end_object(&j);
	buf_str(b, ",\"traceEvents\":[");
}

static int write_head(struct chrome *c)
{
	_cleanup_buf_ struct buf top = BUF_INIT;

	other_data(c, &top);
	TRY(draw_names(&c->draw));
	/* The first of a file without anything: slices begin with a comma. */
	if (!c->names.len)
		TRY(on_group(c, &(struct draw_group){.pid = 1, .name = "empty trace"}));
	if (buf_failed(&top))
		return -ENOMEM;
	out_write(&c->out, top.data, top.len);
	out_write(&c->out, c->names.data, c->names.len);
	return c->out.error;
}

/* ---- the file ---- */

static const struct pen chrome_pen = {
	.group = on_group,
	.lane = on_lane,
	.slice = on_slice,
	.flow = on_flow,
	.long_poll = on_long_poll,
};

static int write_events(struct chrome *c, const struct export_options *opt, struct error *err)
{
	int r = draw_run(&c->draw, opt, err);
	/* Also when the trace broke off in the middle: what is there is a whole file. */
	out_write(&c->out, "\n]}\n", 4);
	return out_end(&c->out, r, err);
}

static void chrome_done(struct chrome *c)
{
	for (uint32_t i = 0; i < c->n_places; i++) {
		free(c->places[i].name);
		free(c->places[i].at);
		free(c->places[i].awaits);
	}
	free(c->places);
	for (uint32_t i = 0; i < c->n_kind_labels; i++)
		free(c->kind_labels[i]);
	free(c->kind_labels);
	for (uint32_t i = 0; i < c->n_kind_shorts; i++)
		free(c->kind_shorts[i]);
	free(c->kind_shorts);
	buf_done(&c->names);
	out_done(&c->out);
	draw_done(&c->draw);
}

static int chrome_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			struct export_summary *ret_summary, struct error *err)
{
	struct chrome c = {0};
	int r = draw_init(&c.draw, reader, opt, &chrome_limits, &chrome_pen, &c, err);

	if (r == 0) {
		r = out_init(&c.out, file);
		if (r == 0)
			r = write_head(&c);
		if (r == 0)
			r = write_events(&c, opt, err);
		else if (r == -ENOMEM)
			error_set(err, r, "out of memory");
		draw_summary(&c.draw, c.out.bytes, ret_summary);
	}
	chrome_done(&c);
	return r;
}

const struct export_ops export_chrome = {
	.name = "chrome",
	.extension = ".json",
	.viewers = "Chrome's trace viewer (chrome://tracing), Perfetto",
	.reads = "catapult",
	.findings = true,
	.lanes = true,
	.begin = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"exporter\":\"pollux ",
	.write = chrome_write,
};
