/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hits of the runtimes' functions become events: what agent/tokio.c and agent/async.c do in the
 * program, done here with what the programs in the kernel could read.
 *
 * The agent holds a reference to a task over its poll, and so can ask it how the poll ended. Here
 * the task may be freed by then, and its memory holds what the allocator put there: no state of a
 * living task (its count of references is 0, or as large as an address). A task that is freed in
 * its poll is over, and ended by itself unless a panic was seen.
 *
 * A poll of Tokio's ends where its function returns. async-task's run() may also be left by a panic
 * that unwinds: then the cleanup of run() itself calls _Unwind_Resume, and that is its end. A poll
 * whose end was not seen ends, unknown, when its thread is seen further up its stack.
 */
#include "agent/runtime_async_task.h"
#include "base/error.h"
#include "agent/runtime_tokio.h"
#include "capture/kernel/kernel.h"

#include <errno.h>
#include <string.h>

#define TASK_MASK ((1ull << 48) - 1) /* as the agent names a task by its address */

/* Both are identified by their numbers. */
_Static_assert((int)END_PENDING == TO_PENDING && (int)END_READY == TO_READY &&
		       (int)END_PANICKED == TO_PANICKED && (int)END_CANCELLED == TO_CANCELLED &&
		       (int)END_UNKNOWN == TO_UNKNOWN && (int)END_UNPOLLED == TO_ABORTED,
	       "enum poll_end");
_Static_assert((int)WAKE_SCHEDULES == TW_SCHEDULED && (int)WAKE_RUNNING == TW_RUNNING &&
		       (int)WAKE_NOOP == TW_NOOP,
	       "enum wake_effect");

/* What a record is about. */
struct probe_hit {
	struct capture *c;
	struct kernel_process *p;
	struct kernel_track *t;
	const struct kernel_place *place;
	const struct kernel_record *r;
	struct kernel_kind *kind; /* of its task, NULL if not known */
	uint64_t task;		  /* as events name it */
	uint64_t state;
	bool has_state;
};

/* ---- telling ---- */

static int emit_value(struct probe_hit *h, uint64_t time, unsigned type, unsigned arg,
		      const struct kernel_kind *kind, uint64_t task, uint64_t value)
{
	const struct trace_event e = {.time = time,
				      .thread = h->t->index,
				      .type = (uint16_t)type,
				      .arg = (uint16_t)arg,
				      .kind = kind ? kind->index : TRACE_KIND_NONE,
				      .task = task,
				      .value = value};

	h->t->wake = 0;
	h->t->spawned = NULL;
	return kernel_put(h->c, h->p, &e);
}

static int emit(struct probe_hit *h, uint64_t time, unsigned type, unsigned arg,
		const struct kernel_kind *kind, uint64_t task)
{
	return emit_value(h, time, type, arg, kind, task, 0);
}

static int emit_task(struct probe_hit *h, unsigned type, unsigned arg)
{
	return emit(h, h->r->time, type, arg, h->kind, h->task);
}

/* ---- open polls ---- */

bool kernel_in_poll(const struct kernel_track *t)
{
	const struct kernel_frame *f = t->depth ? &t->frames[t->depth - 1] : NULL;

	return f && !(f->kind && f->kind->worker);
}

static struct kernel_frame *frame_of(struct kernel_track *t, uint64_t header)
{
	for (uint32_t i = t->depth; i-- > 0;)
		if (t->frames[i].header == header)
			return &t->frames[i];
	return NULL;
}

/* The open poll of a task, on whatever thread. */
static struct kernel_frame *open_frame(struct probe_hit *h, uint64_t header)
{
	struct kernel_track *t = map_get(&h->c->open, h->p->index, header);

	return t ? frame_of(t, header) : NULL;
}

static int open_poll(struct probe_hit *h, struct kernel_frame **ret)
{
	struct kernel_track *t = h->t;
	struct kernel_frame *f, *outer = t->depth ? &t->frames[t->depth - 1] : NULL;
	bool inside = kernel_in_poll(t);

	if (outer && outer->kind && !outer->kind->worker && !outer->kind->task) {
		/* No task polls another one: it is a worker's loop. */
		outer->kind->worker = true;
		inside = false;
		kernel_poll_ends(h->c, t, h->r->time);
	}
	if (t->depth == KERNEL_MAX_FRAMES) /* the programs have fewer: can't be */
		return -EPROTO;
	f = &t->frames[t->depth++];
	*f = (struct kernel_frame){
		.kind = h->kind, .header = h->r->header, .task = h->task, .sp = h->r->sp};
	if (!inside && !(h->kind && h->kind->worker))
		kernel_poll_begins(t, h->r->time);
	*ret = f;
	return map_put(&h->c->open, h->p->index, f->header, t);
}

/* Ends the innermost poll, at an await point or 0; of a freed task the memory's end is reported
 * after it. */
static int close_poll_at(struct probe_hit *h, uint64_t time, enum trace_outcome outcome,
			 uint16_t point)
{
	struct kernel_track *t = h->t;
	const struct kernel_frame f = t->frames[--t->depth];

	if (map_get(&h->c->open, h->p->index, f.header) == t)
		map_remove(&h->c->open, h->p->index, f.header);
	if (!kernel_in_poll(t))
		kernel_poll_ends(h->c, t, time);
	if (f.cancelled)
		TRY(emit(h, time, TE_CANCEL, 0, f.kind, f.task));
	else if (f.polled)
		TRY(emit_value(h, time, TE_POLL_END, outcome, f.kind, f.task,
			       f.kind ? kernel_points_value(h->p, point, f.kind->index) : 0));
	if (f.freed)
		TRY(emit(h, time, TE_DROP, 0, f.kind, f.task));
	return 0;
}

static int close_poll(struct probe_hit *h, uint64_t time, enum trace_outcome outcome)
{
	return close_poll_at(h, time, outcome, 0);
}

/* How it ended, and when, was not seen; a panic that was raised in it may be the reason. */
static int close_unseen(struct probe_hit *h, uint64_t time)
{
	const struct kernel_frame *f = &h->t->frames[h->t->depth - 1];

	return f->raised_ns ? close_poll(h, f->raised_ns, TO_PANICKED)
			    : close_poll(h, time, TO_UNSEEN);
}

/* Polls whose frames are gone from the stack, seen from this deep.
 *
 * The programs decide the same by the same rule (kernel.bpf.c, drop_stale()). A number of the poll in
 * each record would not spare this: a poll whose end was lost, or whose begin the programs counted and
 * could not write, has to be closed here all the same, and each record would be 8 bytes longer. */
static int close_stale(struct probe_hit *h, uint64_t sp)
{
	int rc = 0;

	while (rc == 0 && h->t->depth && h->t->frames[h->t->depth - 1].sp < sp)
		rc = close_unseen(h, h->r->time);
	for (uint32_t i = h->t->depth; i-- > 0;)
		if (h->t->frames[i].raised_ns)
			h->t->frames[i].raised_ns = h->r->time;
	return rc;
}

/* The poll that this record ends is the innermost one then; NULL: its begin was not seen. */
static int find_ended(struct probe_hit *h, struct kernel_frame **ret)
{
	struct kernel_frame *f;
	int rc = close_stale(h, h->r->sp);

	f = h->t->depth ? &h->t->frames[h->t->depth - 1] : NULL;
	*ret = f && f->header == h->r->header ? f : NULL;
	return rc;
}

int kernel_tasks_end(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		     uint64_t time)
{
	struct probe_hit h = {.c = c, .p = p, .t = t};

	while (t->depth)
		TRY(close_unseen(&h, time));
	return 0;
}

/* ---- Tokio ---- */

static enum trace_outcome tokio_outcome(const struct kernel_record *r, const struct kernel_frame *f,
					bool freed)
{
	/* Read in time: the woken task may have taken the output, and freed the task.
	 */
	if (r->flags & KF_OUTCOME_PANICKED)
		return TO_PANICKED;
	if (r->flags & KF_OUTCOME_ABORTED && !f->finished)
		return r->flags & KF_UNPOLLED && !f->shut_down ? TO_ABORTED : TO_CANCELLED;
	if (f->read)
		return f->read;
	if (r->flags & KF_OUTCOME_SAVED)
		return TO_READY;
	const struct tokio_poll p = {
		.after = !freed	    ? r->words[0]
			 : f->asked ? TOKIO_CANCELLED
				    : 0,
		.queried = !freed && tokio_is_state(r->words[3]) ? r->words[3] : 0,
		.freed = freed,
		.raised = r->flags & KF_RAISED,
		.finished = f->finished,
		.shut_down = f->shut_down,
		.output = r->flags & KF_PANICKED  ? END_PANICKED
			  : r->flags & KF_ABORTED ? END_CANCELLED
						  : END_UNKNOWN,
	};
	return (enum trace_outcome)tokio_end(&p);
}

/*
 * The output of a cancelled task is queried while a poll of it is open: the output, and the task's
 * memory, may be gone when that returns. A task that is to be run loses NOTIFIED, cancelled or not;
 * an abort of a running one sets both again. An output that was taken, or that has no join handle,
 * leaves no traces to rely on: the first query has seen it.
 */
static void look(struct probe_hit *h, struct kernel_frame *f)
{
	bool queued = !(h->state & TOKIO_LIFECYCLE);

	f->asked = true;
	if (f->read)
		return;
	if (!(f->finished || f->shut_down || f->shut_idle) &&
	    (queued || !(h->state & TOKIO_NOTIFIED)))
		f->read = TO_ABORTED;
	else if (h->r->flags & KF_ABORTED && !f->finished)
		f->read = TO_CANCELLED;
	else if (h->state & TOKIO_COMPLETE && h->state & TOKIO_JOIN_INTEREST && !f->raised_ns)
		f->read = TO_READY;
}

/* What is freed without an event (its function is inlined) counts as dropped. Or it is about to be:
 * its last reference is gone, and the thread that gave it back calls the function in a moment. */
static void found_freed(struct probe_hit *h, struct kernel_frame *f)
{
	struct capture *c = h->c;

	f->freed = true;
	c->freed[c->n_freed++ % KERNEL_MAX_FREED] =
		(struct kernel_freed){.process = h->p, .header = f->header, .task = f->task};
}

static bool was_found_freed(const struct probe_hit *h)
{
	for (uint32_t i = 0; i < KERNEL_MAX_FREED; i++) {
		struct kernel_freed *was = &h->c->freed[i];

		if (was->header != h->r->header || was->task != h->task || was->process != h->p)
			continue;
		was->process = NULL;
		return true;
	}
	return false;
}

static int tokio_return(struct probe_hit *h)
{
	struct kernel_frame *f;
	int rc = find_ended(h, &f);
	bool freed;

	if (rc < 0 || !f)
		return rc;
	if (f->went_on)
		return close_poll(h, h->r->time, TO_PENDING);
	freed = f->freed || !(h->r->flags & KF_READ) || !tokio_is_state(h->r->words[0]);
	if (f->shut_idle) {
		/* Who came first, the one who shut it down or this poll? To run it clears NOTIFIED.
		 */
		if (!freed && (h->r->words[0] & (TOKIO_CANCELLED | TOKIO_NOTIFIED)) ==
				      (TOKIO_CANCELLED | TOKIO_NOTIFIED))
			return close_poll(h, h->r->time, TO_ABORTED);
		f->shut_down = true;
	}
	/* Another thread may have polled it on, or freed it, while its place was read. */
	if (!freed && !(h->r->words[0] & TOKIO_COMPLETE))
		return close_poll_at(h, h->r->time, TO_PENDING,
				     !tokio_is_state(h->r->words[3]) ||
						     h->r->words[3] & TOKIO_LIFECYCLE
					     ? 0
					     : h->r->point);
	if (freed && !f->freed)
		found_freed(h, f);
	return close_poll(h, h->r->time, tokio_outcome(h->r, f, freed));
}

static int tokio_poll(struct probe_hit *h)
{
	struct kernel_track *was = map_get(&h->c->open, h->p->index, h->r->header);
	struct kernel_frame *f, *before = was ? frame_of(was, h->r->header) : NULL;

	TRY(open_poll(h, &f));
	/* A task that is complete or running isn't polled, it only loses a reference; a cancelled
	 * one is dropped instead of polled. */
	if (h->has_state && h->state & TOKIO_LIFECYCLE)
		return before ? map_put(&h->c->open, h->p->index, f->header, was) : 0;
	if (before && before->task == f->task)
		before->went_on = true;
	f->cancelled = h->has_state && h->state & TOKIO_CANCELLED;
	f->polled = !f->cancelled;
	return f->polled ? emit_task(h, TE_POLL_BEGIN, 0) : 0;
}

/*
 * A task that is named by its address is given back while the end of its last poll, on another
 * thread, is still to come: there the poll is over by now, and the address will be another task's
 * before that thread gets to say so.
 */
static int over_elsewhere(struct probe_hit *h, struct kernel_frame *f)
{
	struct kernel_track *t = map_get(&h->c->open, h->p->index, h->r->header);
	struct probe_hit other = {.c = h->c, .p = h->p, .t = t};
	bool closed =
		h->place->type == KH_ASYNC_DESTROY && h->has_state && !(h->state & ASYNC_COMPLETED);
	enum trace_outcome outcome = TO_READY;
	int rc = 0;

	/* An uncaught panic closes the task on its way out. */
	if (h->r->flags & KF_PAYLOAD || (closed && f->raised_ns))
		outcome = TO_PANICKED;
	else if (closed)
		outcome = TO_CANCELLED;
	map_remove(&h->c->open, h->p->index, h->r->header);
	if (f->cancelled)
		rc = emit(&other, h->r->time, TE_CANCEL, 0, f->kind, f->task);
	else if (f->polled)
		rc = emit(&other, h->r->time, TE_POLL_END, outcome, f->kind, f->task);
	if (rc == 0)
		rc = emit(&other, h->r->time, TE_DROP, 0, f->kind, f->task);
	f->polled = f->cancelled = f->freed = false;
	return rc;
}

static int dropped(struct probe_hit *h)
{
	struct kernel_frame *f = open_frame(h, h->r->header);

	if (!f)
		return h->place->type == KH_TOKIO_DEALLOC && was_found_freed(h)
			       ? 0
			       : emit_task(h, TE_DROP, 0);
	if (f->async && !frame_of(h->t, h->r->header))
		return over_elsewhere(h, f);
	f->freed = true;
	if (h->place->type == KH_TOKIO_DEALLOC && h->state & TOKIO_CANCELLED)
		look(h, f);
	return 0;
}

static int tokio_shutdown(struct probe_hit *h)
{
	struct kernel_frame *f;

	if (!h->has_state)
		return 0;
	f = open_frame(h, h->r->header);
	if (!(h->state & TOKIO_LIFECYCLE)) {
		/* In a queue: to be polled in a moment, or again. */
		if (f && h->state & TOKIO_NOTIFIED)
			f->shut_idle = true;
		else if (f)
			f->went_on = true;
		return emit_task(h, TE_CANCEL, 0);
	}
	if (f && !(h->state & TOKIO_CANCELLED)) {
		if (h->state & TOKIO_COMPLETE)
			f->finished = true;
		else
			f->shut_down = true;
	}
	return 0;
}

/* A thread asks for the output of a task that was cancelled, or gives its handle up. */
static int tokio_ask(struct probe_hit *h)
{
	struct kernel_frame *f = open_frame(h, h->r->header);

	if (f)
		look(h, f);
	return 0;
}

static int woken(struct probe_hit *h, enum wake_effect effect)
{
	int rc = emit_task(h, TE_WAKE, effect);

	if (effect == WAKE_SCHEDULES) {
		h->t->wake = h->task;
		h->t->wake_kind = h->kind ? h->kind->index : TRACE_KIND_NONE;
	}
	return rc;
}

/* The wake that was just reported leads here. */
static bool is_woken(struct probe_hit *h)
{
	bool is = h->t->wake && h->t->wake == h->task &&
		  h->t->wake_kind == (h->kind ? h->kind->index : TRACE_KIND_NONE);

	if (is)
		h->t->wake = 0;
	return is;
}

/* ---- async-task ---- */

static void read_async(struct probe_hit *h)
{
	h->task = h->r->header & TASK_MASK;
	if (!(h->r->flags & KF_READ))
		return;
	/* Which word holds the vtable is up to the compiler; a kind is known by its address. */
	for (unsigned i = 0; i < ASYNC_HEADER_WORDS && !h->kind; i++)
		h->kind = map_get(&h->p->kinds, h->r->words[i], 0);
	if (h->kind && h->kind->state_offset == OFFSET_UNKNOWN && h->place->type == KH_ASYNC_RUN) {
		uint64_t words[ASYNC_HEADER_WORDS];

		memcpy(words, h->r->words, sizeof(words));
		h->kind->state_offset = async_state_offset(words);
	}
	if (h->kind && h->kind->state_offset / 8 < ASYNC_HEADER_WORDS) {
		h->state = h->r->words[h->kind->state_offset / 8];
		h->has_state = true;
	}
}

static int async_run(struct probe_hit *h)
{
	struct kernel_frame *f;

	TRY(open_poll(h, &f));
	f->async = true;
	/* A task that was closed isn't polled any more: the run only drops its future. */
	f->cancelled = h->has_state && h->state & ASYNC_CLOSED;
	f->polled = !f->cancelled;
	return f->polled ? emit_task(h, TE_POLL_BEGIN, 0) : 0;
}

/* Where a pending task waits, unless it was polled again while that was read. */
static uint16_t async_point(const struct probe_hit *h)
{
	return h->has_state && async_is_state(h->state) && !(h->state & ASYNC_LIFECYCLE)
		       ? h->r->point
		       : 0;
}

static int async_return(struct probe_hit *h)
{
	enum trace_outcome outcome = TO_UNKNOWN;
	struct kernel_frame *f;
	int rc = find_ended(h, &f);

	if (rc < 0 || !f)
		return rc;
	if (!f->polled && !f->cancelled) /* over elsewhere: the address may be another task's */
		return close_poll(h, h->r->time, TO_UNKNOWN);
	if (h->r->flags & KF_WOKEN)
		return close_poll_at(h, h->r->time, TO_PENDING, async_point(h));
	if (f->freed || (f->kind && !h->kind) || (h->has_state && !async_is_state(h->state)))
		f->freed = true;
	/* Freed in its run: it is over, and ended by itself unless a panic was seen. */
	if (f->freed || h->has_state)
		outcome = (enum trace_outcome)async_end(f->freed ? ASYNC_COMPLETED : h->state,
							h->r->flags & KF_PAYLOAD);
	return close_poll_at(h, h->r->time, outcome, outcome == TO_PENDING ? async_point(h) : 0);
}

/* run() was left by a panic. */
static int async_unwound(struct probe_hit *h)
{
	struct kernel_frame *f = frame_of(h->t, h->r->header);

	if (!f)
		return 0;
	while (&h->t->frames[h->t->depth - 1] != f)
		TRY(close_unseen(h, h->r->time));
	return close_poll(h, h->r->time, TO_PANICKED);
}

static int async_schedule(struct probe_hit *h)
{
	/* run() puts a task that was woken meanwhile back by itself. */
	struct kernel_frame *f = frame_of(h->t, h->r->header);
	bool fresh = h->t->spawned && h->kind && h->t->spawned == h->kind;

	if (f || is_woken(h))
		return 0;
	/* A new task at the address of one whose end was not observed. */
	f = fresh ? open_frame(h, h->r->header) : NULL;
	if (f)
		TRY(over_elsewhere(h, f));
	return emit_task(h, TE_SCHEDULE, 0);
}

/* drop_future: by who drops a Runnable instead of running it; or within a run. */
static int async_cancel(struct probe_hit *h)
{
	return open_frame(h, h->r->header) ? 0 : emit_task(h, TE_CANCEL, 0);
}

static int async_wake(struct probe_hit *h)
{
	return woken(h, h->has_state ? async_wake_effect(h->state) : WAKE_SCHEDULES);
}

/* ---- places that aren't a task's ---- */

static const struct kernel_loaded *loaded(const struct probe_hit *h)
{
	for (size_t i = 0; i < h->p->n_loaded; i++)
		if (h->p->loaded[i].object == h->place->object)
			return &h->p->loaded[i];
	return NULL;
}

static int spawned(struct probe_hit *h)
{
	const struct kernel_loaded *l = loaded(h);
	uint64_t next = h->r->words[0];

	int rc;

	if (!l || h->place->kind == KERNEL_NO_KIND)
		return 0;
	rc = emit(h, h->r->time, TE_SPAWN, 0, &l->kinds[h->place->kind], next ? next - 1 : 0);
	h->t->spawned = &l->kinds[h->place->kind];
	return rc;
}

static int root(struct probe_hit *h, unsigned type, uint64_t task)
{
	const struct kernel_loaded *l = loaded(h);

	if (!l || h->place->waker == KERNEL_NO_KIND)
		return 0;
	const struct kernel_kind kind = {.index = l->wakers[h->place->waker]};

	return emit(h, h->r->time, type, 0, &kind, task);
}

static void raised(struct probe_hit *h)
{
	if (h->t->depth)
		h->t->frames[h->t->depth - 1].raised_ns = h->r->time;
}

/* ---- one record ---- */

static void read_tokio(struct probe_hit *h)
{
	h->kind = map_get(&h->p->kinds, h->r->words[2], 0);
	h->has_state = h->r->flags & KF_READ;
	h->state = h->r->words[0];
	h->task = h->kind && h->has_state ? h->r->words[1] & TASK_MASK : h->r->header & TASK_MASK;
}

/* A function that only one kind has identifies the kind where the memory doesn't. */
static void assume_kind(struct probe_hit *h)
{
	const struct kernel_loaded *l;

	if (h->kind || h->place->kind == KERNEL_NO_KIND || h->place->type == KH_ASYNC_RETURN)
		return;
	l = loaded(h);
	h->kind = l ? &l->kinds[h->place->kind] : NULL;
}

int kernel_task(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		const struct kernel_place *place, const struct kernel_record *r)
{
	struct probe_hit h = {.c = c, .p = p, .t = t, .place = place, .r = r};

	if (r->type == KR_RETURN)
		return tokio_return(&h);
	if (place->type >= KH_TOKIO_POLL && place->type <= KH_TOKIO_WAKE)
		read_tokio(&h);
	else if (place->type >= KH_ASYNC_RUN && place->type <= KH_ASYNC_WAKE)
		read_async(&h);
	assume_kind(&h);
	if (place->type == KH_ASYNC_RETURN)
		return async_return(&h);
	/* A poll begins where the one before began: that one is over. */
	TRY(close_stale(&h, r->sp + (place->type == KH_TOKIO_POLL || place->type == KH_ASYNC_RUN)));
	switch (place->type) {
	case KH_TOKIO_POLL:
		return tokio_poll(&h);
	case KH_TOKIO_SCHEDULE:
		return is_woken(&h) ? 0 : emit_task(&h, TE_SCHEDULE, 0);
	case KH_TOKIO_DEALLOC:
	case KH_ASYNC_DESTROY:
		return dropped(&h);
	case KH_TOKIO_SHUTDOWN:
		return tokio_shutdown(&h);
	case KH_TOKIO_OUTPUT_QUERY:
		return tokio_ask(&h);
	case KH_TOKIO_WAKE:
		return woken(&h, tokio_wake_effect(h.state));
	case KH_ASYNC_RUN:
		return async_run(&h);
	case KH_ASYNC_SCHEDULE:
		return async_schedule(&h);
	case KH_ASYNC_CANCEL:
		return async_cancel(&h);
	case KH_ASYNC_WAKE:
		return async_wake(&h);
	case KH_ROOT_WAKE:
		return root(&h, TE_ROOT_WAKE, r->header & TASK_MASK);
	case KH_ROOT_ENTER:
		return root(&h, TE_ROOT_ENTER, 0);
	case KH_SPAWN:
		return spawned(&h);
	case KH_RAISE:
		raised(&h);
		return 0;
	case KH_RESUME:
		return async_unwound(&h);
	default:
		return 0;
	}
}
