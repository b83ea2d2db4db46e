/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Statistics over a timeline: what `pollux report` prints, as text and as JSON
 * (docs/report-json.md). One pass; memory grows with the number of families and threads and with
 * live tasks.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "timeline/fan_out.h"
#include "timeline/replay.h"

struct json;
struct report;

enum report_sort { RS_POLL = 0, RS_MAX, RS_DELAY, RS_WAIT, RS_TASKS, RS_WAKES, RS_NAME };

/* By what families of connections are split. */
enum report_by { RY_BOTH = 0, RY_TASK, RY_HANDLER };

struct report_options {
	struct replay_filter filter;
	enum report_sort sort;
	enum report_by by;
	unsigned n_families; /* rows in the text; 0: all */
	unsigned n_longest;  /* longest polls kept, 10 by default */
	unsigned width;	     /* columns; 0: no limit */
	bool color;
	bool all_findings;	/* also those of a low score, and what became of each rule */
	const char *const *own; /* crates that are the program's; NULL or NULL-terminated */
	const char *file;	/* of the trace, for commands that are printed; may be NULL */
	/* Whether a recorded process still runs, for the same; NULL: it does not. */
	bool (*lives)(void *ctx, const struct trace_process *p);
	void *lives_ctx;
	void (*progress)(void *ctx, uint64_t done, uint64_t total); /* may be NULL */
	void *progress_ctx;
	const struct fan_out_sink *also; /* sinks that see the same replay; n_also of them */
	size_t n_also;
};

/* The reader must outlive the report: names stay its. */
int report_make(struct trace_reader *r, const struct report_options *opt,
		struct report **ret_report, struct error *err);
void report_free(struct report *rep);
/* Parts of the JSON that the answers of `pollux view` have, too: a call stack, the innermost frame first,
 * up to `most` of them; the runtimes of a process. */
void report_stack_json(const struct trace_reader *r, struct json *j, const char *key,
		       uint64_t stack, unsigned most);
void report_runtimes_json(const struct trace_reader *r, uint32_t process, struct json *j);
/* What the timeline counted. */
void report_totals(const struct report *rep, struct timeline_totals *ret);
/* "poll", "max", "delay", ... into the enum; -EINVAL. */
int report_parse_sort(const char *s, enum report_sort *ret_sort);
/* "handler", "task", "both" into the enum; -EINVAL. */
int report_parse_by(const char *s, enum report_by *ret_by);
/* Nothing can be reported: neither an event nor a moment was read. */
bool report_empty(const struct report *rep);
void report_text(const struct report *rep, struct buf *out);
void report_json(const struct report *rep, struct buf *out);
/* Only what was recorded, every finding that matters, and one thing to do next; as JSON what was
 * recorded, the arrays "findings" and "rules", and what `more` (may be NULL) writes after them. */
void report_why_text(const struct report *rep, struct buf *out);
void report_why_json(const struct report *rep, struct buf *out,
		     void (*more)(const void *ctx, struct json *j), const void *ctx);
/* One HTML file that shows the trace without a server (web/). Reads the trace once more: it must be seekable. */
int report_html(const struct report *rep, struct buf *out, struct error *err);
/* Finding i of those that a text shows, highest score first; NULL: there are no more. It belongs to the
 * report. */
struct finding;
const struct finding *report_finding(const struct report *rep, size_t i);
/* A finding that a longer recording would say no more of: the program, or a part of it, hangs. */
bool report_hangs(const struct report *rep);
