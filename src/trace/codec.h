/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The payload of an EVENTS chunk: from events and back. Private to this module; nothing here knows of
 * files or of merging.
 */
#pragma once

#include "base/buf.h"
#include "trace/event.h"
#include "trace/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

/* Events that one chunk takes. */
#define ENCODER_MAX_EVENTS 16384u

/* The next chunk of one thread, as far as it has come. */
struct draft;
struct draft *draft_new(void);
void draft_free(struct draft *d);
uint32_t draft_n(const struct draft *d); /* events that were added since it was new or written */
/* Adds the first *ret_done of n events: all, unless the chunk is full. 0, or -ENOMEM with none. */
int draft_add(struct draft *d, const struct trace_event *ev, size_t n, size_t *ret_done);

/* What all threads' chunks need to be written. */
struct encoder;
struct encoder *encoder_new(void);
void encoder_free(struct encoder *e);
/* Appends the draft, of one event at least, as one payload to out, and empties it. 0 or -ENOMEM,
 * also for a failed buffer. */
int encoder_run(struct encoder *e, uint32_t thread, struct draft *d, struct buf *out);

/* The decoder may read this many bytes after the payload: they must be readable, with any
 * content. */
#define DECODER_SLACK 64u

struct decoder_name {
	uint64_t task;
	uint32_t kind;
};

struct decoder_shape {
	uint16_t type, arg;
	uint32_t how;
};

/* One chunk on its way out, a batch of events at a time. */
struct decoder {
	uint32_t thread;
	uint32_t n, n_given; /* events in all, and given out */
	bool damaged;	     /* it stopped early: what it held does not fit together */
	uint64_t time;
	const uint8_t *tags, *time_low, *time_high, *name_low, *name_high, *rest, *rest_end;
	uint32_t n_shapes, n_names, depth;
	struct decoder_name same;
	struct decoder_shape shapes[PLX_MAX_SHAPES];
	struct decoder_name open[PLX_MAX_OPEN];
	uint64_t last_task[PLX_N_KIND_SLOTS];
	/* memory, used again for the next chunk */
	struct decoder_name *names;
	size_t names_cap;
	uint8_t *raw;
	size_t raw_cap;
};

/* What a payload says of itself, without decompressing: its thread, and the memory that a decoder
 * will need for it. 0 or -EBADMSG. */
int decoder_peek(const void *payload, size_t size, uint32_t *ret_thread, size_t *ret_bytes);
/* Starts with a payload, which must stay until the last event is out. 0, -EBADMSG or -ENOMEM. The
 * decoder is zeroed before the first use; the zstd context may serve many decoders. */
int decoder_begin(struct decoder *d, ZSTD_DCtx *zstd, const void *payload, size_t size);
/* Fills up to max events; 0 when all are out, or nothing more can be read (d->damaged). */
size_t decoder_next(struct decoder *d, struct trace_event *ev, size_t max);
void decoder_done(struct decoder *d);
