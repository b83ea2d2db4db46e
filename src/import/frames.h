/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Call stacks of recordings that name functions. Frames and stacks are written to the trace once
 * each; their number is bounded, what comes after that is counted. Private to this module.
 */
#pragma once

#include "base/map.h"
#include "import/names.h"
#include "trace/trace.h"

#include <stdint.h>

#define FRAMES_MAX_DEPTH 1024u

struct frames {
	struct trace_writer *writer;
	struct import_names names; /* what makes frames different, to number */
	uint32_t *numbers;	   /* by number of the name: index of the trace's frame */
	uint32_t cap;
	struct map stacks; /* (parent, frame and flags) to index + 1 */
	uint32_t n_stacks;
	uint64_t n_refused; /* stacks that could not be kept */
	int code;	    /* of the writer, sticky */
};

void frames_init(struct frames *f, struct trace_writer *w);
void frames_done(struct frames *f);

/* Number of a frame: of one with the same key if there was one, else `frame` is written. Strings
 * of the frame are only looked at then. UINT32_MAX: not kept. */
uint32_t frames_find(const struct frames *f, const char *key, size_t len);
uint32_t frames_add(struct frames *f, const char *key, size_t len, const struct trace_frame *frame);
/* Index + 1 of the stack of `n` frames, innermost first; 0: not kept. Flags of trace_stack are the
 * outermost frame's. */
uint64_t frames_stack(struct frames *f, const uint32_t *frames, size_t n, uint32_t flags);
