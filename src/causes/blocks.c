/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "causes/blocks.h"

#include "base/search.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS_MIN 16u

void blocks_done(struct blocks *b)
{
	free(b->ring);
	*b = (struct blocks){0};
}

/* While the ring is not full nothing was overwritten, so all of it stays where it is. */
static bool grow(struct blocks *b)
{
	size_t cap = b->cap ? b->cap * 2 : BLOCKS_MIN;
	struct block *ring = realloc(b->ring, cap * sizeof(*ring));

	if (!ring)
		return false;
	b->ring = ring;
	b->cap = cap;
	return true;
}

static struct block *at(const struct blocks *b, uint64_t index)
{
	return &b->ring[index & (b->cap - 1)];
}

static struct block *open_block(struct blocks *b, uint64_t number, const struct segment *s)
{
	struct block *block;

	if (b->n && at(b, b->n - 1)->n < BLOCK_SEGMENTS)
		return at(b, b->n - 1);
	if (b->n >= b->cap && b->cap < BLOCKS_MAX && !grow(b))
		return NULL;
	block = at(b, b->n++);
	memset(block, 0, sizeof(*block));
	block->first = number;
	block->before = segment_before(number, s->thread_before);
	block->begin_ns = block->end_ns = s->begin_ns;
	return block;
}

static struct block_cause *cause_of(struct block *block, const struct segment *s)
{
	bool call = s->type == SEG_CALL || s->type == SEG_OFF_CPU;
	uint64_t stack = s->type == SEG_CALL ? s->stack : 0;
	struct block_cause *c;

	for (size_t i = 0; i < block->n_causes; i++) {
		c = &block->causes[i];
		if (c->type == s->type && c->kind == s->kind &&
		    (!call || (c->call == s->call && c->stack == stack)))
			return c;
	}
	if (block->n_causes == BLOCK_CAUSES)
		return NULL;
	c = &block->causes[block->n_causes++];
	*c = (struct block_cause){
		.type = s->type, .kind = s->kind, .call = call ? s->call : 0, .stack = stack};
	return c;
}

static bool has_sums(const struct segment *s)
{
	return s->type == SEG_RUN || s->type == SEG_CALL || s->type == SEG_OFF_CPU ||
	       s->type == SEG_PARK;
}

/* Its segments are not all in a row. */
static void give_up(struct blocks *b)
{
	struct block *block = b->n ? at(b, b->n - 1) : NULL;

	if (block && block->n < BLOCK_SEGMENTS) {
		block->by_segments = true;
		block->n = BLOCK_SEGMENTS;
	}
}

int blocks_add(struct blocks *b, uint64_t number, const struct segment *s)
{
	struct block_cause *c;
	struct block *block;
	uint64_t ns;

	if (!s) {
		give_up(b);
		return 0;
	}
	block = open_block(b, number, s);
	if (!block)
		return -ENOMEM;
	ns = s->end_ns - s->begin_ns;
	block->last = number;
	block->n++;
	/* An outer poll comes after those in it, and begins before them. */
	if (!has_sums(s) || s->begin_ns < block->end_ns || s->end_ns < s->begin_ns)
		block->by_segments = true;
	if (block->by_segments)
		return 0;
	c = cause_of(block, s);
	if (!c) {
		block->by_segments = true;
		return 0;
	}
	if (s->begin_ns > block->end_ns) {
		block->gaps_ns += s->begin_ns - block->end_ns;
		block->n_gaps++;
	}
	block->end_ns = s->end_ns;
	c->n++;
	c->ns += ns;
	if (ns >= c->longest_ns) {
		c->longest_ns = ns;
		c->longest_task = s->task;
	}
	return 0;
}

const struct block *blocks_find(const struct blocks *b, uint64_t number)
{
	uint64_t oldest = b->n > b->cap ? b->n - b->cap : 0, end = b->n, index;

	if (end > oldest && at(b, end - 1)->n < BLOCK_SEGMENTS)
		end--;
	/* Mostly it is one of the newest. */
	for (unsigned i = 0; i < 4 && end > oldest; i++, end--)
		if (at(b, end - 1)->last <= number)
			return at(b, end - 1);
	index = PARTITION_POINT(i, oldest, end, at(b, i)->last <= number);
	return index > oldest ? at(b, index - 1) : NULL;
}

const struct block *block_previous(const struct blocks *b, const struct block *block)
{
	uint64_t oldest = b->n > b->cap ? b->n - b->cap : 0;
	size_t newest = (b->n - 1) & (b->cap - 1), slot = (size_t)(block - b->ring);
	uint64_t index = b->n - 1 - ((newest - slot) & (b->cap - 1));

	return index > oldest ? at(b, index - 1) : NULL;
}
