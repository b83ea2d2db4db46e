/*
 * Tokio's tasks, 1.23 and later: poll, schedule, dealloc, shutdown of the task's vtable, and its
 * waker's two ways of waking.
 *
 * How a poll ended stands in the task's state word, but the task may be freed before the poll
 * returns. So we hold one reference over the poll, as a waker would: tokio's own rules then keep
 * the memory, and if ours turns out to be the last one, we free the task as whoever drops the last
 * one does. Nothing in tokio asks for an exact count of references except drop_join_handle_fast(),
 * which has a slow way with the same effect (docs/agent.md goes through every place).
 *
 * Source: tokio/src/runtime/task/{state,harness,raw,waker,error}.rs, 1.23.0 to 1.54.1.
 */
#include "agent/agent.h"
#include "agent/point.h"
#include "agent/thunks.h"

/* state.rs; the reference count stands above. */
#define RUNNING 1u
#define COMPLETE AGENT_TOKIO_COMPLETE
#define NOTIFIED 4u
#define JOIN_INTEREST 8u
#define JOIN_WAKER 16u
#define CANCELLED 32u
#define REF_ONE 64u

typedef void (*task_fn)(void *header);
typedef void (*read_fn)(void *header, uint64_t *dst, const void *waker);

static uint64_t *state_of(const struct agent_hook *hook, const void *header)
{
	return (uint64_t *)((uintptr_t)header + hook->state_offset);
}

/* Gives our reference back; the last one frees the task. */
static void release(struct agent_notes *n, const struct agent_hook *hook, void *header,
		    uint64_t ref)
{
	if (likely(__atomic_fetch_sub(state_of(hook, header), REF_ONE, __ATOMIC_ACQ_REL) /
			   REF_ONE !=
		   1))
		return;
	if (n && agent_live())
		agent_put_drop(n, ref);
	if (likely(hook->drop_ref != 0))
		((task_fn)hook->drop_ref)(header);
}

/* JoinError stands among the first words of the cell's stage: a tag or two may be before it. */
#define JOIN_ERROR_WORDS 7u

/*
 * Whether the output that was stored is a JoinError of this task: cancelled, or with the panic of
 * `poll`. JoinError { repr, id } has the task's id beside repr, a Box<dyn Any>, null for
 * "cancelled": three words, in either order. Their place in the cell depends on the output's type,
 * and what is left of the future beside it may hold the same words by chance. A panic's payload is
 * known (agent_raise) and no chance matches it; "cancelled" is only looked for where the output
 * begins, and asked only where nothing else tells.
 */
static bool is_join_error(const uint64_t *words, uint64_t n, uint64_t id,
			  const struct agent_poll *poll)
{
	for (uint64_t i = 0; i < n; i++) {
		if (words[i] != id)
			continue;
		/* data and vtable of the box, before or behind */
		for (int behind = 0; behind < 2; behind++) {
			uint64_t at = behind ? i + 1 : i - 2;
			if (at >= n - 1) /* not both within; i - 2 may have wrapped */
				continue;
			if (poll ? agent_is_payload(poll, words[at]) : !words[at])
				return true;
		}
	}
	return false;
}

/* The same of what the task has stored behind its id. */
static bool has_join_error(const struct agent_hook *hook, const void *header,
			   const struct agent_poll *poll)
{
	const uint64_t *words = (const uint64_t *)((const char *)header + hook->id_offset);
	uint64_t n = (uint64_t)(hook->trailer_offset - hook->id_offset) / 8;

	if (!poll && n > JOIN_ERROR_WORDS)
		n = JOIN_ERROR_WORDS;
	return n > 1 && is_join_error(words + 1, n - 1, words[0], poll);
}

/* What became of a task that is complete. Where nothing speaks against it that is "ready". */
static uint64_t look(const struct agent_hook *hook, const void *header, uint64_t state,
		     const struct agent_poll *poll)
{
	if (poll->flags & POLL_RAISED && has_join_error(hook, header, poll))
		return AE_POLL_PANICKED;
	if (state & CANCELLED && has_join_error(hook, header, NULL))
		return AE_POLL_CANCELLED;
	return AE_POLL_READY;
}

static uint64_t settled(uint32_t flags)
{
	return flags & POLL_PANICKED  ? AE_POLL_PANICKED
	       : flags & POLL_ABORTED ? AE_POLL_CANCELLED
				      : AE_POLL_READY;
}

/* Whether somebody shuts the task down who has seen it waiting in a queue, as we did: he says so
 * before, and leaves word in the poll before he takes that back. */
static bool is_shut_idle(const void *header, const struct agent_poll *poll)
{
	return __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE) & POLL_SHUT_IDLE ||
	       agent_is_shutting(header) ||
	       __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE) & POLL_SHUT_IDLE;
}

/*
 * How a poll ended after which the task is complete. The output can't be asked if nobody holds the
 * join handle: it was dropped at once. Then a raised panic counts as the end, and an abort during
 * the poll as obeyed, unless traces of it are left; but a runtime that is shut down meets tasks at
 * their natural end as often as not, so of that nothing is said.
 */
static uint64_t outcome(const struct agent_hook *hook, const void *header, uint64_t after,
			const struct agent_poll *poll)
{
	uint32_t flags = __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE);

	if (flags & POLL_FINISHED)
		after &= ~(uint64_t)CANCELLED;
	if (likely(!(after & CANCELLED) && !(flags & POLL_RAISED)))
		return AE_POLL_READY;
	/* To run a task clears NOTIFIED, also if it is cancelled by then. */
	if (!(flags & (POLL_RAISED | POLL_SHUT_DOWN))) {
		if (is_shut_idle(header, poll)) {
			/* Who came first, the one who shut it down or we? */
			if (after & NOTIFIED)
				return AE_POLL_UNPOLLED;
			flags |= POLL_SHUT_DOWN;
		} else if (!(after & NOTIFIED)) {
			/* An abort of a running task sets both. So this one was there before:
			 * aborted after we looked. */
			return AE_POLL_UNPOLLED;
		}
	}
	if (flags & POLL_SETTLED)
		return settled(flags);
	uint64_t type = look(hook, header, after, poll);
	if (type != AE_POLL_READY)
		return type;
	/* Taken while we looked? Whoever took it has looked before. */
	flags |= __atomic_load_n(&poll->flags, __ATOMIC_ACQUIRE);
	if (flags & POLL_SETTLED)
		return settled(flags);
	/* Gone in the meantime? */
	uint64_t now = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	bool asked = flags & POLL_ASKED && !(after & JOIN_WAKER);
	if (after & now & JOIN_INTEREST && !asked)
		return AE_POLL_READY;
	if (flags & POLL_RAISED)
		return AE_POLL_PANICKED;
	return flags & POLL_SHUT_DOWN ? AE_POLL_UNKNOWN : AE_POLL_CANCELLED;
}

/*
 * In a poll of a task that is complete something is woken. If that is the one who waits for the
 * task's end, it will take the output, maybe before we come to look at it: so we look now.
 */
void agent_tokio_settle(struct agent_poll *poll, uint64_t state)
{
	if (poll->flags & POLL_SETTLED || !(state & JOIN_INTEREST))
		return;
	uint64_t type = look(poll->hook, poll->header, state, poll);
	__atomic_fetch_or(&poll->flags,
			  type == AE_POLL_PANICKED    ? POLL_SETTLED | POLL_PANICKED
			  : type == AE_POLL_CANCELLED ? POLL_SETTLED | POLL_ABORTED
						      : POLL_SETTLED,
			  __ATOMIC_RELAXED);
}

/*
 * The one who waits for the task's end asks for its output. If the task's last poll is open yet, it
 * would find nothing when it comes to look: so we look now. If the task isn't complete, it may be
 * so a moment later, when tokio looks: then word is left that somebody asked, and true returned.
 * Only where there is a question (an abort, or a panic somewhere), since with many threads it takes
 * long to find the poll.
 */
static bool ask(const struct agent_hook *hook, const void *header)
{
	uint64_t state = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	struct agent_search at = {0};
	struct agent_poll *last;
	bool found = false;

	if (likely(!(state & CANCELLED) &&
		   !__atomic_load_n(&agent_private()->n_raised, __ATOMIC_RELAXED)))
		return false;
	while ((last = agent_find_poll(header, &at))) {
		found = true;
		if (state & COMPLETE)
			agent_tokio_settle(last, state);
		else
			__atomic_fetch_or(&last->flags, POLL_ASKED, __ATOMIC_RELAXED);
	}
	return found && !(state & COMPLETE);
}

void agent_tokio_read_tail(void *header, struct agent_hook *hook)
{
	ask(hook, header);
}

/* Of a Poll<Result<T, JoinError>>, an error is among the first words. */
#define HANDED_WORDS 4u

/* Tokio writes the output to dst, if the task is complete; else it keeps the waker. */
void agent_tokio_read(void *header, uint64_t *dst, const void *waker, struct agent_hook *hook)
{
	bool asked = ask(hook, header);

	((read_fn)hook->orig)(header, dst, waker);
	if (likely(!asked))
		return;
	/* Was it complete by then? What was handed out tells how that poll ended. */
	uint64_t state = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	if (!(state & COMPLETE) || state & JOIN_WAKER)
		return;
	const uint64_t id = *(const uint64_t *)((const char *)header + hook->id_offset);
	struct agent_search at = {0};
	struct agent_poll *last;
	while ((last = agent_find_poll(header, &at))) {
		uint32_t flags = POLL_SETTLED;
		if (last->flags & POLL_RAISED && is_join_error(dst, HANDED_WORDS, id, last))
			flags |= POLL_PANICKED;
		else if (state & CANCELLED && is_join_error(dst, HANDED_WORDS, id, NULL))
			flags |= POLL_ABORTED;
		if (!(__atomic_load_n(&last->flags, __ATOMIC_ACQUIRE) & POLL_SETTLED))
			__atomic_fetch_or(&last->flags, flags, __ATOMIC_RELEASE);
	}
}

/* The end of a poll that left the task pending, and where it stands if nobody was in there since.
 */
static void put_pending(struct agent_notes *n, const struct agent_hook *hook, void *header,
			uint64_t ref)
{
	const struct agent_reach reach = agent_task_reach(n, hook, header);
	uint64_t point;

	if (hook->flags & AGENT_HOOK_LIST) {
		struct agent_list list;
		agent_list(hook, &reach, &list);
		if (!(__atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE) &
		      (RUNNING | COMPLETE)))
			agent_put_list(n, AE_FUTURE_AT, &list);
		agent_put(n, AE_POLL_PENDING, ref);
		return;
	}
	point = agent_point(hook, &reach);
	if (point && likely(!(__atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE) &
			      (RUNNING | COMPLETE))))
		agent_put(n, AE_POLL_PENDING_AT, agent_ref(point, ref));
	else
		agent_put(n, AE_POLL_PENDING, ref);
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
	uint64_t before = __atomic_fetch_add(state_of(hook, header), REF_ONE, __ATOMIC_ACQ_REL);

	/* A task that is complete or running (shut down while it was in a queue) isn't polled, it
	 * only loses a reference; a cancelled one is dropped instead of polled. */
	bool polled = likely(!(before & (RUNNING | COMPLETE | CANCELLED)));
	if (polled) {
		agent_put(n, AE_POLL_BEGIN, ref);
		if (hook->flags & AGENT_HOOK_LIST)
			agent_put_begin_list(n, hook, header);
	}

	((task_fn)hook->orig)(header);

	/* The end is written before the reference is given back: a task's drop comes last. */
	uint64_t after = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	/* Looked for while the poll can still be found by those who leave word in it. */
	uint64_t end = polled && after & COMPLETE ? outcome(hook, header, after, poll) : 0;
	/* Being shut down, by who came first. */
	const uint64_t taken = RUNNING | CANCELLED | NOTIFIED;
	if (unlikely(polled && !end && (after & taken) == taken) && is_shut_idle(header, poll))
		end = AE_POLL_UNPOLLED;
	if (likely(agent_poll_close(n, poll, generation))) {
		if (unlikely(poll->flags & POLL_RAISED))
			__atomic_fetch_sub(&agent_private()->n_raised, 1, __ATOMIC_RELAXED);
		if (likely(polled && !end))
			put_pending(n, hook, header, ref);
		else if (polled)
			agent_put(n, end, ref);
		else if (!(before & (RUNNING | COMPLETE)) && after & COMPLETE)
			agent_put(n, AE_CANCEL, ref);
	} else {
		n = NULL;
	}
	release(n, hook, header, ref);
}

/* It will be marked cancelled, also if it is over or about to be: whoever is at the end of its last
 * poll must not be misled. */
static void tell_last_poll(const void *header, uint32_t flag)
{
	struct agent_search at = {0};
	struct agent_poll *last;

	while ((last = agent_find_poll(header, &at)))
		__atomic_fetch_or(&last->flags, flag, __ATOMIC_RELEASE);
}

/* Whether it waits in a queue, so that somebody may begin to poll it at any moment. */
static bool is_queued(uint64_t state)
{
	return (state & (RUNNING | COMPLETE | CANCELLED | NOTIFIED)) == NOTIFIED;
}

void agent_tokio_shutdown(void *header, struct agent_hook *hook)
{
	uint64_t ref = agent_task_ref(hook, header);
	struct agent_notes *n = agent_live() ? agent_notes() : NULL;

	if (n && is_queued(__atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE)))
		__atomic_store_n(&n->shutting, header, __ATOMIC_SEQ_CST);
	uint64_t before = __atomic_fetch_add(state_of(hook, header), REF_ONE, __ATOMIC_ACQ_REL);

	if (before & (RUNNING | COMPLETE) && !(before & CANCELLED) && agent_live())
		tell_last_poll(header, before & COMPLETE ? POLL_FINISHED : POLL_SHUT_DOWN);
	((task_fn)hook->orig)(header);

	uint64_t after = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	if (is_queued(before) && agent_live())
		tell_last_poll(header, POLL_SHUT_IDLE);
	n = agent_live() ? agent_notes() : NULL;
	if (n)
		__atomic_store_n(&n->shutting, NULL, __ATOMIC_RELEASE);
	if (!(before & (RUNNING | COMPLETE)) && after & COMPLETE) {
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
	/* The wake that was just recorded leads here. */
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

/* Records a wake; the caller found out what it will do. */
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
	agent_settle(n);
	/* The waker holds a reference: the task is there. */
	uint64_t state = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	uint64_t type = state & (COMPLETE | NOTIFIED) ? AE_WAKE_NOOP
			: state & RUNNING	      ? AE_WAKE_RUNNING
						      : AE_WAKE;
	const struct agent_hook *known = agent_header_hook(hook, header);
	agent_wake(n, type,
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
	agent_settle(n);
	agent_put(n, AE_ROOT_WAKE, agent_ref(hook->kind, (uint64_t)data));
}
