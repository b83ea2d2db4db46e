/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums over time cells: see series.h. */
#include "index/series.h"

#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

/* The first cells are narrow, so that a short trace has them; they get wider soon. */
#define FIRST_WIDTH_LOG2 10u

void series_set_init(struct series_set *set, uint64_t base_ns, size_t max_bytes)
{
	*set = (struct series_set){
		.base_ns = base_ns, .width_log2 = FIRST_WIDTH_LOG2, .max_bytes = max_bytes};
}

static void blocks_free(void *blocks)
{
	void **v = blocks;

	for (unsigned i = 0; v && i < SERIES_BLOCKS; i++)
		free(v[i]);
	free(v);
}

void series_set_done(struct series_set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		blocks_free(set->all[i]->sums);
		blocks_free(set->all[i]->covering);
		free(set->all[i]);
	}
	free(set->all);
	*set = (struct series_set){0};
}

struct series *series_new(struct series_set *set, bool max)
{
	struct series *s = GROW(set->all, set->n, set->cap) ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return NULL;
	s->set = set;
	s->max = max;
	set->bytes += sizeof(*s);
	set->all[set->n++] = s;
	return s;
}

/* The cell's place, with its block; NULL: out of memory. `blocks`: uint64_t ** or int64_t **. */
static void *cell_at(struct series_set *set, void ***blocks, uint64_t cell)
{
	if (!*blocks) {
		*blocks = calloc(SERIES_BLOCKS, sizeof(**blocks));
		if (!*blocks)
			return NULL;
		set->bytes += SERIES_BLOCKS * sizeof(**blocks);
	}
	void **block = &(*blocks)[cell / SERIES_BLOCK];
	if (!*block) {
		*block = calloc(SERIES_BLOCK, sizeof(uint64_t));
		if (!*block)
			return NULL;
		set->bytes += SERIES_BLOCK * sizeof(uint64_t);
	}
	return (uint64_t *)*block + cell % SERIES_BLOCK;
}

static inline uint64_t *sum_at(struct series *s, uint64_t cell)
{
	uint64_t *block = s->sums ? s->sums[cell / SERIES_BLOCK] : NULL;

	return block ? block + cell % SERIES_BLOCK : cell_at(s->set, (void ***)&s->sums, cell);
}

static inline bool cover(struct series *s, uint64_t cell, int64_t by)
{
	int64_t *block = s->covering ? s->covering[cell / SERIES_BLOCK] : NULL;
	int64_t *at =
		block ? block + cell % SERIES_BLOCK : cell_at(s->set, (void ***)&s->covering, cell);

	if (at)
		*at = (int64_t)((uint64_t)*at + (uint64_t)by);
	return at;
}

/* ---- wider cells ---- */

/* One block of the wider cells out of two. `covers` is how many stretches cover the narrow cell
 * before, `wide` how many the wide one. */
static int widen_block(struct series *s, uint64_t *const *sums, int64_t *const *covering,
		       unsigned number, uint64_t width, uint64_t *covers, uint64_t *wide)
{
	for (unsigned i = 0; i < SERIES_BLOCK; i++) {
		unsigned from = 2 * number + (i >= SERIES_BLOCK / 2), at = 2 * i % SERIES_BLOCK;
		uint64_t a = sums && sums[from] ? sums[from][at] : 0;
		uint64_t b = sums && sums[from] ? sums[from][at + 1] : 0;
		uint64_t first = *covers, second;

		if (covering && covering[from]) {
			first += (uint64_t)covering[from][at];
			second = first + (uint64_t)covering[from][at + 1];
		} else {
			second = first;
		}
		uint64_t both = first < second ? first : second;
		uint64_t sum =
			s->max ? (a > b ? a : b) : a + b + (first - both + second - both) * width;
		if (sum) {
			uint64_t *cell = sum_at(s, (uint64_t)number * SERIES_BLOCK + i);
			if (!cell)
				return -ENOMEM;
			*cell = sum;
		}
		if (both != *wide &&
		    !cover(s, (uint64_t)number * SERIES_BLOCK + i, (int64_t)(both - *wide)))
			return -ENOMEM;
		*wide = both;
		*covers = second;
	}
	return 0;
}

static size_t block_bytes(const void *blocks)
{
	void *const *v = blocks;
	size_t bytes = v ? SERIES_BLOCKS * sizeof(*v) : 0;

	for (unsigned i = 0; v && i < SERIES_BLOCKS; i++)
		bytes += v[i] ? SERIES_BLOCK * sizeof(uint64_t) : 0;
	return bytes;
}

static int widen_series(struct series *s)
{
	uint64_t **sums = s->sums, covers = 0, wide = 0, width = 1ull << s->set->width_log2;
	int64_t **covering = s->covering;
	int code = 0;

	s->sums = NULL;
	s->covering = NULL;
	for (unsigned i = 0; i < SERIES_BLOCKS / 2 && code == 0; i++) {
		bool blank = covers == wide;

		for (unsigned k = 2 * i; k < 2 * i + 2; k++)
			blank = blank && !(sums && sums[k]) && !(covering && covering[k]);
		if (!blank)
			code = widen_block(s, sums, covering, i, width, &covers, &wide);
	}
	s->set->bytes -= block_bytes(sums) + block_bytes(covering);
	blocks_free(sums);
	blocks_free(covering);
	return code;
}

static int widen(struct series_set *set)
{
	for (size_t i = 0; i < set->n; i++) {
		int code = widen_series(set->all[i]);
		if (code < 0)
			return code;
	}
	set->width_log2++;
	if (set->widened)
		set->widened(set->ctx);
	return 0;
}

/* Makes room for a time. */
static int reach(struct series_set *set, uint64_t time_ns)
{
	while (series_cell(set, time_ns) >= SERIES_CELLS ||
	       /* Below that a block a series is the least. */
	       (set->bytes > set->max_bytes && series_cell(set, time_ns) >= SERIES_BLOCK)) {
		int code = widen(set);
		if (code < 0)
			return code;
	}
	return 0;
}

int series_set_fit(struct series_set *set, uint64_t end_ns, uint64_t n)
{
	while (series_cell(set, end_ns) >= n) {
		int code = widen(set);
		if (code < 0)
			return code;
	}
	return 0;
}

/* ---- adding ---- */

int series_stretch(struct series *s, uint64_t begin_ns, uint64_t end_ns)
{
	struct series_set *set = s->set;

	if (begin_ns < set->base_ns)
		begin_ns = set->base_ns;
	if (end_ns <= begin_ns)
		return 0;
	if (end_ns - set->base_ns > SERIES_MAX_NS)
		end_ns = set->base_ns + SERIES_MAX_NS;
	if (end_ns <= begin_ns)
		return 0;
	if (series_cell(set, end_ns) >= SERIES_CELLS || set->bytes > set->max_bytes) {
		int code = reach(set, end_ns);
		if (code < 0)
			return code;
	}
	uint64_t first = series_cell(set, begin_ns), last = series_cell(set, end_ns);
	uint64_t *sum = sum_at(s, first);
	if (!sum)
		return -ENOMEM;
	if (first == last) {
		*sum += end_ns - begin_ns;
		return 0;
	}
	*sum += set->base_ns + ((first + 1) << set->width_log2) - begin_ns;
	uint64_t rest = end_ns - set->base_ns - (last << set->width_log2);
	if (rest) {
		sum = sum_at(s, last);
		if (!sum)
			return -ENOMEM;
		*sum += rest;
	}
	if (last - first == 2) {
		sum = sum_at(s, first + 1);
		if (!sum)
			return -ENOMEM;
		*sum += 1ull << set->width_log2;
	} else if (last - first > 2 && (!cover(s, first + 1, 1) || !cover(s, last, -1))) {
		return -ENOMEM;
	}
	return 0;
}

int series_value(struct series *s, uint64_t time_ns, uint64_t value)
{
	struct series_set *set = s->set;

	if (series_cell(set, time_ns) >= SERIES_CELLS || set->bytes > set->max_bytes) {
		int code = reach(set, time_ns);
		if (code < 0)
			return code;
	}
	if (!value)
		return 0;
	uint64_t *sum = sum_at(s, series_cell(set, time_ns));
	if (!sum)
		return -ENOMEM;
	*sum = !s->max ? *sum + value : *sum > value ? *sum : value;
	return 0;
}

int series_each_block(const struct series *s,
		      int (*block)(void *ctx, unsigned number, const uint64_t *values), void *ctx)
{
	uint64_t values[SERIES_BLOCK], covers = 0, width = 1ull << s->set->width_log2;

	for (unsigned i = 0; i < SERIES_BLOCKS; i++) {
		const uint64_t *sums = s->sums ? s->sums[i] : NULL;
		const int64_t *covering = s->covering ? s->covering[i] : NULL;

		if (!sums && !covering && !covers)
			continue;
		for (unsigned k = 0; k < SERIES_BLOCK; k++) {
			covers += covering ? (uint64_t)covering[k] : 0;
			values[k] = (sums ? sums[k] : 0) + covers * width;
		}
		int code = block(ctx, i, values);
		if (code < 0)
			return code;
	}
	return 0;
}
