/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An instruction that calls a function has its place as a distance, four bytes from themselves. To
 * hook the call, these four bytes are changed to lead to the hook's stub: the instruction stays an
 * instruction of the same length at the same place, so nothing is moved, nothing can be jumped
 * into, no thread can be inside something new, and a thread that is in the called function comes
 * back to where it would have come back to anyway. The bytes are changed while all threads are
 * stopped, each four whole or not at all: whenever pollux is killed, each call leads to the
 * function or to a stub that leads there. Four bytes that lie in two pages: across.c.
 */
#include "process/call_hooks.h"

#include "arch/code.h"
#include "base/vec.h"
#include "process/memory.h"

#include <errno.h>

bool call_hooks_read(const struct process *p, uint64_t at, uint64_t target, uint64_t *ret_saved)
{
	uint32_t field, wanted;

	arch_call_field(at, target, &wanted);
	if (memory_read(p, at, &field, CALL_HOOKS_FIELD) < 0 || field != wanted)
		return false;
	*ret_saved = field;
	return true;
}

int call_hooks_add(struct hooks *h, struct agent_hook *hook)
{
	hook->flags |= AGENT_HOOK_CALL;
	if (!GROW_ONE(h->calls, h->n_calls))
		return -ENOMEM;
	h->calls[h->n_calls++] = (struct hook_call){.addr = hook->slot,
						    .hook = (uint32_t)(hook - h->table),
						    .original = (uint32_t)hook->saved};
	return 0;
}

int call_hooks_plan(struct hooks *h, const struct process *p, uint64_t at, uint64_t target,
		    const struct agent_hook *like)
{
	struct agent_hook *hook;
	uint64_t saved;

	if (!call_hooks_read(p, at, target, &saved)) {
		h->n_calls_left++;
		return 0;
	}
	hook = hooks_add(h);
	if (!hook)
		return -ENOMEM;
	*hook = *like;
	hook->orig = target;
	hook->slot = at;
	hook->saved = saved;
	return call_hooks_add(h, hook);
}

void call_hooks_place(struct hooks *h, const struct layout *l)
{
	for (size_t i = 0; i < h->n_calls; i++) {
		struct hook_call *c = &h->calls[i];
		uint64_t stub = l->stubs + (uint64_t)c->hook * AGENT_STUB_BYTES;

		c->reachable = arch_call_field(c->addr, stub, &c->patched);
	}
}

int call_hooks_patch(struct hooks *h, struct process *p, size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++) {
		struct hook_call *c = &h->calls[i];
		uint32_t field;
		int rc;

		if (c->applied)
			continue; /* by call_hooks_patch_across() */
		if (!c->reachable || h->dropped[c->hook] || call_hooks_across(c) ||
		    memory_read(p, c->addr, &field, CALL_HOOKS_FIELD) < 0 || field != c->original) {
			h->n_calls_left++;
			continue;
		}
		rc = memory_replace(p, c->addr, &c->patched, CALL_HOOKS_FIELD);
		if (rc < 0)
			return rc;
		c->applied = true;
	}
	return 0;
}

int call_hooks_unpatch(struct hooks *h, struct process *p, size_t first, size_t n)
{
	int result = 0;

	for (size_t i = first; i < first + n; i++) {
		struct hook_call *c = &h->calls[i];
		uint32_t field;
		int rc;

		if (!c->applied || call_hooks_across(c))
			continue;
		rc = memory_read(p, c->addr, &field, CALL_HOOKS_FIELD);
		if (rc == 0 && field == c->patched)
			rc = memory_replace(p, c->addr, &c->original, CALL_HOOKS_FIELD);
		/* Its object may have been unloaded. */
		if (rc < 0 && rc != -EIO && rc != -EFAULT)
			result = rc;
		else
			c->applied = false;
	}
	return result;
}

bool call_hooks_across(const struct hook_call *c)
{
	return !memory_in_one_page(c->addr, CALL_HOOKS_FIELD);
}

static struct across_change change_of(const struct hook_call *c)
{
	return (struct across_change){.addr = c->addr,
				      .before = (const uint8_t *)&c->original,
				      .after = (const uint8_t *)&c->patched,
				      .len = CALL_HOOKS_FIELD};
}

int call_hooks_patch_across(struct hooks *h, struct across *x,
			    const struct process_objects *objects, struct error *err)
{
	for (size_t i = 0; i < h->n_calls; i++) {
		struct hook_call *c = &h->calls[i];
		const struct across_change change = change_of(c);

		if (!c->reachable || !call_hooks_across(c))
			continue;
		c->applied = true; /* also if a thread is still on its way */
		int rc = across_make(x, objects, &change, err);
		if (rc < 0)
			return rc;
		c->applied = rc == 0;
	}
	return 0;
}

int call_hooks_unpatch_across(struct hooks *h, struct across *x,
			      const struct process_objects *objects, bool dropped,
			      struct error *err)
{
	int result = 0;

	for (size_t i = 0; i < h->n_calls; i++) {
		struct hook_call *c = &h->calls[i];
		const struct across_change change = change_of(c);

		if (!c->applied || !call_hooks_across(c) || (dropped && !h->dropped[c->hook]))
			continue;
		int rc = across_undo(x, objects, &change, err);
		c->applied = rc != 0;
		if (rc != 0)
			result = rc;
	}
	return result;
}

bool call_hooks_left(const struct process *p, const struct agent_hook *hook, uint64_t stub)
{
	uint64_t field;

	return hook_is_call(hook) && call_hooks_read(p, hook->slot, stub, &field);
}

int call_hooks_undo(const struct process *p, const struct agent_hook *hook)
{
	return memory_replace(p, hook->slot, &hook->saved, CALL_HOOKS_FIELD);
}
