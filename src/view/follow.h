/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A trace that is still being written: its index is asked for (growing.h) when the file has grown, so often
 * that this costs up to a fifth of a CPU.
 */
#pragma once

#include "view/answer.h"

struct event_base;
struct trace_follow;
struct view_growing;

/* `changed` is called when the source has another index and other tables; `live` of the source becomes
 * false with the trace's end. NULL: out of memory. */
struct trace_follow *follow_start(struct event_base *base, struct view_source *source,
				  struct view_growing *growing, void (*changed)(void *ctx),
				  void *ctx);
void follow_stop(struct trace_follow *f);
