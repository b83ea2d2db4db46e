/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the memory of the process proves at the end of a recording, or else at its start: deadlocks,
 * polls that began before and go on, timers that are overdue, tasks that are done and kept.
 */
#include "base/compare.h"
#include "findings/rule.h"
#include "findings/windows.h"
#include "moment/threads.h"

#include "base/map.h"
#include "base/syscalls.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OVERDUE_NS (50 * NSEC_PER_MSEC)
#define KEPT_TASKS 100
#define QUEUED_CLOSURES 3

void say_moment_task(struct buf *out, const struct moment_task *t)
{
	if (t->id)
		buf_printf(out, "task %llu ", (unsigned long long)t->id);
	else
		buf_str(out, t->kind->role == TR_ROOT ? "a block_on of " : "a task ");
	text_safe(out, t->kind->name);
}

void say_line(struct buf *out, const char *file, uint32_t line, const char *function)
{
	trace_place_text(out, &(struct trace_place){.function = function ? function : "",
						    .file = file ? file : "",
						    .line = line});
}

void say_at(struct buf *out, const char *file, uint32_t line, const char *function)
{
	buf_str(out, " at ");
	say_line(out, file, line, function);
}

bool say_call(struct buf *out, const struct moment_thread *t)
{
	const char *call = moment_call_name(t);
	const struct moment_frame *f = moment_own_frame(t);

	if (!t->call)
		return false;
	buf_str(out, call ? call : "a system call");
	if (f)
		say_at(out, f->file, f->line, f->function);
	return true;
}

/* ---- deadlocks ---- */

void finding_spans_since(struct finding_draft *d, const struct rule_state *st,
			 const struct rule_moment *rm, const size_t *tasks, size_t n)
{
	uint64_t since_ns = rule_facts(st)->scope.begin_ns;

	for (size_t i = 0; i < n && rm->m.when == MOMENT_END; i++) {
		const struct live_task *live = rule_live(st, rm, &rm->m.tasks[tasks[i]]);

		if (live && live->since_ns > since_ns)
			since_ns = live->since_ns;
	}
	finding_spans(d, since_ns, rm->m.now_ns);
}

static void find_deadlock(struct rule_state *st, const struct rule_moment *rm,
			  const struct graph_cycle *c)
{
	struct finding_draft *d = rule_finds(st, 97);

	if (!d)
		return;
	buf_str(&d->text, "DEADLOCK: ");
	for (size_t i = 0; i < c->n && i < 4; i++) {
		const struct moment_task *t = &rm->m.tasks[c->tasks[i]];
		const struct await_node *own = NULL;

		buf_str(&d->text, i ? ", for which " : "");
		say_moment_task(&d->text, t);
		buf_str(&d->text, " waits for ");
		text_safe(&d->text, c->leaves[i]->name ? c->leaves[i]->name : "?");
		if (t->tree && graph_leaf(&rm->graph, t->tree, &own) && own)
			say_at(&d->text, own->file, own->line, own->name);
		if (c->n == 1)
			buf_str(&d->text, ", which it holds itself");
		else if (i == c->n - 1)
			buf_str(&d->text, ", which the first one holds");
		else
			buf_str(&d->text, ", held by the next one");
	}
	if (c->n > 4)
		buf_printf(&d->text, ", and %zu more", c->n - 4);
	for (size_t i = 0; i < c->n; i++)
		finding_of_moment(d, st, rm, &rm->m.tasks[c->tasks[i]]);
	finding_spans_since(d, st, rm, c->tasks, c->n);
}

static int judge_deadlock(struct rule_state *st, const struct rule_moment *rm)
{
	for (size_t k = 0; k < rm->graph.n_cycles && k < MOST_FINDINGS; k++)
		find_deadlock(st, rm, &rm->graph.cycles[k]);
	return 0;
}

const struct finding_rule rule_deadlock = {
	.name = "deadlock",
	.title = "a deadlock",
	.advice = "take the locks in one order, and hold none over an await that needs another",
	.stays = true,
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_deadlock,
};

static int judge_lost_task(struct rule_state *st, const struct rule_moment *rm)
{
	const struct graph *g = &rm->graph;
	const struct graph_lost *first = NULL;
	struct finding_draft *d = NULL;
	uint64_t n = 0;

	for (size_t i = 0; i < g->n_lost; i++) {
		const struct moment_task *t = &rm->m.tasks[g->lost[i].task];

		if (g->lost[i].pending)
			continue;
		if (!d && !(d = rule_finds(st, 0)))
			return 0;
		first = first ? first : &g->lost[i];
		finding_of_moment(d, st, rm, t);
		n++;
	}
	if (!d)
		return 0;
	d->f.score = finding_score(70, 20, n, 10, 1);
	say_moment_task(&d->text, &rm->m.tasks[first->task]);
	buf_str(&d->text, " can never run again: ");
	text_safe(&d->text, first->proof);
	if (n > 1) {
		buf_str(&d->text, "; nor can ");
		say_count(&d->text, n - 1, "other task", "other tasks");
	}
	finding_spans_since(d, st, rm, &first->task, 1);
	return 0;
}

const struct finding_rule rule_lost_task = {
	.name = "lost-task",
	.title = "tasks that nothing can wake",
	.advice = "a future that returns Pending must keep the waker that it was polled with",
	.stays = true,
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_lost_task,
};

/* ---- polls from before, which go on ---- */

static struct finding_draft *find_stuck_poll(struct rule_state *st, const struct rule_moment *rm,
					     const struct moment_task *t,
					     const struct moment_thread *thread)
{
	struct finding_draft *d = rule_finds(st, 96);

	if (!d)
		return NULL;
	buf_printf(&d->text, "thread %u", thread->tid);
	if (thread->name && *thread->name) {
		buf_str(&d->text, " (");
		text_safe(&d->text, thread->name);
		buf_char(&d->text, ')');
	}
	buf_str(&d->text, " has been in a poll of ");
	say_moment_task(&d->text, t);
	buf_str(&d->text, " since before the recording: ");
	if (say_call(&d->text, thread)) {
		/* It is served in its turn: it may go on yet. */
		if (rule_say_has_lock(st, d, thread))
			d->f.stays = false;
	} else {
		const struct moment_frame *f = moment_own_frame(thread);

		buf_str(&d->text, "it computes");
		if (f)
			say_at(&d->text, f->file, f->line, f->function);
		d->f.advice = "move the work to spawn_blocking or a thread pool, or yield inside "
			      "it; a loop over what is always ready never yields by itself";
	}
	finding_of_moment(d, st, rm, t);
	finding_spans(d, rule_facts(st)->scope.begin_ns, rm->m.now_ns);
	return d;
}

/* Those of a family that are in one call, or compute, at one line of the program's own. */
struct stuck_group {
	struct finding_draft *d;
	const struct moment_kind *kind;
	const struct moment_thread *thread;
	uint64_t n;
};

static bool same_stand(const struct stuck_group *g, const struct moment_task *t,
		       const struct moment_thread *thread)
{
	const struct moment_frame *a = moment_own_frame(g->thread), *b = moment_own_frame(thread);

	return g->kind == t->kind && g->thread->call == thread->call && a && b &&
	       a->line == b->line && !strcmp(a->function, b->function);
}

/* Without a call it may only be slow, or have no CPU. */
#define COMPUTES_NS (900 * NSEC_PER_MSEC)

/* What has given its worker away may take as long as it likes. */
static bool in_place(const struct moment_thread *t)
{
	for (size_t i = 0; i < t->n_frames; i++)
		if (strstr(t->frames[i].function, "block_in_place"))
			return true;
	return false;
}

/* Others may have woken it meanwhile. */
static bool is_unpolled(const struct rule_state *st, const struct rule_moment *rm,
			const struct moment_task *t)
{
	const struct live_task *live = rule_live(st, rm, t);

	return live && live->unpolled;
}

/* A task that runs when the recording ends, and had no poll in all of it, has been in that one all
 * the time. One that ran when it began may have ended its poll before there were hooks. */
static int judge_stuck_poll(struct rule_state *st, const struct rule_moment *rm)
{
	struct stuck_group groups[MOST_FINDINGS];
	size_t n = 0, i;

	if (rm->m.when != MOMENT_END)
		return 0;
	for (size_t k = 0; k < rm->m.n_tasks; k++) {
		const struct moment_task *t = &rm->m.tasks[k];
		const struct moment_thread *thread = moment_thread_of(&rm->m, t);

		if (t->kind->role != TR_TASK || !thread || in_place(thread) ||
		    (!thread->call && rule_facts(st)->scope.length_ns < COMPUTES_NS) ||
		    !is_unpolled(st, rm, t))
			continue;
		for (i = 0; i < n && !same_stand(&groups[i], t, thread); i++)
			;
		if (i < n) {
			groups[i].n++;
			finding_of_moment(groups[i].d, st, rm, t);
		} else if (n < MOST_FINDINGS) {
			groups[n] = (struct stuck_group){find_stuck_poll(st, rm, t, thread),
							 t->kind, thread, 1};
			if (!groups[n++].d)
				return 0;
		}
	}
	for (i = 0; i < n; i++)
		say_others_too(&groups[i].d->text, groups[i].n - 1);
	return 0;
}

const struct finding_rule rule_stuck_poll = {
	.name = "stuck-poll",
	.title = "a poll from before the recording that goes on",
	.advice = "what blocks there needs another thread, or the runtime's own lock, channel or "
		  "call",
	.stays = true,
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_stuck_poll,
	.needs_events = true,
};

/* ---- the blocking pool, stuck since before ---- */

/* Or it came, or began, after the moment of the start, and before the first event. */
static bool had_no_event(const struct rule_state *st, const struct rule_moment *rm,
			 const struct moment_task *t)
{
	const struct live_task *live = rule_live(st, rm, t);

	return !live || live->quiet;
}

struct pool_stuck_state {
	struct rule_state st;
	struct map last_ends; /* by process: uint64_t, when a closure has ended last */
};

static int pool_stuck_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct pool_stuck_state *s = ctx;
	const struct trace_thread *t =
		trace_reader_thread(rule_facts(&s->st)->reader, poll->thread);

	uint64_t *last_ns;

	if (poll->task->role != TR_BLOCKING || poll->outcome == TO_UNKNOWN || !t)
		return 0;
	last_ns = map_get_or_new(&s->last_ends, t->process, 0, sizeof(*last_ns));
	if (!last_ns)
		return -ENOMEM;
	if (poll->end_ns > *last_ns)
		*last_ns = poll->end_ns;
	return 0;
}

/* In the second half of the recording: it may have come to a stop just after its begin. */
static bool pool_goes_on(const struct rule_state *st, uint32_t process)
{
	const struct findings_scope *scope = &rule_facts(st)->scope;
	const uint64_t *last_ns =
		map_get(&((const struct pool_stuck_state *)st)->last_ends, process, 0);

	return last_ns && *last_ns > scope->end_ns - scope->length_ns / 2;
}

static void done_pool_stuck(struct rule_state *st)
{
	map_free(&((struct pool_stuck_state *)st)->last_ends, free);
}

static int judge_pool_stuck(struct rule_state *st, const struct rule_moment *rm)
{
	const struct moment_task *first = NULL, *waits = NULL;
	size_t n_run = 0, n_wait = 0;
	struct finding_draft *d;

	if (pool_goes_on(st, rm->m.process))
		return 0;
	for (size_t k = 0; k < rm->m.n_tasks && rm->m.when == MOMENT_END; k++) {
		const struct moment_task *t = &rm->m.tasks[k];

		if (t->kind->role != TR_BLOCKING || !had_no_event(st, rm, t))
			continue;
		if (moment_thread_of(&rm->m, t)) {
			n_run++;
			first = first ? first : t;
		} else if (t->state == IS_SCHEDULED) {
			n_wait++;
			waits = waits ? waits : t;
		}
	}
	if (!n_run || n_wait < QUEUED_CLOSURES || !(d = rule_finds(st, 94)))
		return 0;
	buf_str(&d->text, "the blocking pool is full since before the recording: ");
	say_count(&d->text, n_run, "closure runs, of ", "closures run, the first of ");
	text_safe(&d->text, first->kind->name);
	buf_str(&d->text, " (");
	if (!say_call(&d->text, moment_thread_of(&rm->m, first)))
		buf_str(&d->text, "on the CPU");
	buf_str(&d->text, "); ");
	say_count(&d->text, n_wait, "waits for a thread", "wait for a thread, the first of ");
	if (n_wait > 1)
		text_safe(&d->text, waits->kind->name);
	finding_of_moment(d, st, rm, first);
	finding_of_moment(d, st, rm, waits);
	finding_spans(d, rule_facts(st)->scope.begin_ns, rm->m.now_ns);
	return 0;
}

const struct finding_rule rule_pool_stuck = {
	.name = "pool-stuck",
	.title = "a blocking pool that is stuck",
	.advice = "closures must not wait for others of the same pool: give one of them threads of "
		  "its "
		  "own",
	.stays = true,
	.sink = &(const struct timeline_sink){.poll = pool_stuck_on_poll},
	.state_bytes = sizeof(struct pool_stuck_state),
	.judge_moment = judge_pool_stuck,
	.done = done_pool_stuck,
	.needs_events = true,
};

/* ---- timers ---- */

struct overdue_state {
	struct rule_state st;
	struct map looks; /* by process: uint64_t, when the last look at timers ended */
};

static int overdue_on_park(void *ctx, const struct tl_park *park)
{
	struct overdue_state *s = ctx;
	const struct trace_thread *t =
		trace_reader_thread(rule_facts(&s->st)->reader, park->thread);
	uint64_t *last_ns;

	if (!t || !park_is_look(park->call))
		return 0;
	last_ns = map_get_or_new(&s->looks, t->process, 0, sizeof(*last_ns));
	if (!last_ns)
		return -ENOMEM;
	if (park->end_ns > *last_ns)
		*last_ns = park->end_ns;
	return 0;
}

static void done_overdue(struct rule_state *st)
{
	map_free(&((struct overdue_state *)st)->looks, free);
}

/* Up to when timers were looked at, as far as is known. One that was due before is held by a task
 * that does not wait for it any more. */
static uint64_t looked_at_ns(const struct overdue_state *s, const struct trace_moment *m)
{
	static const char *const looks[] = {"epoll_wait", "epoll_pwait", "epoll_pwait2", "poll",
					    "ppoll"};
	const uint64_t *last_ns = map_get(&s->looks, m->process, 0);

	for (size_t i = 0; i < m->n_threads; i++) {
		uint32_t call = m->threads[i].call;
		const char *name = call ? syscall_name(call - 1) : NULL;

		for (size_t k = 0; name && k < sizeof(looks) / sizeof(looks[0]); k++)
			if (!strcmp(name, looks[k]))
				return m->now_ns;
	}
	return last_ns ? *last_ns : 0;
}

static int judge_overdue(struct rule_state *st, const struct rule_moment *rm)
{
	uint64_t looked_ns = looked_at_ns((struct overdue_state *)st, &rm->m);
	const struct await_node *worst_own = NULL;
	const struct moment_task *worst = NULL;
	uint64_t now_ns = rule_seen_until_ns(st, rm), late = 0, n = 0;

	for (size_t k = 0; k < rm->m.n_tasks; k++) {
		const struct moment_task *t = &rm->m.tasks[k];
		const struct await_node *own = NULL, *leaf;

		if (t->state != IS_IDLE || !t->tree || !rm->m.now_ns)
			continue;
		leaf = graph_leaf(&rm->graph, t->tree, &own);
		if (!leaf || leaf->wait != AW_SLEEP || !leaf->value || leaf->value > now_ns ||
		    now_ns - leaf->value < OVERDUE_NS || leaf->value <= looked_ns)
			continue;
		n++;
		if (now_ns - leaf->value <= late)
			continue;
		late = now_ns - leaf->value;
		worst = t;
		worst_own = own;
	}
	if (!worst || late <= rule_process_lacked_ns(st, rm->m.process))
		return 0;
	struct finding_draft *d = rule_finds(st, finding_score(55, 30, late, NSEC_PER_SEC, 1));

	if (!d)
		return 0;
	say_count(&d->text, n, "timer is overdue by ", "timers are overdue, the first by ");
	text_duration(&d->text, late);
	buf_str(&d->text, ", that of ");
	say_moment_task(&d->text, worst);
	if (worst_own)
		say_at(&d->text, worst_own->file, worst_own->line, worst_own->name);
	buf_str(&d->text, ": no worker looks at timers");
	finding_of_moment(d, st, rm, worst);
	finding_spans(d, now_ns - late, now_ns);
	return 0;
}

const struct finding_rule rule_overdue = {
	.name = "overdue-timers",
	.title = "timers that are overdue",
	.advice = "find the worker that should look at timers: it is in a poll that does not end",
	.sink = &(const struct timeline_sink){.park = overdue_on_park},
	.state_bytes = sizeof(struct overdue_state),
	.judge_moment = judge_overdue,
	.done = done_overdue,
};

/* ---- finished, and kept ---- */

struct kept_kind {
	const struct moment_task *first;
	uint64_t n;
};

static int most_kept(const void *a, const void *b)
{
	const struct kept_kind *x = *(struct kept_kind *const *)a;
	const struct kept_kind *y = *(struct kept_kind *const *)b;

	return DESCENDING(x->n, y->n) ?: ASCENDING(x->first, y->first);
}

static int judge_kept(struct rule_state *st, const struct rule_moment *rm)
{
	struct map kinds = {0};
	struct kept_kind **sorted;
	int rc = 0;

	for (size_t k = 0; k < rm->m.n_tasks && rc == 0; k++) {
		const struct moment_task *t = &rm->m.tasks[k];
		struct kept_kind *kept;

		if (t->state != IS_DONE || !t->join_interest)
			continue;
		kept = map_get_or_new(&kinds, (uintptr_t)t->kind, 0, sizeof(*kept));
		rc = kept ? 0 : -ENOMEM;
		if (kept && !kept->n++)
			kept->first = t;
	}
	sorted = kinds.n && rc == 0 ? map_sorted(&kinds, most_kept) : NULL;
	if (sorted && sorted[0]->n > KEPT_TASKS) {
		const struct moment_task *t = sorted[0]->first;
		struct finding_draft *d =
			rule_finds(st, finding_score(50, 25, sorted[0]->n, 2000, 1));

		if (d) {
			say_count(&d->text, sorted[0]->n, "task of ", "tasks of ");
			text_safe(&d->text, t->kind->name);
			buf_str(&d->text,
				" have ended, but are kept by join handles that are never awaited");
			if (t->kind->site && *t->kind->site) {
				buf_str(&d->text, " (spawned at ");
				text_safe(&d->text, t->kind->site);
				buf_char(&d->text, ')');
			}
			finding_of_moment(d, st, rm, t);
			finding_spans(d, rm->m.now_ns, rm->m.now_ns);
		}
	}
	free(sorted);
	map_free(&kinds, free);
	return rc;
}

const struct finding_rule rule_kept = {
	.name = "kept-tasks",
	.title = "tasks that ended, but are kept",
	.advice = "join them as they end (JoinSet::join_next), or drop their handles",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_kept,
};

/* ---- descriptors ---- */

static int judge_descriptors(struct rule_state *st, const struct rule_moment *rm)
{
	const struct trace_moment *m = &rm->m;
	struct finding_draft *d;

	if (!m->max_descriptors || m->n_descriptors * 100 < m->max_descriptors * 95)
		return 0;
	d = rule_finds(st, 88);
	if (!d)
		return 0;
	text_exact(&d->text, m->n_descriptors);
	buf_str(&d->text, " of ");
	say_count(&d->text, m->max_descriptors, "descriptor is", "descriptors are");
	buf_str(&d->text, " open: accept, connect and open fail soon (EMFILE)");
	d->f.process = m->process;
	finding_spans(d, m->now_ns, m->now_ns);
	return 0;
}

const struct finding_rule rule_descriptors = {
	.name = "descriptors",
	.title = "no descriptors left",
	.advice = "raise the limit (ulimit -n), and close what is not used any more",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_descriptors,
};
