/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tables for a terminal of any width. Columns are in the order of their interest. A column that says
 * the same in all rows goes, and a line below the table says it once. Where the width does not
 * suffice, columns go, those with the highest rank first, until names have room; a name that is too
 * long even then is shortened. No two rows read the same.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct table_column {
	const char *title;
	unsigned rank;	    /* 0: does not go */
	unsigned min_width; /* of a flexible column (a name), else 0 */
	bool align_left;    /* aligned to the left */
	bool cut_end;	    /* a sentence: what is too long goes at its end */
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
/* width 0: no limit, and no column goes. `indent` spaces precede each line; before the head `style`
 * and after it the style's end if not NULL. The line about equal columns may be wider than `width`,
 * for text_wrap() to break. */
void table_write(const struct table *t, struct buf *out, unsigned width, unsigned indent,
		 const char *style, const char *style_end);
