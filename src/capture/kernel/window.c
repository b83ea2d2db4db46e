/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Records in the order of time.
 *
 * The ring is one queue of all CPUs, but a program takes its time before it takes its place in the
 * queue: of two CPUs, or of a program that was interrupted between the two, the later may come
 * first. So records wait until those that may be older have come, and are put in order by
 * insertion: nearly all are in order already. Those of one thread keep their order.
 */
#include "base/vec.h"
#include "capture/kernel/window.h"

#include "capture/kernel/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void kernel_window_done(struct kernel_window *w)
{
	free(w->items);
	free(w->bytes);
	*w = (struct kernel_window){0};
}

int kernel_window_add(struct kernel_window *w, const void *record, size_t len)
{
	size_t room = (len + 7) & ~7ul;

	if (len < sizeof(struct kernel_record) || len > sizeof(struct kernel_stack_record))
		return 0;
	if (!GROW(w->items, w->n, w->cap))
		return -ENOMEM;
	if (w->n_bytes + room > UINT32_MAX || !GROW(w->bytes, w->n_bytes + room, w->cap_bytes))
		return -ENOMEM;
	memcpy(w->bytes + w->n_bytes, record, len);

	struct kernel_item item = {.at = (uint32_t)w->n_bytes, .len = (uint32_t)len};
	size_t i = w->n++;

	memcpy(&item.time, record, sizeof(item.time));
	w->n_bytes += room;
	for (; i > 0 && w->items[i - 1].time > item.time; i--)
		w->items[i] = w->items[i - 1];
	w->items[i] = item;
	return 0;
}

int kernel_window_take(struct kernel_window *w, uint64_t before_ns,
		       int (*take)(void *context, const void *record, size_t len), void *context)
{
	size_t n = 0, kept = 0;
	uint8_t *rest;
	int rc = 0;

	for (; n < w->n && rc == 0 && w->items[n].time < before_ns; n++)
		rc = take(context, w->bytes + w->items[n].at, w->items[n].len);
	if (n == w->n) {
		w->n = w->n_bytes = 0;
		return rc;
	}
	if (!n)
		return rc;
	/* What stays moves to the front, in its order. */
	for (size_t i = n; i < w->n; i++)
		kept += (w->items[i].len + 7u) & ~7u;
	rest = malloc(kept);
	if (!rest)
		return -ENOMEM;
	kept = 0;
	for (size_t i = n; i < w->n; i++) {
		struct kernel_item item = w->items[i];

		memcpy(rest + kept, w->bytes + item.at, item.len);
		item.at = (uint32_t)kept;
		kept += (item.len + 7u) & ~7u;
		w->items[i - n] = item;
	}
	memcpy(w->bytes, rest, kept);
	free(rest);
	w->n -= n;
	w->n_bytes = kept;
	return rc;
}
