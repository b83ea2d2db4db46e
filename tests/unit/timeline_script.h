/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A timeline that is played from a script, for tests of which each is a row of docs/timeline.md.
 * Lines are
 *
 *     TIME THREAD EVENT [KIND TASK] [ARG]
 *
 * and the sink's callbacks are compared, one line for each. Included once by a test program.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/buf.h"
#include "timeline/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *word;
	struct trace_kind kind;
} kinds[] = {
	{"task", {.role = TR_TASK, .name = "app::task", .full_name = "app::task"}},
	{"other", {.role = TR_TASK, .name = "app::other", .full_name = "app::other"}},
	{"blocking", {.role = TR_BLOCKING, .name = "app::job", .full_name = "app::job"}},
	{"worker", {.role = TR_WORKER, .name = "Launch::launch", .full_name = "Launch::launch"}},
	{"inplace", {.role = TR_WORKER, .name = "block_in_place", .full_name = "block_in_place"}},
	{"addr", {.role = TR_TASK, .address_named = 1, .name = "smol", .full_name = "smol"}},
	{"job", {.role = TR_BLOCKING, .address_named = 1, .name = "unblock"}},
	{"kind6", {.role = TR_TASK, .name = "kind 6"}},
	{"kind7", {.role = TR_TASK, .name = "kind 7"}},
	{"root", {.role = TR_ROOT, .name = "block_on", .scheduler = "multi_thread"}},
	{"loop",
	 {.role = TR_ROOT, .name = "block_on (current_thread)", .scheduler = "current_thread"}},
	{"loop2",
	 {.role = TR_ROOT, .name = "block_on (current_thread)", .scheduler = "current_thread"}},
	{"outer", {.role = TR_FUTURE, .name = "app::outer", .full_name = "app::outer"}},
	{"inner", {.role = TR_FUTURE, .name = "app::inner", .full_name = "app::inner"}},
	{"leaf", {.role = TR_FUTURE, .name = "app::leaf", .full_name = "app::leaf"}},
	{"main", {.role = TR_ROOT, .name = "main", .full_name = "main"}},
	{"order", {.role = TR_FUTURE, .name = "app::order", .flags = TRACE_KIND_HANDLER}},
	{"hello", {.role = TR_FUTURE, .name = "app::hello", .flags = TRACE_KIND_HANDLER}},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct {
	const char *word;
	unsigned type, arg;
} words[] = {
	{"spawn", TE_SPAWN, 0},
	{"poll", TE_POLL_BEGIN, 0},
	{"pending", TE_POLL_END, TO_PENDING},
	{"ready", TE_POLL_END, TO_READY},
	{"panicked", TE_POLL_END, TO_PANICKED},
	{"cancelled", TE_POLL_END, TO_CANCELLED},
	{"unpolled", TE_POLL_END, TO_ABORTED},
	{"ended", TE_POLL_END, TO_UNKNOWN},
	{"unseen", TE_POLL_END, TO_UNSEEN},
	{"wake", TE_WAKE, TW_SCHEDULED},
	{"wake-running", TE_WAKE, TW_RUNNING},
	{"wake-noop", TE_WAKE, TW_NOOP},
	{"wake-unknown", TE_WAKE, TW_UNKNOWN},
	{"schedule", TE_SCHEDULE, 0},
	{"cancel", TE_CANCEL, 0},
	{"drop", TE_DROP, 0},
	{"park", TE_PARK, 1},
	{"epoll", TE_PARK, 2},
	{"sleep", TE_PARK, 7},
	{"unpark", TE_UNPARK, 1},
	{"nothing", TE_UNPARK, 2 | TRACE_CALL_IDLE},
	{"block", TE_BLOCK, 7},
	{"send", TE_BLOCK, 21 | TRACE_CALL_NONBLOCKING},
	{"yield", TE_BLOCK, 37},
	{"thread-begin", TE_THREAD_BEGIN, 0},
	{"thread-end", TE_THREAD_END, 0},
	{"process-end", TE_THREAD_END, TRACE_END_OF_PROCESS},
	{"lost", TE_LOST, 0},
	{"enter", TE_ROOT_ENTER, 0},
	{"before", TE_ROOT_ENTER, TRACE_ROOT_BEFORE},
	{"root-wake", TE_ROOT_WAKE, 0},
	{"spawn-named", TE_SPAWN, TRACE_SPAWN_NAMED},
	{"spawn-of", TE_SPAWN, TRACE_SPAWN_NAMED | TRACE_SPAWN_PARENT},
	{"done", TE_CANCEL, TO_READY},
	{"future", TE_FUTURE_BEGIN, 0},
	{"future-first", TE_FUTURE_BEGIN, TRACE_FUTURE_FIRST},
	{"f-pending", TE_FUTURE_END, TO_PENDING},
	{"f-ready", TE_FUTURE_END, TO_READY},
	{"f-panicked", TE_FUTURE_END, TO_PANICKED},
	{"f-dropped", TE_FUTURE_END, TO_CANCELLED},
	{"f-ended", TE_FUTURE_END, TO_UNKNOWN},
	{"syscall", TE_SYSCALL, 202},
	{"slept", TE_OFF_CPU, TX_SLEEPING},
	{"preempted", TE_OFF_CPU, TX_PREEMPTED},
	{"left-cpu", TE_LEFT_CPU, 0},
	{"got-cpu", TE_GOT_CPU, 0},
	{"woken", TE_WOKEN, 0},
	{"ran", TE_RAN_INSTEAD, 0},
	{"sample", TE_SAMPLE, TM_CPU_CLOCK},
	{"m-starting", TE_MACHINE, TC_STARTING},
	{"m-task", TE_MACHINE, TC_TASK_LOCAL},
	{"m-blocked", TE_MACHINE, TC_BLOCKED},
	{"lost-beside", TE_LOST, 0},
};

static const char *const outcomes[] = {"pending",   "ready",   "panicked",
				       "cancelled", "unknown", "unpolled"};
static const char *const states[] = {"unknown", "scheduled", "polling", "waiting", "done"};
static const char *const effects[] = {"scheduled", "running", "noop", "unknown"};

struct stage {
	struct timeline *tl;
	struct buf log;
};

static const struct trace_kind *stage_kind(const void *ctx, uint32_t kind)
{
	return kind < N_KINDS ? &kinds[kind].kind : NULL;
}

static const char *word_of(uint32_t kind)
{
	return kind < N_KINDS ? kinds[kind].word : "?";
}

/* " of order 3": the round that it belongs to */
static void log_round(struct stage *s, const struct tl_round *round)
{
	if (round->serial)
		buf_printf(&s->log, " of %s %lu", word_of(round->kind), round->serial);
}

static int on_task_begin(void *ctx, struct tl_task *t)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "+%lu %s %lu %s %lu", t->serial, word_of(t->kind), t->id,
		   t->spawn_seen ? "spawned" : "seen", t->spawn_ns);
	if (t->parent)
		buf_printf(&s->log, " by %lu", t->parent);
	buf_char(&s->log, '\n');
	return 0;
}

static int on_task_end(void *ctx, struct tl_task *t)
{
	struct stage *s = ctx;
	if (t->outcome == TO_PENDING)
		buf_printf(&s->log, "-%lu alive %s\n", t->serial, states[t->state]);
	else
		buf_printf(&s->log, "-%lu %s %lu\n", t->serial, outcomes[t->outcome], t->end_ns);
	return 0;
}

static int on_poll(void *ctx, const struct tl_poll *p)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "poll %lu t%u %lu-%lu %s", p->task->serial, p->thread, p->begin_ns,
		   p->end_ns, outcomes[p->outcome]);
	if (p->scheduled_ns)
		buf_printf(&s->log, " since %lu", p->scheduled_ns);
	if (p->wake_serial)
		buf_printf(&s->log, " w%lu", p->wake_serial);
	if (p->place)
		buf_printf(&s->log, " at %lu", p->place);
	if (p->depth)
		buf_printf(&s->log, " depth %u", p->depth);
	if (p->n_blocks)
		buf_printf(&s->log, " blocked %u*%lu", p->n_blocks, p->blocked_ns);
	buf_printf(&s->log, "%s%s%s%s", p->woken_inside ? " woken" : "",
		   p->begin_seen ? "" : " unseen", p->end_seen ? "" : " end unseen",
		   p->inferred ? " inferred" : "");
	log_round(s, &p->round);
	buf_char(&s->log, '\n');
	return 0;
}

static int on_wait(void *ctx, const struct tl_wait *w)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "%s %lu %lu-%lu", states[w->state], w->task->serial, w->begin_ns,
		   w->end_ns);
	if (w->place)
		buf_printf(&s->log, " at %lu", w->place);
	log_round(s, &w->round);
	buf_char(&s->log, '\n');
	return 0;
}

static int on_wake(void *ctx, const struct tl_wake *w)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "w%lu %lu t%u %lu %s", w->serial, w->task->serial, w->thread,
		   w->time_ns, effects[w->effect]);
	if (w->source_task)
		buf_printf(&s->log, " by %lu", w->source_task->serial);
	buf_printf(&s->log, "%s%s", w->by_waker ? "" : " queue", w->deferred ? " deferred" : "");
	log_round(s, &w->round);
	buf_char(&s->log, '\n');
	return 0;
}

static int on_block(void *ctx, const struct tl_block *b)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "block %lu t%u %u %lu-%lu%s", b->task->serial, b->thread, b->call,
		   b->begin_ns, b->end_ns, b->keeps_worker ? "" : " aside");
	log_round(s, &b->round);
	buf_char(&s->log, '\n');
	return 0;
}

static int on_section(void *ctx, const struct tl_section *x)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "section %lu t%u %lu-%lu\n", x->task->serial, x->thread, x->begin_ns,
		   x->end_ns);
	return 0;
}

static int on_park(void *ctx, const struct tl_park *p)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "park t%u %u %lu-%lu\n", p->thread, p->call, p->begin_ns, p->end_ns);
	return 0;
}

static int on_loss(void *ctx, const struct tl_loss *l)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "loss t%u %lu-%lu %lu%s\n", l->thread, l->begin_ns, l->end_ns,
		   l->n_events, l->aux ? " beside" : "");
	return 0;
}

static int on_stray_wake(void *ctx, uint32_t kind, uint32_t thread, uint64_t time_ns)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "stray %s t%u %lu\n", word_of(kind), thread, time_ns);
	return 0;
}

static int on_worker_begin(void *ctx, uint32_t thread, uint64_t time_ns)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "worker t%u %lu-\n", thread, time_ns);
	return 0;
}

static int on_worker_end(void *ctx, uint32_t thread, uint64_t time_ns)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "worker t%u -%lu\n", thread, time_ns);
	return 0;
}

/* " of 3 depth 2": the task, and the futures around */
static void log_around(struct stage *s, const struct tl_task *task, uint32_t depth,
		       const struct tl_round *round)
{
	if (task)
		buf_printf(&s->log, " of %lu", task->serial);
	if (depth)
		buf_printf(&s->log, " depth %u", depth);
	if (round)
		log_round(s, round);
	buf_char(&s->log, '\n');
}

static int on_syscall(void *ctx, const struct tl_syscall *c)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "syscall %u=%ld t%u %lu-%lu", c->number, c->result, c->thread,
		   c->begin_ns, c->end_ns);
	log_around(s, c->task, c->depth, &c->round);
	return 0;
}

/* " cpu 1>2 to 7 after 8 woken 15 by 9 7:12-15": numbers + 1, as there */
static void log_switch(struct stage *s, const struct tl_switch *how)
{
	if (!how)
		return;
	buf_printf(&s->log, " cpu %u>%u to %u after %u", how->left_cpu, how->got_cpu, how->next,
		   how->before);
	if (how->woken_ns)
		buf_printf(&s->log, " woken %lu by %u", how->woken_ns, how->waker);
	for (uint32_t i = 0; i < how->n_ran; i++)
		buf_printf(&s->log, " %u:%lu-%lu", how->ran[i].neighbour, how->ran[i].begin_ns,
			   how->ran[i].end_ns);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *o)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "off %u in %u t%u %lu-%lu", o->reason, o->syscall, o->thread,
		   o->begin_ns, o->end_ns);
	log_switch(s, o->how);
	log_around(s, o->task, o->depth, &o->round);
	return 0;
}

static int on_sample(void *ctx, const struct tl_sample *x)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "sample %u t%u %lu %lu stack %lu", x->type, x->thread, x->time_ns,
		   x->weight, x->stack);
	log_around(s, x->task, x->depth, &x->round);
	return 0;
}

static int on_future_poll(void *ctx, const struct tl_future_poll *p)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "future %lu %s t%u %lu-%lu %s%s self %lu", p->future->serial,
		   word_of(p->future->kind), p->thread, p->begin_ns, p->end_ns,
		   outcomes[p->outcome], p->end_seen ? "" : " end unseen", p->self_ns);
	if (p->waited_ns)
		buf_printf(&s->log, " waited %lu", p->waited_ns);
	if (p->future->parent)
		buf_printf(&s->log, " in %lu", p->future->parent->serial);
	if (p->place)
		buf_printf(&s->log, " at %lu", p->place);
	log_around(s, p->task, p->depth, &p->future->round);
	return 0;
}

static int on_future_end(void *ctx, struct tl_future *f)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "future %lu %s", f->serial, f->end_ns ? outcomes[f->outcome] : "alive");
	if (f->end_ns)
		buf_printf(&s->log, " %lu", f->end_ns);
	buf_printf(&s->log, ": %lu polls %lu self %lu waited %lu\n", f->n_polls, f->poll_ns,
		   f->self_ns, f->wait_ns);
	return 0;
}

static int on_machine(void *ctx, const struct tl_machine *m)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "machine %lu %u %lu", m->machine, m->type, m->time_ns);
	log_around(s, m->task, 0, NULL);
	return 0;
}

static const struct timeline_sink sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.section = on_section,
	.park = on_park,
	.loss = on_loss,
	.stray_wake = on_stray_wake,
	.worker_begin = on_worker_begin,
	.worker_end = on_worker_end,
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.future_poll = on_future_poll,
	.future_end = on_future_end,
	.machine = on_machine,
};

static struct stage *stage_new(void)
{
	struct stage *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	s->tl = timeline_new(&sink, s, stage_kind, NULL);
	assert_non_null(s->tl);
	return s;
}

static void play_line(struct stage *s, const char *line)
{
	unsigned long time, task = 0, value = 0;
	unsigned thread;
	char word[32], kind[32] = "";
	if (sscanf(line, "finish %lu", &time) == 1) {
		assert_int_equal(timeline_finish(s->tl, time, NULL), 0);
		return;
	}
	int n = sscanf(line, "%lu %u %31s %31s %lu %lu", &time, &thread, word, kind, &task, &value);
	assert_true(n >= 3);
	struct trace_event ev = {.time = time, .thread = thread, .kind = TRACE_KIND_NONE};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strcmp(words[i].word, word)) {
			ev.type = words[i].type;
			ev.arg = words[i].arg;
		}
	}
	assert_int_not_equal(ev.type, TE_NONE);
	for (size_t i = 0; i < N_KINDS; i++)
		if (!strcmp(kinds[i].word, kind))
			ev.kind = i;
	bool no_kind = (ev.type >= TE_LEFT_CPU && ev.type <= TE_RAN_INSTEAD) ||
		       ev.type == TE_BLOCK || ev.type == TE_LOST || ev.type == TE_SYSCALL ||
		       ev.type == TE_OFF_CPU || ev.type == TE_SAMPLE;
	if (no_kind)
		ev.value = strtoul(kind, NULL, 10); /* ns, events, or a stack */
	else if (n >= 4 && strcmp(kind, "-"))
		assert_int_not_equal(ev.kind, TRACE_KIND_NONE);
	if (!no_kind)
		ev.value = value;
	if (!strcmp(word, "lost-beside"))
		ev.stream = 9;
	ev.task = task;
	assert_int_equal(timeline_feed(s->tl, &ev, NULL), 0);
}

static void play(struct stage *s, const char *lines)
{
	while (*lines) {
		size_t len = strcspn(lines, "\n");
		char line[128];
		assert_true(len < sizeof(line));
		memcpy(line, lines, len);
		line[len] = 0;
		play_line(s, line);
		lines += len + (lines[len] == '\n');
	}
}

static void expect_log(struct stage *s, const char *want)
{
	assert_string_equal(s->log.data ? s->log.data : "", want);
	buf_clear(&s->log);
}

static struct timeline_totals stage_end(struct stage *s)
{
	struct timeline_totals t;
	timeline_totals(s->tl, &t);
	assert_int_equal(t.spawned + t.unspawned,
			 t.completed + t.cancelled + t.panicked + t.ended_unknown + t.alive);
	timeline_free(s->tl);
	buf_done(&s->log);
	free(s);
	return t;
}

/* Plays, compares, returns the totals. */
static struct timeline_totals story(const char *lines, const char *want)
{
	struct stage *s = stage_new();
	play(s, lines);
	expect_log(s, want);
	return stage_end(s);
}

#define ROW(n) static void row_##n(void **state)
#define TEST(n) cmocka_unit_test(row_##n)
