/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What qsort()'s functions compare by, one after the other:
 *
 *     return DESCENDING(x->sum_ns, y->sum_ns) ?: ASCENDING(x->kind, y->kind);
 */
#pragma once

#include <stdint.h>

/* Negative: x comes first; positive: y does; 0: they are equal. */
#define ASCENDING(x, y) (((x) > (y)) - ((x) < (y)))
#define DESCENDING(x, y) ASCENDING(y, x)

/* For an array of numbers. */
static inline int compare_u64(const void *a, const void *b)
{
	return ASCENDING(*(const uint64_t *)a, *(const uint64_t *)b);
}
