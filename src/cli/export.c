/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux export: a trace into a file that another viewer opens. The output gets its name when it is
 * whole, so that no reader opens half a file; pipes are written as they are. A reader that closes
 * the pipe early is no error.
 */
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/export_output.h"
#include "cli/filter.h"
#include "cli/input.h"
#include "cli/verbs.h"
#include "export/export.h"
#include "findings/findings.h"
#include "report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* "dir/trace.plx" into "trace.json": in the folder where the user is. */
static char *derived_path(const char *input, const char *extension)
{
	const char *slash = strrchr(input, '/');
	const char *name = slash ? slash + 1 : input;
	size_t len = strlen(name);
	struct buf b = BUF_INIT;

	if (len > 4 && !strcmp(name + len - 4, ".plx"))
		len -= 4;
	buf_add(&b, name, len);
	buf_str(&b, extension);
	return buf_steal(&b);
}

/* Where the output goes (free); NULL with a sentence. */
static char *output_path(const char *wanted, const char *input, const char *extension,
			 struct error *err)
{
	char *path;

	if (wanted || !isatty(STDOUT_FILENO))
		path = strdup(wanted ? wanted : "-");
	else
		path = derived_path(input, extension);
	if (!path) {
		error_set(err, -ENOMEM, "out of memory");
	} else if (file_output_spares(path, &input, 1, err) < 0) {
		free(path);
		return NULL;
	} else if (!wanted && access(path, F_OK) == 0) {
		error_set(err, -EEXIST, "%s exists: -o %s replaces it", path, path);
		free(path);
		return NULL;
	}
	return path;
}

static void print_summary(const struct export_ops *ops, const char *path,
			  const struct export_summary *s)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_safe(&b, !strcmp(path, "-") ? "standard output" : path);
	buf_str(&b, ": ");
	text_bytes(&b, s->bytes);
	if (s->row_name)
		buf_printf(&b, ", %" PRIu64 " %s\n", s->rows, s->row_name);
	else
		buf_printf(&b, ", %" PRIu64 " slices", s->slices);
	if (s->flows)
		buf_printf(&b, ", %" PRIu64 " wake arrows", s->flows);
	if (!s->row_name)
		buf_printf(&b, ", %" PRIu64 " lanes\n", s->lanes);
	if (*s->notice)
		buf_printf(&b, "%s\n", s->notice);
	buf_printf(&b, "open it in %s\n", ops->viewers);
	if (!buf_failed(&b))
		fputs(b.data, stderr);
}

static int parse_number(const struct cli_args *args, const char *name, uint64_t *ret)
{
	const char *s = cli_option(args, name);
	if (!s)
		return 0;
	char *end;
	errno = 0;
	unsigned long long v = strtoull(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || !v)
		return cli_usage(args, "--%s needs a number from 1, not '%s'", name, s);
	*ret = v;
	return 0;
}

/* In the order of enum export_weight. */
static const char *const weights[] = {"idle", "waiting", "scheduled", "polling", "blocked", "cpu"};

static int parse_weight(const struct cli_args *args, unsigned *ret)
{
	const char *weight = cli_option(args, "weight");

	for (unsigned i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
		if (!weight || !strcmp(weight, weights[i])) {
			*ret = i;
			return 0;
		}
	}
	return cli_usage(args,
			 "--weight is idle, waiting, scheduled, polling, blocked or cpu, not '%s'",
			 weight);
}

static int parse(const struct cli_args *args, struct export_options *opt)
{
	const char *lanes = cli_option(args, "lanes");
	int r;

	if ((r = filter_parse(args, &opt->filter)) ||
	    (r = parse_number(args, "max-slices", &opt->max_slices)) ||
	    (r = parse_number(args, "max-lanes", &opt->max_lanes)))
		return r;
	if (!lanes || !strcmp(lanes, "auto"))
		opt->lanes = LANES_AUTO;
	else if (!strcmp(lanes, "task"))
		opt->lanes = LANES_TASK;
	else if (!strcmp(lanes, "packed"))
		opt->lanes = LANES_PACKED;
	else
		return cli_usage(args, "--lanes is auto, task or packed, not '%s'", lanes);
	if (parse_weight(args, &opt->weight))
		return 2;
	opt->force = cli_flag(args, "force");
	return 0;
}

static void complain_cut(const char *lost)
{
	struct error text = {0};

	error_set(&text, -EBADMSG, "%s", lost);
	error_add(&text, "the trace is cut");
	cli_complain(text.text);
}

static int no_format(const struct cli_args *args, const char *format)
{
	_cleanup_buf_ struct buf names = BUF_INIT;

	for (size_t i = 0; export_formats[i]; i++)
		buf_printf(&names, "%s%s", i ? ", " : "", export_formats[i]->name);
	return cli_usage(args, "no format '%s': there are %s", format,
			 buf_failed(&names) ? "others" : names.data);
}

static int no_viewer(const struct cli_args *args, const char *viewer)
{
	_cleanup_buf_ struct buf names = BUF_INIT;

	for (size_t i = 0; export_formats[i]; i++) {
		for (const char *at = export_formats[i]->reads; *at;) {
			size_t len = strcspn(at, " ");

			buf_str(&names, names.len ? ", " : "");
			buf_add(&names, at, len);
			at += len + (at[len] == ' ');
		}
	}
	return cli_usage(args, "no viewer '%s': known are %s", viewer,
			 buf_failed(&names) ? "others" : names.data);
}

/* Options that a format does not heed are a slip. */
static int check_options(const struct cli_args *args, const struct export_ops *ops)
{
	const struct {
		const char *option, *needs;
		bool heeded;
	} options[] = {
		{"weight", "folded stacks", ops->weights},
		{"lanes", "a format with lanes", ops->lanes},
		{"max-slices", "a format with lanes", ops->lanes},
		{"max-lanes", "a format with lanes", ops->lanes},
		{"force", "a format with lanes", ops->lanes},
		{"no-findings", "a format with lanes of findings", ops->findings},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!options[i].heeded && cli_flag(args, options[i].option))
			return cli_usage(args, "--%s goes with %s, not with %s", options[i].option,
					 options[i].needs, ops->name);
	return 0;
}

/* ".json" of "dir/shop.json"; NULL: the name has no ending. */
static const char *ending_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');

	return dot > name && dot[1] ? dot : NULL;
}

static int no_ending(const struct cli_args *args, const char *path)
{
	_cleanup_buf_ struct buf names = BUF_INIT;

	for (size_t i = 0; export_formats[i]; i++)
		buf_printf(&names, "%s%s for %s", i ? ", " : "", export_formats[i]->extension,
			   export_formats[i]->name);
	if (!strcasecmp(ending_of(path), ".html"))
		return cli_usage(args,
				 "a page (.html) is no format of export: pollux report --html %s "
				 "makes one, --format flame a flame graph",
				 path);
	return cli_usage(args, "no format has files that end in '%s': give --format, or one of %s",
			 ending_of(path), buf_failed(&names) ? "their endings" : names.data);
}

/* NULL after wrong use, *ret_code. */
static const struct export_ops *choose_format(const struct cli_args *args, int *ret_code)
{
	const char *format = cli_option(args, "format"), *viewer = cli_option(args, "for");
	const char *output = cli_option(args, "output");
	const struct export_ops *ops = export_formats[0];

	if (viewer)
		ops = export_find_for(viewer);
	else if (format)
		ops = export_find(format);
	else if (output && ending_of(output))
		ops = export_find_by_ending(output);

	if (format && viewer) {
		*ret_code = cli_usage(args, "--format and --for exclude each other");
		return NULL;
	}
	if (!ops)
		*ret_code = viewer   ? no_viewer(args, viewer)
			    : format ? no_format(args, format)
				     : no_ending(args, output);
	return ops;
}

/* Tables are chosen, or go into a folder, only where a format has several. */
static int choose_tables(const struct cli_args *args, const struct export_ops *ops,
			 struct export_options *opt, bool *ret_folder)
{
	const char *output = cli_option(args, "output");
	_cleanup_buf_ struct buf names = BUF_INIT;
	struct stat st;

	opt->table = cli_option(args, "table");
	export_table_names(&names);
	if (opt->table && !ops->tables)
		return cli_usage(args, "the format %s has no tables to choose from", ops->name);
	if (opt->table && !export_has_table(opt->table))
		return cli_usage(args, "no table '%s': there are %s", opt->table,
				 buf_failed(&names) ? "others" : names.data);
	size_t len = output ? strlen(output) : 0;
	*ret_folder = ops->tables && len && strcmp(output, "-") &&
		      (output[len - 1] == '/' || (stat(output, &st) == 0 && S_ISDIR(st.st_mode)));
	if (*ret_folder && opt->table)
		return cli_usage(args, "a folder gets all tables: --table is for one file");
	return 0;
}

static int write_file(const struct cli_args *args, const struct export_ops *ops,
		      struct trace_reader *reader, const char *input, struct export_options *opt,
		      struct export_summary *ret_summary, char **ret_path, struct error *err)
{
	_cleanup_(output_done) struct output out = OUTPUT_INIT;
	int r;

	*ret_path = output_path(cli_option(args, "output"), input, ops->extension, err);
	r = *ret_path ? output_open(&out, *ret_path, ops, err) : -EINVAL;
	if (r == 0)
		r = ops->write(reader, opt, out.file, ret_summary, err);
	return r < 0 ? r : output_finish(&out, err);
}

static int write_folder(const struct cli_args *args, const struct export_ops *ops,
			struct trace_reader *reader, const char *input, struct export_options *opt,
			struct export_summary *ret_summary, char **ret_path, struct error *err)
{
	_cleanup_(output_folder_done) struct output_folder to = {
		.path = cli_option(args, "output"), .input = input, .ops = ops};
	const struct export_folder folder = {output_folder_open, &to};
	int r;

	*ret_path = strdup(to.path);
	if (!*ret_path)
		return error_set(err, -ENOMEM, "out of memory");
	opt->folder = &folder;
	r = ops->write(reader, opt, NULL, ret_summary, err);
	opt->folder = NULL;
	return r < 0 ? r : output_folder_finish(&to, err);
}

/* What is wrong, for lanes of a timeline: as a report of the same part of the trace finds it. */
static int find(struct trace_reader *reader, struct export_options *opt, struct report **ret_report,
		struct export_finding **ret_findings, struct error *err)
{
	const struct report_options wanted = {.filter = opt->filter,
					      .progress = opt->progress,
					      .progress_ctx = opt->progress_ctx};
	const struct finding *f;
	size_t n = 0;

	TRY(report_make(reader, &wanted, ret_report, err));
	TRY(trace_reader_rewind(reader, err));
	while (report_finding(*ret_report, n))
		n++;
	*ret_findings = calloc(n + 1, sizeof(**ret_findings));
	if (!*ret_findings)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		f = report_finding(*ret_report, i);
		(*ret_findings)[i] = (struct export_finding){.title = f->title,
							     .text = f->text,
							     .advice = f->advice,
							     .from_ns = f->time_ns ? f->from_ns : 0,
							     .to_ns = f->time_ns ? f->to_ns : 0};
	}
	opt->findings = *ret_findings;
	opt->n_findings = n;
	return 0;
}

static int export_one(const struct cli_args *args, const struct export_ops *ops, const char *input,
		      struct export_options *opt, bool folder, struct error *err)
{
	struct export_summary summary = {0};
	struct trace_reader *reader = NULL;
	_cleanup_free_ char *path = NULL;
	struct report *report = NULL;
	_cleanup_free_ struct export_finding *findings = NULL;
	const char *lost;
	int r = trace_reader_open(input, &reader, err);

	if (r == 0 && ops->findings && !cli_flag(args, "no-findings"))
		r = find(reader, opt, &report, &findings, err);
	if (r == 0) {
		r = (folder ? write_folder : write_file)(args, ops, reader, input, opt, &summary,
							 &path, err);
		cli_progress_done();
		if (r < 0 && r != -ENOENT && r != -EPIPE && path)
			error_add(err, "cannot export %s", input);
	}
	if (r == 0 && trace_reader_truncated(reader, &lost))
		complain_cut(lost);
	if (r == 0)
		print_summary(ops, path, &summary);
	opt->findings = NULL;
	opt->n_findings = 0;
	report_free(report);
	trace_reader_free(reader);
	return r < 0 && r != -EPIPE ? 1 : 0;
}

/* The second of two would replace what the first has just written. */
static int refuse_same_names(const struct cli_args *args)
{
	for (size_t i = 0; i < cli_n_operands(args); i++) {
		for (size_t k = 0; k < i; k++) {
			if (output_folder_collides(cli_operand(args, k), cli_operand(args, i)))
				return cli_usage(args,
						 "%s and %s would get the same name in the folder: "
						 "rename one",
						 cli_operand(args, k), cli_operand(args, i));
		}
	}
	return 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	static char label[] = "exporting";
	struct export_options opt = {.progress = cli_progress, .progress_ctx = label};
	_cleanup_free_ char *input = NULL;
	bool folder;
	int r = 2;
	const struct export_ops *ops = choose_format(args, &r);

	if (!ops || (r = parse(args, &opt)) || (r = check_options(args, ops)) ||
	    (r = choose_tables(args, ops, &opt, &folder)))
		return r;
	if (folder && cli_n_operands(args) > 1) {
		r = refuse_same_names(args);
		for (size_t i = 0; r == 0 && i < cli_n_operands(args); i++)
			r = export_one(args, ops, cli_operand(args, i), &opt, true, err);
		return r;
	}
	r = input_trace(args, &input);
	return r ? r : export_one(args, ops, input, &opt, folder, err);
}

static const struct cli_option options[] = {
	{'f', "format", "FORMAT",
	 "chrome, perfetto, firefox, pprof, sqlite and others, below; default: by the ending of "
	 "FILE, else chrome",
	 false, false,
	 "chrome speedscope perfetto firefox folded flame pprof csv jsonl sqlite parquet otlp"},
	{0, "for", "VIEWER",
	 "the format that VIEWER reads best: perfetto, pprof, duckdb and others", false, false,
	 "catapult speedscope perfetto firefox inferno flamegraph.pl browser pprof go pyroscope "
	 "parca"},
	{'o', "output", "FILE", "write to FILE (- is standard output)", false},
	FILTER_OPTIONS,
	{0, "table", "TABLE", "with csv, jsonl and parquet: write this table only", false, false,
	 "polls waits wakes tasks blocking parks futures samples off_cpu syscalls threads losses "
	 "trace"},
	{0, "weight", "WHAT",
	 "with folded: idle, that is waiting and scheduled; or one of waiting, scheduled, polling, "
	 "blocked, cpu",
	 false, false, "idle waiting scheduled polling blocked cpu"},
	{0, "lanes", "HOW", "task: a lane per task; packed: tasks share lanes; auto", false, false,
	 "task packed auto"},
	{0, "max-slices", "N", "write up to N slices", false},
	{0, "max-lanes", "N", "write up to N lanes", false},
	{0, "no-findings", NULL, "draw no lanes of what is wrong", false},
	{0, "force", NULL, "write more than viewers are known to handle", false},
	{0},
};

static const char *const examples[] = {
	"pollux export trace.plx -o trace.json",
	"for Chrome's trace viewer (chrome://tracing) and Perfetto (ui.perfetto.dev)",
	"pollux export trace.plx --from 2s --to 2.5s --family conn",
	"half a second of the tasks whose name contains conn",
	"pollux export trace.plx -f speedscope --task 17",
	"for speedscope.app: a profile per worker, and one of task 17",
	"pollux export trace.plx --for perfetto",
	"for ui.perfetto.dev, in its own format",
	"pollux export -f parquet -o traces/ monday.plx tuesday.plx",
	"two traces as tables that DuckDB reads as one",
	NULL,
};

const struct cli_verb verb_export = {
	.name = "export",
	.synopsis = "export [OPTIONS] [FILE.plx]...",
	.summary = "write a trace in the format of another tool",
	.text = "Writes the trace FILE.plx (default: the newest here) in a format that other tools "
		"read. Timelines: chrome has a lane per thread and a lane per task, grouped by "
		"family, with arrows from wakes to polls; above 200 tasks those of a family whose "
		"lives do not overlap share a lane. Polls are named by the handler of the request, "
		"waits by their await point. perfetto and firefox have the same, with samples of "
		"the CPU; speedscope has a profile per worker and per task chosen by --task.\n\n"
		"Where time went, by stacks: folded, flame (a page of flame graphs) and pprof, "
		"with the waits of all tasks by await chain. Tables of polls, waits, wakes, tasks "
		"and others: csv, jsonl, sqlite and parquet; into a folder (-o traces/) csv, jsonl "
		"and parquet write all tables, of several traces. otlp writes tasks and requests "
		"as spans of OpenTelemetry.\n\n"
		"Viewers can show a limited number of lanes and slices. export keeps the busiest "
		"tasks and the earliest times; the file and the command's last lines say what it "
		"cut. Without -o the output goes to standard output, or, if that is a terminal, to "
		"a file named after the input. -o replaces an older export in the same format, and "
		"no other file.",
	.examples = examples,
	.operands = CLI_TRACES,
	.options = options,
	.run = run,
};
