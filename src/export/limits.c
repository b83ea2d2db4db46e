/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From counts to decisions. One pass is enough when all fits, which is the rule. When lanes or
 * time must be cut, the trace is counted again with what was decided, until the numbers are
 * those of what will be written; each round's window is shorter than the one before.
 */
#include "export/limits.h"

#include "base/compare.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "export/counting_pass.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define TASK_LANES_MAX 200u /* above this many tasks lanes are packed unless asked for */
#define MAX_ROUNDS 8

struct chooser {
	const struct export_options *opt;
	const struct limits *limits;
	struct export_scope *sel;
	struct counts counts;
	uint64_t max_slices, max_lanes;
	bool lanes_cut, futures_cut;
};

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- threads ---- */

static int by_worth(const void *a, const void *b)
{
	const struct thread_lane *x = *(struct thread_lane *const *)a;
	const struct thread_lane *y = *(struct thread_lane *const *)b;

	return DESCENDING(x->worker, y->worker) ?: DESCENDING(x->busy_ns, y->busy_ns) ?:
	       ASCENDING(x, y);
}

static int show_threads(struct lanes *l, uint64_t max)
{
	struct thread_lane **ranked = calloc(l->n_threads + 1, sizeof(struct thread_lane *));
	if (!ranked)
		return -ENOMEM;
	size_t n = 0;
	for (uint32_t i = 0; i < l->n_threads; i++)
		if (l->threads[i].n_slices)
			ranked[n++] = &l->threads[i];
	qsort(ranked, n, sizeof(*ranked), by_worth);
	for (size_t i = 0; i < n; i++)
		ranked[i]->shown = i < max;
	free(ranked);
	return 0;
}

/* ---- tasks ---- */

static int by_weight(const void *a, const void *b)
{
	const struct top_task *x = a, *y = b;

	return DESCENDING(x->weight, y->weight) ?: ASCENDING(x->serial, y->serial);
}

static int by_serial(const void *a, const void *b)
{
	const struct top_task *x = a, *y = b;

	return ASCENDING(x->serial, y->serial);
}

/* A lane for each of the `max` tasks that did most, in order of appearance. */
static int show_tasks(struct lanes *l, struct top *top, uint64_t max)
{
	for (size_t i = 0; i < l->n_families; i++) {
		if (l->families[i]->role == TR_FUTURE)
			continue;
		free(l->families[i]->lanes);
		l->families[i]->lanes = NULL;
		l->families[i]->n_lanes = l->families[i]->cap_lanes = 0;
	}
	l->by_task = true;
	if (!top->n)
		return 0;

	qsort(top->tasks, top->n, sizeof(*top->tasks), by_weight);
	size_t n = min_u64(max, top->n);
	qsort(top->tasks, n, sizeof(*top->tasks), by_serial);
	for (size_t i = 0; i < n; i++) {
		const struct top_task *t = &top->tasks[i];
		struct lane_family *f = t->family;
		if (!GROW(f->lanes, f->n_lanes, f->cap_lanes))
			return -ENOMEM;
		f->lanes[f->n_lanes++] = (struct task_lane){.n_slices = t->n_slices,
							    .n_samples = t->n_samples,
							    .n_tasks = 1,
							    .number = t->number};
		if (map_put(&l->chosen, t->serial, 0, (void *)(uintptr_t)f->n_lanes) < 0)
			return -ENOMEM;
		f->n_shown = f->n_lanes;
	}
	return 0;
}

static int by_n_lanes(const void *a, const void *b)
{
	const struct lane_family *x = *(struct lane_family *const *)a,
				 *y = *(struct lane_family *const *)b;

	return ASCENDING(x->n_lanes, y->n_lanes) ?: DESCENDING(x->poll_ns, y->poll_ns);
}

static int by_poll_ns(const void *a, const void *b)
{
	const struct lane_family *x = *(struct lane_family *const *)a,
				 *y = *(struct lane_family *const *)b;

	return DESCENDING(x->poll_ns, y->poll_ns);
}

/* Packed lanes, of tasks or of futures: every family gets an even share, and what it does not need
 * goes to the others. */
static int show_packed(struct lanes *l, bool futures, uint64_t max)
{
	size_t n = 0;
	struct lane_family **ranked = calloc(l->n_families + 1, sizeof(struct lane_family *));
	if (!ranked)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_families; i++)
		if ((l->families[i]->role == TR_FUTURE) == futures)
			ranked[n++] = l->families[i];
	if (n > max) { /* not even one lane for each: the busiest families */
		qsort(ranked, n, sizeof(*ranked), by_poll_ns);
		n = max;
	}
	qsort(ranked, n, sizeof(*ranked), by_n_lanes);
	for (size_t i = 0; i < n; i++) {
		ranked[i]->n_shown = (uint32_t)min_u64(ranked[i]->n_lanes, max / (n - i));
		max -= ranked[i]->n_shown;
	}
	free(ranked);
	return 0;
}

/* ---- both under one budget ---- */

static void count_wanted(const struct chooser *c, bool by_task, uint64_t *ret_threads,
			 uint64_t *ret_lanes, uint64_t *ret_futures)
{
	const struct lanes *l = &c->sel->lanes;
	uint64_t threads = 0, lanes = 0, futures = 0;
	for (uint32_t i = 0; i < l->n_threads; i++)
		threads += l->threads[i].n_slices > 0;
	for (size_t i = 0; i < l->n_families; i++) {
		const struct lane_family *f = l->families[i];
		if (f->role == TR_FUTURE)
			futures += f->n_lanes;
		else
			lanes += by_task ? f->n_tasks : f->n_lanes;
	}
	if (c->limits->tasks_by_choice && !(c->opt->filter.tasks && *c->opt->filter.tasks))
		lanes = 0;
	*ret_threads = threads;
	*ret_lanes = lanes;
	*ret_futures = futures;
}

static void add_up(struct chooser *c)
{
	struct export_scope *s = c->sel;
	s->n_lanes = s->n_slices = s->shown_tasks = s->shown_threads = s->n_threads = 0;
	for (uint32_t i = 0; i < s->lanes.n_threads; i++) {
		const struct thread_lane *t = &s->lanes.threads[i];
		s->n_threads += t->n_slices > 0;
		if (t->shown) {
			s->n_lanes += 1 + (t->n_samples > 0);
			s->shown_threads++;
			s->n_slices += t->n_slices;
		}
	}
	for (size_t i = 0; i < s->lanes.n_families; i++) {
		struct lane_family *f = s->lanes.families[i];
		f->shown_tasks = 0;
		for (uint32_t k = 0; k < f->n_shown; k++) {
			s->n_lanes += 1 + (f->lanes[k].n_samples > 0);
			s->n_slices += f->lanes[k].n_slices;
			f->shown_tasks += f->lanes[k].n_tasks;
		}
		if (tl_role_counts(f->role))
			s->shown_tasks += f->shown_tasks;
	}
	s->n_flows = c->counts.n_flows;
	s->n_tasks = c->counts.n_tasks;
	uint64_t all = c->counts.n_slices ? c->counts.n_slices : 1;
	s->est_bytes = (uint64_t)((double)c->counts.bytes * (double)s->n_slices / (double)all) +
		       s->n_lanes * c->limits->lane_bytes;
}

static int choose_lanes(struct chooser *c)
{
	struct export_scope *s = c->sel;
	bool by_task = c->limits->tasks_by_choice || c->opt->lanes == LANES_TASK ||
		       (c->opt->lanes == LANES_AUTO && c->counts.n_tasks <= TASK_LANES_MAX);
	uint64_t threads, lanes, futures;
	count_wanted(c, by_task, &threads, &lanes, &futures);

	uint64_t rest = c->max_lanes > lanes ? c->max_lanes - lanes : 0;
	uint64_t for_threads = rest > c->max_lanes / 2 ? rest : (c->max_lanes + 1) / 2;
	for_threads = min_u64(threads, for_threads);
	uint64_t for_tasks = min_u64(lanes, c->max_lanes - for_threads);

	uint64_t for_futures = min_u64(futures, c->max_lanes - for_threads - for_tasks);

	int r = show_threads(&s->lanes, for_threads);
	if (r == 0)
		r = by_task ? show_tasks(&s->lanes, &c->counts.top, for_tasks)
			    : show_packed(&s->lanes, false, for_tasks);
	if (r == 0)
		r = show_packed(&s->lanes, true, for_futures);
	c->lanes_cut = for_threads < threads || for_tasks < lanes || for_futures < futures;
	c->futures_cut = for_futures < futures;
	add_up(c);
	return r;
}

/* Over the budget: the moment until which the slices shown fit into it. */
static int cut_time(struct chooser *c, struct trace_reader *r, uint64_t max_bytes,
		    struct error *err)
{
	struct export_scope *s = c->sel;
	if (c->lanes_cut || c->limits->tasks_by_choice) { /* other lanes' slices were counted too */
		counts_clear(&c->counts);
		c->counts.shown_only = true;
		int ret = trace_reader_rewind(r, err);
		if (ret == 0)
			ret = counting_pass_run(&c->counts, r, &s->filter, NULL, NULL, err);
		c->counts.shown_only = false;
		if (ret < 0)
			return ret;
	}
	uint64_t until = bins_until(&c->counts.bins, c->max_slices, max_bytes);
	uint64_t to_ns = until > s->base_ns ? until - s->base_ns : 1;
	if (s->filter.to_ns && to_ns >= s->filter.to_ns)
		to_ns = s->filter.to_ns - (s->filter.to_ns - s->filter.from_ns) / 8;
	s->filter.to_ns = to_ns;
	return trace_reader_rewind(r, err);
}

static int too_big(const struct chooser *c, struct error *err)
{
	struct buf bytes = BUF_INIT;
	text_bytes(&bytes, c->limits->ceiling_bytes);
	int r = error_set(
		err, -EFBIG,
		"about %" PRIu64 " MB in %" PRIu64 " lanes: %s fails above %s or %" PRIu64
		" lanes; choose with --from, --to, --family, --task, lower --max-slices or "
		"--max-lanes, or use --force",
		c->sel->est_bytes / 1000000, c->sel->n_lanes, c->limits->viewer,
		buf_failed(&bytes) ? "its limit" : bytes.data, c->limits->ceiling_lanes);
	buf_done(&bytes);
	return r;
}

static void emit(struct chooser *c, uint64_t all_ns, uint64_t all_slices)
{
	struct export_scope *s = c->sel;
	struct buf b = BUF_INIT;
	uint64_t lanes, threads, futures;
	count_wanted(c, s->lanes.by_task, &threads, &lanes, &futures);

	if (s->filter.to_ns != c->opt->filter.to_ns) {
		buf_str(&b, "the first ");
		text_duration(&b, s->to_ns - s->from_ns);
		buf_str(&b, " of ");
		text_duration(&b, all_ns);
		s->cut_slices = all_slices > s->n_slices ? all_slices - s->n_slices : 0;
		buf_printf(&b, " (--max-slices %" PRIu64 ", --from, --to)", c->max_slices);
	}
	if (c->lanes_cut) {
		bool tasks_cut = s->shown_tasks < s->n_tasks && lanes;
		bool threads_cut = s->shown_threads < s->n_threads;

		buf_str(&b, b.len ? "; " : "");
		if (tasks_cut)
			buf_printf(&b, "%" PRIu64 " of %" PRIu64 " tasks", s->shown_tasks,
				   s->n_tasks);
		if (threads_cut)
			buf_printf(&b, "%s%" PRIu64 " of %" PRIu64 " threads",
				   tasks_cut ? " and " : "", s->shown_threads, s->n_threads);
		if (c->futures_cut)
			buf_str(&b, tasks_cut || threads_cut ? ", and not all futures"
							     : "not all futures");
		if (!tasks_cut && !threads_cut && !c->futures_cut)
			buf_str(&b, "not all calls of block_on");
		buf_printf(&b, " (--max-lanes %" PRIu64 ", --family, --task)", c->max_lanes);
	}
	if (!s->n_slices)
		snprintf(s->notice, sizeof(s->notice), "nothing to show: %s",
			 s->totals.n_events ? "nothing in this window matches"
					    : "the trace has no events");
	else if (b.len && !buf_failed(&b))
		snprintf(s->notice, sizeof(s->notice), "cut: showing %s", b.data);
	buf_done(&b);
}

/* The recording goes on after the last event, as in timeline_replay(). */
static void set_window(struct export_scope *s, const struct trace_reader *r)
{
	const struct trace_cost *cost = trace_reader_cost(r);
	uint64_t end = s->totals.last_ns;
	if (cost && cost->end_ns > end)
		end = cost->end_ns;
	if (s->filter.to_ns && s->filter.to_ns < end - s->base_ns)
		end = s->base_ns + s->filter.to_ns;
	s->to_ns = end;
	s->from_ns = s->filter.from_ns < end - s->base_ns ? s->base_ns + s->filter.from_ns : end;
}

static int count_all(struct chooser *c, struct trace_reader *r, bool first, struct error *err)
{
	do {
		counts_clear(&c->counts);
		lanes_forget(&c->sel->lanes);
		int ret = counting_pass_run(&c->counts, r, &c->sel->filter,
					    first ? c->opt->progress : NULL, c->opt->progress_ctx,
					    err);
		c->sel->filter.lenient = true; /* all of it was there; a part of it may lack */
		if (ret == 0)
			ret = trace_reader_rewind(r, err);
		if (ret < 0)
			return ret;
	} while (c->counts.found_workers);
	return 0;
}

static int choose(struct chooser *c, struct trace_reader *r, struct error *err)
{
	struct export_scope *s = c->sel;
	uint64_t max_bytes = c->opt->force ? UINT64_MAX : c->limits->ceiling_bytes;
	uint64_t all_ns = 0, all_slices = 0;

	for (int round = 0; round < MAX_ROUNDS; round++) {
		int ret;

		TRY(count_all(c, r, round == 0, err));

		s->totals = c->counts.totals;
		s->base_ns = c->counts.base_ns;
		set_window(s, r);
		if (choose_lanes(c) < 0)
			return error_set(err, -ENOMEM, "out of memory");
		if (!round) {
			all_ns = s->to_ns - s->from_ns;
			all_slices = c->counts.n_slices;
		}
		if (s->n_lanes > c->limits->ceiling_lanes && !c->opt->force)
			return too_big(c, err);
		if (s->n_slices <= c->max_slices && s->est_bytes <= max_bytes)
			break;
		if (c->opt->max_slices && s->n_slices <= c->max_slices) /* it was asked for */
			return too_big(c, err);
		ret = cut_time(c, r, max_bytes, err);
		if (ret < 0)
			return ret;
	}

	emit(c, all_ns, all_slices);
	return 0;
}

static const struct trace_kind *kind_of(const void *ctx, uint32_t kind)
{
	return trace_reader_kind(ctx, kind);
}

int limits_run(struct trace_reader *r, const struct export_options *opt,
	       const struct limits *limits, struct export_scope *ret, struct error *err)
{
	*ret = (struct export_scope){.filter = opt->filter};
	ret->lanes.kind = kind_of;
	ret->lanes.kind_ctx = r;

	struct chooser *c = calloc(1, sizeof(*c)); /* the bins are large */
	if (!c)
		return error_set(err, -ENOMEM, "out of memory");
	c->opt = opt;
	c->limits = limits;
	c->sel = ret;
	c->max_slices = opt->max_slices ? opt->max_slices : limits->max_slices;
	c->max_lanes = opt->max_lanes ? opt->max_lanes : limits->max_lanes;
	c->counts.lanes = &ret->lanes;
	c->counts.limits = limits;
	c->counts.top.max = c->max_lanes > TASK_LANES_MAX ? c->max_lanes : TASK_LANES_MAX;

	int r2 = choose(c, r, err);
	if (r2 == 0 && (kind_labels_make(r, &ret->labels) < 0 ||
			lanes_relabel(&ret->lanes, r, &ret->labels) < 0))
		r2 = error_set(err, -ENOMEM, "out of memory");
	counts_done(&c->counts);
	free(c);
	if (r2 < 0)
		export_scope_done(ret);
	return r2;
}

void export_scope_done(struct export_scope *s)
{
	lanes_done(&s->lanes);
	kind_labels_done(&s->labels);
}
