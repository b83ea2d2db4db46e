/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "findings/long_waits.h"

#include "base/compare.h"
#include "base/units.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdlib.h>

void wait_notes_done(struct wait_notes *notes)
{
	map_free(&notes->points, free);
}

static const struct convoy none = {.by.kind = TRACE_KIND_NONE, .before.kind = TRACE_KIND_NONE};

void wait_notes_wake(struct wait_notes *notes, const struct tl_wake *wake)
{
	uint64_t source = wake->source_task ? wake->source_task->serial : 0;

	notes->woken = wake->task->serial;
	notes->last_wake = none;
	if (!source)
		return;
	notes->last_wake.by = (struct waker){.kind = wake->source_task->kind,
					     .serial = source,
					     .number = wake->source_task->number};
	if (notes->last_places[source % N_LAST_PLACES].serial != source)
		return;
	notes->last_wake.by.place = notes->last_places[source % N_LAST_PLACES].place;
	notes->last_wake.before = notes->last_places[source % N_LAST_PLACES].by;
}

static void end_convoy(struct long_waits *w)
{
	if (w->now.n < CONVOY_WAITS)
		return;
	w->n_convoys++;
	if (w->now_max_ns < w->worst_max_ns)
		return;
	w->worst = w->now;
	w->worst_max_ns = w->now_max_ns;
}

static void add_open(struct long_waits *w, const struct tl_wait *wait)
{
	w->open_sum_ns += wait->end_ns - wait->begin_ns;
	if (w->n_open++ && wait->begin_ns >= w->first_open_ns)
		return;
	w->first_open_ns = wait->begin_ns;
	w->open_serial = wait->task->serial;
	w->open_number = wait->task->number;
}

static void add(struct wait_notes *notes, struct long_waits *w, const struct tl_wait *wait)
{
	uint64_t ns = wait->end_ns - wait->begin_ns;

	w->n_waits++;
	w->sum_ns += ns;
	if (ns > w->max_ns) {
		w->max_ns = ns;
		w->time_ns = wait->begin_ns;
		w->serial = wait->task->serial;
		w->number = wait->task->number;
		w->longest = notes->woken == w->serial ? notes->last_wake : none;
	}
	if (wait->end_ns > w->now.last_ns + CONVOY_PAUSE_NS) {
		end_convoy(w);
		w->now = notes->woken == wait->task->serial ? notes->last_wake : none;
		w->now_max_ns = 0;
	}
	w->now.n++;
	w->now.last_ns = wait->end_ns;
	if (ns > w->now_max_ns)
		w->now_max_ns = ns;
}

int wait_notes_wait(struct wait_notes *notes, const struct tl_wait *wait)
{
	uint64_t serial = wait->task->serial;
	struct long_waits *w;

	if (!wait->place || wait->state != TS_WAITING || wait->task->role != TR_TASK)
		return 0;
	notes->last_places[serial % N_LAST_PLACES].serial = serial;
	notes->last_places[serial % N_LAST_PLACES].place = wait->place;
	notes->last_places[serial % N_LAST_PLACES].by =
		(notes->woken == serial ? &notes->last_wake : &none)->by;
	if (wait->end_ns - wait->begin_ns < LONG_WAIT_NS)
		return 0;
	w = map_get_or_new(&notes->points, wait->task->kind, wait->place, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->kind = wait->task->kind;
	w->place = wait->place;
	if (wait->open)
		add_open(w, wait);
	else
		add(notes, w, wait);
	return 0;
}

static void merge(struct long_waits *into, const struct long_waits *w)
{
	if (w->max_ns > into->max_ns) {
		into->max_ns = w->max_ns;
		into->time_ns = w->time_ns;
		into->serial = w->serial;
		into->number = w->number;
		into->longest = w->longest;
	}
	if (w->worst_max_ns > into->worst_max_ns) {
		into->worst_max_ns = w->worst_max_ns;
		into->worst = w->worst;
	}
	if (w->n_open && (!into->n_open || w->first_open_ns < into->first_open_ns)) {
		into->first_open_ns = w->first_open_ns;
		into->open_serial = w->open_serial;
		into->open_number = w->open_number;
	}
	if (!into->place || w->place < into->place)
		into->place = w->place;
	into->kind = w->kind;
	into->n_waits += w->n_waits;
	into->sum_ns += w->sum_ns;
	into->n_convoys += w->n_convoys;
	into->n_open += w->n_open;
	into->open_sum_ns += w->open_sum_ns;
}

int wait_notes_merge(struct wait_notes *notes, uint64_t (*key)(const void *ctx, uint64_t place),
		     const void *ctx)
{
	struct map merged = {0};
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&notes->points, &pos))) {
		struct long_waits *w = e->value, *into;
		uint64_t one = key(ctx, w->place);

		end_convoy(w);
		into = one ? map_get_or_new(&merged, w->kind, one, sizeof(*into)) : NULL;
		if (!into) {
			map_free(&merged, free);
			return -ENOMEM;
		}
		merge(into, w);
	}
	map_free(&notes->points, free);
	notes->points = merged;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct long_waits *x = *(struct long_waits *const *)a;
	const struct long_waits *y = *(struct long_waits *const *)b;

	return DESCENDING(x->sum_ns + x->open_sum_ns, y->sum_ns + y->open_sum_ns)
		       ?: ASCENDING(x->kind, y->kind)
		       ?: ASCENDING(x->place, y->place);
}

struct long_waits **wait_notes_sorted(const struct wait_notes *notes, int *ret_rc)
{
	struct long_waits **all = notes->points.n ? map_sorted(&notes->points, compare) : NULL;

	*ret_rc = notes->points.n && !all ? -ENOMEM : 0;
	return all;
}
