/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Hooks outside of the vtables of tasks and wakers: blocking calls through a GOT, spawn sites, the
 * start of a block_on, a panic's start, with its stack and its message.
 */
#include "agent/agent.h"
#include "agent/thunks.h"

#define WAIT_PASS 0u /* not measured */
/* AE_PARK was written; other values: the ticks at its start + 2, inside a poll */
#define WAIT_PARK 1u
#define WAIT_TICKS 2u

#define AGENT_RED_ZONE 128u

/* How many words of the stack can be read from sp on, up to AGENT_STACK_WORDS. */
static uint32_t readable_words(uint64_t sp)
{
	uint64_t end = sp + AGENT_STACK_WORDS * 8, page = sp | (AGENT_PAGE - 1);

	while (++page < end && agent_may(AGENT_MAY_ASK) && arch_readable(page))
		page |= AGENT_PAGE - 1;
	return (uint32_t)(((page < end ? page : end) - sp) / 8);
}

/* Whether it may be an address of code or of a stack. */
static bool may_be_address(uint64_t word)
{
	return word >= AGENT_PAGE && word < ARCH_USER_END;
}

#define TEXT_WORDS (AGENT_TEXT_BYTES / AGENT_TEXT_WORD_BYTES)

/* Writes the stack as a whole, or not at all if it, and the events after it, don't fit. Returns the
 * time of its events, 0: none was written. */
static __attribute__((noinline)) uint64_t put_stack(struct agent_notes *n, uint64_t ip,
						    const uint64_t *sp, uint64_t bp)
{
	uint64_t ticks = arch_ticks();
	uint32_t n_words;

	if (!agent_may(AGENT_MAY_ASK) || !agent_has_room(n, AGENT_STACK_WORDS + 3 + TEXT_WORDS + 1))
		return 0;
	n_words = readable_words((uint64_t)sp);
	agent_put_at(n, ticks, AE_STACK, agent_ref(AGENT_STACK_IP, ip));
	agent_put_at(n, ticks, AE_STACK, agent_ref(AGENT_STACK_SP, (uint64_t)sp));
	agent_put_at(n, ticks, AE_STACK, agent_ref(AGENT_STACK_BP, bp));
	for (uint32_t i = 0; i < n_words; i++)
		if (may_be_address(sp[i]))
			agent_put_at(n, ticks, AE_STACK, agent_ref(i, sp[i]));
	return ticks;
}

static bool is_epoll(uint16_t call)
{
	return call >= AC_EPOLL_WAIT && call <= AC_EPOLL_PWAIT2;
}

/* Whether the thread polls a task, as far as the agent sees the ends of polls. */
static bool is_inside(const struct agent_notes *n)
{
	return n->depth && !(n->polls[n->depth - 1].flags & POLL_WORKER);
}

static bool waits_for_lock(uint16_t call)
{
	return call == AC_FUTEX ||
	       (call >= AC_PTHREAD_MUTEX_LOCK && call <= AC_PTHREAD_COND_TIMEDWAIT);
}

/* Where thunk_call saves arguments, in words from its frame pointer. */
#define CALL_ARG_1 (-3)
#define CALL_ARG_4 (-4)

static bool takes_descriptor(uint16_t call)
{
	return call >= AC_READ && call <= AC_CONNECT;
}

/* Whether its fourth argument is its flags. */
static bool takes_flags(uint16_t call)
{
	return call == AC_RECV || call == AC_RECVFROM || call == AC_SEND || call == AC_SENDTO;
}

/* Whether the stack of such a call is wanted. */
static bool wants_stack(const struct agent_state *s, const struct agent_hook *hook, uint64_t ticks)
{
	return (s->stacks & AGENT_STACKS_LOCKS && ticks >= s->lock_min_ticks &&
		waits_for_lock(hook->kind)) ||
	       (s->stacks & AGENT_STACKS_CALLS && ticks >= s->call_stack_ticks);
}

/* Records a long call that just ended. If no poll is open, the reader takes it for a park. */
static void call_long(const struct agent_hook *hook, uint64_t ticks, const uint64_t *frame,
		      bool with_args)
{
	const struct agent_state *s = agent_state();
	struct agent_notes *n = agent_peek_notes();

	/* The counter of another processor may lag: then it took no time. */
	if (!n || !agent_live() || (int64_t)ticks < 0)
		return;
	/* The caller, as it was before the call. */
	if (s->stacks && unlikely(wants_stack(s, hook, ticks)) && is_inside(n))
		put_stack(n, frame[1] - 1, frame + 2, frame[0]);
	if (with_args && takes_descriptor(hook->kind)) {
		uint64_t flags = takes_flags(hook->kind) ? (uint32_t)frame[CALL_ARG_4] : 0;

		agent_put(n, AE_DESCRIPTOR, frame[CALL_ARG_1] << 32 | flags);
	}
	agent_put(n, AE_BLOCK, agent_ref(hook->kind, ticks));
}

void agent_call_long(const struct agent_hook *hook, uint64_t ticks, const uint64_t *frame)
{
	call_long(hook, ticks, frame, true);
}

/* Before a call in which a thread waits. The result goes to agent_wait_end(). A thread that has
 * nothing to do with tasks (it has no ring, and is in no block_on) isn't looked at. */
uint64_t agent_wait_begin(const struct agent_hook *hook)
{
	struct agent_notes *n = agent_peek_notes();

	if (!n)
		n = agent_root_notes();
	if (!n)
		return WAIT_PASS;
	if (is_inside(n)) {
		uint64_t ticks = arch_ticks();

		agent_put_wait(n, ticks << 8 | hook->kind);
		return ticks + WAIT_TICKS;
	}
	agent_put(n, AE_PARK, agent_ref(hook->kind, 0));
	return WAIT_PARK;
}

void agent_wait_end(const struct agent_hook *hook, uint64_t begun, const uint64_t *frame,
		    uint64_t result)
{
	if (begun == WAIT_PASS)
		return;
	struct agent_notes *n = agent_peek_notes();
	bool live = n && agent_live();
	/* A signal handler may have switched it off meanwhile, by which the clock is forbidden. */
	if (!live)
		return;
	if (begun != WAIT_PARK) {
		uint64_t ticks = arch_ticks() - (begun - WAIT_TICKS);

		agent_put_wait(n, 0);
		if (ticks >= agent_state()->call_min_ticks)
			call_long(hook, ticks, frame, false);
		return;
	}
	/* An int: the upper half of the register may hold anything. */
	uint64_t idle = is_epoll(hook->kind) && !(uint32_t)result ? AGENT_UNPARK_IDLE : 0;
	agent_put(n, AE_UNPARK, agent_ref(hook->kind, idle));
}

void agent_spawn(const struct agent_hook *hook, const uint64_t *frame)
{
	struct agent_notes *n = agent_notes();
	uint64_t id = 0;

	if (unlikely(!n)) {
		agent_no_ring(1);
		return;
	}
	if (unlikely(agent_state()->stacks & AGENT_STACKS_SPAWNS))
		put_stack(n, hook->slot, frame + 5 + AGENT_RED_ZONE / 8, frame[0]);
	if (likely(hook->spawn.next_id))
		id = __atomic_load_n((const uint64_t *)hook->spawn.next_id, __ATOMIC_RELAXED) - 1;
	agent_put(n, AE_SPAWN, agent_ref(hook->kind, id));
}

void agent_root_enter(const struct agent_hook *hook, const uint64_t *frame)
{
	struct agent_notes *n = agent_notes();
	/* The stack pointer at the hook: the word lies in the frame of the function that runs. */
	const char *sp = (const char *)(frame + 5) + AGENT_RED_ZONE;
	uint64_t back = 0;

	if (hook->root.back)
		back = *(const uint64_t *)(const void *)(sp + hook->root.back - 1);
	if (likely(n != NULL))
		agent_put(n, AE_ROOT_ENTER, agent_ref(hook->kind, back));
	else
		agent_no_ring(1);
}

/* At most one panic in this number of ticks, about a millisecond, has its stack: a stack takes much
 * time, and much of the ring. */
#define RAISE_PAUSE_TICKS (1u << 21)
/* A longer one is no message. */
#define TEXT_LENGTH_MAX (1u << 20)

/* Nothing proves that there is memory at this address, nor that it remains: so the kernel reads
 * it. */
static bool copy(void *to, uint64_t at, uint64_t bytes)
{
	return agent_may(AGENT_MAY_COPY) && arch_copy(arch_gettid(), to, at, bytes);
}

static bool copy_words(uint64_t *to, uint64_t at, uint64_t bytes)
{
	return !(at & 7) && copy(to, at, bytes);
}

/* Copies what may be the message in a panic's payload, and returns its length; 0: there is none. */
static uint32_t panic_text(const uint64_t *exception, unsigned char text[static AGENT_TEXT_BYTES])
{
	uint64_t payload[2], vtable[PANIC_VTABLE_SIZE_WORD + 1], words[PANIC_STRING_BYTES / 8];
	uint64_t at, bytes, length;

	if (!copy_words(payload, (uint64_t)(exception + PANIC_PAYLOAD_WORD + PANIC_CANARY_WORDS),
			sizeof(payload)) ||
	    !copy_words(vtable, payload[1], sizeof(vtable)))
		return 0;
	bytes = vtable[PANIC_VTABLE_SIZE_WORD];
	if ((bytes != PANIC_STR_BYTES && bytes != PANIC_STRING_BYTES) ||
	    !copy_words(words, payload[0], bytes))
		return 0;
	/* A String's fields may be in any order; its address is larger than its capacity. */
	at = bytes == PANIC_STRING_BYTES && words[1] > words[0] ? words[1] : words[0];
	length = words[bytes / 8 - 1];
	if (!length || length > TEXT_LENGTH_MAX)
		return 0;
	length = length < AGENT_TEXT_BYTES ? length : AGENT_TEXT_BYTES;
	if (!copy(text, at, length))
		return 0;
	/* Numbers have zeros. A message that has one is left out, too. */
	for (uint32_t i = 0; i < length; i++)
		if (!text[i])
			return 0;
	return (uint32_t)length;
}

static __attribute__((noinline)) void put_raise(struct agent_notes *n, const uint64_t *exception,
						const uint64_t *frame)
{
	uint64_t now = arch_ticks(), ticks, *until = &agent_private()->no_raise_until;
	unsigned char text[AGENT_TEXT_BYTES];
	uint32_t length;

	/* Not `now < *until`: the counter may have been reset since. */
	if (__atomic_load_n(until, __ATOMIC_RELAXED) - now < RAISE_PAUSE_TICKS)
		return;
	__atomic_store_n(until, now + RAISE_PAUSE_TICKS, __ATOMIC_RELAXED);
	ticks = put_stack(n, frame[1] - 1, frame + 2, frame[0]);
	if (!ticks)
		return;
	length = panic_text(exception, text);
	for (uint32_t i = 0; i < length; i += AGENT_TEXT_WORD_BYTES) {
		uint64_t word = 0;

		for (uint32_t k = 0; k < AGENT_TEXT_WORD_BYTES && i + k < length; k++)
			word |= (uint64_t)text[i + k] << 8 * k;
		agent_put_at(n, ticks, AE_TEXT, agent_ref(i / AGENT_TEXT_WORD_BYTES, word));
	}
	agent_put_at(n, ticks, AE_RAISE, 0);
}

/* Notes that a panic starts in the open poll. Whether it leaves the poll is seen at the poll's
 * end. */
void agent_raise(void *exception, struct agent_hook *hook, const uint64_t *frame)
{
	struct agent_notes *n = agent_peek_notes();
	const uint64_t *words = exception;

	(void)hook;
	if (!n)
		return;
	if (!n->depth)
		return;
	struct agent_poll *poll = &n->polls[n->depth - 1];
	if (!(poll->flags & (POLL_RAISED | POLL_ASYNC)))
		__atomic_fetch_add(&agent_private()->n_raised, 1, __ATOMIC_RELAXED);
	/* other threads may set flags meanwhile */
	__atomic_fetch_or(&poll->flags, POLL_RAISED, __ATOMIC_RELAXED);
	if (words[0] != PANIC_CLASS)
		return;
	poll->raised =
		(struct panic_payload){{words[PANIC_PAYLOAD_WORD], words[PANIC_PAYLOAD_WORD + 1]}};
	if (agent_state()->stacks & AGENT_STACKS_PANICS && is_inside(n))
		put_raise(n, words, frame);
}
