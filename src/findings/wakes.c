/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Wakes that are too many: herds that are woken for one. */
#include "findings/rule.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

/* ---- a herd ---- */

#define HERD_WAKES 200ull
#define HERD_PAUSE_NS NSEC_PER_MSEC /* between two wakes of a herd */
#define HERD_POLL_NS (5 * NSEC_PER_USEC)
#define HERD_SHARE 80 /* percent of the polls are short and pending */

/* The wakes of one thread, of one family in a row, each of another task. */
struct herd_run {
	uint32_t kind;
	uint64_t number, source, source_number, n, first_ns, last_ns, last_task;
	uint32_t source_kind, thread;
};

/* The run in which a task was woken last; one whose place a newer one has taken counts as new. A
 * power of two. */
#define N_HERD_TASKS (1u << 14)

struct herd_task {
	uint64_t serial, run;
};

struct herd_family {
	uint64_t n_herds, most, n_polls, n_idle_polls;
	struct herd_run worst; /* the largest */
	uint64_t place;	       /* where its tasks wait: of the last poll that says it */
};

struct herd_state {
	struct rule_state st;
	struct map runs; /* by thread */
	uint64_t n_runs;
	struct herd_task tasks[N_HERD_TASKS]; /* by serial, modulo N_HERD_TASKS */
	struct map families;		      /* by kind */
};

static int end_run(struct herd_state *s, const struct herd_run *run)
{
	struct herd_family *f;

	if (run->n < HERD_WAKES)
		return 0;
	f = map_get_or_new(&s->families, run->kind, 0, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->n_herds++;
	if (run->n > f->most) {
		f->most = run->n;
		f->worst = *run;
	}
	return 0;
}

static int herd_on_wake(void *ctx, const struct tl_wake *wake)
{
	struct herd_state *s = ctx;
	uint64_t serial = wake->task->serial;
	uint64_t source = wake->source_task ? wake->source_task->serial : 0;
	struct herd_task *task = &s->tasks[serial % N_HERD_TASKS];
	struct herd_run *run;

	if (!wake->by_waker || wake->self || wake->task->role != TR_TASK)
		return 0;
	run = map_get_or_new(&s->runs, wake->thread, 0, sizeof(*run));
	if (!run)
		return -ENOMEM;
	/* One that comes again is not woken at once with those after it: they take turns. */
	if (run->kind != wake->task->kind || run->source != source ||
	    wake->time_ns > run->last_ns + HERD_PAUSE_NS ||
	    (task->serial == serial && task->run == run->number && run->last_task != serial)) {
		if (end_run(s, run) < 0)
			return -ENOMEM;
		*run = (struct herd_run){.kind = wake->task->kind,
					 .number = ++s->n_runs,
					 .thread = wake->thread,
					 .first_ns = wake->time_ns,
					 .source = source,
					 .source_number =
						 wake->source_task ? wake->source_task->number : 0,
					 .source_kind = wake->source_task ? wake->source_task->kind
									  : TRACE_KIND_NONE};
	}
	run->n += run->last_task != serial;
	run->last_task = serial;
	run->last_ns = wake->time_ns;
	*task = (struct herd_task){serial, run->number};
	return 0;
}

static int herd_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct herd_state *s = ctx;
	struct herd_family *f;

	if (!tl_poll_measured(poll) || poll->task->role != TR_TASK)
		return 0;
	f = map_get_or_new(&s->families, poll->task->kind, 0, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->n_polls++;
	if (poll->place)
		f->place = poll->place;
	f->n_idle_polls +=
		poll->outcome == TO_PENDING && poll->end_ns - poll->begin_ns < HERD_POLL_NS;
	return 0;
}

/* Of timers: each task has one of its own, and those that end at the same time are no trouble unless that
 * goes on and on. */
#define HERD_TIMERS_PER_SECOND 20

static unsigned herd_score(const struct rule_state *st, const struct herd_family *f, bool timers)
{
	uint64_t seconds = 1 + rule_facts(st)->scope.length_ns / NSEC_PER_SEC;

	return finding_score(30, 30, f->n_herds, timers ? seconds * HERD_TIMERS_PER_SECOND : 20, 1);
}

static int judge_herd(struct rule_state *st)
{
	struct herd_state *s = (struct herd_state *)st;

	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->runs, &pos)))
		if (end_run(s, e->value) < 0)
			return -ENOMEM;
	pos = 0;
	while ((e = map_next(&s->families, &pos))) {
		const struct herd_family *f = e->value;
		uint32_t kind = (uint32_t)e->a;
		struct finding_draft *d;

		if (!f->n_herds || f->n_idle_polls * 100 < f->n_polls * HERD_SHARE)
			continue;
		bool timers = f->worst.source_kind == TRACE_KIND_NONE &&
			      place_waits_for(st, f->place) == WF_TIMER;
		d = rule_finds(st, herd_score(st, f, timers));
		if (!d)
			return 0;
		buf_str(&d->text, "up to ");
		say_count(&d->text, f->most, "task", "tasks");
		buf_str(&d->text, " of ");
		say_family(st, &d->text, kind);
		buf_str(&d->text, " were woken at once");
		if (f->worst.source_kind != TRACE_KIND_NONE) {
			buf_str(&d->text, " by ");
			say_family(st, &d->text, f->worst.source_kind);
		} else if (timers) {
			buf_str(&d->text, " by their timers");
			d->f.advice = "let their timers end at different times, or let one task "
				      "have one timer and do the work of all";
		}
		buf_str(&d->text, ", ");
		say_count(&d->text, f->n_herds, "time", "times");
		buf_printf(&d->text, "; %llu %% of their polls did nothing but wait again",
			   (unsigned long long)text_percent(f->n_idle_polls, f->n_polls));
		if (f->place) {
			buf_str(&d->text, ", at ");
			say_place(st, &d->text, f->place);
			d->f.place = f->place;
		}
		d->f.kind = kind;
		finding_spans(d, f->worst.first_ns, f->worst.last_ns);
		finding_on(d, f->worst.thread);
		finding_of(d, f->worst.source, f->worst.source_number);
	}
	return 0;
}

static void done_herd(struct rule_state *st)
{
	map_free(&((struct herd_state *)st)->runs, free);
	map_free(&((struct herd_state *)st)->families, free);
}

const struct finding_rule rule_herd = {
	.name = "herd",
	.title = "a herd that is woken for one",
	.advice = "wake one task (notify_one, a semaphore, a queue) instead of all",
	.sink = &(const struct timeline_sink){.wake = herd_on_wake, .poll = herd_on_poll},
	.state_bytes = sizeof(struct herd_state),
	.judge = judge_herd,
	.done = done_herd,
};
