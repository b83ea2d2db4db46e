/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Machines: a sink of the timeline that counts what async-std's report of 2019 counted. Two kinds
 * of units are counted at once, since only the trace's end shows which one it has: machines by
 * their address (TE_MACHINE), and workers by their thread (polls). Memory grows with live tasks,
 * units and parents; of ended tasks only the rows that can be shown are kept.
 */
#include "report/workers.h"

#include "base/compare.h"
#include "base/json.h"
#include "base/map.h"
#include "base/text.h"
#include "base/text_fit.h"
#include "base/vec.h"
#include "report/text_util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum sort { BY_THREAD = 0, BY_ADDRESS, N_SORTS };

struct worker_unit {
	uint64_t name; /* address, or index of the thread */
	uint32_t thread;
	bool worker;		      /* of threads: all others are left out */
	uint64_t n_runs;	      /* scheduled, or polls */
	uint64_t n_tasks;	      /* different ones */
	uint64_t n_blocked, n_ghosts; /* ghosts: while no task was known to be there */
	uint64_t run_ns, n_finished;  /* of its tasks that came to an end */
	struct mtask *last;	      /* that it had: holds it */
};

/* A task that is alive, or the last of a unit. */
struct mtask {
	uint64_t serial, number, parent, parent_number;
	uint32_t kind;
	bool spawn_seen, finished;
	uint64_t spawn_ns, end_ns;
	uint64_t n_blocked[N_SORTS];
	unsigned n_holders;
	struct mtask *next, **link; /* all of them, and what points at this one */
	struct worker_unit **units;
	size_t n_units, cap_units;
};

struct worker_row {
	uint64_t number, parent_number, serial;
	uint32_t kind;
	bool spawn_seen, finished, has_parent;
	uint64_t spawn_ns, run_ns, n_blocked[N_SORTS];
};

struct parent {
	uint64_t serial, number, n_children, n_blocked[N_SORTS];
};

struct machines {
	struct report rep; /* its reader and options, for text_util.h */
	uint64_t no_progress_ns, base_ns;
	struct timeline_totals totals;
	struct map units[N_SORTS]; /* by name */
	struct map parents;	   /* by serial */
	struct mtask *tasks;
	struct worker_row *rows;
	size_t n_rows, cap_rows, keep_rows;
	uint64_t n_tasks;
	enum sort sort; /* which of the two counts */
	/* sorted, for output */
	struct worker_unit **shown;
	size_t n_shown, n_idle;
	struct parent **shown_parents;
	size_t n_parents;
	uint64_t n_ghosts;
};

/* ---- collecting ---- */

static struct worker_unit *unit_of(struct machines *m, enum sort sort, uint64_t name,
				   uint32_t thread)
{
	struct worker_unit *u = map_get(&m->units[sort], name, 0);
	if (u)
		return u;
	u = map_new(&m->units[sort], name, 0, sizeof(*u));
	if (!u)
		return NULL;
	u->name = name;
	u->thread = thread;
	return u;
}

static int compare_rows(const void *a, const void *b)
{
	const struct worker_row *x = a, *y = b;
	uint64_t xn = x->n_blocked[0] + x->n_blocked[1], yn = y->n_blocked[0] + y->n_blocked[1];

	return DESCENDING(xn, yn) ?: DESCENDING(x->run_ns, y->run_ns) ?:
	       ASCENDING(x->serial, y->serial);
}

/* Rows that are never shown go now and then. */
static int add_row(struct machines *m, const struct worker_row *row)
{
	if (m->keep_rows && m->n_rows >= 4 * m->keep_rows + 1024) {
		qsort(m->rows, m->n_rows, sizeof(*m->rows), compare_rows);
		m->n_rows = m->keep_rows;
	}
	if (!GROW(m->rows, m->n_rows, m->cap_rows))
		return -ENOMEM;
	m->rows[m->n_rows++] = *row;
	return 0;
}

static int add_child(struct machines *m, const struct mtask *t)
{
	struct parent *p = map_get_or_new(&m->parents, t->parent, 0, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->serial = t->parent;
	p->number = t->parent_number;
	p->n_children++;
	for (unsigned i = 0; i < N_SORTS; i++)
		p->n_blocked[i] += t->n_blocked[i] > 0;
	return 0;
}

static void free_task(struct mtask *t)
{
	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	free(t->units);
	free(t);
}

/* Nothing more can happen to it. */
static int finish_task(struct machines *m, struct mtask *t)
{
	const struct worker_row row = {
		.serial = t->serial,
		.number = t->number,
		.parent_number = t->parent_number,
		.has_parent = t->parent != 0,
		.kind = t->kind,
		.spawn_seen = t->spawn_seen,
		.finished = t->finished,
		.spawn_ns = t->spawn_ns,
		.run_ns = t->finished && t->spawn_seen ? t->end_ns - t->spawn_ns : 0,
		.n_blocked = {t->n_blocked[0], t->n_blocked[1]},
	};
	for (size_t i = 0; i < t->n_units; i++) {
		t->units[i]->n_tasks++;
		if (!t->finished || !t->spawn_seen)
			continue;
		t->units[i]->run_ns += row.run_ns;
		t->units[i]->n_finished++;
	}
	int r = t->parent ? add_child(m, t) : 0;
	if (r == 0)
		r = add_row(m, &row);
	m->n_tasks++;
	free_task(t);
	return r;
}

static int release(struct machines *m, struct mtask *t)
{
	return t && --t->n_holders == 0 ? finish_task(m, t) : 0;
}

static int set_last(struct machines *m, struct worker_unit *u, struct mtask *t)
{
	struct mtask *before = u->last;
	if (t)
		t->n_holders++;
	u->last = t;
	return release(m, before);
}

static int ran_on(struct mtask *t, struct worker_unit *u)
{
	for (size_t i = t->n_units; i--;)
		if (t->units[i] == u)
			return 0;
	if (!GROW(t->units, t->n_units, t->cap_units))
		return -ENOMEM;
	t->units[t->n_units++] = u;
	return 0;
}

static bool counts(const struct tl_task *task)
{
	return task->role == TR_TASK;
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	if (!counts(task))
		return 0;
	struct machines *m = ctx;
	struct mtask *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->next = m->tasks;
	t->link = &m->tasks;
	if (t->next)
		t->next->link = &t->next;
	m->tasks = t;
	t->n_holders = 1;
	t->serial = task->serial;
	task->user = t;
	return 0;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct mtask *t = task->user;
	if (!t)
		return 0;
	task->user = NULL;
	t->number = task->number;
	t->kind = task->kind;
	t->parent = task->parent;
	t->parent_number = task->parent_number;
	t->spawn_seen = task->spawn_seen;
	t->spawn_ns = task->spawn_ns;
	t->end_ns = task->end_ns;
	t->finished = task->end_ns != 0;
	return release(ctx, t);
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct machines *m = ctx;
	struct mtask *t = poll->task->user;
	bool root = poll->task->role == TR_ROOT;

	if (poll->depth || (!root && !counts(poll->task)))
		return 0;
	struct worker_unit *u = unit_of(m, BY_THREAD, poll->thread, poll->thread);
	if (!u)
		return -ENOMEM;
	bool blocked = tl_poll_measured(poll) && poll->end_ns - poll->begin_ns >= m->no_progress_ns;
	u->n_blocked += blocked;
	u->n_ghosts += blocked && !t;
	if (!t)
		return 0;
	u->n_runs++;
	t->n_blocked[BY_THREAD] += blocked;
	return ran_on(t, u);
}

static int on_machine(void *ctx, const struct tl_machine *machine)
{
	struct machines *m = ctx;
	struct worker_unit *u = unit_of(m, BY_ADDRESS, machine->machine, machine->thread);

	if (!u)
		return -ENOMEM;
	if (machine->type == TC_BLOCKED) {
		u->n_blocked++;
		if (u->last)
			u->last->n_blocked[BY_ADDRESS]++;
		else
			u->n_ghosts += u->n_runs == 0;
		return 0;
	}
	if (machine->type != TC_TASK_LOCAL && machine->type != TC_TASK_GLOBAL)
		return 0;
	struct mtask *t = machine->task ? machine->task->user : NULL;
	u->n_runs++;
	if (!t)
		return set_last(m, u, NULL);
	int r = ran_on(t, u);
	return r < 0 || u->last == t ? r : set_last(m, u, t);
}

static int on_thread_end(void *ctx, const struct tl_thread *thread)
{
	struct machines *m = ctx;
	if (!thread->worker)
		return 0;
	struct worker_unit *u = unit_of(m, BY_THREAD, thread->thread, thread->thread);
	if (!u)
		return -ENOMEM;
	u->worker = true;
	return 0;
}

static const struct timeline_sink collect = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.machine = on_machine,
	.thread_end = on_thread_end,
};

/* ---- what is shown ---- */

static int compare_units(const void *a, const void *b)
{
	const struct worker_unit *x = *(struct worker_unit *const *)a,
				 *y = *(struct worker_unit *const *)b;

	return DESCENDING(x->n_tasks, y->n_tasks) ?: ASCENDING(x->name, y->name);
}

static int compare_parents(const void *a, const void *b)
{
	const struct parent *x = *(struct parent *const *)a, *y = *(struct parent *const *)b;

	return DESCENDING(x->n_children, y->n_children) ?: ASCENDING(x->serial, y->serial);
}

static int sort_all(struct machines *m)
{
	const struct map_entry *e;
	const struct map *units;

	m->sort = m->units[BY_ADDRESS].n ? BY_ADDRESS : BY_THREAD;
	units = &m->units[m->sort];
	m->shown = calloc(units->n + 1, sizeof(*m->shown));
	m->n_parents = m->parents.n;
	m->shown_parents = map_sorted(&m->parents, compare_parents);
	if (!m->shown || !m->shown_parents)
		return -ENOMEM;
	for (size_t pos = 0; (e = map_next(units, &pos));) {
		struct worker_unit *u = e->value;
		if (m->sort == BY_THREAD && !u->worker && !u->n_runs)
			continue;
		m->shown[m->n_shown++] = u;
		m->n_idle += !u->n_runs;
		m->n_ghosts += u->n_ghosts;
	}
	qsort(m->shown, m->n_shown, sizeof(*m->shown), compare_units);
	if (m->n_rows)
		qsort(m->rows, m->n_rows, sizeof(*m->rows), compare_rows);
	if (m->keep_rows && m->n_rows > m->keep_rows)
		m->n_rows = m->keep_rows;
	return 0;
}

int machines_make(struct trace_reader *r, const struct report_options *opt, uint64_t no_progress_ns,
		  struct machines **ret_machines, struct error *err)
{
	struct machines *m = calloc(1, sizeof(*m));
	const struct map_entry *e;

	if (!m)
		return error_set(err, -ENOMEM, "out of memory");
	m->rep.reader = r;
	m->rep.opt = *opt;
	m->no_progress_ns = no_progress_ns;
	m->keep_rows = opt->n_families;
	int code = timeline_replay(r, &opt->filter, &collect, m, opt->progress, opt->progress_ctx,
				   &m->totals, &m->base_ns, err);
	for (size_t pos = 0; code >= 0 && (e = map_next(&m->units[BY_ADDRESS], &pos));)
		code = set_last(m, e->value, NULL);
	if (code >= 0)
		code = sort_all(m);
	if (code < 0) {
		machines_free(m);
		return err->code ? code : error_set(err, code, "out of memory");
	}
	*ret_machines = m;
	return 0;
}

void machines_free(struct machines *m)
{
	if (!m)
		return;
	while (m->tasks)
		free_task(m->tasks);
	for (unsigned i = 0; i < N_SORTS; i++)
		map_free(&m->units[i], free);
	map_free(&m->parents, free);
	free(m->rows);
	free(m->shown);
	free(m->shown_parents);
	free(m);
}

/* ---- text ---- */

static void unit_name(const struct machines *m, const struct worker_unit *u, struct buf *out)
{
	if (m->sort == BY_ADDRESS)
		buf_printf(out, "0x%" PRIx64, u->name);
	else
		report_thread(&m->rep, out, u->thread);
}

static size_t limit(const struct machines *m, size_t n)
{
	size_t most = m->rep.opt.n_families;
	return most && n > most ? most : n;
}

static void more(struct buf *out, uint64_t shown, uint64_t all, const char *what)
{
	if (shown < all)
		buf_printf(out, "  and %" PRIu64 " more %s: -n 0 shows all\n", all - shown, what);
}

static void write_units(const struct machines *m, struct buf *out)
{
	const struct table_column columns[] = {
		{.title = m->sort == BY_ADDRESS ? "machine" : "worker",
		 .min_width = 16,
		 .align_left = true},
		{.title = "tasks"},
		{.title = m->sort == BY_ADDRESS ? "scheduled" : "polls"},
		{.title = "blockades"},
		{.title = "average run length"},
	};
	struct table t;

	report_title(&m->rep, out, "Machines");
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = limit(m, m->n_shown);
	for (size_t i = 0; i < n; i++) {
		const struct worker_unit *u = m->shown[i];
		_cleanup_buf_ struct buf name = BUF_INIT;
		unit_name(m, u, &name);
		table_cell(&t, name.data ? name.data : "");
		cell_count(&t, u->n_tasks);
		cell_count(&t, u->n_runs);
		cell_count(&t, u->n_blocked);
		cell_time_if(&t, u->n_finished > 0, u->n_finished ? u->run_ns / u->n_finished : 0);
	}
	report_table(&m->rep, &t, out);
	more(out, n, m->n_shown, "machines");
}

static const char *kind_if_any(const struct machines *m, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(m->rep.reader, kind);
	return k && k->name ? k->name : "";
}

static void write_tasks(const struct machines *m, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "task"},
		{.title = "parent"},
		{.title = "spawned at"},
		{.title = "run length"},
		{.title = "blockades"},
		{.title = "family", .rank = 1, .min_width = 12, .align_left = true},
	};
	struct table t;

	report_title(&m->rep, out, "Tasks");
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < m->n_rows; i++) {
		const struct worker_row *r = &m->rows[i];
		table_printf(&t, "%" PRIu64, r->number);
		if (r->has_parent)
			table_printf(&t, "%" PRIu64, r->parent_number);
		else
			table_cell(&t, "-");
		cell_time_if(&t, r->spawn_seen, r->spawn_ns - m->base_ns);
		if (r->finished)
			cell_time_if(&t, r->spawn_seen, r->run_ns);
		else
			table_cell(&t, "not finished");
		cell_count(&t, r->n_blocked[m->sort]);
		cell_safe(&t, kind_if_any(m, r->kind));
	}
	report_table(&m->rep, &t, out);
	more(out, m->n_rows, m->n_tasks, "tasks");
}

static void write_parents(const struct machines *m, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "task"},
		{.title = "children"},
		{.title = "of them ever blocked"},
	};
	struct table t;

	report_title(&m->rep, out, "Parent tasks");
	if (!m->n_parents) {
		buf_str(out, "  none known\n");
		return;
	}
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = limit(m, m->n_parents);
	for (size_t i = 0; i < n; i++) {
		const struct parent *p = m->shown_parents[i];
		table_printf(&t, "%" PRIu64, p->number);
		cell_count(&t, p->n_children);
		cell_share(&t, p->n_blocked[m->sort], p->n_children);
	}
	report_table(&m->rep, &t, out);
	more(out, n, m->n_parents, "parent tasks");
}

void machines_text(const struct machines *m, struct buf *out)
{
	if (m->sort == BY_ADDRESS) {
		buf_str(out, "Machines of async-std, from its own probes\n");
	} else {
		buf_str(out, "A machine is a worker, a blockade a poll of at least ");
		text_duration(out, m->no_progress_ns);
		buf_char(out, '\n');
	}
	write_units(m, out);
	write_tasks(m, out);
	write_parents(m, out);
	report_title(&m->rep, out, "Machines that never ran a task");
	buf_printf(out, "  %zu\n", m->n_idle);
	report_title(&m->rep, out, "Ghost tasks");
	buf_printf(out, "  %" PRIu64 "\n", m->n_ghosts);
	if (m->totals.n_lost) {
		buf_char(out, '\n');
		report_exact_of(out, m->totals.n_lost, "event was", "events were");
		buf_str(out, " lost: counts are lower bounds\n");
	}
	text_wrap(out, m->rep.opt.width);
}

/* ---- JSON ---- */

static void json_rows(const struct machines *m, struct json *j)
{
	json_array(j, "tasks");
	for (size_t i = 0; i < m->n_rows; i++) {
		const struct worker_row *r = &m->rows[i];
		json_object(j, NULL);
		json_u64(j, "task", r->number);
		if (r->has_parent)
			json_u64(j, "parent", r->parent_number);
		json_string(j, "family", kind_if_any(m, r->kind));
		if (r->spawn_seen)
			json_u64(j, "spawned_ns", r->spawn_ns - m->base_ns);
		json_bool(j, "finished", r->finished);
		if (r->finished && r->spawn_seen)
			json_u64(j, "run_ns", r->run_ns);
		json_u64(j, "blockades", r->n_blocked[m->sort]);
		json_end_object(j);
	}
	json_end_array(j);
}

void machines_json(const struct machines *m, struct buf *out)
{
	struct json j;

	json_init(&j, out, true);
	json_object(&j, NULL);
	json_u64(&j, "version", 2);
	json_string(&j, "source", m->sort == BY_ADDRESS ? "machines" : "workers");
	if (m->sort == BY_THREAD)
		json_u64(&j, "no_progress_ns", m->no_progress_ns);
	json_u64(&j, "lost", m->totals.n_lost);
	json_array(&j, "machines");
	for (size_t i = 0; i < m->n_shown; i++) {
		const struct worker_unit *u = m->shown[i];
		_cleanup_buf_ struct buf name = BUF_INIT;
		unit_name(m, u, &name);
		json_object(&j, NULL);
		json_string(&j, "name", name.data);
		json_u64(&j, "tasks", u->n_tasks);
		json_u64(&j, m->sort == BY_ADDRESS ? "scheduled" : "polls", u->n_runs);
		json_u64(&j, "blockades", u->n_blocked);
		json_u64(&j, "blockades_without_task", u->n_ghosts);
		json_u64(&j, "finished", u->n_finished);
		if (u->n_finished)
			json_u64(&j, "average_run_ns", u->run_ns / u->n_finished);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_u64(&j, "n_tasks", m->n_tasks);
	json_rows(m, &j);
	json_array(&j, "parents");
	for (size_t i = 0; i < m->n_parents; i++) {
		const struct parent *p = m->shown_parents[i];
		json_object(&j, NULL);
		json_u64(&j, "task", p->number);
		json_u64(&j, "children", p->n_children);
		json_u64(&j, "blocked_children", p->n_blocked[m->sort]);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_u64(&j, "never_ran", m->n_idle);
	json_u64(&j, "blockades_without_task", m->n_ghosts);
	json_end_object(&j);
	buf_char(out, '\n');
}
