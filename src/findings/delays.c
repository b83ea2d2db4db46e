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

static int judge_delay(struct rule_state *st)
{
	struct delay_state *s = (struct delay_state *)st;
	const struct window *w = s->windows.n ? &s->windows.top[0] : NULL;
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
	buf_str(&d->text, " for a worker (");
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
