/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What was seen and hooked in a process and what not: the coverage for the trace. */
#pragma once

#include "process/hooks.h"
#include "trace/coverage.h"

/* Everything from the scans, to which the rows' objects and runtimes belong, and the hooks;
 * `futures`: they were asked for. */
void cover_objects(struct coverage_list *c, struct hooked_object *const *objects, size_t n_objects,
		   const struct hooks *h, bool futures);
