/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Spawns find their tasks: the rules are in timeline.h.
 *
 * The waiting spawns of a kind are a treap (a search tree kept in balance by random priorities),
 * since a program may spawn a hundred thousand tasks before the first is polled, and poll them in
 * any order. The key is the hint (highest id given out), where ids and a counter are known: 1 and
 * up; 0 where the counter is not known: then the order of arrival alone counts; the thread, for
 * address-named kinds but blocking ones; and equal keys are in order of arrival.
 *
 * A task of a much smaller id than the kind's first hint was spawned before the recording: it must
 * not take a spawn that is another's. Ids are taken a moment before the spawn is seen, so a few
 * other threads may come in between: SLACK.
 */
#include "timeline/state.h"

#include <errno.h>

#define SLACK 64
#define MAX_KINDS_LOOKED_AT 4096

/* Blocking tasks get into their pool's queue without a word, and threads of that poll them. */
static bool by_thread(const struct kind *k)
{
	return k->address_named && k->role != TR_BLOCKING;
}

static bool spawn_before(const struct spawn *a, const struct spawn *b)
{
	return a->key != b->key ? a->key < b->key : a->seq < b->seq;
}

static void treap_insert(struct spawn **at, struct spawn *s)
{
	while (*at && (*at)->priority >= s->priority)
		at = spawn_before(s, *at) ? &(*at)->left : &(*at)->right;
	struct spawn *rest = *at, **left = &s->left, **right = &s->right;
	*at = s;
	while (rest) {
		if (spawn_before(rest, s)) {
			*left = rest;
			left = &rest->right;
			rest = rest->right;
		} else {
			*right = rest;
			right = &rest->left;
			rest = rest->left;
		}
	}
	*left = *right = NULL;
}

static struct spawn *treap_remove(struct spawn **at)
{
	struct spawn *gone = *at, *a = gone->left, *b = gone->right;
	while (a && b) {
		if (a->priority > b->priority) {
			*at = a;
			at = &a->right;
			a = a->right;
		} else {
			*at = b;
			at = &b->left;
			b = b->left;
		}
	}
	*at = a ? a : b;
	return gone;
}

/* The first whose key is not less. */
static struct spawn **treap_at_least(struct spawn **at, uint64_t key)
{
	struct spawn **best = NULL;
	while (*at) {
		if ((*at)->key >= key) {
			best = at;
			at = &(*at)->left;
		} else {
			at = &(*at)->right;
		}
	}
	return best;
}

/* The last whose key is not greater. */
static struct spawn **treap_at_most(struct spawn **at, uint64_t key)
{
	struct spawn **best = NULL;
	while (*at) {
		if ((*at)->key <= key) {
			best = at;
			at = &(*at)->right;
		} else {
			at = &(*at)->left;
		}
	}
	return best;
}

void spawn_add(struct timeline *tl, struct thread *th, struct kind *k, uint64_t hint, uint64_t t)
{
	struct frame *f = poll_open(th);
	if (f && k->role == TR_WORKER && k->block_in_place && !f->section_ns)
		f->section_ns = f->until_ns = t;

	struct spawn *s = pool_get(&tl->spawns);
	if (!s) {
		timeline_fail(tl, -ENOMEM);
		return;
	}
	/* xorshift: the priorities only have to be unrelated to the keys */
	tl->random ^= tl->random << 13;
	tl->random ^= tl->random >> 17;
	tl->random ^= tl->random << 5;
	s->priority = tl->random;
	s->key = by_thread(k) ? th->tl.thread : hint;
	s->seq = ++tl->n_spawns;
	s->thread = th->tl.thread;
	s->time_ns = t;
	s->n_losses = tl->n_losses;
	const struct task *parent = f ? f->task : th->root;
	s->parent = parent ? parent->tl.serial : 0;
	s->parent_number = parent ? parent->tl.number : 0;
	s->parent_slot = parent ? parent->tl.slot : 0;
	s->given_before = k->ids && th->ids == k->ids ? th->given : 0;
	if (hint && k->ids && ids_add_given(k->ids, hint) < 0)
		timeline_fail(tl, -ENOMEM);
	spawn_note_given(th, k);
	if (hint && !k->first_hint)
		k->first_hint = hint;
	k->n_spawned++;
	k->n_waiting++;
	treap_insert(&k->spawns, s);
}

void spawn_note_given(struct thread *th, const struct kind *k)
{
	if (!k->ids)
		return;
	th->ids = k->ids;
	th->given = k->ids->highest;
}

/*
 * Where the code only looks like a spawn's, the address of a kind's table was taken for something
 * else. The id of a spawn is taken after its thread came there, and before its event, but for what
 * other threads do in that moment. If all of these ids are those of other tasks, it has none.
 */
static bool is_false(const struct kind *k, const struct spawn *s)
{
	return k->ids && s->key && s->given_before > SLACK && s->key < UINT64_MAX - SLACK &&
	       ids_all_seen(k->ids, s->given_before - SLACK + 1, s->key + SLACK);
}

/* The living task of that name, whatever its kind. Recordings that name parents have few kinds; of
 * a hostile one that has many, only some are looked through. */
static struct task *find_of_any_kind(struct timeline *tl, const struct kind *first, uint64_t name)
{
	struct task *task = task_find(tl, first, name);
	size_t n = tl->n_kinds < MAX_KINDS_LOOKED_AT ? tl->n_kinds : MAX_KINDS_LOOKED_AT;
	for (size_t i = 0; i < n && !task; i++) {
		const struct kind *k = tl->kinds[i];
		if (k && k != first && (k->role != TR_ROOT || k->polled))
			task = task_find(tl, k, name);
	}
	return task;
}

void spawn_named(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name,
		 const uint64_t *parent, uint64_t t)
{
	struct task *task = task_find(tl, k, name);
	if (task && (k->address_named || task->tl.state == TS_DONE)) {
		/* The name is in use again: the former's drop was not seen. */
		tl->n_inconsistent++;
		if (task->tl.state == TS_POLLING) {
			task->drop_inside = true;
			task_unname(tl, task);
		} else if (task->tl.state == TS_DONE) {
			task_forget(tl, task);
		} else {
			task_settle(tl, task);
			task_unname(tl, task);
			task_end(tl, task, TO_UNKNOWN, timeline_at_task(th, task, t));
		}
		task = NULL;
	}
	if (task) {
		tl->n_inconsistent++; /* ids are given out once: the spawn comes late */
		return;
	}
	struct spawn s = {
		.thread = th->tl.thread,
		.time_ns = t,
		.n_losses = tl->n_losses,
	};
	const struct frame *f = poll_open(th);
	const struct task *by = f ? f->task : th->root;
	if (parent)
		by = *parent ? find_of_any_kind(tl, k, *parent) : NULL;
	if (by) {
		s.parent = by->tl.serial;
		s.parent_number = by->tl.number;
		s.parent_slot = by->tl.slot;
	}
	k->n_spawned++;
	task = task_new_spawned(tl, k, &s, name);
	if (task && task_name(tl, task, name) == 0)
		task->unqueued = true;
}

bool spawn_waits(const struct kind *k, const struct thread *th)
{
	struct spawn *spawns = k->spawns, **at = treap_at_most(&spawns, th->tl.thread);
	return by_thread(k) && at && (*at)->key == th->tl.thread;
}

/* The spawn that an address-named task which appears on `th` comes from. */
static struct spawn **find_by_thread(struct timeline *tl, struct kind *k, const struct thread *th)
{
	struct spawn **at = treap_at_most(&k->spawns, th->tl.thread);
	if (at && (*at)->key == th->tl.thread)
		return at;
	/* Made there, but first run here: possible only if the other thread has gone on since, for
	 * a runtime schedules a new task at once. */
	at = treap_at_least(&k->spawns, 0);
	return at && tl->threads[(*at)->thread]->last_ns > (*at)->time_ns ? at : NULL;
}

static struct spawn **find_by_hint(struct kind *k, uint64_t id)
{
	if (!k->first_hint || id + SLACK <= k->first_hint)
		return NULL;
	return treap_at_least(&k->spawns, id ? id : 1);
}

bool spawn_take(struct timeline *tl, struct kind *k, uint64_t name, const struct thread *th,
		bool by_hint_only, struct spawn *ret)
{
	if (!k->spawns)
		return false;
	struct spawn **at;
	if (by_thread(k)) {
		at = by_hint_only ? NULL : find_by_thread(tl, k, th);
	} else {
		at = find_by_hint(k, name);
		if (!at && !by_hint_only) {
			at = treap_at_least(&k->spawns, 0);
			if (at && (*at)->key)
				at = NULL;
		}
	}
	if (!at)
		return false;
	struct spawn *s = treap_remove(at);
	*ret = *s;
	pool_put(&tl->spawns, s);
	k->n_waiting--;
	return true;
}

void spawn_finish(struct timeline *tl)
{
	for (size_t i = 0; i < tl->n_kinds; i++) {
		struct kind *k = tl->kinds[i];
		while (k && k->spawns && !tl->failed) {
			struct spawn *s = treap_remove(treap_at_least(&k->spawns, 0));
			if (is_false(k, s))
				k->n_spawned--;
			else
				task_new_spawned(tl, k, s, 0);
			pool_put(&tl->spawns, s);
			k->n_waiting--;
		}
	}
}
