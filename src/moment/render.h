/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tasks of a moment for people and as JSON (docs/tree-json.md). */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "moment/graph.h"
#include "moment/select.h"

struct render_options {
	bool color;
	unsigned width; /* columns; 0: no limit */
	bool wrappers;	/* also futures that have no await point and one future in them */
	bool internals; /* also the async fns inside runtimes and libraries that a leaf sums up
			 */
	bool raw;	/* reference counts, state words, addresses */
	bool ungrouped; /* every task alone, also where trees are alike */
	bool by_size;	/* groups of the largest tasks first */
	struct task_selection select;
};

void render_text(const struct graph *g, const struct render_options *opt, struct buf *out);
/* One object, after `key` where it is a member; NULL. */
void render_json(const struct graph *g, const struct render_options *opt, struct json *j,
		 const char *key);

/* An async fn of a runtime or library that the one thing below it already names. */
bool render_is_internal(const struct await_node *n);
