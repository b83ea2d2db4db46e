/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a thread did, summed up by blocks of BLOCK_SEGMENTS of its segments in a row: where many tasks are
 * ready at a time, each of them waits for a long row of polls on one thread, which a walk passes by blocks.
 * A block says no more and no less than its segments: one that has too many causes, or segments that
 * overlap, is passed by segments.
 *
 * Private to this module.
 */
#pragma once

#include "causes/history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_SEGMENTS 8u
#define BLOCK_CAUSES 3u
/* Of a thread; further back a walk goes by segments. */
#define BLOCKS_MAX ((size_t)1 << 10)

/* Segments of one type and kind, in one call. */
struct block_cause {
	uint64_t ns, longest_ns, longest_task;
	uint64_t stack;
	uint32_t kind, n;
	uint16_t call;
	uint8_t type;
};

struct block {
	uint64_t first, last; /* numbers of its segments */
	uint64_t before;      /* of the one before them on the thread */
	uint64_t begin_ns, end_ns;
	uint64_t gaps_ns; /* between them */
	uint32_t n_gaps, n;
	uint32_t n_causes;
	bool by_segments; /* it has no sums */
	struct block_cause causes[BLOCK_CAUSES];
};

struct blocks {
	struct block *ring;
	uint64_t n; /* so far; the last one may be open */
	size_t cap; /* power of two */
};

void blocks_done(struct blocks *b);
/* The next segment of the thread, complete by now; NULL: it is not kept any more. 0 or -ENOMEM. */
int blocks_add(struct blocks *b, uint64_t number, const struct segment *s);
/* The newest full one whose segments are all up to that number; NULL: there is none. `block_previous()` goes
 * on from there. */
const struct block *blocks_find(const struct blocks *b, uint64_t number);
const struct block *block_previous(const struct blocks *b, const struct block *block);
