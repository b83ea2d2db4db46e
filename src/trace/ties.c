/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events of one time. A counter that steps every 42 ns (24 MHz, as many arm64 machines have) gives
 * the wake on one thread and the poll that it caused on another the same stamp; the thread with the
 * lower number would come first. Where times are equal, the tasks' states decide:
 *
 *     thread 1:  begin a ── wake b          wake a, begin a, wake b, begin b
 *     thread 2:  begin b                ─▶
 *     thread 3:  wake a
 *
 * How a task came into the run follows from its events there: it is being polled if a poll ends
 * that has not begun there, idle if something wakes it, else scheduled. From there all are played
 * forward: next is the first thread whose next event fits its task. If there is none, the run is
 * incomplete, or no program made it: the first thread goes on.
 */
#include "trace/ties.h"

#include <stdbool.h>
#include <string.h>

#define WINDOW 32u /* a longer run is ordered in pieces: the work for an event stays small */

enum state { ANY, IDLE, SCHEDULED, POLLED, ENDED };

/* A task, or a future, of which there are events in the run. */
struct address_life {
	uint64_t task, events; /* which, of the window: bits */
	uint32_t kind;
	uint32_t thread; /* that polls it */
	uint32_t n_wakes, n_schedules, n_polls;
	enum state state;
	bool future;
	bool begun, woken; /* of its poll: the begin is in the run, a wake as well */
};

struct tie_window {
	const struct trace_event *run;
	unsigned n, n_lives;
	uint64_t pending;	/* not in order yet: bits, as all below */
	uint64_t spawns;	/* of tasks that they don't name */
	uint64_t after[WINDOW]; /* what precedes it on its thread */
	struct address_life lives[WINDOW], *of[WINDOW];
};

static bool of_task(const struct trace_event *e)
{
	switch (e->type) {
	case TE_SPAWN:
		return e->arg & TRACE_SPAWN_NAMED;
	case TE_POLL_BEGIN:
	case TE_POLL_END:
	case TE_FUTURE_BEGIN:
	case TE_FUTURE_END:
	case TE_WAKE:
	case TE_SCHEDULE:
	case TE_CANCEL:
	case TE_DROP:
		return e->kind != TRACE_KIND_NONE;
	default:
		return false;
	}
}

static bool begins(const struct trace_event *e)
{
	return e->type == TE_POLL_BEGIN || e->type == TE_FUTURE_BEGIN;
}

static bool ends(const struct trace_event *e)
{
	return e->type == TE_POLL_END || e->type == TE_FUTURE_END;
}

/* ---- how a task came here ---- */

static struct address_life *life_of(struct tie_window *w, const struct trace_event *e)
{
	for (unsigned i = 0; i < w->n_lives; i++)
		if (w->lives[i].task == e->task && w->lives[i].kind == e->kind)
			return &w->lives[i];
	w->lives[w->n_lives] = (struct address_life){.task = e->task, .kind = e->kind};
	return &w->lives[w->n_lives++];
}

/* Has the poll that ends there begun in the run? */
static bool begun(const struct tie_window *w, unsigned end)
{
	for (uint64_t rest = w->of[end]->events & w->after[end]; rest; rest &= rest - 1)
		if (begins(&w->run[__builtin_ctzll(rest)]))
			return true;
	return false;
}

static void learn(struct tie_window *w, unsigned i)
{
	const struct trace_event *e = &w->run[i];
	struct address_life *l = w->of[i];

	if (ends(e) && !begun(w, i)) {
		l->state = POLLED;
		l->thread = e->thread;
	}
	l->future = l->future || e->type == TE_FUTURE_BEGIN || e->type == TE_FUTURE_END;
	l->n_polls += begins(e);
	l->n_schedules += e->type == TE_SCHEDULE || (e->type == TE_WAKE && e->arg == TW_UNKNOWN);
	l->n_wakes += e->type == TE_SPAWN || (e->type == TE_WAKE && e->arg == TW_SCHEDULED);
	l->events |= 1ull << i;
}

/* True if events of several threads are about one task. */
static bool look(struct tie_window *w)
{
	bool shared = false;

	w->n_lives = 0;
	w->spawns = 0;
	for (unsigned i = 0; i < w->n; i++) {
		const struct trace_event *e = &w->run[i];

		w->after[i] = 0;
		for (unsigned k = 0; k < i; k++)
			w->after[i] |= (uint64_t)(w->run[k].thread == e->thread) << k;
		w->of[i] = NULL;
		if (of_task(e)) {
			w->of[i] = life_of(w, e);
			shared = shared || (w->of[i]->events & ~w->after[i]);
			learn(w, i);
		} else if (e->type == TE_SPAWN) {
			w->spawns |= 1ull << i;
		}
	}
	for (struct address_life *l = w->lives; l < w->lives + w->n_lives; l++) {
		uint32_t n_wakes = l->n_wakes > l->n_schedules ? l->n_wakes : l->n_schedules;

		if (l->state == ANY && (l->n_polls || n_wakes))
			l->state = n_wakes && n_wakes >= l->n_polls ? IDLE : SCHEDULED;
	}
	return shared || w->spawns;
}

/* ---- and goes on ---- */

/* Is one of these still to come, from another thread, about the task of event i? */
static bool awaited(const struct tie_window *w, unsigned i, bool (*is)(const struct trace_event *e))
{
	for (uint64_t rest = w->of[i]->events & w->pending; rest; rest &= rest - 1) {
		const struct trace_event *e = &w->run[__builtin_ctzll(rest)];

		if (e->thread != w->run[i].thread && is(e))
			return true;
	}
	return false;
}

static bool is_wake_running(const struct trace_event *e)
{
	return e->type == TE_WAKE && e->arg == TW_RUNNING;
}

static bool is_other_wake(const struct trace_event *e)
{
	return e->type == TE_SCHEDULE ||
	       (e->type == TE_WAKE && (e->arg == TW_SCHEDULED || e->arg == TW_UNKNOWN));
}

static bool is_of_living(const struct trace_event *e)
{
	return e->type != TE_CANCEL && e->type != TE_DROP;
}

static bool is_no_drop(const struct trace_event *e)
{
	return e->type != TE_DROP;
}

/* Does the poll that begins there go on after the run? */
static bool lasts(const struct tie_window *w, unsigned begin)
{
	for (uint64_t rest = w->of[begin]->events & w->pending; rest; rest &= rest - 1) {
		unsigned i = (unsigned)__builtin_ctzll(rest);

		if (w->after[i] >> begin & 1 && ends(&w->run[i]))
			return false;
	}
	return true;
}

static bool begin_fits(const struct tie_window *w, unsigned i)
{
	const struct address_life *l = w->of[i];

	if (l->state == POLLED || (lasts(w, i) && awaited(w, i, begins)))
		return false;
	return l->future || l->state == SCHEDULED ||
	       (l->state == ANY && !awaited(w, i, is_other_wake));
}

static bool fits(const struct tie_window *w, unsigned i)
{
	const struct trace_event *e = &w->run[i];
	const struct address_life *l = w->of[i];

	if (!l)
		return true;
	if (begins(e))
		return begin_fits(w, i);
	if (ends(e))
		return l->state == POLLED && l->thread == e->thread &&
		       !awaited(w, i, is_wake_running);
	if (is_wake_running(e))
		return l->state == POLLED || l->state == ANY;
	if (e->type == TE_WAKE && e->arg == TW_SCHEDULED)
		return l->state == IDLE || l->state == ANY;
	if (e->type == TE_CANCEL)
		return !awaited(w, i, is_of_living);
	return e->type != TE_DROP || !awaited(w, i, is_no_drop);
}

static void play(struct address_life *l, const struct trace_event *e)
{
	if (begins(e)) {
		l->state = POLLED;
		l->thread = e->thread;
		l->woken = false;
		l->begun = true;
	} else if (ends(e)) {
		l->state = e->arg != TO_PENDING ? ENDED
			   : l->woken		? SCHEDULED
			   : l->begun		? IDLE
						: ANY;
	} else if (e->type == TE_CANCEL) {
		l->state = ENDED;
	} else if (e->type == TE_DROP) {
		l->state = ANY; /* the name is free */
	} else if (e->type != TE_WAKE || e->arg != TW_NOOP) {
		if (l->state == POLLED)
			l->woken = true;
		else if (l->state != ENDED && !is_wake_running(e))
			l->state = SCHEDULED;
	}
}

/* Of events of its kind on other threads one may be what this spawn has made. */
static bool spawn_awaited(const struct tie_window *w, unsigned i)
{
	for (uint64_t rest = w->of[i] ? w->spawns & w->pending : 0; rest; rest &= rest - 1) {
		const struct trace_event *e = &w->run[__builtin_ctzll(rest)];

		if (e->kind == w->run[i].kind && e->thread != w->run[i].thread)
			return true;
	}
	return false;
}

static unsigned next(const struct tie_window *w)
{
	unsigned fitting = WINDOW, first = WINDOW;

	for (uint64_t rest = w->pending; rest; rest &= rest - 1) {
		unsigned i = (unsigned)__builtin_ctzll(rest);

		if (w->after[i] & w->pending)
			continue;
		if (first == WINDOW)
			first = i;
		if (!fits(w, i))
			continue;
		if (!spawn_awaited(w, i))
			return i;
		if (fitting == WINDOW)
			fitting = i;
	}
	return fitting < WINDOW ? fitting : first;
}

static void order_window(struct trace_event *run, unsigned n)
{
	struct trace_event in_order[WINDOW];
	struct tie_window w;

	w.run = run;
	w.n = n;
	if (!look(&w))
		return;
	w.pending = (1ull << n) - 1;
	for (unsigned i = 0; i < n; i++) {
		unsigned event = next(&w);

		in_order[i] = run[event];
		w.pending &= ~(1ull << event);
		if (w.of[event])
			play(w.of[event], &run[event]);
	}
	memcpy(run, in_order, n * sizeof(*run));
}

void ties_order(struct trace_event *run, size_t n)
{
	for (; n > WINDOW; run += WINDOW, n -= WINDOW)
		order_window(run, WINDOW);
	if (n > 1)
		order_window(run, (unsigned)n);
}
