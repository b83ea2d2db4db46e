/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Lays out tables (table.h). Widths are counted in terminal columns, not in bytes: names of a
 * program may hold anything. The ranges of wide and combining characters are those of Unicode's
 * East Asian Width (W, F) and general category Mn that are in use for letters and emoji; the C
 * library's wcwidth() would depend on the locale.
 */
#include "report/table.h"

#include "base/text.h"
#include "base/vec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GAP 2

struct char_range {
	uint32_t first, last;
};

static const struct char_range wide[] = {
	{0x1100, 0x115f},   {0x2e80, 0x303e},	{0x3041, 0x33ff},   {0x3400, 0x4dbf},
	{0x4e00, 0x9fff},   {0xa000, 0xa4cf},	{0xac00, 0xd7a3},   {0xf900, 0xfaff},
	{0xfe30, 0xfe6f},   {0xff00, 0xff60},	{0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
	{0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};
static const struct char_range combining[] = {
	{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a},
	{0x064b, 0x065f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff}, {0x200b, 0x200d},
	{0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
};

static bool within(uint32_t point, const struct char_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (point >= ranges[i].first && point <= ranges[i].last)
			return true;
	return false;
}

/* Columns of the character at s; *ret_len bytes. */
static size_t char_width(const char *s, size_t *ret_len)
{
	size_t len = text_utf8(s, strlen(s));
	*ret_len = len ? len : 1;
	if (len <= 1)
		return 1;
	uint32_t point = (unsigned char)s[0] & (0xff >> (len + 1));
	for (size_t i = 1; i < len; i++)
		point = point << 6 | ((unsigned char)s[i] & 0x3f);
	if (within(point, combining, sizeof(combining) / sizeof(combining[0])))
		return 0;
	return within(point, wide, sizeof(wide) / sizeof(wide[0])) ? 2 : 1;
}

size_t table_text_width(const char *text)
{
	size_t width = 0, len;
	for (; *text; text += len)
		width += char_width(text, &len);
	return width;
}

/* As much of the text's begin as fits; returns its width, and the rest. */
static size_t add_head(struct buf *out, const char **text, size_t width)
{
	size_t used = 0, len;
	for (; **text; *text += len) {
		size_t w = char_width(*text, &len);
		if (used + w > width)
			break;
		used += w;
		buf_add(out, *text, len);
	}
	return used;
}

/* The text, cut at the end, with "…" to at most `width` columns. */
static void cut(struct buf *out, const char *text, size_t width)
{
	bool whole = table_text_width(text) <= width;
	add_head(out, &text, whole || !width ? width : width - 1);
	buf_str(out, whole || !width ? "" : "…");
}

void table_shorten(struct buf *out, const char *text, size_t width)
{
	size_t whole = table_text_width(text);
	if (whole <= width || !width) {
		cut(out, text, width);
		return;
	}
	/* The end of a Rust path says more than its begin. */
	size_t used = add_head(out, &text, (width - 1) * 2 / 5), len;
	buf_str(out, "…");
	for (size_t left = whole - used; left > width - 1 - used; text += len)
		left -= char_width(text, &len);
	for (char_width(text, &len); *text && !char_width(text, &len); text += len)
		;
	buf_str(out, text);
}

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

/* Makes the columns fit: 0 for those that go. */
static void fit(const struct table *t, size_t *widths, size_t limit)
{
	size_t *natural = calloc(t->n_columns, sizeof(*natural));
	if (!natural)
		return;
	memcpy(natural, widths, t->n_columns * sizeof(*natural));
	for (size_t i = 0; i < t->n_columns; i++)
		if (t->columns[i].min_width && widths[i] > t->columns[i].min_width)
			widths[i] = t->columns[i].min_width;
	while (total_width(widths, t->n_columns) > limit) {
		size_t last = t->n_columns;
		for (size_t i = 0; i < t->n_columns; i++)
			if (widths[i] && t->columns[i].rank &&
			    (last == t->n_columns || t->columns[i].rank > t->columns[last].rank))
				last = i;
		if (last == t->n_columns)
			break;
		widths[last] = 0;
	}
	/* What is left over goes to the names again, column by column from the left. */
	for (size_t i = 0; i < t->n_columns; i++) {
		size_t total = total_width(widths, t->n_columns);
		if (!widths[i] || total >= limit)
			continue;
		size_t more = natural[i] - widths[i];
		widths[i] += more < limit - total ? more : limit - total;
	}
	free(natural);
}

static void write_row(const struct table *t, struct buf *out, char *const *cells,
		      const size_t *widths, unsigned indent)
{
	size_t pending =
		indent; /* spaces, written only before a text: no blanks at the line's end */
	bool first = true;
	for (size_t i = 0; i < t->n_columns; i++) {
		if (!widths[i])
			continue;
		if (!first)
			pending += GAP;
		first = false;
		_cleanup_buf_ struct buf cell = BUF_INIT;
		(t->columns[i].cut_end ? cut : table_shorten)(
			&cell, cells ? cells[i] : t->columns[i].title, widths[i]);
		const char *text = cell.data ? cell.data : "";
		size_t blank = widths[i] - table_text_width(text);
		if (!t->columns[i].align_left)
			pending += blank;
		if (*text) {
			buf_printf(out, "%*s%s", (int)pending, "", text);
			pending = 0;
		}
		if (t->columns[i].align_left)
			pending += blank;
	}
}

void table_write(const struct table *t, struct buf *out, unsigned width, unsigned indent,
		 const char *style, const char *style_end)
{
	size_t *widths = t->failed ? NULL : calloc(t->n_columns, sizeof(*widths));
	if (!widths) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = table_text_width(t->columns[i].title);
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t w = table_text_width(t->cells[i]);
		if (w > widths[i % t->n_columns])
			widths[i % t->n_columns] = w;
	}
	if (width)
		fit(t, widths, width > indent ? width - indent : 1);
	buf_str(out, style ? style : "");
	write_row(t, out, NULL, widths, indent);
	buf_str(out, style && style_end ? style_end : "");
	buf_char(out, '\n');
	for (size_t i = 0; i + t->n_columns <= t->n_cells; i += t->n_columns) {
		write_row(t, out, &t->cells[i], widths, indent);
		buf_char(out, '\n');
	}
	free(widths);
}
