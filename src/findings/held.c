/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What tasks hold while they wait, as a moment shows it: a lock that they wait for themselves, guards
 * of locks that block threads, futures that are ready and not polled.
 */
#include "findings/rule.h"

#include "base/map.h"
#include "base/text_fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- leaves ---- */

const struct await_node *only_leaf(const struct await_node *n, size_t *n_leaves)
{
	const struct await_node *found = NULL;

	if (n->state == AS_DONE || n->state == AS_DISABLED || n->state == AS_ASLEEP)
		return NULL;
	if (n->kind == AN_LEAF) {
		++*n_leaves;
		return n;
	}
	if (!n->n_children)
		*n_leaves += 2; /* what it waits for is not known */
	for (size_t i = 0; i < n->n_children; i++) {
		const struct await_node *leaf = only_leaf(n->children[i], n_leaves);

		found = found ? found : leaf;
	}
	return *n_leaves == 1 ? found : NULL;
}

static const struct await_node *waits_for_lock(const struct moment_task *t, enum await_wait wait)
{
	size_t n = 0;
	const struct await_node *leaf =
		t->tree && t->state == IS_IDLE ? only_leaf(t->tree, &n) : NULL;

	return leaf && leaf->wait == wait && leaf->resource && !leaf->granted ? leaf : NULL;
}

/* The innermost await point of the program's own code. */
static const struct await_node *own_point(const struct graph *g, const struct moment_task *t)
{
	const struct await_node *own = NULL;

	if (t->tree)
		graph_leaf(g, t->tree, &own);
	return own;
}

static void say_own_point(struct buf *out, const struct graph *g, const struct moment_task *t)
{
	const struct await_node *own = own_point(g, t);

	if (own)
		say_at(out, own->file, own->line, own->name);
}

static bool holds(const struct graph_lock *lock, size_t task)
{
	for (size_t i = 0; lock && i < lock->n_holders; i++)
		if (lock->holders[i] == task)
			return true;
	return false;
}

/* ---- a lock that a task takes twice ---- */

static bool is_write(const struct await_node *leaf)
{
	return leaf->name && strstr(leaf->name, "write");
}

/* A task that waits to write the lock. */
static const struct moment_task *writer(const struct rule_moment *rm, uint64_t lock)
{
	for (size_t i = 0; i < rm->m.n_tasks; i++) {
		const struct await_node *leaf = waits_for_lock(&rm->m.tasks[i], AW_RWLOCK);

		if (leaf && leaf->resource == lock && is_write(leaf))
			return &rm->m.tasks[i];
	}
	return NULL;
}

static int judge_read_twice(struct rule_state *st, const struct rule_moment *rm)
{
	for (size_t i = 0, n = 0; i < rm->m.n_tasks && n < MOST_FINDINGS && rm->m.stopped; i++) {
		const struct moment_task *t = &rm->m.tasks[i], *between = NULL;
		const struct await_node *leaf = waits_for_lock(t, AW_RWLOCK);
		struct finding_draft *d;

		if (!leaf || !holds(graph_lock(&rm->graph, leaf), i))
			continue;
		if (!is_write(leaf) && !(between = writer(rm, leaf->resource)))
			continue;
		d = rule_finds(st, 96);
		if (!d)
			return 0;
		n++;
		buf_str(&d->text, "DEADLOCK: ");
		say_moment_task(&d->text, t);
		buf_str(&d->text, " has a guard of an RwLock and waits for ");
		text_safe(&d->text, leaf->name);
		buf_str(&d->text, " of the same lock");
		say_own_point(&d->text, &rm->graph, t);
		if (between) {
			buf_str(&d->text, ", behind ");
			say_moment_task(&d->text, between);
			buf_str(&d->text, ", which waits to write it");
			say_own_point(&d->text, &rm->graph, between);
		}
		finding_of_moment(d, st, rm, t);
		if (between)
			finding_of_moment(d, st, rm, between);
		finding_spans_since(d, st, rm, &i, 1);
	}
	return 0;
}

const struct finding_rule rule_read_twice = {
	.name = "read-twice",
	.title = "a lock that a task takes twice",
	.advice = "read the lock once, and hand the guard on; or let it go before it is taken "
		  "again",
	.stays = true,
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_read_twice,
};

/* ---- all permits are with tasks that wait for more ---- */

#define SEMAPHORE_TASKS 2

struct permits {
	uint64_t n_waiting, n_holders; /* holders: that wait as well */
	size_t first, holder;	       /* a task that has none, one that has some */
	bool has_first, has_holder;
};

static int count_permits(const struct rule_moment *rm, struct map *all)
{
	for (size_t i = 0; i < rm->m.n_tasks; i++) {
		const struct await_node *leaf = waits_for_lock(&rm->m.tasks[i], AW_SEMAPHORE);
		struct permits *p =
			leaf ? map_get_or_new(all, leaf->resource, 0, sizeof(*p)) : NULL;

		if (!leaf)
			continue;
		if (!p)
			return -ENOMEM;
		p->n_waiting++;
		if (holds(graph_lock(&rm->graph, leaf), i)) {
			p->n_holders++;
			p->holder = p->has_holder ? p->holder : i;
			p->has_holder = true;
		} else {
			p->first = p->has_first ? p->first : i;
			p->has_first = true;
		}
	}
	return 0;
}

static void find_semaphore(struct rule_state *st, const struct rule_moment *rm,
			   const struct permits *p)
{
	const struct moment_task *holder = &rm->m.tasks[p->holder];
	struct finding_draft *d = rule_finds(st, 90);

	if (!d)
		return;
	say_count(&d->text, p->n_waiting, "task waits", "tasks wait");
	buf_str(&d->text, " for one semaphore, and those that have its permits are among them: ");
	text_exact(&d->text, p->n_holders);
	buf_str(&d->text,
		p->n_holders == 1 ? " has one and waits for more" : " have one and wait for more");
	say_own_point(&d->text, &rm->graph, holder);
	if (p->has_first) {
		buf_str(&d->text, ", the others");
		say_own_point(&d->text, &rm->graph, &rm->m.tasks[p->first]);
	}
	finding_of_moment(d, st, rm, holder);
	if (p->has_first)
		finding_of_moment(d, st, rm, &rm->m.tasks[p->first]);
	finding_spans_since(d, st, rm, &p->holder, 1);
}

/* Other holders may be out of sight: then one that is seen would not wait for long. So all that are
 * seen to hold a permit have to wait for another one. */
static int judge_semaphore(struct rule_state *st, const struct rule_moment *rm)
{
	struct map all = {0};
	const struct map_entry *e;
	size_t pos = 0, n = 0;
	int rc = rm->m.stopped ? count_permits(rm, &all) : 0;

	while (rc == 0 && n < MOST_FINDINGS && (e = map_next(&all, &pos))) {
		const struct graph_lock *lock = map_get(&rm->graph.locks, e->a, 0);
		const struct permits *p = e->value;

		if (p->n_waiting < SEMAPHORE_TASKS || !p->n_holders || !lock ||
		    lock->n_holders != p->n_holders)
			continue;
		find_semaphore(st, rm, p);
		n++;
	}
	map_free(&all, free);
	return rc;
}

const struct finding_rule rule_semaphore = {
	.name = "semaphore-stuck",
	.title = "permits that only tasks have which wait for more",
	.advice = "take all permits at once (acquire_many), or let go of one before another is "
		  "taken",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_semaphore,
};

/* ---- guards of locks that block threads ---- */

static void say_guard(struct buf *out, const struct rule_moment *rm, const struct graph_held *h)
{
	_cleanup_buf_ struct buf type = BUF_INIT;

	say_moment_task(out, &rm->m.tasks[h->task]);
	buf_str(out, " holds a ");
	text_safe(&type, h->held->type ? h->held->type : "guard");
	text_shorten(out, type.data ? type.data : "guard", 60);
	buf_str(out, " over the await");
	say_at(out, h->node->file, h->node->line, h->node->name);
}

/* A RefCell blocks no thread; std's guard behind a watch::Ref is known by its type alone. */
static bool blocks_threads(const struct await_held *h)
{
	return h->kind == AH_GUARD && !(h->type && !strncmp(h->type, "core::cell::", 12));
}

static int judge_guard(struct rule_state *st, const struct rule_moment *rm)
{
	const struct graph_held *first = NULL, *blocks = NULL;
	const struct moment_thread *thread = NULL;
	struct finding_draft *d;
	uint64_t n = 0, n_threads = 0;

	for (size_t i = 0; i < rm->graph.n_held; i++) {
		if (!blocks_threads(rm->graph.held[i].held))
			continue;
		first = first ? first : &rm->graph.held[i];
		n++;
	}
	if (!first)
		return 0;
	for (size_t i = 0; i < rm->m.n_threads; i++) {
		const struct graph_held *by = graph_blocked_by(&rm->graph, &rm->m.threads[i]);

		if (!by)
			continue;
		blocks = blocks ? blocks : by;
		thread = thread ? thread : &rm->m.threads[i];
		n_threads++;
	}
	d = rule_finds(st, blocks ? 89 : FINDING_MINOR - 1);
	if (!d)
		return 0;
	say_guard(&d->text, rm, blocks ? blocks : first);
	if (blocks) {
		buf_str(&d->text, "; ");
		say_count(&d->text, n_threads, "thread sleeps", "threads sleep");
		buf_printf(&d->text, " until it lets go, thread %u in ", thread->tid);
		say_call(&d->text, thread);
	} else if (n > 1) {
		buf_str(&d->text, "; ");
		say_count(&d->text, n - 1, "other guard is held over one, too",
			  "other guards are held over awaits, too");
	}
	finding_of_moment(d, st, rm, &rm->m.tasks[(blocks ? blocks : first)->task]);
	if (blocks)
		finding_of_moment_thread(d, st, rm, thread);
	finding_spans(d, rm->m.now_ns, rm->m.now_ns);
	return 0;
}

const struct finding_rule rule_guard = {
	.name = "guard-over-await",
	.title = "a blocking lock held over an await",
	.advice = "let the guard go before the await, or use the runtime's own lock: who waits for "
		  "it blocks a worker",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_guard,
};

/* ---- a future that is ready, but not polled ---- */

#define READY_NS (100 * NSEC_PER_MSEC)

/* What has come for the leaf of a future that is held: NULL: nothing, as far as is seen. */
static const char *is_ready(const struct rule_moment *rm, const struct await_node *leaf)
{
	const struct moment_task *target;

	if (leaf->granted)
		return "it has got its lock";
	if (leaf->wait == AW_SLEEP && leaf->value && rm->m.now_ns > leaf->value + READY_NS)
		return "its timer is over";
	for (size_t i = 0; i < leaf->n_held; i++)
		if (leaf->held[i].kind == AH_CHANNEL && leaf->held[i].counted &&
		    leaf->held[i].length && leaf->wait != AW_CHANNEL_SEND)
			return "a message is there for it";
	target = leaf->wait == AW_TASK ? graph_target(&rm->graph, leaf) : NULL;
	return target && target->state == IS_DONE ? "the task that it waits for has ended" : NULL;
}

static const struct await_node *ready_leaf(const struct rule_moment *rm, const struct await_node *n,
					   const char **ret_reason)
{
	if (n->state == AS_DONE || n->state == AS_DISABLED || n->state == AS_UNPOLLED)
		return NULL;
	if (n->kind == AN_LEAF) {
		*ret_reason = is_ready(rm, n);
		return *ret_reason ? n : NULL;
	}
	for (size_t i = 0; i < n->n_children; i++) {
		const struct await_node *leaf = ready_leaf(rm, n->children[i], ret_reason);

		if (leaf)
			return leaf;
	}
	return NULL;
}

/* The future that is held, in *holder the one that does. */
static const struct await_node *held_ready(const struct rule_moment *rm, const struct await_node *n,
					   const struct await_node **holder, const char **reason)
{
	for (size_t i = 0; i < n->n_children; i++) {
		const struct await_node *c = n->children[i], *found;

		if (c->state == AS_ASLEEP && ready_leaf(rm, c, reason)) {
			*holder = n;
			return c;
		}
		found = c->state == AS_ASLEEP ? NULL : held_ready(rm, c, holder, reason);
		if (found)
			return found;
	}
	return NULL;
}

/* For this time, as far as is known, the task has waited for something else: no longer than that was due, and
 * its timers only where threads do not lack a CPU. */
static bool waits_long(const struct rule_state *st, const struct rule_moment *rm,
		       const struct moment_task *t)
{
	const struct live_task *live = rule_live(st, rm, t);
	const struct await_node *own, *leaf = graph_leaf(&rm->graph, t->tree, &own);
	uint64_t until_ns = rule_seen_until_ns(st, rm);

	if (leaf && leaf->wait == AW_SLEEP && leaf->value && leaf->value < until_ns)
		until_ns = leaf->value;
	return live && (live->quiet || (live->since_ns && until_ns > live->since_ns + READY_NS));
}

static int judge_held_future(struct rule_state *st, const struct rule_moment *rm)
{
	if (rm->m.when != MOMENT_END)
		return 0;
	for (size_t i = 0, n = 0; i < rm->m.n_tasks && n < MOST_FINDINGS; i++) {
		const struct moment_task *t = &rm->m.tasks[i];
		const struct await_node *holder = NULL, *held;
		const char *reason = NULL;
		struct finding_draft *d;

		held = t->tree && t->state == IS_IDLE ? held_ready(rm, t->tree, &holder, &reason)
						      : NULL;
		if (!held || !waits_long(st, rm, t))
			continue;
		d = rule_finds(st, 60);
		if (!d)
			return 0;
		n++;
		say_moment_task(&d->text, t);
		buf_printf(&d->text, " holds a future and does not poll it, though %s,", reason);
		say_at(&d->text, held->file, held->line, held->name);
		buf_str(&d->text, ": it waits");
		say_at(&d->text, holder->file, holder->line, holder->name);
		finding_of_moment(d, st, rm, t);
		finding_spans_since(d, st, rm, &i, 1);
	}
	return 0;
}

const struct finding_rule rule_held_future = {
	.name = "held-future",
	.title = "a future that is ready, but held and not polled",
	.advice = "await it together with the other one (join!, select! over both), or spawn it: "
		  "what it holds stays held until it is polled",
	.needs_events = true,
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_held_future,
};

/* ---- a runtime that is dropped ---- */

static bool drops_runtime(const struct moment_thread *t)
{
	for (size_t i = 0; i < t->n_frames; i++)
		if (!strncmp(t->frames[i].function, "tokio::runtime::blocking::shutdown::", 36))
			return true;
	return false;
}

static int judge_runtime_drop(struct rule_state *st, const struct rule_moment *rm)
{
	const struct moment_thread *dropper = NULL;
	const struct moment_task *runs = NULL;
	struct finding_draft *d;
	uint64_t n = 0;

	for (size_t i = 0; i < rm->m.n_threads && !dropper; i++)
		if (drops_runtime(&rm->m.threads[i]))
			dropper = &rm->m.threads[i];
	for (size_t i = 0; dropper && i < rm->m.n_tasks; i++) {
		const struct moment_task *t = &rm->m.tasks[i];

		if ((t->kind->role != TR_BLOCKING && t->kind->role != TR_TASK) ||
		    !moment_thread_of(&rm->m, t))
			continue;
		runs = runs ? runs : t;
		n++;
	}
	if (!runs || !(d = rule_finds(st, 82)))
		return 0;
	buf_printf(&d->text, "thread %u drops a runtime", dropper->tid);
	const struct moment_frame *own = moment_own_frame(dropper);
	if (own)
		say_at(&d->text, own->file, own->line, own->function);
	buf_str(&d->text, " and waits for ");
	say_count(&d->text, n, "thread of it, which runs ",
		  "threads of it, the first of which runs ");
	say_moment_task(&d->text, runs);
	buf_str(&d->text, " (");
	if (!say_call(&d->text, moment_thread_of(&rm->m, runs)))
		buf_str(&d->text, "on the CPU");
	buf_char(&d->text, ')');
	finding_of_moment(d, st, rm, runs);
	finding_of_moment_thread(d, st, rm, dropper);
	finding_spans(d, rm->m.now_ns, rm->m.now_ns);
	return 0;
}

const struct finding_rule rule_runtime_drop = {
	.name = "runtime-drop",
	.title = "a runtime that waits to be dropped",
	.advice = "end its closures first (a flag, a channel that closes), or use shutdown_timeout "
		  "or shutdown_background",
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_runtime_drop,
};

/* ---- tasks that waited all the time ---- */

#define IDLE_TASKS 3

/* Tasks of a kind that wait at one point for one kind of thing. */
struct idle_group {
	uint64_t n;
	const struct await_node *leaf, *own;
	size_t first; /* index of a task */
	uint64_t least_ns;
	bool all_quiet; /* they waited all the time */
};

bool is_given_by_tasks(enum await_wait wait)
{
	return wait == AW_NOTIFY || wait == AW_ONESHOT || wait == AW_SEMAPHORE ||
	       wait == AW_MUTEX || wait == AW_RWLOCK;
}

static int add_idle(const struct rule_state *st, struct map *groups, const struct rule_moment *rm,
		    size_t task)
{
	const struct moment_task *t = &rm->m.tasks[task];
	size_t n = 0;
	const struct await_node *leaf = t->tree ? only_leaf(t->tree, &n) : NULL;
	const struct await_node *own = own_point(&rm->graph, t);
	struct idle_group *g;

	if (!leaf || !own || !is_given_by_tasks(leaf->wait) || leaf->granted)
		return 0;
	g = map_get_or_new(groups, (uintptr_t)t->kind, (uint64_t)own->line << 8 | leaf->wait,
			   sizeof(*g));
	if (!g)
		return -ENOMEM;
	if (!g->n++)
		*g = (struct idle_group){.n = 1,
					 .leaf = leaf,
					 .own = own,
					 .first = task,
					 .least_ns = UINT64_MAX,
					 .all_quiet = true};
	if (rule_waited_ns(st, rm, t) < g->least_ns)
		g->least_ns = rule_waited_ns(st, rm, t);
	g->all_quiet = g->all_quiet && rule_is_quiet(st, rm, t);
	return 0;
}

static void find_idle(struct rule_state *st, const struct rule_moment *rm,
		      const struct idle_group *g)
{
	const struct moment_task *t = &rm->m.tasks[g->first];
	struct finding_draft *d = rule_finds(st, 25);

	if (!d)
		return;
	say_count(&d->text, g->n, "task", "tasks");
	buf_str(&d->text, " of ");
	text_safe(&d->text, t->kind->name);
	if (g->all_quiet) {
		buf_str(&d->text, " waited all the time for ");
	} else {
		buf_str(&d->text, " have waited for ");
		text_duration(&d->text, g->least_ns);
		buf_str(&d->text, " or more for ");
	}
	text_safe(&d->text, g->leaf->name ? g->leaf->name : "?");
	say_at(&d->text, g->own->file, g->own->line, g->own->name);
	buf_str(&d->text, "; it has not been given");
	finding_of_moment(d, st, rm, t);
	finding_spans(d, rule_facts(st)->scope.begin_ns, rm->m.now_ns);
}

static int judge_idle(struct rule_state *st, const struct rule_moment *rm)
{
	const struct idle_group *most = NULL;
	struct map groups = {0};
	const struct map_entry *e;
	size_t pos = 0;
	int rc = 0;

	uint64_t half_ns = rule_facts(st)->scope.length_ns / 2,
		 idle_ns = half_ns > NSEC_PER_SEC ? half_ns : NSEC_PER_SEC;

	if (rm->m.when != MOMENT_END || rule_facts(st)->scope.length_ns < NSEC_PER_SEC)
		return 0;
	for (size_t i = 0; i < rm->m.n_tasks && rc == 0; i++)
		if (rm->m.tasks[i].state == IS_IDLE && rm->m.tasks[i].kind->role == TR_TASK &&
		    !rule_has_found_any(st, rm->kinds[i]) &&
		    rule_waited_ns(st, rm, &rm->m.tasks[i]) >= idle_ns)
			rc = add_idle(st, &groups, rm, i);
	while (rc == 0 && (e = map_next(&groups, &pos))) {
		const struct idle_group *g = e->value;

		if (g->n >= IDLE_TASKS &&
		    (!most || g->n > most->n || (g->n == most->n && g->first < most->first)))
			most = g;
	}
	if (most)
		find_idle(st, rm, most);
	map_free(&groups, free);
	return rc;
}

const struct finding_rule rule_idle_waits = {
	.name = "idle-waits",
	.title = "tasks that waited all the time",
	.advice = "they may be there for a signal that has yet to come; if not, it was given "
		  "before they "
		  "waited for it, or who should give it is gone",
	.needs_events = true,
	.state_bytes = sizeof(struct rule_state),
	.judge_moment = judge_idle,
};
