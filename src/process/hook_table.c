/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The table of hooks: what each file that plans hooks adds to. */
#include "process/hooks.h"

#include "base/vec.h"

struct agent_hook *hooks_add(struct hooks *h)
{
	if (h->n == AGENT_MAX_HOOKS)
		return NULL;
	if (!GROW(h->table, h->n, h->cap))
		return NULL;
	h->table[h->n] = (struct agent_hook){.kind = AGENT_KIND_NONE};
	return &h->table[h->n++];
}

struct attach_kind *hooks_add_kind(struct hooks *h)
{
	if (h->n_kinds == AGENT_KIND_NONE || !GROW_ONE(h->kinds, h->n_kinds))
		return NULL;
	h->kinds[h->n_kinds] = (struct attach_kind){0};
	return &h->kinds[h->n_kinds++];
}
