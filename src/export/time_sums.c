/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sums of times by stacks of names (time_sums.h). A sum is found by numbers alone while the trace is
 * read; names are made in the end, when all labels are known. */
#include "export/time_sums.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"
#include "export/sample_slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add(struct time_sums *s, enum time_sum_type type, uint32_t kind,
	       const struct tl_round *round, uint64_t detail, uint64_t value)
{
	uint32_t handler = round->serial ? round->kind : TRACE_KIND_NONE;
	uint64_t whose = (uint64_t)kind << 32 | handler;
	uint64_t what = (uint64_t)type << 56 | (detail & 0xffffffffffffff);
	struct time_sum *sum = map_get_or_new(&s->by_key, whose, what, sizeof(*sum));

	if (!sum)
		return -ENOMEM;
	sum->type = type;
	sum->kind = kind;
	sum->handler = handler;
	sum->detail = detail & 0xffffffffffffff;
	sum->value += value;
	sum->n++;
	s->totals[type] += value;
	s->counts[type]++;
	return 0;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	return tl_poll_measured(poll) ? add(ctx, SUM_POLLING, poll->task->kind, &poll->round, 0,
					    poll->end_ns - poll->begin_ns)
				      : 0;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	uint64_t ns = wait->end_ns - wait->begin_ns;

	if (wait->state == TS_WAITING)
		return add(ctx, SUM_WAITING, wait->task->kind, &wait->round, wait->place, ns);
	return wait->state == TS_SCHEDULED
		       ? add(ctx, SUM_SCHEDULED, wait->task->kind, &wait->round, 0, ns)
		       : 0;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	return block->keeps_worker ? add(ctx, SUM_BLOCKED, block->task->kind, &block->round,
					 block->call, block->end_ns - block->begin_ns)
				   : 0;
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct time_sums *s = ctx;

	if (sample->type > TM_INSTRUCTIONS)
		return 0;
	s->cpu_is_time = sample->type == TM_CPU_CLOCK;
	return add(s, SUM_CPU, sample->task ? sample->task->kind : TRACE_KIND_NONE, &sample->round,
		   sample->stack, sample->weight);
}

static const struct timeline_sink sums_sink = {
	.poll = on_poll,
	.wait = on_wait,
	.block = on_block,
	.sample = on_sample,
};

static int by_key(const void *a, const void *b)
{
	const struct time_sum *x = *(struct time_sum *const *)a, *y = *(struct time_sum *const *)b;

	return ASCENDING(x->type, y->type) ?: ASCENDING(x->kind, y->kind) ?:
	       ASCENDING(x->handler, y->handler) ?: ASCENDING(x->detail, y->detail);
}

int time_sums_make(struct time_sums *s, struct trace_reader *r, const struct export_options *opt,
		   struct error *err)
{
	struct timeline_totals totals;
	int replayed, ret;

	*s = (struct time_sums){.reader = r};
	replayed = timeline_replay(r, &opt->filter, &sums_sink, s, opt->progress, opt->progress_ctx,
				   &totals, &s->base_ns, err);
	if (replayed == -ENOMEM)
		return error_set(err, replayed, "out of memory");
	s->from_ns = s->base_ns + opt->filter.from_ns;
	s->to_ns =
		s->from_ns +
		(replayed < 0 ? 0 : replay_length_ns(r, &opt->filter, s->base_ns, totals.last_ns));
	s->n_sums = s->by_key.n;
	s->sums = map_sorted(&s->by_key, by_key);
	ret = s->sums ? kind_labels_make(s->reader, &s->labels) : -ENOMEM;
	return ret < 0 ? error_set(err, ret, "out of memory") : replayed;
}

void time_sums_done(struct time_sums *s)
{
	free(s->sums);
	map_free(&s->by_key, free);
	kind_labels_done(&s->labels);
}

/* ---- names ---- */

static void push(struct sum_stack *stack, const char *name, const char *file, uint32_t line)
{
	if (stack->n < SUM_MAX_FRAMES)
		stack->frames[stack->n++] = (struct sum_frame){
			.name = name && *name ? name : "?", .file = file ? file : "", .line = line};
}

/* The functions of an await chain, the task's own first, and what the innermost awaits. */
static void push_chain(const struct time_sums *s, uint64_t place, struct sum_stack *stack)
{
	const struct trace_place *chain[TRACE_MAX_OUTER];
	const struct trace_place *p =
		place ? trace_reader_place(s->reader, (uint32_t)(place - 1)) : NULL;
	unsigned n = 0;

	for (; p && n < TRACE_MAX_OUTER;
	     p = p->outer ? trace_reader_place(s->reader, p->outer - 1) : NULL)
		chain[n++] = p;
	for (unsigned i = n; i-- > 0;)
		push(stack, chain[i]->function, chain[i]->file, chain[i]->line);
	buf_str(&stack->leaf, "wait: ");
	buf_str(&stack->leaf, n && chain[0]->awaits && *chain[0]->awaits ? chain[0]->awaits
			      : n					 ? "not known"
									 : "place not known");
}

static void push_functions(const struct time_sums *s, uint64_t at, struct sum_stack *stack)
{
	const struct trace_frame *frames[SUM_MAX_FRAMES - 8];
	uint32_t n = stack_frames(s->reader, at, frames, SUM_MAX_FRAMES - 8);

	for (uint32_t i = n; i-- > 0;) {
		const struct trace_frame *f = frames[i];
		bool named = f && f->function && *f->function;

		push(stack,
		     named			    ? f->function
		     : f && f->object && *f->object ? f->object
						    : "?",
		     f ? f->file : "", f ? f->line : 0);
	}
	if (!n)
		buf_str(&stack->leaf, "stack not known");
}

int sum_stack_make(const struct time_sums *s, const struct time_sum *sum, struct sum_stack *stack)
{
	stack->n = 0;
	buf_clear(&stack->leaf);
	buf_clear(&stack->handler);
	push(stack,
	     sum->kind == TRACE_KIND_NONE ? "no task"
					  : kind_label(&s->labels, s->reader, sum->kind),
	     "", 0);
	if (sum->handler != TRACE_KIND_NONE) {
		buf_printf(&stack->handler, "request: %s",
			   kind_label(&s->labels, s->reader, sum->handler));
		push(stack, stack->handler.data, "", 0);
	}
	switch (sum->type) {
	case SUM_WAITING:
		push_chain(s, sum->detail, stack);
		break;
	case SUM_SCHEDULED:
		buf_str(&stack->leaf, "scheduled");
		break;
	case SUM_POLLING:
		buf_str(&stack->leaf, "polling");
		break;
	case SUM_BLOCKED:
		push(stack, "polling", "", 0);
		buf_printf(&stack->leaf, "blocked in %s", trace_call_name((unsigned)sum->detail));
		break;
	default:
		push_functions(s, sum->detail, stack);
	}
	if (stack->leaf.len)
		push(stack, stack->leaf.data, "", 0);
	return buf_failed(&stack->leaf) || buf_failed(&stack->handler) ? -ENOMEM : 0;
}

void sum_stack_done(struct sum_stack *stack)
{
	buf_done(&stack->leaf);
	buf_done(&stack->handler);
}

/* ---- folded ---- */

static void fold_name(struct buf *out, const char *name)
{
	size_t from = out->len;

	text_safe(out, name);
	for (size_t i = from; !buf_failed(out) && i < out->len; i++)
		if (out->data[i] == ';')
			out->data[i] = ':';
}

static void fold_frame(struct buf *out, const struct sum_frame *f)
{
	if (out->len)
		buf_char(out, ';');
	fold_name(out, f->name);
	if (f->line && *f->file) {
		buf_str(out, " (");
		fold_name(out, text_short_file(f->file));
		buf_printf(out, ":%u)", f->line);
	}
}

static int by_names(const void *a, const void *b)
{
	return strcmp(((const struct folded_line *)a)->names,
		      ((const struct folded_line *)b)->names);
}

static size_t merge(struct folded_line *lines, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(lines, n, sizeof(*lines), by_names);
	for (size_t i = 0; i < n; i++) {
		if (kept && !strcmp(lines[kept - 1].names, lines[i].names)) {
			lines[kept - 1].value += lines[i].value;
			free(lines[i].names);
		} else {
			lines[kept++] = lines[i];
		}
	}
	return kept;
}

int time_sums_fold(const struct time_sums *s, unsigned mask, struct folded_line **ret_lines,
		   size_t *ret_n)
{
	struct folded_line *lines = calloc(s->n_sums + 1, sizeof(*lines));
	struct sum_stack *stack = calloc(1, sizeof(*stack));
	int r = lines && stack ? 0 : -ENOMEM;
	size_t n = 0;

	for (size_t i = 0; r == 0 && i < s->n_sums; i++) {
		_cleanup_buf_ struct buf names = BUF_INIT;

		if (!(mask & 1u << s->sums[i]->type) || !s->sums[i]->value)
			continue;
		r = sum_stack_make(s, s->sums[i], stack);
		for (unsigned k = 0; r == 0 && k < stack->n; k++)
			fold_frame(&names, &stack->frames[k]);
		lines[n].names = buf_steal(&names);
		lines[n].value = s->sums[i]->value;
		if (!lines[n++].names)
			r = -ENOMEM;
	}
	if (stack)
		sum_stack_done(stack);
	free(stack);
	if (r < 0) {
		folded_lines_free(lines, n);
		return r;
	}
	*ret_n = merge(lines, n);
	*ret_lines = lines;
	return 0;
}

void folded_lines_free(struct folded_line *lines, size_t n)
{
	for (size_t i = 0; i < n && lines; i++)
		free(lines[i].names);
	free(lines);
}
