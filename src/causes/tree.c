/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "causes/tree.h"

#include "base/error.h"
#include "base/search.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BITS 5u
#define N_STEPS (64u << STEP_BITS)

/* Lengths in steps of 1/32 of a power of two. */
static uint32_t step_of(uint64_t ns)
{
	unsigned shift;

	if (ns < 1u << STEP_BITS)
		return (uint32_t)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - STEP_BITS;
	return (shift << STEP_BITS) + (uint32_t)(ns >> shift);
}

static uint64_t step_begin(uint32_t step)
{
	unsigned shift;

	if (step < 1u << STEP_BITS)
		return step;
	shift = (step >> STEP_BITS) - 1;
	return ((uint64_t)(1u << STEP_BITS) + (step & ((1u << STEP_BITS) - 1))) << shift;
}

/* ---- nodes ---- */

static int new_node(struct tree *t, struct trees *all, const struct node *node)
{
	struct node_sums *sums = calloc(UNIT_N, sizeof(*sums));

	if (!sums || !GROW_ZERO(t->last, t->n_nodes, t->n_last) ||
	    !GROW_ONE(t->nodes, t->n_nodes)) {
		free(sums);
		return -ENOMEM;
	}
	t->nodes[t->n_nodes] = *node;
	t->nodes[t->n_nodes++].sums = sums;
	all->n_nodes++;
	return 0;
}

int tree_init(struct tree *t, struct trees *all)
{
	return new_node(t, all, &(struct node){.type = NT_ROOT});
}

void tree_done(struct tree *t)
{
	for (size_t i = 0; i < t->n_nodes; i++) {
		for (unsigned u = 0; u < UNIT_N; u++)
			hist_done(&t->nodes[i].sums[u].ns);
		free(t->nodes[i].sums);
	}
	for (unsigned u = 0; u < UNIT_N; u++) {
		hist_done(&t->units[u].length);
		map_free(&t->units[u].cells, free);
	}
	map_done(&t->by_key);
	free(t->nodes);
	free(t->last);
	free(t->touched);
}

/* By its key; a new one where there was none. The parent where that can't be. */
static uint32_t find_child(struct tree *t, struct trees *all, const struct node *child)
{
	uint64_t key_a = (uint64_t)child->parent << 32 | child->a,
		 key_b = (uint64_t)child->type << 56 | child->b;
	uint32_t node = (uint32_t)(uintptr_t)map_get(&t->by_key, key_a, key_b);

	if (node)
		return node;
	if (t->n_nodes >= TREE_MAX_NODES || all->n_nodes >= TREES_MAX_NODES ||
	    child->depth > TREE_MAX_DEPTH)
		return child->parent;
	node = (uint32_t)t->n_nodes;
	if (new_node(t, all, child) < 0)
		return child->parent;
	if (map_put(&t->by_key, key_a, key_b, (void *)(uintptr_t)node) < 0)
		return child->parent; /* it stays empty */
	return node;
}

uint32_t tree_find_child(struct tree *t, struct trees *all, uint32_t parent, enum node_type type,
			 uint32_t a, uint64_t b)
{
	uint32_t node = find_child(t, all,
				   &(struct node){.parent = parent,
						  .a = a,
						  .b = b,
						  .type = type,
						  .depth = t->nodes[parent].depth + 1});

	if (node != parent)
		t->last[parent].nodes[type] = node;
	return node;
}

/* ---- the parts of a unit ---- */

/* Where the node is, or is to be. */
static size_t parts_find(const struct parts *p, uint32_t node)
{
	if (p->last < p->n && p->items[p->last].node == node)
		return p->last;
	return PARTITION_POINT(i, 0, p->n, p->items[i].node < node);
}

int parts_insert(struct parts *p, uint32_t node, uint32_t n, uint64_t ns)
{
	size_t at = parts_find(p, node);

	p->last = at;
	if (at < p->n && p->items[at].node == node) {
		p->items[at].n += n;
		p->items[at].ns += ns;
		return 0;
	}
	if (!GROW(p->items, p->n, p->cap))
		return -ENOMEM;
	memmove(&p->items[at + 1], &p->items[at], (p->n - at) * sizeof(*p->items));
	p->items[at] = (struct part){.node = node, .n = n, .ns = ns};
	p->n++;
	return 0;
}

static uint64_t parts_sum(const struct parts *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n; i++)
		sum += p->items[i].ns;
	return sum;
}

void parts_done(struct parts *p)
{
	free(p->items);
	*p = (struct parts){0};
}

/* ---- units ---- */

static int touch(struct tree *t, uint32_t node, uint64_t unit)
{
	struct node *n = &t->nodes[node];

	if (n->unit == unit)
		return 0;
	if (!GROW(t->touched, t->n_touched, t->cap_touched))
		return -ENOMEM;
	t->touched[t->n_touched++] = node;
	n->unit = unit;
	n->unit_n = n->unit_ns = 0;
	return 0;
}

static int add_cell(struct tree *t, struct trees *all, enum unit_type type, uint32_t node,
		    uint32_t step)
{
	struct map *cells = &t->units[type].cells;
	const struct node *n = &t->nodes[node];
	struct cell *c = map_get(cells, node, step);

	if (!c && !(c = map_new(cells, node, step, sizeof(*c))))
		return -ENOMEM;
	all->n_cells += !c->n_units;
	c->n_units++;
	c->n += n->unit_n;
	c->ns += n->unit_ns;
	if (n->unit_ns > c->max_ns)
		c->max_ns = n->unit_ns;
	return 0;
}

int tree_add_unit(struct tree *t, struct trees *all, const struct unit *unit, const struct parts *p)
{
	struct unit_sums *u = &t->units[unit->type];
	uint64_t number = ++t->n_units;
	uint32_t step = step_of(unit->length);

	assert(parts_sum(p) == unit->length);
	t->n_touched = 0;
	TRY(touch(t, 0, number));
	for (size_t i = 0; i < p->n; i++) {
		for (uint32_t node = p->items[i].node;; node = t->nodes[node].parent) {
			TRY(touch(t, node, number));
			t->nodes[node].unit_n += p->items[i].n;
			t->nodes[node].unit_ns += p->items[i].ns;
			if (!node)
				break;
		}
	}
	assert(t->nodes[0].unit_ns == unit->length);
	if (all->n_cells + t->n_touched > TREES_MAX_CELLS) {
		u->n_left_out++;
		return 0;
	}
	if (unit->length >= u->length.max)
		u->longest_task = unit->task;
	TRY(hist_add(&u->length, unit->length));
	for (size_t i = 0; i < t->n_touched; i++) {
		struct node *n = &t->nodes[t->touched[i]];

		n->sums[unit->type].n += n->unit_n;
		TRY(hist_add(&n->sums[unit->type].ns, n->unit_ns));
		TRY(add_cell(t, all, unit->type, t->touched[i], step));
	}
	return 0;
}

void tree_note_task(struct tree *t, uint32_t node, uint64_t ns, uint64_t task)
{
	struct node *n = &t->nodes[node];

	if (ns <= n->longest_ns)
		return;
	n->longest_ns = ns;
	n->longest_task = task;
}

void tree_clear(struct tree *t, struct trees *all, enum unit_type type)
{
	struct unit_sums *u = &t->units[type];

	all->n_cells -= u->cells.n;
	hist_done(&u->length);
	map_free(&u->cells, free);
	*u = (struct unit_sums){0};
	for (size_t i = 0; i < t->n_nodes; i++) {
		hist_done(&t->nodes[i].sums[type].ns);
		t->nodes[i].sums[type].n = 0;
	}
}

struct slow_set tree_slowest(const struct tree *t, enum unit_type type, double part)
{
	const struct unit_sums *u = &t->units[type];
	double wanted = part * (double)u->length.count;
	struct slow_set set = {.from = N_STEPS};

	while (set.from && ((double)set.n < wanted || !set.n) && u->length.count) {
		const struct cell *c = map_get(&u->cells, 0, --set.from);

		if (!c)
			continue;
		set.n += c->n_units;
		set.ns += c->ns;
	}
	set.from_ns = step_begin(set.from);
	if (set.from_ns < u->length.min)
		set.from_ns = u->length.min;
	return set;
}

struct cell *tree_slow_cells(const struct tree *t, enum unit_type type, const struct slow_set *set)
{
	struct cell *cells = calloc(t->n_nodes + 1, sizeof(*cells));
	const struct map_entry *e;
	size_t pos = 0;

	while (cells && (e = map_next(&t->units[type].cells, &pos))) {
		const struct cell *c = e->value;
		struct cell *sum = &cells[e->a];

		if (e->b < set->from)
			continue;
		sum->n += c->n;
		sum->n_units += c->n_units;
		sum->ns += c->ns;
		if (c->max_ns > sum->max_ns)
			sum->max_ns = c->max_ns;
	}
	return cells;
}
