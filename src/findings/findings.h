/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Findings: what is wrong with a recorded program, as a table of rules over the items of a
 * timeline. Each rule collects what it needs while the trace is replayed, then judges; it claims
 * nothing that lost events could have faked. docs/findings.md lists the rules with their conditions.
 */
#pragma once

#include "timeline/fan_out.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct findings;

/* From this score on a finding is a warning; below, it is for information. */
#define FINDING_WARNING 50
/* Below it, one says what others say too, or hardly matters. */
#define FINDING_MINOR 15

/* Threads, and tasks, that a finding names to a program, at most: the first that were found. */
#define FINDING_LANES 8

struct finding {
	const char *rule;   /* its name: "long-polls" */
	const char *title;  /* "long polls" */
	unsigned score;	    /* 1 to 100: how much time or how many tasks it explains */
	const char *text;   /* the sentence that names the cause; safe for a terminal, no newline */
	const char *advice; /* what to do, in a sentence; NULL: there is none */
	const char *cause;  /* rule of another finding that explains this one; NULL: none */
	bool stays; /* a moment shows it, and nothing that comes later ends it: a longer recording says no more */
	uint64_t time_ns; /* when to look at, CLOCK_MONOTONIC as in the trace; 0: no one moment */
	/* The stretch that it is about, or the worst of several; of a moment, both are the same. All
	 * of the recording (or the window) where time_ns is 0. */
	uint64_t from_ns, to_ns;
	uint32_t process; /* index of a struct trace_process; UINT32_MAX: of several */
	uint32_t threads[FINDING_LANES]; /* indexes of struct trace_thread */
	uint64_t tasks[FINDING_LANES];	 /* serials, as in struct tl_task */
	uint64_t numbers[FINDING_LANES]; /* of these tasks, by which people know them */
	size_t n_threads, n_tasks;
	uint32_t kind;	       /* of the family; TRACE_KIND_NONE: not of one */
	uint32_t handler;      /* kind of the requests in it; TRACE_KIND_NONE: not of one */
	uint64_t place, stack; /* 1 + index; 0: none */
};

/* What became of a rule. */
enum finding_verdict { FV_NOTHING = 0, FV_FOUND, FV_NOT_APPLICABLE };

struct finding_check {
	const char *rule, *title;
	enum finding_verdict verdict;
	const char *reason; /* why it is not applicable; else NULL */
};

/* What the trace's owner knows when it has been replayed. */
struct findings_scope {
	uint64_t base_ns, begin_ns, end_ns; /* zero of times that are shown; the window */
	uint64_t length_ns;		    /* of the recording, or of the window */
	bool filtered; /* items were left out: a window, families, threads, tasks */
	const struct timeline_totals *totals;
	/* The command that shows where the tasks of the trace wait: "pollux tree 4242"; NULL: none can. */
	const char *tree;
	/* Writes a family's name as it is shown elsewhere, safe for a terminal; `handler`: the kind
	 * of the requests in it that are meant, TRACE_KIND_NONE: all. */
	void (*family)(const void *ctx, struct buf *out, uint32_t kind, uint32_t handler);
	const void *family_ctx;
};

/* `own`: as for trace_reader_own_place(). The reader and `own` must outlive it. NULL: out of memory. */
struct findings *findings_new(struct trace_reader *r, const char *const *own);
void findings_free(struct findings *f);

/* The sinks that have to see the replay, valid as long as the findings; *ret_n of them. None uses a
 * task's `user`. */
const struct fan_out_sink *findings_sinks(const struct findings *f, size_t *ret_n);

/* After the replay: all rules judge. 0 or -ENOMEM. */
int findings_judge(struct findings *f, const struct findings_scope *scope);

/* Highest score first, causes above what they explain. */
size_t findings_n(const struct findings *f);
const struct finding *findings_get(const struct findings *f, size_t i);
/* Every rule, in the order of the table. */
size_t findings_n_checks(const struct findings *f);
struct finding_check findings_check(const struct findings *f, size_t i);
