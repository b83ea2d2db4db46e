/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts over time (gauge.h). An interval touches up to two bins in part, and the sum of all that
 * begin and end makes the rest. */
#include "export/gauge.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>

int gauge_init(struct gauge *g, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t length = to_ns > from_ns ? to_ns - from_ns : 1;

	*g = (struct gauge){
		.from_ns = from_ns, .length_ns = length, .width_ns = length / GAUGE_BINS + 1};
	g->n = (uint32_t)((length - 1) / g->width_ns + 1);
	g->begun = calloc(GAUGE_BINS + 1, sizeof(*g->begun));
	g->partial = calloc(GAUGE_BINS + 1, sizeof(*g->partial));
	return g->begun && g->partial ? 0 : -ENOMEM;
}

void gauge_done(struct gauge *g)
{
	free(g->begun);
	free(g->partial);
	*g = (struct gauge){0};
}

void gauge_add(struct gauge *g, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t begin = begin_ns > g->from_ns ? begin_ns - g->from_ns : 0;
	uint64_t end = end_ns > g->from_ns ? end_ns - g->from_ns : 0;

	if (end > g->length_ns)
		end = g->length_ns;
	if (begin >= end)
		return;
	uint64_t first = begin / g->width_ns, last = (end - 1) / g->width_ns;
	if (first == last) {
		g->partial[first] += end - begin;
		return;
	}
	g->partial[first] += (first + 1) * g->width_ns - begin;
	g->partial[last] += end - last * g->width_ns;
	g->begun[first + 1]++;
	g->begun[last]--;
}

int gauge_each(const struct gauge *g, int (*fn)(void *ctx, uint64_t at_ns, double value), void *ctx)
{
	int64_t whole = 0;
	double before = -1;

	for (uint32_t i = 0; i < g->n; i++) {
		whole += g->begun[i];
		uint64_t left = g->length_ns - i * g->width_ns;
		uint64_t width = left < g->width_ns ? left : g->width_ns;
		double value = (double)whole + (double)g->partial[i] / (double)width;
		if (value != before)
			TRY(fn(ctx, g->from_ns + i * g->width_ns, value));
		before = value;
	}
	return 0;
}
