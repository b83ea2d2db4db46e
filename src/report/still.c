/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks that had no event in the whole recording: what hangs is among them. The moment of the end,
 * or else of the start, says where each of them is and what it waits for; those of one family that
 * wait alike are one row.
 */
#include "report/still.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/vec.h"
#include "moment/graph.h"
#include "report/table.h"
#include "report/text_util.h"
#include "timeline/moments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_SHOWN 12u

/* Tasks of one family that wait alike. */
struct still_row {
	uint32_t kind;
	enum inspect_state state;
	size_t n;
	uint64_t first; /* number of the first one */
	char *place;	/* "src/main.rs:40 app::serve"; "" if not known */
	char *what;	/* "Mutex::lock, held by task 8 app::serve", "futex"; "" */
};

struct still {
	struct map tasks; /* (kind, id) of those that had no event */
	struct map by_text;
	struct still_row **rows; /* most tasks first */
	size_t n_rows, n_tasks, n_cycles, n_lost;
	bool at_start; /* there is no moment of an end */
};

int still_task(struct report *rep, const struct tl_task *task)
{
	bool none = !task->spawn_seen && !task->n_polls && !task->n_wakes &&
		    task->outcome == TO_PENDING && tl_role_counts(task->role);

	if (!none)
		return 0;
	if (!rep->still && !(rep->still = calloc(1, sizeof(*rep->still))))
		return -ENOMEM;
	return map_put(&rep->still->tasks, task->kind, task->id, rep);
}

static void row_free(void *value)
{
	struct still_row *row = value;

	free(row->place);
	free(row->what);
	free(row);
}

void still_done(struct report *rep)
{
	struct still *s = rep->still;

	if (!s)
		return;
	map_done(&s->tasks);
	map_free(&s->by_text, row_free);
	free(s->rows);
	free(s);
	rep->still = NULL;
}

/* ---- where and for what ---- */

static void place_text(struct buf *out, const char *file, uint32_t line, const char *function)
{
	if (file && *file) {
		buf_str(out, text_short_file(file));
		buf_printf(out, ":%u ", line);
	}
	buf_str(out, function ? function : "");
}

static void leaf_text(const struct graph *g, const struct await_node *leaf, struct buf *what)
{
	const struct moment_task *target = graph_target(g, leaf);
	const struct graph_lock *lock = graph_lock(g, leaf);

	buf_str(what, leaf->name ? leaf->name : "?");
	if (target && lock && !leaf->granted)
		buf_printf(what, ", held by task %" PRIu64 " %s", target->id, target->kind->name);
	else if (target && leaf->wait == AW_TASK)
		buf_printf(what, " of %s", target->kind->name);
	else if (lock && leaf->granted)
		buf_str(what, ", granted");
	else if (leaf->wait == AW_SOCKET && leaf->ends)
		buf_str(what, ", on a socket");
	else if (leaf->wait == AW_SLEEP && leaf->value && g->moment->now_ns > leaf->value)
		buf_str(what, ", overdue");
}

static void thread_text(const struct moment_thread *t, struct buf *place, struct buf *what)
{
	const struct moment_frame *f = moment_own_frame(t);
	const char *call = t->call ? syscall_name(t->call - 1) : NULL;

	buf_str(what, call ? call : t->call ? "a system call" : "on the CPU");
	if (f)
		place_text(place, f->file, f->line, f->function);
}

static void task_text(const struct graph *g, const struct moment_task *t, struct buf *place,
		      struct buf *what)
{
	const struct await_node *own = NULL, *leaf = NULL;

	if (moment_task_runs(t)) {
		if (t->thread)
			thread_text(&g->moment->threads[t->thread - 1], place, what);
		return;
	}
	if (t->state == IS_SCHEDULED)
		buf_str(what, t->queue			     ? t->queue
			      : t->kind->role == TR_BLOCKING ? "a thread of the blocking pool"
							     : "a worker");
	if (t->tree)
		leaf = graph_leaf(g, t->tree, &own);
	if (own)
		place_text(place, own->file, own->line, own->name);
	if (t->state == IS_IDLE && leaf)
		leaf_text(g, leaf, what);
	else if (t->state == IS_IDLE && t->no_tree_reason)
		buf_printf(what, "(%s)", t->no_tree_reason);
}

static int add_task(struct still *s, const struct graph *g, uint32_t kind,
		    const struct moment_task *t, uint64_t number)
{
	_cleanup_buf_ struct buf place = BUF_INIT, what = BUF_INIT;
	struct still_row *row;
	uint64_t hash;

	task_text(g, t, &place, &what);
	buf_str(&place, "");
	buf_str(&what, "");
	if (buf_failed(&place) || buf_failed(&what))
		return -ENOMEM;
	hash = hash_string(hash_string(kind * 8ull + t->state, place.data ? place.data : ""),
			   what.data ? what.data : "");
	row = map_get_or_new(&s->by_text, hash, kind, sizeof(*row));
	if (!row)
		return -ENOMEM;
	if (!row->n++) {
		row->kind = kind;
		row->state = t->state;
		row->first = number;
		row->place = strdup(place.data ? place.data : "");
		row->what = strdup(what.data ? what.data : "");
	}
	s->n_tasks++;
	return row->place && row->what ? 0 : -ENOMEM;
}

static int most_first(const void *a, const void *b)
{
	const struct still_row *x = *(struct still_row *const *)a;
	const struct still_row *y = *(struct still_row *const *)b;

	return DESCENDING(x->n, y->n) ?: ASCENDING(x->first, y->first);
}

static int add_moment(struct report *rep, struct tl_moments *kinds, uint32_t process,
		      enum moment_when when)
{
	struct still *s = rep->still;
	struct trace_moment m = {0};
	struct graph g = {0};
	int rc = trace_reader_moment(rep->reader, process, when, &m, NULL), found = rc;

	if (rc > 0)
		rc = graph_make(&m, &g, NULL);
	g.own = rep->opt.own;
	for (size_t i = 0; rc == 0 && i < m.n_tasks; i++) {
		const struct moment_task *t = &m.tasks[i];
		uint32_t kind = tl_moments_kind(kinds, rep->reader, process, t->kind);
		uint64_t name = tl_moments_name(rep->reader, kind, t);

		if (kind != TRACE_KIND_NONE && t->state != IS_DONE &&
		    map_get(&s->tasks, kind, name))
			rc = add_task(s, &g, kind, t, t->id ? t->id : t->addr);
	}
	s->n_cycles += g.n_cycles;
	s->n_lost += g.n_lost;
	graph_done(&g);
	moment_done(&m);
	return rc < 0 ? rc : found;
}

int still_sort(struct report *rep)
{
	struct still *s = rep->still;
	struct tl_moments kinds = {0};
	int rc = 0;

	if (!s)
		return 0;
	for (uint32_t i = 0; i < trace_reader_n_processes(rep->reader) && rc >= 0; i++) {
		rc = add_moment(rep, &kinds, i, MOMENT_END);
		if (rc == 0) {
			rc = add_moment(rep, &kinds, i, MOMENT_START);
			s->at_start = s->at_start || rc > 0;
		}
	}
	tl_moments_done(&kinds);
	if (rc >= 0 && s->by_text.n) {
		s->rows = map_sorted(&s->by_text, most_first);
		s->n_rows = s->rows ? s->by_text.n : 0;
		if (!s->rows)
			rc = -ENOMEM;
	}
	return rc < 0 ? rc : 0;
}

/* ---- output ---- */

static const char *state_text(enum inspect_state s)
{
	switch (s) {
	case IS_IDLE:
		return "waits";
	case IS_SCHEDULED:
		return "ready";
	case IS_RUNNING:
	case IS_WOKEN_RUNNING:
		return "in a poll";
	default:
		return "?";
	}
}

/* What the moment proves of all its tasks. */
static void proof_text(const struct still *s, struct buf *out)
{
	if (s->n_cycles) {
		buf_printf(out,
			   "  %zu deadlock%s: tasks wait for each other or for themselves, and "
			   "for nothing else\n",
			   s->n_cycles, s->n_cycles == 1 ? "" : "s");
	}
	if (s->n_lost)
		buf_printf(out, "  %zu task%s can't run again: nothing can wake %s\n", s->n_lost,
			   s->n_lost == 1 ? "" : "s", s->n_lost == 1 ? "it" : "them");
}

bool still_any(const struct report *rep)
{
	return rep->still && rep->still->n_rows;
}

void still_text(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "tasks"},
		{.title = "family", .min_width = 16, .align_left = true},
		{.title = "state", .rank = 1, .align_left = true},
		{.title = "for, or in", .min_width = 16, .align_left = true},
		{.title = "at", .min_width = 24, .align_left = true},
	};
	const struct still *s = rep->still;
	struct table t;
	size_t n;

	if (!s || !s->n_rows)
		return;
	report_title(rep, out,
		     s->at_start ? "Tasks without an event, as at the start"
				 : "Tasks without an event, as at the end");
	n = s->n_rows < ROWS_SHOWN ? s->n_rows : ROWS_SHOWN;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < n; i++) {
		const struct still_row *row = s->rows[i];

		table_printf(&t, "%zu", row->n);
		cell_safe(&t, report_family(rep, row->kind));
		table_cell(&t, state_text(row->state));
		cell_safe(&t, row->what);
		cell_safe(&t, row->place);
	}
	report_table(rep, &t, out);
	if (n < s->n_rows)
		buf_printf(out, "  and %zu more\n", s->n_rows - n);
	proof_text(s, out);
}

void still_json(const struct report *rep, struct json *j)
{
	const struct still *s = rep->still;

	if (!s || !s->n_rows)
		return;
	json_object(j, "without_events");
	json_u64(j, "tasks", s->n_tasks);
	json_string(j, "at", s->at_start ? "start" : "end");
	json_u64(j, "deadlocks", s->n_cycles);
	json_u64(j, "never_again", s->n_lost);
	json_array(j, "groups");
	for (size_t i = 0; i < s->n_rows; i++) {
		const struct still_row *row = s->rows[i];

		json_object(j, NULL);
		json_string(j, "family", kind_name(rep->reader, row->kind));
		json_u64(j, "kind", row->kind);
		json_u64(j, "tasks", row->n);
		json_u64(j, "first", row->first);
		json_string(j, "state", inspect_state_name(row->state));
		json_string(j, "what", row->what);
		json_string(j, "place", row->place);
		json_end_object(j);
	}
	json_end_array(j);
	json_end_object(j);
}
