/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Workers of before the recording, as a moment shows them. A park that began before the hooks were
 * there has no begin among the events, and mostly no end: the thread comes back through code that
 * nothing watches. So such a worker is parked up to its first event, unless that turns out to be
 * within a poll whose begin was not seen: then it left its park between the moment and the hooks,
 * and what it did up to that event is not known.
 *
 *     moment ─▶ before ──(event)──▶ PARKED up to it │ UNKNOWN │ more events decide
 *                   └───(finish)──▶ parked from end to end
 */
#include "timeline/state.h"

#include "base/error.h"

enum verdict { UNDECIDED, PARKED, UNKNOWN };

int timeline_before_thread(struct timeline *tl, const struct timeline_before_thread *thread,
			   struct error *err)
{
	struct thread *th = timeline_thread(tl, thread->thread);

	if (tl->failed)
		return error_set(err, tl->failed, "out of memory");
	if (th && !th->n_events && !th->before.known)
		th->before = (struct thread_before){
			.known = true,
			.open = true,
			.parked = thread->parked,
			.polls = thread->polls,
			.call = thread->call,
			.since_ns = thread->since_ns,
		};
	return 0;
}

void timeline_before_thread_end(struct timeline *tl, uint32_t thread, bool there, bool parked)
{
	struct thread *th = thread < tl->n_threads ? tl->threads[thread] : NULL;

	if (!th || th->n_events)
		return;
	th->before.gone = !there;
	th->before.parked = th->before.parked && parked;
}

/* The source takes the park for a blocking call, and reports it at its end. */
static bool is_that_park(const struct thread_before *b, const struct trace_event *ev)
{
	return !b->acted && (ev->arg & TRACE_CALL_NUMBER) == b->call &&
	       (ev->value >= ev->time || ev->time - ev->value <= b->begin_ns);
}

/* What the first events of a thread say of the time before them. */
static enum verdict judge(struct timeline *tl, const struct thread_before *b,
			  const struct trace_event *ev)
{
	const struct kind *k;

	switch (ev->type) {
	case TE_BLOCK:
		return is_that_park(b, ev) ? PARKED : UNDECIDED;
	case TE_POLL_END:
		k = timeline_kind(tl, ev->kind);
		return k && k->role == TR_WORKER ? PARKED : UNKNOWN;
	case TE_LOST:
		return UNKNOWN;
	case TE_POLL_BEGIN:
	case TE_PARK:
	case TE_UNPARK:
	case TE_ROOT_ENTER:
	case TE_THREAD_END:
		return PARKED;
	default: /* in a poll, or of a driver that has just come back */
		return UNDECIDED;
	}
}

/* It lives since then, as a worker. */
static void live(struct timeline *tl, struct thread *th, uint64_t t)
{
	if (!th->seen_aux || t < th->tl.begin_ns)
		th->tl.begin_ns = t;
	poll_working(tl, th, t);
}

static void park(struct timeline *tl, struct thread *th, uint64_t begin_ns, uint64_t end_ns)
{
	struct tl_park park = {
		.thread = th->tl.thread,
		.call = th->before.call,
		.begin_ns = begin_ns,
		.end_ns = end_ns,
	};

	if (begin_ns >= end_ns)
		return;
	th->tl.parked_ns += end_ns - begin_ns;
	EMIT(tl, park, &park);
}

/* When what the moment shows began to count, if t is not before that. */
static uint64_t begin_of(const struct thread_before *b, uint64_t first_ns, uint64_t t)
{
	uint64_t begin = first_ns > b->since_ns ? first_ns : b->since_ns;

	return begin < t ? begin : t;
}

void before_thread_event(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	struct thread_before *b = &th->before;
	uint64_t t = ev->time;

	if (!th->n_events) {
		b->begin_ns = b->until_ns = begin_of(b, tl->begun ? tl->first_ns : t, t);
		live(tl, th, b->begin_ns);
	}
	if (ev->type == TE_THREAD_BEGIN)
		return;
	enum verdict verdict = judge(tl, b, ev);
	if (!b->acted) {
		if (ev->type == TE_BLOCK && verdict != PARKED)
			t -= ev->value < t ? ev->value : t;
		b->until_ns = t > b->begin_ns ? t : b->begin_ns;
	}
	b->acted = true;
	if (verdict == UNDECIDED)
		return;
	b->open = false;
	if (verdict == PARKED && b->parked)
		park(tl, th, b->begin_ns, b->until_ns);
}

void before_thread_look_ahead(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	struct thread_before *b = &th->before;

	if (ev->type == TE_THREAD_BEGIN)
		return;
	enum verdict verdict = judge(tl, b, ev);

	b->acted = true;
	if (verdict == UNDECIDED)
		return;
	b->open = false;
	b->polls = b->polls || verdict == UNKNOWN;
	b->parked = b->parked && verdict == PARKED;
	if (th->n_events && b->parked)
		park(tl, th, b->begin_ns, b->until_ns);
}

void before_threads_finish(struct timeline *tl, uint64_t end_ns)
{
	for (size_t i = 0; i < tl->n_threads && !tl->failed; i++) {
		struct thread *th = tl->threads[i];

		if (!th || !th->before.known || th->n_events || th->before.gone)
			continue;
		struct thread_before *b = &th->before;

		b->begin_ns = begin_of(b, tl->begun ? tl->first_ns : tl->before_ns, end_ns);
		b->lives = true;
		live(tl, th, b->begin_ns);
		/* An event after the end may have shown that it was in a poll. */
		if (b->parked && !(b->open && b->acted))
			park(tl, th, b->begin_ns, end_ns);
		else if (b->polls || b->open)
			th->tl.n_unmeasured++;
		poll_not_working(tl, th, end_ns);
	}
}
