/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the recording itself lacks: what else is found may be less than what there was. */
#include "findings/rule.h"

#define SHORT_NS (500 * NSEC_PER_MSEC)

struct quality_state {
	struct rule_state st;
	uint64_t n_lost, from_ns, to_ns;
	uint32_t threads[FINDING_LANES];
	size_t n_threads;
};

static void add_loss(struct quality_state *q, const struct tl_loss *loss)
{
	if (!q->n_lost || loss->begin_ns < q->from_ns)
		q->from_ns = loss->begin_ns;
	if (loss->end_ns > q->to_ns)
		q->to_ns = loss->end_ns;
	if (q->n_threads < FINDING_LANES)
		q->threads[q->n_threads++] = loss->thread;
	q->n_lost += loss->n_events;
}

static void mark_loss(struct finding_draft *d, const struct quality_state *q)
{
	finding_spans(d, q->from_ns, q->to_ns);
	for (size_t i = 0; i < q->n_threads; i++)
		finding_on(d, q->threads[i]);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	if (!loss->aux)
		add_loss(ctx, loss);
	return 0;
}

static int judge_events_lost(struct rule_state *st)
{
	struct quality_state *q = (struct quality_state *)st;

	if (!q->n_lost)
		return 0;
	struct finding_draft *d = rule_finds(st, 85);
	if (!d)
		return 0;
	say_count(&d->text, q->n_lost, "event was lost", "events were lost");
	buf_str(&d->text, ": counts are lower bounds; task states are unknown during the gaps");
	mark_loss(d, q);
	return 0;
}

const struct finding_rule rule_events_lost = {
	.name = "events-lost",
	.title = "lost events",
	.advice = "record with larger rings (--ring-size), or for a shorter time",
	.sink = &(const struct timeline_sink){.loss = on_loss},
	.state_bytes = sizeof(struct quality_state),
	.judge = judge_events_lost,
};

static int on_loss_aux(void *ctx, const struct tl_loss *loss)
{
	if (loss->aux)
		add_loss(ctx, loss);
	return 0;
}

static int judge_samples_lost(struct rule_state *st)
{
	struct quality_state *q = (struct quality_state *)st;

	if (!q->n_lost)
		return 0;
	struct finding_draft *d = rule_finds(st, 30);
	if (!d)
		return 0;
	say_count(&d->text, q->n_lost, "sample, system call or switch was lost",
		  "samples, system calls or switches were lost");
	buf_str(&d->text, ": the tables of these are lower bounds; tasks are exact");
	mark_loss(d, q);
	return 0;
}

const struct finding_rule rule_samples_lost = {
	.name = "samples-lost",
	.title = "lost samples",
	.sink = &(const struct timeline_sink){.loss = on_loss_aux},
	.state_bytes = sizeof(struct quality_state),
	.judge = judge_samples_lost,
};

static int judge_short(struct rule_state *st)
{
	const struct findings_scope *scope = &rule_facts(st)->scope;

	if (scope->filtered)
		return rule_skips(st, "a filter leaves events out");
	if (scope->length_ns >= SHORT_NS || !scope->totals->n_events)
		return 0;
	struct finding_draft *d = rule_finds(st, 5);
	if (!d)
		return 0;
	buf_str(&d->text, "the recording is only ");
	text_duration(&d->text, scope->length_ns);
	buf_str(&d->text, " long: rules that need a trend see little");
	return 0;
}

const struct finding_rule rule_short = {
	.name = "short",
	.title = "short recording",
	.state_bytes = sizeof(struct rule_state),
	.judge = judge_short,
};

static int judge_spawns_unseen(struct rule_state *st)
{
	const struct trace_reader *r = rule_facts(st)->reader;
	uint64_t seen = 0, total = 0;

	for (uint32_t i = 0; i < trace_reader_n_coverage(r); i++) {
		const struct trace_coverage *c = trace_reader_coverage(r, i);

		if (!c || c->cover != TRACE_COVER_SPAWNS)
			continue;
		seen += c->seen;
		total += c->total;
	}
	if (seen >= total)
		return 0;
	struct finding_draft *d = rule_finds(st, 10);
	if (!d)
		return 0;
	text_exact(&d->text, seen);
	buf_str(&d->text, " of ");
	say_count(&d->text, total, "spawn site is", "spawn sites are");
	buf_str(&d->text, " seen: tasks of the others seem to be from before the recording");
	return 0;
}

const struct finding_rule rule_spawns_unseen = {
	.name = "spawns-unseen",
	.title = "spawn sites that are not seen",
	.state_bytes = sizeof(struct rule_state),
	.judge = judge_spawns_unseen,
};
