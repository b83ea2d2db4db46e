/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fuzz target for everything that reads a trace: the report and its JSON, causes, histograms, printed
 * events, both exports. The input's checksums are made right first. The exports' own rules are
 * checked where a viewer would refuse the file.
 */
#include "fuzz.h"

#include "causes/causes.h"
#include "export/export.h"
#include "base/json.h"
#include "report/hists.h"
#include "report/print.h"
#include "report/report.h"
#include "tests/traces/file.h"

static struct trace_reader *open_input(int fd)
{
	struct trace_reader *r;
	lseek(fd, 0, SEEK_SET);
	return trace_reader_open_fd(dup(fd), &r, NULL) < 0 ? NULL : r;
}

static void make_report(int fd, const char *const *tasks)
{
	const struct report_options opt = {.filter.tasks = tasks, .width = 100};
	struct trace_reader *r = open_input(fd);
	struct report *rep;
	_cleanup_buf_ struct buf text = BUF_INIT, json = BUF_INIT;

	if (r && report_make(r, &opt, &rep, NULL) == 0) {
		report_text(rep, &text);
		report_json(rep, &json);
		report_free(rep);
	}
	trace_reader_free(r);
}

static void make_causes(int fd, const struct causes_options *opt)
{
	struct trace_reader *r = open_input(fd);
	struct causes *c = r ? causes_new(r, opt) : NULL;
	_cleanup_buf_ struct buf text = BUF_INIT, json = BUF_INIT;
	struct json j;

	json_init(&j, &json, true);
	if (c) {
		struct fan_out_sink to = causes_sink(c);

		timeline_replay(r, NULL, to.sink, to.ctx, NULL, NULL, NULL, NULL, NULL);
		if (causes_judge(c) == 0) {
			causes_text(c, &text);
			causes_json(c, &j);
		}
	}
	causes_free(c);
	trace_reader_free(r);
}

static void make_hists(int fd)
{
	struct trace_reader *r = open_input(fd);
	struct hists *h;
	_cleanup_buf_ struct buf text = BUF_INIT, json = BUF_INIT;

	if (r && hists_make(r, NULL, NULL, NULL, NULL, &h, NULL) == 0) {
		hists_text(h, &text, 80, true);
		hists_json(h, &json);
		hists_free(h);
	}
	trace_reader_free(r);
}

static void print(int fd, const char *form, bool json)
{
	struct trace_reader *r = open_input(fd);
	struct printer *p;
	struct trace_event ev;
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (printer_new(form, json, &p, NULL) < 0)
		abort();
	while (r && trace_reader_next(r, &ev, NULL) > 0) {
		buf_clear(&out);
		printer_event(p, r, &ev, &out);
	}
	printer_free(p);
	trace_reader_free(r);
}

static void write_export(int fd, const char *format, enum export_lanes lanes)
{
	const struct export_options opt = {.lanes = lanes, .max_lanes = 40, .max_slices = 20000};
	struct trace_reader *r = open_input(fd);
	struct export_summary summary;
	char *data = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&data, &size);

	if (!out)
		abort();
	if (r)
		export_find(format)->write(r, &opt, out, &summary, NULL);
	fclose(out);
	free(data);
	trace_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf sealed = BUF_INIT;

	if (size < sizeof(struct plx_header))
		return 0;
	file_seal(&sealed, data, size);

	int fd = fuzz_file((const uint8_t *)sealed.data, sealed.len);
	make_report(fd, NULL);
	make_report(fd, (const char *const[]){"1", "7", NULL});
	make_causes(fd, &(struct causes_options){.width = 100});
	make_causes(fd, &(struct causes_options){.unit = CU_ROUND, .slowest = 0.5});
	make_hists(fd);
	print(fd, NULL, false);
	print(fd, NULL, true);
	print(fd,
	      "{time} {tid} {thread} {task} {kind} {outcome} {place} {call} {ns} {site} {stack}",
	      false);
	write_export(fd, "chrome", LANES_TASK);
	write_export(fd, "chrome", LANES_PACKED);
	write_export(fd, "speedscope", LANES_AUTO);
	close(fd);
	return 0;
}
