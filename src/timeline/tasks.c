/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A task's life: it appears with its first event, goes from state to state, ends exactly once.
 *
 * The living are in a list in order of appearance and, under (kind, name), in the map. An ended
 * task keeps its name until TE_DROP, for a late wake must not bring it back to life; of those whose
 * drop never comes (lost, or a join handle that is kept) only the last MAX_ENDED are remembered.
 *
 * While a task is polled, another thread may already see it idle, wake it, cancel it, even drop
 * it: the end of a poll is stamped a moment after the task was let go. So all that is only noted on
 * the task and takes effect at the poll's end.
 */
#include "timeline/state.h"

#include "base/vec.h"

#include <assert.h>
#include <errno.h>

struct task *task_find(const struct timeline *tl, const struct kind *k, uint64_t name)
{
	return map_get(&tl->names, k->same->number, name);
}

int task_name(struct timeline *tl, struct task *task, uint64_t name)
{
	int r = map_put(&tl->names, task->kind->same->number, name, task);
	if (r < 0) {
		timeline_fail(tl, r);
		return r;
	}
	task->name = name;
	task->named = true;
	return 0;
}

void task_unname(struct timeline *tl, struct task *task)
{
	if (task->named)
		map_remove(&tl->names, task->kind->same->number, task->name);
	task->named = false;
}

static void list_append(struct task **first, struct task **last, struct task *task)
{
	task->prev = *last;
	task->next = NULL;
	if (*last)
		(*last)->next = task;
	else
		*first = task;
	*last = task;
}

static void list_remove(struct task **first, struct task **last, struct task *task)
{
	if (task->prev)
		task->prev->next = task->next;
	else
		*first = task->next;
	if (task->next)
		task->next->prev = task->prev;
	else
		*last = task->prev;
}

static struct task *task_begin(struct timeline *tl, struct kind *k, uint64_t id,
			       const struct spawn *s, uint64_t t)
{
	if (tl->n_live == MAX_LIVE) {
		tl->n_inconsistent++;
		return NULL;
	}
	struct task *task = pool_get(&tl->tasks);
	if (!task) {
		timeline_fail(tl, -ENOMEM);
		return NULL;
	}
	task->kind = k;
	task->thread = NO_THREAD;
	task->tl.serial = ++tl->n_tasks;
	task->tl.slot = tl->n_free_slots ? tl->free_slots[--tl->n_free_slots] : tl->n_slots++;
	task->tl.kind = k->number;
	task->tl.role = k->role;
	task->tl.id = id;
	bool by_id = !k->address_named && (k->role != TR_ROOT || k->polled);
	task->tl.number = id && by_id ? id : task->tl.serial;
	if (s) {
		task->tl.parent = s->parent;
		task->tl.parent_number = s->parent_number;
		task->tl.parent_slot = s->parent_slot;
		task->tl.spawn_thread = s->thread;
		task->tl.spawn_seen = true;
		task->tl.spawn_ns = task->since_ns = task->scheduled_ns = s->time_ns;
		task->tl.state = TS_SCHEDULED;
		task->n_losses = s->n_losses;
	} else {
		task->tl.spawn_thread = NO_THREAD;
		task->tl.spawn_ns = task->since_ns = t;
		task->tl.state = TS_UNKNOWN;
		task->n_losses = tl->n_losses;
		k->n_unspawned++;
	}
	list_append(&tl->live, &tl->live_last, task);
	tl->n_live++;
	return task;
}

struct task *task_new(struct timeline *tl, struct kind *k, uint64_t name, struct thread *th,
		      uint64_t t, enum task_origin origin)
{
	struct spawn s;
	if (k->ids && ids_add_seen(k->ids, name) < 0)
		timeline_fail(tl, -ENOMEM);
	bool before = before_take(tl, k, name);
	bool spawned = !before && spawn_take(tl, k, name, th, origin != TASK_OF_ANY_SPAWN, &s);
	if (!spawned && origin == TASK_OF_HINTED_SPAWN_ONLY)
		return NULL;
	struct task *task = task_begin(tl, k, name, spawned ? &s : NULL, t);
	if (!task || task_name(tl, task, name) < 0)
		return NULL;
	EMIT(tl, task_begin, &task->tl);
	return task;
}

struct task *task_new_spawned(struct timeline *tl, struct kind *k, const struct spawn *s,
			      uint64_t id)
{
	struct task *task = task_begin(tl, k, id, s, s->time_ns);
	if (task)
		EMIT(tl, task_begin, &task->tl);
	return task;
}

struct task *task_new_before(struct timeline *tl, struct kind *k, uint64_t t)
{
	struct task *task = task_begin(tl, k, 0, NULL, t);
	if (task)
		EMIT(tl, task_begin, &task->tl);
	return task;
}

void task_new_known(struct timeline *tl, struct kind *k, const struct timeline_before *b,
		    uint64_t t)
{
	if (k->ids && ids_add_seen(k->ids, b->id) < 0)
		timeline_fail(tl, -ENOMEM);
	struct task *task = task_begin(tl, k, b->id, NULL, t);
	if (!task || task_name(tl, task, b->id) < 0)
		return;
	task->tl.state = b->state;
	task->place = b->state == TS_WAITING ? b->place : 0;
	task->n_losses = 0;
	EMIT(tl, task_begin, &task->tl);
}

/* A task that waits since before the recording is woken now. */
static struct task *new_waiting(struct timeline *tl, struct kind *k, uint64_t name)
{
	uint64_t place;
	if (!before_waits(tl, k, name, &place) || !before_take(tl, k, name))
		return NULL;
	task_new_known(tl, k,
		       &(struct timeline_before){
			       .kind = k->number, .id = name, .state = TS_WAITING, .place = place},
		       tl->first_ns);
	return task_find(tl, k, name);
}

/* The earliest begin of the losses after the first n; 0 if that is forgotten. */
static uint64_t loss_begin_after(const struct timeline *tl, uint64_t n)
{
	return tl->n_losses - n > MAX_LOSSES ? 0 : tl->loss_begins[n % MAX_LOSSES];
}

void task_settle(struct timeline *tl, struct task *task)
{
	if (task->n_losses == tl->n_losses || task->tl.state == TS_POLLING)
		return;
	if (task->tl.state == TS_WAITING || task->tl.state == TS_SCHEDULED) {
		task_state(tl, task, TS_UNKNOWN, loss_begin_after(tl, task->n_losses));
		task->scheduled_ns = task->wake_serial = task->place = 0;
		task->resource = (struct tl_resource){0};
	}
	task->woken_inside = false;
	task->n_losses = tl->n_losses;
}

void task_state(struct timeline *tl, struct task *task, enum task_state state, uint64_t t)
{
	if (t < task->since_ns)
		t = task->since_ns;
	uint64_t length = t - task->since_ns;
	struct tl_wait wait = {
		.task = &task->tl,
		.state = task->tl.state,
		.next = state,
		.open = tl->finished,
		.place = task->tl.state == TS_UNKNOWN ? 0 : task->place,
		.resource = task->tl.state == TS_UNKNOWN ? (struct tl_resource){0} : task->resource,
		.thread = state == TS_POLLING ? task->thread : NO_THREAD,
		.begin_ns = task->since_ns,
		.end_ns = t,
		.round = task->round,
	};
	if (wait.state == TS_WAITING)
		task->tl.wait_ns += length;
	else if (wait.state == TS_SCHEDULED)
		task->tl.sched_ns += length;
	if (wait.state != TS_POLLING && length)
		EMIT(tl, wait, &wait);
	task->tl.state = state;
	task->since_ns = t;
}

void task_scheduled(struct timeline *tl, struct task *task, uint64_t t, uint64_t wake_serial)
{
	task_state(tl, task, TS_SCHEDULED, t);
	task->scheduled_ns = task->since_ns;
	task->wake_serial = wake_serial;
}

static void give_slot(struct timeline *tl, uint32_t slot)
{
	if (GROW(tl->free_slots, tl->n_free_slots, tl->cap_free_slots))
		tl->free_slots[tl->n_free_slots++] = slot;
	else
		timeline_fail(tl, -ENOMEM);
}

void task_end(struct timeline *tl, struct task *task, enum trace_outcome outcome, uint64_t t)
{
	struct kind *k = task->kind;
	assert(task->tl.state != TS_DONE && tl->n_live > 0);
	task_state(tl, task, TS_DONE, t);
	task->tl.role = k->role;
	task->tl.outcome = outcome;
	task->tl.end_ns = task->since_ns;
	k->n_ended[outcome]++;
	if (task->has_futures)
		future_task_end(tl, task, task->tl.end_ns);
	list_remove(&tl->live, &tl->live_last, task);
	tl->n_live--;
	EMIT(tl, task_end, &task->tl);
	give_slot(tl, task->tl.slot);
	if (!task->named) {
		pool_put(&tl->tasks, task);
		return;
	}
	list_append(&tl->ended, &tl->ended_last, task);
	if (++tl->n_ended > MAX_ENDED)
		task_forget(tl, tl->ended);
}

void task_forget(struct timeline *tl, struct task *ended)
{
	assert(ended->tl.state == TS_DONE && tl->n_ended > 0);
	list_remove(&tl->ended, &tl->ended_last, ended);
	tl->n_ended--;
	task_unname(tl, ended);
	pool_put(&tl->tasks, ended);
}

/* ---- wakes ---- */

/*
 * Whether a wake from outside of all polls is that of a task that has yielded. Tokio's yield_now(),
 * and a task whose budget is used up, put their waker on a list of the worker, which fires it when
 * it has looked for events for the first time after the poll, if it does (the thread that has the
 * driver does; tokio/src/runtime/scheduler/defer.rs). An event, which the same thread may find
 * there, wakes in the same way; and so does a timer, but hardly within a millisecond.
 */
static bool is_deferred(const struct timeline *tl, const struct thread *th, const struct task *task,
			uint64_t t, enum trace_wake effect)
{
	if (effect != TW_SCHEDULED || task->tl.state != TS_WAITING || task->kind->address_named ||
	    task->tl.role != TR_TASK || task->polled_on != th->tl.thread + 1 || !tl->drivers_seen ||
	    th->root_poll.task)
		return false;
	if (th->n_parks == task->polled_parks)
		return true;
	return th->n_parks == task->polled_parks + 1 && th->looked && t - task->since_ns < TIMER_NS;
}

/*
 * Whether the thread is still in the task's last poll, whose end is not seen. The wake found the
 * task running, or scheduled by one that did; all begins of polls are seen, so it is that poll. A
 * wake from inside another poll is that one's.
 */
static bool in_unseen_poll(const struct timeline *tl, const struct thread *th,
			   const struct task *task, enum trace_wake effect)
{
	if (th->unseen != task->tl.serial || th->unseen_losses != tl->n_losses ||
	    task->polled_on != th->tl.thread + 1 || task->tl.state != TS_UNKNOWN)
		return false;
	return effect == TW_RUNNING || (effect == TW_NOOP && task->woken_inside);
}

uint64_t task_emit_wake(struct timeline *tl, struct thread *th, struct task *task, uint64_t t,
			enum trace_wake effect, bool by_waker)
{
	struct frame *f = poll_open(th);
	struct task *source = f ? f->task : NULL;
	if (!f && by_waker && in_unseen_poll(tl, th, task, effect))
		source = task;
	if (!f && th->root_poll.task && !th->loops && !th->root->kind->loops)
		source = th->root_poll.task;
	bool deferred = by_waker && !f && !source && is_deferred(tl, th, task, t, effect);
	bool self = by_waker && (source == task || deferred);
	struct tl_wake wake = {
		.serial = ++tl->n_wakes,
		.task = &task->tl,
		.source_task = source ? &source->tl : NULL,
		.thread = th->tl.thread,
		.time_ns = t,
		.effect = effect,
		.by_waker = by_waker,
		.self = self,
		.deferred = deferred,
		.first_self = self && !task->self_woken,
		.round = task->round,
	};
	if (by_waker) {
		task->tl.n_wakes++;
		task->kind->n_wakes++;
		task->tl.n_self_wakes += self;
		task->kind->n_self_wakes += self;
		task->self_woken = task->self_woken || self;
	} else {
		task->kind->n_schedules++;
	}
	EMIT(tl, wake, &wake);
	return wake.serial;
}

void task_stray_wake(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t)
{
	k->n_wakes++;
	EMIT(tl, stray_wake, k->number, th->tl.thread, t);
}

/* The task of an event: mostly the one that is being polled here. */
static struct task *find_from(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name)
{
	struct frame *f = poll_open(th);
	if (f && f->task && f->task->named && f->kind == k && f->name == name)
		return f->task;
	return task_find(tl, k, name);
}

/* The address of an ended task does something that only a living one can: the address is in use
 * again. The drop of an address-named task is seen only sometimes: mostly the code that gives the
 * last reference back frees it at once. */
static struct task *reused(struct timeline *tl, struct kind *k, struct task *task)
{
	if (!task || task->tl.state != TS_DONE || !k->address_named)
		return task;
	task_forget(tl, task);
	return NULL;
}

/* So is that of a task which may be over, as far as was seen, if one is spawned here: the new one
 * is queued or polled before its thread does anything with another of that kind. */
struct task *task_unless_reused(struct timeline *tl, struct thread *th, struct kind *k,
				struct task *task)
{
	bool maybe_over = task && task->end_unseen && task->tl.state == TS_UNKNOWN;
	if (!maybe_over || !k->address_named || !spawn_waits(k, th))
		return task;
	task_unname(tl, task);
	task_end(tl, task, TO_UNKNOWN, task->since_ns);
	return NULL;
}

static void note_inside(struct task *task, const struct thread *th, uint64_t t, uint64_t serial,
			enum trace_wake effect)
{
	if (!task->woken_inside)
		task->wake_inside = serial;
	task->woken_inside = true;
	if (effect == TW_SCHEDULED && !task->idle_ns) {
		task->idle_ns = t;
		task->woken_by = th->tl.thread + 1;
	}
}

void task_wake(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t,
	       enum trace_wake effect)
{
	struct task *task = find_from(tl, th, k, name);
	bool found_it_alive = effect == TW_SCHEDULED || effect == TW_RUNNING;
	if (found_it_alive)
		task = reused(tl, k, task);
	if (task && task->tl.state == TS_DONE) {
		if (found_it_alive)
			tl->n_inconsistent++;
		task_stray_wake(tl, th, k, t);
		return;
	}
	if (!task && effect == TW_SCHEDULED)
		task = new_waiting(tl, k, name);
	/* That nothing was to be done may be because it is over, since before the recording: who keeps a
	 * waker may wake it, and drop it, much later. */
	bool may_be_over = !task && effect == TW_NOOP && !before_has(tl, k, name);
	if (!task)
		task = task_new(tl, k, name, th, t,
				may_be_over ? TASK_OF_HINTED_SPAWN_ONLY : TASK_OF_HINTED_SPAWN);
	if (!task) {
		if (may_be_over)
			task_stray_wake(tl, th, k, t);
		return;
	}
	task_settle(tl, task);
	t = timeline_at_task(th, task, t);
	uint64_t serial = task_emit_wake(tl, th, task, t, effect, true);
	if (effect == TW_NOOP)
		return;
	switch (task->tl.state) {
	case TS_POLLING:
		note_inside(task, th, t, serial, effect);
		break;
	case TS_WAITING:
		task_scheduled(tl, task, t, serial);
		task->woken_by = th->tl.thread + 1;
		break;
	case TS_SCHEDULED:
		/* The waker that scheduled it, recorded after its effect. */
		if (task->queued_by == th->tl.thread + 1) {
			task->queued_by = 0;
			task->wake_serial = serial;
			break;
		}
		/* It was idle, says the wake: a poll in between was not seen. That is so for a task
		 * that was being polled when the recording began. */
		if (effect == TW_SCHEDULED) {
			/* Two threads' wakes at the same moment may both find it idle. */
			if (task->woken_by && task->woken_by != th->tl.thread + 1)
				break;
			if (task->tl.spawn_seen || task->tl.n_polls)
				tl->n_inconsistent++;
			task_scheduled(tl, task, t, serial);
		}
		break;
	default:
		/* Woken while running: in a poll of which the begin or the end was not seen. */
		if (effect == TW_RUNNING)
			note_inside(task, th, t, serial, effect);
		else
			task_scheduled(tl, task, t, serial);
	}
}

void task_schedule(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name,
		   uint64_t t)
{
	struct task *task = reused(tl, k, find_from(tl, th, k, name));
	task = task_unless_reused(tl, th, k, task);
	if (task && task->tl.state == TS_DONE) {
		tl->n_inconsistent++;
		return;
	}
	bool fresh = !task || task->unqueued;
	if (!task && !(task = task_new(tl, k, name, th, t, TASK_OF_ANY_SPAWN)))
		return;
	task->unqueued = false;
	task_settle(tl, task);
	t = timeline_at_task(th, task, t);
	if (task->tl.state == TS_POLLING) {
		uint64_t serial = task_emit_wake(tl, th, task, t, TW_RUNNING, false);
		note_inside(task, th, t, serial, TW_RUNNING);
	} else if (task->tl.state == TS_SCHEDULED) {
		/* A new task is scheduled since its spawn; this is how the queue got it. */
		uint64_t serial =
			task_emit_wake(tl, th, task, t, fresh ? TW_SCHEDULED : TW_NOOP, false);
		if (fresh)
			task->wake_serial = serial;
	} else {
		uint64_t serial = task_emit_wake(tl, th, task, t, TW_SCHEDULED, false);
		task_scheduled(tl, task, t, task->woken_inside ? task->wake_inside : serial);
		task->queued_by = task->woken_inside ? 0 : th->tl.thread + 1;
		task->woken_inside = false;
	}
}

/* ---- ends outside of a poll ---- */

void task_cancel(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t,
		 enum trace_outcome outcome)
{
	struct task *task = reused(tl, k, find_from(tl, th, k, name));
	if (task && task->tl.state == TS_DONE) {
		tl->n_inconsistent++;
		return;
	}
	if (!task && !(task = task_new(tl, k, name, th, t, TASK_OF_ANY_SPAWN)))
		return;
	if (task->tl.state == TS_POLLING) {
		task->end_inside = outcome;
		return;
	}
	task_settle(tl, task);
	task_end(tl, task, outcome, timeline_at_task(th, task, t));
}

void task_drop(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t)
{
	struct task *task = find_from(tl, th, k, name);
	if (!task && !(task = task_new(tl, k, name, th, t, TASK_OF_HINTED_SPAWN_ONLY)))
		return;
	if (task->tl.state == TS_DONE) {
		task_forget(tl, task);
		return;
	}
	if (task->tl.state == TS_POLLING) {
		task->drop_inside = true;
		task_unname(tl, task);
		return;
	}
	task_settle(tl, task);
	task_unname(tl, task);
	/* Dropped with its future unfinished, unless its end may be among what was not seen. */
	task_end(tl, task, task->tl.state == TS_UNKNOWN ? TO_UNKNOWN : TO_CANCELLED,
		 timeline_at_task(th, task, t));
}

/* ---- the trace's end ---- */

void task_finish(struct timeline *tl, uint64_t end_ns)
{
	while (tl->live) {
		struct task *task = tl->live;
		task_settle(tl, task);
		if (task->end_unseen && task->tl.state == TS_UNKNOWN) {
			task_unname(tl, task);
			task_end(tl, task, TO_UNKNOWN, task->since_ns);
			continue;
		}
		task_state(tl, task, task->tl.state, end_ns);
		task->tl.role = task->kind->role;
		if (task->has_futures)
			future_task_end(tl, task, end_ns);
		list_remove(&tl->live, &tl->live_last, task);
		tl->n_live--;
		EMIT(tl, task_end, &task->tl);
		task_unname(tl, task);
		pool_put(&tl->tasks, task);
	}
	while (tl->ended)
		task_forget(tl, tl->ended);
}
