/*
 * The memory of a process as an await tree is read from it: pages, cached. A first walk goes over
 * the running program and so learns which pages matter; mem_refresh() then copies just these while
 * the threads stand still; a second walk reads from that copy alone. So the stop lasts as
 * long as the copy of a few pages, however long debug information takes to read.
 */
#ifndef POLLUX_FUTURE_MEM_H
#define POLLUX_FUTURE_MEM_H

#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct mem_page;

enum { MEM_PAGE = 4096 };

struct mem {
	/* Reads len bytes; 0 or negative errno. A live process or a core. */
	int (*read)(void *ctx, uint64_t addr, void *out, size_t len);
	/* The same for many buffers in a row; NULL: there is no such call. */
	int (*readv)(void *ctx, uint64_t addr, const struct iovec *iov, int n);
	void *ctx;
	struct map pages; /* page address -> struct mem_page */
	size_t n_pages, max_pages;
	bool frozen;		  /* pages that are not in the copy are unreadable */
	size_t n_missed;	  /* reads that a frozen memory refused */
	struct mem_page **sorted; /* by mem_prepare */
	size_t n_sorted;
};

void mem_init(struct mem *m, int (*read)(void *ctx, uint64_t addr, void *out, size_t len),
	      void *ctx);
void mem_done(struct mem *m);
void mem_clear(struct mem *m); /* forgets what was read */

bool mem_read(struct mem *m, uint64_t addr, void *out, size_t len);
bool mem_u64(struct mem *m, uint64_t addr, uint64_t *ret);
/* An unsigned of 1, 2, 4 or 8 bytes. */
bool mem_uint(struct mem *m, uint64_t addr, unsigned size, uint64_t *ret);
/* Marks pages to be read by the next mem_refresh. 0 or -ENOMEM. */
int mem_want(struct mem *m, uint64_t addr, uint64_t len);
bool mem_has(const struct mem *m,
	     uint64_t addr); /* its page is among those read, whatever came of it */
/* What mem_refresh needs and can be done before: 0 or -ENOMEM. */
int mem_prepare(struct mem *m);
/* Reads the prepared pages anew (the target stands still now) and freezes. 0 or negative errno:
 * gone. */
int mem_refresh(struct mem *m);
void mem_thaw(struct mem *m);

#endif
