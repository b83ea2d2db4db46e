/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An index of debug information. Of one unit: the parents of its DIEs (Rust's names live there) and
 * its functions by address. Of all units together, made only once something is wanted that is not
 * where it should be: types and polls of coroutines by name, vtables by address.
 */
#pragma once

#include "binary/dwarf/units.h"

struct index_entry {
	uint64_t key, ref;
};

struct index_list {
	struct index_entry *v; /* sorted by key */
	size_t n, cap;
};

/* A DIE that is a namespace, a type or a function, in the order of their offsets. */
struct index_node {
	uint64_t off;
	uint32_t parent;       /* UINT32_MAX at the top */
	const char *full_name; /* for the names that debug.c makes */
};

struct index_function {
	uint64_t low, off;
};

struct unit_index {
	struct index_node *nodes;
	size_t n_nodes, cap_nodes;
	struct index_function *functions; /* with code, sorted by address */
	size_t n_functions, cap_functions;
	struct index_list cells, coroutines; /* as in struct debug_index, without keys */
	bool failed;
};

/* Made at the first call; NULL when out of memory. */
struct unit_index *unit_index_of(struct dwarf_unit *u);
void unit_index_free(struct dwarf_unit *u);
struct index_node *unit_index_node(struct unit_index *x, uint64_t off);
/* The last function that begins at or before addr; NULL if none does. */
const struct index_function *unit_index_function(const struct unit_index *x, uint64_t addr);

struct debug_index {
	struct index_list types;      /* defined structures, unions and enums: hash of the names */
	struct index_list cells;      /* structures Cell<...>: hash of that name alone */
	struct index_list coroutines; /* functions {async_...}: hash of the names */
	struct index_list vtables;    /* address -> concrete type */
	struct index_list locals;     /* thread-local variables: hash of the symbol */
};

/* Reads every unit. -ENOMEM or 0. */
int debug_index_make(struct units *us, struct debug_index *ret);
void debug_index_done(struct debug_index *x);
/* The first entry with this key; *ret_n: how many there are, side by side. */
const struct index_entry *index_list_find(const struct index_list *l, uint64_t key, size_t *ret_n);

/* The hash of a path is that of its parent's and its own name; INDEX_TOP for the unit. Long names
 * may share one: what is found by it must be compared. */
#define INDEX_TOP 0x9e3779b97f4a7c15ULL
uint64_t index_hash(uint64_t parent, const char *name);
