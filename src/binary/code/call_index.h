/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Who calls a function: an index of all direct calls of an object, made in one pass over its code
 * bytes without decoding. What looks like a call and leads to exactly the beginning of a function
 * is one, but for freak accidents: good enough to show where something is called, not to patch it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct elf_image;

struct call {
	uint64_t target; /* what is called */
	uint64_t addr;	 /* the calling instruction */
};

struct call_index {
	const struct call *calls; /* by target; the image's, which makes them once */
	size_t n;
};

int call_index_init(struct call_index *x, struct elf_image *img); /* -ENOMEM or 0 */
void call_index_done(struct call_index *x);
/* The calls of `target`: the first of *ret_n, NULL if there are none. */
const struct call *call_index_find(const struct call_index *x, uint64_t target, size_t *ret_n);
