/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * async-task's tasks (async-std, smol, async-executor), 4.0 to 4.7: run, schedule, destroy of the
 * task's vtable and the two functions that wake.
 *
 * As with tokio the agent holds one reference over a run, to read the state after it. The last
 * reference to a task has duties in async-task: a waker that is dropped last schedules the task
 * once more, so that the executor drops the future. Other owners that let go meanwhile see the
 * agent's reference and leave the duty to it: release().
 *
 * A panic in the future leaves run() by unwinding, through the thunk's frame (thunks.S): its
 * personality routine closes the poll in passing.
 *
 * What the words of a task mean, and how a run ended by them, is in runtime_async_task.h.
 */
#include "agent/agent.h"
#include "agent/point.h"
#include "agent/runtime_async_task.h"
#include "agent/thunks.h"

static bool knows_state(const struct agent_hook *hook)
{
	return hook->task.state_offset != OFFSET_UNKNOWN;
}

/* At the start of a run the vtable is known by its value, and the state by what it must be. Where
 * one of them isn't clear another run will show it. */
static void learn_header(struct agent_hook *hook, const void *header)
{
	const uint64_t *words = header;

	for (uint16_t i = 0; hook->task.vtable_offset == OFFSET_UNKNOWN && i < ASYNC_HEADER_WORDS;
	     i++)
		if (words[i] == hook->task.vtable)
			hook->task.vtable_offset = i * 8;
	uint16_t state = async_state_offset(words);
	if (!knows_state(hook) && state != OFFSET_UNKNOWN)
		hook->task.state_offset = state;
}

/* A waker's header: one of its first words is the vtable of a kind that we know. */
static void learn_wake(struct agent_hook *wake, const void *header)
{
	const struct agent_hook *hooks = agent_hooks();
	const uint64_t *words = header;

	for (uint32_t i = 0; i < agent_state()->n_hooks; i++) {
		if (hooks[i].type != AH_ASYNC_RUN)
			continue;
		for (uint16_t k = 0; k < ASYNC_HEADER_WORDS; k++) {
			if (words[k] == hooks[i].task.vtable) {
				wake->task.vtable_offset = k * 8;
				return;
			}
		}
	}
}

/* A waker that is the last to leave a pending task has the executor drop the future. */
static void schedule_drop(struct agent_notes *n, const struct agent_hook *hook, void *header,
			  uint64_t ref)
{
	const struct agent_hook *hooks = agent_hooks();

	for (uint32_t i = 0; i < agent_state()->n_hooks; i++) {
		if (hooks[i].type != AH_ASYNC_SCHEDULE || hooks[i].task.vtable != hook->task.vtable)
			continue;
		__atomic_store_n(agent_state_of(hook, header),
				 ASYNC_SCHEDULED | ASYNC_CLOSED | ASYNC_REFERENCE,
				 __ATOMIC_RELEASE);
		if (n && agent_live())
			agent_put(n, AE_SCHEDULE, ref);
		((void (*)(void *, uint64_t))hooks[i].orig)(header, 0);
		return;
	}
	((void (*)(void *))hook->task.drop_ref)(header);
}

/*
 * Gives the agent's reference back. While there are others, that is all. If it is the last one,
 * then either  - the task is over: it is destroyed, as by any last owner; or  - it is pending and
 * run() was the last to leave before us, there is no waker: run() destroys
 *    such a task without dropping its future, and so do we; or
 *  - it is pending and others left behind run(), seeing us: then their duty is this one's. The
 *  last two
 * differ only in what was before: `alone` says that there was no other reference when run() began,
 * nor when it had returned.
 */
static void release(struct agent_notes *n, const struct agent_hook *hook, void *header,
		    uint64_t ref, bool alone)
{
	uint64_t *state = agent_state_of(hook, header);
	uint64_t now = __atomic_load_n(state, __ATOMIC_ACQUIRE);

	do {
		if (!async_is_alone(now))
			continue;
		if (!alone && !(now & (ASYNC_COMPLETED | ASYNC_CLOSED))) {
			schedule_drop(n, hook, header, ref);
			return;
		}
		if (n && agent_live())
			agent_put_drop(n, ref);
		((void (*)(void *))hook->task.drop_ref)(header);
		return;
	} while (!__atomic_compare_exchange_n(state, &now, now - ASYNC_REFERENCE, true,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

/*
 * Before a run. Without a poll in the result the thunk jumps on to the original, else it calls it
 * and comes back through agent_async_end().
 */
struct agent_begun agent_async_begin(void *header, struct agent_hook *hook)
{
	static const struct agent_begun pass;
	bool framed = agent_may_frame(hook);

	if (unlikely(!knows_state(hook) || hook->task.vtable_offset == OFFSET_UNKNOWN))
		learn_header(hook, header);
	struct agent_notes *n = agent_notes();
	if (unlikely(!n)) {
		agent_no_ring(2);
		return pass;
	}
	uint64_t ref = agent_task_ref(hook, header);
	uint64_t before = knows_state(hook)
				  ? __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE)
				  : 0;
	if (unlikely(!framed)) {
		if (before & ASYNC_CLOSED) {
			agent_put(n, AE_CANCEL, ref);
		} else {
			agent_put(n, AE_POLL_BEGIN, ref);
			agent_put(n, AE_POLL_UNSEEN, ref);
		}
		return pass;
	}
	struct agent_poll *poll = agent_poll_open(n, hook, header, ref, POLL_ASYNC);
	if (unlikely(!poll))
		return pass;
	if (likely(hook->task.drop_ref && knows_state(hook))) {
		before = __atomic_fetch_add(agent_state_of(hook, header), ASYNC_REFERENCE,
					    __ATOMIC_ACQ_REL);
		poll->flags |= POLL_HELD;
		if (async_is_alone(before))
			poll->flags |= POLL_ALONE;
	}
	/* A task that was closed isn't polled any more: the run only drops its future. */
	if (unlikely(before & ASYNC_CLOSED)) {
		poll->flags |= POLL_CLOSED;
	} else {
		agent_put(n, AE_POLL_BEGIN, ref);
		if (poll->flags & POLL_HELD && hook->flags & AGENT_HOOK_LIST)
			agent_put_begin_list(n, hook, header);
	}
	return (struct agent_begun){poll, (uint64_t)poll->generation << 32 |
						  (poll->flags & (POLL_HELD | POLL_ALONE))};
}

/* Whether the output is the payload of the panic. That number of words is known to be there: we
 * look on to the end of their page at most. */
#define KNOWN_WORDS 7u

static bool has_payload(const struct agent_poll *poll, const void *header)
{
	const uint64_t *words = header;
	uint64_t page_end = ((uint64_t)(words + KNOWN_WORDS) - 1) | (AGENT_PAGE - 1);

	for (uint32_t i = ASYNC_HEADER_WORDS;
	     i < ASYNC_OUTPUT_WORDS && (uint64_t)(words + i) < page_end; i++)
		if (panic_is_payload(&poll->raised, words[i]))
			return true;
	return false;
}

/* After a run that returned. `held` comes from the thunk's frame, not from the notes: a reference
 * that we took is given back whatever became of the recording in between. */
void agent_async_end(void *header, struct agent_hook *hook, struct agent_poll *poll, uint64_t held,
		     bool woken)
{
	struct agent_notes *n = agent_kept_notes();
	uint64_t ref = agent_ref(hook->kind, (uint64_t)header);
	uint64_t type = woken ? AE_POLL_PENDING : AE_POLL_UNKNOWN;
	uint64_t after = 0;

	if (held & POLL_HELD) {
		after = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
		if (!woken)
			type = AE_NONE; /* the state says */
	}
	if (n && agent_poll_close(n, poll, held >> 32)) {
		if (type == AE_NONE)
			type = agent_end_event(async_end(after, after & ASYNC_COMPLETED &&
									poll->flags & POLL_RAISED &&
									has_payload(poll, header)));
		if (poll->flags & POLL_CLOSED)
			type = AE_CANCEL;
		if (type == AE_POLL_PENDING && held & POLL_HELD)
			agent_put_pending(n, hook, header, ref, ASYNC_LIFECYCLE);
		else
			agent_put(n, type, ref);
	} else {
		n = NULL;
	}
	if (held & POLL_HELD)
		release(n, hook, header, ref, held & POLL_ALONE && async_is_alone(after));
}

/* Whether this is the hook table's, and the notes have this run open. */
static bool is_open_run(const struct agent_notes *n, const struct agent_poll *poll,
			const void *header, const struct agent_hook *hook, uint64_t held)
{
	uint64_t at = (uint64_t)poll - (uint64_t)n->polls;

	return at < sizeof(n->polls) && at % sizeof(*poll) == 0 && poll->header == header &&
	       poll->hook == hook && poll->flags & POLL_ASYNC && poll->generation == held >> 32;
}

/*
 * A panic, or a thread's forced end, passes the thunk's frame, whose registers hold the arguments
 * of agent_async_end(). It need not be the innermost open run: a program may have left another one
 * on another stack. (A thread that is cancelled may be at any instruction of the thunk, where they
 * are not set yet.)
 */
void agent_async_unwound(bool forced, void *context, uint64_t from)
{
	struct agent_notes *n = agent_kept_notes();
	uint64_t header, hook, at, held;

	if (!n || !agent_unwound_register(context, from, ARCH_RBX, &header) ||
	    !agent_unwound_register(context, from, ARCH_R12, &hook) ||
	    !agent_unwound_register(context, from, ARCH_R13, &at) ||
	    !agent_unwound_register(context, from, ARCH_R14, &held))
		return;
	struct agent_poll *poll = (struct agent_poll *)at;
	if (!is_open_run(n, poll, (void *)header, (struct agent_hook *)hook, held))
		return;
	uint64_t ref = poll->ref;
	uint64_t type = poll->flags & POLL_CLOSED ? AE_CANCEL
			: forced		  ? AE_POLL_UNKNOWN
						  : AE_POLL_PANICKED;
	if (agent_poll_close(n, poll, poll->generation))
		agent_put(n, type, ref);
	if (held & POLL_HELD)
		release(n, poll->hook, (void *)header, ref, false);
}

/* drop_future is called through the vtable when a Runnable is dropped instead of run. */
void agent_async_cancel(void *header, struct agent_hook *hook)
{
	struct agent_notes *n = agent_notes();

	if (likely(n != NULL))
		agent_put(n, AE_CANCEL, agent_task_ref(hook, header));
	else
		agent_no_ring(1);
}

void agent_async_schedule(void *header, struct agent_hook *hook)
{
	struct agent_notes *n = agent_notes();

	if (likely(n != NULL))
		agent_put(n, AE_SCHEDULE, agent_task_ref(hook, header));
	else
		agent_no_ring(1);
}

void agent_async_wake(void *header, struct agent_hook *hook)
{
	struct agent_notes *n = agent_notes();

	if (unlikely(!n)) {
		agent_no_ring(1);
		return;
	}
	agent_save_outcome(n);
	if (unlikely(hook->task.vtable_offset == OFFSET_UNKNOWN))
		learn_wake(hook, header);
	/* What a kind's run learned of the header holds for its wakers too. */
	const struct agent_hook *known = agent_header_hook(hook, header);
	uint64_t type = AE_WAKE;
	if (knows_state(hook) || (known && knows_state(known))) {
		uint64_t state = __atomic_load_n(
			agent_state_of(knows_state(hook) ? hook : known, header), __ATOMIC_ACQUIRE);
		type = AE_WAKE + async_wake_effect(state);
	}
	agent_wake(n, type,
		   known ? agent_task_ref(known, header)
			 : agent_ref(AGENT_KIND_NONE, (uint64_t)header));
}
