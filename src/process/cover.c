/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The coverage: what the scan found in each object, then what became of it in the process. What
 * could not be hooked is listed with the reason; of futures also with some names.
 */
#include "process/cover.h"

#include "base/buf.h"

#include <string.h>

#define FUTURES "future polls"
/* How many of those that are not hooked are named, for how many reasons. */
#define MAX_NAMED 12
#define MAX_REASONS 16

/* `root_polls`: what a block_on of async-task polls is recorded, whatever the scan knew of it. */
static void print_scan(struct coverage_list *c, const struct runtime_scan *f, bool root_polls)
{
	for (size_t i = 0; i < f->coverage.n; i++) {
		const struct trace_coverage *found = &f->coverage.v[i];
		struct trace_coverage *one;

		if (root_polls && !strcmp(found->item, COVER_ASYNC_BLOCK_ON))
			continue;
		one = coverage_add(c, found->item, found->seen, found->total, found->note);

		if (one) {
			one->cover = found->cover;
			one->runtime = found->runtime;
		}
	}
}

/* Those of one reason together. */
static void cover_left_futures(struct coverage_list *c, struct hooked_object *const *objects,
			       size_t n_objects, const char *trouble)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	uint64_t n = 0;

	buf_str(&text, trouble);
	for (size_t i = 0; i < n_objects; i++) {
		const struct scan_futures *f = &objects[i]->futures;

		for (size_t k = 0; k < f->n; k++) {
			if (f->v[k].trouble != trouble || f->v[k].holder)
				continue;
			if (n++ < MAX_NAMED)
				buf_printf(&text, "%s %s", n == 1 ? ":" : ",", f->v[k].name);
		}
	}
	if (n > MAX_NAMED)
		buf_str(&text, ", ...");
	c->failed = c->failed || buf_failed(&text);
	coverage_add(c, FUTURES, 0, n, text.data);
}

static void cover_futures(struct coverage_list *c, struct hooked_object *const *objects,
			  size_t n_objects)
{
	const char *reasons[MAX_REASONS];
	size_t n_reasons = 0, n_hooked = 0;
	bool blind = false;

	for (size_t i = 0; i < n_objects; i++) {
		const struct scan_futures *f = &objects[i]->futures;

		blind = blind || !f->debug;
		for (size_t k = 0; k < f->n; k++) {
			const char *trouble = f->v[k].trouble;
			bool known = !trouble || f->v[k].holder;

			n_hooked += !trouble && !f->v[k].holder;
			for (size_t t = 0; t < n_reasons && !known; t++)
				known = reasons[t] == trouble;
			if (known || n_reasons == MAX_REASONS)
				continue;
			reasons[n_reasons++] = trouble;
			cover_left_futures(c, objects, n_objects, trouble);
		}
	}
	coverage_add(c, FUTURES, n_hooked, n_hooked, "");
	if (blind)
		coverage_add(c, "inlined futures", 0, 0,
			     "without debug information pollux cannot find those whose polls the "
			     "optimiser made a part of their awaiters'");
}

/* Whether there is something of async-task's, out of whose run a panic goes on. */
static bool has_async_task(const struct runtime_scan *f)
{
	for (size_t i = 0; i < f->n_runtimes; i++)
		if (f->runtimes[i].model == TASK_ASYNC_TASK)
			return true;
	return false;
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *unwinder_text(enum unwinder u)
{
	switch (u) {
	case UNWINDER_UNBOUND:
		return "isn't known yet";
	case UNWINDER_OWN:
		return "is hidden in it, and does not accept the frames of pollux";
	default:
		return "isn't libgcc's, and does not accept the frames of pollux";
	}
}

/* Whether the start of a panic is hooked in it. */
static bool sees_panics(const struct hooked_object *o, const struct hooks *h)
{
	for (size_t i = 0; i < h->n; i++)
		if (h->table[i].type == AH_PANIC && h->table[i].slot >= o->object->start &&
		    h->table[i].slot < o->object->end)
			return true;
	return unwinders_abort(o->object);
}

/* What isn't seen of an object since its unwinder is out of reach. */
static void cover_unwinder(struct coverage_list *c, const struct hooked_object *o,
			   const struct hooks *h, bool futures)
{
	const struct runtime_scan *f = &o->attach.scan;
	const char *file = file_name(o->object->path);
	struct trace_coverage *row;

	if (o->unwinder != UNWINDER_KNOWN && has_async_task(f))
		coverage_addf(
			c, "objects' poll ends", 0, 1,
			"the unwinder of %s %s: when and how a poll of a task of async-task's "
			"ends isn't known",
			file, unwinder_text(o->unwinder));
	if (f->n_runtimes && !sees_panics(o, h)) {
		row = coverage_addf(
			c, "objects' panics", 0, 1,
			"where a panic starts isn't seen in %s: a task that panicked counts as "
			"ready",
			file);
		if (row)
			row->cover = TRACE_COVER_PANICS;
	}
	if (futures && o->unwinder != UNWINDER_KNOWN && o->root_polls.n)
		coverage_addf(c, COVER_ASYNC_BLOCK_ON, 0, o->root_polls.n, "the unwinder of %s %s",
			      file, unwinder_text(o->unwinder));
}

void cover_objects(struct coverage_list *c, struct hooked_object *const *objects, size_t n_objects,
		   const struct hooks *h, bool futures)
{
	struct trace_coverage *row;
	size_t n_wakes = 0;

	for (size_t i = 0; i < n_objects; i++) {
		const struct runtime_scan *f = &objects[i]->attach.scan;
		size_t first = c->n;

		for (size_t k = 0; k < f->n_wakers; k++)
			n_wakes += f->wakers[k].n_direct;
		print_scan(c, f, objects[i]->root_polls.n > 0);
		cover_unwinder(c, objects[i], h, futures);
		for (size_t k = first; k < c->n; k++)
			c->v[k].object = f->path;
	}
	coverage_add(c, "hooked slots", h->n_slots - h->n_slots_other - h->n_unbound, h->n_slots,
		     h->n_slots_other ? "the others differ from the file"
		     : h->n_unbound   ? "the others are bound at the first call"
				      : "");
	if (futures)
		cover_futures(c, objects, n_objects);
	if (h->n_root_polls)
		coverage_add(c, COVER_ASYNC_BLOCK_ON, h->n_root_polls, h->n_root_polls, "");
	if (n_wakes)
		coverage_add(c, "wakers' direct calls", h->n_wakes, n_wakes,
			     h->n_wakes < n_wakes
				     ? "the others lie too far from the agent, or changed"
				     : "");
	if (h->n_calls_left)
		coverage_add(
			c, "changed calls", h->n_calls - h->n_calls_left, h->n_calls,
			"the others were not what the file says, changed while pollux attached, or "
			"lie in two pages that could not be changed as one");
	row = coverage_add(c, "patched spawn sites", h->n_sites - h->n_sites_left, h->n_sites,
			   h->n_sites_left ? "tasks of the others are seen from their first "
					     "schedule or poll on"
					   : "");
	if (row)
		row->cover = TRACE_COVER_SPAWNS;
}
