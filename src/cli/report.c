/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pollux report: who was slow, who waited, who blocked a worker. Text for people, or JSON. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/filter.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "report/workers.h"
#include "report/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAMILIES_SHOWN 20
#define NO_PROGRESS_NS (10 * NSEC_PER_MSEC)

static int parse_number(const struct cli_args *args, const char *name, unsigned *ret)
{
	const char *s = cli_option(args, name);
	if (!s)
		return 0;
	char *end;
	errno = 0;
	unsigned long v = strtoul(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || v > 1000000)
		return cli_usage(args, "--%s needs a number up to 1000000, not '%s'", name, s);
	*ret = v;
	return 0;
}

static int parse(const struct cli_args *args, struct report_options *opt)
{
	const char *sort = cli_option(args, "sort"), *by = cli_option(args, "by");
	int r;

	if (sort && report_parse_sort(sort, &opt->sort) < 0)
		return cli_usage(args,
				 "--sort is poll, max, delay, wait, tasks, wakes or name, not '%s'",
				 sort);
	if (by && report_parse_by(by, &opt->by) < 0)
		return cli_usage(args, "--by is handler, task or both, not '%s'", by);
	opt->own = cli_option_all(args, "own");
	opt->all_findings = cli_flag(args, "all-findings");
	if ((r = filter_parse(args, &opt->filter)) ||
	    (r = parse_number(args, "top", &opt->n_families)))
		return r;
	return parse_number(args, "longest", &opt->n_longest);
}

static int make_machines(struct trace_reader *reader, const struct report_options *opt,
			 uint64_t no_progress_ns, bool json, struct buf *out, struct error *err)
{
	struct machines *machines;

	TRY(machines_make(reader, opt, no_progress_ns, &machines, err));
	const char *why;
	if (trace_reader_truncated(reader, &why))
		cli_complain(why);
	if (json)
		machines_json(machines, out);
	else
		machines_text(machines, out);
	machines_free(machines);
	return 0;
}

/* Nothing can be said of a trace that is damaged from its begin. */
static int check(struct trace_reader *reader, const struct report *rep,
		 const struct report_options *opt, struct error *err)
{
	const char *why;

	if (report_empty(rep) && trace_reader_truncated(reader, &why))
		return error_set(err, -EBADMSG, "%s", why);
	return input_check_own(reader, opt->own, err);
}

static int make_report(struct trace_reader *reader, const struct report_options *opt, bool json,
		       struct buf *out, struct error *err)
{
	struct report *rep;
	int r;

	TRY(report_make(reader, opt, &rep, err));
	r = check(reader, rep, opt, err);
	if (r == 0 && json)
		report_json(rep, out);
	else if (r == 0)
		report_text(rep, out);
	report_free(rep);
	return r;
}

/* The report as an HTML file, which gets its name when it is whole. */
static int write_html(struct trace_reader *reader, const struct report_options *opt,
		      const char *input, const char *path, struct error *err)
{
	static const struct file_replaces html = {"a page of pollux",
						  "<!DOCTYPE html>\n<!-- pollux report -->"};
	_cleanup_buf_ struct buf page = BUF_INIT;
	struct file_output out = FILE_OUTPUT_INIT;
	struct report *rep;
	int r;

	TRY(file_output_spares(path, &input, 1, err));
	TRY(report_make(reader, opt, &rep, err));
	r = check(reader, rep, opt, err);
	if (r == 0)
		r = report_html(rep, &page, err);
	report_free(rep);
	if (r == 0)
		r = file_output_open(&out, path, &html, err);
	for (size_t done = 0; r == 0 && done < page.len;) {
		ssize_t n = write(out.fd, page.data + done, page.len - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			r = error_sys(err, -errno, "cannot write %s", path);
	}
	if (r == 0)
		r = file_output_place(&out, err);
	file_output_done(&out);
	return r;
}

static int run(const struct cli_args *args, struct error *err)
{
	static char label[] = "reading";
	struct report_options opt = {
		.n_families = FAMILIES_SHOWN,
		.width = cli_columns(args, 0),
		.color = cli_color(),
		.lives = input_lives,
		.progress = cli_progress,
		.progress_ctx = label,
	};
	const char *html = cli_option(args, "html");
	bool machines = cli_flag(args, "machines"), json = cli_flag(args, "json");
	uint64_t no_progress_ns = NO_PROGRESS_NS;
	int r = parse(args, &opt);
	if (r == 0)
		r = filter_time(args, "no-progress", &no_progress_ns);
	if (r)
		return r;
	static const char *const of_reports[] = {"sort", "by", "longest", "all-findings", "own"};
	for (size_t i = 0; machines && i < sizeof(of_reports) / sizeof(of_reports[0]); i++)
		if (cli_flag(args, of_reports[i]))
			return cli_usage(args, "--%s does not go with --machines", of_reports[i]);
	if (!machines && cli_option(args, "no-progress"))
		return cli_usage(args, "--no-progress needs --machines");
	if (html && (machines || json))
		return cli_usage(args, "--html excludes --json and --machines");

	_cleanup_free_ char *input = NULL;
	struct trace_reader *reader = NULL;
	_cleanup_buf_ struct buf out = BUF_INIT;
	r = input_trace(args, &input);
	if (r)
		return r;
	opt.file = input_is_file(input) ? input : NULL;
	r = trace_reader_open(input, &reader, err);
	if (r == 0) {
		r = html       ? write_html(reader, &opt, input, html, err)
		    : machines ? make_machines(reader, &opt, no_progress_ns, json, &out, err)
			       : make_report(reader, &opt, json, &out, err);
		cli_progress_done();
		if (r < 0 && r != -ENOENT)
			error_add(err, html ? "cannot make a page of %s" : "cannot read %s", input);
	}
	if (r == 0 && !html)
		r = json ? cli_write(&out, err) : cli_show(args, &out, err);
	trace_reader_free(reader);
	return r < 0 ? 1 : 0;
}

static const struct cli_option options[] = {
	{0, "json", NULL, "print all numbers as JSON (docs/report-json.md)", false},
	{0, "html", "FILE",
	 "write a page that shows the trace without a server: findings, timeline, tables", false},
	{'s', "sort", "KEY",
	 "sort families by poll time (default), max, delay, wait, tasks, wakes or name", false,
	 false, "poll max delay wait tasks wakes name"},
	{0, "by", "WHAT",
	 "rows for tasks that serve connections: handler (a row per handler), task (a row per "
	 "family), or both (default)",
	 false, false, "handler task both"},
	FILTER_OPTIONS,
	{'n', "top", "N", "show up to N families (default 20; 0: all)", false},
	{0, "longest", "N", "show the N longest polls (default 10)", false},
	{0, "all-findings", NULL, "show all findings, and the verdict of each rule", false},
	{0, "own", "CRATE",
	 "the await points that count as the program's own are those in CRATE's functions", true},
	{0, "machines", NULL,
	 "print workers, tasks and parents in the form of async-std's report instead", false},
	{0, "no-progress", "TIME",
	 "with --machines: the shortest poll that counts as blocking (default 10ms)", false},
	OUTPUT_OPTIONS,
	{0},
};

static const char *const examples[] = {
	"pollux report trace.plx",
	"findings, families, threads, the longest polls",
	"pollux report trace.plx --from 2s --to 3s --sort delay",
	"one second of it, the families with the longest scheduling delays first",
	"pollux report trace.plx --html trace.html",
	"one file to look at and to send: opens in any browser, also offline",
	"pollux report trace.plx --json | jq '.families[] | {name, polls, poll_ns}'",
	"for scripts",
	NULL,
};

const struct cli_verb verb_report = {
	.name = "report",
	.synopsis = "report [OPTIONS] [FILE.plx]",
	.summary = "summarise what the tasks in a trace did",
	.text = "Reads the trace FILE.plx (- is standard input; default: the newest here) and "
		"prints a summary, what stands out, tables of task families and threads, the "
		"longest polls, where tasks wait, the coverage, and the cost of the recording. "
		"With --task it also prints the history of that task, step by step, and the "
		"requests that it handled.\n\n"
		"A family is all tasks of one kind. \"delay\" is the time from the wake to the "
		"poll, \"waiting\" the time from the end of a poll to the next wake, \"self\" the "
		"wakes by the task itself. A busy thread was in a poll, a parked one had nothing "
		"to do; \"blocked\" is the part of the busy time spent in blocking calls. The "
		"longest polls do not include spawn_blocking closures. Polls of block_on's root "
		"future are inferred from the events of its thread.",
	.examples = examples,
	.operands = CLI_TRACES,
	.options = options,
	.run = run,
};
