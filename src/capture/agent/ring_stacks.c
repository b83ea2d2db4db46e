/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent leaves out what can't be an address: a walk asks for return addresses and saved frame
 * pointers only, so what is missing here reads as zero, and is never asked for.
 */
#include "capture/agent/ring_stacks.h"

#include "base/error.h"
#include "capture/samples/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MASK ((1ull << 48) - 1)

_Static_assert(AGENT_STACK_WORDS * 8 == USER_STACK_BYTES, "stacks are of one size");

/* Of a ring: the stack that the next event there has. */
struct ring_stack {
	uint32_t thread; /* whose stream this is: trace index + 1 */
	uint32_t stream;
	bool begun;
	uint64_t time_ns;
	struct user_stack stack;
};

struct ring_stacks {
	uint32_t wanted; /* enum agent_stacks */
	bool joined;	 /* the process is known to those who walk stacks */
	uint64_t n_spawns, n_stacks;
	struct ring_stack *rings[]; /* made when needed */
};

uint32_t ring_stacks_wanted(const struct capture_options *opt)
{
	/* With every system call the kernel is who sees the waits for locks. */
	return (opt->spawn_stacks ? AGENT_STACKS_SPAWNS : 0) |
	       (opt->lock_stacks && !opt->syscalls ? AGENT_STACKS_LOCKS : 0) |
	       (opt->long_poll_ns ? 0 : AGENT_STACKS_CALLS);
}

int ring_stacks_init(struct source *s, uint32_t wanted)
{
	s->stacks = calloc(1, sizeof(*s->stacks) + s->rings.n_rings * sizeof(*s->stacks->rings));
	if (!s->stacks)
		return -ENOMEM;
	s->stacks->wanted = wanted;
	return 0;
}

void ring_stacks_done(struct source *s)
{
	for (uint32_t i = 0; s->stacks && i < s->rings.n_rings; i++)
		free(s->stacks->rings[i]);
	free(s->stacks);
}

void ring_stacks_word(struct source *s, uint32_t ring, const struct agent_event *raw,
		      uint64_t time_ns)
{
	struct ring_stack *at = s->stacks->rings[ring];
	uint64_t which = raw->word1 >> 48, word = raw->word1 & WORD_MASK;

	if (!at)
		at = s->stacks->rings[ring] = calloc(1, sizeof(*at));
	if (!at) /* its event goes without */
		return;
	switch (which) {
	case AGENT_STACK_IP:
		memset(at->stack.bytes, 0, at->stack.n);
		at->stack.n = 0;
		at->stack.ip = word;
		at->time_ns = time_ns;
		at->begun = true;
		break;
	case AGENT_STACK_SP:
		at->stack.sp = word;
		break;
	case AGENT_STACK_BP:
		at->stack.bp = word;
		break;
	default:
		if (which >= AGENT_STACK_WORDS)
			break;
		memcpy(at->stack.bytes + which * 8, &word, sizeof(word));
		if (at->stack.n < (which + 1) * 8)
			at->stack.n = (which + 1) * 8;
	}
}

void ring_stacks_forget(struct source *s, uint32_t ring)
{
	if (s->stacks->rings[ring])
		s->stacks->rings[ring]->begun = false;
}

/* What a sample of the stack is called: that of a wait for a lock is for those who asked for these. */
static uint16_t sample_type(const struct ring_stacks *stacks, const struct trace_event *event)
{
	unsigned call = event->arg & ~TRACE_CALL_NONBLOCKING;
	bool lock = call == TB_FUTEX ||
		    (call >= TB_PTHREAD_MUTEX_LOCK && call <= TB_PTHREAD_COND_TIMEDWAIT);

	if (event->type == TE_SPAWN)
		return TM_SPAWN;
	return lock && stacks->wanted & AGENT_STACKS_LOCKS ? TM_BLOCKED : TM_LONG_BLOCKED;
}

int ring_stacks_event(struct drain *d, struct source *s, uint32_t ring,
		      const struct trace_event *event)
{
	const struct ring_cursor *c = &s->rings.cursors[ring];
	struct ring_stack *at = s->stacks->rings[ring];
	bool spawn = event->type == TE_SPAWN, begun = at && at->begun;
	struct capture_thread *thread;
	struct trace_event e = {.type = TE_SAMPLE,
				.arg = sample_type(s->stacks, event),
				.kind = TRACE_KIND_NONE,
				.task = spawn};

	if (at)
		at->begun = false;
	s->stacks->n_spawns += spawn;
	if (!begun || (!spawn && event->type != TE_BLOCK))
		return 0;
	thread = capture_threads_find(d->threads, s->process, c->tid);
	/* Most programs have no long call, so what is needed for stacks is there from the first on. */
	if (!s->stacks->joined) {
		s->stacks->joined = true;
		capture_stacks_begin(d->shared, attach_pid(s->attach), s->process);
	}
	if (!d->shared->stacks)
		return 0;
	if (e.arg == TM_LONG_BLOCKED)
		e.task = event->value;
	if (!thread || thread->index != event->thread)
		return 0;
	if (at->thread != event->thread + 1) {
		TRY(capture_threads_stream(d->threads, thread, &at->stream));
		at->thread = event->thread + 1;
	}
	s->stacks->n_stacks += spawn;
	e.time = at->time_ns;
	e.thread = at->stream;
	return capture_stacks_put_copy(d->shared->stacks, &e, s->process, &at->stack,
				       sizeof(at->stack));
}

int ring_stacks_tell(struct drain *d, const struct source *s, struct capture_stats *stats)
{
	const char *why = attach_shut_in(s->attach)
				  ? "none were taken under the program's further seccomp filter"
				  : "the buffer had no room for the others: a larger --ring-size "
				    "gives it";
	const struct trace_coverage c = {.process = s->process,
					 .item = "stacks of spawns",
					 .seen = s->stacks->n_stacks,
					 .total = s->stacks->n_spawns,
					 .note = s->stacks->n_stacks < s->stacks->n_spawns ? why
											   : ""};

	return c.total && s->stacks->wanted & AGENT_STACKS_SPAWNS
		       ? capture_tell_coverage(d->writer, stats, &c)
		       : 0;
}
