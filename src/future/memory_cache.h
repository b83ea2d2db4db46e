/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory of a process as an await tree is read from it: pages, cached. A first walk goes over
 * the running program and so learns which pages matter; mem_refresh() then copies just these while
 * the threads are stopped; a second walk reads from that copy alone. So the stop lasts only for the
 * copy of a few pages, however long debug information takes to read. What the second walk misses is
 * wanted by the next mem_prepare().
 */
#pragma once

#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct mem_page;

/* What was read. */
struct mem_log {
	struct mem_range {
		uint64_t addr, len;
	} * v;
	size_t n, cap;
	bool failed; /* not all of it is in here */
};

struct mem {
	/* Reads len bytes; 0 or negative errno. A live process or a core. */
	int (*read)(void *ctx, uint64_t addr, void *out, size_t len);
	/* The same for many buffers in a row; NULL: there is no such call. */
	int (*readv)(void *ctx, uint64_t addr, const struct iovec *iov, int n);
	/* The next bytes within [addr, end) that are there, not only reserved or claimed: 1, 0 at
	 * the end, negative errno. */
	int (*next)(void *ctx, uint64_t addr, uint64_t end, uint64_t *ret_start, uint64_t *ret_end);
	void *ctx;
	struct map pages; /* page address -> struct mem_page */
	size_t n_pages, max_pages;
	bool frozen;		  /* pages that are not in the copy are unreadable */
	size_t n_missed;	  /* reads that a frozen memory refused */
	struct mem_log *log;	  /* NULL: none is kept */
	struct mem_page **sorted; /* by mem_prepare */
	size_t n_sorted;
};

void mem_init(struct mem *m, int (*read)(void *ctx, uint64_t addr, void *out, size_t len),
	      void *ctx);
void mem_done(struct mem *m);
void mem_clear(struct mem *m); /* forgets what was read */

bool mem_read(struct mem *m, uint64_t addr, void *out, size_t len);
/* Reads once more what is in the log: is it still the same? */
bool mem_unchanged(struct mem *m, const struct mem_log *log);
/* Forgets the pages that are in the log, and empties it. */
void mem_forget(struct mem *m, struct mem_log *log);
void mem_log_done(struct mem_log *log);
bool mem_u64(struct mem *m, uint64_t addr, uint64_t *ret);
/* An unsigned of 1, 2, 4 or 8 bytes. */
bool mem_uint(struct mem *m, uint64_t addr, unsigned size, uint64_t *ret);
/* Marks pages to be read by the next mem_refresh. 0 or -ENOMEM. */
int mem_want(struct mem *m, uint64_t addr, uint64_t len);
/* Reads pages now that a frozen memory does not have: of what isn't known before the stop. */
void mem_take(struct mem *m, uint64_t addr, uint64_t len);
bool mem_has(const struct mem *m,
	     uint64_t addr); /* its page is among those read, whatever came of it */
/* What mem_refresh needs and can be done before: 0 or -ENOMEM. */
int mem_prepare(struct mem *m);
/* Reads the prepared pages again (the target is stopped now) and freezes. 0 or negative errno:
 * gone. */
int mem_refresh(struct mem *m);
void mem_thaw(struct mem *m);
