/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a type is, by its name and members, whether a value of it can hold a future, and the offset
 * of a member in a value.
 */
#include "future/type_class.h"

#include "base/map.h"

#include <string.h>

enum {
	FIND_DEPTH = 12,
	HOLD_DEPTH = 100, /* each type is looked at once */
	/* dw_type.note, of three bits for each question */
	NOTE_KNOWN = 1,
	NOTE_HOLDS = 2,
	NOTE_BUSY = 4,
	NOTE_BITS = 3,
	/* and of bits that future_path.c leaves free, too */
	NOTE_BOX_KNOWN = 1 << 26,
	NOTE_BOX = 1 << 27,
	BOX_DEPTH = 200,
	BOX_TYPES = 20000,
};

/* What is asked of a type: whether a future may be in it, or one that is no leaf. */
enum question { ANY_FUTURE, NO_LEAF };

bool shape_is_closure(const struct dw_type *t)
{
	return t->class == DC_STRUCT && await_starts(t->name, "{closure_env#");
}

bool shape_is_dyn_future(const struct dw_type *t)
{
	return t->class == DC_STRUCT && t->n_members == 2 && dw_find_member(t, "pointer") &&
	       dw_find_member(t, "vtable") &&
	       strstr(t->full_name, "dyn core::future::future::Future");
}

bool shape_is_slice(const struct dw_type *t)
{
	return t->class == DC_STRUCT && dw_find_member(t, "data_ptr") &&
	       dw_find_member(t, "length");
}

bool shape_is_unordered(const struct dw_type *t)
{
	return t->class == DC_STRUCT && await_starts(t->name, "FuturesUnordered<");
}

bool shape_is_vec(const struct dw_type *t)
{
	return t->class == DC_STRUCT && await_starts(t->full_name, "alloc::vec::Vec<");
}

bool shape_is_shared(const struct dw_type *t)
{
	return t->class == DC_STRUCT &&
	       await_starts(t->full_name, "futures_util::future::future::shared::Shared<");
}

/* References that own, or that a combinator polls through. */
static bool is_followed(const struct dw_type *t)
{
	return t->class == DC_POINTER && (await_starts(t->name, "alloc::boxed::Box<") ||
					  await_starts(t->name, "&mut ") || !*t->name);
}

static bool can_hold(struct debug *d, const struct dw_type *t, enum question q, unsigned depth)
{
	unsigned shift = NOTE_BITS * (unsigned)q;
	bool yes = false;

	if (!t || depth > HOLD_DEPTH)
		return false;
	if (*t->note & (uint32_t)NOTE_KNOWN << shift)
		return *t->note & (uint32_t)NOTE_HOLDS << shift;
	if (*t->note & (uint32_t)NOTE_BUSY << shift)
		return false;
	*t->note |= (uint32_t)NOTE_BUSY << shift;
	switch (t->class) {
	case DC_STRUCT:
	case DC_UNION:
		if (await_starts(t->full_name, "core::marker::PhantomData"))
			break;
		if (await_is_leaf(t)) {
			yes = q == ANY_FUTURE;
			break;
		}
		if (dw_is_coroutine(t) || shape_is_dyn_future(t) || shape_is_unordered(t) ||
		    shape_is_shared(t)) {
			yes = true;
			break;
		}
		if (shape_is_vec(t)) {
			yes = can_hold(d, dw_param_type(d, t, "T"), q, depth + 1);
			break;
		}
		if (shape_is_slice(t)) {
			const struct dw_type *p = dw_member_type(d, dw_find_member(t, "data_ptr"));

			yes = p && can_hold(d, dw_type_of(d, p->target_ref), q, depth + 1);
			break;
		}
		for (size_t i = 0; !yes && i < t->n_members; i++)
			yes = can_hold(d, dw_member_type(d, &t->members[i]), q, depth + 1);
		for (size_t i = 0; !yes && i < t->n_variants; i++)
			yes = can_hold(d, dw_member_type(d, &t->variants[i].member), q, depth + 1);
		break;
	case DC_ARRAY:
		yes = can_hold(d, dw_type_of(d, t->target_ref), q, depth + 1);
		break;
	case DC_POINTER:
		yes = is_followed(t) && can_hold(d, dw_type_of(d, t->target_ref), q, depth + 1);
		break;
	default:
		break;
	}
	*t->note &= ~((uint32_t)NOTE_BUSY << shift);
	*t->note |= (uint32_t)(NOTE_KNOWN | (yes ? NOTE_HOLDS : 0)) << shift;
	return yes;
}

bool await_can_hold(struct debug *d, const struct dw_type *t)
{
	return can_hold(d, t, ANY_FUTURE, 0);
}

bool await_can_work(struct debug *d, const struct dw_type *t)
{
	return can_hold(d, t, NO_LEAF, 0);
}

/* ---- a dyn Future, wherever a poll may come to ---- */

struct box_search {
	struct debug *d;
	struct map seen; /* (ref of a type, 0) */
	unsigned n_left; /* types */
};

static bool leads_to_box(struct box_search *s, const struct dw_type *t, unsigned depth);

/* A poll of it polls what it awaits, and nothing else that it holds. */
static bool awaits_box(struct box_search *s, const struct dw_type *t, unsigned depth)
{
	bool yes = false;

	for (size_t i = 0; !yes && i < t->n_variants; i++) {
		const struct dw_type *state = dw_member_type(s->d, &t->variants[i].member);
		const struct dw_member *awaitee = state ? dw_find_member(state, "__awaitee") : NULL;

		yes = awaitee && leads_to_box(s, dw_member_type(s->d, awaitee), depth + 1);
	}
	return yes;
}

/* A container that hides what it points to says it by its parameters. Any trait object may be
 * something that polls. */
static bool is_box_of_any(const struct dw_type *t)
{
	return t->declaration || (dw_find_member(t, "pointer") && dw_find_member(t, "vtable")) ||
	       strstr(t->full_name, "dyn core::future::future::Future");
}

static bool leads_to_box(struct box_search *s, const struct dw_type *t, unsigned depth)
{
	bool yes = false;

	if (!t)
		return false;
	if (depth > BOX_DEPTH)
		return true;
	if (t->class == DC_POINTER || t->class == DC_ARRAY)
		return leads_to_box(s, dw_type_of(s->d, t->target_ref), depth + 1);
	if ((t->class != DC_STRUCT && t->class != DC_UNION) || map_get(&s->seen, t->ref, 0) ||
	    await_starts(t->full_name, "core::marker::PhantomData") || await_is_leaf(t))
		return false;
	if (!s->n_left-- || map_put(&s->seen, t->ref, 0, s) < 0)
		return true;
	if (dw_is_coroutine(t))
		return awaits_box(s, t, depth);
	if (is_box_of_any(t))
		return true;
	for (size_t i = 0; !yes && i < t->n_members; i++)
		yes = leads_to_box(s, dw_member_type(s->d, &t->members[i]), depth + 1);
	for (size_t i = 0; !yes && i < t->n_variants; i++)
		yes = leads_to_box(s, dw_member_type(s->d, &t->variants[i].member), depth + 1);
	return yes;
}

bool await_may_poll_box(struct debug *d, const struct dw_type *t)
{
	struct box_search s = {.d = d, .n_left = BOX_TYPES};
	bool yes;

	if (*t->note & NOTE_BOX_KNOWN)
		return *t->note & NOTE_BOX;
	yes = leads_to_box(&s, t, 0);
	map_done(&s.seen);
	*t->note |= (uint32_t)NOTE_BOX_KNOWN | (yes ? NOTE_BOX : 0);
	return yes;
}

const struct dw_variant *await_variant(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	const struct dw_variant *fallback = NULL;
	uint64_t v;

	if (!t->discr_size)
		return t->n_variants == 1 ? &t->variants[0] : NULL;
	if (!mem_uint(w->ctx->mem, addr + t->discr_offset, t->discr_size, &v))
		return NULL;
	for (size_t i = 0; i < t->n_variants; i++) {
		if (t->variants[i].is_default)
			fallback = &t->variants[i];
		else if (t->variants[i].value == v)
			return &t->variants[i];
	}
	return fallback;
}

static bool find(struct walk *w, const struct dw_type *t, uint64_t addr, const char *name,
		 const char *prefix, unsigned depth, const struct dw_type **ret_type,
		 uint64_t *ret_addr)
{
	const struct dw_variant *v;

	if (!t || depth > FIND_DEPTH || (t->class != DC_STRUCT && t->class != DC_UNION) ||
	    !await_steps(w, 1 + t->n_members))
		return false;
	for (size_t i = 0; i < t->n_members; i++) {
		const struct dw_type *m = dw_member_type(w->dwarf, &t->members[i]);

		if (!m || !(name ? !strcmp(t->members[i].name, name)
				 : await_starts(m->full_name, prefix)))
			continue;
		*ret_type = m;
		*ret_addr = addr + t->members[i].offset;
		return true;
	}
	for (size_t i = 0; i < t->n_members; i++)
		if (find(w, dw_member_type(w->dwarf, &t->members[i]), addr + t->members[i].offset,
			 name, prefix, depth + 1, ret_type, ret_addr))
			return true;
	if (!t->has_variants || !(v = await_variant(w, t, addr)))
		return false;
	return find(w, dw_member_type(w->dwarf, &v->member), addr + v->member.offset, name, prefix,
		    depth + 1, ret_type, ret_addr);
}

bool await_find_member(struct walk *w, const struct dw_type *t, uint64_t addr, const char *name,
		       const struct dw_type **ret_type, uint64_t *ret_addr)
{
	return find(w, t, addr, name, NULL, 0, ret_type, ret_addr);
}

bool await_find_type(struct walk *w, const struct dw_type *t, uint64_t addr, const char *prefix,
		     const struct dw_type **ret_type, uint64_t *ret_addr)
{
	return find(w, t, addr, NULL, prefix, 0, ret_type, ret_addr);
}

const struct dw_type *await_pointee(struct walk *w, const struct dw_type *t)
{
	for (unsigned i = 0; t && i < 8; i++) {
		const struct dw_type *next = NULL;

		if (t->class == DC_POINTER)
			return dw_type_of(w->dwarf, t->target_ref);
		for (size_t k = 0; !next && k < t->n_members; k++)
			next = dw_member_type(w->dwarf, &t->members[k]);
		for (size_t k = 0; !next && k < t->n_variants; k++) {
			const struct dw_type *v = dw_member_type(w->dwarf, &t->variants[k].member);

			next = v && v->n_members ? dw_member_type(w->dwarf, &v->members[0]) : NULL;
		}
		t = next;
	}
	return NULL;
}
