/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tokio's tasks, 1.23 and later: poll, schedule, dealloc, shutdown of the task's vtable, and its
 * waker's two functions that wake.
 *
 * How a poll ended is in the task's state word, but the task may be freed before the poll returns.
 * So the agent holds one reference over the poll, as a waker would: tokio's own rules then keep the
 * memory, and if it turns out to be the last one, the agent frees the task as any last owner does.
 * Nothing in tokio asks for an exact count of references except drop_join_handle_fast(), which has
 * a slow path with the same effect (docs/agent-runtimes.md lists every place).
 *
 * What the words of a task mean, and how a poll ended by them, is in runtime_tokio.h.
 */
#include "agent/agent.h"
#include "agent/point.h"
#include "agent/thunks.h"

typedef void (*task_fn)(void *header);
typedef void (*read_fn)(void *header, uint64_t *dst, const void *waker);

/* Gives the agent's reference back; if that was the last one, frees the task. */
static void release(struct agent_notes *n, const struct agent_hook *hook, void *header,
		    uint64_t ref)
{
	if (likely(tokio_references(__atomic_fetch_sub(agent_state_of(hook, header),
						       TOKIO_REFERENCE, __ATOMIC_ACQ_REL)) != 1))
		return;
	if (n && agent_live())
		agent_put_drop(n, ref);
	if (likely(hook->task.drop_ref != 0))
		((task_fn)hook->task.drop_ref)(header);
}

/* How the task that is polled ended, by its output, if it is complete: the words after its id. */
static __attribute__((noinline)) enum poll_end read_output(const struct agent_poll *poll,
							   bool cancelled)
{
	const struct agent_hook *hook = poll->hook;
	uint64_t at = (uint64_t)poll->header + hook->task.id_offset;
	uint32_t n = tokio_output_words(hook->task.id_offset, hook->task.end_offset);
	const struct tokio_error e = {.id = agent_word(at),
				      .raised = poll->flags & POLL_RAISED,
				      .payload = poll->raised,
				      .cancelled = cancelled};

	return tokio_output(agent_word, at + 8, n, n, &e);
}

/* The same, if the output was read before it was taken, and saved in the flags. */
static enum poll_end saved_end(uint32_t flags)
{
	return !(flags & POLL_OUTCOME_SAVED) ? END_UNKNOWN
	       : flags & POLL_PANICKED	     ? END_PANICKED
	       : flags & POLL_ABORTED	     ? END_CANCELLED
					     : END_READY;
}

static uint32_t end_flags(enum poll_end output)
{
	return output == END_PANICKED	 ? POLL_OUTCOME_SAVED | POLL_PANICKED
	       : output == END_CANCELLED ? POLL_OUTCOME_SAVED | POLL_ABORTED
					 : POLL_OUTCOME_SAVED;
}

/* Whether another thread shuts the task down, and found it in a queue, as this thread did. That
 * thread sets `shutting` before, and POLL_SHUT_IDLE in the open poll before it clears
 * `shutting`. */
static bool is_shut_idle(const void *header, const struct agent_poll *poll)
{
	return __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE) & POLL_SHUT_IDLE ||
	       agent_is_shutting(header) ||
	       __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE) & POLL_SHUT_IDLE;
}

/* How a poll ended after which the task is complete. */
static enum poll_end outcome(const struct agent_hook *hook, const void *header, uint64_t after,
			     const struct agent_poll *poll)
{
	uint32_t flags = __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE);
	struct tokio_poll p = {
		.after = after,
		.raised = flags & POLL_RAISED,
		.finished = flags & POLL_FINISHED,
		.shut_down = flags & POLL_SHUT_DOWN,
	};

	if (likely(tokio_ended_plainly(&p)))
		return END_READY;
	p.shut_queued = !(p.raised || p.shut_down) && is_shut_idle(header, poll);
	if (!tokio_was_polled(&p))
		return END_UNPOLLED;
	p.output = saved_end(flags);
	if (p.output == END_UNKNOWN)
		p.output = read_output(poll, tokio_was_cancelled(&p));
	/* If the output was taken meanwhile, the thread that took it has saved it before. */
	flags |= __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE);
	if (p.output == END_UNKNOWN)
		p.output = saved_end(flags);
	p.shut_down = flags & POLL_SHUT_DOWN;
	p.taken = flags & POLL_QUERIED && !(after & TOKIO_JOIN_WAKER);
	p.queried = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	return tokio_end(&p);
}

/*
 * In the poll of a task that is complete, something is woken. That may be the task that awaits this
 * one, which then takes the output, maybe before the end of this poll: so the output is read now.
 */
void agent_tokio_save_outcome(struct agent_poll *poll, uint64_t state)
{
	if (poll->flags & POLL_OUTCOME_SAVED || !(state & TOKIO_JOIN_INTEREST))
		return;
	__atomic_fetch_or(&poll->flags, end_flags(read_output(poll, state & TOKIO_CANCELLED)),
			  __ATOMIC_RELAXED);
}

/*
 * The join handle asks for the task's output. If the task's last poll is still open, its end would
 * find no output: so the output is read now. A task that isn't complete may be complete a moment
 * later, when tokio checks: then the poll is marked as queried, and the result is true. All this
 * only if an output can be in doubt (after an abort, or a panic on any thread), since with many
 * threads it takes long to find the poll.
 */
static bool query_output(const struct agent_hook *hook, const void *header)
{
	uint64_t state = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	struct agent_search at = {0};
	struct agent_poll *last;
	bool found = false;

	if (likely(!(state & TOKIO_CANCELLED) &&
		   !__atomic_load_n(&agent_private()->n_raised, __ATOMIC_RELAXED)))
		return false;
	while ((last = agent_find_poll(header, &at))) {
		found = true;
		if (state & TOKIO_COMPLETE)
			agent_tokio_save_outcome(last, state);
		else
			__atomic_fetch_or(&last->flags, POLL_QUERIED, __ATOMIC_RELAXED);
	}
	return found && !(state & TOKIO_COMPLETE);
}

void agent_tokio_read_tail(void *header, struct agent_hook *hook)
{
	query_output(hook, header);
}

/* The error of a Poll<Result<T, JoinError>> is among its first words. */
#define RESULT_WORDS 4u

/* Tokio writes the output to dst, if the task is complete; else it keeps the waker. */
void agent_tokio_read(void *header, uint64_t *dst, const void *waker, struct agent_hook *hook)
{
	bool queried = query_output(hook, header);

	((read_fn)hook->orig)(header, dst, waker);
	if (likely(!queried))
		return;
	/* If the task was complete by then, the returned output shows how that poll ended. */
	uint64_t state = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	if (!(state & TOKIO_COMPLETE) || state & TOKIO_JOIN_WAKER)
		return;
	const uint64_t id = *(const uint64_t *)((const char *)header + hook->task.id_offset);
	struct agent_search at = {0};
	struct agent_poll *last;
	while ((last = agent_find_poll(header, &at))) {
		const struct tokio_error e = {.id = id,
					      .raised = last->flags & POLL_RAISED,
					      .payload = last->raised,
					      .cancelled = state & TOKIO_CANCELLED};
		uint32_t flags = end_flags(
			tokio_output(agent_word, (uint64_t)dst, RESULT_WORDS, RESULT_WORDS, &e));
		if (!(__atomic_load_n(&last->flags, __ATOMIC_ACQUIRE) & POLL_OUTCOME_SAVED))
			__atomic_fetch_or(&last->flags, flags, __ATOMIC_RELEASE);
	}
}

void agent_tokio_poll(void *header, struct agent_hook *hook)
{
	/* No panic passes here, but backtraces do. */
	(void)agent_may_frame(hook);
	struct agent_notes *n = agent_notes();
	if (unlikely(!n)) {
		agent_no_ring(2);
		((task_fn)hook->orig)(header);
		return;
	}
	uint64_t ref = agent_task_ref(hook, header);
	struct agent_poll *poll = agent_poll_open(n, hook, header, ref, 0);
	if (unlikely(!poll)) {
		((task_fn)hook->orig)(header);
		return;
	}
	uint32_t generation = poll->generation;
	uint64_t before =
		__atomic_fetch_add(agent_state_of(hook, header), TOKIO_REFERENCE, __ATOMIC_ACQ_REL);

	/* A task that is complete or running (shut down while it was in a queue) isn't polled, it
	 * only loses a reference; a cancelled one is dropped instead of polled. */
	bool polled = likely(!(before & (TOKIO_LIFECYCLE | TOKIO_CANCELLED)));
	if (polled) {
		agent_put(n, AE_POLL_BEGIN, ref);
		if (hook->flags & AGENT_HOOK_LIST)
			agent_put_begin_list(n, hook, header);
	}

	((task_fn)hook->orig)(header);

	/* The end is written before the reference is given back: a task's drop comes last. */
	uint64_t after = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	/* Before the poll is closed, while other threads can still set flags in it. */
	enum poll_end end =
		polled && after & TOKIO_COMPLETE ? outcome(hook, header, after, poll) : END_PENDING;
	/* The thread that shut the task down marked it before this one began to poll. */
	const uint64_t taken = TOKIO_RUNNING | TOKIO_CANCELLED | TOKIO_NOTIFIED;
	if (unlikely(polled && !end && (after & taken) == taken) && is_shut_idle(header, poll))
		end = END_UNPOLLED;
	if (likely(agent_poll_close(n, poll, generation))) {
		if (unlikely(poll->flags & POLL_RAISED))
			__atomic_fetch_sub(&agent_private()->n_raised, 1, __ATOMIC_RELAXED);
		if (likely(polled && !end))
			agent_put_pending(n, hook, header, ref, TOKIO_LIFECYCLE);
		else if (polled)
			agent_put(n, agent_end_event(end), ref);
		else if (!(before & TOKIO_LIFECYCLE) && after & TOKIO_COMPLETE)
			agent_put(n, AE_CANCEL, ref);
	} else {
		n = NULL;
	}
	release(n, hook, header, ref);
}

/* Sets a flag in the open polls of a task that is shut down. Tokio marks it as cancelled, also
 * if it is complete, or about to be: the flag says so to the thread at the end of its last poll. */
static void flag_open_polls(const void *header, uint32_t flag)
{
	struct agent_search at = {0};
	struct agent_poll *last;

	while ((last = agent_find_poll(header, &at)))
		__atomic_fetch_or(&last->flags, flag, __ATOMIC_RELEASE);
}

void agent_tokio_shutdown(void *header, struct agent_hook *hook)
{
	uint64_t ref = agent_task_ref(hook, header);
	struct agent_notes *n = agent_live() ? agent_notes() : NULL;

	if (n && tokio_is_queued(__atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE)))
		__atomic_store_n(&n->shutting, header, __ATOMIC_SEQ_CST);
	uint64_t before =
		__atomic_fetch_add(agent_state_of(hook, header), TOKIO_REFERENCE, __ATOMIC_ACQ_REL);

	if (before & TOKIO_LIFECYCLE && !(before & TOKIO_CANCELLED) && agent_live())
		flag_open_polls(header, before & TOKIO_COMPLETE ? POLL_FINISHED : POLL_SHUT_DOWN);
	((task_fn)hook->orig)(header);

	uint64_t after = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	if (tokio_is_queued(before) && agent_live())
		flag_open_polls(header, POLL_SHUT_IDLE);
	n = agent_live() ? agent_notes() : NULL;
	if (n)
		__atomic_store_n(&n->shutting, NULL, __ATOMIC_RELEASE);
	if (!(before & TOKIO_LIFECYCLE) && after & TOKIO_COMPLETE) {
		if (n)
			agent_put(n, AE_CANCEL, ref);
		else if (agent_live())
			agent_no_ring(1);
	}
	release(n, hook, header, ref);
}

void agent_tokio_schedule(void *header, struct agent_hook *hook)
{
	struct agent_notes *n = agent_notes();

	if (unlikely(!n)) {
		agent_no_ring(1);
		return;
	}
	uint64_t ref = agent_task_ref(hook, header);
	/* The wake that this thread has just recorded schedules the task. */
	if (n->wake == ref && n->wake_end == n->head)
		n->wake_end = UINT64_MAX;
	else
		agent_put(n, AE_SCHEDULE, ref);
}

/* Also async-task's destroy. */
void agent_drop(void *header, struct agent_hook *hook)
{
	struct agent_notes *n = agent_notes();

	if (likely(n != NULL))
		agent_put_drop(n, agent_task_ref(hook, header));
	else
		agent_no_ring(1);
}

/* Records a wake; its type says what effect it has. */
void agent_wake(struct agent_notes *n, uint64_t type, uint64_t ref)
{
	uint64_t head = n->head;

	agent_put(n, type, ref);
	if (type == AE_WAKE && n->head != head) {
		n->wake = ref;
		n->wake_end = n->head;
	}
}

void agent_tokio_wake(void *header, struct agent_hook *hook)
{
	struct agent_notes *n = agent_notes();

	if (unlikely(!n)) {
		agent_no_ring(1);
		return;
	}
	agent_save_outcome(n);
	/* The waker holds a reference, so the task exists. */
	uint64_t state = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	const struct agent_hook *known = agent_header_hook(hook, header);
	agent_wake(n, AE_WAKE + tokio_wake_effect(state),
		   likely(known != NULL) ? agent_task_ref(known, header)
					 : agent_ref(AGENT_KIND_NONE, (uint64_t)header));
}

/* The waker of a block_on, whose future is no task. */
void agent_root_wake(void *data, struct agent_hook *hook)
{
	struct agent_notes *n = agent_notes();

	if (unlikely(!n)) {
		agent_no_ring(1);
		return;
	}
	agent_save_outcome(n);
	agent_put(n, AE_ROOT_WAKE, agent_ref(hook->kind, (uint64_t)data));
}
