/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events as lines of text, one by one as they come: `pollux print` and `record --print`.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "trace/trace.h"

#include <stdbool.h>

struct printer;

/* The form of a line: text with {field} or {field:WIDTH} (negative: aligned to the left), "{{" a
 * brace, \n and \t. NULL: that of tokio-dtrace's script, `thread[%4d] name(task=%d)`. `json`: an
 * object a line, without a form. -EINVAL with what is wrong in *err. */
int printer_new(const char *form, bool json, struct printer **ret_printer, struct error *err);
void printer_free(struct printer *p);
/* The first event of all, from which times are counted; those after it change nothing. */
void printer_begin(struct printer *p, const struct trace_event *ev);
/* Adds the event's line(s). */
void printer_event(struct printer *p, const struct trace_reader *r, const struct trace_event *ev,
		   struct buf *out);
/* By both of its names, "poll_begin" and "task-poll-start". */
bool printer_is_event(const char *name, unsigned type);
/* "{time} {tid} ...", one a line with what it is. */
extern const char printer_fields[];
