/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The moment of a process for a recording. */
#pragma once

#include "base/error.h"
#include "trace/moment.h"

#include <sys/types.h>

/*
 * Reads all tasks of a process as they are now, as `pollux tree` does, and calls `emit` once with
 * them, valid during the call. Where its threads can't be stopped (another tracer has them), it is
 * read while it runs. 0; negative errno with a sentence: there is no moment, or what emit gave.
 */
int future_moment(pid_t pid, int (*emit)(void *ctx, struct trace_moment *m), void *ctx,
		  struct error *err);
