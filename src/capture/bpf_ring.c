/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A BPF ring buffer as it lies in memory (Documentation/bpf/ringbuf.rst): a page that holds how far
 * the reader has come, one that holds how far the writers have, then the data, mapped twice. Each
 * record has a header of eight bytes: its length, with a bit while it is being written and one if
 * it was thrown away.
 *
 * Not libbpf's reader, which continues while there is more and does not report how full it was.
 */
#include "capture/bpf_ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIN_BYTES (64u << 10)
#define MAX_BYTES (512u << 20)

uint32_t bpf_ring_size(uint64_t bytes)
{
	uint32_t size = MIN_BYTES;

	while (size < bytes && size < MAX_BYTES)
		size *= 2;
	return size;
}

int bpf_ring_open(struct bpf_ring *r, int map_fd, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	void *rest;
	int code;

	*r = (struct bpf_ring){0};
	if (consumer == MAP_FAILED)
		return -errno;
	rest = mmap(NULL, page + 2 * bytes, PROT_READ, MAP_SHARED, map_fd, (off_t)page);
	if (rest == MAP_FAILED) {
		code = -errno;
		munmap(consumer, page);
		return code;
	}
	*r = (struct bpf_ring){.consumer = consumer,
			       .producer = rest,
			       .data = (unsigned char *)rest + page,
			       .bytes = bytes,
			       .page = page};
	return 0;
}

void bpf_ring_close(struct bpf_ring *r)
{
	if (r->consumer) {
		munmap(r->consumer, r->page);
		munmap((void *)(uintptr_t)r->producer, r->page + 2 * r->bytes);
	}
	*r = (struct bpf_ring){0};
}

int bpf_ring_drain(struct bpf_ring *r, int (*take)(void *context, const void *record, size_t len),
		   void *context)
{
	uint64_t at = *r->consumer, end = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE);
	int rc = 0;

	r->fill = (double)(end - at) / (double)r->bytes;
	while (at < end && rc >= 0) {
		const unsigned char *record = r->data + (at & (r->bytes - 1));
		uint32_t head =
			__atomic_load_n((const uint32_t *)(const void *)record, __ATOMIC_ACQUIRE);
		size_t len = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (head & BPF_RINGBUF_BUSY_BIT)
			break;
		if (!(head & BPF_RINGBUF_DISCARD_BIT))
			rc = take(context, record + BPF_RINGBUF_HDR_SZ, len);
		at += (len + BPF_RINGBUF_HDR_SZ + 7) & ~7ull;
		__atomic_store_n(r->consumer, at, __ATOMIC_RELEASE);
	}
	return rc < 0 ? rc : 0;
}
