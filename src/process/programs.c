/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs follow one another and are never changed or moved, for a thread may be inside one at
 * any time: of one of an earlier recording, too, when its mapping is in use again. So new ones go
 * after everything that was ever written; but those that are there already, as they all are if the
 * same program was recorded before, are taken as they are.
 */
#include "process/programs.h"

#include "base/cleanup.h"
#include "process/memory.h"
#include "process/places.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t written_word(const struct layout *l)
{
	return l->words + 8 * LAYOUT_WORD_PROGRAMS;
}

void programs_begin(struct programs *pr, const struct process *p, const struct layout *l,
		    bool reused)
{
	*pr = (struct programs){0};
	if (reused && (memory_read_u64(p, written_word(l), &pr->earlier_bytes) < 0 ||
		       pr->earlier_bytes > l->programs_bytes))
		pr->earlier_bytes = l->programs_bytes;
}

/* The next of the hooks from *index on through which the kind is polled. */
static bool poll_hook(const struct hooks *h, uint32_t kind, size_t *index)
{
	for (; *index < h->n; (*index)++) {
		const struct agent_hook *hook = &h->table[*index];

		if (hook->kind != kind)
			continue;
		if (hook->type == AH_FUTURE || hook->type == AH_ROOT_SITE ||
		    (h->flipped[*index] &&
		     (hook->type == AH_TOKIO_POLL || hook->type == AH_ASYNC_RUN)))
			return true;
	}
	return false;
}

static bool stands_there(const struct process *p, uint64_t addr, const void *words, size_t bytes)
{
	_cleanup_free_ void *there = malloc(bytes);

	return there && memory_read(p, addr, there, bytes) == 0 && !memcmp(there, words, bytes);
}

/* The suspended states of a future, and the one in which it was not polled yet, from which its
 * program leads nowhere: agent_hook.alone. */
static uint32_t alone_states(const struct agent_hook *hook, const uint64_t *words, size_t n_words)
{
	enum { NODE_WORDS = sizeof(struct agent_node) / 8, FIRST_AWAIT = 3, BITS = 32 };
	const struct agent_step *steps = (const struct agent_step *)words;
	const struct agent_node *node = (const struct agent_node *)(words + 1);
	uint32_t bits = 0;

	if (hook->type != AH_FUTURE || hook->flags & AGENT_HOOK_HELD ||
	    hook->future.result.from != AR_STATE || hook->future.result.size != 1 ||
	    hook->future.pending != FIRST_AWAIT - 1 || n_words < 1 + NODE_WORDS ||
	    steps[0].next != 1 || steps[0].delta != (int32_t)hook->future.result.offset ||
	    node->base || node->kind != NODE_STATE || node->size != 1 ||
	    n_words < 1 + NODE_WORDS + (size_t)node->n)
		return 0;
	for (uint32_t i = 0; i < node->n && i < BITS; i++)
		if ((i == 0 || i >= FIRST_AWAIT) && !node->steps[i].next)
			bits |= 1u << i;
	return bits;
}

static int give_program(const struct process *p, const struct layout *l, const struct hooks *h,
			size_t index, uint64_t program, uint16_t end, uint32_t alone)
{
	uint64_t hook = l->hooks + index * sizeof(struct agent_hook);

	if (end && h->table[index].type == AH_ASYNC_RUN)
		TRY(memory_write(p, hook + offsetof(struct agent_hook, task.end_offset), &end,
				 sizeof(end)));
	TRY(memory_write_u64(p, hook + offsetof(struct agent_hook, program), program));
	return alone ? memory_write(p, hook + offsetof(struct agent_hook, future.alone), &alone,
				    sizeof(alone))
		     : 0;
}

int programs_add(struct programs *pr, const struct process *p, const struct hooks *h,
		 const struct layout *l, uint32_t kind, const uint64_t *words, size_t n_words,
		 uint64_t task_bytes)
{
	const uint16_t end = task_bytes < UINT16_MAX ? (uint16_t)task_bytes : UINT16_MAX;
	uint64_t bytes = n_words * sizeof(*words);
	size_t index = 0;
	int rc = 0;

	if (!poll_hook(h, kind, &index))
		return -ENOENT;
	if (bytes > l->programs_bytes - pr->used_bytes)
		return -ENOSPC;
	if (pr->used_bytes + bytes > pr->earlier_bytes ||
	    !stands_there(p, l->programs + pr->used_bytes, words, bytes)) {
		if (pr->used_bytes < pr->earlier_bytes)
			pr->used_bytes = pr->earlier_bytes;
		if (bytes > l->programs_bytes - pr->used_bytes)
			return -ENOSPC;
		/* Counted first: what is half written counts too. */
		rc = memory_write_u64(p, written_word(l), pr->used_bytes + bytes);
		if (rc == 0)
			rc = memory_write(p, l->programs + pr->used_bytes, words, bytes);
	}
	for (; rc == 0 && poll_hook(h, kind, &index); index++)
		rc = give_program(p, l, h, index, l->programs + pr->used_bytes, end,
				  alone_states(&h->table[index], words, n_words));
	pr->used_bytes += bytes;
	return rc;
}

int programs_held(const struct process *p, const struct hooks *h, const struct layout *l,
		  uint32_t kind, const struct place_held *held)
{
	size_t index = 0;
	int rc = 0;

	for (; rc == 0 && poll_hook(h, kind, &index); index++) {
		uint64_t at = l->hooks + index * sizeof(struct agent_hook);
		struct agent_hook hook = h->table[index];

		if (!(hook.flags & AGENT_HOOK_HELD))
			continue;
		if (held->written) {
			hook.future.result.from = AR_PRESENT;
			hook.future.pending = held->none;
		}
		hook.future.result.offset = held->state_offset;
		hook.future.result.size = held->state_size;
		hook.future.future_offset = held->future_offset;
		hook.future.tag_size = held->tag_size;
		hook.future.tag_some = held->tag_some;
		hook.future.held_offset = held->pointer_offset & INT32_MAX;
		hook.future.held_second = held->memory;
		rc = memory_write(p, at + offsetof(struct agent_hook, future), &hook.future,
				  sizeof(hook.future));
		if (rc == 0)
			rc = memory_write(p, at + offsetof(struct agent_hook, last_state),
					  &held->last_state, sizeof(held->last_state));
	}
	return rc;
}

int programs_result(const struct process *p, const struct hooks *h, const struct layout *l,
		    uint32_t kind, const struct agent_result *returns, uint64_t pending)
{
	uint64_t word;
	size_t index = 0;
	int rc = 0;

	_Static_assert(sizeof(*returns) == sizeof(word) &&
			       !(offsetof(struct agent_hook, future.result) % sizeof(word)),
		       "it is written at once");
	memcpy(&word, returns, sizeof(word));
	for (; rc == 0 && poll_hook(h, kind, &index); index++) {
		uint64_t at = l->hooks + index * sizeof(struct agent_hook);

		if (!hooks_learns_result(&h->table[index]))
			continue;
		rc = memory_write_u64(p, at + offsetof(struct agent_hook, future.pending), pending);
		if (rc == 0)
			rc = memory_write_u64(p, at + offsetof(struct agent_hook, future.result),
					      word);
	}
	return rc;
}

/* The agent sets a flag, too, at any time. So these are in another byte, which only pollux writes. */
int programs_flag(const struct process *p, const struct hooks *h, const struct layout *l,
		  uint32_t kind, uint16_t flag)
{
	size_t index = 0;
	int rc = 0;

	_Static_assert(AGENT_HOOK_WORKER <= UINT8_MAX && !(AGENT_HOOK_HANDLER & UINT8_MAX) &&
			       !(AGENT_HOOK_SERVES & UINT8_MAX),
		       "the low byte is the agent's, the high one pollux's");
	assert(!(flag & UINT8_MAX));
	for (; rc == 0 && poll_hook(h, kind, &index); index++) {
		uint64_t at = l->hooks + index * sizeof(struct agent_hook) +
			      offsetof(struct agent_hook, flags) + 1;
		uint8_t high;

		rc = memory_read(p, at, &high, sizeof(high));
		high |= (uint8_t)(flag >> 8);
		if (rc == 0)
			rc = memory_write(p, at, &high, sizeof(high));
	}
	return rc;
}
