/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The hash map: linear probing in a table of at most three quarters full. Removal shifts the
 * entries after it back into the hole, so probing never meets a tombstone and a map that lives as
 * long as a trace (tasks come and go by millions) stays as fast as on its first day.
 */
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define MAP_FIRST_CAP 16u

void map_done(struct map *m)
{
	free(m->entries);
	*m = (struct map){0};
}

void map_free(struct map *m, void (*value_free)(void *value))
{
	const struct map_entry *e;

	for (size_t pos = 0; (e = map_next(m, &pos));)
		value_free(e->value);
	map_done(m);
}

/* Ids are often consecutive and addresses differ in few bits: mix all bits into the low ones. */
static inline size_t hash(uint64_t a, uint64_t b)
{
	uint64_t h = a * 0x9e3779b97f4a7c15ULL;
	h ^= h >> 32;
	h = (h + b) * 0xd6e8feb86659fd93ULL;
	h ^= h >> 32;
	return h;
}

/* The entry of (a, b), or the free one where it would go. */
static inline struct map_entry *probe(const struct map *m, uint64_t a, uint64_t b)
{
	size_t mask = m->cap - 1;
	size_t i = hash(a, b) & mask;

	assert(m->n < m->cap && !(m->cap & mask));
	for (;; i = (i + 1) & mask) {
		struct map_entry *e = &m->entries[i];
		if (!e->value || (e->a == a && e->b == b))
			return e;
	}
}

void *map_get(const struct map *m, uint64_t a, uint64_t b)
{
	return m->n ? probe(m, a, b)->value : NULL;
}

static int grow(struct map *m)
{
	struct map bigger = {.n = m->n, .cap = m->cap ? m->cap * 2 : MAP_FIRST_CAP};
	bigger.entries = calloc(bigger.cap, sizeof(*bigger.entries));
	if (!bigger.entries)
		return -ENOMEM;
	for (size_t i = 0; i < m->cap; i++)
		if (m->entries[i].value)
			*probe(&bigger, m->entries[i].a, m->entries[i].b) = m->entries[i];
	free(m->entries);
	*m = bigger;
	return 0;
}

int map_put(struct map *m, uint64_t a, uint64_t b, void *value)
{
	if (!value)
		return -EINVAL;
	if (m->n >= m->cap / 4 * 3) {
		int r = grow(m);
		if (r < 0)
			return r;
	}
	struct map_entry *e = probe(m, a, b);
	if (!e->value)
		m->n++;
	*e = (struct map_entry){.a = a, .b = b, .value = value};
	return 0;
}

void *map_new(struct map *m, uint64_t a, uint64_t b, size_t bytes)
{
	void *value = calloc(1, bytes);

	if (value && map_put(m, a, b, value) < 0) {
		free(value);
		return NULL;
	}
	return value;
}

void *map_get_or_new(struct map *m, uint64_t a, uint64_t b, size_t bytes)
{
	struct map_entry *e = m->last < m->cap ? &m->entries[m->last] : NULL;

	if (e && e->a == a && e->b == b && e->value)
		return e->value;
	e = m->n ? probe(m, a, b) : NULL;
	if (!e || !e->value)
		return map_new(m, a, b, bytes);
	m->last = (size_t)(e - m->entries);
	return e->value;
}

int map_put_const(struct map *m, uint64_t a, uint64_t b, const void *value)
{
	return map_put(m, a, b, (void *)(uintptr_t)value);
}

void *map_remove(struct map *m, uint64_t a, uint64_t b)
{
	if (!m->n)
		return NULL;
	struct map_entry *e = probe(m, a, b);
	void *value = e->value;
	if (!value)
		return NULL;

	/* An entry may move into the hole unless its home is after the hole (cyclically). */
	size_t mask = m->cap - 1;
	size_t hole = e - m->entries;
	for (size_t i = (hole + 1) & mask; m->entries[i].value; i = (i + 1) & mask) {
		size_t home = hash(m->entries[i].a, m->entries[i].b) & mask;
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			m->entries[hole] = m->entries[i];
			hole = i;
		}
	}
	m->entries[hole] = (struct map_entry){0};
	m->n--;
	return value;
}

const struct map_entry *map_next(const struct map *m, size_t *pos)
{
	while (*pos < m->cap) {
		const struct map_entry *e = &m->entries[(*pos)++];
		if (e->value)
			return e;
	}
	return NULL;
}

void *map_sorted(const struct map *m, int (*compare)(const void *a, const void *b))
{
	void **all = calloc(m->n + 1, sizeof(*all));
	const struct map_entry *e;
	size_t n = 0;

	if (!all)
		return NULL;
	for (size_t pos = 0; (e = map_next(m, &pos));)
		all[n++] = e->value;
	qsort(all, n, sizeof(*all), compare);
	return all;
}
