/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The units of a program; see units.h.
 *
 * Opening chains the headers of .debug_info, which touches a page per unit and no more. What covers
 * an address comes from .debug_aranges; units that are not in it (clang writes none for C) are
 * asked for their own ranges, once an address is wanted that no other has.
 *
 * Split units: the skeleton in the program names a .dwo and an id. A .dwp next to the program holds
 * many of them under their ids; else the .dwo is looked up where it was written, and next to the
 * program. Each becomes a source of its own, since its offsets are its own.
 */
#include "binary/dwarf/units.h"

#include "base/compare.h"
#include "base/error.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/dwarf/debug_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_UNITS = 1 << 22,
	MAX_SOURCES = 1 << 20,
	MAX_RANGES = 1 << 24,
};

/* Units of one source, sorted by offset. */
struct unit_list {
	struct dwarf_unit **v;
	size_t n, cap;
};

struct unit_source {
	struct dwarf_source dwarf;
	struct unit_list units;
	struct debug_file *file; /* NULL: not to be freed */
};

struct unit_range {
	uint64_t low, high;
	uint32_t unit;
};

struct units {
	struct unit_source **sources; /* the first: the program's own */
	size_t n_sources, cap_sources;
	char *path;	/* of the file with the debug information */
	char *exe;	/* of the program */
	uint64_t owner; /* of the program */
	bool dwp_tried;
	struct debug_file *dwp;
	struct dwarf_span dwp_sections[DS_N];
	struct unit_range *ranges; /* sorted */
	size_t n_ranges, cap_ranges;
	bool ranges_done, all_ranges_done;
	uint8_t *in_aranges; /* by unit */
	size_t n_missing;
	const char *missing;
};

static bool list_add(struct unit_list *l, const struct dwarf_unit *u)
{
	struct dwarf_unit *copy;

	if (l->n >= MAX_UNITS || !GROW(l->v, l->n, l->cap))
		return false;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return false;
	*copy = *u;
	l->v[l->n++] = copy;
	return true;
}

static struct unit_source *add_source(struct units *us, const struct dwarf_span s[DS_N], bool split)
{
	struct unit_source *src;
	struct dwarf_unit u;

	if (us->n_sources >= MAX_SOURCES || !GROW(us->sources, us->n_sources, us->cap_sources))
		return NULL;
	src = calloc(1, sizeof(*src));
	if (!src)
		return NULL;
	memcpy(src->dwarf.s, s, sizeof(src->dwarf.s));
	src->dwarf.number = (uint32_t)us->n_sources;
	src->dwarf.split = split;
	if (us->n_sources) {
		src->dwarf.stop = us->sources[0]->dwarf.stop;
		src->dwarf.own_folder = us->sources[0]->dwarf.own_folder;
		src->dwarf.own_len = us->sources[0]->dwarf.own_len;
	}
	us->sources[us->n_sources++] = src;
	for (uint64_t off = 0;; off = u.end) {
		bool ok = dwarf_unit_read(&src->dwarf, off, &u);

		if (!u.end || u.end > DWARF_OFFSET_MASK)
			break;
		if (ok && !list_add(&src->units, &u))
			break;
	}
	return src;
}

static void source_free(struct unit_source *src)
{
	for (size_t i = 0; i < src->units.n; i++) {
		dwarf_unit_done(src->units.v[i]);
		free(src->units.v[i]);
	}
	free(src->units.v);
	dwarf_source_done(&src->dwarf);
	debug_file_free(src->file);
	free(src);
}

/* ---- the program's own package ---- */

/* Whether CRATE, which a dot ends, is named like the file of this path. */
static bool is_named_like(const char *crate, const char *path)
{
	const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;

	for (; *file && (*crate == *file || (*crate == '_' && *file == '-')); file++)
		crate++;
	return !*file && *crate == '.';
}

/* The unit of an executable is named "FOLDER/src/main.rs/@/CRATE.HASH-cgu.0" by rustc. Where a registry's
 * or a git repository's source has one, that is what was installed: a dependency is a library. */
static bool is_program(const char *name, const char *exe)
{
	static const char main_rs[] = "/main.rs", at[] = "/@/";
	const char *root_end = strstr(name, at), *bin = strstr(name, "/src/bin/");
	size_t len = root_end ? (size_t)(root_end - name) : 0, main_len = strlen(main_rs);

	return (bin && bin < root_end) ||
	       (len > main_len && !memcmp(root_end - main_len, main_rs, main_len)) ||
	       (root_end && is_named_like(root_end + strlen(at), exe));
}

/* After `parts` more folders, with the slash at the end. */
static size_t folder_len(const char *name, const char *marker, unsigned parts)
{
	const char *at = strstr(name, marker);

	if (!at)
		return 0;
	at += strlen(marker);
	for (; parts; parts--) {
		at = strchr(at, '/');
		if (!at)
			return 0;
		at++;
	}
	return (size_t)(at - name);
}

static void set_own_folder(struct units *us, const char *name)
{
	size_t len = folder_len(name, "/registry/src/", 2); /* the index, the package */

	if (!len)
		len = folder_len(name, "/git/checkouts/", 2); /* the repository, the revision */
	for (size_t i = 0; i < us->n_sources; i++) {
		us->sources[i]->dwarf.own_folder = name;
		us->sources[i]->dwarf.own_len = len;
	}
}

static void find_own_folder(struct units *us)
{
	const struct unit_list *l = &us->sources[0]->units;
	struct dwarf_die die;

	for (size_t i = 0; i < l->n; i++) {
		if (!dwarf_unit_root(l->v[i]) || !die_root(l->v[i], &die))
			continue;
		const char *name = die_name(&die);

		if (is_program(name, us->exe)) {
			set_own_folder(us, name);
			return;
		}
	}
}

int units_open(int fd, const char *path, struct units **ret_units, struct error *err)
{
	struct dwarf_span sections[DS_N];
	struct debug_file *file;
	struct unit_source *src;
	struct file_id program;
	struct units *us;

	TRY(debug_file_find(fd, path, &file, err));
	if (!file_id_read(fd, &program))
		program = *debug_file_id(file);
	us = calloc(1, sizeof(*us));
	if (!us) {
		debug_file_free(file);
		return error_set(err, -ENOMEM, "out of memory");
	}
	debug_file_sections(file, false, sections);
	us->owner = program.owner;
	us->exe = strdup(path);
	us->path = strdup(debug_file_path(file));
	src = add_source(us, sections, false);
	if (!src || !us->exe || !us->path) {
		debug_file_free(file);
		units_free(us);
		return error_set(err, -ENOMEM, "out of memory");
	}
	src->file = file;
	if (!src->units.n) {
		units_free(us);
		return error_set(err, -ENODATA, "%s has debug information that can't be read",
				 path);
	}
	find_own_folder(us);
	*ret_units = us;
	return 0;
}

void units_stop_by(struct units *us, struct dwarf_stop *stop)
{
	for (size_t i = 0; i < us->n_sources; i++)
		us->sources[i]->dwarf.stop = stop;
}

void units_free(struct units *us)
{
	if (!us)
		return;
	for (size_t i = 0; i < us->n_sources; i++)
		source_free(us->sources[i]);
	free(us->sources);
	debug_file_free(us->dwp);
	free(us->ranges);
	free(us->in_aranges);
	free(us->path);
	free(us->exe);
	free(us);
}

size_t units_n(const struct units *us)
{
	return us->sources[0]->units.n;
}

size_t units_missing(const struct units *us, const char **ret_file)
{
	*ret_file = us->missing;
	return us->n_missing;
}

const struct debug_file *units_file(const struct units *us, size_t i)
{
	if (us->dwp && i-- == 0)
		return us->dwp;
	for (size_t k = 0; k < us->n_sources; k++)
		if (us->sources[k]->file && i-- == 0)
			return us->sources[k]->file;
	return NULL;
}

/* ---- split units ---- */

static struct dwarf_unit *unit_with_id(struct unit_source *src, struct dwarf_unit *skeleton)
{
	for (size_t i = 0; i < src->units.n; i++) {
		struct dwarf_unit *u = src->units.v[i];

		if (u->rooted || u->broken)
			continue;
		/* The skeleton is known first: its bases are needed to read the unit's own DIE. */
		u->skeleton = skeleton;
		if (dwarf_unit_root(u) && u->dwo_id == skeleton->dwo_id)
			return u;
		/* another's: to be rooted again with its own */
		u->skeleton = NULL;
		u->rooted = u->broken = false;
	}
	return NULL;
}

static struct dwarf_unit *from_dwp(struct units *us, struct dwarf_unit *skeleton)
{
	struct dwarf_span parts[DS_N];
	struct unit_source *src;
	char path[4096];

	if (!us->dwp_tried) {
		us->dwp_tried = true;
		for (unsigned i = 0; i < 2 && !us->dwp; i++) {
			snprintf(path, sizeof(path), "%s.dwp", i ? us->exe : us->path);
			if (debug_file_open_split(path, us->owner, &us->dwp) < 0)
				us->dwp = NULL;
		}
		if (us->dwp)
			debug_file_sections(us->dwp, true, us->dwp_sections);
	}
	if (!us->dwp || !debug_file_dwp_unit(us->dwp_sections, skeleton->dwo_id, parts))
		return NULL;
	src = add_source(us, parts, true);
	return src ? unit_with_id(src, skeleton) : NULL;
}

static struct dwarf_unit *from_dwo(struct units *us, struct dwarf_unit *skeleton, const char *path)
{
	struct dwarf_span sections[DS_N];
	struct debug_file *file;
	struct unit_source *src;

	if (debug_file_open_split(path, us->owner, &file) < 0)
		return NULL;
	debug_file_sections(file, true, sections);
	src = sections[DS_INFO].len ? add_source(us, sections, true) : NULL;
	if (!src) {
		debug_file_free(file);
		return NULL;
	}
	src->file = file;
	return unit_with_id(src, skeleton);
}

static struct dwarf_unit *find_split(struct units *us, struct dwarf_unit *skeleton)
{
	const char *name = skeleton->dwo_name, *dir = skeleton->comp_dir, *base;
	struct dwarf_unit *u = from_dwp(us, skeleton);
	const char *slash;
	char path[4096];

	/* several units of one .dwo: it is open already */
	for (size_t i = 1; !u && i < us->n_sources; i++)
		u = unit_with_id(us->sources[i], skeleton);
	if (!u) {
		bool relative = name[0] != '/' && dir;

		snprintf(path, sizeof(path), "%s%s%s", relative ? dir : "", relative ? "/" : "",
			 name);
		u = from_dwo(us, skeleton, path);
	}
	if (!u) {
		slash = strrchr(us->exe, '/');
		base = strrchr(name, '/');
		base = base ? base + 1 : name;
		snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - us->exe) + 1 : 0,
			 us->exe, base);
		u = from_dwo(us, skeleton, path);
	}
	if (!u) {
		us->n_missing++;
		us->missing = name;
	}
	return u;
}

/* The unit itself, or the split one whose skeleton it is. */
static struct dwarf_unit *full_unit(struct units *us, struct dwarf_unit *u)
{
	if (!dwarf_unit_root(u))
		return NULL;
	if (!u->dwo_name)
		return u;
	if (!u->full_tried) {
		u->full_tried = true;
		u->split = find_split(us, u);
	}
	return u->split;
}

struct dwarf_unit *units_get(struct units *us, size_t i)
{
	return i < units_n(us) ? full_unit(us, us->sources[0]->units.v[i]) : NULL;
}

void units_each(struct units *us, void (*one)(struct dwarf_unit *u))
{
	for (size_t i = 0; i < us->n_sources; i++)
		for (size_t k = 0; k < us->sources[i]->units.n; k++)
			one(us->sources[i]->units.v[k]);
}

/* ---- by reference ---- */

/* Index of the unit that has this offset, SIZE_MAX if none. */
static size_t list_find(const struct unit_list *l, uint64_t off)
{
	size_t lo = PARTITION_POINT(i, 0, l->n, l->v[i]->off <= off);

	return lo && off < l->v[lo - 1]->end ? lo - 1 : SIZE_MAX;
}

/* The unit that a reference leads into; NULL: none. */
static struct dwarf_unit *units_of_ref(struct units *us, uint64_t ref)
{
	uint64_t number = ref >> DWARF_REF_SHIFT;
	struct unit_list *l;
	size_t i;

	if (number >= us->n_sources)
		return NULL;
	l = &us->sources[number]->units;
	i = list_find(l, ref & DWARF_OFFSET_MASK);
	if (i == SIZE_MAX || !dwarf_unit_root(l->v[i]))
		return NULL;
	return l->v[i];
}

bool units_die(struct units *us, uint64_t ref, struct dwarf_die *ret)
{
	struct dwarf_unit *u =
		ref && !dwarf_step(us->sources[0]->dwarf.stop) ? units_of_ref(us, ref) : NULL;

	return u && die_at(u, ref & DWARF_OFFSET_MASK, ret);
}

/* ---- by address ---- */

static bool add_range(struct units *us, uint64_t low, uint64_t high, size_t unit)
{
	if (us->n_ranges >= MAX_RANGES || !GROW(us->ranges, us->n_ranges, us->cap_ranges))
		return false;
	us->ranges[us->n_ranges++] = (struct unit_range){low, high, (uint32_t)unit};
	return true;
}

static void from_aranges(void *ctx, uint64_t unit, uint64_t low, uint64_t high)
{
	struct units *us = ctx;
	const struct unit_list *l = &us->sources[0]->units;
	size_t i = list_find(l, unit);

	if (i == SIZE_MAX || l->v[i]->off != unit)
		return;
	us->in_aranges[i] = 1;
	add_range(us, low, high, i);
}

struct range_add {
	struct units *us;
	size_t unit;
};

static bool from_die(void *ctx, uint64_t low, uint64_t high)
{
	struct range_add *a = ctx;

	/* what the linker dropped is at 0, or at its marks at the upper end */
	return low && high < UINT64_MAX - 1 && !add_range(a->us, low, high, a->unit);
}

static int by_low(const void *a, const void *b)
{
	const struct unit_range *x = a, *y = b;

	return ASCENDING(x->low, y->low);
}

static bool covering(const struct units *us, uint64_t addr, size_t *ret)
{
	size_t lo = PARTITION_POINT(i, 0, us->n_ranges, us->ranges[i].low <= addr);

	if (!lo || addr >= us->ranges[lo - 1].high)
		return false;
	*ret = us->ranges[lo - 1].unit;
	return true;
}

static void sort_ranges(struct units *us)
{
	if (us->n_ranges)
		qsort(us->ranges, us->n_ranges, sizeof(*us->ranges), by_low);
}

struct dwarf_unit *units_covering(struct units *us, uint64_t addr)
{
	const struct unit_list *l = &us->sources[0]->units;
	size_t i;

	if (!us->ranges_done) {
		us->ranges_done = true;
		us->in_aranges = calloc(l->n, 1);
		if (us->in_aranges)
			dwarf_aranges(&us->sources[0]->dwarf, from_aranges, us);
		sort_ranges(us);
	}
	if (covering(us, addr, &i))
		return full_unit(us, l->v[i]);
	if (us->all_ranges_done)
		return NULL;
	us->all_ranges_done = true;
	for (i = 0; i < l->n && !dwarf_step(us->sources[0]->dwarf.stop); i++) {
		struct range_add a = {us, i};
		struct dwarf_die die;

		if ((!us->in_aranges || !us->in_aranges[i]) && dwarf_unit_root(l->v[i]) &&
		    die_root(l->v[i], &die))
			die_ranges(&die, from_die, &a);
	}
	sort_ranges(us);
	return covering(us, addr, &i) ? full_unit(us, l->v[i]) : NULL;
}
