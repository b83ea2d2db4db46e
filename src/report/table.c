/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lays out tables (table.h). First go the columns that say the same in all rows, then names get
 * their room, then columns go until the rest fits, then names get what is left over. Last it is
 * seen to that no two rows read the same: names that were cut alike are cut from where they differ,
 * and what reads the same even then is numbered, as are different names that were cut alike in rows
 * that differ.
 */
#include "report/table.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/text_fit.h"
#include "base/vec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2
#define LITTLE_NAME 32u /* before columns go */
#define LEAST_NAME 8u
#define NUMBER_WIDTH 4u /* " #12" */

void table_init(struct table *t, const struct table_column *columns, size_t n_columns)
{
	*t = (struct table){.columns = columns, .n_columns = n_columns};
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){0};
}

void table_cell(struct table *t, const char *text)
{
	t->failed = t->failed || !GROW_ONE(t->cells, t->n_cells);
	char *copy = t->failed ? NULL : strdup(text);
	if (copy)
		t->cells[t->n_cells++] = copy;
	else
		t->failed = true;
}

void table_printf(struct table *t, const char *fmt, ...)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	table_cell(t, b.data ? b.data : "");
}

static size_t total_width(const size_t *widths, size_t n)
{
	size_t sum = 0;
	for (size_t i = 0; i < n; i++)
		if (widths[i])
			sum += widths[i] + (sum ? GAP : 0);
	return sum;
}

/* ---- widths ---- */

static bool is_name(const struct table_column *c)
{
	return c->min_width && !c->cut_end;
}

/* The column that says what a row is about. */
static size_t first_name(const struct table *t)
{
	size_t left = 0;

	for (size_t i = t->n_columns; i-- > 0;)
		left = t->columns[i].align_left ? i : left;
	for (size_t i = 0; i < t->n_columns; i++)
		if (is_name(&t->columns[i]))
			return i;
	return left;
}

static size_t n_rows(const struct table *t)
{
	return t->n_cells / t->n_columns;
}

static const char *cell(const struct table *t, size_t row, size_t column)
{
	return t->cells[row * t->n_columns + column];
}

static void drop_equal(const struct table *t, size_t *widths, struct buf *same)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		size_t row = 1;

		while (row < n_rows(t) && !strcmp(cell(t, row, i), cell(t, 0, i)))
			row++;
		if (!t->columns[i].rank || !n_rows(t) || row < n_rows(t) ||
		    (n_rows(t) == 1 && *cell(t, 0, i)))
			continue;
		widths[i] = 0;
		if (*cell(t, 0, i) && strcmp(cell(t, 0, i), "-") != 0)
			buf_printf(same, "%s%s %s", same->len ? ", " : "", t->columns[i].title,
				   cell(t, 0, i));
	}
}

/* What the first name has before columns go. */
static size_t name_room(const struct table_column *c, size_t limit)
{
	size_t room = limit * 2 / 5 > LITTLE_NAME ? limit * 2 / 5 : LITTLE_NAME;

	return room > c->min_width ? room : c->min_width;
}

static void shrink(const struct table *t, size_t *widths, size_t column, size_t to)
{
	if (t->columns[column].min_width && widths[column] > to)
		widths[column] = to;
}

/* The column that goes next, n_columns: none may. */
static size_t least_wanted(const struct table *t, const size_t *widths)
{
	size_t last = t->n_columns;

	for (size_t i = 0; i < t->n_columns; i++)
		if (widths[i] && t->columns[i].rank &&
		    (last == t->n_columns || t->columns[i].rank > t->columns[last].rank))
			last = i;
	return last;
}

/* Where even the columns that never go don't fit. */
static void squeeze(const struct table *t, size_t *widths, size_t limit)
{
	size_t name = first_name(t);

	shrink(t, widths, name, t->columns[name].min_width);
	for (size_t i = t->n_columns; i-- > 0 && total_width(widths, t->n_columns) > limit;)
		shrink(t, widths, i, LEAST_NAME);
	for (size_t i = t->n_columns; i-- > 0 && total_width(widths, t->n_columns) > limit;)
		if (i != name)
			widths[i] = 0;
	if (total_width(widths, t->n_columns) > limit)
		widths[name] = limit;
}

/* Makes the columns fit: 0 for those that go. */
static void fit(const struct table *t, size_t *widths, size_t limit)
{
	_cleanup_free_ size_t *natural = calloc(t->n_columns, sizeof(*natural));
	size_t name = first_name(t), last, room, total;

	if (!natural)
		return;
	memcpy(natural, widths, t->n_columns * sizeof(*natural));
	room = name_room(&t->columns[name], limit);
	for (size_t i = 0; i < t->n_columns; i++)
		shrink(t, widths, i, i == name ? room : t->columns[i].min_width);
	while ((total = total_width(widths, t->n_columns)) > limit) {
		/* Rather than that a column goes, the name gives up a little. */
		if (widths[name] >= total - limit + room * 3 / 4 &&
		    widths[name] >= total - limit + t->columns[name].min_width) {
			shrink(t, widths, name, widths[name] - (total - limit));
			break;
		}
		if ((last = least_wanted(t, widths)) == t->n_columns)
			break;
		widths[last] = 0;
	}
	if (total_width(widths, t->n_columns) > limit)
		squeeze(t, widths, limit);
	/* What is left over goes to the names again, column by column from the first. */
	for (size_t k = 0; k < t->n_columns; k++) {
		size_t i = (name + k) % t->n_columns;

		total = total_width(widths, t->n_columns);
		if (!widths[i] || total >= limit)
			continue;
		size_t more = natural[i] - widths[i];
		widths[i] += more < limit - total ? more : limit - total;
	}
}

/* ---- rows ---- */

struct table_layout {
	const struct table *t;
	size_t *widths;
	unsigned indent;
	size_t room;	/* columns that are left over */
	char **instead; /* texts in place of cells, as wide as the column at most; NULL: none */
};

/* As wide as its column at most. `row`: SIZE_MAX for the titles. */
static void fit_cell(const struct table_layout *l, struct buf *out, size_t row, size_t column)
{
	const struct table *t = l->t;
	const struct table_column *c = &t->columns[column];
	const char *instead = row == SIZE_MAX ? NULL : l->instead[row * t->n_columns + column];
	const char *whole = row == SIZE_MAX ? c->title : cell(t, row, column);

	if (instead)
		buf_str(out, instead);
	else if (c->cut_end)
		text_cut(out, whole, l->widths[column]);
	else
		text_shorten(out, whole, l->widths[column]);
}

static void write_row(const struct table_layout *l, struct buf *out, size_t row)
{
	const struct table *t = l->t;
	/* spaces, written only before a text: no blanks at the line's end */
	size_t pending = l->indent;
	bool first = true;

	for (size_t i = 0; i < t->n_columns; i++) {
		_cleanup_buf_ struct buf fitted = BUF_INIT;

		if (!l->widths[i])
			continue;
		if (!first)
			pending += GAP;
		first = false;
		fit_cell(l, &fitted, row, i);
		const char *text = fitted.data ? fitted.data : "";
		size_t blank = l->widths[i] - text_width(text);
		if (!t->columns[i].align_left)
			pending += blank;
		if (*text) {
			buf_printf(out, "%*s%s", (int)pending, "", text);
			pending = 0;
		}
		if (t->columns[i].align_left)
			pending += blank;
	}
	buf_char(out, '\n');
}

struct row_text {
	struct buf text;
	size_t row;
};

static int by_text(const void *a, const void *b)
{
	const struct row_text *x = a, *y = b;
	int r = strcmp(x->text.data ? x->text.data : "", y->text.data ? y->text.data : "");

	return r ?: ASCENDING(x->row, y->row);
}

static bool same_text(const struct row_text *x, const struct row_text *y)
{
	return x->text.len == y->text.len &&
	       (!x->text.len || !memcmp(x->text.data, y->text.data, x->text.len));
}

static void replace(const struct table_layout *l, size_t row, size_t column, struct buf *text)
{
	char **place = &l->instead[row * l->t->n_columns + column];

	free(*place);
	*place = buf_steal(text);
}

/* Cuts the names of rows that read the same from where they begin to differ, if they do. */
static void cut_apart(const struct table_layout *l, const struct row_text *rows, size_t n)
{
	const struct table *t = l->t;
	bool done = false;

	for (size_t i = 0; i < t->n_columns && !done; i++) {
		const char *first = cell(t, rows[0].row, i);
		size_t alike = strlen(first);

		for (size_t k = 1; k < n; k++) {
			const char *other = cell(t, rows[k].row, i);
			size_t same = 0;

			while (same < alike && first[same] == other[same])
				same++;
			done = done || other[same] || first[same];
			alike = same;
		}
		done = done && l->widths[i] && is_name(&t->columns[i]);
		for (size_t k = 0; k < n && done; k++) {
			_cleanup_buf_ struct buf text = BUF_INIT;

			text_shorten_from(&text, cell(t, rows[k].row, i), alike, l->widths[i]);
			replace(l, rows[k].row, i, &text);
		}
	}
}

static void number(const struct table_layout *l, const struct row_text *rows, size_t n)
{
	size_t name = first_name(l->t);

	for (size_t k = 0; k < n; k++) {
		_cleanup_buf_ struct buf text = BUF_INIT, mark = BUF_INIT;
		const char *old = l->instead[rows[k].row * l->t->n_columns + name];

		buf_printf(&mark, " #%zu", k + 1);
		if (mark.len >= l->widths[name])
			continue;
		text_shorten(&text, old ? old : cell(l->t, rows[k].row, name),
			     l->widths[name] - mark.len);
		buf_str(&text, mark.data);
		replace(l, rows[k].row, name, &text);
	}
}

/* Whether they have different names. */
static bool names_differ(const struct table *t, const struct row_text *rows, size_t n)
{
	size_t name = first_name(t);

	for (size_t k = 1; k < n; k++)
		if (strcmp(cell(t, rows[0].row, name), cell(t, rows[k].row, name)) != 0)
			return true;
	return false;
}

/* Rows that read the same, or whose different names do (`of_names`): their names are cut in another
 * way, or numbered. */
static void distinguish(struct table_layout *l, struct row_text *rows, size_t n, bool of_names,
			bool by_number)
{
	size_t name = first_name(l->t), k;

	for (size_t i = 0; i < n; i++) {
		buf_clear(&rows[i].text);
		if (of_names)
			fit_cell(l, &rows[i].text, rows[i].row, name);
		else
			write_row(l, &rows[i].text, rows[i].row);
	}
	qsort(rows, n, sizeof(*rows), by_text);
	for (size_t i = 0; i < n; i = k) {
		for (k = i + 1; k < n && same_text(&rows[i], &rows[k]);)
			k++;
		if (k - i < 2 || (of_names && !names_differ(l->t, &rows[i], k - i)))
			continue;
		if (!by_number) {
			cut_apart(l, &rows[i], k - i);
			continue;
		}
		if (l->room >= NUMBER_WIDTH)
			l->widths[name] += NUMBER_WIDTH;
		l->room = 0;
		number(l, &rows[i], k - i);
	}
}

static void write_rows(struct table_layout *l, struct buf *out, const char *style,
		       const char *style_end)
{
	size_t n = n_rows(l->t);
	struct row_text *rows = calloc(n + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < n; i++)
		rows[i].row = i;
	if (rows) {
		distinguish(l, rows, n, false, false);
		distinguish(l, rows, n, true, true);
		distinguish(l, rows, n, false, true);
	}
	buf_str(out, style ? style : "");
	write_row(l, out, SIZE_MAX);
	if (style && style_end && out->len) {
		out->len--; /* the style ends before the line does */
		buf_str(out, style_end);
		buf_char(out, '\n');
	}
	for (size_t i = 0; i < n; i++)
		write_row(l, out, i);
	for (size_t i = 0; rows && i < n; i++)
		buf_done(&rows[i].text);
	free(rows);
}

void table_write(const struct table *t, struct buf *out, unsigned width, unsigned indent,
		 const char *style, const char *style_end)
{
	_cleanup_free_ size_t *widths = t->failed ? NULL : calloc(t->n_columns, sizeof(*widths));
	char **instead = t->failed ? NULL : calloc(t->n_cells + 1, sizeof(*instead));
	struct table_layout l = {.t = t, .widths = widths, .indent = indent, .instead = instead};
	size_t limit = width > indent ? width - indent : 1;
	_cleanup_buf_ struct buf same = BUF_INIT;

	if (!widths || !instead) {
		free(instead);
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = text_width(t->columns[i].title);
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t w = text_width(t->cells[i]);
		if (w > widths[i % t->n_columns])
			widths[i % t->n_columns] = w;
	}
	if (width) {
		drop_equal(t, widths, &same);
		fit(t, widths, limit);
	}
	l.room = width ? limit - total_width(widths, t->n_columns) : NUMBER_WIDTH;
	write_rows(&l, out, style, style_end);
	if (same.len)
		buf_printf(out, "%*sin all rows: %s\n", (int)indent, "", same.data);
	for (size_t i = 0; i < t->n_cells; i++)
		free(instead[i]);
	free(instead);
}
