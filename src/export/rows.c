/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The tables (rows.h): which columns they have, and their rows from the timeline's calls. */
#include "export/rows.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/vec.h"
#include "export/sample_slices.h"
#include "trace/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STACK_TEXT_MAX 8192u
#define STACK_MAX 256u

#define NUMBER(name)                                                                               \
	{                                                                                          \
		name, false                                                                        \
	}
#define TEXT(name)                                                                                 \
	{                                                                                          \
		name, true                                                                         \
	}

/* clang-format off */
const struct table_type row_tables[TABLE_N] = {
	[TABLE_POLLS] = {"polls", 14, {
		NUMBER("time_ns"), NUMBER("duration_ns"), NUMBER("task"), TEXT("family"),
		TEXT("handler"), NUMBER("thread"), TEXT("outcome"), NUMBER("measured"),
		NUMBER("delay_ns"), NUMBER("blocked_ns"), TEXT("place"), TEXT("awaits"),
		NUMBER("depth"), NUMBER("kind")}},
	[TABLE_WAITS] = {"waits", 12, {
		NUMBER("time_ns"), NUMBER("duration_ns"), NUMBER("task"), TEXT("family"),
		TEXT("handler"), TEXT("state"), TEXT("place"), TEXT("awaits"), TEXT("resource"),
		NUMBER("address"), NUMBER("open"), NUMBER("kind")}},
	[TABLE_WAKES] = {"wakes", 11, {
		NUMBER("time_ns"), NUMBER("task"), TEXT("family"), TEXT("handler"),
		NUMBER("source_task"), NUMBER("thread"), TEXT("effect"), NUMBER("by_waker"),
		NUMBER("self"), NUMBER("deferred"), NUMBER("kind")}},
	[TABLE_TASKS] = {"tasks", 18, {
		NUMBER("task"), NUMBER("serial"), NUMBER("id"), TEXT("family"), TEXT("role"),
		NUMBER("spawned_by"), NUMBER("spawn_ns"), NUMBER("spawn_seen"), TEXT("spawn_site"),
		NUMBER("end_ns"), TEXT("end"), NUMBER("polls"), NUMBER("wakes"),
		NUMBER("self_wakes"), NUMBER("poll_ns"), NUMBER("wait_ns"), NUMBER("scheduled_ns"),
		NUMBER("kind")}},
	[TABLE_BLOCKING] = {"blocking", 9, {
		NUMBER("time_ns"), NUMBER("duration_ns"), NUMBER("task"), TEXT("family"),
		TEXT("handler"), NUMBER("thread"), TEXT("call"), NUMBER("keeps_worker"),
		NUMBER("kind")}},
	[TABLE_PARKS] = {"parks", 4, {
		NUMBER("time_ns"), NUMBER("duration_ns"), NUMBER("thread"), TEXT("call")}},
	[TABLE_FUTURES] = {"futures", 12, {
		NUMBER("instance"), TEXT("future"), NUMBER("task"), TEXT("family"),
		NUMBER("polled_by"), NUMBER("time_ns"), NUMBER("end_ns"), TEXT("end"),
		NUMBER("polls"), NUMBER("poll_ns"), NUMBER("self_ns"), NUMBER("wait_ns")}},
	[TABLE_SAMPLES] = {"samples", 9, {
		NUMBER("time_ns"), NUMBER("thread"), NUMBER("task"), TEXT("family"),
		TEXT("handler"), TEXT("type"), NUMBER("weight"), TEXT("stack"), NUMBER("kind")}},
	[TABLE_OFF_CPU] = {"off_cpu", 8, {
		NUMBER("time_ns"), NUMBER("duration_ns"), NUMBER("thread"), NUMBER("task"),
		TEXT("family"), TEXT("handler"), TEXT("reason"), TEXT("syscall")}},
	[TABLE_SYSCALLS] = {"syscalls", 8, {
		NUMBER("time_ns"), NUMBER("duration_ns"), NUMBER("thread"), NUMBER("task"),
		TEXT("family"), TEXT("handler"), TEXT("syscall"), NUMBER("result")}},
	[TABLE_THREADS] = {"threads", 12, {
		NUMBER("thread"), TEXT("name"), NUMBER("pid"), NUMBER("worker"), NUMBER("root"),
		NUMBER("begin_ns"), NUMBER("end_ns"), NUMBER("polls"), NUMBER("busy_ns"),
		NUMBER("parked_ns"), NUMBER("blocked_ns"), NUMBER("lost")}},
	[TABLE_LOSSES] = {"losses", 5, {
		NUMBER("time_ns"), NUMBER("duration_ns"), NUMBER("thread"), NUMBER("events"),
		NUMBER("aux")}},
	[TABLE_TRACE] = {"trace", 10, {
		NUMBER("version"), TEXT("exporter"), NUMBER("pid"), TEXT("exe"), TEXT("cmdline"),
		NUMBER("realtime_ns"), NUMBER("begin_ns"), NUMBER("duration_ns"), NUMBER("events"),
		NUMBER("lost")}},
};
/* clang-format on */

enum table row_table_find(const char *name)
{
	enum table t = 0;

	while (t < TABLE_N && strcmp(row_tables[t].name, name))
		t++;
	return t;
}

struct place_names {
	char *place, *awaits;
};

struct rows {
	struct trace_reader *reader;
	row_fn fn;
	void *ctx;
	uint64_t base_ns;
	struct kind_labels labels;
	struct row_cell cells[ROWS_MAX_COLUMNS];
	unsigned n;
	char **names; /* of kinds, by index */
	uint32_t n_names;
	struct place_names *places; /* by index */
	uint32_t n_places;
	struct buf stack, call;
};

/* ---- cells ---- */

static void number(struct rows *r, uint64_t v)
{
	r->cells[r->n++] = (struct row_cell){.number = (int64_t)v};
}

static void text(struct rows *r, const char *s)
{
	r->cells[r->n++] = (struct row_cell){.text = s ? s : ""};
}

/* Since the trace's first event. */
static void time_of(struct rows *r, uint64_t ns)
{
	number(r, ns - r->base_ns);
}

static int row(struct rows *r, enum table table)
{
	r->n = 0;
	return r->fn(r->ctx, table, r->cells);
}

/* A foreign text, made safe; for free(). */
static char *safe(const char *s)
{
	struct buf b = BUF_INIT;

	text_safe(&b, s ? s : "");
	if (!b.len)
		buf_str(&b, "");
	char *made = buf_failed(&b) ? NULL : b.data ? buf_steal(&b) : strdup("");
	buf_done(&b);
	return made;
}

static const char *kind_text(struct rows *r, uint32_t kind)
{
	if (kind == TRACE_KIND_NONE || kind >= trace_reader_n_kinds(r->reader) ||
	    !GROW_ZERO(r->names, kind, r->n_names))
		return "";
	if (!r->names[kind])
		r->names[kind] = safe(kind_label(&r->labels, r->reader, kind));
	return r->names[kind] ? r->names[kind] : "";
}

static void family(struct rows *r, const struct tl_task *task, const struct tl_round *round)
{
	text(r, task ? kind_text(r, task->kind) : "");
	text(r, round->serial ? kind_text(r, round->kind) : "");
}

static void place(struct rows *r, uint64_t place)
{
	uint32_t i = (uint32_t)(place - 1);
	const struct trace_place *p = place ? trace_reader_own_place(r->reader, i, NULL) : NULL;
	struct place_names *names = NULL;

	if (p && GROW_ZERO(r->places, i, r->n_places)) {
		names = &r->places[i];
		if (!names->place) {
			struct buf b = BUF_INIT;

			trace_place_text(&b, p);
			names->place = buf_failed(&b) || !b.data ? strdup("") : strdup(b.data);
			names->awaits = safe(p->awaits);
			buf_done(&b);
		}
	}
	text(r, names ? names->place : "");
	text(r, names ? names->awaits : "");
}

static void thread(struct rows *r, uint32_t index)
{
	const struct trace_thread *t = trace_reader_thread(r->reader, index);

	number(r, t ? t->tid : 0);
}

static void kind(struct rows *r, const struct tl_task *task)
{
	r->cells[r->n++] = (struct row_cell){
		.number = !task || task->kind == TRACE_KIND_NONE ? -1 : (int64_t)task->kind};
}

static void syscall_text(struct rows *r, uint32_t number_plus_one)
{
	const char *name = number_plus_one ? syscall_name(number_plus_one - 1) : "";

	if (!name) {
		buf_clear(&r->call);
		buf_printf(&r->call, "%u", number_plus_one - 1);
		name = r->call.data;
	}
	text(r, name);
}

/* "outermost;...;innermost", as folded. */
static void stack_text(struct rows *r, uint64_t stack)
{
	const struct trace_frame *frames[STACK_MAX];
	uint32_t n = stack_frames(r->reader, stack, frames, STACK_MAX);

	buf_clear(&r->stack);
	for (uint32_t i = n; i-- > 0 && r->stack.len < STACK_TEXT_MAX;) {
		struct buf name = BUF_INIT;

		trace_frame_name(&name, frames[i]);
		for (size_t k = 0; k < name.len; k++)
			if (name.data[k] == ';')
				name.data[k] = ':';
		if (r->stack.len)
			buf_char(&r->stack, ';');
		text_safe(&r->stack, name.data ? name.data : "");
		buf_done(&name);
	}
	text(r, r->stack.data);
}

/* ---- rows ---- */

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct rows *r = ctx;
	bool measured = tl_poll_measured(poll), delayed = poll->begin_seen && poll->scheduled_ns;

	time_of(r, poll->begin_ns);
	number(r, measured ? poll->end_ns - poll->begin_ns : 0);
	number(r, poll->task->number);
	family(r, poll->task, &poll->round);
	thread(r, poll->thread);
	text(r, trace_outcome_name(poll->outcome));
	number(r, measured);
	number(r, delayed ? poll->begin_ns - poll->scheduled_ns : UINT64_MAX);
	number(r, poll->blocked_ns);
	place(r, poll->place);
	number(r, poll->depth);
	kind(r, poll->task);
	return row(r, TABLE_POLLS);
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct rows *r = ctx;

	time_of(r, wait->begin_ns);
	number(r, wait->end_ns - wait->begin_ns);
	number(r, wait->task->number);
	family(r, wait->task, &wait->round);
	text(r, wait->state == TS_WAITING     ? "waiting"
		: wait->state == TS_SCHEDULED ? "scheduled"
					      : "unknown");
	place(r, wait->state == TS_WAITING ? wait->place : 0);
	text(r, wait->resource.address ? trace_resource_name(wait->resource.type) : "");
	number(r, wait->resource.address);
	number(r, wait->open);
	kind(r, wait->task);
	return row(r, TABLE_WAITS);
}

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct rows *r = ctx;

	time_of(r, wake->time_ns);
	number(r, wake->task->number);
	family(r, wake->task, &wake->round);
	number(r, wake->source_task ? wake->source_task->number : 0);
	thread(r, wake->thread);
	text(r, trace_wake_name(wake->effect));
	number(r, wake->by_waker);
	number(r, wake->self);
	number(r, wake->deferred);
	kind(r, wake->task);
	return row(r, TABLE_WAKES);
}

/* Of no task that is known: one that has ended, say. */
static int on_stray_wake(void *ctx, uint32_t of, uint32_t thread_index, uint64_t time_ns)
{
	struct rows *r = ctx;

	time_of(r, time_ns);
	number(r, 0);
	text(r, kind_text(r, of));
	text(r, "");
	number(r, 0);
	thread(r, thread_index);
	text(r, "stray");
	number(r, 1);
	number(r, 0);
	number(r, 0);
	number(r, of == TRACE_KIND_NONE ? UINT64_MAX : of);
	return row(r, TABLE_WAKES);
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct rows *r = ctx;
	const struct trace_kind *k = trace_reader_kind(r->reader, task->kind);
	_cleanup_free_ char *site =
		safe(k && k->n_sites && k->sites ? text_short_file(k->sites[0]) : "");

	number(r, task->number);
	number(r, task->serial);
	number(r, task->id);
	text(r, kind_text(r, task->kind));
	text(r, trace_role_name(task->role));
	number(r, task->parent ? task->parent_number : 0);
	time_of(r, task->spawn_ns);
	number(r, task->spawn_seen);
	text(r, site);
	number(r, task->end_ns ? task->end_ns - r->base_ns : UINT64_MAX);
	text(r, task->end_ns ? trace_outcome_name(task->outcome) : "alive");
	number(r, task->n_polls);
	number(r, task->n_wakes);
	number(r, task->n_self_wakes);
	number(r, task->poll_ns);
	number(r, task->wait_ns);
	number(r, task->sched_ns);
	kind(r, task);
	return row(r, TABLE_TASKS);
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct rows *r = ctx;

	time_of(r, block->begin_ns);
	number(r, block->end_ns - block->begin_ns);
	number(r, block->task ? block->task->number : 0);
	family(r, block->task, &block->round);
	thread(r, block->thread);
	text(r, trace_call_name(block->call));
	number(r, block->keeps_worker);
	kind(r, block->task);
	return row(r, TABLE_BLOCKING);
}

static int on_park(void *ctx, const struct tl_park *park)
{
	struct rows *r = ctx;

	time_of(r, park->begin_ns);
	number(r, park->end_ns - park->begin_ns);
	thread(r, park->thread);
	text(r, trace_call_name(park->call));
	return row(r, TABLE_PARKS);
}

static int on_future_end(void *ctx, struct tl_future *future)
{
	struct rows *r = ctx;

	number(r, future->serial);
	text(r, kind_text(r, future->kind));
	number(r, future->task ? future->task->number : 0);
	text(r, future->task ? kind_text(r, future->task->kind) : "");
	number(r, future->parent ? future->parent->serial : 0);
	time_of(r, future->begin_ns);
	number(r, future->end_ns ? future->end_ns - r->base_ns : UINT64_MAX);
	text(r, !future->end_ns			  ? "alive"
		: future->outcome == TO_CANCELLED ? "dropped"
						  : trace_outcome_name(future->outcome));
	number(r, future->n_polls);
	number(r, future->poll_ns);
	number(r, future->self_ns);
	number(r, future->wait_ns);
	return row(r, TABLE_FUTURES);
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct rows *r = ctx;

	time_of(r, sample->time_ns);
	thread(r, sample->thread);
	number(r, sample->task ? sample->task->number : 0);
	family(r, sample->task, &sample->round);
	text(r, trace_sample_name(sample->type));
	number(r, sample->weight);
	stack_text(r, sample->stack);
	kind(r, sample->task);
	return row(r, TABLE_SAMPLES);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct rows *r = ctx;

	time_of(r, off->begin_ns);
	number(r, off->end_ns - off->begin_ns);
	thread(r, off->thread);
	number(r, off->task ? off->task->number : 0);
	family(r, off->task, &off->round);
	text(r, trace_off_cpu_name(off->reason));
	syscall_text(r, off->syscall);
	return row(r, TABLE_OFF_CPU);
}

static int on_syscall(void *ctx, const struct tl_syscall *call)
{
	struct rows *r = ctx;

	time_of(r, call->begin_ns);
	number(r, call->end_ns - call->begin_ns);
	thread(r, call->thread);
	number(r, call->task ? call->task->number : 0);
	family(r, call->task, &call->round);
	syscall_text(r, call->number + 1u);
	number(r, (uint64_t)call->result);
	return row(r, TABLE_SYSCALLS);
}

static int on_thread_end(void *ctx, const struct tl_thread *t)
{
	struct rows *r = ctx;
	const struct trace_thread *tt = trace_reader_thread(r->reader, t->thread);
	const struct trace_process *tp = trace_reader_process(r->reader, tt ? tt->process : 0);
	_cleanup_free_ char *name = safe(tt ? tt->name : "");

	thread(r, t->thread);
	text(r, name);
	number(r, tp ? tp->pid : 0);
	number(r, t->worker);
	number(r, t->root);
	time_of(r, t->begin_ns);
	time_of(r, t->end_ns);
	number(r, t->n_polls);
	number(r, t->busy_ns);
	number(r, t->parked_ns);
	number(r, t->blocked_ns);
	number(r, t->lost);
	return row(r, TABLE_THREADS);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	struct rows *r = ctx;

	time_of(r, loss->begin_ns);
	number(r, loss->end_ns - loss->begin_ns);
	thread(r, loss->thread);
	number(r, loss->n_events);
	number(r, loss->aux);
	return row(r, TABLE_LOSSES);
}

static const struct timeline_sink rows_sink = {
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.park = on_park,
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.future_end = on_future_end,
	.loss = on_loss,
	.thread_end = on_thread_end,
	.stray_wake = on_stray_wake,
};

/* The trace itself, a row per process. */
static int trace_rows(struct rows *r, const struct export_options *opt,
		      const struct timeline_totals *totals)
{
	for (uint32_t i = 0; i < trace_reader_n_processes(r->reader); i++) {
		const struct trace_process *tp = trace_reader_process(r->reader, i);
		_cleanup_free_ char *exe = safe(tp ? tp->exe : "");
		_cleanup_free_ char *cmdline = safe(tp ? tp->cmdline : "");

		number(r, ROWS_VERSION);
		text(r, "pollux " POLLUX_VERSION);
		number(r, tp ? tp->pid : 0);
		text(r, exe);
		text(r, cmdline);
		number(r, tp ? tp->start_realtime_ns + (r->base_ns - tp->start_ns) : 0);
		number(r, opt->filter.from_ns);
		number(r, replay_length_ns(r->reader, &opt->filter, r->base_ns, totals->last_ns));
		number(r, totals->n_events);
		number(r, totals->n_lost);
		TRY(row(r, TABLE_TRACE));
	}
	return 0;
}

static void rows_done(struct rows *r)
{
	for (uint32_t i = 0; i < r->n_names; i++)
		free(r->names[i]);
	free(r->names);
	for (uint32_t i = 0; i < r->n_places; i++) {
		free(r->places[i].place);
		free(r->places[i].awaits);
	}
	free(r->places);
	buf_done(&r->stack);
	buf_done(&r->call);
	kind_labels_done(&r->labels);
}

/* Names of kinds are known when all events have been read. */
static int read_names(struct rows *r, struct error *err)
{
	TRY(replay_use_kinds(r->reader, err));
	return kind_labels_make(r->reader, &r->labels) < 0
		       ? error_set(err, -ENOMEM, "out of memory")
		       : 0;
}

int rows_make(struct trace_reader *reader, const struct export_options *opt, row_fn fn, void *ctx,
	      struct error *err)
{
	struct rows r = {.reader = reader, .fn = fn, .ctx = ctx};
	struct timeline_totals totals = {0};
	int ret = read_names(&r, err);

	if (ret == 0)
		ret = timeline_replay(reader, &opt->filter, &rows_sink, &r, opt->progress,
				      opt->progress_ctx, &totals, &r.base_ns, err);
	if (ret == 0)
		ret = trace_rows(&r, opt, &totals);
	rows_done(&r);
	return ret;
}
