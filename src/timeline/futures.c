/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The futures inside tasks: what is polled within a task's poll, nested.
 *
 * An instance is a kind at an address, from its first poll until it is ready. The end of many is
 * never recorded: select! drops the branches that lost, a task that ends takes its futures with it.
 * So an instance also ends with the task in which it was polled first, and when another is polled
 * for the first time at its address while it isn't being polled itself, of another kind, or marked
 * as another: its memory was reused. (A future and its first member share an address: what is open
 * stays.)
 *
 * Who was polled first inside which is kept as the parent. A future may outlive its parent, when
 * the parent only borrowed it; so an ended instance stays in memory while others call it their
 * parent.
 *
 * What may leak are futures that are dropped in memory that nothing is polled in again. Of an
 * owner that has very many, those that were not polled for longest are forgotten.
 */
#include "base/vec.h"
#include "timeline/state.h"

#include <errno.h>

#define MAX_FUTURES (1u << 18)	/* alive in all */
#define MAX_OF_OWNER (1u << 16) /* and of one task, or outside of all */

static uint64_t place_key(const struct kind *k)
{
	return k->process;
}

/* The list of a task's, or of those of no task; NULL when out of memory. */
static struct future_list *owner_list(struct timeline *tl, struct task *owner)
{
	if (!owner)
		return &tl->futures;
	struct future_list *l =
		owner->has_futures ? map_get(&tl->future_lists, owner->tl.serial, 0) : NULL;
	if (l)
		return l;
	l = pool_get(&tl->future_list_pool);
	if (!l || map_put(&tl->future_lists, owner->tl.serial, 0, l) < 0) {
		timeline_fail(tl, -ENOMEM);
		return NULL;
	}
	owner->has_futures = true;
	return l;
}

static void list_add(struct future_list *l, struct future *f)
{
	f->list = l;
	f->prev = l->last;
	f->next = NULL;
	if (l->last)
		l->last->next = f;
	else
		l->first = f;
	l->last = f;
	l->n++;
}

static void list_remove(struct future *f)
{
	struct future_list *l = f->list;
	if (f->prev)
		f->prev->next = f->next;
	else
		l->first = f->next;
	if (f->next)
		f->next->prev = f->prev;
	else
		l->last = f->prev;
	l->n--;
}

/* One reference less; frees it with the last one. */
static void future_put(struct timeline *tl, struct future *f)
{
	while (f && !--f->n_refs) {
		struct future *parent = f->parent;
		pool_put(&tl->future_pool, f);
		tl->n_future_items--;
		f = parent;
	}
}

static struct future *find_at(const struct timeline *tl, const struct kind *k, uint64_t addr)
{
	struct future *f = map_get(&tl->future_places, place_key(k), addr);
	while (f && f->kind != k)
		f = f->at_same;
	return f;
}

static void leave_place(struct timeline *tl, struct future *f)
{
	struct future *at = map_get(&tl->future_places, place_key(f->kind), f->tl.addr);
	if (at == f) {
		if (!f->at_same)
			map_remove(&tl->future_places, place_key(f->kind), f->tl.addr);
		else if (map_put(&tl->future_places, place_key(f->kind), f->tl.addr, f->at_same) <
			 0)
			timeline_fail(tl, -ENOMEM);
		return;
	}
	while (at && at->at_same != f)
		at = at->at_same;
	if (at)
		at->at_same = f->at_same;
}

/* The end of its last poll; 0 if that isn't known. */
static uint64_t waits_since(const struct timeline *tl, const struct future *f)
{
	return f->n_losses == tl->n_losses && !f->end_unseen ? f->last_ns : 0;
}

/* How long it has waited after its last poll when it is over, or the trace, at t; 0: it hasn't, or
 * that isn't known. Once its task was polled again it may have been dropped, unless its drop was
 * recorded; and what is dropped in the poll in which it was polled didn't wait. */
static uint64_t last_wait(const struct timeline *tl, const struct future *f,
			  enum trace_outcome outcome, uint64_t t)
{
	const struct task *task = (const struct task *)f->tl.task;
	uint64_t since = waits_since(tl, f);
	if (f->wait_until_ns)
		t = f->wait_until_ns;
	else if (!task || f->thread != NO_THREAD || since < task->polled_ns ||
		 since > task->polled_until_ns || t <= task->polled_until_ns ||
		 (outcome != TO_PENDING && outcome != TO_CANCELLED))
		return 0;
	return since && t > since ? t - since : 0;
}

/* The instance is over; its memory may be gone afterwards. */
static void future_over(struct timeline *tl, struct future *f, enum trace_outcome outcome,
			uint64_t t)
{
	leave_place(tl, f);
	list_remove(f);
	if (tl_is_round(&f->tl) && f->thread == NO_THREAD)
		round_over(f);
	tl->n_futures--;
	f->tl.outcome = outcome;
	f->tl.end_ns = outcome == TO_PENDING ? 0 : t;
	f->tl.last_wait_ns = last_wait(tl, f, outcome, t);
	f->tl.last_wait_since_ns = f->last_ns;
	f->tl.wait_ns += f->tl.last_wait_ns;
	EMIT(tl, future_end, &f->tl);
	f->tl.task = NULL;
	future_put(tl, f);
}

/* Of one whose end was not observed: it was dropped, unless it got ready during a loss, or in a
 * poll with an unknown outcome. */
static enum trace_outcome dropped(const struct timeline *tl, const struct future *f)
{
	return f->n_losses == tl->n_losses && !f->unknown ? TO_CANCELLED : TO_UNKNOWN;
}

/* ---- what is open on a thread ---- */

static bool inside_poll(const struct thread *th, uint32_t i)
{
	return th->futures[i].n_frames == th->n_frames;
}

/* Those open at the top with that many polls of tasks around them. */
static uint32_t n_open(const struct thread *th, uint32_t n_frames)
{
	uint32_t n = 0;
	while (n < th->n_futures && th->futures[th->n_futures - 1 - n].n_frames == n_frames)
		n++;
	return n;
}

uint32_t future_depth(const struct thread *th)
{
	return n_open(th, th->n_frames);
}

/* The task whose poll is the innermost of `n`; of a thread without polls its block_on. */
static struct task *task_around(const struct thread *th, uint32_t n_frames)
{
	if (n_frames && n_frames <= th->n_frames && !th->frames[n_frames - 1].worker)
		return th->frames[n_frames - 1].task;
	return th->root;
}

/* Takes the innermost off the thread and reports its poll. */
static void future_pop(struct timeline *tl, struct thread *th, uint64_t t,
		       enum trace_outcome outcome, uint64_t place)
{
	const struct open_future open = th->futures[th->n_futures - 1];
	uint32_t depth = n_open(th, open.n_frames) - 1;
	struct future *f = open.future;

	th->n_futures--;
	if (!f)
		return;
	bool unseen = outcome == TO_UNSEEN;
	if (unseen) {
		t = open.until_ns;
		outcome = TO_UNKNOWN;
	}
	if (t < open.begin_ns)
		t = open.begin_ns;
	uint64_t length = t - open.begin_ns;
	uint64_t self = length > open.children_ns ? length - open.children_ns : 0;
	if (depth) {
		th->futures[th->n_futures - 1].children_ns += length;
		th->futures[th->n_futures - 1].until_ns = t;
	}
	f->tl.poll_ns += length;
	f->tl.self_ns += self;
	f->thread = NO_THREAD;
	f->last_ns = t;
	f->n_losses = tl->n_losses;
	f->unknown = outcome == TO_UNKNOWN && (unseen || !tl->finished);
	f->end_unseen = unseen;
	if (tl_is_round(&f->tl))
		round_poll_end(th, f, open.n_frames, length, outcome);
	struct task *task = task_around(th, open.n_frames);
	struct tl_future_poll poll = {
		.future = &f->tl,
		.task = task ? &task->tl : NULL,
		.thread = th->tl.thread,
		.depth = depth,
		.begin_ns = open.begin_ns,
		.end_ns = t,
		.waited_ns = open.waited_ns,
		.self_ns = self,
		.outcome = outcome,
		.end_seen = !unseen,
		.place = outcome == TO_PENDING ? place : 0,
	};
	EMIT(tl, future_poll, &poll);
	if (outcome == TO_READY || outcome == TO_PANICKED || outcome == TO_CANCELLED)
		future_over(tl, f, outcome, t);
}

void future_polled_task(struct thread *th, uint64_t length, uint64_t t)
{
	struct open_future *open = &th->futures[th->n_futures - 1];

	if (open->n_frames != th->n_frames)
		return;
	open->children_ns += length;
	open->until_ns = t;
}

void future_close(struct timeline *tl, struct thread *th, uint64_t t, enum trace_outcome outcome)
{
	bool unwound = outcome == TO_PANICKED || outcome == TO_CANCELLED;
	while (th->n_futures && th->futures[th->n_futures - 1].n_frames >= th->n_frames) {
		if (!unwound && outcome != TO_UNKNOWN && th->futures[th->n_futures - 1].future)
			tl->n_inconsistent++;
		future_pop(tl, th, t,
			   unwound		   ? outcome
			   : outcome == TO_UNKNOWN ? TO_UNKNOWN
						   : TO_UNSEEN,
			   0);
	}
}

void future_close_all(struct timeline *tl, struct thread *th, uint64_t t,
		      enum trace_outcome outcome)
{
	/* Outside of tasks' polls it is a block_on's, which may have returned since. */
	for (; th->n_futures; future_pop(tl, th, t, outcome, 0))
		if (!th->futures[th->n_futures - 1].n_frames)
			outcome = TO_UNSEEN;
}

/* It is polled elsewhere now, so its poll there has ended: only its end is still to come. */
static void future_detach(struct timeline *tl, struct future *f, uint64_t t)
{
	struct thread *th = tl->threads[f->thread];
	for (uint32_t i = th->n_futures; i-- > 0;) {
		struct open_future *open = &th->futures[i];
		if (open->future != f)
			continue;
		open->future = NULL;
		f->last_ns = t > open->begin_ns ? t : open->begin_ns;
		f->tl.poll_ns += f->last_ns - open->begin_ns;
	}
	f->thread = NO_THREAD;
}

/* ---- instances ---- */

static void make_room(struct timeline *tl, struct future_list *l)
{
	if (l->n < MAX_OF_OWNER && tl->n_futures < MAX_FUTURES)
		return;
	struct future *f = l->first;
	while (f && f->thread != NO_THREAD)
		f = f->next;
	if (f)
		future_over(tl, f, TO_UNKNOWN, f->last_ns);
}

static struct future *future_new(struct timeline *tl, struct thread *th, struct kind *k,
				 uint64_t addr, uint64_t t)
{
	struct future *at = map_get(&tl->future_places, place_key(k), addr), *below = NULL;
	while (at) {
		struct future *next = at->at_same;
		if (at->thread == NO_THREAD)
			future_over(tl, at, dropped(tl, at), t);
		at = next;
	}
	struct task *task = task_around(th, th->n_frames);
	struct future_list *list = owner_list(tl, task);
	if (list)
		make_room(tl, list);

	struct future *f = tl->failed ? NULL : pool_get(&tl->future_pool);
	if (!f) {
		timeline_fail(tl, -ENOMEM);
		return NULL;
	}
	for (uint32_t i = th->n_futures; i-- > 0 && inside_poll(th, i) && !below;)
		below = th->futures[i].future;
	tl->n_future_items++;
	if (below && below->chain < MAX_OPEN && tl->n_future_items < 2 * MAX_FUTURES) {
		f->parent = below;
		f->tl.parent = &below->tl;
		f->chain = below->chain + 1;
		below->n_refs++;
	}
	f->kind = k;
	f->thread = NO_THREAD;
	f->n_refs = 1;
	f->n_losses = tl->n_losses;
	f->tl.serial = ++tl->last_future;
	f->tl.kind = k->number;
	f->tl.addr = addr;
	f->tl.task = task ? &task->tl : NULL;
	f->tl.begin_ns = t;
	round_of_new(th, f);
	f->at_same = map_get(&tl->future_places, place_key(k), addr);
	int r = map_put(&tl->future_places, place_key(k), addr, f);
	if (r < 0)
		timeline_fail(tl, r);
	list_add(list, f);
	tl->n_futures++;
	return f;
}

static struct open_future *future_push(struct timeline *tl, struct thread *th)
{
	if (!GROW(th->futures, th->n_futures, th->cap_futures)) {
		timeline_fail(tl, -ENOMEM);
		return NULL;
	}
	return &th->futures[th->n_futures++];
}

void future_begin(struct timeline *tl, struct thread *th, struct kind *k, uint64_t addr, uint64_t t,
		  bool first)
{
	if (th->parked && !th->root) {
		tl->n_inconsistent++;
		poll_park_end(tl, th, t);
	}
	if (th->n_futures >= MAX_OPEN) {
		tl->n_inconsistent++;
		future_close_all(tl, th, t, TO_UNSEEN);
	}
	struct future *f = find_at(tl, k, addr);
	if (f && first && f->thread == NO_THREAD) {
		/* That one was dropped, and this one made in its place. */
		future_over(tl, f, dropped(tl, f), t);
		f = NULL;
	}
	if (f && f->thread == th->tl.thread) {
		/* No poll is inside itself: its end was not seen. */
		for (bool found = false; !found && th->n_futures; tl->n_inconsistent++) {
			found = th->futures[th->n_futures - 1].future == f;
			future_pop(tl, th, t, TO_UNSEEN, 0);
		}
	} else if (f && f->thread != NO_THREAD) {
		future_detach(tl, f, t);
	}
	bool known = f != NULL;
	if (known && t < f->last_ns) /* by another thread's clock */
		th->last_ns = t = f->last_ns;
	if (!f && !(f = future_new(tl, th, k, addr, t)))
		return;
	struct open_future *open = future_push(tl, th);
	if (!open)
		return;
	if (known) {
		f->wait_until_ns = 0;
		list_remove(f);
		list_add(f->list, f);
	}
	uint64_t since = known ? waits_since(tl, f) : 0;
	uint64_t waited = since && t > since ? t - since : 0;
	*open = (struct open_future){
		.future = f,
		.kind = k,
		.addr = addr,
		.begin_ns = t,
		.waited_ns = waited,
		.until_ns = t,
		.n_frames = th->n_frames,
	};
	f->tl.wait_ns += waited;
	f->tl.n_polls++;
	f->thread = th->tl.thread;
	th->complete = true;
	if (tl_is_round(&f->tl))
		round_polled(th, f);
}

void future_end(struct timeline *tl, struct thread *th, struct kind *k, uint64_t addr, uint64_t t,
		enum trace_outcome outcome, uint64_t place)
{
	for (uint32_t i = th->n_futures; i-- > 0 && inside_poll(th, i);) {
		if (th->futures[i].kind != k || th->futures[i].addr != addr)
			continue;
		/* The ends of those inside were not seen, but that of an unwound poll. */
		for (; th->n_futures > i + 1; tl->n_inconsistent += outcome != TO_PANICKED)
			future_pop(tl, th, t, outcome == TO_PANICKED ? outcome : TO_UNSEEN, 0);
		future_pop(tl, th, t, outcome, place);
		return;
	}
	/* Its begin was before the recording, in a loss, or is missing; or it wasn't polled, but
	 * dropped, as far as is known. */
	if (th->complete && outcome != TO_CANCELLED && outcome != TO_UNKNOWN &&
	    outcome != TO_UNSEEN)
		tl->n_inconsistent++;
	struct future *f = find_at(tl, k, addr);
	if (!f || f->thread != NO_THREAD)
		return;
	bool unknown = outcome == TO_UNKNOWN || outcome == TO_UNSEEN;
	if (unknown)
		f->unknown = true;
	if (unknown || outcome == TO_CANCELLED)
		f->wait_until_ns = t > f->last_ns ? t : f->last_ns;
	else
		f->end_unseen = true;
	if (!unknown && outcome != TO_PENDING)
		future_over(tl, f, outcome, t > f->last_ns ? t : f->last_ns);
}

/* ---- ends of their owners ---- */

/* What is known of one that was not seen to end when the trace does. */
static enum trace_outcome at_the_end(const struct future *f)
{
	return f->unknown ? TO_UNKNOWN : TO_PENDING;
}

void future_task_end(struct timeline *tl, struct task *task, uint64_t t)
{
	struct future_list *list = map_remove(&tl->future_lists, task->tl.serial, 0);
	task->has_futures = false;
	while (list && list->first) {
		struct future *f = list->first;
		if (f->thread != NO_THREAD)
			future_detach(tl, f, t);
		bool unknown = task->tl.outcome == TO_UNKNOWN;
		enum trace_outcome how = !task->tl.end_ns ? at_the_end(f)
					 : unknown	  ? TO_UNKNOWN
							  : dropped(tl, f);
		future_over(tl, f, how, t > f->last_ns ? t : f->last_ns);
	}
	if (list)
		pool_put(&tl->future_list_pool, list);
}

void future_finish(struct timeline *tl)
{
	while (tl->futures.first)
		future_over(tl, tl->futures.first, at_the_end(tl->futures.first), tl->last_ns);
}
