/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux hist: histograms of a trace, or of a program that runs. A running one is recorded into a
 * pipe and no file; a thread reads it as it grows, so that nothing is kept but the counts.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/input.h"
#include "cli/live.h"
#include "cli/output.h"
#include "cli/recording.h"
#include "cli/verbs.h"
#include "process/find_processes.h"
#include "report/hists.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hist_job {
	const struct cli_args *args;
	struct replay_filter filter;
	struct hists_watch watch; /* every_ns 0: none */
	struct hists *hists;
};

static int read_hists(void *ctx, struct trace_reader *r, struct error *err)
{
	struct hist_job *job = ctx;
	return hists_make(r, &job->filter, job->watch.every_ns ? &job->watch : NULL, NULL, NULL,
			  &job->hists, err);
}

static int show(const struct cli_args *args, const struct hists *h, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	if (cli_option(args, "every") && !cli_flag(args, "json"))
		buf_str(&out, isatty(STDOUT_FILENO) ? "\x1b[H\x1b[2J" : "\n");
	if (cli_flag(args, "json"))
		hists_json(h, &out);
	else
		hists_text(h, &out, cli_columns(args, 0), cli_color());
	if (cli_flag(args, "json"))
		return cli_write(&out, err);
	if (!cli_option(args, "every"))
		return cli_show(args, &out, err);
	cli_ascii(&out);
	return cli_write(&out, err);
}

/* An error in writing is reported at the end. */
static void show_so_far(void *ctx, const struct hists *h)
{
	struct hist_job *job = ctx;
	show(job->args, h, NULL);
}

static int of_file(const struct cli_args *args, const char *path, struct hist_job *job,
		   struct error *err)
{
	static char label[] = "reading";
	struct trace_reader *r;
	if (trace_reader_open(path, &r, err) < 0)
		return 1;
	int code = hists_make(r, &job->filter, NULL, cli_progress, label, &job->hists, err);
	cli_progress_done();
	const char *why;
	if (code == 0 && trace_reader_truncated(r, &why))
		cli_complain(why);
	if (code == 0)
		code = show(args, job->hists, err);
	else if (code != -ENOENT)
		error_add(err, "cannot read %s", path);
	hists_free(job->hists);
	trace_reader_free(r);
	return code < 0;
}

static int open_and_record(struct recording *rec, int fd, struct recorded *ret, struct error *err)
{
	struct trace_writer *w;

	if (trace_writer_open_fd(fd, &w, err) < 0)
		return -EIO;
	return recording_run(rec, w, false, ret, err);
}

static void say_unseen(const struct capture_stats *stats)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	for (size_t i = 0; i < stats->coverage.n; i++) {
		if (!*stats->coverage.v[i].note)
			continue;
		buf_str(&b, "not seen: ");
		text_safe(&b, stats->coverage.v[i].item);
		buf_str(&b, ": ");
		text_safe(&b, stats->coverage.v[i].note);
		buf_char(&b, '\n');
	}
	if (b.len && !buf_failed(&b))
		fputs(b.data, stderr);
}

static int of_program(const struct cli_args *args, struct recording *rec, struct hist_job *job,
		      struct error *err)
{
	struct live live = {.read = read_hists, .ctx = job};
	struct recorded recorded = {0};
	struct capture_stats *stats = &recorded.stats;
	int fd;

	rec->capture.sched = rec->capture.syscalls = rec->capture.lock_stacks = true;
	rec->capture.if_possible = true;
	rec->capture.spawn_stacks = cli_flag(args, "spawns");
	if (live_start(&live, &fd, err) < 0)
		return 1;
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "pollux: recording; Ctrl-C shows what was counted\n");
	int r = open_and_record(rec, fd, &recorded, err);
	int read = live_join(&live, err);
	r = r < 0 ? r : read;
	if (r == 0 && !recorded.n_events)
		recording_say_empty(rec, stats, NULL);
	else if (r == 0)
		r = show(args, job->hists, err);
	if (r == 0 && recorded.n_events) {
		say_unseen(stats);
		if (cli_flag(args, "spawns") && !hists_n_spawn_stacks(job->hists))
			fputs("not seen: stacks of spawns: none was recorded\n", stderr);
	}
	hists_free(job->hists);
	live_done(&live);
	int code = recording_end(rec, r, stats);
	capture_stats_done(stats);
	return code;
}

/* Its number, which may be wrong, or its name. */
static bool is_process(const char *word)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n;

	return !word[strspn(word, "0123456789")] || processes_named(word, &pids, &n, NULL) == 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct hist_job job = {0};
	struct recording rec = {.quiet = true};
	const char *operand = cli_n_operands(args) ? cli_operand(args, 0) : NULL;
	const char *every = cli_option(args, "every");

	job.args = args;
	job.filter.families = cli_option_all(args, "family");
	if (every && (text_parse_duration(every, NSEC_PER_SEC, &job.watch.every_ns) < 0 ||
		      job.watch.every_ns < 100000000))
		return cli_usage(args, "--every is a time of at least 0.1 s, not '%s'", every);
	job.watch.show = show_so_far;
	job.watch.ctx = &job;
	bool program = cli_option(args, "pid") || cli_option(args, "exe") || cli_command(args);
	bool named = operand && strcmp(operand, "-") != 0 && access(operand, F_OK) < 0;
	if (operand && !named && program)
		return cli_usage(args, "either a trace file or a program");
	/* A file may be called 4242. */
	if (!program && !(named && is_process(operand))) {
		_cleanup_free_ char *path = NULL;
		const char *option = every ? "every" : recording_option(args);
		int r = option ? cli_usage(args, "--%s goes with a process, not with a trace",
					   option)
			       : input_trace(args, &path);

		return r ? r : of_file(args, path, &job, err);
	}
	int code = 0;
	for (size_t i = 0; i < cli_n_operands(args) && !code; i++)
		code = recording_add_process(args, &rec, cli_operand(args, i), "");
	if (!code)
		code = recording_parse(args, &rec);
	if (!code)
		code = of_program(args, &rec, &job, err);
	recording_done(&rec);
	return code;
}

static const struct cli_option options[] = {
	RECORDING_PROCESS_OPTIONS,
	RECORDING_OPTIONS,
	{0, "every", "SECONDS", "print the counts so far at this interval", false},
	{0, "spawns", NULL, "also count spawns by stack", false},
	{0, "family", "TEXT", "only tasks whose family name contains TEXT", true},
	{0, "json", NULL, "print JSON (docs/hist.md)", false},
	OUTPUT_OPTIONS,
	{0},
};

static const char *const examples[] = {
	"pollux hist 4242 -d 10",
	"what polls of a running program wait for, in ten seconds",
	"pollux hist trace.plx",
	"the same, from a trace",
	NULL,
};

const struct cli_verb verb_hist = {
	.name = "hist",
	.synopsis = "hist [OPTIONS] PID|NAME | [FILE.plx] | -- CMD [ARGS...]",
	.summary = "show histograms of polls, delays, sleeps and calls",
	.text = "Prints histograms, in steps of powers of two, of how long woken tasks wait for a "
		"worker, how long tasks sleep, and how long polls (without block_in_place), "
		"blocking closures, waits for locks and other system calls during polls take. It "
		"also prints which stacks wait for locks, and for each spawn site the polls, lives "
		"and active times of its tasks.\n\n"
		"Reads the trace FILE.plx (default: the newest here), or records a running program "
		"(by PID or name), or one that pollux starts (after --), until Ctrl-C, -d or its "
		"end, and writes nothing to disk. With root, or CAP_BPF and CAP_PERFMON, it also "
		"records system calls and time off the CPU; without, the blocking calls that the "
		"agent sees take their place.",
	.examples = examples,
	.operands = CLI_PROCESSES | CLI_TRACES,
	.options = options,
	.command = true,
	.run = run,
};
