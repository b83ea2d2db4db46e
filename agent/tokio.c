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
#include "agent/thunks.h"

/* state.rs; the reference count stands above. */
#define RUNNING 1u
#define COMPLETE 2u
#define NOTIFIED 4u
#define JOIN_INTEREST 8u
#define CANCELLED 32u
#define REF_ONE 64u

typedef void (*task_fn)(void *header);

static uint64_t *state_of(const struct agent_hook *hook, void *header)
{
	return (uint64_t *)((char *)header + hook->state_offset);
}

/* Gives our reference back; the last one frees the task. */
static void release(struct ring *r, const struct agent_hook *hook, void *header, uint64_t ref)
{
	if (likely(__atomic_fetch_sub(state_of(hook, header), REF_ONE, __ATOMIC_ACQ_REL) /
			   REF_ONE !=
		   1))
		return;
	if (r && agent_live())
		agent_put(r, AE_DROP, ref);
	if (likely(hook->drop_ref != 0))
		((task_fn)hook->drop_ref)(header);
}

/*
 * Whether the output that was stored is a JoinError of this task, of the one sort or the other.
 * JoinError { repr, id } has the task's id beside repr, a Box<dyn Any>, null for "cancelled": three
 * words, in either order. Their place in the cell depends on the output's type, so we look through
 * the whole of it; what is left of the future may hold the same words by chance. Therefore this is
 * asked only where nothing else tells: the task was aborted during its last poll, or a panic was
 * raised in it.
 */
static bool has_join_error(const struct agent_hook *hook, const void *header, bool panicked)
{
	const uint64_t *words = (const uint64_t *)((const char *)header + hook->id_offset);
	uint64_t n = (uint64_t)(hook->trailer_offset - hook->id_offset) / 8;
	uint64_t id = words[0];

	for (uint64_t i = 1; i < n; i++) {
		if (words[i] != id)
			continue;
		/* data and vtable of the box, before or behind */
		for (int behind = 0; behind < 2; behind++) {
			uint64_t at = behind ? i + 1 : i - 2;
			if (at - 1 >= n - 2) /* not both within; i - 2 may have wrapped */
				continue;
			if (panicked ? words[at] && words[at + 1] > 4096 && words[at + 1] % 8 == 0
				     : !words[at])
				return true;
		}
	}
	return false;
}

/*
 * How a poll ended after which the task is complete. Without a join handle the output was dropped
 * at once and can't be asked: then a raised panic counts as the end, and an abort during the poll
 * as obeyed.
 */
static uint64_t outcome(const struct agent_hook *hook, const void *header, uint64_t after,
			uint32_t flags)
{
	bool kept = after & JOIN_INTEREST;

	if (unlikely(flags & POLL_RAISED) && (!kept || has_join_error(hook, header, true)))
		return AE_POLL_PANICKED;
	if (unlikely(after & CANCELLED) && (!kept || has_join_error(hook, header, false)))
		return AE_POLL_CANCELLED;
	return AE_POLL_READY;
}

void agent_tokio_poll(void *header, struct agent_hook *hook)
{
	if (unlikely(!agent_state()->registered))
		agent_register();
	struct ring *r = agent_ring();
	if (unlikely(!r)) {
		agent_no_ring(2);
		((task_fn)hook->orig)(header);
		return;
	}
	uint64_t ref = agent_task_ref(hook, header);
	struct agent_poll *poll = agent_poll_open(r, hook, header, ref, 0);
	if (unlikely(!poll)) {
		((task_fn)hook->orig)(header);
		return;
	}
	uint32_t generation = poll->generation;
	uint64_t before = __atomic_fetch_add(state_of(hook, header), REF_ONE, __ATOMIC_RELAXED);

	/* A task that is complete or running (shut down while it was in a queue) isn't polled, it
	 * only loses a reference; a cancelled one is dropped instead of polled. */
	bool polled = likely(!(before & (RUNNING | COMPLETE | CANCELLED)));
	if (polled)
		agent_put(r, AE_POLL_BEGIN, ref);

	((task_fn)hook->orig)(header);

	/* The end is written before the reference is given back: a task's drop comes last. */
	uint64_t after = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	if (likely(agent_poll_close(r, poll, generation))) {
		if (likely(polled))
			agent_put(r,
				  likely(!(after & COMPLETE))
					  ? AE_POLL_PENDING
					  : outcome(hook, header, after, poll->flags),
				  ref);
		else if (!(before & (RUNNING | COMPLETE)) && after & COMPLETE)
			agent_put(r, AE_CANCEL, ref);
	} else {
		r = NULL;
	}
	release(r, hook, header, ref);
}

/* Without a frame: the end is seen at the thread's next step. */
void agent_tokio_poll_tail(void *header, struct agent_hook *hook)
{
	struct ring *r = agent_ring();
	uint64_t before = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);

	if (unlikely(!r)) {
		agent_no_ring(2);
		return;
	}
	struct agent_notes *n = agent_notes(r);
	uint64_t ref = agent_task_ref(hook, header);
	if (n->tail_open)
		agent_tail_close(r);
	if (before & (RUNNING | COMPLETE))
		return;
	if (before & CANCELLED) {
		agent_put(r, AE_CANCEL, ref);
		return;
	}
	agent_put(r, AE_POLL_BEGIN, ref);
	/* A worker's loop stays open below the polls that it makes. */
	if (!(hook->flags & AGENT_HOOK_WORKER)) {
		n->tail_ref = ref;
		n->tail_open = 1;
	}
}

void agent_tokio_shutdown(void *header, struct agent_hook *hook)
{
	uint64_t ref = agent_task_ref(hook, header);
	uint64_t before = __atomic_fetch_add(state_of(hook, header), REF_ONE, __ATOMIC_RELAXED);

	((task_fn)hook->orig)(header);

	uint64_t after = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	struct ring *r = agent_live() ? agent_ring() : NULL;
	if (!(before & (RUNNING | COMPLETE)) && after & COMPLETE) {
		if (r)
			agent_put(r, AE_CANCEL, ref);
		else if (agent_live())
			agent_no_ring(1);
	}
	release(r, hook, header, ref);
}

void agent_tokio_schedule(void *header, struct agent_hook *hook)
{
	struct ring *r = agent_ring();

	if (unlikely(!r)) {
		agent_no_ring(1);
		return;
	}
	struct agent_notes *n = agent_notes(r);
	uint64_t ref = agent_task_ref(hook, header);
	/* The wake that was just recorded leads here. */
	if (n->wake == ref && n->wake_end == n->head)
		n->wake_end = UINT64_MAX;
	else
		agent_put(r, AE_SCHEDULE, ref);
}

/* Also async-task's destroy. */
void agent_drop(void *header, struct agent_hook *hook)
{
	struct ring *r = agent_ring();

	if (likely(r != NULL))
		agent_put(r, AE_DROP, agent_task_ref(hook, header));
	else
		agent_no_ring(1);
}

/* Records a wake; the caller found out what it will do. */
void agent_wake(struct ring *r, uint64_t type, uint64_t ref)
{
	struct agent_notes *n = agent_notes(r);
	uint64_t head = n->head;

	agent_put(r, type, ref);
	if (type == AE_WAKE && n->head != head) {
		n->wake = ref;
		n->wake_end = n->head;
	}
}

void agent_tokio_wake(void *header, struct agent_hook *hook)
{
	struct ring *r = agent_ring();

	if (unlikely(!r)) {
		agent_no_ring(1);
		return;
	}
	/* The waker holds a reference: the task is there. */
	uint64_t state = __atomic_load_n(state_of(hook, header), __ATOMIC_ACQUIRE);
	uint64_t type = state & (COMPLETE | NOTIFIED) ? AE_WAKE_NOOP
			: state & RUNNING	      ? AE_WAKE_RUNNING
						      : AE_WAKE;
	const struct agent_hook *known = agent_header_hook(hook, header);
	agent_wake(r, type,
		   likely(known != NULL) ? agent_task_ref(known, header)
					 : agent_ref(AGENT_KIND_NONE, (uint64_t)header));
}

/* The waker of a block_on, whose future is no task. */
void agent_root_wake(void *data, struct agent_hook *hook)
{
	struct ring *r = agent_ring();

	if (likely(r != NULL))
		agent_put(r, AE_ROOT_WAKE, agent_ref(hook->kind, (uint64_t)data));
	else
		agent_no_ring(1);
}
