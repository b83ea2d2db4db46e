/*
 * Programs stand one behind the other and are never changed or moved, for a thread may be inside of
 * one at any time: of one of an earlier recording, too, when that one's area is in use again. So
 * ours go behind whatever was ever written; but those that stand there already, as they all do if
 * the same program was recorded before, are taken as they are.
 */
#include "process/programs.h"

#include "base/cleanup.h"
#include "process/memory.h"

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
	if (reused && (memory_read_u64(p, written_word(l), &pr->before) < 0 ||
		       pr->before > l->programs_bytes))
		pr->before = l->programs_bytes;
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

int programs_add(struct programs *pr, const struct process *p, const struct hooks *h,
		 const struct layout *l, uint32_t kind, const uint64_t *words, size_t n_words)
{
	uint64_t bytes = n_words * sizeof(*words);
	size_t index = 0;
	int rc = 0;

	if (!poll_hook(h, kind, &index))
		return -ENOENT;
	if (bytes > l->programs_bytes - pr->at)
		return -ENOSPC;
	if (pr->at + bytes > pr->before || !stands_there(p, l->programs + pr->at, words, bytes)) {
		if (pr->at < pr->before)
			pr->at = pr->before;
		if (bytes > l->programs_bytes - pr->at)
			return -ENOSPC;
		/* Told first: what is half written counts too. */
		rc = memory_write_u64(p, written_word(l), pr->at + bytes);
		if (rc == 0)
			rc = memory_write(p, l->programs + pr->at, words, bytes);
	}
	for (; rc == 0 && poll_hook(h, kind, &index); index++)
		rc = memory_write_u64(p,
				      l->hooks + index * sizeof(struct agent_hook) +
					      offsetof(struct agent_hook, program),
				      l->programs + pr->at);
	pr->at += bytes;
	return rc;
}
