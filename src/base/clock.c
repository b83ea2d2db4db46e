/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Clocks, and the map from time stamp counter to CLOCK_MONOTONIC.
 *
 * The counter runs at a constant rate, CLOCK_MONOTONIC at one that NTP steers, so the map is a
 * polygon through pairs of readings.
 *
 *        ns │              ╱ beyond the last pair: the average slope
 *           │            x   the last pair
 *           │         ╱
 *           │      ╱         mapped for good
 *           │   x            the pair before
 *           └──────────────── ticks
 */
#include "base/clock.h"

#include "arch/ticks.h"
#include "base/units.h"

#include <stddef.h>
#include <time.h>

#define PAIR_TRIES 10

static uint64_t now_ns(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
	return now_ns(CLOCK_REALTIME);
}

uint64_t clock_cpu_ns(void)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void clock_sleep(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
				    .tv_nsec = (long)(ns % NSEC_PER_SEC)};

	nanosleep(&ts, NULL);
}

uint64_t clock_ticks(void)
{
#ifdef ARCH_HAS_TICKS
	return arch_ticks();
#else
	return clock_monotonic_ns();
#endif
}

void clock_pair_read(struct clock_pair *ret)
{
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < PAIR_TRIES; i++) {
		uint64_t before = clock_ticks();
		uint64_t ns = clock_monotonic_ns();
		uint64_t gap = clock_ticks() - before;
		if (gap < best || i == 0) {
			best = gap;
			*ret = (struct clock_pair){.ticks = before + gap / 2, .ns = ns};
		}
	}
}

static void wait_ns(uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
			      .tv_nsec = (long)(ns % NSEC_PER_SEC)};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
}

static double slope(const struct clock_pair *from, const struct clock_pair *to)
{
	return (double)(to->ns - from->ns) / (double)(to->ticks - from->ticks);
}

static void add(struct clock_map *m, const struct clock_pair *pair)
{
	m->base = m->last;
	m->last = *pair;
	m->ns_per_tick = slope(&m->base, &m->last);
	m->average = slope(&m->first, &m->last);
	m->pairs[m->n_pairs++ % CLOCK_PAIRS] = *pair;
}

void clock_map_init(struct clock_map *m, uint64_t settle_ns)
{
	struct clock_pair first, second;

	clock_pair_read(&first);
	do {
		wait_ns(settle_ns);
		clock_pair_read(&second);
	} while (second.ns == first.ns || second.ticks == first.ticks);
	*m = (struct clock_map){.first = first, .last = first, .pairs = {first}, .n_pairs = 1};
	add(m, &second);
}

void clock_map_add(struct clock_map *m)
{
	struct clock_pair now;

	clock_pair_read(&now);
	if (now.ns > m->last.ns && now.ticks > m->last.ticks)
		add(m, &now);
}

static uint64_t beyond(const struct clock_pair *from, uint64_t ticks, double ns_per_tick)
{
	/* Ticks come from a program that may be hostile: stay within u64 whatever they are. */
	double ns = (double)(ticks - from->ticks) * ns_per_tick;
	uint64_t sum;

	if (ns >= 0x1p63 || __builtin_add_overflow(from->ns, (uint64_t)ns, &sum))
		return UINT64_MAX;
	return sum;
}

/* Stamped a while ago, or hostile. */
static uint64_t long_ago(const struct clock_map *m, uint64_t ticks)
{
	uint64_t n = m->n_pairs < CLOCK_PAIRS ? m->n_pairs : CLOCK_PAIRS;
	const struct clock_pair *to = &m->base, *from = to;

	for (uint64_t i = 2; i < n; i++) {
		from = &m->pairs[(m->n_pairs - 1 - i) % CLOCK_PAIRS];
		if (ticks >= from->ticks)
			return beyond(from, ticks, slope(from, to));
		to = from;
	}
	double ns = (double)(from->ticks - ticks) * m->average;
	return ns >= (double)from->ns ? 0 : from->ns - (uint64_t)ns;
}

uint64_t clock_map_far(const struct clock_map *m, uint64_t ticks)
{
	return ticks < m->base.ticks ? long_ago(m, ticks) : beyond(&m->last, ticks, m->average);
}
