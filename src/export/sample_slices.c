/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Slices from samples (sample_slices.h). */
#include "export/sample_slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 256u

struct stack_open {
	const struct trace_frame *frame;
	uint64_t begin_ns;
};

static bool same_text(const char *a, const char *b)
{
	return !strcmp(a ? a : "", b ? b : "");
}

static bool same_function(const struct trace_frame *a, const struct trace_frame *b)
{
	if (a == b || !a || !b)
		return a == b;
	bool named = a->function && *a->function;
	return same_text(a->function, b->function) && same_text(a->object, b->object) &&
	       (named || a->addr == b->addr);
}

/* Of the runtime, when it polls a task: all outside of it is the same for all tasks. */
static bool polls_task(const struct trace_frame *f)
{
	static const char *const begins[] = {
		"tokio::runtime::task::", "async_task::", "<async_task::"};

	for (size_t i = 0; f && f->function && i < sizeof(begins) / sizeof(begins[0]); i++)
		if (!strncmp(f->function, begins[i], strlen(begins[i])))
			return true;
	return false;
}

uint32_t stack_frames(const struct trace_reader *r, uint64_t stack,
		      const struct trace_frame **frames, uint32_t max)
{
	const struct trace_stack *s = stack ? trace_reader_stack(r, (uint32_t)(stack - 1)) : NULL;
	uint32_t n = 0;

	while (s && n < max) {
		const struct trace_frame *f = trace_reader_frame(r, s->frame);

		if (n && polls_task(f))
			break;
		frames[n++] = f;
		s = s->parent ? trace_reader_stack(r, s->parent - 1) : NULL;
	}
	return n;
}

bool stack_lane_wants(const struct tl_sample *sample)
{
	return sample->stack && (sample->type == TM_CPU_CLOCK || sample->type == TM_CYCLES ||
				 sample->type == TM_INSTRUCTIONS);
}

/* Ends those from `depth` on, innermost first. */
static int end_from(struct stack_lane *l, uint32_t depth, stack_slice_fn fn, void *ctx)
{
	while (l->n > depth) {
		const struct stack_open *open = &l->open[--l->n];
		const struct stack_slice slice = {.frame = open->frame,
						  .depth = l->n,
						  .begin_ns = open->begin_ns,
						  .end_ns = l->last_ns};
		TRY(fn(ctx, &slice));
	}
	return 0;
}

int stack_lane_end(struct stack_lane *l, stack_slice_fn fn, void *ctx)
{
	return end_from(l, 0, fn, ctx);
}

void stack_lane_done(struct stack_lane *l)
{
	free(l->open);
	*l = (struct stack_lane){0};
}

int stack_lane_sample(struct stack_lane *l, const struct trace_reader *r,
		      const struct tl_sample *sample, stack_slice_fn fn, void *ctx)
{
	const struct trace_frame *frames[MAX_DEPTH];
	uint32_t n = stack_frames(r, sample->stack, frames, MAX_DEPTH), same = 0;
	int ret = 0;

	uint64_t begin = sample->time_ns, weight = sample->weight;
	if (sample->type == TM_CPU_CLOCK)
		begin -= weight < begin ? weight : begin;
	if (begin < sample->poll_ns)
		begin = sample->poll_ns;
	bool goes_on = l->n && l->poll_ns == sample->poll_ns && l->last_ns + weight / 2 >= begin &&
		       l->last_ns <= sample->time_ns;
	if (goes_on)
		begin = l->last_ns;
	else if (begin < l->last_ns && l->last_ns <= sample->time_ns)
		begin = l->last_ns;
	if (goes_on)
		while (same < l->n && same < n &&
		       same_function(l->open[same].frame, frames[n - 1 - same]))
			same++;
	ret = end_from(l, same, fn, ctx);
	if (n > l->cap) {
		struct stack_open *bigger = reallocarray(l->open, MAX_DEPTH, sizeof(*bigger));
		if (!bigger)
			return -ENOMEM;
		l->open = bigger;
		l->cap = MAX_DEPTH;
	}
	for (; l->n < n; l->n++)
		l->open[l->n] =
			(struct stack_open){.frame = frames[n - 1 - l->n], .begin_ns = begin};
	l->last_ns = sample->time_ns;
	l->poll_ns = sample->poll_ns;
	return ret;
}
