/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What kinds are called in a text. Short names leave type parameters out, so several kinds may have
 * one name: the handlers of a web server's routes, say, are all the same function of a library's.
 * Those get the parameter in which they differ.
 */
#pragma once

#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

struct kind_labels {
	char **labels; /* by kind; NULL: its name will do */
	uint32_t n;
};

/* Of all kinds that the reader knows by now. Of those that are `used` (by kind; NULL: all), which
 * are shown together, no two of a process and role get one label. 0 or -ENOMEM. */
int kind_labels_make(const struct trace_reader *r, const bool *used, struct kind_labels *ret);
void kind_labels_done(struct kind_labels *l);

/* Its name as recorded, "?" if it has none. */
const char *kind_name(const struct trace_reader *r, uint32_t kind);
/* Its label, or else its name. */
const char *kind_label(const struct kind_labels *l, const struct trace_reader *r, uint32_t kind);
