/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Binary search. The condition holds for the first items of a sorted array and not for the rest;
 * PARTITION_POINT() is the index of the first for which it does not, `to` if there is none:
 *
 *     at = PARTITION_POINT(i, 0, n, v[i].addr < addr);    the first item at addr or after it
 *     at = PARTITION_POINT(i, 0, n, v[i].addr <= addr);   one past the last at addr or before it
 */
#pragma once

#include <stddef.h>

#define PARTITION_POINT(i, from, to, holds)                                                        \
	({                                                                                         \
		size_t search_lo = (from), search_hi = (to);                                       \
                                                                                                   \
		while (search_lo < search_hi) {                                                    \
			size_t i = search_lo + (search_hi - search_lo) / 2;                        \
                                                                                                   \
			if (holds)                                                                 \
				search_lo = i + 1;                                                 \
			else                                                                       \
				search_hi = i;                                                     \
		}                                                                                  \
		search_lo;                                                                         \
	})
