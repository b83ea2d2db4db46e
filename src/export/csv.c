/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Comma-separated values (RFC 4180, lines end with \n) of one table per file, with a line of names.
 * A text that a spreadsheet would take for a formula has an apostrophe before it.
 */
#include "export/formats.h"
#include "export/row_files.h"

#include "base/error.h"

#include <errno.h>

static void put_text(struct out *o, const char *s)
{
	size_t len = strlen(s);
	bool formula = len && strchr("=+-@", *s);

	if (!formula && !strpbrk(s, ",\"")) {
		out_write(o, s, len);
		return;
	}
	out_write(o, formula ? "\"'" : "\"", formula ? 2 : 1);
	for (const char *quote; (quote = strchr(s, '"')); s = quote + 1) {
		out_write(o, s, (size_t)(quote - s));
		out_write(o, "\"\"", 2);
	}
	out_write(o, s, strlen(s));
	out_write(o, "\"", 1);
}

static void put_number(struct out *o, int64_t v)
{
	char *p = out_room(o);

	if (v < 0)
		*p++ = '-';
	out_used(o, put_u64(p, v < 0 ? -(uint64_t)v : (uint64_t)v));
}

static int on_row(void *ctx, enum table table, const struct row_cell *cells)
{
	struct row_files *f = ctx;
	struct out *o = f->of[table];

	if (!o)
		return 0;
	f->n_rows++;
	for (unsigned i = 0; i < row_tables[table].n_columns; i++) {
		if (i)
			out_write(o, ",", 1);
		if (cells[i].text)
			put_text(o, cells[i].text);
		else
			put_number(o, cells[i].number);
	}
	out_write(o, "\n", 1);
	return o->error;
}

static void write_names(struct row_files *f)
{
	for (enum table t = 0; t < TABLE_N; t++) {
		const struct table_type *type = &row_tables[t];

		for (unsigned i = 0; f->of[t] && i < type->n_columns; i++) {
			out_write(f->of[t], i ? "," : "", i > 0);
			out_write(f->of[t], type->columns[i].name, strlen(type->columns[i].name));
		}
		if (f->of[t])
			out_write(f->of[t], "\n", 1);
	}
}

static int csv_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
		     struct export_summary *ret_summary, struct error *err)
{
	struct row_files f;
	int r = row_files_open(&f, opt, file, false, err);

	if (r == 0) {
		write_names(&f);
		r = rows_make(reader, opt, on_row, &f, err);
		r = row_files_end(&f, r, err);
	}
	row_files_summary(&f, ret_summary);
	row_files_done(&f);
	return r;
}

const struct export_ops export_csv = {
	.name = "csv",
	.extension = ".csv",
	.viewers = "spreadsheets, databases",
	.reads = "excel libreoffice",
	.tables = true,
	.write = csv_write,
};
