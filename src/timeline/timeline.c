/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The public face of the timeline: tables of threads and kinds, one case per event type, losses,
 * totals. What an event does to a task, a thread, a block_on or a future is in tasks.c, polls.c,
 * roots.c, futures.c.
 *
 * Times. A thread's own events are in order; one that goes back is clamped and counted as odd. The
 * order between threads is nearly exact: an event that is older than what its task has lived
 * through is moved up to it, so that no slice has a negative length and none overlap.
 */
#include "base/vec.h"
#include "timeline/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct timeline *timeline_new(const struct timeline_sink *sink, void *sink_ctx,
			      timeline_kind_fn kind, const void *kind_ctx)
{
	struct timeline *tl = calloc(1, sizeof(*tl));
	if (!tl)
		return NULL;
	tl->sink = sink;
	tl->sink_ctx = sink_ctx;
	tl->kind_fn = kind;
	tl->kind_ctx = kind_ctx;
	tl->random = 2463534242u;
	pool_init(&tl->tasks, sizeof(struct task));
	pool_init(&tl->spawns, sizeof(struct spawn));
	pool_init(&tl->future_pool, sizeof(struct future));
	pool_init(&tl->future_list_pool, sizeof(struct future_list));
	aux_init(tl);
	return tl;
}

void timeline_free(struct timeline *tl)
{
	if (!tl)
		return;
	for (size_t i = 0; i < tl->n_threads; i++) {
		if (tl->threads[i]) {
			free(tl->threads[i]->frames);
			free(tl->threads[i]->futures);
			free(tl->threads[i]->switched);
		}
		free(tl->threads[i]);
	}
	for (size_t i = 0; i < tl->n_kinds; i++)
		free(tl->kinds[i]);
	for (size_t i = 0; i < tl->n_ids; i++) {
		if (tl->ids[i])
			ids_done(tl->ids[i]);
		free(tl->ids[i]);
	}
	free(tl->threads);
	free(tl->kinds);
	free(tl->ids);
	map_done(&tl->names);
	map_done(&tl->before_names);
	free(tl->before);
	map_done(&tl->future_places);
	map_done(&tl->future_lists);
	map_done(&tl->machines);
	pool_done(&tl->tasks);
	free(tl->free_slots);
	pool_done(&tl->spawns);
	pool_done(&tl->future_pool);
	pool_done(&tl->future_list_pool);
	pool_done(&tl->machine_pool);
	free(tl);
}

void timeline_fail(struct timeline *tl, int code)
{
	if (!tl->failed)
		tl->failed = code;
}

/* A new item for number `number` of an array that may have grown to hold it (`room`). NULL if there
 * can be none. */
static void *new_item(struct timeline *tl, uint32_t number, bool room, size_t item_bytes)
{
	void *item = room ? calloc(1, item_bytes) : NULL;

	if (number >= MAX_NUMBER)
		tl->n_inconsistent++;
	else if (!item)
		timeline_fail(tl, -ENOMEM);
	return item;
}

static bool empty(const char *s)
{
	return !s || !*s;
}

static bool contains(const char *s, const char *part)
{
	return s && strstr(s, part);
}

static void kind_learn(struct kind *k, const struct trace_kind *meta)
{
	k->role = meta->role < TR_N ? (enum trace_role)meta->role : TR_TASK;
	k->process = meta->process;
	k->address_named = meta->address_named;
	k->handler = k->role == TR_FUTURE && meta->flags & TRACE_KIND_HANDLER;
	bool nameless = empty(meta->full_name) || (meta->name && !strncmp(meta->name, "kind ", 5));
	k->maybe_worker = nameless && !k->address_named && k->role != TR_WORKER &&
			  k->role != TR_ROOT && k->role != TR_FUTURE &&
			  (empty(meta->scheduler) || !strcmp(meta->scheduler, "blocking"));
	/* A runtime that is started inside a task's poll spawns workers there too. */
	k->block_in_place = nameless || contains(meta->full_name, "block_in_place") ||
			    contains(meta->name, "block_in_place");
	k->loops = contains(meta->scheduler, "current_thread") ||
		   contains(meta->name, "current_thread");
}

/* Those of a runtime: NULL if it can have none. */
static struct ids *ids_of(struct timeline *tl, uint32_t runtime)
{
	bool room = runtime < MAX_NUMBER && GROW_ZERO(tl->ids, runtime, tl->n_ids);

	if (room && !tl->ids[runtime])
		tl->ids[runtime] = new_item(tl, runtime, room, sizeof(*tl->ids[runtime]));
	return room ? tl->ids[runtime] : NULL;
}

/* Those of one runtime's scheduler, however they are called. Where that isn't recorded, by name. */
static bool root_is_like(const struct trace_kind *a, const struct trace_kind *b)
{
	if (empty(a->scheduler) && empty(b->scheduler))
		return !strcmp(a->name, b->name);
	return !empty(a->scheduler) && !empty(b->scheduler) && !strcmp(a->scheduler, b->scheduler);
}

/* The compiler makes several copies of a waker's vtable: block_on may take one and its future be
 * woken through another. And each block_on has a kind of its own, but a wake doesn't say which it
 * is. */
static struct kind *first_like(struct timeline *tl, uint32_t number, const struct trace_kind *meta)
{
	for (size_t i = 0; i < tl->n_kinds; i++) {
		struct kind *k = tl->kinds[i];
		if (!k || k->role != TR_ROOT || k->number == number || !meta->name)
			continue;
		const struct trace_kind *other = tl->kind_fn(tl->kind_ctx, k->number);
		if (other && other->name && other->process == meta->process &&
		    root_is_like(other, meta))
			return k->same;
	}
	return tl->kinds[number];
}

struct kind *timeline_kind(struct timeline *tl, uint32_t number)
{
	if (number < tl->n_kinds && tl->kinds[number])
		return tl->kinds[number];
	bool room = number < MAX_NUMBER && GROW_ZERO(tl->kinds, number, tl->n_kinds);
	struct kind *k = new_item(tl, number, room, sizeof(*k));
	if (!k)
		return NULL;
	k->number = number;
	k->same = k;
	tl->kinds[number] = k;
	const struct trace_kind *meta = tl->kind_fn ? tl->kind_fn(tl->kind_ctx, number) : NULL;
	if (meta)
		kind_learn(k, meta);
	if (meta && !k->address_named && k->role != TR_ROOT && k->role != TR_FUTURE)
		k->ids = ids_of(tl, meta->runtime);
	if (meta && k->role == TR_ROOT)
		k->same = first_like(tl, number, meta);
	return k;
}

struct thread *timeline_thread(struct timeline *tl, uint32_t number)
{
	if (number < tl->n_threads && tl->threads[number])
		return tl->threads[number];
	bool room = number < MAX_NUMBER && GROW_ZERO(tl->threads, number, tl->n_threads);
	struct thread *th = new_item(tl, number, room, sizeof(*th));
	if (!th)
		return NULL;
	th->tl.thread = number;
	return tl->threads[number] = th;
}

uint64_t timeline_at_task(struct thread *th, const struct task *task, uint64_t t)
{
	if (t < task->since_ns)
		th->last_ns = t = task->since_ns;
	return t;
}

/* Takes note of the event's time; returns it, made to fit. */
static uint64_t clock_in(struct timeline *tl, struct thread *th, uint64_t time)
{
	uint64_t t = time;
	if (!th->n_events++) {
		if (!th->seen_aux && !th->before.known)
			th->tl.begin_ns = t;
		th->last_ns = t;
	} else if (t < th->raw_ns) {
		tl->n_inconsistent++;
	}
	th->raw_ns = time;
	th->before_ns = th->last_ns;
	if (t < th->last_ns)
		t = th->last_ns;
	th->last_ns = t;
	timeline_saw(tl, t);
	return t;
}

/* Whatever was open on the thread ended at an unknown time, and what it did to any task in between
 * is not known. Its worker's loop is taken to go on: polls that follow will show. */
static void feed_lost(struct timeline *tl, struct thread *th, uint64_t t, uint64_t n_events)
{
	uint64_t begin = th->before_ns;
	th->resource = (struct tl_resource){0};
	future_close_all(tl, th, begin, TO_UNKNOWN);
	root_gap_end(tl, th, begin, TO_UNSEEN);
	poll_close_all(tl, th, begin, TO_UNKNOWN, false);
	if (th->parked)
		poll_park_end(tl, th, begin);
	th->complete = false;
	th->after_unpark = false;
	th->tl.lost += n_events;
	tl->n_lost += n_events;

	uint64_t number = tl->n_losses++;
	tl->loss_begins[number % MAX_LOSSES] = begin;
	for (uint64_t i = number; i-- > 0 && number - i < MAX_LOSSES;) {
		if (tl->loss_begins[i % MAX_LOSSES] <= begin)
			break;
		tl->loss_begins[i % MAX_LOSSES] = begin;
	}

	struct tl_loss loss = {
		.thread = th->tl.thread,
		.begin_ns = begin,
		.end_ns = t,
		.n_events = n_events,
	};
	EMIT(tl, loss, &loss);
}

static void feed_thread_begin(struct timeline *tl, struct thread *th, uint64_t t)
{
	if (!poll_open(th) && !th->parked && !th->root)
		return;
	tl->n_inconsistent++;
	future_close_all(tl, th, t, TO_UNSEEN);
	poll_close_all(tl, th, t, TO_UNSEEN, true);
	if (th->parked)
		poll_park_end(tl, th, t);
	root_end(tl, th, t);
}

/* Polls that were open when their process ended lasted up to then. */
static void feed_thread_end(struct timeline *tl, struct thread *th, uint64_t t, bool with_process)
{
	enum trace_outcome outcome = with_process ? TO_UNKNOWN : TO_UNSEEN;

	if (poll_open(th) && !with_process)
		tl->n_inconsistent++;
	future_close_all(tl, th, t, outcome);
	poll_close_all(tl, th, t, outcome, true);
	if (th->parked)
		poll_park_end(tl, th, t);
	root_end(tl, th, t);
	poll_not_working(tl, th, t);
}

static int timeline_result(const struct timeline *tl, struct error *err)
{
	if (tl->failed == -ENOMEM)
		return error_set(err, -ENOMEM, "out of memory");
	if (tl->failed && err && !err->code)
		return error_sys(err, tl->failed, "stopped while the events were read");
	return tl->failed;
}

/* Can a kind of this role have events of that type? Where probes record them, block_on's polls are
 * events like those of tasks: then nothing is inferred, and vice versa. */
static bool fits_role(struct kind *k, unsigned type)
{
	bool of_root = type == TE_ROOT_ENTER || type == TE_ROOT_WAKE;
	bool of_future = type == TE_FUTURE_BEGIN || type == TE_FUTURE_END;
	if (of_future || k->role == TR_FUTURE)
		return of_future && k->role == TR_FUTURE;
	if (k->role != TR_ROOT)
		return !of_root;
	if (of_root ? k->same->polled : k->same->inferred)
		return false;
	if (of_root)
		k->same->inferred = true;
	else
		k->polled = k->same->polled = true;
	return true;
}

/* Events of a task, by its kind. */
static void feed_task(struct timeline *tl, struct thread *th, const struct trace_event *ev,
		      uint64_t t)
{
	struct kind *k = timeline_kind(tl, ev->kind);
	if (!k)
		return;
	bool special = k->role >= TR_ROOT || ev->type >= TE_ROOT_ENTER;
	if (__builtin_expect(special, 0) && !fits_role(k, ev->type)) {
		tl->n_inconsistent++;
		return;
	}
	switch (ev->type) {
	case TE_SPAWN:
		if (ev->arg & TRACE_SPAWN_NAMED)
			spawn_named(tl, th, k, ev->task,
				    ev->arg & TRACE_SPAWN_PARENT ? &ev->value : NULL, t);
		else
			spawn_add(tl, th, k, ev->task, t);
		break;
	case TE_FUTURE_BEGIN:
		future_begin(tl, th, k, ev->task, t, ev->arg == TRACE_FUTURE_FIRST);
		break;
	case TE_FUTURE_END:
		future_end(tl, th, k, ev->task, t,
			   ev->arg < TO_UNKNOWN || ev->arg == TO_UNSEEN ? ev->arg : TO_UNKNOWN,
			   ev->value <= UINT32_MAX ? ev->value : 0);
		break;
	case TE_POLL_BEGIN:
		poll_begin(tl, th, k, ev->task, t);
		break;
	case TE_POLL_END:
		poll_end(tl, th, k, ev->task, t, ev->arg < TO_N ? ev->arg : TO_UNKNOWN,
			 ev->value <= UINT32_MAX ? ev->value : 0);
		th->resource = (struct tl_resource){0};
		break;
	case TE_WAKE:
		task_wake(tl, th, k, ev->task, t, ev->arg < TW_N ? ev->arg : TW_UNKNOWN);
		break;
	case TE_SCHEDULE:
		task_schedule(tl, th, k, ev->task, t);
		break;
	case TE_CANCEL:
		task_cancel(tl, th, k, ev->task, t,
			    ev->arg && ev->arg <= TO_UNKNOWN ? ev->arg : TO_CANCELLED);
		break;
	case TE_DROP:
		task_drop(tl, th, k, ev->task, t);
		break;
	case TE_ROOT_ENTER:
		if (ev->arg == TRACE_ROOT_BEFORE)
			root_before(tl, th, k, t);
		else
			root_enter(tl, th, k, t);
		break;
	case TE_ROOT_WAKE:
		root_wake(tl, th, k->same, ev->task, t);
		break;
	}
}

/* True if the event changes nothing of any task. */
static bool feed_aux(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	switch (ev->type) {
	case TE_SYSCALL:
		aux_syscall(tl, th, ev);
		return true;
	case TE_OFF_CPU:
		aux_off_cpu(tl, th, ev);
		return true;
	case TE_LEFT_CPU:
	case TE_GOT_CPU:
	case TE_WOKEN:
	case TE_RAN_INSTEAD:
		aux_switch(tl, th, ev);
		return true;
	case TE_SAMPLE:
		aux_sample(tl, th, ev);
		return true;
	case TE_MACHINE:
		aux_machine(tl, th, ev);
		return true;
	case TE_RESOURCE:
		th->resource = (struct tl_resource){ev->task, ev->arg};
		return true;
	case TE_LOST:
		if (ev->stream)
			aux_lost(tl, th, ev);
		return ev->stream;
	case TE_THREAD_BEGIN:
	case TE_THREAD_END:
		return ev->stream; /* where that source began and ended */
	default:
		return false;
	}
}

int timeline_feed(struct timeline *tl, const struct trace_event *ev, struct error *err)
{
	struct thread *th = tl->failed ? NULL : timeline_thread(tl, ev->thread);
	if (!th)
		return timeline_result(tl, err);
	tl->n_events++;
	bool maybe_aux = ev->type >= TE_SYSCALL || ev->stream;
	if (__builtin_expect(maybe_aux, 0) && feed_aux(tl, th, ev))
		return tl->failed ? timeline_result(tl, err) : 0;
	if (__builtin_expect(th->before.open, 0))
		before_thread_event(tl, th, ev);
	uint64_t t = clock_in(tl, th, ev->time);
	if (th->root_early) {
		root_appears(tl, th, ev->type, t);
		t = th->last_ns;
	}

	switch (ev->type) {
	case TE_SPAWN:
	case TE_POLL_BEGIN:
	case TE_POLL_END:
	case TE_WAKE:
	case TE_SCHEDULE:
	case TE_CANCEL:
	case TE_DROP:
	case TE_ROOT_ENTER:
	case TE_ROOT_WAKE:
	case TE_FUTURE_BEGIN:
	case TE_FUTURE_END:
		feed_task(tl, th, ev, t);
		break;
	case TE_PARK:
		poll_park(tl, th, ev->arg & TRACE_CALL_NUMBER, t);
		break;
	case TE_UNPARK:
		poll_unpark(tl, th, ev->arg, t);
		break;
	case TE_BLOCK:
		poll_block(tl, th, ev->arg, t, ev->value);
		break;
	case TE_THREAD_BEGIN:
		feed_thread_begin(tl, th, t);
		break;
	case TE_THREAD_END:
		feed_thread_end(tl, th, t, ev->arg & TRACE_END_OF_PROCESS);
		break;
	case TE_LOST:
		feed_lost(tl, th, t, ev->value);
		break;
	default:
		tl->n_inconsistent++;
	}
	return tl->failed ? timeline_result(tl, err) : 0;
}

void timeline_look_ahead(struct timeline *tl, const struct trace_event *ev)
{
	struct thread *th = ev->thread < tl->n_threads ? tl->threads[ev->thread] : NULL;
	if (ev->stream)
		return;
	if (th && th->before.open && ev->type < TE_SYSCALL)
		before_thread_look_ahead(tl, th, ev);
	if (ev->type == TE_ROOT_WAKE && ev->kind < tl->n_kinds && tl->kinds[ev->kind])
		root_look_ahead_wake(tl, tl->kinds[ev->kind]->same, ev->task);
	else if (th && (th->root_poll.task || th->root_parked.task))
		root_look_ahead(th, ev);
}

int timeline_finish(struct timeline *tl, uint64_t end_ns, struct error *err)
{
	if (end_ns < tl->last_ns)
		end_ns = tl->last_ns;
	for (size_t i = 0; i < tl->n_threads; i++) {
		struct thread *th = tl->threads[i];
		if (th)
			root_decide(tl, th, !th->root_decided || th->root_goes_on);
	}
	before_threads_finish(tl, end_ns);
	tl->finished = true;
	tl->last_ns = end_ns;
	for (size_t i = 0; i < tl->n_threads; i++) {
		struct thread *th = tl->threads[i];
		if (!th)
			continue;
		/* What it is in lasts up to the end, so it does too. */
		th->tl.end_ns = th->parked || poll_open(th) || th->before.lives ? end_ns : 0;
		future_close_all(tl, th, end_ns, TO_UNKNOWN);
		bool goes_on = th->root_goes_on || (th->root_parks && !th->root_decided);
		root_gap_end(tl, th, end_ns, goes_on ? TO_UNKNOWN : TO_UNSEEN);
		poll_close_all(tl, th, end_ns, TO_UNKNOWN, true);
		if (th->parked)
			poll_park_end(tl, th, end_ns);
		poll_not_working(tl, th, end_ns);
	}
	spawn_finish(tl);
	before_finish(tl);
	task_finish(tl, end_ns);
	future_finish(tl);
	for (size_t i = 0; i < tl->n_threads; i++) {
		struct thread *th = tl->threads[i];
		if (!th || (!th->n_events && !th->seen_aux && !th->before.lives))
			continue;
		uint64_t last = th->last_ns > th->aux_ns ? th->last_ns : th->aux_ns;
		if (th->tl.end_ns < last)
			th->tl.end_ns = last;
		EMIT(tl, thread_end, &th->tl);
	}
	return tl->failed ? timeline_result(tl, err) : 0;
}

void timeline_totals(const struct timeline *tl, struct timeline_totals *ret)
{
	struct timeline_totals sum = {
		.n_events = tl->n_events,
		.n_lost = tl->n_lost,
		.n_lost_aux = tl->n_lost_aux,
		.n_futures = tl->last_future,
		.first_ns = tl->first_ns,
		.last_ns = tl->last_ns,
		.n_inconsistent = tl->n_inconsistent,
	};
	for (size_t i = 0; i < tl->n_kinds; i++) {
		const struct kind *k = tl->kinds[i];
		if (!k || !tl_role_counts(k->role))
			continue;
		sum.spawned += k->n_spawned;
		sum.unspawned += k->n_unspawned;
		sum.completed += k->n_ended[TO_READY];
		sum.cancelled += k->n_ended[TO_CANCELLED];
		sum.panicked += k->n_ended[TO_PANICKED];
		sum.ended_unknown += k->n_ended[TO_UNKNOWN];
		sum.n_polls += k->n_polls;
		sum.n_wakes += k->n_wakes;
		sum.n_self_wakes += k->n_self_wakes;
		sum.n_schedules += k->n_schedules;
	}
	sum.alive = sum.spawned + sum.unspawned - sum.completed - sum.cancelled - sum.panicked -
		    sum.ended_unknown;
	*ret = sum;
}
