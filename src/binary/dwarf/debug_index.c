/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Walks through units; see debug_index.h.
 *
 * One loop over the DIEs in the order in which they lie, with a stack of what each level is: where
 * nothing of interest can be (bodies of functions), DIEs are stepped over without a look at
 * their values. So a unit is walked at some hundred megabytes a second.
 */
#include "binary/dwarf/debug_index.h"

#include "base/compare.h"
#include "base/hash.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/elf/image.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_LEVELS = 64,
	HASHED_BYTES = 96, /* of a name: those of generic types are hundreds of bytes long */
};
#define CLOSED UINT64_MAX

/* Reports one DIE; gives what `level` will be for its children, CLOSED if they don't matter. */
typedef uint64_t visit_fn(void *ctx, const struct dwarf_die *die, uint64_t level);

static void walk(struct dwarf_unit *u, uint64_t top, visit_fn *visit, void *ctx)
{
	const uint8_t *info = u->source->s[DS_INFO].data;
	uint64_t levels[MAX_LEVELS];
	unsigned depth = 0;
	struct dwarf_die die;
	uint64_t off;

	if (!die_root(u, &die) || !die.abbrev->children)
		return;
	levels[0] = top;
	off = die_end(&die);
	while (off && off < u->end && !dwarf_step(u->source->stop)) {
		uint64_t level, inner = CLOSED;

		if (!info[off]) {
			if (depth-- == 0)
				return;
			off++;
			continue;
		}
		if (!die_at(u, off, &die))
			return;
		level = depth < MAX_LEVELS ? levels[depth] : CLOSED;
		if (level != CLOSED)
			inner = visit(ctx, &die, level);
		off = die_end(&die);
		if (die.abbrev->children && ++depth < MAX_LEVELS)
			levels[depth] = inner;
	}
}

static bool list_add(struct index_list *l, uint64_t key, uint64_t ref)
{
	if (!GROW(l->v, l->n, l->cap))
		return false;
	l->v[l->n++] = (struct index_entry){key, ref};
	return true;
}

static bool is_cell(const struct dwarf_die *die, const char *name)
{
	return !strncmp(name, "Cell<", 5) && !die_has(die, DW_AT_declaration);
}

/* ---- one unit ---- */

static bool add_node(struct unit_index *x, uint64_t off, uint32_t parent)
{
	if (x->n_nodes >= UINT32_MAX || !GROW(x->nodes, x->n_nodes, x->cap_nodes)) {
		x->failed = true;
		return false;
	}
	x->nodes[x->n_nodes++] = (struct index_node){.off = off, .parent = parent};
	return true;
}

static void add_function(struct unit_index *x, uint64_t low, uint64_t off)
{
	if (!GROW(x->functions, x->n_functions, x->cap_functions)) {
		x->failed = true;
		return;
	}
	x->functions[x->n_functions++] = (struct index_function){low, off};
}

static bool first_low(void *ctx, uint64_t low, uint64_t high)
{
	(void)high;
	*(uint64_t *)ctx = low;
	return true;
}

static uint64_t visit_unit(void *ctx, const struct dwarf_die *die, uint64_t level)
{
	struct unit_index *x = ctx;
	uint64_t low;

	if (x->failed)
		return CLOSED;
	switch (die_tag(die)) {
	case DW_TAG_structure_type:
		if (is_cell(die, die_name(die)) && !list_add(&x->cells, 0, dwarf_ref(die)))
			x->failed = true;
		/* fall through */
	case DW_TAG_namespace:
	case DW_TAG_class_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		return add_node(x, die->off, (uint32_t)level) ? x->n_nodes - 1 : CLOSED;
	case DW_TAG_subprogram:
		add_node(x, die->off, (uint32_t)level);
		if ((die_addr(die, DW_AT_low_pc, &low) ||
		     (die_has(die, DW_AT_ranges) && die_ranges(die, first_low, &low))) &&
		    low)
			add_function(x, low, die->off);
		if (!strncmp(die_name(die), "{async_", 7) &&
		    !list_add(&x->coroutines, 0, dwarf_ref(die)))
			x->failed = true;
		return CLOSED;
	default:
		return CLOSED;
	}
}

static int by_low(const void *a, const void *b)
{
	const struct index_function *x = a, *y = b;

	return ASCENDING(x->low, y->low);
}

struct unit_index *unit_index_of(struct dwarf_unit *u)
{
	struct unit_index *x = u->index;

	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	u->index = x;
	walk(u, UINT32_MAX, visit_unit, x);
	if (x->n_functions)
		qsort(x->functions, x->n_functions, sizeof(*x->functions), by_low);
	return x;
}

void unit_index_free(struct dwarf_unit *u)
{
	struct unit_index *x = u->index;

	if (!x)
		return;
	free(x->nodes);
	free(x->functions);
	free(x->cells.v);
	free(x->coroutines.v);
	free(x);
	u->index = NULL;
}

struct index_node *unit_index_node(struct unit_index *x, uint64_t off)
{
	size_t lo = PARTITION_POINT(i, 0, x->n_nodes, x->nodes[i].off < off);

	return lo < x->n_nodes && x->nodes[lo].off == off ? &x->nodes[lo] : NULL;
}

const struct index_function *unit_index_function(const struct unit_index *x, uint64_t addr)
{
	size_t lo = PARTITION_POINT(i, 0, x->n_functions, x->functions[i].low <= addr);

	return lo ? &x->functions[lo - 1] : NULL;
}

/* ---- all units ---- */

uint64_t index_hash(uint64_t parent, const char *name)
{
	uint64_t h = hash_bytes(parent, name, strnlen(name, HASHED_BYTES));

	return h == CLOSED ? 0 : h;
}

struct global {
	struct units *units;
	struct debug_index *x;
	bool failed;
};

/* "<X as Trait>::{vtable}", whose type knows X. */
static void add_vtable(struct global *g, const struct dwarf_die *die)
{
	struct dwarf_die type;
	uint64_t addr, containing;

	if (!strstr(die_name(die), "::{vtable}") || !die_location(die, &addr) || !addr ||
	    !units_die(g->units, die_ref(die, DW_AT_type), &type))
		return;
	containing = die_ref(&type, DW_AT_containing_type);
	if (containing && !list_add(&g->x->vtables, addr, containing))
		g->failed = true;
}

/* Rust's thread_local! makes variables of these names; a symbol's target is the DIE's. */
static void add_local(struct global *g, const struct dwarf_die *die)
{
	static const char *const names[] = {"__RUST_STD_INTERNAL_VAL", "__KEY"};
	const char *name = die_name(die), *symbol;

	if (strcmp(name, names[0]) != 0 && strcmp(name, names[1]) != 0)
		return;
	symbol = die_str(die, DW_AT_linkage_name);
	if (symbol && !list_add(&g->x->locals, index_hash(INDEX_TOP, symbol), dwarf_ref(die)))
		g->failed = true;
}

static uint64_t visit_global(void *ctx, const struct dwarf_die *die, uint64_t level)
{
	struct global *g = ctx;
	const char *name;

	switch (die_tag(die)) {
	case DW_TAG_namespace:
		return index_hash(level, die_name(die));
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_enumeration_type:
		if (die_has(die, DW_AT_declaration))
			return CLOSED;
		name = die_name(die);
		if (!list_add(&g->x->types, index_hash(level, name), dwarf_ref(die)) ||
		    (is_cell(die, name) &&
		     !list_add(&g->x->cells, index_hash(INDEX_TOP, name), dwarf_ref(die))))
			g->failed = true;
		return CLOSED;
	case DW_TAG_subprogram:
		name = die_name(die);
		if (!strncmp(name, "{async_", 7) &&
		    !list_add(&g->x->coroutines, index_hash(level, name), dwarf_ref(die)))
			g->failed = true;
		return CLOSED;
	case DW_TAG_variable:
		add_vtable(g, die);
		add_local(g, die);
		return CLOSED;
	default:
		return CLOSED;
	}
}

int debug_index_make(struct units *us, struct debug_index *ret)
{
	struct global g = {us, ret, false};
	struct index_list *lists[] = {&ret->types, &ret->cells, &ret->coroutines, &ret->vtables,
				      &ret->locals};

	for (size_t i = 0; i < units_n(us) && !g.failed; i++) {
		struct dwarf_unit *u = units_get(us, i);

		if (u)
			walk(u, INDEX_TOP, visit_global, &g);
		g.failed = g.failed || (u && dwarf_step(u->source->stop));
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists) && !g.failed; i++)
		g.failed = image_sort(lists[i]->v, lists[i]->n, sizeof(*lists[i]->v)) < 0;
	if (!g.failed)
		return 0;
	debug_index_done(ret);
	return -ENOMEM;
}

void debug_index_done(struct debug_index *x)
{
	free(x->types.v);
	free(x->cells.v);
	free(x->coroutines.v);
	free(x->vtables.v);
	free(x->locals.v);
	*x = (struct debug_index){0};
}

const struct index_entry *index_list_find(const struct index_list *l, uint64_t key, size_t *ret_n)
{
	size_t i = image_find(l->v, l->n, sizeof(*l->v), key, ret_n);

	return *ret_n ? &l->v[i] : NULL;
}
