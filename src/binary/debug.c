/*
 * Units, functions and types through libdw; see debug.h.
 *
 * libdw's DIEs know their children but not their parents, and Rust's names live in the parents
 * (namespaces). So a unit that is asked for is walked once, through namespaces and structures
 * only, and leaves an index: each DIE of interest with its parent, sorted by offset; functions by
 * address; vtables. A reference is a DIE's offset in .debug_info, which is all that identity needs.
 */
#include "binary/debug.h"

#include "base/map.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MAX_DEPTH = 64,	       /* of nested namespaces and structures */
	MAX_CHILDREN = 100000, /* members or variants of one type */
	MAX_NAME = 4096,
};

/* A DIE of a unit that can be a parent, a type, a function or a vtable. */
struct node {
	uint64_t off;
	uint32_t parent; /* index in the unit's nodes, UINT32_MAX at the top */
	const char *full; /* made when asked for */
};

struct function {
	uint64_t low;
	uint64_t off;
};

struct unit {
	uint64_t off; /* of the unit's DIE */
	struct node *nodes;
	size_t n_nodes, cap_nodes;
	struct function *functions; /* with code, sorted by address */
	size_t n_functions, cap_functions;
	bool failed;
};

struct block {
	struct block *next;
	size_t used, size;
	char data[];
};

/* Offsets of DIEs. */
struct list {
	uint64_t *v;
	size_t n, cap;
};

/* Code ranges of units, sorted. */
struct range {
	uint64_t low, high;
	uint64_t unit;
};

struct debug {
	Dwfl *dwfl;
	Dwarf *dw; /* belongs to dwfl */
	struct map units;    /* (offset, 0) -> struct unit */
	struct map types;    /* (offset, 0) -> struct dw_type */
	struct map vtables;  /* (address, 0) -> DIE offset + 1 of the containing type */
	/* Kept by name, since they may stand in another unit than what leads to them. */
	struct list cells;	/* structures Cell<...> */
	struct list coroutines; /* functions {async_fn#0} and the like: polls of coroutines */
	bool all_units; /* every unit was walked */
	struct block *blocks;
	struct range *ranges;
	size_t n_ranges;
	bool ranges_done;
};

static void *arena(struct debug *d, size_t len)
{
	struct block *b = d->blocks;
	void *p;

	len = (len + 15) & ~(size_t)15;
	if (!b || b->size - b->used < len) {
		size_t size = len > 65536 ? len : 65536;

		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		b->next = d->blocks;
		b->used = 0;
		b->size = size;
		d->blocks = b;
	}
	p = b->data + b->used;
	b->used += len;
	memset(p, 0, len);
	return p;
}

/* libdwfl looks for separate debug information: by build-id, .gnu_debuglink, debuginfod's cache. */
int debug_open(int fd, const char *path, struct debug **ret_dwarf, struct error *err)
{
	static char *debug_path; /* NULL: the standard places */
	static const Dwfl_Callbacks callbacks = {
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
		.debuginfo_path = &debug_path,
	};
	struct debug *d = calloc(1, sizeof(*d));
	Dwfl_Module *module;
	Dwarf_Addr bias;
	int own = -1, r;

	if (!d)
		return error_set(err, -ENOMEM, "out of memory");
	d->dwfl = dwfl_begin(&callbacks);
	own = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* libdwfl keeps and closes it */
	if (!d->dwfl || own < 0) {
		r = error_set(err, -ENOMEM, "out of memory");
		goto fail;
	}
	module = dwfl_report_offline(d->dwfl, path, path, own);
	if (!module) {
		r = error_set(err, -ENODATA, "%s: %s", path, dwfl_errmsg(-1));
		goto fail;
	}
	own = -1;
	dwfl_report_end(d->dwfl, NULL, NULL);
	d->dw = dwfl_module_getdwarf(module, &bias);
	if (!d->dw) {
		r = error_set(err, -ENODATA,
			      "%s has no debug information, and there is none by build-id, debuglink or "
			      "debuginfod's cache: build with `debug = true` in [profile.release]",
			      path);
		goto fail;
	}
	*ret_dwarf = d;
	return 0;
fail:
	if (own >= 0)
		close(own);
	dwfl_end(d->dwfl);
	free(d);
	return r;
}

static void units_free(struct map *units)
{
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(units, &pos))) {
		struct unit *u = e->value;

		free(u->nodes);
		free(u->functions);
		free(u);
	}
	map_done(units);
}

void debug_free(struct debug *d)
{
	if (!d)
		return;
	units_free(&d->units);
	map_done(&d->types);
	map_done(&d->vtables);
	while (d->blocks) {
		struct block *next = d->blocks->next;

		free(d->blocks);
		d->blocks = next;
	}
	free(d->ranges);
	free(d->cells.v);
	free(d->coroutines.v);
	dwfl_end(d->dwfl);
	free(d);
}

/* ---- attributes ---- */

static const char *die_name(Dwarf_Die *die)
{
	const char *s = dwarf_diename(die);

	return s ? s : "";
}

static bool attr_u64(Dwarf_Die *die, unsigned name, uint64_t *ret)
{
	Dwarf_Attribute a;
	Dwarf_Word w;

	if (!dwarf_attr(die, name, &a) || dwarf_formudata(&a, &w) != 0)
		return false;
	*ret = w;
	return true;
}

/* A reference attribute as offset, 0 if absent. */
static uint64_t attr_ref(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute a;
	Dwarf_Die target;

	if (!dwarf_attr(die, name, &a) || !dwarf_formref_die(&a, &target))
		return 0;
	return dwarf_dieoffset(&target);
}

static bool attr_addr(Dwarf_Die *die, uint64_t *ret)
{
	Dwarf_Attribute a;
	Dwarf_Op *ops;
	size_t n;

	if (!dwarf_attr(die, DW_AT_location, &a) || dwarf_getlocation(&a, &ops, &n) != 0 || n < 1)
		return false;
	if (ops[0].atom != DW_OP_addr)
		return false;
	*ret = ops[0].number;
	return true;
}

static void decl_place(Dwarf_Die *die, const char **ret_file, uint32_t *ret_line)
{
	int line;

	*ret_file = dwarf_decl_file(die);
	*ret_line = dwarf_decl_line(die, &line) == 0 ? (uint32_t)line : 0;
}

/* ---- units ---- */

static struct node *unit_add_node(struct unit *u, uint64_t off, uint32_t parent)
{
	if (u->n_nodes == u->cap_nodes) {
		size_t cap = u->cap_nodes ? u->cap_nodes * 2 : 1024;
		struct node *v = reallocarray(u->nodes, cap, sizeof(*v));

		if (!v) {
			u->failed = true;
			return NULL;
		}
		u->nodes = v;
		u->cap_nodes = cap;
	}
	u->nodes[u->n_nodes] = (struct node){ .off = off, .parent = parent };
	return &u->nodes[u->n_nodes++];
}

static void unit_add_function(struct unit *u, uint64_t low, uint64_t off)
{
	if (u->n_functions == u->cap_functions) {
		size_t cap = u->cap_functions ? u->cap_functions * 2 : 256;
		struct function *v = reallocarray(u->functions, cap, sizeof(*v));

		if (!v) {
			u->failed = true;
			return;
		}
		u->functions = v;
		u->cap_functions = cap;
	}
	u->functions[u->n_functions++] = (struct function){ low, off };
}

static void list_add(struct list *l, uint64_t off)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 256;
		uint64_t *v = reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = off;
}

/* In preorder, so nodes come out sorted by offset. */
static void unit_walk(struct debug *d, struct unit *u, Dwarf_Die *parent, uint32_t parent_index,
		      unsigned depth)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return;
	do {
		uint64_t off = dwarf_dieoffset(&die);
		uint32_t index = (uint32_t)u->n_nodes;
		uint64_t addr;
		Dwarf_Addr low;

		switch (dwarf_tag(&die)) {
		case DW_TAG_structure_type:
			if (!strncmp(die_name(&die), "Cell<", 5) && !dwarf_hasattr(&die, DW_AT_declaration))
				list_add(&d->cells, off);
			/* fall through */
		case DW_TAG_namespace:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
			if (unit_add_node(u, off, parent_index))
				unit_walk(d, u, &die, index, depth + 1);
			break;
		case DW_TAG_subprogram:
			unit_add_node(u, off, parent_index);
			if (!strncmp(die_name(&die), "{async_", 7))
				list_add(&d->coroutines, off);
			if (dwarf_lowpc(&die, &low) == 0 && low)
				unit_add_function(u, low, off);
			break;
		case DW_TAG_variable:
			if (strstr(die_name(&die), "::{vtable}") && attr_addr(&die, &addr) && addr) {
				Dwarf_Die type;
				Dwarf_Attribute a;
				uint64_t containing;

				if (!dwarf_attr(&die, DW_AT_type, &a) || !dwarf_formref_die(&a, &type))
					break;
				containing = attr_ref(&type, DW_AT_containing_type);
				if (containing)
					map_put(&d->vtables, addr, 0, (void *)(uintptr_t)(containing + 1));
			}
			break;
		default:
			break;
		}
	} while (!u->failed && dwarf_siblingof(&die, &die) == 0);
}

static int by_low(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->low < y->low ? -1 : x->low > y->low;
}

static struct unit *unit_at(struct debug *d, uint64_t cu_off)
{
	struct unit *u = map_get(&d->units, cu_off, 0);
	Dwarf_Die cu;

	if (u)
		return u;
	if (!dwarf_offdie(d->dw, cu_off, &cu))
		return NULL;
	u = calloc(1, sizeof(*u));
	if (!u || map_put(&d->units, cu_off, 0, u) < 0) {
		free(u);
		return NULL;
	}
	u->off = cu_off;
	unit_walk(d, u, &cu, UINT32_MAX, 0);
	if (u->n_functions)
		qsort(u->functions, u->n_functions, sizeof(*u->functions), by_low);
	return u;
}

static struct unit *unit_of_die(struct debug *d, Dwarf_Die *die)
{
	Dwarf_Die cu;

	if (!dwarf_diecu(die, &cu, NULL, NULL))
		return NULL;
	return unit_at(d, dwarf_dieoffset(&cu));
}

static struct node *unit_node(struct unit *u, uint64_t off)
{
	size_t lo = 0, hi = u->n_nodes;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (u->nodes[mid].off < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < u->n_nodes && u->nodes[lo].off == off ? &u->nodes[lo] : NULL;
}

/* The name with all namespaces. */
static const char *node_full(struct debug *d, struct unit *u, struct node *n, unsigned depth)
{
	Dwarf_Die die;
	const char *name, *up = NULL;
	char *full;
	size_t len;

	if (n->full)
		return n->full;
	if (!dwarf_offdie(d->dw, n->off, &die))
		return "";
	name = die_name(&die);
	if (n->parent != UINT32_MAX && depth < MAX_DEPTH)
		up = node_full(d, u, &u->nodes[n->parent], depth + 1);
	if (!up || !*up) {
		n->full = name;
		return name;
	}
	len = strlen(up) + 2 + strlen(name) + 1;
	full = arena(d, len);
	if (!full)
		return name;
	snprintf(full, len, "%s::%s", up, name);
	n->full = full;
	return full;
}

static const char *die_full(struct debug *d, Dwarf_Die *die)
{
	struct unit *u = unit_of_die(d, die);
	struct node *n = u ? unit_node(u, dwarf_dieoffset(die)) : NULL;

	return n ? node_full(d, u, n, 0) : die_name(die);
}

/* ---- code ranges ---- */

static int by_range(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->low < y->low ? -1 : x->low > y->low;
}

static bool ranges_add(struct debug *d, size_t *cap, uint64_t low, uint64_t high, uint64_t unit)
{
	if (d->n_ranges == *cap) {
		size_t n = *cap ? *cap * 2 : 4096;
		struct range *v = reallocarray(d->ranges, n, sizeof(*v));

		if (!v)
			return false;
		d->ranges = v;
		*cap = n;
	}
	d->ranges[d->n_ranges++] = (struct range){ low, high, unit };
	return true;
}

/* From .debug_aranges, and from the units' own DIEs where that section is missing. */
static void ranges_read(struct debug *d)
{
	Dwarf_Aranges *aranges;
	size_t n, cap = 0;

	if (d->ranges_done)
		return;
	d->ranges_done = true;
	if (dwarf_getaranges(d->dw, &aranges, &n) == 0 && n) {
		for (size_t i = 0; i < n; i++) {
			Dwarf_Arange *a = dwarf_onearange(aranges, i);
			Dwarf_Addr low;
			Dwarf_Word len;
			Dwarf_Off off;

			if (a && dwarf_getarangeinfo(a, &low, &len, &off) == 0 && low && len)
				if (!ranges_add(d, &cap, low, low + len, off))
					break;
		}
	} else {
		Dwarf_CU *cu = NULL;
		Dwarf_Die die;

		while (dwarf_get_units(d->dw, cu, &cu, NULL, NULL, &die, NULL) == 0) {
			Dwarf_Addr base, low, high;
			ptrdiff_t pos = 0;

			while ((pos = dwarf_ranges(&die, pos, &base, &low, &high)) > 0)
				if (low && high > low)
					ranges_add(d, &cap, low, high, dwarf_dieoffset(&die));
		}
	}
	if (d->n_ranges)
		qsort(d->ranges, d->n_ranges, sizeof(*d->ranges), by_range);
}

static bool unit_covering(struct debug *d, uint64_t addr, uint64_t *ret_unit)
{
	size_t lo = 0, hi;

	ranges_read(d);
	hi = d->n_ranges;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (d->ranges[mid].low <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || addr >= d->ranges[lo - 1].high)
		return false;
	*ret_unit = d->ranges[lo - 1].unit;
	return true;
}

/* ---- types ---- */

static enum dw_class class_of(int tag)
{
	switch (tag) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
		return DC_STRUCT;
	case DW_TAG_union_type:
		return DC_UNION;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
		return DC_POINTER;
	case DW_TAG_base_type:
		return DC_BASE;
	case DW_TAG_array_type:
		return DC_ARRAY;
	case DW_TAG_enumeration_type:
		return DC_ENUM;
	default:
		return DC_OTHER;
	}
}

/* How many children of these tags there are; bounded. */
static size_t count_children(Dwarf_Die *parent, int tag_a, int tag_b)
{
	Dwarf_Die die;
	size_t n = 0;

	if (dwarf_child(parent, &die) != 0)
		return 0;
	do {
		int tag = dwarf_tag(&die);

		n += tag == tag_a || tag == tag_b;
	} while (n < MAX_CHILDREN && dwarf_siblingof(&die, &die) == 0);
	return n;
}

static void read_member(Dwarf_Die *die, struct dw_member *m)
{
	m->name = die_name(die);
	m->type_ref = attr_ref(die, DW_AT_type);
	if (!attr_u64(die, DW_AT_data_member_location, &m->offset))
		m->offset = 0;
	decl_place(die, &m->file, &m->line);
}

static void read_variants(struct debug *d, struct dw_type *t, Dwarf_Die *part)
{
	uint64_t discr = attr_ref(part, DW_AT_discr);
	size_t n = count_children(part, DW_TAG_variant, DW_TAG_variant);
	Dwarf_Die die, member;

	t->has_variants = true;
	if (discr && dwarf_offdie(d->dw, discr, &die)) {
		Dwarf_Die base;
		Dwarf_Attribute a;
		int size = 0;

		if (!attr_u64(&die, DW_AT_data_member_location, &t->discr_offset))
			t->discr_offset = 0;
		if (dwarf_attr(&die, DW_AT_type, &a) && dwarf_formref_die(&a, &base))
			size = dwarf_bytesize(&base);
		t->discr_size = size > 0 && size <= 8 ? (uint32_t)size : 0;
	}
	t->variants = n ? arena(d, n * sizeof(*t->variants)) : NULL;
	if (!t->variants || dwarf_child(part, &die) != 0)
		return;
	do {
		struct dw_variant *v;

		if (dwarf_tag(&die) != DW_TAG_variant || t->n_variants >= n)
			continue;
		v = &t->variants[t->n_variants];
		v->is_default = !attr_u64(&die, DW_AT_discr_value, &v->value);
		if (!v->is_default && t->discr_size && t->discr_size < 8)
			v->value &= (1ULL << (8 * t->discr_size)) - 1;
		if (dwarf_child(&die, &member) != 0)
			continue;
		do {
			if (dwarf_tag(&member) == DW_TAG_member) {
				read_member(&member, &v->member);
				t->n_variants++;
				break;
			}
		} while (dwarf_siblingof(&member, &member) == 0);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static void read_params(struct debug *d, struct dw_type *t, Dwarf_Die *parent, int tag)
{
	size_t n = count_children(parent, tag, tag);
	Dwarf_Die die;

	t->params = n ? arena(d, n * sizeof(*t->params)) : NULL;
	if (!t->params || dwarf_child(parent, &die) != 0)
		return;
	do {
		struct dw_param *p;

		if (dwarf_tag(&die) != tag || t->n_params >= n)
			continue;
		p = &t->params[t->n_params++];
		p->name = die_name(&die);
		if (tag == DW_TAG_enumerator)
			attr_u64(&die, DW_AT_const_value, &p->type_ref);
		else
			p->type_ref = attr_ref(&die, DW_AT_type);
	} while (dwarf_siblingof(&die, &die) == 0);
}

static void read_struct(struct debug *d, struct dw_type *t, Dwarf_Die *parent)
{
	size_t n = count_children(parent, DW_TAG_member, DW_TAG_member);
	Dwarf_Die die;

	t->members = n ? arena(d, n * sizeof(*t->members)) : NULL;
	if (dwarf_child(parent, &die) != 0)
		return;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_member:
			if (t->members && t->n_members < n)
				read_member(&die, &t->members[t->n_members++]);
			break;
		case DW_TAG_variant_part:
			if (!t->has_variants)
				read_variants(d, t, &die);
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	read_params(d, t, parent, DW_TAG_template_type_parameter);
}

static uint64_t array_count(Dwarf_Die *array)
{
	Dwarf_Die die;
	uint64_t n = 0;

	if (dwarf_child(array, &die) != 0)
		return 0;
	do {
		if (dwarf_tag(&die) != DW_TAG_subrange_type)
			continue;
		if (attr_u64(&die, DW_AT_count, &n))
			return n;
		if (attr_u64(&die, DW_AT_upper_bound, &n))
			return n + 1;
	} while (dwarf_siblingof(&die, &die) == 0);
	return 0;
}

const struct dw_type *dw_type_of(struct debug *d, uint64_t ref)
{
	struct dw_type *t;
	Dwarf_Die die;
	Dwarf_Word size;
	uint64_t v;
	int tag;

	if (!ref)
		return NULL;
	t = map_get(&d->types, ref, 0);
	if (t)
		return t;
	if (!dwarf_offdie(d->dw, ref, &die))
		return NULL;
	t = arena(d, sizeof(*t));
	if (!t)
		return NULL;
	tag = dwarf_tag(&die);
	/* typedefs and qualifiers are looked through */
	for (unsigned i = 0; i < 16; i++) {
		uint64_t next;

		if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type)
			break;
		next = attr_ref(&die, DW_AT_type);
		if (!next || !dwarf_offdie(d->dw, next, &die))
			return NULL;
		tag = dwarf_tag(&die);
	}
	t->ref = ref;
	t->class = class_of(tag);
	t->name = die_name(&die);
	t->full = t->class == DC_STRUCT || t->class == DC_UNION || t->class == DC_ENUM ?
			  die_full(d, &die) :
			  t->name;
	t->size = dwarf_aggregate_size(&die, &size) == 0 ? size : 0;
	t->declaration = dwarf_hasattr(&die, DW_AT_declaration);
	t->target_ref = t->class == DC_POINTER || t->class == DC_ARRAY ? attr_ref(&die, DW_AT_type) : 0;
	if (t->class == DC_BASE && attr_u64(&die, DW_AT_encoding, &v))
		t->encoding = (uint8_t)v;
	if (t->class == DC_POINTER && !t->size)
		t->size = 8;
	/* known before its members are read: nothing recurses, but map_put must not fail half-way */
	if (map_put(&d->types, ref, 0, t) < 0)
		return NULL;
	if (t->class == DC_STRUCT || t->class == DC_UNION)
		read_struct(d, t, &die);
	else if (t->class == DC_ENUM)
		read_params(d, t, &die, DW_TAG_enumerator);
	else if (t->class == DC_ARRAY)
		t->n_elements = array_count(&die);
	return t;
}

const struct dw_type *dw_member_type(struct debug *d, const struct dw_member *m)
{
	return m ? dw_type_of(d, m->type_ref) : NULL;
}

const struct dw_type *dw_param_type(struct debug *d, const struct dw_type *t, const char *name)
{
	for (size_t i = 0; t && i < t->n_params; i++)
		if (!strcmp(t->params[i].name, name))
			return dw_type_of(d, t->params[i].type_ref);
	return NULL;
}

const struct dw_member *dw_find_member(const struct dw_type *t, const char *name)
{
	for (size_t i = 0; t && i < t->n_members; i++)
		if (!strcmp(t->members[i].name, name))
			return &t->members[i];
	return NULL;
}

/* ---- functions ---- */

/* A concrete function's name and parameters may stand in its specification or abstract origin. */
static void function_read(struct debug *d, Dwarf_Die *die, struct dw_function *f)
{
	Dwarf_Die at = *die, child;

	for (unsigned i = 0; i < 4; i++) {
		Dwarf_Die next;
		Dwarf_Attribute a;

		if (dwarf_child(&at, &child) == 0) {
			bool formal = f->self_ref != 0;

			do {
				int tag = dwarf_tag(&child);

				if (tag == DW_TAG_template_type_parameter && f->n_params < 8) {
					bool have = false;

					for (size_t k = 0; k < f->n_params; k++)
						have |= !strcmp(f->params[k].name, die_name(&child));
					if (!have)
						f->params[f->n_params++] = (struct dw_param){
							die_name(&child), attr_ref(&child, DW_AT_type) };
				} else if (tag == DW_TAG_formal_parameter && !formal) {
					Dwarf_Attribute type;
					Dwarf_Die target;

					formal = true;
					if (dwarf_attr_integrate(&child, DW_AT_type, &type) &&
					    dwarf_formref_die(&type, &target))
						f->self_ref = dwarf_dieoffset(&target);
				}
			} while (dwarf_siblingof(&child, &child) == 0);
		}
		if (!f->name && dwarf_hasattr(&at, DW_AT_name)) {
			f->name = die_name(&at);
			f->full = die_full(d, &at);
			decl_place(&at, &f->file, &f->line);
		}
		if ((!dwarf_attr(&at, DW_AT_specification, &a) &&
		     !dwarf_attr(&at, DW_AT_abstract_origin, &a)) ||
		    !dwarf_formref_die(&a, &next))
			break;
		at = next;
	}
	if (!f->name)
		f->name = f->full = "";
}

int debug_function(struct debug *d, uint64_t addr, struct dw_function *ret)
{
	struct unit *u;
	uint64_t cu;
	size_t lo = 0, hi;
	Dwarf_Die die;
	Dwarf_Addr high;

	if (!unit_covering(d, addr, &cu) || !(u = unit_at(d, cu)))
		return 0;
	hi = u->n_functions;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (u->functions[mid].low < addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == u->n_functions || u->functions[lo].low != addr ||
	    !dwarf_offdie(d->dw, u->functions[lo].off, &die))
		return 0;
	*ret = (struct dw_function){ .low = addr, .ref = u->functions[lo].off };
	ret->high = dwarf_highpc(&die, &high) == 0 ? high : addr;
	function_read(d, &die, ret);
	return 1;
}

static bool same_type(struct debug *d, uint64_t a, uint64_t b)
{
	const struct dw_type *x, *y;

	if (a == b)
		return true;
	x = dw_type_of(d, a);
	y = dw_type_of(d, b);
	return x && y && x->class == y->class && x->size == y->size && !strcmp(x->full, y->full);
}

static void walk_all_units(struct debug *d)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;

	if (d->all_units)
		return;
	d->all_units = true;
	while (dwarf_get_units(d->dw, cu, &cu, NULL, NULL, &die, NULL) == 0)
		unit_at(d, dwarf_dieoffset(&die));
}

const struct dw_type *debug_cell(struct debug *d, const uint64_t *near_addrs, size_t n_near,
				 const uint64_t *param_refs, size_t n_params)
{
	uint64_t cu;

	for (size_t i = 0; i < n_near; i++)
		if (unit_covering(d, near_addrs[i], &cu))
			unit_at(d, cu);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < d->cells.n; i++) {
			const struct dw_type *t = dw_type_of(d, d->cells.v[i]);
			bool ok = t && t->n_params >= n_params;

			for (size_t k = 0; ok && k < n_params; k++)
				ok = same_type(d, t->params[k].type_ref, param_refs[k]);
			if (ok)
				return t;
		}
		if (d->all_units)
			break;
		walk_all_units(d);
	}
	return NULL;
}

const struct dw_type *debug_vtable_type(struct debug *d, uint64_t vtable_addr)
{
	void *v = map_get(&d->vtables, vtable_addr, 0);

	if (!v && !d->all_units) {
		walk_all_units(d);
		v = map_get(&d->vtables, vtable_addr, 0);
	}
	return v ? dw_type_of(d, (uint64_t)(uintptr_t)v - 1) : NULL;
}

/* ---- places ---- */

static bool find_awaitee(struct debug *d, Dwarf_Die *parent, uint64_t type, unsigned depth,
			 const char **ret_file, uint32_t *ret_line)
{
	Dwarf_Die die;

	if (depth > MAX_DEPTH || dwarf_child(parent, &die) != 0)
		return false;
	do {
		switch (dwarf_tag(&die)) {
		case DW_TAG_variable:
			if (!strcmp(die_name(&die), "__awaitee") &&
			    same_type(d, attr_ref(&die, DW_AT_type), type)) {
				decl_place(&die, ret_file, ret_line);
				return *ret_line != 0;
			}
			break;
		case DW_TAG_lexical_block:
			if (find_awaitee(d, &die, type, depth + 1, ret_file, ret_line))
				return true;
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&die, &die) == 0);
	return false;
}

/* "app::f::{async_fn_env#0}<T>" is polled by the function "app::f::{async_fn#0}<T>". */
static bool poll_function_name(const char *env, char *out, size_t size)
{
	const char *cut = NULL;

	/* the last one outside of generics: "_env#" right behind "{async_..." */
	for (const char *p = env; (p = strstr(p, "{async_")); p++) {
		const char *end = strstr(p, "_env#");

		if (end && end < strchrnul(p, '}'))
			cut = end;
		if (strchr(env, '<') && p > strchr(env, '<'))
			break;
	}
	if (!cut)
		return false;
	return snprintf(out, size, "%.*s%s", (int)(cut - env), env, cut + 4) < (int)size;
}

bool debug_await_place(struct debug *d, const struct dw_type *env, uint64_t awaitee_ref,
		       const char **ret_file, uint32_t *ret_line)
{
	char want[2048];
	size_t done = 0;

	if (!poll_function_name(env->full, want, sizeof(want)))
		return false;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (; done < d->coroutines.n; done++) {
			Dwarf_Die die;

			if (!dwarf_offdie(d->dw, d->coroutines.v[done], &die) ||
			    !strstr(want, die_name(&die)) || strcmp(die_full(d, &die), want) != 0)
				continue;
			if (find_awaitee(d, &die, awaitee_ref, 0, ret_file, ret_line))
				return true;
		}
		walk_all_units(d);
	}
	return false;
}

static const char *line_file(Dwarf_Die *cu, uint64_t addr, uint32_t *ret_line)
{
	Dwarf_Line *line = dwarf_getsrc_die(cu, addr);
	int no;

	if (!line || dwarf_lineno(line, &no) != 0)
		return NULL;
	*ret_line = (uint32_t)no;
	return dwarf_linesrc(line, NULL, NULL);
}

/* The function of a unit whose code covers addr. */
static bool function_covering(struct debug *d, struct unit *u, uint64_t addr, Dwarf_Die *ret)
{
	size_t lo = 0, hi = u->n_functions;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (u->functions[mid].low <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && dwarf_offdie(d->dw, u->functions[lo - 1].off, ret) && dwarf_haspc(ret, addr) == 1;
}

/* The inlined functions that cover addr, outermost first. */
static size_t inlined_at(Dwarf_Die *function, uint64_t addr, Dwarf_Die *ret, size_t max)
{
	Dwarf_Die at = *function, die;
	size_t n = 0;

	for (unsigned depth = 0; depth < MAX_DEPTH && n < max; depth++) {
		bool found = false;

		if (dwarf_child(&at, &die) != 0)
			break;
		do {
			int tag = dwarf_tag(&die);

			if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block)
				continue;
			found = dwarf_haspc(&die, addr) == 1;
			if (found && tag == DW_TAG_inlined_subroutine)
				ret[n++] = die;
		} while (!found && dwarf_siblingof(&die, &die) == 0);
		if (!found)
			break;
		at = die;
	}
	return n;
}

static const char *call_file(Dwarf_Die *cu, Dwarf_Die *inlined)
{
	Dwarf_Files *files;
	uint64_t no;
	size_t n;

	if (!attr_u64(inlined, DW_AT_call_file, &no) || dwarf_getsrcfiles(cu, &files, &n) != 0 || no >= n)
		return NULL;
	return dwarf_filesrc(files, no, NULL, NULL);
}

size_t debug_places(struct debug *d, uint64_t addr, struct dw_place *ret, size_t max)
{
	Dwarf_Die cu, function, inlined[MAX_DEPTH];
	struct unit *u;
	const char *file;
	uint32_t line = 0;
	uint64_t off;
	size_t n = 0, depth;

	if (!max || !unit_covering(d, addr, &off) || !dwarf_offdie(d->dw, off, &cu) ||
	    !(u = unit_at(d, off)))
		return 0;
	file = line_file(&cu, addr, &line);
	if (!function_covering(d, u, addr, &function)) {
		if (file)
			ret[n++] = (struct dw_place){NULL, file, line};
		return n;
	}
	depth = inlined_at(&function, addr, inlined, MAX_DEPTH);
	for (size_t i = depth + 1; i-- > 0 && n < max;) {
		struct dw_function f = {0};
		uint64_t call_line;

		function_read(d, i ? &inlined[i - 1] : &function, &f);
		ret[n++] = (struct dw_place){f.full, file, line};
		if (i == 0)
			break;
		/* the next one out called this one here */
		file = call_file(&cu, &inlined[i - 1]);
		line = attr_u64(&inlined[i - 1], DW_AT_call_line, &call_line) ? (uint32_t)call_line : 0;
	}
	return n;
}
