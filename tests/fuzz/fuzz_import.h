/* What the fuzz targets of importers share: one recording in, a trace into nowhere. */
#ifndef POLLUX_TESTS_FUZZ_IMPORT_H
#define POLLUX_TESTS_FUZZ_IMPORT_H

#include "fuzz.h"

#include "import/import.h"

#include <fcntl.h>
#include <stdio.h>

/* Whatever stands at the path: a trace, or a sentence that says why not. */
static inline void fuzz_import_path(const char *path, const char *format)
{
	const struct import_options opt = {.from = format};
	struct import_summary summary = {0};
	struct error err = {0};
	struct trace_writer *w;

	if (trace_writer_open_fd(open("/dev/null", O_WRONLY | O_CLOEXEC), &w, &err) < 0)
		abort();
	int r = import_run(&path, 1, &opt, w, &summary, &err);
	if (r < 0 && !err.text[0])
		abort();
	if ((summary.n_doubts != 0) != (summary.doubts.len != 0))
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

#endif
