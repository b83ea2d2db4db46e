/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "findings/windows.h"

#include <string.h>

static bool fills_half(const struct finding_window *w, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t from = begin_ns > w->begin_ns ? begin_ns : w->begin_ns;
	uint64_t to = end_ns < w->end_ns ? end_ns : w->end_ns;

	return to > from && (to - from) * 2 >= w->end_ns - w->begin_ns;
}

static void add_poll(struct finding_window *w, const struct window_poll *p)
{
	if (p->thread != w->thread || !fills_half(w, p->begin_ns, p->end_ns))
		return;
	w->poll_kind = p->kind;
	w->poll_serial = p->serial;
	w->poll_number = p->number;
	w->poll_begin_ns = p->begin_ns;
	w->poll_ns = p->end_ns - p->begin_ns;
}

static void add_park(struct finding_window *w, const struct tl_park *p)
{
	if (!fills_half(w, p->begin_ns, p->end_ns))
		return;
	if (w->n_idle < WINDOWS_IDLE)
		w->idle[w->n_idle++] = p->thread;
	w->looked = w->looked || park_is_look(p->call);
}

struct finding_window *windows_add(struct windows *w, uint64_t begin_ns, uint64_t end_ns,
				   uint32_t thread, const struct tl_task *task)
{
	uint64_t ns = end_ns > begin_ns ? end_ns - begin_ns : 0;
	size_t i = w->n;

	if (ns < WINDOWS_MIN_NS)
		return NULL;
	while (i && w->top[i - 1].end_ns - w->top[i - 1].begin_ns < ns)
		i--;
	if (i == WINDOWS_MOST)
		return NULL;
	if (w->n == WINDOWS_MOST)
		w->n--;
	memmove(&w->top[i + 1], &w->top[i], (w->n - i) * sizeof(w->top[0]));
	w->n++;
	w->top[i] = (struct finding_window){.begin_ns = begin_ns,
					    .end_ns = end_ns,
					    .thread = thread,
					    .kind = task ? task->kind : TRACE_KIND_NONE,
					    .serial = task ? task->serial : 0,
					    .task = task ? task->number : 0,
					    .source_kind = TRACE_KIND_NONE};
	for (size_t k = 0; k < w->n_polls && k < WINDOWS_RECENT; k++)
		add_poll(&w->top[i], &w->polls[k]);
	for (size_t k = 0; k < w->n_parks && k < WINDOWS_RECENT; k++)
		add_park(&w->top[i], &w->parks[k]);
	return &w->top[i];
}

void windows_poll(struct windows *w, const struct tl_poll *poll)
{
	const struct window_poll p = {
		.begin_ns = poll->begin_ns,
		.end_ns = poll->begin_ns + tl_poll_held_ns(poll),
		.serial = poll->task->serial,
		.number = poll->task->number,
		.thread = poll->thread,
		.kind = poll->task->kind,
	};

	if (poll->task->role == TR_WORKER || !tl_poll_measured(poll) ||
	    p.end_ns - p.begin_ns < WINDOWS_MIN_NS / 2)
		return;
	w->polls[w->n_polls++ % WINDOWS_RECENT] = p;
	for (size_t i = 0; i < w->n; i++)
		add_poll(&w->top[i], &p);
}

void windows_park(struct windows *w, const struct tl_park *park)
{
	if (park->end_ns - park->begin_ns < WINDOWS_MIN_NS / 2)
		return;
	w->parks[w->n_parks++ % WINDOWS_RECENT] = *park;
	for (size_t i = 0; i < w->n; i++)
		add_park(&w->top[i], park);
}
