/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How often a buffer is emptied: so that it is a quarter full by then, and a burst that begins just
 * now does not fill it.
 */
#pragma once

#include "base/units.h"

#include <stdint.h>

#define PACE_MIN_NS 500000ull
#define PACE_MAX_NS (20 * NSEC_PER_MSEC)

struct drain_interval {
	uint64_t ns, max_ns;
};

static inline void drain_interval_init(struct drain_interval *p, uint64_t max_ns)
{
	p->ns = PACE_MIN_NS;
	p->max_ns = max_ns > PACE_MAX_NS   ? PACE_MAX_NS
		    : max_ns < PACE_MIN_NS ? PACE_MIN_NS
					   : max_ns;
}

/* The buffer was found so full (0 to 1) after `past_ns`: the time until the next look. Grows by
 * steps, since a burst may begin; shrinks at once. */
static inline uint64_t drain_interval_next(struct drain_interval *p, double fill, uint64_t past_ns)
{
	double most = (double)p->ns * 1.5;
	double ns = fill > 0 ? (double)past_ns * 0.25 / fill : most;

	if (ns > most)
		ns = most;
	if (ns > (double)p->max_ns)
		ns = (double)p->max_ns;
	p->ns = ns < PACE_MIN_NS ? PACE_MIN_NS : (uint64_t)ns;
	return p->ns;
}
