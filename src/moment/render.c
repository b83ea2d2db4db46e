/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Trees on a terminal. Tasks whose trees are alike (same functions, places and states, whatever the
 * numbers in them) are one group with a count, so that ten thousand idle connections are one entry.
 */
#include "moment/render.h"
#include "base/compare.h"
#include "moment/sizes.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/text_fit.h"
#include "base/vec.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_HOLDERS = 3,  /* named */
	MAX_CRATES = 4,	  /* of wrappers, named */
	FOLDED = 2,	  /* wrappers in each other at least */
	MAX_THREADS = 24, /* that run tasks, named */
	LEAST_NAME = 24,  /* columns */
};

struct view {
	const struct trace_moment *m;
	const struct graph *g;
	const struct render_options *opt;
	struct buf *out;
	const struct thread_use *uses; /* by thread */
	bool several;		       /* objects have tasks in it */
	bool alike;		       /* and some of these have one name */
	bool fold;		       /* wrappers */
	unsigned width;		       /* of lines; 0: no limit */
};

bool render_is_internal(const struct await_node *n)
{
	static const char *const prefixes[] = {
		"tokio::",	"async_std::",	  "async_io::",	     "async_executor::",
		"async_lock::", "futures_lite::", "async_channel::", "async_net::"};

	if (n->kind != AN_ASYNC || n->n_children != 1)
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(n->full_name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static const struct await_node *shown(const struct view *v, const struct await_node *n)
{
	while (!v->opt->internals && render_is_internal(n))
		n = n->children[0];
	return n;
}

/* A future that passes polls on to the one in it, and has nothing to say of itself. What holds a leaf
 * says how that is used: "ReadExact" of a socket. */
static bool is_wrapper(const struct view *v, const struct await_node *n)
{
	return v->fold && n->kind == AN_FUTURE && n->state == AS_SUSPENDED && n->n_children == 1 &&
	       !n->detail && !n->file && shown(v, n->children[0])->kind != AN_LEAF;
}

/* How many wrappers in each other begin here. */
static unsigned n_wrappers(const struct view *v, const struct await_node *n)
{
	unsigned count = 0;

	for (; is_wrapper(v, n); n = shown(v, n->children[0]))
		count++;
	return count;
}

/* "12 wrappers: hyper, tower, axum" */
static void wrappers_line(const struct view *v, const struct await_node *n, unsigned count)
{
	const char *crates[MAX_CRATES];
	size_t n_crates = 0, k;

	buf_printf(v->out, "%u wrappers", count);
	for (; count--; n = shown(v, n->children[0])) {
		const char *name = n->name ? n->name : "?";
		size_t len = strcspn(name, ":<");

		for (k = 0; k < n_crates; k++)
			if (!strncmp(crates[k], name, len) &&
			    crates[k][strcspn(crates[k], ":<")] == crates[k][len])
				break;
		if (k < n_crates)
			continue;
		if (n_crates == MAX_CRATES) {
			buf_str(v->out, ", …");
			return;
		}
		crates[n_crates++] = name;
		_cleanup_free_ char *crate = strndup(name, len);
		buf_str(v->out, k ? ", " : ": ");
		text_safe(v->out, crate ? crate : "?");
	}
}

static const char *state_word(enum await_state s)
{
	switch (s) {
	case AS_UNPOLLED:
		return "not polled yet";
	case AS_DONE:
		return "done";
	case AS_PANICKED:
		return "panicked";
	case AS_DISABLED:
		return "off";
	case AS_ASLEEP:
		return "held, not polled";
	default:
		return NULL;
	}
}

/* A name, shortened so that it and what takes `used` columns fit into a line. */
static void fit_name(const struct view *v, const char *name, size_t used)
{
	_cleanup_buf_ struct buf safe = BUF_INIT;
	size_t room = v->width > used + LEAST_NAME ? v->width - used : LEAST_NAME;

	text_safe(&safe, name);
	text_shorten(v->out, safe.data ? safe.data : "", v->width ? room : SIZE_MAX);
}

/* "rnet: kind 7" where tasks of several objects are shown, each of which counts its own. */
static void kind_name(const struct view *v, const struct moment_kind *k)
{
	size_t len;
	const char *name = text_object_name(k->object, v->alike, &len);

	if (v->several && len) {
		_cleanup_free_ char *object = strndup(name, len);

		text_safe(v->out, object ? object : "?");
		buf_str(v->out, ": ");
	}
	/* A line has a second name, of the spawn site. */
	fit_name(v, k->name, v->width / 2);
}

static void task_name(const struct view *v, const struct moment_task *t)
{
	if (t->kind->role == TR_ROOT)
		buf_str(v->out, "block_on of ");
	else if (t->id)
		buf_printf(v->out, "task %" PRIu64 " ", t->id);
	else
		buf_printf(v->out, "task %#" PRIx64 " ", t->addr);
	kind_name(v, t->kind);
}

/* Who has the lock that a leaf waits for, as far as that can be seen, and how many wait. */
static void lock_text(const struct view *v, const struct await_node *n, const struct graph_lock *l)
{
	size_t shown = l->n_holders > MAX_HOLDERS ? MAX_HOLDERS : l->n_holders;

	if (n->granted)
		return;
	if (!l->n_holders) {
		buf_str(v->out, ", its holder can't be seen");
	} else if (n->wait == AW_MUTEX && l->n_holders > 1) {
		buf_printf(v->out, ", held by one of %zu tasks that have a guard of it",
			   l->n_holders);
	} else {
		for (size_t i = 0; i < shown; i++) {
			buf_str(v->out, i ? ", " : ", held by ");
			task_name(v, &v->m->tasks[l->holders[i]]);
		}
		if (shown < l->n_holders)
			buf_printf(v->out, " and %zu more", l->n_holders - shown);
	}
	if (l->n_waiting > 1)
		buf_printf(v->out, "; %zu wait", l->n_waiting);
}

static void channel_text(const struct view *v, const struct await_held *h)
{
	text_exact(v->out, h->length);
	if (h->capacity) {
		buf_str(v->out, " of ");
		text_exact(v->out, h->capacity);
	}
	buf_str(v->out, " queued, ");
	if (h->senders)
		text_exact(v->out, h->senders);
	else
		buf_str(v->out, "no");
	buf_str(v->out, h->senders == 1 ? " sender" : " senders");
	if (h->closed)
		buf_str(v->out, ", closed");
}

/* Of a leaf the channel that it waits for; else what locals hold: an empty channel is no news. */
static void held_text(const struct view *v, const struct await_node *n, const struct await_held *h)
{
	bool leaf = n->kind == AN_LEAF, news = h->length || h->closed || v->opt->raw;

	if (h->kind == AH_CHANNEL && (!h->counted || (!leaf && !news)))
		return;
	buf_str(v->out, ", ");
	if (h->kind == AH_GUARD) {
		buf_str(v->out, "holds ");
		text_safe(v->out, h->type ? h->type : "a guard");
	} else {
		if (!leaf)
			buf_printf(v->out, "has the receiver of channel %#" PRIx64 ": ", h->addr);
		channel_text(v, h);
	}
}

/* The details of an await point that are the task's own. */
static void own_text(const struct view *v, const struct await_node *n)
{
	const struct moment_task *target = n->kind == AN_LEAF ? graph_target(v->g, n) : NULL;

	if (n->detail && n->kind != AN_NOTE) {
		buf_str(v->out, ", ");
		text_safe(v->out, n->detail);
	}
	if (target && n->wait == AW_TASK) {
		buf_str(v->out, " of ");
		task_name(v, target);
	}
	if (graph_lock(v->g, n))
		lock_text(v, n, graph_lock(v->g, n));
	for (size_t i = 0; i < n->n_held; i++)
		held_text(v, n, &n->held[i]);
	if (v->opt->raw && n->addr)
		buf_printf(v->out, "  @%#" PRIx64, n->addr);
}

/* The same place in the trees of a group: of one task all of it, of several what they have alike.
 */
static void own_texts(const struct view *v, const struct await_node *const *nodes, size_t n)
{
	_cleanup_buf_ struct buf first = BUF_INIT, other = BUF_INIT;
	struct view to = *v;
	bool alike = true;

	to.out = &first;
	own_text(&to, nodes[0]);
	to.out = &other;
	for (size_t i = 1; i < n && alike; i++) {
		buf_clear(&other);
		own_text(&to, nodes[i]);
		alike = first.len == other.len &&
			(!first.len || !memcmp(first.data, other.data, first.len));
	}
	buf_add(v->out, alike && first.len ? first.data : "", alike ? first.len : 0);
	if (!alike)
		buf_str(v->out, ", differs from task to task (--each)");
}

static void place_text(const struct view *v, const struct await_node *n)
{
	const char *word = state_word(n->state);

	if (word)
		buf_printf(v->out, " [%s]", word);
	if (!n->file || n->state == AS_DONE)
		return;
	buf_str(v->out, v->opt->color ? "  \033[36m" : "  ");
	text_safe(v->out, text_short_file(n->file));
	buf_printf(v->out, ":%u", n->line);
	buf_str(v->out, v->opt->color ? "\033[0m" : "");
}

/* One line of n trees, `used` columns of which are taken; without what is their own if `key`: that
 * makes trees alike. */
static void node_line(const struct view *v, const struct await_node *const *nodes, size_t n,
		      size_t used, bool key)
{
	_cleanup_buf_ struct buf place = BUF_INIT;
	struct view to = *v;

	to.out = &place;
	place_text(&to, nodes[0]);
	fit_name(v, nodes[0]->name ? nodes[0]->name : "?",
		 used + text_width(place.data ? place.data : ""));
	buf_add(v->out, place.data ? place.data : "", place.len);
	if (!key)
		own_texts(v, nodes, n);
}

/* Goes on from nodes to the only child of each, `steps` times. */
static void descend(const struct view *v, const struct await_node **nodes, size_t n, unsigned steps)
{
	for (size_t i = 0; i < n; i++)
		for (unsigned k = 0; k < steps && nodes[i]->n_children == 1; k++)
			nodes[i] = shown(v, nodes[i]->children[0]);
}

/* Of n trees that are alike; `nodes` is room to work in. */
static void node_tree(const struct view *v, const struct await_node **nodes, size_t n,
		      struct buf *prefix, bool last, bool root, bool key)
{
	_cleanup_free_ const struct await_node **children = calloc(n, sizeof(struct await_node *));
	size_t len = prefix->len, used, n_children;
	unsigned wrappers;

	for (size_t i = 0; i < n; i++)
		nodes[i] = shown(v, nodes[i]);
	used = text_width(prefix->data ? prefix->data : "");
	buf_str(v->out, prefix->data ? prefix->data : "");
	buf_str(v->out, root ? "" : last ? "└ " : "├ ");
	/* Branches leave room for names, however deep the tree. */
	if (!root && (!v->width || used < v->width / 2))
		buf_str(prefix, last ? "  " : "│ ");
	wrappers = n_wrappers(v, nodes[0]);
	if (wrappers >= FOLDED) {
		wrappers_line(v, nodes[0], wrappers);
		descend(v, nodes, n, wrappers);
		buf_char(v->out, '\n');
		node_tree(v, nodes, n, prefix, true, false, key);
		prefix->len = len;
		if (prefix->data)
			prefix->data[len] = 0;
		return;
	}
	node_line(v, nodes, n, used + (root ? 0 : 2), key);
	buf_char(v->out, '\n');
	n_children = children ? nodes[0]->n_children : 0;
	for (size_t i = 0; i < n_children; i++) {
		size_t alike = 0;

		for (size_t k = 0; k < n; k++)
			if (nodes[k]->n_children > i)
				children[alike++] = nodes[k]->children[i];
		node_tree(v, children, alike, prefix, i + 1 == n_children, false, key);
	}
	prefix->len = len;
	if (prefix->data)
		prefix->data[len] = 0;
}

static bool is_own_frame(const struct moment_frame *f)
{
	const struct trace_frame frame = {
		.object = f->object, .function = f->function, .file = f->file};

	return trace_frame_is_own(&frame, NULL);
}

static void frame_line(const struct view *v, const struct moment_frame *f)
{
	_cleanup_buf_ struct buf place = BUF_INIT;

	if (f->line) {
		buf_str(&place, v->opt->color ? "  \033[36m" : "  ");
		text_safe(&place, text_short_file(f->file));
		buf_printf(&place, ":%u", f->line);
		buf_str(&place, v->opt->color ? "\033[0m" : "");
	}
	buf_str(v->out, "  ");
	fit_name(v, *f->function ? f->function : "?", 2 + text_width(place.data ? place.data : ""));
	buf_add(v->out, place.data ? place.data : "", place.len);
	buf_char(v->out, '\n');
}

/* From the task's poll inward: the functions of libraries that the program's own call, and the
 * innermost one; --internals has all. */
static void stack_text(const struct view *v, const struct moment_task *t)
{
	const struct moment_thread *thread = &v->m->threads[t->thread - 1];
	size_t left_out = 0;
	bool after_own = true;

	for (size_t i = moment_task_frames(v->m, v->uses, t); i--;) {
		const struct moment_frame *f = &thread->frames[i];
		bool own = is_own_frame(f);

		if (!own && !after_own && i && !v->opt->internals) {
			left_out++;
			continue;
		}
		if (left_out)
			buf_printf(v->out, "  … %zu more (--internals)\n", left_out);
		left_out = 0;
		frame_line(v, f);
		after_own = own;
	}
}

/* The tree of the first of n tasks, with what all have alike. */
static void trees_text(const struct view *v, const size_t *tasks, size_t n, bool key)
{
	_cleanup_free_ const struct await_node **nodes = calloc(n, sizeof(struct await_node *));
	const struct moment_task *first = &v->m->tasks[tasks[0]];
	_cleanup_buf_ struct buf prefix = BUF_INIT;
	size_t n_trees = 0;

	if (moment_task_frames(v->m, v->uses, first)) {
		stack_text(v, first);
		return;
	}

	for (size_t i = 0; nodes && i < n; i++)
		if (v->m->tasks[tasks[i]].tree)
			nodes[n_trees++] = v->m->tasks[tasks[i]].tree;
	buf_str(&prefix, "  ");
	if (first->tree && n_trees && moment_task_runs(first))
		buf_str(v->out, "  (runs now; before that it waited here)\n");
	if (first->tree && n_trees)
		node_tree(v, nodes, n_trees, &prefix, true, true, key);
	else if (first->no_tree_reason)
		buf_printf(v->out, "  (%s)\n", first->no_tree_reason);
}

/* ---- groups ---- */

struct group {
	char *key;
	size_t *tasks;
	size_t n, cap;
	uint64_t bytes; /* of its largest task, to sort by */
};

static int larger_first(const void *a, const void *b)
{
	const struct group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return DESCENDING(x->bytes, y->bytes);
	return x->n && y->n ? ASCENDING(x->tasks[0], y->tasks[0]) : 0;
}

static bool group_add(struct group *g, size_t task)
{
	if (!GROW(g->tasks, g->n, g->cap))
		return false;
	g->tasks[g->n++] = task;
	return true;
}

/* The largest of some tasks: what is boxed may differ. */
static struct task_size largest(const struct view *v, const size_t *tasks, size_t n)
{
	struct task_size most = {0};

	for (size_t i = 0; i < n; i++) {
		struct task_size size = moment_task_size(&v->m->tasks[tasks[i]]);

		most = i == 0 || size.whole_bytes > most.whole_bytes ? size : most;
	}
	return most;
}

/* Of what its tasks take; equal ones stay as they are. */
static void sort_groups(const struct view *v, struct group *groups, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (groups[i].n)
			groups[i].bytes = largest(v, groups[i].tasks, groups[i].n).whole_bytes;
	if (n)
		qsort(groups, n, sizeof(*groups), larger_first);
}

static char *task_key(const struct view *v, size_t task)
{
	const struct moment_task *t = &v->m->tasks[task];
	struct buf b = BUF_INIT;
	struct view kv = *v;

	kv.out = &b;
	kv.fold = false;
	kv.width = 0;
	buf_printf(&b, "%p %d %d %d %zu %s\n", (const void *)t->kind, t->state, t->cancelled,
		   t->torn, moment_task_frames(v->m, v->uses, t) ? 0 : t->thread,
		   t->queue ? t->queue : "");
	trees_text(&kv, &task, 1, true);
	return buf_steal(&b);
}

static void thread_text(const struct view *v, const struct moment_task *t, size_t n)
{
	const struct moment_thread *thread = &v->m->threads[t->thread - 1];
	const char *call = moment_task_frames(v->m, v->uses, t) ? moment_call_name(thread) : NULL;

	if (n > 1)
		buf_printf(v->out, " on %zu threads", n);
	else
		buf_printf(v->out, " on thread %d", (int)thread->tid);
	if (*thread->name) {
		buf_char(v->out, ' ');
		text_safe(v->out, thread->name);
	}
	if (call)
		buf_printf(v->out, ", in %s", call);
	if (v->uses[t->thread - 1].in_place && v->uses[t->thread - 1].task == t)
		buf_str(v->out, ", in block_in_place");
}

/* " for 1.20 s to 3.40 s", where it is known. */
static void since_text(const struct view *v, const size_t *tasks, size_t n)
{
	const uint64_t *for_ns = v->opt->select.for_ns;
	uint64_t least = UINT64_MAX, most = 0;

	for (size_t i = 0; for_ns && i < n; i++) {
		least = for_ns[tasks[i]] < least ? for_ns[tasks[i]] : least;
		most = for_ns[tasks[i]] > most ? for_ns[tasks[i]] : most;
	}
	if (!most || !least)
		return;
	_cleanup_buf_ struct buf low = BUF_INIT, high = BUF_INIT;

	text_duration(&low, least);
	text_duration(&high, most);
	buf_printf(v->out, " for %s", low.data ? low.data : "");
	if (high.data && low.data && strcmp(low.data, high.data) != 0)
		buf_printf(v->out, " to %s", high.data);
}

static void size_text(const struct view *v, const size_t *tasks, size_t n)
{
	struct task_size size = largest(v, tasks, n);

	if (!size.whole_bytes)
		return;
	buf_str(v->out, n > 1 ? ", each up to " : ", ");
	text_exact(v->out, size.whole_bytes);
	buf_str(v->out, " bytes (");
	if (size.future_bytes) {
		buf_str(v->out, "its future ");
		text_exact(v->out, size.future_bytes);
	} else {
		buf_str(v->out, "its future's size is not known");
	}
	if (size.boxed_bytes) {
		buf_str(v->out, ", boxed ");
		text_exact(v->out, size.boxed_bytes);
	}
	buf_char(v->out, ')');
}

static void header_line(const struct view *v, const size_t *tasks, size_t n)
{
	const struct moment_task *t = &v->m->tasks[tasks[0]];
	const char *site = t->kind->site;

	buf_str(v->out, v->opt->color ? "\033[1m" : "");
	if (n > 1) {
		buf_printf(v->out, "%zu tasks ", n);
		kind_name(v, t->kind);
	} else {
		task_name(v, t);
	}
	buf_str(v->out, v->opt->color ? "\033[0m" : "");
	buf_printf(v->out, "  %s", inspect_state_name(t->state));
	since_text(v, tasks, n);
	if (t->thread)
		thread_text(v, t, n);
	if (t->queue)
		buf_printf(v->out, " (%s)", t->queue);
	if (t->cancelled)
		buf_str(v->out, ", cancelled");
	if (t->torn)
		buf_str(v->out, ", changed whenever it was read");
	if (*site) {
		buf_str(v->out, t->kind->role == TR_ROOT ? ", at " : ", spawned at ");
		text_safe(v->out, text_short_file(site));
	}
	if (v->opt->by_size)
		size_text(v, tasks, n);
	if (v->opt->raw)
		buf_printf(v->out,
			   ", %u references, state %#" PRIx64 ", owner %" PRIu64
			   ", header %#" PRIx64,
			   t->refs, t->raw_state, t->owner, t->addr);
	buf_char(v->out, '\n');
}

static void group_text(const struct view *v, const struct group *g)
{
	header_line(v, g->tasks, g->n);
	if (g->n > 1) {
		size_t many = g->n > 8 ? 6 : g->n;

		buf_str(v->out, "  ids");
		for (size_t i = 0; i < many; i++) {
			const struct moment_task *t = &v->m->tasks[g->tasks[i]];

			buf_printf(v->out, t->id ? " %" PRIu64 : " %#" PRIx64,
				   t->id ? t->id : t->addr);
		}
		if (many < g->n)
			buf_printf(v->out, " ... and %zu more", g->n - many);
		buf_char(v->out, '\n');
	}
	trees_text(v, g->tasks, g->n, false);
	buf_char(v->out, '\n');
}

/* The future inside a task that has got or holds the lock which a leaf waits for. */
static const struct await_node *find_hold(const struct await_node *n, uint64_t lock)
{
	for (size_t i = 0; i < n->n_holds; i++)
		if (n->holds[i] == lock)
			return n;
	for (size_t i = 0; i < n->n_children; i++) {
		const struct await_node *found = find_hold(n->children[i], lock);

		if (found)
			return found;
	}
	return NULL;
}

/* The future on the path to `n` that is not polled; NULL: there is none. */
static const struct await_node *asleep_above(const struct await_node *root,
					     const struct await_node *n,
					     const struct await_node *asleep)
{
	if (root->state == AS_ASLEEP)
		asleep = root;
	if (root == n)
		return asleep;
	for (size_t i = 0; i < root->n_children; i++) {
		const struct await_node *found = asleep_above(root->children[i], n, asleep);

		if (found)
			return found;
	}
	return NULL;
}

/* What proves an edge of a cycle. */
static void proof_text(const struct view *v, const struct await_node *leaf)
{
	const struct moment_task *t = graph_target(v->g, leaf);
	const struct await_node *hold = t && t->tree ? find_hold(t->tree, leaf->resource) : NULL;
	const struct await_node *asleep = hold ? asleep_above(t->tree, hold, NULL) : NULL;

	if (!hold)
		return;
	buf_str(v->out, "    ");
	if (hold->granted) {
		buf_str(v->out, "the lock was granted to a future");
	} else {
		text_safe(v->out, hold->name ? hold->name : "?");
		buf_str(v->out, " has the lock's guard in a local");
		if (hold->file) {
			buf_str(v->out, " at ");
			text_safe(v->out, text_short_file(hold->file));
			buf_printf(v->out, ":%u", hold->line);
		}
	}
	if (asleep) {
		buf_str(v->out, hold->granted ? " inside " : ", inside ");
		text_safe(v->out, asleep->name ? asleep->name : "?");
		if (asleep->file) {
			buf_str(v->out, " (");
			text_safe(v->out, text_short_file(asleep->file));
			buf_printf(v->out, ":%u)", asleep->line);
		}
		buf_str(v->out,
			", which is held but not polled while the task waits (a \"futurelock\")");
	}
	buf_char(v->out, '\n');
}

static void lost_text(const struct view *v)
{
	for (size_t i = 0; i < v->g->n_lost; i++) {
		const struct moment_task *t = &v->m->tasks[v->g->lost[i].task];

		if (!task_selected(&v->opt->select, v->g, v->uses, t))
			continue;
		buf_printf(v->out, "%sNEVER AGAIN%s: ", v->opt->color ? "\033[1;31m" : "",
			   v->opt->color ? "\033[0m" : "");
		task_name(v, t);
		buf_printf(v->out, " can't run again: %s (state word %#" PRIx64 ")\n",
			   v->g->lost[i].proof, t->raw_state);
		if (v->g->lost[i].pending)
			buf_str(v->out,
				"  it awaits a future without a size: std::future::pending(), "
				"which is there to be aborted, or one that keeps no waker\n");
		buf_char(v->out, '\n');
	}
}

static void cycles_text(const struct view *v)
{
	for (size_t i = 0; i < v->g->n_cycles; i++) {
		const struct graph_cycle *c = &v->g->cycles[i];

		buf_printf(v->out, "%sDEADLOCK%s: %s\n", v->opt->color ? "\033[1;31m" : "",
			   v->opt->color ? "\033[0m" : "",
			   c->n == 1 ? "a task waits for itself and for nothing else:"
				     : "tasks wait for each other and for nothing else:");
		for (size_t k = 0; k < c->n; k++) {
			buf_str(v->out, "  ");
			task_name(v, &v->m->tasks[c->tasks[k]]);
			buf_str(v->out, " waits: ");
			node_line(v, &c->leaves[k], 1, 0, false);
			buf_char(v->out, '\n');
			proof_text(v, c->leaves[k]);
		}
		buf_char(v->out, '\n');
	}
}

static void thread_words(const struct view *v, const struct moment_thread *t)
{
	buf_printf(v->out, "  thread %u ", t->tid);
	text_safe(v->out, t->name);
	buf_str(v->out, "  ");
}

/* Its place in code that is the program's, else in which call. */
static void stands_text(const struct view *v, const struct moment_thread *t)
{
	const struct graph_held *by = graph_blocked_by(v->g, t);
	const char *call = moment_call_name(t);

	if (call)
		buf_printf(v->out, ", in %s", call);
	else
		buf_str(v->out, t->call ? ", in a system call" : ", on its CPU");
	if (!by)
		return;
	buf_str(v->out, ", waits for a lock of which ");
	task_name(v, &v->m->tasks[by->task]);
	buf_str(v->out, " has the guard");
}

/* The threads that run a runtime's loop, a block_on, or a task: parked, or what they poll. */
static void threads_text(const struct view *v)
{
	size_t n = 0, n_left = 0, n_others = 0;

	for (size_t i = 0; i < v->m->n_threads; i++) {
		const struct moment_thread *t = &v->m->threads[i];
		const struct thread_use *u = &v->uses[i];

		if (!u->worker && !u->root && !u->task) {
			n_others++;
			continue;
		}
		if (n == MAX_THREADS && !v->opt->ungrouped) {
			n_left++;
			continue;
		}
		buf_str(v->out, n++ ? "" : "threads that run tasks:\n");
		thread_words(v, t);
		if (u->worker)
			buf_str(v->out, "worker, ");
		if (u->task) {
			buf_str(v->out, u->task->kind->role == TR_BLOCKING ? "runs " : "polls ");
			task_name(v, u->task);
		} else if (u->parked) {
			buf_str(v->out, u->root ? "parked in " : "parked");
			if (u->root)
				task_name(v, u->root);
		} else if (u->root) {
			buf_str(v->out, "in ");
			task_name(v, u->root);
		} else {
			buf_str(v->out, "between polls");
		}
		stands_text(v, t);
		if (u->in_place)
			buf_str(v->out, ", in block_in_place");
		buf_char(v->out, '\n');
	}
	if (n_left)
		buf_printf(v->out, "  and %zu more (--each)\n", n_left);
	if (n && n_others)
		buf_printf(v->out, "  %zu other thread%s\n", n_others, n_others == 1 ? "" : "s");
	if (n)
		buf_char(v->out, '\n');
}

static void look_at_objects(struct view *v)
{
	const char *paths[32];
	size_t n = 0, k;

	for (size_t i = 0; i < v->m->n_tasks && n < 32; i++) {
		const char *path = v->m->tasks[i].kind->object;

		for (k = 0; k < n && strcmp(paths[k], path) != 0; k++)
			v->alike = v->alike || text_same_object(paths[k], path);
		if (k == n)
			paths[n++] = path;
	}
	v->several = n > 1;
}

void render_text(const struct graph *g, const struct render_options *opt, struct buf *out)
{
	const struct trace_moment *r = g->moment;
	struct view v = {.m = r,
			 .g = g,
			 .opt = opt,
			 .out = out,
			 .fold = !opt->wrappers,
			 .width = opt->width};
	struct group *groups = calloc(r->n_tasks ? r->n_tasks : 1, sizeof(*groups));
	struct map index = {0};
	struct thread_use *uses = moment_thread_uses(r);
	size_t n_groups = 0, n_shown = 0, n_ended = 0;

	v.uses = uses;
	look_at_objects(&v);
	for (size_t i = 0; groups && uses && i < r->n_tasks; i++) {
		struct group *at = NULL;
		_cleanup_free_ char *key = NULL;

		n_ended += !opt->select.finished && r->tasks[i].state == IS_DONE;
		if (!task_selected(&opt->select, g, uses, &r->tasks[i]))
			continue;
		n_shown++;
		key = opt->ungrouped ? NULL : task_key(&v, i);
		if (key)
			at = map_get(&index, hash_string(0, key), 0);
		if (!at || strcmp(at->key, key) != 0) {
			at = &groups[n_groups++];
			at->key = steal(key);
			if (at->key)
				map_put(&index, hash_string(0, at->key), 0, at);
		}
		group_add(at, i);
	}
	if (opt->by_size)
		sort_groups(&v, groups, n_groups);
	for (size_t i = 0; i < n_groups; i++)
		if (groups[i].n)
			group_text(&v, &groups[i]);
	if (uses && task_selection_is_all(&opt->select))
		threads_text(&v);
	cycles_text(&v);
	lost_text(&v);
	buf_printf(out, "%zu task%s", n_shown, n_shown == 1 ? "" : "s");
	if (n_shown != r->n_tasks - n_ended)
		buf_printf(out, " of %zu", r->n_tasks - n_ended);
	if (n_groups != n_shown)
		buf_printf(out, " in %zu group%s", n_groups, n_groups == 1 ? "" : "s");
	if (n_ended)
		buf_printf(out, "; %zu that ended %s kept by join handles (--all)", n_ended,
			   n_ended == 1 ? "is" : "are");
	if (r->stop_ns) {
		buf_str(out, "; threads were paused for ");
		text_duration(out, r->stop_ns);
	}
	buf_char(out, '\n');
	if (r->n_found > r->n_tasks)
		buf_printf(out, "%" PRIu64 " tasks were left out: a moment has up to %u\n",
			   r->n_found - r->n_tasks, MOMENT_MAX_TASKS);
	if (r->n_torn)
		buf_printf(out,
			   "%" PRIu64
			   " task%s changed whenever read: what is shown of %s may never have "
			   "been so\n",
			   r->n_torn, r->n_torn == 1 ? "" : "s", r->n_torn == 1 ? "it" : "them");
	if (r->n_missed)
		buf_printf(out, "%" PRIu64 " reads failed: the program changed meanwhile\n",
			   r->n_missed);
	for (size_t i = 0; i < r->n_notes; i++) {
		text_safe(out, r->notes[i]);
		buf_char(out, '\n');
	}
	for (size_t i = 0; i < n_groups; i++) {
		free(groups[i].key);
		free(groups[i].tasks);
	}
	free(groups);
	free(uses);
	map_done(&index);
	text_wrap(out, opt->width);
}
