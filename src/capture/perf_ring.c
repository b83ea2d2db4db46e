/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A perf event's buffer (perf_event_open(2), "MMAP layout"): a page that says how far the kernel
 * has written and we have read, then the records, the last of which may go on at the beginning.
 */
#include "capture/perf_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_RECORD (64u << 10) /* header.size has 16 bits */

int perf_ring_open(struct perf_ring *r, int fd, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = page;
	void *at;

	*r = (struct perf_ring){0};
	while (size * 2 <= bytes)
		size *= 2;
	/* What a user without rights may lock is limited, by user and by process. */
	while ((at = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
		       MAP_FAILED &&
	       (errno == EPERM || errno == ENOMEM) && size > page)
		size /= 2;
	if (at == MAP_FAILED)
		return -errno;
	*r = (struct perf_ring){
		.page = at, .page_bytes = page, .bytes = size, .whole = malloc(MAX_RECORD)};
	if (!r->whole) {
		perf_ring_close(r);
		return -ENOMEM;
	}
	return 0;
}

void perf_ring_close(struct perf_ring *r)
{
	if (r->page)
		munmap(r->page, r->page_bytes + r->bytes);
	free(r->whole);
	*r = (struct perf_ring){0};
}

int perf_ring_drain(struct perf_ring *r,
		    int (*take)(void *context, const struct perf_event_header *record),
		    void *context)
{
	const unsigned char *data = (unsigned char *)r->page + r->page_bytes;
	uint64_t at = r->page->data_tail;
	uint64_t end = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	int rc = 0;

	r->fill = (double)(end - at) / (double)r->bytes;
	while (rc >= 0 && end - at >= sizeof(struct perf_event_header)) {
		size_t begin = at & (r->bytes - 1), to_end = r->bytes - begin;
		const struct perf_event_header *h = (const void *)(data + begin);
		size_t len = h->size; /* records are multiples of 8, so a header is never cut */

		if (len < sizeof(*h) || len > end - at)
			return -EIO;
		if (len > to_end) {
			memcpy(r->whole, data + begin, to_end);
			memcpy(r->whole + to_end, data, len - to_end);
			h = (const void *)r->whole;
		}
		rc = take(context, h);
		at += len;
		__atomic_store_n(&r->page->data_tail, at, __ATOMIC_RELEASE);
	}
	return rc < 0 ? rc : 0;
}
