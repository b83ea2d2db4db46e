/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent leaves out what can't be an address: a walk asks for return addresses and saved frame
 * pointers only, so what is missing here reads as zero, and is never asked for.
 */
#include "capture/agent/ring_stacks.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
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
	char text[AGENT_TEXT_BYTES + 1]; /* up to its 0 */
};

/* What panics said; later ones that differ go without. */
#define MAX_MESSAGES 256
#define PANIC_WAIT_NS (500 * NSEC_PER_MSEC)
#define PANIC_LOOK_NS (10 * NSEC_PER_MSEC)

struct raise_message {
	char *text;
	uint32_t index;
};

struct ring_stacks {
	uint32_t wanted; /* enum agent_stacks */
	bool joined;	 /* the process is known to those who walk stacks */
	bool panicked;	 /* a panic was waited for */
	uint64_t n_spawns, n_stacks;
	struct raise_message messages[MAX_MESSAGES];
	size_t n_messages;
	struct ring_stack *rings[]; /* made when needed */
};

uint32_t ring_stacks_wanted(const struct capture_options *opt)
{
	/* With every system call the kernel is who sees the waits for locks. */
	return (opt->spawn_stacks ? AGENT_STACKS_SPAWNS : 0) |
	       (opt->lock_stacks && !opt->syscalls ? AGENT_STACKS_LOCKS : 0) |
	       (opt->long_poll_ns ? 0 : AGENT_STACKS_CALLS) | AGENT_STACKS_PANICS;
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
	for (size_t i = 0; s->stacks && i < s->stacks->n_messages; i++)
		free(s->stacks->messages[i].text);
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
		memset(at->text, 0, sizeof(at->text));
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

/* What a sample of the stack is called: that of a wait for a lock is for those who asked for these, and in a call
 * that can't wait the thread runs, or has no CPU. */
static uint16_t sample_type(const struct ring_stacks *stacks, const struct trace_event *event)
{
	unsigned call = event->arg & ~TRACE_CALL_NONBLOCKING;
	bool lock = call == TB_FUTEX ||
		    (call >= TB_PTHREAD_MUTEX_LOCK && call <= TB_PTHREAD_COND_TIMEDWAIT);

	if (event->type == TE_SPAWN)
		return TM_SPAWN;
	if (event->arg & TRACE_CALL_NONBLOCKING)
		return TM_LONG_RUNNING;
	return lock && stacks->wanted & AGENT_STACKS_LOCKS ? TM_BLOCKED : TM_LONG_BLOCKED;
}

void ring_stacks_text(struct source *s, uint32_t ring, const struct agent_event *raw)
{
	struct ring_stack *at = s->stacks->rings[ring];
	uint64_t place = (raw->word1 >> 48) * AGENT_TEXT_WORD_BYTES, word = raw->word1 & WORD_MASK;

	if (at && place <= AGENT_TEXT_BYTES - AGENT_TEXT_WORD_BYTES)
		memcpy(at->text + place, &word, AGENT_TEXT_WORD_BYTES);
}

/* Whether no ring has more than half of what it can hold. */
static bool has_room(struct source *s)
{
	for (uint32_t i = 0; i < ring_set_used(&s->rings); i++) {
		bool damaged;

		if (ring_set_head(&s->rings, i, &damaged) - s->rings.cursors[i].tail >
		    s->rings.ring_bytes / 2)
			return false;
	}
	return true;
}

static bool have_room(const struct drain *d)
{
	for (size_t i = 0; i < d->n_sources; i++)
		if (d->sources[i].alive && !has_room(&d->sources[i]))
			return false;
	return true;
}

/* Until stacks can be walked: the first panic may be the only one. Nothing is drained meanwhile, so it ends before
 * any ring can be full. */
static void wait_for_panic(struct drain *d, struct source *s)
{
	const uint64_t until_ns = clock_monotonic_ns() + PANIC_WAIT_NS;
	uint64_t look_ns = s->rings.ring_bytes * (uint64_t)FILL_NS_PER_BYTE / 4;

	if (look_ns > PANIC_LOOK_NS)
		look_ns = PANIC_LOOK_NS;
	while (!s->stacks->panicked && clock_monotonic_ns() < until_ns) {
		if (capture_stacks_ready(d->shared->stacks, s->process) || !have_room(d))
			break;
		if (capture_stacks_wait(d->shared->stacks, look_ns))
			break;
	}
	s->stacks->panicked = true;
}

/* Writes the stack to the stream of this thread that has what is late. 0 too where it can't be had. */
static int put_stack(struct drain *d, struct source *s, uint32_t ring, struct trace_event *e)
{
	const struct ring_cursor *c = &s->rings.cursors[ring];
	struct ring_stack *at = s->stacks->rings[ring];
	struct capture_thread *thread = capture_threads_find(d->threads, s->process, c->tid);

	/* Most programs have no long call, so what is needed for stacks is there from the first on. */
	if (!s->stacks->joined) {
		s->stacks->joined = true;
		capture_stacks_begin(d->shared, attach_pid(s->attach), s->process);
	}
	if (!d->shared->stacks || !thread || thread->index != e->thread)
		return 0;
	if (at->thread != e->thread + 1) {
		TRY(capture_threads_stream(d->threads, thread, &at->stream));
		at->thread = e->thread + 1;
	}
	if (e->arg == TM_PANIC)
		wait_for_panic(d, s);
	s->stacks->n_stacks += e->arg == TM_SPAWN;
	e->time = at->time_ns;
	e->thread = at->stream;
	return capture_stacks_put_copy(d->shared->stacks, e, s->process, &at->stack,
				       sizeof(at->stack));
}

/* Whether the payload's bytes are text, which the rest of the buffer shows. A cut may be in a
 * character, which is left out then. */
static bool is_text(char *text)
{
	size_t good = text_of_bytes(text, AGENT_TEXT_BYTES);

	text[good] = '\0';
	return good;
}

/* 1 + the index of the message, 0: it has none. */
static int find_message(struct drain *d, struct ring_stacks *s, char *text, uint64_t *ret)
{
	struct raise_message *m = &s->messages[s->n_messages];

	*ret = 0;
	if (!is_text(text))
		return 0;
	for (size_t i = 0; i < s->n_messages; i++) {
		if (strcmp(s->messages[i].text, text) != 0)
			continue;
		*ret = s->messages[i].index + 1ull;
		return 0;
	}
	if (s->n_messages == MAX_MESSAGES)
		return 0;
	m->text = strdup(text);
	if (!m->text)
		return -ENOMEM;
	s->n_messages++;
	TRY(trace_writer_message(d->writer, text, &m->index));
	*ret = m->index + 1ull;
	return 0;
}

int ring_stacks_raise(struct drain *d, struct source *s, uint32_t ring)
{
	struct ring_stack *at = s->stacks->rings[ring];
	struct trace_event e = {.type = TE_SAMPLE,
				.arg = TM_PANIC,
				.kind = TRACE_KIND_NONE,
				.thread = s->rings.cursors[ring].thread - 1};

	if (!at || !at->begun)
		return 0;
	at->begun = false;
	TRY(find_message(d, s->stacks, at->text, &e.task));
	return put_stack(d, s, ring, &e);
}

int ring_stacks_event(struct drain *d, struct source *s, uint32_t ring,
		      const struct trace_event *event)
{
	struct ring_stack *at = s->stacks->rings[ring];
	bool spawn = event->type == TE_SPAWN, begun = at && at->begun;
	struct trace_event e = {.type = TE_SAMPLE,
				.arg = sample_type(s->stacks, event),
				.kind = TRACE_KIND_NONE,
				.thread = event->thread,
				.task = spawn};

	if (at)
		at->begun = false;
	s->stacks->n_spawns += spawn;
	if (!begun || (!spawn && event->type != TE_BLOCK))
		return 0;
	if (e.arg == TM_LONG_BLOCKED || e.arg == TM_LONG_RUNNING)
		e.task = event->value;
	return put_stack(d, s, ring, &e);
}

int ring_stacks_emit(struct drain *d, const struct source *s, struct capture_stats *stats)
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
		       ? capture_emit_coverage(d->writer, stats, &c)
		       : 0;
}
