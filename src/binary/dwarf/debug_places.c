/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where code was written: the line table gives file and line of an address, the tree of inlined
 * functions gives the calls there.
 */
#include "binary/dwarf/debug_data.h"

#include <dwarf.h>
#include <string.h>

bool debug_function_covering(struct debug *d, uint64_t addr, struct dwarf_die *ret)
{
	struct dwarf_unit *u = units_covering(d->units, addr);
	const struct unit_index *x = u ? unit_index_of(u) : NULL;
	const struct index_function *f = x ? unit_index_function(x, addr) : NULL;

	return f && die_at(u, f->off, ret) && die_covers(ret, addr);
}

size_t debug_inlined_at(const struct dwarf_die *function, uint64_t addr, struct dwarf_die *ret,
			size_t max)
{
	struct dwarf_die at = *function, die;
	size_t n = 0;

	for (unsigned depth = 0; depth < 2 * DEBUG_MAX_DEPTH && n < max; depth++) {
		bool found = false;

		for (bool ok = die_child(&at, &die); ok; ok = die_sibling(&die, &die)) {
			unsigned tag = die_tag(&die);

			if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block)
				continue;
			found = die_covers(&die, addr);
			if (found && tag == DW_TAG_inlined_subroutine)
				ret[n++] = die;
			if (found)
				break;
		}
		if (!found)
			break;
		at = die;
	}
	return n;
}

/* Innermost first. */
static size_t find_places(struct debug *d, uint64_t addr, struct dw_place *ret, size_t max)
{
	struct dwarf_die function, inlined[DEBUG_MAX_DEPTH];
	struct dwarf_unit *u = units_covering(d->units, addr);
	const char *file = NULL;
	uint32_t line = 0;
	size_t n = 0, depth;
	uint64_t v;

	if (!u)
		return 0;
	/* of a split unit, the lines are with its skeleton */
	if (unit_line(u, addr, &v, &line))
		file = unit_file(u->skeleton ? u->skeleton : u, v);
	if (!debug_function_covering(d, addr, &function)) {
		if (file)
			ret[n++] = (struct dw_place){NULL, file, line};
		return n;
	}
	depth = debug_inlined_at(&function, addr, inlined, DEBUG_MAX_DEPTH);
	for (size_t i = depth + 1; i-- > 0 && n < max;) {
		struct dw_function f = {0};

		debug_function_read(d, i ? &inlined[i - 1] : &function, &f);
		ret[n++] = (struct dw_place){f.full_name, file, line};
		if (i == 0)
			break;
		/* the next one out called this one here */
		file = die_u64(&inlined[i - 1], DW_AT_call_file, &v) ? unit_file(u, v) : NULL;
		line = die_u64(&inlined[i - 1], DW_AT_call_line, &v) ? (uint32_t)v : 0;
	}
	return n;
}

size_t debug_places(struct debug *d, uint64_t addr, struct dw_place *ret, size_t max)
{
	struct debug_place_list *l = map_get(&d->places, addr, 0);
	struct dw_place found[2 * DEBUG_MAX_DEPTH];
	size_t n;

	if (!max)
		return 0;
	if (!l || (l->max < max && l->n == l->max)) {
		if (!debug_units(d))
			return 0;
		n = find_places(d, addr, found,
				max < 2 * DEBUG_MAX_DEPTH ? max : 2 * DEBUG_MAX_DEPTH);
		l = debug_alloc(d, sizeof(*l) + n * sizeof(l->v[0]));
		if (!l)
			return 0;
		l->n = n;
		l->max = max;
		memcpy(l->v, found, n * sizeof(*found));
		debug_keep(d, &d->places, addr, 0, l);
	}
	n = l->n < max ? l->n : max;
	memcpy(ret, l->v, n * sizeof(*ret));
	return n;
}
