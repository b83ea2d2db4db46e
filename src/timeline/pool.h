/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items of one size from slabs: no malloc per item, all given back at once at the end. */
#pragma once

#include <stddef.h>

struct pool {
	size_t item_bytes;
	void *free;  /* chain of items given back */
	void *slabs; /* chain of slabs */
	size_t n_used;
};

void pool_init(struct pool *p, size_t item_bytes);
void pool_done(struct pool *p);
void *pool_get(struct pool *p); /* zeroed; NULL when out of memory */
void pool_put(struct pool *p, void *item);
