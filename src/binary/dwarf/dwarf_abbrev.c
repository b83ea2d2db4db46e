/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Units' headers and abbreviation tables: the shapes of the DIEs.
 *
 * A table is read once and shared by all units that name it. For each shape it keeps how many bytes
 * the values take where that is the same for all DIEs: so most of a unit is skipped by additions.
 */
#include "base/compare.h"
#include "base/vec.h"
#include "binary/dwarf/dwarf_read.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_ABBREVS = 1 << 20,
	MAX_ATTRS = 1 << 22, /* of all shapes of a table */
};

/* Bytes of a form's value where it doesn't say so itself. */
static uint8_t form_bytes(const struct dwarf_unit *u, unsigned form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return u->address_bytes;
	case DW_FORM_ref_addr:
		return u->version == 2 ? u->address_bytes : u->offset_bytes;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return u->offset_bytes;
	default:
		return DWARF_VARIABLE;
	}
}

const uint8_t *dwarf_form_skip(const struct dwarf_unit *u, unsigned form, const uint8_t *p,
			       const uint8_t *end)
{
	uint64_t v = 0;
	uint8_t fixed;

	for (unsigned i = 0; form == DW_FORM_indirect; i++) {
		if (i == 4 || !dwarf_uleb(&p, end, &v))
			return NULL;
		form = v < 0x10000 ? (unsigned)v : 0;
		v = 0;
	}
	fixed = form_bytes(u, form);
	if (fixed != DWARF_VARIABLE) {
		v = fixed;
	} else {
		const uint8_t *nul;

		switch (form) {
		case DW_FORM_string:
			nul = memchr(p, 0, (size_t)(end - p));
			return nul ? nul + 1 : NULL;
		case DW_FORM_block1:
			if (p < end)
				v = 1 + (uint64_t)p[0];
			else
				return NULL;
			break;
		case DW_FORM_block2:
			if (end - p < 2)
				return NULL;
			v = 2 + dwarf_bytes_u64(p, 2);
			break;
		case DW_FORM_block4:
			if (end - p < 4)
				return NULL;
			v = 4 + dwarf_bytes_u64(p, 4);
			break;
		case DW_FORM_block:
		case DW_FORM_exprloc:
			if (!dwarf_uleb(&p, end, &v))
				return NULL;
			break;
		case DW_FORM_sdata:
		case DW_FORM_udata:
		case DW_FORM_ref_udata:
		case DW_FORM_strx:
		case DW_FORM_addrx:
		case DW_FORM_loclistx:
		case DW_FORM_rnglistx:
		case DW_FORM_GNU_addr_index:
		case DW_FORM_GNU_str_index:
			/* signed ones need no other care: the same bytes */
			while (p < end && *p & 0x80)
				p++;
			return p < end ? p + 1 : NULL;
		default:
			return NULL;
		}
	}
	return v <= (uint64_t)(end - p) ? p + v : NULL;
}

static bool add_attr(struct dwarf_abbrevs *t, const struct dwarf_attr_spec *spec)
{
	if (t->n_attrs >= MAX_ATTRS || !GROW(t->attrs, t->n_attrs, t->cap_attrs))
		return false;
	t->attrs[t->n_attrs++] = *spec;
	return true;
}

static struct dwarf_abbrev *add_abbrev(struct dwarf_abbrevs *t)
{
	if (t->n >= MAX_ABBREVS || !GROW(t->v, t->n, t->cap))
		return NULL;
	t->v[t->n] = (struct dwarf_abbrev){.first_attr = (uint32_t)t->n_attrs};
	return &t->v[t->n++];
}

/* One shape; false at the end of the table, or where it breaks off. */
static bool read_abbrev(const struct dwarf_unit *u, struct dwarf_abbrevs *t, const uint8_t **p,
			const uint8_t *end)
{
	struct dwarf_abbrev *ab;
	uint64_t code, tag;

	if (!dwarf_uleb(p, end, &code) || !code || !dwarf_uleb(p, end, &tag) || *p >= end)
		return false;
	ab = add_abbrev(t);
	if (!ab)
		return false;
	ab->code = code;
	ab->tag = tag < 0x10000 ? (uint16_t)tag : 0;
	ab->children = *(*p)++;
	for (;;) {
		struct dwarf_attr_spec spec = {0};
		uint64_t name, form;

		if (!dwarf_uleb(p, end, &name) || !dwarf_uleb(p, end, &form) ||
		    (form == DW_FORM_implicit_const && !dwarf_sleb(p, end, &spec.implicit))) {
			t->n--; /* half a shape is none */
			return false;
		}
		if (!name && !form)
			return true;
		spec.name = name < 0x10000 ? (uint16_t)name : 0;
		spec.form = form < 0x10000 ? (uint16_t)form : 0;
		spec.bytes = form_bytes(u, spec.form);
		if (!add_attr(t, &spec)) {
			t->n--;
			return false;
		}
		if (spec.bytes == DWARF_VARIABLE)
			ab->bytes = UINT32_MAX;
		else if (ab->bytes != UINT32_MAX)
			ab->bytes += spec.bytes;
		ab->n_attrs++;
	}
}

static int by_code(const void *a, const void *b)
{
	const struct dwarf_abbrev *x = a, *y = b;

	return ASCENDING(x->code, y->code);
}

const struct dwarf_abbrevs *dwarf_abbrevs_of(const struct dwarf_unit *u)
{
	struct dwarf_source *s = u->source;
	uint64_t sizes =
		(uint64_t)u->version << 16 | (uint64_t)u->offset_bytes << 8 | u->address_bytes;
	uint64_t off = u->abbrev;
	struct dwarf_abbrevs *t = map_get(&s->abbrevs, off, sizes);
	const uint8_t *p, *end;
	bool sorted = true;

	if (t || off >= s->s[DS_ABBREV].len)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	p = s->s[DS_ABBREV].data + off;
	end = s->s[DS_ABBREV].data + s->s[DS_ABBREV].len;
	while (read_abbrev(u, t, &p, end))
		sorted = sorted && (t->n < 2 || t->v[t->n - 2].code < t->v[t->n - 1].code);
	if (!sorted)
		qsort(t->v, t->n, sizeof(*t->v), by_code);
	if (map_put(&s->abbrevs, off, sizes, t) < 0) {
		free(t->v);
		free(t->attrs);
		free(t);
		return NULL;
	}
	return t;
}

void dwarf_source_done(struct dwarf_source *s)
{
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->abbrevs, &pos))) {
		struct dwarf_abbrevs *t = e->value;

		free(t->v);
		free(t->attrs);
		free(t);
	}
	map_done(&s->abbrevs);
}

bool dwarf_unit_read(struct dwarf_source *s, uint64_t off, struct dwarf_unit *ret)
{
	const struct dwarf_span *info = &s->s[DS_INFO];
	struct dwarf_unit u = {.source = s, .off = off, .offset_bytes = 4, .line = UINT64_MAX};
	const uint8_t *p, *end;
	uint64_t len;
	unsigned header;

	*ret = u;
	if (off >= info->len || info->len - off < 12)
		return false;
	p = info->data + off;
	end = info->data + info->len;
	len = dwarf_bytes_u64(p, 4);
	p += 4;
	if (len == 0xffffffff) {
		len = dwarf_bytes_u64(p, 8);
		p += 8;
		u.offset_bytes = 8;
	}
	if (len > (uint64_t)(end - p))
		return false;
	end = p + len;
	u.end = ret->end = (uint64_t)(end - info->data);
	if (len < 7)
		return false;
	u.version = dwarf_bytes_u64(p, 2) <= 5 ? (uint8_t)dwarf_bytes_u64(p, 2) : 0;
	p += 2;
	header = u.version >= 5 ? u.offset_bytes + 2u : u.offset_bytes + 1u;
	if (u.version < 2 || (size_t)(end - p) < header)
		return false;
	if (u.version >= 5) {
		u.type = p[0];
		u.address_bytes = p[1];
		u.abbrev = dwarf_bytes_u64(p + 2, u.offset_bytes);
		p += header;
		if (u.type == DW_UT_skeleton || u.type == DW_UT_split_compile) {
			if (end - p < 8)
				return false;
			u.dwo_id = dwarf_bytes_u64(p, 8);
			p += 8;
		} else if (u.type != DW_UT_compile && u.type != DW_UT_partial) {
			return false;
		}
	} else {
		u.type = DW_UT_compile;
		u.abbrev = dwarf_bytes_u64(p, u.offset_bytes);
		u.address_bytes = p[u.offset_bytes];
		p += header;
	}
	if (u.address_bytes != 8 && u.address_bytes != 4)
		return false;
	u.first = (uint64_t)(p - info->data);
	*ret = u;
	return u.first < u.end;
}
