/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks of before the recording, as a moment shows them. One that has an event appears with it, and
 * what it waited before counts where the event agrees with it; one that never has any is emitted
 * at the finish, alive, in the state that it had all the time.
 *
 *     moment ─▶ before ──(event)──▶ task          waited since the first event
 *                   └───(finish)──▶ task, alive   waits open at both ends
 */
#include "timeline/state.h"

#include "base/error.h"
#include "base/vec.h"

#include <errno.h>

int timeline_before(struct timeline *tl, const struct timeline_before *task, struct error *err)
{
	struct kind *k = timeline_kind(tl, task->kind);

	if (tl->failed)
		return error_set(err, tl->failed, "out of memory");
	if (!k || !tl_role_counts(k->role) || tl->n_before == MAX_LIVE ||
	    map_get(&tl->before_names, k->number, task->id) || task_find(tl, k, task->id))
		return 0;
	if (!GROW_ONE(tl->before, tl->n_before) ||
	    map_put(&tl->before_names, k->number, task->id, (void *)(uintptr_t)(tl->n_before + 1)) <
		    0) {
		timeline_fail(tl, -ENOMEM);
		return error_set(err, -ENOMEM, "out of memory");
	}
	tl->before[tl->n_before++] = *task;
	return 0;
}

/* NULL: no moment has it, or it has appeared since. */
static const struct timeline_before *find(const struct timeline *tl, const struct kind *k,
					  uint64_t name)
{
	uintptr_t at = tl->n_before ? (uintptr_t)map_get(&tl->before_names, k->number, name) : 0;

	return at ? &tl->before[at - 1] : NULL;
}

bool before_take(struct timeline *tl, const struct kind *k, uint64_t name)
{
	return tl->n_before && map_remove(&tl->before_names, k->number, name);
}

bool before_has(const struct timeline *tl, const struct kind *k, uint64_t name)
{
	return find(tl, k, name);
}

bool before_waits(const struct timeline *tl, const struct kind *k, uint64_t name,
		  uint64_t *ret_place)
{
	const struct timeline_before *b = find(tl, k, name);

	if (!b || b->state != TS_WAITING)
		return false;
	*ret_place = b->place;
	return true;
}

void timeline_before_end(struct timeline *tl, uint64_t begin_ns,
			 bool (*there)(const void *ctx, uint32_t kind, uint64_t id),
			 const void *ctx)
{
	for (size_t i = 0; i < tl->n_before; i++)
		if (!there(ctx, tl->before[i].kind, tl->before[i].id))
			map_remove(&tl->before_names, tl->before[i].kind, tl->before[i].id);
	tl->before_ns = begin_ns;
}

void before_finish(struct timeline *tl)
{
	uint64_t t = tl->begun ? tl->first_ns : tl->before_ns;

	for (size_t i = 0; i < tl->n_before && !tl->failed; i++) {
		const struct timeline_before *b = &tl->before[i];
		struct kind *k = timeline_kind(tl, b->kind);

		if (k && before_take(tl, k, b->id))
			task_new_known(tl, k, b, t);
	}
}
