/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "timeline/live.h"

#include "base/vec.h"
#include "timeline/moments.h"

#include <errno.h>
#include <stdlib.h>

/* At the trace's end open polls are emitted first, then each task's open wait and its end. */

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct live_tasks *live = ctx;

	if (poll->outcome != TO_UNKNOWN || !tl_poll_measured(poll) || !poll->begin_ns)
		return 0;
	return map_put(&live->polls, poll->task->serial, 0, (void *)(uintptr_t)poll->begin_ns);
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct live_tasks *live = ctx;

	if (wait->open) {
		live->open_task = wait->task->serial;
		live->open_since_ns = wait->begin_ns;
	}
	return 0;
}

static uint64_t since(const struct live_tasks *live, const struct tl_task *task)
{
	bool waits = task->state == TS_WAITING || task->state == TS_SCHEDULED;

	if (!waits)
		return (uintptr_t)map_get(&live->polls, task->serial, 0);
	return live->open_task == task->serial ? live->open_since_ns : 0;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	bool unpolled = !task->spawn_seen && !task->n_polls && tl_role_counts(task->role);
	struct live_tasks *live = ctx;

	if (task->outcome != TO_PENDING)
		return 0;
	if (!GROW(live->v, live->n, live->cap))
		return -ENOMEM;
	live->v[live->n++] = (struct live_task){
		.serial = task->serial,
		.number = task->number,
		.since_ns = since(live, task),
		.quiet = unpolled && !task->n_wakes,
		.unpolled = unpolled,
	};
	return map_put(&live->by_name, task->kind, task->id, (void *)(uintptr_t)live->n);
}

const struct timeline_sink live_tasks_sink = {
	.poll = on_poll,
	.wait = on_wait,
	.task_end = on_task_end,
};

const struct live_task *live_task(const struct live_tasks *live, const struct trace_reader *r,
				  uint32_t kind, const struct moment_task *t)
{
	uintptr_t at = kind == TRACE_KIND_NONE ? 0
					       : (uintptr_t)map_get(&live->by_name, kind,
								    tl_moments_name(r, kind, t));

	return at ? &live->v[at - 1] : NULL;
}

void live_tasks_done(struct live_tasks *live)
{
	map_done(&live->by_name);
	map_done(&live->polls);
	free(live->v);
	*live = (struct live_tasks){0};
}
