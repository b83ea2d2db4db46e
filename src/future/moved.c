/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An allocation has one owner. Who awaits a future owns it; a local that leads to the same one was
 * moved out of (walk.c knows that within one task).
 *
 * A freed block of glibc's (2.32 and later): those that its lists will give out again begin with a
 * pointer to the next one, exclusive-or'd with a part of their own address; in the lists of a
 * thread another word follows, the same for all. The chunk behind a larger one has its size, and a
 * bit that says so. Source: malloc/malloc.c, PROTECT_PTR, tcache_put, _int_free.
 */
#include "future/moved.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"

#include <errno.h>
#include <string.h>

enum { CHUNK_FLAGS = 7, CHUNK_MIN = 32, CHUNK_MAX = 64 << 20, PREVIOUS_IN_USE = 1 };

static bool chunk_bytes(struct mem *m, uint64_t block, uint64_t *ret)
{
	uint64_t head;

	if (!mem_u64(m, block - 8, &head))
		return false;
	*ret = head & ~(uint64_t)CHUNK_FLAGS;
	return *ret >= CHUNK_MIN && *ret <= CHUNK_MAX && *ret % 16 == 0;
}

/* It is in a list of blocks of one size. */
static bool is_listed(struct mem *m, uint64_t addr, uint64_t bytes)
{
	uint64_t word, next, next_bytes, key, next_key;

	if (!mem_u64(m, addr, &word))
		return false;
	next = word ^ addr >> 12;
	if (!next)
		return true;
	return next % 16 == 0 && chunk_bytes(m, next, &next_bytes) && next_bytes == bytes &&
	       mem_u64(m, addr + 8, &key) && mem_u64(m, next + 8, &next_key) && key &&
	       key == next_key;
}

/* The chunk behind says that it is free, alone or with those before it. */
static bool is_binned(struct mem *m, uint64_t addr, uint64_t bytes)
{
	uint64_t behind = addr - 16 + bytes, free_bytes, head, size;

	return mem_u64(m, behind, &free_bytes) && mem_u64(m, behind + 8, &head) &&
	       !(head & PREVIOUS_IN_USE) && free_bytes >= bytes && free_bytes <= CHUNK_MAX &&
	       chunk_bytes(m, behind - free_bytes + 16, &size) && size == free_bytes;
}

bool moved_is_free(struct mem *m, uint64_t addr)
{
	uint64_t bytes;

	return addr % 16 == 0 && chunk_bytes(m, addr, &bytes) &&
	       (is_listed(m, addr, bytes) || is_binned(m, addr, bytes));
}

/* ---- owned by two ---- */

static uint64_t type_of(const struct await_node *n)
{
	return hash_string(0, n->full_name);
}

/* The futures that a task awaits. */
static int note_awaited(struct map *awaited, struct await_node *n)
{
	if (n->state == AS_ASLEEP)
		return 0;
	if (n->kind == AN_ASYNC && n->state == AS_SUSPENDED)
		TRY(map_put(awaited, n->addr, type_of(n), n));
	for (size_t i = 0; i < n->n_children; i++)
		TRY(note_awaited(awaited, n->children[i]));
	return 0;
}

/* The coroutine that a local leads to; NULL: none, or one that several may own. */
static const struct await_node *led_to(const struct await_node *n)
{
	while (n->kind == AN_FUTURE && n->n_children == 1 &&
	       !strstr(n->full_name, "::shared::Shared<"))
		n = n->children[0];
	return n->kind == AN_ASYNC ? n : NULL;
}

static void take_out(const struct map *awaited, struct await_node *n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n->n_children; i++) {
		struct await_node *child = n->children[i];
		const struct await_node *to = child->state == AS_ASLEEP ? led_to(child) : NULL;

		if (to && map_get(awaited, to->addr, type_of(to))) {
			await_node_free(child);
			continue;
		}
		take_out(awaited, child);
		n->children[kept++] = child;
	}
	n->n_children = kept;
}

int moved_take_out(struct inspect_result *r)
{
	_cleanup_(map_done) struct map awaited = {0};

	for (size_t i = 0; i < r->n_tasks; i++)
		if (r->tasks[i].tree)
			TRY(note_awaited(&awaited, r->tasks[i].tree));
	for (size_t i = 0; i < r->n_tasks; i++)
		if (r->tasks[i].tree)
			take_out(&awaited, r->tasks[i].tree);
	return 0;
}
