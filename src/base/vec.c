/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The slow part of growing an array: doubling, with every overflow looked at. */
#include "base/vec.h"

#include <stdlib.h>

bool vec_grow(void **items, size_t n, size_t *cap, size_t max_cap, size_t item_bytes)
{
	size_t want = *cap ? *cap : 2, bytes;
	void *bigger;

	if (n >= max_cap)
		return false;
	do {
		if (__builtin_mul_overflow(want, (size_t)2, &want))
			return false;
	} while (want <= n);
	if (want > max_cap)
		want = max_cap;
	bigger = __builtin_mul_overflow(want, item_bytes, &bytes) ? NULL : realloc(*items, bytes);
	if (!bigger)
		return false;
	*items = bigger;
	*cap = want;
	return true;
}
