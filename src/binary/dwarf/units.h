/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All units of debug information of one program, split ones included: found by the reference of a
 * DIE, by the address of code, or one after the other. A split unit takes its skeleton's place.
 */
#pragma once

#include "base/error.h"
#include "binary/dwarf/dwarf_read.h"

struct units;
struct debug_file;

/* See debug_file_find(). */
int units_open(int fd, const char *path, struct units **ret_units, struct error *err);
/* What is asked while units are read, whose owner keeps it; from then on nothing that takes long is done. */
void units_stop_by(struct units *us, struct dwarf_stop *stop);
void units_free(struct units *us);

/* How many there are, and each. NULL: broken, or a split unit whose file is missing. */
size_t units_n(const struct units *us);
struct dwarf_unit *units_get(struct units *us, size_t i);
/* Calls `one` for every unit that was read, of every source. */
void units_each(struct units *us, void (*one)(struct dwarf_unit *u));
/* File number i of those that were read so far; NULL: there are no more. */
const struct debug_file *units_file(const struct units *us, size_t i);
/* The unit whose code covers addr; NULL: none. */
struct dwarf_unit *units_covering(struct units *us, uint64_t addr);
bool units_die(struct units *us, uint64_t ref, struct dwarf_die *ret);
/* Split units whose files were not found so far, and one of those files. */
size_t units_missing(const struct units *us, const char **ret_file);
