/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fuzz target for the exports as people call them, with no ceilings of the caller's: of any trace
 * the output may be cut, but it takes neither for ever nor all memory (-timeout, -rss_limit_mb).
 * The input's checksums are made right first.
 */
#include "fuzz.h"

#include "export/export.h"
#include "tests/traces/file.h"

static void write_export(int fd, const struct export_ops *format, enum export_lanes lanes)
{
	const struct export_options opt = {.lanes = lanes};
	struct export_summary summary = {0};
	struct trace_reader *r;
	struct error err = {0};
	FILE *out = fopen("/dev/null", "w");

	lseek(fd, 0, SEEK_SET);
	if (!out)
		abort();
	if (trace_reader_open_fd(dup(fd), &r, &err) == 0) {
		if (format->write(r, &opt, out, &summary, &err) < 0 && !err.text[0])
			abort();
		trace_reader_free(r);
	}
	fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf sealed = BUF_INIT;
	int fd;

	if (size < sizeof(struct plx_header))
		return 0;
	file_seal(&sealed, data, size);
	fd = fuzz_file((const uint8_t *)sealed.data, sealed.len);
	for (size_t i = 0; export_formats[i]; i++) {
		write_export(fd, export_formats[i], LANES_AUTO);
		write_export(fd, export_formats[i], LANES_PACKED);
	}
	close(fd);
	return 0;
}
