/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Pieces of text that the parts of a report share: titles, sentences, cells, names, call stacks. */
#include "report/text_util.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void report_title(const struct report *rep, struct buf *out, const char *text)
{
	buf_printf(out, rep->opt.color ? "\n\x1b[1m%s\x1b[0m\n" : "\n%s\n", text);
}

/* Sentences, one a line, broken between words to the terminal's width; `first` precedes each,
 * `indent` spaces precede its further lines. */
void report_lines(const struct report *rep, struct buf *out, const char *text, const char *first,
		  unsigned indent)
{
	size_t limit = rep->opt.width ? rep->opt.width : SIZE_MAX;
	size_t column = 0;
	for (bool begin = true; text && *text;) {
		size_t len = strcspn(text, " \n");
		/* A number keeps its unit. */
		if (text[len] == ' ' && isdigit((unsigned char)text[*text == '(']))
			len += 1 + strcspn(text + len + 1, " \n");
		char *word = strndup(text, len);
		if (!word) {
			out->failed = true;
			return;
		}
		size_t width = table_text_width(word);
		if (begin) {
			buf_str(out, first);
			column = table_text_width(first);
		} else if (column + 1 + width > limit) {
			buf_printf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else {
			buf_char(out, ' ');
			column++;
		}
		buf_str(out, word);
		free(word);
		column += width;
		begin = text[len] == '\n';
		if (begin)
			buf_char(out, '\n');
		text += len + (text[len] != 0);
	}
}

void report_table(const struct report *rep, struct table *t, struct buf *out)
{
	table_write(t, out, rep->opt.width, 2, rep->opt.color ? "\x1b[2m" : NULL, "\x1b[0m");
	table_done(t);
}

/* "250,017" */
void report_exact(struct buf *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf_char(out, ',');
		buf_char(out, digits[i]);
	}
}

void report_exact_of(struct buf *out, uint64_t n, const char *one, const char *many)
{
	report_exact(out, n);
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
	table_shorten(out, safe.data ? safe.data : "?", most);
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

void cell_place(struct table *t, const struct trace_place *p)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	if (p)
		trace_place_text(&b, p);
	table_cell(t, b.data ? b.data : "?");
}

void cell_share(struct table *t, uint64_t part, uint64_t whole)
{
	if (whole)
		table_printf(t, "%.1f %%", 100.0 * part / whole);
	else
		table_cell(t, "-");
}

/* ---- call stacks ---- */

const struct trace_stack *report_stack(const struct report *rep, uint64_t stack)
{
	return stack ? trace_reader_stack(rep->reader, (uint32_t)(stack - 1)) : NULL;
}

void report_frame_text(const struct trace_frame *f, struct buf *out)
{
	if (!f) {
		buf_str(out, "?");
		return;
	}
	if (f->function && *f->function) {
		text_safe(out, f->function);
		return;
	}
	const char *slash = f->object ? strrchr(f->object, '/') : NULL;
	buf_printf(out, "0x%llx", (unsigned long long)f->addr);
	if (f->object && *f->object) {
		buf_str(out, " in ");
		text_safe(out, slash && slash[1] ? slash + 1 : f->object);
	}
}

void report_stack_text(const struct trace_reader *r, struct buf *out, uint64_t stack, unsigned most,
		       unsigned indent, unsigned width)
{
	const struct trace_stack *s = stack ? trace_reader_stack(r, (uint32_t)(stack - 1)) : NULL;
	for (unsigned n = 0; s; n++) {
		const struct trace_frame *f = trace_reader_frame(r, s->frame);
		_cleanup_buf_ struct buf line = BUF_INIT;
		if (n == most) {
			buf_printf(out, "%*s…\n", (int)indent, "");
			return;
		}
		if (f && f->file && *f->file && f->function && *f->function) {
			const struct trace_place place = {
				.function = f->function, .file = f->file, .line = f->line};
			trace_place_text(&line, &place);
		} else {
			report_frame_text(f, &line);
		}
		buf_printf(out, "%*s", (int)indent, "");
		size_t room = width > indent + 20 ? width - indent : 20;
		table_shorten(out, line.data ? line.data : "?", width ? room : SIZE_MAX);
		buf_char(out, '\n');
		if (!s->parent && s->flags & TRACE_STACK_CUT)
			buf_printf(out, "%*s… (cut)\n", (int)indent, "");
		s = s->parent ? trace_reader_stack(r, s->parent - 1) : NULL;
	}
}

void report_stack_json(const struct trace_reader *r, struct json *j, const char *key,
		       uint64_t stack, unsigned most)
{
	const struct trace_stack *s = stack ? trace_reader_stack(r, (uint32_t)(stack - 1)) : NULL;
	json_array(j, key);
	for (unsigned n = 0; s && n < most; n++) {
		const struct trace_frame *f = trace_reader_frame(r, s->frame);
		json_object(j, NULL);
		json_string(j, "function", f ? f->function : "");
		json_string(j, "file", f ? f->file : "");
		json_u64(j, "line", f ? f->line : 0);
		json_string(j, "object", f ? f->object : "");
		json_u64(j, "addr", f ? f->addr : 0);
		if (s->flags & TRACE_STACK_CUT)
			json_bool(j, "cut", true);
		json_end_object(j);
		s = s->parent ? trace_reader_stack(r, s->parent - 1) : NULL;
	}
	json_end_array(j);
}
