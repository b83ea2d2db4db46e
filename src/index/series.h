/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sums over time cells while they are made. A series has one number for each cell; all series of an
 * index share the width of cells, a power of two of ns, which doubles when the time that they cover
 * or the memory that they take comes to its limit.
 *
 * Stretches come when they end, so they reach back any length. One that covers many cells costs no
 * more than a short one: its first and last cell get their part, and of the cells between only the
 * first and the one after the last are noted, in an array of differences:
 *
 *                    ░░▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░
 *     cells        │  2 │    │    │    │    │  1 │
 *     covering     │    │ +1 │    │    │    │ -1 │
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Cells of a series at most: enough that a screen of 2,000 is a 64th of the trace. */
#define SERIES_CELLS_LOG2 17u
#define SERIES_CELLS (1u << SERIES_CELLS_LOG2)
#define SERIES_BLOCK 512u /* cells that are kept together */
#define SERIES_BLOCKS (SERIES_CELLS / SERIES_BLOCK)

/* The most that a trace can last, 146 years: what is later counts as this, and no width overflows. */
#define SERIES_MAX_NS ((uint64_t)1 << 62)

struct series_set {
	uint64_t base_ns;    /* where cell 0 begins */
	unsigned width_log2; /* of a cell */
	size_t bytes, max_bytes;
	struct series **all;
	size_t n, cap;
	/* Called when cells have become twice as wide. */
	void (*widened)(void *ctx);
	void *ctx;
};

struct series {
	struct series_set *set;
	uint64_t **sums; /* blocks, NULL: all 0 */
	int64_t **
		covering; /* the same: how many more stretches cover this cell than the one before */
	bool max;	  /* the largest of its values counts, not their sum */
};

void series_set_init(struct series_set *set, uint64_t base_ns, size_t max_bytes);
void series_set_done(struct series_set *set);
/* NULL: out of memory. The set's. */
struct series *series_new(struct series_set *set, bool max);

/* Adds each cell's part of a stretch. Times before the base count as it. 0 or -ENOMEM. */
int series_stretch(struct series *s, uint64_t begin_ns, uint64_t end_ns);
/* Adds to, or is the new maximum of, the cell of a time. */
int series_value(struct series *s, uint64_t time_ns, uint64_t value);
/* Makes cells twice as wide, until no time after this one is needed and there are up to n of them;
 * n: a power of two from SERIES_BLOCK. */
int series_set_fit(struct series_set *set, uint64_t end_ns, uint64_t n);
/* Cell of a time, also beyond the last. */
static inline uint64_t series_cell(const struct series_set *set, uint64_t time_ns)
{
	uint64_t since = time_ns <= set->base_ns ? 0 : time_ns - set->base_ns;

	return (since < SERIES_MAX_NS ? since : SERIES_MAX_NS) >> set->width_log2;
}

/* Calls for each block that is not 0, in order, with SERIES_BLOCK values. A negative return ends it. */
int series_each_block(const struct series *s,
		      int (*block)(void *ctx, unsigned number, const uint64_t *values), void *ctx);
