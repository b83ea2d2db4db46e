/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading DWARF: units, DIEs and attributes over untrusted bytes. Bounded everywhere: a broken or
 * hostile section gives absent values, never a read beyond it.
 *
 * Why not libdw (0.188): one look through all units, which a look-up by name may need, takes it 2.1
 * s for 160 MB of .debug_info, this here 0.7 s; it reads no .dwp; and it isn't made for hostile
 * input.
 *
 * Source: DWARF 5 section 7, DWARF 4 section 7, GNU's debug fission for DWARF 4.
 */
#pragma once

#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dwarf_section {
	DS_INFO,
	DS_ABBREV,
	DS_STR,
	DS_STR_OFFSETS,
	DS_LINE,
	DS_LINE_STR,
	DS_ADDR,
	DS_RANGES,
	DS_RNGLISTS,
	DS_ARANGES,
	DS_LOC,
	DS_LOCLISTS,
	DS_CU_INDEX,
	DS_N,
};

struct dwarf_span {
	const uint8_t *data;
	size_t len;
};

/* Whether reading is to end: asked every few steps, of which each is a DIE or less than some hundred. Once it is
 * to, it stays so. */
struct dwarf_stop {
	bool (*ask)(void *ctx); /* NULL: it never is */
	void *ctx;
	uint64_t n_steps;
	bool stopped;
};

enum { DWARF_STOP_STEPS = 64 };

static inline bool dwarf_step(struct dwarf_stop *s)
{
	if (s && s->ask && !s->stopped && ++s->n_steps % DWARF_STOP_STEPS == 0)
		s->stopped = s->ask(s->ctx);
	return s && s->stopped;
}

/*
 * Where units come from: the file of debug information, or a split unit's part of a .dwo or .dwp.
 * A reference is an offset in the .debug_info of a source with the source's number above it, so
 * that it is unique within a program. 0 is never a DIE.
 */
struct dwarf_source {
	uint32_t number;
	bool split;
	struct dwarf_stop *stop; /* NULL: nothing ends it */
	struct dwarf_span s[DS_N];
	struct map abbrevs; /* (offset, sizes) -> struct dwarf_abbrevs */
	/* The folder of the program's own package, if that was built where cargo keeps what it has
	 * downloaded (`cargo install`), with the slash at its end, in a string that goes on: its files
	 * are named from there, as those of any other program are. NULL: it was not. */
	const char *own_folder;
	size_t own_len;
};

#define DWARF_REF_SHIFT 40
#define DWARF_OFFSET_MASK ((1ULL << DWARF_REF_SHIFT) - 1)

struct dwarf_attr_spec {
	uint16_t name, form;
	uint8_t bytes; /* of its value, DWARF_VARIABLE if it depends on the value */
	int64_t implicit;
};
#define DWARF_VARIABLE 0xff

struct dwarf_abbrev {
	uint64_t code;
	uint32_t first_attr, n_attrs; /* in the table's attrs */
	uint32_t bytes;		      /* of all values, UINT32_MAX if it depends on the values */
	uint16_t tag;
	bool children;
};

struct dwarf_abbrevs {
	struct dwarf_abbrev *v;
	size_t n, cap;
	struct dwarf_attr_spec *attrs;
	size_t n_attrs, cap_attrs;
};

/* One entry of a line table's list of files. */
struct dwarf_file_name {
	const char *dir, *name;
	const char *path; /* both, made when asked for */
};

struct dwarf_unit {
	struct dwarf_source *source;
	uint64_t off, end; /* its bytes in .debug_info, header included */
	uint64_t first;	   /* its DIE */
	uint8_t version, offset_bytes, address_bytes, type;
	uint64_t abbrev; /* offset of its table of shapes */
	/* from here on: dwarf_unit_root() */
	bool rooted, broken;
	const struct dwarf_abbrevs *abbrevs;
	/* from its DIE, and from its skeleton's */
	uint64_t str_offsets_base, addr_base, rnglists_base, loclists_base, ranges_base, low;
	uint64_t line; /* offset of its line table, UINT64_MAX if none */
	uint64_t dwo_id;
	const char *comp_dir, *dwo_name; /* dwo_name: this is a skeleton */
	struct dwarf_unit *skeleton;	 /* of a split unit */
	struct dwarf_unit *split;	 /* of a skeleton, once it was looked for */
	bool full_tried;
	/* line table header */
	bool files_done;
	struct dwarf_file_name *files;
	size_t n_files;
	void *index; /* debug_index.c */
};

struct dwarf_die {
	struct dwarf_unit *unit;
	uint64_t off;
	const struct dwarf_abbrev *abbrev;
	const uint8_t *attrs; /* values */
};

void dwarf_source_done(struct dwarf_source *s);

/* Reads the header at `off` of the source's .debug_info. False: none, broken, or a kind of unit
 * that holds no code (type units). `ret->end` is set whenever the length is believable, else 0. */
bool dwarf_unit_read(struct dwarf_source *s, uint64_t off, struct dwarf_unit *ret);
/* Makes its DIEs readable: shapes, bases, paths, the split unit's name. Does it once. */
bool dwarf_unit_root(struct dwarf_unit *u);
void dwarf_unit_done(struct dwarf_unit *u);

/* The table of shapes that the unit names; NULL: none. */
const struct dwarf_abbrevs *dwarf_abbrevs_of(const struct dwarf_unit *u);

uint64_t dwarf_ref(const struct dwarf_die *die);

/* False: no DIE there (end of a list of children, or broken). */
bool die_at(struct dwarf_unit *u, uint64_t off, struct dwarf_die *ret);
bool die_root(struct dwarf_unit *u, struct dwarf_die *ret);
bool die_child(const struct dwarf_die *die, struct dwarf_die *ret);
bool die_sibling(const struct dwarf_die *die, struct dwarf_die *ret);
/* Offset after the values of this DIE: its first child or what comes next. 0: broken. */
uint64_t die_end(const struct dwarf_die *die);

static inline unsigned die_tag(const struct dwarf_die *die)
{
	return die->abbrev->tag;
}

/* An attribute's value in place. */
struct dwarf_attr {
	uint16_t form;
	const uint8_t *p, *end; /* end: of the unit */
	int64_t implicit;
};
bool die_attr(const struct dwarf_die *die, unsigned name, struct dwarf_attr *ret);
bool die_has(const struct dwarf_die *die, unsigned name);
bool die_u64(const struct dwarf_die *die, unsigned name, uint64_t *ret);
const char *die_str(const struct dwarf_die *die, unsigned name); /* NULL if absent */
const char *die_name(const struct dwarf_die *die);		 /* "" if absent */
uint64_t die_ref(const struct dwarf_die *die, unsigned name);	 /* 0 if absent */
bool die_addr(const struct dwarf_die *die, unsigned name, uint64_t *ret);
/* The address that a location expression of one operation gives. */
bool die_location(const struct dwarf_die *die, uint64_t *ret);

/* Reads a value of this form that is a number or a string: what line tables consist of too. */
bool dwarf_form_u64(const struct dwarf_unit *u, const struct dwarf_attr *a, uint64_t *ret);
const char *dwarf_form_str(const struct dwarf_unit *u, const struct dwarf_attr *a);
/* Behind a value of this form; NULL: broken or unknown. */
const uint8_t *dwarf_form_skip(const struct dwarf_unit *u, unsigned form, const uint8_t *p,
			       const uint8_t *end);

/* An address by its number in .debug_addr. */
bool dwarf_indexed_address(const struct dwarf_unit *u, uint64_t index, uint64_t *ret);

/* ---- dwarf_loc.c ---- */

/* An expression, and the code for which it holds: all of the scope is 0 to UINT64_MAX. */
typedef bool die_location_fn(void *ctx, const uint8_t *expression, size_t len, uint64_t low,
			     uint64_t high);
/* Calls `one` for each expression of an attribute until it returns true, which is then returned. */
bool die_locations(const struct dwarf_die *die, unsigned name, die_location_fn *one, void *ctx);

/* ---- dwarf_ranges.c ---- */

/* Calls `one` for each range of code of a DIE until it returns true, which is then returned. */
bool die_ranges(const struct dwarf_die *die, bool (*one)(void *ctx, uint64_t low, uint64_t high),
		void *ctx);
bool die_covers(const struct dwarf_die *die, uint64_t addr);
/* low_pc and high_pc alone. */
bool die_low_high(const struct dwarf_die *die, uint64_t *ret_low, uint64_t *ret_high);
/* .debug_aranges: `one` is called with the unit's offset for each range. */
void dwarf_aranges(const struct dwarf_source *s,
		   void (*one)(void *ctx, uint64_t unit, uint64_t low, uint64_t high), void *ctx);

/* ---- dwarf_line.c ---- */

/* Path of a file by the number that DW_AT_decl_file and the like give; NULL if there is none.
 * Relative to the directory of the compilation where that is where it lies. */
const char *unit_file(struct dwarf_unit *u, uint64_t number);
/* File number and line of a code address. */
bool unit_line(struct dwarf_unit *u, uint64_t addr, uint64_t *ret_file, uint32_t *ret_line);

/* ---- what bytes say ---- */

uint64_t dwarf_bytes_u64(const uint8_t *p, unsigned bytes); /* 1 to 8, little-endian */
/* False beyond the end or beyond 64 bits; *p then stays within. */
bool dwarf_uleb(const uint8_t **p, const uint8_t *end, uint64_t *ret);
bool dwarf_sleb(const uint8_t **p, const uint8_t *end, int64_t *ret);
