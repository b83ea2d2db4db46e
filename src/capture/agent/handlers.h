/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How far a recording counts requests by handler. */
#pragma once

#include "capture/agent/source.h"

/* What the recording knows of a process's handlers. `holds`: the program has connections of a library's
 * that hold the futures of requests (scan_futures.holds). `trouble`: why there is no debug information that
 * can be used; NULL: not known. False: there are no requests to know of; else
 * *ret has seen, total and note, and nothing else. */
bool handlers_coverage(const struct source_kind *kinds, uint32_t n_kinds, bool holds,
		       const char *trouble, struct trace_coverage *ret);
