/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every use of a set of functions in an object: the instructions that call, jump to or take the
 * address of their beginnings, relative to themselves, and the words of data that hold it. Together
 * they are all paths to such a function, except for what is reported as unsure.
 */
#ifndef POLLUX_BINARY_CODE_USES_H
#define POLLUX_BINARY_CODE_USES_H

#include <stddef.h>
#include <stdint.h>

struct elf_image;

enum use_kind {
	USE_BRANCH = 0, /* a call or jump: four bytes at `at`, relative to what follows them */
	USE_ADDRESS,	/* lea: the same four bytes */
	USE_WORD,	/* a word of data that holds the address */
	USE_NUMBER,	/* an instruction of a program at a fixed address that has it as a number */
	USE_UNSURE,	/* looks like one of the others, in code that could not be decoded */
};

struct use {
	uint64_t target; /* the function */
	uint64_t at;
	enum use_kind kind;
};

struct uses {
	struct use *uses; /* by target */
	size_t n;
};

/* `targets` must be sorted. One pass over all code. -ENOMEM or 0. */
int uses_find(struct elf_image *img, const uint64_t *targets, size_t n_targets,
	      struct uses *ret_uses);
void uses_done(struct uses *u);
/* The uses of `target`: the first of *ret_n, NULL if there are none. */
const struct use *uses_of(const struct uses *u, uint64_t target, size_t *ret_n);

#endif
