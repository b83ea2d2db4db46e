/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lots of items from a thread of their own to the one that began it, or the other way round, in order: a
 * ring of equal slots. The giver fills a slot while the taker works on an earlier one; each waits for the
 * other where the ring is full or empty.
 *
 *     giver ──▶ slot ──▶ slot ──▶ slot ──▶ taker
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct handover;

/* NULL: out of memory. */
struct handover *handover_new(unsigned n_slots, size_t slot_bytes);
void handover_free(struct handover *h);

/* ---- the giver ---- */

/* The slot to fill next; the same one until it is given. NULL: the taker has stopped. */
void *handover_slot(struct handover *h);
void handover_give(struct handover *h, size_t n_items);
/* Until the taker has finished with all that was given and waits for more; until the next handover_give() it does
 * nothing else. False: it has stopped. */
bool handover_wait_taken(struct handover *h);
/* Nothing more will be given. */
void handover_end(struct handover *h);

/* ---- the taker ---- */

/* The next lot, which stays until the next call. NULL: there is none further. */
void *handover_take(struct handover *h, size_t *ret_n_items);
/* It takes no more. */
void handover_stop(struct handover *h);
