/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent's frame is recognised by what thunk_call pushes: below its caller's registers the first
 * argument, the fourth one, the hook's address, the ticks at the begin, and the return address of
 * the call. The stack may still have words of a frame that has returned: so the caller compares the
 * ticks with the thread's later events, and the thread's system call with the hook's.
 */
#include "process/open_call.h"

#include "trace/event.h"

/* In words from the return address. */
enum { AT_TICKS = 1, AT_HOOK = 2, AT_FIRST = 4, FRAME_WORDS = 5 };

/* musl's mutex has its futex after its type. */
#define LOCK_BYTES 40u

static const struct agent_hook *hook_at(const struct layout *layout, const struct hooks *hooks,
					uint64_t addr)
{
	uint64_t offset = addr - layout->hooks;

	if (offset % sizeof(struct agent_hook) || offset / sizeof(struct agent_hook) >= hooks->n)
		return NULL;
	return &hooks->table[offset / sizeof(struct agent_hook)];
}

bool open_call_find(const uint64_t *words, size_t n, const struct layout *layout,
		    const struct hooks *hooks, uint64_t first_argument,
		    struct attach_open_call *ret)
{
	bool other = false; /* the innermost frame is another call's, or of one that has returned */

	for (size_t i = 0; i + FRAME_WORDS <= n; i++) {
		const struct agent_hook *hook = hook_at(layout, hooks, words[i + AT_HOOK]);
		uint64_t offset = first_argument - words[i + AT_FIRST];
		bool deep = hook && hook->kind == TB_GETADDRINFO;

		if (!hook || hook->type != AH_CALL || words[i] - layout->code >= layout->code_bytes)
			continue;
		other = other || i + FRAME_WORDS > OPEN_CALL_WORDS ||
			offset > (hook->kind == AC_PTHREAD_MUTEX_LOCK ? LOCK_BYTES : 0);
		if (other && !deep)
			continue;
		ret->call = hook->kind;
		ret->ticks = words[i + AT_TICKS];
		return true;
	}
	return false;
}
