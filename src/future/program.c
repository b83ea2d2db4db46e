/*
 * The compiler of layout programs. Types become nodes, breadth first: a coroutine, or another enum
 * that holds one, is a node with a step per state; everything between two of them is an offset.
 *
 *     state of A ──▶ step 3: point "src/main.rs:15", then 24 bytes on: state of B ──▶ ...
 *
 * A node is made once per type and per whether a coroutine of the program stands above it. Whatever
 * the debug information says, no step leads out of the type that it starts from: sizes and offsets
 * are compared on the way, so the agent stays within the cell.
 */
#include "future/program.h"

#include "agent/ring.h"
#include "base/map.h"
#include "binary/names.h"
#include "future/await.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_STATES = 2048, /* of one type */
	MAX_DEPTH = 32,	   /* wrappers in wrappers, between two nodes */
	REACH_DEPTH = 64,
	MAX_BRANCHES = 64,
	NODE_WORDS = sizeof(struct agent_node) / 8,
	/* dw_type.note: bits that walk.c leaves free */
	NOTE_REACH_KNOWN = 256,
	NOTE_REACHES = 512,
	NOTE_REACH_BUSY = 1024,
};

struct node {
	const struct dw_type *type;
	bool inside;	/* below a coroutine of the program */
	uint32_t below; /* as place_point.below */
	uint16_t at;
};

struct compiler {
	struct debug *d;
	struct program *out;
	enum program_mode mode;
	const struct map *hooked;   /* types, NULL: none */
	uint32_t self_kind;	    /* as place_point.below, of that */
	const struct dw_type *self; /* what the program begins with */
	struct map futures;	    /* (ref of a coroutine, 0) -> index in out->futures + 1 */
	unsigned first;
	struct node *nodes;
	size_t n_nodes, n_filled, cap_nodes;
};

/* ---- types ---- */

static bool holds(const struct dw_type *t, const struct dw_member *m, const struct dw_type *inner)
{
	return inner && !inner->declaration && m->offset <= t->size &&
	       inner->size <= t->size - m->offset;
}

/* Whether a coroutine lies somewhere in it, by value. */
static bool reaches(struct debug *d, const struct dw_type *ct, unsigned depth)
{
	struct dw_type *t = (struct dw_type *)ct; /* notes are ours to write */
	bool yes = false;

	if (!t || t->class != DC_STRUCT || t->declaration || depth > REACH_DEPTH)
		return false;
	if (await_is_coroutine(t))
		return true;
	if (t->note & NOTE_REACH_KNOWN)
		return t->note & NOTE_REACHES;
	if (t->note & NOTE_REACH_BUSY || await_starts(t->full, "core::marker::PhantomData"))
		return false;
	t->note |= NOTE_REACH_BUSY;
	for (size_t i = 0; !yes && i < t->n_members; i++)
		yes = reaches(d, dw_member_type(d, &t->members[i]), depth + 1);
	for (size_t i = 0; !yes && i < t->n_variants; i++)
		yes = reaches(d, dw_member_type(d, &t->variants[i].member), depth + 1);
	t->note &= ~(uint32_t)NOTE_REACH_BUSY;
	t->note |= NOTE_REACH_KNOWN | (yes ? NOTE_REACHES : 0);
	return yes;
}

uint64_t program_type_key(const struct dw_type *t)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	for (const char *at = t->full; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 1099511628211u;
	return hash ^ t->size;
}

/* What is below this type, if that is hooked, else as above it. */
static uint32_t below_of(const struct map *hooked, const struct dw_type *t, uint32_t below)
{
	uintptr_t kind = hooked ? (uintptr_t)map_get(hooked, program_type_key(t), 0) : 0;

	return kind ? (uint32_t)kind : below;
}

/* The next type with a state on the one way down from `t`, and where it lies; NULL: there is none.
 * *below is what the way led through at last. */
static const struct dw_type *descend(struct debug *d, const struct map *hooked,
				     const struct dw_type *t, uint64_t *at, uint32_t *below)
{
	for (unsigned depth = 0; t && depth < MAX_DEPTH; depth++) {
		const struct dw_member *way = NULL;
		const struct dw_type *next;

		if (!reaches(d, t, 0))
			return NULL;
		*below = below_of(hooked, t, *below);
		if (t->has_variants && t->discr_size)
			return t;
		if (t->has_variants && t->n_variants == 1)
			way = &t->variants[0].member;
		for (size_t i = 0; i < t->n_members; i++) {
			if (!reaches(d, dw_member_type(d, &t->members[i]), 0))
				continue;
			if (way)
				return NULL; /* branches */
			way = &t->members[i];
		}
		next = dw_member_type(d, way);
		if (!way || !holds(t, way, next))
			return NULL;
		*at += way->offset;
		t = next;
	}
	return NULL;
}

/* The next types with a state on all ways down from `t`, and where they lie: a future that polls
 * several. -E2BIG: there are too many. */
struct branch {
	const struct dw_type *type;
	uint64_t at;
	uint32_t below;
};

static int find_branches(const struct compiler *c, const struct dw_type *t, uint64_t at,
			 uint32_t below, unsigned depth, struct branch *out, size_t *n)
{
	struct debug *d = c->d;
	int r = 0;

	if (depth > MAX_DEPTH || !reaches(d, t, 0))
		return 0;
	below = below_of(c->hooked, t, below);
	if (t->has_variants && t->discr_size) {
		if (*n == MAX_BRANCHES)
			return -E2BIG;
		out[(*n)++] = (struct branch){t, at, below};
		return 0;
	}
	for (size_t i = 0; r == 0 && i < t->n_members + t->n_variants; i++) {
		const struct dw_member *m =
			i < t->n_members ? &t->members[i] : &t->variants[i - t->n_members].member;
		const struct dw_type *inner = dw_member_type(d, m);

		if (holds(t, m, inner))
			r = find_branches(c, inner, at + m->offset, below, depth + 1, out, n);
	}
	return r;
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
	if (p->n_words + n > p->cap_words) {
		size_t cap = (p->n_words + n) * 2;
		uint64_t *words = reallocarray(p->words, cap, sizeof(*words));

		if (!words)
			return -ENOMEM;
		p->words = words;
		p->cap_words = cap;
	}
	memset(p->words + p->n_words, 0, n * sizeof(*p->words));
	p->n_words += n;
	return 0;
}

/* Index of the type's node, made if need be; 0: it can't be one. -ENOMEM, -E2BIG. */
static int node_of(struct compiler *c, const struct dw_type *t, bool inside, uint32_t below,
		   uint16_t *ret_at)
{
	uint64_t base;
	uint32_t n;

	*ret_at = 0;
	for (size_t i = 0; i < c->n_nodes; i++) {
		if (c->nodes[i].type == t && c->nodes[i].inside == inside &&
		    c->nodes[i].below == below) {
			*ret_at = c->nodes[i].at;
			return 0;
		}
	}
	if (!states_of(t, &base, &n))
		return 0;
	size_t at = c->out->n_words;
	if (at + NODE_WORDS + n + 1 > UINT16_MAX)
		return -E2BIG;
	if (c->n_nodes == c->cap_nodes) {
		size_t cap = c->cap_nodes ? c->cap_nodes * 2 : 16;
		struct node *nodes = reallocarray(c->nodes, cap, sizeof(*nodes));

		if (!nodes)
			return -ENOMEM;
		c->nodes = nodes;
		c->cap_nodes = cap;
	}
	int r = add_words(c->out, NODE_WORDS + n + 1);
	if (r < 0)
		return r;
	struct agent_node *node = node_at(c, (uint16_t)at);
	node->base = base;
	node->n = n;
	node->size = t->discr_size;
	c->nodes[c->n_nodes++] =
		(struct node){.type = t, .inside = inside, .below = below, .at = (uint16_t)at};
	*ret_at = (uint16_t)at;
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
	if (p->n_places == p->cap_places) {
		size_t cap = p->cap_places ? p->cap_places * 2 : 16;
		struct trace_place *places = reallocarray(p->places, cap, sizeof(*places));

		if (!places)
			return -ENOMEM;
		p->places = places;
		p->cap_places = cap;
	}
	if (c->mode == PROGRAM_FUTURES) {
		struct place_point *points =
			reallocarray(p->points, p->cap_places, sizeof(*points));

		if (!points)
			return -ENOMEM;
		p->points = points;
		points[p->n_places] = *info;
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
	struct place_future *futures, f = {.size = t->size};
	char *where = NULL;

	*ret_index = (uint32_t)known - 1;
	if (known)
		return 0;
	if (p->n_futures == p->cap_futures) {
		size_t cap = p->cap_futures ? p->cap_futures * 2 : 16;

		futures = reallocarray(p->futures, cap, sizeof(*futures));
		if (!futures)
			return -ENOMEM;
		p->futures = futures;
		p->cap_futures = cap;
	}
	/* The state in which it was not polled yet stands where it begins. */
	for (size_t i = 0; i < t->n_variants && !where; i++)
		if (t->variants[i].value == 0 && t->variants[i].member.file &&
		    asprintf(&where, "%s:%u", t->variants[i].member.file,
			     t->variants[i].member.line) < 0)
			where = NULL;
	f.type_kind = below_of(c->hooked, t, 0);
	f.name = name_shorten(t->full);
	f.full_name = strdup(t->full);
	f.where = where;
	*ret_index = (uint32_t)p->n_futures;
	p->futures[p->n_futures++] = f;
	return f.name && f.full_name
		       ? map_put(&c->futures, t->ref, 0, (void *)(uintptr_t)p->n_futures)
		       : -ENOMEM;
}

static int place_of(struct compiler *c, const struct node *n, const struct dw_type *awaited,
		    const char *file, uint32_t line, const char *macro, bool goes_on, bool own,
		    bool sure, uint16_t *ret_point)
{
	const struct dw_type *t = n->type;
	struct place_point info = {
		.state_offset = (uint32_t)t->discr_offset,
		.own = own,
		.self = t == c->self,
		.below = n->below == c->self_kind ? 0 : n->below,
		.sure = sure,
	};
	char *function = name_shorten(t->full), *copy = strdup(file ? file : "");
	char *awaits = macro ? strdup(macro) : name_shorten(awaited->full);
	struct trace_place place = {
		.function = function, .file = copy, .line = line, .awaits = awaits};
	int r = -ENOMEM;

	if (!goes_on && !await_is_leaf(awaited) && await_can_hold(c->d, awaited))
		place.flags |= TRACE_PLACE_BRANCHES;
	if (function && copy && awaits)
		r = c->mode == PROGRAM_FUTURES ? add_future(c, t, &info.future) : 0;
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

/* The way on from the node of `t` to what lies at `at` within it. */
static int step_on(struct compiler *c, uint64_t from, const struct dw_type *t, uint64_t at,
		   bool inside, uint32_t below, struct agent_step *step)
{
	const struct dw_type *next = descend(c->d, c->hooked, t, &at, &below);
	int r;

	if (!next)
		return 0;
	r = node_of(c, next, inside, below, &step->next);
	int64_t delta = (int64_t)(at + next->discr_offset - from);
	if (delta != (int32_t)delta)
		step->next = 0;
	step->delta = step->next ? (int32_t)delta : 0;
	return r;
}

/* A node that leads to several, each seen from the state at `from`. */
static int step_apart(struct compiler *c, uint64_t from, const struct branch *branches, size_t n,
		      bool inside, struct agent_step *step)
{
	size_t at = c->out->n_words;
	int r;

	if (at + NODE_WORDS + n + 1 > UINT16_MAX)
		return -E2BIG;
	r = add_words(c->out, NODE_WORDS + n + 1);
	if (r < 0)
		return r;
	node_at(c, (uint16_t)at)->n = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		struct agent_step one = {0};

		r = step_on(c, from, branches[i].type, branches[i].at, inside, branches[i].below,
			    &one);
		if (r < 0)
			return r;
		node_at(c, (uint16_t)at)->steps[i] = one;
	}
	*step = (struct agent_step){.next = (uint16_t)at};
	return 0;
}

/* The futures that an await point polls at once: tokio's macros keep them in a variable of their
 * own, others in what is awaited. */
static int step_to_branches(struct compiler *c, const struct dw_type *t,
			    const struct dw_type *state, uint64_t state_at,
			    const struct dw_member *awaitee, const char *macro, bool inside,
			    uint32_t below, struct agent_step *step)
{
	const struct dw_member *from = awaitee;
	const struct dw_type *held = dw_member_type(c->d, awaitee);
	struct branch branches[MAX_BRANCHES];
	size_t n = 0;
	int r;

	for (size_t i = 0; macro && i < state->n_members; i++) {
		const struct dw_member *m = &state->members[i];
		const struct dw_type *type = dw_member_type(c->d, m);

		/* There may be a reference of the same name. */
		if (!strcmp(m->name, "futures") && holds(state, m, type) &&
		    reaches(c->d, type, 0)) {
			from = m;
			held = type;
		}
	}
	r = find_branches(c, held, state_at + from->offset, below, 0, branches, &n);
	if (r < 0 || !n)
		return r == -E2BIG ? 0 : r;
	return step_apart(c, t->discr_offset, branches, n, inside, step);
}

/* A suspended state of a coroutine. */
static int fill_await(struct compiler *c, const struct node *n, const struct dw_variant *v,
		      struct agent_step *step)
{
	const struct dw_type *t = n->type, *state = dw_member_type(c->d, &v->member);
	const struct dw_member *awaitee = dw_find_member(state, "__awaitee");
	const struct dw_type *awaited = dw_member_type(c->d, awaitee);
	const char *file = v->member.file, *macro = await_macro(file, v->member.line);
	uint32_t line = v->member.line;
	int r;

	if (!awaitee || !holds(t, &v->member, state) || !holds(state, awaitee, awaited))
		return 0;
	if (macro)
		debug_await_place(c->d, t, awaitee->type_ref, &file, &line);
	bool library = in_library(file);
	r = step_on(c, t->discr_offset, awaited, v->member.offset + awaitee->offset,
		    n->inside || !library, n->below, step);
	bool goes_on = step->next != 0, own = !(library && n->inside);
	if (r == 0 && !goes_on && c->mode == PROGRAM_FUTURES)
		r = step_to_branches(c, t, state, v->member.offset, awaitee, macro,
				     n->inside || !library, n->below, step);
	/* A coroutine that is awaited itself is gone when it was ready; one in a wrapper may have
	 * been dropped (a timeout, a race). */
	bool sure = macro ? !strcmp(macro, "join!") : goes_on && await_is_coroutine(awaited);
	if (r < 0 || (!own && c->mode == PROGRAM_POINT))
		return r;
	return place_of(c, n, awaited, file, line, macro, goes_on, own, sure, &step->point);
}

static int fill(struct compiler *c, size_t i)
{
	const struct node n = c->nodes[i]; /* the array moves */
	bool coroutine = await_is_coroutine(n.type);

	for (size_t k = 0; k < n.type->n_variants; k++) {
		const struct dw_variant *v = &n.type->variants[k];
		struct agent_step step = {0};
		int r = 0;

		if (coroutine) {
			/* 0 not polled yet, 1 returned, 2 panicked */
			if (v->value > 2 && !v->is_default)
				r = fill_await(c, &n, v, &step);
		} else {
			const struct dw_type *inner = dw_member_type(c->d, &v->member);

			if (holds(n.type, &v->member, inner))
				r = step_on(c, n.type->discr_offset, inner, v->member.offset,
					    n.inside, n.below, &step);
		}
		if (r < 0)
			return r;
		struct agent_node *node = node_at(c, n.at);
		node->steps[v->is_default ? node->n : v->value - node->base] = step;
	}
	return 0;
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

	if (c.self)
		c.self_kind = below_of(hooked, c.self, 0);

	*ret = (struct program){0};
	if (cell->size && cell->offset + cell->future->size > cell->size)
		return 0;
	r = add_words(ret, 1);
	if (r == 0)
		r = step_on(&c, 0, cell->future, cell->offset, false, 0, &root);
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
