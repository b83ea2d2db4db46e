/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Containers of tasks. Everything is bounded and compared with what the container says of itself:
 * an answer that isn't whole is none, since others conclude from it what is not in there.
 *
 * Source: tokio/src/runtime/scheduler/multi_thread/queue.rs and scheduler/inject, 1.23 to 1.54;
 * std's VecDeque, Rust 1.63 to 1.95; concurrent-queue 2 (single.rs, bounded.rs, unbounded.rs).
 */
#include "future/queue_layouts.h"

#include <string.h>

enum {
	MAX_TASKS = 1 << 20, /* of one queue */
	QUEUE_NEXT = 8,	     /* in Tokio's header */
	LAP = 32, /* of an unbounded queue's index: 31 slots and the way to the next block */
};

bool deque_number(struct walk *w, const struct dw_type *t, uint64_t addr, const char *member,
		  uint64_t *ret)
{
	const struct dw_type *x;
	uint64_t at;

	return await_find_member(w, t, addr, member, &x, &at) &&
	       mem_uint(w->ctx->mem, at, (unsigned)x->size, ret);
}

bool deque_std(struct walk *w, const struct dw_type *t, uint64_t addr, const struct deque_call *c)
{
	uint64_t first, n, cap, data, at = addr, task;
	const struct dw_type *d = t;

	if (!await_starts(t->full_name, "alloc::collections::vec_deque::VecDeque<") &&
	    !await_find_type(w, t, addr, "alloc::collections::vec_deque::VecDeque<", &d, &at))
		return true;
	if (!deque_number(w, d, at, "cap", &cap) || !deque_number(w, d, at, "ptr", &data) ||
	    !deque_number(w, d, at, "head", &first))
		return false;
	if (!deque_number(w, d, at, "len", &n)) { /* before 1.67: from tail to head */
		uint64_t end = first;

		if (!deque_number(w, d, at, "tail", &first) || first >= cap || end >= cap)
			return false;
		n = end >= first ? end - first : cap - first + end;
	}
	if (n > cap || n > MAX_TASKS || (n && first >= cap))
		return false;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t slot = (first + i) % cap;

		if (!mem_u64(w->ctx->mem, data + slot * 8, &task))
			return false;
		c->one(c->ctx, task);
	}
	return true;
}

bool deque_linked(struct walk *w, const struct dw_type *t, uint64_t addr,
		  const struct deque_call *c)
{
	uint64_t task;

	if (!deque_number(w, t, addr, "head", &task))
		return false;
	for (unsigned i = 0; task && i < MAX_TASKS; i++) {
		c->one(c->ctx, task);
		if (!mem_u64(w->ctx->mem, task + QUEUE_NEXT, &task))
			return false;
	}
	return !task;
}

bool deque_worker(struct walk *w, const struct dw_type *t, uint64_t addr,
		  const struct deque_call *c)
{
	const struct dw_type *x;
	uint64_t at, head, tail, buffer, task, mask, steal;

	if (!await_find_member(w, t, addr, "head", &x, &at) || (x->size != 8 && x->size != 4) ||
	    !mem_uint(w->ctx->mem, at, (unsigned)x->size, &head) ||
	    !deque_number(w, t, addr, "tail", &tail) ||
	    !await_find_member(w, t, addr, "buffer", &x, &at) || !mem_u64(w->ctx->mem, at, &buffer))
		return false;
	/* what is being stolen comes first; the thief has it in its own queue only when done */
	mask = UINT64_MAX >> 32;
	steal = head >> 32;
	if (x->size == 4) {
		mask = 0xffff;
		steal = head >> 16;
	}
	if (((tail - steal) & mask) > 256)
		return false;
	for (uint64_t i = steal; i != tail; i = (i + 1) & mask) {
		if (!mem_u64(w->ctx->mem, buffer + (i & 255) * 8, &task))
			return false;
		c->one(c->ctx, task);
	}
	return true;
}

/* ---- concurrent-queue ---- */

static bool read_bounded(struct walk *w, const struct dw_type *t, uint64_t addr,
			 const struct deque_call *c)
{
	const struct dw_type *x, *slot, *value;
	uint64_t at, head, tail, mark, data, cap, n, task;

	if (!deque_number(w, t, addr, "head", &head) || !deque_number(w, t, addr, "tail", &tail) ||
	    !deque_number(w, t, addr, "mark_bit", &mark) || !mark ||
	    !await_find_member(w, t, addr, "buffer", &x, &at) ||
	    !deque_number(w, x, at, "data_ptr", &data) || !deque_number(w, x, at, "length", &cap) ||
	    !cap || cap > MAX_TASKS || !(slot = await_pointee(w, x)) || !slot->size)
		return false;
	uint64_t first = head & (mark - 1), end = tail & (mark - 1);
	n = first < end		     ? end - first
	    : first > end	     ? cap - first + end
	    : (tail & ~mark) == head ? 0
				     : cap;
	if (first >= cap || end >= cap || n > cap)
		return false;
	for (uint64_t i = 0; i < n; i++) {
		if (!await_find_member(w, slot, data + (first + i) % cap * slot->size, "value",
				       &value, &at) ||
		    !mem_u64(w->ctx->mem, at, &task))
			return false;
		c->one(c->ctx, task);
	}
	return true;
}

static bool read_position(struct walk *w, const struct dw_type *t, uint64_t addr, const char *name,
			  uint64_t *ret_index, uint64_t *ret_block,
			  const struct dw_type **ret_block_type)
{
	const struct dw_type *x, *block;
	uint64_t at, block_at;

	if (!await_find_member(w, t, addr, name, &x, &at) ||
	    !deque_number(w, x, at, "index", ret_index) ||
	    !await_find_member(w, x, at, "block", &block, &block_at) ||
	    !mem_u64(w->ctx->mem, block_at, ret_block))
		return false;
	*ret_index >>= 1;
	*ret_block_type = await_pointee(w, block);
	return true;
}

static bool read_unbounded(struct walk *w, const struct dw_type *t, uint64_t addr,
			   const struct deque_call *c)
{
	const struct dw_type *type, *slots, *slot, *value;
	uint64_t head, tail, block, other, at, slots_at, task;

	if (!read_position(w, t, addr, "head", &head, &block, &type) ||
	    !read_position(w, t, addr, "tail", &tail, &other, &type) || tail - head > MAX_TASKS)
		return false;
	for (; head != tail; head++) {
		if (!block || !type)
			return false;
		if (head % LAP == LAP - 1) {
			if (!deque_number(w, type, block, "next", &block))
				return false;
			continue;
		}
		if (!await_find_member(w, type, block, "slots", &slots, &slots_at) ||
		    slots->class != DC_ARRAY || !(slot = dw_type_of(w->dwarf, slots->target_ref)) ||
		    !await_find_member(w, slot, slots_at + head % LAP * slot->size, "value", &value,
				       &at) ||
		    !mem_u64(w->ctx->mem, at, &task))
			return false;
		c->one(c->ctx, task);
	}
	return true;
}

bool deque_concurrent(struct walk *w, const struct dw_type *t, uint64_t addr,
		      const struct deque_call *c)
{
	const struct dw_type *x;
	uint64_t at;

	if (await_find_type(w, t, addr, "concurrent_queue::unbounded::Unbounded<", &x, &at))
		return read_unbounded(w, x, at, c);
	if (await_find_type(w, t, addr, "concurrent_queue::bounded::Bounded<", &x, &at))
		return read_bounded(w, x, at, c);
	return false; /* of one element: no executor has such a queue */
}
