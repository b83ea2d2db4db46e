/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks that are busy with nothing: those that wake themselves; one that connects again and again, and
 * does nothing else; and those that only wake one another. What serves requests under load is polled as
 * often, but it waits for sockets as well, and is woken by them.
 */
#include "findings/rule.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

/* The polls of a family, and one of its tasks. */
struct polled {
	enum trace_role role;
	uint64_t n_polls, poll_ns;
	uint64_t begin_ns, end_ns; /* of its polls */
	uint64_t serial, number;
	uint32_t thread;
};

static void add_poll(struct polled *p, const struct tl_poll *poll)
{
	p->n_polls++;
	if (tl_poll_measured(poll))
		p->poll_ns += poll->end_ns - poll->begin_ns;
	if (!p->begin_ns)
		p->begin_ns = poll->begin_ns;
	p->end_ns = poll->end_ns;
}

static void note_task(struct polled *p, const struct tl_task *task, uint32_t thread)
{
	p->serial = task->serial;
	p->number = task->number;
	p->thread = thread;
}

static void find_polled(struct finding_draft *d, uint32_t kind, const struct polled *p,
			uint64_t place)
{
	d->f.kind = kind;
	d->f.place = place;
	finding_spans(d, p->begin_ns, p->end_ns);
	finding_on(d, p->thread);
	finding_of(d, p->serial, p->number);
}

/* ---- tasks that connect again and again, or wake each other ---- */

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
	struct polled p;
	uint64_t n_tasks, n_requests;
	struct busy_place places[N_PLACES]; /* where they ended: the first few */
	uint64_t n_wakes, votes; /* as Boyer and Moore count: for the peer, less all others */
	uint32_t peer;		 /* kind of those that wake it */
};

struct busy_state {
	struct rule_state st;
	struct map families; /* by kind */
};

static struct busy_family *busy_family(struct busy_state *s, const struct tl_task *task)
{
	struct busy_family *f = map_get_or_new(&s->families, task->kind, 0, sizeof(*f));

	if (f)
		f->p.role = task->role;
	return f;
}

static int busy_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct busy_family *f = busy_family(ctx, poll->task);

	if (!f)
		return -ENOMEM;
	add_poll(&f->p, poll);
	note_task(&f->p, poll->task, poll->thread);
	f->n_requests += poll->round.serial != 0;
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
	return most && n * 100 >= f->p.n_polls * BUSY_SHARE ? most->place : 0;
}

static bool is_busy(const struct busy_family *f)
{
	uint64_t length = f->p.end_ns - f->p.begin_ns;

	return f->p.role == TR_TASK && f->p.n_polls >= BUSY_POLLS && f->n_tasks &&
	       f->n_requests * 100 < f->p.n_polls * (100 - BUSY_SHARE) &&
	       (double)f->p.n_polls * NSEC_PER_SEC >=
		       (double)BUSY_PER_SECOND * (double)f->n_tasks * (double)length;
}

/* "1,327,390 times (431 k a second), in 2.62 s of the workers' time" */
static void say_how_often(struct buf *out, const struct busy_family *f, uint64_t n, uint64_t ns)
{
	say_count(out, n, "time", "times");
	buf_str(out, " (");
	text_rate(out, n, f->p.end_ns > f->p.begin_ns ? f->p.end_ns - f->p.begin_ns : 1);
	buf_str(out, " a second), in ");
	text_duration(out, ns);
	buf_str(out, " of the workers' time");
}

static void find_connects(struct rule_state *st, uint32_t kind, const struct busy_family *f,
			  uint64_t place)
{
	/* However short they are: they load the other side as well. */
	struct finding_draft *d = rule_finds(
		st, finding_score(50, 35, f->p.poll_ns, rule_facts(st)->scope.length_ns, 0.5));

	if (!d)
		return;
	say_family(st, &d->text, kind);
	buf_str(&d->text, " did nothing but connect, ");
	say_how_often(&d->text, f, f->p.n_polls, f->p.poll_ns);
	buf_str(&d->text, ", at ");
	say_place(st, &d->text, place);
	find_polled(d, kind, &f->p, place);
}

static void find_pair(struct rule_state *st, uint32_t kind, const struct busy_family *f,
		      const struct busy_family *peer, uint64_t place)
{
	bool alone = f == peer;
	uint64_t n = f->p.n_polls + (alone ? 0 : peer->p.n_polls);
	uint64_t ns = f->p.poll_ns + (alone ? 0 : peer->p.poll_ns);
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
	find_polled(d, kind, &f->p, place);
	if (!alone) {
		finding_on(d, peer->p.thread);
		finding_of(d, peer->p.serial, peer->p.number);
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

/* ---- a task that wakes itself ---- */

#define SPIN_POLLS 1000ull
#define SPIN_POLL_NS (20 * NSEC_PER_USEC) /* at that rate it does nothing else */
#define SPIN_WORKS_NS                                                                              \
	(150 * NSEC_PER_USEC) /* on average: more than a budget of empty steps takes */
#define SPIN_SHARE 90	      /* percent of the polls have a self-wake */

struct spin_family {
	struct polled p; /* its task: one that woke itself */
	uint64_t n_self_polls, n_deferred;
	uint64_t place, votes; /* where most of them ended (Boyer and Moore's majority vote) */
};

struct spin_state {
	struct rule_state st;
	struct map families; /* by kind */
};

static struct spin_family *spin_family(struct spin_state *s, const struct tl_task *task)
{
	struct spin_family *f = map_get_or_new(&s->families, task->kind, 0, sizeof(*f));

	if (f)
		f->p.role = task->role;
	return f;
}

static int spin_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct spin_family *f = spin_family(ctx, poll->task);

	if (!f)
		return -ENOMEM;
	add_poll(&f->p, poll);
	if (!poll->place)
		return 0;
	if (!f->votes)
		f->place = poll->place;
	if (f->place == poll->place)
		f->votes++;
	else
		f->votes--;
	return 0;
}

static int spin_on_wake(void *ctx, const struct tl_wake *wake)
{
	struct spin_family *f = wake->self ? spin_family(ctx, wake->task) : NULL;

	if (!wake->self)
		return 0;
	if (!f)
		return -ENOMEM;
	f->n_self_polls += wake->first_self;
	note_task(&f->p, wake->task, wake->thread);
	f->n_deferred += wake->first_self && wake->deferred;
	return 0;
}

/* Whether a channel from which a task of the family receives has no sender any more. */
static bool has_closed_channel(const struct rule_state *st, uint32_t kind)
{
	const struct findings_facts *facts = rule_facts(st);

	for (size_t k = 0; k < facts->n_moments; k++) {
		const struct rule_moment *rm = &facts->moments[k];

		for (size_t i = 0; i < rm->graph.n_held; i++) {
			const struct graph_held *h = &rm->graph.held[i];

			if (h->held->kind == AH_CHANNEL && h->held->closed && !h->held->length &&
			    h->node->wait != AW_CHANNEL_SEND && rm->kinds[h->task] == kind)
				return true;
		}
	}
	return false;
}

/* A poll that a yield does not end, but a wake that the runtime puts off, is one whose budget was used up. */
static void say_why_it_spins(const struct rule_state *st, struct buf *out, uint32_t kind,
			     const struct spin_family *f, uint64_t n)
{
	bool deferred = f->n_deferred * 2 > n;
	bool ready = deferred && f->place && place_waits_for(st, f->place) != WF_YIELD;

	buf_str(out, ready ? ": what it awaits is always ready, and only its budget ends its polls"
		     : deferred ? ": it yields again and again"
				: ": it yields, or spins");
	if (f->place) {
		buf_str(out, ", at ");
		say_place(st, out, f->place);
	}
	if (has_closed_channel(st, kind))
		buf_str(out, "; a channel from which it receives is closed");
}

static void find_spin(struct rule_state *st, uint32_t kind, const struct spin_family *f)
{
	uint64_t length = f->p.end_ns - f->p.begin_ns, all_ns = rule_facts(st)->scope.length_ns;
	/* By the CPU time that goes into its polls, or into what is around them. */
	unsigned by_time = finding_score(35, 50, f->p.poll_ns, all_ns, 0.5);
	unsigned by_rate = finding_score(35, 50, f->p.n_polls * SPIN_POLL_NS, all_ns, 1);
	unsigned score = by_time > by_rate ? by_time : by_rate;
	/* What computes and yields in between does as it should. */
	bool works = f->p.poll_ns > f->p.n_polls * SPIN_WORKS_NS;
	struct finding_draft *d =
		rule_finds(st, works && score >= FINDING_WARNING ? FINDING_WARNING - 1 : score);
	/* A window may have a wake whose poll ended before it. */
	uint64_t n = f->n_self_polls < f->p.n_polls ? f->n_self_polls : f->p.n_polls;

	if (!d)
		return;
	say_family(st, &d->text, kind);
	buf_printf(&d->text, " woke itself in %llu %% of its ",
		   (unsigned long long)text_percent(n, f->p.n_polls));
	say_count(&d->text, f->p.n_polls, "poll", "polls");
	if (length > NSEC_PER_MSEC) {
		buf_str(&d->text, " (");
		text_rate(&d->text, f->p.n_polls, length);
		buf_str(&d->text, " a second)");
	}
	say_why_it_spins(st, &d->text, kind, f, n);
	find_polled(d, kind, &f->p, f->place);
}

static int judge_spin(struct rule_state *st)
{
	struct spin_state *s = (struct spin_state *)st;
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->families, &pos))) {
		const struct spin_family *f = e->value;

		if (f->p.role == TR_TASK && f->p.n_polls >= SPIN_POLLS &&
		    f->n_self_polls * 100 >= f->p.n_polls * SPIN_SHARE)
			find_spin(st, (uint32_t)e->a, f);
	}
	return 0;
}

static void done_spin(struct rule_state *st)
{
	map_free(&((struct spin_state *)st)->families, free);
}

const struct finding_rule rule_spin = {
	.name = "spin",
	.title = "a task that wakes itself",
	.advice =
		"wait for an event instead: a future that is pending must wake its task only when "
		"something has changed; a closed channel or socket is ready at once",
	.sink =
		&(const struct timeline_sink){
			.poll = spin_on_poll,
			.wake = spin_on_wake,
		},
	.state_bytes = sizeof(struct spin_state),
	.judge = judge_spin,
	.done = done_spin,
};
