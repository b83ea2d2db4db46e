/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What both runtimes' polls have in common: the stack of the polls that are open on a thread, and
 * the reference by which an event names a task.
 */
#include "agent/agent.h"

/*
 * Puts a poll on top of the thread's open ones. NULL when there are too many: the caller passes the
 * call through, and its two events count as lost.
 */
struct agent_poll *agent_poll_open(struct agent_notes *n, struct agent_hook *hook, void *header,
				   uint64_t ref, uint32_t flags)
{
	uint32_t depth = n->depth;

	agent_check(depth <= AGENT_MAX_POLLS && (uint32_t)agent_claim(n));
	if (unlikely(depth >= AGENT_MAX_POLLS)) {
		agent_lose(n, 2);
		return NULL;
	}
	if (depth) {
		struct agent_poll *outer = &n->polls[depth - 1];

		if (unlikely(!(outer->flags & (POLL_WORKER | POLL_TASK)))) {
			outer->flags |= POLL_WORKER;
			/* pollux writes the other byte at any time. */
			__atomic_fetch_or((uint8_t *)&outer->hook->flags, AGENT_HOOK_WORKER,
					  __ATOMIC_RELAXED);
		}
	}
	struct agent_poll *poll = &n->polls[depth];
	poll->ref = ref;
	__atomic_store_n(&poll->header, header, __ATOMIC_RELAXED);
	poll->hook = hook;
	poll->flags = flags | (hook->flags & (POLL_WORKER | POLL_TASK));
	poll->raised = (struct panic_payload){{0, 0}};
	poll->generation = (uint32_t)(agent_claim(n) >> 32);
	n->n_pages = 0;
	poll->chain_outer = agent_chain_open(n);
	poll->chain = n->chain_base;
	poll->handler_outer = n->handler;
	n->handler = 0;
	/* Others find it from here on. */
	__atomic_store_n(&n->depth, (uint16_t)(depth + 1), __ATOMIC_RELEASE);
	return poll;
}

/* Takes the poll, and what was left open above it, from the stack; nothing is touched if the ring
 * is another recording's, or another thread's. False also when nothing may be recorded of its end:
 * switched off in between, or in the child of a fork, which has its own copy of the notes, but no
 * rings. */
bool agent_poll_close(struct agent_notes *n, struct agent_poll *poll, uint32_t generation)
{
	if (unlikely(agent_claim(n) >> 32 != generation || poll < n->polls ||
		     poll >= n->polls + AGENT_MAX_POLLS))
		return false;
	/* A poll on another stack may come to its end after those around it. */
	uint16_t i = (uint16_t)(poll - n->polls);
	if (likely(i < n->depth))
		__atomic_store_n(&n->depth, i, __ATOMIC_RELEASE);
	n->chain_first = poll->chain;
	n->chain_end = n->n_chain;
	n->n_chain = poll->chain;
	n->chain_base = poll->chain_outer;
	n->handler = poll->handler_outer;
	return agent_live();
}

/*
 * The poll slot's hook of a task of which only the header is at hand (in a waker): its vtable's
 * poll slot holds one of our stubs if the kind is hooked. NULL: it isn't.
 */
const struct agent_hook *agent_header_hook(const struct agent_hook *wake, const void *header)
{
	const struct agent_state *s = agent_state();
	uint16_t offset = wake->task.vtable_offset;

	if (unlikely(offset == OFFSET_UNKNOWN))
		return NULL;
	uint64_t vtable = *(const uint64_t *)((const char *)header + offset);
	uint64_t stub = *(uint64_t *)(vtable + wake->task.poll_offset) - s->stubs;
	if (unlikely(stub >= (uint64_t)s->n_hooks * AGENT_STUB_BYTES))
		return NULL;
	return &agent_hooks()[stub / AGENT_STUB_BYTES];
}
