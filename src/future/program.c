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
#include "binary/names.h"
#include "future/await.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_STATES = 2048, /* of one type */
	MAX_DEPTH = 32,	   /* wrappers in wrappers, between two nodes */
	REACH_DEPTH = 64,
	NODE_WORDS = sizeof(struct agent_node) / 8,
	/* dw_type.note: bits that walk.c leaves free */
	NOTE_REACH_KNOWN = 256,
	NOTE_REACHES = 512,
	NOTE_REACH_BUSY = 1024,
};

struct node {
	const struct dw_type *type;
	bool inside; /* below a coroutine of the program */
	uint16_t at;
};

struct compiler {
	struct debug *d;
	struct program *out;
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

/* The next type with a state on the one way down from `t`, and where it lies; NULL: there is none.
 */
static const struct dw_type *descend(struct debug *d, const struct dw_type *t, uint64_t *at)
{
	for (unsigned depth = 0; t && depth < MAX_DEPTH; depth++) {
		const struct dw_member *way = NULL;
		const struct dw_type *next;

		if (!reaches(d, t, 0))
			return NULL;
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
static int node_of(struct compiler *c, const struct dw_type *t, bool inside, uint16_t *ret_at)
{
	uint64_t base;
	uint32_t n;

	*ret_at = 0;
	for (size_t i = 0; i < c->n_nodes; i++) {
		if (c->nodes[i].type == t && c->nodes[i].inside == inside) {
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
	c->nodes[c->n_nodes++] = (struct node){.type = t, .inside = inside, .at = (uint16_t)at};
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
static int add_place(struct compiler *c, const struct trace_place *place, uint16_t *ret_point)
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
	p->places[p->n_places] = *place;
	*ret_point = (uint16_t)(c->first + p->n_places++);
	return 0;
}

static int place_of(struct compiler *c, const struct dw_type *t, const struct dw_type *awaited,
		    const char *file, uint32_t line, const char *macro, bool goes_on,
		    uint16_t *ret_point)
{
	char *function = name_shorten(t->full), *copy = strdup(file ? file : "");
	char *awaits = macro ? strdup(macro) : name_shorten(awaited->full);
	struct trace_place place = {
		.function = function, .file = copy, .line = line, .awaits = awaits};
	int r = -ENOMEM;

	if (!goes_on && !await_is_leaf(awaited) && await_can_hold(c->d, awaited))
		place.flags |= TRACE_PLACE_BRANCHES;
	if (function && copy && awaits)
		r = add_place(c, &place, ret_point);
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
		   bool inside, struct agent_step *step)
{
	const struct dw_type *next = descend(c->d, t, &at);
	int r;

	if (!next)
		return 0;
	r = node_of(c, next, inside, &step->next);
	int64_t delta = (int64_t)(at + next->discr_offset - from);
	if (delta != (int32_t)delta)
		step->next = 0;
	step->delta = step->next ? (int32_t)delta : 0;
	return r;
}

/* A suspended state of a coroutine. */
static int fill_await(struct compiler *c, const struct node *n, const struct dw_variant *v,
		      struct agent_step *step)
{
	const struct dw_type *t = n->type, *state = dw_member_type(c->d, &v->member);
	const struct dw_member *awaitee = dw_find_member(state, "__awaitee");
	const struct dw_type *awaited = dw_member_type(c->d, awaitee);
	const char *file = v->member.file, *macro = await_macro(file);
	uint32_t line = v->member.line;
	int r;

	if (!awaitee || !holds(t, &v->member, state) || !holds(state, awaitee, awaited))
		return 0;
	if (macro)
		debug_await_place(c->d, t, awaitee->type_ref, &file, &line);
	bool library = in_library(file);
	r = step_on(c, t->discr_offset, awaited, v->member.offset + awaitee->offset,
		    n->inside || !library, step);
	if (r < 0 || (library && n->inside))
		return r;
	return place_of(c, t, awaited, file, line, macro, step->next != 0, &step->point);
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
					    n.inside, &step);
		}
		if (r < 0)
			return r;
		struct agent_node *node = node_at(c, n.at);
		node->steps[v->is_default ? node->n : v->value - node->base] = step;
	}
	return 0;
}

int program_compile(struct debug *d, const struct future_cell *cell, unsigned first,
		    struct program *ret)
{
	struct compiler c = {.d = d, .out = ret, .first = first};
	struct agent_step root = {0};
	int r;

	*ret = (struct program){0};
	if (cell->size && cell->offset + cell->future->size > cell->size)
		return 0;
	r = add_words(ret, 1);
	if (r == 0)
		r = step_on(&c, 0, cell->future, cell->offset, false, &root);
	if (r == 0)
		memcpy(ret->words, &root, sizeof(root));
	for (size_t i = 0; r == 0 && i < c.n_nodes; i++)
		r = fill(&c, i);
	free(c.nodes);
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
	free(p->places);
	free(p->words);
	*p = (struct program){0};
}
