/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a span has of a slice: the index's long ones and a window's short ones alike. */
#include "index/spans.h"

void index_span_of_poll(const struct tl_poll *poll, struct index_span *ret)
{
	*ret = (struct index_span){
		.begin_ns = poll->begin_ns,
		.end_ns = poll->end_ns,
		.thread = poll->thread,
		.kind = poll->task->kind,
		.task = poll->task->id,
		.what = poll->place,
		.since_ns = poll->scheduled_ns,
		.blocked_ns = poll->blocked_ns,
		.type = SPAN_POLL,
		.outcome = poll->outcome,
		.flags = poll->woken_inside ? SPAN_WOKEN : 0,
		.depth = poll->depth < UINT8_MAX ? (uint8_t)poll->depth : UINT8_MAX,
	};
}

bool index_span_of_wait(const struct tl_wait *wait, struct index_span *ret)
{
	*ret = (struct index_span){
		.begin_ns = wait->begin_ns,
		.end_ns = wait->end_ns,
		.thread = UINT32_MAX,
		.kind = wait->task->kind,
		.task = wait->task->id,
		.what = wait->place,
		.type = wait->state == TS_WAITING ? SPAN_WAIT : SPAN_READY,
		.flags = wait->open ? SPAN_OPEN : 0,
	};
	return wait->state == TS_WAITING || wait->state == TS_SCHEDULED;
}

void index_span_of_block(const struct tl_block *block, struct index_span *ret)
{
	*ret = (struct index_span){
		.begin_ns = block->begin_ns,
		.end_ns = block->end_ns,
		.thread = block->thread,
		.kind = block->task->kind,
		.task = block->task->id,
		.what = block->call,
		.type = SPAN_CALL,
		.flags = block->keeps_worker ? SPAN_KEEPS : 0,
	};
}

void index_span_of_park(const struct tl_park *park, struct index_span *ret)
{
	*ret = (struct index_span){
		.begin_ns = park->begin_ns,
		.end_ns = park->end_ns,
		.thread = park->thread,
		.kind = TRACE_KIND_NONE,
		.what = park->call,
		.type = SPAN_PARK,
	};
}

void index_span_of_off_cpu(const struct tl_off_cpu *off, struct index_span *ret)
{
	*ret = (struct index_span){
		.begin_ns = off->begin_ns,
		.end_ns = off->end_ns,
		.thread = off->thread,
		.kind = off->task ? off->task->kind : TRACE_KIND_NONE,
		.task = off->task ? off->task->id : 0,
		.what = off->reason,
		.type = SPAN_OFF_CPU,
	};
}

void index_span_of_syscall(const struct tl_syscall *call, struct index_span *ret)
{
	*ret = (struct index_span){
		.begin_ns = call->begin_ns,
		.end_ns = call->end_ns,
		.thread = call->thread,
		.kind = call->task ? call->task->kind : TRACE_KIND_NONE,
		.task = call->task ? call->task->id : 0,
		.what = call->number,
		.type = SPAN_SYSCALL,
	};
}

void index_span_of_task(const struct tl_task *task, struct index_span *ret)
{
	*ret = (struct index_span){
		.begin_ns = task->spawn_ns,
		.end_ns = task->end_ns ? task->end_ns : UINT64_MAX,
		.thread = UINT32_MAX,
		.kind = task->kind,
		.task = task->id,
		.type = SPAN_TASK,
		.outcome = task->outcome,
		.flags = (task->end_ns ? 0 : SPAN_OPEN) | (task->spawn_seen ? SPAN_SPAWN_SEEN : 0),
		.n = task->n_polls < UINT32_MAX ? (uint32_t)task->n_polls : UINT32_MAX,
		.since_ns = task->parent_number,
		.blocked_ns = task->number,
		.what = task->parent,
	};
}
