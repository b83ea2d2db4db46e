/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Polls that keep their worker: long ones, one that does not end, blocking calls in short ones. */
#include "base/compare.h"
#include "findings/rule.h"
#include "moment/threads.h"

#include "base/map.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONG_NS (10 * NSEC_PER_MSEC)
#define OPEN_NS (100 * NSEC_PER_MSEC)
#define VERY_LONG_NS (100 * NSEC_PER_MSEC)

/* A poll of a task, or of a block_on whose thread runs tasks as well (known in the end). */
static bool keeps_worker(const struct rule_state *st, enum trace_role role, uint32_t thread)
{
	return role == TR_TASK || (role == TR_ROOT && rule_is_worker(st, thread));
}

static bool may_keep_worker(enum trace_role role)
{
	return role == TR_TASK || role == TR_ROOT;
}

/* ", 1.2 s of it in nanosleep, called at src/main.rs:10 read" */
static void say_inside(const struct rule_state *st, struct buf *out, const struct poll_note *note,
		       bool several)
{
	_cleanup_buf_ struct buf line = BUF_INIT;
	bool call = note->call != TB_NONE;

	if (call) {
		buf_str(out, ", ");
		text_duration(out, several ? note->calls_ns : note->call_ns);
		buf_printf(out, " of it in %s", trace_call_name(note->call));
	}
	if (say_stack(st, &line, note->stack) && line.data)
		buf_printf(out, "%s %s", call ? ", called at" : ", at", line.data);
}

/* Of a call that waits for a lock: whether the lock is the runtime's own, such as that of Tokio's blocking
 * pool. std's and parking_lot's functions are on the stack of their users, too. */
static bool lock_is_runtimes(const struct rule_state *st, const struct poll_note *note)
{
	static const char *const locks[] = {
		"std", "core", "alloc", "parking_lot", "parking_lot_core", "lock_api"};
	const struct trace_reader *r = rule_facts(st)->reader;
	uint64_t stack =
		note->call != TB_NONE && trace_call_waits_for_lock(note->call) ? note->stack : 0;

	for (unsigned n = 0; stack && n < TRACE_STACK_FRAMES; n++) {
		const struct trace_stack *s = trace_reader_stack(r, (uint32_t)(stack - 1));
		const struct trace_frame *f = s ? trace_reader_frame(r, s->frame) : NULL;
		size_t len = 0, i = 0;
		const char *crate = f && f->function ? trace_crate_of(f->function, &len) : NULL;

		if (crate && *crate >= 'A' && *crate <= 'Z')
			crate = NULL; /* "Mutex::lock_contended": a type without its path */
		while (crate && i < sizeof(locks) / sizeof(locks[0]) &&
		       (strncmp(crate, locks[i], len) != 0 || locks[i][len]))
			i++;
		if (crate && i == sizeof(locks) / sizeof(locks[0]))
			return trace_frame_is_below_poll(f);
		stack = s ? s->parent : 0;
	}
	return false;
}

static const char advice_in_call[] = "use the runtime's own version of the call, or spawn_blocking";

static const char *advice_for(const struct rule_state *st, const struct poll_note *note)
{
	if (note->call == TB_NONE)
		return "move the work to spawn_blocking or a thread pool, or yield inside it";
	if (lock_is_runtimes(st, note))
		return "the lock is the runtime's own: call into it less often, or from fewer "
		       "threads at once";
	if (trace_call_waits_for_lock(note->call))
		return "use the runtime's own lock or channel, or hold the lock for a short time "
		       "only";
	return advice_in_call;
}

/* ---- a poll that does not end ---- */

struct open_poll_found {
	struct tl_poll poll; /* its task is not valid any more */
	struct poll_note note;
	uint32_t kind, handler;
	enum trace_role role;
	uint64_t serial, number;
};

struct open_polls_state {
	struct rule_state st;
	struct open_poll_found *found; /* those that had no end when they were reported */
	size_t n, cap;
};

static int open_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct open_polls_state *s = ctx;

	if (poll->outcome != TO_UNKNOWN || !tl_poll_measured(poll) || poll->inferred ||
	    tl_poll_held_ns(poll) < OPEN_NS || !may_keep_worker(poll->task->role))
		return 0;
	if (!GROW(s->found, s->n, s->cap))
		return -ENOMEM;
	s->found[s->n++] = (struct open_poll_found){
		.poll = *poll,
		.note = rule_facts(&s->st)->note,
		.kind = poll->task->kind,
		.handler = round_handler(&poll->round),
		.role = poll->task->role,
		.serial = poll->task->serial,
		.number = poll->task->number,
	};
	return 0;
}

/* ---- long polls ---- */

/* Long polls of a family, and handler, whose longest call is the same. */
struct long_group {
	uint32_t kind, handler, thread;
	enum trace_role role;
	uint64_t n, sum_ns, min_ns, max_ns, calls_ns, preempted_ns, cpu_ns, n_cpu;
	uint64_t n_without_cpu;	    /* for most of it */
	uint64_t time_ns;	    /* begin of the longest */
	uint64_t first_ns, last_ns; /* begins */
	uint64_t serial, number;
	struct poll_note note; /* of the longest; its stack is that of any */
};

struct long_polls_state {
	struct rule_state st;
	struct map groups; /* by kind and call, handler */
};

static int long_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct long_polls_state *s = ctx;
	struct poll_note note = rule_facts(&s->st)->note;
	uint64_t ns = tl_poll_held_ns(poll);
	struct long_group *g;

	/* One that the trace's end has cut is rule_open_poll's; unwinding a panic takes long. */
	if (ns < LONG_NS || !tl_poll_measured(poll) || poll->outcome == TO_UNKNOWN ||
	    poll->outcome == TO_PANICKED || !may_keep_worker(poll->task->role))
		return 0;
	g = map_get_or_new(&s->groups, (uint64_t)note.call << 32 | poll->task->kind,
			   round_handler(&poll->round), sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->kind = poll->task->kind;
	g->handler = round_handler(&poll->round);
	g->role = poll->task->role;
	if (!g->n || poll->begin_ns < g->first_ns)
		g->first_ns = poll->begin_ns;
	if (poll->begin_ns > g->last_ns)
		g->last_ns = poll->begin_ns;
	g->n++;
	g->sum_ns += ns;
	g->calls_ns += note.calls_ns;
	g->preempted_ns += note.preempted_ns;
	g->cpu_ns += note.cpu_ns;
	g->n_cpu += note.n_cpu;
	g->n_without_cpu += note.preempted_ns > ns / 2;
	if (!g->min_ns || ns < g->min_ns)
		g->min_ns = ns;
	if (ns > g->max_ns) {
		uint64_t stack = note.stack ? note.stack : g->note.stack;

		g->max_ns = ns;
		g->time_ns = poll->begin_ns;
		g->thread = poll->thread;
		g->serial = poll->task->serial;
		g->number = poll->task->number;
		g->note = note;
		g->note.stack = stack;
	} else if (!g->note.stack) {
		g->note.stack = note.stack;
	}
	return 0;
}

static int compare_groups(const void *a, const void *b)
{
	const struct long_group *x = *(struct long_group *const *)a;
	const struct long_group *y = *(struct long_group *const *)b;

	return DESCENDING(x->sum_ns, y->sum_ns) ?: ASCENDING(x->kind, y->kind) ?:
	       ASCENDING(x->handler, y->handler) ?: ASCENDING(x->note.call, y->note.call);
}

#define CPU_SAMPLES 5

/* Whether they are long by their CPU time alone, as far as it was sampled. */
static bool computes(const struct long_group *g)
{
	return g->n_cpu >= CPU_SAMPLES && g->cpu_ns / g->n >= LONG_NS;
}

/* Whether the lack of a CPU may be all that there is: by each poll's own time without one, or, for
 * polls without a call, and those that wait for a lock of the runtime's, by that of all threads. */
static bool excused(const struct rule_state *st, const struct long_group *g)
{
	if (computes(g))
		return false;
	if (g->n_without_cpu * 2 > g->n)
		return true;
	/* sched_yield() gives the CPU away: how long it takes is what others do with it. */
	if (g->note.call != TB_NONE && trace_call_waits_for_cpu(g->note.call) &&
	    g->calls_ns > g->sum_ns / 2)
		return true;
	/* The runtime holds its locks for some microseconds: who has one for longer lost its CPU. */
	return (g->note.call == TB_NONE || lock_is_runtimes(st, &g->note)) &&
	       g->sum_ns <= rule_cpu_lacked_ns(st, g->thread);
}

/* On any machine a thread is without a CPU for some ms now and then: what is no longer than that may
 * be nothing else. */
static bool may_be_preempted(const struct rule_state *st, const struct long_group *g)
{
	return !computes(g) && (g->note.call == TB_NONE || lock_is_runtimes(st, &g->note)) &&
	       g->max_ns < VERY_LONG_NS && g->sum_ns <= rule_run_delay_ns(st, g->thread);
}

static unsigned long_score(const struct rule_state *st, const struct long_group *g)
{
	if (may_be_preempted(st, g))
		return FINDING_MINOR;
	unsigned score = finding_score(45, 25, g->max_ns, VERY_LONG_NS, 1);

	return finding_score(score, 20, g->sum_ns, rule_facts(st)->worker_ns, 0.2);
}

static void say_long(const struct rule_state *st, struct buf *out, const struct long_group *g)
{
	struct poll_note all = g->note;

	all.calls_ns = g->calls_ns;
	say_handler(st, out, g->kind, g->handler);
	if (g->n == 1) {
		buf_str(out, " held its thread for ");
		text_duration(out, g->max_ns);
		buf_str(out, " without yielding");
	} else {
		buf_str(out, " held its thread in ");
		say_count(out, g->n, "poll", "polls");
		buf_str(out, " of ");
		say_range(out, g->min_ns, g->max_ns);
		buf_str(out, " (");
		text_duration(out, g->sum_ns);
		buf_str(out, " in total)");
	}
	say_inside(st, out, &all, g->n > 1);
	if (g->preempted_ns > g->sum_ns / 10) {
		buf_str(out, ", and had no CPU for ");
		text_duration(out, g->preempted_ns);
		buf_str(out, " of it");
	} else if (computes(g)) {
		buf_str(out, ", and computed for ");
		text_duration(out, g->cpu_ns);
		buf_str(out, " of it");
	} else if (may_be_preempted(st, g) ||
		   (g->note.call == TB_NONE && rule_cpu_lacked_ns(st, g->thread))) {
		buf_str(out, ", perhaps because its thread had no CPU");
	}
}

static bool same_line(const struct rule_state *st, uint64_t stack, uint64_t other)
{
	_cleanup_buf_ struct buf a = BUF_INIT, b = BUF_INIT;

	return say_stack(st, &a, stack) && say_stack(st, &b, other) && a.data && b.data &&
	       !strcmp(a.data, b.data);
}

/* Whether such polls are in a call for long that waits for no lock, and which may have one. */
static bool may_have_lock(const struct rule_state *st, const struct long_group *g)
{
	return g->note.call != TB_NONE && !trace_call_waits_for_lock(g->note.call) &&
	       keeps_worker(st, g->role, g->thread) && !excused(st, g);
}

/* Who makes a call at the line at which others wait for a lock: these have it meanwhile. NULL: none. */
static const struct long_group *has_lock_at(const struct rule_state *st, const char *line)
{
	const struct long_polls_state *s =
		(const struct long_polls_state *)rule_state_of(st, &rule_long_polls);
	const struct map_entry *e;
	size_t pos = 0;

	while (line && (e = map_next(&s->groups, &pos))) {
		const struct long_group *g = e->value;
		_cleanup_buf_ struct buf its = BUF_INIT;

		if (may_have_lock(st, g) && say_stack(st, &its, g->note.stack) && its.data &&
		    !strcmp(its.data, line))
			return g;
	}
	return NULL;
}

/* Of polls that wait for a lock. */
static const struct long_group *has_lock_of_polls(const struct rule_state *st,
						  const struct poll_note *note)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	if (note->call == TB_NONE || !trace_call_waits_for_lock(note->call) ||
	    !say_stack(st, &line, note->stack))
		return NULL;
	return has_lock_at(st, line.data);
}

/* The same of a thread that waits for a lock when the recording ends. */
static const struct long_group *has_lock_of_thread(const struct rule_state *st,
						   const struct moment_thread *t)
{
	const struct moment_frame *f = moment_own_frame(t);
	const char *call = moment_call_name(t);
	_cleanup_buf_ struct buf line = BUF_INIT;

	if (!f || !call || strcmp(call, "futex") != 0)
		return NULL;
	say_line(&line, f->file, f->line, f->function);
	return has_lock_at(st, line.data);
}

static void say_has_lock(struct buf *out, const struct long_group *holder)
{
	buf_printf(out, ", for a lock that others have meanwhile, in %s",
		   trace_call_name(holder->note.call));
}

bool rule_say_has_lock(const struct rule_state *st, struct finding_draft *d,
		       const struct moment_thread *t)
{
	const struct long_group *holder = has_lock_of_thread(st, t);
	unsigned most = holder ? long_score(st, holder) - 1 : 0;

	if (!holder)
		return false;
	say_has_lock(&d->text, holder);
	d->f.score = d->f.score < most ? d->f.score : most;
	return true;
}

/* Handlers are recognised once debug information has been read, some time after a recording's begin:
 * polls of a family before that are of its handlers', as the same call in them shows later. */
static bool is_before_handlers(struct long_group *const *groups, size_t n,
			       const struct long_group *of)
{
	bool same = false;

	for (size_t i = 0; i < n && of->handler == TRACE_KIND_NONE; i++) {
		const struct long_group *g = groups[i];

		if (g->kind != of->kind || g->handler == TRACE_KIND_NONE)
			continue;
		if (g->first_ns < of->last_ns)
			return false;
		same = same || g->note.call == of->note.call;
	}
	return same;
}

static int judge_long_polls(struct rule_state *st)
{
	struct long_polls_state *s = (struct long_polls_state *)st;
	struct long_group **groups = s->groups.n ? map_sorted(&s->groups, compare_groups) : NULL;
	unsigned n = 0;

	if (s->groups.n && !groups)
		return -ENOMEM;
	for (size_t i = 0; i < s->groups.n && n < MOST_FINDINGS; i++) {
		const struct long_group *g = groups[i], *holder;
		unsigned score = long_score(st, g), most;
		struct finding_draft *d;

		if (!keeps_worker(st, g->role, g->thread) || excused(st, g) ||
		    is_before_handlers(groups, s->groups.n, g))
			continue;
		holder = has_lock_of_polls(st, &g->note);
		most = holder ? long_score(st, holder) - 1 : score;
		d = rule_finds(st, score < most ? score : most);
		if (!d)
			break;
		n++;
		say_long(st, &d->text, g);
		if (holder)
			say_has_lock(&d->text, holder);
		d->f.advice = advice_for(st, &g->note);
		d->f.kind = g->kind;
		d->f.handler = g->handler;
		finding_spans(d, g->time_ns, g->time_ns + g->max_ns);
		finding_on(d, g->thread);
		finding_of(d, g->serial, g->number);
		d->f.stack = g->note.stack;
	}
	free(groups);
	return 0;
}

static void done_long_polls(struct rule_state *st)
{
	map_free(&((struct long_polls_state *)st)->groups, free);
}

const struct finding_rule rule_long_polls = {
	.name = "long-polls",
	.title = "long polls",
	.sink = &(const struct timeline_sink){.poll = long_on_poll},
	.state_bytes = sizeof(struct long_polls_state),
	.judge = judge_long_polls,
	.done = done_long_polls,
};

/* ---- a poll that does not end, judged with the long ones ---- */

void say_others_too(struct buf *out, uint64_t n)
{
	if (!n)
		return;
	buf_str(out, "; ");
	say_count(out, n, "other thread is in such a poll, too",
		  "other threads are in such polls, too");
}

/* The thread when the recording ends; NULL: not known, since the moment is later. */
static const struct moment_thread *end_thread(const struct rule_state *st, uint32_t thread)
{
	const struct findings_facts *facts = rule_facts(st);
	const struct trace_thread *t = trace_reader_thread(facts->reader, thread);

	for (size_t k = 0; t && k < facts->n_moments; k++) {
		const struct trace_moment *m = &facts->moments[k].m;

		if (m->when != MOMENT_END || m->process != t->process ||
		    m->now_ns > facts->scope.end_ns + OPEN_NS)
			continue;
		for (size_t i = 0; i < m->n_threads; i++)
			if (m->threads[i].tid == t->tid)
				return &m->threads[i];
	}
	return NULL;
}

/* What the thread does in it. */
static void say_open_call(const struct rule_state *st, struct finding_draft *d,
			  const struct open_poll_found *o)
{
	const struct moment_thread *t = end_thread(st, o->poll.thread);
	const struct long_group *holder;
	unsigned most;

	d->f.advice =
		t && t->call && o->note.call == TB_NONE ? advice_in_call : advice_for(st, &o->note);
	/* The call in which it is then is not among those that have ended. */
	if (t && t->call && o->note.calls_ns < tl_poll_held_ns(&o->poll) / 2) {
		buf_str(&d->text, ", in ");
		say_call(&d->text, t);
		rule_say_has_lock(st, d, t);
		return;
	}
	say_inside(st, &d->text, &o->note, false);
	holder = has_lock_of_polls(st, &o->note);
	if (!holder)
		return;
	say_has_lock(&d->text, holder);
	most = long_score(st, holder) - 1;
	d->f.score = d->f.score < most ? d->f.score : most;
}

static struct finding_draft *find_open_poll(struct rule_state *st, const struct open_poll_found *o)
{
	uint64_t ns = tl_poll_held_ns(&o->poll);
	struct finding_draft *d = rule_finds(st, finding_score(40, 55, ns, NSEC_PER_SEC, 1));

	if (!d)
		return NULL;
	say_handler(st, &d->text, o->kind, o->handler);
	buf_printf(&d->text, " (task %llu) has been in one poll for ",
		   (unsigned long long)o->number);
	text_duration(&d->text, ns);
	buf_str(&d->text, " when the recording ended");
	say_open_call(st, d, o);
	buf_str(&d->text, ": ");
	say_thread(st, &d->text, o->poll.thread);
	buf_str(&d->text, " ran nothing else meanwhile");
	d->f.kind = o->kind;
	d->f.handler = o->handler;
	finding_spans(d, o->poll.begin_ns, rule_facts(st)->scope.end_ns);
	finding_on(d, o->poll.thread);
	finding_of(d, o->serial, o->number);
	d->f.stack = o->note.stack;
	return d;
}

/* The longest first, and of those that are as long one that says where it is. */
static int compare_open(const void *a, const void *b)
{
	const struct open_poll_found *x = a, *y = b;

	return DESCENDING(tl_poll_held_ns(&x->poll) / OPEN_NS, tl_poll_held_ns(&y->poll) / OPEN_NS)
		       ?: DESCENDING(!!x->note.stack, !!y->note.stack)
		       ?: ASCENDING(x->serial, y->serial);
}

/* Of a family, in one call, at one line as far as that is known. */
static bool open_alike(const struct rule_state *st, const struct open_poll_found *a,
		       const struct open_poll_found *b)
{
	return a->kind == b->kind && a->handler == b->handler && a->note.call == b->note.call &&
	       (!a->note.stack || !b->note.stack || same_line(st, a->note.stack, b->note.stack));
}

static int judge_open_poll(struct rule_state *st)
{
	struct open_polls_state *s = (struct open_polls_state *)st;
	struct {
		const struct open_poll_found *first;
		struct finding_draft *d;
		uint64_t n;
	} groups[MOST_FINDINGS];
	size_t n = 0, at;

	if (s->n)
		qsort(s->found, s->n, sizeof(*s->found), compare_open);
	for (size_t i = 0; i < s->n; i++) {
		const struct open_poll_found *o = &s->found[i];

		if (o->poll.end_ns < rule_facts(st)->scope.end_ns ||
		    !keeps_worker(st, o->role, o->poll.thread))
			continue;
		for (at = 0; at < n && !open_alike(st, groups[at].first, o); at++)
			;
		if (at < n) {
			groups[at].n++;
			finding_on(groups[at].d, o->poll.thread);
			finding_of(groups[at].d, o->serial, o->number);
		} else if (n < MOST_FINDINGS) {
			groups[n].first = o;
			groups[n].n = 1;
			groups[n].d = find_open_poll(st, o);
			if (!groups[n++].d)
				return 0;
		}
	}
	for (at = 0; at < n; at++)
		say_others_too(&groups[at].d->text, groups[at].n - 1);
	return 0;
}

static void done_open_poll(struct rule_state *st)
{
	free(((struct open_polls_state *)st)->found);
}

const struct finding_rule rule_open_poll = {
	.name = "open-poll",
	.title = "a poll that does not end",
	.sink = &(const struct timeline_sink){.poll = open_on_poll},
	.state_bytes = sizeof(struct open_polls_state),
	.judge = judge_open_poll,
	.done = done_open_poll,
};

/* ---- blocking calls ---- */

#define MUCH_BLOCKED_NS NSEC_PER_MSEC
#define LONG_CALL_NS NSEC_PER_MSEC
#define BLOCKED_SHARE 100 /* a hundredth of the workers' time */

struct call_group {
	uint32_t kind, handler;
	uint16_t call;
	uint64_t n, sum_ns, max_ns;
	uint64_t time_ns, serial, number; /* of the longest */
	uint32_t thread;
	uint64_t stack; /* of the longest that has one: 1 + index; 0: none has */
	uint64_t stack_ns;
};

/* The last stack that was taken of a thread in a call. */
struct call_stack {
	uint64_t stack, time_ns;
};

struct blocking_state {
	struct rule_state st;
	uint64_t in_long_ns; /* in polls that the other rules find */
	struct map groups;   /* by kind and call, handler */
	struct map stacks;   /* by thread: struct call_stack */
};

static int blocking_on_sample(void *ctx, const struct tl_sample *sample)
{
	struct blocking_state *s = ctx;
	struct call_stack *at;

	if (sample->type != TM_LONG_BLOCKED || !sample->stack)
		return 0;
	at = map_get_or_new(&s->stacks, sample->thread, 0, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = (struct call_stack){sample->stack, sample->time_ns};
	return 0;
}

/* It is taken before the call is written down: while it lasts, or right at its end. */
static void keep_stack(const struct blocking_state *s, struct call_group *g,
		       const struct tl_block *block)
{
	const struct call_stack *at = map_get(&s->stacks, block->thread, 0);
	uint64_t ns = block->end_ns - block->begin_ns;

	if (!at || at->time_ns < block->begin_ns || at->time_ns > block->end_ns || ns < g->stack_ns)
		return;
	g->stack = at->stack;
	g->stack_ns = ns;
}

static int blocking_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct blocking_state *s = ctx;

	if (poll->task->role == TR_TASK && tl_poll_measured(poll) &&
	    tl_poll_held_ns(poll) >= LONG_NS)
		s->in_long_ns += rule_facts(&s->st)->note.calls_ns;
	return 0;
}

static int blocking_on_block(void *ctx, const struct tl_block *block)
{
	struct blocking_state *s = ctx;
	uint64_t ns = block->end_ns - block->begin_ns;
	struct call_group *g;

	if (!block->keeps_worker || block->task->role != TR_TASK)
		return 0;
	g = map_get_or_new(&s->groups, (uint64_t)block->call << 32 | block->task->kind,
			   round_handler(&block->round), sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->kind = block->task->kind;
	g->handler = round_handler(&block->round);
	g->call = block->call;
	g->n++;
	g->sum_ns += ns;
	keep_stack(s, g, block);
	if (ns > g->max_ns) {
		g->max_ns = ns;
		g->time_ns = block->begin_ns;
		g->thread = block->thread;
		g->serial = block->task->serial;
		g->number = block->task->number;
	}
	return 0;
}

/* Whether the program is to blame for the length of such calls: where threads lack a CPU, one may hold a
 * lock and have none. */
static bool blames_program(const struct rule_state *st, const struct call_group *g, bool cpu_lacks)
{
	const struct poll_note note = {.call = g->call, .stack = g->stack};

	return !trace_call_waits_for_lock(g->call) || !cpu_lacks ||
	       (g->max_ns >= LONG_NS && !lock_is_runtimes(st, &note));
}

static int compare_calls(const void *a, const void *b)
{
	const struct call_group *x = *(struct call_group *const *)a;
	const struct call_group *y = *(struct call_group *const *)b;

	return DESCENDING(x->sum_ns, y->sum_ns) ?: ASCENDING(x->kind, y->kind) ?:
	       ASCENDING(x->handler, y->handler) ?: ASCENDING(x->call, y->call);
}

/* One finding for all: the worst families are named in it. */
static void find_blocking(struct rule_state *st, struct call_group *const *groups, size_t n,
			  const struct call_group *all)
{
	const struct blocking_state *s = (const struct blocking_state *)st;
	unsigned score = finding_score(30, 45, all->sum_ns, rule_facts(st)->worker_ns, 0.1);
	/* Mostly said by the long polls already. */
	bool repeats = s->in_long_ns > all->sum_ns / 2;
	struct finding_draft *d = rule_finds(st, repeats ? FINDING_MINOR - 1 : score);
	const struct call_group *worst = groups[0];
	_cleanup_buf_ struct buf line = BUF_INIT;
	unsigned shown = 0;

	if (!d)
		return;
	say_count(&d->text, all->n, "blocking call", "blocking calls");
	buf_str(&d->text, " inside polls took ");
	text_duration(&d->text, all->sum_ns);
	buf_str(&d->text, "; most in ");
	say_handler(st, &d->text, worst->kind, worst->handler);
	for (size_t i = 0; i < n && shown < 2; i++) {
		if (groups[i]->kind != worst->kind || groups[i]->handler != worst->handler)
			continue;
		buf_str(&d->text, shown++ ? ", " : ": ");
		buf_printf(&d->text, "%s ", trace_call_name(groups[i]->call));
		text_exact(&d->text, groups[i]->n);
		buf_str(&d->text, " × = ");
		text_duration(&d->text, groups[i]->sum_ns);
		if (say_stack(st, &line, groups[i]->stack) && line.data)
			buf_printf(&d->text, ", called at %s", line.data);
		buf_clear(&line);
	}
	d->f.kind = worst->kind;
	d->f.handler = worst->handler;
	finding_spans(d, worst->time_ns, worst->time_ns + worst->max_ns);
	finding_on(d, worst->thread);
	finding_of(d, worst->serial, worst->number);
}

static int judge_blocking(struct rule_state *st)
{
	struct blocking_state *s = (struct blocking_state *)st;
	struct call_group **groups = s->groups.n ? map_sorted(&s->groups, compare_calls) : NULL;
	bool lacks = rule_any_cpu_is_short(st);
	struct call_group all = {0};
	size_t n = 0;

	if (s->groups.n && !groups)
		return -ENOMEM;
	for (size_t i = 0; i < s->groups.n; i++) {
		if (!blames_program(st, groups[i], lacks))
			continue;
		all.n += groups[i]->n;
		all.sum_ns += groups[i]->sum_ns;
		if (groups[i]->max_ns > all.max_ns)
			all.max_ns = groups[i]->max_ns;
		groups[n++] = groups[i];
	}
	if (n && all.sum_ns >= MUCH_BLOCKED_NS &&
	    (all.max_ns >= LONG_CALL_NS || all.sum_ns >= rule_facts(st)->worker_ns / BLOCKED_SHARE))
		find_blocking(st, groups, n, &all);
	free(groups);
	return 0;
}

static void done_blocking(struct rule_state *st)
{
	struct blocking_state *s = (struct blocking_state *)st;

	map_free(&s->groups, free);
	map_free(&s->stacks, free);
}

const struct finding_rule rule_blocking_calls = {
	.name = "blocking-calls",
	.title = "blocking calls inside polls",
	.advice = "use the runtime's own versions of these calls, or spawn_blocking",
	.sink = &(const struct timeline_sink){.block = blocking_on_block,
					      .poll = blocking_on_poll,
					      .sample = blocking_on_sample},
	.state_bytes = sizeof(struct blocking_state),
	.judge = judge_blocking,
	.done = done_blocking,
};
