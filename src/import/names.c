/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A hash table of byte strings. Every line of a perf script text goes through it, so the hash takes
 * eight bytes at a time, and a probe touches the string itself only if all 64 bits of the hash
 * agree. The strings lie in blocks that never move.
 */
#include "import/names.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 256u
#define BLOCK_BYTES (64u << 10)

struct name_block {
	struct name_block *next;
	size_t used, size;
	char bytes[];
};

void names_init(struct import_names *s, size_t max_bytes)
{
	*s = (struct import_names){.max_bytes = max_bytes};
}

void names_done(struct import_names *s)
{
	while (s->blocks) {
		struct name_block *next = s->blocks->next;
		free(s->blocks);
		s->blocks = next;
	}
	free(s->entries);
	*s = (struct import_names){0};
}

/* The entry, or the free one where it would go. */
static struct import_name *probe(const struct import_names *s, uint64_t h, const char *bytes,
				 size_t len)
{
	size_t mask = s->cap - 1;
	for (size_t i = h & mask;; i = (i + 1) & mask) {
		struct import_name *e = &s->entries[i];
		if (!e->bytes || (e->hash == h && e->len == len && !memcmp(e->bytes, bytes, len)))
			return e;
	}
}

static bool grow(struct import_names *s)
{
	uint32_t cap = s->cap ? s->cap * 2 : FIRST_CAP;
	struct import_name *entries = calloc(cap, sizeof(*entries));
	if (!entries)
		return false;
	for (uint32_t i = 0; i < s->cap; i++) {
		const struct import_name *e = &s->entries[i];
		if (!e->bytes)
			continue;
		size_t at = e->hash & (cap - 1);
		while (entries[at].bytes)
			at = (at + 1) & (cap - 1);
		entries[at] = *e;
	}
	free(s->entries);
	s->entries = entries;
	s->cap = cap;
	return true;
}

static const char *keep(struct import_names *s, const char *bytes, size_t len)
{
	struct name_block *b = s->blocks;

	if (len + sizeof(struct import_name) > s->max_bytes - s->bytes)
		return NULL;
	if (!b || b->size - b->used < len) {
		size_t size = len > BLOCK_BYTES ? len : BLOCK_BYTES;
		b = malloc(sizeof(*b) + size);
		if (!b)
			return NULL;
		*b = (struct name_block){.next = s->blocks, .size = size};
		s->blocks = b;
	}
	char *to = b->bytes + b->used;
	memcpy(to, bytes, len);
	b->used += len;
	s->bytes += len + sizeof(struct import_name);
	return to;
}

uint32_t names_find(const struct import_names *s, const char *bytes, size_t len)
{
	if (!s->cap)
		return UINT32_MAX;
	const struct import_name *e = probe(s, hash_bytes(0, bytes, len), bytes, len);
	return e->bytes ? e->number : UINT32_MAX;
}

static const struct import_name *add(struct import_names *s, const char *bytes, size_t len,
				     bool *ret_new)
{
	*ret_new = false;
	if (len > UINT32_MAX || (s->n >= s->cap / 4 * 3 && !grow(s)))
		return NULL;
	uint64_t h = hash_bytes(0, bytes, len);
	struct import_name *e = probe(s, h, bytes, len);
	if (e->bytes)
		return e;
	const char *kept = keep(s, bytes, len);
	if (!kept)
		return NULL;
	*e = (struct import_name){.hash = h, .bytes = kept, .len = (uint32_t)len, .number = s->n++};
	*ret_new = true;
	return e;
}

uint32_t names_get(struct import_names *s, const char *bytes, size_t len, bool *ret_new)
{
	const struct import_name *e = add(s, bytes, len, ret_new);
	return e ? e->number : UINT32_MAX;
}

const char *names_keep(struct import_names *s, const char *bytes, size_t len)
{
	bool is_new;
	const struct import_name *e = add(s, bytes, len, &is_new);
	return e ? e->bytes : NULL;
}
