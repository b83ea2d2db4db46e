/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Outputs of an export (export_output.h). */
#include "cli/export_output.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void output_done(struct output *o)
{
	if (o->file)
		fclose(o->file);
	file_output_done(&o->out);
	free(o->path);
	*o = (struct output)OUTPUT_INIT;
}

int output_open(struct output *o, const char *path, const struct export_ops *ops, struct error *err)
{
	o->replaces =
		(struct file_replaces){ops->begin ? "an export of this format"
						  : "marked as an export (this format has no mark)",
				       ops->begin, ops->begin_len, ops->begin_at};
	o->path = strdup(path);
	if (!o->path)
		return error_set(err, -ENOMEM, "out of memory");
	TRY(file_output_open(&o->out, path, &o->replaces, err));
	int copy = fcntl(o->out.fd, F_DUPFD_CLOEXEC, 3);
	o->file = copy < 0 ? NULL : fdopen(copy, "w");
	if (o->file)
		return 0;
	if (copy >= 0)
		close(copy);
	return error_set(err, -ENOMEM, "out of memory");
}

int output_finish(struct output *o, struct error *err)
{
	int failed = fclose(o->file);

	o->file = NULL;
	return failed ? error_sys(err, -errno, "cannot write %s", o->path)
		      : file_output_place(&o->out, err);
}

/* "trace" of "dir/trace.plx", without what a path or a reader of it would take for something else. */
static void add_name(struct buf *b, const char *input)
{
	const char *slash = strrchr(input, '/'), *name = slash ? slash + 1 : input;
	size_t len = strlen(name);

	if (len > 4 && !strcmp(name + len - 4, ".plx"))
		len -= 4;
	for (size_t i = 0; i < len; i++)
		buf_char(b,
			 isalnum((unsigned char)name[i]) || strchr("-_.", name[i]) ? name[i] : '_');
}

bool output_folder_collides(const char *input, const char *other)
{
	_cleanup_buf_ struct buf a = BUF_INIT, b = BUF_INIT;

	add_name(&a, input);
	add_name(&b, other);
	return !buf_failed(&a) && !buf_failed(&b) && a.len == b.len &&
	       (!a.len || !memcmp(a.data, b.data, a.len));
}

/* Each folder of the path that is not there yet. */
static int make_folders(char *path, struct error *err)
{
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (*path && mkdir(path, 0777) < 0 && errno != EEXIST)
			return error_sys(err, -errno, "cannot make the folder %s", path);
		*slash = '/';
	}
	return 0;
}

FILE *output_folder_open(void *ctx, const char *table, struct error *err)
{
	struct output_folder *f = ctx;
	struct buf path = BUF_INIT;
	struct output *o = &f->files[f->n];
	FILE *file = NULL;

	*o = (struct output)OUTPUT_INIT;
	buf_str(&path, f->path);
	buf_printf(&path, "%s%s/trace=", path.len && path.data[path.len - 1] == '/' ? "" : "/",
		   table);
	add_name(&path, f->input);
	buf_printf(&path, "/data%s", f->ops->extension);
	if (buf_failed(&path) || f->n == sizeof(f->files) / sizeof(f->files[0])) {
		error_set(err, -ENOMEM, "out of memory");
	} else if (make_folders(path.data, err) == 0) {
		f->n++;
		if (output_open(o, path.data, f->ops, err) == 0)
			file = o->file;
	}
	buf_done(&path);
	return file;
}

int output_folder_finish(struct output_folder *f, struct error *err)
{
	for (size_t i = 0; i < f->n; i++)
		TRY(output_finish(&f->files[i], err));
	return 0;
}

void output_folder_done(struct output_folder *f)
{
	for (size_t i = 0; i < f->n; i++)
		output_done(&f->files[i]);
	f->n = 0;
}
