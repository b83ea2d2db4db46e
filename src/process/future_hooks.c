/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A poll function of a future is reached by words that hold its address and by calls. It is all or
 * nothing for a function: if one of its uses can't be hooked, none is.
 */
#include "process/future_hooks.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "process/call_hooks.h"
#include "process/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Why a use can't be hooked; NULL: it can. */
static const char *trouble_of(const struct process *p, const struct code_ref *u, uint64_t bias,
			      uint64_t *ret_saved)
{
	uint64_t at = u->operand + bias, target = u->target + bias;

	if (u->kind == REF_WORD) {
		if (at % 8)
			return "a word that holds their address isn't aligned";
		if (memory_read_u64(p, at, ret_saved) < 0 || *ret_saved != target)
			return "a word differs from the file";
		return NULL;
	}
	if (!call_hooks_read(p, at, target, ret_saved))
		return "a call of them in memory differs from the file";
	return NULL;
}

/* Several functions may poll futures of one type: copies, or those that an optimiser made a part of
 * others. `types`: type_key to kind + 1. -ENOMEM. */
static int kind_of_future(struct hooks *h, struct hooked_object *o, struct map *types,
			  const struct scan_future *f)
{
	uintptr_t known = f->type_key ? (uintptr_t)map_get(types, f->type_key, 0) : 0;
	struct attach_kind *kind = known ? NULL : hooks_add_kind(h);

	if (known)
		return (int)known - 1;
	if (!kind)
		return -ENOMEM;
	kind->object = &o->attach;
	kind->future = f;
	if (f->type_key && map_put(types, f->type_key, 0, (void *)(uintptr_t)h->n_kinds) < 0)
		return -ENOMEM;
	return (int)h->n_kinds - 1;
}

static uint16_t flags_of_holder(const struct future_holder *holder)
{
	switch (holder->part) {
	case HOLDER_AROUND:
		return AGENT_HOOK_CHAIN | AGENT_HOOK_HELD | AGENT_HOOK_AROUND;
	case HOLDER_LOOK:
	case HOLDER_MAKES:
		return AGENT_HOOK_CHAIN | AGENT_HOOK_LOOK;
	default:
		return AGENT_HOOK_CHAIN | AGENT_HOOK_HELD;
	}
}

static int plan_one(struct hooks *h, struct hooked_object *o, struct map *types,
		    struct scan_future *f, const uint64_t *saved)
{
	uint64_t bias = o->attach.bias;
	int kind = kind_of_future(h, o, types, f);

	if (kind < 0)
		return kind;
	for (size_t i = 0; i < f->n_uses; i++) {
		bool word = f->uses[i].kind == REF_WORD;
		struct agent_hook *hook = hooks_add(h);

		if (!hook)
			return -ENOMEM;
		hook->type = AH_FUTURE;
		hook->kind = (uint16_t)kind;
		hook->orig = f->poll + bias;
		hook->slot = f->uses[i].operand + bias;
		hook->saved = saved[i];
		hook->future.result = f->result;
		hook->future.pending = f->pending;
		hook->flags = AGENT_HOOK_FRAME |
			      (f->borrowed ? AGENT_HOOK_INDIRECT
			       : f->memory ? AGENT_HOOK_MEMORY
					   : 0) |
			      (f->shown ? AGENT_HOOK_SHOWN : 0);
		if (f->borrowed) {
			hook->future.argument = f->borrowed_by;
			hook->future.n_pointers = f->borrowed;
		}
		if (f->holder) {
			hook->flags |= flags_of_holder(f->holder);
		} else if (o->futures.boxed) {
			hook->flags |= AGENT_HOOK_CHAIN;
			hook->future.value_bytes =
				f->value_bytes < UINT32_MAX ? (uint32_t)f->value_bytes : UINT32_MAX;
		}
		if (!word && call_hooks_add(h, hook) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Several calls on behalf of one future are of one kind. -ENOMEM. */
static int kind_of_root(struct hooks *h, struct hooked_object *o, const struct scan_root_polls *f,
			size_t i)
{
	struct attach_kind *kind;

	for (size_t k = h->n_kinds; k-- > 0 && h->kinds[k].root_poll;)
		if (!strcmp(h->kinds[k].root_poll->full_name, f->v[i].full_name))
			return (int)k;
	kind = hooks_add_kind(h);
	if (!kind)
		return -ENOMEM;
	kind->object = &o->attach;
	kind->root_poll = &f->v[i];
	return (int)h->n_kinds - 1;
}

/* The calls of parks that are known, then the hooks of all that lead to these. */
static int plan_root_polls(struct hooks *h, const struct process *p, struct hooked_object *o)
{
	const struct scan_root_polls *f = &o->root_polls;
	uint64_t bias = o->attach.bias, first = h->n, saved;

	if (!f->n || h->n + f->n + f->uses.n > AGENT_MAX_HOOKS ||
	    h->n_kinds + f->n >= AGENT_KIND_NONE)
		return 0;
	for (size_t i = 0; i < f->uses.n; i++)
		if (trouble_of(p, &f->uses.v[i], bias, &saved))
			return 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct scan_root_poll *r = &f->v[i];
		int kind = kind_of_root(h, o, f, i);
		struct agent_hook *site = kind < 0 ? NULL : hooks_add(h);

		if (!site)
			return -ENOMEM;
		site->type = AH_ROOT_SITE;
		site->kind = (uint16_t)kind;
		site->orig = r->back + bias;
		site->future.frame_offset = (int32_t)r->offset;
		site->future.result = (struct agent_result){.from = AR_STATE,
							    .offset = (uint32_t)r->state_offset,
							    .size = (uint8_t)r->state_size,
							    .ready = 1};
		site->future.pending = 2;
		site->flags = r->returns_ready ? AGENT_HOOK_RETURNS_READY : 0;
		h->n_root_polls += !r->at_end;
	}
	for (size_t i = 0; i < f->uses.n; i++) {
		const struct code_ref *u = &f->uses.v[i];
		struct agent_hook *hook;

		if (root_polls_park(f, u->target)->trouble)
			continue;
		hook = hooks_add(h);
		if (!hook)
			return -ENOMEM;
		trouble_of(p, u, bias, &saved);
		hook->type = AH_ROOT_PARK;
		hook->orig = u->target + bias;
		hook->slot = u->operand + bias;
		hook->saved = saved;
		hook->park.first_site = (uint32_t)first;
		hook->park.n_sites = (uint32_t)f->n;
		hook->flags = AGENT_HOOK_FRAME |
			      (root_polls_park(f, u->target)->at_end ? AGENT_HOOK_ROOT_END : 0);
		if (u->kind != REF_WORD && call_hooks_add(h, hook) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Why none of an object can be hooked, NULL: they can. A panic of theirs passes our frames. */
static const char *trouble_of_all(const struct hooked_object *o, bool near)
{
	if (!near)
		return "they lie too far from the agent";
	switch (o->unwinder) {
	case UNWINDER_KNOWN:
		return NULL;
	case UNWINDER_UNBOUND:
		return "their file's unwinder isn't known yet, and a panic couldn't pass the agent";
	default:
		return "their file's unwinder isn't libgcc's, or is hidden in it: a panic couldn't "
		       "pass the agent";
	}
}

int future_hooks_plan(struct hooks *h, const struct process *p, struct hooked_object *o, bool near,
		      struct error *err)
{
	/* Words of data lead anywhere. */
	const char *trouble = trouble_of_all(o, near || o->futures.boxed);
	/* The number of a kind is a link of a chain, too. */
	const size_t max_kinds =
		o->futures.boxed ? AGENT_CHAIN_OTHERS - AGENT_CHAIN_KIND : AGENT_KIND_NONE;
	_cleanup_(map_done) struct map types = {0};
	int rc = 0;

	for (size_t i = 0; i < o->futures.n && trouble; i++)
		o->futures.v[i].trouble = trouble;
	if (trouble)
		return 0;
	for (size_t i = 0; i < o->futures.n && rc == 0; i++) {
		struct scan_future *f = &o->futures.v[i];
		uint64_t *saved;

		if (f->holder && !near)
			f->trouble = trouble_of_all(o, near);
		if (!f->trouble &&
		    (h->n + f->n_uses > AGENT_MAX_HOOKS || h->n_kinds + 1 >= max_kinds))
			f->trouble = "there are more than can be hooked at once";
		if (f->trouble)
			continue;
		saved = calloc(f->n_uses, sizeof(*saved));
		if (!saved)
			return error_sys(err, -ENOMEM, "cannot plan the hooks");
		for (size_t k = 0; k < f->n_uses && !f->trouble; k++)
			f->trouble = trouble_of(p, &f->uses[k], o->attach.bias, &saved[k]);
		if (!f->trouble)
			rc = plan_one(h, o, &types, f, saved);
		free(saved);
	}
	if (rc == 0)
		rc = plan_root_polls(h, p, o);
	return rc < 0 ? error_sys(err, rc, "cannot plan the hooks") : 0;
}

void future_hooks_cover_dropped(struct hooks *h, struct hooked_object *const *objects,
				size_t n_objects)
{
	for (size_t i = 0; i < h->n; i++) {
		const struct agent_hook *hook = &h->table[i];

		if (!h->dropped[i])
			continue;
		if (hook->type == AH_ROOT_PARK)
			h->n_root_polls = 0;
		for (size_t o = 0; o < n_objects && hook->type == AH_FUTURE; o++)
			for (size_t k = 0; k < objects[o]->futures.n; k++)
				if (objects[o]->futures.v[k].poll + objects[o]->attach.bias ==
				    hook->orig)
					objects[o]->futures.v[k].trouble =
						"a call of them lies in two pages, which could not "
						"be changed";
	}
}
