/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files of tables (row_files.h). */
#include "export/row_files.h"

#include "base/error.h"

#include <errno.h>

static int open_one(struct row_files *f, enum table table, FILE *file, struct error *err)
{
	if (!file)
		return err ? err->code : -EIO;
	if (out_init(&f->outs[table], file) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	f->of[table] = &f->outs[table];
	return 0;
}

int row_files_open(struct row_files *f, const struct export_options *opt, FILE *file, bool together,
		   struct error *err)
{
	*f = (struct row_files){0};
	if (opt->folder) {
		for (enum table t = 0; t < TABLE_N; t++)
			TRY(open_one(f, t,
				     opt->folder->open(opt->folder->ctx, row_tables[t].name, err),
				     err));
		return 0;
	}
	enum table only = opt->table ? row_table_find(opt->table) : TABLE_POLLS;
	TRY(open_one(f, only, file, err));
	for (enum table t = 0; together && !opt->table && t < TABLE_N; t++)
		f->of[t] = &f->outs[only];
	return 0;
}

int row_files_end(struct row_files *f, int r, struct error *err)
{
	for (enum table t = 0; t < TABLE_N; t++)
		if (f->outs[t].data)
			r = out_end(&f->outs[t], r, err);
	return r;
}

void row_files_summary(const struct row_files *f, struct export_summary *ret)
{
	*ret = (struct export_summary){.rows = f->n_rows, .row_name = "rows"};
	for (enum table t = 0; t < TABLE_N; t++)
		ret->bytes += f->outs[t].bytes;
}

void row_files_done(struct row_files *f)
{
	for (enum table t = 0; t < TABLE_N; t++)
		out_done(&f->outs[t]);
}
