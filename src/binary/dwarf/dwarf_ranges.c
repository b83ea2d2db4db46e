/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which code belongs to a DIE or a unit: low_pc and high_pc, range lists of DWARF 4 and 5, and the
 * table of the units' ranges, .debug_aranges.
 */
#include "binary/dwarf/dwarf_read.h"

#include <dwarf.h>

enum { MAX_RANGES = 1 << 20 /* of one DIE */ };

struct range_call {
	bool (*one)(void *ctx, uint64_t low, uint64_t high);
	void *ctx;
};

static bool give(const struct range_call *c, uint64_t low, uint64_t high)
{
	return low < high && c->one(c->ctx, low, high);
}

static const struct dwarf_unit *owner_of(const struct dwarf_unit *u)
{
	return u->skeleton ? u->skeleton : u;
}

/* DWARF 2 to 4: pairs of offsets from a base, (-1, base) sets it, (0, 0) ends. */
static bool old_ranges(const struct dwarf_unit *u, uint64_t off, const struct range_call *c)
{
	const struct dwarf_span *s = &owner_of(u)->source->s[DS_RANGES];
	unsigned bytes = u->address_bytes;
	uint64_t base = u->low, all = bytes == 8 ? UINT64_MAX : UINT32_MAX;

	for (unsigned i = 0; i < MAX_RANGES && off <= s->len && s->len - off >= 2 * bytes; i++) {
		uint64_t low = dwarf_bytes_u64(s->data + off, bytes);
		uint64_t high = dwarf_bytes_u64(s->data + off + bytes, bytes);

		off += 2 * bytes;
		if (!low && !high)
			return false;
		if (low == all)
			base = high;
		else if (give(c, base + low, base + high))
			return true;
	}
	return false;
}

static bool read_addr(const struct dwarf_unit *u, const uint8_t **p, const uint8_t *end,
		      bool indexed, uint64_t *ret)
{
	const struct dwarf_unit *owner = owner_of(u);
	const struct dwarf_span *addrs = &owner->source->s[DS_ADDR];
	uint64_t index, at;

	if (!indexed) {
		if (end - *p < u->address_bytes)
			return false;
		*ret = dwarf_bytes_u64(*p, u->address_bytes);
		*p += u->address_bytes;
		return true;
	}
	if (!dwarf_uleb(p, end, &index) ||
	    __builtin_mul_overflow(index, (uint64_t)u->address_bytes, &at) ||
	    __builtin_add_overflow(at, owner->addr_base, &at) || at > addrs->len ||
	    addrs->len - at < u->address_bytes)
		return false;
	*ret = dwarf_bytes_u64(addrs->data + at, u->address_bytes);
	return true;
}

static bool new_ranges(const struct dwarf_unit *u, uint64_t off, const struct range_call *c)
{
	const struct dwarf_span *s = &u->source->s[DS_RNGLISTS];
	const uint8_t *p, *end = s->data + s->len;
	uint64_t base = u->low;

	if (off >= s->len)
		return false;
	p = s->data + off;
	for (unsigned i = 0; i < MAX_RANGES && p < end; i++) {
		uint64_t a = 0, b = 0;
		unsigned kind = *p++;
		bool ok = true;

		switch (kind) {
		case DW_RLE_base_addressx:
		case DW_RLE_base_address:
			ok = read_addr(u, &p, end, kind == DW_RLE_base_addressx, &base);
			break;
		case DW_RLE_startx_endx:
		case DW_RLE_start_end:
			ok = read_addr(u, &p, end, kind == DW_RLE_startx_endx, &a) &&
			     read_addr(u, &p, end, kind == DW_RLE_startx_endx, &b);
			break;
		case DW_RLE_startx_length:
		case DW_RLE_start_length:
			ok = read_addr(u, &p, end, kind == DW_RLE_startx_length, &a) &&
			     dwarf_uleb(&p, end, &b);
			b += a;
			break;
		case DW_RLE_offset_pair:
			ok = dwarf_uleb(&p, end, &a) && dwarf_uleb(&p, end, &b);
			a += base;
			b += base;
			break;
		default: /* the end, or unknown */
			return false;
		}
		if (!ok)
			return false;
		if (give(c, a, b))
			return true;
	}
	return false;
}

static bool ranges_at(const struct dwarf_die *die, const struct dwarf_attr *a,
		      const struct range_call *c)
{
	const struct dwarf_unit *u = die->unit;
	const struct dwarf_span *s = &u->source->s[DS_RNGLISTS];
	uint64_t v, at;

	if (!dwarf_form_u64(u, a, &v))
		return false;
	if (u->version < 5)
		return old_ranges(u, v + (u->skeleton ? u->skeleton->ranges_base : 0), c);
	if (a->form != DW_FORM_rnglistx)
		return new_ranges(u, v, c);
	if (__builtin_mul_overflow(v, (uint64_t)u->offset_bytes, &at) ||
	    __builtin_add_overflow(at, u->rnglists_base, &at) || at > s->len ||
	    s->len - at < u->offset_bytes)
		return false;
	return new_ranges(u, u->rnglists_base + dwarf_bytes_u64(s->data + at, u->offset_bytes), c);
}

bool die_low_high(const struct dwarf_die *die, uint64_t *ret_low, uint64_t *ret_high)
{
	struct dwarf_attr a;
	uint64_t low, high;

	if (!die_addr(die, DW_AT_low_pc, &low) || !die_attr(die, DW_AT_high_pc, &a))
		return false;
	if (!die_addr(die, DW_AT_high_pc, &high)) {
		/* a constant: the length */
		if (!dwarf_form_u64(die->unit, &a, &high))
			return false;
		high += low;
	}
	if (high < low)
		return false;
	*ret_low = low;
	*ret_high = high;
	return true;
}

bool die_ranges(const struct dwarf_die *die, bool (*one)(void *ctx, uint64_t low, uint64_t high),
		void *ctx)
{
	const struct range_call c = {one, ctx};
	struct dwarf_attr a;
	uint64_t low, high;

	if (die_attr(die, DW_AT_ranges, &a))
		return ranges_at(die, &a, &c);
	return die_low_high(die, &low, &high) && give(&c, low, high);
}

static bool covers(void *ctx, uint64_t low, uint64_t high)
{
	uint64_t addr = *(const uint64_t *)ctx;

	return addr >= low && addr < high;
}

bool die_covers(const struct dwarf_die *die, uint64_t addr)
{
	return die_ranges(die, covers, &addr);
}

void dwarf_aranges(const struct dwarf_source *s,
		   void (*one)(void *ctx, uint64_t unit, uint64_t low, uint64_t high), void *ctx)
{
	const uint8_t *start = s->s[DS_ARANGES].data, *p = start, *end;

	if (!start)
		return;
	end = start + s->s[DS_ARANGES].len;
	while (end - p >= 12) {
		const uint8_t *set = p, *set_end;
		uint64_t len = dwarf_bytes_u64(p, 4), unit;
		unsigned offset_bytes = 4, bytes, misfit;

		p += 4;
		if (len == 0xffffffff) {
			len = dwarf_bytes_u64(p, 8);
			p += 8;
			offset_bytes = 8;
		}
		if (len > (uint64_t)(end - p))
			return;
		set_end = p + len;
		if (len < 4 + offset_bytes) {
			p = set_end;
			continue;
		}
		unit = dwarf_bytes_u64(p + 2, offset_bytes);
		bytes = p[2 + offset_bytes];
		p += 4 + offset_bytes;
		if (bytes == 8 || bytes == 4) {
			/* pairs are aligned to their size, from the set's start */
			misfit = (unsigned)((size_t)(p - set) % (2 * bytes));
			if (misfit && (size_t)(set_end - p) >= 2 * bytes - misfit)
				p += 2 * bytes - misfit;
			for (; (size_t)(set_end - p) >= 2 * bytes; p += 2 * bytes) {
				uint64_t low = dwarf_bytes_u64(p, bytes), high;

				if (low &&
				    !__builtin_add_overflow(low, dwarf_bytes_u64(p + bytes, bytes),
							    &high) &&
				    high > low)
					one(ctx, unit, low, high);
			}
		}
		p = set_end;
	}
}
