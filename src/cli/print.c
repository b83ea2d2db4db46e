/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pollux print: the events of a trace, one a line, in the order of time. What is there is written
 * whenever the next event may have to be waited for.
 */
#include "cli/print.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "cli/input.h"
#include "cli/verbs.h"
#include "moment/render.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_BYTES 32768u

/* No event: what JSON has besides them. */
static const char moment_name[] = "moment";

static int known_events(const struct cli_args *args, const char *const *names, bool json)
{
	for (; names && *names; names++) {
		unsigned type = TE_NONE + 1;
		if (!json && !strcmp(*names, moment_name))
			return cli_usage(args, "--event %s needs --json", moment_name);
		if (json && !strcmp(*names, moment_name))
			continue;
		while (type < TE_N_TYPES && !printer_is_event(*names, type))
			type++;
		if (type == TE_N_TYPES)
			return cli_usage(args,
					 "there is no event '%s'; docs/print.md has their names",
					 *names);
	}
	return 0;
}

int print_parse(const struct cli_args *args, struct print_job *job)
{
	struct error err = {0};
	const char *form = cli_option(args, "format");
	bool json = cli_flag(args, "json");

	job->events = cli_option_all(args, "event");
	job->moments = json && !job->events;
	for (const char *const *name = job->events; json && name && *name; name++)
		job->moments = job->moments || !strcmp(*name, moment_name);
	int r = known_events(args, job->events, json);
	if (r)
		return r;
	if (form && json)
		return cli_usage(args, "--json and --format exclude each other");
	if (printer_new(form, json, &job->printer, &err) < 0)
		return cli_usage(args, "--format: %s", err.text);
	return 0;
}

void print_done(struct print_job *job)
{
	printer_free(job->printer);
	free(job->matches);
	match_done(&job->match);
	job->printer = NULL;
	job->matches = NULL;
}

static bool wanted(const struct print_job *job, unsigned type)
{
	for (const char *const *name = job->events; name && *name; name++)
		if (printer_is_event(*name, type))
			return true;
	return !job->events;
}

/* Whether the event is of such a kind: 1, 0, -ENOMEM. Events of no kind are not. */
static int is_of_family(struct print_job *job, struct trace_reader *r, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(r, kind);

	if (!job->families)
		return 1;
	if (!k)
		return 0;
	if (!GROW_ZERO(job->matches, kind, job->n_matches))
		return -ENOMEM;
	if (!job->matches[kind]) {
		job->matches[kind] = match_kind(job->families, r, k) ? 2 : 1;
		if (match_note_handler(&job->match, kind, job->matches[kind] == 2) < 0)
			return -ENOMEM;
	}
	return job->matches[kind] == 2;
}

/* Whole lines at once: the program that is recorded may write to the same place, and a pipe takes
 * up to PIPE_BUF as one. */
static bool write_lines(const char *text, size_t len)
{
	while (len) {
		size_t part = len;

		if (part > PIPE_BUF) {
			const char *end = memrchr(text, '\n', PIPE_BUF);
			part = end ? (size_t)(end + 1 - text) : PIPE_BUF;
		}
		ssize_t n = write(STDOUT_FILENO, text, part);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static int write_out(struct print_job *job, struct buf *out, struct error *err)
{
	if (buf_failed(out))
		return error_set(err, -ENOMEM, "out of memory");
	bool written = fflush(stdout) == 0 && write_lines(out->data, out->len);
	buf_clear(out);
	if (written)
		return 0;
	job->output_closed = errno == EPIPE;
	return job->output_closed ? -EPIPE : error_sys(err, -errno, "cannot write");
}

/* One moment as a line of JSON: the object of `tree --json`, and whose it is. */
static int print_moment(struct trace_reader *r, uint32_t process, enum moment_when when,
			struct buf *out, struct error *err)
{
	const struct trace_process *p = trace_reader_process(r, process);
	const struct render_options options = {.select = {.finished = true}};
	struct trace_moment m = {0};
	struct graph graph = {0};
	struct json j;
	int rc = trace_reader_moment(r, process, when, &m, err);

	if (rc >= 0)
		rc = graph_make(&m, &graph, err);
	if (rc == 0) {
		json_init(&j, out, false);
		json_object(&j, NULL);
		json_string(&j, "event", moment_name);
		json_string(&j, "at", moment_when_name(when));
		json_u64(&j, "pid", p ? p->pid : 0);
		render_json(&graph, &options, &j, "moment");
		json_end_object(&j);
		buf_char(out, '\n');
	}
	graph_done(&graph);
	moment_done(&m);
	return rc;
}

/* Those that have been read since the last call. */
static int print_moments(struct print_job *job, struct trace_reader *r, struct buf *out,
			 struct error *err)
{
	enum moment_when when;
	uint32_t process;

	while (job->moments && trace_reader_moment_name(r, job->n_moments, &process, &when)) {
		job->n_moments++;
		TRY(print_moment(r, process, when, out, err));
	}
	return 0;
}

int print_events(void *ctx, struct trace_reader *r, struct error *err)
{
	struct print_job *job = ctx;
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct trace_event ev;
	int ret;

	while ((ret = trace_reader_next(r, &ev, err)) > 0) {
		int rc = print_moments(job, r, &out, err);

		if (rc < 0)
			return rc;
		printer_begin(job->printer, &ev);
		job->seen[ev.type < TE_N_TYPES ? ev.type : TE_NONE] = true;
		rc = wanted(job, ev.type) ? is_of_family(job, r, ev.kind) : 0;
		if (rc < 0)
			return error_set(err, rc, "out of memory");
		if (rc)
			printer_event(job->printer, r, &ev, &out);
		if (!out.len || (out.len < FLUSH_BYTES && !trace_reader_may_wait(r)))
			continue;
		ret = write_out(job, &out, err);
		if (ret < 0)
			return ret;
	}
	if (ret == 0)
		ret = print_moments(job, r, &out, err);
	if (ret == 0 && out.len)
		ret = write_out(job, &out, err);
	return ret;
}

/* Of a file: a name or a word that matches nothing is a slip, and nothing at all is to be said. */
static int check_printed(struct print_job *job, struct trace_reader *r, struct error *err)
{
	const struct replay_filter words = {.families = job->families};
	_cleanup_buf_ struct buf names = BUF_INIT;
	bool any = job->n_moments || (job->seen[TE_NONE] && !job->events);

	for (unsigned type = TE_NONE + 1; type < TE_N_TYPES; type++) {
		if (!job->seen[type])
			continue;
		any = any || wanted(job, type);
		buf_printf(&names, "%s%s", names.len ? ", " : "", trace_event_type_name(type));
	}
	if (!any && (names.len || job->seen[TE_NONE]))
		return error_set(err, -ENOENT, "no event of this name: the trace has %s",
				 names.len && !buf_failed(&names) ? names.data : "others");
	if (!any)
		cli_complain("the trace has no events");
	job->match.reader = r;
	job->match.filter = &words;
	return any && job->families ? match_check(&job->match, 0, err) : 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct print_job job = {0};
	struct trace_reader *reader = NULL;
	const char *why;

	_cleanup_free_ char *input = NULL;
	int r = print_parse(args, &job);
	if (r == 0)
		r = input_trace(args, &input);
	if (r) {
		print_done(&job);
		return r;
	}
	job.families = cli_option_all(args, "family");
	job.moments = job.moments && !job.families;
	r = trace_reader_open(input, &reader, err);
	if (r == 0) {
		r = print_events(&job, reader, err);
		if (r == 0)
			r = check_printed(&job, reader, err);
		if (r < 0 && r != -ENOENT && !job.output_closed)
			error_add(err, "cannot print %s", input);
	}
	if (r == 0 && trace_reader_truncated(reader, &why))
		cli_complain(why);
	trace_reader_free(reader);
	print_done(&job);
	return r < 0 && !job.output_closed ? 1 : 0;
}

static const struct cli_option options[] = {
	{0, "format", "FORMAT", "format of a line, with fields such as {time} {tid} {event} {task}",
	 false},
	{0, "event", "NAME", "only events of this name (poll_begin, task-spawn, ...)", true},
	{0, "family", "TEXT", "only events of tasks and handlers whose name contains TEXT", true},
	{0, "json", NULL, "one JSON object per line", false},
	{0},
};

static const char *const examples[] = {
	"pollux print trace.plx | head",
	"the first events, in the format of tokio-dtrace's script",
	"pollux print trace.plx --format '{time} {tid:7} {probe:-20} {task:6} {kind}'",
	"other fields, in columns",
	"pollux print trace.plx --event wake --format '{time} {task} {outcome}'",
	"only wakes, with their outcome",
	NULL,
};

const struct cli_verb verb_print = {
	.name = "print",
	.synopsis = "print [OPTIONS] [FILE.plx]",
	.summary = "print the events of a trace, one per line",
	.text = "Prints the events of FILE.plx (- is standard input; default: the newest trace "
		"here) in the order of time. Without --format a line is `thread[TID] "
		"NAME(task=ID)`, with the names of tokio-dtrace's probes where it has one.\n\n"
		"In a format, pollux replaces {FIELD} by the value of a field, {FIELD:8} by the "
		"same 8 columns wide, {FIELD:-8} by the same aligned to the left, {{ by a brace, "
		"\\t and \\n as in C. The fields: {time} seconds since the first event, {clock} ns "
		"of CLOCK_MONOTONIC, {pid}, {tid}, {thread} its name, {event} pollux's name, "
		"{probe} tokio-dtrace's, {task} id or address, {kind} its type, {role}, {outcome}, "
		"{place} the await point, {call}, {ns} how long a call took, {site} the spawn site "
		"of a spawn, {stack} of a sample.\n\n"
		"`pollux record --print` prints events as they come.",
	.examples = examples,
	.operands = CLI_TRACES,
	.options = options,
	.run = run,
};
