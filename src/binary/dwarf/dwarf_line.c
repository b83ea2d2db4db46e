/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Line tables: the names of files, and the line of a code address. The program of a unit's table is
 * run again for each question: a tool asks for hundreds of addresses, and kept tables would be
 * larger than the rest.
 */
#include "base/vec.h"
#include "binary/dwarf/dwarf_read.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_FILES = 1 << 20,
	MAX_FORMATS = 255,
};

struct line_header {
	const struct dwarf_unit *unit;
	struct dwarf_unit view; /* as the table's own version and sizes make its forms read */
	const uint8_t *tables;	/* of directories and files */
	const uint8_t *program, *end;
	uint8_t min_length, max_ops, line_range, opcode_base;
	int8_t line_base;
	const uint8_t *lengths; /* operands of the standard opcodes, from 1 on */
};

static bool header_read(const struct dwarf_unit *u, struct line_header *h)
{
	const struct dwarf_span *s = &u->source->s[DS_LINE];
	/* a split unit has the names of files only, its part of the section begins with them */
	uint64_t off = u->line != UINT64_MAX ? u->line : u->source->split ? 0 : UINT64_MAX, len;
	const uint8_t *p, *end;

	if (off >= s->len || s->len - off < 16)
		return false;
	*h = (struct line_header){.unit = u, .view = *u};
	p = s->data + off;
	end = s->data + s->len;
	h->view.offset_bytes = 4;
	len = dwarf_bytes_u64(p, 4);
	p += 4;
	if (len == 0xffffffff) {
		len = dwarf_bytes_u64(p, 8);
		p += 8;
		h->view.offset_bytes = 8;
	}
	if (len > (uint64_t)(end - p) || len < 24)
		return false;
	h->end = end = p + len;
	if (dwarf_bytes_u64(p, 2) < 2 || dwarf_bytes_u64(p, 2) > 5)
		return false;
	h->view.version = (uint8_t)dwarf_bytes_u64(p, 2);
	p += 2;
	if (h->view.version >= 5) {
		h->view.address_bytes = p[0];
		if (p[0] != 8 && p[0] != 4)
			return false;
		p += 2;
	}
	len = dwarf_bytes_u64(p, h->view.offset_bytes);
	p += h->view.offset_bytes;
	if (len > (uint64_t)(end - p) || len < 6)
		return false;
	h->program = p + len;
	h->min_length = *p++;
	h->max_ops = h->view.version >= 4 ? *p++ : 1;
	p++; /* default_is_stmt: every row counts here */
	h->line_base = (int8_t)*p++;
	h->line_range = *p++;
	h->opcode_base = *p++;
	h->lengths = p;
	if (!h->opcode_base || h->opcode_base - 1 > h->program - p)
		return false;
	h->tables = p + h->opcode_base - 1;
	return true;
}

/* ---- files ---- */

static bool add_file(struct dwarf_unit *u, size_t *cap, const char *dir, const char *name)
{
	if (u->n_files >= MAX_FILES || !GROW(u->files, u->n_files, *cap))
		return false;
	u->files[u->n_files++] = (struct dwarf_file_name){dir, name, NULL};
	return true;
}

static const char *inline_string(const uint8_t **p, const uint8_t *end)
{
	const uint8_t *nul = memchr(*p, 0, (size_t)(end - *p));
	const char *s = (const char *)*p;

	if (!nul)
		return NULL;
	*p = nul + 1;
	return s;
}

struct strings {
	const char **v;
	size_t n, cap;
};

static bool strings_add(struct strings *l, const char *s)
{
	if (l->n >= MAX_FILES || !GROW(l->v, l->n, l->cap))
		return false;
	l->v[l->n++] = s;
	return true;
}

/* DWARF 2 to 4: directories, then (name, directory, time, length), both ended by an empty name.
 * Directory 0 is that of the compilation, file 0 does not exist. */
static void old_files(struct dwarf_unit *u, const struct line_header *h, struct strings *dirs)
{
	const uint8_t *p = h->tables, *end = h->program;
	const char *s;
	size_t cap = 0;

	if (!strings_add(dirs, "") || !add_file(u, &cap, "", NULL))
		return;
	while ((s = inline_string(&p, end)) && *s)
		if (!strings_add(dirs, s))
			return;
	while (s && (s = inline_string(&p, end)) && *s) {
		uint64_t dir, skip;

		if (!dwarf_uleb(&p, end, &dir) || !dwarf_uleb(&p, end, &skip) ||
		    !dwarf_uleb(&p, end, &skip) ||
		    !add_file(u, &cap, dir < dirs->n ? dirs->v[dir] : "", s))
			return;
	}
}

struct name_entry {
	const char *path;
	uint64_t dir;
};

/* One entry of a DWARF 5 table, by the table's list of (content, form). */
static bool read_entry(const struct line_header *h, const uint64_t (*formats)[2], unsigned n,
		       const uint8_t **p, struct name_entry *ret)
{
	*ret = (struct name_entry){0};
	for (unsigned i = 0; i < n; i++) {
		struct dwarf_attr a = {(uint16_t)formats[i][1], *p, h->program, 0};
		const uint8_t *next = dwarf_form_skip(&h->view, a.form, *p, h->program);

		if (!next)
			return false;
		if (formats[i][0] == DW_LNCT_path)
			ret->path = dwarf_form_str(&h->view, &a);
		else if (formats[i][0] == DW_LNCT_directory_index)
			dwarf_form_u64(&h->view, &a, &ret->dir);
		*p = next;
	}
	return true;
}

static bool read_formats(const uint8_t **p, const uint8_t *end, uint64_t (*ret)[2], unsigned *ret_n)
{
	if (*p >= end)
		return false;
	*ret_n = *(*p)++;
	for (unsigned i = 0; i < *ret_n; i++)
		if (!dwarf_uleb(p, end, &ret[i][0]) || !dwarf_uleb(p, end, &ret[i][1]) ||
		    ret[i][1] > 0xffff)
			return false;
	return true;
}

/* DWARF 5: two tables that describe themselves. Directory 0 is that of the compilation. */
static void new_files(struct dwarf_unit *u, const struct line_header *h, struct strings *dirs)
{
	const uint8_t *p = h->tables, *end = h->program;
	uint64_t formats[MAX_FORMATS][2], n;
	unsigned n_formats;
	struct name_entry e;
	size_t cap = 0;

	if (!read_formats(&p, end, formats, &n_formats) || !dwarf_uleb(&p, end, &n))
		return;
	if (n && !n_formats) /* entries without bytes could be repeated without end */
		return;
	for (uint64_t i = 0; i < n && i < MAX_FILES; i++)
		if (!read_entry(h, formats, n_formats, &p, &e) ||
		    !strings_add(dirs, i && e.path ? e.path : ""))
			return;
	if (!read_formats(&p, end, formats, &n_formats) || !dwarf_uleb(&p, end, &n) || !n_formats)
		return;
	for (uint64_t i = 0; i < n && i < MAX_FILES; i++)
		if (!read_entry(h, formats, n_formats, &p, &e) ||
		    !add_file(u, &cap, e.dir < dirs->n ? dirs->v[e.dir] : "", e.path))
			return;
}

static void files_read(struct dwarf_unit *u)
{
	struct strings dirs = {0};
	struct line_header h;

	u->files_done = true;
	if (!header_read(u, &h))
		return;
	if (h.view.version >= 5)
		new_files(u, &h, &dirs);
	else
		old_files(u, &h, &dirs);
	free(dirs.v);
}

/* Cargo compiles a library where its source lies: paths from there would look like the program's.
 */
static bool is_library(const char *dir)
{
	return strstr(dir, "/registry/src/") || strstr(dir, "/git/checkouts/") ||
	       !strncmp(dir, "/rustc/", 7);
}

/* From the folder of the program's own package on. */
static void cut_own_folder(const struct dwarf_source *s, char *path)
{
	if (path && s->own_len && !strncmp(path, s->own_folder, s->own_len) && path[s->own_len])
		memmove(path, path + s->own_len, strlen(path + s->own_len) + 1);
}

const char *unit_file(struct dwarf_unit *u, uint64_t number)
{
	struct dwarf_file_name *f;
	const char *dir;
	char *path = NULL;
	size_t len;

	/* GNU's split units of DWARF 4 have no table of their own */
	if (u->skeleton && !u->source->s[DS_LINE].len)
		u = u->skeleton;
	if (!u->files_done)
		files_read(u);
	if (number >= u->n_files || !u->files[number].name)
		return NULL;
	f = &u->files[number];
	if (f->path)
		return f->path;
	dir = f->dir;
	len = u->comp_dir ? strlen(u->comp_dir) : 0;
	if (len && !strncmp(dir, u->comp_dir, len) && (dir[len] == '/' || !dir[len]))
		dir += len + (dir[len] == '/');
	if (f->name[0] != '/' && *dir != '/' && len && is_library(u->comp_dir)) {
		if (asprintf(&path, "%s/%s%s%s", u->comp_dir, dir, *dir ? "/" : "", f->name) < 0)
			path = NULL;
	} else if (f->name[0] == '/' || !*dir) {
		path = strdup(f->name);
	} else if (asprintf(&path, "%s/%s", dir, f->name) < 0) {
		path = NULL;
	}
	cut_own_folder(u->source, path);
	f->path = path;
	return path;
}

/* ---- lines ---- */

struct row {
	uint64_t addr, file;
	uint32_t line;
	uint32_t op_index;
};

static void advance(const struct line_header *h, struct row *r, uint64_t ops)
{
	if (h->max_ops <= 1) {
		r->addr += h->min_length * ops;
		return;
	}
	r->addr += h->min_length * ((r->op_index + ops) / h->max_ops);
	r->op_index = (uint32_t)((r->op_index + ops) % h->max_ops);
}

/* A row was made: is the wanted address between the one before and it? */
static bool made(const struct row *r, struct row *before, bool *have, uint64_t addr)
{
	bool hit = *have && before->addr <= addr && addr < r->addr;

	if (!hit) {
		*before = *r;
		*have = true;
	}
	return hit;
}

static bool skip_operands(const struct line_header *h, unsigned op, const uint8_t **p)
{
	uint64_t v;

	for (unsigned i = 0; i < h->lengths[op - 1]; i++)
		if (!dwarf_uleb(p, h->end, &v))
			return false;
	return true;
}

/* DW_LNE_*: sets the address, or ends a sequence. False: broken. */
static bool extended(const struct line_header *h, const uint8_t **p, struct row *r, bool *ret_ends)
{
	uint64_t len;

	if (!dwarf_uleb(p, h->end, &len) || !len || len > (uint64_t)(h->end - *p))
		return false;
	if (**p == DW_LNE_end_sequence)
		*ret_ends = true;
	else if (**p == DW_LNE_set_address && len - 1 <= 8) {
		r->addr = dwarf_bytes_u64(*p + 1, (unsigned)len - 1);
		r->op_index = 0;
	}
	*p += len;
	return true;
}

bool unit_line(struct dwarf_unit *u, uint64_t addr, uint64_t *ret_file, uint32_t *ret_line)
{
	const struct row first = {.file = 1, .line = 1};
	struct row r = first, before = first;
	struct line_header h;
	bool have = false, hit = false;
	const uint8_t *p;

	if (u->skeleton)
		u = u->skeleton;
	if (u->line == UINT64_MAX || !header_read(u, &h) || !h.line_range)
		return false;
	for (p = h.program; !hit && p < h.end;) {
		unsigned op = *p++;
		bool ends = false;
		uint64_t v;
		int64_t s;

		if (op >= h.opcode_base) {
			op -= h.opcode_base;
			advance(&h, &r, op / h.line_range);
			r.line += (uint32_t)(h.line_base + (int)(op % h.line_range));
			hit = made(&r, &before, &have, addr);
			continue;
		}
		switch (op) {
		case 0:
			if (!extended(&h, &p, &r, &ends))
				return false;
			if (ends) {
				hit = made(&r, &before, &have, addr);
				r = first;
				have = false;
			}
			break;
		case DW_LNS_copy:
			hit = made(&r, &before, &have, addr);
			break;
		case DW_LNS_advance_pc:
			if (!dwarf_uleb(&p, h.end, &v))
				return false;
			advance(&h, &r, v);
			break;
		case DW_LNS_advance_line:
			if (!dwarf_sleb(&p, h.end, &s))
				return false;
			r.line += (uint32_t)s;
			break;
		case DW_LNS_set_file:
			if (!dwarf_uleb(&p, h.end, &r.file))
				return false;
			break;
		case DW_LNS_const_add_pc:
			advance(&h, &r, (255u - h.opcode_base) / h.line_range);
			break;
		case DW_LNS_fixed_advance_pc:
			if (h.end - p < 2)
				return false;
			r.addr += dwarf_bytes_u64(p, 2);
			r.op_index = 0;
			p += 2;
			break;
		default: /* the rest changes nothing that is asked for */
			if (!skip_operands(&h, op, &p))
				return false;
			break;
		}
	}
	if (!hit)
		return false;
	*ret_file = before.file;
	*ret_line = before.line;
	return true;
}
