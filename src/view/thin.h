/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Slices that are too short to be seen one by one. A window is drawn in some number of cells; where
 * several slices are shorter than a cell, and begin in the same one, an answer has their sums:
 *
 *     slices   ▐▌▐▌▌▐▌  ▐████████▌  ▌         ▌▐▌▐▐▌▌
 *     cells   │       │       │       │       │       │
 *     answer   sums     exact        exact      sums
 *
 * So an answer is as long as its picture is wide, however many slices there are.
 */
#pragma once

#include "base/json.h"
#include "index/index.h"
#include "view/common.h"

/* Slices of one row, by begin: items[numbers[i]], or items[i] where numbers is NULL. */
struct slice_row {
	const struct index_span *items;
	const size_t *numbers;
	size_t n;
};

struct thin_cells {
	uint64_t from_ns, to_ns; /* the window */
	uint64_t cell_ns;	 /* 0: every slice is exact */
};

/* Cells of a window that is drawn in up to n; wider ones where the rows would be too much for one answer. */
void thin_choose(struct thin_cells *ret, uint64_t from_ns, uint64_t to_ns, uint64_t n,
		 const struct slice_row *rows, size_t n_rows);
/* "slices", and "thin" if there are any. */
void thin_write(const struct thin_cells *cells, const struct slice_row *row,
		const struct view_source *v, struct view_places *places, struct json *j);
