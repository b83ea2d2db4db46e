/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cells. Tokio's is a structure of known names in the debug information, with the future in the
 * variant Running of its stage. async-task keeps a pointer in the vtable to a table of its own:
 * the layout of the allocation and three offsets in it, of which the second and third are equal
 * (future and output share their place).
 *
 * Source: tokio/src/runtime/task/core.rs, 1.23 to 1.54; async-task/src/raw.rs, 4.0 to 4.7.
 */
#include "future/cell.h"

#include "binary/dwarf/polls.h"
#include "future/await.h"
#include "future/future_path.h"

#include <string.h>

/* Follows the members on the way to the stage, which CachePadded and UnsafeCell wrap. */
static const struct dw_type *stage_of(struct debug *d, const struct dw_type *t, uint64_t *offset)
{
	for (unsigned depth = 0; t && depth < 12; depth++) {
		const struct dw_type *next = NULL;

		if (await_starts(t->full_name, "tokio::runtime::task::core::Stage<"))
			return t;
		for (size_t i = 0; !next && i < t->n_members; i++) {
			const char *name = t->members[i].name;

			if (strcmp(name, "core") != 0 && strcmp(name, "stage") != 0 &&
			    strcmp(name, "__0") != 0 && strcmp(name, "value") != 0)
				continue;
			next = dw_member_type(d, &t->members[i]);
			*offset += t->members[i].offset;
		}
		t = next;
	}
	return NULL;
}

const struct dw_type *cell_stage(struct debug *d, const struct scan_kind *k,
				 const struct debug_kind *types, uint64_t *ret_offset)
{
	uint64_t near[4] = {k->slots[TF_POLL].function, k->slots[TF_FREE].function,
			    k->slots[TF_SHUTDOWN].function, k->slots[TF_SCHEDULE].function};
	const struct dw_type *cell;

	*ret_offset = 0;
	if (!types->future || !types->scheduler)
		return NULL;
	uint64_t params[2] = {types->future->ref, types->scheduler->ref};
	cell = debug_cell(d, near, 4, params, 2);
	return cell ? stage_of(d, cell, ret_offset) : NULL;
}

bool cell_tokio(struct debug *d, const struct scan_kind *k, struct future_cell *ret)
{
	const struct dw_type *stage, *running;
	struct debug_kind types;
	uint64_t offset;

	debug_kind_read(d, k, &types);
	stage = cell_stage(d, k, &types, &offset);
	for (size_t i = 0; stage && i < stage->n_variants; i++) {
		const struct dw_variant *v = &stage->variants[i];

		if (strcmp(v->member.name, "Running") != 0)
			continue;
		running = dw_member_type(d, &v->member);
		if (!running || !running->n_members)
			return false;
		ret->future = dw_member_type(d, &running->members[0]);
		ret->offset = offset + v->member.offset + running->members[0].offset;
		ret->size = k->trailer_offset == UINT16_MAX ? 0 : k->trailer_offset;
		return ret->future != NULL;
	}
	return false;
}

/* ---- in a library's object ---- */

static const struct dw_variant *variant(const struct dw_type *t, const char *name)
{
	for (size_t i = 0; i < t->n_variants; i++)
		if (!strcmp(t->variants[i].member.name, name))
			return &t->variants[i];
	return NULL;
}

/* The Option of a future that was written by hand: by the value that means None. */
static bool set_written(const struct dw_type *t, struct place_held *ret)
{
	const struct dw_variant *none = variant(t, "None");
	uint32_t size = t->discr_size;

	if (!none || none->is_default || (size != 1 && size != 2 && size != 4 && size != 8) ||
	    t->discr_offset > UINT32_MAX)
		return false;
	ret->written = true;
	ret->none = none->value;
	ret->state_offset = (uint32_t)t->discr_offset;
	ret->state_size = (uint8_t)size;
	ret->last_state = 1;
	return true;
}

/* The future in an Option, where it begins, and how the Option says that it is there: by a tag of its
 * own, or None is a value of a coroutine's state. NULL: otherwise. */
static const struct dw_type *in_option(struct debug *d, const struct dw_type *t,
				       struct place_held *ret)
{
	const struct dw_variant *v;
	const struct dw_type *some, *inner;
	uint64_t offset;

	if (!t || !t->has_variants || !await_starts(t->full_name, "core::option::Option<"))
		return NULL;
	v = variant(t, "Some");
	some = v ? dw_member_type(d, &v->member) : NULL;
	inner = some && some->n_members == 1 ? dw_member_type(d, &some->members[0]) : NULL;
	if (!inner)
		return NULL;
	offset = v->member.offset + some->members[0].offset;
	ret->state_offset = (uint32_t)inner->discr_offset;
	ret->state_size = (uint8_t)inner->discr_size;
	if (!dw_is_coroutine(inner)) {
		ret->future_offset = (uint16_t)offset;
		return offset <= UINT16_MAX && set_written(t, ret) ? inner : NULL;
	}
	if (v->is_default)
		return !offset && inner->discr_offset == t->discr_offset &&
				       inner->discr_size == t->discr_size && inner->size == t->size
			       ? inner
			       : NULL;
	if (t->discr_offset || !t->discr_size || t->discr_size > 8 || v->value > UINT8_MAX ||
	    offset > UINT16_MAX)
		return NULL;
	ret->tag_size = (uint8_t)t->discr_size;
	ret->tag_some = (uint8_t)v->value;
	ret->future_offset = (uint16_t)offset;
	return inner;
}

static uint64_t last_state(const struct dw_type *coroutine)
{
	uint64_t last = 0;

	for (size_t i = 0; i < coroutine->n_variants; i++) {
		const struct dw_variant *v = &coroutine->variants[i];

		if (!v->is_default && v->value > last)
			last = v->value;
	}
	return last;
}

bool cell_held(struct debug *d, uint64_t method, const char *const *members, size_t n_members,
	       struct future_cell *ret_cell, struct place_held *ret_held)
{
	enum dw_returns returns = DW_RETURNS_UNKNOWN;
	struct future_path w = {.type = debug_method_object(d, method, &returns),
				.through = POINTERS_OWNED};
	struct place_held held = {0};
	const struct dw_type *future;
	uint64_t last;

	for (size_t i = 0; i < n_members && w.type; i++) {
		const struct dw_member *m = dw_find_member(w.type, members[i]);

		if (!m)
			return false;
		w.offset += m->offset;
		w.type = dw_member_type(d, m);
	}
	if (!w.type || !future_path_single(d, NULL, &w) || w.type->class != DC_POINTER)
		return false;
	future = in_option(d, dw_type_of(d, w.type->target_ref), &held);
	last = !future ? 0 : held.written ? held.last_state : last_state(future);
	if (!last || last > UINT16_MAX || w.offset > INT32_MAX ||
	    (!held.written && future->discr_offset > UINT32_MAX))
		return false;
	*ret_cell = (struct future_cell){.future = future, .size = future->size};
	held.pointer_offset = (uint32_t)w.offset;
	held.last_state = (uint16_t)last;
	held.memory = returns == DW_RETURNS_MEMORY;
	*ret_held = held;
	return true;
}

/* A power of two that the size is a multiple of. */
static bool is_layout(uint64_t size, uint64_t align)
{
	return align && !(align & (align - 1)) && size && !(size % align);
}

/* layout_info: the last word of the vtable that points at { Layout { size, align } in either order,
 * offset of S, of the future, of the output }. */
static bool async_layout(uint64_t vtable,
			 int (*read)(void *ctx, uint64_t addr, void *out, size_t len), void *ctx,
			 uint64_t v[5])
{
	for (unsigned word = 5; word <= 7; word++) {
		uint64_t layout;

		if (read(ctx, vtable + 8 * word, &layout, sizeof(layout)) < 0 ||
		    read(ctx, layout, v, 5 * sizeof(*v)) < 0)
			continue;
		uint64_t size = v[0] > v[1] ? v[0] : v[1], align = v[0] > v[1] ? v[1] : v[0];
		if (is_layout(size, align) && v[2] <= v[3] && v[3] <= size && v[3] == v[4] &&
		    !(v[3] % 8) && v[3])
			return true;
	}
	return false;
}

bool cell_async_offset(uint64_t vtable,
		       int (*read)(void *ctx, uint64_t addr, void *out, size_t len), void *ctx,
		       struct future_cell *ret)
{
	uint64_t v[5];

	if (!async_layout(vtable, read, ctx, v))
		return false;
	ret->offset = v[3];
	ret->size = v[0] > v[1] ? v[0] : v[1];
	return true;
}

bool cell_async_schedule(uint64_t vtable,
			 int (*read)(void *ctx, uint64_t addr, void *out, size_t len), void *ctx,
			 uint64_t *ret_offset)
{
	uint64_t v[5];

	if (!async_layout(vtable, read, ctx, v))
		return false;
	*ret_offset = v[2];
	return true;
}

bool cell_async(struct debug *d, const struct scan_kind *k, uint64_t vtable,
		int (*read)(void *ctx, uint64_t addr, void *out, size_t len), void *ctx,
		struct future_cell *ret)
{
	struct debug_kind types;

	debug_kind_read(d, k, &types);
	ret->future = types.future;
	return ret->future && cell_async_offset(vtable, read, ctx, ret);
}
