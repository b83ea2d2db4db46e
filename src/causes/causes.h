/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Causes: where the time of a program's work went. A unit of work is a whole task, or a round of a
 * long-lived one: a request of a handler, or what is between the wake that brings a task something
 * to do and its next wait at the same point. Every nanosecond of a unit gets one cause, a node of
 * its family's tree: what the task did, and where it waited, what the task did that woke it, and so
 * on. docs/causes.md has each cause and what is not known.
 *
 * One pass: a sink of the timeline next to those of report and findings. Memory grows with the
 * tasks and threads alive, with a window of the past, and with the causes that there are, up to
 * limits.
 */
#pragma once

#include "base/error.h"
#include "timeline/fan_out.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct causes;
struct json;

enum causes_unit { CU_AUTO = 0, CU_TASK, CU_ROUND };

struct causes_options {
	enum causes_unit unit; /* CU_AUTO: rounds where a family has many, else tasks */
	const char *const
		*families;	  /* only those that match, as in struct replay_filter; NULL: all */
	const char *const *tasks; /* only the units of tasks of these numbers; NULL: all */
	double slowest;		  /* the part of the units that is looked at by itself; 0: 0.01 */
	const char *const *own;	  /* crates that are the program's; NULL or NULL-terminated */
	unsigned width;		  /* columns; 0: no limit */
	unsigned n_families;	  /* in the text; 0: all */
};

/* "task", "round" into the enum; -EINVAL. */
int causes_parse_unit(const char *s, enum causes_unit *ret_unit);
/* "1%", "0.5 %" into a part of 1; -EINVAL. */
int causes_parse_slowest(const char *s, double *ret_part);

/* The reader and what the options point to must outlive it. NULL: out of memory. */
struct causes *causes_new(struct trace_reader *r, const struct causes_options *opt);
void causes_free(struct causes *c);

/* What has to see the replay, without a filter. It uses no task's `user`. */
struct fan_out_sink causes_sink(struct causes *c);

/* After the replay. 0 or -ENOMEM. */
int causes_judge(struct causes *c);

/* Nothing, where no unit was seen. */
void causes_text(const struct causes *c, struct buf *out);
/* The array "causes" (docs/causes.md). */
void causes_json(const struct causes *c, struct json *j);
