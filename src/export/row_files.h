/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the rows of tables (rows.h) go: a file per table, one table alone, or all into one file. */
#pragma once

#include "export/out.h"
#include "export/rows.h"

struct row_files {
	struct out outs[TABLE_N];
	struct out *of[TABLE_N]; /* NULL: the table is not wanted */
	uint64_t n_rows;
};

/* opt->folder: a file per table there. Else all into `file`: of all tables if `together` and none is
 * chosen, or of one, opt->table or the polls. 0 or negative errno with a sentence. */
int row_files_open(struct row_files *f, const struct export_options *opt, FILE *file, bool together,
		   struct error *err);
/* After an export that gave r: flushes all. r, or what failed, as out_end(). */
int row_files_end(struct row_files *f, int r, struct error *err);
void row_files_summary(const struct row_files *f, struct export_summary *ret);
void row_files_done(struct row_files *f);
