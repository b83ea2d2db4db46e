/*
 * Polls of futures below a task's: the calls of a future's poll function go through a thunk, which
 * calls us before and after.
 *
 * What an open poll needs at its end lies in the thunk's frame, so they may be nested as deep as
 * the stack allows; the thread's notes know the innermost one, for a panic that passes the frame.
 * How a poll ended is read from the future itself where that is a coroutine: its state is its own,
 * and whoever polls it lends it to the poll until this returns, so the memory is there. Of other
 * futures it is read from what they return.
 */
#include "agent/agent.h"
#include "agent/point.h"
#include "agent/thunks.h"

/* False: nothing is recorded, the thunk jumps on to the original. */
bool agent_future_begin(struct agent_hook *hook, struct agent_future *f, void *first, void *second)
{
	const struct agent_state *s = agent_state();

	if (unlikely(__atomic_load_n(&s->registered, __ATOMIC_ACQUIRE) != 2)) {
		/* A panic must find its way through the frame. */
		if (!s->wrap)
			return false;
		agent_register();
		if (__atomic_load_n(&s->registered, __ATOMIC_ACQUIRE) != 2)
			return false;
	}
	struct ring *r = agent_ring();
	if (unlikely(!r)) {
		agent_no_ring(2);
		return false;
	}
	struct agent_notes *n = agent_notes(r);
	f->ring = r;
	f->claim = agent_claim(r);
	f->hook = hook;
	f->result = first;
	f->future = hook->flags & AGENT_HOOK_MEMORY ? second : first;
	f->outer = n->futures;
	uint64_t point = agent_point(hook, f->future);
	if (point)
		agent_put(r, AE_FUTURE_BEGIN_AT, agent_ref(point, (uint64_t)f->future));
	else
		agent_put(r, AE_FUTURE_BEGIN, agent_ref(hook->kind, (uint64_t)f->future));
	arch_barrier_local();
	n->futures = f;
	return true;
}

static uint64_t outcome(const struct agent_future *f, uint64_t first, uint64_t second)
{
	const struct agent_hook *hook = f->hook;
	uint32_t size = hook->result.size;
	uint64_t value;

	switch (hook->result.from) {
	case AR_STATE:
		value = agent_state_value((const char *)f->future + hook->result.offset, size);
		return value > hook->pending	     ? AE_FUTURE_PENDING
		       : value == hook->result.ready ? AE_FUTURE_READY
						     : AE_FUTURE_UNKNOWN;
	case AR_FIRST:
		value = agent_state_value((const char *)&first, size);
		break;
	case AR_SECOND:
		value = agent_state_value((const char *)&second, size);
		break;
	case AR_MEMORY:
		value = agent_state_value((const char *)f->result + hook->result.offset, size);
		break;
	default:
		return AE_FUTURE_UNKNOWN;
	}
	if (value == hook->pending)
		return AE_FUTURE_PENDING;
	return hook->result.ready == AR_ANY_READY || value == hook->result.ready
		       ? AE_FUTURE_READY
		       : AE_FUTURE_UNKNOWN;
}

/* Whether its end may be recorded: not if we were switched off since, in the child of a fork, or if
 * the ring is another recording's. Then nothing of the ring is touched. */
static bool still_ours(const struct agent_future *f)
{
	return likely(agent_live() && agent_claim(f->ring) == f->claim);
}

/* `first` and `second` are the registers of the result. */
void agent_future_end(struct agent_future *f, uint64_t first, uint64_t second)
{
	if (!still_ours(f))
		return;
	struct ring *r = f->ring;
	uint64_t type = outcome(f, first, second);
	uint64_t point = 0;

	agent_notes(r)->futures = f->outer;
	arch_barrier_local();
	if (type == AE_FUTURE_PENDING)
		point = agent_point(f->hook, f->future);
	if (point)
		agent_put(r, AE_FUTURE_PENDING_AT, agent_ref(point, (uint64_t)f->future));
	else
		agent_put(r, type, agent_ref(f->hook->kind, (uint64_t)f->future));
}

/* A panic, or a thread's forced end, passes the thunk's frame: the innermost open one. */
void agent_future_unwound(bool forced)
{
	struct ring *r = agent_live() ? agent_peek_ring() : NULL;
	struct agent_future *f = r ? agent_notes(r)->futures : NULL;

	if (!f || f->claim != agent_claim(r))
		return;
	agent_notes(r)->futures = f->outer;
	agent_put(r, forced ? AE_FUTURE_UNKNOWN : AE_FUTURE_PANICKED,
		  agent_ref(f->hook->kind, (uint64_t)f->future));
}
