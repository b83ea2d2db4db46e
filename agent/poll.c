/*
 * What both runtimes' polls have in common: the stack of the polls that are open on a thread, and
 * the reference by which an event names a task.
 */
#include "agent/agent.h"

/*
 * Puts a poll on top of the thread's open ones. NULL when there are too many: the caller passes the
 * call through, and its two events count as lost.
 */
struct agent_poll *agent_poll_open(struct ring *r, struct agent_hook *hook, void *header,
				   uint64_t ref, uint32_t flags)
{
	struct agent_notes *n = agent_notes(r);
	uint32_t depth = n->depth;

	if (unlikely(depth >= AGENT_MAX_POLLS)) {
		agent_lose(r, 2);
		return NULL;
	}
	if (unlikely(n->tail_open))
		agent_tail_close(r);
	if (depth) {
		struct agent_poll *outer = &n->polls[depth - 1];

		if (unlikely(!(outer->flags & (POLL_WORKER | POLL_TASK)))) {
			outer->flags |= POLL_WORKER;
			outer->hook->flags |= AGENT_HOOK_WORKER;
		}
	}
	struct agent_poll *poll = &n->polls[depth];
	poll->ref = ref;
	poll->header = header;
	poll->hook = hook;
	poll->flags = flags | (hook->flags & (POLL_WORKER | POLL_TASK));
	poll->raised[0] = poll->raised[1] = 0;
	poll->generation = (uint32_t)(agent_claim(r) >> 32);
	arch_barrier_local();
	n->depth = depth + 1;
	return poll;
}

/* Takes the poll, and what was left open above it, from the stack. False when nothing may be
 * recorded of its end, and nothing touched: switched off in between, in the child of a fork (which
 * shares the rings), or the ring is another recording's. */
bool agent_poll_close(struct ring *r, struct agent_poll *poll, uint32_t generation)
{
	struct agent_notes *n = agent_notes(r);

	if (unlikely(!agent_live() || agent_claim(r) >> 32 != generation))
		return false;
	n->depth = (uint32_t)(poll - n->polls);
	return true;
}

/* The end of a poll that was tail-jumped into is seen late, at the thread's next step. */
void agent_tail_close(struct ring *r)
{
	struct agent_notes *n = agent_notes(r);

	n->tail_open = 0;
	agent_put(r, AE_POLL_UNKNOWN, n->tail_ref);
}

/*
 * The poll slot's hook of a task of which only the header is at hand (in a waker): its vtable's
 * poll slot holds one of our stubs if the kind is hooked. NULL: it isn't.
 */
const struct agent_hook *agent_header_hook(const struct agent_hook *wake, const void *header)
{
	const struct agent_state *s = agent_state();
	uint16_t offset = wake->vtable_offset;

	if (unlikely(offset == AGENT_OFFSET_UNKNOWN))
		return NULL;
	uint64_t vtable = *(uint64_t *)((char *)header + offset);
	uint64_t stub = *(uint64_t *)(vtable + wake->poll_offset) - s->stubs;
	if (unlikely(stub >= (uint64_t)s->n_hooks * AGENT_STUB_BYTES))
		return NULL;
	return &agent_hooks()[stub / AGENT_STUB_BYTES];
}
