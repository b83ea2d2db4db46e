/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Puts what comes nearly in order of time into that order. Items are of one size and begin with
 * their time; equal times keep the order in which they came.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How every item begins. */
struct order_item {
	uint64_t time;
	uint64_t serial; /* set by order_put() */
};

struct order {
	size_t item_bytes, max;
	uint64_t serial;
	/* Most items come in order: those are in a queue, the others in a heap. */
	uint8_t *queue; /* a ring */
	size_t queue_at, queue_n, queue_cap;
	void *heap;
	size_t heap_n, heap_cap;
	uint64_t last_ns; /* of the queue's last item */
};

/* max: how many items wait at most; before another is put one must be taken. SIZE_MAX: no limit. */
void order_init(struct order *o, size_t item_bytes, size_t max);
void order_done(struct order *o);
size_t order_n(const struct order *o);
bool order_full(const struct order *o);
/* Copies the item. 0, -ENOMEM. */
int order_put(struct order *o, const void *item);
/* The earliest item, valid until the next call; NULL if there is none. */
const void *order_first(const struct order *o);
/* Takes the earliest item if its time is before `before_ns`; UINT64_MAX: whatever its time is. */
bool order_next(struct order *o, uint64_t before_ns, void *ret_item);
