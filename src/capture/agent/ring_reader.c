/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Reading the rings.
 *
 * The shared memory says only three things that are believed within bounds: how far a ring is
 * written (accepted if it is a multiple of an event and not further from what was read than the
 * ring is long), which parts of it were used (no value leads out of the ring) and how many rings
 * are used (cut to the number that were made). Sizes, places and the reader's progress are private.
 * Every call does work that is bounded by one ring's length.
 */
#include "capture/agent/ring_reader.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ring_set_init(struct ring_set *s, struct ring_area *area, uint32_t n_rings, uint32_t ring_bytes)
{
	*s = (struct ring_set){.area = area, .n_rings = n_rings, .ring_bytes = ring_bytes};
	s->cursors = calloc(n_rings, sizeof(*s->cursors));
	return s->cursors ? 0 : -ENOMEM;
}

void ring_set_done(struct ring_set *s)
{
	free(s->cursors);
	*s = (struct ring_set){0};
}

uint32_t ring_set_used(const struct ring_set *s)
{
	uint32_t n = __atomic_load_n(&s->area->n_used, __ATOMIC_ACQUIRE);

	return n < s->n_rings ? n : s->n_rings;
}

struct ring *ring_set_at(const struct ring_set *s, uint32_t i)
{
	size_t stride = sizeof(struct ring) + s->ring_bytes;

	return (struct ring *)((char *)(s->area + 1) + i * stride);
}

uint64_t ring_set_head(struct ring_set *s, uint32_t i, bool *ret_damaged)
{
	struct ring *r = ring_set_at(s, i);
	uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);
	struct ring_cursor *c = &s->cursors[i];

	if (head - c->tail <= s->ring_bytes && head % sizeof(struct agent_event) == 0)
		return head;
	*ret_damaged = true;
	c->tail = head & ~(uint64_t)(sizeof(struct agent_event) - 1);
	__atomic_store_n(&r->tail, c->tail, __ATOMIC_RELEASE);
	return c->tail;
}

size_t ring_set_copy(const struct ring_set *s, uint32_t i, uint64_t limit,
		     struct agent_event out[RING_BATCH])
{
	const uint64_t whole = ~(uint64_t)(sizeof(*out) - 1);
	const struct ring *r = ring_set_at(s, i);
	const struct ring_cursor *c = &s->cursors[i];
	/* In the other order than they are written. */
	uint64_t far_end = __atomic_load_n(&r->far_end, __ATOMIC_ACQUIRE) & whole;
	uint64_t far_begin = __atomic_load_n(&r->far_begin, __ATOMIC_ACQUIRE) & whole;
	uint64_t left = limit - c->tail, bytes = 0, run;

	assert(left <= s->ring_bytes && left % sizeof(*out) == 0); /* ring_set_head() */
	if (left > RING_BATCH * sizeof(*out))
		left = RING_BATCH * sizeof(*out);
	for (; bytes < left; bytes += run) {
		uint64_t place =
			ring_place(c->tail + bytes, far_begin, far_end, s->ring_bytes, &run);

		if (run > left - bytes)
			run = left - bytes;
		assert(run && place + run <= s->ring_bytes);
		memcpy((char *)out + bytes, (const char *)(r + 1) + place, run);
	}
	return bytes / sizeof(*out);
}

void ring_set_give(struct ring_set *s, uint32_t i, size_t n)
{
	struct ring_cursor *c = &s->cursors[i];

	assert(n <= RING_BATCH);
	c->tail += n * sizeof(struct agent_event);
	__atomic_store_n(&ring_set_at(s, i)->tail, c->tail, __ATOMIC_RELEASE);
}

bool ring_set_empty(const struct ring_set *s, uint32_t i)
{
	return __atomic_load_n(&ring_set_at(s, i)->head, __ATOMIC_ACQUIRE) == s->cursors[i].tail;
}
