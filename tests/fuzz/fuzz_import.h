/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the fuzz targets of importers share: one recording in, a trace into nowhere. */
#pragma once

#include "fuzz.h"

#include "import/import.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whatever stands at the path: a trace, or a sentence that says why not. */
static inline void fuzz_import_path(const char *path, const char *format)
{
	const struct import_options opt = {.format = format};
	struct import_summary summary = {0};
	struct error err = {0};
	struct trace_writer *w;

	if (trace_writer_open_fd(open("/dev/null", O_WRONLY | O_CLOEXEC), &w, &err) < 0)
		abort();
	int r = import_run(&path, 1, &opt, w, &summary, &err);
	if (r < 0 && !err.text[0])
		abort();
	if ((summary.n_diagnostics != 0) != (summary.diagnostics.len != 0))
		abort();
	trace_writer_close(w, &err);
	import_summary_done(&summary);
}

static inline void fuzz_import(const uint8_t *data, size_t size, const char *format)
{
	char path[64];
	int fd = fuzz_file(data, size);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fuzz_import_path(path, format);
	close(fd);
}

#define FUZZ_MAX_FILES 12u

/* One file; gives what follows it, NULL at the end. The name is one of few: no path. */
static inline const uint8_t *fuzz_put_file(const char *folder, const uint8_t *p, const uint8_t *end,
					   char *ret_path, size_t path_size)
{
	char name[32];
	unsigned long size;
	const uint8_t *line_end = memchr(p, '\n', (size_t)(end - p));
	char line[64];

	if (!line_end || (size_t)(line_end - p) >= sizeof(line))
		return NULL;
	memcpy(line, p, (size_t)(line_end - p));
	line[line_end - p] = 0;
	if (sscanf(line, "@%31[a-z0-9.-] %lu", name, &size) != 2 || name[0] == '.')
		return NULL;
	p = line_end + 1;
	if (size > (size_t)(end - p))
		size = (size_t)(end - p);
	snprintf(ret_path, path_size, "%s/%s", folder, name);
	int fd = open(ret_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, p, size) != (ssize_t)size)
		abort();
	close(fd);
	return p + size;
}

/* A folder: the input holds its files one after the other, each behind a line "@NAME SIZE".
 * make_folder.py makes such a one from a folder. */
static inline void fuzz_import_folder(const uint8_t *data, size_t size, const char *format)
{
	const char *tmp = getenv("TMPDIR"); /* one in memory makes it much faster */
	char folder[64], paths[FUZZ_MAX_FILES][128];
	const uint8_t *p = data, *end = data + size;
	unsigned n = 0;

	snprintf(folder, sizeof(folder), "%.32s/fuzz-folder-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(folder))
		abort();
	while (n < FUZZ_MAX_FILES && p && p < end) {
		paths[n][0] = 0;
		p = fuzz_put_file(folder, p, end, paths[n], sizeof(paths[n]));
		n += p != NULL;
	}
	fuzz_import_path(folder, format);
	while (n)
		unlink(paths[--n]);
	if (rmdir(folder) < 0)
		abort();
}
