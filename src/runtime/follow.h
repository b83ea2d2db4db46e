/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Following calls: from a function to those that it calls (directly, by a jump out of itself, or
 * through a word of the object that holds a function's address), breadth first.
 */
#pragma once

#include "binary/code/insn.h"
#include "binary/elf/elf_image.h"

enum follow_step {
	FOLLOW_INTO, /* go on with what this function calls */
	FOLLOW_PAST, /* not into this one */
	FOLLOW_STOP, /* done */
};

/* `symbol` begins at addr and has the most telling name there; NULL if there is none. */
typedef enum follow_step follow_visit(uint64_t addr, const struct elf_symbol *symbol, void *opaque);

/* Remembers who calls whom, so that many walks through the same functions decode them once. */
struct follower;

struct follower *follower_new(struct elf_image *image); /* NULL: out of memory */
void follower_free(struct follower *f);

/* True: go on. `passed`: instructions before this one that it wasn't called with;
 * `in` is NULL for those at the end. */
typedef bool follow_insn_fn(const struct insn *in, size_t passed, void *opaque);

/* Calls `each` with the function's own instructions (own_code.h) from its start on, but for those that
 * refer to nothing (insn_next_reference()), until it returns false; what the function calls is found
 * in the same pass. -ENOMEM or 0. */
int follower_read(struct follower *f, uint64_t function, follow_insn_fn *each, void *opaque);

/* Visits what `start` calls, each function once, up to `depth` calls away. Bounded. -ENOMEM or 0.
 */
int follow(struct follower *f, uint64_t start, unsigned depth, follow_visit *visit, void *opaque);
