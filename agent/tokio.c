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

/* What a task's output is compared with, after this poll of it. The header is given apart: the poll
 * of another thread may be over, and its place another task's. */
static struct tokio_error error_of(const struct agent_hook *hook, const void *header,
				   const struct agent_poll *poll, bool cancelled)
{
	return (struct tokio_error){.id = agent_word((uint64_t)header + hook->task.id_offset),
				    .raised = poll->flags & POLL_RAISED,
				    .payload = poll->raised,
				    .cancelled = cancelled};
}

/* How the poll ended, by the task's output, if it is complete: the words after its id. */
static __attribute__((noinline)) enum poll_end read_output(const struct agent_hook *hook,
							   const void *header,
							   const struct agent_poll *poll,
							   bool cancelled)
{
	uint32_t n = tokio_output_words(hook->task.id_offset, hook->task.end_offset);
	const struct tokio_error e = error_of(hook, header, poll, cancelled);

	return tokio_output(agent_word, (uint64_t)header + hook->task.id_offset + 8, n, n, &e);
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

/* A thread that reads the output needs less than this, if the kernel does not preempt it. */
#define READER_LOOKS 200u

/* The open poll's flags. With `wait`: when who reads the output has said what it was, or a few
 * microseconds later, since nothing in a program may wait for another thread. */
static uint32_t reader_flags(const struct agent_poll *poll, bool wait)
{
	uint32_t flags = __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; wait && i < READER_LOOKS && flags & POLL_READING; i++) {
		arch_pause();
		flags = __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE);
	}
	return flags;
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
		p.output = read_output(hook, header, poll, tokio_was_cancelled(&p));
	p.queried = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	/* If the output was taken meanwhile, the thread that took it has saved it before, or is
	 * about to. So this comes after the looks at the output and at the state. */
	flags = reader_flags(poll, p.output == END_UNKNOWN);
	if (p.output == END_UNKNOWN)
		p.output = saved_end(flags);
	p.shut_down = flags & POLL_SHUT_DOWN;
	p.taken = flags & POLL_READING || (flags & POLL_QUERIED && !(after & TOKIO_JOIN_WAKER));
	return tokio_end(&p);
}

/*
 * In the poll of a task that is complete, something is woken. That may be the task that awaits this
 * one, which then takes the output, maybe before the end of this poll: so the output is read now.
 * If another thread may be taking it in this moment, "no error" says nothing: that thread will.
 */
static void save_outcome(const struct agent_hook *hook, const void *header, struct agent_poll *poll,
			 uint64_t state)
{
	if (poll->flags & POLL_OUTCOME_SAVED || !(state & TOKIO_JOIN_INTEREST))
		return;
	enum poll_end output = read_output(hook, header, poll, state & TOKIO_CANCELLED);
	if (output == END_UNKNOWN && __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE) & POLL_READING)
		return;
	__atomic_fetch_or(&poll->flags, end_flags(output), __ATOMIC_RELAXED);
}

void agent_tokio_save_outcome(struct agent_poll *poll, uint64_t state)
{
	save_outcome(poll->hook, poll->header, poll, state);
}

/*
 * The join handle asks for the task's output. If the task's last poll is still open, its end would
 * find no output: so the output is read now. A task that isn't complete may be complete a moment
 * later, when tokio checks: then the poll is marked with `mark`, and the result is true. All this
 * only if an output can be in doubt (after an abort, or a panic on any thread), since with many
 * threads it takes long to find the poll.
 */
static bool query_output(const struct agent_hook *hook, const void *header, uint32_t mark)
{
	uint64_t state = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	struct agent_search at = {0};
	struct agent_poll *last;
	bool marked = false;

	if (likely(!(state & TOKIO_CANCELLED) &&
		   !__atomic_load_n(&agent_private()->n_raised, __ATOMIC_RELAXED)))
		return false;
	while ((last = agent_find_poll(header, &at))) {
		if (state & TOKIO_COMPLETE) {
			save_outcome(hook, header, last, state);
		} else {
			__atomic_fetch_or(&last->flags, mark, __ATOMIC_SEQ_CST);
			marked = true;
		}
	}
	return marked;
}

void agent_tokio_read_tail(void *header, struct agent_hook *hook)
{
	query_output(hook, header, POLL_QUERIED);
}

/* The error of a Poll<Result<T, JoinError>> is among its first words. */
#define RESULT_WORDS 4u

/*
 * How the poll ended after which the task is complete and its output was queried: what tokio handed
 * out shows it, if that wrote `dst`, or else what is in the task, since no other can take it. No
 * error there: it ended by itself.
 */
static enum poll_end read_end(const struct agent_hook *hook, const void *header,
			      const struct agent_poll *last, bool cancelled,
			      const uint64_t *written)
{
	const struct tokio_error e = error_of(hook, header, last, cancelled);

	return written ? tokio_output(agent_word, (uint64_t)written, RESULT_WORDS, RESULT_WORDS, &e)
		       : read_output(hook, header, last, cancelled);
}

/* Tokio writes the output to dst, if the task is complete; else it keeps the waker. */
void agent_tokio_read(void *header, uint64_t *dst, const void *waker, struct agent_hook *hook)
{
	bool queried = query_output(hook, header, POLL_READING);

	if (likely(!queried)) {
		((read_fn)hook->orig)(header, dst, waker);
		return;
	}
	uint64_t was[RESULT_WORDS];
	bool written = false;
	for (uint32_t i = 0; i < RESULT_WORDS; i++)
		was[i] = dst[i];
	((read_fn)hook->orig)(header, dst, waker);
	for (uint32_t i = 0; i < RESULT_WORDS; i++)
		written |= was[i] != dst[i];

	uint64_t state = __atomic_load_n(agent_state_of(hook, header), __ATOMIC_ACQUIRE);
	struct agent_search at = {0};
	struct agent_poll *last;
	while ((last = agent_find_poll(header, &at))) {
		if (state & TOKIO_COMPLETE &&
		    !(__atomic_load_n(&last->flags, __ATOMIC_ACQUIRE) & POLL_OUTCOME_SAVED))
			__atomic_fetch_or(
				&last->flags,
				end_flags(read_end(hook, header, last, state & TOKIO_CANCELLED,
						   written ? dst : NULL)),
				__ATOMIC_RELEASE);
		/* Only after what was read is saved. */
		__atomic_fetch_and(&last->flags, ~(uint32_t)POLL_READING, __ATOMIC_RELEASE);
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
