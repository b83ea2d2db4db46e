/*
 * Where a task stands: the walk of a kind's layout program (ring.h) over the task's cell.
 *
 * It is done right after a pending poll, while we hold our reference: the cell's memory is there
 * whatever becomes of the task. Another thread may poll it already and change what we read. So no
 * pointer is ever taken from it, each value only chooses among the steps there are, and the caller
 * looks at the state word afterwards: if somebody was in there, the point is dropped.
 */
#ifndef POLLUX_AGENT_POINT_H
#define POLLUX_AGENT_POINT_H

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

/* The number of the await point, 0 if not known. */
static inline uint64_t agent_point(const struct agent_hook *hook, const void *header)
{
	const struct agent_step *program =
		(const struct agent_step *)__atomic_load_n(&hook->program, __ATOMIC_ACQUIRE);
	const struct agent_step *step = program;
	const char *at = header;
	uint64_t point = 0;

	if (!program)
		return 0;
	for (uint32_t depth = 0; step->next && depth < AGENT_PROGRAM_DEPTH; depth++) {
		const struct agent_node *node = (const struct agent_node *)(program + step->next);
		if (unlikely(!agent_node_state(node)))
			break;
		at += step->delta;
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

/* Every future that stands somewhere in it: what AE_FUTURE_WAS and AE_FUTURE_AT say of each. */
struct agent_list {
	uint32_t n;
	uint32_t by_value; /* pointers are left alone: what they lead to may be dropped */
	uint64_t words[AGENT_LIST_MAX];
};

/* future.c */
void agent_list(const struct agent_hook *hook, const void *from, struct agent_list *ret);
void agent_put_list(struct agent_notes *n, uint64_t type, const struct agent_list *list);
/* Right behind the begin of a poll. */
void agent_put_begin_list(struct agent_notes *n, const struct agent_hook *hook, const void *from);

#endif
