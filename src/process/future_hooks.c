/*
 * A poll function of a future is called by instructions that have its place as a distance, four
 * bytes from themselves. To hook it, these four bytes are changed to lead to the hook's stub: the
 * instruction stays an instruction of the same length at the same place, so nothing is moved,
 * nothing can be jumped into, no thread can stand inside of something new, and a thread that is in
 * the called function comes back to where it would have come back to anyway. The bytes are changed
 * while all threads stand still, each four whole or not at all: whenever pollux is killed, each
 * call leads to the function or to a stub that leads there.
 *
 * It is all or nothing for a function: if one of its uses can't be changed, none is.
 */
#include "process/future_hooks.h"

#include "process/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIELD 4u /* bytes of a relative target */

static uint32_t distance(uint64_t field, uint64_t target)
{
	return (uint32_t)(target - (field + FIELD));
}

/* Why a use can't be hooked; NULL: it can. */
static const char *trouble_of(const struct process *p, const struct use *u, uint64_t bias,
			      uint64_t *ret_saved)
{
	uint64_t at = u->at + bias, target = u->target + bias;

	if (u->kind == USE_WORD) {
		if (at % 8)
			return "a word that holds their address isn't aligned";
		if (memory_read_u64(p, at, ret_saved) < 0 || *ret_saved != target)
			return "a word holds something else than the file says";
		return NULL;
	}
	uint32_t field, expected = distance(at, target);
	if (memory_read(p, at, &field, sizeof(field)) < 0 || field != expected)
		return "a call of them isn't in memory what it is in the file";
	*ret_saved = field;
	return NULL;
}

static int add_call(struct hooks *h, const struct agent_hook *hook)
{
	struct hook_call *calls;

	if ((h->n_calls & (h->n_calls - 1)) == 0) {
		calls = reallocarray(h->calls, h->n_calls ? h->n_calls * 2 : 1, sizeof(*calls));
		if (!calls)
			return -ENOMEM;
		h->calls = calls;
	}
	h->calls[h->n_calls++] = (struct hook_call){.addr = hook->slot,
						    .hook = (uint32_t)(hook - h->table),
						    .was = (uint32_t)hook->saved};
	return 0;
}

int future_hooks_call(struct hooks *h, const struct process *p, uint64_t at, uint64_t target,
		      const struct agent_hook *like)
{
	struct agent_hook *hook;
	uint32_t field;

	if (memory_read(p, at, &field, FIELD) < 0 || field != distance(at, target)) {
		h->n_calls_left++;
		return 0;
	}
	hook = hooks_add(h);
	if (!hook)
		return -ENOMEM;
	*hook = *like;
	hook->orig = target;
	hook->slot = at;
	hook->saved = field;
	hook->flags |= AGENT_HOOK_CALL;
	return add_call(h, hook);
}

static int plan_one(struct hooks *h, struct hooked_object *o, struct find_future *f,
		    const uint64_t *saved)
{
	uint64_t bias = o->attach.bias;
	uint16_t number = (uint16_t)h->n_kinds;
	struct attach_kind *kind = hooks_add_kind(h);

	if (!kind)
		return -ENOMEM;
	kind->object = &o->attach;
	kind->future = f;
	for (size_t i = 0; i < f->n_uses; i++) {
		bool word = f->uses[i].kind == USE_WORD;
		struct agent_hook *hook = hooks_add(h);

		if (!hook)
			return -ENOMEM;
		hook->type = AH_FUTURE;
		hook->kind = number;
		hook->orig = f->poll + bias;
		hook->slot = f->uses[i].at + bias;
		hook->saved = saved[i];
		hook->result = f->result;
		hook->pending = f->pending;
		hook->flags = (uint16_t)((f->memory ? AGENT_HOOK_MEMORY : 0) |
					 (word ? 0 : AGENT_HOOK_CALL));
		if (!word && add_call(h, hook) < 0)
			return -ENOMEM;
	}
	return 0;
}

int future_hooks_plan(struct hooks *h, const struct process *p, struct hooked_object *o,
		      struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < o->futures.n && rc == 0; i++) {
		struct find_future *f = &o->futures.v[i];
		uint64_t *saved;

		if (!f->trouble &&
		    (h->n + f->n_uses > AGENT_MAX_HOOKS || h->n_kinds + 1 >= AGENT_KIND_NONE))
			f->trouble = "there are more than can be hooked at once";
		if (f->trouble)
			continue;
		saved = calloc(f->n_uses, sizeof(*saved));
		if (!saved)
			return error_sys(err, -ENOMEM, "cannot plan the hooks");
		for (size_t k = 0; k < f->n_uses && !f->trouble; k++)
			f->trouble = trouble_of(p, &f->uses[k], o->attach.bias, &saved[k]);
		if (!f->trouble)
			rc = plan_one(h, o, f, saved);
		free(saved);
	}
	return rc < 0 ? error_sys(err, rc, "cannot plan the hooks") : 0;
}

void future_hooks_place(struct hooks *h, const struct layout *l)
{
	for (size_t i = 0; i < h->n_calls; i++) {
		struct hook_call *c = &h->calls[i];
		uint64_t stub = l->stubs + (uint64_t)c->hook * AGENT_STUB_BYTES;
		int64_t far = (int64_t)(stub - (c->addr + FIELD));

		c->reachable = far == (int32_t)far;
		c->ours = distance(c->addr, stub);
	}
}

int future_hooks_patch(struct hooks *h, struct process *p)
{
	for (size_t i = 0; i < h->n_calls; i++) {
		struct hook_call *c = &h->calls[i];
		uint32_t field;
		int rc;

		if (!c->reachable || memory_read(p, c->addr, &field, FIELD) < 0 ||
		    field != c->was) {
			h->n_calls_left++;
			continue;
		}
		rc = memory_replace(p, c->addr, &c->was, &c->ours, FIELD);
		if (rc == -EOPNOTSUPP) {
			h->n_calls_left++;
			continue;
		}
		if (rc < 0)
			return rc;
		c->applied = true;
	}
	return 0;
}

int future_hooks_unpatch(struct hooks *h, struct process *p)
{
	int result = 0;

	for (size_t i = 0; i < h->n_calls; i++) {
		struct hook_call *c = &h->calls[i];
		uint32_t field;
		int rc;

		if (!c->applied)
			continue;
		rc = memory_read(p, c->addr, &field, FIELD);
		if (rc == 0 && field == c->ours)
			rc = memory_replace(p, c->addr, &c->ours, &c->was, FIELD);
		if (rc < 0)
			result = rc;
		else
			c->applied = false;
	}
	return result;
}

bool future_hooks_left(const struct process *p, const struct agent_hook *hook, uint64_t stub)
{
	uint32_t field;

	return hook_is_call(hook) && memory_read(p, hook->slot, &field, FIELD) == 0 &&
	       field == distance(hook->slot, stub);
}

int future_hooks_undo(const struct process *p, const struct agent_hook *hook)
{
	uint32_t field;
	int rc = memory_read(p, hook->slot, &field, FIELD);

	return rc == 0 ? memory_replace(p, hook->slot, &field, &hook->saved, FIELD) : rc;
}
