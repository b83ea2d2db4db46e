/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pollux tree: where does each task wait, now. */
#include "base/buf.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "future/graph.h"
#include "future/inspect.h"
#include "future/render.h"

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
	NULL,
};

/* Some names that exist, in place of those that match nothing. */
static void add_names(struct buf *b, const struct inspect_result *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_tasks && n < MAX_NAMES; i++) {
		const char *name = inspect_kind_name(r->tasks[i].kind);

		if (b->len && strstr(b->data, name))
			continue;
		buf_str(b, n++ ? ", " : "");
		buf_str(b, name);
	}
}

/* A word that no task matches is a slip. */
static int check_words(const struct render_options *opt, const struct inspect_result *r,
		       struct error *err)
{
	for (int by_task = 0; by_task < 2; by_task++) {
		const char *const *words = by_task ? opt->tasks : opt->families;

		for (; words && *words; words++) {
			const char *const list[] = {*words, NULL};
			struct render_options one = {0};
			_cleanup_buf_ struct buf names = BUF_INIT;
			size_t i = 0;

			*(by_task ? &one.tasks : &one.families) = list;
			while (i < r->n_tasks && !render_matches(&one, &r->tasks[i]))
				i++;
			if (i < r->n_tasks)
				continue;
			if (by_task)
				return error_set(err, -ENOENT, "no task '%s' among %zu task%s",
						 *words, r->n_tasks, r->n_tasks == 1 ? "" : "s");
			add_names(&names, r);
			return error_set(err, -ENOENT,
					 "no task whose name contains '%s' among %zu task%s: %s",
					 *words, r->n_tasks, r->n_tasks == 1 ? "" : "s",
					 names.len && !buf_failed(&names) ? names.data
									  : "there are none");
		}
	}
	return 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct render_options render = {
		.color = cli_color(),
		.width = cli_columns(args, TREE_COLUMNS),
		.wrappers = cli_flag(args, "all-wrappers"),
		.internals = cli_flag(args, "internals"),
		.raw = cli_flag(args, "raw"),
		.ungrouped = cli_flag(args, "each"),
		.families = cli_option_all(args, "family"),
		.tasks = cli_option_all(args, "task"),
	};
	struct inspect_options opt = {
		.no_stop = cli_flag(args, "no-stop"),
		.finished = cli_flag(args, "all"),
	};
	const char *depth = cli_option(args, "depth");
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct inspect_result result = {0};
	struct graph graph = {0};
	struct inspect *in = NULL;
	const char *what;
	bool is_core;
	char *end;
	long pid;
	int r;

	if (cli_n_operands(args) != 1)
		return cli_usage(args, "tree needs one process id or core file");
	what = cli_operand(args, 0);
	pid = strtol(what, &end, 10);
	is_core = *end || end == what;
	if (!is_core && (pid <= 0 || pid > INT_MAX))
		return cli_usage(args, "'%s' is no process id", what);
	if (!is_core && cli_option(args, "exe"))
		return cli_usage(args, "--exe goes with a core file, not with a process id");
	if (depth) {
		long levels = strtol(depth, &end, 10);

		if (*end || levels <= 0 || levels > INT_MAX)
			return cli_usage(args, "--depth needs a number from 1 up, not '%s'", depth);
		opt.max_depth = (unsigned)levels;
	}
	cli_slow_begin("looking into the files of", what);
	r = is_core ? inspect_open_core(what, cli_option(args, "exe"), &in, err)
		    : inspect_open((pid_t)pid, &in, err);
	cli_slow_end();
	if (r == 0)
		r = inspect_snapshot(in, &opt, &result, err);
	if (r == 0)
		r = check_words(&render, &result, err);
	if (r == 0)
		r = graph_make(&result, &graph, err);
	if (r == 0) {
		if (cli_flag(args, "json"))
			render_json(in, &result, &graph, &render, &out);
		else
			render_text(in, &result, &graph, &render, &out);
		r = cli_flag(args, "json") ? cli_write(&out, err) : cli_show(args, &out, err);
	}
	graph_done(&graph);
	inspect_result_done(&result);
	inspect_free(in);
	return r < 0 ? 1 : 0;
}

const struct cli_verb verb_tree = {
	.name = "tree",
	.synopsis = "tree [OPTIONS] PID | CORE",
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
