/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel reports of polls: how long the thread was off its CPU inside them, and why;
 * and the system calls made in them. Both by family. Where a stack was taken as the thread left its
 * CPU, the time until it came back is also summed up by that stack.
 */
#include "base/compare.h"
#include "report/samples.h"

#include "base/error.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/vec.h"
#include "report/text_util.h"

#include <errno.h>
#include <stdlib.h>

#define ROWS_SHOWN 15u
#define STACKS_SHOWN 5u
#define FRAMES_SHOWN 8u
#define MAX_ERRNO 4095
/* The stack is taken a moment before or after the switch is stamped. */
#define STACK_SLACK_NS 50000u

/* Times of one kind: `key` is a reason and a system call, a system call, or a stack. */
struct system_sum {
	uint32_t kind, handler; /* TRACE_KIND_NONE: none */
	uint64_t key, n, n_errors, ns, max_ns;
};

struct system_table {
	struct map by_key;	  /* (kind and handler, what) to struct system_sum */
	struct system_sum **sums; /* most time first */
	size_t n;
};

/* The last stack of a thread that left its CPU. */
struct left {
	uint64_t stack, time_ns;
};

struct system {
	struct system_table off, calls, stacks;
	struct left *last_stacks; /* by thread */
	size_t n_last_stacks;
};

static struct system *system_of(struct report *rep)
{
	if (!rep->system)
		rep->system = calloc(1, sizeof(*rep->system));
	return rep->system;
}

static int add(struct system_table *t, uint32_t kind, uint32_t handler, uint64_t what, uint64_t ns,
	       bool error)
{
	uint64_t whose = (uint64_t)handler << 32 | kind;
	struct system_sum *sum = map_get_or_new(&t->by_key, whose, what, sizeof(*sum));
	if (!sum)
		return -ENOMEM;
	sum->kind = kind;
	sum->handler = handler;
	sum->key = what;
	sum->n++;
	sum->n_errors += error;
	sum->ns += ns;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
	return 0;
}

int system_blocked(struct report *rep, const struct tl_sample *sample)
{
	struct system *s = system_of(rep);
	if (!s)
		return -ENOMEM;
	if (!GROW_ZERO(s->last_stacks, sample->thread, s->n_last_stacks))
		return -ENOMEM;
	s->last_stacks[sample->thread] =
		(struct left){.stack = sample->stack, .time_ns = sample->time_ns};
	return 0;
}

int system_off_cpu(struct report *rep, const struct tl_off_cpu *off)
{
	struct system *s = system_of(rep);
	uint64_t ns = off->end_ns - off->begin_ns;
	if (!s)
		return -ENOMEM;
	struct left left = {0};
	if (off->thread < s->n_last_stacks) {
		left = s->last_stacks[off->thread];
		s->last_stacks[off->thread] = (struct left){0};
	}
	if (!off->task)
		return 0;

	uint32_t kind = off->task->kind, handler = report_handler(rep, &off->round);

	TRY(add(&s->off, kind, handler, (uint64_t)off->reason << 32 | off->syscall, ns, false));
	if (left.stack && left.time_ns + STACK_SLACK_NS >= off->begin_ns)
		TRY(add(&s->stacks, kind, handler, left.stack, ns, false));
	return 0;
}

int system_call(struct report *rep, const struct tl_syscall *call)
{
	struct system *s = call->task ? system_of(rep) : NULL;
	if (!call->task)
		return 0;
	if (!s)
		return -ENOMEM;
	return add(&s->calls, call->task->kind, report_handler(rep, &call->round), call->number,
		   call->end_ns - call->begin_ns, call->result < 0 && call->result >= -MAX_ERRNO);
}

static int compare(const void *a, const void *b)
{
	const struct system_sum *x = *(struct system_sum *const *)a;
	const struct system_sum *y = *(struct system_sum *const *)b;

	return DESCENDING(x->ns, y->ns) ?: ASCENDING(x->kind, y->kind) ?:
	       ASCENDING(x->handler, y->handler) ?: ASCENDING(x->key, y->key);
}

static int sort(struct system_table *t)
{
	t->n = t->by_key.n;
	t->sums = map_sorted(&t->by_key, compare);
	return t->sums ? 0 : -ENOMEM;
}

int system_sort(struct report *rep)
{
	struct system *s = rep->system;
	if (!s)
		return 0;
	if (sort(&s->off) < 0 || sort(&s->calls) < 0)
		return -ENOMEM;
	return sort(&s->stacks);
}

static void table_free(struct system_table *t)
{
	map_free(&t->by_key, free);
	free(t->sums);
}

void system_done(struct report *rep)
{
	struct system *s = rep->system;
	if (!s)
		return;
	table_free(&s->off);
	table_free(&s->calls);
	table_free(&s->stacks);
	free(s->last_stacks);
	free(s);
	rep->system = NULL;
}

/* ---- words ---- */

static void call_name(struct buf *out, unsigned number)
{
	const char *name = syscall_name(number);
	if (name)
		buf_str(out, name);
	else
		buf_printf(out, "system call %u", number);
}

static unsigned off_why(const struct system_sum *s)
{
	return (unsigned)(s->key >> 32);
}

static uint32_t off_call(const struct system_sum *s)
{
	return (uint32_t)s->key;
}

/* ---- for people ---- */

static void say_more(struct buf *out, const struct system_table *t)
{
	if (t->n > ROWS_SHOWN)
		buf_printf(out, "  and %zu more: --json has them\n", t->n - ROWS_SHOWN);
}

static void cells_times(struct table *t, const struct system_sum *s)
{
	cell_count(t, s->n);
	cell_time(t, s->ns);
	cell_time(t, s->max_ns);
}

static void write_off(const struct report *rep, struct buf *out, const struct system_table *off)
{
	static const struct table_column columns[] = {
		{.title = "why", .align_left = true},
		{.title = "in", .align_left = true},
		{.title = "times"},
		{.title = "total"},
		{.title = "longest"},
		{.title = "family", .rank = 1, .min_width = 16, .align_left = true},
	};
	if (!off->n)
		return;
	report_title(rep, out, "Off the CPU inside polls");
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < off->n && i < ROWS_SHOWN; i++) {
		const struct system_sum *s = off->sums[i];
		_cleanup_buf_ struct buf call = BUF_INIT;
		if (off_call(s))
			call_name(&call, off_call(s) - 1);
		table_cell(&t, trace_off_cpu_name(off_why(s)));
		table_cell(&t, call.data ? call.data : "-");
		cells_times(&t, s);
		cell_owner(rep, &t, s->kind, s->handler);
	}
	report_table(rep, &t, out);
	say_more(out, off);
}

static void write_stacks(const struct report *rep, struct buf *out, const struct system_table *st)
{
	for (size_t i = 0; i < st->n && i < STACKS_SHOWN; i++) {
		const struct system_sum *s = st->sums[i];
		_cleanup_buf_ struct buf owner = BUF_INIT;

		if (!i)
			report_title(rep, out, "Stacks that left the CPU");
		buf_str(out, "  ");
		text_duration(out, s->ns);
		buf_str(out, " in ");
		report_exact_of(out, s->n, "time", "times");
		report_owner(rep, &owner, s->kind, s->handler);
		report_in(rep, out, s->key, owner.data ? owner.data : "?");
		buf_str(out, ":\n");
		report_stack_text(rep->reader, out, s->key, FRAMES_SHOWN, 6, rep->opt.width);
	}
	if (st->n > STACKS_SHOWN)
		buf_printf(out, "  and %zu more stacks: --json has them\n", st->n - STACKS_SHOWN);
}

static void write_calls(const struct report *rep, struct buf *out, const struct system_table *calls)
{
	static const struct table_column columns[] = {
		{.title = "call", .align_left = true},
		{.title = "times"},
		{.title = "total"},
		{.title = "longest"},
		{.title = "failed", .rank = 2},
		{.title = "family", .rank = 1, .min_width = 16, .align_left = true},
	};
	if (!calls->n)
		return;
	report_title(rep, out, "System calls inside polls");
	struct table t;
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < calls->n && i < ROWS_SHOWN; i++) {
		const struct system_sum *s = calls->sums[i];
		_cleanup_buf_ struct buf name = BUF_INIT;
		call_name(&name, (unsigned)s->key);
		table_cell(&t, name.data ? name.data : "?");
		cells_times(&t, s);
		cell_count(&t, s->n_errors);
		cell_owner(rep, &t, s->kind, s->handler);
	}
	report_table(rep, &t, out);
	say_more(out, calls);
}

void system_text(const struct report *rep, struct buf *out)
{
	if (!rep->system)
		return;
	write_off(rep, out, &rep->system->off);
	write_stacks(rep, out, &rep->system->stacks);
	write_calls(rep, out, &rep->system->calls);
}

/* ---- for programs ---- */

static void times_json(const struct report *rep, struct json *j, const struct system_sum *s)
{
	json_string(j, "family", report_label(rep, s->kind));
	json_u64(j, "kind", s->kind);
	if (rep->handlers)
		report_handler_json(rep, j, s->handler);
	json_u64(j, "count", s->n);
	json_u64(j, "ns", s->ns);
	json_u64(j, "max_ns", s->max_ns);
}

static void call_json(struct json *j, uint32_t number)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	call_name(&name, number);
	json_string(j, "call", name.data);
	json_u64(j, "number", number);
}

void system_json(const struct report *rep, struct json *j)
{
	const struct system *sys = rep->system;
	if (!sys)
		return;
	json_array(j, "off_cpu");
	for (size_t i = 0; i < sys->off.n; i++) {
		const struct system_sum *s = sys->off.sums[i];
		json_object(j, NULL);
		json_string(j, "reason", trace_off_cpu_name(off_why(s)));
		if (off_call(s))
			call_json(j, off_call(s) - 1);
		times_json(rep, j, s);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "off_cpu_stacks");
	for (size_t i = 0; i < sys->stacks.n; i++) {
		json_object(j, NULL);
		times_json(rep, j, sys->stacks.sums[i]);
		report_stack_json(rep->reader, j, "stack", sys->stacks.sums[i]->key,
				  TRACE_STACK_FRAMES);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "system_calls");
	for (size_t i = 0; i < sys->calls.n; i++) {
		json_object(j, NULL);
		call_json(j, (uint32_t)sys->calls.sums[i]->key);
		times_json(rep, j, sys->calls.sums[i]);
		json_u64(j, "failed", sys->calls.sums[i]->n_errors);
		json_end_object(j);
	}
	json_end_array(j);
}
