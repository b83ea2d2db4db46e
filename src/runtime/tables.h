/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tables of function pointers: what the runtimes' files share to find them, to tie them to the code
 * that takes their addresses, and to check what the functions do.
 */
#pragma once

#include "binary/elf/elf_image.h"
#include "binary/code/insn.h"
#include "binary/code/code_refs.h"
#include "runtime/runtime.h"

struct tables {
	uint64_t *addrs; /* sorted */
	size_t n, cap;
	size_t n_unverified;   /* of the shape, but whether they point to functions is unknown
			        */
	size_t n_other_layout; /* the runtime's, by symbols, but not laid out in a way that we know
				*/
};
void tables_done(struct tables *t);
int tables_add(struct tables *t, uint64_t addr);
/* Drops those that no code takes: found by shape alone, they are something else. */
void tables_keep_used(struct tables *t, const struct code_refs *refs);

/* n words in a row that point to code, at p. With `starts` each must be where a function begins. */
bool tables_run(struct elf_image *image, const struct elf_pointer *p, size_t left, size_t n,
		bool starts);
/* The slots of a vtable whose n words are these functions, and what is in them. */
bool tables_read_slots(struct elf_image *image, uint64_t vtable, const enum task_function *words,
		       size_t n, struct find_slot ret[TF_N]);
bool tables_word(const struct elf_image *image, uint64_t addr, uint64_t *ret);

/* The references to the kinds' vtables become their spawn sites; adds a coverage entry. */
int tables_add_sites(struct elf_image *image, struct runtime_scan *f, size_t first_kind,
		     const struct code_refs *refs);

/* True if the function takes the address `addr`: by lea, as an immediate, or from a word (of the
 * GOT) that holds it. */
bool tables_takes(struct elf_image *image, uint64_t function, uint64_t addr);

/* The first `max` instructions of a function. Returns how many there are. */
size_t tables_head(struct elf_image *image, uint64_t function, struct insn *ret, size_t max);
