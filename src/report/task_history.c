/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A task's life, step by step: what `report --task` prints besides the sums. Steps are kept as they
 * come and sorted by their begins at the end, since a poll comes when it ends, after the wakes in
 * it. A life of very many steps keeps the first and the last ones.
 */
#include "report/data.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "trace/objects.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_LIVES 16u
#define MAX_STEPS 200u /* of a life: half from its begin, half up to its end */

static struct life *life_of(struct report *rep, const struct tl_task *task)
{
	for (size_t i = rep->n_lives; i-- > 0;)
		if (rep->lives[i].serial == task->serial)
			return &rep->lives[i];
	return NULL;
}

static int add_step(struct report *rep, const struct tl_task *task, const struct history_step *step)
{
	struct life *l = rep->opt.filter.tasks ? life_of(rep, task) : NULL;
	if (!l)
		return 0;
	if (l->n_steps == MAX_STEPS) {
		/* The oldest of the second half makes room; they are sorted in the end. */
		size_t half = MAX_STEPS / 2;
		l->steps[half + l->n_untold++ % half] = *step;
		return 0;
	}
	if (!GROW(l->steps, l->n_steps, l->cap_steps))
		return -ENOMEM;
	l->steps[l->n_steps++] = *step;
	return 0;
}

int life_task(struct report *rep, const struct tl_task *task, bool ends)
{
	struct history_step step = {.thread = UINT32_MAX};
	if (!rep->opt.filter.tasks)
		return 0;
	if (ends) {
		step.type = ST_END;
		step.detail = (uint8_t)task->outcome;
		step.begin_ns = step.end_ns = task->end_ns;
		return task->end_ns ? add_step(rep, task, &step) : 0;
	}
	if (rep->n_lives == MAX_LIVES) {
		rep->n_untold_lives++;
		return 0;
	}
	if (!GROW_ONE(rep->lives, rep->n_lives))
		return -ENOMEM;
	rep->lives[rep->n_lives++] = (struct life){
		.serial = task->serial, .number = task->number, .id = task->id, .kind = task->kind};
	if (!task->spawn_seen)
		return 0;
	step.type = ST_SPAWN;
	step.begin_ns = step.end_ns = task->spawn_ns;
	step.thread = task->spawn_thread;
	step.source = task->parent ? task->parent_number : 0;
	return add_step(rep, task, &step);
}

int life_poll(struct report *rep, const struct tl_poll *poll)
{
	const struct history_step step = {.type = ST_POLL,
					  .begin_ns = poll->begin_ns,
					  .end_ns = poll->end_ns,
					  .place = poll->place,
					  .blocked_ns = poll->blocked_ns,
					  .thread = poll->thread,
					  .detail = (uint8_t)poll->outcome,
					  .inferred = poll->inferred,
					  .unmeasured = !tl_poll_measured(poll)};
	return add_step(rep, poll->task, &step);
}

int life_future(struct report *rep, const struct tl_future_poll *poll)
{
	const struct history_step step = {.type = ST_FUTURE,
					  .begin_ns = poll->begin_ns,
					  .end_ns = poll->end_ns,
					  .place = poll->place,
					  .waited_ns = poll->waited_ns,
					  .future = poll->future->serial,
					  .source_kind = poll->future->kind,
					  .depth = poll->depth,
					  .thread = poll->thread,
					  .detail = (uint8_t)poll->outcome,
					  .unmeasured = !poll->end_seen};
	return poll->task ? add_step(rep, poll->task, &step) : 0;
}

int life_wait(struct report *rep, const struct tl_wait *wait)
{
	const struct history_step step = {.type = ST_WAIT,
					  .begin_ns = wait->begin_ns,
					  .end_ns = wait->end_ns,
					  .place = wait->place,
					  .thread = UINT32_MAX,
					  .detail = (uint8_t)wait->state};
	return add_step(rep, wait->task, &step);
}

int life_wake(struct report *rep, const struct tl_wake *wake)
{
	const struct tl_task *by = wake->source_task;
	const struct history_step step = {.type = ST_WAKE,
					  .begin_ns = wake->time_ns,
					  .end_ns = wake->time_ns,
					  .source = by ? by->number : 0,
					  .source_kind = by ? by->kind : TRACE_KIND_NONE,
					  .thread = wake->thread,
					  .detail = (uint8_t)wake->effect,
					  .by_waker = wake->by_waker,
					  .self = by == wake->task};
	return add_step(rep, wake->task, &step);
}

static int compare_steps(const void *a, const void *b)
{
	const struct history_step *x = a, *y = b;
	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	/* An instant comes before what begins at the same time, except for the end. */
	bool last = x->type == ST_END, other_last = y->type == ST_END;
	if (last != other_last)
		return last ? 1 : -1;
	/* Outer before inner. */
	bool polls = x->type == ST_POLL || x->type == ST_FUTURE;
	if (polls && (y->type == ST_POLL || y->type == ST_FUTURE)) {
		unsigned p = x->type == ST_FUTURE ? x->depth + 1 : 0;
		unsigned q = y->type == ST_FUTURE ? y->depth + 1 : 0;
		if (p != q)
			return p < q ? -1 : 1;
	}
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return (int)x->type - (int)y->type;
}

void lives_sort(struct report *rep)
{
	for (size_t i = 0; i < rep->n_lives; i++)
		if (rep->lives[i].n_steps)
			qsort(rep->lives[i].steps, rep->lives[i].n_steps,
			      sizeof(*rep->lives[i].steps), compare_steps);
}

void lives_done(struct report *rep)
{
	for (size_t i = 0; i < rep->n_lives; i++)
		free(rep->lives[i].steps);
	free(rep->lives);
}

/* ---- for people ---- */

static void on_thread(const struct report *rep, struct buf *out, uint32_t thread)
{
	const struct trace_thread *t = trace_reader_thread(rep->reader, thread);
	if (!t)
		return;
	buf_str(out, " on ");
	text_safe(out, t->name && *t->name ? t->name : "thread");
	buf_printf(out, "/%u", t->tid);
}

static void at_place(const struct report *rep, struct buf *out, uint64_t place)
{
	const struct trace_place *p = report_place(rep, place);
	if (!p)
		return;
	buf_str(out, " at ");
	trace_place_text(out, p);
	if (p->awaits && *p->awaits) {
		buf_str(out, ", for ");
		text_safe(out, p->awaits);
	}
}

static void write_wake(const struct report *rep, struct buf *out, const struct history_step *s)
{
	buf_str(out, s->by_waker ? "woken" : "scheduled");
	if (s->self)
		buf_str(out, " by itself");
	else if (s->source_kind != TRACE_KIND_NONE) {
		buf_printf(out, " by task %llu ", (unsigned long long)s->source);
		text_safe(out, report_label(rep, s->source_kind));
	}
	on_thread(rep, out, s->thread);
	if (s->by_waker && s->detail == TW_NOOP)
		buf_str(out, ", already scheduled");
	else if (s->by_waker && s->detail == TW_RUNNING)
		buf_str(out, ", while polled");
}

/* How long a poll took. */
static void write_length(struct buf *out, const struct history_step *s)
{
	if (s->unmeasured)
		buf_str(out, "an unknown time");
	else
		text_duration(out, s->end_ns - s->begin_ns);
}

static void write_step(const struct report *rep, struct buf *out, const struct history_step *s)
{
	switch (s->type) {
	case ST_SPAWN:
		buf_str(out, "spawned");
		if (s->source)
			buf_printf(out, " by task %llu", (unsigned long long)s->source);
		on_thread(rep, out, s->thread);
		break;
	case ST_POLL:
		buf_str(out, "polled for ");
		write_length(out, s);
		on_thread(rep, out, s->thread);
		if (s->blocked_ns) {
			buf_str(out, ", ");
			text_duration(out, s->blocked_ns);
			buf_str(out, " of it blocked");
		}
		buf_printf(out, ": %s", trace_outcome_name(s->detail));
		if (s->inferred)
			buf_str(out, " (inferred)");
		break;
	case ST_WAIT:
		buf_str(out, s->detail == TS_WAITING	 ? "waited for "
			     : s->detail == TS_SCHEDULED ? "was ready for "
							 : "state not known for ");
		text_duration(out, s->end_ns - s->begin_ns);
		if (s->detail == TS_WAITING)
			at_place(rep, out, s->place);
		break;
	case ST_WAKE:
		write_wake(rep, out, s);
		break;
	case ST_END:
		buf_printf(out, "ended: %s", trace_outcome_name(s->detail));
		break;
	case ST_FUTURE:
		buf_printf(out, "%*s", (int)(2 * (s->depth < 16 ? s->depth : 16) + 2), "");
		text_safe(out, report_label(rep, s->source_kind));
		buf_str(out, " for ");
		write_length(out, s);
		buf_printf(out, ": %s", trace_outcome_name(s->detail));
		at_place(rep, out, s->place);
		if (s->waited_ns) {
			buf_str(out, " (had waited ");
			text_duration(out, s->waited_ns);
			buf_char(out, ')');
		}
		break;
	}
}

/* Each library's runtime numbers its own tasks, and so does each process; a block_on's number is none
 * of a runtime's. */
static void write_which(const struct report *rep, struct buf *out, const struct life *l)
{
	const struct trace_kind *k = trace_reader_kind(rep->reader, l->kind);
	_cleanup_free_ char *place = NULL;
	size_t n = 0, which = 0;

	for (size_t i = 0; i < rep->n_lives; i++) {
		n += rep->lives[i].number == l->number;
		if (&rep->lives[i] == l)
			which = n;
	}
	if (n < 2)
		return;
	buf_printf(out, " (%zu of %zu of this number", which, n);
	if (k && trace_has_objects(rep->reader, k->process) && *trace_kind_object(rep->reader, k))
		place = trace_object_label(rep->reader, trace_kind_object(rep->reader, k));
	else if (k && trace_reader_n_processes(rep->reader) > 1)
		place = trace_process_label(rep->reader, k->process);
	if (place) {
		buf_str(out, ", in ");
		text_safe(out, place);
	}
	buf_char(out, ')');
}

void lives_text(const struct report *rep, struct buf *out)
{
	for (size_t i = 0; i < rep->n_lives; i++) {
		const struct life *l = &rep->lives[i];
		buf_str(out, rep->opt.color ? "\n\x1b[1m" : "\n");
		buf_printf(out, "Life of task %llu", (unsigned long long)l->number);
		write_which(rep, out, l);
		buf_str(out, ", ");
		text_safe(out, report_label(rep, l->kind));
		buf_str(out, rep->opt.color ? "\x1b[0m\n" : "\n");
		for (size_t k = 0; k < l->n_steps; k++) {
			if (l->n_untold && k == MAX_STEPS / 2)
				buf_printf(out,
					   "  … %zu steps are not shown: --from and --to "
					   "tell of a part\n",
					   l->n_untold);
			uint64_t at = l->steps[k].begin_ns;
			at = at > rep->base_ns ? at - rep->base_ns : 0;
			buf_printf(out, "  %3llu.%06llu s  ",
				   (unsigned long long)(at / NSEC_PER_SEC),
				   (unsigned long long)(at / 1000 % 1000000));
			write_step(rep, out, &l->steps[k]);
			buf_char(out, '\n');
		}
	}
	if (rep->n_untold_lives)
		buf_printf(out, "\n… and %zu more tasks of these numbers\n", rep->n_untold_lives);
}

/* ---- for programs ---- */

static void step_json(const struct report *rep, struct json *j, const struct history_step *s)
{
	static const char *const types[] = {"spawn", "poll", "wait", "wake", "end", "future"};
	static const char *const states[] = {"unknown", "scheduled", "polling", "waiting", "done"};
	const struct trace_thread *t = trace_reader_thread(rep->reader, s->thread);
	const struct trace_place *p = report_place(rep, s->place);

	json_object(j, NULL);
	json_string(j, "step", s->type == ST_WAKE && !s->by_waker ? "schedule" : types[s->type]);
	json_u64(j, "begin_ns", s->begin_ns > rep->base_ns ? s->begin_ns - rep->base_ns : 0);
	if (s->unmeasured)
		json_string(j, "duration_ns", NULL);
	else
		json_u64(j, "duration_ns", s->end_ns - s->begin_ns);
	if (s->type == ST_POLL || s->type == ST_END || s->type == ST_FUTURE)
		json_string(j, "outcome", trace_outcome_name(s->detail));
	if (s->type == ST_FUTURE) {
		json_string(j, "future", report_label(rep, s->source_kind));
		json_u64(j, "instance", s->future);
		json_u64(j, "depth", s->depth);
		json_u64(j, "waited_ns", s->waited_ns);
	}
	if (s->type == ST_POLL)
		json_u64(j, "blocked_ns", s->blocked_ns);
	if (s->type == ST_WAIT)
		json_string(j, "state", s->detail <= TS_DONE ? states[s->detail] : "?");
	if (s->type == ST_WAKE)
		json_string(j, "effect", trace_wake_name(s->detail));
	if (s->source)
		json_u64(j, "by_task", s->source);
	if (t)
		json_u64(j, "tid", t->tid);
	if (p) {
		json_string(j, "function", p->function);
		json_string(j, "file", p->file);
		json_u64(j, "line", p->line);
		json_string(j, "awaits", p->awaits);
	}
	json_end_object(j);
}

void lives_json(const struct report *rep, struct json *j)
{
	json_array(j, "lives");
	for (size_t i = 0; i < rep->n_lives; i++) {
		const struct life *l = &rep->lives[i];
		const struct trace_kind *meta = trace_reader_kind(rep->reader, l->kind);

		json_object(j, NULL);
		json_u64(j, "task", l->number);
		json_u64(j, "id", l->id);
		json_string(j, "family", report_label(rep, l->kind));
		json_u64(j, "process", meta ? meta->process : 0);
		json_string(j, "object", trace_kind_object(rep->reader, meta));
		json_u64(j, "omitted_steps", l->n_untold);
		json_array(j, "steps");
		for (size_t k = 0; k < l->n_steps; k++)
			step_json(rep, j, &l->steps[k]);
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
}
