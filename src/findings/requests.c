/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Requests that a connection's task serves: which are slow, and where their time goes. */
#include "base/compare.h"
#include "findings/rule.h"

#include "base/hist.h"
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

#define SLOW_NS (10 * NSEC_PER_MSEC)

/* Requests of a handler. */
struct handler {
	uint32_t handler, kind; /* kind: of the task that serves it */
	struct hist latency;
	uint64_t polled_ns, ready_ns, waiting_ns;
	uint64_t blocked_ns; /* part of polled */
	uint16_t call;	     /* that blocked longest */
	uint64_t call_ns;
	uint64_t slowest_ns, slowest_end_ns, serial, number; /* the slowest, and its task */
};

/* What they wait for. */
struct handler_wait {
	uint32_t handler;
	uint64_t place, ns;
};

struct requests_state {
	struct rule_state st;
	struct map handlers; /* by kind of the handler */
	struct map waits;    /* by that, place; once they are judged by that, same_place() */
};

static struct handler *handler_of(struct requests_state *s, const struct tl_round *round,
				  const struct tl_task *task)
{
	struct handler *h = map_get_or_new(&s->handlers, round->kind, 0, sizeof(*h));

	if (h) {
		h->handler = round->kind;
		h->kind = task ? task->kind : TRACE_KIND_NONE;
	}
	return h;
}

static int requests_on_future_end(void *ctx, struct tl_future *future)
{
	uint64_t ns = future->end_ns - future->begin_ns;
	struct handler *h;

	if (!tl_is_round(future) || !future->task || future->outcome != TO_READY)
		return 0;
	h = handler_of(ctx, &future->round, future->task);
	if (!h)
		return -ENOMEM;
	if (ns >= h->latency.max) {
		h->slowest_ns = future->begin_ns;
		h->slowest_end_ns = future->end_ns;
		h->serial = future->task->serial;
		h->number = future->task->number;
	}
	return hist_add(&h->latency, ns);
}

static int requests_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct handler *h;

	if (!poll->round.serial || !tl_poll_measured(poll))
		return 0;
	h = handler_of(ctx, &poll->round, poll->task);
	if (!h)
		return -ENOMEM;
	h->polled_ns += poll->end_ns - poll->begin_ns;
	return 0;
}

static int requests_on_block(void *ctx, const struct tl_block *block)
{
	uint64_t ns = block->end_ns - block->begin_ns;
	struct handler *h;

	if (!block->round.serial || !block->keeps_worker)
		return 0;
	h = handler_of(ctx, &block->round, block->task);
	if (!h)
		return -ENOMEM;
	h->blocked_ns += ns;
	if (ns > h->call_ns) {
		h->call_ns = ns;
		h->call = block->call;
	}
	return 0;
}

static int requests_on_wait(void *ctx, const struct tl_wait *wait)
{
	struct requests_state *s = ctx;
	uint64_t ns = wait->end_ns - wait->begin_ns;
	struct handler_wait *w;
	struct handler *h;

	if (!wait->round.serial)
		return 0;
	h = handler_of(s, &wait->round, wait->task);
	w = map_get_or_new(&s->waits, wait->round.kind, wait->place, sizeof(*w));
	if (!h || !w)
		return -ENOMEM;
	if (wait->state == TS_SCHEDULED) {
		h->ready_ns += ns;
	} else if (wait->state == TS_WAITING) {
		h->waiting_ns += ns;
		w->handler = wait->round.kind;
		w->place = wait->place;
		w->ns += ns;
	}
	return 0;
}

/* Waits at places that read the same are waits at one. */
static int merge_waits(struct requests_state *s)
{
	struct map merged = {0};
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->waits, &pos))) {
		const struct handler_wait *w = e->value;
		uint64_t key = w->place ? same_place(&s->st, w->place) : 0;
		struct handler_wait *into;

		if (!w->place)
			continue;
		into = key ? map_get_or_new(&merged, w->handler, key, sizeof(*into)) : NULL;
		if (!into) {
			map_free(&merged, free);
			return -ENOMEM;
		}
		into->handler = w->handler;
		if (!into->place || w->place < into->place)
			into->place = w->place;
		into->ns += w->ns;
	}
	map_free(&s->waits, free);
	s->waits = merged;
	return 0;
}

static const struct handler_wait *longest_wait(const struct requests_state *s, uint32_t handler)
{
	const struct handler_wait *longest = NULL;
	const struct map_entry *e;
	size_t pos = 0;

	while ((e = map_next(&s->waits, &pos))) {
		const struct handler_wait *w = e->value;

		if (w->handler != handler)
			continue;
		if (!longest || w->ns > longest->ns ||
		    (w->ns == longest->ns && w->place < longest->place))
			longest = w;
	}
	return longest;
}

/* Where most of the time of all requests went, if it went to one. */
static void say_where(struct requests_state *s, struct finding_draft *d, const struct handler *h)
{
	uint64_t all = h->polled_ns + h->ready_ns + h->waiting_ns;
	const struct handler_wait *w = longest_wait(s, h->handler);

	if (w && w->ns > all / 2) {
		const char *awaits = place_awaits(&s->st, w->place);

		buf_printf(&d->text, "; they waited %llu %% of their time",
			   (unsigned long long)text_percent(w->ns, all));
		if (*awaits) {
			buf_str(&d->text, " for ");
			text_safe(&d->text, awaits);
		}
		buf_str(&d->text, " at ");
		say_place(&s->st, &d->text, w->place);
		d->f.place = w->place;
	} else if (h->ready_ns > all / 2) {
		buf_str(&d->text, "; most of their time they were ready, without a worker");
	} else if (h->blocked_ns > all / 2) {
		buf_printf(&d->text, "; most of their time they were blocked in %s",
			   trace_call_name(h->call));
	} else if (h->polled_ns > all / 2) {
		buf_str(&d->text, "; most of their time they were in polls");
	}
}

static int slower(const void *a, const void *b)
{
	const struct handler *x = *(struct handler *const *)a, *y = *(struct handler *const *)b;
	uint64_t p = hist_quantile(&x->latency, 0.99), q = hist_quantile(&y->latency, 0.99);

	return DESCENDING(p, q) ?: ASCENDING(x->handler, y->handler);
}

static int judge_slow_requests(struct rule_state *st)
{
	struct requests_state *s = (struct requests_state *)st;
	struct handler **handlers;

	if (!s->handlers.n)
		return rule_skips(st, "no handlers of requests were recognised");
	if (merge_waits(s) < 0)
		return -ENOMEM;
	handlers = map_sorted(&s->handlers, slower);
	if (!handlers)
		return -ENOMEM;
	const struct handler *h = handlers[0];
	uint64_t p99 = hist_quantile(&h->latency, 0.99);
	free(handlers);
	if (p99 < SLOW_NS)
		return 0;
	struct finding_draft *d = rule_finds(st, finding_score(30, 15, p99, NSEC_PER_SEC, 1));
	if (!d)
		return 0;
	buf_str(&d->text, "99 % of the requests to ");
	say_family(st, &d->text, h->handler);
	buf_str(&d->text, " took up to ");
	text_duration(&d->text, p99);
	say_where(s, d, h);
	d->f.kind = h->kind;
	d->f.handler = h->handler;
	finding_spans(d, h->slowest_ns, h->slowest_end_ns);
	finding_of(d, h->serial, h->number);
	return 0;
}

static void handler_free(void *value)
{
	hist_done(&((struct handler *)value)->latency);
	free(value);
}

static void done_slow_requests(struct rule_state *st)
{
	struct requests_state *s = (struct requests_state *)st;

	map_free(&s->handlers, handler_free);
	map_free(&s->waits, free);
}

const struct finding_rule rule_slow_requests = {
	.name = "slow-requests",
	.title = "slow requests",
	.sink =
		&(const struct timeline_sink){
			.future_end = requests_on_future_end,
			.poll = requests_on_poll,
			.block = requests_on_block,
			.wait = requests_on_wait,
		},
	.state_bytes = sizeof(struct requests_state),
	.judge = judge_slow_requests,
	.done = done_slow_requests,
};
