/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* JSON lines: an object per row, with the name of its table; in one file or one per table. */
#include "export/formats.h"
#include "export/row_files.h"

#include "base/error.h"
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>

struct jsonl {
	struct row_files files;
	struct buf line;
};

static int on_row(void *ctx, enum table table, const struct row_cell *cells)
{
	struct jsonl *l = ctx;
	const struct table_type *type = &row_tables[table];
	struct out *o = l->files.of[table];
	struct buf *b = &l->line;

	if (!o)
		return 0;
	l->files.n_rows++;
	buf_clear(b);
	buf_str(b, "{\"table\":\"");
	buf_str(b, type->name);
	buf_char(b, '"');
	for (unsigned i = 0; i < type->n_columns; i++) {
		buf_str(b, ",\"");
		buf_str(b, type->columns[i].name);
		buf_str(b, "\":");
		if (cells[i].text) {
			json_quote(b, cells[i].text);
		} else if (cells[i].number < 0) {
			buf_char(b, '-');
			buf_u64(b, -(uint64_t)cells[i].number);
		} else {
			buf_u64(b, (uint64_t)cells[i].number);
		}
	}
	buf_str(b, "}\n");
	if (buf_failed(b))
		return -ENOMEM;
	out_write(o, b->data, b->len);
	return o->error;
}

static int jsonl_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
		       struct export_summary *ret_summary, struct error *err)
{
	struct jsonl l = {0};
	int r = row_files_open(&l.files, opt, file, true, err);

	if (r == 0) {
		r = rows_make(reader, opt, on_row, &l, err);
		if (r == -ENOMEM)
			error_set(err, r, "out of memory");
		r = row_files_end(&l.files, r, err);
	}
	row_files_summary(&l.files, ret_summary);
	row_files_done(&l.files);
	buf_done(&l.line);
	return r;
}

const struct export_ops export_jsonl = {
	.name = "jsonl",
	.extension = ".jsonl",
	.viewers = "jq, log stores",
	.reads = "jq",
	.tables = true,
	.write = jsonl_write,
};
