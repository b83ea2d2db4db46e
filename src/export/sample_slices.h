/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Samples of a lane into slices: a function is on the stack from the first sample that has it to
 * the last of those that follow each other in one poll. A sample represents the time before it: it
 * begins at the sample before, or its weight ago, or with its poll, whichever is latest.
 */
#pragma once

#include "base/buf.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

struct stack_slice {
	const struct trace_frame *frame; /* NULL: not known */
	uint32_t depth;			 /* 0: outermost */
	uint64_t begin_ns, end_ns;
};

/* Called for each slice, when it is over: inner ones before outer ones. */
typedef int (*stack_slice_fn)(void *ctx, const struct stack_slice *slice);

struct stack_open;

struct stack_lane {
	struct stack_open *open; /* outermost first */
	uint32_t n, cap;
	uint64_t last_ns, poll_ns; /* of the last sample */
};

/* Is it a sample of the CPU, with a stack? */
bool stack_lane_wants(const struct tl_sample *sample);
/* 0, -ENOMEM, or what fn returned. */
int stack_lane_sample(struct stack_lane *l, const struct trace_reader *r,
		      const struct tl_sample *sample, stack_slice_fn fn, void *ctx);
/* All that is open ends at the last sample. */
int stack_lane_end(struct stack_lane *l, stack_slice_fn fn, void *ctx);
void stack_lane_done(struct stack_lane *l);

/* Frames of a stack, innermost first, up to `max`: of one in a task's poll only what that calls. */
uint32_t stack_frames(const struct trace_reader *r, uint64_t stack,
		      const struct trace_frame **frames, uint32_t max);
