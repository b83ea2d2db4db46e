/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a timeline emits, as items that no longer need the timeline: its pointers to tasks are valid during the
 * call only. So a thread of its own can add the items up (index_builder_start()), some thousand items later.
 */
#include "base/file_map.h"
#include "index/build.h"
#include "index/spans.h"

#include <errno.h>
#include <signal.h>

#define LOTS 8u
#define LOT_ITEMS 1024u

/* ---- the thread ---- */

static void *add_items(void *arg)
{
	struct index_builder *b = arg;
	const struct index_item *items;
	size_t n;
	int code = 0;

	while (code == 0 && (items = handover_take(b->feed.lots, &n)))
		for (size_t i = 0; i < n && code == 0; i++)
			code = b->feed.take(b, &items[i]);
	b->feed.code = code;
	if (code < 0)
		handover_stop(b->feed.lots);
	return NULL;
}

int index_builder_start(struct index_builder *b)
{
	struct index_feed *f = &b->feed;
	sigset_t before;

	f->lots = handover_new(LOTS, LOT_ITEMS * sizeof(*f->filling));
	if (!f->lots)
		return -ENOMEM;
	file_map_block_signals(&before);
	int code = -pthread_create(&f->thread, NULL, add_items, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (code < 0) {
		handover_free(f->lots);
		f->lots = NULL;
	}
	return code;
}

int index_builder_join(struct index_builder *b)
{
	struct index_feed *f = &b->feed;

	if (!f->lots)
		return f->code;
	if (f->n)
		handover_give(f->lots, f->n);
	handover_end(f->lots);
	pthread_join(f->thread, NULL);
	handover_free(f->lots);
	f->lots = NULL;
	return f->code;
}

/* Where the next item goes; NULL: the thread has failed. */
static struct index_item *next_item(struct index_builder *b)
{
	struct index_feed *f = &b->feed;

	if (!f->lots)
		return &f->one;
	if (f->n == LOT_ITEMS) {
		handover_give(f->lots, f->n);
		f->filling = NULL;
		f->n = 0;
	}
	if (!f->filling)
		f->filling = handover_slot(f->lots);
	return f->filling ? &f->filling[f->n] : NULL;
}

/* The item is whole. */
static int put_item(struct index_builder *b, const struct index_item *item)
{
	if (!b->feed.lots)
		return b->feed.take(b, item);
	b->feed.n++;
	return 0;
}

/* ---- the sink ---- */

/* The item that a handler fills; the handler ends where there is none. */
#define ITEM(ctx)                                                                                  \
	({                                                                                         \
		struct index_item *next_ = next_item(ctx);                                         \
                                                                                                   \
		if (!next_)                                                                        \
			return -ENOMEM;                                                            \
		next_;                                                                             \
	})

/* A handler of what is one slice; `more` sets what an item has of it besides. */
#define ON_SLICE(name, more)                                                                       \
	static int on_##name(void *ctx, const struct tl_##name *name)                              \
	{                                                                                          \
		struct index_item *item = ITEM(ctx);                                               \
                                                                                                   \
		index_span_of_##name(name, &item->span);                                           \
		more;                                                                              \
		return put_item(ctx, item);                                                        \
	}
ON_SLICE(poll, (item->role = poll->task->role, item->measured = tl_poll_measured(poll),
		item->held_ns = tl_poll_held_ns(poll)))
ON_SLICE(block, item->role = block->task->role)
ON_SLICE(park, (void)0)
ON_SLICE(off_cpu, (void)0)
ON_SLICE(syscall, (void)0)

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct index_item *item = ITEM(ctx);

	if (!index_span_of_wait(wait, &item->span))
		return 0;
	item->role = wait->task->role;
	return put_item(ctx, item);
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	const struct index_builder *b = ctx;
	const struct trace_kind *k = trace_reader_kind(b->feed.reader, task->kind);
	struct index_item *item = ITEM(ctx);

	index_span_of_task(task, &item->span);
	if (k)
		item->span.flags |= SPAN_NUMBERED | (k->address_named ? SPAN_BY_ADDRESS : 0);
	item->role = task->role;
	return put_item(ctx, item);
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct index_item *item = ITEM(ctx);

	if (sample->type > TM_INSTRUCTIONS)
		return 0;
	item->span = (struct index_span){
		.begin_ns = sample->time_ns,
		.end_ns = sample->time_ns,
		.thread = sample->thread,
		.kind = sample->task ? sample->task->kind : TRACE_KIND_NONE,
		.task = sample->task ? sample->task->id : 0,
		.what = sample->stack,
		.since_ns = sample->weight,
		.type = SPAN_SAMPLE,
		.outcome = sample->type,
	};
	return put_item(ctx, item);
}

static int on_thread_end(void *ctx, const struct tl_thread *thread)
{
	struct index_item *item = ITEM(ctx);

	item->span = (struct index_span){
		.thread = thread->thread,
		.end_ns = thread->end_ns,
		.type = INDEX_ITEM_THREAD_END,
	};
	item->role = thread->root ? IX_BLOCK_ON : thread->worker ? IX_WORKER : IX_OTHER;
	return put_item(ctx, item);
}

const struct timeline_sink index_sink = {
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.block = on_block,
	.park = on_park,
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.thread_end = on_thread_end,
};
