/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* META chunks: records out of metadata structs, and tables of them back. Private to this module. */
#pragma once

#include "base/buf.h"
#include "trace/event.h"

#include <stddef.h>
#include <stdint.h>

/* Each appends one record. */
void meta_put_process(struct buf *out, uint32_t index, const struct trace_process *p);
void meta_put_runtime(struct buf *out, uint32_t index, const struct trace_runtime *r);
void meta_put_thread(struct buf *out, uint32_t index, const struct trace_thread *t);
void meta_put_thread_name(struct buf *out, uint32_t thread, const char *name);
void meta_put_kind(struct buf *out, uint32_t index, const struct trace_kind *k);
void meta_put_place(struct buf *out, uint32_t index, const struct trace_place *p);
void meta_put_frame(struct buf *out, uint32_t index, const struct trace_frame *fr);
void meta_put_stack(struct buf *out, uint32_t index, const struct trace_stack *s);
void meta_put_coverage(struct buf *out, uint32_t index, const struct trace_coverage *c);
void meta_put_cost(struct buf *out, const struct trace_cost *c);
void meta_put_cpu(struct buf *out, uint32_t index, const struct trace_cpu *c);
void meta_put_neighbour(struct buf *out, uint32_t index, const struct trace_neighbour *n);
void meta_put_message(struct buf *out, uint32_t index, const char *text);

/* Items by index; where a record was lost to damage there is a gap of NULL. */
struct meta_table {
	void **items;
	uint32_t n, cap;
};

struct meta_block;

/* Zeroed before the first use. Items and strings stay where they are until meta_done(). */
struct meta {
	struct meta_table processes, runtimes, threads, kinds, places, frames, stacks, coverage,
		cpus, neighbours, messages;
	struct trace_cost *cost;
	struct meta_block *blocks; /* of the memory that holds items and strings */
	size_t total_bytes;
	uint64_t max_index; /* plx_max_index() of the file so far; the reader sets it */
};

/* Reads a payload. 0; -EBADMSG: some records are damaged, the others count; -ENOMEM. */
int meta_read(struct meta *m, const void *payload, size_t size);
void *meta_get(const struct meta_table *t, uint32_t i);
void meta_done(struct meta *m);
