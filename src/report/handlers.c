/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Families of connections, split by what their tasks serve. A part of a family counts what belongs to
 * one handler, parts[0] what belongs to none: the connection's own, such as waiting for the next
 * request. Each event counts in the family and in one part, so they add up exactly.
 */
#include "base/compare.h"
#include "report/data.h"
#include "report/text_util.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct family *part_new(struct family *f, uint32_t handler)
{
	if (!GROW_ONE(f->parts, f->n_parts))
		return NULL;
	struct family *part = calloc(1, sizeof(*part));
	if (!part)
		return NULL;
	part->kind = f->kind;
	part->role = f->role;
	part->handler = handler;
	return f->parts[f->n_parts++] = part;
}

/* All that was counted before the first request belongs to none. */
static int part_before(struct family *f)
{
	struct family *own = part_new(f, TRACE_KIND_NONE);

	if (!own)
		return -ENOMEM;
	own->n_polls = f->n_polls;
	own->n_unmeasured = f->n_unmeasured;
	own->n_wakes = f->n_wakes;
	own->n_stray_wakes = f->n_stray_wakes;
	own->n_self_wakes = f->n_self_wakes;
	own->n_deferred_wakes = f->n_deferred_wakes;
	own->n_self_polls = f->n_self_polls;
	own->waiting_ns = f->waiting_ns;
	own->scheduled_ns = f->scheduled_ns;
	own->blocked_ns = f->blocked_ns;
	for (size_t i = 0; i < f->calls.n; i++)
		TRY(call_add(&own->calls, &f->calls.items[i]));
	TRY(hist_copy(&f->poll, &own->poll));
	return hist_copy(&f->delay, &own->delay);
}

int family_part(struct report *rep, struct family *f, const struct tl_round *round,
		struct family **ret)
{
	uint32_t handler = round->serial ? round->kind : TRACE_KIND_NONE;

	*ret = NULL;
	if (rep->opt.by == RY_TASK || (!round->serial && !f->n_parts))
		return 0;
	/* Mostly the same one as before. */
	if (f->last_part && f->last_part->handler == handler) {
		*ret = f->last_part;
		return 0;
	}
	if (!f->n_parts)
		TRY(part_before(f));
	rep->handlers = true;
	*ret = round->serial ? map_get(&rep->parts, f->kind, handler) : f->parts[0];
	if (!*ret) {
		*ret = part_new(f, handler);
		if (!*ret || map_put(&rep->parts, f->kind, handler, *ret) < 0)
			return -ENOMEM;
	}
	f->last_part = *ret;
	return 0;
}

int handlers_request(struct report *rep, const struct tl_future *future)
{
	struct family *f = future->task ? future->task->user : NULL, *part;

	if (!f || !tl_is_round(future))
		return 0;
	TRY(family_part(rep, f, &future->round, &part));
	if (!part)
		return 0;
	part->n_requests++;
	part->request_ends[future->outcome]++;
	if (future->outcome != TO_READY || future->end_ns < future->begin_ns)
		return 0;
	return hist_add(&part->latency, future->end_ns - future->begin_ns);
}

void family_parts_done(struct family *f)
{
	for (size_t i = 0; i < f->n_parts; i++) {
		struct family *part = f->parts[i];

		hist_done(&part->poll);
		hist_done(&part->delay);
		hist_done(&part->latency);
		free(part->calls.items);
		free(part);
	}
	free(f->parts);
}

static int compare_parts(const void *a, const void *b, void *arg)
{
	const struct family *x = *(struct family *const *)a, *y = *(struct family *const *)b;
	const struct report *rep = arg;
	int r = rep->opt.sort == RS_NAME
			? strcmp(report_label(rep, x->handler), report_label(rep, y->handler))
			: DESCENDING(family_sort_key(x, rep->opt.sort),
				     family_sort_key(y, rep->opt.sort));

	return r ?: ASCENDING(x->handler, y->handler);
}

void handlers_sort(struct report *rep)
{
	for (size_t i = 0; i < rep->n_families; i++) {
		struct family *f = rep->families[i];

		for (size_t k = 0; f && k < f->n_parts; k++)
			calls_sort(&f->parts[k]->calls);
		if (f && f->n_parts > 1)
			qsort_r(f->parts + 1, f->n_parts - 1, sizeof(struct family *),
				compare_parts, rep);
	}
}

uint32_t report_handler(const struct report *rep, const struct tl_round *round)
{
	return round->serial && rep->opt.by != RY_TASK ? round->kind : TRACE_KIND_NONE;
}

/* ---- requests, for people ---- */

static int slower(const void *a, const void *b)
{
	const struct family *x = *(struct family *const *)a, *y = *(struct family *const *)b;
	uint64_t p = hist_quantile(&x->latency, 0.99), q = hist_quantile(&y->latency, 0.99);

	return DESCENDING(p, q) ?: DESCENDING(x->n_requests, y->n_requests) ?:
	       ASCENDING(x->handler, y->handler);
}

static bool is_of(const struct wait_place *w, const struct family *part)
{
	return w->family->kind == part->kind && w->handler == part->handler;
}

/* Inside one line several futures may be awaited: all that is waited there. */
static uint64_t waited_at(const struct report *rep, const struct family *part,
			  const struct trace_place *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < rep->n_waits; i++)
		if (is_of(rep->waits[i], part) &&
		    report_same_place(report_place(rep, rep->waits[i]->place), p))
			sum += rep->waits[i]->waits.sum;
	return sum;
}

static void say_where(const struct report *rep, struct buf *out, const struct family *part)
{
	uint64_t all = part->poll.sum + part->waiting_ns + part->scheduled_ns, most = all / 2;
	const struct wait_place *w = NULL;

	for (size_t i = 0; i < rep->n_waits && !w; i++)
		if (is_of(rep->waits[i], part))
			w = rep->waits[i];
	if (part->waiting_ns > most) {
		const struct trace_place *p = w ? report_place(rep, w->place) : NULL;

		buf_str(out, "waiting");
		if (!p)
			return;
		buf_printf(out, " %llu %%: ",
			   (unsigned long long)text_percent(waited_at(rep, part, p), all));
		trace_place_text(out, p);
		if (*p->awaits) {
			buf_str(out, ", for ");
			text_safe(out, p->awaits);
		}
	} else if (part->scheduled_ns > most) {
		buf_str(out, "ready, waiting for a worker");
	} else if (part->blocked_ns > most && part->calls.n) {
		buf_printf(out, "blocked in %s", trace_call_name(part->calls.items[0].call));
	} else {
		buf_str(out, part->poll.sum > most ? "in polls" : "at several places");
	}
}

static void cell_ends(struct table *t, const struct family *part)
{
	static const char *const words[TO_N] = {"in progress", "ready", "panicked", "dropped",
						"unknown"};
	static const enum trace_outcome order[] = {TO_READY, TO_CANCELLED, TO_PANICKED, TO_UNKNOWN,
						   TO_PENDING};
	_cleanup_buf_ struct buf b = BUF_INIT;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (!part->request_ends[order[i]])
			continue;
		buf_str(&b, b.len ? ", " : "");
		text_count(&b, part->request_ends[order[i]]);
		buf_printf(&b, " %s", words[order[i]]);
	}
	table_cell(t, b.data ? b.data : "");
}

void handlers_text(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "handler", .min_width = 16, .align_left = true},
		{.title = "requests"},
		{.title = "latency p50"},
		{.title = "p99"},
		{.title = "max"},
		{.title = "longest poll", .rank = 2},
		{.title = "most of it",
		 .rank = 1,
		 .min_width = 36,
		 .align_left = true,
		 .cut_end = true},
		{.title = "ended", .rank = 3, .align_left = true},
		{.title = "served by", .rank = 4, .min_width = 16, .align_left = true},
	};
	struct table t;
	size_t n = 0, most = rep->opt.n_families;

	for (size_t i = 0; i < rep->n_families; i++)
		n += rep->families[i]->n_parts;
	if (!rep->handlers || !n)
		return;
	_cleanup_free_ struct family **rows = calloc(n, sizeof(struct family *));
	n = 0;
	for (size_t i = 0; rows && i < rep->n_families; i++)
		for (size_t k = 1; k < rep->families[i]->n_parts; k++)
			rows[n++] = rep->families[i]->parts[k];
	if (!n) {
		out->failed = out->failed || !rows;
		return;
	}
	qsort(rows, n, sizeof(*rows), slower);
	report_title(rep, out, "Requests by handler");
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < n && (!most || i < most); i++) {
		const struct family *part = rows[i];
		_cleanup_buf_ struct buf where = BUF_INIT;

		say_where(rep, &where, part);
		cell_safe(&t, report_label(rep, part->handler));
		cell_count(&t, part->n_requests);
		cell_time_if(&t, part->latency.count, hist_quantile(&part->latency, 0.5));
		cell_time_if(&t, part->latency.count, hist_quantile(&part->latency, 0.99));
		cell_time_if(&t, part->latency.count, part->latency.max);
		cell_time_if(&t, part->poll.count, part->poll.max);
		table_cell(&t, where.data ? where.data : "");
		cell_ends(&t, part);
		cell_safe(&t, report_family(rep, part->kind));
	}
	report_table(rep, &t, out);
	for (size_t i = 0; i < n && (!most || i < most); i++) {
		if (rows[i]->poll.max <= rows[i]->latency.max || !rows[i]->latency.count)
			continue;
		buf_str(out, "  a poll is the task's: it may serve several requests, and "
			     "last longer than one of them\n");
		break;
	}
	if (most && n > most)
		buf_printf(out, "  and %zu more: --top %zu\n", n - most, n);
}

/* ---- for programs ---- */

void handlers_json(const struct report *rep, const struct family *f, struct json *j)
{
	if (!f->n_parts)
		return;
	json_array(j, "handlers");
	for (size_t i = 0; i < f->n_parts; i++) {
		const struct family *part = f->parts[(i + 1) % f->n_parts]; /* none's last */
		const struct trace_kind *k = trace_reader_kind(rep->reader, part->handler);

		json_object(j, NULL);
		report_handler_json(rep, j, part->handler);
		json_string(j, "full_name", k && k->full_name ? k->full_name : "");
		json_u64(j, "requests", part->n_requests);
		json_u64(j, "ready", part->request_ends[TO_READY]);
		json_u64(j, "dropped", part->request_ends[TO_CANCELLED]);
		json_u64(j, "panicked", part->request_ends[TO_PANICKED]);
		json_u64(j, "ended_unknown", part->request_ends[TO_UNKNOWN]);
		json_u64(j, "in_progress", part->request_ends[TO_PENDING]);
		json_hist(j, "latency_ns", &part->latency);
		report_sums_json(part, j);
		json_end_object(j);
	}
	json_end_array(j);
}
