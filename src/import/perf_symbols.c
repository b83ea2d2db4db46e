/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbols of call chains. A process's mappings turn an address into an offset of a file, the file's
 * own segments turn that into a linked address (they are not the same in what lld links), and its
 * symbols or debug information name the function. Files are opened by the names in the recording,
 * and used only if they are still the same, as far as a build-id shows.
 */
#include "import/perf_symbols.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/dwarf/debug.h"
#include "binary/dwarf/eh_frame.h"
#include "binary/elf/elf_image.h"
#include "binary/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More than any recording has. */
#define MAX_OBJECTS 4096u
#define MAX_MAPS 65536u /* of a process */
#define MAX_PROCESSES 65536u
#define MAX_PLACES 8u
#define MAX_FOUND (1u << 19) /* that are remembered */

struct symbol_file {
	char *path;
	uint8_t build_id[PERF_BUILD_ID_MAX];
	size_t build_id_len;
	bool tried, used;
	struct elf_image *image; /* NULL: can't be read, or is another one by now */
	struct debug *debug;	 /* NULL: none */
	bool table_tried;
	struct eh_table *table; /* how to unwind; NULL: none */
};

struct symbol_mapping {
	uint64_t start, end, offset;
	uint32_t object;
};

struct maps {
	struct symbol_mapping *v; /* by start, none overlap */
	size_t n, cap;
};

/* What was found at an address of an object. */
struct found_symbols {
	size_t n;
	uint32_t frames[MAX_PLACES];
};

struct perf_symbols {
	struct frames *frames;
	struct import_names paths; /* to index of objects */
	struct symbol_file *objects;
	size_t n_objects;
	struct map processes; /* pid to struct maps */
	size_t n_processes;
	struct map found; /* (object << 32 | process, linked address) to struct found_symbols */
};

struct perf_symbols *perf_symbols_new(struct frames *frames)
{
	struct perf_symbols *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->frames = frames;
	names_init(&s->paths, 8u << 20);
	s->objects = calloc(MAX_OBJECTS, sizeof(*s->objects));
	if (!s->objects) {
		free(s);
		return NULL;
	}
	return s;
}

void perf_symbols_free(struct perf_symbols *s)
{
	const struct map_entry *e;

	if (!s)
		return;
	for (size_t pos = 0; (e = map_next(&s->processes, &pos));) {
		free(((struct maps *)e->value)->v);
		free(e->value);
	}
	for (size_t i = 0; i < s->n_objects; i++) {
		if (s->objects[i].debug)
			debug_free(s->objects[i].debug);
		eh_table_free(s->objects[i].table);
		elf_image_free(s->objects[i].image);
		free(s->objects[i].path);
	}
	map_done(&s->processes);
	map_free(&s->found, free);
	names_done(&s->paths);
	free(s->objects);
	free(s);
}

/* ---- objects ---- */

/* Index of the object of this name; UINT32_MAX: too many. */
static uint32_t object_of(struct perf_symbols *s, const char *path, size_t len)
{
	bool is_new;

	if (s->n_objects == MAX_OBJECTS)
		return names_find(&s->paths, path, len);
	uint32_t index = names_get(&s->paths, path, len, &is_new);
	if (index == UINT32_MAX || !is_new)
		return index;
	s->objects[index].path = strndup(path, len);
	s->n_objects = index + 1;
	return index;
}

int perf_symbols_build_id(struct perf_symbols *s, const char *path, size_t len, const uint8_t *id,
			  size_t id_len)
{
	uint32_t index = object_of(s, path, len);
	if (index == UINT32_MAX || id_len > PERF_BUILD_ID_MAX || s->objects[index].build_id_len)
		return 0;
	memcpy(s->objects[index].build_id, id, id_len);
	s->objects[index].build_id_len = id_len;
	return 0;
}

static bool same_build(const struct symbol_file *o, const struct elf_image *image)
{
	size_t len;
	const uint8_t *id = elf_image_build_id(image, &len);

	if (!o->build_id_len || !id)
		return true;
	/* perf fills short ones up with zeros. */
	len = len < o->build_id_len ? len : o->build_id_len;
	return !memcmp(id, o->build_id, len);
}

static void object_open(struct symbol_file *o)
{
	struct error err = {0};

	o->tried = true;
	if (!o->path || o->path[0] != '/' || o->path[1] == '/')
		return;
	if (elf_image_open_path(o->path, &o->image, &err) < 0)
		return;
	if (!same_build(o, o->image)) {
		elf_image_free(o->image);
		o->image = NULL;
		return;
	}
	debug_open(elf_image_fd(o->image), o->path, &o->debug, &err);
}

/* ---- mappings ---- */

static struct maps *maps_of(struct perf_symbols *s, uint32_t pid, bool make)
{
	struct maps *m = map_get(&s->processes, pid, 0);
	if (m || !make || s->n_processes >= MAX_PROCESSES)
		return m;
	m = map_new(&s->processes, pid, 0, sizeof(*m));
	s->n_processes += m != NULL;
	return m;
}

/* The first mapping that ends after addr. */
static size_t place_of(const struct maps *m, uint64_t addr)
{
	return PARTITION_POINT(i, 0, m->n, m->v[i].end <= addr);
}

/* What a new mapping lies over is gone, as in the process. */
static int maps_insert(struct maps *m, const struct symbol_mapping *new)
{
	if (m->n >= MAX_MAPS)
		return 0;
	if (!GROW(m->v, m->n + 1, m->cap))
		return -ENOMEM;
	size_t first = place_of(m, new->start), last = first;
	struct symbol_mapping head = {0}, tail = {0};
	while (last < m->n && m->v[last].start < new->end)
		last++;
	if (last > first && m->v[first].start < new->start) {
		head = m->v[first];
		head.end = new->start;
	}
	if (last > first && m->v[last - 1].end > new->end) {
		tail = m->v[last - 1];
		tail.offset += new->end - tail.start;
		tail.start = new->end;
	}
	struct symbol_mapping put[3];
	size_t n = 0;
	if (head.end)
		put[n++] = head;
	put[n++] = *new;
	if (tail.end)
		put[n++] = tail;
	memmove(m->v + first + n, m->v + last, (m->n - last) * sizeof(*m->v));
	memcpy(m->v + first, put, n * sizeof(*put));
	m->n = m->n - (last - first) + n;
	return 0;
}

int perf_symbols_map(struct perf_symbols *s, uint32_t pid, const struct perf_mapping *mapping)
{
	struct symbol_mapping new = {.start = mapping->start, .offset = mapping->offset};

	if (__builtin_add_overflow(mapping->start, mapping->len, &new.end) || !mapping->len)
		return 0;
	new.object = object_of(s, mapping->path, mapping->path_len);
	struct maps *m = maps_of(s, pid, true);
	if (!m || new.object == UINT32_MAX)
		return 0;
	if (mapping->build_id)
		perf_symbols_build_id(s, mapping->path, mapping->path_len, mapping->build_id,
				      mapping->build_id_len);
	return maps_insert(m, &new);
}

int perf_symbols_fork(struct perf_symbols *s, uint32_t pid, uint32_t parent)
{
	const struct maps *from = maps_of(s, parent, false);

	if (pid == parent || !from || !from->n || maps_of(s, pid, false))
		return 0;
	struct maps *to = maps_of(s, pid, true);
	struct symbol_mapping *v = to ? malloc(from->n * sizeof(*v)) : NULL;
	if (!v)
		return to ? -ENOMEM : 0;
	/* The table may have moved, not what it points at. */
	memcpy(v, from->v, from->n * sizeof(*v));
	to->v = v;
	to->n = to->cap = from->n;
	return 0;
}

void perf_symbols_forget(struct perf_symbols *s, uint32_t pid)
{
	struct maps *m = map_remove(&s->processes, pid, 0);
	if (!m)
		return;
	free(m->v);
	free(m);
	s->n_processes--;
}

/* ---- names ---- */

/* A place in the file to the address that its segments give it. */
static bool linked_addr(const struct elf_image *image, uint64_t offset, uint64_t *ret)
{
	for (size_t i = 0; i < elf_image_n_segments(image); i++) {
		const struct elf_segment *g = elf_image_segment(image, i);
		if (g->exec && offset >= g->offset && offset - g->offset < g->file_size) {
			*ret = g->addr + (offset - g->offset);
			return true;
		}
	}
	return false;
}

static char *for_people(const char *symbol)
{
	_cleanup_free_ char *plain = name_demangle(symbol);
	return name_shorten(plain ? plain : symbol);
}

static uint32_t put_frame(struct perf_symbols *s, const struct trace_frame *f)
{
	_cleanup_buf_ struct buf key = BUF_INIT;
	buf_printf(&key, "%u %llx %u %s", f->process, (unsigned long long)f->addr, f->line,
		   f->object);
	buf_char(&key, 0);
	buf_str(&key, f->function ? f->function : "");
	buf_char(&key, 0);
	buf_str(&key, f->file ? f->file : "");
	return buf_failed(&key) ? UINT32_MAX : frames_add(s->frames, key.data, key.len, f);
}

/* All functions at a linked address, inlined ones first. */
static void name_all(struct perf_symbols *s, struct symbol_file *o, uint32_t process, uint64_t addr,
		     struct found_symbols *ret)
{
	struct dw_place places[MAX_PLACES];
	struct trace_frame f = {.process = process, .addr = addr, .object = o->path};
	size_t n = o->debug ? debug_places(o->debug, addr, places, MAX_PLACES) : 0;

	ret->n = 0;
	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *name =
			places[i].function ? for_people(places[i].function) : NULL;
		f.function = name;
		f.file = places[i].file;
		f.line = places[i].line;
		ret->frames[ret->n++] = put_frame(s, &f);
	}
	if (ret->n)
		return;
	const struct elf_symbol *symbol = o->image ? elf_image_symbol_at(o->image, addr) : NULL;
	_cleanup_free_ char *name = symbol ? for_people(symbol->name) : NULL;
	f.function = name;
	/* One frame per function: where in it is of no use without lines. */
	if (symbol)
		f.addr = symbol->addr;
	ret->frames[ret->n++] = put_frame(s, &f);
}

static size_t unknown(struct perf_symbols *s, uint32_t process, uint64_t addr, const char *object,
		      uint32_t *ret)
{
	const struct trace_frame f = {.process = process, .addr = addr, .object = object};
	*ret = put_frame(s, &f);
	return 1;
}

size_t perf_symbols_find(struct perf_symbols *s, uint32_t pid, uint32_t process, uint64_t addr,
			 bool caller, uint32_t *ret_frames, size_t max)
{
	const struct maps *m = maps_of(s, pid, false);
	size_t i = m ? place_of(m, addr) : 0;

	if (!m || i == m->n || m->v[i].start > addr)
		return unknown(s, process, addr, "", ret_frames);
	struct symbol_file *o = &s->objects[m->v[i].object];
	if (!o->tried)
		object_open(o);
	o->used = true;
	uint64_t at = addr - m->v[i].start + m->v[i].offset - (caller ? 1 : 0);
	if (o->image && !linked_addr(o->image, at, &at))
		return unknown(s, process, addr, o->path, ret_frames);
	uint64_t key = (uint64_t)m->v[i].object << 32 | process;
	struct found_symbols once, *found = map_get(&s->found, key, at);
	if (!found && s->found.n >= MAX_FOUND) {
		found = &once;
		name_all(s, o, process, at, found);
	} else if (!found) {
		found = map_new(&s->found, key, at, sizeof(*found));
		if (!found) {
			s->frames->code = -ENOMEM;
			return 0;
		}
		name_all(s, o, process, at, found);
	}
	size_t n = found->n < max ? found->n : max;
	memcpy(ret_frames, found->frames, n * sizeof(*ret_frames));
	return n;
}

/* ---- copied stacks ---- */

static const struct eh_row *row_at(struct perf_symbols *s, uint32_t pid, uint64_t ip, bool caller,
				   uint64_t *ret_pc)
{
	const struct maps *m = maps_of(s, pid, false);
	size_t i = m ? place_of(m, ip) : 0;

	if (!m || i == m->n || m->v[i].start > ip)
		return NULL;
	struct symbol_file *o = &s->objects[m->v[i].object];
	if (!o->tried)
		object_open(o);
	if (o->image && !o->table_tried) {
		o->table_tried = true;
		if (eh_table_of_image(o->image, &o->table) < 0)
			o->table = NULL;
	}
	uint64_t at = ip - m->v[i].start + m->v[i].offset;
	if (!o->table || !linked_addr(o->image, at - caller, ret_pc))
		return NULL;
	return eh_table_at(o->table, *ret_pc);
}

struct copy {
	const uint8_t *bytes;
	size_t len;
	uint64_t addr;
};

static bool word_at(const struct copy *c, uint64_t addr, uint64_t *ret)
{
	if (addr < c->addr || c->len < 8 || addr - c->addr > c->len - 8)
		return false;
	memcpy(ret, c->bytes + (addr - c->addr), 8);
	return true;
}

static bool cfa_of(const struct copy *c, const struct eh_row *row, uint64_t pc, uint64_t sp,
		   uint64_t bp, uint64_t *ret)
{
	switch (row->cfa_rule) {
	case EH_CFA_SP:
		*ret = sp + (uint64_t)(int64_t)row->cfa;
		return true;
	case EH_CFA_FP:
		*ret = bp + (uint64_t)(int64_t)row->cfa;
		return true;
	case EH_CFA_AT_FP:
		return word_at(c, bp + (uint64_t)(int64_t)row->cfa, ret);
	case EH_CFA_PLT:
		*ret = sp + 8 + ((pc & 15) >= (uint64_t)row->cfa ? 8 : 0);
		return true;
	default:
		return false;
	}
}

bool perf_symbols_step(struct perf_symbols *s, uint32_t pid, bool caller, const uint8_t *stack,
		       size_t len, uint64_t at, uint64_t *ip, uint64_t *sp, uint64_t *bp)
{
	const struct copy c = {stack, len, at};
	uint64_t pc, cfa;
	const struct eh_row *row = row_at(s, pid, *ip, caller, &pc);

	if (!row || row->ra_rule != EH_RA_AT_CFA || !cfa_of(&c, row, pc, *sp, *bp, &cfa))
		return false;
	/* A caller's frame lies above: what says otherwise would never end. */
	if (cfa <= *sp || !word_at(&c, cfa - 8, ip))
		return false;
	uint64_t saved = cfa + (uint64_t)(int64_t)row->fp;
	if (row->fp_rule == EH_FP_AT_FP)
		saved = *bp + (uint64_t)(int64_t)row->fp;
	if ((row->fp_rule == EH_FP_AT_CFA || row->fp_rule == EH_FP_AT_FP) &&
	    !word_at(&c, saved, bp))
		return false;
	*sp = cfa;
	return *ip != 0;
}

void perf_symbols_stats(const struct perf_symbols *s, size_t *ret_read, size_t *ret_all)
{
	*ret_read = *ret_all = 0;
	for (size_t i = 0; i < s->n_objects; i++) {
		*ret_all += s->objects[i].used;
		*ret_read += s->objects[i].used && s->objects[i].image;
	}
}
