/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What kinds are called in a text. Short names leave type parameters out, so several kinds may have
 * one name: those get the parameter in which they differ. The handlers of a web server's routes, say,
 * are all the same function of a library's; they bear the name of the program's function.
 */
#pragma once

#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

struct kind_labels {
	char **labels; /* by kind; NULL: its name will do */
	uint32_t n;
};

/* Of all kinds that the reader knows by now. Of those that are used no two of a process and role get
 * one label: so all outputs have the same names when all events have been read. 0 or -ENOMEM. */
int kind_labels_make(const struct trace_reader *r, struct kind_labels *ret);
void kind_labels_done(struct kind_labels *l);

/* "shop::order", the program's own function, of a handler that a library's generic function calls:
 * "axum::handler::call<.., shop::order::{async_fn_env#0}, ..>" (free); NULL when out of memory. */
char *handler_name(const struct trace_kind *k);
/* "axum connection", of a task that serves one, or a stream of one, by the library that it is of; NULL:
 * it is not known for that. */
const char *kind_connection(const struct trace_kind *k);
/* A name for where there is little room: without parameters and without the program's crate, and
 * what serves a connection after its library: "order", "axum connection" (free); NULL when out of
 * memory. */
char *kind_short(const struct kind_labels *l, const struct trace_reader *r, uint32_t kind);

/* Its name as recorded, "?" if it has none. */
const char *kind_name(const struct trace_reader *r, uint32_t kind);
/* Its label, or else its name. */
const char *kind_label(const struct kind_labels *l, const struct trace_reader *r, uint32_t kind);
