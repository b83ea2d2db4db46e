/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A queue of what came in order and a heap of what did not: the earliest is at the front of one of
 * the two. So a recording in perfect order costs two copies an item and no comparison of a heap.
 */
#include "base/order.h"

#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 256u

void order_init(struct order *o, size_t item_bytes, size_t max)
{
	*o = (struct order){.item_bytes = item_bytes, .max = max};
}

void order_done(struct order *o)
{
	free(o->queue);
	free(o->heap);
	*o = (struct order){0};
}

size_t order_n(const struct order *o)
{
	return o->queue_n + o->heap_n;
}

bool order_full(const struct order *o)
{
	return order_n(o) >= o->max;
}

static uint8_t *queued(const struct order *o, size_t i)
{
	return o->queue + ((o->queue_at + i) & (o->queue_cap - 1)) * o->item_bytes;
}

static uint8_t *heaped(const struct order *o, size_t i)
{
	return (uint8_t *)o->heap + i * o->item_bytes;
}

static bool is_before(const uint8_t *a, const uint8_t *b)
{
	const struct order_item *x = (const struct order_item *)a;
	const struct order_item *y = (const struct order_item *)b;
	return x->time != y->time ? x->time < y->time : x->serial < y->serial;
}

static int grow_queue(struct order *o)
{
	size_t cap = o->queue_cap ? o->queue_cap * 2 : FIRST_CAP;
	uint8_t *queue = malloc(cap * o->item_bytes);
	if (!queue)
		return -ENOMEM;
	for (size_t i = 0; i < o->queue_n; i++)
		memcpy(queue + i * o->item_bytes, queued(o, i), o->item_bytes);
	free(o->queue);
	o->queue = queue;
	o->queue_cap = cap;
	o->queue_at = 0;
	return 0;
}

/* Where a new item with this time belongs. Its number is the highest: equal times keep their
 * order. */
static uint8_t *heap_place(struct order *o, uint64_t time)
{
	size_t i = o->heap_n++;
	while (i) {
		uint8_t *parent = heaped(o, (i - 1) / 2);
		if (time >= ((const struct order_item *)parent)->time)
			break;
		memcpy(heaped(o, i), parent, o->item_bytes);
		i = (i - 1) / 2;
	}
	return heaped(o, i);
}

static void heap_take(struct order *o)
{
	size_t i = 0, n = --o->heap_n;
	const uint8_t *last = heaped(o, n);
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= n)
			break;
		if (child + 1 < n && is_before(heaped(o, child + 1), heaped(o, child)))
			child++;
		if (!is_before(heaped(o, child), last))
			break;
		memcpy(heaped(o, i), heaped(o, child), o->item_bytes);
		i = child;
	}
	if (i != n)
		memmove(heaped(o, i), last, o->item_bytes);
}

int order_put(struct order *o, const void *item)
{
	uint64_t time = ((const struct order_item *)item)->time;
	uint8_t *to;

	if (o->queue_n && time < o->last_ns) {
		if (o->heap_n == o->heap_cap &&
		    !vec_grow(&o->heap, o->heap_n, &o->heap_cap, SIZE_MAX, o->item_bytes))
			return -ENOMEM;
		to = heap_place(o, time);
	} else {
		if (o->queue_n == o->queue_cap && grow_queue(o) < 0)
			return -ENOMEM;
		to = queued(o, o->queue_n++);
		o->last_ns = time;
	}
	memcpy(to, item, o->item_bytes);
	((struct order_item *)to)->serial = o->serial++;
	return 0;
}

const void *order_first(const struct order *o)
{
	const uint8_t *q = o->queue_n ? queued(o, 0) : NULL;
	const uint8_t *h = o->heap_n ? heaped(o, 0) : NULL;
	if (!q || !h)
		return q ? q : h;
	return is_before(h, q) ? h : q;
}

bool order_next(struct order *o, uint64_t before_ns, void *ret_item)
{
	const struct order_item *item = order_first(o);
	const uint8_t *first = (const uint8_t *)item;

	if (!item || (item->time >= before_ns && before_ns != UINT64_MAX))
		return false;
	memcpy(ret_item, item, o->item_bytes);
	if (o->queue_n && first == queued(o, 0)) {
		o->queue_at = (o->queue_at + 1) & (o->queue_cap - 1);
		o->queue_n--;
	} else {
		heap_take(o);
	}
	return true;
}
