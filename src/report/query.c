/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the sections of a report ask of it: names, places, sums, what was seen. */
#include "base/compare.h"
#include "report/samples.h"

#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int call_add(struct call_list *list, const struct call_sum *more)
{
	for (size_t i = 0; i < list->n; i++) {
		struct call_sum *sum = &list->items[i];
		if (sum->call != more->call)
			continue;
		sum->n += more->n;
		sum->ns += more->ns;
		if (more->max_ns > sum->max_ns)
			sum->max_ns = more->max_ns;
		return 0;
	}
	if (!GROW_ONE(list->items, list->n))
		return -ENOMEM;
	list->items[list->n++] = *more;
	return 0;
}

static int longer_call(const void *a, const void *b)
{
	const struct call_sum *x = a, *y = b;
	return DESCENDING(x->ns, y->ns) ?: x->call - y->call;
}

void calls_sort(struct call_list *list)
{
	if (list->n)
		qsort(list->items, list->n, sizeof(*list->items), longer_call);
}

const char *report_short(const struct report *rep, uint32_t kind)
{
	bool known = rep->shorts && kind < rep->labels.n && rep->shorts[kind];

	return known ? rep->shorts[kind] : report_label(rep, kind);
}

const char *report_label(const struct report *rep, uint32_t kind)
{
	return kind_label(&rep->labels, rep->reader, kind);
}

const char *report_family(const struct report *rep, uint32_t kind)
{
	const char *name =
		rep->families_by_kind && kind < rep->labels.n ? rep->families_by_kind[kind] : NULL;

	return name ? name : report_label(rep, kind);
}

const char *family_name(const struct report *rep, const struct family *f)
{
	return report_label(rep, f->kind);
}

const struct trace_place *report_place(const struct report *rep, uint64_t place)
{
	return place ? trace_reader_own_place(rep->reader, (uint32_t)(place - 1), rep->opt.own)
		     : NULL;
}

bool report_same_place(const struct trace_place *a, const struct trace_place *b)
{
	return a == b || (a && b && a->line == b->line && !strcmp(a->function, b->function) &&
			  !strcmp(a->file, b->file));
}

const struct trace_place *report_leaf(const struct report *rep, uint64_t place)
{
	const struct trace_place *leaf =
		place ? trace_reader_place(rep->reader, (uint32_t)(place - 1)) : NULL;

	return leaf == report_place(rep, place) ? NULL : leaf;
}

uint64_t family_sort_key(const struct family *f, enum report_sort sort)
{
	switch (sort) {
	case RS_MAX:
		return f->poll.max;
	case RS_DELAY:
		return hist_quantile(&f->delay, 0.99);
	case RS_WAIT:
		return f->waiting_ns;
	case RS_TASKS:
		return f->n_tasks;
	case RS_WAKES:
		return f->n_wakes;
	default:
		return f->poll.sum;
	}
}

static bool counts_as_task(const struct family *f)
{
	return tl_role_counts(f->role);
}

bool report_sees_panics(const struct report *rep, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(rep->reader, kind);
	const struct trace_runtime *rt = k ? trace_reader_runtime(rep->reader, k->runtime) : NULL;
	const char *slash = rt && rt->object ? strrchr(rt->object, '/') : NULL;
	const char *file = slash ? slash + 1 : rt && rt->object ? rt->object : "";

	for (uint32_t i = 0; *file && i < trace_reader_n_coverage(rep->reader); i++) {
		const struct trace_coverage *c = trace_reader_coverage(rep->reader, i);
		if (!c || c->process != k->process || c->seen >= c->total || !c->note ||
		    c->cover != TRACE_COVER_PANICS)
			continue;
		const char *at = strstr(c->note, file);
		if (at && at > c->note && at[-1] == ' ' && at[strlen(file)] == ':')
			return false;
	}
	return true;
}

bool report_sees_all_panics(const struct report *rep)
{
	for (size_t i = 0; i < rep->n_families; i++)
		if (counts_as_task(rep->families[i]) &&
		    !report_sees_panics(rep, rep->families[i]->kind))
			return false;
	return true;
}

bool report_sees_all_spawns(const struct report *rep)
{
	if (rep->n_lost)
		return false;
	for (uint32_t i = 0; i < trace_reader_n_coverage(rep->reader); i++) {
		const struct trace_coverage *c = trace_reader_coverage(rep->reader, i);
		if (c && c->cover == TRACE_COVER_SPAWNS && c->seen < c->total)
			return false;
	}
	return true;
}

struct family report_sum(const struct report *rep)
{
	struct family sum = {0};
	for (size_t i = 0; i < rep->n_families; i++) {
		const struct family *f = rep->families[i];
		if (!counts_as_task(f))
			continue;
		sum.n_tasks += f->n_tasks;
		sum.n_spawned += f->n_spawned;
		for (unsigned o = 0; o < TO_N; o++)
			sum.n_ended[o] += f->n_ended[o];
		sum.n_unpolled += f->n_unpolled;
		sum.n_starved += f->n_starved;
		if (f->max_starved_ns > sum.max_starved_ns)
			sum.max_starved_ns = f->max_starved_ns;
		sum.n_polls += f->n_polls;
		sum.n_unmeasured += f->n_unmeasured;
		sum.n_wakes += f->n_wakes;
		sum.n_self_wakes += f->n_self_wakes;
		sum.n_deferred_wakes += f->n_deferred_wakes;
		sum.n_stray_wakes += f->n_stray_wakes;
		sum.waiting_ns += f->waiting_ns;
		sum.scheduled_ns += f->scheduled_ns;
		sum.blocked_ns += f->blocked_ns;
	}
	return sum;
}

uint64_t report_busy_ns(const struct report *rep)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < rep->n_threads; i++)
		sum += rep->threads[i].busy_ns;
	return sum;
}

static bool is_worker(const struct report *rep, uint32_t thread)
{
	for (size_t i = 0; i < rep->n_threads; i++)
		if (rep->threads[i].thread == thread)
			return rep->threads[i].worker;
	return false;
}

/* The longest that kept others waiting: a block_on outside of the workers has its own thread. */
const struct long_poll *report_longest_on_worker(const struct report *rep)
{
	for (size_t i = 0; i < rep->n_longest; i++) {
		const struct long_poll *l = &rep->longest[i];
		if (l->family->role != TR_ROOT || is_worker(rep, l->poll.thread))
			return l;
	}
	return NULL;
}
