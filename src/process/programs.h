/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Layout programs (agent/ring.h) in the agent's area: written and handed to hooks while the program
 * runs. */
#pragma once

#include "process/hooks.h"

struct programs {
	uint64_t used_bytes;	/* bytes taken by this attach */
	uint64_t earlier_bytes; /* bytes that were ever written before it */
};

void programs_begin(struct programs *pr, const struct process *p, const struct layout *l,
		    bool reused);
/* `task_bytes`: how large an async-task of the kind is by its own vtable, 0: not known, or
 * another's kind. 0; -ENOSPC: no room; -ENOENT: the kind's polls aren't hooked; what writing says.
 */
int programs_add(struct programs *pr, const struct process *p, const struct hooks *h,
		 const struct layout *l, uint32_t kind, const uint64_t *words, size_t n_words,
		 uint64_t task_bytes);

/* Where the methods of the kind have its future; from then on they are recorded. */
struct place_held;
int programs_held(const struct process *p, const struct hooks *h, const struct layout *l,
		  uint32_t kind, const struct place_held *held);

/* How the polls of a kind's futures, which were written by hand, show that they are pending; from then on they are
 * recorded. */
int programs_result(const struct process *p, const struct hooks *h, const struct layout *l,
		    uint32_t kind, const struct agent_result *returns, uint64_t pending);

/* What the kind's futures are to those around them: one of AGENT_HOOK_HANDLER, AGENT_HOOK_SERVES is
 * set in its hooks. */
int programs_flag(const struct process *p, const struct hooks *h, const struct layout *l,
		  uint32_t kind, uint16_t flag);
