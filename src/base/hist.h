/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A histogram of u64 values (ns) in log-linear buckets: 64 steps per power of two, so a quantile is
 * within 1.6 % of the true value; count, sum, min and max are exact. Fixed size when empty: grows
 * with the range of values only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hist {
	uint64_t count, sum, min, max;
	uint32_t *buckets;
	uint32_t first, n_buckets; /* buckets [first, first + n_buckets) are there */
};

void hist_done(struct hist *h);
int hist_add(struct hist *h, uint64_t value); /* 0 or -ENOMEM */
/* All values of the other one, too. 0 or -ENOMEM. */
int hist_merge(struct hist *h, const struct hist *other);
/* *ret becomes one of the same values, and is the caller's. 0 or -ENOMEM. */
int hist_copy(const struct hist *h, struct hist *ret);
/* q in [0, 1]; the bucket's upper edge, clipped to [min, max]; 0 when empty. */
uint64_t hist_quantile(const struct hist *h, double q);
