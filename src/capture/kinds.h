/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The runtimes and kinds of a scan as the trace has them, for every source. */
#pragma once

#include "runtime/runtime.h"
#include "trace/trace.h"

/* ret_runtimes[i]: trace index of f->runtimes[i]. 0 or what the writer says. */
int kinds_emit_runtimes(struct trace_writer *w, uint32_t process, const struct runtime_scan *f,
			uint32_t *ret_runtimes);
/* A kind of tasks (`numbers` as above), or (k is NULL) the one of the roots that use a waker: of one
 * block_on, or (NULL) of the others. */
int kinds_emit(struct trace_writer *w, uint32_t process, const struct runtime_scan *f,
	       const uint32_t *numbers, const struct scan_kind *k, const struct scan_waker *waker,
	       const struct scan_block_on *block_on, uint32_t *ret_index);
