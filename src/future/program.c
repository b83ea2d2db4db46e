/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The compiler of layout programs. Types become nodes, breadth first: a coroutine, or another enum
 * that holds one, is a node with a step per state; everything between two of them is an offset.
 *
 *     state of A ──▶ step 3: point "src/main.rs:15", then 24 bytes on: state of B ──▶ ...
 *
 * A node is made once per type, and once more if a coroutine of the program is above it; in a program
 * of chains once for each await point that leads to it. Whatever
 * the debug information says, no step leads out of the type that it starts from: sizes and offsets
 * are compared on the way, so the agent stays within the cell.
 */
#include "future/program.h"

#include "agent/ring.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/text.h"
#include "base/vec.h"
#include "binary/names.h"
#include "future/await.h"
#include "future/future_path.h"
#include "future/resource.h"
#include "future/wrapper.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_STATES = 2048, /* of one type */
	ALIGN_DEPTH = 3,
	OWN_DEPTH = 64,
	NODE_WORDS = sizeof(struct agent_node) / 8,
};

struct program_node {
	const struct dw_type *type;
	bool inside;		     /* below a coroutine of the program */
	uint32_t hooked_parent;	     /* as place_point.hooked_parent */
	enum pointer_policy through; /* in it */
	bool concurrent;	     /* as place_point.concurrent */
	enum ready_proof proof;	     /* as place_point.proof */
	bool shows_ready; /* an enum from which what was held until it was ready is gone */
	uint32_t outer;	  /* of chains: 1 + index of the place that it is awaited at */
	bool pointed;	  /* it is reached through a pointer */
	uint16_t offset;
};

struct compiler {
	struct debug *d;
	struct program *out;
	enum program_mode mode;
	const struct map *hooked;   /* types, NULL: none */
	const char *const *own;	    /* see program_compile() */
	const struct dw_type *self; /* what the program begins with */
	bool follows;		    /* pointers */
	bool connection;	    /* program.serves */
	uint32_t outer;		    /* as node.outer, of nodes that are made now */
	bool pointed;		    /* the same */
	struct map owns;	    /* (ref of a type, 0) -> holds_own() */
	struct map futures;	    /* (ref of a coroutine, 0) -> index in out->futures + 1 */
	unsigned first;
	struct program_node *nodes;
	size_t n_nodes, n_filled, cap_nodes;
};

/* Whether each future is listed, not one chain of them. */
static bool lists(const struct compiler *c)
{
	return c->mode == PROGRAM_BY_VALUE || c->mode == PROGRAM_FUTURES;
}

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

/* A node with n + 1 steps at the program's end. -ENOMEM, -E2BIG. */
static int new_node(struct compiler *c, enum agent_node_kind kind, uint32_t n, uint16_t *ret_at)
{
	size_t at = c->out->n_words;
	int r;

	if (at + NODE_WORDS + n + 1 > UINT16_MAX)
		return -E2BIG;
	r = add_words(c->out, NODE_WORDS + n + 1);
	if (r < 0)
		return r;
	node_at(c, (uint16_t)at)->kind = (uint8_t)kind;
	node_at(c, (uint16_t)at)->n = n;
	*ret_at = (uint16_t)at;
	return 0;
}

static bool same_node(const struct program_node *a, const struct program_node *b)
{
	return a->type == b->type && a->inside == b->inside &&
	       a->hooked_parent == b->hooked_parent && a->through == b->through &&
	       a->concurrent == b->concurrent && a->proof == b->proof &&
	       a->shows_ready == b->shows_ready && a->outer == b->outer && a->pointed == b->pointed;
}

/* Index of the node of what a way ends at, made if need be; 0: it can't be one. -ENOMEM, -E2BIG. */
static int node_of(struct compiler *c, const struct future_path *w, bool inside, bool shows_ready,
		   uint16_t *ret_at)
{
	bool pointer = w->type->class == DC_POINTER, coroutine = dw_is_coroutine(w->type);
	struct program_node node = {.type = w->type,
				    .inside = inside,
				    .hooked_parent = w->hooked_parent,
				    .through = coroutine && w->through ? POINTERS_BORROWED
								       : w->through,
				    .concurrent = w->concurrent,
				    .proof = w->proof,
				    .outer = c->outer,
				    .pointed = c->pointed,
				    .shows_ready = shows_ready && !coroutine};
	uint64_t base = 0;
	uint32_t n = 0;
	int r;

	*ret_at = 0;
	for (size_t i = 0; i < c->n_nodes; i++) {
		if (same_node(&c->nodes[i], &node)) {
			*ret_at = c->nodes[i].offset;
			return 0;
		}
	}
	if (!pointer && !states_of(w->type, &base, &n))
		return 0;
	if (!GROW(c->nodes, c->n_nodes, c->cap_nodes))
		return -ENOMEM;
	r = new_node(c, pointer ? NODE_POINTER : NODE_STATE, n, &node.offset);
	if (r < 0)
		return r;
	node_at(c, node.offset)->base = base;
	node_at(c, node.offset)->size = pointer ? 0 : (uint8_t)w->type->discr_size;
	c->nodes[c->n_nodes++] = node;
	*ret_at = node.offset;
	return 0;
}

/* ---- places ---- */

/* Whether a coroutine is not the program's own: from a registry, from git, the standard library; or of
 * none of the crates that the user names as the program's own. */
static bool in_library(const struct compiler *c, const struct dw_type *t, const char *file)
{
	size_t len;
	const char *crate = c->own ? trace_crate_of(t->full_name, &len) : NULL;

	if (!c->own)
		return file && text_library_file(file);
	for (const char *const *own = c->own; crate && *own; own++)
		if (strlen(*own) == len && !memcmp(*own, crate, len))
			return false;
	return true;
}

/* Adds the place of an await point: the number of the point, 0 if there are too many. */
static int add_place(struct compiler *c, const struct trace_place *place,
		     const struct place_point *info, struct place_link link, uint16_t *ret_point)
{
	struct program *p = c->out;

	*ret_point = 0;
	if (c->first + p->n_places >
	    (c->mode == PROGRAM_CHAIN ? AGENT_MAX_CHAIN_POINTS : AGENT_MAX_POINTS))
		return -E2BIG;
	if (!GROW(p->places, p->n_places, p->cap_places))
		return -ENOMEM;
	if (lists(c)) {
		if (!GROW_ONE(p->points, p->n_places))
			return -ENOMEM;
		p->points[p->n_places] = *info;
	}
	if (c->mode == PROGRAM_CHAIN) {
		if (!GROW_ONE(p->links, p->n_places))
			return -ENOMEM;
		p->links[p->n_places] = link;
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
	f.name = name_shorten(t->full_name);
	f.full_name = strdup(t->full_name);
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
	info->future = PLACE_NO_FUTURE;
	if (future) {
		info->size = future->size;
		TRY(add_future(c, future, &info->future));
	}
	return add_place(c, &(struct trace_place){0}, info, (struct place_link){0}, ret_point);
}

struct await {
	const struct dw_type *awaited;
	const char *file, *macro;
	uint32_t line;
	bool goes_on, library, own;
};

static bool is_self(const struct compiler *c, const struct program_node *n)
{
	return n->type == c->self && !n->hooked_parent;
}

static int place_of(struct compiler *c, const struct program_node *n, const struct await *a,
		    uint16_t *ret_point)
{
	const struct dw_type *t = n->type;
	struct place_point info = {
		.kind = POINT_AWAIT,
		.proof = n->proof,
		.state_offset = (int64_t)t->discr_offset,
		.size = t->size,
		.hooked_parent = n->hooked_parent,
		.own = a->own,
		.self = is_self(c, n),
		.concurrent = n->concurrent,
	};
	char *function = name_shorten(t->full_name), *copy = strdup(a->file ? a->file : "");
	char *awaits = a->macro ? strdup(a->macro) : name_shorten(a->awaited->full_name);
	struct trace_place place = {
		.function = function, .file = copy, .line = a->line, .awaits = awaits};
	struct place_link link = {.outer = n->outer};
	int r = -ENOMEM;

	if (!a->goes_on && !await_is_leaf(a->awaited) && await_can_hold(c->d, a->awaited))
		place.flags |= TRACE_PLACE_BRANCHES;
	if (c->mode != PROGRAM_POINT)
		place.flags |= a->library ? 0 : TRACE_PLACE_OWN;
	if (c->mode == PROGRAM_CHAIN)
		link.holds_box = await_may_poll_box(c->d, a->awaited);
	if (function && copy && awaits)
		r = lists(c) ? add_future(c, t, &info.future) : 0;
	if (r == 0)
		r = add_place(c, &place, &info, link, ret_point);
	if (r < 0) {
		free(function);
		free(copy);
		free(awaits);
	}
	return r;
}

/* ---- steps ---- */

static bool is_own(const struct compiler *c, const struct dw_type *t)
{
	_cleanup_free_ char *where = dw_is_coroutine(t) ? dw_coroutine_where(t) : NULL;

	return where && !in_library(c, t, where);
}

/* Whether code of the program's own is polled in it: in what a coroutine awaits, in all that another type
 * holds. A type that is being looked at has none but what else is in it. */
static bool holds_own(struct compiler *c, const struct dw_type *t, unsigned depth)
{
	enum { NO = 1, YES = 2 };
	bool coroutine, yes;

	if (!t || depth > OWN_DEPTH)
		return false;
	if (t->class == DC_POINTER)
		return await_starts(t->name, "&mut ") || await_starts(t->name, "alloc::boxed::Box<")
			       ? holds_own(c, dw_type_of(c->d, t->target_ref), depth + 1)
			       : false;
	if (t->class != DC_STRUCT || t->declaration ||
	    await_starts(t->full_name, "core::marker::PhantomData"))
		return false;
	uintptr_t known = (uintptr_t)map_get(&c->owns, t->ref, 0);

	if (known)
		return known == YES;
	if (map_put(&c->owns, t->ref, 0, (void *)(uintptr_t)NO) < 0)
		return false;
	coroutine = dw_is_coroutine(t);
	yes = is_own(c, t);
	for (size_t i = 0; i < t->n_members && !coroutine && !yes; i++)
		yes = holds_own(c, dw_member_type(c->d, &t->members[i]), depth + 1);
	for (size_t i = 0; i < t->n_variants && !yes; i++) {
		const struct dw_type *held = dw_member_type(c->d, &t->variants[i].member);

		if (held && coroutine)
			held = dw_member_type(c->d, dw_find_member(held, "__awaitee"));
		yes = holds_own(c, held, depth + 1);
	}
	if (yes)
		map_put(&c->owns, t->ref, 0, (void *)(uintptr_t)YES);
	return yes;
}

/* Of several ways down the one to the program's own code; false: there is none, or there are several. */
static bool find_own(struct compiler *c, struct future_path *w)
{
	struct future_path paths[FUTURE_PATHS_MAX];
	size_t n = 0, which = 0, n_own = 0;

	if (future_path_find_all(c->d, c->hooked, w, paths, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!holds_own(c, paths[i].type, 0))
			continue;
		which = i;
		n_own++;
	}
	if (n_own == 1)
		*w = paths[which];
	return n_own == 1;
}

/* The one way down, or of several that to the program's own code. */
static bool find_way(struct compiler *c, struct future_path *w)
{
	struct future_path way = *w;

	if (!future_path_single(c->d, c->hooked, &way)) {
		if (lists(c) || !find_own(c, w))
			return false;
		way = *w;
	}
	*w = way;
	return true;
}

/* In a chain what lies there by value comes first: it is read without a further proof. Next to others that
 * are polled, too, a way is followed to the program's own code only, and not where the others
 * may lead to boxes: that of a handler belongs to what is around them. */
static bool find_single(struct compiler *c, struct future_path *w)
{
	struct future_path by_value = *w;

	by_value.through = POINTERS_NONE;
	if (c->mode == PROGRAM_CHAIN && w->through && find_way(c, &by_value)) {
		*w = by_value;
		w->through = dw_is_coroutine(w->type) ? POINTERS_BORROWED : POINTERS_NONE;
	} else if (!find_way(c, w)) {
		return false;
	}
	return lists(c) || !w->concurrent || (!w->beside_box && holds_own(c, w->type, 0));
}

/* The step from `from` on to where the way goes, within what both are counted from. */
static int step_on(struct compiler *c, uint64_t from, struct future_path w, bool inside,
		   bool shows_ready, struct agent_step *step)
{
	int r;

	if (!find_single(c, &w))
		return 0;
	r = node_of(c, &w, inside, shows_ready, &step->next);
	int64_t delta = (int64_t)(w.offset + w.type->discr_offset - from);
	if (delta != (int32_t)delta)
		step->next = 0;
	step->delta = step->next ? (int32_t)delta : 0;
	return r;
}

/* The same for one way or several: a node that leads to these, each seen from the state at `from`. */
static int step_down(struct compiler *c, uint64_t from, const struct future_path *w, bool inside,
		     bool shows_ready, struct agent_step *step)
{
	struct future_path paths[FUTURE_PATHS_MAX];
	size_t n = 0;
	int r = step_on(c, from, *w, inside, shows_ready, step);

	if (r < 0 || step->next || !lists(c))
		return r;
	r = future_path_find_all(c->d, c->hooked, w, paths, &n);
	if (r < 0 || !n)
		return r == -E2BIG ? 0 : r;
	r = new_node(c, NODE_BRANCHES, (uint32_t)n, &step->next);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct agent_step one = {0};

		r = step_on(c, from, paths[i], inside, shows_ready, &one);
		node_at(c, step->next)->steps[i] = one;
	}
	return r;
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
		w.offset += one->member.offset;
		w.type = dw_member_type(c->d, &one->member);
		if (!future_path_single(c->d, NULL, &w))
			return NULL;
	}
	*ret_at = w.offset;
	return dw_is_coroutine(w.type) ? w.type : NULL;
}

/* ---- nodes' steps ---- */

/* What is polled at an await point: tokio's macros keep it in a variable of its own. */
static struct future_path held_at(struct compiler *c, const struct program_node *n,
				  const struct dw_type *state, uint64_t state_at,
				  const struct dw_member *awaitee, const char *macro)
{
	struct future_path w = {.type = dw_member_type(c->d, awaitee),
				.offset = state_at + awaitee->offset,
				.hooked_parent = n->hooked_parent,
				.through = n->through};

	for (size_t i = 0; macro && i < state->n_members; i++) {
		const struct dw_member *m = &state->members[i];
		const struct dw_type *type = dw_member_type(c->d, m);

		/* There may be a reference of the same name. */
		if (!strcmp(m->name, "futures") && future_path_is_within(state, m, type) &&
		    type->class != DC_POINTER && future_path_exists(c->d, type, w.through)) {
			w.type = type;
			w.offset = state_at + m->offset;
		}
	}
	return w;
}

/* What was awaited need not have been ready when a select! goes on, nor all of it when a try_join!
 * does. */
static enum ready_proof proof_by(const char *macro)
{
	return !macro || !strcmp(macro, "join!") ? READY_IF_MOVED_ON
	       : !strcmp(macro, "select!")	 ? READY_UNPROVEN
						 : READY_IF_GONE;
}

/* What a semaphore is a part of, by the functions that wait for it. */
static enum trace_resource used_by(const struct compiler *c, const struct program_node *n,
				   enum trace_resource what)
{
	uint32_t outer = c->out->links ? n->outer : 0;
	enum trace_resource user = resource_user(n->type->full_name);

	if (what != TRACE_RESOURCE_SEMAPHORE && what != TRACE_RESOURCE_NOTIFY)
		return what;
	for (; !user && outer; outer = c->out->links[outer - 1].outer)
		user = resource_user(c->out->places[outer - 1].function);
	return user ? user : what;
}

/* What is awaited in the state that is read at `from`, at `at`, waits for something with an
 * address. */
static int step_to_resource(struct compiler *c, const struct program_node *n, uint64_t from,
			    const struct dw_type *awaited, uint64_t at, struct agent_step *step)
{
	struct resource_path path;
	struct agent_node *node;
	int64_t delta;
	int r;

	if (!resource_find(c->d, awaited, &path))
		return 0;
	delta = (int64_t)(at + path.offset - from);
	if (delta != (int32_t)delta || path.offset > UINT32_MAX)
		return 0;
	r = new_node(c, NODE_RESOURCE, path.indirect, &step->next);
	if (r < 0)
		return r;
	node = node_at(c, step->next);
	node->target_offset = path.indirect ? path.target_offset : 0;
	node->resource = (uint16_t)used_by(c, n, path.type);
	step->delta = (int32_t)delta;
	return 0;
}

/* A suspended state of a coroutine. */
static int fill_await(struct compiler *c, const struct program_node *n, const struct dw_variant *v,
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
	a.library = in_library(c, t, a.file);
	inside = n->inside || !a.library;
	a.own = !(a.library && n->inside);
	struct future_path held =
		held_at(c, n, state, v->member.offset, awaitee, lists(c) ? a.macro : NULL);
	held.proof = proof_by(a.macro);
	/* its place is the next one */
	if (c->mode == PROGRAM_CHAIN)
		c->outer = (uint32_t)c->out->n_places + 1;
	r = step_down(c, t->discr_offset, &held, inside, false, step);
	a.goes_on = step->next && (node_at(c, step->next)->kind == NODE_STATE ||
				   (node_at(c, step->next)->kind == NODE_POINTER && !a.macro &&
				    c->mode == PROGRAM_CHAIN));
	if (r == 0 && !step->next && !lists(c))
		r = step_to_resource(c, n, t->discr_offset, a.awaited,
				     v->member.offset + awaitee->offset, step);
	if (r < 0 || (!a.own && c->mode == PROGRAM_POINT))
		return r;
	return place_of(c, n, &a, &step->point);
}

/* A connection of a server's, which polls the program's own handlers. */
static bool is_connection(const struct dw_type *t)
{
	return t && (await_starts(t->full_name, "hyper::server::conn::") ||
		     await_starts(t->full_name, "hyper_util::server::conn::"));
}

/* Whether what is suspended there awaits one, or has it in a variable that it polls by reference. */
static bool has_connection(struct compiler *c, const struct dw_variant *v)
{
	const struct dw_type *state = dw_member_type(c->d, &v->member);

	for (size_t i = 0; state && i < state->n_members; i++)
		if (is_connection(dw_member_type(c->d, &state->members[i])))
			return true;
	return false;
}

static int fill_coroutine(struct compiler *c, const struct program_node *n,
			  const struct dw_variant *v, struct agent_step *step)
{
	struct place_point info = {.kind = POINT_RETURNED,
				   .state_offset = (int64_t)n->type->discr_offset,
				   .hooked_parent = n->hooked_parent};

	/* 0 not polled yet, 1 returned, 2 panicked */
	if (v->value > 2 && !v->is_default) {
		c->connection = c->connection || (!n->pointed && has_connection(c, v));
		return fill_await(c, n, v, step);
	}
	if (v->value == 1 && lists(c) && !is_self(c, n))
		return add_mark(c, n->type, &info, &step->point);
	return 0;
}

/* What proves that what an enum holds was ready. */
static enum ready_proof kept_by(const struct program_node *n)
{
	return wrapper_holds_until_ready(n->type) ? n->proof : READY_UNPROVEN;
}

static int fill_enum(struct compiler *c, const struct program_node *n, const struct dw_variant *v,
		     struct agent_step *step)
{
	const struct dw_type *inner = dw_member_type(c->d, &v->member), *future;
	const struct future_path w = {.type = inner,
				      .offset = v->member.offset,
				      .hooked_parent = n->hooked_parent,
				      .through = n->through,
				      .concurrent = n->concurrent,
				      .proof = kept_by(n)};
	uint64_t at;

	if (future_path_is_within(n->type, &v->member, inner) &&
	    future_path_exists(c->d, inner, n->through))
		return step_down(c, n->type->discr_offset, &w, n->inside, n->shows_ready, step);
	if (!n->shows_ready || !wrapper_holds_until_ready(n->type) ||
	    !(future = held_by(c, n->type, &at)))
		return 0;
	return add_mark(c, future,
			&(struct place_point){.kind = POINT_RETURNED,
					      .state_offset = (int64_t)(n->type->discr_offset - at),
					      .hooked_parent = n->hooked_parent},
			&step->point);
}

/* The size that a member takes at least: a declaration's isn't known. */
static uint64_t size_of(const struct dw_type *t)
{
	return !t || t->declaration ? 1 : t->class == DC_POINTER ? 16 : t->size;
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

static int fill_pointer(struct compiler *c, const struct program_node *n)
{
	const struct dw_type *target = dw_type_of(c->d, n->type->target_ref);
	struct place_point info = {
		.kind = await_starts(n->type->name, "&mut ") ? POINT_BORROW : POINT_BOX,
		.size = size_of(target),
		.hooked_parent = n->hooked_parent,
	};
	const struct future_path w = {.type = target,
				      .hooked_parent = n->hooked_parent,
				      .through = n->through,
				      .concurrent = n->concurrent,
				      .proof = n->proof};
	struct agent_step step = {0};
	uint16_t point = 0;

	if (lists(c))
		TRY(add_mark(c, NULL, &info, &point));
	c->outer = n->outer;
	c->pointed = true;
	TRY(step_down(c, 0, &w, n->inside, false, &step));
	node_at(c, n->offset)->point = point;
	node_at(c, n->offset)->zero_bits = zero_bits(c->d, target, 0);
	node_at(c, n->offset)->steps[0] = step;
	return 0;
}

static int fill(struct compiler *c, size_t i)
{
	const struct program_node n = c->nodes[i]; /* the array moves */
	bool coroutine = dw_is_coroutine(n.type);

	if (n.type->class == DC_POINTER)
		return fill_pointer(c, &n);
	for (size_t k = 0; k < n.type->n_variants; k++) {
		const struct dw_variant *v = &n.type->variants[k];
		struct agent_step step = {0};

		if (debug_stopped(c->d))
			return -ECANCELED;
		c->outer = n.outer;
		c->pointed = n.pointed;
		int r = coroutine ? fill_coroutine(c, &n, v, &step) : fill_enum(c, &n, v, &step);

		if (r < 0)
			return r;
		struct agent_node *node = node_at(c, n.offset);
		node->steps[v->is_default ? node->n : v->value - node->base] = step;
	}
	return 0;
}

/* The first step. What lies in the future itself is in no other whose polls are hooked. */
static int step_root(struct compiler *c, const struct future_cell *cell, struct agent_step *step)
{
	struct future_path w = {.type = cell->future,
				.offset = cell->offset,
				.through = c->follows ? POINTERS_BORROWED : POINTERS_NONE,
				.proof = READY_IF_MOVED_ON};
	int r;

	if (!find_single(c, &w))
		return 0;
	if (c->self && w.hooked_parent == future_path_hooked_parent(c->hooked, c->self, 0))
		w.hooked_parent = 0;
	/* Of a future written by hand: the agent lists what it holds once more when it is ready. */
	r = node_of(c, &w, false, c->self, &step->next);
	int64_t delta = (int64_t)(w.offset + w.type->discr_offset);
	if (delta != (int32_t)delta)
		step->next = 0;
	step->delta = step->next ? (int32_t)delta : 0;
	return r;
}

/* What tonic generates into the program awaits a method's future, which is in another box. */
static bool dispatches(const struct dw_type *t)
{
	return await_starts(t->full_name, "tonic::server::grpc::");
}

/* Whether a type is what a middleware goes on to: the next of a chain, or the future of a response. */
static bool is_next(const struct dw_type *t)
{
	static const char *const responses[] = {"axum::routing::route::RouteFuture<",
						"actix_web::service::ServiceResponse<"};
	const char *middleware = t ? strstr(t->full_name, "::middleware::") : NULL;

	if (middleware && strstr(middleware, "::Next"))
		return true;
	for (size_t i = 0; t && i < sizeof(responses) / sizeof(responses[0]); i++)
		if (strstr(t->full_name, responses[i]))
			return true;
	return false;
}

/* Whether a coroutine of the program's own is around handlers: it was given what it goes on to, or awaits that. */
static bool is_middleware(struct compiler *c, const struct dw_type *t)
{
	for (size_t i = 0; i < t->n_variants; i++) {
		const struct dw_variant *v = &t->variants[i];
		const struct dw_type *state = dw_member_type(c->d, &v->member);

		for (size_t k = 0; state && k < state->n_members; k++)
			if ((!v->value || !strcmp(state->members[k].name, "__awaitee")) &&
			    is_next(dw_member_type(c->d, &state->members[k])))
				return true;
	}
	return false;
}

static bool has_own(struct compiler *c)
{
	bool own = false;

	for (size_t i = 0; i < c->n_nodes; i++) {
		if (dispatches(c->nodes[i].type))
			return false;
		own = own || (is_own(c, c->nodes[i].type) && !c->nodes[i].pointed &&
			      !is_middleware(c, c->nodes[i].type));
	}
	return own;
}

int program_compile(struct debug *d, const struct future_cell *cell, enum program_mode mode,
		    const struct map *hooked, const char *const *own, unsigned first,
		    struct program *ret)
{
	struct compiler c = {.d = d,
			     .hooked = hooked,
			     .own = own,
			     .out = ret,
			     .mode = mode,
			     .first = first,
			     /* a task's is not polled by a function that is hooked as a future's */
			     .self = cell->offset || mode == PROGRAM_CHAIN ? NULL : cell->future};
	struct agent_step root = {0};
	int r;

	/* A coroutine's poll function belongs to it only: its argument is of its type. */
	c.follows = mode == PROGRAM_CHAIN ||
		    (mode == PROGRAM_FUTURES && c.self && dw_is_coroutine(c.self));
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
	if (r == 0 && debug_stopped(d))
		r = -ECANCELED;
	bool has_places = r == 0 && ret->n_places;

	if (!has_places)
		program_done(ret);
	ret->serves = r == 0 && c.connection;
	ret->has_own = r == 0 && mode == PROGRAM_CHAIN && has_own(&c);
	free(c.nodes);
	map_done(&c.futures);
	map_done(&c.owns);
	return r;
}

void program_done(struct program *p)
{
	for (size_t i = 0; i < p->n_places; i++) {
		free_const(p->places[i].function);
		free_const(p->places[i].file);
		free_const(p->places[i].awaits);
	}
	for (size_t i = 0; i < p->n_futures; i++) {
		free_const(p->futures[i].name);
		free_const(p->futures[i].full_name);
		free_const(p->futures[i].where);
	}
	free(p->futures);
	free(p->points);
	free(p->links);
	free(p->places);
	free(p->words);
	*p = (struct program){0};
}
