/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What changed between two moments of one process. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "trace/moment.h"

enum task_change {
	CHANGE_NEW,   /* it was not there in the first one */
	CHANGE_SAME,  /* it waits where it waited: at the same await points, for the same */
	CHANGE_MOVED, /* it waits elsewhere, or runs, or where it waits is not known */
	CHANGE_N
};

struct comparison {
	const struct trace_moment *from, *to;
	enum task_change *changes; /* of each task of `to`; CHANGE_N: it has ended */
	size_t n[CHANGE_N];
	size_t n_from; /* tasks of `from` that have not ended */
	size_t *gone;  /* tasks of `from` that `to` has no more */
	size_t n_gone;
};

/* Both must outlive the comparison. 0 or -ENOMEM. */
int comparison_make(const struct trace_moment *from, const struct trace_moment *to,
		    struct comparison *ret_comparison, struct error *err);
void comparison_done(struct comparison *c);

/* Some lines: how many, and of which families most are. */
void comparison_text(const struct comparison *c, struct buf *out);
/* A member `key`, an object (docs/tree-json.md). */
void comparison_json(const struct comparison *c, struct json *j, const char *key);
