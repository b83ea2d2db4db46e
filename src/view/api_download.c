/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The trace, or a part of it, as a file: as a trace, or in a format that other viewers read. */
#include "base/cleanup.h"
#include "base/file.h"
#include "export/export.h"
#include "trace/cut.h"
#include "view/answer.h"
#include "view/common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A name of harmless characters: it goes into a header. */
static void begin_file(int fd, const struct view_source *v, const char *type, const char *extension)
{
	const char *slash = strrchr(v->path, '/'), *name = slash ? slash + 1 : v->path;
	_cleanup_buf_ struct buf safe = BUF_INIT;
	size_t len = strlen(name);

	if (len > 4 && !strcmp(name + len - 4, ".plx"))
		len -= 4;
	for (size_t i = 0; i < len && i < 64; i++) {
		bool harmless = (name[i] >= 'a' && name[i] <= 'z') ||
				(name[i] >= 'A' && name[i] <= 'Z') ||
				(name[i] >= '0' && name[i] <= '9') || (i && strchr("._-", name[i]));
		buf_char(&safe, harmless ? name[i] : '_');
	}
	buf_str(&safe, extension);
	view_begin(fd, 200, type, safe.data ? safe.data : "trace");
}

static int copy_all(int from, int to)
{
	_cleanup_free_ char *part = malloc(1 << 18);
	ssize_t n = 0;

	if (!part)
		return -ENOMEM;
	for (off_t at = 0; (n = pread(from, part, 1 << 18, at)) > 0; at += n)
		for (ssize_t done = 0; done < n;) {
			ssize_t more = write(to, part + done, (size_t)(n - done));
			if (more < 0 && errno != EINTR)
				return -errno;
			done += more > 0 ? more : 0;
		}
	return n < 0 ? -errno : 0;
}

static int send_trace(const struct view_source *v, const struct view_request *q, int fd,
		      struct error *err)
{
	uint64_t *offsets = NULL;
	struct view_window w;
	size_t n = 0;

	if (request_param(q, "from") || request_param(q, "to")) {
		TRY(view_window(v, q, &w, err));
		TRY(index_chunks(v->index, w.from_ns, w.to_ns, UINT64_MAX, &offsets, &n, err));
		begin_file(fd, v, "application/octet-stream", "-part.plx");
		return trace_cut(v->trace, fd, offsets, n, err);
	}
	begin_file(fd, v, "application/octet-stream", ".plx");
	int code = copy_all(v->trace, fd);
	return code < 0 ? error_sys(err, code, "cannot copy the trace") : 0;
}

static const char *type_of(const char *extension)
{
	size_t len = strlen(extension);

	return len > 5 && !strcmp(extension + len - 5, ".json") ? "application/json"
								: "application/octet-stream";
}

static int send_export(const struct view_source *v, const struct view_request *q,
		       const struct export_ops *ops, int fd, struct error *err)
{
	struct export_options opt = {.filter = {.lenient = true}};
	struct export_summary summary = {0};
	struct trace_reader *reader;

	if (request_u64(q, "from", &opt.filter.from_ns) < 0 ||
	    request_u64(q, "to", &opt.filter.to_ns) < 0)
		return error_set(err, -EINVAL, "from and to are numbers of ns");
	TRY(view_reader(v, &reader, err));
	begin_file(fd, v, type_of(ops->extension), ops->extension);
	int copy = dup(fd);
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");
	if (!out)
		return error_set(err, -ENOMEM, "out of memory");
	int code = ops->write(reader, &opt, out, &summary, err);
	if (fclose(out) && code == 0)
		code = error_sys(err, -errno, "cannot write");
	return code;
}

int answer_download(const struct view_source *v, const struct view_request *q, int fd,
		    struct error *err)
{
	const char *as = request_param(q, "as");
	const struct export_ops *ops = as ? export_find(as) : NULL;

	if (!as || !strcmp(as, "plx"))
		return send_trace(v, q, fd, err);
	if (!ops)
		return error_set(err, -EINVAL, "as is plx, or a format of pollux export");
	return send_export(v, q, ops, fd, err);
}

int answer_file(const struct view_source *v, const struct view_request *q, int fd,
		struct error *err)
{
	if (!v->viewer)
		return error_set(err, -ENOENT, "no other viewer was asked for");
	return send_export(v, q, v->viewer, fd, err);
}
