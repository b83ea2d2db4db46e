/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tasks of a moment for people and as JSON (docs/tree-json.md). */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "moment/graph.h"

struct render_options {
	bool color;
	unsigned width; /* columns; 0: no limit */
	bool wrappers;	/* also futures that have no await point and one future in them */
	bool internals; /* also the async fns inside of runtimes and libraries that a leaf sums up
			 */
	bool raw;	/* reference counts, state words, addresses */
	bool finished;	/* also tasks that have ended, and that only a join handle keeps */
	bool ungrouped; /* every task alone, also where trees are alike */
	const char *const *families; /* NULL, or 0-terminated: names contain one of them */
	const char *const *tasks;    /* NULL, or 0-terminated: ids or 0xADDRESS */
};

void render_text(const struct graph *g, const struct render_options *opt, struct buf *out);
/* One object, after `key` where it is a member; NULL. */
void render_json(const struct graph *g, const struct render_options *opt, struct json *j,
		 const char *key);

/* An async fn of a runtime or library that the one thing below it already names. */
bool render_is_internal(const struct await_node *n);

/* True if the options let this task through. */
bool render_matches(const struct render_options *opt, const struct moment_task *t);
