/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Growable arrays: a pointer, a count and a capacity wherever the owner keeps them. All macros
 * give false when memory is out; the array is then as it was. Arguments are lvalues that
 * are evaluated more than once.
 *
 *     if (!GROW(list->v, list->n, list->cap))
 *             return -ENOMEM;
 *     list->v[list->n++] = item;
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Makes `items` and `cap` larger, at least by doubling, until there is an items[n]; `max_cap` is
 * what the owner's counter can hold. */
bool vec_grow(void **items, size_t n, size_t *cap, size_t max_cap, size_t item_bytes);

/* The capacity of an array of n items that only GROW_ONE() has grown: a power of two. */
static inline size_t vec_implied_cap(size_t n)
{
	return n <= 4 ? (n ? 4 : 0) : (size_t)1 << (64 - __builtin_clzl(n - 1));
}

/* Makes room for items[n]. */
#define GROW(items, n, cap)                                                                        \
	((size_t)(n) < (cap) || ({                                                                 \
		 void *grow_items = (items);                                                       \
		 size_t grow_cap = (cap);                                                          \
		 bool grow_ok = vec_grow(&grow_items, (n), &grow_cap, (__typeof__(cap))-1,         \
					 sizeof(*(items)));                                        \
                                                                                                   \
		 (items) = grow_items;                                                             \
		 (cap) = (__typeof__(cap))grow_cap;                                                \
		 grow_ok;                                                                          \
	 }))

/* Makes items[n] exist, where `cap` counts items that exist: new ones are zero. */
#define GROW_ZERO(items, n, cap)                                                                   \
	({                                                                                         \
		size_t zero_from = (cap);                                                          \
		bool zero_ok = GROW(items, n, cap);                                                \
                                                                                                   \
		if (zero_from < (cap))                                                             \
			memset((items) + zero_from, 0, ((cap)-zero_from) * sizeof(*(items)));      \
		zero_ok;                                                                           \
	})

/* Makes room for `more` items after the n of an array whose owner keeps no capacity: it has grown
 * by this alone, or was made with vec_implied_cap(). */
#define GROW_BY(items, n, more)                                                                    \
	({                                                                                         \
		size_t by_cap = vec_implied_cap(n);                                                \
                                                                                                   \
		GROW(items, (size_t)(n) + (more)-1, by_cap);                                       \
	})
#define GROW_ONE(items, n) GROW_BY(items, n, 1)
