/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Gathers the numbers of short tasks: see numbers.h. */
#include "index/numbers.h"

#include "base/compare.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_PER_BLOCK 256u
#define MAX_BLOCKS 65536u
#define MAX_NAMED 262144u

static void add_block(struct index_numbers *to, const struct index_numbers *from)
{
	to->first = from->first < to->first ? from->first : to->first;
	to->last = from->last > to->last ? from->last : to->last;
	to->begin_ns = from->begin_ns < to->begin_ns ? from->begin_ns : to->begin_ns;
	to->end_ns = from->end_ns > to->end_ns ? from->end_ns : to->end_ns;
	to->n += from->n;
}

static void merge_blocks(struct numbers *n)
{
	for (size_t i = 0; i < n->n_blocks / 2; i++) {
		struct index_numbers both = n->blocks[2 * i];

		add_block(&both, &n->blocks[2 * i + 1]);
		n->blocks[i] = both;
	}
	n->n_blocks /= 2;
	n->per_block *= 2;
}

static int add_named(struct numbers *n, const struct index_span *task)
{
	if (n->n_named == MAX_NAMED)
		return 0;
	if (!GROW(n->named, n->n_named, n->named_cap))
		return -ENOMEM;
	n->named[n->n_named++] = (struct index_named){
		.number = task->blocked_ns,
		.task = task->task,
		.begin_ns = task->begin_ns,
		.kind = task->kind,
	};
	return 0;
}

int numbers_add(struct numbers *n, const struct index_span *task, bool address_named)
{
	struct index_numbers one = {.first = task->blocked_ns,
				    .last = task->blocked_ns,
				    .begin_ns = task->begin_ns,
				    .end_ns = task->end_ns,
				    .n = 1};

	if (address_named)
		return add_named(n, task);
	if (!n->per_block)
		n->per_block = FIRST_PER_BLOCK;
	if (!n->closed && n->n_blocks && n->blocks[n->n_blocks - 1].n < n->per_block) {
		add_block(&n->blocks[n->n_blocks - 1], &one);
		return 0;
	}
	if (n->n_blocks == MAX_BLOCKS)
		merge_blocks(n);
	if (!GROW(n->blocks, n->n_blocks, n->blocks_cap))
		return -ENOMEM;
	n->blocks[n->n_blocks++] = one;
	n->closed = false;
	return 0;
}

void numbers_part(struct numbers *n)
{
	n->closed = true;
}

static int by_number(const void *a, const void *b)
{
	const struct index_named *x = a, *y = b;

	return ASCENDING(x->number, y->number);
}

void numbers_sort(struct numbers *n)
{
	if (n->n_named)
		qsort(n->named, n->n_named, sizeof(*n->named), by_number);
}

void numbers_done(struct numbers *n)
{
	free(n->blocks);
	free(n->named);
}
