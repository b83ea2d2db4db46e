/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Several sinks of one timeline: each item is passed on to all of them, in order. */
#pragma once

#include "timeline/timeline.h"

struct fan_out_sink {
	const struct timeline_sink *sink;
	void *ctx;
};

#define FAN_OUT_MEMBERS (sizeof(struct timeline_sink) / sizeof(int (*)(void)))
#define FAN_OUT_MOST 96

struct fan_out {
	const struct fan_out_sink *sinks;
	size_t n; /* up to FAN_OUT_MOST */
	/* Private: for each member the sinks that have it, found at the first item. */
	bool sorted;
	uint8_t n_of[FAN_OUT_MEMBERS];
	uint8_t of[FAN_OUT_MEMBERS][FAN_OUT_MOST];
};

/* The sink whose context is a struct fan_out. The first error of a sink stops the item. Only one of
 * the sinks may use the `user` of tasks and futures. */
extern const struct timeline_sink fan_out_sink;
