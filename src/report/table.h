/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tables for a terminal of any width. Columns are in the order of their interest; where the width
 * does not suffice, the flexible ones (names) shrink to their least width, cut in the middle, and
 * then whole columns go, those with the highest rank first.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct table_column {
	const char *title;
	unsigned rank;	    /* 0: never goes */
	unsigned min_width; /* of a flexible column, else 0 */
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
/* width 0: no limit. `indent` spaces precede each line; before the head `style` and after it the
 * style's end if not NULL. */
void table_write(const struct table *t, struct buf *out, unsigned width, unsigned indent,
		 const char *style, const char *style_end);

/* Columns that the text takes on a terminal: UTF-8, wide and combining characters. */
size_t table_text_width(const char *text);
/* The text, cut in the middle, with "…" to at most `width` columns. */
void table_shorten(struct buf *out, const char *text, size_t width);
