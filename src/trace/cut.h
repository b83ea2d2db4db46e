/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Writes a trace that has the chunks of events at these offsets (rising) of a trace, and all its tables. `from` is read by
 * pread() only. 0 or negative errno. */
int trace_cut(int from, int to, const uint64_t *offsets, size_t n, struct error *err);
