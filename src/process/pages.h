/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which pages of a process are there, from /proc/PID/pagemap. A program may reserve terabytes and
 * use little of them; and to read a page that it never touched gives it one: its page tables would
 * grow by being looked at.
 */
#pragma once

#include "base/budget.h"
#include "process/maps.h"
#include "process/process.h"

#include <sys/uio.h>

/* Words that are read for one search on kernels that give nothing better: eight terabytes. */
#define PAGES_LISTED (1ull << 31)

struct pages {
	int fd;		      /* -1: it can't be had, and all pages count as there */
	int mem_fd;	      /* the process' */
	bool listed;	      /* this kernel has no PAGEMAP_SCAN: page by page */
	struct budget budget; /* of that */
};

/* No failure: without pagemap all pages count as there. */
void pages_open(const struct process *p, struct pages *ret_pages);
void pages_close(struct pages *p);

/* The next pages within [addr, end) that have a content of their own, in memory or swapped out: 1;
 * 0: there are none, or the budget is spent; negative errno. */
int pages_next(struct pages *p, uint64_t addr, uint64_t end, uint64_t *ret_start,
	       uint64_t *ret_end);

/* Reads buffers of a page each that are in a row, all or nothing; a single buffer may be a part of
 * a page. Private memory that is not there yet is taken as the zeroes that it would be. */
int pages_readv(const struct pages *p, const struct process_maps *maps, uint64_t addr,
		const struct iovec *iov, int n);
