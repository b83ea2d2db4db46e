/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A slab holds 128 items after one pointer to the previous slab. Items given back go to a chain
 * that is used first, newest first, since that memory is still in the cache.
 */
#include "timeline/pool.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_PER_SLAB 128

struct slab {
	struct slab *before;
	alignas(max_align_t) unsigned char items[];
};

void pool_init(struct pool *p, size_t item_bytes)
{
	size_t align = alignof(max_align_t);
	*p = (struct pool){.item_bytes = (item_bytes + align - 1) / align * align};
}

void pool_done(struct pool *p)
{
	while (p->slabs) {
		struct slab *s = p->slabs;
		p->slabs = s->before;
		free(s);
	}
	p->free = NULL;
}

static int pool_grow(struct pool *p)
{
	struct slab *s = malloc(sizeof(*s) + p->item_bytes * ITEMS_PER_SLAB);
	if (!s)
		return -1;
	s->before = p->slabs;
	p->slabs = s;
	for (size_t i = ITEMS_PER_SLAB; i-- > 0;) {
		void *item = s->items + i * p->item_bytes;
		*(void **)item = p->free;
		p->free = item;
	}
	return 0;
}

void *pool_get(struct pool *p)
{
	if (!p->free && pool_grow(p) < 0)
		return NULL;
	void *item = p->free;
	p->free = *(void **)item;
	p->n_used++;
	return memset(item, 0, p->item_bytes);
}

void pool_put(struct pool *p, void *item)
{
	assert(p->n_used > 0);
	*(void **)item = p->free;
	p->free = item;
	p->n_used--;
}
