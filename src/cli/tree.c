/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pollux tree: where does each task wait, now or at a recording's start and end. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/text_fit.h"
#include "base/units.h"
#include "cli/filter.h"
#include "cli/output.h"
#include "cli/process_operand.h"
#include "cli/verbs.h"
#include "future/inspect.h"
#include "moment/compare.h"
#include "moment/graph.h"
#include "moment/render.h"
#include "timeline/live.h"
#include "timeline/moments.h"
#include "timeline/replay.h"
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
	{0, "state", "STATE", "only tasks in this state", true, false,
	 "idle scheduled running done"},
	{0, "waits-for", "TEXT", "only tasks that wait for something whose name contains TEXT",
	 true},
	{0, "longer-than", "TIME", "only tasks that have been in their state for longer (2s, 50ms)",
	 false},
	{0, "with", "FUNCTION", "only tasks with a function of that name in their tree or stack",
	 true},
	{0, "without", "FUNCTION", "only tasks without a function of that name", true},
	{0, "sort", "KEY", "size: the largest tasks first, with their sizes", false, false, "size"},
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
	"pollux tree 4242 --waits-for mutex --longer-than 2s",
	"which tasks wait for a lock for two seconds: pollux reads them twice",
	"pollux tree core.4242 --exe ./server",
	"the same from a core file",
	"pollux tree pollux-server-4242.plx --at start",
	"the same, at the begin of a recording",
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

/* How many tasks are in each state, among those that could be chosen. */
static void add_states(struct buf *b, const struct trace_moment *m, bool finished)
{
	size_t n_of[IS_N] = {0}, n = 0;

	for (size_t i = 0; i < m->n_tasks; i++)
		if (m->tasks[i].state < IS_N && (finished || m->tasks[i].state != IS_DONE))
			n_of[m->tasks[i].state]++;
	for (int s = 0; s < IS_N; s++)
		if (n_of[s])
			buf_printf(b, "%s%zu %s", n++ ? ", " : "", n_of[s], inspect_state_name(s));
}

static bool any_selected(const struct task_selection *select, const struct graph *g,
			 const struct thread_use *uses)
{
	for (size_t i = 0; i < g->moment->n_tasks; i++)
		if (task_selected(select, g, uses, &g->moment->tasks[i]))
			return true;
	return false;
}

static int none_of(const struct task_selection *select, const struct trace_moment *m,
		   const char *what, const char *word, bool names, struct error *err)
{
	_cleanup_buf_ struct buf there = BUF_INIT;

	if (names)
		add_names(&there, m);
	else
		add_states(&there, m, select->finished);
	return error_set(err, -ENOENT, "no task %s%s%s among %zu task%s: %s", what, word,
			 *word ? "'" : "", m->n_tasks, m->n_tasks == 1 ? "" : "s",
			 there.len && !buf_failed(&there) ? there.data : "there are none");
}

/* A word that no task matches is a slip, and so is a choice of none: what there is instead. Only
 * --without may leave out nothing, or all. */
static int check_words(const struct task_selection *select, const struct graph *g,
		       const struct thread_use *uses, struct error *err)
{
	struct task_selection one = *select;
	bool longer;
	const struct {
		const char *const *words, *const **option;
		const char *what;
		bool names; /* what there is are names, else states */
	} choices[] = {
		{select->tasks, &one.tasks, "'", false},
		{select->families, &one.families, "whose name contains '", true},
		{select->waits_for, &one.waits_for, "that waits for '", false},
		{select->with, &one.with, "with a function '", true},
		{select->states, &one.states, "in the state '", false},
	};

	/* That alone. */
	one.longer_than_ns = 0;
	longer = select->longer_than_ns && task_selection_is_all(&one);
	for (size_t k = 0; k < sizeof(choices) / sizeof(choices[0]); k++) {
		for (const char *const *word = choices[k].words; word && *word; word++) {
			const char *const list[] = {*word, NULL};

			one = (struct task_selection){.finished = select->finished};
			*choices[k].option = list;
			if (!any_selected(&one, g, uses))
				return none_of(select, g->moment, choices[k].what, *word,
					       choices[k].names, err);
		}
	}
	one = *select;
	one.without = NULL;
	if (!task_selection_is_all(&one) && !any_selected(&one, g, uses))
		return none_of(select, g->moment,
			       longer ? "in its state for at least this time"
				      : "that all options match",
			       "", false, err);
	return 0;
}

struct tree_job {
	struct render_options render;
	bool json;
	bool chosen; /* --at was given */
	enum moment_when when;
	unsigned n_unmatched;	/* processes of which no task was chosen */
	struct live_tasks live; /* of a trace, for --longer-than */
	struct buf out;
	struct json j;
};

/* One moment of a trace, and what changed since another one, or NULL. `titled`: there are several
 * processes. */
static void show(struct tree_job *job, const struct graph *graph, const struct comparison *since,
		 const struct trace_process *process, bool titled)
{
	if (job->json) {
		json_object(&job->j, NULL);
		json_u64(&job->j, "pid", process ? process->pid : 0);
		json_string(&job->j, "exe", process ? process->exe : "");
		json_string(&job->j, "at", moment_when_name(graph->moment->when));
		render_json(graph, &job->render, &job->j, "moment");
		if (since)
			comparison_json(since, &job->j, "since_start");
		json_end_object(&job->j);
		return;
	}
	if (titled && process) {
		buf_str(&job->out, job->out.len ? "\n" : "");
		buf_printf(&job->out, "process %u ", process->pid);
		text_safe(&job->out, process->exe);
		buf_str(&job->out, "\n\n");
	}
	render_text(graph, &job->render, &job->out);
	if (since) {
		comparison_text(since, &job->out);
		text_wrap(&job->out, job->render.width);
	}
}

/* Of several processes those that have a task that was chosen are shown: 1 or 0. A process alone has
 * to have one for each word. */
static int check_chosen(struct tree_job *job, const struct graph *g, bool several,
			struct error *err)
{
	const struct task_selection *select = &job->render.select;
	_cleanup_free_ struct thread_use *uses = moment_thread_uses(g->moment);
	bool chosen = task_selection_is_all(select);

	if (!uses)
		return error_set(err, -ENOMEM, "out of memory");
	if (!several) {
		int rc = check_words(select, g, uses, err);
		return rc < 0 ? rc : 1;
	}
	for (size_t i = 0; i < g->moment->n_tasks && !chosen; i++)
		chosen = task_selected(select, g, uses, &g->moment->tasks[i]);
	job->n_unmatched += !chosen;
	return chosen;
}

/* How long each task of the end has been in its state, by the events before. One that had none has
 * been so since the start's moment, which may be long before the first event. */
static int times_of(struct tree_job *job, const struct trace_reader *r,
		    const struct trace_moment *start, const struct trace_moment *m,
		    uint64_t **ret_for_ns, struct error *err)
{
	struct tl_moments names = {0};
	uint64_t *for_ns;

	if (m->when != MOMENT_END)
		return error_set(err, -ENOENT,
				 "--longer-than needs the moment at the recording's end (--at "
				 "end): at its start pollux does not know yet how long tasks "
				 "have waited");
	for_ns = calloc(m->n_tasks + 1, sizeof(*for_ns));
	if (!for_ns)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < m->n_tasks; i++) {
		const struct moment_task *t = &m->tasks[i];
		uint32_t kind = tl_moments_kind(&names, r, m->process, t->kind);
		const struct live_task *live = live_task(&job->live, r, kind, t);

		uint64_t since_ns = live ? live->since_ns : 0;

		if (live && live->quiet && start->now_ns)
			since_ns = start->now_ns;
		if (since_ns && since_ns < m->now_ns)
			for_ns[i] = m->now_ns - since_ns;
	}
	tl_moments_done(&names);
	*ret_for_ns = for_ns;
	return 0;
}

/* The moment of a process that was asked for, else the one that there is. */
static int show_process(struct tree_job *job, struct trace_reader *r, uint32_t process,
			bool several, struct error *err)
{
	struct trace_moment m[MOMENT_N] = {0};
	bool there[MOMENT_N] = {0};
	enum moment_when when = job->when;
	struct comparison since = {0};
	_cleanup_free_ uint64_t *for_ns = NULL;
	struct graph graph = {0};
	int rc = 0;

	for (enum moment_when w = 0; w < MOMENT_N && rc >= 0; w++) {
		rc = trace_reader_moment(r, process, w, &m[w], err);
		there[w] = rc == 1;
	}
	if (rc >= 0 && !there[when] && !job->chosen)
		when = MOMENT_START;
	if (rc >= 0 && there[when])
		rc = graph_make(&m[when], &graph, err);
	if (rc >= 0 && there[when] && job->render.select.longer_than_ns)
		rc = times_of(job, r, &m[MOMENT_START], &m[when], &for_ns, err);
	job->render.select.for_ns = for_ns;
	if (rc >= 0 && there[when])
		rc = check_chosen(job, &graph, several, err);
	bool shown = rc == 1 && there[when];
	if (shown && when == MOMENT_END && there[MOMENT_START])
		rc = comparison_make(&m[MOMENT_START], &m[MOMENT_END], &since, err);
	if (rc >= 0 && shown && when != job->when && !job->json)
		buf_str(&job->out, "the start of the recording: there is no moment of "
				   "its end\n\n");
	if (rc >= 0 && shown)
		show(job, &graph, since.changes ? &since : NULL, trace_reader_process(r, process),
		     several);
	job->render.select.for_ns = NULL;
	graph_done(&graph);
	comparison_done(&since);
	moment_done(&m[MOMENT_START]);
	moment_done(&m[MOMENT_END]);
	return rc < 0 ? rc : shown;
}

static int run_trace(struct tree_job *job, const char *path, struct error *err)
{
	struct trace_reader *r = NULL;
	const char *why;
	int rc = trace_reader_open(path, &r, err), n_shown = 0;

	if (rc < 0)
		return rc;
	rc = job->render.select.longer_than_ns
		     ? timeline_replay(r, NULL, &live_tasks_sink, &job->live, NULL, NULL, NULL,
				       NULL, err)
		     : trace_reader_skip_events(r, err);
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
		rc = error_set(err, -ENOENT, "no task that was chosen in any of the %u processes",
			       job->n_unmatched);
	else if (rc >= 0 && !n_shown)
		rc = error_set(err, -ENOENT,
			       "%s has no moment%s%s: pollux before 0.2 made it, it was recorded "
			       "with --no-snapshot, or the program had ended",
			       path, job->chosen ? " of its " : "",
			       job->chosen ? moment_when_name(job->when) : "");
	if (rc >= 0 && trace_reader_truncated(r, &why))
		cli_complain(why);
	live_tasks_done(&job->live);
	trace_reader_free(r);
	return rc < 0 ? rc : 0;
}

/* One look at a process or a core. */
struct look {
	struct inspect_result result;
	struct trace_moment moment;
};

static int look_take(struct inspect *in, const struct inspect_options *opt, struct look *l,
		     struct error *err)
{
	TRY(inspect_snapshot(in, opt, &l->result, err));
	return inspect_moment(in, &l->result, &l->moment, err);
}

static void wait_until(uint64_t time_ns)
{
	for (uint64_t now; (now = clock_monotonic_ns()) <= time_ns;)
		clock_sleep(time_ns - now + 1);
}

static void look_done(struct look *l)
{
	moment_done(&l->moment);
	inspect_result_done(&l->result);
}

/* Which tasks wait as they did a while before: those have waited for as long, if they were not woken
 * meanwhile and came back. Others have 0. */
static int times_since(const struct look *before, const struct look *now, uint64_t **ret_for_ns,
		       struct error *err)
{
	struct comparison since = {0};
	uint64_t *for_ns;

	TRY(comparison_make(&before->moment, &now->moment, &since, err));
	for_ns = calloc(now->moment.n_tasks + 1, sizeof(*for_ns));
	for (size_t i = 0; for_ns && i < now->moment.n_tasks; i++)
		if (since.changes[i] == CHANGE_SAME)
			for_ns[i] = now->moment.now_ns - before->moment.now_ns;
	comparison_done(&since);
	*ret_for_ns = for_ns;
	return for_ns ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int show_look(struct tree_job *job, const struct look *l, struct error *err)
{
	struct graph graph = {0};
	int rc = graph_make(&l->moment, &graph, err);

	if (rc == 0)
		rc = check_chosen(job, &graph, false, err);
	if (rc >= 0 && job->json)
		render_json(&graph, &job->render, &job->j, NULL);
	else if (rc >= 0)
		render_text(&graph, &job->render, &job->out);
	graph_done(&graph);
	return rc < 0 ? rc : 0;
}

static int run_process(struct tree_job *job, const struct cli_args *args, const char *what,
		       pid_t pid, const struct inspect_options *opt, struct error *err)
{
	uint64_t longer_ns = job->render.select.longer_than_ns;
	_cleanup_free_ uint64_t *for_ns = NULL;
	struct look before = {0}, now = {0};
	struct inspect *in = NULL;
	int r;

	cli_slow_begin("looking into the files of", what);
	r = pid ? inspect_open(pid, &in, err)
		: inspect_open_core(what, cli_option(args, "exe"), &in, err);
	cli_slow_end();
	if (r == 0 && longer_ns) {
		r = look_take(in, opt, &before, err);
		if (r == 0)
			wait_until(before.moment.now_ns + longer_ns);
	}
	if (r == 0)
		r = look_take(in, opt, &now, err);
	if (r == 0 && longer_ns)
		r = times_since(&before, &now, &for_ns, err);
	job->render.select.for_ns = for_ns;
	if (r == 0)
		r = show_look(job, &now, err);
	job->render.select.for_ns = NULL;
	look_done(&now);
	look_done(&before);
	inspect_free(in);
	return r;
}

static int parse(const struct cli_args *args, struct tree_job *job, struct inspect_options *opt)
{
	const char *depth = cli_option(args, "depth"), *at = cli_option(args, "at");
	const char *longer = cli_option(args, "longer-than"), *sort = cli_option(args, "sort");
	const char *const *states = cli_option_all(args, "state");
	bool finished = cli_flag(args, "all");
	const char *const *tasks;
	uint64_t levels;
	int code = filter_tasks(args, &tasks);

	if (code)
		return code;

	for (size_t i = 0; states && states[i]; i++) {
		if (!task_state_is_known(states[i]))
			return cli_usage(args,
					 "--state is idle, scheduled, running or done, not '%s'",
					 states[i]);
		finished = finished || !strcmp(states[i], inspect_state_name(IS_DONE));
	}
	if (sort && strcmp(sort, "size") != 0)
		return cli_usage(args, "--sort is size, not '%s'", sort);
	job->render = (struct render_options){
		.color = cli_color(),
		.width = cli_columns(args, TREE_COLUMNS),
		.wrappers = cli_flag(args, "all-wrappers"),
		.internals = cli_flag(args, "internals"),
		.raw = cli_flag(args, "raw"),
		.ungrouped = cli_flag(args, "each"),
		.by_size = sort,
		.select = {.finished = finished,
			   .families = cli_option_all(args, "family"),
			   .tasks = tasks,
			   .states = states,
			   .waits_for = cli_option_all(args, "waits-for"),
			   .with = cli_option_all(args, "with"),
			   .without = cli_option_all(args, "without")},
	};
	if (longer &&
	    (text_parse_duration(longer, NSEC_PER_SEC, &job->render.select.longer_than_ns) < 0 ||
	     !job->render.select.longer_than_ns))
		return cli_usage(args, "--longer-than needs a time such as 2s or 50ms, not '%s'",
				 longer);
	*opt = (struct inspect_options){
		.no_stop = cli_flag(args, "no-stop"),
		.finished = finished,
	};
	job->json = cli_flag(args, "json");
	job->chosen = at;
	job->when = MOMENT_END;
	if (at && !strcmp(at, "start"))
		job->when = MOMENT_START;
	else if (at && strcmp(at, "end") != 0)
		return cli_usage(args, "--at is start or end, not '%s'", at);
	if (depth) {
		if (text_parse_number(depth, &levels) < 0 || !levels || levels > INT_MAX)
			return cli_usage(args, "--depth needs a number from 1 up, not '%s'", depth);
		opt->max_depth = (unsigned)levels;
	}
	return 0;
}

static int run(const struct cli_args *args, struct error *err)
{
	struct tree_job job = {.out = BUF_INIT};
	struct inspect_options opt;
	bool is_core, is_trace;
	const char *what = cli_operand(args, 0);
	pid_t pid;
	int r;

	if (cli_n_operands(args) != 1)
		return cli_usage(args, "tree needs one process (PID or NAME), core file or trace");
	r = process_or_file(args, what, &pid);
	if (r)
		return r;
	is_core = !pid;
	is_trace = is_core && trace_file_is_trace(what);
	if ((!is_core || is_trace) && cli_option(args, "exe"))
		return cli_usage(args, "--exe goes with a core file, not with a %s",
				 is_trace ? "trace" : "process");
	if (!is_trace && cli_option(args, "at"))
		return cli_usage(args, "--at goes with a trace");
	if (is_core && !is_trace && cli_option(args, "longer-than"))
		return cli_usage(args, "--longer-than does not go with a core file, which is of "
				       "one moment");
	/* Decided when the memory was read. */
	if (is_trace && (cli_flag(args, "no-stop") || cli_option(args, "depth")))
		return cli_usage(args, "--%s does not go with a trace",
				 cli_option(args, "depth") ? "depth" : "no-stop");
	r = parse(args, &job, &opt);
	if (r)
		return r;
	json_init(&job.j, &job.out, true);
	r = is_trace ? run_trace(&job, what, err) : run_process(&job, args, what, pid, &opt, err);
	if (r == 0 && job.json)
		buf_char(&job.out, '\n');
	if (r == 0)
		r = job.json ? cli_write(&job.out, err) : cli_show(args, &job.out, err);
	buf_done(&job.out);
	return r < 0 ? 1 : 0;
}

const struct cli_verb verb_tree = {
	.name = "tree",
	.synopsis = "tree [OPTIONS] PID|NAME | CORE | TRACE",
	.summary = "show where every task waits now",
	.text = "Prints the await tree of each task of a running program, a core file or a trace: "
		"from the root future down to the sleep, lock, channel, socket or task that it "
		"waits for, with the file and line of every .await. pollux reads the memory of the "
		"program, executes nothing in it, and pauses its threads only while it copies the "
		"memory of the tasks. The tree also shows the futures of block_on, the threads of "
		"running tasks, and the run queues of scheduled ones. Trees need debug information "
		"(debug = true; line tables are not enough); names and states do not.",
	.examples = examples,
	.operands = CLI_PROCESSES | CLI_FILES,
	.options = options,
	.run = run,
};
