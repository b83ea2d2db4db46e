/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events of other sources than the tasks: system calls, time off the CPU, samples, machines. None
 * changes a task. Each is reported with the task whose poll is open on its thread at its end, which
 * is right because no thread goes through the begin or end of a poll inside a system call, or
 * while it is off its CPU.
 *
 * Such a source has a clock path of its own, so its events neither move the thread's time on nor
 * are measured by it. What seems to have begun before the poll that is open at its end is cut
 * there, as at the trace's first event; what seems to have ended before that is of no task.
 */
#include "timeline/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Takes note of the time. The poll that was open then: its task, depth and begin. */
struct around {
	struct task *task;
	uint32_t depth;
	uint64_t begin_ns;
	struct tl_round round;
};

static struct around look(struct timeline *tl, struct thread *th, uint64_t t)
{
	if (!th->n_events && !th->seen_aux)
		th->tl.begin_ns = t;
	th->seen_aux = true;
	if (t > th->aux_ns)
		th->aux_ns = t;
	timeline_saw(tl, t);

	const struct frame *f = poll_open(th);
	if (!f && th->root_poll.task)
		f = &th->root_poll;
	if (!f || !f->task || t < f->begin_ns)
		return (struct around){0};
	return (struct around){.task = f->task,
			       .depth = future_depth(th),
			       .begin_ns = f->begin_ns,
			       .round = f->task->round};
}

static uint64_t begin_of(const struct timeline *tl, const struct around *a, uint64_t end_ns,
			 uint64_t length_ns)
{
	uint64_t begin = length_ns < end_ns ? end_ns - length_ns : 0;
	if (begin < tl->first_ns) /* it was under way when the recording began */
		begin = tl->first_ns < end_ns ? tl->first_ns : end_ns;
	return a->task && begin < a->begin_ns ? a->begin_ns : begin;
}

static struct tl_task *task_of(const struct around *a)
{
	return a->task ? &a->task->tl : NULL;
}

void aux_syscall(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	struct around a = look(tl, th, ev->time);
	struct tl_syscall call = {
		.task = task_of(&a),
		.thread = th->tl.thread,
		.depth = a.depth,
		.number = ev->arg,
		.result = (int64_t)ev->task,
		.begin_ns = begin_of(tl, &a, ev->time, ev->value),
		.end_ns = ev->time,
		.round = a.round,
	};
	th->call_begin_ns = call.begin_ns;
	th->call_end_ns = call.end_ns;
	EMIT(tl, syscall, &call);
}

/* ---- times off the CPU ---- */

static uint32_t small(uint64_t n)
{
	return n <= UINT32_MAX ? (uint32_t)n : 0;
}

void aux_switch(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	struct tl_switch *sw = th->switched;

	if (!sw && !(sw = th->switched = malloc(sizeof(*sw)))) {
		timeline_fail(tl, -ENOMEM);
		return;
	}
	if (!th->switch_known)
		*sw = (struct tl_switch){0};
	th->switch_known = true;
	switch (ev->type) {
	case TE_LEFT_CPU:
		sw->left_cpu = small(ev->value);
		sw->next = small(ev->task);
		break;
	case TE_GOT_CPU:
		sw->got_cpu = small(ev->value);
		sw->before = small(ev->task);
		break;
	case TE_WOKEN:
		sw->woken_ns = ev->value < ev->time ? ev->time - ev->value : 0;
		sw->waker = small(ev->task);
		break;
	default: /* the length only, until its end is known */
		if (sw->n_ran == TL_MAX_RAN)
			memmove(sw->ran, sw->ran + 1, --sw->n_ran * sizeof(*sw->ran));
		sw->ran[sw->n_ran++] = (struct tl_ran_instead){small(ev->task), 0, ev->value};
	}
}

/* What was reported of the stretch that ends now. */
static const struct tl_switch *settle_switch(struct thread *th, uint64_t begin_ns, uint64_t end_ns)
{
	struct tl_switch *sw = th->switched;
	uint64_t end = end_ns;

	if (!th->switch_known)
		return NULL;
	th->switch_known = false;
	for (uint32_t i = sw->n_ran; i--;) {
		struct tl_ran_instead *ran = &sw->ran[i];
		uint64_t length = ran->end_ns;

		ran->end_ns = end;
		ran->begin_ns = length < end - begin_ns ? end - length : begin_ns;
		end = ran->begin_ns;
	}
	if (sw->woken_ns && (sw->woken_ns < begin_ns || sw->woken_ns > end_ns))
		sw->woken_ns = begin_ns;
	return sw;
}

void aux_off_cpu(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	struct around a = look(tl, th, ev->time);
	struct tl_off_cpu off = {
		.task = task_of(&a),
		.thread = th->tl.thread,
		.depth = a.depth,
		.reason = ev->arg < TX_N ? ev->arg : TX_OTHER,
		.syscall = ev->task <= UINT16_MAX ? (uint32_t)ev->task : 0,
		.begin_ns = begin_of(tl, &a, ev->time, ev->value),
		.end_ns = ev->time,
		.round = a.round,
	};
	off.how = settle_switch(th, off.begin_ns, off.end_ns);
	if (ev->arg >= TX_N)
		tl->n_inconsistent++;
	EMIT(tl, off_cpu, &off);
}

void aux_sample(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	if (ev->arg >= TM_N) {
		tl->n_inconsistent++;
		return;
	}
	struct around a = look(tl, th, ev->time);
	struct tl_sample sample = {
		.task = task_of(&a),
		.thread = th->tl.thread,
		.depth = a.depth,
		.type = ev->arg,
		.time_ns = ev->time,
		.weight = ev->arg == TM_PANIC ? 1 : ev->task,
		.message = ev->arg == TM_PANIC && ev->task <= UINT32_MAX ? ev->task : 0,
		.stack = ev->value <= UINT32_MAX ? ev->value : 0,
		.poll_ns = a.begin_ns,
		.round = a.round,
	};
	EMIT(tl, sample, &sample);
}

void aux_lost(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	uint64_t before = th->seen_aux ? th->aux_ns : ev->time;
	look(tl, th, ev->time);
	tl->n_lost_aux += ev->value;
	struct tl_loss loss = {
		.thread = th->tl.thread,
		.aux = true,
		.begin_ns = before < ev->time ? before : ev->time,
		.end_ns = ev->time,
		.n_events = ev->value,
	};
	EMIT(tl, loss, &loss);
}

/* ---- machines ---- */

/* By its address: the task that it had last. */
struct std_machine {
	struct kind *kind; /* NULL: none yet */
	uint64_t name;
};

static struct std_machine *machine_at(struct timeline *tl, uint64_t addr)
{
	struct std_machine *m = map_get(&tl->machines, addr, 0);
	if (m || tl->machines.n >= MAX_MACHINES)
		return m;
	m = pool_get(&tl->machine_pool);
	if (!m || map_put(&tl->machines, addr, 0, m) < 0) {
		timeline_fail(tl, -ENOMEM);
		return NULL;
	}
	return m;
}

void aux_machine(struct timeline *tl, struct thread *th, const struct trace_event *ev)
{
	if (ev->arg >= TC_N) {
		tl->n_inconsistent++;
		return;
	}
	look(tl, th, ev->time);
	struct std_machine *m = machine_at(tl, ev->value);
	if (!m) {
		tl->n_inconsistent++;
		return;
	}
	struct kind *k = ev->kind != TRACE_KIND_NONE ? timeline_kind(tl, ev->kind) : NULL;
	bool of_task = k && k->role != TR_ROOT && k->role != TR_FUTURE;
	if (of_task) {
		m->kind = k;
		m->name = ev->task;
	}
	struct task *task = m->kind ? task_find(tl, m->kind, m->name) : NULL;
	if (!task && of_task)
		task = task_new(tl, k, ev->task, th, ev->time, TASK_OF_ANY_SPAWN);
	struct tl_machine machine = {
		.type = ev->arg,
		.machine = ev->value,
		.task = task ? &task->tl : NULL,
		.thread = th->tl.thread,
		.time_ns = ev->time,
	};
	EMIT(tl, machine, &machine);
}

void aux_init(struct timeline *tl)
{
	pool_init(&tl->machine_pool, sizeof(struct std_machine));
}
