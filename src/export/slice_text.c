/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names and fields of slices (slice_text.h). */
#include "export/slice_text.h"

#include <string.h>

const struct note_type note_types[NOTE_N] = {
	[NOTE_TASK] = {"task", "task"},
	[NOTE_FAMILY] = {"family", "family", .text = true},
	[NOTE_PARENT] = {"spawned_by", "spawned by task"},
	[NOTE_OUTCOME] = {"outcome", "outcome", .text = true},
	[NOTE_BEGIN] = {"begin", "begin", .text = true},
	[NOTE_END] = {"end", "end", .text = true},
	[NOTE_THREAD] = {"tid", "thread"},
	[NOTE_BLOCKED] = {"blocked_ns", "blocked", .ns = true},
	[NOTE_PLACE] = {"place", "at", .text = true},
	[NOTE_AWAITS] = {"awaits", "for", .text = true},
	[NOTE_HANDLER] = {"handler", "handler", .text = true},
	[NOTE_POLLS] = {"polls", "polls"},
	[NOTE_WAKES] = {"wakes", "wakes"},
	[NOTE_POLLED] = {"polled_ns", "polled", .ns = true},
	[NOTE_WAITING] = {"waiting_ns", "waiting", .ns = true},
	[NOTE_SCHEDULED] = {"scheduled_ns", "scheduled", .ns = true},
	[NOTE_INSTANCE] = {"instance", "instance"},
	[NOTE_SELF] = {"self_ns", "self", .ns = true},
	[NOTE_WAITED] = {"waited_ns", "waited before", .ns = true},
	[NOTE_RESULT] = {"result", "result"},
	[NOTE_STACK] = {"stack", "stack", .text = true},
	[NOTE_FUTURE] = {"future", "future", .text = true},
	[NOTE_TEXT] = {"text", "finding", .text = true},
	[NOTE_ADVICE] = {"advice", "advice", .text = true},
};

const char *slice_category(enum draw_type type)
{
	static const char *const names[] = {
		[DRAW_TASK] = "task",
		[DRAW_REQUEST] = "request",
		[DRAW_POLL] = "poll",
		[DRAW_WAIT] = "wait",
		[DRAW_WAKE] = "wake",
		[DRAW_BLOCK] = "block",
		[DRAW_SECTION] = "block",
		[DRAW_PARK] = "park",
		[DRAW_LOSS] = "loss",
		[DRAW_SYSCALL] = "syscall",
		[DRAW_OFF_CPU] = "sched",
		[DRAW_FUTURE_POLL] = "future",
		[DRAW_INSTANCE] = "future",
		[DRAW_INSTANCE_POLL] = "future",
		[DRAW_INSTANCE_WAIT] = "future",
		[DRAW_STACK] = "stack",
		[DRAW_FINDING] = "finding",
	};

	return names[type];
}

/* What a poll is named by: on its thread's lane what is polled, on its task's how it ends. */
static const char *poll_end(const struct draw_slice *s)
{
	if (s->open)
		return "poll";
	switch (s->poll->outcome) {
	case TO_PANICKED:
		return "poll: panicked";
	case TO_CANCELLED:
		return "poll: cancelled";
	case TO_PENDING:
	case TO_READY:
		return "poll";
	default:
		return "poll: end not seen";
	}
}

/* Whether it has a place that is known is not asked here: `place` decides, and what has none has 0. */
static uint64_t detail(const struct draw_slice *s)
{
	switch (s->type) {
	case DRAW_TASK:
		return s->family->index;
	case DRAW_REQUEST:
		return s->request->round.kind;
	case DRAW_POLL:
		if (s->on_task)
			return s->open ? TO_N : s->poll->outcome;
		return s->poll->round.serial ? (1ull << 40) + s->poll->round.kind
					     : s->family->index;
	case DRAW_WAIT:
		return (uint64_t)s->wait->state << 56 |
		       (s->wait->state == TS_WAITING ? s->wait->place & 0xffffffffffffff : 0);
	case DRAW_BLOCK:
		return s->block->call | (s->block->nonblocking ? 1u << 16 : 0);
	case DRAW_PARK:
		return s->park->call;
	case DRAW_SYSCALL:
		return s->syscall->number;
	case DRAW_OFF_CPU:
		return (uint64_t)s->off_cpu->reason << 32 | s->off_cpu->syscall;
	case DRAW_FUTURE_POLL:
		return s->future_poll->future->kind;
	case DRAW_INSTANCE:
		return s->future->kind;
	case DRAW_STACK:
		return (uint64_t)(uintptr_t)s->frame;
	case DRAW_FINDING:
		return (uint64_t)(uintptr_t)s->finding;
	default:
		return 0;
	}
}

struct slice_key slice_key(const struct draw_slice *s)
{
	return (struct slice_key){(uint64_t)s->type << 1 | s->on_task, detail(s)};
}

void slice_name(struct draw *d, const struct draw_slice *s, struct buf *out)
{
	const struct place_text *place;

	switch (s->type) {
	case DRAW_TASK:
		buf_str(out, s->family->short_name);
		break;
	case DRAW_REQUEST:
		buf_str(out, short_name(&d->names, s->request->round.kind));
		break;
	case DRAW_POLL:
		if (s->on_task)
			buf_str(out, poll_end(s));
		else if (s->poll->round.serial)
			buf_str(out, short_name(&d->names, s->poll->round.kind));
		else
			buf_str(out, s->family->short_name);
		break;
	case DRAW_WAIT:
		place = s->wait->state == TS_WAITING ? draw_place(d, s->wait->place) : NULL;
		buf_str(out, place			      ? place->name
			     : s->wait->state == TS_WAITING   ? "waiting"
			     : s->wait->state == TS_SCHEDULED ? "scheduled"
							      : "not known");
		break;
	case DRAW_WAKE:
		buf_str(out, "wake");
		break;
	case DRAW_BLOCK:
		buf_printf(out, "%s %s", s->block->nonblocking ? "in" : "blocked in",
			   trace_call_name(s->block->call));
		break;
	case DRAW_SECTION:
		buf_str(out, "block_in_place");
		break;
	case DRAW_PARK:
		buf_printf(out, "parked in %s", trace_call_name(s->park->call));
		break;
	case DRAW_LOSS:
		buf_str(out, "events lost");
		break;
	case DRAW_SYSCALL:
		draw_syscall_name(out, s->syscall->number);
		break;
	case DRAW_OFF_CPU:
		draw_off_cpu_name(out, s->off_cpu);
		break;
	case DRAW_FUTURE_POLL:
		buf_str(out, short_name(&d->names, s->future_poll->future->kind));
		break;
	case DRAW_INSTANCE:
		buf_str(out, short_name(&d->names, s->future->kind));
		break;
	case DRAW_INSTANCE_POLL:
		buf_str(out, "poll");
		break;
	case DRAW_INSTANCE_WAIT:
		buf_str(out, "waiting");
		break;
	case DRAW_STACK:
		trace_frame_name(out, s->frame);
		break;
	case DRAW_FINDING:
		buf_str(out, s->finding->title);
		break;
	case DRAW_N_TYPES:
		break;
	}
}

struct notes {
	struct slice_note *notes;
	unsigned n;
};

static void number(struct notes *n, enum note_key key, uint64_t v)
{
	n->notes[n->n++] = (struct slice_note){.key = key, .number = v};
}

static void text(struct notes *n, enum note_key key, const char *v)
{
	n->notes[n->n++] = (struct slice_note){.key = key, .text = v};
}

static void task_notes(struct notes *n, const struct tl_task *task)
{
	number(n, NOTE_TASK, task->number);
	if (task->parent)
		number(n, NOTE_PARENT, task->parent_number);
	if (!task->spawn_seen)
		text(n, NOTE_BEGIN, "spawn not seen");
	text(n, NOTE_END, task->end_ns ? trace_outcome_name(task->outcome) : "alive");
	number(n, NOTE_POLLS, task->n_polls);
	number(n, NOTE_WAKES, task->n_wakes);
	number(n, NOTE_POLLED, task->poll_ns);
	number(n, NOTE_WAITING, task->wait_ns);
	number(n, NOTE_SCHEDULED, task->sched_ns);
}

static void poll_notes(struct draw *d, struct notes *n, const struct draw_slice *s)
{
	const struct tl_poll *poll = s->poll;
	const struct trace_thread *tt = trace_reader_thread(d->reader, poll->thread);

	number(n, NOTE_TASK, poll->task->number);
	if (!s->on_task && poll->round.serial)
		text(n, NOTE_FAMILY, s->family->short_name);
	text(n, NOTE_OUTCOME, trace_outcome_name(poll->outcome));
	if (!poll->begin_seen)
		text(n, NOTE_BEGIN, "not seen");
	if (!poll->end_seen)
		text(n, NOTE_END, "not seen");
	if (s->on_task && tt)
		number(n, NOTE_THREAD, tt->tid);
	if (poll->n_blocks)
		number(n, NOTE_BLOCKED, poll->blocked_ns);
	if (poll->scheduled_ns && poll->scheduled_ns <= poll->begin_ns)
		number(n, NOTE_SCHEDULED, poll->begin_ns - poll->scheduled_ns);
}

static void place_notes(struct draw *d, struct notes *n, uint64_t place)
{
	const struct place_text *p = draw_place(d, place);

	if (!p)
		return;
	text(n, NOTE_PLACE, p->at);
	text(n, NOTE_AWAITS, p->awaits);
}

/* What a slice's name leaves out. */
static void full_name(struct draw *d, struct notes *n, uint32_t kind)
{
	const char *full = kind_label(&d->sel.labels, d->reader, kind);

	if (strcmp(full, short_name(&d->names, kind)))
		text(n, NOTE_FUTURE, full);
}

static void future_notes(struct draw *d, struct notes *n, const struct tl_future *future)
{
	number(n, NOTE_INSTANCE, future->serial);
	full_name(d, n, future->kind);
	if (future->task)
		number(n, NOTE_TASK, future->task->number);
	text(n, NOTE_END, draw_future_end(future));
	number(n, NOTE_POLLS, future->n_polls);
	number(n, NOTE_POLLED, future->poll_ns);
	number(n, NOTE_SELF, future->self_ns);
	number(n, NOTE_WAITING, future->wait_ns);
}

unsigned slice_notes(struct draw *d, const struct draw_slice *s,
		     struct slice_note ret[SLICE_MAX_NOTES])
{
	struct notes n = {.notes = ret};

	switch (s->type) {
	case DRAW_TASK:
		task_notes(&n, s->task);
		break;
	case DRAW_REQUEST:
		text(&n, NOTE_HANDLER,
		     kind_label(&d->sel.labels, d->reader, s->request->round.kind));
		number(&n, NOTE_POLLS, s->request->n_polls);
		break;
	case DRAW_POLL:
		poll_notes(d, &n, s);
		break;
	case DRAW_WAIT:
		if (s->wait->state == TS_WAITING)
			place_notes(d, &n, s->wait->place);
		break;
	case DRAW_SYSCALL:
		number(&n, NOTE_RESULT, (uint64_t)s->syscall->result);
		break;
	case DRAW_FUTURE_POLL:
		number(&n, NOTE_INSTANCE, s->future_poll->future->serial);
		full_name(d, &n, s->future_poll->future->kind);
		text(&n, NOTE_OUTCOME, trace_outcome_name(s->future_poll->outcome));
		place_notes(d, &n, s->future_poll->place);
		number(&n, NOTE_SELF, s->future_poll->self_ns);
		if (s->future_poll->waited_ns)
			number(&n, NOTE_WAITED, s->future_poll->waited_ns);
		break;
	case DRAW_FINDING:
		text(&n, NOTE_TEXT, s->finding->text);
		if (s->finding->advice)
			text(&n, NOTE_ADVICE, s->finding->advice);
		break;
	case DRAW_INSTANCE:
		future_notes(d, &n, s->future);
		break;
	default:
		break;
	}
	return n.n;
}
