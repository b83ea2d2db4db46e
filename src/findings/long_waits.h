/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where tasks wait for long, and who ends that: of a lock the one that had it, of a channel that is full
 * the one that receives from it. A shared fact: it is collected once, for all rules about such waits.
 */
#pragma once

#include "base/map.h"
#include "timeline/timeline.h"

#define LONG_WAIT_NS (50 * NSEC_PER_MSEC)
#define CONVOY_PAUSE_NS (5 * NSEC_PER_MSEC)
#define CONVOY_WAITS 3

/* Who ended a wait, and where that task had waited before. */
struct waker {
	uint32_t kind; /* TRACE_KIND_NONE: no task's poll did */
	uint64_t serial, number, place;
};

/* Waits that end one right after the other: who ended the first, and who had ended that one's own wait. */
struct convoy {
	uint64_t n, last_ns;
	struct waker by, before;
};

/* The long waits of tasks of a kind at a place. */
struct long_waits {
	uint32_t kind;
	uint64_t place, n_waits, sum_ns, max_ns;
	uint64_t time_ns, serial, number; /* of the longest */
	struct convoy longest;		  /* who ended it */
	struct convoy now, worst;	  /* worst: with the longest wait */
	uint64_t n_convoys;
	uint64_t now_max_ns, worst_max_ns;
	/* Those that were open at the end of the recording, which are not among the above. */
	uint64_t n_open, open_sum_ns, first_open_ns, open_serial, open_number;
};

/* Where a task waited last. One that is looked for has just been polled: newer ones may take the
 * place of older ones. A power of two. */
#define N_LAST_PLACES (1u << 12)

/* Zeroed at first. */
struct wait_notes {
	struct map points; /* struct long_waits, by kind, place */
	struct {
		uint64_t serial, place;
		struct waker by;      /* who ended that wait */
	} last_places[N_LAST_PLACES]; /* by serial, modulo N_LAST_PLACES */
	struct convoy last_wake;
	uint64_t woken; /* by it */
};

void wait_notes_done(struct wait_notes *notes);
void wait_notes_wake(struct wait_notes *notes, const struct tl_wake *wake);
/* 0 or -ENOMEM. */
int wait_notes_wait(struct wait_notes *notes, const struct tl_wait *wait);
/* After the last one: waits at places with the same key become one. 0 or -ENOMEM. */
int wait_notes_merge(struct wait_notes *notes, uint64_t (*key)(const void *ctx, uint64_t place),
		     const void *ctx);
/* Sorted by time (free); NULL: there are none, or memory is out, which *ret_rc says. */
struct long_waits **wait_notes_sorted(const struct wait_notes *notes, int *ret_rc);
