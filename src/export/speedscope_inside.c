/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is inside polls, in Speedscope's format: futures, system calls, time off the CPU as
 * slices in the profiles of threads and tasks; and profiles of samples: for each thread, for each
 * chosen task, and for all tasks with the family as the outermost frame. Samples are summed up by
 * stack, for what these profiles are looked at for is where the weight is, not when.
 */
#include "base/compare.h"
#include "export/speedscope.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/syscalls.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- frames, each made when it is first needed ---- */

static uint64_t made_frame(struct speedscope *s, uint64_t a, uint64_t b, const char *name,
			   const struct trace_frame *at)
{
	uintptr_t number = (uintptr_t)map_get(&s->numbers, a, b);
	if (number)
		return FRAME_MADE + number - 1;
	struct json j;
	buf_str(&s->made_names, ",");
	json_init(&j, &s->made_names, false);
	j.shown = true;
	json_object(&j, NULL);
	json_string(&j, "name", name);
	if (at && at->file && *at->file) {
		json_string(&j, "file", at->file);
		if (at->line)
			json_u64(&j, "line", at->line);
	}
	json_end_object(&j);
	number = ++s->n_made;
	if (map_put(&s->numbers, a, b, (void *)number) < 0)
		s->made_names.failed = true;
	return FRAME_MADE + number - 1;
}

static uint64_t future_frame(struct speedscope *s, uint32_t kind)
{
	return made_frame(s, MADE_FUTURE, kind, short_name(&s->names, kind), NULL);
}

uint64_t speedscope_handler_frame(struct speedscope *s, uint32_t kind)
{
	return future_frame(s, kind);
}

uint64_t speedscope_place_frame(struct speedscope *s, uint64_t place)
{
	const struct trace_place *p =
		trace_reader_own_place(s->reader, (uint32_t)(place - 1), NULL);
	_cleanup_buf_ struct buf name = BUF_INIT;

	if (!p)
		return FRAME_WAITING;
	trace_place_text(&name, p);
	if (p->awaits && *p->awaits) {
		buf_str(&name, ", for ");
		text_safe(&name, p->awaits);
	}
	return made_frame(s, MADE_PLACE, hash_string(0, name.data), name.data ? name.data : "?",
			  NULL);
}

static void call_text(struct buf *out, uint32_t number)
{
	const char *name = syscall_name(number);
	if (name)
		buf_str(out, name);
	else
		buf_printf(out, "system call %" PRIu32, number);
}

int speedscope_syscall(void *ctx, const struct tl_syscall *call)
{
	struct speedscope *s = ctx;
	_cleanup_buf_ struct buf name = BUF_INIT;
	call_text(&name, call->number);
	return speedscope_push(s, call->task, call->thread,
			       made_frame(s, MADE_CALL, call->number, name.data, NULL),
			       call->begin_ns, call->end_ns);
}

int speedscope_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct speedscope *s = ctx;
	_cleanup_buf_ struct buf name = BUF_INIT;
	buf_printf(&name, "off CPU, %s", trace_off_cpu_name(off->reason));
	if (off->syscall) {
		buf_str(&name, " in ");
		call_text(&name, off->syscall - 1);
	}
	uint64_t number = (uint64_t)off->reason << 32 | off->syscall;
	return speedscope_push(s, off->task, off->thread,
			       made_frame(s, MADE_OFF, number, name.data, NULL), off->begin_ns,
			       off->end_ns);
}

int speedscope_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	/* A request is around the polls of its task, so there it isn't in them once more. */
	struct tl_task *task = tl_is_round(poll->future) ? NULL : poll->task;

	return speedscope_push(ctx, task, poll->thread, future_frame(ctx, poll->future->kind),
			       poll->begin_ns, poll->end_ns);
}

/* ---- samples ---- */

static int add_sample(struct speedscope *s, uint32_t profile, uint32_t kind,
		      const struct tl_sample *sample)
{
	/* Of a profile of one thread or task the rest shows whose it is. */
	bool handled = !profile && sample->round.serial;
	uint32_t handler = handled ? sample->round.kind + 1 : 0;
	uint64_t key = (uint64_t)profile << 34 | (uint64_t)sample->type << 32 | kind;
	struct sampled *x = map_get_or_new(&s->by_stack, key,
					   sample->stack | (uint64_t)handler << 32, sizeof(*x));
	if (!x)
		return -ENOMEM;
	x->profile = profile;
	x->kind = kind;
	x->handler = handler;
	x->type = sample->type;
	x->stack = sample->stack;
	x->weight += sample->weight;
	return 0;
}

int speedscope_sample(void *ctx, const struct tl_sample *sample)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = sample->task ? speedscope_task(s, sample->task) : NULL;
	if (sample->task && !t)
		return -ENOMEM;
	if (t && (sample->type == TM_LONG_RUNNING || sample->type == TM_LONG_BLOCKED)) {
		t->long_sample = *sample; /* the last one counts, when the poll is over */
		t->long_sample.task = NULL;
		return 0;
	}
	if (!stack_lane_wants(sample))
		return 0;
	const struct speedscope_profile *thread = speedscope_thread(s, sample->thread);
	int r = 0;
	if (thread)
		r = add_sample(s, (uint32_t)(thread - s->profiles) + 1, 0, sample);
	if (r == 0 && t && t->profile)
		r = add_sample(s, (uint32_t)(t->profile - s->profiles) + 1, 0, sample);
	return r == 0 && t ? add_sample(s, 0, sample->task->kind, sample) : r;
}

int speedscope_long_poll(struct speedscope *s, struct speedscope_task *t,
			 const struct tl_poll *poll)
{
	struct tl_sample sample = t->long_sample;

	t->long_sample = (struct tl_sample){0};
	if (!sample.stack || !tl_poll_measured(poll))
		return 0;
	sample.type = TM_LONG_BLOCKED; /* one profile of both */
	sample.weight = poll->end_ns - poll->begin_ns;
	sample.round = poll->round;
	return add_sample(s, 0, poll->task->kind, &sample);
}

/* ---- profiles of samples ---- */

/* A function has one frame, for all lines in it. */
static uint64_t function_frame(struct speedscope *s, const struct trace_frame *f)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	trace_frame_name(&name, f);
	uint64_t a = hash_string(MADE_FUNCTION, name.data);
	uint64_t b = hash_string(~a, f ? f->object : NULL);
	return made_frame(s, a, b, name.data ? name.data : "?", f);
}

static int by_profile(const void *a, const void *b)
{
	const struct sampled *x = *(struct sampled *const *)a, *y = *(struct sampled *const *)b;

	return ASCENDING(x->profile, y->profile) ?: ASCENDING(x->type, y->type) ?:
	       DESCENDING(x->weight, y->weight) ?: ASCENDING(x->kind, y->kind) ?:
	       ASCENDING(x->handler, y->handler) ?: ASCENDING(x->stack, y->stack);
}

int speedscope_order_samples(struct speedscope *s)
{
	const struct map_entry *e;
	s->sampled = calloc(s->by_stack.n + 1, sizeof(*s->sampled));
	if (!s->sampled)
		return -ENOMEM;
	for (size_t pos = 0; (e = map_next(&s->by_stack, &pos));)
		s->sampled[s->n_sampled++] = e->value;
	qsort(s->sampled, s->n_sampled, sizeof(*s->sampled), by_profile);
	for (size_t i = 0; i < s->n_sampled; i++) {
		const struct trace_frame *frames[MAX_FRAMES];
		uint32_t n = stack_frames(s->reader, s->sampled[i]->stack, frames, MAX_FRAMES);

		for (uint32_t k = 0; k < n; k++)
			function_frame(s, frames[k]);
		if (s->sampled[i]->handler)
			future_frame(s, s->sampled[i]->handler - 1);
	}
	return buf_failed(&s->made_names) ? -ENOMEM : 0;
}

/* "[3,17,18]": outermost first, in the profile of all tasks below the family. */
static void stack_text(struct speedscope *s, struct buf *out, const struct sampled *x)
{
	const struct trace_frame *stack[MAX_FRAMES];
	uint64_t frames[MAX_FRAMES + 2];
	size_t n = stack_frames(s->reader, x->stack, stack, MAX_FRAMES);
	for (size_t i = 0; i < n; i++)
		frames[i] = function_frame(s, stack[i]);
	if (x->handler)
		frames[n++] = future_frame(s, x->handler - 1);
	const struct lane_family *f =
		x->profile ? NULL : map_get(&s->sel.lanes.by_kind, x->kind, 0);
	if (f)
		frames[n++] = FRAME_FAMILY + f->index;
	buf_char(out, '[');
	while (n-- > 0)
		buf_printf(out, "%" PRIu64 "%s", speedscope_place(s, frames[n]), n ? "," : "");
	buf_char(out, ']');
}

int speedscope_write_samples(struct speedscope *s)
{
	for (size_t i = 0, next; i < s->n_sampled; i = next) {
		_cleanup_buf_ struct buf samples = BUF_INIT, weights = BUF_INIT, name = BUF_INIT,
					 head = BUF_INIT;
		const struct sampled *first = s->sampled[i];
		uint64_t sum = 0;
		for (next = i; next < s->n_sampled; next++) {
			const struct sampled *x = s->sampled[next];
			if (x->profile != first->profile || x->type != first->type)
				break;
			buf_str(&samples, next > i ? "," : "");
			stack_text(s, &samples, x);
			buf_printf(&weights, "%s%" PRIu64, next > i ? "," : "", x->weight);
			sum += x->weight;
		}
		if (first->type == TM_LONG_BLOCKED)
			buf_str(&name, "long polls by stack");
		else
			buf_printf(&name, "%s of %s", trace_sample_name(first->type),
				   first->profile ? s->profiles[first->profile - 1].name
						  : "all tasks by family");
		buf_str(&head, ",\n{\"type\":\"sampled\",\"name\":");
		json_quote_shown(&head, name.data ? name.data : "samples");
		buf_printf(&head,
			   ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64
			   ",\"samples\":[",
			   first->type == TM_CPU_CLOCK || first->type == TM_LONG_BLOCKED
				   ? "nanoseconds"
				   : "none",
			   sum);
		if (buf_failed(&head) || buf_failed(&samples) || buf_failed(&weights))
			return -ENOMEM;
		out_write(&s->out, head.data, head.len);
		out_write(&s->out, samples.data, samples.len);
		out_write(&s->out, "],\"weights\":[", 13);
		out_write(&s->out, weights.data, weights.len);
		out_write(&s->out, "]}", 2);
	}
	return s->out.error;
}

void speedscope_samples_done(struct speedscope *s)
{
	map_done(&s->numbers);
	buf_done(&s->made_names);
	map_free(&s->by_stack, free);
	free(s->sampled);
}
