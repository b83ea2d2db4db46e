/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Types, compiled from their DIEs: once each, when asked for. What a type refers to is kept as
 * reference, so that the graph grows only where it is walked.
 *
 * A unit may only declare a type that another one defines; then the definition is looked up by its
 * name and serves for both.
 */
#include "base/hash.h"
#include "binary/dwarf/debug_data.h"

#include <dwarf.h>
#include <stdio.h>
#include <string.h>

enum {
	MAX_CHILDREN = 100000, /* members or variants of one type */
	MAX_NAMESAKES = 10000,
};

static enum dw_class class_of(unsigned tag)
{
	switch (tag) {
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
		return DC_STRUCT;
	case DW_TAG_union_type:
		return DC_UNION;
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
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

/* How many children of this tag there are; bounded. */
static size_t count_children(const struct dwarf_die *parent, unsigned tag)
{
	struct dwarf_die die;
	size_t n = 0;

	for (bool ok = die_child(parent, &die); ok && n < MAX_CHILDREN;
	     ok = die_sibling(&die, &die))
		n += die_tag(&die) == tag;
	return n;
}

static void read_member(const struct dwarf_die *die, struct dw_member *m)
{
	m->name = die_name(die);
	m->type_ref = die_ref(die, DW_AT_type);
	if (!die_u64(die, DW_AT_data_member_location, &m->offset))
		m->offset = 0;
	debug_decl_place(die, &m->file, &m->line);
}

static uint64_t byte_size(struct debug *d, const struct dwarf_die *die)
{
	struct dwarf_die at = *die;
	uint64_t size;

	for (unsigned i = 0; i < 8; i++) {
		if (die_u64(&at, DW_AT_byte_size, &size))
			return size;
		if (!units_die(d->units, die_ref(&at, DW_AT_type), &at))
			break;
	}
	return 0;
}

static void read_variants(struct debug *d, struct dw_type *t, const struct dwarf_die *part)
{
	size_t n = count_children(part, DW_TAG_variant);
	struct dwarf_die die, member, base;

	t->has_variants = true;
	if (units_die(d->units, die_ref(part, DW_AT_discr), &die)) {
		uint64_t size = 0;

		if (!die_u64(&die, DW_AT_data_member_location, &t->discr_offset))
			t->discr_offset = 0;
		if (units_die(d->units, die_ref(&die, DW_AT_type), &base))
			size = byte_size(d, &base);
		t->discr_size = size <= 8 ? (uint32_t)size : 0;
	}
	t->variants = n ? debug_alloc(d, n * sizeof(*t->variants)) : NULL;
	if (!t->variants)
		return;
	for (bool ok = die_child(part, &die); ok && t->n_variants < n;
	     ok = die_sibling(&die, &die)) {
		struct dw_variant *v = &t->variants[t->n_variants];

		if (die_tag(&die) != DW_TAG_variant)
			continue;
		v->is_default = !die_u64(&die, DW_AT_discr_value, &v->value);
		if (!v->is_default && t->discr_size && t->discr_size < 8)
			v->value &= (1ULL << (8 * t->discr_size)) - 1;
		for (bool more = die_child(&die, &member); more;
		     more = die_sibling(&member, &member)) {
			if (die_tag(&member) != DW_TAG_member)
				continue;
			read_member(&member, &v->member);
			t->n_variants++;
			break;
		}
	}
}

static void read_params(struct debug *d, struct dw_type *t, const struct dwarf_die *parent,
			unsigned tag)
{
	size_t n = count_children(parent, tag);
	struct dwarf_die die;

	t->params = n ? debug_alloc(d, n * sizeof(*t->params)) : NULL;
	if (!t->params)
		return;
	for (bool ok = die_child(parent, &die); ok && t->n_params < n;
	     ok = die_sibling(&die, &die)) {
		struct dw_param *p = &t->params[t->n_params];

		if (die_tag(&die) != tag)
			continue;
		p->name = die_name(&die);
		if (tag != DW_TAG_enumerator)
			p->type_ref = die_ref(&die, DW_AT_type);
		else if (!die_u64(&die, DW_AT_const_value, &p->type_ref))
			p->type_ref = 0;
		t->n_params++;
	}
}

static void read_struct(struct debug *d, struct dw_type *t, const struct dwarf_die *parent)
{
	size_t n = count_children(parent, DW_TAG_member);
	struct dwarf_die die;

	t->members = n ? debug_alloc(d, n * sizeof(*t->members)) : NULL;
	for (bool ok = die_child(parent, &die); ok; ok = die_sibling(&die, &die)) {
		switch (die_tag(&die)) {
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
	}
	read_params(d, t, parent, DW_TAG_template_type_parameter);
}

static uint64_t array_count(const struct dwarf_die *array)
{
	struct dwarf_die die;
	uint64_t n;

	for (bool ok = die_child(array, &die); ok; ok = die_sibling(&die, &die)) {
		if (die_tag(&die) != DW_TAG_subrange_type)
			continue;
		if (die_u64(&die, DW_AT_count, &n))
			return n;
		if (die_u64(&die, DW_AT_upper_bound, &n))
			return n + 1;
	}
	return 0;
}

/* Another DIE that defines what this one declares: the same tag and name. */
static bool definition_of(struct debug *d, const struct dwarf_die *die, struct dwarf_die *ret)
{
	const struct debug_index *all;
	const struct index_entry *e;
	const char *full;
	uint64_t hash;
	size_t n;

	if (!debug_path_hash(die, NULL, &hash) || !(all = debug_all(d)))
		return false;
	full = debug_full_name(d, die);
	e = index_list_find(&all->types, hash, &n);
	for (size_t i = 0; i < n && i < MAX_NAMESAKES; i++)
		if (units_die(d->units, e[i].ref, ret) && die_tag(ret) == die_tag(die) &&
		    !strcmp(die_name(ret), die_name(die)) && !strcmp(debug_full_name(d, ret), full))
			return true;
	return false;
}

/* Typedefs and qualifiers are looked through. */
static bool strip(struct debug *d, struct dwarf_die *die)
{
	for (unsigned i = 0; i < 16; i++) {
		switch (die_tag(die)) {
		case DW_TAG_typedef:
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
			break;
		default:
			return true;
		}
		if (!units_die(d->units, die_ref(die, DW_AT_type), die))
			return false;
	}
	return false;
}

static struct dw_type *compile(struct debug *d, uint64_t ref, const struct dwarf_die *die)
{
	struct noted {
		struct dw_type type;
		uint32_t note;
	} *noted = debug_alloc(d, sizeof(*noted));
	struct dw_type *t = &noted->type;
	uint64_t v;

	if (!noted)
		return NULL;
	t->note = &noted->note;
	t->ref = ref;
	t->class = class_of(die_tag(die));
	t->name = die_name(die);
	t->full_name = t->class == DC_STRUCT || t->class == DC_UNION || t->class == DC_ENUM
			       ? debug_full_name(d, die)
			       : t->name;
	if (die_u64(die, DW_AT_byte_size, &v))
		t->size = v;
	t->declaration = die_has(die, DW_AT_declaration);
	switch (t->class) {
	case DC_STRUCT:
	case DC_UNION:
		read_struct(d, t, die);
		break;
	case DC_ENUM:
		read_params(d, t, die, DW_TAG_enumerator);
		break;
	case DC_POINTER:
		t->target_ref = die_ref(die, DW_AT_type);
		if (!t->size)
			t->size = die->unit->address_bytes;
		break;
	case DC_ARRAY: {
		struct dwarf_die element;

		t->target_ref = die_ref(die, DW_AT_type);
		t->n_elements = array_count(die);
		if (!t->size && units_die(d->units, t->target_ref, &element) &&
		    __builtin_mul_overflow(t->n_elements, byte_size(d, &element), &t->size))
			t->size = 0;
		break;
	}
	case DC_BASE:
		if (die_u64(die, DW_AT_encoding, &v))
			t->encoding = (uint8_t)v;
		break;
	default:
		break;
	}
	return t;
}

const struct dw_type *dw_type_of(struct debug *d, uint64_t ref)
{
	struct dw_type *t = ref ? map_get(&d->types, ref, 0) : NULL;
	struct dwarf_die die, definition;

	if (t || !ref || debug_stopped(d) || !debug_units(d))
		return t;
	if (!units_die(d->units, ref, &die) || !strip(d, &die))
		return NULL;
	if (die_has(&die, DW_AT_declaration) && definition_of(d, &die, &definition))
		die = definition;
	/* Several references may lead to one type: through qualifiers, and from declarations. */
	if (dwarf_ref(&die) != ref)
		t = map_get(&d->types, dwarf_ref(&die), 0);
	if (!t) {
		t = compile(d, dwarf_ref(&die), &die);
		/* a name may lack what was not read */
		if (!t || d->stop.stopped || map_put(&d->types, t->ref, 0, t) < 0)
			return NULL;
	}
	if (d->stop.stopped)
		return NULL;
	if (t->ref != ref && !(d->local && t->declaration) && map_put(&d->types, ref, 0, t) < 0)
		return NULL;
	d->changed = true;
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

bool dw_same_type(const struct dw_type *a, const struct dw_type *b)
{
	return a && b &&
	       (a == b || (a->class == b->class && a->size == b->size &&
			   !strcmp(a->full_name, b->full_name)));
}

uint64_t dw_type_key(const struct dw_type *t)
{
	uint64_t hash = hash_string(t->size, t->full_name);

	return hash ? hash : 1;
}

bool dw_is_coroutine(const struct dw_type *t)
{
	static const char *const names[] = {"{async_fn_env#", "{async_block_env#",
					    "{async_closure_env#"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (t->class == DC_STRUCT && t->has_variants &&
		    !strncmp(t->name, names[i], strlen(names[i])))
			return true;
	return false;
}

/* The state in which it was not polled yet has the line where it begins. */
char *dw_coroutine_where(const struct dw_type *t)
{
	char *where = NULL;

	for (size_t i = 0; i < t->n_variants && !where; i++)
		if (t->variants[i].value == 0 && t->variants[i].member.file &&
		    asprintf(&where, "%s:%u", t->variants[i].member.file,
			     t->variants[i].member.line) < 0)
			where = NULL;
	return where;
}

bool debug_same_type(struct debug *d, uint64_t a, uint64_t b)
{
	return a == b || dw_same_type(dw_type_of(d, a), dw_type_of(d, b));
}
