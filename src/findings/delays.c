/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tasks that were ready, and waited for a worker. */
#include "findings/rule.h"
#include "findings/windows.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

#define DELAY_NS (10 * NSEC_PER_MSEC)

struct delay_state {
	struct rule_state st;
	struct windows windows;
	uint64_t open_ns, open_since_ns; /* the longest that had not ended with the trace */
	uint32_t open_kind;
	uint64_t open_serial, open_number;
};

static int delay_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct delay_state *s = ctx;

	windows_poll(&s->windows, poll);
	if (poll->task->role != TR_TASK || !poll->begin_seen || !poll->scheduled_ns)
		return 0;
	windows_add(&s->windows, poll->scheduled_ns, poll->begin_ns, poll->thread, poll->task);
	return 0;
}

static int delay_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct delay_state *s = ctx;
	uint64_t ns = wait->end_ns - wait->begin_ns;

	if (!wait->open || wait->state != TS_SCHEDULED || wait->task->role != TR_TASK)
		return 0;
	if (ns > s->open_ns) {
		s->open_ns = ns;
		s->open_since_ns = wait->begin_ns;
		s->open_kind = wait->task->kind;
		s->open_serial = wait->task->serial;
		s->open_number = wait->task->number;
	}
	return 0;
}

/* The runtime of a blocking client has none: it runs within block_on only. */
static bool has_workers(const struct findings_facts *facts)
{
	bool roots = false;

	for (size_t i = 0; i < facts->n_threads; i++) {
		if (facts->threads[i].worker && !facts->threads[i].root)
			return true;
		roots = roots || facts->threads[i].root;
	}
	return !roots;
}

static int judge_delay(struct rule_state *st)
{
	struct delay_state *s = (struct delay_state *)st;
	const struct finding_window *w = s->windows.n ? &s->windows.top[0] : NULL;
	uint64_t ns = w ? w->end_ns - w->begin_ns : 0;
	bool open = s->open_ns > ns;

	if (open)
		ns = s->open_ns;
	if (ns < DELAY_NS)
		return 0;
	struct finding_draft *d = rule_finds(st, finding_score(30, 30, ns, NSEC_PER_SEC, 1));
	if (!d)
		return 0;
	buf_str(&d->text, "a task was ready but waited ");
	text_duration(&d->text, ns);
	buf_str(&d->text,
		has_workers(rule_facts(st)) ? " for a worker (" : " for a block_on to poll it (");
	if (open) {
		buf_str(&d->text, "not polled by the end");
	} else {
		buf_str(&d->text, "polled at ");
		say_time(st, &d->text, w->end_ns);
	}
	buf_str(&d->text, "): ");
	d->f.kind = open ? s->open_kind : w->kind;
	finding_spans(d, open ? s->open_since_ns : w->begin_ns,
		      open ? s->open_since_ns + ns : w->end_ns);
	finding_of(d, open ? s->open_serial : w->serial, open ? s->open_number : w->task);
	if (!open)
		finding_on(d, w->thread);
	say_family(st, &d->text, d->f.kind);
	if (!open && w->poll_number) {
		buf_str(&d->text, ", while its worker was in a poll of ");
		say_family(st, &d->text, w->poll_kind);
	} else if (!open && rule_cpu_lacked_ns(st, w->thread)) {
		buf_str(&d->text, ", perhaps because its thread had no CPU");
	}
	return 0;
}

static int delay_on_park(void *ctx, const struct tl_park *park)
{
	windows_park(&((struct delay_state *)ctx)->windows, park);
	return 0;
}

const struct finding_rule rule_delay = {
	.name = "delay",
	.title = "ready, but not polled",
	.sink =
		&(const struct timeline_sink){
			.poll = delay_on_poll,
			.wait = delay_on_wait,
			.park = delay_on_park,
		},
	.state_bytes = sizeof(struct delay_state),
	.judge = judge_delay,
};

/* ---- many are ready ---- */

#define DEPTH_MANY 100 /* tasks that are ready, on average */

struct depth_state {
	struct rule_state st;
	double ready_ns;     /* of all tasks together */
	struct map families; /* by kind: uint64_t, ns */
};

static int depth_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct depth_state *s = ctx;
	uint64_t ns = wait->end_ns - wait->begin_ns, *family;

	if (wait->state != TS_SCHEDULED || wait->task->role != TR_TASK)
		return 0;
	family = map_get_or_new(&s->families, wait->task->kind, 0, sizeof(*family));
	if (!family)
		return -ENOMEM;
	*family += ns;
	s->ready_ns += (double)ns;
	return 0;
}

static int judge_depth(struct rule_state *st)
{
	struct depth_state *s = (struct depth_state *)st;
	uint64_t length_ns = rule_facts(st)->scope.length_ns, most = 0;
	double depth = length_ns ? s->ready_ns / (double)length_ns : 0;
	uint32_t worst = TRACE_KIND_NONE;
	const struct map_entry *e;
	size_t pos = 0;

	if (depth < DEPTH_MANY)
		return 0;
	while ((e = map_next(&s->families, &pos))) {
		uint64_t ns = *(const uint64_t *)e->value;

		if (ns > most || (ns == most && e->a < worst)) {
			most = ns;
			worst = (uint32_t)e->a;
		}
	}
	struct finding_draft *d = rule_finds(st, finding_score(30, 30, (uint64_t)depth, 1000, 1));
	if (!d)
		return 0;
	text_exact(&d->text, (uint64_t)depth);
	buf_str(&d->text, " tasks were ready on average, and waited for a worker; most of ");
	say_family(st, &d->text, worst);
	if (rule_any_cpu_is_short(st))
		buf_str(&d->text, ", perhaps because threads had no CPU");
	d->f.kind = worst;
	return 0;
}

static void done_depth(struct rule_state *st)
{
	map_free(&((struct depth_state *)st)->families, free);
}

const struct finding_rule rule_queue_depth = {
	.name = "queue-depth",
	.title = "many tasks are ready",
	.advice = "there is more work than the workers do: take on less at a time, make polls "
		  "cheaper, or give the runtime more workers and CPUs",
	.sink = &(const struct timeline_sink){.wait = depth_on_wait},
	.state_bytes = sizeof(struct depth_state),
	.judge = judge_depth,
	.done = done_depth,
};

/* ---- spawned, never polled ---- */

#define STARVED_NS (10 * NSEC_PER_MSEC)

/* At every cut of a busy program tasks are ready: those count that wait long, and longer than any of
 * their family that was polled. */
struct family_delays {
	uint64_t n_starved, starved_ns, polled_ns;
	uint64_t since_ns, serial, number; /* of the one that waited longest */
};

struct never_state {
	struct rule_state st;
	struct map families; /* by kind */
};

static int never_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct never_state *s = ctx;
	struct family_delays *f;
	uint64_t ns;

	if (!poll->begin_seen || !poll->scheduled_ns || !tl_role_counts(poll->task->role))
		return 0;
	f = map_get_or_new(&s->families, poll->task->kind, 0, sizeof(*f));
	if (!f)
		return -ENOMEM;
	ns = poll->begin_ns - poll->scheduled_ns;
	if (ns > f->polled_ns)
		f->polled_ns = ns;
	return 0;
}

static int never_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct never_state *s = ctx;
	uint64_t ns = wait->end_ns - wait->begin_ns;
	struct family_delays *f;

	if (!wait->open || wait->state != TS_SCHEDULED || !wait->task->spawn_seen ||
	    wait->task->n_polls || !tl_role_counts(wait->task->role))
		return 0;
	f = map_get_or_new(&s->families, wait->task->kind, 0, sizeof(*f));
	if (!f)
		return -ENOMEM;
	if (ns < STARVED_NS || ns <= f->polled_ns)
		return 0;
	f->n_starved++;
	if (ns > f->starved_ns) {
		f->starved_ns = ns;
		f->since_ns = wait->begin_ns;
		f->serial = wait->task->serial;
		f->number = wait->task->number;
	}
	return 0;
}

static int judge_never(struct rule_state *st)
{
	struct never_state *s = (struct never_state *)st;
	const struct family_delays *longest = NULL;
	uint64_t n = 0, ns = 0, most = 0;
	uint32_t worst = TRACE_KIND_NONE;
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->families, &pos))) {
		const struct family_delays *f = e->value;

		n += f->n_starved;
		if (f->starved_ns > ns) {
			ns = f->starved_ns;
			longest = f;
		}
		if (f->n_starved > most || (f->n_starved == most && e->a < worst)) {
			most = f->n_starved;
			worst = (uint32_t)e->a;
		}
	}
	if (!longest)
		return 0;
	struct finding_draft *d = rule_finds(st, finding_score(35, 35, ns, NSEC_PER_SEC, 1));
	if (!d)
		return 0;
	say_count(&d->text, n, "task was", "tasks were");
	buf_str(&d->text, " spawned, but not polled by the end, for up to ");
	text_duration(&d->text, ns);
	buf_str(&d->text, n == 1 ? ": " : "; most of ");
	say_family(st, &d->text, worst);
	d->f.kind = worst;
	finding_spans(d, longest->since_ns, longest->since_ns + ns);
	finding_of(d, longest->serial, longest->number);
	return 0;
}

static void done_never(struct rule_state *st)
{
	map_free(&((struct never_state *)st)->families, free);
}

const struct finding_rule rule_never_polled = {
	.name = "never-polled",
	.title = "spawned, but never polled",
	.sink = &(const struct timeline_sink){.poll = never_on_poll, .wait = never_on_wait},
	.state_bytes = sizeof(struct never_state),
	.judge = judge_never,
	.done = done_never,
};
