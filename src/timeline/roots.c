/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * block_on's root future is not a task: no vtable leads to it, so its polls are not seen. They are
 * inferred from what the thread does, and marked as such.
 *
 * - It begins with TE_ROOT_ENTER: block_on makes its waker, then polls for the first time.
 * - Later it is polled only when its waker fired (TE_ROOT_WAKE).
 * - A thread that polls no tasks (block_on of a multi-thread runtime): the poll is the stretch from
 *   the unpark that follows to the next park. If it waits inside, in a call in which a runtime
 *   parks, the poll ends there for us; in another, it may have returned before.
 * - A thread that polls tasks itself (current_thread): it polls the root at the top of its loop.
 *   Where it has an I/O driver it parks in epoll, also without waiting, before it comes there: so
 *   the poll is the stretch from the next unpark to the next task's poll or park. Without a driver
 *   it is the next gap between polls. A wake that the thread itself brings right after an unpark
 *   (its driver did) begins the poll at once.
 * - Its end is not visible: the thread's end, another block_on on it, or the trace's end. The
 *   outcome stays unknown. So the last of its polls, after which none of the above followed, has no
 *   known length: the thread may long have gone on with something else.
 *
 * A wait that its waker has not ended is no wait of the block_on's: where the thread comes out of a
 * futex without a wake of the root, it was in a lock, or after the block_on. So whether a poll ended
 * where the thread went into a futex is decided by what ends that park.
 *
 * A block_on inside a task's poll (in block_in_place) has no polls of its own here: it lives
 * until that poll ends.
 *
 * A block_on from before the recording is recorded at its start (TRACE_ROOT_BEFORE), with the park
 * in which its thread was. That park's end is not seen, nor is anything of the thread before its
 * next blocking call: the first poll is the stretch from the wake to there.
 *
 * TE_ROOT_WAKE names the waker by its address, TE_ROOT_ENTER doesn't. The address belongs to the
 * one block_on of that kind whose address is not known yet, if there is one only, or to the
 * thread's own if it loops and the wake is fired there; it is remembered. With several the wake is
 * stray. With none it is that of a block_on that began before the recording: a root that is woken,
 * but never seen polled.
 */
#include "timeline/state.h"

/* Its waker's address is still to be known. */
static void root_nameless(struct task *root)
{
	struct kind *k = root->kind->same;
	k->n_nameless++;
	k->nameless = k->n_nameless == 1 ? root : NULL;
}

static struct task *root_new(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t)
{
	const struct frame *f = poll_open(th);
	struct spawn s = {
		.thread = th->tl.thread,
		.time_ns = t,
		.parent = f && f->task ? f->task->tl.serial : 0,
		.parent_number = f && f->task ? f->task->tl.number : 0,
		.parent_slot = f && f->task ? f->task->tl.slot : 0,
		.n_losses = tl->n_losses,
	};
	k->n_spawned++;
	struct task *root = task_new_spawned(tl, k, &s, th->tl.thread);
	if (root)
		root_nameless(root);
	return root;
}

void root_finish(struct timeline *tl, struct task *root, uint64_t t)
{
	struct kind *k = root->kind->same;
	if (!root->named) {
		k->n_nameless--;
		if (k->nameless == root)
			k->nameless = NULL;
	}
	task_unname(tl, root);
	task_end(tl, root, TO_UNKNOWN, t);
}

static void root_set(struct timeline *tl, struct thread *th, struct task *root, uint64_t t)
{
	th->root = root;
	if (!root)
		return;
	root->thread = th->tl.thread;
	root->stray_seen = root->kind->same->n_stray;
	th->tl.root = true;
	th->loops = false;
	/* One of a multi-thread runtime waits outside of the workers. */
	if (root->kind->loops)
		poll_working(tl, th, t);
}

void root_enter(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t)
{
	struct frame *f = poll_open(th);
	if (f) {
		if (f->root)
			root_finish(tl, f->root, t);
		f->root = root_new(tl, th, k, t);
		if (f->root)
			task_state(tl, f->root, TS_UNKNOWN, t);
		return;
	}
	root_end(tl, th, t);
	root_set(tl, th, root_new(tl, th, k, t), t);
	th->root_due = th->root != NULL;
	root_gap_begin(tl, th, t, true);
}

void root_before(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t)
{
	if (poll_open(th)) {
		tl->n_inconsistent++;
		return;
	}
	root_end(tl, th, t);
	struct task *root = task_new_before(tl, k, t);
	if (root)
		root_nameless(root);
	root_set(tl, th, root, t);
	th->root_early = root != NULL;
}

void root_appears(struct timeline *tl, struct thread *th, enum trace_event_type type, uint64_t t)
{
	struct task *root = th->root;
	if (type == TE_PARK && !th->parked)
		return; /* its end may not be seen */
	th->root_early = false;
	/* These say of the park what they know themselves. */
	if (!root || !th->parked || type == TE_UNPARK || type == TE_BLOCK || type == TE_LOST ||
	    type == TE_THREAD_BEGIN || type == TE_THREAD_END)
		return;
	bool due = th->root_due && root->tl.state == TS_SCHEDULED;
	uint64_t since = due && root->scheduled_ns < t ? root->scheduled_ns : t;
	if (since < th->park_ns)
		since = th->park_ns;
	poll_park_end(tl, th, since);
	th->after_unpark = true;
	root_gap_begin(tl, th, since, true);
	th->root_poll.scheduled_ns = 0; /* how long it was due isn't known */
}

/* Whose waker it is. *ret_known: false if that can't be known. */
static struct task *root_of_waker(struct timeline *tl, struct thread *th, struct kind *k,
				  uint64_t data, uint64_t t, bool *ret_known)
{
	*ret_known = true;
	struct task *root = task_find(tl, k, data);
	if (root)
		return root;
	if (!k->n_nameless) {
		/* Its own task: from before the recording. */
		return task_new(tl, k, data, th, t, TASK_OF_HINTED_SPAWN);
	}
	if (k->n_nameless == 1 && !k->nameless) {
		for (root = tl->live; root && (root->kind->same != k || root->named);
		     root = root->next)
			;
		k->nameless = root;
	}
	if (th->root && th->root->kind->same == k && !th->root->named && (th->loops || k->loops))
		root = th->root;
	else
		root = k->n_nameless == 1 ? k->nameless : NULL;
	if (!root) {
		*ret_known = false;
		return NULL;
	}
	if (task_name(tl, root, data) < 0)
		return NULL;
	k->n_nameless--;
	k->nameless = NULL;
	return root;
}

void root_wake(struct timeline *tl, struct thread *th, struct kind *k, uint64_t data, uint64_t t)
{
	bool known;
	struct task *root = root_of_waker(tl, th, k, data, t, &known);
	if (!known) {
		k->n_stray++;
		task_stray_wake(tl, th, k, t);
	}
	if (!root)
		return;
	if (root->thread != NO_THREAD && tl->threads[root->thread]->root_parked.task == root)
		root_decide(tl, tl->threads[root->thread], true);
	task_settle(tl, root);
	t = timeline_at_task(th, root, t);
	bool polling = root->tl.state == TS_POLLING;
	bool scheduled = root->tl.state == TS_SCHEDULED;
	/* Its polls are not seen: nor is how long it waits for one. */
	bool unseen = root->thread == NO_THREAD;
	uint64_t serial = task_emit_wake(tl, th, root, t,
					 polling     ? TW_RUNNING
					 : scheduled ? TW_NOOP
						     : TW_SCHEDULED,
					 true);
	if (polling) {
		if (!root->woken_inside)
			root->wake_inside = serial;
		root->woken_inside = true;
	} else if (!scheduled && !unseen) {
		task_scheduled(tl, root, t, serial);
	}
	if (unseen)
		return;
	struct thread *own = tl->threads[root->thread];
	own->root_due = true;
	if (own == th && th->after_unpark)
		root_gap_begin(tl, th, t, true);
}

/* A wake was seen that may be its own. */
static bool maybe_due(const struct task *root)
{
	return !root->named && root->stray_seen != root->kind->same->n_stray;
}

void root_gap_begin(struct timeline *tl, struct thread *th, uint64_t t, bool after_park)
{
	struct task *root = th->root;
	if (!root || th->root_poll.task || th->parked || poll_open(th) || tl->failed)
		return;
	if (!th->root_due && !maybe_due(root))
		return;
	if ((th->loops || root->kind->loops) && th->driver && !after_park)
		return;
	root->stray_seen = root->kind->same->n_stray;
	th->root_due = false;
	task_settle(tl, root);
	t = timeline_at_task(th, root, t);
	bool known = root->tl.state == TS_SCHEDULED && root->wake_serial;
	th->root_poll = (struct frame){
		.task = root,
		.kind = root->kind,
		.begin_ns = t,
		.scheduled_ns = known ? root->scheduled_ns : 0,
		.wake_serial = known ? root->wake_serial : 0,
		.inferred = true,
	};
	task_state(tl, root, TS_POLLING, t);
	root->woken_inside = root->self_woken = false;
	root->tl.n_polls++;
	root->kind->n_polls++;
}

void root_gap_end(struct timeline *tl, struct thread *th, uint64_t t, enum trace_outcome outcome)
{
	if (!th->root_poll.task)
		return;
	struct frame f = th->root_poll;
	th->root_poll.task = NULL;
	poll_finish(tl, th, &f, t, outcome);
}

static bool polls_tasks(const struct thread *th)
{
	return th->loops || (th->root && th->root->kind->loops);
}

void root_park(struct timeline *tl, struct thread *th, uint16_t call, uint64_t t)
{
	struct task *root = th->root_poll.task;

	if (!root || call != TB_FUTEX || polls_tasks(th)) {
		root_gap_end(tl, th, t, root_parks(call) ? TO_PENDING : TO_UNSEEN);
		return;
	}
	th->root_parked = th->root_poll;
	th->root_parked_ns = t;
	th->root_parked_losses = tl->n_losses;
	th->root_poll.task = NULL;
}

void root_decide(struct timeline *tl, struct thread *th, bool waits)
{
	struct frame f = th->root_parked;
	struct task *root = f.task;
	bool certain = root && root->n_losses == th->root_parked_losses;

	if (!root)
		return;
	th->root_parked.task = NULL;
	waits = waits || th->root_due || maybe_due(root);
	poll_finish(tl, th, &f, th->root_parked_ns, waits ? TO_PENDING : TO_UNSEEN);
	if (!waits || !certain || root->tl.state != TS_UNKNOWN)
		return;
	/* It waited up to the first loss since. */
	root->tl.state = TS_WAITING;
	root->n_losses = th->root_parked_losses;
	task_settle(tl, root);
}

static void look_ahead(struct thread *th, bool goes_on)
{
	th->root_decided = true;
	th->root_goes_on = goes_on;
}

void root_look_ahead_wake(struct timeline *tl, const struct kind *k, uint64_t data)
{
	for (size_t i = 0; i < tl->n_threads; i++) {
		struct thread *th = tl->threads[i];
		struct task *root = !th			 ? NULL
				    : th->root_poll.task ? th->root_poll.task
							 : th->root_parked.task;

		if (!root || th->root_decided || root->kind->same != k ||
		    (root->named && root->name != data))
			continue;
		th->root_due = true;
		if (th->root_parked.task || th->root_parks)
			look_ahead(th, true);
	}
}

void root_look_ahead(struct thread *th, const struct trace_event *ev)
{
	uint16_t call = ev->arg & TRACE_CALL_NUMBER;
	bool park = ev->type == TE_PARK, block = ev->type == TE_BLOCK;
	bool proven = call != TB_FUTEX || th->root_due || polls_tasks(th);
	bool decides = (block && root_parks(call)) || park || ev->type == TE_UNPARK ||
		       ev->type == TE_POLL_BEGIN || ev->type == TE_POLL_END ||
		       ev->type == TE_LOST || ev->type == TE_ROOT_ENTER ||
		       ev->type == TE_THREAD_BEGIN || ev->type == TE_THREAD_END;

	if (!decides || th->root_decided)
		return;
	if (th->root_parked.task || th->root_parks)
		look_ahead(th, th->root_due);
	else if (park && !proven)
		th->root_parks = true;
	else if (ev->type != TE_UNPARK)
		look_ahead(th, ((block || park) && root_parks(call) && proven) ||
				       ev->type == TE_POLL_BEGIN || ev->type == TE_POLL_END);
}

void root_end(struct timeline *tl, struct thread *th, uint64_t t)
{
	root_decide(tl, th, false);
	root_gap_end(tl, th, t, TO_UNSEEN);
	if (th->root)
		root_finish(tl, th->root, t);
	th->root = NULL;
	th->root_due = th->root_early = false;
}
