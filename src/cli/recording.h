/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A recording of running or started programs, for the verbs that make one. */
#pragma once

#include "capture/capture.h"
#include "cli/cli.h"

#define RECORDING_LONG_POLL_NS 10000000
/* No multiple of what programs do ten or a hundred times a second. */
#define RECORDING_CPU_HZ 999

struct recording {
	struct capture_options capture;
	pid_t pids[64];
	uint64_t duration_ns; /* 0: no end */
	bool quiet;	      /* no line of progress */
	char *name;	      /* of the program, for people; NULL: out of memory */
};

/* Rows of a verb's table of options: what to record, and how. */
/* clang-format off */
#define RECORDING_PROCESS_OPTIONS \
	{'p', "pid", "PID", "record this running process, like PID; repeatable", true}, \
	{0, "exe", "BINARY", "record every process that runs BINARY", false}
#define RECORDING_OPTIONS \
	{'d', "duration", "SECONDS", "stop after this time (10, 2.5, 500ms, 2m)", false}, \
	RECORDING_HOW_OPTIONS
#define RECORDING_HOW_OPTIONS \
	{0, "ring-size", "SIZE", "event buffer per thread (4K to 1G, default 1M)", false}, \
	{0, "backend", "WHICH", "agent (default), or kernel: uprobes, see docs/kernel.md (root)", \
	 false, false, "agent kernel"}, \
	{0, "force", NULL, "go on although a seccomp filter that cannot be read may kill the program", false}
/* clang-format on */

/* --pid, --exe, a command, --duration, --ring-size, where the verb has them. 0, or what the verb
 * returns after wrong use. recording_done() in every case. */
int recording_parse(const struct cli_args *args, struct recording *rec);
void recording_done(struct recording *rec);
/* The first option that was given of those that only a recording heeds; NULL: none. */
const char *recording_option(const struct cli_args *args);
/* Before that: another process, by its number or name; `hint` is added to the sentence if there is
 * none. 0, or as above. */
int recording_add_process(const struct cli_args *args, struct recording *rec, const char *text,
			  const char *hint);
/* What came of it. */
struct recorded {
	struct capture_stats stats; /* capture_stats_done() is the caller's */
	uint64_t n_events;	    /* in the trace */
	uint64_t began_ns, length_ns, bytes;
	bool nothing; /* no process, or after a failure no event */
};

/* Records into the writer until it ends, and closes it; 0 or negative errno. *ret must be zero before. `file`: a
 * recording of nothing is to leave no file. */
int recording_run(struct recording *rec, struct trace_writer *w, bool file, struct recorded *ret,
		  struct error *err);
/* Says on stderr why nothing was recorded, and what to do. `path`: of the trace; NULL: there is none. */
void recording_say_empty(const struct recording *rec, const struct capture_stats *stats,
			 const char *path);
/* Waits for a launched program that still runs. The verb's exit code, `rc` being how it went. */
int recording_end(const struct recording *rec, int rc, struct capture_stats *stats);
