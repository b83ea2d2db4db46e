/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks that are busy with nothing, although they don't wake themselves (that is rule_spin): one that
 * connects again and again, and does nothing else; and those that only wake one another. What serves
 * requests under load is polled as often, but it waits for sockets as well, and is woken by them.
 */
#include "findings/rule.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_POLLS 1000ull
#define BUSY_PER_SECOND 1000ull		  /* polls of each of its tasks */
#define BUSY_POLL_NS (20 * NSEC_PER_USEC) /* on average: longer ones do some work */
#define BUSY_SHARE 90			  /* percent of the polls end at such a place */
#define PEER_SHARE 98			  /* percent of the wakes are by the other family */
#define BUSY_TIME_SHARE 10		  /* percent of the recording are polls of them */
#define N_PLACES 4

struct busy_place {
	uint64_t place, n_polls;
};

struct busy_family {
	enum trace_role role;
	uint64_t n_polls, poll_ns, n_tasks, n_requests;
	uint64_t begin_ns, end_ns;	    /* of its polls */
	struct busy_place places[N_PLACES]; /* where they ended: the first few */
	uint64_t n_wakes, votes; /* as Boyer and Moore count: for the peer, less all others */
	uint32_t peer;		 /* kind of those that wake it */
	uint64_t serial, number; /* of one of them */
	uint32_t thread;
};

struct busy_state {
	struct rule_state st;
	struct map families; /* by kind */
};

static struct busy_family *busy_family(struct busy_state *s, const struct tl_task *task)
{
	struct busy_family *f = map_get_or_new(&s->families, task->kind, 0, sizeof(*f));

	if (f)
		f->role = task->role;
	return f;
}

static int busy_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct busy_family *f = busy_family(ctx, poll->task);

	if (!f)
		return -ENOMEM;
	f->n_polls++;
	f->n_requests += poll->round.serial != 0;
	if (tl_poll_measured(poll))
		f->poll_ns += poll->end_ns - poll->begin_ns;
	if (!f->begin_ns)
		f->begin_ns = poll->begin_ns;
	f->end_ns = poll->end_ns;
	f->serial = poll->task->serial;
	f->number = poll->task->number;
	f->thread = poll->thread;
	for (size_t i = 0; poll->place && i < N_PLACES; i++) {
		if (f->places[i].place && f->places[i].place != poll->place)
			continue;
		f->places[i].place = poll->place;
		f->places[i].n_polls++;
		break;
	}
	return 0;
}

static int busy_on_wake(void *ctx, const struct tl_wake *wake)
{
	struct busy_family *f = busy_family(ctx, wake->task);
	uint32_t source = wake->source_task ? wake->source_task->kind : TRACE_KIND_NONE;

	if (!f)
		return -ENOMEM;
	f->n_wakes++;
	if (!f->votes)
		f->peer = source;
	if (f->peer == source)
		f->votes++;
	else
		f->votes--;
	return 0;
}

static int busy_on_task_begin(void *ctx, struct tl_task *task)
{
	struct busy_family *f = busy_family(ctx, task);

	if (!f)
		return -ENOMEM;
	f->n_tasks++;
	return 0;
}

static bool awaits_connect(const struct rule_state *st, uint64_t place)
{
	return place_awaits_a(st, place, "::connect") && !place_awaits_a(st, place, "::connection");
}

/* That something has changed, no message: where messages go, they are the work. */
static bool awaits_change(const struct rule_state *st, uint64_t place)
{
	return place_awaits_a(st, place, "Notified") || place_awaits_a(st, place, "::watch::");
}

/* The place where most of its polls ended, if nearly all did at those that are so; 0. */
static uint64_t place_of(const struct rule_state *st, const struct busy_family *f,
			 bool (*is_so)(const struct rule_state *st, uint64_t place))
{
	const struct busy_place *most = NULL;
	uint64_t n = 0;

	for (size_t i = 0; i < N_PLACES; i++) {
		const struct busy_place *p = &f->places[i];

		if (!p->place || !is_so(st, p->place))
			continue;
		n += p->n_polls;
		if (!most || p->n_polls > most->n_polls)
			most = p;
	}
	return most && n * 100 >= f->n_polls * BUSY_SHARE ? most->place : 0;
}

static bool is_busy(const struct busy_family *f)
{
	uint64_t length = f->end_ns - f->begin_ns;

	return f->role == TR_TASK && f->n_polls >= BUSY_POLLS && f->n_tasks &&
	       f->n_requests * 100 < f->n_polls * (100 - BUSY_SHARE) &&
	       (double)f->n_polls * NSEC_PER_SEC >=
		       (double)BUSY_PER_SECOND * (double)f->n_tasks * (double)length;
}

/* "1,327,390 times (431 k a second), in 2.62 s of the workers' time" */
static void say_how_often(struct buf *out, const struct busy_family *f, uint64_t n, uint64_t ns)
{
	say_count(out, n, "time", "times");
	buf_str(out, " (");
	text_rate(out, n, f->end_ns > f->begin_ns ? f->end_ns - f->begin_ns : 1);
	buf_str(out, " a second), in ");
	text_duration(out, ns);
	buf_str(out, " of the workers' time");
}

static void busy_about(struct finding_draft *d, uint32_t kind, const struct busy_family *f,
		       uint64_t place)
{
	d->f.kind = kind;
	d->f.place = place;
	finding_spans(d, f->begin_ns, f->end_ns);
	finding_on(d, f->thread);
	finding_of(d, f->serial, f->number);
}

static void find_connects(struct rule_state *st, uint32_t kind, const struct busy_family *f,
			  uint64_t place)
{
	/* However short they are: they load the other side as well. */
	struct finding_draft *d = rule_finds(
		st, finding_score(50, 35, f->poll_ns, rule_facts(st)->scope.length_ns, 0.5));

	if (!d)
		return;
	say_family(st, &d->text, kind);
	buf_str(&d->text, " did nothing but connect, ");
	say_how_often(&d->text, f, f->n_polls, f->poll_ns);
	buf_str(&d->text, ", at ");
	say_place(st, &d->text, place);
	busy_about(d, kind, f, place);
}

static void find_pair(struct rule_state *st, uint32_t kind, const struct busy_family *f,
		      const struct busy_family *peer, uint64_t place)
{
	bool alone = f == peer;
	uint64_t n = f->n_polls + (alone ? 0 : peer->n_polls);
	uint64_t ns = f->poll_ns + (alone ? 0 : peer->poll_ns);
	uint64_t length_ns = rule_facts(st)->scope.length_ns;

	if (ns > n * BUSY_POLL_NS || ns * 100 < length_ns * BUSY_TIME_SHARE)
		return;
	struct finding_draft *d = rule_finds(st, finding_score(35, 50, ns, length_ns, 1));
	if (!d)
		return;
	if (alone) {
		buf_str(&d->text, "tasks of ");
		say_family(st, &d->text, kind);
	} else {
		say_family(st, &d->text, kind);
		buf_str(&d->text, " and ");
		say_family(st, &d->text, f->peer);
	}
	buf_str(&d->text, " did nothing but wake each other, ");
	say_how_often(&d->text, f, n, ns);
	buf_str(&d->text, ", at ");
	say_place(st, &d->text, place);
	d->f.advice = "send a value only if it differs, or from one side only";
	busy_about(d, kind, f, place);
	if (!alone) {
		finding_on(d, peer->thread);
		finding_of(d, peer->serial, peer->number);
	}
}

static bool wakes_come_from_peer(const struct busy_family *f)
{
	/* votes = those by the peer - those by others */
	return f->peer != TRACE_KIND_NONE &&
	       (f->n_wakes + f->votes) * 50 >= f->n_wakes * PEER_SHARE;
}

static int judge_busy(struct rule_state *st)
{
	struct busy_state *s = (struct busy_state *)st;
	const struct map_entry *e;
	bool lacks = false;
	size_t pos = 0;

	while ((e = map_next(&s->families, &pos))) {
		const struct busy_family *f = e->value, *peer;
		uint32_t kind = (uint32_t)e->a;
		uint64_t place;

		if (!is_busy(f))
			continue;
		place = place_of(st, f, awaits_connect);
		if (place) {
			find_connects(st, kind, f, place);
			continue;
		}
		place = place_of(st, f, awaits_change);
		if (!place || !wakes_come_from_peer(f))
			continue;
		peer = map_get(&s->families, f->peer, 0);
		/* Each pair once. */
		if (!peer || peer->peer != kind || f->peer < kind || !is_busy(peer) ||
		    !wakes_come_from_peer(peer) || !place_of(st, peer, awaits_change))
			continue;
		/* A wake from elsewhere may be among what is missing. */
		if (rule_facts(st)->n_lost || rule_facts(st)->scope.filtered)
			lacks = true;
		else
			find_pair(st, kind, f, peer, place);
	}
	if (lacks)
		(void)rule_lacks_events(st);
	return 0;
}

static void done_busy(struct rule_state *st)
{
	map_free(&((struct busy_state *)st)->families, free);
}

const struct finding_rule rule_busy = {
	.name = "busy-task",
	.title = "tasks that are busy with nothing",
	.advice = "pause between two attempts, and longer after each that fails "
		  "(tokio::time::sleep with a growing delay)",
	.sink =
		&(const struct timeline_sink){
			.poll = busy_on_poll,
			.wake = busy_on_wake,
			.task_begin = busy_on_task_begin,
		},
	.state_bytes = sizeof(struct busy_state),
	.judge = judge_busy,
	.done = done_busy,
};
