/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Few ranges are missing at a time: tasks that were spawned and not polled yet, and ids that
 * block_ons have taken. Where there are many the lowest are forgotten.
 */
#include "timeline/ids.h"

#include "base/search.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MISSING 4096u

void ids_done(struct ids *ids)
{
	free(ids->missing);
	*ids = (struct ids){0};
}

static int insert(struct ids *ids, size_t at, struct id_range range)
{
	if (ids->n_missing == MAX_MISSING) {
		size_t n = MAX_MISSING / 2;

		ids->unknown = ids->missing[n - 1].last;
		ids->n_missing -= n;
		memmove(ids->missing, ids->missing + n, ids->n_missing * sizeof(*ids->missing));
		if (at < n)
			return 0;
		at -= n;
	}
	if (!GROW(ids->missing, ids->n_missing, ids->cap_missing))
		return -ENOMEM;
	memmove(ids->missing + at + 1, ids->missing + at,
		(ids->n_missing++ - at) * sizeof(*ids->missing));
	ids->missing[at] = range;
	return 0;
}

int ids_add_given(struct ids *ids, uint64_t highest)
{
	struct id_range given = {ids->highest + 1, highest};
	struct id_range *last = ids->n_missing ? &ids->missing[ids->n_missing - 1] : NULL;

	if (highest <= ids->highest)
		return 0;
	if (!ids->highest)
		ids->unknown = highest;
	ids->highest = highest;
	if (given.first <= ids->unknown)
		return 0;
	if (last && last->last + 1 == given.first) {
		last->last = highest;
		return 0;
	}
	return insert(ids, ids->n_missing, given);
}

/* The first range that ends at the id or later. */
static size_t find(const struct ids *ids, uint64_t id)
{
	return PARTITION_POINT(i, 0, ids->n_missing, ids->missing[i].last < id);
}

int ids_add_seen(struct ids *ids, uint64_t id)
{
	int rc = ids_add_given(ids, id);
	size_t at = find(ids, id);
	struct id_range *r = at < ids->n_missing ? &ids->missing[at] : NULL;

	if (rc < 0 || !r || r->first > id)
		return rc;
	if (r->first < id && id < r->last) {
		const struct id_range below = {r->first, id - 1};

		r->first = id + 1;
		return insert(ids, at, below);
	}
	if (r->first < r->last) {
		r->first += id == r->first;
		r->last -= id == r->last;
		return 0;
	}
	memmove(r, r + 1, (--ids->n_missing - at) * sizeof(*r));
	return 0;
}

bool ids_all_seen(const struct ids *ids, uint64_t first, uint64_t last)
{
	size_t at = find(ids, first);

	return first > ids->unknown && last <= ids->highest &&
	       (at == ids->n_missing || ids->missing[at].first > last);
}
