/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums of short slices by cells: see thin.h. */
#include "view/thin.h"

#include "base/vec.h"
#include "view/slices.h"

#include <stdlib.h>
#include <string.h>

/* Short slices in one cell that are still exact. */
#define FEW 3u
/* In one answer. */
#define MAX_EXACT 5000u
#define MAX_SUMS 20000u

struct thin_sum {
	uint64_t cell, n, ns[SPAN_N];
};

struct thin_sums {
	struct thin_sum *items; /* by cell */
	size_t n, cap;
	bool failed;
};

static const struct index_span *slice_at(const struct slice_row *row, size_t i)
{
	return &row->items[row->numbers ? row->numbers[i] : i];
}

static bool is_short(const struct thin_cells *c, const struct index_span *s)
{
	return s->end_ns - s->begin_ns < c->cell_ns;
}

/* What began before the window is in the first cell. */
static uint64_t cell_of(const struct thin_cells *c, uint64_t ns)
{
	return ns > c->from_ns ? (ns - c->from_ns) / c->cell_ns : 0;
}

/* Slices from i on up to the end of the cell in which the first short one begins; *ret_short: how many are short. */
static size_t end_of_cell(const struct thin_cells *c, const struct slice_row *row, size_t i,
			  size_t *ret_short)
{
	uint64_t cell = 0;

	for (*ret_short = 0; i < row->n; i++) {
		const struct index_span *s = slice_at(row, i);

		if (!is_short(c, s))
			continue;
		if (!*ret_short)
			cell = cell_of(c, s->begin_ns);
		else if (cell_of(c, s->begin_ns) != cell)
			break;
		++*ret_short;
	}
	return i;
}

static bool fits(const struct thin_cells *c, const struct slice_row *rows, size_t n_rows)
{
	size_t exact = 0, sums = 0, n_short;

	for (size_t r = 0; r < n_rows; r++) {
		for (size_t i = 0, end; i < rows[r].n; i = end) {
			end = end_of_cell(c, &rows[r], i, &n_short);
			exact += end - i - (n_short > FEW ? n_short : 0);
			sums += n_short > FEW;
		}
	}
	return exact <= MAX_EXACT && sums <= MAX_SUMS;
}

void thin_choose(struct thin_cells *ret, uint64_t from_ns, uint64_t to_ns, uint64_t n,
		 const struct slice_row *rows, size_t n_rows)
{
	uint64_t window = to_ns - from_ns;

	*ret = (struct thin_cells){from_ns, to_ns, window / n + (window % n != 0)};
	while (!fits(ret, rows, n_rows) && ret->cell_ns < window)
		ret->cell_ns *= 2;
}

/* The sum of a cell, which is the last one or the one before. */
static struct thin_sum *sum_of(struct thin_sums *sums, uint64_t cell)
{
	for (size_t i = sums->n; i > 0 && i + 2 > sums->n; i--)
		if (sums->items[i - 1].cell == cell)
			return &sums->items[i - 1];
	if (sums->failed || !GROW(sums->items, sums->n, sums->cap)) {
		sums->failed = true;
		return NULL;
	}
	sums->items[sums->n] = (struct thin_sum){.cell = cell};
	return &sums->items[sums->n++];
}

/* A slice that is shorter than a cell is in one or two. */
static void add_short(const struct thin_cells *c, const struct index_span *s,
		      struct thin_sums *sums)
{
	uint64_t begin = s->begin_ns > c->from_ns ? s->begin_ns : c->from_ns;
	uint64_t end = s->end_ns < c->to_ns ? s->end_ns : c->to_ns;
	uint64_t cell = cell_of(c, begin), next = c->from_ns + (cell + 1) * c->cell_ns;
	struct thin_sum *sum = sum_of(sums, cell);

	if (!sum)
		return;
	sum->n++;
	if (end <= begin)
		return;
	sum->ns[s->type] += (end < next ? end : next) - begin;
	if (end <= next)
		return;
	sum = sum_of(sums, cell + 1);
	if (sum)
		sum->ns[s->type] += end - next;
}

static void write_sums(const struct thin_cells *c, const struct thin_sums *sums, struct json *j)
{
	json_object(j, "thin");
	json_u64(j, "cell_ns", c->cell_ns);
	json_array(j, "cell");
	for (size_t i = 0; i < sums->n; i++)
		json_u64(j, NULL, sums->items[i].cell);
	json_end_array(j);
	json_array(j, "n");
	for (size_t i = 0; i < sums->n; i++)
		json_u64(j, NULL, sums->items[i].n);
	json_end_array(j);
	for (unsigned type = 0; type < SPAN_N; type++) {
		bool any = false;

		for (size_t i = 0; i < sums->n && !any; i++)
			any = sums->items[i].ns[type];
		if (!any)
			continue;
		json_array(j, slice_kind(type));
		for (size_t i = 0; i < sums->n; i++)
			json_u64(j, NULL, sums->items[i].ns[type]);
		json_end_array(j);
	}
	json_end_object(j);
}

void thin_write(const struct thin_cells *c, const struct slice_row *row,
		const struct view_source *v, struct view_places *places, struct json *j)
{
	struct thin_sums sums = {0};

	json_array(j, "slices");
	for (size_t i = 0, end, n_short; i < row->n; i = end) {
		end = end_of_cell(c, row, i, &n_short);
		for (; i < end; i++) {
			const struct index_span *s = slice_at(row, i);

			if (n_short > FEW && is_short(c, s))
				add_short(c, s, &sums);
			else
				slice_write(v, s, places, j);
		}
	}
	json_end_array(j);
	if (sums.n)
		write_sums(c, &sums, j);
	j->out->failed |= sums.failed;
	free(sums.items);
}
