/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The memory that the rings are in: made and mapped by the program, and mapped by pollux too. */
#pragma once

#include "process/inject.h"

#define RING_MEMORY_NAME "pollux-agent"

/* Addresses of words of the target. */
struct ring_memory_words {
	uint64_t done, name;	   /* name: a string */
	uint64_t number;	   /* of a descriptor or a segment */
	uint64_t mapped;	   /* result: the address in the target */
	uint64_t no_fork, no_dump; /* results: whether children and dumps have it */
};

/* Makes it, by a remote call from `place`; at `replaced`, over a mapping of the same size, if that
 * is not 0. *ret_map: pollux's own mapping. */
int ring_memory_make(struct injector *in, struct code_cave *cave,
		     const struct ring_memory_words *words, uint64_t bytes, uint64_t replaced,
		     void **ret_map, struct error *err);

/* Whether a mapping with this path may be such. */
bool ring_memory_is(const char *path);
