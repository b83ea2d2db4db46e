/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A task's life, as much of it as one answer may read; and its await tree at the ends of the
 * recording. */
#include "base/cleanup.h"
#include "base/map.h"
#include "base/vec.h"
#include "moment/render.h"
#include "timeline/moments.h"
#include "view/answer.h"
#include "view/slices.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 5000u
#define MAX_FUTURES 500u
#define MAX_TREE_BYTES 65536u

struct task_name {
	uint32_t kind;
	uint64_t task;
};

struct task_future {
	uint32_t kind;
	bool round;
	uint64_t begin_ns, end_ns, polls, poll_ns, wait_ns;
	enum trace_outcome outcome;
};

struct task_life {
	const struct view_source *v;
	uint32_t kind;
	uint64_t task, at_ns;
	struct index_span whole; /* type SPAN_TASK; begin_ns 0: not known */
	bool ended, spawn_seen, known;
	struct slice_list list;
	uint64_t wakes, self_wakes;
	struct task_future *futures;
	size_t n_futures, futures_cap;
	bool more_futures;
	struct map names; /* serial to a struct task_name: of the timeline that is fed */
	struct task_name parent;
	bool parent_known;
};

static bool is_it(const struct task_life *l, const struct tl_task *task)
{
	return task && task->kind == l->kind && task->id == l->task;
}

/* An address may belong to several tasks, one after the other: whether this is during the life of
 * the one that was requested. */
static bool in_life(const struct task_life *l, uint64_t begin_ns, uint64_t end_ns)
{
	return !l->known || (end_ns >= l->whole.begin_ns && begin_ns <= l->whole.end_ns);
}

static int take_slice(void *ctx, const struct index_span *s)
{
	struct task_life *l = ctx;

	if (s->kind != l->kind || s->task != l->task || !in_life(l, s->begin_ns, s->end_ns))
		return 0;
	return s->type == SPAN_TASK || s->type == SPAN_SAMPLE ? 0 : slice_add(&l->list, s);
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	struct task_life *l = ctx;
	struct task_name *name = map_new(&l->names, task->serial, 0, sizeof(*name));

	if (!name)
		return -ENOMEM;
	*name = (struct task_name){task->kind, task->id};
	if (!is_it(l, task) || !task->parent || !in_life(l, task->spawn_ns, task->spawn_ns))
		return 0;
	const struct task_name *parent = map_get(&l->names, task->parent, 0);
	if (parent) {
		l->parent = *parent;
		l->parent_known = true;
	}
	return 0;
}

/* A task whose life is too short to be a span of the index. */
static int on_task_end(void *ctx, struct tl_task *task)
{
	struct task_life *l = ctx;
	uint64_t end_ns = task->end_ns ? task->end_ns : UINT64_MAX;

	if (!is_it(l, task) || l->known || !task->spawn_seen || l->at_ns < task->spawn_ns ||
	    l->at_ns > end_ns)
		return 0;
	l->known = true;
	l->spawn_seen = true;
	l->ended = task->end_ns;
	l->whole.begin_ns = task->spawn_ns;
	l->whole.end_ns = end_ns;
	l->whole.outcome = task->outcome;
	return 0;
}

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct task_life *l = ctx;

	if (is_it(l, wake->task) && in_life(l, wake->time_ns, wake->time_ns)) {
		l->wakes++;
		l->self_wakes += wake->self;
	}
	return 0;
}

static int on_future_end(void *ctx, struct tl_future *future)
{
	struct task_life *l = ctx;

	if (!is_it(l, future->task) || !in_life(l, future->begin_ns, future->begin_ns))
		return 0;
	if (l->n_futures == MAX_FUTURES) {
		l->more_futures = true;
		return 0;
	}
	if (!GROW(l->futures, l->n_futures, l->futures_cap))
		return -ENOMEM;
	l->futures[l->n_futures++] = (struct task_future){
		.kind = future->kind,
		.round = tl_is_round(future),
		.begin_ns = future->begin_ns,
		.end_ns = future->end_ns,
		.polls = future->n_polls,
		.poll_ns = future->poll_ns,
		.wait_ns = future->wait_ns,
		.outcome = future->outcome,
	};
	return 0;
}

static const struct timeline_sink also = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.wake = on_wake,
	.future_end = on_future_end,
};

static int find_life(void *ctx, const struct index_span *s)
{
	struct task_life *l = ctx;

	if (s->type != SPAN_TASK || s->kind != l->kind || s->task != l->task ||
	    s->begin_ns > l->at_ns || s->end_ns < l->at_ns)
		return 0;
	l->whole = *s;
	l->known = true;
	l->spawn_seen = s->flags & SPAN_SPAWN_SEEN;
	l->ended = !(s->flags & SPAN_OPEN);
	return 0;
}

/* The window around at_ns to read: the whole life, or half of that again and again, until it has
 * few enough events for one answer. */
static int choose_window(const struct task_life *l, struct window *w, bool *ret_whole,
			 struct error *err)
{
	struct index_facts facts;
	uint64_t before, after;

	index_facts(l->v->index, &facts);
	before = l->known ? l->at_ns - l->whole.begin_ns : 2 * facts.exact_ns;
	after = l->known ? l->whole.end_ns - l->at_ns : 2 * facts.exact_ns;
	*ret_whole = true;
	for (;;) {
		uint64_t *offsets;
		size_t n;

		w->from_ns = l->at_ns - facts.base_ns > before ? l->at_ns - before : facts.base_ns;
		w->to_ns =
			facts.end_ns - l->at_ns > after ? l->at_ns + after + 1 : facts.end_ns + 1;
		uint64_t margin =
			w->from_ns > 2 * facts.exact_ns ? w->from_ns - 2 * facts.exact_ns : 0;
		int code = index_chunks(l->v->index, margin, w->to_ns + facts.exact_ns,
					WINDOW_EVENTS, &offsets, &n, err);
		if (code == 0) {
			free(offsets);
			return 0;
		}
		if (code != -E2BIG)
			return code;
		*err = (struct error){0};
		*ret_whole = false;
		/* Even the smallest window has too many: the answer is what the index has. */
		if (before + after < 1000)
			return 0;
		before /= 2;
		after /= 2;
	}
}

/* ---- the answer ---- */

static void write_sums(const struct task_life *l, struct json *j)
{
	uint64_t polls = 0, ns[SPAN_N] = {0};

	for (size_t i = 0; i < l->list.n; i++) {
		const struct index_span *s = &l->list.items[i];

		polls += s->type == SPAN_POLL;
		ns[s->type] += s->end_ns - s->begin_ns;
	}
	json_u64(j, "polls", polls);
	json_u64(j, "wakes", l->wakes);
	json_u64(j, "self_wakes", l->self_wakes);
	json_u64(j, "poll_ns", ns[SPAN_POLL]);
	json_u64(j, "wait_ns", ns[SPAN_WAIT]);
	json_u64(j, "ready_ns", ns[SPAN_READY]);
	json_u64(j, "blocked_ns", ns[SPAN_CALL]);
	json_u64(j, "off_cpu_ns", ns[SPAN_OFF_CPU]);
}

static void write_futures(const struct task_life *l, const struct kind_labels *labels, bool rounds,
			  uint64_t base_ns, struct json *j)
{
	json_array(j, rounds ? "rounds" : "futures");
	for (size_t i = 0; i < l->n_futures; i++) {
		const struct task_future *f = &l->futures[i];

		if (f->round != rounds)
			continue;
		json_object(j, NULL);
		json_string(j, rounds ? "handler" : "name",
			    kind_label(labels, l->v->tables, f->kind));
		json_u64(j, "from", f->begin_ns > base_ns ? f->begin_ns - base_ns : 0);
		if (f->end_ns)
			json_u64(j, "to", f->end_ns - base_ns);
		json_u64(j, "polls", f->polls);
		json_u64(j, "poll_ns", f->poll_ns);
		json_u64(j, "wait_ns", f->wait_ns);
		json_string(j, "outcome", trace_outcome_name(f->outcome));
		json_end_object(j);
	}
	json_end_array(j);
}

/* The tree of the task in one moment; false: it is not in it. */
static bool write_tree(const struct task_life *l, enum moment_when when, struct json *j)
{
	const struct trace_kind *k = trace_reader_kind(l->v->tables, l->kind);
	struct trace_moment m = {0};
	struct tl_moments kinds = {0};
	struct graph g;
	bool found = false;
	char address[32];

	if (!k || trace_reader_moment(l->v->tables, k->process, when, &m, NULL) <= 0)
		return false;
	for (size_t i = 0; i < m.n_tasks && !found; i++) {
		if (tl_moments_kind(&kinds, l->v->tables, k->process, m.tasks[i].kind) != l->kind ||
		    tl_moments_name(l->v->tables, l->kind, &m.tasks[i]) != l->task)
			continue;
		snprintf(address, sizeof(address), "0x%" PRIx64, m.tasks[i].addr);
		found = true;
	}
	if (found && graph_make(&m, &g, NULL) == 0) {
		const char *const tasks[] = {address, NULL};
		struct render_options opt = {.select = {.tasks = tasks, .finished = true}};
		struct buf text = BUF_INIT;

		render_text(&g, &opt, &text);
		if (text.len > MAX_TREE_BYTES)
			text.data[text.len = MAX_TREE_BYTES] = 0;
		json_object(j, "tree");
		json_string(j, "when", when == MOMENT_END ? "end" : "start");
		json_string(j, "text", buf_failed(&text) ? "" : text.data);
		json_end_object(j);
		buf_done(&text);
		graph_done(&g);
	}
	return found;
}

static void write_task(struct task_life *l, bool whole, uint64_t base_ns,
		       struct view_places *places, struct json *j)
{
	uint32_t lane = index_find_lane(l->v->index, IL_FAMILY, l->kind);
	const struct trace_kind *k = trace_reader_kind(l->v->tables, l->kind);
	uint64_t end_ns = l->list.n ? 0 : l->whole.end_ns;
	char text[96];

	for (size_t i = 0; i < l->list.n; i++)
		if (l->list.items[i].end_ns > end_ns)
			end_ns = l->list.items[i].end_ns;
	uint64_t begin_ns = l->known ? l->whole.begin_ns : l->list.items[0].begin_ns;
	if (l->known && l->whole.end_ns != UINT64_MAX)
		end_ns = l->whole.end_ns;
	json_string(j, "task", view_task_id(text, l->kind, l->task));
	json_string(j, "number", view_task_number(text, l->v, places, l->kind, l->task, begin_ns));
	json_u64(j, "family", l->kind);
	if (lane != INDEX_OVERVIEW)
		json_u64(j, "lane", lane);
	json_string(j, "role", trace_role_name(k->role));
	json_u64(j, "from", begin_ns > base_ns ? begin_ns - base_ns : 0);
	json_u64(j, "to", end_ns > base_ns ? end_ns - base_ns : 0);
	json_bool(j, "spawn_seen", l->spawn_seen);
	json_bool(j, "ended", l->ended);
	json_string(j, "outcome", l->ended ? trace_outcome_name(l->whole.outcome) : NULL);
	json_string(j, "parent",
		    l->parent_known ? view_task_id(text, l->parent.kind, l->parent.task) : NULL);
	json_string(j, "site", k->n_sites == 1 ? k->sites[0] : NULL);
	json_bool(j, "whole", whole && l->known);
}

static int read_request(const struct view_source *v, const struct view_request *q,
			struct task_life *l, struct error *err)
{
	const char *id = request_param(q, "id");
	struct index_facts facts;
	uint64_t at = UINT64_MAX;

	if (!id || !view_parse_task(id, &l->kind, &l->task))
		return error_set(err, -EINVAL, "id is a task as slices have it: 5.17");
	if (request_u64(q, "at", &at) < 0 || at == UINT64_MAX)
		return error_set(err, -EINVAL, "at is a time in the task's life");
	index_facts(v->index, &facts);
	if (at > facts.end_ns - facts.base_ns)
		return error_set(err, -EINVAL, "at is after the end of the trace");
	l->v = v;
	l->at_ns = facts.base_ns + at;
	if (!trace_reader_kind(v->tables, l->kind))
		return error_set(err, -ENOENT, "there is no such task");
	return index_spans(v->index, l->at_ns, l->at_ns + 1, find_life, l, err);
}

int answer_task(const struct view_source *v, const struct view_request *q, struct buf *out,
		struct error *err)
{
	struct view_places places = {0};
	struct kind_labels labels;
	struct index_facts facts;
	struct task_life l = {0};
	struct window w = {.slice = take_slice, .also = &also, .ctx = &l};
	bool whole;
	struct json j;

	TRY(read_request(v, q, &l, err));
	TRY(choose_window(&l, &w, &whole, err));
	TRY(slice_read(v, &w, err));
	if (!l.list.n && !l.known)
		return error_set(err, -ENOENT, "there is no such task at that time");
	slice_sort(&l.list);
	index_facts(v->index, &facts);
	if (kind_labels_make(v->tables, &labels) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	json_init(&j, out, false);
	j.shown = true;
	json_object(&j, NULL);
	json_string(&j, "name", kind_label(&labels, v->tables, l.kind));
	write_task(&l, whole && w.exact, facts.base_ns, &places, &j);
	write_sums(&l, &j);
	json_array(&j, "steps");
	for (size_t i = 0; i < l.list.n && i < MAX_STEPS; i++)
		slice_write(v, &l.list.items[i], &places, &j);
	json_end_array(&j);
	json_bool(&j, "more", l.list.n > MAX_STEPS || l.more_futures);
	write_futures(&l, &labels, true, facts.base_ns, &j);
	write_futures(&l, &labels, false, facts.base_ns, &j);
	if (!write_tree(&l, MOMENT_END, &j))
		write_tree(&l, MOMENT_START, &j);
	view_write_places(&places, v->tables, &j);
	json_end_object(&j);
	return 0;
}
