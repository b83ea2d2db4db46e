/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tables for a terminal of any width. A column with the same value in all rows is left out, and a
 * line below the table has the value. If the table is too wide, further columns are left out, those
 * with the highest rank first, until names have room; a name that is too long even then is
 * shortened, but no two rows become equal.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct table_column {
	const char *title;
	unsigned rank;	    /* 0: is never left out */
	unsigned min_width; /* of a flexible column (a name), else 0 */
	bool align_left;    /* aligned to the left */
	bool cut_end;	    /* a sentence: if too long, it is cut at its end */
};

struct table {
	const struct table_column *columns;
	size_t n_columns;
	char **cells; /* row by row */
	size_t n_cells;
	bool failed;
};

void table_init(struct table *t, const struct table_column *columns, size_t n_columns);
void table_done(struct table *t);
/* The next cell, row by row from the left. The text is copied, and must be safe for a terminal. */
void table_cell(struct table *t, const char *text);
void table_printf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* width 0: no limit, and no column is left out. `indent` spaces precede each line; `style` and
 * `style_end`, if not NULL, enclose the head. The line about left-out columns may be wider than
 * `width`: text_wrap() breaks it. */
void table_write(const struct table *t, struct buf *out, unsigned width, unsigned indent,
		 const char *style, const char *style_end);
