/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Clocks. The agent stamps with the time stamp counter; pollux turns ticks into ns of
 * CLOCK_MONOTONIC by pairs of readings taken while it records.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint64_t clock_monotonic_ns(void);
uint64_t clock_realtime_ns(void);
uint64_t clock_cpu_ns(void);   /* CPU time of this process */
void clock_sleep(uint64_t ns); /* a signal ends it */
uint64_t clock_ticks(void);    /* the counter of arch/ticks.h; ns where there is none */

/* One reading of both clocks, taken as close together as can be (best of several tries). */
struct clock_pair {
	uint64_t ticks, ns;
};
void clock_pair_read(struct clock_pair *ret);

/*
 * A map from ticks to ns: a polygon through pairs. Stamps that lie between two of its pairs are
 * mapped for good: a later pair changes nothing of them, so stamps of all threads keep their order
 * whenever they are mapped, and the error is that of reading a pair, some ten ns. Beyond the last
 * pair, and before the oldest that is remembered, the map goes on by the average slope.
 */
#define CLOCK_PAIRS 64u
struct clock_map {
	struct clock_pair base, last; /* the last two */
	double ns_per_tick;	      /* between them */
	double average;		      /* ns per tick since the first pair */
	struct clock_pair first;
	struct clock_pair pairs[CLOCK_PAIRS]; /* a ring: number i is at i % CLOCK_PAIRS */
	uint64_t n_pairs;		      /* ever */
};
/* Takes a first pair and, over about `settle_ns`, a second one. */
void clock_map_init(struct clock_map *m, uint64_t settle_ns);
void clock_map_add(struct clock_map *m);
/* Not between the last two pairs. */
uint64_t clock_map_far(const struct clock_map *m, uint64_t ticks);
static inline uint64_t clock_map_ns(const struct clock_map *m, uint64_t ticks)
{
	if (ticks < m->base.ticks || ticks > m->last.ticks)
		return clock_map_far(m, ticks);
	return m->base.ns + (uint64_t)((double)(int64_t)(ticks - m->base.ticks) * m->ns_per_tick);
}
/* The full counter from its low 56 bits, given a full reading less than 2^55 ticks (about
 * 130 days) away. */
static inline uint64_t clock_ticks_restore(uint64_t low56, uint64_t near_ticks)
{
	/* The signed distance within 56 bits, extended to 64. */
	uint64_t distance = (low56 - near_ticks) << 8;
	return near_ticks + (uint64_t)((int64_t)distance >> 8);
}
