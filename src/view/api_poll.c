/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One poll: what happened in it, who woke its task, whom it woke. */
#include "base/cleanup.h"
#include "base/vec.h"
#include "report/page_data.h"
#include "view/answer.h"
#include "view/slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ITEMS 1000u

struct wake {
	uint64_t time_ns;
	uint32_t thread, kind, source_kind; /* source_kind TRACE_KIND_NONE: the thread itself */
	uint64_t task, source_task;
	enum trace_wake effect;
	bool self;
};

struct inner_future {
	uint32_t kind, depth;
	uint64_t begin_ns, end_ns;
	enum trace_outcome outcome;
};

struct poll_sample {
	uint64_t time_ns, stack;
	enum trace_sample type;
};

#define LIST(type, name)                                                                           \
	struct {                                                                                   \
		type *v;                                                                           \
		size_t n, cap;                                                                     \
	} name

struct one_poll {
	const struct view_source *v;
	uint32_t thread, kind;
	uint64_t task, begin_ns;
	struct index_span span; /* end_ns 0: not found yet */
	struct slice_list list; /* all polls, and what is on this thread */
	LIST(struct wake, wakes);
	LIST(struct inner_future, futures);
	LIST(struct poll_sample, samples);
};

static int take_slice(void *ctx, const struct index_span *s)
{
	struct one_poll *p = ctx;

	if (s->type == SPAN_TASK || s->type == SPAN_SAMPLE || slice_is_loop(p->v, s))
		return 0;
	return slice_add(&p->list, s);
}

#define PUT(list, ...)                                                                             \
	(GROW((list).v, (list).n, (list).cap) ? ((list).v[(list).n++] = (__VA_ARGS__), 0) : -ENOMEM)

static int on_wake(void *ctx, const struct tl_wake *w)
{
	struct one_poll *p = ctx;

	return PUT(p->wakes, (struct wake){.time_ns = w->time_ns,
					   .thread = w->thread,
					   .kind = w->task->kind,
					   .task = w->task->id,
					   .source_kind = w->source_task ? w->source_task->kind
									 : TRACE_KIND_NONE,
					   .source_task = w->source_task ? w->source_task->id : 0,
					   .effect = w->effect,
					   .self = w->self});
}

static int on_future_poll(void *ctx, const struct tl_future_poll *f)
{
	struct one_poll *p = ctx;

	if (f->thread != p->thread)
		return 0;
	return PUT(p->futures, (struct inner_future){.kind = f->future->kind,
						     .depth = f->depth,
						     .begin_ns = f->begin_ns,
						     .end_ns = f->end_ns,
						     .outcome = f->outcome});
}

static int on_sample(void *ctx, const struct tl_sample *s)
{
	struct one_poll *p = ctx;

	if (s->thread != p->thread || !s->stack)
		return 0;
	return PUT(p->samples,
		   (struct poll_sample){.time_ns = s->time_ns, .stack = s->stack, .type = s->type});
}

static const struct timeline_sink also = {
	.wake = on_wake, .future_poll = on_future_poll, .sample = on_sample};

static bool is_in(const struct one_poll *p, uint64_t time_ns)
{
	return time_ns >= p->span.begin_ns && time_ns <= p->span.end_ns;
}

/* ---- finding it ---- */

static int find_span(void *ctx, const struct index_span *s)
{
	struct one_poll *p = ctx;

	if (s->type == SPAN_POLL && s->thread == p->thread && s->kind == p->kind &&
	    s->task == p->task && s->begin_ns == p->begin_ns)
		p->span = *s;
	return 0;
}

/* What is around it, so that the wake before it and the polls of those that it woke are there. */
static int read_around(struct one_poll *p, struct error *err)
{
	struct index_facts facts;
	struct window w = {.slice = take_slice, .also = &also, .ctx = p};

	index_facts(p->v->index, &facts);
	TRY(index_spans(p->v->index, p->begin_ns, p->begin_ns + 1, find_span, p, err));
	uint64_t end_ns = p->span.end_ns ? p->span.end_ns : p->begin_ns + facts.exact_ns;
	uint64_t since_ns = p->span.since_ns ? p->span.since_ns : p->begin_ns;
	w.from_ns = since_ns > facts.base_ns + facts.exact_ns ? since_ns - facts.exact_ns
							      : facts.base_ns;
	w.to_ns = end_ns + facts.exact_ns + 1;
	TRY(slice_read(p->v, &w, err));
	if (!w.exact && !p->span.end_ns)
		return error_set(err, -E2BIG, "there are too many events around the poll");
	for (size_t i = 0; i < p->list.n; i++)
		find_span(p, &p->list.items[i]);
	slice_sort(&p->list);
	return p->span.end_ns ? 0 : error_set(err, -ENOENT, "there is no such poll");
}

/* ---- the answer ---- */

static void write_inside(const struct one_poll *p, const char *key, enum span_type type,
			 struct view_places *places, struct json *j)
{
	json_array(j, key);
	for (size_t i = 0, n = 0; i < p->list.n && n < MAX_ITEMS; i++) {
		const struct index_span *s = &p->list.items[i];

		if (s->type != type || s->thread != p->thread || s->begin_ns < p->span.begin_ns ||
		    s->end_ns > p->span.end_ns)
			continue;
		slice_write(p->v, s, places, j);
		n++;
	}
	json_end_array(j);
}

/* The poll of a task that contains a time, or the first one after it; NULL. */
static const struct index_span *poll_at(const struct one_poll *p, uint32_t kind, uint64_t task,
					uint64_t time_ns, bool inside)
{
	for (size_t i = 0; i < p->list.n; i++) {
		const struct index_span *s = &p->list.items[i];

		if (s->type != SPAN_POLL || s->kind != kind || s->task != task)
			continue;
		if (inside ? s->begin_ns <= time_ns && s->end_ns >= time_ns
			   : s->begin_ns >= time_ns)
			return s;
	}
	return NULL;
}

static void write_poll_id(const struct one_poll *p, const char *key, const struct index_span *s,
			  struct json *j)
{
	char text[96];

	json_string(j, key,
		    s ? slice_poll_id(text, p->v, s->thread, s->kind, s->task, s->begin_ns) : NULL);
}

static uint64_t since_base(const struct one_poll *p, uint64_t time_ns)
{
	struct index_facts facts;

	index_facts(p->v->index, &facts);
	return time_ns > facts.base_ns ? time_ns - facts.base_ns : 0;
}

static void write_waker(const struct one_poll *p, struct view_places *places, struct json *j)
{
	const struct wake *by = NULL;
	char text[96];

	/* The wake that made it ready: of those before the poll the first since the last poll ended. */
	for (size_t i = 0; i < p->wakes.n && p->span.since_ns; i++) {
		const struct wake *w = &p->wakes.v[i];

		if (w->kind == p->kind && w->task == p->task && w->effect != TW_NOOP &&
		    w->time_ns <= p->span.begin_ns && w->time_ns <= p->span.since_ns)
			by = w;
	}
	if (!by) {
		json_string(j, "woken_by", NULL);
		return;
	}
	bool thread = by->source_kind == TRACE_KIND_NONE;
	json_object(j, "woken_by");
	json_u64(j, "at", since_base(p, by->time_ns));
	json_u64(j, "thread", by->thread);
	json_bool(j, "self", by->self);
	json_string(j, "task",
		    thread ? NULL : view_task_id(text, by->source_kind, by->source_task));
	json_string(j, "number",
		    thread ? NULL
			   : view_task_number(text, p->v, places, by->source_kind, by->source_task,
					      by->time_ns));
	write_poll_id(
		p, "poll",
		thread ? NULL : poll_at(p, by->source_kind, by->source_task, by->time_ns, true), j);
	json_end_object(j);
}

static void write_wakes(const struct one_poll *p, struct view_places *places, struct json *j)
{
	char text[96];

	json_array(j, "wakes");
	for (size_t i = 0, n = 0; i < p->wakes.n && n < MAX_ITEMS; i++) {
		const struct wake *w = &p->wakes.v[i];

		if (w->thread != p->thread || w->source_kind != p->kind ||
		    w->source_task != p->task || !is_in(p, w->time_ns))
			continue;
		json_object(j, NULL);
		json_u64(j, "at", since_base(p, w->time_ns));
		json_u64(j, "family", w->kind);
		json_string(j, "task", view_task_id(text, w->kind, w->task));
		json_string(j, "number",
			    view_task_number(text, p->v, places, w->kind, w->task, w->time_ns));
		json_string(j, "effect", trace_wake_name(w->effect));
		bool scheduled = w->effect == TW_SCHEDULED || w->effect == TW_UNKNOWN;
		write_poll_id(p, "poll",
			      scheduled ? poll_at(p, w->kind, w->task, w->time_ns, false) : NULL,
			      j);
		json_end_object(j);
		n++;
	}
	json_end_array(j);
}

static void write_frames(const struct trace_reader *r, uint64_t stack, struct json *j)
{
	json_array(j, "frames");
	for (unsigned n = 0; stack && stack <= UINT32_MAX && n < TRACE_STACK_FRAMES; n++) {
		const struct trace_stack *s = trace_reader_stack(r, (uint32_t)stack - 1);
		const struct trace_frame *f = s ? trace_reader_frame(r, s->frame) : NULL;

		if (f)
			page_frame_json(f, j);
		stack = s ? s->parent : 0;
	}
	json_end_array(j);
}

static void write_stacks(const struct one_poll *p, struct json *j)
{
	json_array(j, "stacks");
	for (size_t i = 0, n = 0; i < p->samples.n && n < 20; i++) {
		const struct poll_sample *s = &p->samples.v[i];

		if (!is_in(p, s->time_ns))
			continue;
		json_object(j, NULL);
		json_u64(j, "at", since_base(p, s->time_ns));
		json_string(j, "sample", trace_sample_name(s->type));
		json_string(j, "state",
			    s->type == TM_BLOCKED || s->type == TM_LONG_BLOCKED ? "blocked"
										: "running");
		write_frames(p->v->tables, s->stack, j);
		json_end_object(j);
		n++;
	}
	json_end_array(j);
}

static void write_futures(const struct one_poll *p, const struct kind_labels *labels,
			  struct json *j)
{
	json_array(j, "futures");
	for (size_t i = 0, n = 0; i < p->futures.n && n < MAX_ITEMS; i++) {
		const struct inner_future *f = &p->futures.v[i];

		if (f->begin_ns < p->span.begin_ns || f->end_ns > p->span.end_ns)
			continue;
		json_object(j, NULL);
		json_string(j, "name", kind_label(labels, p->v->tables, f->kind));
		json_u64(j, "from", since_base(p, f->begin_ns));
		json_u64(j, "to", since_base(p, f->end_ns));
		json_u64(j, "depth", f->depth);
		json_string(j, "outcome", trace_outcome_name(f->outcome));
		json_end_object(j);
		n++;
	}
	json_end_array(j);
}

static void write_neighbours(const struct one_poll *p, struct json *j)
{
	const struct index_span *previous = NULL, *next = NULL;

	for (size_t i = 0; i < p->list.n; i++) {
		const struct index_span *s = &p->list.items[i];

		if (s->type != SPAN_POLL || s->kind != p->kind || s->task != p->task)
			continue;
		if (s->begin_ns < p->span.begin_ns)
			previous = s;
		else if (s->begin_ns > p->span.begin_ns && !next)
			next = s;
	}
	write_poll_id(p, "previous", previous, j);
	write_poll_id(p, "next", next, j);
}

/* "3.5.17.51200" */
static bool parse_id(const char *text, uint64_t ret[4])
{
	for (unsigned i = 0; i < 4; i++) {
		char *end;

		errno = 0;
		if (*text < '0' || *text > '9')
			return false;
		ret[i] = strtoull(text, &end, 10);
		if (errno || *end != (i < 3 ? '.' : 0))
			return false;
		text = end + 1;
	}
	return ret[0] < UINT32_MAX && ret[1] < UINT32_MAX;
}

int answer_poll(const struct view_source *v, const struct view_request *q, struct buf *out,
		struct error *err)
{
	struct view_places places = {0};
	struct kind_labels labels;
	struct index_facts facts;
	uint64_t id[4];
	const char *text = request_param(q, "id");
	struct one_poll p = {.v = v};
	struct json j;

	if (!text || !parse_id(text, id))
		return error_set(err, -EINVAL, "id is a poll as slices have it: 3.5.17.51200");
	index_facts(v->index, &facts);
	if (id[3] > facts.end_ns - facts.base_ns)
		return error_set(err, -ENOENT, "there is no such poll");
	p.thread = (uint32_t)id[0];
	p.kind = (uint32_t)id[1];
	p.task = id[2];
	p.begin_ns = facts.base_ns + id[3];
	TRY(read_around(&p, err));
	if (kind_labels_make(v->tables, &labels) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	json_init(&j, out, false);
	j.shown = true;
	json_object(&j, NULL);
	slice_members(v, &p.span, &places, &j);
	json_string(&j, "name", kind_label(&labels, v->tables, p.kind));
	write_inside(&p, "calls", SPAN_CALL, &places, &j);
	write_inside(&p, "off_cpu", SPAN_OFF_CPU, &places, &j);
	write_inside(&p, "syscalls", SPAN_SYSCALL, &places, &j);
	write_futures(&p, &labels, &j);
	write_stacks(&p, &j);
	write_waker(&p, &places, &j);
	write_wakes(&p, &places, &j);
	write_neighbours(&p, &j);
	view_write_places(&places, v->tables, &j);
	json_end_object(&j);
	return 0;
}
