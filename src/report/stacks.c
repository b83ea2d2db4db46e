/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Call stacks. Recorded stacks reach from the innermost function to the thread's first one; what
 * people look for is between them: the program's own function, called by the task's poll. So the
 * frames of the runtime below the poll are not shown, and the program's own frame is named first.
 */
#include "report/text_util.h"

#include "base/text.h"
#include "base/text_fit.h"

#include <string.h>

#define FRAMES_AROUND 1u

const struct trace_stack *report_stack(const struct report *rep, uint64_t stack)
{
	return stack ? trace_reader_stack(rep->reader, (uint32_t)(stack - 1)) : NULL;
}

static const struct trace_stack *outer(const struct trace_reader *r, const struct trace_stack *s)
{
	return s->parent ? trace_reader_stack(r, s->parent - 1) : NULL;
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

/* How many frames are shown: down to the poll, and no more than a few around the program's own; all
 * if nothing but a runtime is on the stack. */
static unsigned n_frames(const struct trace_reader *r, const struct trace_stack *s)
{
	unsigned n = 0, kept = 0, last_own = 0;

	for (; s && n < TRACE_STACK_FRAMES; s = outer(r, s)) {
		const struct trace_frame *f = trace_reader_frame(r, s->frame);

		n++;
		if (!trace_frame_is_below_poll(f))
			kept = n;
		if (trace_frame_is_own(f, NULL))
			last_own = n;
	}
	if (last_own && last_own + FRAMES_AROUND < kept)
		return last_own + FRAMES_AROUND;
	return kept ? kept : n;
}

static void frame_place(const struct trace_frame *f, struct buf *out)
{
	if (f && f->file && *f->file && f->function && *f->function) {
		const struct trace_place place = {
			.function = f->function, .file = f->file, .line = f->line};
		trace_place_text(out, &place);
	} else {
		report_frame_text(f, out);
	}
}

const struct trace_frame *report_own_frame(const struct report *rep, uint64_t stack)
{
	return stack ? trace_reader_own_frame(rep->reader, (uint32_t)(stack - 1), rep->opt.own)
		     : NULL;
}

void report_in(const struct report *rep, struct buf *out, uint64_t stack, const char *owner)
{
	const struct trace_frame *f = report_own_frame(rep, stack);
	_cleanup_buf_ struct buf place = BUF_INIT;

	if (f) {
		buf_str(out, " in ");
		frame_place(f, &place);
		report_name(rep, out, place.data);
		if (!strcmp(f->function, owner))
			return;
	}
	buf_str(out, f ? ", a poll of " : " in ");
	report_name(rep, out, owner);
}

void report_stack_text(const struct trace_reader *r, struct buf *out, uint64_t stack, unsigned most,
		       unsigned indent, unsigned width)
{
	const struct trace_stack *s = stack ? trace_reader_stack(r, (uint32_t)(stack - 1)) : NULL;
	unsigned n_shown = s ? n_frames(r, s) : 0;

	for (unsigned n = 0; s && n < n_shown; n++, s = outer(r, s)) {
		_cleanup_buf_ struct buf line = BUF_INIT;
		size_t room = width > indent + 20 ? width - indent : 20;

		buf_printf(out, "%*s", (int)indent, "");
		if (n == most) {
			buf_str(out, "…\n");
			return;
		}
		frame_place(trace_reader_frame(r, s->frame), &line);
		text_shorten(out, line.data ? line.data : "?", width ? room : SIZE_MAX);
		buf_char(out, '\n');
		if (!s->parent && s->flags & TRACE_STACK_CUT)
			buf_printf(out, "%*s… (cut)\n", (int)indent, "");
	}
}

void report_stack_json(const struct trace_reader *r, struct json *j, const char *key,
		       uint64_t stack, unsigned most)
{
	const struct trace_stack *s =
		stack && stack <= UINT32_MAX ? trace_reader_stack(r, (uint32_t)(stack - 1)) : NULL;
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
