/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The compiler of layout programs. Types become nodes, breadth first: a coroutine, or another enum
 * that holds one, is a node with a step per state; everything between two of them is an offset.
 *
 *     state of A ──▶ step 3: point "src/main.rs:15", then 24 bytes on: state of B ──▶ ...
 *
 * A node is made once per type, and once more if a coroutine of the program is above it. Whatever
 * the debug information says, no step leads out of the type that it starts from: sizes and offsets
 * are compared on the way, so the agent stays within the cell.
 */
#include "future/program.h"

#include "agent/ring.h"
#include "base/map.h"
#include "base/vec.h"
#include "binary/names.h"
#include "future/await.h"
#include "future/future_path.h"
#include "future/wrapper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_STATES = 2048, /* of one type */
	ALIGN_DEPTH = 3,
	NODE_WORDS = sizeof(struct agent_node) / 8,
};

/* Nodes of what was awaited, when that is over. */
enum left {
	NOT_LEFT,   /* the usual ones */
	LEFT,	    /* what isn't in an enum any more was ready */
	LEFT_ALONE, /* of a coroutine: of what is in it nothing is left */
};

struct node {
	const struct dw_type *type;
	bool inside;		     /* below a coroutine of the program */
	uint32_t below;		     /* as place_point.hooked_parent */
	enum pointer_policy through; /* in it */
	bool beside;		     /* as place_point.concurrent */
	enum left left;
	uint16_t at;
};

struct compiler {
	struct debug *d;
	struct program *out;
	enum program_mode mode;
	const struct map *hooked;   /* types, NULL: none */
	const struct dw_type *self; /* what the program begins with */
	bool follows;		    /* pointers */
	struct map futures;	    /* (ref of a coroutine, 0) -> index in out->futures + 1 */
	unsigned first;
	struct node *nodes;
	size_t n_nodes, n_filled, cap_nodes;
};

/* ---- nodes ---- */

static struct agent_node *node_at(const struct compiler *c, uint16_t at)
{
	return (struct agent_node *)&c->out->words[at];
}

/* The states of a type as a range of values; false: it can't be a node. */
static bool states_of(const struct dw_type *t, uint64_t *base, uint32_t *n)
{
	uint64_t lowest = UINT64_MAX, highest = 0;
	uint32_t size = t->discr_size;

	if ((size != 1 && size != 2 && size != 4 && size != 8) || t->discr_offset > t->size ||
	    size > t->size - t->discr_offset)
		return false;
	for (size_t i = 0; i < t->n_variants; i++) {
		const struct dw_variant *v = &t->variants[i];

		if (v->is_default)
			continue;
		lowest = v->value < lowest ? v->value : lowest;
		highest = v->value > highest ? v->value : highest;
	}
	*base = lowest <= highest ? lowest : 0;
	*n = lowest <= highest ? (uint32_t)(highest - lowest + 1) : 0;
	return lowest > highest || highest - lowest < MAX_STATES;
}

/* Words at the program's end, zeroed. */
static int add_words(struct program *p, size_t n)
{
	if (!GROW(p->words, p->n_words + n, p->cap_words))
		return -ENOMEM;
	memset(p->words + p->n_words, 0, n * sizeof(*p->words));
	p->n_words += n;
	return 0;
}

/* A node with n steps at the program's end. -ENOMEM, -E2BIG. */
static int new_node(struct compiler *c, uint64_t base, size_t n, uint32_t size, uint16_t *ret_at)
{
	size_t at = c->out->n_words;
	int r;

	if (at + NODE_WORDS + n + 1 > UINT16_MAX)
		return -E2BIG;
	r = add_words(c->out, NODE_WORDS + n + 1);
	if (r < 0)
		return r;
	struct agent_node *node = node_at(c, (uint16_t)at);
	node->base = base;
	node->n = (uint32_t)n;
	node->size = size;
	*ret_at = (uint16_t)at;
	return 0;
}

static bool same_node(const struct node *a, const struct node *b)
{
	return a->type == b->type && a->inside == b->inside && a->below == b->below &&
	       a->through == b->through && a->beside == b->beside && a->left == b->left;
}

/* Index of the node of what a way ends at, made if need be; 0: it can't be one. -ENOMEM, -E2BIG. */
static int node_of(struct compiler *c, const struct future_path *w, bool inside, enum left left,
		   uint16_t *ret_at)
{
	bool pointer = w->type->class == DC_POINTER, coroutine = dw_is_coroutine(w->type);
	struct node node = {.type = w->type,
			    .inside = inside,
			    .below = w->below,
			    .through = coroutine && w->through ? POINTERS_BORROWED : w->through,
			    .beside = w->beside,
			    .left = coroutine && left == LEFT ? NOT_LEFT : left};
	uint64_t base = 0;
	uint32_t n = 0;
	int r;

	*ret_at = 0;
	for (size_t i = 0; i < c->n_nodes; i++) {
		if (same_node(&c->nodes[i], &node)) {
			*ret_at = c->nodes[i].at;
			return 0;
		}
	}
	if (!pointer && !states_of(w->type, &base, &n))
		return 0;
	if (!GROW(c->nodes, c->n_nodes, c->cap_nodes))
		return -ENOMEM;
	r = new_node(c, base, n, pointer ? AGENT_POINTER : w->type->discr_size, &node.at);
	if (r < 0)
		return r;
	c->nodes[c->n_nodes++] = node;
	*ret_at = node.at;
	return 0;
}

/* ---- places ---- */

/* Not the program's own: from a registry, from git, the standard library. */
static bool in_library(const char *file)
{
	return file && (strstr(file, "/registry/src/") || strstr(file, "/git/checkouts/") ||
			await_starts(file, "/rustc/") || strstr(file, "/lib/rustlib/"));
}

/* Adds the place of an await point: the number of the point, 0 if there are too many. */
static int add_place(struct compiler *c, const struct trace_place *place,
		     const struct place_point *info, uint16_t *ret_point)
{
	struct program *p = c->out;

	*ret_point = 0;
	if (c->first + p->n_places > AGENT_MAX_POINTS)
		return -E2BIG;
	if (!GROW(p->places, p->n_places, p->cap_places))
		return -ENOMEM;
	if (c->mode != PROGRAM_POINT) {
		if (!GROW_ONE(p->points, p->n_places))
			return -ENOMEM;
		p->points[p->n_places] = *info;
	}
	p->places[p->n_places] = *place;
	*ret_point = (uint16_t)(c->first + p->n_places++);
	return 0;
}

/* The coroutine as a future of its own: its index. */
static int add_future(struct compiler *c, const struct dw_type *t, uint32_t *ret_index)
{
	struct program *p = c->out;
	uintptr_t known = (uintptr_t)map_get(&c->futures, t->ref, 0);
	struct place_future f = {.size = t->size};

	*ret_index = (uint32_t)known - 1;
	if (known)
		return 0;
	if (!GROW(p->futures, p->n_futures, p->cap_futures))
		return -ENOMEM;
	f.type_kind = future_path_hooked_parent(c->hooked, t, 0);
	f.name = name_shorten(t->full);
	f.full_name = strdup(t->full);
	f.where = dw_coroutine_where(t);
	*ret_index = (uint32_t)p->n_futures;
	p->futures[p->n_futures++] = f;
	return f.name && f.full_name
		       ? map_put(&c->futures, t->ref, 0, (void *)(uintptr_t)p->n_futures)
		       : -ENOMEM;
}

/* A point that is no place: that a coroutine has returned, a pointer. */
static int add_mark(struct compiler *c, const struct dw_type *future, struct place_point *info,
		    uint16_t *ret_point)
{
	int r = 0;

	info->future = PLACE_NO_FUTURE;
	if (future) {
		info->size = future->size;
		r = add_future(c, future, &info->future);
	}
	return r == 0 ? add_place(c, &(struct trace_place){0}, info, ret_point) : r;
}

struct await {
	const struct dw_type *awaited;
	const char *file, *macro;
	uint32_t line;
	bool goes_on, own;
	enum ready_proof proof;
};

static bool is_self(const struct compiler *c, const struct node *n)
{
	return n->type == c->self && !n->below;
}

static int place_of(struct compiler *c, const struct node *n, const struct await *a,
		    uint16_t *ret_point)
{
	const struct dw_type *t = n->type;
	struct place_point info = {
		.kind = POINT_AWAIT,
		.proof = a->proof,
		.state_offset = (int64_t)t->discr_offset,
		.size = t->size,
		.hooked_parent = n->below,
		.own = a->own,
		.self = is_self(c, n),
		.concurrent = n->beside,
	};
	char *function = name_shorten(t->full), *copy = strdup(a->file ? a->file : "");
	char *awaits = a->macro ? strdup(a->macro) : name_shorten(a->awaited->full);
	struct trace_place place = {
		.function = function, .file = copy, .line = a->line, .awaits = awaits};
	int r = -ENOMEM;

	if (!a->goes_on && !await_is_leaf(a->awaited) && await_can_hold(c->d, a->awaited))
		place.flags |= TRACE_PLACE_BRANCHES;
	if (function && copy && awaits)
		r = c->mode != PROGRAM_POINT ? add_future(c, t, &info.future) : 0;
	if (r == 0)
		r = add_place(c, &place, &info, ret_point);
	if (r < 0) {
		free(function);
		free(copy);
		free(awaits);
	}
	return r;
}

/* ---- steps ---- */

/* The step from `from` on to where the way goes, within what both are counted from. */
static int step_on(struct compiler *c, uint64_t from, struct future_path w, bool inside,
		   enum left left, struct agent_step *step)
{
	int r;

	if (!future_path_single(c->d, c->hooked, &w))
		return 0;
	r = node_of(c, &w, inside, left, &step->next);
	int64_t delta = (int64_t)(w.at + w.type->discr_offset - from);
	if (delta != (int32_t)delta)
		step->next = 0;
	step->delta = step->next ? (int32_t)delta : 0;
	return r;
}

/* A node that leads to several, each seen from the state at `from`. */
static int step_apart(struct compiler *c, uint64_t from, const struct future_path *ways, size_t n,
		      const enum left *left, bool inside, uint64_t base, uint16_t *ret_at)
{
	int r = new_node(c, base, n, 0, ret_at);

	for (size_t i = 0; i < n && r == 0; i++) {
		struct agent_step one = {0};

		r = step_on(c, from, ways[i], inside, left ? left[i] : NOT_LEFT, &one);
		node_at(c, *ret_at)->steps[i] = one;
	}
	return r;
}

/* The same for one way or several. */
static int step_down(struct compiler *c, uint64_t from, const struct future_path *w, bool inside,
		     enum left left, struct agent_step *step)
{
	struct future_path ways[FUTURE_PATHS_MAX];
	enum left all[FUTURE_PATHS_MAX];
	size_t n = 0;
	int r = step_on(c, from, *w, inside, left, step);

	if (r < 0 || step->next || c->mode == PROGRAM_POINT)
		return r;
	r = future_path_find_all(c->d, c->hooked, w, ways, &n);
	if (r < 0 || !n)
		return r == -E2BIG ? 0 : r;
	for (size_t i = 0; i < n; i++)
		all[i] = left;
	return step_apart(c, from, ways, n, all, inside, 0, &step->next);
}

/* ---- what was left ---- */

static bool overlap(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

/* The size that a member takes at least: a declaration's isn't known. */
static uint64_t size_of(const struct dw_type *t)
{
	return !t || t->declaration ? 1 : t->class == DC_POINTER ? 16 : t->size;
}

static bool has_member(const struct dw_type *t, const struct dw_member *m, uint64_t at)
{
	for (size_t i = 0; t && i < t->n_members; i++)
		if (t->members[i].offset == at && t->members[i].type_ref == m->type_ref &&
		    !strcmp(t->members[i].name, m->name))
			return true;
	return false;
}

/* Whether a part of a coroutine is used only in that state: then it keeps its content after the
 * coroutine has moved on. */
static bool is_alone(struct debug *d, const struct dw_type *t, const struct dw_variant *in,
		     uint64_t at, uint64_t size)
{
	const struct dw_type *mine = dw_member_type(d, &in->member);

	if (overlap(at, size, t->discr_offset, t->discr_size))
		return false;
	for (size_t i = 0; i < t->n_variants; i++) {
		const struct dw_variant *v = &t->variants[i];
		const struct dw_type *state = dw_member_type(d, &v->member);

		if (v == in)
			continue;
		if (!state)
			return false;
		for (size_t k = 0; k < state->n_members; k++) {
			const struct dw_member *m = &state->members[k];
			uint64_t offset = v->member.offset + m->offset;

			if (overlap(at, size, offset, size_of(dw_member_type(d, m))) &&
			    !has_member(mine, m, offset - in->member.offset))
				return false;
		}
	}
	return true;
}

/*
 * What an await point may drop when it is over still shows afterwards how it ended, as long as its
 * memory is not reused: a coroutine is in its old state, or has returned; the same holds for enums
 * that hold one until it is ready. If only the state of a coroutine is unchanged, that is proof for
 * this coroutine only.
 */
static int add_left(struct compiler *c, const struct node *n, const struct dw_variant *v,
		    const struct future_path *held, struct agent_step *step)
{
	const struct dw_type *t = n->type;
	struct future_path by_value = *held, ways[FUTURE_PATHS_MAX];
	enum left lefts[FUTURE_PATHS_MAX];
	size_t n_ways = 0, n_alone = 0;
	uint16_t left, apart;
	int r;

	by_value.through = POINTERS_NONE;
	r = future_path_find_all(c->d, c->hooked, &by_value, ways, &n_ways);
	if (r < 0)
		return r == -E2BIG ? 0 : r;
	for (size_t i = 0; i < n_ways; i++) {
		const struct dw_type *one = ways[i].type;
		bool coroutine = dw_is_coroutine(one);

		if ((coroutine || wrapper_holds_until_ready(one)) &&
		    is_alone(c->d, t, v, ways[i].at, one->size))
			lefts[n_alone] = LEFT;
		else if (coroutine &&
			 is_alone(c->d, t, v, ways[i].at + one->discr_offset, one->discr_size))
			lefts[n_alone] = LEFT_ALONE;
		else
			continue;
		ways[n_alone++] = ways[i];
	}
	if (!n_alone || !step->next)
		return 0;
	r = step_apart(c, t->discr_offset, ways, n_alone, lefts, n->inside, v->value, &left);
	if (r < 0)
		return r;
	if (node_at(c, step->next)->size) {
		r = new_node(c, 0, 1, 0, &apart);
		if (r < 0)
			return r;
		node_at(c, apart)->steps[0] = *step;
		*step = (struct agent_step){.next = apart};
	}
	node_at(c, step->next)->base = left;
	return 0;
}

/* The one coroutine that an enum holds, and where it begins in that. */
static const struct dw_type *held_by(struct compiler *c, const struct dw_type *t, uint64_t *ret_at)
{
	struct future_path w = {.type = t};

	for (unsigned depth = 0; depth < 8 && !dw_is_coroutine(w.type); depth++) {
		const struct dw_variant *one = NULL;

		for (size_t i = 0; i < w.type->n_variants; i++) {
			const struct dw_variant *v = &w.type->variants[i];

			if (!future_path_exists(c->d, dw_member_type(c->d, &v->member),
						POINTERS_NONE))
				continue;
			if (one)
				return NULL;
			one = v;
		}
		if (!one)
			return NULL;
		w.at += one->member.offset;
		w.type = dw_member_type(c->d, &one->member);
		if (!future_path_single(c->d, NULL, &w))
			return NULL;
	}
	*ret_at = w.at;
	return dw_is_coroutine(w.type) ? w.type : NULL;
}

/* ---- nodes' steps ---- */

/* What is polled at an await point: tokio's macros keep it in a variable of its own. */
static struct future_path held_at(struct compiler *c, const struct node *n,
				  const struct dw_type *state, uint64_t state_at,
				  const struct dw_member *awaitee, const char *macro)
{
	struct future_path w = {.type = dw_member_type(c->d, awaitee),
				.at = state_at + awaitee->offset,
				.below = n->below,
				.through = n->through};

	for (size_t i = 0; macro && i < state->n_members; i++) {
		const struct dw_member *m = &state->members[i];
		const struct dw_type *type = dw_member_type(c->d, m);

		/* There may be a reference of the same name. */
		if (!strcmp(m->name, "futures") && future_path_is_within(state, m, type) &&
		    type->class != DC_POINTER && future_path_exists(c->d, type, w.through)) {
			w.type = type;
			w.at = state_at + m->offset;
		}
	}
	return w;
}

/* What was awaited need not have been ready when a select! goes on, nor all of it when a try_join!
 * does. */
static enum ready_proof proof_of(struct compiler *c, const struct future_path *held,
				 const char *macro)
{
	if (!macro)
		return future_path_keeps(c->d, held->type, held->through) ? READY_IF_MOVED_ON
									  : READY_UNPROVEN;
	return !strcmp(macro, "select!") ? READY_UNPROVEN
	       : !strcmp(macro, "join!") ? READY_IF_MOVED_ON
					 : READY_IF_GONE;
}

/* A suspended state of a coroutine. */
static int fill_await(struct compiler *c, const struct node *n, const struct dw_variant *v,
		      struct agent_step *step)
{
	const struct dw_type *t = n->type, *state = dw_member_type(c->d, &v->member);
	const struct dw_member *awaitee = dw_find_member(state, "__awaitee");
	struct await a = {.awaited = dw_member_type(c->d, awaitee),
			  .file = v->member.file,
			  .line = v->member.line};
	bool inside;
	int r;

	a.macro = await_macro(a.file, a.line);
	if (!awaitee || !future_path_is_within(t, &v->member, state) ||
	    !future_path_is_within(state, awaitee, a.awaited))
		return 0;
	if (a.macro)
		debug_await_place(c->d, t, awaitee->type_ref, &a.file, &a.line);
	bool library = in_library(a.file);
	inside = n->inside || !library;
	a.own = !(library && n->inside);
	struct future_path held = held_at(c, n, state, v->member.offset, awaitee,
					  c->mode != PROGRAM_POINT ? a.macro : NULL);
	r = step_down(c, t->discr_offset, &held, inside, NOT_LEFT, step);
	a.goes_on = step->next && agent_node_state(node_at(c, step->next));
	a.proof = proof_of(c, &held, a.macro);
	if (r == 0 && c->mode != PROGRAM_POINT && is_self(c, n) && a.proof < READY_IF_MOVED_ON) {
		struct node inner = *n;

		inner.inside = inside;
		r = add_left(c, &inner, v, &held, step);
	}
	if (r < 0 || (!a.own && c->mode == PROGRAM_POINT))
		return r;
	return place_of(c, n, &a, &step->point);
}

static int fill_coroutine(struct compiler *c, const struct node *n, const struct dw_variant *v,
			  struct agent_step *step)
{
	struct place_point info = {.kind = POINT_RETURNED,
				   .state_offset = (int64_t)n->type->discr_offset,
				   .hooked_parent = n->below};

	/* 0 not polled yet, 1 returned, 2 panicked */
	if (v->value > 2 && !v->is_default && n->left == LEFT_ALONE) {
		info.kind = POINT_OPAQUE;
		return add_mark(c, n->type, &info, &step->point);
	}
	if (v->value > 2 && !v->is_default)
		return fill_await(c, n, v, step);
	if (v->value == 1 && c->mode != PROGRAM_POINT && !is_self(c, n))
		return add_mark(c, n->type, &info, &step->point);
	return 0;
}

static int fill_enum(struct compiler *c, const struct node *n, const struct dw_variant *v,
		     struct agent_step *step)
{
	const struct dw_type *t = n->type, *inner = dw_member_type(c->d, &v->member), *future;
	const struct future_path w = {.type = inner,
				      .at = v->member.offset,
				      .below = n->below,
				      .through = n->through,
				      .beside = n->beside};
	uint64_t at;

	if (future_path_is_within(t, &v->member, inner) &&
	    future_path_exists(c->d, inner, n->through))
		return step_down(c, t->discr_offset, &w, n->inside, n->left, step);
	if (n->left == NOT_LEFT || !wrapper_holds_until_ready(t) || !(future = held_by(c, t, &at)))
		return 0;
	return add_mark(c, future,
			&(struct place_point){.kind = POINT_RETURNED,
					      .state_offset = (int64_t)(t->discr_offset - at),
					      .hooked_parent = n->below},
			&step->point);
}

/* The bits that are 0 in the address of such a type, as far as its members show. */
static uint32_t zero_bits(struct debug *d, const struct dw_type *t, unsigned depth)
{
	uint32_t bits = 0;

	if (!t || t->declaration || depth > ALIGN_DEPTH)
		return 0;
	switch (t->class) {
	case DC_POINTER:
		return 7;
	case DC_BASE:
		return t->size == 2 || t->size == 4 || t->size == 8 ? (uint32_t)t->size - 1 : 0;
	case DC_ARRAY:
		return zero_bits(d, dw_type_of(d, t->target_ref), depth + 1);
	case DC_STRUCT:
		break;
	default:
		return 0;
	}
	if (t->has_variants && (t->discr_size == 2 || t->discr_size == 4 || t->discr_size == 8))
		bits = t->discr_size - 1;
	for (size_t i = 0; i < t->n_members + t->n_variants; i++) {
		const struct dw_member *m =
			i < t->n_members ? &t->members[i] : &t->variants[i - t->n_members].member;
		uint32_t inner = zero_bits(d, dw_member_type(d, m), depth + 1);

		if (!(m->offset & inner))
			bits |= inner;
	}
	return t->size & bits ? 0 : bits; /* packed */
}

static int fill_pointer(struct compiler *c, const struct node *n)
{
	const struct dw_type *target = dw_type_of(c->d, n->type->target_ref);
	struct place_point info = {
		.kind = await_starts(n->type->name, "&mut ") ? POINT_BORROW : POINT_BOX,
		.size = size_of(target),
		.hooked_parent = n->below,
	};
	const struct future_path w = {
		.type = target, .below = n->below, .through = n->through, .beside = n->beside};
	struct agent_step step = {0};
	uint16_t point;
	int r = add_mark(c, NULL, &info, &point);

	if (r == 0)
		r = step_down(c, 0, &w, n->inside, NOT_LEFT, &step);
	if (r < 0)
		return r;
	node_at(c, n->at)->base = point;
	node_at(c, n->at)->n = zero_bits(c->d, target, 0);
	node_at(c, n->at)->steps[0] = step;
	return 0;
}

static int fill(struct compiler *c, size_t i)
{
	const struct node n = c->nodes[i]; /* the array moves */
	bool coroutine = dw_is_coroutine(n.type);

	if (n.type->class == DC_POINTER)
		return fill_pointer(c, &n);
	for (size_t k = 0; k < n.type->n_variants; k++) {
		const struct dw_variant *v = &n.type->variants[k];
		struct agent_step step = {0};
		int r = coroutine ? fill_coroutine(c, &n, v, &step) : fill_enum(c, &n, v, &step);

		if (r < 0)
			return r;
		struct agent_node *node = node_at(c, n.at);
		node->steps[v->is_default ? node->n : v->value - node->base] = step;
	}
	return 0;
}

/* The first step. What lies in the future itself is in no other whose polls are hooked. */
static int step_root(struct compiler *c, const struct future_cell *cell, struct agent_step *step)
{
	struct future_path w = {.type = cell->future,
				.at = cell->offset,
				.through = c->follows ? POINTERS_BORROWED : POINTERS_NONE};
	int r;

	if (!future_path_single(c->d, c->hooked, &w))
		return 0;
	if (c->self && w.below == future_path_hooked_parent(c->hooked, c->self, 0))
		w.below = 0;
	/* Of a future written by hand what has become of what it holds is asked of the whole. */
	r = node_of(c, &w, false, c->self ? LEFT : NOT_LEFT, &step->next);
	int64_t delta = (int64_t)(w.at + w.type->discr_offset);
	if (delta != (int32_t)delta)
		step->next = 0;
	step->delta = step->next ? (int32_t)delta : 0;
	return r;
}

int program_compile(struct debug *d, const struct future_cell *cell, enum program_mode mode,
		    const struct map *hooked, unsigned first, struct program *ret)
{
	struct compiler c = {.d = d,
			     .hooked = hooked,
			     .out = ret,
			     .mode = mode,
			     .first = first,
			     /* a task's is not polled by a function that is hooked as a future's */
			     .self = cell->offset ? NULL : cell->future};
	struct agent_step root = {0};
	int r;

	/* A coroutine's poll function belongs to it only: its argument is of its type. */
	c.follows = mode == PROGRAM_FUTURES && c.self && dw_is_coroutine(c.self);
	*ret = (struct program){0};
	if (cell->size && cell->offset + cell->future->size > cell->size)
		return 0;
	r = add_words(ret, 1);
	if (r == 0)
		r = step_root(&c, cell, &root);
	if (r == 0)
		memcpy(ret->words, &root, sizeof(root));
	for (size_t i = 0; r == 0 && i < c.n_nodes; i++)
		r = fill(&c, i);
	free(c.nodes);
	map_done(&c.futures);
	if (r < 0 || !ret->n_places)
		program_done(ret);
	return r;
}

void program_done(struct program *p)
{
	for (size_t i = 0; i < p->n_places; i++) {
		free((char *)p->places[i].function);
		free((char *)p->places[i].file);
		free((char *)p->places[i].awaits);
	}
	for (size_t i = 0; i < p->n_futures; i++) {
		free((char *)p->futures[i].name);
		free((char *)p->futures[i].full_name);
		free((char *)p->futures[i].where);
	}
	free(p->futures);
	free(p->points);
	free(p->places);
	free(p->words);
	*p = (struct program){0};
}
