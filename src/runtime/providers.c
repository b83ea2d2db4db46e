/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From what probes say to the vocabulary of events.
 *
 *     hit ──▶ task and thread: what is known ──▶ queue of the thread ──▶ sink
 *
 * An event says of which kind its task is, and how a poll ended. Either may be known a little later
 * than the event itself:
 *
 * - Tokio2Chrome's probes report a blocking task and a worker's loop like any task; only the
 *   next hit of the thread that polls it, task_blocking_begin, says that it is one of them. It is a
 *   worker's loop if a task is polled inside before long; else when it has all that a worker's has:
 *   it is the first thing on its thread, spawned outside of all polls, before any ordinary task and
 *   before any blocking task has ended, and others like it, or all else, end when it does. (Taken
 *   for a worker's loop is also a closure that runs a runtime of its own, and a long one that
 *   block_on spawns before anything else; taken for a blocking task is a loop that finds nothing to
 *   do, if block_in_place spawned it or it is the only worker of a runtime that is not the last.)
 * - tokio-dtrace's task-terminate comes inside the last poll, pull request 7717's after it. So a
 *   poll's end without one waits for the thread's next hit.
 * - Pull request 7717 reports a task's place by a separate probe next to the spawn.
 *
 * Such an event waits, and all that comes after it on its thread, until that hit comes, or until
 * providers_drain() says that enough time has passed: then it is what is usual.
 *
 * Probes of the end come more than once, and ids may be addresses, which come again. So the ended
 * are remembered for a while; when an ended id does what only the living do, the former is dropped
 * and this is another task. For an id never seen before it counts whether smaller ones were seen
 * being given out: then an ordinary task would have been seen when it was spawned.
 *
 * Nothing is invented: where probes give no polls, there are none.
 */
#include "runtime/providers.h"

#include "base/units.h"
#include "runtime/provider_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER_NS (2 * NSEC_PER_MSEC)

struct hit {
	struct providers *p;
	const struct provider_hit *in;
	enum provider_what type;
	struct provider_process *ps;
	struct provider_thread *th;
	struct provider_task *task; /* if it is known */
	uint64_t args[PV_N];
	bool has[PV_N];
};

static void put(struct hit *h, enum trace_event_type type, unsigned arg, uint64_t value, bool open)
{
	struct trace_event ev = {
		.time = h->in->time,
		.thread = h->in->thread,
		.type = type,
		.arg = (uint16_t)arg,
		.kind = TRACE_KIND_NONE,
		.task = h->task ? h->task->id : 0,
		.value = value,
	};

	provider_put(h->p, h->th, &ev, h->task, open);
}

static void say(struct hit *h, enum trace_event_type type, unsigned arg)
{
	put(h, type, arg, 0, false);
}

static void end_task(struct hit *h)
{
	provider_task_end(h->p, h->task, h->in->time);
}

static bool is_open(const struct provider_thread *th, const struct provider_task *t,
		    unsigned *ret_i)
{
	for (unsigned i = th->n_polls; i-- > 0;) {
		if (th->polls[i].task != t)
			continue;
		*ret_i = i;
		return true;
	}
	return false;
}

static void learn_place(struct hit *h)
{
	struct provider_task *t = h->task;
	const char *file = h->in->file ? h->in->file : "", *name = h->in->name ? h->in->name : "";

	if (!t->place && !t->kind && (*file || *name))
		t->place = provider_place(h->p, file, name, (uint32_t)h->args[PV_LINE],
					  (uint32_t)h->args[PV_COLUMN]);
}

/* The id is free for another task. */
static void drop(struct hit *h)
{
	say(h, TE_DROP, 0);
	provider_task_forget(h->p, h->task);
	h->task = NULL;
}

/* The task of the hit: the one known, else a new one. */
static bool need_task(struct hit *h)
{
	if (h->task && h->task->ended)
		drop(h);
	if (!h->task)
		h->task = provider_task_new(h->p, h->ps, h->args[PV_TASK], h->in->time,
					    h->in->probe->make);
	if (h->task)
		learn_place(h);
	return h->task && !h->p->failed;
}

/* ---- what waits ---- */

static bool together(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) < TOGETHER_NS;
}

/* A runtime's workers end together, and with them mostly the program. */
static bool outlived(const struct provider_process *ps, const struct provider_task *t)
{
	bool siblings = false;

	if (!t->ended)
		return false;
	for (unsigned i = 0; i < ps->n_early; i++) {
		const struct early *e = &ps->early[i];

		if (e->id < t->id && !e->end_ns)
			return true;
		siblings |= e->id != t->id && together(e->end_ns, t->end_ns);
	}
	return !together(ps->last_ns, t->end_ns) && !(siblings && ps->first_task != UINT64_MAX);
}

/* No event has shown yet which kind of task it is. */
static void decide_usual(struct providers *p, struct provider_task *t)
{
	struct provider_process *ps = t->process;

	if (t->decided)
		return;
	if (t->make != PM_TOKIO2CHROME)
		provider_task_decide(p, t, t->role);
	else if (!t->section)
		provider_task_decide(p, t, TR_TASK);
	else if (t->early && t->id < ps->first_task && !outlived(ps, t))
		provider_task_decide(p, t, TR_WORKER);
	else
		provider_task_decide(p, t, TR_BLOCKING);
}

static void close_entry(struct providers *p, struct provider_thread *th, struct queued_event *e,
			enum trace_outcome outcome)
{
	e->ev.arg = outcome;
	provider_close(p, th, e);
}

/* What the thread's hit before left open, this one decides. */
static void decide_last(struct hit *h)
{
	struct queued_event *e = provider_last(h->th);
	bool section = h->type == PW_BLOCKING_BEGIN;

	if (!e)
		return;
	if (e->open && e->ev.type == TE_CANCEL) {
		/* It ended inside a poll, whose begin wasn't seen. */
		if (h->type == PW_POLL_END && e->task == h->task) {
			e->ev.type = TE_POLL_END;
			e->ev.time = h->in->time;
			e->task->role = TR_TASK;
			close_entry(h->p, h->th, e, TO_READY);
			h->type = PW_NOTHING;
		} else {
			provider_close(h->p, h->th, e);
		}
	} else if (e->open) {
		if (h->type != PW_TERMINATE || e->task != h->task)
			close_entry(h->p, h->th, e, TO_PENDING);
	} else if (e->task && !e->task->decided) {
		bool details = h->type == PW_DETAILS && e->task == h->task;

		if (e->ev.type == TE_POLL_BEGIN ? !section && !e->task->section
						: e->task->make == PM_HOOKS && !details)
			decide_usual(h->p, e->task);
	}
}

/* ---- hits ---- */

static void hit_spawn(struct hit *h)
{
	bool has_kind = h->has[PV_TASK_KIND], has_parent = h->has[PV_PARENT];
	unsigned kind = h->args[PV_TASK_KIND] & 0xff;
	struct provider_task *t = h->task;

	/* Events of several threads may be out of order: a task's first event may come just
	 * before its spawn. If it came long before, the end of that task was not seen, and this
	 * is another. */
	if (t && (t->ended || (t->born_ns < h->in->time && !t->details)))
		drop(h);
	if (!need_task(h))
		return;
	t = h->task;
	t->outside = h->th->n_polls == 0;
	if (has_kind && kind == 0)
		t->role = TR_ROOT;
	t->local = has_kind && kind == 2;
	if (has_kind && !t->details && !t->polled)
		t->decided = false;
	t->details = false;
	if (t->id < h->ps->first_spawned)
		h->ps->first_spawned = t->id;
	put(h, TE_SPAWN, TRACE_SPAWN_NAMED | (has_parent ? TRACE_SPAWN_PARENT : 0),
	    h->args[PV_PARENT], false);
}

/* They are next to the spawn, before it or after it. */
static void hit_details(struct hit *h)
{
	bool met = h->task && !h->task->ended;

	if (!need_task(h))
		return;
	h->task->details = !met;
	provider_task_decide(h->p, h->task, h->task->role);
}

static void hit_wake(struct hit *h)
{
	bool late = h->task && h->task->ended && h->task->end_ns < h->in->time;

	if (late && h->type == PW_SCHEDULE)
		return;
	if (!(h->task && h->task->ended) && !need_task(h))
		return;
	decide_usual(h->p, h->task);
	if (h->type == PW_SCHEDULE)
		say(h, TE_SCHEDULE, 0);
	else
		say(h, TE_WAKE, late ? TW_NOOP : TW_UNKNOWN);
}

/* A task that was cancelled while it was in a run queue is taken out of it with the hooks of a
 * poll. Ids from Tokio's hooks are not reused. */
static bool is_empty_run(const struct hit *h)
{
	return h->task && h->task->ended && h->task->make == PM_HOOKS;
}

static void hit_poll_begin(struct hit *h)
{
	struct provider_thread *th = h->th;
	struct provider_task *outer = provider_poll_top(th);

	if (is_empty_run(h))
		return;
	if (outer && outer->section)
		provider_task_decide(h->p, outer, TR_WORKER);
	if (!need_task(h))
		return;
	provider_poll_pop(th, h->task);
	h->task->early = !th->seen || th->after_worker;
	th->after_worker = false;
	/* Its spawn was not seen, or there are no probes of spawns. */
	if (!h->task->polled && h->task->id < h->ps->first_spawned)
		h->task->outside = true;
	h->task->polled = true;
	th->polled = th->worked = true;
	say(h, TE_POLL_BEGIN, 0);
	provider_poll_push(h->p, th, h->task);
}

static void hit_poll_end(struct hit *h)
{
	struct provider_thread *th = h->th;
	unsigned outcome;

	if (is_empty_run(h)) {
		if (provider_poll_pop(th, h->task) != TO_N)
			say(h, TE_POLL_END, TO_UNKNOWN);
		return;
	}
	bool unmet = !h->task;
	if (!need_task(h))
		return;
	/* Tasks were polled inside something without events: a worker's loop, or a block_on,
	 * from before the recording. */
	if (unmet && th->worked && !th->lost && h->task->make == PM_HOOKS) {
		end_task(h);
		return;
	}
	outcome = provider_poll_pop(th, h->task);
	if (outcome == TO_N)
		provider_task_decide(h->p, h->task,
				     !th->section_unseen ? TR_TASK
				     : th->worked	 ? TR_WORKER
							 : TR_BLOCKING);
	th->section_unseen = false;
	if (h->type == PW_POLL_END_TOLD)
		outcome = h->args[PV_PANICKED] ? TO_PANICKED
			  : h->args[PV_READY]  ? TO_READY
					       : TO_PENDING;
	if (!h->task->section || outcome == TO_PANICKED)
		h->task->early = false;
	if (!h->task->early)
		decide_usual(h->p, h->task);
	th->after_worker = h->task->decided && h->task->role == TR_WORKER;
	if (th->after_worker && !h->task->polled) {
		end_task(h); /* a loop from before the recording, without events */
		return;
	}
	if (outcome >= TO_UNKNOWN) {
		put(h, TE_POLL_END, TO_PENDING, 0, true);
		return;
	}
	say(h, TE_POLL_END, outcome);
	if (outcome != TO_PENDING)
		end_task(h);
	h->ps->section_ended |=
		h->task->section && h->task->decided && h->task->role == TR_BLOCKING;
	for (unsigned i = 0; h->task->section && i < h->ps->n_early; i++) {
		if (h->ps->early[i].id == h->task->id)
			h->ps->early[i].end_ns = h->in->time;
	}
}

static enum trace_outcome emitted_outcome(const struct hit *h)
{
	static const uint8_t outcomes[] = {TO_READY, TO_CANCELLED, TO_PANICKED};
	uint64_t reason = h->args[PV_REASON] & 0xff;

	if (!h->has[PV_REASON])
		return TO_READY;
	return reason < sizeof(outcomes) ? outcomes[reason] : TO_UNKNOWN;
}

/* What Tokio spawns in its own files are workers. */
static bool is_tokios_own(const char *file)
{
	const char *at = file ? strstr(file, "/tokio-1.") : NULL;

	return at && strstr(at, "/src/runtime/");
}

/* A task ends that had no events before: a blocking one, or one from before the recording that is
 * cancelled. */
static void terminate_unmet(struct hit *h)
{
	bool is_task = false, before = h->args[PV_TASK] < h->ps->first_spawned;
	const struct provider_loc *pl;

	if (is_tokios_own(h->in->file))
		return; /* a worker's loop: its polls are not reported either */
	if (h->in->file) {
		pl = provider_place(h->p, h->in->file, "", (uint32_t)h->args[PV_LINE],
				    (uint32_t)h->args[PV_COLUMN]);
		is_task = pl && (provider_has_kind(h->p, h->ps, pl, TR_TASK) ||
				 (before && h->th->worked));
	} else if (before && h->th->worked) {
		/* No place distinguishes it from the end of the thread's own loop. */
		h->p->stats.n_strange++;
		return;
	}
	if (!need_task(h))
		return;
	h->task->role = is_task ? TR_TASK : TR_BLOCKING;
	put(h, TE_CANCEL, is_task ? TO_PENDING : emitted_outcome(h), 0, !h->th->polled);
	end_task(h);
}

static void hit_terminate(struct hit *h)
{
	struct queued_event *e = provider_last(h->th);
	enum trace_outcome outcome = emitted_outcome(h);
	unsigned i;

	if (!h->task) {
		terminate_unmet(h);
		return;
	}
	if (h->task->ended)
		return;
	if (is_open(h->th, h->task, &i)) {
		h->th->polls[i].outcome = (uint8_t)outcome;
		return;
	}
	if (e && e->open && e->task == h->task) {
		close_entry(h->p, h->th, e, outcome);
	} else {
		/* Without a reason: it ends outside of its polls, so it was not done. */
		bool done = h->has[PV_REASON] && outcome != TO_CANCELLED;

		h->p->stats.n_late += done;
		put(h, TE_CANCEL, done ? outcome : TO_PENDING, 0, !h->th->polled);
	}
	end_task(h);
}

static void hit_finish(struct hit *h)
{
	unsigned i;

	if (!h->task) {
		h->p->stats.n_strange += h->args[PV_TASK] < h->ps->first_spawned;
		return;
	}
	/* The second or third time, or inside the poll, whose end says how it ended. */
	if (h->task->ended || is_open(h->th, h->task, &i))
		return;
	decide_usual(h->p, h->task);
	say(h, TE_CANCEL, 0);
	end_task(h);
}

static void hit_section(struct hit *h)
{
	struct provider_process *ps = h->ps;
	struct provider_task *t = provider_poll_top(h->th);

	if (h->type == PW_BLOCKING_END) {
		h->th->section_unseen = !t || !t->section;
		return;
	}
	if (!t || t->section)
		return;
	t->section = true;
	h->p->stats.n_late += t->decided;
	for (unsigned i = 0; i < ps->n_early; i++)
		ps->section_ended |=
			ps->early[i].end_ns && ps->early[i].end_ns + TOGETHER_NS < h->in->time;
	t->early &= t->outside && !ps->section_ended && ps->n_early < MAX_EARLY;
	if (t->early)
		ps->early[ps->n_early++] = (struct early){.id = t->id};
}

static void hit_machine(struct hit *h)
{
	unsigned arg = h->type == PW_MACHINE_BLOCKED ? TC_BLOCKED : TC_STARTING;

	if (h->type == PW_MACHINE_TASK) {
		if (!need_task(h))
			return;
		arg = h->args[PV_LOCAL] & 0xff ? TC_TASK_LOCAL : TC_TASK_GLOBAL;
	}
	put(h, TE_MACHINE, arg, h->args[PV_MACHINE], false);
}

static void hit_completed(struct hit *h)
{
	if ((h->task && h->task->ended) || !need_task(h))
		return;
	say(h, TE_CANCEL, TO_READY);
	end_task(h);
}

static void dispatch(struct hit *h)
{
	switch (h->type) {
	case PW_SPAWN:
		hit_spawn(h);
		break;
	case PW_DETAILS:
		hit_details(h);
		break;
	case PW_SCHEDULE:
	case PW_WAKE:
		hit_wake(h);
		break;
	case PW_POLL_BEGIN:
		hit_poll_begin(h);
		break;
	case PW_POLL_END:
	case PW_POLL_END_TOLD:
		hit_poll_end(h);
		break;
	case PW_TERMINATE:
		hit_terminate(h);
		break;
	case PW_FINISH:
		hit_finish(h);
		break;
	case PW_BLOCKING_BEGIN:
	case PW_BLOCKING_END:
		hit_section(h);
		break;
	case PW_THREAD_START:
		say(h, TE_THREAD_BEGIN, 0);
		break;
	case PW_THREAD_STOP:
		provider_polls_clear(h->th);
		h->th->gone = true;
		say(h, TE_THREAD_END, 0);
		break;
	case PW_PARK:
	case PW_UNPARK:
		h->th->worked = true;
		say(h, h->type == PW_PARK ? TE_PARK : TE_UNPARK, 0);
		break;
	case PW_COMPLETED:
		hit_completed(h);
		break;
	case PW_MACHINE_TASK:
	case PW_MACHINE_BLOCKED:
	case PW_MACHINE_STARTING:
		hit_machine(h);
		break;
	case PW_NOTHING:
	case PW_N:
		break;
	}
}

int providers_feed(struct providers *p, const struct provider_hit *in)
{
	struct hit h = {.p = p, .in = in, .type = in->probe->type};

	if (p->failed)
		return p->failed;
	h.ps = provider_process(p, in->process);
	h.th = provider_thread(p, in->thread);
	if (!h.ps || !h.th)
		return p->failed;
	h.th->process = h.ps;
	p->stats.n_hits++;
	if (in->time > h.ps->last_ns)
		h.ps->last_ns = in->time;
	for (size_t i = 0; i < in->probe->n_args && i < PROVIDER_MAX_ARGS; i++) {
		h.args[in->probe->args[i]] = in->args[i];
		h.has[in->probe->args[i]] = in->probe->args[i] != PV_UNUSED;
	}
	if (h.has[PV_TASK])
		h.task = provider_task(p, h.ps, h.args[PV_TASK]);
	if (h.task)
		provider_task_heard(p, h.task);
	decide_last(&h);
	dispatch(&h);
	h.th->seen = true;
	return p->failed;
}

int providers_pass(struct providers *p, const struct trace_event *ev)
{
	struct provider_thread *th = p->failed ? NULL : provider_thread(p, ev->thread);
	struct queued_event *e = th ? provider_last(th) : NULL;

	if (!th)
		return p->failed;
	if (ev->type == TE_LOST || ev->type == TE_THREAD_END) {
		/* The event that would show it may be lost. */
		if (e && e->open && e->ev.type == TE_POLL_END)
			close_entry(p, th, e, ev->type == TE_LOST ? TO_UNKNOWN : TO_PENDING);
		else if (e && e->open)
			provider_close(p, th, e);
		provider_polls_clear(th);
		th->gone |= ev->type == TE_THREAD_END;
		th->seen |= ev->type == TE_LOST;
		th->lost |= ev->type == TE_LOST;
	}
	provider_put(p, th, ev, NULL, false);
	return p->failed;
}

int providers_drain(struct providers *p, uint64_t before_ns)
{
	struct provider_thread *th = NULL;
	struct queued_event *e;

	while (!p->failed && (e = provider_undecided(p, before_ns, &th))) {
		if (e->open)
			provider_close(p, th, e);
		else
			decide_usual(p, e->task);
	}
	return p->failed;
}

int providers_forget(struct providers *p, uint32_t process)
{
	struct provider_process *ps = map_get(&p->processes, process, 0);
	const struct map_entry *e;
	size_t at = 0;
	struct provider_task *next;

	if (!ps || providers_drain(p, UINT64_MAX) < 0)
		return p->failed;
	while ((e = map_next(&p->threads, &at))) {
		struct provider_thread *th = e->value;

		if (th->process != ps)
			continue;
		provider_polls_clear(th);
		th->seen = th->polled = th->worked = th->section_unseen = th->lost = false;
	}
	for (unsigned ended = 0; ended < 2; ended++) {
		for (struct provider_task *t = ended ? p->ended.first : p->live.first; t;
		     t = next) {
			next = t->next;
			if (t->process == ps)
				provider_task_forget(p, t);
		}
	}
	ps->first_spawned = ps->first_task = UINT64_MAX;
	ps->section_ended = false;
	ps->n_early = 0;
	return p->failed;
}

struct providers *providers_new(const struct providers_sink *sink, void *ctx)
{
	struct providers *p = calloc(1, sizeof(*p));

	if (p) {
		p->sink = sink;
		p->ctx = ctx;
	}
	return p;
}

void providers_free(struct providers *p)
{
	if (!p)
		return;
	provider_state_done(p);
	free(p);
}

void providers_stats(const struct providers *p, struct providers_stats *ret)
{
	*ret = p->stats;
}
