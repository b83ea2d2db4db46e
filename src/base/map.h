/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A hash map from (u64, u64) to a pointer: open addressing, grows, deletion without tombstones. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry {
	uint64_t a, b;
	void *value; /* NULL marks a free entry, so NULL can't be stored */
};

struct map {
	struct map_entry *entries;
	size_t n, cap; /* cap is 0 or a power of two */
	size_t last;   /* the entry that map_get_or_new() found last: often it is the next, too */
};

void map_done(struct map *m);				       /* the values stay the caller's */
void map_free(struct map *m, void (*value_free)(void *value)); /* the values, too */
void *map_get(const struct map *m, uint64_t a, uint64_t b);
/* A zeroed value of `bytes` from the heap for a key that has none; NULL when out of memory. */
void *map_new(struct map *m, uint64_t a, uint64_t b, size_t bytes);
void *map_get_or_new(struct map *m, uint64_t a, uint64_t b, size_t bytes);
/* Replaces. -ENOMEM or 0. */
int map_put(struct map *m, uint64_t a, uint64_t b, void *value);
/* The same for a value that may not be changed: get it as const. */
int map_put_const(struct map *m, uint64_t a, uint64_t b, const void *value);
void *map_remove(struct map *m, uint64_t a, uint64_t b); /* the value that was there, or NULL */
/* Iterates: `*pos` starts at 0; NULL at the end. The map must not change meanwhile. */
const struct map_entry *map_next(const struct map *m, size_t *pos);
/* All values, an array of m->n pointers (free), in the order of `compare`, which gets pointers to
 * pointers; NULL when out of memory. */
void *map_sorted(const struct map *m, int (*compare)(const void *a, const void *b));
