/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Log-linear buckets. Values below 128 have a bucket each; above, the top seven bits of a value
 * choose the bucket, so a bucket is at most 1/64 of its lower edge wide. All of u64 is 3776
 * buckets, but only the range that was seen is allocated, in whole steps of a power of two.
 */
#include "base/hist.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BITS 6u
#define STEPS (1u << STEP_BITS)

static uint32_t bucket_of(uint64_t value)
{
	if (value < STEPS)
		return (uint32_t)value;
	unsigned shift = 63 - __builtin_clzll(value) - STEP_BITS;
	return shift * STEPS + (uint32_t)(value >> shift);
}

static uint64_t upper_edge(uint32_t bucket)
{
	if (bucket < STEPS)
		return bucket;
	unsigned shift = bucket / STEPS - 1;
	uint64_t lower = (uint64_t)(STEPS + bucket % STEPS) << shift;
	return lower + ((1ULL << shift) - 1);
}

void hist_done(struct hist *h)
{
	free(h->buckets);
	*h = (struct hist){0};
}

int hist_copy(const struct hist *h, struct hist *ret)
{
	uint32_t *buckets = calloc(h->n_buckets ? h->n_buckets : 1, sizeof(*buckets));

	if (!buckets)
		return -ENOMEM;
	if (h->n_buckets)
		memcpy(buckets, h->buckets, h->n_buckets * sizeof(*buckets));
	*ret = *h;
	ret->buckets = buckets;
	return 0;
}

/* Makes the buckets [first, last] exist. */
static int cover(struct hist *h, uint32_t first, uint32_t last)
{
	uint32_t end = h->first + h->n_buckets;
	if (h->n_buckets && first >= h->first && last < end)
		return 0;

	first -= first % STEPS;
	last += STEPS - last % STEPS;
	if (h->n_buckets) {
		first = first < h->first ? first : h->first;
		last = last > end ? last : end;
	}
	uint32_t *buckets = calloc(last - first, sizeof(*buckets));
	if (!buckets)
		return -ENOMEM;
	if (h->n_buckets)
		memcpy(buckets + (h->first - first), h->buckets, h->n_buckets * sizeof(*buckets));
	free(h->buckets);
	h->buckets = buckets;
	h->first = first;
	h->n_buckets = last - first;
	return 0;
}

static void bump(uint32_t *bucket, uint32_t by)
{
	if (__builtin_add_overflow(*bucket, by, bucket))
		*bucket = UINT32_MAX;
}

int hist_add(struct hist *h, uint64_t value)
{
	uint32_t bucket = bucket_of(value);
	if (__builtin_expect(bucket - h->first >= h->n_buckets, 0))
		TRY(cover(h, bucket, bucket));
	bump(&h->buckets[bucket - h->first], 1);
	if (!h->count || value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->count++;
	h->sum += value;
	return 0;
}

int hist_merge(struct hist *h, const struct hist *other)
{
	if (!other->count)
		return 0;
	TRY(cover(h, other->first, other->first + other->n_buckets - 1));
	for (uint32_t i = 0; i < other->n_buckets; i++)
		bump(&h->buckets[other->first + i - h->first], other->buckets[i]);
	if (!h->count || other->min < h->min)
		h->min = other->min;
	if (other->max > h->max)
		h->max = other->max;
	h->count += other->count;
	h->sum += other->sum;
	return 0;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
	if (!h->count)
		return 0;
	if (!(q > 0))
		return h->min;
	if (q >= 1)
		return h->max;

	/* The smallest value that at least q * count values do not exceed. */
	double exact = q * (double)h->count;
	uint64_t rank = (uint64_t)exact;
	if ((double)rank < exact || !rank)
		rank++;
	uint64_t below = 0;
	for (uint32_t i = 0; i < h->n_buckets; i++) {
		below += h->buckets[i];
		if (below >= rank) {
			uint64_t edge = upper_edge(h->first + i);
			return edge < h->min ? h->min : edge > h->max ? h->max : edge;
		}
	}
	return h->max;
}
