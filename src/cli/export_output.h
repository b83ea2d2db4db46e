/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The files that an export writes: one, or a folder of tables. They get their names when all is whole. */
#pragma once

#include "base/file.h"
#include "export/export.h"

#include <stdio.h>

struct output {
	struct file_replaces replaces;
	struct file_output out;
	FILE *file;
	char *path;
};
#define OUTPUT_INIT                                                                                \
	{                                                                                          \
		.out = FILE_OUTPUT_INIT                                                            \
	}

/* Opens `path`, or "-"; replaces exports of this format only. 0 or negative errno with a sentence. */
int output_open(struct output *o, const char *path, const struct export_ops *ops,
		struct error *err);
/* All is written: the file gets its name. */
int output_finish(struct output *o, struct error *err);
void output_done(struct output *o);

/* A folder that gets a file per table, TABLE/trace=NAME/data.EXTENSION: engines read all of a table as
 * one, with the trace's name as a column. */
struct output_folder {
	const char *path, *input;
	const struct export_ops *ops;
	struct output files[32];
	size_t n;
};
/* Both traces would get the same files in such a folder. */
bool output_folder_collides(const char *input, const char *other);
/* As struct export_folder wants it. */
FILE *output_folder_open(void *ctx, const char *table, struct error *err);
int output_folder_finish(struct output_folder *f, struct error *err);
void output_folder_done(struct output_folder *f);
