/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The report for people, most wanted first: what was recorded; what stands out; families, threads,
 * the longest polls; then what was seen, lost, and what the recording cost.
 */
#include "base/units.h"
#include "report/samples.h"
#include "report/still.h"
#include "report/text_util.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/text_fit.h"
#include "trace/objects.h"

#include <string.h>

#define MANY_THREADS 16
#define LONG_POLL_FRAMES 12
#define FINDINGS_SHOWN 6
#define HINTS_SHOWN 3

/* ---- what was recorded ---- */

/* A process that executed another program, which was recorded too. */
static bool is_replaced(const struct report *rep, uint32_t process)
{
	const struct trace_process *p = trace_reader_process(rep->reader, process);

	for (uint32_t i = process + 1; i < trace_reader_n_processes(rep->reader); i++) {
		const struct trace_process *later = trace_reader_process(rep->reader, i);

		if (p && later && later->pid == p->pid)
			return true;
	}
	return false;
}

static void head_processes(const struct report *rep, struct buf *out)
{
	for (uint32_t i = 0; i < trace_reader_n_processes(rep->reader); i++) {
		const struct trace_process *p = trace_reader_process(rep->reader, i);
		if (!p)
			continue;
		report_name(rep, out, p->exe);
		buf_printf(out, ", pid %u", p->pid);
		if (is_replaced(rep, i))
			buf_str(out, " until it executed the next program");
		unsigned n = 0;
		for (uint32_t k = 0; k < trace_reader_n_runtimes(rep->reader); k++) {
			const struct trace_runtime *rt = trace_reader_runtime(rep->reader, k);
			if (!rt || rt->process != i)
				continue;
			buf_str(out, n++ ? ", " : ": ");
			text_safe(out, rt->name);
			buf_char(out, ' ');
			text_safe(out,
				  rt->version && *rt->version ? rt->version : "of unknown version");
			if (!trace_has_objects(rep->reader, i))
				continue;
			_cleanup_free_ char *object = trace_object_label(rep->reader, rt->object);

			buf_str(out, " in ");
			text_safe(out, object ? object : "?");
		}
		buf_char(out, '\n');
	}
}

static void head_damage(const struct report *rep, struct buf *out)
{
	const char *why;

	if (!trace_reader_truncated(rep->reader, &why))
		return;
	buf_str(out, "INCOMPLETE: ");
	text_safe(out, why);
	buf_char(out, '\n');
}

static void head_window(const struct report *rep, struct buf *out)
{
	text_duration(out, rep->length_ns);
	if (rep->begin_ns != rep->base_ns) {
		buf_str(out, " from ");
		text_duration(out, rep->begin_ns - rep->base_ns);
	}
	buf_str(out, ", ");
	report_exact_of(out, rep->totals.n_events, "event", "events");
	buf_str(out, rep->n_lost ? ", " : ", none lost");
	if (rep->n_lost) {
		text_exact(out, rep->n_lost);
		buf_str(out, " lost");
	}
	buf_str(out, rep->filtered ? " (what follows is filtered)\n" : "\n");
}

static void head_tasks(const struct report *rep, struct buf *out)
{
	struct family sum = report_sum(rep);
	report_exact_of(out, sum.n_tasks, "task", "tasks");
	if (sum.n_tasks > sum.n_spawned) {
		buf_str(out, " (");
		text_exact(out, sum.n_tasks - sum.n_spawned);
		buf_str(out, report_sees_all_spawns(rep) ? " pre-existing)"
							 : " pre-existing, or spawned unobserved)");
	}
	const struct {
		enum trace_outcome outcome;
		const char *word;
	} ends[] = {
		{TO_READY, report_sees_all_panics(rep) ? "completed" : "completed or panicked"},
		{TO_CANCELLED, "cancelled"},
		{TO_PANICKED, "panicked"},
		{TO_UNKNOWN, "with unknown end"},
		{TO_PENDING, "alive"},
	};
	const char *separator = ": ";
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (!sum.n_ended[ends[i].outcome])
			continue;
		buf_str(out, separator);
		text_exact(out, sum.n_ended[ends[i].outcome]);
		buf_printf(out, " %s", ends[i].word);
		separator = ", ";
	}
	buf_str(out, "; ");
	report_exact_of(out, sum.n_polls, "poll", "polls");
	buf_str(out, ", ");
	report_exact_of(out, sum.n_wakes + sum.n_stray_wakes, "wake", "wakes");
	buf_char(out, '\n');
}

static void write_head(const struct report *rep, struct buf *out)
{
	_cleanup_buf_ struct buf who = BUF_INIT, what = BUF_INIT;
	head_damage(rep, out);
	head_processes(rep, &who);
	buf_str(out, rep->opt.color ? "\x1b[1m" : "");
	report_lines(out, who.data, "");
	buf_str(out, rep->opt.color ? "\x1b[0m" : "");
	head_window(rep, &what);
	head_tasks(rep, &what);
	report_lines(out, what.data, "");
}

/* ---- tables ---- */

static void cell_ends(const struct report *rep, struct table *t, const struct family *f)
{
	const char *ready = report_sees_panics(rep, f->kind) ? "ready" : "ready or panicked";
	const char *const words[] = {"alive", ready, "panicked", "cancelled", "unknown"};
	static const enum trace_outcome order[] = {TO_READY, TO_CANCELLED, TO_PANICKED, TO_UNKNOWN,
						   TO_PENDING};
	_cleanup_buf_ struct buf b = BUF_INIT;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (!f->n_ended[order[i]])
			continue;
		buf_str(&b, b.len ? ", " : "");
		text_count(&b, f->n_ended[order[i]]);
		buf_printf(&b, " %s", words[order[i]]);
	}
	table_cell(t, b.data ? b.data : "");
}

static void cell_sites(struct table *t, const struct trace_kind *meta)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	const char *site = meta && meta->n_sites && meta->sites ? meta->sites[0] : NULL;
	if (site)
		text_safe(&b, *site == '/' ? text_short_file(site) : site);
	if (meta && meta->n_sites > 1)
		buf_printf(&b, " (and %u more)", meta->n_sites - 1);
	table_cell(t, b.data ? b.data : "");
}

static void cell_family(const struct report *rep, struct table *t, const struct family *f,
			const struct family *part)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	bool below = part && rep->opt.by == RY_BOTH;

	if (!part) {
		text_safe(&b, report_family(rep, f->kind));
	} else if (part->handler == TRACE_KIND_NONE) {
		if (!below)
			text_safe(&b, report_family(rep, f->kind));
		buf_str(&b, below ? "  › in no handler" : ", in no handler");
	} else if (below) {
		buf_str(&b, "  › ");
		text_safe(&b, report_label(rep, part->handler));
	} else {
		report_owner(rep, &b, f->kind, part->handler);
	}
	table_cell(t, b.data ? b.data : "?");
}

/* A family, or a part of it. */
static void family_row(const struct report *rep, struct table *t, const struct family *f,
		       const struct family *part)
{
	const struct family *s = part ? part : f;
	bool polls = s->poll.count, delays = s->delay.count;

	cell_family(rep, t, f, part);
	table_cell(t, part ? "" : trace_role_name(f->role));
	if (part)
		table_cell(t, "");
	else
		cell_count(t, f->n_tasks);
	cell_count(t, s->n_polls);
	cell_time_if(t, polls, s->poll.sum);
	cell_time_if(t, polls, hist_quantile(&s->poll, 0.5));
	cell_time_if(t, polls, hist_quantile(&s->poll, 0.99));
	cell_time_if(t, polls, s->poll.max);
	cell_time_if(t, delays, hist_quantile(&s->delay, 0.5));
	cell_time_if(t, delays, hist_quantile(&s->delay, 0.99));
	cell_time(t, s->waiting_ns);
	cell_count(t, s->n_wakes + s->n_stray_wakes);
	cell_count(t, s->n_self_wakes);
	if (part) {
		table_cell(t, "");
		table_cell(t, "");
	} else {
		cell_ends(rep, t, f);
		cell_sites(t, trace_reader_kind(rep->reader, f->kind));
	}
}

static void write_families(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "family", .min_width = 16, .align_left = true},
		{.title = "role", .rank = 8, .align_left = true},
		{.title = "tasks"},
		{.title = "polls", .rank = 2},
		{.title = "poll time", .rank = 1},
		{.title = "p50", .rank = 6},
		{.title = "p99", .rank = 3},
		{.title = "max"},
		{.title = "delay p50", .rank = 7},
		{.title = "delay p99"},
		{.title = "waiting", .rank = 5},
		{.title = "wakes", .rank = 4},
		{.title = "self", .rank = 10},
		{.title = "ended", .rank = 11, .align_left = true},
		{.title = "spawned at", .rank = 9, .min_width = 24, .align_left = true},
	};
	if (!rep->n_families)
		return;
	report_title(rep, out, "Families");
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = rep->opt.n_families && rep->opt.n_families < rep->n_families
			   ? rep->opt.n_families
			   : rep->n_families;
	for (size_t i = 0; i < n; i++) {
		const struct family *f = rep->families[i];
		bool split = f->n_parts > 0;

		if (!split || rep->opt.by != RY_HANDLER)
			family_row(rep, &t, f, NULL);
		for (size_t k = 0; k < f->n_parts; k++)
			family_row(rep, &t, f, f->parts[(k + 1) % f->n_parts]);
	}
	report_table(rep, &t, out);
	if (n < rep->n_families)
		buf_printf(out, "  and %zu more: --top %zu\n", rep->n_families - n,
			   rep->n_families);
	uint64_t n_unmeasured = 0;
	for (size_t i = 0; i < rep->n_families; i++)
		n_unmeasured += rep->families[i]->n_unmeasured;
	if (n_unmeasured) {
		buf_str(out, "  ");
		report_exact_of(out, n_unmeasured, "poll", "polls");
		buf_str(out, " of unknown length: begin or end was not observed\n");
	}
}

static const char *thread_role(const struct tl_thread *t)
{
	return t->root ? "block_on" : t->worker ? "worker" : "blocking";
}

static void write_threads(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "thread", .min_width = 16, .align_left = true},
		{.title = "role", .rank = 1, .align_left = true},
		{.title = "busy"},
		{.title = "% of lifetime", .rank = 3},
		{.title = "parked", .rank = 2},
		{.title = "blocked", .rank = 1},
		{.title = "polls"},
	};
	if (!rep->n_threads)
		return;
	report_title(rep, out, "Threads");
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = rep->n_threads <= MANY_THREADS + 4 ? rep->n_threads : MANY_THREADS;
	for (size_t i = 0; i < n; i++) {
		const struct tl_thread *th = &rep->threads[i];
		_cleanup_buf_ struct buf who = BUF_INIT;
		report_thread(rep, &who, th->thread);
		table_cell(&t, who.data ? who.data : "");
		table_cell(&t, thread_role(th));
		bool known = th->busy_ns || !th->n_unmeasured;
		cell_time_if(&t, known, th->busy_ns);
		cell_share(&t, th->busy_ns, known ? th->end_ns - th->begin_ns : 0);
		cell_time(&t, th->parked_ns);
		cell_time(&t, th->blocked_ns);
		cell_count(&t, th->n_polls);
	}
	report_table(rep, &t, out);
	if (n == rep->n_threads)
		return;
	uint64_t busy = 0;
	for (size_t i = n; i < rep->n_threads; i++)
		busy += rep->threads[i].busy_ns;
	buf_printf(out, "  and %zu less busy threads: ", rep->n_threads - n);
	text_duration(out, busy);
	buf_str(out, " busy in total\n");
}

/* Long polls of a family, or of its handler, that are alike: in the same call. */
static bool is_alike(const struct long_poll *a, const struct long_poll *b)
{
	const struct call_list *x = &a->calls, *y = &b->calls;

	return a->family == b->family && a->handler == b->handler && !x->n == !y->n &&
	       (!x->n || x->items[0].call == y->items[0].call);
}

/* Whether no longer one is alike. */
static bool is_first(const struct report *rep, size_t i)
{
	size_t first = 0;

	while (!is_alike(&rep->longest[first], &rep->longest[i]))
		first++;
	return first == i;
}

static size_t n_alike(const struct report *rep, size_t i)
{
	size_t n = 0;

	for (size_t k = i; k < rep->n_longest; k++)
		n += is_alike(&rep->longest[i], &rep->longest[k]);
	return n;
}

static void write_longest(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "took"},
		{.title = "alike", .rank = 2},
		{.title = "family", .min_width = 20, .align_left = true},
		{.title = "task", .rank = 3},
		{.title = "thread", .rank = 4, .min_width = 20, .align_left = true},
		{.title = "at"},
		{.title = "end", .rank = 5, .align_left = true},
		{.title = "blocking calls inside",
		 .rank = 1,
		 .min_width = 28,
		 .align_left = true,
		 .cut_end = true},
	};
	if (!rep->n_longest)
		return;
	report_title(rep, out, "Longest polls");
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < rep->n_longest; i++) {
		const struct long_poll *l = &rep->longest[i];
		_cleanup_buf_ struct buf who = BUF_INIT, calls = BUF_INIT;
		if (!is_first(rep, i))
			continue;
		report_thread(rep, &who, l->poll.thread);
		report_calls(&calls, &l->calls, 4);
		cell_time(&t, l->poll.end_ns - l->poll.begin_ns);
		if (n_alike(rep, i) > 1)
			cell_count(&t, n_alike(rep, i));
		else
			table_cell(&t, "");
		cell_owner(rep, &t, l->family->kind, l->handler);
		table_printf(&t, "%llu", (unsigned long long)l->number);
		table_cell(&t, who.data ? who.data : "");
		cell_time(&t, l->poll.begin_ns - rep->base_ns);
		table_printf(&t, "%s%s", trace_outcome_name(l->poll.outcome),
			     l->poll.inferred ? " (inferred)" : "");
		table_cell(&t, calls.data ? calls.data : "");
	}
	report_table(rep, &t, out);
}

/* Whether a longer one that is alike has a stack with the same frame of the program's own. */
static bool is_same_stack(const struct report *rep, size_t i)
{
	const struct trace_frame *own = report_own_frame(rep, rep->longest[i].stack.stack);

	for (size_t k = 0; k < i; k++)
		if (rep->longest[k].stack.stack && is_alike(&rep->longest[k], &rep->longest[i]) &&
		    report_own_frame(rep, rep->longest[k].stack.stack) == own)
			return true;
	return false;
}

/* Their stacks, where they were sampled while they lasted. */
static void write_longest_stacks(const struct report *rep, struct buf *out)
{
	for (size_t i = 0; i < rep->n_longest; i++) {
		const struct long_poll *l = &rep->longest[i];
		_cleanup_buf_ struct buf owner = BUF_INIT;

		if (!l->stack.stack || is_same_stack(rep, i))
			continue;
		buf_str(out, "\n  ");
		text_duration(out, l->poll.end_ns - l->poll.begin_ns);
		report_owner(rep, &owner, l->family->kind, l->handler);
		report_in(rep, out, l->stack.stack, owner.data ? owner.data : "?");
		buf_str(out, l->stack.type == TM_LONG_BLOCKED ? ": blocked " : ": running ");
		text_duration(out, l->stack.after_ns);
		buf_str(out, " after it began");
		if (l->stack.n_taken > 1)
			buf_printf(out, ", the last of %u samples", l->stack.n_taken);
		buf_printf(out, " (task %llu)\n", (unsigned long long)l->number);
		report_stack_text(rep->reader, out, l->stack.stack, LONG_POLL_FRAMES, 6,
				  rep->opt.width);
	}
}

/* ---- what was seen, what it cost ---- */

/* Whether an object has several runtimes. */
static bool has_runtimes(const struct trace_reader *r, const struct trace_coverage *c)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < trace_reader_n_runtimes(r); i++) {
		const struct trace_runtime *rt = trace_reader_runtime(r, i);

		n += rt && rt->process == c->process && !strcmp(rt->object, c->object);
	}
	return n > 1;
}

/* "lib: spawn sites (tokio)": as much as there is to choose from. */
static void cell_coverage(struct table *t, const struct trace_reader *r,
			  const struct trace_coverage *c)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (trace_reader_n_processes(r) > 1) {
		_cleanup_free_ char *process = trace_process_label(r, c->process);

		buf_printf(&text, "%s: ", process ? process : "?");
	}
	if (*c->object && trace_has_objects(r, c->process)) {
		_cleanup_free_ char *object = trace_object_label(r, c->object);

		buf_printf(&text, "%s: ", object ? object : "?");
	}
	buf_str(&text, c->item);
	if (*c->runtime && has_runtimes(r, c) &&
	    strncmp(c->item, c->runtime, strlen(c->runtime)) != 0)
		buf_printf(&text, " (%s)", c->runtime);
	cell_safe(t, text.data ? text.data : "?");
}

static void write_coverage(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "item", .align_left = true},
		{.title = "seen"},
		{.title = "of"},
		{.title = "reason",
		 .rank = 1,
		 .min_width = 20,
		 .align_left = true,
		 .cut_end = true},
	};
	uint32_t n = trace_reader_n_coverage(rep->reader);
	if (!n)
		return;
	struct table t;
	uint32_t n_whole = 0;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (uint32_t i = 0; i < n; i++) {
		const struct trace_coverage *c = trace_reader_coverage(rep->reader, i);
		if (!c)
			continue;
		if (c->seen >= c->total && !*c->note) {
			n_whole++;
			continue;
		}
		cell_coverage(&t, rep->reader, c);
		table_printf(&t, "%llu", (unsigned long long)c->seen);
		table_printf(&t, "%llu", (unsigned long long)c->total);
		cell_safe(&t, c->note);
	}
	if (!t.n_cells) {
		buf_str(out, "\nCoverage: all that pollux looked for was seen\n");
		table_done(&t);
		return;
	}
	report_title(rep, out, "Coverage");
	report_table(rep, &t, out);
	if (n_whole)
		buf_printf(out, "  %u more item%s: all seen\n", n_whole, n_whole == 1 ? "" : "s");
}

static void write_losses(const struct report *rep, struct buf *out)
{
	static const struct table_column columns[] = {
		{.title = "thread", .min_width = 16, .align_left = true},
		{.title = "events"},
		{.title = "from"},
		{.title = "to"},
	};
	if (rep->n_losses) {
		report_title(rep, out, "Lost");
		struct table t;
		table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
		for (size_t i = 0; i < rep->n_losses; i++) {
			const struct tl_loss *l = &rep->losses[i];
			_cleanup_buf_ struct buf who = BUF_INIT, count = BUF_INIT;
			report_thread(rep, &who, l->thread);
			text_exact(&count, l->n_events);
			table_cell(&t, who.data ? who.data : "");
			table_cell(&t, count.data ? count.data : "");
			cell_time(&t, l->begin_ns - rep->base_ns);
			cell_time(&t, l->end_ns - rep->base_ns);
		}
		report_table(rep, &t, out);
		buf_str(out, "  increase --ring-size to reduce losses\n");
	}
	if (rep->totals.n_inconsistent) {
		buf_char(out, '\n');
		report_exact_of(out, rep->totals.n_inconsistent, "event was", "events were");
		buf_str(out, " inconsistent with the rest of the trace (docs/timeline.md)\n");
	}
}

static void write_cost(const struct report *rep, struct buf *out)
{
	const struct trace_cost *cost = trace_reader_cost(rep->reader);
	if (!cost)
		return;
	_cleanup_buf_ struct buf b = BUF_INIT;
	buf_str(&b, "threads were paused for ");
	text_duration(&b, cost->stop_ns);
	buf_str(&b, "; attached in ");
	text_duration(&b, cost->attach_ns);
	buf_str(&b, "; pollux itself used ");
	text_duration(&b, cost->recorder_cpu_ns);
	buf_str(&b, " of CPU");
	if (cost->analysis_cpu_ns) {
		buf_str(&b, ", and ");
		text_duration(&b, cost->analysis_cpu_ns);
		buf_str(&b, " before that to read the program");
	}
	buf_char(&b, '\n');
	if (cost->event_cost_ps) {
		double agent_ns = (double)cost->event_cost_ps / 1000 * rep->totals.n_events;
		buf_str(&b, "inside the program about ");
		text_duration(&b, (uint64_t)agent_ns);
		buf_printf(&b, " (%.1f ns an event, measured here)", cost->event_cost_ps / 1000.0);
		if (cpu_used_ns(rep) && !rep->filtered) {
			uint64_t used_ns = cpu_used_ns(rep);

			buf_str(&b, ": ");
			text_share(&b, (uint64_t)agent_ns, used_ns);
			buf_str(&b, " of its CPU time");
		}
		buf_char(&b, '\n');
	}
	report_title(rep, out, "What the recording cost");
	report_lines(out, b.data, "  ");
}

void report_text(const struct report *rep, struct buf *out)
{
	write_head(rep, out);
	findings_text(rep, out, FINDINGS_SHOWN);
	handlers_text(rep, out);
	still_text(rep, out);
	write_families(rep, out);
	write_threads(rep, out);
	write_longest(rep, out);
	write_longest_stacks(rep, out);
	waits_text(rep, out);
	resources_text(rep, out);
	futures_text(rep, out);
	samples_text(rep, out);
	system_text(rep, out);
	lives_text(rep, out);
	write_coverage(rep, out);
	write_losses(rep, out);
	write_cost(rep, out);
	hints_text(rep, out, HINTS_SHOWN);
	text_wrap(out, rep->opt.width);
}

void report_why_text(const struct report *rep, struct buf *out)
{
	write_head(rep, out);
	findings_text(rep, out, 0);
	hints_text(rep, out, 1);
	text_wrap(out, rep->opt.width);
}
