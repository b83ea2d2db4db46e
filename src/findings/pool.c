/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The blocking pool: closures that wait for a thread, closures that are hardly worth one. */
#include "findings/rule.h"

#include "base/hist.h"
#include "base/map.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FULL_NS (20 * NSEC_PER_MSEC)
#define FULL_OPEN 3

/* What the closures of a family do in the pool. */
struct pool_family {
	struct hist runs;
	uint64_t n_open, n_waiting; /* running, or not begun, when the trace ended */
	uint16_t call;		    /* that took longest */
	uint64_t call_ns;
	uint64_t delays_ns; /* until they began */
};

struct pool_state {
	struct rule_state st;
	struct hist delays;
	struct map families;			     /* by kind */
	struct map threads;			     /* that ran closures */
	uint64_t n_waiting, time_ns, serial, number; /* of the one that waited longest */
};

static struct pool_family *pool_family(struct pool_state *s, uint32_t kind)
{
	return map_get_or_new(&s->families, kind, 0, sizeof(struct pool_family));
}

static int add_delay(struct pool_state *s, const struct tl_task *task, uint64_t since_ns,
		     uint64_t ns)
{
	if (ns >= s->delays.max) {
		s->time_ns = since_ns;
		s->serial = task->serial;
		s->number = task->number;
	}
	return hist_add(&s->delays, ns);
}

static int pool_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct pool_state *s = ctx;
	struct pool_family *f;

	if (poll->task->role != TR_BLOCKING)
		return 0;
	f = pool_family(s, poll->task->kind);
	if (!f || map_put_const(&s->threads, poll->thread, 0, s) < 0)
		return -ENOMEM;
	if (poll->outcome == TO_UNKNOWN)
		f->n_open++;
	if (poll->begin_seen && poll->scheduled_ns &&
	    add_delay(s, poll->task, poll->scheduled_ns, poll->begin_ns - poll->scheduled_ns) < 0)
		return -ENOMEM;
	return tl_poll_measured(poll) ? hist_add(&f->runs, poll->end_ns - poll->begin_ns) : 0;
}

static int pool_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct pool_state *s = ctx;
	uint64_t ns = wait->end_ns - wait->begin_ns;
	struct pool_family *f;

	if (!wait->open || wait->state != TS_SCHEDULED || wait->task->role != TR_BLOCKING ||
	    ns < FULL_NS)
		return 0;
	f = pool_family(s, wait->task->kind);
	if (!f)
		return -ENOMEM;
	f->n_waiting++;
	s->n_waiting++;
	return add_delay(s, wait->task, wait->begin_ns, ns);
}

static int pool_on_block(void *ctx, const struct tl_block *block)
{
	uint64_t ns = block->end_ns - block->begin_ns;
	struct pool_family *f;

	if (block->task->role != TR_BLOCKING)
		return 0;
	f = pool_family(ctx, block->task->kind);
	if (!f)
		return -ENOMEM;
	if (ns > f->call_ns) {
		f->call_ns = ns;
		f->call = block->call;
	}
	return 0;
}

/* The family that has the threads for most of the time. */
static uint32_t busiest(const struct pool_state *s, const struct pool_family **ret)
{
	const struct map_entry *e;
	uint32_t kind = TRACE_KIND_NONE;
	uint64_t most = 0;
	size_t at = 0;

	*ret = NULL;
	while ((e = map_next(&s->families, &at))) {
		const struct pool_family *f = e->value;

		if (!*ret || f->runs.sum > most || (f->runs.sum == most && e->a < kind)) {
			most = f->runs.sum;
			kind = (uint32_t)e->a;
			*ret = f;
		}
	}
	return kind;
}

static uint64_t busy_ns(const struct pool_state *s)
{
	const struct map_entry *e;
	uint64_t sum = 0;
	size_t at = 0;

	while ((e = map_next(&s->families, &at)))
		sum += ((const struct pool_family *)e->value)->runs.sum;
	return sum;
}

/* Where the program hands such closures to the pool, if the line of one is known. */
static void say_caller(const struct rule_state *st, struct buf *out, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(rule_facts(st)->reader, kind);

	for (uint32_t i = 0; k && i < k->n_sites; i++) {
		if (!strstr(k->sites[i], ".rs:"))
			continue;
		buf_str(out, "; spawned at ");
		text_safe(out, k->sites[i]);
		return;
	}
}

static int judge_pool_full(struct rule_state *st)
{
	struct pool_state *s = (struct pool_state *)st;
	const struct pool_family *f;
	uint32_t kind = busiest(s, &f);
	size_t at = 0;

	if (!s->delays.count || s->delays.max < FULL_NS || !f)
		return 0;
	/* One that waits for a thread to be started on a busy machine is no full pool: its threads
	 * are busy all the while. */
	if (busy_ns(s) < s->delays.max / 2 ||
	    (s->n_waiting < FULL_OPEN && hist_quantile(&s->delays, 0.9) < FULL_NS))
		return 0;
	struct finding_draft *d =
		rule_finds(st, finding_score(55, 35, s->delays.max, NSEC_PER_SEC, 1));
	if (!d)
		return 0;
	buf_str(&d->text, "the blocking pool is full: a closure waited ");
	text_duration(&d->text, s->delays.max);
	buf_str(&d->text, " for a thread (p50 ");
	text_duration(&d->text, hist_quantile(&s->delays, 0.5));
	if (s->n_waiting) {
		buf_str(&d->text, "; ");
		text_exact(&d->text, s->n_waiting);
		buf_str(&d->text, " had none by the end");
	}
	buf_str(&d->text, "); its ");
	say_count(&d->text, s->threads.n, "thread was", "threads were");
	buf_str(&d->text, " mostly in ");
	say_family(st, &d->text, kind);
	if (f->runs.count) {
		buf_str(&d->text, " (");
		text_duration(&d->text, f->runs.sum / f->runs.count);
		buf_str(&d->text, " each");
		if (f->call != TB_NONE)
			buf_printf(&d->text, ", %s", trace_call_name(f->call));
		buf_char(&d->text, ')');
	}
	if (f->n_open) {
		buf_str(&d->text, ", ");
		text_exact(&d->text, f->n_open);
		buf_str(&d->text, " of them since before the end");
	}
	say_caller(st, &d->text, kind);
	d->f.kind = kind;
	finding_spans(d, s->time_ns, s->time_ns + s->delays.max);
	finding_of(d, s->serial, s->number);
	for (const struct map_entry *e; (e = map_next(&s->threads, &at));)
		finding_on(d, (uint32_t)e->a);
	return 0;
}

static void pool_family_free(void *value)
{
	hist_done(&((struct pool_family *)value)->runs);
	free(value);
}

static void done_pool(struct rule_state *st)
{
	struct pool_state *s = (struct pool_state *)st;

	hist_done(&s->delays);
	map_free(&s->families, pool_family_free);
	map_done(&s->threads);
}

const struct finding_rule rule_pool_full = {
	.name = "pool-full",
	.title = "a full blocking pool",
	.advice = "give long work threads of its own, let closures not wait for one another, or "
		  "raise "
		  "max_blocking_threads",
	.sink =
		&(const struct timeline_sink){
			.poll = pool_on_poll,
			.wait = pool_on_wait,
			.block = pool_on_block,
		},
	.state_bytes = sizeof(struct pool_state),
	.judge = judge_pool_full,
	.done = done_pool,
};

/* ---- too small for a thread ---- */

#define CHATTY_CLOSURES 1000
#define CHATTY_PER_SECOND 2000.0
#define CHATTY_NS (20 * NSEC_PER_USEC)
#define CHATTY_SHARE 2 /* half of the recording went by on the way to the pool */

static int chatty_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct pool_state *s = ctx;
	struct pool_family *f;

	if (poll->task->role != TR_BLOCKING || !tl_poll_measured(poll))
		return 0;
	f = pool_family(s, poll->task->kind);
	if (!f)
		return -ENOMEM;
	if (poll->scheduled_ns)
		f->delays_ns += poll->begin_ns - poll->scheduled_ns;
	return hist_add(&f->runs, poll->end_ns - poll->begin_ns);
}

/* Many a second, or as many as there can be one after the other. */
static bool is_chatty(const struct pool_family *f, uint64_t length_ns)
{
	return f->runs.count >= CHATTY_CLOSURES && hist_quantile(&f->runs, 0.5) < CHATTY_NS &&
	       ((double)f->runs.count >= CHATTY_PER_SECOND * (double)length_ns / 1e9 ||
		f->delays_ns >= length_ns / CHATTY_SHARE);
}

static int judge_chatty(struct rule_state *st)
{
	struct pool_state *s = (struct pool_state *)st;
	const struct map_entry *e;
	size_t at = 0;

	while ((e = map_next(&s->families, &at))) {
		const struct pool_family *f = e->value;
		uint64_t p50 = hist_quantile(&f->runs, 0.5);
		struct finding_draft *d;

		if (!is_chatty(f, rule_facts(st)->scope.length_ns))
			continue;
		d = rule_finds(st, 30);
		if (!d)
			return 0;
		say_count(&d->text, f->runs.count, "closure", "closures");
		buf_str(&d->text, " of ");
		say_family(st, &d->text, (uint32_t)e->a);
		buf_str(&d->text, " took only ");
		text_duration(&d->text, p50);
		buf_str(&d->text, " each (p50): the way to the blocking pool and back costs more");
		say_caller(st, &d->text, (uint32_t)e->a);
		d->f.kind = (uint32_t)e->a;
	}
	return 0;
}

const struct finding_rule rule_chatty_pool = {
	.name = "chatty-pool",
	.title = "closures too short for the blocking pool",
	.advice = "do several at once, or do them in the task",
	.sink = &(const struct timeline_sink){.poll = chatty_on_poll},
	.state_bytes = sizeof(struct pool_state),
	.judge = judge_chatty,
	.done = done_pool,
};

/* ---- block_in_place ---- */

#define IN_PLACE_AT_ONCE 20

struct in_place_state {
	struct rule_state st;
	uint64_t *ends; /* of sections that may be open at once: a ring */
	size_t n, cap;
	uint64_t n_sections, most;
	uint64_t time_ns, end_ns, serial, number; /* of the one with the most next to it */
	uint32_t kind, thread;
};

/* Sections come in the order of their ends: those that overlap this one's begin are at once with
 * it. */
static int in_place_on_section(void *ctx, const struct tl_section *section)
{
	struct in_place_state *s = ctx;
	uint64_t at_once = 1;

	s->n_sections++;
	for (size_t i = s->n; i-- > 0 && s->ends[i] > section->begin_ns;)
		at_once++;
	if (at_once > s->most) {
		s->most = at_once;
		s->time_ns = section->begin_ns;
		s->end_ns = section->end_ns;
		s->serial = section->task->serial;
		s->number = section->task->number;
		s->thread = section->thread;
		s->kind = section->task->kind;
	}
	/* Only the last few hundred can matter. */
	if (s->n == 1024) {
		for (size_t i = 0; i < 512; i++)
			s->ends[i] = s->ends[i + 512];
		s->n = 512;
	}
	if (!GROW(s->ends, s->n, s->cap))
		return -ENOMEM;
	s->ends[s->n++] = section->end_ns;
	return 0;
}

static int judge_in_place(struct rule_state *st)
{
	struct in_place_state *s = (struct in_place_state *)st;

	if (s->most <= IN_PLACE_AT_ONCE)
		return 0;
	struct finding_draft *d = rule_finds(st, finding_score(35, 30, s->most, 200, 1));
	if (!d)
		return 0;
	buf_str(&d->text, "up to ");
	text_exact(&d->text, s->most);
	buf_str(&d->text, " tasks were in block_in_place at once, each with a thread of its own (");
	text_exact(&d->text, s->n_sections);
	buf_str(&d->text, " in all); most in ");
	say_family(st, &d->text, s->kind);
	d->f.kind = s->kind;
	finding_spans(d, s->time_ns, s->end_ns);
	finding_on(d, s->thread);
	finding_of(d, s->serial, s->number);
	return 0;
}

static void done_in_place(struct rule_state *st)
{
	free(((struct in_place_state *)st)->ends);
}

const struct finding_rule rule_in_place = {
	.name = "in-place",
	.title = "many threads by block_in_place",
	.advice = "bound them: a semaphore before block_in_place, or spawn_blocking",
	.sink = &(const struct timeline_sink){.section = in_place_on_section},
	.state_bytes = sizeof(struct in_place_state),
	.judge = judge_in_place,
	.done = done_in_place,
};
