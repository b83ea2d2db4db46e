/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where tasks wait: points at which no task goes on, locks that one holds while many wait. */
#include "findings/rule.h"

#include "base/compare.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a place reads may come after its events, so rules collect by its number, and look at it when
 * they judge. */

uint64_t same_place(const struct rule_state *st, uint64_t place)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	say_place(st, &text, place);
	return buf_failed(&text)
		       ? 0
		       : (hash_string(hash_string(0, text.data), place_awaits(st, place)) | 1);
}

static void say_awaits(const struct rule_state *st, struct buf *out, uint64_t place)
{
	const char *awaits = place_awaits(st, place);

	if (!*awaits)
		return;
	buf_str(out, " for ");
	text_safe(out, awaits);
}

/* ---- no task goes on ---- */

#define STUCK_NS NSEC_PER_SEC
#define STUCK_AT_LOCK 2
#define STUCK_ELSEWHERE 20
#define LEFT_BEHIND 10 /* times as long as the mean of the waits there that a wake has ended */
#define FEW 10	       /* a tenth as many have ended that late */

struct wait_point {
	uint32_t kind;
	uint64_t place;
	uint64_t n_came, n_left;	   /* waits; those that a wake ended */
	uint64_t last_left_ns;		   /* 0: never */
	uint64_t sum_left_ns, n_left_late; /* of those; after STUCK_NS or more */
	/* Of those that are open: tasks spawned in the recording that wait LEFT_BEHIND times as long. */
	uint64_t n_behind, first_behind_ns, last_behind_ns;
	uint64_t n_open, first_open_ns, last_open_ns; /* open at the end, and when they began */
	uint64_t serials[FINDING_LANES], numbers[FINDING_LANES]; /* of those, the first ones */
};

struct progress_state {
	struct rule_state st;
	struct map points; /* by kind, place */
	struct map merged; /* by kind, same_place() */
};

/* Waits that are open are reported after all others. */
static void add_left_behind(struct wait_point *p, const struct tl_wait *wait)
{
	uint64_t ns = wait->end_ns - wait->begin_ns;

	if (!wait->task->spawn_seen || ns < STUCK_NS || !p->n_left ||
	    ns / LEFT_BEHIND < p->sum_left_ns / p->n_left)
		return;
	if (!p->n_behind++ || wait->begin_ns < p->first_behind_ns)
		p->first_behind_ns = wait->begin_ns;
	if (wait->begin_ns > p->last_behind_ns)
		p->last_behind_ns = wait->begin_ns;
}

static int progress_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct progress_state *s = ctx;
	struct wait_point *p;

	if (!wait->place || wait->state != TS_WAITING || wait->task->role != TR_TASK)
		return 0;
	p = map_get_or_new(&s->points, wait->task->kind, wait->place, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->kind = wait->task->kind;
	p->place = wait->place;
	p->n_came++;
	if (wait->open) {
		if (!p->n_open || wait->begin_ns < p->first_open_ns)
			p->first_open_ns = wait->begin_ns;
		if (wait->begin_ns > p->last_open_ns)
			p->last_open_ns = wait->begin_ns;
		if (p->n_open < FINDING_LANES) {
			p->serials[p->n_open] = wait->task->serial;
			p->numbers[p->n_open] = wait->task->number;
		}
		p->n_open++;
		add_left_behind(p, wait);
	} else if (wait->next == TS_SCHEDULED) {
		p->n_left++;
		p->sum_left_ns += wait->end_ns - wait->begin_ns;
		p->n_left_late += wait->end_ns - wait->begin_ns >= STUCK_NS;
		if (wait->end_ns > p->last_left_ns)
			p->last_left_ns = wait->end_ns;
	}
	return 0;
}

/* Others go on soon, and some never: more and more of them, from all through the recording. */
static bool leaves_behind(const struct wait_point *p, uint64_t length_ns)
{
	return p->n_left && p->n_behind >= STUCK_ELSEWHERE && p->n_left_late <= p->n_behind / FEW &&
	       p->last_behind_ns - p->first_behind_ns >= length_ns / 3;
}

/* Whether the tasks there are stuck, as far as a recording shows: those of a lock that none has
 * got for long; elsewhere, where waiting for long may be all right, they must also grow in number. */
static bool is_stuck(const struct rule_state *st, const struct wait_point *p)
{
	const struct findings_scope *scope = &rule_facts(st)->scope;
	uint64_t quiet_ns = scope->length_ns / 3 > STUCK_NS ? scope->length_ns / 3 : STUCK_NS;
	enum wait_for what = place_waits_for(st, p->place);

	if (!p->n_open || scope->end_ns < p->first_open_ns + STUCK_NS)
		return false;
	if (what == WF_LOCK && !place_is_send(st, p->place))
		return p->n_open >= STUCK_AT_LOCK && p->last_left_ns + quiet_ns < scope->end_ns;
	if (what == WF_IO || what == WF_TIMER)
		return false;
	if (leaves_behind(p, scope->length_ns))
		return true;
	return p->n_open >= STUCK_ELSEWHERE && p->n_left * 4 < p->n_came &&
	       p->last_open_ns - p->first_open_ns >= scope->length_ns / 3;
}

static int compare_points(const void *a, const void *b)
{
	const struct wait_point *x = *(struct wait_point *const *)a;
	const struct wait_point *y = *(struct wait_point *const *)b;

	return DESCENDING(x->n_open, y->n_open) ?: ASCENDING(x->kind, y->kind) ?:
	       ASCENDING(x->place, y->place);
}

static void find_stuck(struct rule_state *st, const struct wait_point *p)
{
	uint64_t end_ns = rule_facts(st)->scope.end_ns;
	bool behind =
		p->n_left * 4 >= p->n_came && leaves_behind(p, rule_facts(st)->scope.length_ns);
	uint64_t n = behind ? p->n_behind : p->n_open;
	struct finding_draft *d = rule_finds(st, finding_score(60, 35, n, 20, 1));

	if (!d)
		return;
	say_count(&d->text, n, "task", "tasks");
	buf_str(&d->text, " of ");
	say_family(st, &d->text, p->kind);
	buf_str(&d->text, n == 1 ? " waits" : " wait");
	say_awaits(st, &d->text, p->place);
	buf_str(&d->text, " at ");
	say_place(st, &d->text, p->place);
	buf_str(&d->text, ", the longest for ");
	text_duration(&d->text, end_ns - (behind ? p->first_behind_ns : p->first_open_ns));
	if (behind) {
		buf_str(&d->text, ", and more all the time, while others went on there after ");
		text_duration(&d->text, p->sum_left_ns / p->n_left);
	} else if (p->last_left_ns) {
		buf_str(&d->text, "; none has gone on in the last ");
		text_duration(&d->text, end_ns - p->last_left_ns);
	} else {
		buf_str(&d->text, "; none has gone on");
	}
	d->f.kind = p->kind;
	d->f.place = p->place;
	finding_spans(d, p->first_open_ns, end_ns);
	for (size_t i = 0; i < FINDING_LANES && i < p->n_open; i++)
		finding_of(d, p->serials[i], p->numbers[i]);
}

static int merge_points(struct progress_state *s)
{
	const struct map_entry *e;
	size_t at = 0;

	while ((e = map_next(&s->points, &at))) {
		const struct wait_point *p = e->value;
		uint64_t key = same_place(&s->st, p->place);
		struct wait_point *m =
			key ? map_get_or_new(&s->merged, p->kind, key, sizeof(*m)) : NULL;

		if (!m)
			return -ENOMEM;
		m->kind = p->kind;
		if (!m->place || p->place < m->place)
			m->place = p->place;
		m->n_came += p->n_came;
		m->n_left += p->n_left;
		if (p->last_left_ns > m->last_left_ns)
			m->last_left_ns = p->last_left_ns;
		if (p->n_open && (!m->n_open || p->first_open_ns < m->first_open_ns))
			m->first_open_ns = p->first_open_ns;
		if (p->last_open_ns > m->last_open_ns)
			m->last_open_ns = p->last_open_ns;
		for (size_t i = 0; i < p->n_open && m->n_open + i < FINDING_LANES; i++) {
			m->serials[m->n_open + i] = p->serials[i];
			m->numbers[m->n_open + i] = p->numbers[i];
		}
		m->n_open += p->n_open;
		m->sum_left_ns += p->sum_left_ns;
		m->n_left_late += p->n_left_late;
		if (p->n_behind && (!m->n_behind || p->first_behind_ns < m->first_behind_ns))
			m->first_behind_ns = p->first_behind_ns;
		if (p->last_behind_ns > m->last_behind_ns)
			m->last_behind_ns = p->last_behind_ns;
		m->n_behind += p->n_behind;
	}
	return 0;
}

static int judge_progress(struct rule_state *st)
{
	struct progress_state *s = (struct progress_state *)st;
	struct wait_point **points;

	if (rule_lacks_events(st) || !s->points.n)
		return 0;
	if (merge_points(s) < 0)
		return -ENOMEM;
	points = map_sorted(&s->merged, compare_points);
	if (!points)
		return -ENOMEM;
	for (size_t i = 0, n = 0; i < s->merged.n && n < MOST_FINDINGS; i++) {
		if (!is_stuck(st, points[i]))
			continue;
		find_stuck(st, points[i]);
		n++;
	}
	free(points);
	return 0;
}

static void done_progress(struct rule_state *st)
{
	struct progress_state *s = (struct progress_state *)st;

	map_free(&s->points, free);
	map_free(&s->merged, free);
}

const struct finding_rule rule_no_progress = {
	.name = "no-progress",
	.title = "a point at which no task goes on",
	.advice = "the await trees show who holds what they wait for",
	.sink = &(const struct timeline_sink){.wait = progress_on_wait},
	.state_bytes = sizeof(struct progress_state),
	.judge = judge_progress,
	.done = done_progress,
};

/* ---- one holds, many wait ---- */

#define ALONE_SHARE 4 /* a quarter of the recording */

static bool is_lock(const struct rule_state *st, uint64_t place)
{
	return place_awaits_a(st, place, "utex") || place_awaits_a(st, place, "wlock") ||
	       place_awaits_a(st, place, "RwLock");
}

static bool is_semaphore(const struct rule_state *st, uint64_t place)
{
	return place_awaits_a(st, place, "emaphore") && !place_is_send(st, place);
}

/* Who had it. One whose last wait was for it, too, had only just got it, from the one before. */
static const struct waker *holder_of(const struct rule_state *st, const struct convoy *c)
{
	bool just_got = c->by.place && (is_lock(st, c->by.place) || is_semaphore(st, c->by.place));

	return just_got && c->before.kind != TRACE_KIND_NONE ? &c->before : &c->by;
}

/* Where it had waited with it; 0: not known, or it had waited for it there. */
static uint64_t held_at(const struct rule_state *st, const struct waker *w)
{
	return is_lock(st, w->place) || is_semaphore(st, w->place) ? 0 : w->place;
}

/* Where no convoy forms, since one task alone waits: for much of the recording, by a holder that waits
 * for something else than messages and sockets, which may come when they like. */
static bool waits_alone(const struct rule_state *st, const struct long_waits *p)
{
	uint64_t place = held_at(st, holder_of(st, &p->longest));
	enum wait_for holder_waits = place_waits_for(st, place);

	return p->n_waits >= CONVOY_WAITS &&
	       p->sum_ns >= rule_facts(st)->scope.length_ns / ALONE_SHARE && place &&
	       holder_waits != WF_IO && holder_waits != WF_MESSAGE;
}

/* Who has the lock for which a task of the kind waits when the recording ends. */
static const struct moment_task *holder_for(const struct rule_state *st, uint32_t kind,
					    const struct rule_moment **ret_rm)
{
	const struct findings_facts *facts = rule_facts(st);

	for (size_t k = 0; k < facts->n_moments; k++) {
		const struct rule_moment *rm = *ret_rm = &facts->moments[k];

		for (size_t i = 0; i < rm->m.n_tasks && rm->m.when == MOMENT_END; i++) {
			const struct moment_task *t = &rm->m.tasks[i];
			const struct await_node *own,
				*leaf = rm->kinds[i] == kind && t->tree && t->state == IS_IDLE
						? graph_leaf(&rm->graph, t->tree, &own)
						: NULL;
			const struct graph_lock *lock =
				leaf && (leaf->wait == AW_MUTEX || leaf->wait == AW_RWLOCK)
					? graph_lock(&rm->graph, leaf)
					: NULL;

			if (lock && lock->n_holders)
				return &rm->m.tasks[lock->holders[0]];
		}
	}
	return NULL;
}

static void say_holder(const struct rule_state *st, struct finding_draft *d, uint32_t kind)
{
	const struct rule_moment *rm = NULL;
	const struct moment_task *t = holder_for(st, kind, &rm);
	const struct await_node *own = NULL;

	if (!t)
		return;
	buf_str(&d->text, ": ");
	say_moment_task(&d->text, t);
	buf_str(&d->text, " has the lock when the recording ends");
	if (t->tree && t->state == IS_IDLE)
		graph_leaf(&rm->graph, t->tree, &own);
	if (own) {
		buf_str(&d->text, ", and waits");
		say_at(&d->text, own->file, own->line, own->name);
	}
	finding_of_moment(d, st, rm, t);
}

/* A semaphore may be there to make tasks wait: then it is no warning, unless they become more and more. */
static unsigned convoy_score(const struct rule_state *st, const struct long_waits *p,
			     bool semaphore)
{
	unsigned score = finding_score(p->n_convoys ? 45 : 35, 40, p->sum_ns,
				       rule_facts(st)->scope.length_ns, 1);

	return semaphore && p->n_open <= p->n_waits && score >= FINDING_WARNING
		       ? FINDING_WARNING - 1
		       : score;
}

static void find_convoy(struct rule_state *st, const struct long_waits *p, bool semaphore)
{
	const struct waker *holder = holder_of(st, p->n_convoys ? &p->worst : &p->longest);
	uint64_t place = held_at(st, holder);
	struct finding_draft *d = rule_finds(st, convoy_score(st, p, semaphore));

	if (!d)
		return;
	say_count(&d->text, p->n_waits, "wait", "waits");
	buf_str(&d->text, " of ");
	say_family(st, &d->text, p->kind);
	say_awaits(st, &d->text, p->place);
	buf_str(&d->text, " at ");
	say_place(st, &d->text, p->place);
	buf_str(&d->text, " took up to ");
	text_duration(&d->text, p->max_ns);
	if (semaphore && p->n_open) {
		buf_str(&d->text, ", and ");
		say_count(&d->text, p->n_open, "waits", "wait");
		buf_str(&d->text, " when the recording ends");
	}
	if (holder->kind != TRACE_KIND_NONE) {
		buf_str(&d->text, ": ");
		say_family(st, &d->text, holder->kind);
		buf_str(&d->text, semaphore ? " gave a permit back at the end of "
					    : " let go at the end of ");
		if (p->n_convoys)
			say_count(&d->text, p->n_convoys, "convoy", "convoys");
		else
			buf_str(&d->text, "the longest");
		if (place) {
			buf_str(&d->text, "; it had held it while it waited at ");
			say_place(st, &d->text, place);
		}
	} else {
		buf_str(&d->text, ", in ");
		say_count(&d->text, p->n_convoys, "convoy", "convoys");
		say_holder(st, d, p->kind);
	}
	d->f.kind = p->kind;
	d->f.place = p->place;
	finding_spans(d, p->time_ns, p->time_ns + p->max_ns);
	finding_of(d, p->serial, p->number);
	finding_of(d, holder->serial, holder->number);
	if (semaphore)
		d->f.advice = "give the permit back before what takes long, or make that shorter; "
			      "more permits let more tasks go on at a time";
}

static int judge_convoy(struct rule_state *st)
{
	int rc;
	struct long_waits **points = wait_notes_sorted(&rule_facts(st)->waits, &rc);

	for (size_t i = 0, n = 0; points && i < rule_facts(st)->waits.points.n && n < MOST_FINDINGS;
	     i++) {
		bool lock = is_lock(st, points[i]->place),
		     semaphore = !lock && is_semaphore(st, points[i]->place);

		if (!points[i]->n_waits || (!lock && !semaphore))
			continue;
		if (!points[i]->n_convoys && !waits_alone(st, points[i]))
			continue;
		find_convoy(st, points[i], semaphore);
		n++;
	}
	free(points);
	return rc;
}

const struct finding_rule rule_convoy = {
	.name = "lock-convoy",
	.title = "one holds a lock, many wait",
	.advice = "hold the lock for less: not over an await, or only over a short one",
	.state_bytes = sizeof(struct rule_state),
	.judge = judge_convoy,
};
