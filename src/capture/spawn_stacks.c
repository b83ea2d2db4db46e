/*
 * The agent leaves out what can't be an address: a walk asks for return addresses and saved frame
 * pointers only, so what is missing here reads as zero, and is never asked for.
 */
#include "capture/spawn_stacks.h"

#include "capture/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MASK ((1ull << 48) - 1)

_Static_assert(AGENT_STACK_WORDS * 8 == USER_STACK_BYTES, "stacks are of one size");

/* Of a ring: the stack that the next spawn there has. */
struct spawn_stack {
	uint32_t thread; /* whose stream this is: trace index + 1 */
	uint32_t stream;
	bool begun;
	struct user_stack stack;
};

struct spawn_stacks {
	uint64_t n_spawns, n_stacks;
	struct spawn_stack *rings[]; /* made when needed */
};

int spawn_stacks_init(struct source *s)
{
	s->spawn_stacks = calloc(1, sizeof(*s->spawn_stacks) +
					    s->rings.n_rings * sizeof(*s->spawn_stacks->rings));
	return s->spawn_stacks ? 0 : -ENOMEM;
}

void spawn_stacks_done(struct source *s)
{
	for (uint32_t i = 0; s->spawn_stacks && i < s->rings.n_rings; i++)
		free(s->spawn_stacks->rings[i]);
	free(s->spawn_stacks);
}

void spawn_stacks_word(struct source *s, uint32_t ring, const struct agent_event *raw)
{
	struct spawn_stack *at = s->spawn_stacks->rings[ring];
	uint64_t which = raw->word1 >> 48, word = raw->word1 & WORD_MASK;

	if (!at)
		at = s->spawn_stacks->rings[ring] = calloc(1, sizeof(*at));
	if (!at) /* counted as a spawn without */
		return;
	switch (which) {
	case AGENT_STACK_IP:
		memset(at->stack.bytes, 0, at->stack.n);
		at->stack.n = 0;
		at->stack.ip = word;
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

void spawn_stacks_forget(struct source *s, uint32_t ring)
{
	if (s->spawn_stacks->rings[ring])
		s->spawn_stacks->rings[ring]->begun = false;
}

int spawn_stacks_spawn(struct drain *d, struct source *s, uint32_t ring,
		       const struct trace_event *spawn)
{
	const struct ring_cursor *c = &s->rings.cursors[ring];
	struct spawn_stack *at = s->spawn_stacks->rings[ring];
	struct capture_thread *thread = capture_threads_find(d->threads, s->process, c->tid);
	struct trace_event e = {.time = spawn->time,
				.type = TE_SAMPLE,
				.arg = TM_SPAWN,
				.kind = TRACE_KIND_NONE,
				.task = 1};
	int rc;

	s->spawn_stacks->n_spawns++;
	if (!at || !at->begun || !thread || thread->index != spawn->thread)
		return 0;
	at->begun = false;
	if (at->thread != spawn->thread + 1) {
		rc = capture_threads_stream(d->threads, thread, &at->stream);
		if (rc < 0)
			return rc;
		at->thread = spawn->thread + 1;
	}
	s->spawn_stacks->n_stacks++;
	e.thread = at->stream;
	return capture_stacks_put_copy(d->stacks, &e, s->process, &at->stack, sizeof(at->stack));
}

int spawn_stacks_tell(struct drain *d, const struct source *s, struct capture_stats *stats)
{
	const struct trace_coverage c = {.process = s->process,
					 .item = "stacks of spawns",
					 .seen = s->spawn_stacks->n_stacks,
					 .total = s->spawn_stacks->n_spawns,
					 .note = s->spawn_stacks->n_stacks <
								 s->spawn_stacks->n_spawns
							 ? "the buffer had no room for the others: "
							   "a larger --ring-size gives it"
							 : ""};

	return c.total ? capture_tell_coverage(d->writer, stats, &c) : 0;
}
