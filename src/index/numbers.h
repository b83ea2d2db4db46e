/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where tasks are that are too short for spans, by the numbers that people know them by. A runtime
 * gives numbers in order, so tasks that end near each other have numbers near each other: of 256 each
 * there is the least and the greatest, and from when to when they lived; the trace has the rest. Those that
 * a runtime names by address have numbers of the timeline's own, which only a list can have.
 */
#pragma once

#include "index/index.h"

struct index_numbers {
	uint64_t first, last; /* the least and the greatest */
	uint64_t begin_ns, end_ns;
	uint32_t n, reserved;
};
_Static_assert(sizeof(struct index_numbers) == 40, "index_numbers");

struct numbers {
	struct index_numbers *blocks;
	size_t n_blocks, blocks_cap;
	uint32_t per_block; /* 0: none yet */
	bool closed;	    /* what comes next is of another time */
	struct index_named *named;
	size_t n_named, named_cap;
};

/* 0 or -ENOMEM. */
int numbers_add(struct numbers *n, const struct index_span *task, bool address_named);
/* What was added before and what will be are not of one time. */
void numbers_part(struct numbers *n);
void numbers_sort(struct numbers *n);
void numbers_done(struct numbers *n);
