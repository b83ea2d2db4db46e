/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A trace as tables of rows, for what computes: CSV, JSON lines, SQLite, Parquet. One pass, in bounded
 * memory. docs/export.md documents the tables; the columns' order and names are a contract.
 *
 * There are no nulls: a text that is not known is "", a number -1 where 0 means something, else 0.
 * Times count in ns from the trace's first event.
 */
#pragma once

#include "export/export.h"

/* What tables and columns mean; grows when one changes its meaning. */
#define ROWS_VERSION 1

enum table {
	TABLE_POLLS,
	TABLE_WAITS,
	TABLE_WAKES,
	TABLE_TASKS,
	TABLE_BLOCKING,
	TABLE_PARKS,
	TABLE_FUTURES,
	TABLE_SAMPLES,
	TABLE_OFF_CPU,
	TABLE_SYSCALLS,
	TABLE_THREADS,
	TABLE_LOSSES,
	TABLE_TRACE,
	TABLE_N
};

enum { ROWS_MAX_COLUMNS = 20 };

struct row_column {
	const char *name;
	bool text; /* else a signed 64-bit number */
};

struct table_type {
	const char *name;
	unsigned n_columns;
	struct row_column columns[ROWS_MAX_COLUMNS];
};

extern const struct table_type row_tables[TABLE_N];
/* By name; TABLE_N: there is none. */
enum table row_table_find(const char *name);

/* One value of a row, in the order of the columns. Texts are UTF-8 without hidden characters. */
struct row_cell {
	const char *text; /* NULL: the number */
	int64_t number;
};

/* 0, or a negative errno that ends the pass. */
typedef int (*row_fn)(void *ctx, enum table table, const struct row_cell *cells);

/* All rows of all tables in the order of the timeline, those of TABLE_TRACE last. 0, or negative errno
 * with a sentence; -EPIPE without one. *ret_n: rows. */
int rows_make(struct trace_reader *r, const struct export_options *opt, row_fn fn, void *ctx,
	      struct error *err);
