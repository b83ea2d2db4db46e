/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What was not understood: how often, for which reason, first where. Private to this module. */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <stdint.h>

#define DOUBTS_MAX 48u
#define DOUBT_PLACES 3u

struct doubt {
	const char *reason; /* static text: "an event without meaning here" */
	char *detail;	    /* "sched:sched_stat_runtime"; "" if none */
	uint64_t n, positions[DOUBT_PLACES];
};

struct diagnostics {
	const char *item; /* "line", "record at byte", "line of task.txt" */
	struct doubt v[DOUBTS_MAX];
	size_t n;
	uint64_t total, n_other;
};

void diagnostics_done(struct diagnostics *d);
/* An item was not understood. `detail` (may be NULL) is a name of the input's own, and is part of
 * what makes reasons different. */
void diagnostics_add(struct diagnostics *d, const char *reason, const char *detail,
		     size_t detail_len, uint64_t at);
/* One line of text each, most frequent first; safe for a terminal. */
void diagnostics_text(struct diagnostics *d, struct buf *out);
