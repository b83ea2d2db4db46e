/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The rings of one target, read as untrusted memory, which a hostile program may write too. What
 * comes out is a sequence of well-formed events, and counts of what was not.
 */
#pragma once

#include "agent/ring.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Our notes on a ring: nothing that steers us is read back from the shared memory. */
struct ring_cursor {
	uint64_t tail;	       /* bytes taken so far */
	uint64_t last_ticks;   /* of the last event */
	uint64_t lost_emitted; /* by AE_LOST */
	uint32_t thread; /* trace thread index + 1 of who writes here now, 0 if not known yet */
	uint32_t tid, own_tid; /* of it */
	char name[16];
	uint32_t depth; /* of open polls since the thread began, or since its last loss */
	uint32_t outer; /* the depth of the outermost that is a task's; 0: none is open */
	bool gone;	/* in a poll, when it was last looked for */
	bool damaged;	/* reported already */
	bool described; /* its last event was the descriptor of the next one's call, its flags */
	uint32_t fd, fd_flags;
	/* Its last events were the chain of the poll whose end is the next one (AE_CHAIN). */
	uint32_t n_chain;
	uint16_t chain[AGENT_CHAIN_MAX];
	/* And what its links wait for (AE_RESOURCE), the last one at its own await point; else 0. */
	bool has_resources;
	uint64_t resources[AGENT_CHAIN_MAX + 1];
};

struct ring_set {
	struct ring_area *area;	      /* shared */
	uint32_t n_rings, ring_bytes; /* as we made them */
	struct ring_cursor *cursors;
};

/* The sizes are pollux's own, and right: AGENT_MAX_RINGS at most, a power of two. */
int ring_set_init(struct ring_set *s, struct ring_area *area, uint32_t n_rings,
		  uint32_t ring_bytes);
void ring_set_done(struct ring_set *s);

/* Rings [0, n) are or were in use. */
uint32_t ring_set_used(const struct ring_set *s);
struct ring *ring_set_at(const struct ring_set *s, uint32_t i);

#define RING_BATCH 256u

/* Copies up to RING_BATCH events that ring i had when `limit` was taken (ring_set_head). The copy
 * is what is looked at: the target can change it no more. Returns the number. */
size_t ring_set_copy(const struct ring_set *s, uint32_t i, uint64_t limit,
		     struct agent_event out[RING_BATCH]);
/* Gives the room of the first n of them back. */
void ring_set_give(struct ring_set *s, uint32_t i, size_t n);
/* How far ring i is written. A head that can't be is taken as the end of what is there:
 * *ret_damaged is set, and the cursor is at it. */
uint64_t ring_set_head(struct ring_set *s, uint32_t i, bool *ret_damaged);

/* Whether everything was taken that ring i says it has. */
bool ring_set_empty(const struct ring_set *s, uint32_t i);
