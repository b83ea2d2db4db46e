/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The capture of running or started programs until it ends, by itself, by time or by a signal.
 *
 * A signal only sets a flag; the drain's sleep is short and ends at once when one comes. Ctrl-C at
 * a terminal reaches a launched program too: it is recorded on to its own end, and a second Ctrl-C
 * ends only the recording. Other signals end a recording of running programs, and are passed on to
 * a launched one, whose exit status pollux returns.
 */
#include "cli/recording.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/cpu_yield.h"
#include "base/units.h"
#include "cli/args.h"
#include "cli/process_operand.h"
#include "process/process.h"
#include "process/threads.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_RING_BYTES (1ull << 20)
#define PROGRESS_NS (500 * NSEC_PER_MSEC)

static const struct cli_option recording_options[] = {
	RECORDING_PROCESS_OPTIONS,
	RECORDING_OPTIONS,
	{0},
};

/* ---- signals ---- */

static volatile sig_atomic_t signals_seen, last_signal, from_terminal;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)context;
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

static int add_pid(const struct cli_args *args, struct recording *rec, pid_t pid)
{
	if (pid == getpid())
		return cli_usage(args, "pollux can't record itself");
	for (size_t k = 0; k < rec->capture.n_pids; k++)
		if (rec->pids[k] == pid)
			return cli_usage(args, "process %d is given twice", pid);
	if (rec->capture.n_pids == sizeof(rec->pids) / sizeof(rec->pids[0]))
		return cli_usage(args, "more than %zu processes at once", rec->capture.n_pids);
	rec->pids[rec->capture.n_pids++] = pid;
	return 0;
}

int recording_add_process(const struct cli_args *args, struct recording *rec, const char *text,
			  const char *hint)
{
	pid_t pid;
	int code = process_operand(args, text, hint, &pid);

	return code ? code : add_pid(args, rec, pid);
}

static int parse_pids(const struct cli_args *args, struct recording *rec)
{
	const char *const *given = cli_option_all(args, "pid");
	int code = 0;

	for (size_t i = 0; given && given[i] && !code; i++)
		code = recording_add_process(args, rec, given[i], "");
	rec->capture.pids = rec->pids;
	return code;
}

static char *name_of(const struct recording *rec)
{
	char comm[16];

	if (rec->capture.argv) {
		const char *slash = strrchr(rec->capture.argv[0], '/');
		return strdup(slash ? slash + 1 : rec->capture.argv[0]);
	}
	if (rec->capture.exe) {
		const char *slash = strrchr(rec->capture.exe, '/');
		return strdup(slash ? slash + 1 : rec->capture.exe);
	}
	process_thread_name(rec->pids[0], rec->pids[0], comm);
	return strdup(comm);
}

int recording_parse(const struct cli_args *args, struct recording *rec)
{
	const char *duration = cli_option(args, "duration"), *ring = cli_option(args, "ring-size");
	const char *backend = cli_option(args, "backend");
	int code;

	rec->capture.argv = cli_command(args);
	rec->capture.exe = cli_option(args, "exe");
	rec->capture.ring_bytes = DEFAULT_RING_BYTES;
	code = parse_pids(args, rec);
	if (code)
		return code;
	if (rec->capture.argv && !*rec->capture.argv[0])
		return cli_usage(args, "the command after -- is an empty word ('')");
	if (!!rec->capture.argv + !!rec->capture.n_pids + !!rec->capture.exe > 1)
		return cli_usage(args, "-p, --exe and a command exclude each other");
	if (!rec->capture.argv && !rec->capture.n_pids && !rec->capture.exe)
		return cli_usage(
			args,
			"nothing to record: name a process (PID or NAME), --exe BINARY, or -- CMD");
	if (duration && (text_parse_duration(duration, NSEC_PER_SEC, &rec->duration_ns) < 0 ||
			 !rec->duration_ns))
		return cli_usage(args, "-d needs a time such as 10, 2.5s or 500ms, not '%s'",
				 duration);
	if (ring && (text_parse_bytes(ring, &rec->capture.ring_bytes) < 0 ||
		     rec->capture.ring_bytes < 4096 || rec->capture.ring_bytes > 1ull << 30))
		return cli_usage(args, "--ring-size needs 4K to 1G, not '%s'", ring);
	if (backend && strcmp(backend, "agent") && strcmp(backend, "kernel"))
		return cli_usage(args, "--backend is 'agent' or 'kernel', not '%s'", backend);
	rec->capture.kernel = backend && !strcmp(backend, "kernel");
	rec->capture.force = cli_flag(args, "force");
	rec->name = name_of(rec);
	return 0;
}

const char *recording_option(const struct cli_args *args)
{
	for (const struct cli_option *o = recording_options; o->name; o++) {
		const struct cli_option *own = args->verb->options;

		while (own->name && strcmp(own->name, o->name) != 0)
			own++;
		if (own->name && cli_flag(args, o->name))
			return o->name;
	}
	return NULL;
}

void recording_done(struct recording *rec)
{
	free(rec->name);
	rec->name = NULL;
}

/* ---- the recording ---- */

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
static int drain(struct recording *rec, struct capture_set *set, struct buf *reason,
		 struct trace_writer *w, struct error *err)
{
	uint64_t began = clock_monotonic_ns(), next_progress = began;
	bool terminal = isatty(STDERR_FILENO);
	int handled = 0;

	cpu_yield_begin();
	for (;;) {
		int64_t wait = capture_set_drain(set, err);
		uint64_t now = clock_monotonic_ns();

		if (wait < 0)
			return (int)wait;
		if (wait == 0) {
			buf_str(reason, rec->capture.argv ? "" : "the program ended");
			return 0;
		}
		if (rec->duration_ns && now - began >= rec->duration_ns) {
			buf_str(reason, "duration");
			return 0;
		}
		if (signals_seen > handled) {
			if (!rec->capture.argv ||
			    signal_ends_launched(capture_set_child(set), handled)) {
				buf_str(reason,
					last_signal == SIGINT ? "interrupted" : "terminated");
				return 0;
			}
			handled = signals_seen;
		}
		if (!rec->quiet && now >= next_progress && terminal) {
			struct buf label = BUF_INIT;

			buf_str(&label, "recording ");
			text_safe(&label, rec->name);
			buf_str(&label, ", ");
			text_count(&label, trace_writer_n_events(w));
			buf_str(&label, " events (Ctrl-C ends)");
			if (!buf_failed(&label))
				cli_progress(label.data, now - began, rec->duration_ns);
			buf_done(&label);
			next_progress = now + PROGRESS_NS;
		}
		if (rec->duration_ns && now + (uint64_t)wait > began + rec->duration_ns)
			wait = (int64_t)(began + rec->duration_ns - now) + 1;
		capture_set_wait(set, (uint64_t)wait);
	}
}

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

	fprintf(stderr,
		"pollux: the recording ended; process %d is still running, and pollux waits for "
		"it: Ctrl-C ends it\n",
		child);
	while (waitpid(child, ret_status, 0) < 0) {
		/* The end may have been taken when its memory was read for the last time. */
		if (errno == ECHILD && thread_end_taken(child, ret_status))
			return 0;
		if (errno != EINTR)
			return -errno;
		if (signals_seen > handled && !from_terminal)
			kill(child, last_signal);
		handled = signals_seen;
	}
	return 0;
}

static int run(struct recording *rec, struct trace_writer *w, struct recorded *ret,
	       struct error *err)
{
	_cleanup_buf_ struct buf reason = BUF_INIT;
	struct capture_set *set;

	catch_signals();
	cli_slow_begin("reading the files of", rec->name);
	int rc = capture_set_open(&rec->capture, w, &set, err);
	cli_slow_end();
	if (rc < 0)
		return rc;
	ret->began_ns = clock_monotonic_ns();
	rc = drain(rec, set, &reason, w, err);
	cli_progress_done();
	if (rc == 0 && capture_set_exit_status(set) >= 0) {
		buf_clear(&reason);
		describe_exit(&reason, capture_set_exit_status(set));
	}
	if (capture_set_close(set, rc < 0 ? "failed" : reason.data, &ret->stats,
			      rc < 0 ? NULL : err) < 0)
		rc = -EIO;
	return rc;
}

int recording_run(struct recording *rec, struct trace_writer *w, bool file, struct recorded *ret,
		  struct error *err)
{
	int rc = run(rec, w, ret, err);

	ret->n_events = trace_writer_n_events(w);
	ret->bytes = trace_writer_bytes(w);
	ret->length_ns = trace_writer_length_ns(w, &ret->stats.cost);
	ret->nothing = rc < 0 ? !trace_writer_n_events(w) : !ret->stats.n_processes;
	if (ret->nothing && file)
		trace_writer_discard(w);
	else if (trace_writer_close(w, rc < 0 ? NULL : err) < 0)
		rc = rc < 0 ? rc : -EIO;
	return rc;
}

int recording_end(const struct recording *rec, int rc, struct capture_stats *stats)
{
	int code = rc < 0;

	if (stats->child > 0 && wait_for(stats->child, &stats->exit_status) < 0)
		code = 1;
	if (rc == 0 && rec->capture.argv)
		code = stats->exit_status >= 0 ? exit_code(stats->exit_status) : 1;
	return code;
}
