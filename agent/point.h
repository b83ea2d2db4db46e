/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The await point of a task: the walk of a kind's layout program (ring.h) over the task's cell.
 *
 * It is done right after a pending poll, while the agent holds its reference: the cell's memory
 * stays valid. Another thread may poll the task already and change it. So no pointer is ever taken
 * from it, each value only chooses among the steps there are, and the caller checks the state word
 * afterwards: if the task was polled meanwhile, the point is dropped.
 *
 * Programs are made from debug information, which may be wrong, and the traced program must not pay
 * for that. So no step trusts it: a value is read only where something else shows that there is
 * memory (agent_reaches). Else the walk ends.
 */
#pragma once

#include "agent/agent.h"

static inline uint64_t agent_state_value(const char *at, uint32_t size)
{
	if (likely(size == 1))
		return __atomic_load_n((const uint8_t *)at, __ATOMIC_RELAXED);
	if (size == 2)
		return __atomic_load_n((const uint16_t *)at, __ATOMIC_RELAXED);
	if (size == 4)
		return __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
	return __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
}

/* Memory that is there, by the program's own word: from `base` on, which it has given us. */
struct agent_reach {
	struct agent_notes *notes;
	const char *base;
	uint64_t bytes;
};

/* reach.c: the kernel is asked, or has just been, or the task that is polled is known to be
 * there. */
bool agent_readable(struct agent_notes *n, uint64_t at, uint32_t size);

bool agent_in_task(const struct agent_notes *n, uint64_t at, uint32_t size);

/* The rest of its page. */
static inline uint64_t agent_page_rest(const void *at)
{
	return AGENT_PAGE - ((uint64_t)at & (AGENT_PAGE - 1));
}

/* From `base` on, at least this many bytes. */
static inline struct agent_reach agent_reach(struct agent_notes *n, const void *base,
					     uint64_t bytes)
{
	uint64_t rest = agent_page_rest(base);

	return (struct agent_reach){n, base, bytes > rest ? bytes : rest};
}

/* Of a task to which the agent holds a reference: its size is in the program's own tables. */
static inline struct agent_reach agent_task_reach(struct agent_notes *n,
						  const struct agent_hook *hook, const void *header)
{
	return agent_reach(n, header, hook->task.end_offset);
}

/* Whether that much can be read there. */
static inline bool agent_reaches(const struct agent_reach *reach, const char *at, uint32_t size)
{
	uint64_t offset = (uint64_t)(at - reach->base);

	if (likely(offset < reach->bytes && size <= reach->bytes - offset))
		return true;
	return agent_readable(reach->notes, (uint64_t)at, size);
}

/* Whether it lies in the memory that is known to be there. */
static inline bool agent_within(const struct agent_reach *reach, uint64_t at, uint32_t size)
{
	uint64_t offset = at - (uint64_t)reach->base;

	return offset < reach->bytes && size <= reach->bytes - offset;
}

/* What is waited for, as AE_RESOURCE has it but for the link; 0 if not known. The pointer may be one
 * that another thread is writing: it is followed only to where memory is, and the caller sees that the
 * task was polled meanwhile. */
static inline uint64_t agent_resource(const struct agent_node *node, const char *at,
				      const struct agent_reach *reach)
{
	uint64_t value, beyond;

	if ((uint64_t)at % 8 || !agent_within(reach, (uint64_t)at, 8))
		return 0;
	value = agent_state_value(at, 8);
	beyond = value + node->target_offset;
	if (node->n && !(beyond % 8) &&
	    (agent_within(reach, beyond, 8) || agent_in_task(reach->notes, beyond, 8)))
		value = agent_state_value((const char *)beyond, 8);
	if (!value || value >> 48)
		return 0;
	return (uint64_t)(uint8_t)node->resource << 48 | value;
}

/* Where a pointer leads that lies in a future: within the same memory, or, where the future is borrowed
 * to a poll that has not returned, to what it owns or borrows; NULL: elsewhere. */
static inline const char *agent_follow(const struct agent_node *node, const char *at,
				       const struct agent_reach *reach, bool borrowed)
{
	if ((uint64_t)at % 8 || !agent_reaches(reach, at, 8))
		return NULL;
	uint64_t to = agent_state_value(at, 8);
	if (to & node->zero_bits)
		return NULL;
	return agent_within(reach, to, 1) || (borrowed && agent_readable(reach->notes, to, 1))
		       ? (const char *)to
		       : NULL;
}

/*
 * The number of the await point, 0 if not known; *ret_resource: agent_resource() there. What the
 * future of a task leads to may be gone, if that isn't borrowed to a poll any more: then a pointer is
 * followed only within the task, and nothing is read elsewhere after that.
 */
static inline uint64_t agent_point(const struct agent_hook *hook, const struct agent_reach *reach,
				   bool borrowed, uint64_t *ret_resource)
{
	const struct agent_step *program =
		(const struct agent_step *)__atomic_load_n(&hook->program, __ATOMIC_ACQUIRE);
	const struct agent_step *step = program;
	const char *at = reach->base;
	bool anywhere = true; /* as agent_reaches() allows */
	uint64_t point = 0;

	*ret_resource = 0;
	if (!program)
		return 0;
	for (uint32_t depth = 0; step->next && depth < AGENT_PROGRAM_DEPTH; depth++) {
		const struct agent_node *node = (const struct agent_node *)(program + step->next);
		if (unlikely(node->kind == NODE_POINTER)) {
			at += step->delta;
			if (!anywhere && !agent_within(reach, (uint64_t)at, 8))
				break;
			at = agent_follow(node, at, reach, borrowed);
			if (!at)
				break;
			anywhere = borrowed;
			step = &node->steps[0];
			continue;
		}
		if (unlikely(node->kind != NODE_STATE)) {
			if (node->kind == NODE_RESOURCE)
				*ret_resource = agent_resource(node, at + step->delta, reach);
			break;
		}
		at += step->delta;
		if (unlikely(!(anywhere ? agent_reaches(reach, at, node->size)
					: agent_within(reach, (uint64_t)at, node->size))))
			break;
		uint64_t i = agent_state_value(at, node->size) - node->base;
		if (unlikely(i >= node->n)) {
			i = node->n;
			arch_barrier_local(); /* a branch: the way on is begun before i is known */
		}
		step = &node->steps[i];
		if (step->point)
			point = step->point;
	}
	return point;
}

/* Every suspended future in it: what AE_FUTURE_SNAPSHOT_BEGIN and AE_FUTURE_SNAPSHOT_END say of
 * each. */
struct agent_list {
	uint32_t n;
	uint32_t by_value; /* pointers are left alone: what they lead to may be dropped */
	uint64_t words[AGENT_LIST_MAX];
};

/* future.c */
void agent_list(const struct agent_hook *hook, const struct agent_reach *from,
		struct agent_list *ret);
void agent_put_list(struct agent_notes *n, uint64_t type, const struct agent_list *list);
/* Right after the begin of a poll. */
void agent_put_begin_list(struct agent_notes *n, const struct agent_hook *hook, const void *header);

/* future.c: the links of the poll that was just closed. */
void agent_put_chain(struct agent_notes *n, uint64_t ticks);

/* The end of a poll that left the task pending, and where it waits, unless the state shows one of
 * these bits: then another thread has polled or ended it since. What the chain says was seen during
 * the poll. */
static inline void agent_put_pending(struct agent_notes *n, const struct agent_hook *hook,
				     const void *header, uint64_t ref, uint64_t moved)
{
	const struct agent_reach reach = agent_task_reach(n, hook, header);
	const uint64_t *state = agent_state_of(hook, header);
	uint64_t point = 0, ticks = 0, resource = 0;

	if (hook->flags & AGENT_HOOK_LIST) {
		struct agent_list list;
		agent_list(hook, &reach, &list);
		if (!(__atomic_load_n(state, __ATOMIC_ACQUIRE) & moved))
			agent_put_list(n, AE_FUTURE_SNAPSHOT_END, &list);
	} else {
		point = agent_point(hook, &reach, false, &resource);
	}
	if (unlikely(n->chain_end > n->chain_first)) {
		ticks = arch_ticks();
		agent_put_chain(n, ticks);
	}
	if (unlikely(!point || __atomic_load_n(state, __ATOMIC_ACQUIRE) & moved)) {
		agent_put_at(n, ticks, AE_POLL_PENDING, ref);
		return;
	}
	if (resource) {
		ticks = ticks ? ticks : arch_ticks();
		agent_put_at(n, ticks, AE_RESOURCE, (uint64_t)AGENT_LINK_OWN << 56 | resource);
	}
	agent_put_at(n, ticks, AE_POLL_PENDING_AT, agent_ref(point, ref));
}
