/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pieces of text that the parts of a report share: titles, sentences, cells, names, call stacks. */
#include "report/text_util.h"

#include "base/text.h"
#include "base/text_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_title(const struct report *rep, struct buf *out, const char *text)
{
	buf_printf(out, rep->opt.color ? "\n\x1b[1m%s\x1b[0m\n" : "\n%s\n", text);
}

void report_lines(struct buf *out, const char *text, const char *first)
{
	while (text && *text) {
		size_t len = strcspn(text, "\n");

		buf_str(out, first);
		buf_add(out, text, len);
		buf_char(out, '\n');
		text += len + (text[len] != 0);
	}
}

void report_table(const struct report *rep, struct table *t, struct buf *out)
{
	table_write(t, out, rep->opt.width, 2, rep->opt.color ? "\x1b[2m" : NULL, "\x1b[0m");
	table_done(t);
}

void report_exact_of(struct buf *out, uint64_t n, const char *one, const char *many)
{
	text_exact(out, n);
	buf_printf(out, " %s", n == 1 ? one : many);
}

void cell_time(struct table *t, uint64_t ns)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_duration(&b, ns);
	table_cell(t, b.data ? b.data : "");
}

void cell_time_if(struct table *t, bool known, uint64_t ns)
{
	if (known)
		cell_time(t, ns);
	else
		table_cell(t, "-");
}

void cell_count(struct table *t, uint64_t n)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_count(&b, n);
	table_cell(t, b.data ? b.data : "");
}

void cell_safe(struct table *t, const char *text)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_safe(&b, text ? text : "");
	table_cell(t, b.data ? b.data : "");
}

/* A name in a sentence: safe, and shortened so that the sentence stays readable. */
void report_name(const struct report *rep, struct buf *out, const char *text)
{
	_cleanup_buf_ struct buf safe = BUF_INIT;
	text_safe(&safe, text ? text : "?");
	size_t most = rep->opt.width ? (rep->opt.width > 90 ? 60 : rep->opt.width * 2 / 3) : 200;
	text_shorten(out, safe.data ? safe.data : "?", most);
}

/* "tokio-runtime-w/4711" */
void report_thread(const struct report *rep, struct buf *out, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(rep->reader, thread);
	if (t && t->name && *t->name)
		text_safe(out, t->name);
	else
		buf_str(out, "thread");
	if (t)
		buf_printf(out, "/%u", t->tid);
}

/* "nanosleep 300 × = 1.1 s, read 12 × = 3.4 ms" */
void report_calls(struct buf *out, const struct call_list *calls, size_t most)
{
	for (size_t i = 0; i < calls->n && i < most; i++) {
		buf_printf(out, "%s%s %llu × = ", i ? ", " : "",
			   trace_call_name(calls->items[i].call),
			   (unsigned long long)calls->items[i].n);
		text_duration(out, calls->items[i].ns);
	}
	if (calls->n > most)
		buf_str(out, ", …");
}

void report_owner(const struct report *rep, struct buf *out, uint32_t kind, uint32_t handler)
{
	text_safe(out, report_family(rep, kind));
	if (handler == TRACE_KIND_NONE)
		return;
	buf_str(out, " › ");
	text_safe(out, report_short(rep, handler));
}

void cell_owner(const struct report *rep, struct table *t, uint32_t kind, uint32_t handler)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	report_owner(rep, &b, kind, handler);
	table_cell(t, b.data ? b.data : "?");
}

void cell_place(struct table *t, const struct trace_place *p)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	if (p)
		trace_place_text(&b, p);
	table_cell(t, b.data ? b.data : "?");
}

void cell_share(struct table *t, uint64_t part, uint64_t whole)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_share(&b, part, whole);
	table_cell(t, b.data ? b.data : "");
}
