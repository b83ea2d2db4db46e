/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pieces of text that the parts of a report share. `safe` text is fit for a terminal. */
#pragma once

#include "base/json.h"
#include "report/data.h"
#include "report/table.h"

void report_title(const struct report *rep, struct buf *out, const char *text);
/* Sentences, one a line; `first` precedes each. */
void report_lines(struct buf *out, const char *text, const char *first);
/* Writes the table and gives its memory back. */
void report_table(const struct report *rep, struct table *t, struct buf *out);
void report_exact_of(struct buf *out, uint64_t n, const char *one, const char *many);
void cell_time(struct table *t, uint64_t ns);
/* "-" if it is not known. */
void cell_time_if(struct table *t, bool known, uint64_t ns);
void cell_count(struct table *t, uint64_t n);
/* Any text, made safe. */
void cell_safe(struct table *t, const char *text);
/* "axum connection › order": whose work something is. Short, for a text. */
void report_owner(const struct report *rep, struct buf *out, uint32_t kind, uint32_t handler);
void cell_owner(const struct report *rep, struct table *t, uint32_t kind, uint32_t handler);
void cell_place(struct table *t, const struct trace_place *p);
/* "12.5 %", "-" of nothing. */
void cell_share(struct table *t, uint64_t part, uint64_t whole);
/* A name in a sentence: safe, and shortened so that the sentence stays readable. */
void report_name(const struct report *rep, struct buf *out, const char *text);
/* "tokio-runtime-w/4711" */
void report_thread(const struct report *rep, struct buf *out, uint32_t thread);
/* "nanosleep 300 × = 1.1 s, read 12 × = 3.4 ms" */
void report_calls(struct buf *out, const struct call_list *calls, size_t most);
/* The function, or where its code is. Safe. */
void report_frame_text(const struct trace_frame *f, struct buf *out);
/* The innermost frame of the program's own code in a stack; NULL: none. */
const struct trace_frame *report_own_frame(const struct report *rep, uint64_t stack);
/* " in src/main.rs:29 shop::buy, a poll of shop::serve": that frame, and whose poll it was in. */
void report_in(const struct report *rep, struct buf *out, uint64_t stack, const char *owner);
/* One frame per line, innermost first, out to the task's poll, up to a limit. `stack` is its index
 * + 1; width 0: no limit. */
void report_stack_text(const struct trace_reader *r, struct buf *out, uint64_t stack, unsigned most,
		       unsigned indent, unsigned width);

/* NULL if not known. `stack` is its index + 1. */
const struct trace_stack *report_stack(const struct report *rep, uint64_t stack);

/* hints.c: the command that shows where the tasks of the trace wait, or waited: false, and nothing, if
 * none can. */
bool report_tree_command(const struct report *rep, struct buf *out);
/* hints.c: up to `most` lines */
void hints_text(const struct report *rep, struct buf *out, unsigned most);
