/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the code of a poll function shows: where its future comes from, and whether it is a
 * coroutine's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

#define POLL_CODE_ANY UINT64_MAX

struct poll_code {
	/* Which argument points at what has the state, or leads there; 0: none does. */
	uint8_t argument;
	uint64_t state_offset;
	bool certain;  /* nothing decides before whether it is accessed */
	bool returns;  /* it marks that state as returned, */
	bool suspends; /* as suspended, */
	bool resumed;  /* panics when it is polled after its end */
	bool stack;    /* reads arguments from the stack */
};

/*
 * Reads the function at [start, end). Looked for is an access to `bytes` bytes at state_offset
 * (POLL_CODE_ANY: wherever the first is) through one of the first two arguments, in the straight
 * line from the function's start. `panics` are the sorted addresses of the functions that panic for
 * a coroutine which was polled after its end. False: it can't be decoded to its end.
 */
bool poll_code_read(struct elf_image *image, uint64_t start, uint64_t end, uint64_t state_offset,
		    unsigned bytes, const uint64_t *panics, size_t n_panics, struct poll_code *ret);
/*
 * The same of a function that borrows the future from a closure: the search is for an access
 * through that of the six arguments from which `borrowed` pointers (at least 1), each at the place
 * to which the one before it leads, lead to the future. `argument` is 0 if there is none, also if
 * the function can't be decoded.
 */
void poll_code_read_borrowed(struct elf_image *image, uint64_t start, uint64_t end,
			     uint64_t state_offset, unsigned bytes, unsigned borrowed,
			     struct poll_code *ret);
