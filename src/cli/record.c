/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pollux record: makes a recording into a file, and says what came of it. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/own_command.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/live.h"
#include "cli/print.h"
#include "cli/recording.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "cli/view.h"
#include "future/moments.h"
#include "future/program_compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct cli_option options[] = {
	RECORDING_PROCESS_OPTIONS,
	{'o', "output", "FILE", "the trace (default: pollux-NAME-PID.plx here)", false},
	RECORDING_OPTIONS,
	{0, "cpu", "HZ", "sample stacks, HZ per CPU second (default 999)", false, true},
	{0, "stack-size", "SIZE", "bytes of stack per sample (1K to 63K, default 8K)", false},
	{0, "long-poll", "TIME", "capture the stack of polls over TIME (default 10ms)", false,
	 true},
	{0, "spawn-stacks", NULL, "keep the stack of each spawn (pollux hist --spawns)", false},
	{0, "lock-stacks", NULL,
	 "capture the stack of each lock wait over 100 us inside a poll, for pollux hist", false},
	{0, "sched", NULL, "record when and why threads are off their CPUs", false},
	{0, "syscalls", NULL, "record every system call: time, length, result (root)", false},
	{0, "futures", "WHICH", "record futures' polls: generated (default), or all", false, true,
	 "generated all"},
	{0, "include", "NAME", "only futures that contain or match NAME (with * or ?)", true},
	{0, "exclude", "NAME", "no futures whose name contains or matches NAME", true},
	{0, "view", NULL, "when done, show the trace in the browser", false},
	{0, "print", NULL, "print events as they come; write a file only with -o", false},
	{0, "format", "FORMAT", "with --print: format of a line, see pollux print", false},
	{0, "event", "NAME", "with --print: only events of this name", true},
	{0, "json", NULL, "with --print: one JSON object per line", false},
	{0, "no-snapshot", NULL, "do not read all tasks at the start and the end", false},
	{0, "places", "DEPTH", "await points: deep (default, also inside boxes), near, off", false,
	 false, "deep near off"},
	{0, "own", "CRATE", "count this crate's code as the program's own (docs/places.md)", true},
	{0},
};

static const char *const examples[] = {
	"pollux record 4242 -d 10",
	"record a running program for ten seconds",
	"pollux record -- ./server --port 8080",
	"start a program and record it to its end",
	"pollux record 4242 4243 -o both.plx",
	"record two programs into one trace, until Ctrl-C",
	NULL,
};

/* ---- options ---- */

struct record_job {
	struct recording rec;
	char *path;   /* NULL: no file */
	bool derived; /* the path, from the program's name */
	bool prints;
	struct print_job print;
};

static int parse_futures(const struct cli_args *args, struct record_job *job)
{
	const char *which = cli_option(args, "futures");

	job->rec.capture.include = cli_option_all(args, "include");
	job->rec.capture.exclude = cli_option_all(args, "exclude");
	if (which && (!*which || !strcmp(which, "generated")))
		job->rec.capture.futures = CF_GENERATED;
	else if (which && !strcmp(which, "all"))
		job->rec.capture.futures = CF_ALL;
	else if (which)
		return cli_usage(args, "--futures is 'generated' or 'all', not '%s'", which);
	else if (job->rec.capture.include || job->rec.capture.exclude)
		return cli_usage(args, "--include and --exclude choose among --futures");
	return 0;
}

static int parse_places(const struct cli_args *args, struct record_job *job)
{
	const char *depth = cli_option(args, "places");
	bool off = depth && !strcmp(depth, "off");

	job->rec.capture.places = off ? NULL : &future_places;
	job->rec.capture.own = cli_option_all(args, "own");
	job->rec.capture.near = depth && !strcmp(depth, "near");
	if (depth && !off && !job->rec.capture.near && strcmp(depth, "deep") != 0)
		return cli_usage(args, "--places is deep, near or off, not '%s'", depth);
	return 0;
}

/* pollux-NAME-PID.plx, of characters that need no quoting. Without a pid: that of pollux. */
static char *path_number(const struct record_job *job, unsigned n)
{
	struct buf b = BUF_INIT;

	buf_str(&b, "pollux-");
	for (const char *at = job->rec.name; *at && b.len < 64; at++) {
		bool safe = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
			    (*at >= '0' && *at <= '9') || strchr("._-", *at);
		buf_char(&b, safe ? *at : '_');
	}
	buf_printf(&b, "-%d", job->rec.capture.n_pids ? job->rec.pids[0] : getpid());
	if (n > 1)
		buf_printf(&b, "-%u", n);
	buf_str(&b, ".plx");
	return buf_steal(&b);
}

/* The first of them that nothing has: a later recording of the same process gets -2, -3, ... */
static char *default_path(const struct record_job *job)
{
	for (unsigned n = 1;; n++) {
		char *path = path_number(job, n);
		struct stat st;

		if (!path || lstat(path, &st) < 0)
			return path;
		free(path);
	}
}

static int parse_stacks(const struct cli_args *args, struct record_job *job)
{
	const char *hz = cli_option(args, "cpu"), *size = cli_option(args, "stack-size");
	const char *poll = cli_option(args, "long-poll");
	uint64_t bytes = 0, ns = RECORDING_LONG_POLL_NS;
	char *end = NULL;

	if (hz) {
		unsigned long n = *hz ? strtoul(hz, &end, 10) : RECORDING_CPU_HZ;

		if ((*hz && (*end || *hz == '-')) || !n || n > 1000000)
			return cli_usage(args, "--cpu is 1 to 1000000 samples a second, not '%s'",
					 hz);
		job->rec.capture.cpu_hz = (uint32_t)n;
	}
	if (size && (text_parse_bytes(size, &bytes) < 0 || bytes < 1024 || bytes > 63 * 1024))
		return cli_usage(args, "--stack-size is 1K to 63K, not '%s'", size);
	if (size && !hz)
		return cli_usage(args, "--stack-size belongs to --cpu");
	if (poll && *poll &&
	    (text_parse_duration(poll, NSEC_PER_MSEC, &ns) < 0 || ns < 100 * NSEC_PER_USEC))
		return cli_usage(args, "--long-poll is a time of at least 100us, not '%s'", poll);
	job->rec.capture.stack_bytes = (uint32_t)bytes;
	job->rec.capture.spawn_stacks = cli_flag(args, "spawn-stacks");
	if (poll)
		job->rec.capture.long_poll_ns = ns;
	return 0;
}

static int parse_print(const struct cli_args *args, struct record_job *job)
{
	job->prints = cli_flag(args, "print");
	if (job->prints)
		return print_parse(args, &job->print);
	if (cli_option(args, "format") || cli_option(args, "event") || cli_flag(args, "json"))
		return cli_usage(args, "--format, --event and --json belong to --print");
	return 0;
}

static int parse(const struct cli_args *args, struct record_job *job)
{
	const char *output = cli_option(args, "output");
	/* Of two things to record one may be meant as an option's value. */
	bool several = cli_n_operands(args) > 1 || cli_option_all(args, "pid");
	int code;

	job->rec.capture.sched = cli_flag(args, "sched");
	job->rec.capture.syscalls = cli_flag(args, "syscalls");
	job->rec.capture.lock_stacks = cli_flag(args, "lock-stacks");
	job->rec.capture.moments = cli_flag(args, "no-snapshot") ? NULL : future_moment;
	for (size_t i = 0; i < cli_n_operands(args); i++) {
		code = recording_add_process(args, &job->rec, cli_operand(args, i),
					     several ? "; a value that belongs to an option is "
						       "written as in --long-poll=5ms"
						     : "");
		if (code)
			return code;
	}
	code = recording_parse(args, &job->rec);
	/* Without the agent these two show which waits are for locks. */
	if (job->rec.capture.lock_stacks && job->rec.capture.kernel)
		job->rec.capture.sched = job->rec.capture.syscalls = true;
	if (code == 0)
		code = parse_futures(args, job);
	if (code == 0)
		code = parse_places(args, job);
	if (code == 0)
		code = parse_stacks(args, job);
	if (code == 0)
		code = parse_print(args, job);
	if (code)
		return code;
	if (output)
		job->path = strdup(output);
	else if (!job->prints && job->rec.name)
		job->path = default_path(job);
	job->derived = !output;
	if (cli_flag(args, "view") && output &&
	    (!strcmp(output, "-") || !strncmp(output, "/dev/", 5)))
		return cli_usage(args, "--view shows a file, not what goes to %s", output);
	if (cli_flag(args, "view") && !job->path && job->prints)
		return cli_usage(args, "--view needs a file: with --print, name one by -o FILE");
	return 0;
}

/* ---- the summary ---- */

static void say_losses(struct buf *b, const struct capture_stats *s, uint64_t began_ns)
{
	if (!s->lost.n) {
		buf_str(b, ", none lost\n");
		return;
	}
	buf_str(b, ", and ");
	text_count(b, s->lost.n);
	buf_str(b, " lost");
	if (s->lost.first_ns) {
		buf_str(b, " between ");
		text_duration(b, s->lost.first_ns > began_ns ? s->lost.first_ns - began_ns : 0);
		buf_str(b, " and ");
		text_duration(b, s->lost.last_ns > began_ns ? s->lost.last_ns - began_ns : 0);
	}
	buf_str(b, " (increase --ring-size to reduce losses)\n");
}

/* The first of the rows that are printed as one, and their sum: all of an item, or, with reasons,
 * all of an item and a reason. */
static bool add_up(const struct capture_stats *s, size_t i, bool reasons,
		   struct trace_coverage *ret)
{
	*ret = s->coverage.v[i];
	ret->seen = ret->total = 0;
	for (size_t k = 0; k < s->coverage.n; k++) {
		const struct trace_coverage *c = &s->coverage.v[k];

		if (strcmp(c->item, ret->item) || (reasons && strcmp(c->note, ret->note)))
			continue;
		if (k < i)
			return false;
		ret->seen += c->seen;
		ret->total += c->total;
	}
	return true;
}

/* The part of "stacks of long polls" that counts. */
static size_t noun_bytes(const char *item)
{
	static const char *const after[] = {" of ", " in ", " from ", " without "};
	size_t len = strlen(item);

	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		const char *end = strstr(item, after[i]);

		if (end && (size_t)(end - item) < len)
			len = (size_t)(end - item);
	}
	return len;
}

static bool ends_in(const char *text, size_t len, const char *end)
{
	size_t n = strlen(end);

	return len > n && !memcmp(text + len - n, end, n);
}

/* "1 spawn site", "2 task id counters": items are named in the plural, or where an object has one
 * of them at most, in the singular. */
static void say_item(struct buf *b, const char *item, uint64_t n)
{
	size_t len = noun_bytes(item), cut = 0;
	_cleanup_free_ char *noun = NULL;

	if (n == 1 && ends_in(item, len, "s"))
		cut = ends_in(item, len, "sses") ? 2 : 1;
	noun = strndup(item, len - cut);
	if (noun)
		text_safe(b, noun);
	if (n > 1 && ends_in(item, len, "counter"))
		buf_char(b, 's');
	text_safe(b, item + len);
}

/* What was seen; then what was not, and why. */
static void say_coverage(struct buf *b, const struct capture_stats *s)
{
	struct trace_coverage c;
	bool any = false;

	for (size_t i = 0; i < s->coverage.n; i++) {
		if (!add_up(s, i, false, &c) || !c.seen)
			continue;
		buf_str(b, any ? ", " : "  seen: ");
		any = true;
		if (c.seen == c.total)
			buf_printf(b, "%" PRIu64 " ", c.seen);
		else
			buf_printf(b, "%" PRIu64 " of %" PRIu64 " ", c.seen, c.total);
		say_item(b, c.item, c.total);
	}
	if (any)
		buf_char(b, '\n');
	for (size_t i = 0; i < s->coverage.n; i++) {
		if (!*s->coverage.v[i].note || !add_up(s, i, true, &c))
			continue;
		buf_str(b, "  not seen: ");
		if (c.seen < c.total)
			buf_printf(b, "%" PRIu64 " ", c.total - c.seen);
		say_item(b, c.item, c.seen < c.total ? c.total - c.seen : 0);
		buf_str(b, ": ");
		text_safe(b, c.note);
		buf_char(b, '\n');
	}
}

/* ", of it 1.2 ms to read all tasks at the start and 1.1 ms at the end" */
static void say_moments(struct buf *b, const struct capture_stats *s)
{
	bool any = false;

	for (enum moment_when when = 0; when < MOMENT_N; when++) {
		if (!s->moments[when].n_processes)
			continue;
		buf_str(b, any ? " and " : ", of it ");
		text_duration(b, s->moments[when].stop_ns);
		buf_printf(b, "%s at the %s", any ? "" : " to read all tasks",
			   moment_when_name(when));
		any = true;
	}
}

/* CPU time, for shares of it would be of one CPU, of several threads. */
static void say_cpu(struct buf *b, const struct capture_stats *s, uint64_t n_events)
{
	buf_str(b, "; pollux used ");
	text_duration(b, s->cost.recorder_cpu_ns);
	buf_str(b, " of CPU, and ");
	text_duration(b, s->cost.analysis_cpu_ns);
	buf_str(b, " before that to read the program");
	if (s->cost.event_cost_ps) {
		buf_str(b, "; the events in the program took about ");
		text_duration(b, n_events * s->cost.event_cost_ps / 1000);
		buf_printf(b, " (%.1f ns each)", (double)s->cost.event_cost_ps / 1000);
	}
	buf_char(b, '\n');
}

/* How the program ended, unless by itself. */
static void say_end(struct buf *b, int status)
{
	if (status >= 0 && WIFSIGNALED(status)) {
		const char *name = sigabbrev_np(WTERMSIG(status));

		buf_str(b, "; it was killed by ");
		if (name)
			buf_printf(b, "SIG%s", name);
		else
			buf_printf(b, "signal %d", WTERMSIG(status));
	}
}

static void say(const struct record_job *job, const struct recorded *r)
{
	const struct capture_stats *s = &r->stats;
	_cleanup_buf_ struct buf b = BUF_INIT;

	buf_str(&b, "recorded ");
	text_duration(&b, r->length_ns ? r->length_ns : 1);
	buf_str(&b, " of ");
	text_safe(&b, job->rec.name);
	buf_str(&b, " into ");
	text_safe(&b, job->path);
	buf_str(&b, " (");
	text_bytes(&b, r->bytes);
	buf_char(&b, ')');
	say_end(&b, s->exit_status);
	buf_str(&b, "\n  ");
	text_exact(&b, r->n_events);
	buf_str(&b, " events");
	say_losses(&b, s, r->began_ns);
	say_coverage(&b, s);
	buf_str(&b, "  cost: threads were paused for ");
	text_duration(&b, s->cost.stop_ns);
	say_moments(&b, s);
	say_cpu(&b, s, r->n_events);
	if ((r->n_events || s->moments[MOMENT_START].n_tasks || s->moments[MOMENT_END].n_tasks) &&
	    strcmp(job->path, "-") != 0) {
		buf_printf(&b, "next: %s %s ", own_command(), r->n_events ? "report" : "tree");
		text_shell_word(&b, job->path);
		buf_char(&b, '\n');
	}
	cli_ascii(&b);
	if (!buf_failed(&b))
		fputs(b.data, stderr);
}

/* ---- all together ---- */

/* The trace must not take the place of the program. */
static int spare_programs(const struct record_job *job, struct error *err)
{
	const struct capture_options *c = &job->rec.capture;
	const char *program = c->argv && strchr(c->argv[0], '/') ? c->argv[0] : c->exe;

	TRY(program ? file_output_spares(job->path, &program, 1, err) : 0);
	for (size_t i = 0; i < c->n_pids; i++) {
		char exe[32];

		snprintf(exe, sizeof(exe), "/proc/%d/exe", job->rec.pids[i]);
		program = exe;
		TRY(file_output_spares(job->path, &program, 1, err));
	}
	return 0;
}

/* Into the file, into the pipe of the printing thread, or into both. */
static int open_writer(const struct record_job *job, struct live *printing,
		       struct trace_writer **ret_writer, struct error *err)
{
	int fd = -1, rc;

	if (job->path) {
		TRY(spare_programs(job, err));
		rc = trace_writer_open(job->path, ret_writer, err);

		if (rc < 0 && job->derived)
			error_add(err,
				  "cannot record into this folder (-o FILE names another place)");
		if (rc < 0)
			return rc;
	}
	if (!job->prints)
		return 0;
	rc = live_start(printing, &fd, err);
	if (!job->path)
		return rc < 0 ? rc : trace_writer_open_fd(fd, ret_writer, err);
	if (rc == 0)
		rc = trace_writer_tee(*ret_writer, fd);
	if (rc < 0)
		trace_writer_close(*ret_writer, NULL);
	return rc;
}

/* The trace of what was recorded, and not of a shell before it. */
static void name_by_program(struct record_job *job, const struct capture_stats *stats)
{
	const char *slash = stats->program ? strrchr(stats->program, '/') : NULL;
	char *name = slash ? strdup(slash + 1) : NULL, *path;

	if (!name)
		return;
	free(job->rec.name);
	job->rec.name = name;
	path = job->derived && job->path ? default_path(job) : NULL;
	if (path && renameat2(AT_FDCWD, job->path, AT_FDCWD, path, RENAME_NOREPLACE) == 0) {
		free(job->path);
		job->path = steal(path);
	}
	free(path);
}

static int run_job(struct record_job *job, struct error *err)
{
	struct live printing = {.read = print_events, .ctx = &job->print};
	struct recorded r = {0};
	struct trace_writer *w;
	int rc, code;

	if (open_writer(job, &printing, &w, err) < 0)
		return 1;
	job->rec.quiet = job->prints && isatty(STDOUT_FILENO);
	rc = recording_run(&job->rec, w, job->path, &r, err);
	if (rc < 0 && !r.nothing && job->path && strcmp(job->path, "-") != 0)
		error_add(err, "the recording ended early, %s has its beginning", job->path);
	if (job->prints) {
		int printed = live_join(&printing, job->print.output_closed ? NULL : err);
		rc = job->print.output_closed ? 0 : rc < 0 ? rc : printed;
		live_done(&printing);
	}
	if (rc == 0 && !r.nothing)
		name_by_program(job, &r.stats);
	if (rc == 0 && !r.nothing && job->path)
		say(job, &r);
	if (rc == 0 && !r.n_events)
		recording_say_empty(&job->rec, &r.stats, job->path);
	code = recording_end(&job->rec, rc, &r.stats);
	capture_stats_done(&r.stats);
	return code;
}

/* Shows what was recorded, whatever the program's own exit code is. */
static int view_job(const struct record_job *job, int code, struct error *err)
{
	struct view_options opt = {.path = job->path, .open = true};

	if (err->code || !job->path || !trace_file_is_trace(job->path))
		return code;
	return view_show(&opt, err) < 0 ? 1 : code;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct record_job job = {.path = NULL};
	int code = parse(args, &job);

	if (!code) {
		if ((job.path || job.prints) && job.rec.name) {
			code = run_job(&job, err);
			if (cli_flag(args, "view"))
				code = view_job(&job, code, err);
		} else {
			error_set(err, -ENOMEM, "out of memory");
			code = 1;
		}
	}
	free(job.path);
	print_done(&job.print);
	recording_done(&job.rec);
	return code;
}

const struct cli_verb verb_record = {
	.name = "record",
	.synopsis = "record [OPTIONS] PID|NAME... | --exe BINARY | -- CMD [ARGS...]",
	.summary = "record every task of a program into a trace",
	.text = "Records spawns, polls, wakes and ends of all tasks, parked and blocked threads, "
		"of an unmodified program with Tokio, async-std or smol: a running one (by PID or "
		"name), or one that pollux starts (after --). No rebuild, no root: pollux can "
		"record any process that you may debug.\n\n"
		"The recording ends at Ctrl-C, after -d, or with the program. Then pollux restores "
		"everything that it changed in the program. Of a program that pollux started, the "
		"exit status is the program's own (128 + signal if it was killed); if the "
		"recording ends first, the program continues, and pollux waits for it.\n\n"
		"If the program has debug information, each wait is recorded with its await point "
		"(function, file, line), also inside boxed futures (docs/places.md). If pollux "
		"needs more than 0.3 s to read the debug information, it goes on reading during "
		"the recording: the coverage then says from when on await points are known.\n\n"
		"--futures also records the polls of the futures inside a task: which async "
		"function polled which, how long, at which await point it stopped. Each such poll "
		"costs two events; the coverage lists what could not be hooked.\n\n"
		"--backend kernel records with uprobes: on the USDT probes of the program, if "
		"pollux knows them (pollux probes), else on the functions of its runtime. It needs "
		"root and costs more.\n\n"
		"--print prints events as they arrive, about half a second late, in the format of "
		"tokio-dtrace's script or in that of --format (see pollux print).\n\n"
		"-o replaces an older trace, and no other file. Without -o no file is replaced: "
		"the name of a second recording of a process ends in -2, of the next one in -3.\n\n"
		"Threads write into ring buffers in shared memory, which pollux drains "
		"continuously. If pollux cannot keep up, events are dropped and counted; a larger "
		"--ring-size helps.",
	.examples = examples,
	.operands = CLI_PROCESSES,
	.options = options,
	.command = true,
	.run = run,
};
