/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lots of items between two threads: see handover.h. */
#include "base/handover.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define SLOT_ALIGN 64u

struct handover {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t slot_bytes;
	unsigned n_slots;
	/* Counts of slots since the begin: taken <= finished + 1, finished <= given <= finished + n_slots. */
	uint64_t given, taken, finished;
	bool ended, stopped;
	bool giver_waits, taker_waits;
	size_t *n_items; /* of each slot */
	uint8_t *slots;
};

struct handover *handover_new(unsigned n_slots, size_t slot_bytes)
{
	struct handover *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->n_slots = n_slots;
	h->slot_bytes = (slot_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
	h->n_items = calloc(n_slots, sizeof(*h->n_items));
	h->slots = aligned_alloc(SLOT_ALIGN, n_slots * h->slot_bytes);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, NULL);
	if (!h->n_items || !h->slots) {
		handover_free(h);
		return NULL;
	}
	return h;
}

void handover_free(struct handover *h)
{
	if (!h)
		return;
	pthread_cond_destroy(&h->changed);
	pthread_mutex_destroy(&h->lock);
	free(h->n_items);
	free(h->slots);
	free(h);
}

static void wake(struct handover *h, bool waits)
{
	if (waits)
		pthread_cond_broadcast(&h->changed);
}

/* The lock is held. */
static void wait(struct handover *h, bool *waits)
{
	*waits = true;
	pthread_cond_wait(&h->changed, &h->lock);
	*waits = false;
}

static void *slot(const struct handover *h, uint64_t number)
{
	return h->slots + number % h->n_slots * h->slot_bytes;
}

void *handover_slot(struct handover *h)
{
	pthread_mutex_lock(&h->lock);
	while (!h->stopped && h->given - h->finished == h->n_slots)
		wait(h, &h->giver_waits);
	void *at = h->stopped ? NULL : slot(h, h->given);
	pthread_mutex_unlock(&h->lock);
	return at;
}

void handover_give(struct handover *h, size_t n_items)
{
	pthread_mutex_lock(&h->lock);
	h->n_items[h->given++ % h->n_slots] = n_items;
	wake(h, h->taker_waits);
	pthread_mutex_unlock(&h->lock);
}

bool handover_wait_taken(struct handover *h)
{
	pthread_mutex_lock(&h->lock);
	while (!h->stopped && !(h->taker_waits && h->given == h->finished))
		wait(h, &h->giver_waits);
	bool waits = !h->stopped;
	pthread_mutex_unlock(&h->lock);
	return waits;
}

void handover_end(struct handover *h)
{
	pthread_mutex_lock(&h->lock);
	h->ended = true;
	wake(h, h->taker_waits);
	pthread_mutex_unlock(&h->lock);
}

void *handover_take(struct handover *h, size_t *ret_n_items)
{
	void *at = NULL;

	pthread_mutex_lock(&h->lock);
	h->finished = h->taken;
	wake(h, h->giver_waits);
	while (h->given == h->taken && !h->ended) {
		/* The giver may wait for that. */
		h->taker_waits = true;
		wake(h, h->giver_waits);
		wait(h, &h->taker_waits);
	}
	if (h->given > h->taken) {
		*ret_n_items = h->n_items[h->taken % h->n_slots];
		at = slot(h, h->taken++);
	}
	pthread_mutex_unlock(&h->lock);
	return at;
}

void handover_stop(struct handover *h)
{
	pthread_mutex_lock(&h->lock);
	h->stopped = true;
	wake(h, h->giver_waits);
	pthread_mutex_unlock(&h->lock);
}
