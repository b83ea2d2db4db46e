/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Edges: a join handle names the task it waits for; a lock's waiters and the guards among other
 * tasks' locals name the same semaphore. A task is stuck if every leaf of its tree waits for a
 * stuck task: the largest set of tasks for which this holds is found by removing tasks that wait for
 * anything else, and those that wait for one that was removed. The tasks that remain wait for each other, and their cycles are
 * reported.
 */
#include "moment/graph.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/search.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "base/vec.h"
#include "trace/trace.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct graph_lock *lock_at(struct graph *g, uint64_t addr)
{
	return map_get_or_new(&g->locks, addr, 0, sizeof(struct graph_lock));
}

static bool is_lock(const struct await_node *leaf)
{
	return leaf->wait == AW_MUTEX || leaf->wait == AW_RWLOCK || leaf->wait == AW_SEMAPHORE;
}

static int add_holder(struct graph_lock *l, size_t task)
{
	if (l->n_holders && l->holders[l->n_holders - 1] == task)
		return 0; /* tasks come one after the other */
	if (!GROW_ONE(l->holders, l->n_holders))
		return -ENOMEM;
	l->holders[l->n_holders++] = task;
	return 0;
}

/* What a coroutine's locals hold; a leaf has what it waits for. */
static int add_held(struct graph *g, const struct await_node *n, size_t task)
{
	for (size_t i = 0; i < n->n_held && n->kind != AN_LEAF; i++) {
		if (!GROW(g->held, g->n_held, g->cap_held))
			return -ENOMEM;
		g->held[g->n_held++] = (struct graph_held){task, n, &n->held[i]};
	}
	return 0;
}

static int add_locks(struct graph *g, const struct await_node *n, size_t task)
{
	struct graph_lock *l;

	if (add_held(g, n, task) < 0)
		return -ENOMEM;

	for (size_t i = 0; i < n->n_holds; i++) {
		l = lock_at(g, n->holds[i]);
		if (!l || add_holder(l, task) < 0)
			return -ENOMEM;
	}
	if (n->kind == AN_LEAF && is_lock(n) && n->resource && !n->granted) {
		l = lock_at(g, n->resource);
		if (!l)
			return -ENOMEM;
		l->n_waiting++;
	}
	for (size_t i = 0; i < n->n_children; i++) {
		int r = add_locks(g, n->children[i], task);

		if (r < 0)
			return r;
	}
	return 0;
}

const struct graph_lock *graph_lock(const struct graph *g, const struct await_node *leaf)
{
	return leaf->kind == AN_LEAF && is_lock(leaf) && leaf->resource
		       ? map_get(&g->locks, leaf->resource, 0)
		       : NULL;
}

const struct moment_task *graph_target(const struct graph *g, const struct await_node *leaf)
{
	const struct graph_lock *l = graph_lock(g, leaf);
	void *v;

	/* of several, one or the other may be stale or one of many: nothing is claimed */
	if (l)
		return l->n_holders == 1 ? &g->moment->tasks[l->holders[0]] : NULL;
	if (leaf->wait != AW_TASK || !leaf->resource)
		return NULL;
	v = map_get(&g->by_addr, leaf->resource, 0);
	return v ? &g->moment->tasks[(uintptr_t)v - 1] : NULL;
}

struct leaf_list {
	const struct await_node *first;
	size_t n;
	bool open; /* a leaf that waits for something else than a task of the set */
};

static void collect(const struct graph *g, const struct await_node *n, const bool *in_set,
		    struct leaf_list *l)
{
	if (n->state == AS_DONE || n->state == AS_DISABLED || n->state == AS_ASLEEP)
		return;
	if (n->kind == AN_LEAF) {
		/* a semaphore may have other, unknown holders */
		const struct moment_task *t =
			n->wait == AW_TASK || n->wait == AW_MUTEX ? graph_target(g, n) : NULL;

		l->n++;
		if (!t || n->granted || !in_set[t - g->moment->tasks])
			l->open = true;
		else if (!l->first)
			l->first = n;
		return;
	}
	if (!n->n_children)
		l->open = true; /* an end that we don't understand, or a branch not polled yet */
	for (size_t i = 0; i < n->n_children; i++)
		collect(g, n->children[i], in_set, l);
}

/* Room for the way through a cycle, for all tasks. */
struct wait_path {
	size_t *path;
	const struct await_node **leaves;
	size_t *place; /* 1 + where a task is on the path; 0: not on it */
	bool *seen;    /* it leads into a cycle that was reported */
};

static int add_cycle(struct graph *g, size_t start, const bool *in_set, struct wait_path *w)
{
	size_t at = start, n = 0, first;
	struct graph_cycle *c;

	while (!w->place[at] && !w->seen[at]) {
		struct leaf_list l = {0};

		collect(g, g->moment->tasks[at].tree, in_set, &l);
		if (!l.first)
			break;
		w->place[at] = n + 1;
		w->path[n] = at;
		w->leaves[n++] = l.first;
		at = (size_t)(graph_target(g, l.first) - g->moment->tasks);
	}
	first = w->place[at];
	for (size_t i = 0; i < n; i++) {
		w->place[w->path[i]] = 0;
		w->seen[w->path[i]] = true;
	}
	if (!first)
		return 0;
	if (!GROW_ONE(g->cycles, g->n_cycles))
		return -ENOMEM;
	c = &g->cycles[g->n_cycles++];
	*c = (struct graph_cycle){.n = n - first + 1};
	c->tasks = calloc(c->n, sizeof(*c->tasks));
	c->leaves = calloc(c->n, sizeof(*c->leaves));
	if (!c->tasks || !c->leaves)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++) {
		c->tasks[i] = w->path[first - 1 + i];
		c->leaves[i] = w->leaves[first - 1 + i];
	}
	return 0;
}

/* `from` waits for `to`, among others. */
struct wait_edge {
	size_t to, from;
};

struct edges {
	struct wait_edge *v;
	size_t n, cap;
	bool no_memory;
};

/* All tasks that one waits for, whatever else it waits for. */
static void collect_edges(const struct graph *g, const struct await_node *n, size_t from,
			  struct edges *edges)
{
	const struct moment_task *t;

	if (n->state == AS_DONE || n->state == AS_DISABLED || n->state == AS_ASLEEP)
		return;
	for (size_t i = 0; i < n->n_children; i++)
		collect_edges(g, n->children[i], from, edges);
	if (n->kind != AN_LEAF || (n->wait != AW_TASK && n->wait != AW_MUTEX) ||
	    !(t = graph_target(g, n)))
		return;
	if (!GROW(edges->v, edges->n, edges->cap)) {
		edges->no_memory = true;
		return;
	}
	edges->v[edges->n++] = (struct wait_edge){(size_t)(t - g->moment->tasks), from};
}

static int by_target(const void *a, const void *b)
{
	const struct wait_edge *x = a, *y = b;

	return ASCENDING(x->to, y->to) ?: ASCENDING(x->from, y->from);
}

/* A task that leaves the set takes those along that wait for it: each edge is followed once. */
static int keep_stuck(struct graph *g, bool *in_set)
{
	size_t n = g->moment->n_tasks, n_left = 0;
	_cleanup_free_ size_t *left = calloc(n ? n : 1, sizeof(*left));
	struct edges edges = {0};

	for (size_t i = 0; left && i < n; i++)
		if (in_set[i])
			collect_edges(g, g->moment->tasks[i].tree, i, &edges);
	if (!left || edges.no_memory) {
		free(edges.v);
		return -ENOMEM;
	}
	if (edges.n)
		qsort(edges.v, edges.n, sizeof(*edges.v), by_target);
	/* By the set as it was, which has all that run or are idle, for the first look. */
	for (size_t i = 0; i < n; i++) {
		struct leaf_list l = {0};

		if (!in_set[i])
			continue;
		collect(g, g->moment->tasks[i].tree, in_set, &l);
		if (l.open || !l.n)
			left[n_left++] = i;
	}
	for (size_t i = 0; i < n_left; i++)
		in_set[left[i]] = false;
	for (size_t i = 0; i < n_left; i++) {
		size_t k = PARTITION_POINT(at, 0, edges.n, edges.v[at].to < left[i]);

		for (; k < edges.n && edges.v[k].to == left[i]; k++) {
			if (!in_set[edges.v[k].from])
				continue;
			in_set[edges.v[k].from] = false;
			left[n_left++] = edges.v[k].from;
		}
	}
	free(edges.v);
	return 0;
}

static int find_cycles(struct graph *g)
{
	size_t n = g->moment->n_tasks ? g->moment->n_tasks : 1;
	_cleanup_free_ bool *in_set = calloc(n, sizeof(*in_set)), *seen = calloc(n, sizeof(*seen));
	_cleanup_free_ size_t *path = calloc(n, sizeof(*path)), *place = calloc(n, sizeof(*place));
	_cleanup_free_ const struct await_node **leaves = calloc(n, sizeof(*leaves));
	struct wait_path w = {path, leaves, place, seen};

	if (!in_set || !seen || !path || !place || !leaves)
		return -ENOMEM;
	for (size_t i = 0; i < g->moment->n_tasks; i++)
		in_set[i] = g->moment->tasks[i].tree && g->moment->tasks[i].state == IS_IDLE;
	TRY(keep_stuck(g, in_set));
	for (size_t i = 0; i < g->moment->n_tasks; i++)
		if (in_set[i] && !seen[i])
			TRY(add_cycle(g, i, in_set, &w));
	return 0;
}

/*
 * Who could wake it? Tokio counts references in the state word: one is the owning list's, one the
 * join handle's, one belongs to the entry in a run queue, and each waker is one. async-executor
 * keeps one waker of each of its tasks for its own end; async-task doesn't count the handle.
 */
static const char *lost_proof(const struct moment_task *t)
{
	bool idle = t->state == IS_IDLE;

	if (t->kind->role != TR_TASK || (!idle && t->state != IS_SCHEDULED))
		return NULL;
	if (t->in_no_queue)
		return "it is marked as scheduled, but it is in none of its scheduler's run "
		       "queues, and no thread is about to run it";
	if (t->kind->tokio) {
		if (!t->owner || t->refs > 1u + t->join_interest)
			return NULL;
		if (!idle)
			return "it is marked as scheduled, but no run queue has it: all of its "
			       "references are its list's and its join handle's";
		return t->join_interest ? "it is idle and no waker of it exists: its 2 references "
					  "are its list's and its join handle's"
					: "it is idle and no waker of it exists: its only "
					  "reference is its list's";
	}
	if (!idle)
		return NULL;
	if (t->refs == 0)
		return "it is idle and no waker of it exists: it has no references";
	if (t->refs == 1 && !strncmp(t->kind->full_name, "async_executor::", 16))
		return "it is idle and no waker of it exists: its only reference is its executor's";
	return NULL;
}

/* It awaits a future without a size, which keeps nothing, and so no waker: std::future::pending(), say, which is
 * there to be aborted. */
static bool awaits_pending(const struct moment_task *t)
{
	const struct await_node *n = t->state == IS_IDLE ? t->tree : NULL;

	while (n && n->n_children == 1)
		n = n->children[0];
	return n && n->kind == AN_ASYNC && n->state == AS_SUSPENDED && !n->n_children;
}

static int find_lost(struct graph *g)
{
	for (size_t i = 0; i < g->moment->n_tasks; i++) {
		const struct moment_task *t = &g->moment->tasks[i];
		const char *proof = lost_proof(t);

		if (!proof)
			continue;
		if (!GROW_ONE(g->lost, g->n_lost))
			return -ENOMEM;
		g->lost[g->n_lost++] = (struct graph_lost){i, proof, awaits_pending(t)};
	}
	return 0;
}

int graph_make(const struct trace_moment *m, struct graph *ret_graph, struct error *err)
{
	struct graph g = {.moment = m};
	int rc = 0;

	for (size_t i = 0; i < m->n_tasks && rc == 0; i++) {
		rc = map_put(&g.by_addr, m->tasks[i].addr, 0, (void *)(uintptr_t)(i + 1));
		if (rc == 0 && m->tasks[i].tree)
			rc = add_locks(&g, m->tasks[i].tree, i);
	}
	/* what was read while the program ran proves nothing */
	if (rc == 0 && m->stopped)
		rc = find_cycles(&g);
	if (rc == 0 && m->stopped)
		rc = find_lost(&g);
	if (rc < 0) {
		graph_done(&g);
		return error_set(err, rc, "out of memory");
	}
	*ret_graph = g;
	return 0;
}

void graph_done(struct graph *g)
{
	const struct map_entry *e;
	size_t pos = 0;

	for (size_t i = 0; i < g->n_cycles; i++) {
		free(g->cycles[i].tasks);
		free(g->cycles[i].leaves);
	}
	free(g->cycles);
	free(g->lost);
	free(g->held);
	map_done(&g->by_addr);
	while ((e = map_next(&g->locks, &pos))) {
		free(((struct graph_lock *)e->value)->holders);
		free(e->value);
	}
	map_done(&g->locks);
	*g = (struct graph){0};
}

const struct graph_held *graph_blocked_by(const struct graph *g, const struct moment_thread *t)
{
	const char *call = t->call ? syscall_name(t->call - 1) : NULL;

	if (!call || strcmp(call, "futex") != 0 || !t->call_arg)
		return NULL;
	for (size_t i = 0; i < g->n_held; i++) {
		const struct await_held *h = g->held[i].held;

		if (h->kind == AH_GUARD && t->call_arg >= h->addr &&
		    t->call_arg - h->addr < (h->bytes ? h->bytes : 1))
			return &g->held[i];
	}
	return NULL;
}

static bool is_own(const struct graph *g, const struct await_node *n)
{
	const char *name = n->full_name && *n->full_name ? n->full_name : n->name;

	if (n->kind != AN_ASYNC || !n->file || !*n->file)
		return false;
	if (!g->own || !*g->own)
		return !text_library_file(n->file);
	for (const char *const *own = g->own; name && *own; own++)
		if (trace_names_crate(name, *own))
			return true;
	return false;
}

const struct await_node *graph_leaf(const struct graph *g, const struct await_node *tree,
				    const struct await_node **own)
{
	if (tree->state == AS_DONE || tree->state == AS_DISABLED || tree->state == AS_ASLEEP)
		return NULL;
	if (is_own(g, tree))
		*own = tree;
	if (tree->kind == AN_LEAF)
		return tree;
	for (size_t i = 0; i < tree->n_children; i++) {
		const struct await_node *leaf = graph_leaf(g, tree->children[i], own);

		if (leaf)
			return leaf;
	}
	return NULL;
}
