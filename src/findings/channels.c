/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Channels that are full, or fill: senders that wait for room, receivers that fall behind. The memory of a
 * moment has the receiving end and how many messages there are; the events have who waits for how long.
 */
#include "findings/rule.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UNSERVED_NS (900 * NSEC_PER_MSEC)

/* What the task that receives does in the moment. */
static void say_receiver(struct buf *out, const struct rule_moment *rm, const struct moment_task *t)
{
	const struct moment_thread *thread = moment_thread_of(&rm->m, t);
	const struct await_node *own = NULL;
	_cleanup_buf_ struct buf call = BUF_INIT;

	say_moment_task(out, t);
	buf_str(out, ", which receives from it, ");
	if (t->state == IS_SCHEDULED) {
		buf_str(out, "is ready, but not polled");
	} else if (t->state != IS_IDLE) {
		buf_str(out, "runs");
		if (thread && say_call(&call, thread) && call.data)
			buf_printf(out, ", in %s", call.data);
	} else {
		buf_str(out, "waits");
		if (t->tree)
			graph_leaf(&rm->graph, t->tree, &own);
		if (own)
			say_at(out, own->file, own->line, own->name);
	}
}

/* The receiving end of the channel, in a task; NULL: it is not seen. */
static const struct graph_held *receiver_of(const struct rule_moment *rm, uint64_t channel)
{
	for (size_t i = 0; i < rm->graph.n_held; i++) {
		const struct graph_held *h = &rm->graph.held[i];

		if (h->held->kind == AH_CHANNEL && h->held->addr == channel &&
		    h->node->wait != AW_CHANNEL_SEND)
			return h;
	}
	return NULL;
}

/* ---- what was in channels when the recording began ---- */

/* Messages + 1, by the channel and the id of the task that receives: each receiver of a broadcast
 * channel has others. 0: of any task. */
static void note_lengths(const struct await_node *n, uint64_t task, struct map *lengths, int *rc)
{
	for (size_t i = 0; i < n->n_held && *rc == 0; i++)
		if (n->held[i].kind == AH_CHANNEL && n->held[i].counted)
			*rc = map_put(lengths, n->held[i].addr, task,
				      (void *)(uintptr_t)(n->held[i].length + 1));
	for (size_t i = 0; i < n->n_children; i++)
		note_lengths(n->children[i], task, lengths, rc);
}

static int lengths_before(const struct rule_state *st, uint32_t process, bool by_task,
			  struct map *ret_lengths, uint64_t *ret_ns)
{
	struct trace_moment m = {0};
	int rc = trace_reader_moment(rule_facts(st)->reader, process, MOMENT_START, &m, NULL);

	*ret_ns = rc > 0 ? m.now_ns : 0;
	rc = rc == -ENOMEM ? rc : 0;
	for (size_t i = 0; i < m.n_tasks && rc == 0; i++)
		if (m.tasks[i].tree && (!by_task || m.tasks[i].id))
			note_lengths(m.tasks[i].tree, by_task ? m.tasks[i].id : 0, ret_lengths,
				     &rc);
	moment_done(&m);
	return rc;
}

/* ---- a channel that fills ---- */

#define QUEUED_MANY 1000
#define QUEUED_SOME 100

/* The receiver of a channel, and the task that has it: where it waits for a message, if it does. */
static const struct graph_held *fullest(const struct rule_moment *rm, const struct map *before,
					uint64_t *ret_before)
{
	const struct graph_held *most = NULL;

	for (size_t i = 0; i < rm->graph.n_held; i++) {
		const struct await_held *h = rm->graph.held[i].held;
		uint64_t noted = (uintptr_t)map_get(before, h->addr, 0),
			 was = noted ? noted - 1 : 0;

		if (h->kind != AH_CHANNEL || !h->counted || h->length < QUEUED_SOME)
			continue;
		/* One that is bounded fills up: that is what the bound is there for. */
		if (h->capacity || (h->length < QUEUED_MANY && (!was || h->length * 5 < was * 6)))
			continue;
		if (most && h->length <= most->held->length)
			continue;
		most = &rm->graph.held[i];
		*ret_before = was;
	}
	return most;
}

static bool any_channel(const struct rule_moment *rm)
{
	for (size_t i = 0; i < rm->graph.n_held; i++)
		if (rm->graph.held[i].held->length >= QUEUED_SOME)
			return true;
	return false;
}

static void find_channel(struct rule_state *st, const struct rule_moment *rm,
			 const struct graph_held *h, uint64_t before, uint64_t before_ns)
{
	const struct moment_task *t = &rm->m.tasks[h->task];
	bool grows = before_ns && rm->m.now_ns > before_ns && h->held->length > before;
	uint64_t length = h->held->length;
	struct finding_draft *d =
		rule_finds(st, finding_score(grows ? 50 : 35, 30, length, 100000, 1));

	if (!d)
		return;
	say_count(&d->text, length, "message is", "messages are");
	buf_str(&d->text, " queued in a channel without a bound");
	if (grows) {
		buf_str(&d->text, ", ");
		text_rate(&d->text, length - before, rm->m.now_ns - before_ns);
		buf_str(&d->text, " more each second");
	}
	buf_str(&d->text, ": ");
	say_receiver(&d->text, rm, t);
	buf_str(&d->text, "; ");
	say_count(&d->text, h->held->senders, "sender", "senders");
	finding_of_moment(d, st, rm, t);
	finding_spans(d, before_ns ? before_ns : rm->m.now_ns, rm->m.now_ns);
}

static int judge_channel(struct rule_state *st, const struct rule_moment *rm)
{
	struct map before = {0};
	uint64_t was = 0, before_ns = 0;
	const struct graph_held *h;
	int rc = 0;

	if (!any_channel(rm))
		return 0;
	if (rm->m.when == MOMENT_END)
		rc = lengths_before(st, rm->m.process, false, &before, &before_ns);
	h = rc == 0 ? fullest(rm, &before, &was) : NULL;
	if (h)
		find_channel(st, rm, h, was, before_ns);
	map_done(&before);
	return rc;
}

const struct finding_rule rule_channel = {
	.name = "channel-fills",
	.title = "a channel without a bound that fills",
	.advice = "give the channel a bound, so that senders wait, or let more tasks receive",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_channel,
};

/* ---- a channel that is full ---- */

#define STUCK_SENDERS 2
#define STUCK_NS NSEC_PER_SEC
#define SENDERS_SHARE 4 /* as many senders that wait all the time make the full score */

bool place_is_send(const struct rule_state *st, uint64_t place)
{
	static const char *const channels[] = {"mpsc", "channel", "flume"};
	bool channel = false;

	for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]) && !channel; i++)
		channel = place_awaits_a(st, place, channels[i]);
	return channel && (place_awaits_a(st, place, "send") || place_awaits_a(st, place, "Send") ||
			   place_awaits_a(st, place, "reserve"));
}

/* The channel for which such a task waits in the moment: 0: not known. */
static uint64_t channel_waited_for(const struct await_node *n)
{
	if (n->kind == AN_LEAF && n->wait == AW_CHANNEL_SEND)
		for (size_t i = 0; i < n->n_held; i++)
			if (n->held[i].kind == AH_CHANNEL)
				return n->held[i].addr;
	for (size_t i = 0; i < n->n_children; i++) {
		uint64_t channel = channel_waited_for(n->children[i]);

		if (channel)
			return channel;
	}
	return 0;
}

/* Of a channel for which a task of the kind waits when the recording ends; *ret_known: there is such a channel. */
static const struct graph_held *receiver_for(const struct rule_state *st, uint32_t kind,
					     const struct rule_moment **ret_rm, bool *ret_known)
{
	const struct findings_facts *facts = rule_facts(st);

	*ret_known = false;

	for (size_t k = 0; k < facts->n_moments; k++) {
		const struct rule_moment *rm = &facts->moments[k];

		for (size_t i = 0; i < rm->m.n_tasks && rm->m.when == MOMENT_END; i++) {
			const struct moment_task *t = &rm->m.tasks[i];
			uint64_t channel = rm->kinds[i] == kind && t->tree && t->state == IS_IDLE
						   ? channel_waited_for(t->tree)
						   : 0;
			const struct graph_held *h = channel ? receiver_of(rm, channel) : NULL;

			*ret_rm = rm;
			*ret_known = *ret_known || channel;
			if (h)
				return h;
		}
	}
	return NULL;
}

/* No sender has got room for long, as far as was seen. */
static bool is_stuck(const struct rule_state *st, const struct long_waits *w)
{
	return !w->n_waits && w->n_open >= STUCK_SENDERS &&
	       rule_facts(st)->scope.end_ns - w->first_open_ns >= STUCK_NS;
}

static void say_senders(const struct rule_state *st, struct finding_draft *d,
			const struct long_waits *w)
{
	bool stuck = is_stuck(st, w);

	if (stuck)
		say_count(&d->text, w->n_open, "task of ", "tasks of ");
	else
		say_count(&d->text, w->n_waits + w->n_open, "wait of ", "waits of ");
	say_family(st, &d->text, w->kind);
	buf_str(&d->text, stuck ? " wait for room in a channel at " : " for room in a channel at ");
	say_place(st, &d->text, w->place);
	if (stuck) {
		buf_str(&d->text, ", the longest for ");
		text_duration(&d->text, rule_facts(st)->scope.end_ns - w->first_open_ns);
	} else {
		buf_str(&d->text, " took up to ");
		text_duration(&d->text, w->max_ns);
	}
}

/* Whom the memory shows, else whose polls let the senders go on. */
static void say_who_receives(const struct rule_state *st, struct finding_draft *d,
			     const struct long_waits *w)
{
	const struct rule_moment *rm = NULL;
	bool known;
	const struct graph_held *h = receiver_for(st, w->kind, &rm, &known);
	const struct convoy *by = w->n_convoys ? &w->worst : &w->longest;
	_cleanup_buf_ struct buf before = BUF_INIT;

	if (h) {
		buf_str(&d->text, ": ");
		say_receiver(&d->text, rm, &rm->m.tasks[h->task]);
		finding_of_moment(d, st, rm, &rm->m.tasks[h->task]);
		if (is_stuck(st, w) && !rule_is_quiet(st, rm, &rm->m.tasks[h->task])) {
			buf_str(&d->text, "; it is polled, but takes nothing from this one");
			d->f.advice = "what it polls first is always ready: give this channel its "
				      "turn (select! without biased, or the other branch last)";
		}
	} else if (w->n_waits && by->by.kind != TRACE_KIND_NONE) {
		buf_str(&d->text, ": ");
		say_family(st, &d->text, by->by.kind);
		buf_str(&d->text, " receives from it");
		finding_of(d, by->by.serial, by->by.number);
	} else if (is_stuck(st, w) && known) {
		buf_str(&d->text, ": no task is seen to receive from it");
		d->f.advice = "the task that received may have ended, or panicked: drop the "
			      "receiver with it, so "
			      "that sends fail";
	}
	if (!w->n_waits || !by->by.place || place_waits_for(st, by->by.place) == WF_MESSAGE)
		return;
	say_place(st, &before, by->by.place);
	/* Mostly it waits there now, too. */
	if (before.data && !(d->text.data && strstr(d->text.data, before.data)))
		buf_printf(&d->text, "%s%s",
			   h ? "; before it took a message it had waited at "
			     : ", after a wait at ",
			   before.data);
}

static void find_full(struct rule_state *st, const struct long_waits *w)
{
	uint64_t length = rule_facts(st)->scope.length_ns;
	struct finding_draft *d =
		rule_finds(st, is_stuck(st, w) ? 88
					       : finding_score(30, 40, w->sum_ns + w->open_sum_ns,
							       length, SENDERS_SHARE));

	if (!d)
		return;
	say_senders(st, d, w);
	d->f.kind = w->kind;
	d->f.place = w->place;
	if (w->n_waits) {
		finding_spans(d, w->time_ns, w->time_ns + w->max_ns);
		finding_of(d, w->serial, w->number);
	} else {
		finding_spans(d, w->first_open_ns, rule_facts(st)->scope.end_ns);
		finding_of(d, w->open_serial, w->open_number);
	}
	say_who_receives(st, d, w);
}

static int judge_full(struct rule_state *st)
{
	int rc;
	struct long_waits **all = wait_notes_sorted(&rule_facts(st)->waits, &rc);

	for (size_t i = 0, n = 0; all && i < rule_facts(st)->waits.points.n && n < MOST_FINDINGS;
	     i++) {
		if ((all[i]->n_waits < CONVOY_WAITS && !is_stuck(st, all[i])) ||
		    !place_is_send(st, all[i]->place))
			continue;
		find_full(st, all[i]);
		n++;
	}
	free(all);
	return rc;
}

const struct finding_rule rule_full_channel = {
	.name = "channel-full",
	.title = "a channel that is full",
	.advice = "make what the receiver does for a message quicker, or let more tasks receive; a "
		  "larger channel is full a little later",
	.needs_events = true,
	.state_bytes = sizeof(struct rule_state),
	.judge = judge_full,
};

/* ---- a broadcast channel that overtakes its receivers ---- */

/* All that the channel keeps is new to it, but for what it may have received in the moment, at both ends of the
 * recording if it was there: the next messages take the place of what it has not received. */
static bool is_overtaken(const struct rule_moment *rm, const struct graph_held *h,
			 const struct map *before)
{
	const struct await_held *c = h->held;
	uint64_t was = (uintptr_t)map_get(before, c->addr, rm->m.tasks[h->task].id);

	return c->kind == AH_CHANNEL && c->counted && c->capacity && c->length <= c->capacity &&
	       c->capacity - c->length <= c->capacity / 16 && c->type &&
	       strstr(c->type, "broadcast::") && (!was || (was - 1) * 4 >= c->capacity * 3);
}

static int judge_overtaken(struct rule_state *st, const struct rule_moment *rm)
{
	const struct graph_held *first = NULL;
	struct map before = {0};
	struct finding_draft *d;
	uint64_t n = 0, before_ns;
	int rc = rm->m.when == MOMENT_END
			 ? lengths_before(st, rm->m.process, true, &before, &before_ns)
			 : 0;

	for (size_t i = 0; i < rm->graph.n_held && rc == 0; i++) {
		if (!is_overtaken(rm, &rm->graph.held[i], &before))
			continue;
		first = first ? first : &rm->graph.held[i];
		n++;
	}
	map_done(&before);
	if (!first || !(d = rule_finds(st, 62)))
		return rc;
	if (first->held->length == first->held->capacity)
		buf_str(&d->text, "all ");
	else
		buf_printf(&d->text, "%llu of ", (unsigned long long)first->held->length);
	buf_printf(&d->text,
		   "%llu messages of a broadcast channel are new to one of its receivers: ",
		   (unsigned long long)first->held->capacity);
	say_receiver(&d->text, rm, &rm->m.tasks[first->task]);
	buf_str(&d->text, ", and loses what is overwritten (RecvError::Lagged)");
	if (n > 1) {
		buf_str(&d->text, "; so do ");
		say_count(&d->text, n - 1, "other receiver", "other receivers");
	}
	finding_of_moment(d, st, rm, &rm->m.tasks[first->task]);
	finding_spans(d, rm->m.now_ns, rm->m.now_ns);
	return rc;
}

const struct finding_rule rule_overtaken = {
	.name = "broadcast-lag",
	.title = "a broadcast channel that is ahead of its receivers",
	.advice = "receive all the time and do the work elsewhere, or let the channel keep more; "
		  "Lagged says how many were lost",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_overtaken,
};

/* ---- messages that are there, and not taken ---- */

static int judge_unserved(struct rule_state *st, const struct rule_moment *rm)
{
	uint64_t half_ns = rule_facts(st)->scope.length_ns / 2,
		 unserved_ns = half_ns > UNSERVED_NS ? half_ns : UNSERVED_NS;

	if (rm->m.when != MOMENT_END || !rm->m.stopped ||
	    rule_facts(st)->scope.length_ns < UNSERVED_NS)
		return 0;
	for (size_t i = 0, n = 0; i < rm->graph.n_held && n < MOST_FINDINGS; i++) {
		const struct graph_held *h = &rm->graph.held[i];
		const struct moment_task *t = &rm->m.tasks[h->task];
		const struct await_node *leaf, *own;
		struct finding_draft *d;
		size_t n_leaves = 0;

		if (h->held->kind != AH_CHANNEL || !h->held->counted || !h->held->length ||
		    h->node->kind == AN_LEAF || t->state != IS_IDLE || !t->tree ||
		    rule_waited_ns(st, rm, t) < unserved_ns)
			continue;
		leaf = only_leaf(t->tree, &n_leaves);
		if (!leaf || leaf->granted || leaf->resource == h->held->addr ||
		    !is_given_by_tasks(leaf->wait))
			continue;
		d = rule_finds(st, 72);
		if (!d)
			return 0;
		n++;
		say_count(&d->text, h->held->length, "message is", "messages are");
		buf_str(&d->text, " in the channel that ");
		say_moment_task(&d->text, t);
		buf_str(&d->text, " receives from, but ");
		if (rule_is_quiet(st, rm, t)) {
			buf_str(&d->text, "all the time");
		} else {
			buf_str(&d->text, "for ");
			text_duration(&d->text, rule_waited_ns(st, rm, t));
		}
		buf_str(&d->text, " it has waited for ");
		text_safe(&d->text, leaf->name ? leaf->name : "?");
		graph_leaf(&rm->graph, t->tree, &own);
		if (own)
			say_at(&d->text, own->file, own->line, own->name);
		finding_of_moment(d, st, rm, t);
		finding_spans(d, rule_facts(st)->scope.begin_ns, rm->m.now_ns);
	}
	return 0;
}

const struct finding_rule rule_unserved = {
	.name = "unserved-channel",
	.title = "messages that are there, but their receiver waits elsewhere",
	.advice = "if what it waits for is to come by that channel, it never does: an actor must "
		  "not wait for an answer to a message of its own",
	.needs_events = true,
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_unserved,
};
