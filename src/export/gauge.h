/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How many of something there were at a time, from intervals in any order: the mean in each of up to
 * GAUGE_BINS equal parts of a window. Exact but for rounding, in fixed memory.
 */
#pragma once

#include <stdint.h>

#define GAUGE_BINS 8192u

struct gauge {
	uint64_t from_ns, length_ns, width_ns; /* of a bin; the last one may be narrower */
	uint32_t n;			       /* bins in use */
	int64_t *
		begun; /* intervals that cover all of a bin: begun before it, less those that end */
	uint64_t *partial; /* ns of those that cover a part of it */
};

int gauge_init(struct gauge *g, uint64_t from_ns, uint64_t to_ns); /* 0 or -ENOMEM */
void gauge_done(struct gauge *g);
void gauge_add(struct gauge *g, uint64_t begin_ns, uint64_t end_ns); /* what is in the window */

/* Calls fn where the value differs from the one before, in the order of time; 0 or its error. */
int gauge_each(const struct gauge *g, int (*fn)(void *ctx, uint64_t at_ns, double value),
	       void *ctx);
