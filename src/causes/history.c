/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "causes/history.h"

#include <stdlib.h>
#include <string.h>

#define HISTORY_MIN 4096

void history_done(struct history *h)
{
	free(h->ring);
	*h = (struct history){0};
}

/* While the window is not full nothing was overwritten, so all of it moves. */
static bool grow(struct history *h)
{
	size_t cap = h->cap ? h->cap * 2 : HISTORY_MIN;
	struct segment *ring = aligned_alloc(sizeof(*ring), cap * sizeof(*ring));

	if (!ring)
		return false;
	for (size_t i = 0; i < h->cap; i++) {
		uint64_t number = h->n - i;

		ring[number & (cap - 1)] = h->ring[number & (h->cap - 1)];
	}
	free(h->ring);
	h->ring = ring;
	h->cap = cap;
	return true;
}

struct segment *history_add(struct history *h, uint64_t *ret_number)
{
	/* Number 0 is none, so the first round of the ring has one segment less. */
	if (h->n + 1 >= h->cap && h->cap < HISTORY_MAX && !grow(h))
		return NULL;
	struct segment *s = &h->ring[++h->n & (h->cap - 1)];

	memset(s, 0, sizeof(*s));
	*ret_number = h->n;
	return s;
}
