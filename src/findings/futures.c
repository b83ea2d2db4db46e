/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Futures inside tasks, where they were recorded: those that are dropped before they are ready. */
#include "findings/rule.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DROPPED_INSTANCES 20
#define DROPPED_SHARE 20 /* percent */

struct future_family {
	uint64_t n, n_ready, n_dropped;
	uint64_t begin_ns, end_ns, serial, number; /* of the first that was dropped, and its task */
	uint32_t parent_kind;			   /* of the last that was dropped */
};

struct dropped_state {
	struct rule_state st;
	struct map families; /* by kind */
};

static int on_future_end(void *ctx, struct tl_future *future)
{
	struct dropped_state *s = ctx;
	struct future_family *f;

	if (!future->end_ns)
		return 0;
	f = map_get_or_new(&s->families, future->kind, 0, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->n++;
	f->n_ready += future->outcome == TO_READY;
	if (future->outcome != TO_CANCELLED)
		return 0;
	if (!f->n_dropped++) {
		f->begin_ns = future->begin_ns;
		f->end_ns = future->end_ns;
		f->serial = future->task ? future->task->serial : 0;
		f->number = future->task ? future->task->number : 0;
	}
	f->parent_kind = future->parent ? future->parent->kind : TRACE_KIND_NONE;
	return 0;
}

/* "recv" of "tokio::sync::mpsc::bounded::recv<u32>". */
static const char *last_word(const char *name)
{
	const char *end = name + strcspn(name, "<"), *at = end;

	while (at > name && at[-1] != ':')
		at--;
	return at;
}

/* What is made to be dropped: the other side of a select!. */
static bool is_dropped_by_design(const char *name)
{
	static const char *const parts[] = {"leep",	"imeout", "otified", "tick",	"Interval",
					    "eadiness", "signal", "ancel",   "hutdown", "Acquire",
					    "recv",	"Recv",	  "changed", "accept",	"Delay"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(last_word(name), parts[i]))
			return true;
	return false;
}

static int judge_dropped(struct rule_state *st)
{
	struct dropped_state *s = (struct dropped_state *)st;
	const struct trace_reader *r = rule_facts(st)->reader;
	const struct map_entry *e;
	size_t pos = 0;

	if (!s->families.n)
		return rule_skips(st, "no futures were recorded (record --futures)");
	if (rule_lacks_events(st))
		return 0;
	while ((e = map_next(&s->families, &pos))) {
		const struct future_family *f = e->value;
		uint32_t kind = (uint32_t)e->a;
		const struct trace_kind *k = trace_reader_kind(r, kind);
		struct finding_draft *d;

		if (f->n < DROPPED_INSTANCES || f->n_dropped * 100 <= f->n * DROPPED_SHARE ||
		    !f->n_ready || (k && k->name && is_dropped_by_design(k->name)))
			continue;
		d = rule_finds(st, finding_score(40, 20, f->n_dropped, f->n, 1));
		if (!d)
			return 0;
		say_family(st, &d->text, kind);
		buf_str(&d->text, " was dropped unfinished ");
		text_exact(&d->text, f->n_dropped);
		buf_str(&d->text, " of ");
		say_count(&d->text, f->n, "time", "times");
		if (f->parent_kind != TRACE_KIND_NONE) {
			buf_str(&d->text, ", by ");
			say_family(st, &d->text, f->parent_kind);
		}
		buf_str(&d->text, ": what it had done until then is lost");
		d->f.kind = kind;
		finding_spans(d, f->begin_ns, f->end_ns);
		finding_of(d, f->serial, f->number);
	}
	return 0;
}

static void done_dropped(struct rule_state *st)
{
	map_free(&((struct dropped_state *)st)->families, free);
}

const struct finding_rule rule_dropped = {
	.name = "dropped",
	.title = "futures dropped unfinished",
	.advice = "keep the future over the turns of the select! (pin it outside of the loop), or "
		  "make "
		  "it safe to cancel",
	.sink = &(const struct timeline_sink){.future_end = on_future_end},
	.state_bytes = sizeof(struct dropped_state),
	.judge = judge_dropped,
	.done = done_dropped,
};
