/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * .eh_frame compiled into rows, function by function, as they are looked up.
 *
 * The section holds a small program for each function (FDE), which says instruction by instruction
 * where the frame is; what functions have in common (CIE) is separate. The linker's .eh_frame_hdr
 * has the start of each function and the place of its entry, sorted; without it the list is made by
 * going through the section. A program is run once, when an address of its function is looked up:
 * at its every step to a new address a row is written, if anything changed that a walk needs. That
 * is about five rows a function and 12 bytes a row, against the running of programs at each frame of
 * each stack. A library may have hundreds of thousands of functions; a walk through all stacks of a
 * program needs some hundred.
 *
 * Expressions are not evaluated but recognised: of those that compilers and linkers write there are
 * three, the linker's for a PLT, gcc's for a stack that it aligned, and libc's for a signal frame,
 * whose layout is the kernel's and therefore a rule of its own here.
 *
 * Format: LSB Core, "Exception Frames"; DWARF 5, section 6.4. It comes from a stranger: bounded
 * cursor, limits on rows and on the depth of remembered states, each CIE run once.
 */
#include "binary/dwarf/eh_frame.h"

#include "base/cursor.h"
#include "base/error.h"
#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/elf/image.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROWS (16u << 20)
#define MAX_REMEMBERED 32u
#define N_RECENT 256u /* functions that are found without a search */
#define RECENT_SHIFT 6
/* An entry of .eh_frame_hdr: the start of a function, and where its FDE is. */
#define HEADER_ENTRY 8u

/* Where a function begins, and the address of its FDE. */
struct eh_entry {
	uint64_t start, fde;
};

/* What was compiled of an FDE: nothing, if it is malformed. */
struct eh_function {
	uint64_t start, end;
	size_t n;
	struct eh_row rows[];
};

struct row_list {
	uint64_t start;
	struct eh_row *v;
	size_t n, cap, limit;
};

struct eh_table {
	const struct elf_image *image; /* NULL: all of it is compiled */
	/* .eh_frame_hdr's entries, if it has some, else a list of our own; both sorted */
	uint64_t header, header_at;
	struct eh_entry *entries;
	size_t n;
	struct map cies;      /* address -> struct eh_cie */
	struct map functions; /* address of the FDE -> struct eh_function */
	const struct eh_function *recent[N_RECENT];
	struct row_list rows; /* of the function that is being compiled */
	size_t n_rows;
};

/* ---- pointers and numbers ---- */

static int64_t cursor_sleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && cursor_left(c); shift += 7) {
		uint8_t byte = cursor_u8(c);

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (shift < 57 && (byte & 0x40))
			v |= ~0ull << (shift + 7);
		return (int64_t)v;
	}
	c->failed = true;
	c->at = c->end;
	return 0;
}

/* A section's bytes, and where they lie. `sized`: they are all of it, else they only bound it. */
struct section {
	const uint8_t *data;
	size_t len;
	uint64_t addr;
	bool sized;
	const struct machine_dwarf *regs;
};

static uint64_t addr_of(const struct section *s, const struct cursor *c)
{
	return s->addr + (uint64_t)(c->at - s->data);
}

/* An encoded pointer (DW_EH_PE_*); `size`: the value alone, relative to nothing. */
static uint64_t encoded(const struct section *s, struct cursor *c, uint8_t encoding, bool size)
{
	uint64_t at = addr_of(s, c), v = 0;

	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		v = cursor_u64(c);
		break;
	case DW_EH_PE_uleb128:
		v = cursor_uleb(c);
		break;
	case DW_EH_PE_sleb128:
		v = (uint64_t)cursor_sleb(c);
		break;
	case DW_EH_PE_udata2:
		v = cursor_u16(c);
		break;
	case DW_EH_PE_sdata2:
		v = (uint64_t)(int16_t)cursor_u16(c);
		break;
	case DW_EH_PE_udata4:
		v = cursor_u32(c);
		break;
	case DW_EH_PE_sdata4:
		v = (uint64_t)(int32_t)cursor_u32(c);
		break;
	default:
		c->failed = true;
	}
	if (size || (encoding & 0x70) == DW_EH_PE_absptr)
		return v;
	if ((encoding & 0x70) != DW_EH_PE_pcrel)
		c->failed = true;
	return v + at;
}

/* ---- the rules while a program runs ---- */

/* How a register is found again. */
enum where {
	W_SAME = 0,
	W_AT_CFA, /* at CFA + offset */
	W_AT_SP,  /* expressions: at register + offset */
	W_AT_FP,
	W_UNDEFINED,
	W_OTHER,
};

struct saved_reg {
	enum where where;
	int64_t offset;
};

struct rules {
	const struct machine_dwarf *regs;
	enum eh_cfa cfa;
	uint64_t cfa_reg; /* of EH_CFA_SP and EH_CFA_FP, and what to be when that is known */
	int64_t cfa_offset;
	struct saved_reg fp, ra;
};

struct eh_cie {
	bool read;	/* what its FDEs need to be read */
	bool ok;	/* its rules, too */
	bool augmented; /* FDEs have augmentation data */
	uint8_t encoding;
	uint64_t code_align;
	int64_t data_align;
	struct rules initial;
};

static struct saved_reg *place_of(struct rules *r, uint64_t reg)
{
	return reg == r->regs->fp ? &r->fp : reg == r->regs->ra ? &r->ra : NULL;
}

static void set_place(struct rules *r, uint64_t reg, enum where where, int64_t offset)
{
	struct saved_reg *p = place_of(r, reg);

	if (p)
		*p = (struct saved_reg){where, offset};
}

static void set_cfa(struct rules *r, uint64_t reg, int64_t offset)
{
	r->cfa_reg = reg;
	r->cfa_offset = offset;
	r->cfa = reg == r->regs->sp ? EH_CFA_SP : reg == r->regs->fp ? EH_CFA_FP : EH_CFA_NONE;
}

/* `breg sp|fp, offset`, and what follows it. */
static bool based(struct cursor *e, uint64_t *ret_reg, int64_t *ret_offset)
{
	uint8_t op = cursor_u8(e);

	if (op < DW_OP_breg0 || op > DW_OP_breg31)
		return false;
	*ret_reg = op - DW_OP_breg0;
	*ret_offset = cursor_sleb(e);
	return cursor_ok(e);
}

static bool is_plt(const struct machine_dwarf *m, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len && len == sizeof(m->plt_cfa); i++)
		if (i == m->plt_offset ? data[i] < DW_OP_lit0 || data[i] > DW_OP_lit15
				       : data[i] != m->plt_cfa[i])
			return false;
	return len == sizeof(m->plt_cfa);
}

static void set_cfa_expression(struct rules *r, const uint8_t *data, size_t len)
{
	struct cursor e;
	uint64_t reg;
	int64_t offset;

	r->cfa = EH_CFA_NONE;
	if (is_plt(r->regs, data, len)) {
		r->cfa = EH_CFA_PLT;
		r->cfa_offset = data[r->regs->plt_offset] - DW_OP_lit0;
		return;
	}
	cursor_init(&e, data, len);
	if (!based(&e, &reg, &offset) || cursor_left(&e) != 1 || cursor_u8(&e) != DW_OP_deref)
		return;
	if (reg == r->regs->sp && offset == r->regs->signal_sp)
		r->cfa = EH_CFA_SIGNAL;
	else if (reg == r->regs->fp)
		r->cfa = EH_CFA_AT_FP;
	r->cfa_offset = offset;
}

static void set_expression(struct rules *r, uint64_t reg, const uint8_t *data, size_t len)
{
	struct cursor e;
	uint64_t base;
	int64_t offset;

	cursor_init(&e, data, len);
	if (based(&e, &base, &offset) && !cursor_left(&e) &&
	    (base == r->regs->sp || base == r->regs->fp))
		set_place(r, reg, base == r->regs->sp ? W_AT_SP : W_AT_FP, offset);
	else
		set_place(r, reg, W_OTHER, 0);
}

/* ---- rows ---- */

static struct eh_row row_of(const struct rules *r, uint32_t pc)
{
	struct eh_row row = {.pc = pc, .cfa_rule = EH_CFA_NONE};

	if (r->cfa == EH_CFA_NONE || r->cfa_offset != (int32_t)r->cfa_offset)
		return row;
	/* A signal frame is the kernel's, or none that is known. */
	if (r->cfa == EH_CFA_SIGNAL) {
		if (r->ra.where == W_AT_SP && r->ra.offset == r->regs->signal_pc &&
		    r->fp.where == W_AT_SP && r->fp.offset == r->regs->signal_fp)
			row.cfa_rule = EH_CFA_SIGNAL;
		return row;
	}
	row.cfa_rule = (uint8_t)r->cfa;
	row.cfa = (int32_t)r->cfa_offset;
	row.ra_rule = r->ra.where == W_AT_CFA && r->ra.offset == r->regs->ra_at_cfa ? EH_RA_AT_CFA
		      : r->ra.where == W_UNDEFINED				    ? EH_RA_END
										    : EH_RA_LOST;
	row.fp = (int16_t)r->fp.offset;
	row.fp_rule = EH_FP_LOST;
	if (r->fp.where == W_SAME)
		row.fp_rule = EH_FP_SAME;
	else if (row.fp == r->fp.offset && r->fp.where == W_AT_CFA)
		row.fp_rule = EH_FP_AT_CFA;
	else if (row.fp == r->fp.offset && r->fp.where == W_AT_FP)
		row.fp_rule = EH_FP_AT_FP;
	if (row.fp_rule == EH_FP_SAME || row.fp_rule == EH_FP_LOST)
		row.fp = 0;
	return row;
}

static bool same_rules(const struct eh_row *a, const struct eh_row *b)
{
	return a->cfa == b->cfa && a->fp == b->fp && a->cfa_rule == b->cfa_rule &&
	       a->fp_rule == b->fp_rule && a->ra_rule == b->ra_rule;
}

static int put_row(struct row_list *l, const struct eh_row *row)
{
	if (l->n && l->v[l->n - 1].pc == row->pc) {
		l->v[l->n - 1] = *row;
		return 0;
	}
	if (l->n ? same_rules(&l->v[l->n - 1], row) : row->cfa_rule == EH_CFA_NONE)
		return 0;
	if (l->n >= l->limit)
		return -EFBIG;
	if (!GROW(l->v, l->n, l->cap))
		return -ENOMEM;
	l->v[l->n++] = *row;
	return 0;
}

/* ---- running programs ---- */

static void run_rule(struct rules *r, const struct eh_cie *cie, uint8_t op, struct cursor *c)
{
	uint64_t reg, len;
	const uint8_t *block;

	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_offset_extended:
		reg = cursor_uleb(c);
		set_place(r, reg, W_AT_CFA, (int64_t)(cursor_uleb(c) * (uint64_t)cie->data_align));
		break;
	case DW_CFA_offset_extended_sf:
		reg = cursor_uleb(c);
		set_place(r, reg, W_AT_CFA,
			  (int64_t)((uint64_t)cursor_sleb(c) * (uint64_t)cie->data_align));
		break;
	case DW_CFA_GNU_negative_offset_extended:
		reg = cursor_uleb(c);
		set_place(r, reg, W_AT_CFA,
			  (int64_t)(0 - cursor_uleb(c) * (uint64_t)cie->data_align));
		break;
	case DW_CFA_restore_extended:
		reg = cursor_uleb(c);
		if (place_of(r, reg))
			*place_of(r, reg) = reg == r->regs->fp ? cie->initial.fp : cie->initial.ra;
		break;
	case DW_CFA_undefined:
		set_place(r, cursor_uleb(c), W_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		set_place(r, cursor_uleb(c), W_SAME, 0);
		break;
	case DW_CFA_register:
		set_place(r, cursor_uleb(c), W_OTHER, 0);
		cursor_uleb(c);
		break;
	case DW_CFA_def_cfa:
		reg = cursor_uleb(c);
		set_cfa(r, reg, (int64_t)cursor_uleb(c));
		break;
	case DW_CFA_def_cfa_sf:
		reg = cursor_uleb(c);
		set_cfa(r, reg, (int64_t)((uint64_t)cursor_sleb(c) * (uint64_t)cie->data_align));
		break;
	case DW_CFA_def_cfa_register:
		set_cfa(r, cursor_uleb(c), r->cfa_offset);
		break;
	case DW_CFA_def_cfa_offset:
		set_cfa(r, r->cfa_reg, (int64_t)cursor_uleb(c));
		break;
	case DW_CFA_def_cfa_offset_sf:
		set_cfa(r, r->cfa_reg,
			(int64_t)((uint64_t)cursor_sleb(c) * (uint64_t)cie->data_align));
		break;
	case DW_CFA_def_cfa_expression:
		len = cursor_uleb(c);
		block = cursor_bytes(c, len);
		if (block)
			set_cfa_expression(r, block, len);
		break;
	case DW_CFA_expression:
		reg = cursor_uleb(c);
		len = cursor_uleb(c);
		block = cursor_bytes(c, len);
		if (block)
			set_expression(r, reg, block, len);
		break;
	case DW_CFA_val_offset:
		set_place(r, cursor_uleb(c), W_OTHER, 0);
		cursor_uleb(c);
		break;
	case DW_CFA_val_offset_sf:
		set_place(r, cursor_uleb(c), W_OTHER, 0);
		cursor_sleb(c);
		break;
	case DW_CFA_val_expression:
		set_place(r, cursor_uleb(c), W_OTHER, 0);
		len = cursor_uleb(c);
		cursor_bytes(c, len);
		break;
	case DW_CFA_GNU_args_size:
		cursor_uleb(c);
		break;
	default:
		c->failed = true;
	}
}

/* Runs a program; `rows` is NULL for a CIE's, which moves nowhere. What follows something that isn't
 * understood has no rules. */
static int run(struct row_list *rows, const struct section *s, const struct eh_fde *f,
	       struct rules *r)
{
	const struct eh_cie *cie = f->cie;
	struct rules remembered[MAX_REMEMBERED];
	uint64_t at = f->start, end = f->start + f->size;
	unsigned n_remembered = 0;
	struct eh_row row;
	struct cursor c;

	cursor_init(&c, f->program, f->len);
	while (cursor_left(&c)) {
		uint8_t op = cursor_u8(&c), low = op & 0x3f;
		uint64_t step = 0, to = 0;

		switch (op & 0xc0) {
		case DW_CFA_advance_loc:
			step = low;
			break;
		case DW_CFA_offset:
			set_place(r, low, W_AT_CFA,
				  (int64_t)(cursor_uleb(&c) * (uint64_t)cie->data_align));
			continue;
		case DW_CFA_restore:
			if (place_of(r, low))
				*place_of(r, low) =
					low == r->regs->fp ? cie->initial.fp : cie->initial.ra;
			continue;
		default:
			switch (op) {
			case DW_CFA_set_loc:
				to = encoded(s, &c, cie->encoding, false);
				break;
			case DW_CFA_advance_loc1:
				step = cursor_u8(&c);
				break;
			case DW_CFA_advance_loc2:
				step = cursor_u16(&c);
				break;
			case DW_CFA_advance_loc4:
				step = cursor_u32(&c);
				break;
			case DW_CFA_remember_state:
				if (n_remembered == MAX_REMEMBERED)
					c.failed = true;
				else
					remembered[n_remembered++] = *r;
				break;
			case DW_CFA_restore_state:
				if (!n_remembered)
					c.failed = true;
				else
					*r = remembered[--n_remembered];
				break;
			default:
				run_rule(r, cie, op, &c);
			}
		}
		if (!cursor_ok(&c))
			break;
		if (!to && step && !__builtin_mul_overflow(step, cie->code_align, &step))
			to = at + step;
		if (!to)
			continue;
		if (!rows || to <= at || to >= end)
			break;
		row = row_of(r, (uint32_t)(at - f->start));

		TRY(put_row(rows, &row));
		at = to;
	}
	if (!rows)
		return cursor_ok(&c) ? 0 : -EINVAL;
	if (!cursor_ok(&c))
		r->cfa = EH_CFA_NONE;
	row = row_of(r, (uint32_t)(at - f->start));
	return put_row(rows, &row);
}

/* ---- CIEs and FDEs ---- */

static bool read_cie_header(const struct section *s, struct cursor *c, struct eh_cie *cie)
{
	const uint8_t *aug;
	uint8_t version = cursor_u8(c);

	if (version != 1 && version != 3)
		return false;
	aug = c->at;
	while (cursor_u8(c) && cursor_ok(c))
		;
	if (!cursor_ok(c))
		return false;
	cie->encoding = DW_EH_PE_absptr;
	cie->code_align = cursor_uleb(c);
	cie->data_align = cursor_sleb(c);
	if ((version == 1 ? cursor_u8(c) : cursor_uleb(c)) != s->regs->ra)
		return false;
	if (!*aug)
		return cursor_ok(c);
	if (*aug != 'z')
		return false;
	cie->augmented = true;
	uint64_t len = cursor_uleb(c);
	const uint8_t *data = cursor_bytes(c, len);
	struct cursor a;

	if (!data)
		return false;
	cursor_init(&a, data, len);
	for (aug++; *aug; aug++) {
		switch (*aug) {
		case 'R':
			cie->encoding = cursor_u8(&a);
			break;
		case 'P': {
			uint8_t personality = cursor_u8(&a);

			encoded(s, &a, personality, true);
			break;
		}
		case 'L':
			cursor_u8(&a);
			break;
		case 'S': /* a signal's frame: recognised by its rules */
		case 'B':
			break;
		default: /* the rest is unknown, but its length is known */
			return cursor_ok(&a);
		}
	}
	return cursor_ok(&a);
}

/* The CIE whose length field is at this offset; NULL: out of memory. */
static const struct eh_cie *cie_at(const struct section *s, struct map *cies, uint64_t offset)
{
	struct eh_cie *cie = map_get(cies, s->addr + offset, 0);
	struct cursor c;
	uint32_t len;

	if (cie)
		return cie;
	cie = map_new(cies, s->addr + offset, 0, sizeof(*cie));
	if (!cie)
		return NULL;
	cursor_init(&c, s->data + offset, s->len - offset);
	len = cursor_u32(&c);
	if (len > cursor_left(&c) || len < 4)
		return cie;
	cursor_init(&c, c.at, len);
	if (cursor_u32(&c) != 0 || !read_cie_header(s, &c, cie))
		return cie;
	cie->read = true;
	const struct eh_fde f = {.cie = cie, .program = c.at, .len = cursor_left(&c)};
	struct rules r = {.regs = s->regs, .ra = {W_AT_CFA, s->regs->ra_at_cfa}};
	cie->ok = run(NULL, s, &f, &r) == 0;
	cie->initial = r;
	return cie;
}

/* One entry's body, after its length: 1, 0 if it is no FDE that can be read, -ENOMEM. */
static int read_fde(const struct section *s, struct map *cies, const uint8_t *body, uint32_t len,
		    struct eh_fde *ret)
{
	uint64_t at = (uint64_t)(body - s->data);
	struct eh_fde f = {0};
	struct cursor c;
	uint32_t id;

	cursor_init(&c, body, len);
	id = cursor_u32(&c);
	if (id == 0 || id > at) /* a CIE, or nonsense */
		return 0;
	f.cie = cie_at(s, cies, at - id);
	if (!f.cie)
		return -ENOMEM;
	if (!f.cie->read)
		return 0;
	f.start = encoded(s, &c, f.cie->encoding, false);
	f.size = encoded(s, &c, f.cie->encoding, true);
	if (f.cie->augmented) {
		uint64_t bytes = cursor_uleb(&c);

		cursor_bytes(&c, bytes);
	}
	if (!cursor_ok(&c) || !f.size)
		return 0;
	f.addr = s->addr + at - sizeof(len);
	f.program = c.at;
	f.len = cursor_left(&c);
	*ret = f;
	return 1;
}

/* The entry at an address: 1; 0 if there is none that can be read; -ENOMEM. */
static int fde_at(const struct section *s, struct map *cies, uint64_t addr, struct eh_fde *ret)
{
	struct cursor c;
	const uint8_t *body;
	uint32_t len;

	if (addr < s->addr || addr - s->addr >= s->len)
		return 0;
	cursor_init(&c, s->data + (addr - s->addr), s->len - (addr - s->addr));
	len = cursor_u32(&c);
	body = cursor_bytes(&c, len);
	return body ? read_fde(s, cies, body, len, ret) : 0;
}

static int each_fde(const struct section *s, struct map *cies, eh_fde_fn *fn, void *context)
{
	struct cursor c;
	int rc = 0;

	cursor_init(&c, s->data, s->len);
	while (rc == 0 && cursor_left(&c) >= 4) {
		uint32_t len = cursor_u32(&c);
		const uint8_t *body;
		struct eh_fde f;

		if (len == 0 && !s->sized)
			break;
		if (len == 0)
			continue;
		body = cursor_bytes(&c, len);
		if (!body)
			break;
		rc = read_fde(s, cies, body, len, &f);
		if (rc > 0)
			rc = fn(context, &f);
	}
	return rc;
}

static void cies_done(struct map *cies)
{
	map_free(cies, free);
}

/* .eh_frame_hdr: version 1, three encodings, a pointer to .eh_frame, the number of entries, and
 * those. Linkers write numbers of 4 bytes, relative to the header. `ret_n`: 0 if there are none
 * that can be read. */
static uint64_t eh_frame_by_header(const struct elf_image *img, uint64_t *ret_entries,
				   size_t *ret_n)
{
	size_t len = img->eh_frame_hdr_bytes;
	const uint8_t *p = len >= 4 ? image_at(img, img->eh_frame_hdr, len) : NULL;
	const struct section s = {p, len, img->eh_frame_hdr, true, NULL};
	struct cursor c;
	uint64_t addr, n;

	*ret_n = 0;
	if (!p || p[0] != 1)
		return 0;
	cursor_init(&c, p, len);
	cursor_u32(&c);
	addr = encoded(&s, &c, p[1], false);
	if (!cursor_ok(&c))
		return 0;
	if (p[2] != DW_EH_PE_udata4 || p[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return addr;
	n = cursor_u32(&c);
	*ret_entries = addr_of(&s, &c);
	*ret_n = cursor_ok(&c) && n <= cursor_left(&c) / HEADER_ENTRY ? n : 0;
	return addr;
}

static bool section_of(const struct elf_image *img, struct section *ret)
{
	struct section s = {.addr = img->eh_frame,
			    .sized = img->eh_frame_bytes > 0,
			    .regs = &elf_image_machine(img)->dwarf};
	uint64_t entries;
	size_t n;

	if (!s.addr || !s.sized) {
		s.addr = eh_frame_by_header(img, &entries, &n);
		s.sized = false;
	}
	s.data = s.addr ? elf_image_bytes(img, s.addr, &s.len) : NULL;
	if (s.sized && s.len > img->eh_frame_bytes)
		s.len = img->eh_frame_bytes;
	*ret = s;
	return s.data != NULL;
}

int eh_frame_each_fde(const struct elf_image *img, eh_fde_fn *fn, void *context)
{
	struct map cies = {0};
	struct section s;
	int rc;

	if (!section_of(img, &s))
		return -ENODATA;
	rc = each_fde(&s, &cies, fn, context);
	cies_done(&cies);
	return rc;
}

/* ---- the list of functions ---- */

struct entry_list {
	struct eh_entry_of {
		struct eh_entry entry;
		uint64_t size;
	} * v;
	size_t n, cap;
};

static int keep_entry(void *context, const struct eh_fde *f)
{
	struct entry_list *list = context;

	if (!f->cie->ok)
		return 0;
	if (!GROW(list->v, list->n, list->cap))
		return -ENOMEM;
	list->v[list->n++] = (struct eh_entry_of){{f->start, f->addr}, f->size};
	return 0;
}

/* By going through the section. Of functions that overlap the first one counts. */
static int list_entries(struct eh_table *t, const struct section *s)
{
	struct entry_list list = {0};
	uint64_t covered = 0;
	int rc = each_fde(s, &t->cies, keep_entry, &list);

	if (rc == 0)
		rc = image_sort(list.v, list.n, sizeof(*list.v));
	if (rc == 0) {
		t->entries = calloc(list.n ? list.n : 1, sizeof(*t->entries));
		rc = t->entries ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < list.n && rc == 0; i++) {
		const struct eh_entry_of *e = &list.v[i];
		uint64_t end;

		/* Functions that the linker left out have an entry at no address. */
		if (e->entry.start < covered ||
		    __builtin_add_overflow(e->entry.start, e->size, &end))
			continue;
		t->entries[t->n++] = e->entry;
		covered = end;
	}
	free(list.v);
	return rc;
}

static struct eh_entry entry_of(const struct eh_table *t, const uint8_t *header, size_t i)
{
	int32_t pair[2];

	if (!header)
		return t->entries[i];
	memcpy(pair, header + i * HEADER_ENTRY, sizeof(pair));
	return (struct eh_entry){t->header + (uint64_t)(int64_t)pair[0],
				 t->header + (uint64_t)(int64_t)pair[1]};
}

/* The header's entries, as they lie in the file; NULL: the table has a list of its own. */
static const uint8_t *header_of(const struct eh_table *t)
{
	return t->header ? image_at(t->image, t->header_at, t->n * HEADER_ENTRY) : NULL;
}

/* ---- functions ---- */

/* Runs the program of an FDE; -ENOMEM. */
static const struct eh_function *compile(struct eh_table *t, const struct section *s, uint64_t fde)
{
	struct row_list *rows = &t->rows;
	struct eh_function *fn;
	struct eh_fde f = {0};
	int rc = fde_at(s, &t->cies, fde, &f);

	rows->n = 0;
	rows->limit = MAX_ROWS - t->n_rows;
	if (rc > 0 && f.cie->ok && f.size <= UINT32_MAX && f.start + f.size > f.start) {
		struct rules r = f.cie->initial;

		rc = run(rows, s, &f, &r);
	} else {
		f = (struct eh_fde){0};
	}
	if (rc < 0 && rc != -EFBIG)
		return NULL;
	fn = map_new(&t->functions, fde, 0, sizeof(*fn) + rows->n * sizeof(*fn->rows));
	if (!fn)
		return NULL;
	fn->start = f.start;
	fn->end = f.start + f.size;
	fn->n = rows->n;
	if (rows->n)
		memcpy(fn->rows, rows->v, rows->n * sizeof(*fn->rows));
	t->n_rows += rows->n;
	return fn;
}

/* The part of the file that has an FDE and its CIE. */
static bool section_with(const struct eh_table *t, uint64_t fde, struct section *ret)
{
	const struct elf_segment *seg;

	if (!t->image)
		return false;
	for (size_t i = 0; (seg = elf_image_segment(t->image, i)); i++) {
		if (fde < seg->addr || fde - seg->addr >= seg->file_size)
			continue;
		*ret = (struct section){seg->data, seg->file_size, seg->addr, true,
					&elf_image_machine(t->image)->dwarf};
		return true;
	}
	return false;
}

static const struct eh_function *function_at(struct eh_table *t, uint64_t addr)
{
	const struct eh_function **recent = &t->recent[(addr >> RECENT_SHIFT) % N_RECENT], *fn;
	const uint8_t *header;
	struct section s;
	uint64_t fde;
	size_t lo;

	if (*recent && addr >= (*recent)->start && addr < (*recent)->end)
		return *recent;
	header = header_of(t);
	if (t->header && !header)
		return NULL;
	lo = PARTITION_POINT(i, 0, t->n, entry_of(t, header, i).start <= addr);
	if (!lo)
		return NULL;
	fde = entry_of(t, header, lo - 1).fde;
	fn = map_get(&t->functions, fde, 0);
	if (!fn && section_with(t, fde, &s))
		fn = compile(t, &s, fde);
	if (!fn || addr < fn->start || addr >= fn->end)
		return NULL;
	*recent = fn;
	return fn;
}

/* ---- the table ---- */

int eh_table_compile(const struct machine *machine, const void *data, size_t len, uint64_t addr,
		     bool sized, struct eh_table **ret_table)
{
	const struct section s = {data, len, addr, sized, &machine->dwarf};
	struct eh_table *t = calloc(1, sizeof(*t));
	int rc = t ? list_entries(t, &s) : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < t->n; i++)
		if (!compile(t, &s, t->entries[i].fde))
			rc = -ENOMEM;
	if (rc < 0) {
		eh_table_free(t);
		return rc;
	}
	*ret_table = t;
	return 0;
}

int eh_table_of_image(const struct elf_image *img, struct eh_table **ret_table)
{
	struct eh_table *t;
	struct section s;
	int rc = 0;

	if (!section_of(img, &s))
		return -ENODATA;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->image = img;
	eh_frame_by_header(img, &t->header_at, &t->n);
	if (t->n)
		t->header = img->eh_frame_hdr;
	else
		rc = list_entries(t, &s);
	if (rc < 0) {
		eh_table_free(t);
		return rc;
	}
	*ret_table = t;
	return 0;
}

void eh_table_free(struct eh_table *t)
{
	if (!t)
		return;
	map_free(&t->functions, free);
	cies_done(&t->cies);
	free(t->entries);
	free(t->rows.v);
	free(t);
}

/* The row of a function that applies at an address; n: none. */
static size_t row_index(const struct eh_function *fn, uint64_t addr)
{
	uint64_t pc = addr - fn->start;
	size_t lo = PARTITION_POINT(i, 0, fn->n, fn->rows[i].pc <= pc);

	return lo && fn->rows[lo - 1].cfa_rule != EH_CFA_NONE ? lo - 1 : fn->n;
}

const struct eh_row *eh_table_at(struct eh_table *t, uint64_t addr)
{
	const struct eh_function *fn = function_at(t, addr);
	size_t i = fn ? row_index(fn, addr) : 0;

	return fn && i < fn->n ? &fn->rows[i] : NULL;
}

bool eh_table_fp_made(struct eh_table *t, uint64_t addr, uint64_t *ret_addr)
{
	const struct eh_function *fn = function_at(t, addr);
	size_t i = fn ? row_index(fn, addr) : 0;

	/* push %rbp; mov %rsp,%rbp. The row may come again after a return. */
	for (; fn && i && i < fn->n && fn->rows[i].cfa_rule != EH_CFA_NONE; i--) {
		const struct eh_row *row = &fn->rows[i], *pushed = row - 1;

		if (row->cfa_rule == EH_CFA_FP && row->cfa == 16 && pushed->cfa_rule == EH_CFA_SP &&
		    pushed->cfa == 16 && pushed->fp_rule == EH_FP_AT_CFA && pushed->fp == -16) {
			*ret_addr = fn->start + row->pc;
			return true;
		}
	}
	return false;
}

size_t eh_table_functions(const struct eh_table *t, size_t *ret_compiled)
{
	*ret_compiled = t->functions.n;
	return t->n;
}

uint64_t eh_table_function(const struct eh_table *t, size_t i)
{
	const uint8_t *header = header_of(t);

	return t->header && !header ? 0 : entry_of(t, header, i).start;
}
