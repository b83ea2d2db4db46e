/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Short names of kinds that are shown together: kind_short(), and the whole label for a kind whose short
 * name another one has already got. */
#pragma once

#include "base/map.h"
#include "trace/labels.h"

struct short_names {
	const struct trace_reader *reader;
	const struct kind_labels *labels;
	char **names; /* by kind, NULL until wanted */
	uint32_t n_names;
	struct map taken; /* (hash of a name, role) to kind + 1 */
};

/* The reader and the labels must outlive it. */
void short_names_init(struct short_names *s, const struct trace_reader *r,
		      const struct kind_labels *labels);
void short_names_done(struct short_names *s);
/* "?" when out of memory; valid until done. Futures without a name are "future". */
const char *short_name(struct short_names *s, uint32_t kind);
