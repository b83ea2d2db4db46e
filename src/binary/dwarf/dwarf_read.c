/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * DIEs and their attributes; see dwarf_read.h.
 *
 * A DIE is its offset, its shape and where its values begin. Without DW_AT_sibling (LLVM writes
 * none) the next of a list is found by stepping over all that lies between, without recursion.
 */
#include "binary/dwarf/dwarf_read.h"

#include "base/cleanup.h"
#include "base/search.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

uint64_t dwarf_bytes_u64(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	memcpy(&v, p, bytes);
	return v;
}

bool dwarf_uleb(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; *p < end; shift += 7) {
		uint8_t b = *(*p)++;

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		if (b & 0x80)
			continue;
		*ret = v;
		return shift < 70;
	}
	return false;
}

bool dwarf_sleb(const uint8_t **p, const uint8_t *end, int64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; *p < end;) {
		uint8_t b = *(*p)++;

		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
		if (b & 0x80)
			continue;
		if (shift < 64 && b & 0x40)
			v |= ~0ULL << shift;
		*ret = (int64_t)v;
		return shift < 77;
	}
	return false;
}

/* The string at an offset of a section; NULL if it has no end there. */
static const char *dwarf_string(const struct dwarf_span *s, uint64_t off)
{
	/* a section of strings ends with the end of one, and then all have an end */
	if (off >= s->len || (s->data[s->len - 1] && !memchr(s->data + off, 0, s->len - off)))
		return NULL;
	return (const char *)s->data + off;
}

/* ---- DIEs ---- */

static const struct dwarf_abbrev *abbrev_of(const struct dwarf_abbrevs *t, uint64_t code)
{
	size_t lo;

	/* almost always 1, 2, 3, ... */
	if (code - 1 < t->n && t->v[code - 1].code == code)
		return &t->v[code - 1];
	lo = PARTITION_POINT(i, 0, t->n, t->v[i].code < code);
	return lo < t->n && t->v[lo].code == code ? &t->v[lo] : NULL;
}

bool die_at(struct dwarf_unit *u, uint64_t off, struct dwarf_die *ret)
{
	const uint8_t *p, *end;
	uint64_t code;

	if (off < u->first || off >= u->end)
		return false;
	p = u->source->s[DS_INFO].data + off;
	end = u->source->s[DS_INFO].data + u->end;
	if (*p < 0x80)
		code = *p++;
	else if (!dwarf_uleb(&p, end, &code))
		return false;
	if (!code)
		return false;
	ret->abbrev = abbrev_of(u->abbrevs, code);
	if (!ret->abbrev)
		return false;
	ret->unit = u;
	ret->off = off;
	ret->attrs = p;
	return true;
}

bool die_root(struct dwarf_unit *u, struct dwarf_die *ret)
{
	return die_at(u, u->first, ret);
}

uint64_t dwarf_ref(const struct dwarf_die *die)
{
	return (uint64_t)die->unit->source->number << DWARF_REF_SHIFT | die->off;
}

/* NULL if no abbreviation of the unit has attributes. */
static const struct dwarf_attr_spec *first_spec(const struct dwarf_die *die)
{
	const struct dwarf_attr_spec *all = die->unit->abbrevs->attrs;

	return all ? all + die->abbrev->first_attr : NULL;
}

uint64_t die_end(const struct dwarf_die *die)
{
	struct dwarf_unit *u = die->unit;
	const uint8_t *start = u->source->s[DS_INFO].data, *p = die->attrs, *end = start + u->end;
	const struct dwarf_attr_spec *spec = first_spec(die);

	if (die->abbrev->bytes != UINT32_MAX) {
		if (die->abbrev->bytes > (size_t)(end - p))
			return 0;
		return (uint64_t)(p - start) + die->abbrev->bytes;
	}
	for (uint32_t i = 0; i < die->abbrev->n_attrs; i++) {
		if (spec[i].bytes != DWARF_VARIABLE) {
			if (spec[i].bytes > (size_t)(end - p))
				return 0;
			p += spec[i].bytes;
			continue;
		}
		p = dwarf_form_skip(u, spec[i].form, p, end);
		if (!p)
			return 0;
	}
	return (uint64_t)(p - start);
}

bool die_child(const struct dwarf_die *die, struct dwarf_die *ret)
{
	uint64_t off = die->abbrev->children ? die_end(die) : 0;

	return off && die_at(die->unit, off, ret);
}

bool die_sibling(const struct dwarf_die *die, struct dwarf_die *ret)
{
	struct dwarf_unit *u = die->unit;
	const uint8_t *info = u->source->s[DS_INFO].data;
	struct dwarf_die at = *die;
	unsigned depth = 0;
	uint64_t off;

	if (die->abbrev->children) {
		off = die_ref(die, DW_AT_sibling) & DWARF_OFFSET_MASK;
		if (off > die->off && off < u->end)
			return die_at(u, off, ret);
	}
	for (;;) {
		off = die_end(&at);
		if (!off)
			return false;
		depth += at.abbrev->children;
		/* ends of lists of children, each a 0 */
		while (depth && off < u->end && info[off] == 0) {
			depth--;
			off++;
		}
		if (!die_at(u, off, &at))
			return false;
		if (!depth) {
			*ret = at;
			return true;
		}
	}
}

/* ---- attributes ---- */

bool die_attr(const struct dwarf_die *die, unsigned name, struct dwarf_attr *ret)
{
	struct dwarf_unit *u = die->unit;
	const struct dwarf_attr_spec *spec = first_spec(die);
	const uint8_t *p = die->attrs, *end = u->source->s[DS_INFO].data + u->end;

	for (uint32_t i = 0; i < die->abbrev->n_attrs; i++, spec++) {
		uint64_t form = spec->form;

		if (spec->name == name) {
			for (unsigned k = 0; form == DW_FORM_indirect && k < 4; k++)
				if (!dwarf_uleb(&p, end, &form))
					return false;
			if (!dwarf_form_skip(u, (unsigned)form, p, end))
				return false;
			*ret = (struct dwarf_attr){(uint16_t)form, p, end, spec->implicit};
			return true;
		}
		if (spec->bytes == DWARF_VARIABLE)
			p = dwarf_form_skip(u, spec->form, p, end);
		else
			p = spec->bytes <= (size_t)(end - p) ? p + spec->bytes : NULL;
		if (!p)
			return false;
	}
	return false;
}

bool die_has(const struct dwarf_die *die, unsigned name)
{
	const struct dwarf_attr_spec *spec = first_spec(die);

	for (uint32_t i = 0; i < die->abbrev->n_attrs; i++)
		if (spec[i].name == name)
			return true;
	return false;
}

bool dwarf_form_u64(const struct dwarf_unit *u, const struct dwarf_attr *a, uint64_t *ret)
{
	const uint8_t *p = a->p;
	int64_t s;

	switch (a->form) {
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
	case DW_FORM_ref1:
		*ret = p[0];
		return true;
	case DW_FORM_data2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
	case DW_FORM_ref2:
		*ret = dwarf_bytes_u64(p, 2);
		return true;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		*ret = dwarf_bytes_u64(p, 3);
		return true;
	case DW_FORM_data4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref4:
		*ret = dwarf_bytes_u64(p, 4);
		return true;
	case DW_FORM_data8:
	case DW_FORM_ref8:
		*ret = dwarf_bytes_u64(p, 8);
		return true;
	case DW_FORM_addr:
		*ret = dwarf_bytes_u64(p, u->address_bytes);
		return true;
	case DW_FORM_sec_offset:
	case DW_FORM_strp:
	case DW_FORM_line_strp:
		*ret = dwarf_bytes_u64(p, u->offset_bytes);
		return true;
	case DW_FORM_ref_addr:
		*ret = dwarf_bytes_u64(p, u->version == 2 ? u->address_bytes : u->offset_bytes);
		return true;
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		return dwarf_uleb(&p, a->end, ret);
	case DW_FORM_sdata:
		if (!dwarf_sleb(&p, a->end, &s))
			return false;
		*ret = (uint64_t)s;
		return true;
	case DW_FORM_implicit_const:
		*ret = (uint64_t)a->implicit;
		return true;
	case DW_FORM_flag_present:
		*ret = 1;
		return true;
	default:
		return false;
	}
}

static const char *indexed_string(const struct dwarf_unit *u, uint64_t index)
{
	const struct dwarf_span *offsets = &u->source->s[DS_STR_OFFSETS];
	uint64_t at;

	if (__builtin_mul_overflow(index, (uint64_t)u->offset_bytes, &at) ||
	    __builtin_add_overflow(at, u->str_offsets_base, &at) || at > offsets->len ||
	    offsets->len - at < u->offset_bytes)
		return NULL;
	return dwarf_string(&u->source->s[DS_STR],
			    dwarf_bytes_u64(offsets->data + at, u->offset_bytes));
}

const char *dwarf_form_str(const struct dwarf_unit *u, const struct dwarf_attr *a)
{
	uint64_t v;

	switch (a->form) {
	case DW_FORM_string: /* its end was found when it was skipped */
		return (const char *)a->p;
	case DW_FORM_strp:
		return dwarf_form_u64(u, a, &v) ? dwarf_string(&u->source->s[DS_STR], v) : NULL;
	case DW_FORM_line_strp:
		return dwarf_form_u64(u, a, &v) ? dwarf_string(&u->source->s[DS_LINE_STR], v)
						: NULL;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index:
		return dwarf_form_u64(u, a, &v) ? indexed_string(u, v) : NULL;
	default:
		return NULL;
	}
}

bool die_u64(const struct dwarf_die *die, unsigned name, uint64_t *ret)
{
	struct dwarf_attr a;

	return die_attr(die, name, &a) && dwarf_form_u64(die->unit, &a, ret);
}

const char *die_str(const struct dwarf_die *die, unsigned name)
{
	struct dwarf_attr a;

	return die_attr(die, name, &a) ? dwarf_form_str(die->unit, &a) : NULL;
}

const char *die_name(const struct dwarf_die *die)
{
	const char *s = die_str(die, DW_AT_name);

	return s ? s : "";
}

uint64_t die_ref(const struct dwarf_die *die, unsigned name)
{
	struct dwarf_unit *u = die->unit;
	struct dwarf_attr a;
	uint64_t off;

	if (!die_attr(die, name, &a))
		return 0;
	switch (a.form) {
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
		if (!dwarf_form_u64(u, &a, &off) || __builtin_add_overflow(off, u->off, &off) ||
		    off >= u->end)
			return 0;
		break;
	case DW_FORM_ref_addr:
		if (!dwarf_form_u64(u, &a, &off) || off >= u->source->s[DS_INFO].len)
			return 0;
		break;
	default:
		return 0;
	}
	return (uint64_t)u->source->number << DWARF_REF_SHIFT | off;
}

/* Entry of .debug_addr. A split unit's addresses are in its skeleton's file. */
bool dwarf_indexed_address(const struct dwarf_unit *u, uint64_t index, uint64_t *ret)
{
	const struct dwarf_unit *owner = u->skeleton ? u->skeleton : u;
	const struct dwarf_span *addrs = &owner->source->s[DS_ADDR];
	uint64_t at;

	if (__builtin_mul_overflow(index, (uint64_t)u->address_bytes, &at) ||
	    __builtin_add_overflow(at, owner->addr_base, &at) || at > addrs->len ||
	    addrs->len - at < u->address_bytes)
		return false;
	*ret = dwarf_bytes_u64(addrs->data + at, u->address_bytes);
	return true;
}

bool die_addr(const struct dwarf_die *die, unsigned name, uint64_t *ret)
{
	struct dwarf_attr a;
	uint64_t index;

	if (!die_attr(die, name, &a))
		return false;
	switch (a.form) {
	case DW_FORM_addr:
		return dwarf_form_u64(die->unit, &a, ret);
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index:
		return dwarf_form_u64(die->unit, &a, &index) &&
		       dwarf_indexed_address(die->unit, index, ret);
	default:
		return false;
	}
}

bool die_location(const struct dwarf_die *die, uint64_t *ret)
{
	struct dwarf_unit *u = die->unit;
	struct dwarf_attr a;
	uint64_t len;
	const uint8_t *p, *end;

	if (!die_attr(die, DW_AT_location, &a))
		return false;
	p = a.p;
	switch (a.form) { /* that the block is there was seen when it was skipped */
	case DW_FORM_exprloc:
	case DW_FORM_block:
		if (!dwarf_uleb(&p, a.end, &len))
			return false;
		break;
	case DW_FORM_block1:
		len = *p++;
		break;
	default:
		return false;
	}
	end = p + len;
	if (p == end)
		return false;
	switch (*p++) {
	case DW_OP_addr:
		if (end - p != u->address_bytes)
			return false;
		*ret = dwarf_bytes_u64(p, u->address_bytes);
		return true;
	case DW_OP_addrx:
	case DW_OP_GNU_addr_index:
		return dwarf_uleb(&p, end, &len) && p == end && dwarf_indexed_address(u, len, ret);
	default:
		return false;
	}
}

/* ---- a unit's own DIE ---- */

bool dwarf_unit_root(struct dwarf_unit *u)
{
	unsigned header = u->offset_bytes == 8 ? 16 : 8;
	struct dwarf_die die;
	uint64_t v;

	if (u->rooted || u->broken)
		return u->rooted;
	u->broken = true;
	u->abbrevs = dwarf_abbrevs_of(u);
	if (!u->abbrevs || !die_root(u, &die))
		return false;
	u->broken = false;
	u->rooted = true;
	/* First the bases: the other values need them. A split unit's tables are its own. */
	if (u->version >= 5)
		u->str_offsets_base = u->addr_base = header;
	if (u->version >= 5 && u->source->split)
		u->rnglists_base = u->loclists_base = header + 4;
	if (die_u64(&die, DW_AT_str_offsets_base, &v))
		u->str_offsets_base = v;
	if (die_u64(&die, DW_AT_addr_base, &v) || die_u64(&die, DW_AT_GNU_addr_base, &v))
		u->addr_base = v;
	if (die_u64(&die, DW_AT_rnglists_base, &v))
		u->rnglists_base = v;
	if (die_u64(&die, DW_AT_loclists_base, &v))
		u->loclists_base = v;
	if (die_u64(&die, DW_AT_GNU_ranges_base, &v))
		u->ranges_base = v;
	if (die_u64(&die, DW_AT_GNU_dwo_id, &v))
		u->dwo_id = v;
	if (die_u64(&die, DW_AT_stmt_list, &v))
		u->line = v;
	u->comp_dir = die_str(&die, DW_AT_comp_dir);
	if (!u->source->split) {
		u->dwo_name = die_str(&die, DW_AT_dwo_name);
		if (!u->dwo_name)
			u->dwo_name = die_str(&die, DW_AT_GNU_dwo_name);
	}
	if (!die_addr(&die, DW_AT_low_pc, &u->low))
		u->low = u->skeleton ? u->skeleton->low : 0;
	return true;
}

void dwarf_unit_done(struct dwarf_unit *u)
{
	for (size_t i = 0; i < u->n_files; i++)
		free_const(u->files[i].path);
	free(u->files);
	u->files = NULL;
	u->n_files = 0;
}
