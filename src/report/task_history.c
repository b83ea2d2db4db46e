/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A task's life, step by step: what `report --task` prints besides the sums. Steps are kept as they
 * come and sorted by their begins at the end, since a poll comes when it ends, after the wakes in
 * it. A life of very many steps keeps the first and the last ones.
 */
#include "base/compare.h"
#include "report/data.h"
#include "report/text_util.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "base/vec.h"
#include "trace/objects.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_LIVES 16u
#define MAX_STEPS 200u	  /* of a life: half from its begin, half up to its end */
#define MAX_REQUESTS 200u /* the same */

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
		l->steps[half + l->n_omitted++ % half] = *step;
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
		rep->n_omitted_lives++;
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

/* ---- requests ---- */

/* The one of that round, made when new; NULL: none is wanted, or (*ret_failed) out of memory. */
static struct request *request_of(struct report *rep, const struct tl_task *task,
				  const struct tl_round *round, bool *ret_failed)
{
	const size_t half = MAX_REQUESTS / 2;
	struct life *l = rep->opt.filter.tasks && round->serial ? life_of(rep, task) : NULL;
	struct request *q;

	if (!l || rep->opt.by == RY_TASK)
		return NULL;
	for (size_t i = l->n_requests; i-- > 0;)
		if (l->requests[i].serial == round->serial)
			return &l->requests[i];
	if (l->n_requests == MAX_REQUESTS) {
		q = &l->requests[half + l->n_omitted_requests++ % half];
		free(q->waits);
	} else if (GROW(l->requests, l->n_requests, l->cap_requests)) {
		q = &l->requests[l->n_requests++];
	} else {
		*ret_failed = true;
		return NULL;
	}
	*q = (struct request){.serial = round->serial, .handler = round->kind};
	return q;
}

static int request_poll(struct report *rep, const struct tl_poll *poll)
{
	bool failed = false;
	struct request *q = request_of(rep, poll->task, &poll->round, &failed);

	if (!q)
		return failed ? -ENOMEM : 0;
	q->n_polls++;
	q->poll_ns += tl_poll_measured(poll) ? poll->end_ns - poll->begin_ns : 0;
	q->blocked_ns += poll->blocked_ns;
	return 0;
}

static int request_wait(struct report *rep, const struct tl_wait *wait)
{
	uint64_t ns = wait->end_ns - wait->begin_ns;
	bool failed = false;
	struct request *q = wait->state == TS_WAITING
				    ? request_of(rep, wait->task, &wait->round, &failed)
				    : NULL;

	for (size_t i = 0; q && i < q->n_waits; i++) {
		if (q->waits[i].place != wait->place)
			continue;
		q->waits[i].n++;
		q->waits[i].ns += ns;
		return 0;
	}
	if (!q)
		return failed ? -ENOMEM : 0;
	if (!GROW_ONE(q->waits, q->n_waits))
		return -ENOMEM;
	q->waits[q->n_waits++] = (struct request_wait){.place = wait->place, .n = 1, .ns = ns};
	return 0;
}

static int longer_wait(const void *a, const void *b)
{
	const struct request_wait *x = a, *y = b;

	return DESCENDING(x->ns, y->ns) ?: ASCENDING(x->place, y->place);
}

/* Its last poll is reported after it. */
int life_request(struct report *rep, const struct tl_future *future)
{
	bool failed = false;
	struct request *q = future->task && tl_is_round(future)
				    ? request_of(rep, future->task, &future->round, &failed)
				    : NULL;

	if (!q)
		return failed ? -ENOMEM : 0;
	q->begin_ns = future->begin_ns;
	q->end_ns = future->end_ns ? future->end_ns : rep->totals.last_ns;
	q->outcome = (uint8_t)future->outcome;
	return 0;
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
	TRY(request_poll(rep, poll));
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
	TRY(request_wait(rep, wait));
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
	bool polls = x->type == ST_POLL || x->type == ST_FUTURE;
	bool both = polls && (y->type == ST_POLL || y->type == ST_FUTURE);
	/* Outer before inner. */
	unsigned p = both && x->type == ST_FUTURE ? x->depth + 1 : 0;
	unsigned q = both && y->type == ST_FUTURE ? y->depth + 1 : 0;

	/* An instant comes before what begins at the same time, except for the end. */
	return ASCENDING(x->begin_ns, y->begin_ns) ?:
	       ASCENDING(x->type == ST_END, y->type == ST_END) ?: ASCENDING(p, q) ?:
	       ASCENDING(x->end_ns, y->end_ns) ?: ASCENDING(x->type, y->type);
}

static int compare_requests(const void *a, const void *b)
{
	const struct request *x = a, *y = b;

	return ASCENDING(x->begin_ns, y->begin_ns) ?: ASCENDING(x->serial, y->serial);
}

void lives_sort(struct report *rep)
{
	for (size_t i = 0; i < rep->n_lives; i++) {
		struct life *l = &rep->lives[i];

		if (l->n_steps)
			qsort(l->steps, l->n_steps, sizeof(*l->steps), compare_steps);
		if (l->n_requests)
			qsort(l->requests, l->n_requests, sizeof(*l->requests), compare_requests);
		for (size_t k = 0; k < l->n_requests; k++)
			if (l->requests[k].n_waits)
				qsort(l->requests[k].waits, l->requests[k].n_waits,
				      sizeof(*l->requests[k].waits), longer_wait);
	}
}

void lives_done(struct report *rep)
{
	for (size_t i = 0; i < rep->n_lives; i++) {
		for (size_t k = 0; k < rep->lives[i].n_requests; k++)
			free(rep->lives[i].requests[k].waits);
		free(rep->lives[i].requests);
		free(rep->lives[i].steps);
	}
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
		text_safe(out, report_family(rep, s->source_kind));
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

static void write_requests(const struct report *rep, struct buf *out, const struct life *l)
{
	static const struct table_column columns[] = {
		{.title = "at"},
		{.title = "handler", .min_width = 16, .align_left = true},
		{.title = "took"},
		{.title = "polls"},
		{.title = "poll time", .rank = 2},
		{.title = "blocked", .rank = 3},
		{.title = "end", .rank = 4, .align_left = true},
		{.title = "waited",
		 .rank = 1,
		 .min_width = 24,
		 .align_left = true,
		 .cut_end = true},
	};
	struct table t;

	if (!l->n_requests)
		return;
	buf_str(out, "\n  Requests that it served\n");
	table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < l->n_requests; i++) {
		const struct request *q = &l->requests[i];
		_cleanup_buf_ struct buf waits = BUF_INIT;

		for (size_t k = 0; k < q->n_waits; k++) {
			const struct request_wait *w = &q->waits[k];

			buf_str(&waits, k ? "; " : "");
			text_duration(&waits, w->ns);
			if (w->n > 1)
				buf_printf(&waits, " in %llu waits", (unsigned long long)w->n);
			at_place(rep, &waits, w->place);
		}
		cell_time(&t, q->begin_ns > rep->base_ns ? q->begin_ns - rep->base_ns : 0);
		cell_safe(&t, report_label(rep, q->handler));
		cell_time(&t, q->end_ns > q->begin_ns ? q->end_ns - q->begin_ns : 0);
		cell_count(&t, q->n_polls);
		cell_time(&t, q->poll_ns);
		cell_time(&t, q->blocked_ns);
		table_cell(&t, q->outcome == TO_PENDING ? "in progress"
							: trace_outcome_name(q->outcome));
		table_cell(&t, waits.data ? waits.data : "");
	}
	report_table(rep, &t, out);
	if (l->n_omitted_requests)
		buf_printf(out, "  … %zu requests are not shown: --from and --to show a part\n",
			   l->n_omitted_requests);
	buf_char(out, '\n');
}

void lives_text(const struct report *rep, struct buf *out)
{
	for (size_t i = 0; i < rep->n_lives; i++) {
		const struct life *l = &rep->lives[i];
		buf_str(out, rep->opt.color ? "\n\x1b[1m" : "\n");
		buf_printf(out, "Life of task %llu", (unsigned long long)l->number);
		write_which(rep, out, l);
		buf_str(out, ", ");
		text_safe(out, report_family(rep, l->kind));
		buf_str(out, rep->opt.color ? "\x1b[0m\n" : "\n");
		write_requests(rep, out, l);
		for (size_t k = 0; k < l->n_steps; k++) {
			if (l->n_omitted && k == MAX_STEPS / 2)
				buf_printf(out,
					   "  … %zu steps are not shown: --from and --to "
					   "show a part\n",
					   l->n_omitted);
			uint64_t at = l->steps[k].begin_ns;
			at = at > rep->base_ns ? at - rep->base_ns : 0;
			buf_printf(out, "  %3llu.%06llu s  ",
				   (unsigned long long)(at / NSEC_PER_SEC),
				   (unsigned long long)(at / 1000 % 1000000));
			write_step(rep, out, &l->steps[k]);
			buf_char(out, '\n');
		}
	}
	if (rep->n_omitted_lives)
		buf_printf(out, "\n… and %zu more tasks of these numbers\n", rep->n_omitted_lives);
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

static void requests_json(const struct report *rep, struct json *j, const struct life *l)
{
	json_u64(j, "omitted_requests", l->n_omitted_requests);
	json_array(j, "requests");
	for (size_t i = 0; i < l->n_requests; i++) {
		const struct request *q = &l->requests[i];

		json_object(j, NULL);
		report_handler_json(rep, j, q->handler);
		json_u64(j, "begin_ns",
			 q->begin_ns > rep->base_ns ? q->begin_ns - rep->base_ns : 0);
		json_u64(j, "duration_ns", q->end_ns > q->begin_ns ? q->end_ns - q->begin_ns : 0);
		json_string(j, "outcome", trace_outcome_name(q->outcome));
		json_u64(j, "polls", q->n_polls);
		json_u64(j, "poll_ns", q->poll_ns);
		json_u64(j, "blocked_ns", q->blocked_ns);
		json_array(j, "waits");
		for (size_t k = 0; k < q->n_waits; k++) {
			const struct trace_place *p = report_place(rep, q->waits[k].place);

			json_object(j, NULL);
			json_string(j, "function", p ? p->function : "");
			json_string(j, "file", p ? p->file : "");
			json_u64(j, "line", p ? p->line : 0);
			json_string(j, "awaits", p ? p->awaits : "");
			json_u64(j, "count", q->waits[k].n);
			json_u64(j, "ns", q->waits[k].ns);
			json_end_object(j);
		}
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
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
		if (l->n_requests)
			requests_json(rep, j, l);
		json_u64(j, "omitted_steps", l->n_omitted);
		json_array(j, "steps");
		for (size_t k = 0; k < l->n_steps; k++)
			step_json(rep, j, &l->steps[k]);
		json_end_array(j);
		json_end_object(j);
	}
	json_end_array(j);
}
