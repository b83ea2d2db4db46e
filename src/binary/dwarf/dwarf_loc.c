/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where a variable is: the expression of its DIE, or one per range of code from a location list
 * (DWARF 4: .debug_loc; DWARF 5: .debug_loclists; GNU's split DWARF 4 has a form between the two).
 * What an expression means is for others to say.
 */
#include "binary/dwarf/dwarf_read.h"

#include <dwarf.h>

enum { MAX_ENTRIES = 1 << 16 /* of one list */ };

struct location_call {
	die_location_fn *visit;
	void *ctx;
};

static bool give(const struct location_call *c, const uint8_t **p, const uint8_t *end, uint64_t len,
		 uint64_t low, uint64_t high, bool *ret_broken)
{
	const uint8_t *expression = *p;

	if (len > (uint64_t)(end - *p)) {
		*ret_broken = true;
		return false;
	}
	*p += len;
	return low < high && c->visit(c->ctx, expression, len, low, high);
}

/* DWARF 2 to 4: pairs of offsets from a base, each with an expression. */
static bool old_list(const struct dwarf_unit *u, uint64_t off, const struct location_call *c)
{
	const struct dwarf_span *s = &u->source->s[DS_LOC];
	unsigned bytes = u->address_bytes;
	uint64_t base = u->low, all = bytes == 8 ? UINT64_MAX : UINT32_MAX;
	const uint8_t *p, *end = s->data + s->len;
	bool broken = false;

	if (off >= s->len)
		return false;
	p = s->data + off;
	for (unsigned i = 0; i < MAX_ENTRIES && !broken && (size_t)(end - p) >= 2 * bytes; i++) {
		uint64_t low = dwarf_bytes_u64(p, bytes), high = dwarf_bytes_u64(p + bytes, bytes);
		uint64_t len;

		p += 2 * bytes;
		if (!low && !high)
			return false;
		if (low == all) {
			base = high;
			continue;
		}
		if (end - p < 2)
			return false;
		len = dwarf_bytes_u64(p, 2);
		p += 2;
		if (give(c, &p, end, len, base + low, base + high, &broken))
			return true;
	}
	return false;
}

static bool read_address(const struct dwarf_unit *u, const uint8_t **p, const uint8_t *end,
			 bool indexed, uint64_t *ret)
{
	uint64_t index;

	if (indexed)
		return dwarf_uleb(p, end, &index) && dwarf_indexed_address(u, index, ret);
	if (end - *p < u->address_bytes)
		return false;
	*ret = dwarf_bytes_u64(*p, u->address_bytes);
	*p += u->address_bytes;
	return true;
}

/* The two numbers of an entry, and how long its expression is. */
static bool read_entry(const struct dwarf_unit *u, unsigned kind, const uint8_t **p,
		       const uint8_t *end, uint64_t *base, uint64_t *low, uint64_t *high,
		       uint64_t *len)
{
	bool old = u->version < 5, ok = true;
	uint64_t v;

	*low = *high = 0;
	if (old && kind > DW_LLE_startx_length)
		return false;
	switch (kind) {
	case DW_LLE_base_addressx:
		return read_address(u, p, end, true, base);
	case DW_LLE_base_address:
		return read_address(u, p, end, false, base);
	case DW_LLE_startx_endx:
		ok = read_address(u, p, end, true, low) && read_address(u, p, end, true, high);
		break;
	case DW_LLE_startx_length:
		ok = read_address(u, p, end, true, low);
		if (ok && old) { /* GNU: four bytes */
			ok = end - *p >= 4;
			*high = ok ? *low + dwarf_bytes_u64(*p, 4) : 0;
			*p += ok ? 4 : 0;
		} else if (ok) {
			ok = dwarf_uleb(p, end, &v);
			*high = *low + v;
		}
		break;
	case DW_LLE_offset_pair:
		ok = dwarf_uleb(p, end, low) && dwarf_uleb(p, end, high);
		*low += *base;
		*high += *base;
		break;
	case DW_LLE_default_location:
		*high = UINT64_MAX;
		break;
	case DW_LLE_start_end:
		ok = read_address(u, p, end, false, low) && read_address(u, p, end, false, high);
		break;
	case DW_LLE_start_length:
		ok = read_address(u, p, end, false, low) && dwarf_uleb(p, end, &v);
		*high = ok ? *low + v : 0;
		break;
	default:
		return false;
	}
	if (!ok || !old)
		return ok && dwarf_uleb(p, end, len);
	if (end - *p < 2)
		return false;
	*len = dwarf_bytes_u64(*p, 2);
	*p += 2;
	return true;
}

static bool new_list(const struct dwarf_unit *u, const struct dwarf_span *s, uint64_t off,
		     const struct location_call *c)
{
	const uint8_t *p, *end = s->data + s->len;
	uint64_t base = u->low, low, high, len;
	bool broken = false;

	if (off >= s->len)
		return false;
	p = s->data + off;
	for (unsigned i = 0; i < MAX_ENTRIES && !broken && p < end; i++) {
		unsigned kind = *p++;

		if (kind == DW_LLE_end_of_list || kind > DW_LLE_start_length ||
		    !read_entry(u, kind, &p, end, &base, &low, &high, &len))
			return false;
		if (kind == DW_LLE_base_addressx || kind == DW_LLE_base_address)
			continue;
		if (give(c, &p, end, len, low, high, &broken))
			return true;
	}
	return false;
}

bool die_locations(const struct dwarf_die *die, unsigned name, die_location_fn *one, void *ctx)
{
	const struct dwarf_unit *u = die->unit;
	const struct dwarf_span *s = &u->source->s[DS_LOCLISTS];
	const struct location_call c = {one, ctx};
	struct dwarf_attr a;
	const uint8_t *p;
	uint64_t v, at;

	if (!die_attr(die, name, &a))
		return false;
	p = a.p;
	switch (a.form) {
	case DW_FORM_exprloc:
	case DW_FORM_block:
		return dwarf_uleb(&p, a.end, &v) && v <= (uint64_t)(a.end - p) &&
		       one(ctx, p, v, 0, UINT64_MAX);
	case DW_FORM_block1:
		return p < a.end && *p <= (uint64_t)(a.end - p - 1) &&
		       one(ctx, p + 1, *p, 0, UINT64_MAX);
	case DW_FORM_loclistx:
		if (!dwarf_form_u64(u, &a, &v) ||
		    __builtin_mul_overflow(v, (uint64_t)u->offset_bytes, &at) ||
		    __builtin_add_overflow(at, u->loclists_base, &at) || at > s->len ||
		    s->len - at < u->offset_bytes)
			return false;
		v = u->loclists_base + dwarf_bytes_u64(s->data + at, u->offset_bytes);
		return new_list(u, s, v, &c);
	case DW_FORM_sec_offset:
	case DW_FORM_data4:
	case DW_FORM_data8:
		if (!dwarf_form_u64(u, &a, &v))
			return false;
		if (u->version >= 5)
			return new_list(u, s, v, &c);
		return u->source->split ? new_list(u, &u->source->s[DS_LOC], v, &c)
					: old_list(u, v, &c);
	default:
		return false;
	}
}
