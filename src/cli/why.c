/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux why: the findings, and nothing else, of a trace or of a program that runs. A running one
 * is recorded briefly at first: what hangs is seen at once, and a longer recording would say no
 * more of it.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "causes/causes.h"
#include "cli/filter.h"
#include "cli/input.h"
#include "cli/output.h"
#include "cli/recording.h"
#include "cli/verbs.h"
#include "future/moments.h"
#include "future/program_compiler.h"
#include "report/report.h"
#include "timeline/match.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_NS NSEC_PER_SEC
#define DURATION_NS (5 * NSEC_PER_SEC)
/* Without await points findings and causes say little. */
#define PLACES_WAIT_NS (4 * NSEC_PER_SEC)
#define FAMILIES_SHOWN 4

/* A trace, its findings, and where the time of its work went. */
struct answer {
	struct trace_reader *reader;
	struct report *rep;
	struct causes *causes;
};

struct why_job {
	const struct cli_args *args;
	struct recording rec;
	const char *path; /* of the file that is kept; NULL: none */
	struct answer answer;
};

static void answer_free(struct answer *a)
{
	report_free(a->rep);
	causes_free(a->causes);
	trace_reader_free(a->reader);
	*a = (struct answer){0};
}

/* ---- a trace ---- */

/* The sink of the causes, NULL: out of memory. */
static struct causes *new_causes(const struct cli_args *args, struct trace_reader *reader)
{
	struct causes_options opt = {
		.families = cli_option_all(args, "family"),
		.tasks = cli_option_all(args, "task"),
		.own = cli_option_all(args, "own"),
		.width = cli_columns(args, 0),
	};

	/* run() has looked at both. */
	if (cli_option(args, "unit"))
		causes_parse_unit(cli_option(args, "unit"), &opt.unit);
	if (cli_option(args, "slowest"))
		causes_parse_slowest(cli_option(args, "slowest"), &opt.slowest);
	if (!opt.families && !opt.tasks)
		opt.n_families = FAMILIES_SHOWN;
	return causes_new(reader, &opt);
}

/* Takes the reader. `file`: where the trace is, NULL: it goes away. */
static int judge(const struct cli_args *args, struct trace_reader *reader, const char *file,
		 struct answer *ret, struct error *err)
{
	static char label[] = "reading";
	struct answer a = {.reader = reader, .causes = new_causes(args, reader)};
	/* Only the causes are filtered, but a word that matches nothing is a slip here, too. */
	const struct replay_filter words = {.families = cli_option_all(args, "family"),
					    .tasks = cli_option_all(args, "task")};
	struct match match = {.reader = reader, .filter = &words};
	const struct fan_out_sink also[] = {
		a.causes ? causes_sink(a.causes) : (struct fan_out_sink){0}, match_sink(&match)};
	const struct report_options opt = {
		.width = cli_columns(args, 0),
		.color = cli_color(),
		.all_findings = cli_flag(args, "all-findings"),
		.file = file,
		.lives = input_lives,
		.progress = cli_progress,
		.progress_ctx = label,
		.own = cli_option_all(args, "own"),
		.also = also,
		.n_also = 2,
	};
	const char *why;
	int rc = a.causes ? report_make(reader, &opt, &a.rep, err)
			  : error_set(err, -ENOMEM, "out of memory");

	cli_progress_done();
	if (rc == 0 && causes_judge(a.causes) < 0)
		rc = error_set(err, -ENOMEM, "out of memory");
	if (rc == 0 && report_empty(a.rep) && trace_reader_truncated(reader, &why))
		rc = error_set(err, -EBADMSG, "%s", why);
	if (rc == 0)
		rc = match_check(&match, 0, err);
	match_done(&match);
	if (rc == 0)
		rc = input_check_own(reader, opt.own, err);
	if (rc < 0)
		answer_free(&a);
	*ret = a;
	return rc;
}

static void add_causes(const void *causes, struct json *j)
{
	causes_json(causes, j);
}

static int show(const struct cli_args *args, const struct answer *a, struct error *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (cli_flag(args, "json"))
		report_why_json(a->rep, &out, add_causes, a->causes);
	else {
		report_why_text(a->rep, &out);
		causes_text(a->causes, &out);
	}
	return cli_flag(args, "json") ? cli_write(&out, err) : cli_show(args, &out, err);
}

static int of_file(const struct cli_args *args, const char *path, struct error *err)
{
	struct trace_reader *reader;
	struct answer a = {0};
	int rc;

	if (trace_reader_open(path, &reader, err) < 0)
		return 1;
	rc = judge(args, reader, input_is_file(path) ? path : NULL, &a, err);
	if (rc < 0 && rc != -ENOENT)
		error_add(err, "cannot read %s", path);
	else if (rc == 0)
		rc = show(args, &a, err);
	answer_free(&a);
	return rc < 0;
}

/* ---- a program ---- */

/* Without a name: it is gone when pollux is. */
static int temporary_file(struct error *err)
{
	const char *folder = secure_getenv("TMPDIR");
	int fd;

	folder = folder && *folder ? folder : "/tmp";
	fd = file_temporary(folder);
	return fd < 0 ? error_sys(err, fd, "cannot create a file in %s (-o FILE names another)",
				  folder)
		      : fd;
}

/* *ret_fd: where to read it again, -1: at the path. */
static int open_trace(const struct why_job *job, struct trace_writer **ret_w, int *ret_fd,
		      struct error *err)
{
	int copy;

	*ret_fd = -1;
	if (job->path)
		return trace_writer_open(job->path, ret_w, err);
	TRY(*ret_fd = temporary_file(err));
	copy = fcntl(*ret_fd, F_DUPFD_CLOEXEC, 0);
	if (copy >= 0 && trace_writer_open_fd(copy, ret_w, err) == 0)
		return 0;
	close(*ret_fd);
	return copy < 0 ? error_sys(err, -errno, "cannot record") : -EIO;
}

/* Records for this time, and finds what is wrong. 0 and an empty answer if nothing was recorded,
 * which is reported. */
static int look(struct why_job *job, uint64_t ns, struct answer *ret, struct error *err)
{
	struct trace_reader *reader = NULL;
	struct recorded recorded = {0};
	struct trace_writer *w;
	bool nothing;
	int fd, rc;

	TRY(open_trace(job, &w, &fd, err));
	job->rec.duration_ns = ns;
	rc = recording_run(&job->rec, w, true, &recorded, err);
	nothing = recorded.nothing;
	if (rc == 0 && nothing)
		recording_say_empty(&job->rec, &recorded.stats, job->path);
	capture_stats_done(&recorded.stats);
	if (rc < 0 || nothing) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	if (fd < 0)
		rc = trace_reader_open(job->path, &reader, err);
	else if (lseek(fd, 0, SEEK_SET) == 0)
		rc = trace_reader_open_fd(fd, &reader, err);
	return rc < 0 ? rc : judge(job->args, reader, job->path, ret, err);
}

/* Neither the program's end nor the user ended it. */
static bool ended_by_time(const struct answer *a)
{
	const struct trace_cost *cost = trace_reader_cost(a->reader);

	return cost && cost->end_reason && !strcmp(cost->end_reason, "duration");
}

static void say_end(const struct answer *a)
{
	const struct trace_cost *cost = trace_reader_cost(a->reader);
	_cleanup_buf_ struct buf b = BUF_INIT;

	buf_printf(&b, "the recording ended early: %s",
		   cost && cost->end_reason ? cost->end_reason : "it is incomplete");
	if (!buf_failed(&b))
		cli_complain(b.data);
}

/* What a first look says is worth more than nothing: where the second one fails, it is shown. */
static int look_twice(struct why_job *job, uint64_t ns, struct error *err)
{
	struct answer second = {0};

	TRY(look(job, ns > FIRST_NS ? FIRST_NS : ns, &job->answer, err));
	if (ns <= FIRST_NS || !job->answer.rep || report_hangs(job->answer.rep) ||
	    !ended_by_time(&job->answer))
		return 0;
	/* The first look has read most of it, unless the machine is busy. */
	job->rec.capture.places_wait_ns = PLACES_WAIT_NS;
	if (look(job, ns, &second, err) < 0) {
		cli_complain(err->text);
		*err = (struct error){0};
	}
	if (second.rep) {
		answer_free(&job->answer);
		job->answer = second;
	}
	return 0;
}

static int of_program(struct why_job *job, struct error *err)
{
	struct recording *rec = &job->rec;
	int rc = look_twice(job, rec->duration_ns ? rec->duration_ns : DURATION_NS, err);

	if (rc < 0 || !job->answer.rep)
		return 1;
	rc = show(job->args, &job->answer, err);
	if (rc == 0 && !ended_by_time(&job->answer))
		say_end(&job->answer);
	answer_free(&job->answer);
	if (rc == 0 && job->path) {
		_cleanup_buf_ struct buf where = BUF_INIT;

		buf_printf(&where, "the recording is in %s: pollux report has the rest of it",
			   job->path);
		cli_complain(buf_failed(&where) ? "the recording is kept" : where.data);
	}
	return rc < 0;
}

/* ---- all together ---- */

static int parse(const struct cli_args *args, struct why_job *job)
{
	struct capture_options *c = &job->rec.capture;
	struct stat st;
	int code = 0;

	for (size_t i = 0; i < cli_n_operands(args) && !code; i++)
		code = recording_add_process(args, &job->rec, cli_operand(args, i), "");
	if (!code)
		code = recording_parse(args, &job->rec);
	if (code)
		return code;
	job->path = cli_option(args, "output");
	if (job->path &&
	    (!strcmp(job->path, "-") ||
	     (stat(job->path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))))
		return cli_usage(args, "-o needs a file that why can read again, not '%s'",
				 job->path);
	c->places = &future_places;
	c->moments = future_moment;
	c->long_poll_ns = RECORDING_LONG_POLL_NS;
	c->cpu_hz = RECORDING_CPU_HZ;
	c->if_possible = true;
	return 0;
}

/* A file may be called 4242. That of a program is no trace: record's words say what to do. */
static bool is_trace(const char *word)
{
	size_t len = strlen(word);

	if (access(word, F_OK) == 0)
		return access(word, X_OK) < 0 || trace_file_is_trace(word);
	return !strcmp(word, "-") || (len > 4 && !strcmp(word + len - 4, ".plx"));
}

static int check_causes(const struct cli_args *args)
{
	const char *unit = cli_option(args, "unit"), *slowest = cli_option(args, "slowest");
	const char *const *tasks;
	enum causes_unit parsed;
	int code = filter_tasks(args, &tasks);
	double part;

	if (code)
		return code;
	if (unit && causes_parse_unit(unit, &parsed) < 0)
		return cli_usage(args, "--unit is task or round, not '%s'", unit);
	if (slowest && causes_parse_slowest(slowest, &part) < 0)
		return cli_usage(args, "--slowest is a percentage, such as 1%%, not '%s'", slowest);
	return 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct why_job job = {.args = args};
	const char *word = cli_operand(args, 0), *option = recording_option(args);
	int code = check_causes(args);

	if (!option && cli_flag(args, "output"))
		option = "output";
	if (code)
		return code;
	if (word && is_trace(word)) {
		if (option)
			return cli_usage(args, "--%s goes with a process, not with a trace",
					 option);
		if (cli_n_operands(args) > 1)
			return cli_usage(args, "only one trace can be read: leave out '%s'",
					 cli_operand(args, 1));
		return of_file(args, word, err);
	}
	if (!word && !cli_option(args, "pid") && !cli_option(args, "exe"))
		return cli_usage(args, "why needs a process (PID or NAME) or a trace");
	code = parse(args, &job);
	if (!code && !job.rec.name) {
		error_set(err, -ENOMEM, "out of memory");
		code = 1;
	}
	if (!code)
		code = of_program(&job, err);
	recording_done(&job.rec);
	return code;
}

static const struct cli_option options[] = {
	RECORDING_PROCESS_OPTIONS,
	{'d', "duration", "SECONDS", "record for this time (default 5)", false},
	{'o', "output", "FILE", "keep the recording as FILE", false},
	RECORDING_HOW_OPTIONS,
	{0, "family", "TEXT", "causes: only families whose name contains TEXT", true},
	{0, "task", "N", "causes: only of the task with this number", true},
	{0, "slowest", "PERCENT", "causes: what the slowest PERCENT of the units did (default 1%)",
	 false},
	{0, "unit", "UNIT", "causes: of whole tasks (task), or of rounds (round)", false, false,
	 "task round"},
	{0, "own", "CRATE", "count this crate's code as the program's own", true},
	{0, "all-findings", NULL, "show all findings, and what became of each rule", false},
	{0, "json", NULL, "print the findings as JSON (docs/report-json.md)", false},
	OUTPUT_OPTIONS,
	{0},
};

static const char *const examples[] = {
	"pollux why 4242",
	"why a running program is slow, or hangs",
	"pollux why server -d 20 -o server.plx",
	"record for longer, and keep the recording",
	"pollux why trace.plx --family serve --slowest 0.1%",
	"from a trace: where the time of these tasks went, and of the slowest",
	NULL,
};

const struct cli_verb verb_why = {
	.name = "why",
	.synopsis = "why [OPTIONS] PID|NAME... | --exe BINARY | FILE.plx",
	.summary = "say what is wrong: record briefly, print findings and where time went",
	.text = "Records a running program for -d seconds, with the stacks of long polls and, "
		"where the system allows it, CPU samples, and prints what is wrong with it: the "
		"findings with which a report begins (docs/findings.md), each with its place and "
		"what to do. Of a trace FILE.plx it prints the same.\n\n"
		"Below the findings it prints where the time of the program's work went "
		"(docs/causes.md): for each family that takes time, what its tasks (or their "
		"rounds, such as requests) did and waited for, and what the tasks for which they "
		"waited did meanwhile.\n\n"
		"pollux records one second first. If the program hangs, its memory shows where, "
		"and that is the answer; otherwise pollux records again, for the time of -d.\n\n"
		"The recording is removed unless -o keeps it.",
	.examples = examples,
	.operands = CLI_PROCESSES | CLI_TRACES,
	.options = options,
	.run = run,
};
