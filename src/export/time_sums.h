/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How long the tasks of a trace did what, by stacks of names: for flame graphs and profiles. The
 * sums are those of `report --json`: exact, of all families, in memory that grows with the stacks.
 *
 *     waiting     family; handler of the request; functions of the await chain, outermost first;
 *                 what is awaited there
 *     scheduled   family; handler; "scheduled"
 *     polling     family; handler; "polling"
 *     blocked     family; handler; "polling"; "blocked in CALL". It is a part of polling
 *     cpu         family, or "no task"; handler; functions that samples of the CPU saw
 */
#pragma once

#include "base/buf.h"
#include "export/export.h"
#include "base/map.h"
#include "trace/labels.h"

enum time_sum_type { SUM_WAITING, SUM_SCHEDULED, SUM_POLLING, SUM_BLOCKED, SUM_CPU, SUM_N };

struct time_sum {
	enum time_sum_type type;
	uint32_t kind;	   /* of the family; TRACE_KIND_NONE: of no task */
	uint32_t handler;  /* TRACE_KIND_NONE: of no request */
	uint64_t detail;   /* place, call or stack, as in the events */
	uint64_t value, n; /* ns, or the weight of samples; how many there were */
};

struct time_sums {
	struct trace_reader *reader;
	struct map by_key;
	struct time_sum **sums; /* by type, then by kind, handler and detail */
	size_t n_sums;
	struct kind_labels labels;
	uint64_t totals[SUM_N], counts[SUM_N];
	uint64_t from_ns, to_ns, base_ns; /* the window, CLOCK_MONOTONIC; the trace's first event */
	bool cpu_is_time;		  /* weights of samples are ns */
};

/* One frame of a stack. The texts belong to the trace's reader, or to the stack. */
struct sum_frame {
	const char *name, *file; /* file: "" if not known */
	uint32_t line;		 /* 0: not known */
};
enum { SUM_MAX_FRAMES = 300 };
struct sum_stack {
	struct sum_frame frames[SUM_MAX_FRAMES]; /* outermost first */
	unsigned n;
	struct buf leaf, handler; /* made texts */
};

/* Reads all of the trace. 0 or negative errno with a sentence; then time_sums_done() too. */
int time_sums_make(struct time_sums *s, struct trace_reader *r, const struct export_options *opt,
		   struct error *err);
void time_sums_done(struct time_sums *s);

/* The names of a sum, into a stack that may be used again, until sum_stack_done(). 0 or -ENOMEM. */
int sum_stack_make(const struct time_sums *s, const struct time_sum *sum, struct sum_stack *stack);
void sum_stack_done(struct sum_stack *stack);

/* "a;b;c" and a value: stacks as one line of names, of which equal ones are added up; for free().
 * `mask`: bits of types. Names have no ';', no newline and no hidden character. */
struct folded_line {
	char *names;
	uint64_t value;
};
int time_sums_fold(const struct time_sums *s, unsigned mask, struct folded_line **ret_lines,
		   size_t *ret_n);
void folded_lines_free(struct folded_line *lines, size_t n);
