/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A type is searched once per kind of path, and the answer is kept with it. Types may lead to
 * themselves through a pointer; a type that is already being searched counts as without a path, so
 * depths stay small.
 */
#include "future/future_path.h"

#include "future/await.h"
#include "future/wrapper.h"

#include <errno.h>

enum {
	MAX_DEPTH = 32, /* wrappers in wrappers, between two ends */
	REACH_DEPTH = 64,
	POINTER_BYTES = 8,
	/* dw_type.note: of the bits that type_class.c leaves free, three per kind of path */
	NOTE_KNOWN = 1 << 8,
	NOTE_REACHES = 1 << 9,
	NOTE_BUSY = 1 << 10,
	NOTE_BITS = 3,
	MAX_TRIED = 1 << 16, /* values, in a search for all ways */
};

uint32_t future_path_hooked_parent(const struct map *hooked, const struct dw_type *t,
				   uint32_t below)
{
	uintptr_t kind = hooked ? (uintptr_t)map_get(hooked, dw_type_key(t), 0) : 0;

	return kind ? (uint32_t)kind : below;
}

bool future_path_is_within(const struct dw_type *t, const struct dw_member *m,
			   const struct dw_type *inner)
{
	uint64_t size = inner && inner->class == DC_POINTER ? POINTER_BYTES
			: inner				    ? inner->size
							    : 0;

	return inner && !inner->declaration && m->offset <= t->size && size <= t->size - m->offset;
}

/* Raw pointers may be dangling. */
static bool is_followed(const struct dw_type *t, enum pointer_policy through)
{
	if (through >= POINTERS_OWNED && await_starts(t->name, "alloc::boxed::Box<"))
		return true;
	return through == POINTERS_BORROWED && await_starts(t->name, "&mut ");
}

static enum pointer_policy within(const struct dw_type *t, enum pointer_policy through)
{
	return through == POINTERS_BORROWED && !wrapper_polls_by_reference(t) ? POINTERS_OWNED
									      : through;
}

/* What pointers may be followed in a member: the content of a ManuallyDrop may have been dropped
 * while its bytes remain, and what it owned is gone then. */
static enum pointer_policy into(const struct dw_type *t, const struct dw_type *inner,
				enum pointer_policy through)
{
	return inner && await_starts(inner->full_name, "core::mem::manually_drop::ManuallyDrop<") &&
			       !wrapper_holds_until_ready(t)
		       ? POINTERS_NONE
		       : through;
}

/* Of a struct its members, of one with a single variant that, too. */
static size_t n_ways(const struct dw_type *t)
{
	return t->n_members + t->n_variants;
}

static const struct dw_member *one_way(const struct dw_type *t, size_t i)
{
	return i < t->n_members ? &t->members[i] : &t->variants[i - t->n_members].member;
}

static bool reaches(struct debug *d, const struct dw_type *t, enum pointer_policy through,
		    unsigned depth)
{
	unsigned shift = NOTE_BITS * (unsigned)through;
	bool yes = false;

	if (!t || depth > REACH_DEPTH)
		return false;
	if (t->class == DC_POINTER)
		return is_followed(t, through) &&
		       reaches(d, dw_type_of(d, t->target_ref), through, depth + 1);
	if (t->class != DC_STRUCT || t->declaration)
		return false;
	if (dw_is_coroutine(t))
		return true;
	if (*t->note & (uint32_t)NOTE_KNOWN << shift)
		return *t->note & (uint32_t)NOTE_REACHES << shift;
	if (*t->note & (uint32_t)NOTE_BUSY << shift ||
	    await_starts(t->full_name, "core::marker::PhantomData"))
		return false;
	*t->note |= (uint32_t)NOTE_BUSY << shift;
	through = within(t, through);
	for (size_t i = 0; !yes && i < n_ways(t); i++) {
		const struct dw_type *inner = dw_member_type(d, one_way(t, i));

		yes = reaches(d, inner, into(t, inner, through), depth + 1);
	}
	*t->note &= ~((uint32_t)NOTE_BUSY << shift);
	*t->note |= (uint32_t)(NOTE_KNOWN | (yes ? NOTE_REACHES : 0)) << shift;
	return yes;
}

bool future_path_exists(struct debug *d, const struct dw_type *t, enum pointer_policy through)
{
	return reaches(d, t, through, 0);
}

static bool is_end(const struct dw_type *t)
{
	return t->class == DC_POINTER || (t->has_variants && t->discr_size);
}

/* Enters the type at the current end of the path. */
static void enter(const struct map *hooked, struct future_path *w)
{
	if (w->type->class == DC_POINTER)
		return;
	w->hooked_parent = future_path_hooked_parent(hooked, w->type, w->hooked_parent);
	w->through = within(w->type, w->through);
}

/* Goes on into a member. */
static void step_into(struct debug *d, const struct dw_member *way, struct future_path *w)
{
	const struct dw_type *t = w->type, *inner = dw_member_type(d, way);

	if (!wrapper_holds_member_until_ready(d, t, way))
		w->proof = READY_UNPROVEN;
	w->offset += way->offset;
	w->type = inner;
	w->through = into(t, inner, w->through);
}

/* Takes note if there is anything but one of a type's members that may be polled, too. */
static void note_others(struct debug *d, const struct dw_type *t, struct future_path *w,
			size_t which)
{
	for (size_t i = 0; i < n_ways(t); i++) {
		const struct dw_type *inner = i == which ? NULL : dw_member_type(d, one_way(t, i));

		if (!await_can_work(d, inner))
			continue;
		w->concurrent =
			w->concurrent || !future_path_exists(d, inner, into(t, inner, w->through));
		w->beside_box = w->beside_box || await_may_poll_box(d, inner);
	}
}

bool future_path_single(struct debug *d, const struct map *hooked, struct future_path *w)
{
	for (unsigned depth = 0; depth < MAX_DEPTH; depth++) {
		const struct dw_member *way = NULL;
		const struct dw_type *t = w->type, *next = NULL;
		size_t which = 0;

		if (!future_path_exists(d, t, w->through))
			return false;
		enter(hooked, w);
		if (is_end(t))
			return true;
		for (size_t i = 0; i < n_ways(t); i++) {
			const struct dw_type *inner = dw_member_type(d, one_way(t, i));

			if (!future_path_exists(d, inner, into(t, inner, w->through)))
				continue;
			if (way)
				return false; /* branches */
			way = one_way(t, i);
			next = inner;
			which = i;
		}
		if (!way || !future_path_is_within(t, way, next))
			return false;
		note_others(d, t, w, which);
		step_into(d, way, w);
	}
	return false;
}

static int find_all(struct debug *d, const struct map *hooked, struct future_path w, unsigned depth,
		    struct future_path *ret, size_t *n, unsigned *tried)
{
	const struct dw_type *t = w.type;

	if (++*tried > MAX_TRIED || debug_stopped(d))
		return -E2BIG;
	if (depth > MAX_DEPTH || !future_path_exists(d, t, w.through))
		return 0;
	enter(hooked, &w);
	if (is_end(t)) {
		if (*n == FUTURE_PATHS_MAX)
			return -E2BIG;
		ret[(*n)++] = w;
		return 0;
	}
	for (size_t i = 0; i < n_ways(t); i++) {
		struct future_path inner = w;

		note_others(d, t, &inner, i);
		step_into(d, one_way(t, i), &inner);
		if (future_path_is_within(t, one_way(t, i), inner.type))
			TRY(find_all(d, hooked, inner, depth + 1, ret, n, tried));
	}
	return 0;
}

int future_path_find_all(struct debug *d, const struct map *hooked, const struct future_path *from,
			 struct future_path *ret, size_t *ret_n)
{
	unsigned tried = 0;

	*ret_n = 0;
	return find_all(d, hooked, *from, 0, ret, ret_n, &tried);
}
