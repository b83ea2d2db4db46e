/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reading a BPF ring buffer by the clock: what is in it now, and how full it was. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct bpf_ring {
	uint64_t *consumer;
	const uint64_t *producer;
	const unsigned char *data; /* mapped twice in a row, so a record is never cut */
	size_t bytes, page;
	double fill; /* at the last look, 0 to 1 */
};

/* The size that a ring buffer may have: a power of two, of about `bytes`. */
uint32_t bpf_ring_size(uint64_t bytes);
int bpf_ring_open(struct bpf_ring *r, int map_fd, size_t bytes);
void bpf_ring_close(struct bpf_ring *r);

/* Gives all whole records that are there at the time of the call, oldest first, until `take` says
 * something negative, which is returned. A record that is still being written ends it. */
int bpf_ring_drain(struct bpf_ring *r, int (*take)(void *context, const void *record, size_t len),
		   void *context);
