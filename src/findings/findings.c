/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/compare.h"
#include "findings/rule.h"

#include "base/map.h"
#include "base/vec.h"
#include "timeline/moments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Causes come before what they may explain: the order of equal scores. */
static const struct finding_rule *const rules[] = {
	&rule_events_lost, &rule_deadlock,	 &rule_read_twice,     &rule_semaphore,
	&rule_stuck_poll,  &rule_pool_stuck,	 &rule_lost_task,      &rule_runtime_drop,
	&rule_guard,	   &rule_held_future,	 &rule_channel,	       &rule_full_channel,
	&rule_overtaken,   &rule_unserved,	 &rule_descriptors,    &rule_failing_calls,
	&rule_overdue,	   &rule_nothing_polled, &rule_panicked,       &rule_open_poll,
	&rule_throttled,   &rule_no_cpu,	 &rule_pool_full,      &rule_no_progress,
	&rule_driver,	   &rule_long_polls,	 &rule_blocking_calls, &rule_slow_requests,
	&rule_spin,	   &rule_busy,		 &rule_convoy,	       &rule_growth,
	&rule_kept,	   &rule_lifo_slot,	 &rule_delay,	       &rule_never_polled,
	&rule_queue_depth, &rule_dropped,	 &rule_herd,	       &rule_imbalance,
	&rule_in_place,	   &rule_chatty_pool,	 &rule_samples_lost,   &rule_spawns_unseen,
	&rule_short,	   &rule_large_future,	 &rule_boxed_future,   &rule_cancelled,
	&rule_idle_waits,
};
#define N_RULES (sizeof(rules) / sizeof(rules[0]))

/* A wake of longer ago is forgotten: a task that waits for a worker behind more of them has other
 * troubles. A power of two. */
#define N_RECENT_WAKES (1u << 14)

/* Of all moments: those of processes after that many are not read. */
#define MOMENTS_BYTES ((size_t)512 << 20)

struct findings {
	struct findings_facts facts;
	const char *const *own;
	struct rule_state *states[N_RULES];
	struct fan_out_sink sinks[N_RULES + 2];
	size_t n_sinks;
	struct live_tasks live;
	struct recent_wake *wakes; /* by serial, modulo N_RECENT_WAKES */
	struct finding_draft **drafts;
	size_t n_drafts;
	bool out_of_memory;
};

/* ---- shared facts ---- */

static size_t rule_index(const char *name)
{
	size_t i = 0;

	while (i < N_RULES && strcmp(rules[i]->name, name) != 0)
		i++;
	return i;
}

static int on_thread_end(void *ctx, const struct tl_thread *thread)
{
	struct findings_facts *facts = &((struct findings *)ctx)->facts;

	if (!GROW(facts->threads, facts->n_threads, facts->cap_threads))
		return -ENOMEM;
	facts->threads[facts->n_threads++] = *thread;
	if (thread->worker) {
		if (map_put_const(&facts->workers, thread->thread, 0, facts) < 0)
			return -ENOMEM;
		facts->n_workers++;
		facts->worker_ns += thread->end_ns - thread->begin_ns;
		facts->busy_ns += thread->busy_ns;
	}
	return 0;
}

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct findings *f = ctx;

	f->wakes[wake->serial % N_RECENT_WAKES] = (struct recent_wake){
		.serial = wake->serial,
		.thread = wake->thread,
		.source = wake->source_task ? wake->source_task->serial : 0,
		.source_kind = wake->source_task ? wake->source_task->kind : TRACE_KIND_NONE,
	};
	wait_notes_wake(&f->facts.waits, wake);
	return 0;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	return wait_notes_wait(&((struct findings *)ctx)->facts.waits, wait);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	if (!loss->aux)
		((struct findings *)ctx)->facts.n_lost += loss->n_events;
	return 0;
}

/* Rules get a poll after this: what was seen in it is facts.note then. */
static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct findings_facts *facts = &((struct findings *)ctx)->facts;

	facts->note = poll_notes_take(&facts->notes, poll);
	return 0;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	return poll_notes_block(&((struct findings *)ctx)->facts.notes, block);
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	return poll_notes_sample(&((struct findings *)ctx)->facts.notes, sample);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	return poll_notes_off_cpu(&((struct findings *)ctx)->facts.notes, off);
}

static const struct timeline_sink facts_sink = {
	.poll = on_poll,
	.block = on_block,
	.sample = on_sample,
	.off_cpu = on_off_cpu,
	.thread_end = on_thread_end,
	.wake = on_wake,
	.wait = on_wait,
	.loss = on_loss,
};

const struct findings_facts *rule_facts(const struct rule_state *st)
{
	return &st->all->facts;
}

const struct recent_wake *rule_wake(const struct rule_state *st, uint64_t serial)
{
	const struct recent_wake *wake = &st->all->wakes[serial % N_RECENT_WAKES];

	return serial && wake->serial == serial ? wake : NULL;
}

const struct rule_state *rule_state_of(const struct rule_state *st, const struct finding_rule *rule)
{
	return st->all->states[rule_index(rule->name)];
}

bool rule_is_worker(const struct rule_state *st, uint32_t thread)
{
	return map_get(&rule_facts(st)->workers, thread, 0);
}

uint32_t rule_count_workers(const struct rule_state *st, const uint32_t *threads, size_t n)
{
	uint32_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += rule_is_worker(st, threads[i]);
	return count;
}

/* ---- moments ---- */

/* TRACE_KIND_NONE: the trace has none. */
static uint32_t moment_kind(const struct rule_moment *rm, const struct moment_task *t)
{
	return rm->kinds[t - rm->m.tasks];
}

const struct live_task *rule_live(const struct rule_state *st, const struct rule_moment *rm,
				  const struct moment_task *t)
{
	return live_task(&st->all->live, rule_facts(st)->reader, moment_kind(rm, t), t);
}

bool rule_is_quiet(const struct rule_state *st, const struct rule_moment *rm,
		   const struct moment_task *t)
{
	const struct live_task *live = rule_live(st, rm, t);

	return live && live->quiet;
}

uint64_t rule_seen_until_ns(const struct rule_state *st, const struct rule_moment *rm)
{
	uint64_t end_ns = rule_facts(st)->scope.end_ns;

	return rm->m.now_ns < end_ns ? rm->m.now_ns : end_ns;
}

uint64_t rule_waited_ns(const struct rule_state *st, const struct rule_moment *rm,
			const struct moment_task *t)
{
	const struct live_task *live = rule_live(st, rm, t);
	uint64_t until_ns = rule_seen_until_ns(st, rm),
		 since_ns = !live	  ? 0
			    : live->quiet ? rule_facts(st)->scope.begin_ns
					  : live->since_ns;

	return since_ns && until_ns > since_ns ? until_ns - since_ns : 0;
}

/* 1: it was read. */
static int read_moment(struct findings *f, struct tl_moments *names, uint32_t process,
		       enum moment_when when)
{
	struct findings_facts *facts = &f->facts;
	struct rule_moment *rm;
	int rc;

	if (!GROW_ONE(facts->moments, facts->n_moments))
		return -ENOMEM;
	rm = &facts->moments[facts->n_moments];
	*rm = (struct rule_moment){0};
	rc = trace_reader_moment(facts->reader, process, when, &rm->m, NULL);
	if (rc <= 0) {
		moment_done(&rm->m);
		return rc;
	}
	/* Taken after what is known of a recording that was cut off. */
	if (when == MOMENT_END && rm->m.now_ns > trace_reader_complete_ns(facts->reader)) {
		moment_done(&rm->m);
		return 0;
	}
	facts->n_moments++; /* findings_free() has it from here on */
	rm->kinds = calloc(rm->m.n_tasks + 1, sizeof(*rm->kinds));
	if (!rm->kinds)
		return -ENOMEM;
	for (size_t i = 0; i < rm->m.n_tasks; i++)
		rm->kinds[i] = tl_moments_kind(names, facts->reader, process, rm->m.tasks[i].kind);
	rc = graph_make(&rm->m, &rm->graph, NULL);
	rm->graph.own = f->own;
	return rc < 0 ? rc : 1;
}

static int read_moments(struct findings *f)
{
	struct tl_moments names = {0};
	size_t bytes = 0;
	int rc = 0;

	for (uint32_t i = 0; i < trace_reader_n_processes(f->facts.reader) && rc >= 0; i++) {
		if (bytes > MOMENTS_BYTES)
			break;
		rc = read_moment(f, &names, i, MOMENT_END);
		if (rc == 0)
			rc = read_moment(f, &names, i, MOMENT_START);
		if (rc > 0)
			bytes += f->facts.moments[f->facts.n_moments - 1].m.memory_bytes;
	}
	tl_moments_done(&names);
	/* They have moved as the array grew. */
	for (size_t i = 0; i < f->facts.n_moments; i++)
		f->facts.moments[i].graph.moment = &f->facts.moments[i].m;
	return rc < 0 ? rc : 0;
}

static void moments_free(struct findings_facts *facts)
{
	for (size_t i = 0; i < facts->n_moments; i++) {
		graph_done(&facts->moments[i].graph);
		moment_done(&facts->moments[i].m);
		free(facts->moments[i].kinds);
	}
	free(facts->moments);
	facts->moments = NULL;
	facts->n_moments = 0;
}

/* ---- life ---- */

struct findings *findings_new(struct trace_reader *r, const char *const *own)
{
	struct findings *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->facts.reader = r;
	f->own = own;
	f->wakes = calloc(N_RECENT_WAKES, sizeof(*f->wakes));
	f->sinks[f->n_sinks++] = (struct fan_out_sink){&facts_sink, f};
	f->sinks[f->n_sinks++] = (struct fan_out_sink){&live_tasks_sink, &f->live};
	bool ok = f->wakes;
	for (size_t i = 0; i < N_RULES && ok; i++) {
		f->states[i] = calloc(1, rules[i]->state_bytes);
		ok = f->states[i];
		if (!ok)
			break;
		f->states[i]->all = f;
		f->states[i]->rule = rules[i];
		if (rules[i]->sink)
			f->sinks[f->n_sinks++] =
				(struct fan_out_sink){rules[i]->sink, f->states[i]};
	}
	if (ok)
		return f;
	findings_free(f);
	return NULL;
}

static void draft_free(struct finding_draft *d)
{
	buf_done(&d->text);
	free(d);
}

void findings_free(struct findings *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < N_RULES; i++) {
		if (f->states[i] && rules[i]->done)
			rules[i]->done(f->states[i]);
		free(f->states[i]);
	}
	for (size_t i = 0; i < f->n_drafts; i++)
		draft_free(f->drafts[i]);
	free(f->drafts);
	moments_free(&f->facts);
	live_tasks_done(&f->live);
	free(f->wakes);
	free(f->facts.threads);
	poll_notes_done(&f->facts.notes);
	wait_notes_done(&f->facts.waits);
	map_done(&f->facts.workers);
	free(f);
}

const struct fan_out_sink *findings_sinks(const struct findings *f, size_t *ret_n)
{
	*ret_n = f->n_sinks;
	return f->sinks;
}

/* ---- results ---- */

struct finding_draft *rule_finds(struct rule_state *st, unsigned score)
{
	struct findings *f = st->all;
	struct finding_draft *d = calloc(1, sizeof(*d));

	if (!d || !GROW_ONE(f->drafts, f->n_drafts)) {
		f->out_of_memory = true;
		free(d);
		return NULL;
	}
	d->f = (struct finding){
		.rule = st->rule->name,
		.title = st->rule->title,
		.score = score < 1     ? 1
			 : score > 100 ? 100
				       : score,
		.advice = st->rule->advice,
		.stays = st->rule->stays,
		.kind = TRACE_KIND_NONE,
		.handler = TRACE_KIND_NONE,
		.process = UINT32_MAX,
	};
	st->verdict = FV_FOUND;
	f->drafts[f->n_drafts++] = d;
	return d;
}

void finding_spans(struct finding_draft *d, uint64_t from_ns, uint64_t to_ns)
{
	d->f.time_ns = d->f.from_ns = from_ns;
	d->f.to_ns = to_ns > from_ns ? to_ns : from_ns;
}

void finding_on(struct finding_draft *d, uint32_t thread)
{
	for (size_t i = 0; i < d->f.n_threads; i++)
		if (d->f.threads[i] == thread)
			return;
	if (d->f.n_threads < FINDING_LANES)
		d->f.threads[d->f.n_threads++] = thread;
}

void finding_of(struct finding_draft *d, uint64_t serial, uint64_t number)
{
	for (size_t i = 0; i < d->f.n_tasks; i++)
		if (d->f.tasks[i] == serial)
			return;
	if (!serial || d->f.n_tasks == FINDING_LANES)
		return;
	d->f.numbers[d->f.n_tasks] = number;
	d->f.tasks[d->f.n_tasks++] = serial;
}

void finding_of_moment_thread(struct finding_draft *d, const struct rule_state *st,
			      const struct rule_moment *rm, const struct moment_thread *t)
{
	const struct trace_reader *r = rule_facts(st)->reader;

	for (uint32_t i = 0; i < trace_reader_n_threads(r); i++) {
		const struct trace_thread *thread = trace_reader_thread(r, i);

		if (thread && thread->process == rm->m.process && thread->tid == t->tid)
			finding_on(d, i);
	}
}

void finding_of_moment(struct finding_draft *d, const struct rule_state *st,
		       const struct rule_moment *rm, const struct moment_task *t)
{
	const struct live_task *live = rule_live(st, rm, t);

	d->f.process = rm->m.process;
	if (d->f.kind == TRACE_KIND_NONE)
		d->f.kind = moment_kind(rm, t);
	if (live)
		finding_of(d, live->serial, live->number);
	if (t->thread && t->thread <= rm->m.n_threads)
		finding_of_moment_thread(d, st, rm, &rm->m.threads[t->thread - 1]);
}

/* What it leaves open: it is of the whole recording, in the process of its threads or family. */
static void finding_complete(const struct findings_facts *facts, struct finding *f)
{
	const struct trace_thread *t =
		f->n_threads ? trace_reader_thread(facts->reader, f->threads[0]) : NULL;
	const struct trace_kind *k = trace_reader_kind(facts->reader, f->kind);

	if (!f->time_ns) {
		f->from_ns = facts->scope.begin_ns;
		f->to_ns = facts->scope.end_ns;
	}
	/* A moment may be later than the last event. */
	if (f->to_ns > facts->scope.end_ns)
		f->to_ns = facts->scope.end_ns;
	if (f->from_ns > f->to_ns)
		f->time_ns = f->from_ns = f->to_ns;
	if (f->process != UINT32_MAX)
		return;
	if (t)
		f->process = t->process;
	else if (k)
		f->process = k->process;
	else if (trace_reader_n_processes(facts->reader) == 1)
		f->process = 0;
}

static bool has_found(const struct findings *f, const char *rule, uint32_t kind)
{
	for (size_t i = 0; i < f->n_drafts; i++)
		if (f->drafts[i]->f.kind == kind && (!rule || !strcmp(f->drafts[i]->f.rule, rule)))
			return true;
	return false;
}

bool rule_has_found(const struct rule_state *st, const struct finding_rule *rule, uint32_t kind)
{
	return has_found(st->all, rule->name, kind);
}

bool rule_has_found_any(const struct rule_state *st, uint32_t kind)
{
	return has_found(st->all, NULL, kind);
}

int rule_skips(struct rule_state *st, const char *reason)
{
	st->verdict = FV_NOT_APPLICABLE;
	st->reason = reason;
	return 0;
}

bool rule_lacks_events(struct rule_state *st)
{
	const struct findings_facts *facts = rule_facts(st);

	if (facts->n_lost)
		rule_skips(st, "events were lost");
	else if (facts->scope.filtered)
		rule_skips(st, "a filter leaves events out");
	return st->verdict == FV_NOT_APPLICABLE;
}

unsigned finding_score(unsigned base, unsigned more, uint64_t part, uint64_t whole,
		       double full_share)
{
	double share = whole ? (double)part / (double)whole / full_share : 0;

	return base + (unsigned)((share < 1 ? share : 1) * more);
}

/* What is explained by another finding comes after it. */
static int compare_drafts(const void *a, const void *b)
{
	const struct finding *x = &(*(struct finding_draft *const *)a)->f;
	const struct finding *y = &(*(struct finding_draft *const *)b)->f;
	size_t xi = rule_index(x->rule), yi = rule_index(y->rule);

	return DESCENDING(x->score, y->score) ?: ASCENDING(xi, yi) ?: ASCENDING(x->kind, y->kind);
}

static const struct finding *stronger(const struct finding *a, const struct finding *b)
{
	return !a || (b && b->score > a->score) ? b : a;
}

#define MAX_CAUSES 8

/* A consequence scores below its cause, which its text names. */
static void link_causes(struct findings *f)
{
	static const struct {
		const char *effect, *causes[MAX_CAUSES];
	} links[] = {
		{"lifo-slot", {"throttled"}},
		{"failing-calls", {"descriptors"}},
		{"spin", {"descriptors", "failing-calls"}},
		{"stuck-poll", {"guard-over-await"}},
		{"open-poll", {"guard-over-await"}},
		{"nothing-polled",
		 {"deadlock", "read-twice", "semaphore-stuck", "stuck-poll", "pool-stuck",
		  "lost-task", "guard-over-await", "unserved-channel"}},
		{"overdue-timers", {"throttled", "stuck-poll", "open-poll", "long-polls"}},
		{"no-progress",
		 {"deadlock", "read-twice", "semaphore-stuck", "held-future", "channel-full",
		  "pool-full", "pool-stuck"}},
		{"queue-depth", {"throttled", "no-cpu", "open-poll", "long-polls"}},
		{"driver-stalled", {"throttled", "open-poll", "long-polls"}},
		{"delay", {"throttled", "open-poll", "lifo-slot", "long-polls", "no-cpu"}},
		{"never-polled", {"pool-full", "open-poll", "long-polls", "no-cpu"}},
		{"growth", {"no-progress", "channel-full", "pool-full", "lock-convoy"}},
		{"blocking-calls", {"open-poll", "long-polls"}},
		{"imbalance", {"open-poll", "long-polls", "spin"}},
	};

	const struct finding *found[N_RULES + 1] = {NULL}; /* the strongest of each rule */

	for (size_t i = 0; i < f->n_drafts; i++) {
		size_t rule = rule_index(f->drafts[i]->f.rule);

		found[rule] = stronger(found[rule], &f->drafts[i]->f);
	}
	for (size_t i = 0; i < f->n_drafts; i++) {
		struct finding *effect = &f->drafts[i]->f;

		for (size_t k = 0; k < sizeof(links) / sizeof(links[0]); k++) {
			const struct finding *cause = NULL;

			if (strcmp(effect->rule, links[k].effect) != 0)
				continue;
			for (size_t c = 0; c < MAX_CAUSES && links[k].causes[c]; c++)
				cause = stronger(cause, found[rule_index(links[k].causes[c])]);
			/* What hardly matters by itself is no reason. */
			if (!cause || cause->score < FINDING_MINOR)
				continue;
			effect->cause = cause->rule;
			if (effect->score >= cause->score)
				effect->score = cause->score > 1 ? cause->score - 1 : 1;
		}
	}
}

static int judge(struct rule_state *st)
{
	const struct findings_facts *facts = rule_facts(st);
	int r = 0;

	if (st->rule->judge_moment && !facts->n_moments)
		return rule_skips(st, "the recording has no moment of the program's memory "
				      "(--no-snapshot, or it could not be read)");
	if (st->rule->needs_events && rule_lacks_events(st))
		return 0;
	if (st->rule->judge)
		return st->rule->judge(st);
	for (size_t i = 0; i < facts->n_moments && r == 0; i++)
		r = st->rule->judge_moment(st, &facts->moments[i]);
	return r;
}

static uint64_t place_key(const void *st, uint64_t place)
{
	return same_place(st, place);
}

int findings_judge(struct findings *f, const struct findings_scope *scope)
{
	f->facts.scope = *scope;
	/* A window has neither end of the recording. */
	if (!scope->filtered && read_moments(f) < 0)
		return -ENOMEM;
	if (wait_notes_merge(&f->facts.waits, place_key, f->states[0]) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < N_RULES; i++) {
		int r = judge(f->states[i]);

		if (r < 0)
			return r;
	}
	moments_free(&f->facts);
	link_causes(f);
	for (size_t i = 0; i < f->n_drafts; i++) {
		struct finding_draft *d = f->drafts[i];

		if (buf_failed(&d->text))
			return -ENOMEM;
		d->f.text = d->text.data ? d->text.data : "";
		finding_complete(&f->facts, &d->f);
	}
	if (f->n_drafts)
		qsort(f->drafts, f->n_drafts, sizeof(*f->drafts), compare_drafts);
	return f->out_of_memory ? -ENOMEM : 0;
}

size_t findings_n(const struct findings *f)
{
	return f->n_drafts;
}

const struct finding *findings_get(const struct findings *f, size_t i)
{
	return &f->drafts[i]->f;
}

size_t findings_n_checks(const struct findings *f)
{
	(void)f;
	return N_RULES;
}

struct finding_check findings_check(const struct findings *f, size_t i)
{
	const struct rule_state *st = f->states[i];

	return (struct finding_check){rules[i]->name, rules[i]->title, st->verdict, st->reason};
}

/* ---- words ---- */

void say_family(const struct rule_state *st, struct buf *out, uint32_t kind)
{
	say_handler(st, out, kind, TRACE_KIND_NONE);
}

void say_handler(const struct rule_state *st, struct buf *out, uint32_t kind, uint32_t handler)
{
	const struct findings_scope *scope = &rule_facts(st)->scope;

	scope->family(scope->family_ctx, out, kind, handler);
}

void say_thread(const struct rule_state *st, struct buf *out, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(rule_facts(st)->reader, thread);

	buf_str(out, "thread ");
	if (t && t->name && *t->name) {
		text_safe(out, t->name);
		buf_char(out, '/');
	}
	buf_printf(out, "%u", t ? t->tid : thread);
}

void say_count(struct buf *out, uint64_t n, const char *one, const char *many)
{
	text_exact(out, n);
	buf_char(out, ' ');
	buf_str(out, n == 1 ? one : many);
}

void say_range(struct buf *out, uint64_t min_ns, uint64_t max_ns)
{
	_cleanup_buf_ struct buf low = BUF_INIT, high = BUF_INIT;

	text_duration(&low, min_ns);
	text_duration(&high, max_ns);
	if (low.data && high.data && strcmp(low.data, high.data) != 0) {
		buf_str(out, low.data);
		buf_str(out, " to ");
	}
	buf_str(out, high.data ? high.data : "");
}

void say_time(const struct rule_state *st, struct buf *out, uint64_t time_ns)
{
	uint64_t base = rule_facts(st)->scope.base_ns;

	text_duration(out, time_ns > base ? time_ns - base : 0);
}

static const struct trace_place *own_place(const struct rule_state *st, uint64_t place)
{
	return place ? trace_reader_own_place(rule_facts(st)->reader, (uint32_t)(place - 1),
					      st->all->own)
		     : NULL;
}

bool say_place(const struct rule_state *st, struct buf *out, uint64_t place)
{
	const struct trace_place *p = own_place(st, place);

	if (p)
		trace_place_text(out, p);
	return p;
}

/* The innermost one that is Rust, and neither std's nor a runtime's unless there is no other: C below it
 * says no more than the name of the call. Without debug information no code is known to be the
 * program's. */
static const struct trace_frame *rust_frame(const struct trace_reader *r, uint64_t stack)
{
	const struct trace_frame *first = NULL;

	for (unsigned n = 0; stack && n < TRACE_STACK_FRAMES; n++) {
		const struct trace_stack *s = trace_reader_stack(r, (uint32_t)(stack - 1));
		const struct trace_frame *f = s ? trace_reader_frame(r, s->frame) : NULL;

		if (f && f->function && strstr(f->function, "::")) {
			/* "Mutex::lock" has no crate, "__rustc::rust_panic" none at all. */
			if (*f->function >= 'a' && *f->function <= 'z' &&
			    !trace_frame_is_below_poll(f))
				return f;
			first = first ? first : f;
		}
		stack = s ? s->parent : 0;
	}
	return first;
}

bool say_stack(const struct rule_state *st, struct buf *out, uint64_t stack)
{
	const struct trace_reader *r = rule_facts(st)->reader;
	const struct trace_frame *f =
		stack ? trace_reader_own_frame(r, (uint32_t)(stack - 1), st->all->own) : NULL;

	if (!f && !(f = rust_frame(r, stack)))
		return false;
	trace_place_text(out, &(struct trace_place){
				      .function = f->function, .file = f->file, .line = f->line});
	return true;
}

const char *place_awaits(const struct rule_state *st, uint64_t place)
{
	const struct trace_place *p = own_place(st, place);

	return p && p->awaits ? p->awaits : "";
}

bool place_awaits_a(const struct rule_state *st, uint64_t place, const char *part)
{
	return trace_place_awaits_a(rule_facts(st)->reader, place, st->all->own, part);
}

enum wait_for place_waits_for(const struct rule_state *st, uint64_t place)
{
	return trace_place_waits_for(rule_facts(st)->reader, place, st->all->own);
}
