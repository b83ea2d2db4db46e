/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the workers as a whole did: who looked at timers and sockets, who was idle, who did it all. */
#include "findings/rule.h"
#include "findings/windows.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- no thread looks at timers and sockets ---- */

#define STALL_NS (20 * NSEC_PER_MSEC)

/* The last look of a process. A process with several runtimes has several drivers: a look of another
 * one makes the rule silent, never wrong. */
struct driver {
	uint64_t end_ns; /* 0: none yet */
	uint32_t thread;
};

struct driver_state {
	struct rule_state st;
	struct map drivers; /* by process */
	struct windows windows;
};

static int driver_on_park(void *ctx, const struct tl_park *park)
{
	struct driver_state *s = ctx;
	const struct trace_thread *t =
		trace_reader_thread(rule_facts(&s->st)->reader, park->thread);
	uint32_t process = t ? t->process : 0;
	struct driver *d;

	windows_park(&s->windows, park);
	if (!park_is_look(park->call))
		return 0;
	d = map_get_or_new(&s->drivers, process, 0, sizeof(*d));
	if (!d)
		return -ENOMEM;
	if (d->end_ns && park->begin_ns > d->end_ns + STALL_NS)
		windows_add(&s->windows, d->end_ns, park->begin_ns, d->thread, NULL);
	if (park->end_ns >= d->end_ns)
		*d = (struct driver){park->end_ns, park->thread};
	return 0;
}

static int driver_on_poll(void *ctx, const struct tl_poll *poll)
{
	windows_poll(&((struct driver_state *)ctx)->windows, poll);
	return 0;
}

static void say_stall(const struct rule_state *st, struct buf *out, const struct finding_window *w)
{
	buf_str(out, "no thread looked at timers and sockets for ");
	text_duration(out, w->end_ns - w->begin_ns);
	buf_str(out, " (from ");
	say_time(st, out, w->begin_ns);
	buf_str(out, "): ");
	say_thread(st, out, w->thread);
	buf_str(out, ", which had the driver, was in a poll of ");
	say_family(st, out, w->poll_kind);
	buf_str(out, "; ");
	say_count(out, rule_count_workers(st, w->idle, w->n_idle), "other worker slept",
		  "other workers slept");
}

static int judge_driver(struct rule_state *st)
{
	struct driver_state *s = (struct driver_state *)st;
	uint64_t end_ns = rule_facts(st)->scope.end_ns;
	const struct finding_window *worst = NULL;
	const struct map_entry *e;
	uint64_t n = 0, sum = 0;
	size_t pos = 0;

	if (rule_lacks_events(st))
		return 0;
	while ((e = map_next(&s->drivers, &pos))) {
		const struct driver *d = e->value;

		if (d->end_ns && end_ns > d->end_ns + STALL_NS)
			windows_add(&s->windows, d->end_ns, end_ns, d->thread, NULL);
	}
	for (size_t i = 0; i < s->windows.n; i++) {
		const struct finding_window *w = &s->windows.top[i];

		if (!w->poll_number || w->looked || !rule_count_workers(st, w->idle, w->n_idle))
			continue;
		worst = worst ? worst : w;
		n++;
		sum += w->end_ns - w->begin_ns;
	}
	if (!worst || sum <= rule_cpu_lacked_ns(st, worst->thread))
		return 0;
	struct finding_draft *d =
		rule_finds(st, finding_score(50, 30, sum, rule_facts(st)->scope.length_ns, 0.2));
	if (!d)
		return 0;
	say_stall(st, &d->text, worst);
	if (n > 1) {
		buf_str(&d->text, "; so ");
		text_exact(&d->text, n);
		buf_str(&d->text, n == WINDOWS_MOST ? " times or more" : " times");
	}
	d->f.kind = worst->poll_kind;
	finding_spans(d, worst->begin_ns, worst->end_ns);
	finding_on(d, worst->thread);
	finding_of(d, worst->poll_serial, worst->poll_number);
	return 0;
}

static void done_driver(struct rule_state *st)
{
	map_free(&((struct driver_state *)st)->drivers, free);
}

const struct finding_rule rule_driver = {
	.name = "driver-stalled",
	.title = "no thread looks at timers and sockets",
	.advice = "a worker that blocks holds up timers and sockets of all tasks: move what blocks "
		  "to "
		  "spawn_blocking",
	.sink = &(const struct timeline_sink){.park = driver_on_park, .poll = driver_on_poll},
	.state_bytes = sizeof(struct driver_state),
	.judge = judge_driver,
	.done = done_driver,
};

/* ---- ready behind its own waker ---- */

#define LIFO_NS (10 * NSEC_PER_MSEC)

struct lifo_state {
	struct rule_state st;
	struct windows windows;
};

static int lifo_on_poll(void *ctx, const struct tl_poll *poll)
{
	struct lifo_state *s = ctx;
	const struct recent_wake *wake;
	struct finding_window *w;

	windows_poll(&s->windows, poll);
	if (poll->task->role != TR_TASK || !poll->begin_seen || !poll->scheduled_ns ||
	    poll->begin_ns < poll->scheduled_ns + LIFO_NS)
		return 0;
	wake = rule_wake(&s->st, poll->wake_serial);
	/* A task that woke itself is behind others in the queue. */
	if (!wake || !wake->source || wake->thread != poll->thread ||
	    wake->source == poll->task->serial)
		return 0;
	w = windows_add(&s->windows, poll->scheduled_ns, poll->begin_ns, poll->thread, poll->task);
	if (w)
		w->source_kind = wake->source_kind;
	return 0;
}

static int lifo_on_park(void *ctx, const struct tl_park *park)
{
	windows_park(&((struct lifo_state *)ctx)->windows, park);
	return 0;
}

static int judge_lifo(struct rule_state *st)
{
	struct lifo_state *s = (struct lifo_state *)st;
	const struct finding_window *worst = NULL;
	uint64_t n = 0;

	/* In the poll that woke it, and while other workers were idle: else it is a delay as others. */
	for (size_t i = 0; i < s->windows.n; i++) {
		const struct finding_window *w = &s->windows.top[i];

		if (!w->poll_number || w->source_kind != w->poll_kind ||
		    w->poll_begin_ns > w->begin_ns || !rule_count_workers(st, w->idle, w->n_idle))
			continue;
		worst = worst ? worst : w;
		n++;
	}
	uint64_t ns = worst ? worst->end_ns - worst->begin_ns : 0;
	/* Polls that are long for themselves are no matter of the CPU. */
	if (!worst || (ns <= rule_cpu_lacked_ns(st, worst->thread) &&
		       !rule_has_found(st, &rule_long_polls, worst->poll_kind)))
		return 0;
	struct finding_draft *d = rule_finds(st, finding_score(45, 30, ns, 200 * NSEC_PER_MSEC, 1));
	if (!d)
		return 0;
	say_family(st, &d->text, worst->kind);
	buf_str(&d->text, " was ready for ");
	text_duration(&d->text, ns);
	buf_str(&d->text, " behind ");
	say_family(st, &d->text, worst->source_kind);
	buf_str(&d->text, ", which had woken it and went on in the same poll, while ");
	say_count(&d->text, rule_count_workers(st, worst->idle, worst->n_idle),
		  "other worker slept", "other workers slept");
	if (n > 1) {
		buf_str(&d->text, "; so ");
		text_exact(&d->text, n);
		buf_str(&d->text, n == WINDOWS_MOST ? " times or more" : " times");
	}
	d->f.kind = worst->kind;
	finding_spans(d, worst->begin_ns, worst->end_ns);
	finding_on(d, worst->thread);
	finding_of(d, worst->serial, worst->task);
	finding_of(d, worst->poll_serial, worst->poll_number);
	return 0;
}

const struct finding_rule rule_lifo_slot = {
	.name = "lifo-slot",
	.title = "ready behind its own waker",
	.advice = "yield after the send (tokio::task::yield_now), or build the runtime with "
		  "disable_lifo_slot",
	.sink = &(const struct timeline_sink){.poll = lifo_on_poll, .park = lifo_on_park},
	.state_bytes = sizeof(struct lifo_state),
	.judge = judge_lifo,
};

/* ---- one worker does it all ---- */

#define IMBALANCE_WORKERS 4
#define IMBALANCE_SHARE 0.5 /* of one thread, by the busiest */

/* Of a name such as "net-0" what the workers of one runtime have in common. */
static size_t pool_name(const char *name)
{
	size_t len = strlen(name);

	while (len && strchr("0123456789", name[len - 1]))
		len--;
	return len;
}

/* Whether two workers may be of one runtime: no event names that, but each runtime names its threads. */
static bool share_pool(const struct trace_reader *r, uint32_t a, uint32_t b)
{
	const struct trace_thread *x = trace_reader_thread(r, a), *y = trace_reader_thread(r, b);

	return x && y && x->process == y->process && pool_name(x->name) == pool_name(y->name) &&
	       !memcmp(x->name, y->name, pool_name(x->name));
}

static int judge_imbalance(struct rule_state *st)
{
	const struct findings_facts *facts = rule_facts(st);
	const struct tl_thread *most = NULL;
	uint64_t busy_ns = 0, rest_ns, n_workers = 0;

	if (rule_lacks_events(st))
		return 0;
	for (size_t i = 0; i < facts->n_threads; i++)
		if (facts->threads[i].worker &&
		    (!most || facts->threads[i].busy_ns > most->busy_ns))
			most = &facts->threads[i];
	for (size_t i = 0; most && i < facts->n_threads; i++) {
		const struct tl_thread *t = &facts->threads[i];

		if (!t->worker || !share_pool(facts->reader, t->thread, most->thread))
			continue;
		busy_ns += t->busy_ns;
		n_workers++;
	}
	if (n_workers < IMBALANCE_WORKERS)
		return rule_skips(st, "there are fewer than four workers of one runtime");
	rest_ns = busy_ns - most->busy_ns;
	if (!most->busy_ns ||
	    (double)most->busy_ns < IMBALANCE_SHARE * (double)facts->scope.length_ns ||
	    most->busy_ns < 9 * rest_ns)
		return 0;
	struct finding_draft *d = rule_finds(st, 35);
	if (!d)
		return 0;
	say_thread(st, &d->text, most->thread);
	buf_printf(&d->text, " did %.0f %% of the work of ",
		   100.0 * (double)most->busy_ns / (double)busy_ns);
	say_count(&d->text, n_workers, "worker", "workers");
	buf_str(&d->text, " (it was busy for ");
	text_duration(&d->text, most->busy_ns);
	buf_char(&d->text, ')');
	finding_on(d, most->thread);
	return 0;
}

const struct finding_rule rule_imbalance = {
	.name = "imbalance",
	.title = "one worker does it all",
	.advice = "the work is in one task: split it into several, which other workers can take",
	.state_bytes = sizeof(struct rule_state),
	.judge = judge_imbalance,
};

/* ---- nothing was polled ---- */

struct nothing_state {
	struct rule_state st;
	uint64_t n_polls;
};

static int nothing_on_poll(void *ctx, const struct tl_poll *poll)
{
	((struct nothing_state *)ctx)->n_polls += poll->task->role != TR_WORKER;
	return 0;
}

/* What comes from outside, or will come: a timer that is not overdue, a socket, a message. */
static bool waits_at_rest(const struct rule_moment *rm, const struct moment_task *t)
{
	const struct await_node *own,
		*leaf = t->tree ? graph_leaf(&rm->graph, t->tree, &own) : NULL;

	if (t->state != IS_IDLE || !leaf)
		return t->state == IS_DONE;
	return (leaf->wait == AW_SLEEP && leaf->value > rm->m.now_ns) || leaf->wait == AW_SOCKET ||
	       leaf->wait == AW_CHANNEL_RECV;
}

/* Whether the memory shows that the program has nothing to do: *ret_n tasks wait, all for such things, or there
 * are none, and nothing says that some could not be read. */
static bool is_at_rest(const struct rule_state *st, uint64_t *ret_n)
{
	const struct findings_facts *facts = rule_facts(st);

	*ret_n = 0;
	for (size_t k = 0; k < facts->n_moments; k++) {
		const struct rule_moment *rm = &facts->moments[k];

		if (rm->m.when != MOMENT_END ||
		    (!rm->m.n_found && (rm->m.n_missed || rm->m.n_notes)))
			return false;
		for (size_t i = 0; i < rm->m.n_tasks; i++) {
			if (!tl_role_counts(rm->m.tasks[i].kind->role))
				continue;
			if (!waits_at_rest(rm, &rm->m.tasks[i]))
				return false;
			++*ret_n;
		}
	}
	return facts->n_moments;
}

/* In less there need not be a poll. */
#define NOTHING_NS (100 * NSEC_PER_MSEC)

static int judge_nothing(struct rule_state *st)
{
	const struct findings_facts *facts = rule_facts(st);
	uint32_t n = trace_reader_n_processes(facts->reader);
	uint64_t n_tasks;
	const struct trace_process *p = n ? trace_reader_process(facts->reader, n - 1) : NULL;

	if (facts->scope.filtered)
		return rule_skips(st, "a filter leaves events out");
	if (!p || ((struct nothing_state *)st)->n_polls || facts->scope.length_ns < NOTHING_NS)
		return 0;
	bool rests = is_at_rest(st, &n_tasks);
	struct finding_draft *d = rule_finds(st, rests ? 20 : 80);
	if (!d)
		return 0;
	buf_str(&d->text, "no task was polled in ");
	text_duration(&d->text, facts->scope.length_ns);
	if (rests) {
		buf_str(&d->text, ": ");
		if (n_tasks)
			say_count(&d->text, n_tasks,
				  "task waits for a timer, a socket or a message",
				  "tasks wait for timers, sockets and messages");
		else
			buf_str(&d->text, "the program has no tasks");
		if (!n_tasks && facts->scope.tree)
			buf_printf(&d->text, "; %s shows what its threads do", facts->scope.tree);
		return 0;
	}
	buf_printf(&d->text,
		   ": the program has no load, or its workers have been blocked since before the "
		   "recording");
	if (facts->scope.tree)
		buf_printf(&d->text, "; %s shows where its tasks wait", facts->scope.tree);
	return 0;
}

const struct finding_rule rule_nothing_polled = {
	.name = "nothing-polled",
	.title = "no task was polled",
	.sink = &(const struct timeline_sink){.poll = nothing_on_poll},
	.state_bytes = sizeof(struct nothing_state),
	.judge = judge_nothing,
};
