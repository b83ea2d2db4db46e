/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lives of tasks: those that panicked or were cancelled, families that only grow. */
#include "findings/rule.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tasks_family {
	enum trace_role role;
	uint64_t n_spawned, n_ended, n_panicked, first_panic_ns;
	double spawn_sum_ns; /* of the times of the spawns, since the first */
	uint64_t first_spawn_ns;
	/* Of those that wait when the trace ends: for sockets; elsewhere, and where the last one. */
	uint64_t n_at_sockets, n_elsewhere, place;
	uint64_t panicked_task, panicked_serial;
	/* Of those that are cancelled, after a poll: with the length of their lives, where it is known. */
	uint64_t n_cancelled, n_lives, lives_ns, cancelled_task, cancelled_serial;
	uint64_t panic_stack, panic_message; /* of the first for which they are known: 1 + index */
};

/* Where a task's last panic started: one that unwinds now, as many as there are threads. A power of two. */
#define N_LAST_PANICS (1u << 8)

struct last_panic {
	uint64_t serial, stack, message;
};

struct tasks_state {
	struct rule_state st;
	struct map families; /* by kind */
	/* What the last one of those that wait when the trace ends waits for, by its place: many wait
	 * at one. */
	uint64_t last_place;
	enum wait_for last_for;
	struct last_panic panics[N_LAST_PANICS]; /* by serial, modulo N_LAST_PANICS */
};

static struct tasks_family *tasks_family(struct tasks_state *s, uint32_t kind)
{
	return map_get_or_new(&s->families, kind, 0, sizeof(struct tasks_family));
}

static void done_tasks(struct rule_state *st)
{
	map_free(&((struct tasks_state *)st)->families, free);
}

/* ---- panics ---- */

static int panicked_on_sample(void *ctx, const struct tl_sample *sample)
{
	struct tasks_state *s = ctx;

	if (sample->type == TM_PANIC && sample->task)
		s->panics[sample->task->serial % N_LAST_PANICS] =
			(struct last_panic){sample->task->serial, sample->stack, sample->message};
	return 0;
}

static int panicked_on_task_end(void *ctx, struct tl_task *task)
{
	const struct last_panic *p =
		&((struct tasks_state *)ctx)->panics[task->serial % N_LAST_PANICS];
	struct tasks_family *f;

	if (task->outcome != TO_PANICKED)
		return 0;
	f = tasks_family(ctx, task->kind);
	if (!f)
		return -ENOMEM;
	if (!f->n_panicked++) {
		f->first_panic_ns = task->end_ns;
		f->panicked_task = task->number;
		f->panicked_serial = task->serial;
	}
	if (!f->panic_stack && p->serial == task->serial) {
		f->panic_stack = p->stack;
		f->panic_message = p->message;
	}
	return 0;
}

/* What core's and std's panics pass through: of others the payload may be no text. */
static bool says_text(const struct trace_reader *r, uint64_t stack)
{
	for (unsigned n = 0; stack && n < TRACE_STACK_FRAMES; n++) {
		const struct trace_stack *s = trace_reader_stack(r, (uint32_t)(stack - 1));
		const struct trace_frame *f = s ? trace_reader_frame(r, s->frame) : NULL;

		if (f && f->function && strstr(f->function, "rust_begin_unwind"))
			return true;
		stack = s ? s->parent : 0;
	}
	return false;
}

/* Whether the task's join handle is held, where the memory at the end says it. */
static void say_handle(const struct rule_state *st, struct buf *out, uint32_t kind, uint64_t number)
{
	const struct findings_facts *facts = rule_facts(st);
	const struct trace_kind *k = trace_reader_kind(facts->reader, kind);

	for (size_t i = 0; k && i < facts->n_moments; i++) {
		const struct rule_moment *rm = &facts->moments[i];

		if (rm->m.process != k->process || rm->m.when != MOMENT_END || !number)
			continue;
		for (size_t t = 0; t < rm->m.n_tasks; t++)
			if (rm->kinds[t] == kind && rm->m.tasks[t].id == number &&
			    rm->m.tasks[t].state == IS_DONE && rm->m.tasks[t].join_interest)
				buf_str(out, "; its JoinHandle is kept, but was never awaited");
	}
}

/* Its place, and what it says, as far as known. */
static void say_panic(const struct rule_state *st, struct buf *out, const struct tasks_family *f)
{
	const struct trace_reader *r = rule_facts(st)->reader;
	_cleanup_buf_ struct buf place = BUF_INIT;
	const char *message = f->panic_message && says_text(r, f->panic_stack)
				      ? trace_reader_message(r, (uint32_t)(f->panic_message - 1))
				      : NULL;

	if (say_stack(st, &place, f->panic_stack) && place.data)
		buf_printf(out, ", in %s", place.data);
	if (message) {
		buf_str(out, ": \"");
		text_safe(out, message);
		buf_char(out, '"');
	}
}

static int judge_panicked(struct rule_state *st)
{
	struct tasks_state *s = (struct tasks_state *)st;
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->families, &pos))) {
		const struct tasks_family *f = e->value;
		uint32_t kind = (uint32_t)e->a;
		struct finding_draft *d;

		if (!f->n_panicked)
			continue;
		d = rule_finds(st, finding_score(70, 20, f->n_panicked, 10, 1));
		if (!d)
			return 0;
		say_count(&d->text, f->n_panicked, "task panicked:", "tasks panicked:");
		buf_char(&d->text, ' ');
		say_family(st, &d->text, kind);
		buf_printf(&d->text,
			   f->n_panicked > 1 ? ", first task %llu at " : ", task %llu at ",
			   (unsigned long long)f->panicked_task);
		say_time(st, &d->text, f->first_panic_ns);
		say_panic(st, &d->text, f);
		say_handle(st, &d->text, kind, f->panicked_task);
		d->f.kind = kind;
		d->f.stack = f->panic_stack;
		finding_spans(d, f->first_panic_ns, f->first_panic_ns);
		finding_of(d, f->panicked_serial, f->panicked_task);
	}
	return 0;
}

const struct finding_rule rule_panicked = {
	.name = "panicked",
	.title = "tasks that panicked",
	.advice = "await the task's JoinHandle, whose error has the panic's message",
	.sink = &(const struct timeline_sink){.task_end = panicked_on_task_end,
					      .sample = panicked_on_sample},
	.state_bytes = sizeof(struct tasks_state),
	.judge = judge_panicked,
	.done = done_tasks,
};

/* ---- a family that grows ---- */

#define GROWTH_SPAWNS 20
#define GROWTH_ENDED 20 /* at most one of this number has ended */

static int growth_on_task_begin(void *ctx, struct tl_task *task)
{
	struct tasks_family *f;

	if (!task->spawn_seen || !tl_role_counts(task->role))
		return 0;
	f = tasks_family(ctx, task->kind);
	if (!f)
		return -ENOMEM;
	if (!f->n_spawned++)
		f->first_spawn_ns = task->spawn_ns;
	if (task->spawn_ns > f->first_spawn_ns)
		f->spawn_sum_ns += (double)(task->spawn_ns - f->first_spawn_ns);
	f->role = task->role;
	return 0;
}

static int growth_on_task_end(void *ctx, struct tl_task *task)
{
	struct tasks_family *f =
		task->end_ns && task->spawn_seen ? tasks_family(ctx, task->kind) : NULL;

	if (!task->end_ns || !task->spawn_seen)
		return 0;
	if (!f)
		return -ENOMEM;
	f->n_ended += task->outcome != TO_PENDING;
	return 0;
}

static int growth_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct tasks_state *s = ctx;
	struct tasks_family *f;

	if (!wait->open || wait->state != TS_WAITING)
		return 0;
	f = tasks_family(s, wait->task->kind);
	if (!f)
		return -ENOMEM;
	if (wait->place != s->last_place) {
		s->last_place = wait->place;
		s->last_for = place_waits_for(&s->st, wait->place);
	}
	if (s->last_for == WF_IO) {
		f->n_at_sockets++;
	} else {
		f->n_elsewhere++;
		f->place = wait->place ? wait->place : f->place;
	}
	return 0;
}

/* Spawns all through the recording, not in one go at its begin or end: their mean time lies in the
 * middle. */
static bool grows(const struct rule_state *st, const struct tasks_family *f)
{
	const struct findings_scope *scope = &rule_facts(st)->scope;
	double mean = (double)f->first_spawn_ns + f->spawn_sum_ns / (double)f->n_spawned;
	double share = (mean - (double)scope->begin_ns) / (double)(scope->length_ns + 1);

	return f->n_spawned >= GROWTH_SPAWNS && f->n_ended * GROWTH_ENDED <= f->n_spawned &&
	       scope->length_ns >= NSEC_PER_SEC && share > 0.3 && share < 0.7;
}

static int judge_growth(struct rule_state *st)
{
	struct tasks_state *s = (struct tasks_state *)st;
	const struct findings_scope *scope = &rule_facts(st)->scope;
	const struct map_entry *e;
	size_t pos = 0;

	if (rule_lacks_events(st))
		return 0;
	while ((e = map_next(&s->families, &pos))) {
		const struct tasks_family *f = e->value;
		uint32_t kind = (uint32_t)e->a;
		struct finding_draft *d;

		if (f->role != TR_TASK || !grows(st, f) || f->n_at_sockets > f->n_elsewhere)
			continue;
		/* Connections wait for long, too: without a place they are like all others. */
		d = rule_finds(st, finding_score(f->place ? 50 : 35, f->place ? 25 : 10,
						 f->n_spawned, 1000, 1));
		if (!d)
			return 0;
		say_family(st, &d->text, kind);
		buf_str(&d->text, ": ");
		say_count(&d->text, f->n_spawned, "task was", "tasks were");
		buf_str(&d->text, " spawned (");
		text_rate(&d->text, f->n_spawned, scope->length_ns);
		buf_str(&d->text, " a second), ");
		if (f->n_ended)
			text_exact(&d->text, f->n_ended);
		else
			buf_str(&d->text, "none");
		buf_str(&d->text, " ended");
		if (f->place) {
			buf_str(&d->text, "; they wait at ");
			say_place(st, &d->text, f->place);
		}
		d->f.kind = kind;
		d->f.place = f->place;
	}
	return 0;
}

const struct finding_rule rule_growth = {
	.name = "growth",
	.title = "tasks that never end",
	.advice = "end them when they are no longer needed: abort the handle, or select! on a "
		  "shutdown "
		  "signal",
	.sink =
		&(const struct timeline_sink){
			.task_begin = growth_on_task_begin,
			.task_end = growth_on_task_end,
			.wait = growth_on_wait,
		},
	.state_bytes = sizeof(struct tasks_state),
	.judge = judge_growth,
	.done = done_tasks,
};

/* ---- tasks that are cancelled ---- */

#define CANCELLED_TASKS 20
#define CANCELLED_SHARE 90 /* percent of those that have ended */

/* That it was polled before, says that it was at work; so was one that is older than the recording. */
static int cancelled_on_task_end(void *ctx, struct tl_task *task)
{
	struct tasks_family *f;

	if (!task->end_ns || task->role != TR_TASK || task->outcome == TO_PENDING ||
	    task->outcome == TO_UNKNOWN)
		return 0;
	f = tasks_family(ctx, task->kind);
	if (!f)
		return -ENOMEM;
	f->n_ended++;
	if (task->outcome != TO_CANCELLED || (task->spawn_seen && !task->n_polls))
		return 0;
	f->n_cancelled++;
	if (task->spawn_seen) {
		f->n_lives++;
		f->lives_ns += task->end_ns - task->spawn_ns;
	}
	f->cancelled_serial = task->serial;
	f->cancelled_task = task->number;
	return 0;
}

static int cancelled_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct tasks_family *f;

	if (wait->state != TS_WAITING || wait->next != TS_DONE || !wait->place ||
	    wait->task->role != TR_TASK)
		return 0;
	f = tasks_family(ctx, wait->task->kind);
	if (!f)
		return -ENOMEM;
	f->place = wait->place;
	return 0;
}

static int judge_cancelled(struct rule_state *st)
{
	struct tasks_state *s = (struct tasks_state *)st;
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->families, &pos))) {
		const struct tasks_family *f = e->value;
		uint32_t kind = (uint32_t)e->a;
		struct finding_draft *d;

		if (f->n_cancelled < CANCELLED_TASKS ||
		    f->n_cancelled * 100 < f->n_ended * CANCELLED_SHARE)
			continue;
		/* Some are there to be cancelled: heartbeats, the losers of a race. */
		d = rule_finds(st, finding_score(25, 20, f->n_cancelled, 500, 1));
		if (!d)
			return 0;
		say_count(&d->text, f->n_cancelled, "task of ", "tasks of ");
		say_family(st, &d->text, kind);
		buf_str(&d->text, " were cancelled before they had ended");
		if (f->n_lives) {
			buf_str(&d->text, ", after ");
			text_duration(&d->text, f->lives_ns / f->n_lives);
			buf_str(&d->text, " on average");
		}
		if (f->place) {
			buf_str(&d->text, ", while they waited at ");
			say_place(st, &d->text, f->place);
		}
		buf_str(&d->text, "; ");
		if (f->n_ended > f->n_cancelled)
			text_exact(&d->text, f->n_ended - f->n_cancelled);
		else
			buf_str(&d->text, "none");
		buf_str(&d->text, " ended by itself");
		d->f.kind = kind;
		d->f.place = f->place;
		finding_of(d, f->cancelled_serial, f->cancelled_task);
	}
	return 0;
}

const struct finding_rule rule_cancelled = {
	.name = "cancelled",
	.title = "tasks that are cancelled",
	.advice = "if a timeout aborts them, it is shorter than what they do takes",
	.sink =
		&(const struct timeline_sink){
			.task_end = cancelled_on_task_end,
			.wait = cancelled_on_wait,
		},
	.needs_events = true,
	.state_bytes = sizeof(struct tasks_state),
	.judge = judge_cancelled,
	.done = done_tasks,
};
