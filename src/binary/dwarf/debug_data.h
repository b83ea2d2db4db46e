/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The internals of struct debug, for the files of this module only. */
#pragma once

#include "base/file_id.h"
#include "base/map.h"
#include "binary/dwarf/debug.h"
#include "binary/dwarf/debug_index.h"
#include "binary/dwarf/units.h"

enum { DEBUG_MAX_DEPTH = 64 /* of names and of scopes */ };

struct debug_block;

enum { DEBUG_FRAME_PARAMS = 12 };

/* Answer to debug_block_on(). */
struct debug_frame_answer {
	const char *block_on; /* NULL: the code is of none */
	struct dw_param params[DEBUG_FRAME_PARAMS];
	size_t n_params, n_slots;
	struct dw_slot slots[];
};

/* Answers to debug_await_place() and debug_places(). */
struct debug_place_list {
	size_t n, max; /* max: this many were requested */
	struct dw_place v[];
};

/* A file besides the program from which answers came that the cache holds. */
struct debug_source {
	const char *path;
	struct file_id id;
};

struct debug {
	char *path;
	int fd; /* to open the units with, once they are needed; -1: without a cache */
	const struct machine *machine; /* NULL: not known */
	struct units *units;	       /* NULL: not needed yet */
	bool units_failed;
	bool local;		/* see debug_local() */
	struct dwarf_stop stop; /* see debug_stop_when() */
	struct debug_block *blocks;
	struct debug_index index;
	bool index_made;
	/* What was asked and answered, which is also what the cache holds. "No" is an answer, too.
	 */
	struct map types;     /* (ref, 0) -> struct dw_type */
	struct map functions; /* (address, 0) -> struct dw_function, low 0: none */
	struct map cells;     /* (hash of the parameters, 0) -> struct dw_type */
	struct map vtables;   /* (address, 0) -> struct dw_type */
	struct map
		awaits; /* (ref of the coroutine, ref of the awaitee) -> struct debug_place_list */
	struct map places;	/* (address, 0) -> struct debug_place_list */
	struct map named;	/* (hash of the name, 0) -> struct dw_type */
	struct map frames;	/* (address, 0) -> struct debug_frame_answer */
	struct dw_type no_type; /* means "none" in cells and vtables */
	bool cached;		/* answers are kept */
	struct file_id id;	/* of the program, if it is */
	struct debug_source *sources;
	size_t n_sources;
	bool changed; /* there are answers that the cache does not have */
};

/* Zeroed memory that lives as long as d; NULL when out of memory. */
void *debug_alloc(struct debug *d, size_t len);
/* Keeps an answer, unless all was not read for it: see debug_stop_when(). */
void debug_keep(struct debug *d, struct map *m, uint64_t a, uint64_t b, const void *answer);
/* Opens the units. False: there are none. */
bool debug_units(struct debug *d);
/* NULL: not made, since it must not be, or out of memory. */
const struct debug_index *debug_all(struct debug *d);
/* The name with its namespaces. */
const char *debug_full_name(struct debug *d, const struct dwarf_die *die);
/* The index's hash of the path of names, with another last name if `name` is not NULL. */
bool debug_path_hash(const struct dwarf_die *die, const char *name, uint64_t *ret);
void debug_function_read(struct debug *d, const struct dwarf_die *die, struct dw_function *f);
/* The type of a parameter or variable; a concrete one may leave it to its abstract origin. */
uint64_t debug_type_ref(struct debug *d, const struct dwarf_die *die);
/* The function whose code covers addr, and what is inlined there: outermost first. */
bool debug_function_covering(struct debug *d, uint64_t addr, struct dwarf_die *ret);
size_t debug_inlined_at(const struct dwarf_die *function, uint64_t addr, struct dwarf_die *ret,
			size_t max);
/* Where a DIE says that it was declared. */
void debug_decl_place(const struct dwarf_die *die, const char **ret_file, uint32_t *ret_line);
bool debug_same_type(struct debug *d, uint64_t a, uint64_t b);

/* ---- debug_cache.c ---- */

/* Fills d with what is cached for this file, if anything; sets d->cached. True: filled. */
bool debug_cache_load(struct debug *d);
/* What a cache file holds after its head; the strings stay in `data`. False: odd, and nothing of it
 * is kept. Whether the sources are still what they were is the caller's to see. */
bool debug_cache_parse(struct debug *d, const uint8_t *data, size_t len);
void debug_cache_save(struct debug *d);
