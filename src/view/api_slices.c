/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The slices of a lane in a window; the tasks of a family with theirs. */
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/map.h"
#include "base/vec.h"
#include "view/answer.h"
#include "view/common.h"
#include "view/slices.h"
#include "view/thin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SLICES 20000u
#define MAX_TASKS 1000u
#define MAX_TASK_SLICES 2000u
#define MAX_CELLS 4096u
/* Kept of a window before the answer takes what it shows. */
#define MAX_KEPT 1000000u

struct lane_slices {
	uint32_t id;
	const struct index_lane *lane;
	struct slice_list list;
	bool more;
};

/* One reading of the window serves all lanes. */
struct wanted_lanes {
	const struct view_source *v;
	struct lane_slices *lanes;
	unsigned n;
	unsigned kind; /* of slices, enum span_type; SPAN_N: all */
	bool longest;  /* in that order */
};

static bool is_of_lane(const struct view_source *v, const struct index_lane *lane,
		       const struct index_span *s)
{
	if (lane->type == IL_THREAD)
		return s->thread == lane->number && !slice_is_loop(v, s);
	return s->kind == lane->number &&
	       (s->type == SPAN_POLL || s->type == SPAN_WAIT || s->type == SPAN_READY);
}

static int take(void *ctx, const struct index_span *span)
{
	const struct wanted_lanes *w = ctx;

	if (span->type == SPAN_TASK || span->type == SPAN_SAMPLE ||
	    (w->kind != SPAN_N && w->kind != span->type))
		return 0;
	for (unsigned i = 0; i < w->n; i++) {
		struct lane_slices *l = &w->lanes[i];

		if (!is_of_lane(w->v, l->lane, span))
			continue;
		if (l->list.n == MAX_KEPT / w->n)
			l->more = true;
		else
			TRY(slice_add(&l->list, span));
	}
	return 0;
}

/* `kind`, `sort`. */
static int find_kind(const struct view_request *q, struct wanted_lanes *ret, struct error *err)
{
	const char *kind = request_param(q, "kind"), *sort = request_param(q, "sort");

	ret->kind = kind ? SPAN_POLL : SPAN_N;
	while (kind && ret->kind < SPAN_TASK && strcmp(kind, slice_kind(ret->kind)) != 0)
		ret->kind++;
	if (kind && ret->kind == SPAN_TASK)
		return error_set(
			err, -EINVAL,
			"kind is one of slices: poll, wait, ready, park, call, off_cpu or syscall");
	ret->longest = sort && !strcmp(sort, "longest");
	if (sort && !ret->longest && strcmp(sort, "begin") != 0)
		return error_set(err, -EINVAL, "sort is begin or longest");
	return 0;
}

/* `n`: cells in which the page draws the window; 0: it is not given. */
static int find_cells(const struct view_request *q, uint64_t *ret, struct error *err)
{
	*ret = 0;
	if (!request_param(q, "n"))
		return 0;
	if (request_u64(q, "n", ret) < 0 || !*ret || *ret > MAX_CELLS)
		return error_set(err, -EINVAL, "n is a number from 1 to %u", MAX_CELLS);
	return 0;
}

/* Of `lanes`, or the one `lane`. */
static int find_lanes(const struct view_source *v, const struct view_request *q,
		      struct wanted_lanes *ret, struct error *err)
{
	const char *one = request_param(q, "lane"), *several = request_param(q, "lanes");
	uint32_t ids[VIEW_MAX_LANES];

	if ((!one || !*one || strchr(one, ',')) && !several)
		return error_set(err, -EINVAL, "lane is the id of a lane");
	TRY(view_lanes(v, several ? several : one, ids, &ret->n, err));
	ret->v = v;
	ret->lanes = calloc(ret->n + 1, sizeof(*ret->lanes));
	if (!ret->lanes)
		return error_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < ret->n; i++)
		ret->lanes[i] =
			(struct lane_slices){.id = ids[i], .lane = index_lane(v->index, ids[i])};
	return 0;
}

static int read_lanes(const struct view_source *v, const struct view_request *q,
		      struct wanted_lanes *lanes, struct window *w, struct error *err)
{
	struct view_window window;

	TRY(find_lanes(v, q, lanes, err));
	TRY(view_window(v, q, &window, err));
	w->from_ns = window.from_ns;
	w->to_ns = window.to_ns;
	w->slice = take;
	w->ctx = lanes;
	TRY(slice_read(v, w, err));
	for (unsigned i = 0; i < lanes->n; i++)
		(lanes->longest ? slice_sort_longest : slice_sort)(&lanes->lanes[i].list);
	return 0;
}

static void write_head(const struct view_source *v, const struct window *w, struct json *j)
{
	struct index_facts facts;

	index_facts(v->index, &facts);
	json_object(j, NULL);
	json_u64(j, "from", w->from_ns - facts.base_ns);
	json_u64(j, "to", w->to_ns - facts.base_ns);
	json_bool(j, "exact", w->exact);
}

/* What of a lane is shown. */
static struct slice_row row_of(const struct lane_slices *l, uint64_t max)
{
	return (struct slice_row){l->list.items, NULL, l->list.n < max ? l->list.n : max};
}

/* Cells for all lanes; exact slices if `n` is 0. */
static int choose_cells(const struct wanted_lanes *lanes, const struct window *w, uint64_t n,
			uint64_t max, struct thin_cells *ret, struct error *err)
{
	_cleanup_free_ struct slice_row *rows = calloc(lanes->n + 1, sizeof(*rows));

	*ret = (struct thin_cells){0};
	if (!rows)
		return error_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < lanes->n; i++)
		rows[i] = row_of(&lanes->lanes[i], max);
	if (n)
		thin_choose(ret, w->from_ns, w->to_ns, n, rows, lanes->n);
	return 0;
}

/* "more", "slices", "thin". */
static void write_slices(const struct view_source *v, const struct lane_slices *l, uint64_t max,
			 const struct thin_cells *cells, struct view_places *places, struct json *j)
{
	struct slice_row row = row_of(l, max);

	json_bool(j, "more", l->more || l->list.n > max);
	thin_write(cells, &row, v, places, j);
}

int answer_slices(const struct view_source *v, const struct view_request *q, struct buf *out,
		  struct error *err)
{
	struct view_places places = {0};
	struct wanted_lanes lanes = {0};
	struct window w = {0};
	struct thin_cells cells;
	uint64_t max = 2000, n;
	struct json j;

	if (request_u64(q, "max", &max) < 0 || !max || max > MAX_SLICES)
		return error_set(err, -EINVAL, "max is a number from 1 to %u", MAX_SLICES);
	TRY(find_cells(q, &n, err));
	TRY(find_kind(q, &lanes, err));
	if (lanes.longest && n)
		return error_set(err, -EINVAL, "n goes with sort=begin");
	TRY(read_lanes(v, q, &lanes, &w, err));
	if (n)
		max = MAX_KEPT;
	TRY(choose_cells(&lanes, &w, n, max, &cells, err));
	json_init(&j, out, false);
	j.shown = true;
	write_head(v, &w, &j);
	if (!request_param(q, "lanes")) {
		write_slices(v, lanes.lanes, max, &cells, &places, &j);
	} else {
		json_object(&j, "lanes");
		for (unsigned i = 0; i < lanes.n; i++) {
			char key[16];

			snprintf(key, sizeof(key), "%" PRIu32, lanes.lanes[i].id);
			json_object(&j, key);
			write_slices(v, &lanes.lanes[i], max, &cells, &places, &j);
			json_end_object(&j);
		}
		json_end_object(&j);
	}
	view_write_places(&places, v->tables, &j);
	json_end_object(&j);
	return 0;
}

/* ---- tasks ---- */

struct window_task {
	uint64_t task;
	uint64_t begin_ns, end_ns, poll_ns, wait_ns, ready_ns, polls;
	size_t *slices; /* numbers of slices in the list */
	size_t n, cap;
};

static uint64_t inside(const struct window *w, const struct index_span *s)
{
	uint64_t begin = s->begin_ns > w->from_ns ? s->begin_ns : w->from_ns;
	uint64_t end = s->end_ns < w->to_ns ? s->end_ns : w->to_ns;

	return end > begin ? end - begin : 0;
}

static int add_to_task(struct window_task *t, const struct window *w, const struct index_span *s,
		       size_t number)
{
	if (!t->n || s->begin_ns < t->begin_ns)
		t->begin_ns = s->begin_ns;
	if (s->end_ns > t->end_ns)
		t->end_ns = s->end_ns;
	if (s->type == SPAN_POLL) {
		t->poll_ns += inside(w, s);
		t->polls++;
	} else {
		*(s->type == SPAN_WAIT ? &t->wait_ns : &t->ready_ns) += inside(w, s);
	}
	if (!GROW(t->slices, t->n, t->cap))
		return -ENOMEM;
	t->slices[t->n++] = number;
	return 0;
}

#define BY_MOST(name)                                                                              \
	static int by_##name(const void *a, const void *b)                                         \
	{                                                                                          \
		const struct window_task *const *x = a, *const *y = b;                             \
                                                                                                   \
		return DESCENDING((*x)->name##_ns, (*y)->name##_ns)                                \
			       ?: ASCENDING((*x)->task, (*y)->task);                               \
	}
BY_MOST(poll)
BY_MOST(wait)
BY_MOST(ready)

static int by_first(const void *a, const void *b)
{
	const struct window_task *const *x = a, *const *y = b;

	return ASCENDING((*x)->begin_ns, (*y)->begin_ns) ?: ASCENDING((*x)->task, (*y)->task);
}

typedef int (*task_order)(const void *a, const void *b);

static task_order order_of(const char *sort)
{
	if (!sort || !strcmp(sort, "begin"))
		return by_first;
	if (!strcmp(sort, "poll"))
		return by_poll;
	if (!strcmp(sort, "wait"))
		return by_wait;
	return strcmp(sort, "ready") ? NULL : by_ready;
}

static struct slice_row row_of_task(const struct lane_slices *l, const struct window_task *t,
				    bool in_cells)
{
	size_t n = in_cells || t->n < MAX_TASK_SLICES ? t->n : MAX_TASK_SLICES;

	return (struct slice_row){l->list.items, t->slices, n};
}

static void write_task(const struct view_source *v, const struct lane_slices *l,
		       const struct window_task *t, const struct thin_cells *cells,
		       struct view_places *places, struct json *j)
{
	struct slice_row row = row_of_task(l, t, cells->cell_ns);

	struct index_facts facts;
	char text[96];

	index_facts(v->index, &facts);
	json_object(j, NULL);
	json_string(j, "task", view_task_id(text, l->lane->number, t->task));
	json_string(j, "number",
		    view_task_number(text, v, places, l->lane->number, t->task, t->begin_ns));
	json_u64(j, "from", t->begin_ns > facts.base_ns ? t->begin_ns - facts.base_ns : 0);
	json_u64(j, "to", t->end_ns - facts.base_ns);
	json_u64(j, "poll_ns", t->poll_ns);
	json_u64(j, "wait_ns", t->wait_ns);
	json_u64(j, "ready_ns", t->ready_ns);
	json_u64(j, "polls", t->polls);
	json_bool(j, "more", t->n > row.n);
	thin_write(cells, &row, v, places, j);
	json_end_object(j);
}

static struct window_task **group(const struct view_source *v, const struct lane_slices *l,
				  const struct window *w, struct view_places *places,
				  struct map *tasks, task_order order)
{
	for (size_t i = 0; i < l->list.n; i++) {
		const struct index_span *s = &l->list.items[i];
		uint64_t serial = view_task_serial(v, places, s->kind, s->task, s->begin_ns);
		struct window_task *t = map_get_or_new(tasks, s->task, serial, sizeof(*t));

		if (!t || add_to_task(t, w, s, i) < 0)
			return NULL;
		t->task = s->task;
	}
	return map_sorted(tasks, order);
}

int answer_tasks(const struct view_source *v, const struct view_request *q, struct buf *out,
		 struct error *err)
{
	task_order order = order_of(request_param(q, "sort"));
	struct view_places places = {0};
	struct wanted_lanes lanes = {.kind = SPAN_N};
	struct thin_cells cells = {0};
	struct map tasks = {0};
	struct window w = {0};
	uint64_t max = 100, n;
	struct json j;

	if (!order)
		return error_set(err, -EINVAL, "sort is begin, poll, wait or ready");
	if (request_u64(q, "max", &max) < 0 || !max || max > MAX_TASKS)
		return error_set(err, -EINVAL, "max is a number from 1 to %u", MAX_TASKS);
	if (request_param(q, "lanes"))
		return error_set(err, -EINVAL, "lane is the id of one lane");
	TRY(find_cells(q, &n, err));
	TRY(read_lanes(v, q, &lanes, &w, err));
	const struct lane_slices *l = lanes.lanes;
	if (l->lane->type != IL_FAMILY)
		return error_set(err, -EINVAL, "the lane is a thread's, and has no tasks");
	struct window_task **sorted = group(v, l, &w, &places, &tasks, order);
	if (tasks.n && !sorted)
		return error_set(err, -ENOMEM, "out of memory");
	size_t n_shown = tasks.n < max ? tasks.n : max;
	_cleanup_free_ struct slice_row *rows = calloc(n_shown + 1, sizeof(*rows));
	if (!rows)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n_shown; i++)
		rows[i] = row_of_task(l, sorted[i], n);
	if (n)
		thin_choose(&cells, w.from_ns, w.to_ns, n, rows, n_shown);
	json_init(&j, out, false);
	j.shown = true;
	write_head(v, &w, &j);
	json_bool(&j, "more", l->more || tasks.n > max);
	json_array(&j, "tasks");
	for (size_t i = 0; i < n_shown; i++)
		write_task(v, l, sorted[i], &cells, &places, &j);
	json_end_array(&j);
	view_write_places(&places, v->tables, &j);
	json_end_object(&j);
	free(sorted);
	return 0;
}
