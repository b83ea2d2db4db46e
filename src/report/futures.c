/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The futures inside tasks: for each kind, and each family in which it was polled, how many
 * instances there were, their polls, the time in them with and without children, how long they
 * waited between, and how they ended.
 */
#include "base/compare.h"
#include "report/samples.h"

#include "base/text.h"
#include "report/text_util.h"

#include <errno.h>
#include <stdlib.h>

struct future_sum {
	uint32_t kind, family; /* family: of the task, TRACE_KIND_NONE outside of all */
	uint64_t n, n_polls, n_ended[TO_N], self_ns;
	struct hist poll, wait;
	struct hist life; /* of those that were ready: from the first poll on */
};

struct future_sums {
	struct map by_kind;	  /* (kind, family) to struct future_sum */
	struct future_sum **sums; /* most time of their own first */
	size_t n;
};

/* The sum that counts an instance; it is counted when first asked for. */
static struct future_sum *sum_of(struct report *rep, struct tl_future *future)
{
	if (future->user)
		return future->user;
	if (!rep->futures && !(rep->futures = calloc(1, sizeof(*rep->futures))))
		return NULL;
	uint32_t family = future->task ? future->task->kind : TRACE_KIND_NONE;
	struct future_sum *sum =
		map_get_or_new(&rep->futures->by_kind, future->kind, family, sizeof(*sum));
	if (!sum)
		return NULL;
	sum->kind = future->kind;
	sum->family = family;
	sum->n++;
	return future->user = sum;
}

int futures_poll(struct report *rep, const struct tl_future_poll *poll)
{
	struct future_sum *sum = sum_of(rep, poll->future);
	if (!sum)
		return -ENOMEM;
	sum->n_polls++;
	int r = poll->end_seen ? hist_add(&sum->poll, poll->end_ns - poll->begin_ns) : 0;
	if (r == 0 && poll->end_seen)
		sum->self_ns += poll->self_ns;
	return r == 0 && poll->waited_ns ? hist_add(&sum->wait, poll->waited_ns) : r;
}

int futures_end(struct report *rep, struct tl_future *future)
{
	struct future_sum *sum = sum_of(rep, future);
	if (!sum)
		return -ENOMEM;
	sum->n_ended[future->outcome]++;
	future->user = NULL;
	if (future->outcome == TO_READY && future->end_ns >= future->begin_ns) {
		int r = hist_add(&sum->life, future->end_ns - future->begin_ns);
		if (r < 0)
			return r;
	}
	return future->last_wait_ns ? hist_add(&sum->wait, future->last_wait_ns) : 0;
}

static int compare(const void *a, const void *b)
{
	const struct future_sum *x = *(struct future_sum *const *)a;
	const struct future_sum *y = *(struct future_sum *const *)b;

	return DESCENDING(x->self_ns, y->self_ns) ?: ASCENDING(x->kind, y->kind) ?:
	       ASCENDING(x->family, y->family);
}

int futures_sort(struct report *rep)
{
	struct future_sums *f = rep->futures;

	if (!f)
		return 0;
	f->n = f->by_kind.n;
	f->sums = map_sorted(&f->by_kind, compare);
	return f->sums ? 0 : -ENOMEM;
}

static void sum_free(void *value)
{
	struct future_sum *sum = value;

	hist_done(&sum->poll);
	hist_done(&sum->wait);
	hist_done(&sum->life);
	free(sum);
}

void futures_done(struct report *rep)
{
	struct future_sums *f = rep->futures;

	if (!f)
		return;
	map_free(&f->by_kind, sum_free);
	free(f->sums);
	free(f);
	rep->futures = NULL;
}

static void cell_ends(struct table *t, const struct future_sum *s)
{
	static const enum trace_outcome order[] = {TO_READY, TO_CANCELLED, TO_PANICKED, TO_UNKNOWN,
						   TO_PENDING};
	static const char *const words[TO_N] = {"pending", "ready", "panicked", "dropped",
						"unknown"};
	_cleanup_buf_ struct buf b = BUF_INIT;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (!s->n_ended[order[i]])
			continue;
		buf_str(&b, b.len ? ", " : "");
		text_count(&b, s->n_ended[order[i]]);
		buf_printf(&b, " %s", words[order[i]]);
	}
	table_cell(t, b.data ? b.data : "");
}

/* The requests' table has it already. */
static bool is_request(const struct report *rep, const struct future_sum *s)
{
	const struct trace_kind *k = trace_reader_kind(rep->reader, s->kind);

	return rep->handlers && k && k->flags & TRACE_KIND_HANDLER;
}

void futures_text(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "future", .min_width = 24, .align_left = true},
		{.title = "instances"},
		{.title = "polls", .rank = 2},
		{.title = "poll time", .rank = 3},
		{.title = "self"},
		{.title = "longest", .rank = 4},
		{.title = "waiting"},
		{.title = "longest", .rank = 5},
		{.title = "life p50", .rank = 2},
		{.title = "p99", .rank = 2},
		{.title = "max", .rank = 2},
		{.title = "ended", .rank = 1, .align_left = true},
		{.title = "in tasks of", .rank = 6, .min_width = 16, .align_left = true},
	};
	const struct future_sums *f = rep->futures;
	size_t n_all = 0, n = 0;

	for (size_t i = 0; f && i < f->n; i++)
		n_all += !is_request(rep, f->sums[i]);
	if (!n_all)
		return;
	report_title(rep, out, "Futures");
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	size_t n_max = rep->opt.n_families ? rep->opt.n_families : n_all;
	for (size_t i = 0; i < f->n && n < n_max; i++) {
		const struct future_sum *s = f->sums[i];

		if (is_request(rep, s))
			continue;
		n++;
		cell_safe(&t, report_label(rep, s->kind));
		cell_count(&t, s->n);
		cell_count(&t, s->n_polls);
		cell_time_if(&t, s->poll.count || !s->n_polls, s->poll.sum);
		cell_time(&t, s->self_ns);
		cell_time_if(&t, s->poll.count, s->poll.max);
		cell_time(&t, s->wait.sum);
		cell_time_if(&t, s->wait.count, s->wait.max);
		cell_time_if(&t, s->life.count, hist_quantile(&s->life, 0.5));
		cell_time_if(&t, s->life.count, hist_quantile(&s->life, 0.99));
		cell_time_if(&t, s->life.count, s->life.max);
		cell_ends(&t, s);
		cell_safe(&t, s->family == TRACE_KIND_NONE ? "-" : report_family(rep, s->family));
	}
	report_table(rep, &t, out);
	if (n < n_all)
		buf_printf(out, "  and %zu more: --top %zu\n", n_all - n, n_all);
}

void futures_json(const struct report *rep, struct json *j)
{
	const struct future_sums *f = rep->futures;
	if (!f)
		return;
	json_array(j, "futures");
	for (size_t i = 0; i < f->n; i++) {
		const struct future_sum *s = f->sums[i];
		json_object(j, NULL);
		json_string(j, "name", report_label(rep, s->kind));
		const struct trace_kind *k = trace_reader_kind(rep->reader, s->kind);
		json_string(j, "full_name", k && k->full_name ? k->full_name : "");
		json_u64(j, "kind", s->kind);
		json_string(j, "family",
			    s->family == TRACE_KIND_NONE ? "" : report_label(rep, s->family));
		json_u64(j, "instances", s->n);
		json_u64(j, "polls", s->n_polls);
		json_u64(j, "polls_of_unknown_length", s->n_polls - s->poll.count);
		json_u64(j, "ready", s->n_ended[TO_READY]);
		json_u64(j, "dropped", s->n_ended[TO_CANCELLED]);
		json_u64(j, "panicked", s->n_ended[TO_PANICKED]);
		json_u64(j, "ended_unknown", s->n_ended[TO_UNKNOWN]);
		json_u64(j, "alive", s->n_ended[TO_PENDING]);
		json_u64(j, "self_ns", s->self_ns);
		json_hist(j, "poll_ns", &s->poll);
		json_hist(j, "wait_ns", &s->wait);
		json_hist(j, "life_ns", &s->life);
		json_end_object(j);
	}
	json_end_array(j);
}
