/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * "What to do next", at the end of a report: a few lines, each because of what this trace
 * shows or lacks. A command works as it is printed; one that needs the process is printed only as
 * long as that lives.
 */
#include "report/still.h"
#include "report/text_util.h"

#include "base/own_command.h"
#include "base/text.h"
#include "base/units.h"

#include <ctype.h>
#include <string.h>

#define LONG_POLL_NS (10 * NSEC_PER_MSEC)
#define LONG_CALL_NS NSEC_PER_MSEC

/* The last process of the trace, if it runs. */
static const struct trace_process *process_of(const struct report *rep)
{
	uint32_t n = trace_reader_n_processes(rep->reader);
	const struct trace_process *p = n ? trace_reader_process(rep->reader, n - 1) : NULL;

	return p && rep->opt.lives && rep->opt.lives(rep->opt.lives_ctx, p) ? p : NULL;
}

/* ---- when ---- */

/* Kinds of a stripped program are numbered. */
static bool lacks_symbols(const struct report *rep)
{
	size_t n = 0, unnamed = 0;

	for (size_t i = 0; i < rep->n_families; i++) {
		const char *name = family_name(rep, rep->families[i]);

		if (rep->families[i]->role != TR_TASK)
			continue;
		n++;
		unnamed += !strncmp(name, "kind ", 5) && isdigit((unsigned char)name[5]);
	}
	return n && unnamed == n;
}

/* Of the handlers of requests some, or all, have no name of their own, and debug information gives it. */
static bool lacks_of_handlers(const struct report *rep, bool all)
{
	for (uint32_t i = 0; i < trace_reader_n_coverage(rep->reader); i++) {
		const struct trace_coverage *c = trace_reader_coverage(rep->reader, i);

		if (c && c->cover == TRACE_COVER_HANDLERS && c->seen < c->total &&
		    !c->seen == all && strstr(c->note, "debug = true"))
			return true;
	}
	return false;
}

static bool lacks_handlers(const struct report *rep)
{
	return !lacks_symbols(rep) && lacks_of_handlers(rep, true);
}

static bool shares_names(const struct report *rep)
{
	return rep->handlers && lacks_of_handlers(rep, false);
}

static bool lacks_places(const struct report *rep)
{
	return !lacks_symbols(rep) && !lacks_handlers(rep) && rep->n_unplaced && !rep->n_placed;
}

/* "F::call": what a legacy symbol leaves of "<shop::buy as Handler>::call". */
static bool is_nameless(const char *function)
{
	return function && isupper((unsigned char)function[0]) && !strncmp(function + 1, "::", 2);
}

static bool lacks_types(const struct report *rep)
{
	bool lacks = false;

	for (uint32_t i = 0; i < trace_reader_n_frames(rep->reader) && !lacks; i++) {
		const struct trace_frame *f = trace_reader_frame(rep->reader, i);

		lacks = f && is_nameless(f->function) && !*f->file;
	}
	for (size_t i = 0; i < rep->n_waits && !lacks; i++) {
		const struct trace_place *p = report_place(rep, rep->waits[i]->place);

		lacks = p && is_nameless(p->function) && !*p->file;
	}
	return lacks;
}

/* A poll that kept a worker for long, or blocked it for a while; NULL: none. */
static const struct long_poll *blocker(const struct report *rep)
{
	const struct long_poll *longest = report_longest_on_worker(rep);

	if (longest && tl_poll_held_ns(&longest->poll) >= LONG_POLL_NS)
		return longest;
	for (size_t i = 0; i < rep->n_longest; i++)
		if (rep->longest[i].family->role == TR_TASK &&
		    rep->longest[i].poll.blocked_ns >= LONG_CALL_NS)
			return &rep->longest[i];
	return NULL;
}

/* The threshold for --long-poll that it exceeds. */
static const char *threshold(const struct report *rep)
{
	return tl_poll_held_ns(&blocker(rep)->poll) >= 2 * LONG_POLL_NS ? "10ms" : "1ms";
}

static bool has_long_stacks(const struct report *rep)
{
	for (size_t i = 0; i < rep->n_longest; i++)
		if (rep->longest[i].stack.stack)
			return true;
	return false;
}

static bool blocks_unseen(const struct report *rep)
{
	return blocker(rep) && !has_long_stacks(rep);
}

static bool blocks_unseen_alive(const struct report *rep)
{
	return blocks_unseen(rep) && process_of(rep);
}

static bool blocks_unseen_ended(const struct report *rep)
{
	return blocks_unseen(rep) && !process_of(rep);
}

/* The longest polls did not block: their time went to the CPU. */
static bool computes_unseen(const struct report *rep)
{
	const struct long_poll *l = blocker(rep);

	return l && tl_poll_held_ns(&l->poll) >= LONG_POLL_NS && !rep->samples && process_of(rep) &&
	       l->poll.blocked_ns < tl_poll_held_ns(&l->poll) / 2;
}

static bool has_waiting(const struct report *rep)
{
	struct family sum = report_sum(rep);

	return (sum.n_ended[TO_PENDING] || still_any(rep)) && process_of(rep);
}

static bool has_waited(const struct report *rep)
{
	return still_any(rep) && !process_of(rep) && report_tree_command(rep, NULL);
}

static bool has_file(const struct report *rep)
{
	return rep->opt.file && rep->totals.n_events;
}

static bool has_requests(const struct report *rep)
{
	return has_file(rep) && rep->handlers;
}

/* ---- what ---- */

static void long_poll_command(const struct report *rep, struct buf *out)
{
	buf_printf(out, "%s record %u -d 10 --long-poll=%s", own_command(), process_of(rep)->pid,
		   threshold(rep));
}

static void long_poll_words(const struct report *rep, struct buf *out)
{
	buf_printf(out, "record with --long-poll=%s", threshold(rep));
}

static void cpu_command(const struct report *rep, struct buf *out)
{
	buf_printf(out, "%s record %u -d 10 --cpu", own_command(), process_of(rep)->pid);
}

bool report_tree_command(const struct report *rep, struct buf *out)
{
	const struct trace_process *p = process_of(rep);
	bool file = rep->opt.file && trace_reader_n_moments(rep->reader);

	if (out && p) {
		buf_printf(out, "%s tree %u", own_command(), p->pid);
	} else if (out && file) {
		buf_printf(out, "%s tree ", own_command());
		text_shell_word(out, rep->opt.file);
	}
	return p || file;
}

static void tree_command(const struct report *rep, struct buf *out)
{
	report_tree_command(rep, out);
}

static void export_command(const struct report *rep, struct buf *out)
{
	const char *file = rep->opt.file, *slash = strrchr(file, '/');
	const char *name = slash ? slash + 1 : file, *dot = strrchr(name, '.');
	_cleanup_buf_ struct buf output = BUF_INIT;

	buf_printf(&output, "%.*s.json", dot && dot > name ? (int)(dot - name) : (int)strlen(name),
		   name);
	buf_printf(out, "%s export ", own_command());
	text_shell_word(out, file);
	buf_str(out, " -o ");
	text_shell_word(out, buf_failed(&output) ? "trace.json" : output.data);
}

static void why_command(const struct report *rep, struct buf *out)
{
	buf_printf(out, "%s why ", own_command());
	text_shell_word(out, rep->opt.file);
}

static void view_command(const struct report *rep, struct buf *out)
{
	buf_printf(out, "%s view ", own_command());
	text_shell_word(out, rep->opt.file);
}

/* The first that fit are printed: a text, and what to type. */
static const struct hint {
	bool (*fits)(const struct report *rep);
	const char *text;
	void (*command)(const struct report *rep, struct buf *out);
} hints[] = {
	{lacks_symbols,
	 "no names and no requests by handler here: the program is stripped; build it with strip = "
	 "false",
	 NULL},
	{lacks_handlers,
	 "no requests by handler here, no lines where tasks wait: build with debug = true in "
	 "[profile.release]",
	 NULL},
	{blocks_unseen_alive, "to see the line that blocks", long_poll_command},
	{blocks_unseen_ended, "to see the line that blocks", long_poll_words},
	{lacks_types,
	 "no names of types here: build with RUSTFLAGS=\"-C symbol-mangling-version=v0\" (or debug "
	 "= "
	 "true in [profile.release])",
	 NULL},
	{shares_names,
	 "two handlers have one name here: build with debug = true in [profile.release]", NULL},
	{lacks_places,
	 "no lines where tasks wait here: build with debug = true in [profile.release]", NULL},
	{has_waiting, "to see where each task waits now", tree_command},
	{has_waited, "to see where each task waited", tree_command},
	{has_file, "to see it as a picture, in ui.perfetto.dev", export_command},
	{computes_unseen, "to see what uses the CPU", cpu_command},
	{has_requests, "to see what the slowest requests waited for", why_command},
	{has_file, "to look through it in a browser", view_command},
};

/* A command is not broken between lines. */
static void write_hint(const struct report *rep, struct buf *out, const struct hint *hint)
{
	_cleanup_buf_ struct buf line = BUF_INIT, command = BUF_INIT;

	buf_printf(&line, "  %s", hint->text);
	if (hint->command) {
		hint->command(rep, &command);
		buf_str(&line, ":");
	}
	if (command.len && rep->opt.width && line.len + 1 + command.len > rep->opt.width)
		buf_str(&line, "\n     ");
	buf_printf(out, "%s%s%s\n", line.data ? line.data : "", command.len ? " " : "",
		   command.data ? command.data : "");
}

void hints_text(const struct report *rep, struct buf *out, unsigned most)
{
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]) && n < most; i++) {
		if (!hints[i].fits(rep))
			continue;
		if (!n++)
			report_title(rep, out, "What to do next");
		write_hint(rep, out, &hints[i]);
	}
}
