/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events of many threads, merged by time. Takes EVENTS payloads as they come from the file and
 * gives out events in order. Private to this module.
 */
#pragma once

#include "trace/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge;

/* A payload of `size` bytes, with DECODER_SLACK bytes after it. From malloc. */
struct merge_chunk {
	struct merge_chunk *next;
	uint64_t offset; /* in the file, for messages */
	uint32_t size;
	uint8_t payload[];
};

/* Called for chunks that turned out to be damaged when they were decoded. */
typedef void (*merge_damage_fn)(void *ctx, uint64_t offset);

struct merge *merge_new(merge_damage_fn damage, void *ctx);
void merge_free(struct merge *m);
void merge_clear(struct merge *m);

/* Takes the chunk, in every case. 0, -EBADMSG (its head is damaged; the damage_fn is not called) or
 * -ENOMEM. */
int merge_add(struct merge *m, struct merge_chunk *chunk);

/* True if more is held than is good: events must be given out before more is added. */
bool merge_full(const struct merge *m);

/* The next events older than limit, some hundred at most, valid until the next call: 1 with
 * *ret_events and *ret_n; 0 if there are none; -ENOMEM. `forced`: any time will do. */
int merge_next(struct merge *m, uint64_t limit, bool forced, const struct trace_event **ret_events,
	       size_t *ret_n);
