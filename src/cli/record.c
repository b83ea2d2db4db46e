/*
 * pollux record: runs a capture until it ends, by itself, by time or by a signal, and says what
 * came of it.
 *
 * A signal only sets a flag; the drain's sleep is short and ends at once when one comes. Ctrl-C at
 * a terminal reaches a launched program too: it is recorded on to its own end, and a second Ctrl-C
 * ends the recording alone. Other signals end a recording of running programs, and are handed on to
 * a launched one, whose exit status becomes ours.
 */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "capture/capture.h"
#include "cli/verbs.h"
#include "future/places.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000ull
#define DEFAULT_RING_BYTES (1ull << 20)
#define PROGRESS_NS (500000000ull)

static const struct cli_option options[] = {
	{'p', "pid", "PID", "record this running process; may be given more than once", true},
	{0, "exe", "BINARY", "record every process that runs this program", false},
	{'o', "output", "FILE", "the trace (default: pollux-NAME-PID.plx here)", false},
	{'d', "duration", "SECONDS", "end the recording after so long (10, 2.5, 500ms, 2m)", false},
	{0, "ring-size", "SIZE", "memory per thread for events not yet read (4K to 1G, default 1M)",
	 false},
	{0, "sched", NULL, "when and why threads are off their CPUs", false},
	{0, "syscalls", NULL, "every system call: when, how long, what came of it (root)", false},
	{0, "futures", "WHICH",
	 "every future's poll: of async functions and blocks (generated), or of all", false, true},
	{0, "include", "NAME", "only futures of this name: a part of it, or with * and ?", true},
	{0, "exclude", "NAME", "no futures of this name", true},
	{0, "no-places", NULL, "don't record at which await point tasks wait", false},
	{0},
};

static const char *const examples[] = {
	"pollux record -p 4242 -d 10",
	"record a running program for ten seconds",
	"pollux record -- ./server --port 8080",
	"start a program and record it to its end",
	"pollux record -p 4242 -p 4243 -o both.plx",
	"record two programs into one trace, until Ctrl-C",
	NULL,
};

/* ---- signals ---- */

static volatile sig_atomic_t signals_seen, last_signal, from_terminal;

static void on_signal(int number, siginfo_t *info, void *context)
{
	last_signal = number;
	/* The kernel's own: typed at a terminal, so the whole foreground group has it. */
	from_terminal = info->si_code == SI_KERNEL;
	signals_seen++;
}

static void catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction act = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};

	sigemptyset(&act.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction old;

		/* What our caller ignores (nohup) stays ignored, for the program too. */
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &act, NULL);
	}
}

/* ---- options ---- */

struct job {
	struct capture_options capture;
	pid_t pids[64];
	uint64_t duration_ns; /* 0: no end */
	char *path;
	char *name; /* of the program, for people */
};

static int parse_pids(const struct cli_args *args, struct job *job)
{
	const char *const *given = cli_option_all(args, "pid");

	for (size_t i = 0; given && given[i]; i++) {
		char *end;
		long pid = strtol(given[i], &end, 10);

		if (*given[i] < '0' || *given[i] > '9' || *end || pid <= 0 || pid > INT32_MAX)
			return cli_usage(args, "-p needs the number of a process, not '%s'",
					 given[i]);
		if (pid == getpid())
			return cli_usage(args, "pollux can't record itself");
		for (size_t k = 0; k < job->capture.n_pids; k++)
			if (job->pids[k] == pid)
				return cli_usage(args, "-p %ld is given twice", pid);
		if (job->capture.n_pids == sizeof(job->pids) / sizeof(job->pids[0]))
			return cli_usage(args, "more than %zu processes at once",
					 job->capture.n_pids);
		job->pids[job->capture.n_pids++] = (pid_t)pid;
	}
	job->capture.pids = job->pids;
	return 0;
}

static int parse_futures(const struct cli_args *args, struct job *job)
{
	const char *which = cli_option(args, "futures");

	job->capture.include = cli_option_all(args, "include");
	job->capture.exclude = cli_option_all(args, "exclude");
	if (which && (!*which || !strcmp(which, "generated")))
		job->capture.futures = CF_GENERATED;
	else if (which && !strcmp(which, "all"))
		job->capture.futures = CF_ALL;
	else if (which)
		return cli_usage(args, "--futures is 'generated' or 'all', not '%s'", which);
	else if (job->capture.include || job->capture.exclude)
		return cli_usage(args, "--include and --exclude choose among --futures");
	return 0;
}

static char *name_of(const struct job *job)
{
	char path[32], comm[64];

	if (job->capture.argv) {
		const char *slash = strrchr(job->capture.argv[0], '/');
		return strdup(slash ? slash + 1 : job->capture.argv[0]);
	}
	if (job->capture.exe) {
		const char *slash = strrchr(job->capture.exe, '/');
		return strdup(slash ? slash + 1 : job->capture.exe);
	}
	snprintf(path, sizeof(path), "/proc/%d/comm", job->pids[0]);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, comm, sizeof(comm) - 1);
	if (n > 0 && comm[n - 1] == '\n')
		n--;
	comm[n > 0 ? n : 0] = 0;
	return strdup(comm);
}

/* pollux-NAME-PID.plx, of characters that no shell minds. Where no pid was given: ours.
 */
static char *default_path(const struct job *job)
{
	struct buf b = BUF_INIT;

	buf_str(&b, "pollux-");
	for (const char *at = job->name; *at && b.len < 64; at++) {
		bool safe = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
			    (*at >= '0' && *at <= '9') || strchr("._-", *at);
		buf_char(&b, safe ? *at : '_');
	}
	buf_printf(&b, "-%d.plx", job->capture.n_pids ? job->pids[0] : getpid());
	return buf_steal(&b);
}

static int parse(const struct cli_args *args, struct job *job)
{
	const char *duration = cli_option(args, "duration"), *ring = cli_option(args, "ring-size");
	const char *output = cli_option(args, "output");
	int code;

	job->capture.argv = cli_command(args);
	job->capture.exe = cli_option(args, "exe");
	job->capture.ring_bytes = DEFAULT_RING_BYTES;
	job->capture.places = cli_flag(args, "no-places") ? NULL : &future_places;
	job->capture.sched = cli_flag(args, "sched");
	job->capture.syscalls = cli_flag(args, "syscalls");
	code = parse_pids(args, job);
	if (code == 0)
		code = parse_futures(args, job);
	if (code)
		return code;
	if (cli_n_operands(args))
		return cli_usage(
			args, "'%s': a running process is named by -p, a command stands behind --",
			cli_operand(args, 0));
	if (job->capture.argv && !job->capture.argv[0])
		return cli_usage(args, "there is no command behind --");
	if (!!job->capture.argv + !!job->capture.n_pids + !!job->capture.exe > 1)
		return cli_usage(args, "only one of -p, --exe and a command");
	if (!job->capture.argv && !job->capture.n_pids && !job->capture.exe)
		return cli_usage(args, "what is to be recorded? -p PID, --exe BINARY, or -- CMD");
	if (duration &&
	    (text_parse_duration(duration, SECOND, &job->duration_ns) < 0 || !job->duration_ns))
		return cli_usage(args, "-d needs a time such as 10, 2.5s or 500ms, not '%s'",
				 duration);
	if (ring && (text_parse_bytes(ring, &job->capture.ring_bytes) < 0 ||
		     job->capture.ring_bytes < 4096 || job->capture.ring_bytes > 1ull << 30))
		return cli_usage(args, "--ring-size needs 4K to 1G, not '%s'", ring);
	job->name = name_of(job);
	job->path = output ? strdup(output) : job->name ? default_path(job) : NULL;
	return 0;
}

/* ---- the recording ---- */

static void sleep_ns(uint64_t ns)
{
	const struct timespec ts = {.tv_sec = (time_t)(ns / SECOND),
				    .tv_nsec = (long)(ns % SECOND)};

	nanosleep(&ts, NULL); /* a signal ends it */
}

/* Signals while a launched program is recorded. True: the recording ends now. */
static bool signal_ends_launched(pid_t child, int n_handled)
{
	if (from_terminal)
		return n_handled > 0; /* the first is the program's to answer */
	if (child > 0)
		kill(child, last_signal);
	return n_handled > 1;
}

/* Drains until something ends it; `reason` says what. 0, or negative errno. */
static int record(struct job *job, struct capture_set *set, struct buf *reason,
		  struct trace_writer *w, struct error *err)
{
	uint64_t began = clock_monotonic_ns(), next_progress = began;
	int handled = 0;

	/* A recorder that waits for a CPU loses events; where it may not ask for more, it runs as
	 * it is. */
	setpriority(PRIO_PROCESS, 0, -10);

	for (;;) {
		int64_t wait = capture_set_drain(set, err);
		uint64_t now = clock_monotonic_ns();

		if (wait < 0)
			return (int)wait;
		if (wait == 0) {
			buf_str(reason, job->capture.argv ? "" : "the program ended");
			return 0;
		}
		if (job->duration_ns && now - began >= job->duration_ns) {
			buf_str(reason, "duration");
			return 0;
		}
		if (signals_seen > handled) {
			if (!job->capture.argv ||
			    signal_ends_launched(capture_set_child(set), handled)) {
				buf_str(reason,
					last_signal == SIGINT ? "interrupted" : "terminated");
				return 0;
			}
			handled = signals_seen;
		}
		if (now >= next_progress && isatty(STDERR_FILENO)) {
			struct buf label = BUF_INIT;

			buf_str(&label, "recording ");
			text_safe(&label, job->name);
			buf_str(&label, ", ");
			text_count(&label, trace_writer_n_events(w));
			buf_str(&label, " events");
			if (!buf_failed(&label))
				cli_progress(label.data, now - began, job->duration_ns);
			buf_done(&label);
			next_progress = now + PROGRESS_NS;
		}
		if (job->duration_ns && now + (uint64_t)wait > began + job->duration_ns)
			wait = (int64_t)(began + job->duration_ns - now) + 1;
		sleep_ns((uint64_t)wait);
	}
}

/* ---- the summary ---- */

static void say_losses(struct buf *b, const struct capture_stats *s, uint64_t began_ns)
{
	if (!s->n_lost) {
		buf_str(b, ", none lost\n");
		return;
	}
	buf_str(b, ", and ");
	text_count(b, s->n_lost);
	buf_str(b, " lost");
	if (s->first_lost_ns) {
		buf_str(b, " between ");
		text_duration(b, s->first_lost_ns > began_ns ? s->first_lost_ns - began_ns : 0);
		buf_str(b, " and ");
		text_duration(b, s->last_lost_ns > began_ns ? s->last_lost_ns - began_ns : 0);
	}
	buf_str(b, " (a larger --ring-size loses less)\n");
}

/* What was seen, items of the same name taken together; then what was not, and why. */
static void say_coverage(struct buf *b, const struct capture_stats *s)
{
	bool any = false;

	for (size_t i = 0; i < s->n_coverage; i++) {
		const struct trace_coverage *c = &s->coverage[i];
		uint64_t seen = 0, total = 0;
		bool before = false;

		for (size_t k = 0; k < s->n_coverage; k++) {
			if (strcmp(s->coverage[k].item, c->item))
				continue;
			before = before || k < i;
			seen += s->coverage[k].seen;
			total += s->coverage[k].total;
		}
		if (before || !seen)
			continue;
		buf_str(b, any ? ", " : "  seen: ");
		any = true;
		if (seen == total)
			buf_printf(b, "%" PRIu64 " ", seen);
		else
			buf_printf(b, "%" PRIu64 " of %" PRIu64 " ", seen, total);
		text_safe(b, c->item);
	}
	if (any)
		buf_char(b, '\n');
	for (size_t i = 0; i < s->n_coverage; i++) {
		const struct trace_coverage *c = &s->coverage[i];

		if (!*c->note)
			continue;
		buf_str(b, "  not seen: ");
		if (c->seen < c->total)
			buf_printf(b, "%" PRIu64 " ", c->total - c->seen);
		text_safe(b, c->item);
		buf_str(b, ": ");
		text_safe(b, c->note);
		buf_char(b, '\n');
	}
}

static void say(const struct job *job, const struct capture_stats *s, uint64_t began_ns,
		uint64_t bytes)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	uint64_t ns = s->cost.end_ns > began_ns ? s->cost.end_ns - began_ns : 1;
	double per_second = (double)s->n_events * (double)s->cost.event_cost_ps / 1000 / (double)ns;

	buf_str(&b, "recorded ");
	text_duration(&b, ns);
	buf_str(&b, " of ");
	text_safe(&b, job->name);
	buf_str(&b, " into ");
	text_safe(&b, job->path);
	buf_str(&b, " (");
	text_bytes(&b, bytes);
	buf_str(&b, ")\n  ");
	text_count(&b, s->n_events);
	buf_str(&b, " events");
	say_losses(&b, s, began_ns);
	say_coverage(&b, s);
	buf_str(&b, "  cost: threads stood still for ");
	text_duration(&b, s->cost.stop_ns);
	buf_printf(
		&b,
		"; pollux used %.1f %% of a CPU, the events in the program about %.1f %% (%.1f ns "
		"each)\n",
		100.0 * (double)s->cost.recorder_cpu_ns / (double)ns, 100 * per_second,
		(double)s->cost.event_cost_ps / 1000);
	buf_str(&b, "next: pollux report ");
	text_safe(&b, job->path);
	buf_char(&b, '\n');
	if (!buf_failed(&b))
		fputs(b.data, stderr);
}

/* ---- all together ---- */

static void describe_exit(struct buf *out, int status)
{
	if (WIFEXITED(status))
		buf_printf(out, "exited %d", WEXITSTATUS(status));
	else
		buf_printf(out, "killed by signal %d", WTERMSIG(status));
}

static int exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The recording has ended before the program that we started: it is waited for, as a shell would.
 */
static int wait_for(pid_t child, int *ret_status)
{
	int handled = signals_seen;

	fprintf(stderr, "pollux: the program (%d) runs on, unrecorded\n", child);
	while (waitpid(child, ret_status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
		if (signals_seen > handled && !from_terminal)
			kill(child, last_signal);
		handled = signals_seen;
	}
	return 0;
}

static int run_job(struct job *job, struct error *err)
{
	_cleanup_buf_ struct buf reason = BUF_INIT;
	struct capture_stats stats = {0};
	struct trace_writer *w;
	struct capture_set *set;
	uint64_t bytes, began;
	int rc, code;

	if (trace_writer_open(job->path, &w, err) < 0)
		return 1;
	catch_signals();
	rc = capture_set_open(&job->capture, w, &set, err);
	if (rc < 0) {
		trace_writer_close(w, NULL);
		unlink(job->path); /* it holds nothing */
		return 1;
	}
	began = clock_monotonic_ns();
	rc = record(job, set, &reason, w, err);
	cli_progress_done();
	if (rc == 0 && capture_set_exit_status(set) >= 0) {
		buf_clear(&reason);
		describe_exit(&reason, capture_set_exit_status(set));
	}
	if (capture_set_close(set, rc < 0 ? "failed" : reason.data, &stats, rc < 0 ? NULL : err) <
	    0)
		rc = -EIO;
	bytes = trace_writer_bytes(w);
	bool nothing = rc < 0 && !trace_writer_n_events(w);
	if (trace_writer_close(w, rc < 0 ? NULL : err) < 0)
		rc = -EIO;
	if (nothing)
		unlink(job->path);
	if (rc == 0)
		say(job, &stats, began, bytes);
	code = rc < 0;
	if (stats.child > 0 && wait_for(stats.child, &stats.exit_status) < 0)
		code = 1;
	if (rc == 0 && job->capture.argv)
		code = exit_code(stats.exit_status);
	capture_stats_done(&stats);
	return code;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct job job = {.path = NULL};
	int code = parse(args, &job);

	if (!code) {
		if (job.path && job.name) {
			code = run_job(&job, err);
		} else {
			error_set(err, -ENOMEM, "out of memory");
			code = 1;
		}
	}
	free(job.path);
	free(job.name);
	return code;
}

const struct cli_verb verb_record = {
	.name = "record",
	.synopsis = "record [OPTIONS] -p PID... | --exe BINARY | -- CMD [ARGS...]",
	.summary = "record every task of a program into a trace",
	.text = "Records spawns, polls, wakes and ends of all tasks, parked and blocked threads, "
		"of an "
		"unmodified program with Tokio, async-std or smol: a running one (-p), or one that "
		"is "
		"started (behind --). No rebuild, no root: what may be debugged may be recorded.\n"
		"\n"
		"The recording ends at Ctrl-C, after -d, or with the program. Then everything in "
		"the "
		"program is put back as it was. A program that was started gives its exit status "
		"(128 + "
		"signal if it was killed); if the recording ends first, it runs on unrecorded and "
		"is waited "
		"for.\n"
		"\n"
		"Where a program has debug information, each wait is recorded with its await point "
		"(function, file, line). It is read beside the recording: the first moments of a "
		"large program may go without.\n"
		"\n"
		"--futures also records the polls of futures within a task: which async function "
		"polled which, how long, at which await point it stopped. It costs two events for "
		"each of their polls; what can't be hooked is named.\n"
		"\n"
		"Threads write into rings of shared memory that pollux empties all the time. When "
		"it falls "
		"behind, events are dropped and counted; a larger --ring-size helps.",
	.examples = examples,
	.options = options,
	.command = true,
	.run = run,
};
