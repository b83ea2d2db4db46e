/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ring buffer of a perf event, read by the clock. */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct perf_ring {
	struct perf_event_mmap_page *page;
	size_t page_bytes, bytes;
	double fill;	      /* at the last look, 0 to 1 */
	unsigned char *whole; /* room for a record that is cut by the end of the buffer */
};

/* A buffer of about `bytes`; as large as is allowed, where that is less. Negative errno. */
int perf_ring_open(struct perf_ring *r, int fd, size_t bytes);
void perf_ring_close(struct perf_ring *r);

/* Gives all records that are there at the time of the call until `take` says something negative,
 * which is returned. */
int perf_ring_drain(struct perf_ring *r,
		    int (*take)(void *context, const struct perf_event_header *record),
		    void *context);
