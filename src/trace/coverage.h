/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists of coverage: what was seen of a program and what not, row by row. */
#pragma once

#include "trace/event.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct coverage_list {
	struct trace_coverage *v; /* item and note are the list's */
	size_t n;
	bool failed; /* a row is missing, for lack of memory */
};

/* Adds copies; no note is "". The row, whose cover, process, object and runtime are the caller's to set
 * and to keep; NULL when out of memory, which coverage_result() reports once, at the end. */
struct trace_coverage *coverage_add(struct coverage_list *l, const char *item, uint64_t seen,
				    uint64_t total, const char *note);
struct trace_coverage *coverage_addf(struct coverage_list *l, const char *item, uint64_t seen,
				     uint64_t total, const char *note, ...)
	__attribute__((format(printf, 5, 6)));
struct trace_coverage *coverage_vaddf(struct coverage_list *l, const char *item, uint64_t seen,
				      uint64_t total, const char *note, va_list ap)
	__attribute__((format(printf, 5, 0)));
int coverage_result(const struct coverage_list *l); /* -ENOMEM or 0 */
void coverage_done(struct coverage_list *l);
