/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Flame graphs of a window: where families wait, by await point from the outermost in, from the index's
 * cells; and what they run, by stack, from its samples.
 */
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 100000u

struct flame_node {
	uint64_t value;
	uint32_t parent, next,
		first;	/* next of its siblings, its first child; 0: none, the root is 0 */
	uint32_t lane;	/* of a family; UINT32_MAX */
	uint64_t place; /* 0: none */
	uint64_t key;
	char *name;
};

struct flame_answer {
	const struct view_source *v;
	struct kind_labels labels;
	struct flame_node *nodes;
	uint32_t n, cap;
	struct map children; /* (parent, key) to index */
	struct view_window window;
	uint32_t lane; /* UINT32_MAX: all families */
};

static struct flame_node *node_at(struct flame_answer *f, uint32_t i)
{
	return &f->nodes[i];
}

/* The child of this key, which `name` (taken) names if it is new. -E2BIG, -ENOMEM; else its index. */
static int64_t child(struct flame_answer *f, uint32_t parent, uint64_t key, char *name)
{
	_cleanup_free_ char *taken = name;
	uintptr_t known = (uintptr_t)map_get(&f->children, parent, key);

	if (known)
		return (int64_t)known;
	if (!taken || !GROW(f->nodes, f->n, f->cap))
		return -ENOMEM;
	if (f->n == MAX_NODES)
		return -E2BIG;
	f->nodes[f->n] = (struct flame_node){
		.parent = parent, .next = f->nodes[parent].first, .lane = UINT32_MAX, .key = key};
	if (map_put(&f->children, parent, key, (void *)(uintptr_t)f->n) < 0)
		return -ENOMEM;
	f->nodes[f->n].name = steal(taken);
	f->nodes[parent].first = f->n;
	return f->n++;
}

/* Adds a value to a node and to those around it. */
static void add_value(struct flame_answer *f, uint32_t i, uint64_t value)
{
	for (;; i = node_at(f, i)->parent) {
		node_at(f, i)->value += value;
		if (!i)
			return;
	}
}

static int64_t family_node(struct flame_answer *f, uint32_t lane)
{
	const struct index_lane *l = index_lane(f->v->index, lane);
	char *name = l && trace_reader_kind(f->v->tables, l->number)
			     ? kind_short(&f->labels, f->v->tables, l->number)
			     : strdup("?");
	int64_t at = child(f, 0, lane, name);

	if (at > 0)
		node_at(f, (uint32_t)at)->lane = lane;
	return at;
}

/* ---- waiting ---- */

static char *place_name(const struct trace_place *p)
{
	struct buf b = BUF_INIT;

	trace_place_text(&b, p);
	return buf_steal(&b);
}

/* The chain of await points, outermost first. */
static int64_t place_node(struct flame_answer *f, uint32_t family, uint64_t place)
{
	uint64_t chain[TRACE_MAX_OUTER];
	unsigned n = 0;
	int64_t at = family;

	for (uint64_t i = place; i && i <= UINT32_MAX && n < TRACE_MAX_OUTER; n++) {
		const struct trace_place *p = trace_reader_place(f->v->tables, (uint32_t)i - 1);
		if (!p)
			break;
		chain[n] = i;
		i = p->outer;
	}
	while (n && at >= 0) {
		const struct trace_place *p =
			trace_reader_place(f->v->tables, (uint32_t)chain[--n] - 1);
		uint64_t key = hash_string(hash_string(p->line, p->function), p->file);

		at = child(f, (uint32_t)at, key, place_name(p));
		if (at > 0)
			node_at(f, (uint32_t)at)->place = chain[n];
	}
	const struct trace_place *p =
		at == family ? NULL : trace_reader_place(f->v->tables, (uint32_t)place - 1);
	if (at >= 0 && p && p->awaits && *p->awaits)
		at = child(f, (uint32_t)at, hash_string(0, p->awaits), strdup(p->awaits));
	return at == family ? child(f, family, 0, strdup("unknown")) : at;
}

static int add_waiting(struct flame_answer *f, uint32_t lane, struct error *err)
{
	struct index_series_name name;
	uint32_t pos = 0;

	while (index_next_series(f->v->index, lane, &pos, &name)) {
		uint64_t value = 0;
		int64_t at;

		if (name.what != IX_WAITING)
			continue;
		TRY(view_sum(f->v, &f->window, name.number, false, &value, err));
		if (!value)
			continue;
		at = family_node(f, lane);
		if (at > 0)
			at = place_node(f, (uint32_t)at, name.place);
		if (at < 0)
			return error_sys(err, (int)at, "the flame graph is too large");
		add_value(f, (uint32_t)at, value);
	}
	return 0;
}

/* ---- CPU ---- */

static char *frame_name(const struct trace_frame *frame)
{
	struct buf b = BUF_INIT;

	trace_frame_name(&b, frame);
	return buf_steal(&b);
}

static int64_t stack_node(struct flame_answer *f, int64_t at, uint64_t stack)
{
	uint32_t frames[TRACE_STACK_FRAMES];
	unsigned n = 0;

	for (uint64_t i = stack; i && i <= UINT32_MAX && n < TRACE_STACK_FRAMES;) {
		const struct trace_stack *s = trace_reader_stack(f->v->tables, (uint32_t)i - 1);
		if (!s)
			break;
		frames[n++] = s->frame;
		i = s->parent;
	}
	while (n && at >= 0) {
		const struct trace_frame *frame = trace_reader_frame(f->v->tables, frames[--n]);
		char *name = frame_name(frame);

		at = child(f, (uint32_t)at, name ? hash_string(1, name) : 0, name);
	}
	return at;
}

static int take_sample(void *ctx, const struct index_span *span)
{
	struct flame_answer *f = ctx;
	uint32_t lane = span->kind == TRACE_KIND_NONE
				? UINT32_MAX
				: index_find_lane(f->v->index, IL_FAMILY, span->kind);
	int64_t at;

	if (f->lane != UINT32_MAX && lane != f->lane)
		return 0;
	at = lane == UINT32_MAX ? child(f, 0, UINT32_MAX, strdup("outside of tasks"))
				: family_node(f, lane);
	if (at > 0)
		at = stack_node(f, at, span->what);
	if (at < 0)
		return (int)at;
	add_value(f, (uint32_t)at, span->since_ns);
	return 0;
}

/* ---- all ---- */

static int by_value(const void *a, const void *b)
{
	const struct flame_node *const *x = a, *const *y = b;

	return DESCENDING((*x)->value, (*y)->value) ?: strcmp((*x)->name, (*y)->name);
}

static int write_node(const struct flame_answer *f, uint32_t i, struct json *j)
{
	const struct flame_node *node = &f->nodes[i];
	_cleanup_free_ const struct flame_node **children = NULL;
	size_t n = 0, cap = 0;

	for (uint32_t c = node->first; c; c = f->nodes[c].next) {
		if (!GROW(children, n, cap))
			return -ENOMEM;
		children[n++] = &f->nodes[c];
	}
	if (n)
		qsort(children, n, sizeof(*children), by_value);
	if (node->lane != UINT32_MAX)
		json_u64(j, "lane", node->lane);
	if (node->place)
		json_u64(j, "place", node->place);
	json_u64(j, "value", node->value);
	json_array(j, "children");
	for (size_t k = 0; k < n; k++) {
		json_object(j, NULL);
		json_string(j, "name", children[k]->name);
		TRY(write_node(f, (uint32_t)(children[k] - f->nodes), j));
		json_end_object(j);
	}
	json_end_array(j);
	return 0;
}

static int make_waiting(struct flame_answer *f, struct error *err)
{
	const struct index_lane *l;

	for (uint32_t i = 0; (l = index_lane(f->v->index, i)); i++)
		if (l->type == IL_FAMILY && (f->lane == UINT32_MAX || f->lane == i))
			TRY(add_waiting(f, i, err));
	return 0;
}

static int make_cpu(struct flame_answer *f, struct error *err)
{
	int code =
		index_samples(f->v->index, f->window.from_ns, f->window.to_ns, take_sample, f, err);

	return code == -E2BIG ? error_set(err, code, "the flame graph is too large") : code;
}

int answer_flame(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err)
{
	const char *kind = request_param(q, "kind");
	bool cpu = kind && !strcmp(kind, "cpu");
	struct flame_answer f = {.v = v, .lane = UINT32_MAX};
	uint64_t lane = UINT64_MAX;
	struct json j;

	if (kind && !cpu && strcmp(kind, "waiting") != 0)
		return error_set(err, -EINVAL, "kind is waiting or cpu");
	TRY(view_window(v, q, &f.window, err));
	if (request_u64(q, "lane", &lane) < 0)
		return error_set(err, -EINVAL, "lane is the id of a lane");
	if (lane != UINT64_MAX) {
		if (lane >= UINT32_MAX || !index_lane(v->index, (uint32_t)lane))
			return error_set(err, -ENOENT, "there is no such lane");
		f.lane = (uint32_t)lane;
	}
	if (kind_labels_make(v->tables, &f.labels) < 0 || !GROW(f.nodes, f.n, f.cap))
		return error_set(err, -ENOMEM, "out of memory");
	f.nodes[f.n++] = (struct flame_node){.lane = UINT32_MAX};
	TRY(cpu ? make_cpu(&f, err) : make_waiting(&f, err));
	json_init(&j, out, false);
	j.shown = true;
	json_object(&j, NULL);
	json_string(&j, "name", cpu ? "cpu" : "waiting");
	json_string(&j, "unit", "ns");
	if (write_node(&f, 0, &j) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	json_end_object(&j);
	return 0;
}
