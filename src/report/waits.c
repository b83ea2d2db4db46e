/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * "Where tasks wait", for people. Items of the data that differ only in what a text does not show, such
 * as the innermost of several futures of libraries (a moment and the agent may know different ones), are
 * one row.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/hash.h"
#include "base/text.h"
#include "report/text_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wait_row {
	const struct wait_place *first;
	size_t order; /* of that */
	struct buf awaits, owner;
	struct hist waits;
};

struct wait_rows {
	struct wait_row *v;
	size_t n;
};

static void rows_done(struct wait_rows *rows)
{
	for (size_t i = 0; i < rows->n; i++) {
		buf_done(&rows->v[i].awaits);
		buf_done(&rows->v[i].owner);
		hist_done(&rows->v[i].waits);
	}
	free(rows->v);
}

/* What is awaited there; where a future in a box has it, what that awaits. And of how many resources,
 * if of several. */
static void put_awaits(const struct report *rep, const struct wait_place *w, struct buf *out)
{
	const struct trace_place *p = report_place(rep, w->place);
	const struct trace_place *leaf = report_leaf(rep, w->place);
	bool boxed = leaf && p && p->flags & TRACE_PLACE_BRANCHES;

	if (p)
		text_safe(out, boxed && *leaf->awaits ? leaf->awaits : p->awaits);
	resources_count_text(out, w);
}

static bool same_text(const struct buf *a, const struct buf *b)
{
	return a->len == b->len && (!a->len || !memcmp(a->data, b->data, a->len));
}

static uint64_t hash_row(const struct wait_row *row, const struct trace_place *p)
{
	uint64_t hash = p ? hash_string(p->line, p->function) : 0;

	hash = hash_string(hash, row->awaits.data ? row->awaits.data : "");
	return hash_string(hash, row->owner.data ? row->owner.data : "");
}

/* -ENOMEM */
static int add(const struct report *rep, struct wait_rows *rows, struct map *known, size_t i)
{
	const struct wait_place *w = rep->waits[i];
	const struct trace_place *p = report_place(rep, w->place);
	struct wait_row *row = &rows->v[rows->n], *other;
	uint64_t hash;

	*row = (struct wait_row){.first = w, .order = i, .awaits = BUF_INIT, .owner = BUF_INIT};
	put_awaits(rep, w, &row->awaits);
	report_owner(rep, &row->owner, w->family->kind, w->handler);
	hash = hash_row(row, p);
	other = map_get(known, hash, 0);
	if (other && same_text(&other->awaits, &row->awaits) &&
	    same_text(&other->owner, &row->owner) &&
	    report_same_place(report_place(rep, other->first->place), p)) {
		buf_done(&row->awaits);
		buf_done(&row->owner);
		return hist_merge(&other->waits, &w->waits);
	}
	rows->n++;
	TRY(hist_copy(&w->waits, &row->waits));
	return other ? 0 : map_put(known, hash, 0, row);
}

static int longer(const void *a, const void *b)
{
	const struct wait_row *x = a, *y = b;

	return DESCENDING(x->waits.sum, y->waits.sum) ?: ASCENDING(x->order, y->order);
}

static int make_rows(const struct report *rep, struct wait_rows *ret)
{
	_cleanup_(map_done) struct map known = {0};
	int rc = 0;

	ret->v = calloc(rep->n_waits, sizeof(*ret->v));
	if (!ret->v)
		return -ENOMEM;
	for (size_t i = 0; i < rep->n_waits && rc == 0; i++)
		rc = add(rep, ret, &known, i);
	qsort(ret->v, ret->n, sizeof(*ret->v), longer);
	return rc;
}

void waits_text(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "await point", .min_width = 24, .align_left = true},
		{.title = "for", .rank = 2, .min_width = 16, .align_left = true},
		{.title = "family", .rank = 1, .min_width = 16, .align_left = true},
		{.title = "waits"},
		{.title = "total"},
		{.title = "p50", .rank = 4},
		{.title = "p99", .rank = 3},
		{.title = "max"},
	};
	_cleanup_(rows_done) struct wait_rows rows = {0};
	size_t n = rep->opt.n_families;
	struct table t;

	if (!rep->n_waits)
		return;
	if (make_rows(rep, &rows) < 0) {
		out->failed = true;
		return;
	}
	report_title(rep, out, "Where tasks wait");
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	n = n && n < rows.n ? n : rows.n;
	for (size_t i = 0; i < n; i++) {
		const struct wait_row *row = &rows.v[i];

		cell_place(&t, report_place(rep, row->first->place));
		table_cell(&t, row->awaits.data ? row->awaits.data : "");
		table_cell(&t, row->owner.data ? row->owner.data : "?");
		cell_count(&t, row->waits.count);
		cell_time(&t, row->waits.sum);
		cell_time(&t, hist_quantile(&row->waits, 0.5));
		cell_time(&t, hist_quantile(&row->waits, 0.99));
		cell_time(&t, row->waits.max);
	}
	report_table(rep, &t, out);
	if (n < rows.n)
		buf_printf(out, "  and %zu more: --top %zu\n", rows.n - n, rows.n);
	if (rep->n_unplaced) {
		buf_str(out, "  plus ");
		report_exact_of(out, rep->n_unplaced, "wait", "waits");
		buf_str(out, " at unknown places\n");
	}
}
