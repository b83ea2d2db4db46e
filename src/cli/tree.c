/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pollux tree: where does each task wait, now or at a recording's start and end. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "future/inspect.h"
#include "moment/compare.h"
#include "moment/graph.h"
#include "moment/render.h"
#include "trace/trace.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 6u
#define TREE_COLUMNS 100u /* in a pipe */

static const struct cli_option options[] = {
	{0, "family", "TEXT", "only tasks whose name contains TEXT", true},
	{0, "task", "ID", "only this task, by id or address of its header", true},
	{0, "depth", "N", "follow awaits up to N levels", false},
	{0, "all", NULL, "also finished tasks that only a join handle keeps", false},
	{0, "each", NULL, "do not group tasks with equal trees", false},
	{0, "internals", NULL, "also the async functions of runtimes", false},
	{0, "all-wrappers", NULL, "also futures that only pass polls on", false},
	{0, "raw", NULL, "also reference counts, state words and addresses", false},
	{0, "exe", "FILE", "the executable of a core file (default: the one that the core names)",
	 false},
	{0, "at", "WHEN", "of a trace: its start, or its end (default)", false, false, "start end"},
	{0, "no-stop", NULL, "do not pause the threads while reading", false},
	{0, "json", NULL, "print JSON (docs/tree-json.md)", false},
	OUTPUT_OPTIONS,
	{0},
};

static const char *const examples[] = {
	"pollux tree 4242",
	"where every task of process 4242 waits",
	"pollux tree 4242 --family conn",
	"only the connections",
	"pollux tree core.4242 --exe ./server",
	"the same from a core file",
	"pollux tree pollux-server-4242.plx --at start",
	"the same of when a recording began",
	NULL,
};

/* Some names that exist, in place of those that match nothing. */
static void add_names(struct buf *b, const struct trace_moment *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_tasks && n < MAX_NAMES; i++) {
		const char *name = m->tasks[i].kind->name;

		if (b->len && strstr(b->data, name))
			continue;
		buf_str(b, n++ ? ", " : "");
		buf_str(b, name);
	}
}

/* A word that no task matches is a slip. */
static int check_words(const struct render_options *opt, const struct trace_moment *m,
		       struct error *err)
{
	for (int by_task = 0; by_task < 2; by_task++) {
		const char *const *words = by_task ? opt->tasks : opt->families;

		for (; words && *words; words++) {
			const char *const list[] = {*words, NULL};
			struct render_options one = {.finished = opt->finished};
			_cleanup_buf_ struct buf names = BUF_INIT;
			size_t i = 0;

			*(by_task ? &one.tasks : &one.families) = list;
			while (i < m->n_tasks && !render_matches(&one, &m->tasks[i]))
				i++;
			if (i < m->n_tasks)
				continue;
			if (by_task)
				return error_set(err, -ENOENT, "no task '%s' among %zu task%s",
						 *words, m->n_tasks, m->n_tasks == 1 ? "" : "s");
			add_names(&names, m);
			return error_set(err, -ENOENT,
					 "no task whose name contains '%s' among %zu task%s: %s",
					 *words, m->n_tasks, m->n_tasks == 1 ? "" : "s",
					 names.len && !buf_failed(&names) ? names.data
									  : "there are none");
		}
	}
	return 0;
}

struct job {
	struct render_options render;
	bool json;
	bool chosen; /* --at was given */
	enum moment_when when;
	unsigned n_unmatched; /* processes of which no task was chosen */
	struct buf out;
	struct json j;
};

/* One moment of a trace, and what changed since another one, or NULL. `titled`: there are several
 * processes. */
static int show(struct job *job, const struct trace_moment *m, const struct comparison *since,
		const struct trace_process *process, bool titled, struct error *err)
{
	struct graph graph = {0};

	TRY(graph_make(m, &graph, err));
	if (job->json) {
		json_object(&job->j, NULL);
		json_u64(&job->j, "pid", process ? process->pid : 0);
		json_string(&job->j, "exe", process ? process->exe : "");
		json_string(&job->j, "at", moment_when_name(m->when));
		render_json(&graph, &job->render, &job->j, "moment");
		if (since)
			comparison_json(since, &job->j, "since_start");
		json_end_object(&job->j);
	} else {
		if (titled && process) {
			buf_str(&job->out, job->out.len ? "\n" : "");
			buf_printf(&job->out, "process %u ", process->pid);
			text_safe(&job->out, process->exe);
			buf_str(&job->out, "\n\n");
		}
		render_text(&graph, &job->render, &job->out);
		if (since)
			comparison_text(since, &job->out);
	}
	graph_done(&graph);
	return 0;
}

/* Of several processes those that have a task that was chosen are shown: 1 or 0. A process alone has
 * to have one for each word. */
static int check_chosen(struct job *job, const struct trace_moment *m, bool several,
			struct error *err)
{
	bool chosen = !job->render.tasks && !job->render.families;

	if (!several) {
		int rc = check_words(&job->render, m, err);
		return rc < 0 ? rc : 1;
	}
	for (size_t i = 0; i < m->n_tasks && !chosen; i++)
		chosen = render_matches(&job->render, &m->tasks[i]);
	job->n_unmatched += !chosen;
	return chosen;
}

/* The moment of a process that was asked for, else the one that there is. */
static int show_process(struct job *job, struct trace_reader *r, uint32_t process, bool several,
			struct error *err)
{
	struct trace_moment m[MOMENT_N] = {0};
	bool there[MOMENT_N] = {0};
	enum moment_when when = job->when;
	struct comparison since = {0};
	int rc = 0;

	for (enum moment_when w = 0; w < MOMENT_N && rc >= 0; w++) {
		rc = trace_reader_moment(r, process, w, &m[w], err);
		there[w] = rc == 1;
	}
	if (rc >= 0 && !there[when] && !job->chosen)
		when = MOMENT_START;
	if (rc >= 0 && there[when])
		rc = check_chosen(job, &m[when], several, err);
	bool shown = rc == 1 && there[when];
	if (shown && when == MOMENT_END && there[MOMENT_START])
		rc = comparison_make(&m[MOMENT_START], &m[MOMENT_END], &since, err);
	if (rc >= 0 && shown && when != job->when && !job->json)
		buf_str(&job->out, "the start of the recording: there is no moment of "
				   "its end\n\n");
	if (rc >= 0 && shown)
		rc = show(job, &m[when], since.changes ? &since : NULL,
			  trace_reader_process(r, process), several, err);
	comparison_done(&since);
	moment_done(&m[MOMENT_START]);
	moment_done(&m[MOMENT_END]);
	return rc < 0 ? rc : shown;
}

static int run_trace(struct job *job, const char *path, struct error *err)
{
	struct trace_reader *r = NULL;
	const char *why;
	int rc = trace_reader_open(path, &r, err), n_shown = 0;

	if (rc < 0)
		return rc;
	rc = trace_reader_skip_events(r, err);
	if (job->json) {
		json_object(&job->j, NULL);
		json_array(&job->j, "moments");
	}
	for (uint32_t i = 0; i < trace_reader_n_processes(r) && rc >= 0; i++) {
		rc = show_process(job, r, i, trace_reader_n_processes(r) > 1, err);
		n_shown += rc > 0;
	}
	if (job->json) {
		json_end_array(&job->j);
		json_end_object(&job->j);
	}
	if (rc >= 0 && !n_shown && job->n_unmatched)
		rc = error_set(err, -ENOENT,
			       "no task that --family and --task choose in any of "
			       "the %u processes",
			       job->n_unmatched);
	else if (rc >= 0 && !n_shown)
		rc = error_set(err, -ENOENT,
			       "%s has no moment%s%s: pollux before 0.2 made it, it was recorded "
			       "with --no-snapshot, or the program had ended",
			       path, job->chosen ? " of its " : "",
			       job->chosen ? moment_when_name(job->when) : "");
	if (rc >= 0 && trace_reader_truncated(r, &why))
		cli_complain(why);
	trace_reader_free(r);
	return rc < 0 ? rc : 0;
}

static int run_process(struct job *job, const struct cli_args *args, const char *what, pid_t pid,
		       const struct inspect_options *opt, struct error *err)
{
	struct inspect_result result = {0};
	struct trace_moment moment = {0};
	struct graph graph = {0};
	struct inspect *in = NULL;
	int r;

	cli_slow_begin("looking into the files of", what);
	r = pid ? inspect_open(pid, &in, err)
		: inspect_open_core(what, cli_option(args, "exe"), &in, err);
	cli_slow_end();
	if (r == 0)
		r = inspect_snapshot(in, opt, &result, err);
	if (r == 0)
		r = inspect_moment(in, &result, &moment, err);
	if (r == 0)
		r = check_words(&job->render, &moment, err);
	if (r == 0)
		r = graph_make(&moment, &graph, err);
	if (r == 0 && job->json)
		render_json(&graph, &job->render, &job->j, NULL);
	else if (r == 0)
		render_text(&graph, &job->render, &job->out);
	graph_done(&graph);
	moment_done(&moment);
	inspect_result_done(&result);
	inspect_free(in);
	return r;
}

static int parse(const struct cli_args *args, struct job *job, struct inspect_options *opt)
{
	const char *depth = cli_option(args, "depth"), *at = cli_option(args, "at");
	char *end;

	job->render = (struct render_options){
		.color = cli_color(),
		.width = cli_columns(args, TREE_COLUMNS),
		.wrappers = cli_flag(args, "all-wrappers"),
		.internals = cli_flag(args, "internals"),
		.raw = cli_flag(args, "raw"),
		.finished = cli_flag(args, "all"),
		.ungrouped = cli_flag(args, "each"),
		.families = cli_option_all(args, "family"),
		.tasks = cli_option_all(args, "task"),
	};
	*opt = (struct inspect_options){
		.no_stop = cli_flag(args, "no-stop"),
		.finished = cli_flag(args, "all"),
	};
	job->json = cli_flag(args, "json");
	job->chosen = at;
	job->when = MOMENT_END;
	if (at && !strcmp(at, "start"))
		job->when = MOMENT_START;
	else if (at && strcmp(at, "end") != 0)
		return cli_usage(args, "--at is start or end, not '%s'", at);
	if (depth) {
		long levels = strtol(depth, &end, 10);

		if (*end || levels <= 0 || levels > INT_MAX)
			return cli_usage(args, "--depth needs a number from 1 up, not '%s'", depth);
		opt->max_depth = (unsigned)levels;
	}
	return 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct job job = {.out = BUF_INIT};
	struct inspect_options opt;
	bool is_core, is_trace;
	const char *what;
	char *end;
	long pid;
	int r;

	if (cli_n_operands(args) != 1)
		return cli_usage(args, "tree needs one process id, core file or trace");
	what = cli_operand(args, 0);
	pid = strtol(what, &end, 10);
	is_core = *end || end == what;
	is_trace = is_core && trace_file_is_trace(what);
	if (!is_core && (pid <= 0 || pid > INT_MAX))
		return cli_usage(args, "'%s' is no process id", what);
	if ((!is_core || is_trace) && cli_option(args, "exe"))
		return cli_usage(args, "--exe goes with a core file, not with a %s",
				 is_trace ? "trace" : "process id");
	if (!is_trace && cli_option(args, "at"))
		return cli_usage(args, "--at goes with a trace");
	/* Decided when the memory was read. */
	if (is_trace && (cli_flag(args, "no-stop") || cli_option(args, "depth")))
		return cli_usage(args, "--no-stop and --depth do not go with a trace");
	r = parse(args, &job, &opt);
	if (r)
		return r;
	json_init(&job.j, &job.out, true);
	r = is_trace ? run_trace(&job, what, err)
		     : run_process(&job, args, what, is_core ? 0 : (pid_t)pid, &opt, err);
	if (r == 0 && job.json)
		buf_char(&job.out, '\n');
	if (r == 0)
		r = job.json ? cli_write(&job.out, err) : cli_show(args, &job.out, err);
	buf_done(&job.out);
	return r < 0 ? 1 : 0;
}

const struct cli_verb verb_tree = {
	.name = "tree",
	.synopsis = "tree [OPTIONS] PID | CORE | TRACE",
	.summary = "show where every task waits now",
	.text = "Reads the memory of a running program and prints the await tree of each of its "
		"tasks: from\n"
		"the root future down to the sleep, lock, channel, socket or task that it waits "
		"for, with the\n"
		"file and line of every .await. Nothing runs in the program; its threads are "
		"paused only while the memory of the tasks is copied. The tree also shows the "
		"futures of block_on, the threads of running tasks, and the run queues of "
		"scheduled ones. Trees need debug information (debug = true; line tables are not "
		"enough); names and states do not.",
	.examples = examples,
	.operands = CLI_PROCESSES | CLI_FILES,
	.options = options,
	.run = run,
};
