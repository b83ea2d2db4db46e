/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Both kinds of poll functions take a Pin<&mut Self> first. rustc names a coroutine's body by what
 * it was written as, "{async_fn#0}"; its Self is the coroutine's type, "{async_fn_env#0}".
 *
 * A function that polls through a borrowed pointer (that of a Pin<Box<X>>, say) may contain the
 * body of X. The block_on of Tokio's current-thread runtime polls in a closure, by
 * Context::enter(); the closure has borrowed a Pin<&mut X>, or, of a large future, a Pin<&mut
 * Pin<Box<X>>>.
 *
 * Source: tokio/src/runtime/scheduler/current_thread/mod.rs, CoreGuard::block_on(), 1.23 to 1.54;
 * tokio/src/runtime/runtime.rs, Runtime::block_on().
 */
#include "binary/dwarf/polls.h"

#include "binary/dwarf/debug_data.h"

#include <dwarf.h>
#include <string.h>

static bool starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool is_body(const char *name)
{
	return starts(name, "{async_fn#") || starts(name, "{async_block#") ||
	       starts(name, "{async_closure#");
}

/* What a Pin<&mut X> points at. */
static const struct dw_type *pinned(struct debug *d, const struct dw_type *t)
{
	if (t && starts(t->full_name, "core::pin::Pin<") && t->n_members)
		t = dw_member_type(d, &t->members[0]);
	return t && t->class == DC_POINTER ? dw_type_of(d, t->target_ref) : NULL;
}

/* The type that a function returns: of itself, its specification or abstract origin. */
static const struct dw_type *returned(struct debug *d, uint64_t ref)
{
	struct dwarf_die at;
	uint64_t type = 0, next = ref;

	if (!debug_units(d))
		return NULL;
	for (unsigned i = 0; i < 4 && !type && units_die(d->units, next, &at); i++) {
		type = die_ref(&at, DW_AT_type);
		next = die_ref(&at, DW_AT_specification);
		if (!next)
			next = die_ref(&at, DW_AT_abstract_origin);
	}
	return type ? dw_type_of(d, type) : NULL;
}

/* ---- in which registers ---- */

/* How rustc passes a type on: as one value, as two, or otherwise. */
enum passed { PASSED_NOTHING, PASSED_ONE, PASSED_TWO, PASSED_OTHERWISE };

#define PASSED_DEPTH 32u

static enum passed passed_as(struct debug *d, const struct dw_type *t, unsigned depth);

/* What the members are together. */
static enum passed members_passed(struct debug *d, const struct dw_type *t, unsigned depth)
{
	enum passed all = PASSED_NOTHING;

	for (size_t i = 0; i < t->n_members; i++) {
		enum passed one = passed_as(d, dw_member_type(d, &t->members[i]), depth + 1);

		if (one == PASSED_NOTHING)
			continue;
		all = all == PASSED_NOTHING		       ? one
		      : all == PASSED_ONE && one == PASSED_ONE ? PASSED_TWO
							       : PASSED_OTHERWISE;
	}
	return all;
}

/* Where the only value of a variant lies, and how large it is. */
static bool only_value(struct debug *d, const struct dw_type *t, uint64_t *offset,
		       uint64_t *ret_size, unsigned depth)
{
	if (!t || depth > PASSED_DEPTH)
		return false;
	for (size_t i = 0; i < t->n_members; i++) {
		const struct dw_type *member = dw_member_type(d, &t->members[i]);

		if (passed_as(d, member, depth + 1) == PASSED_NOTHING)
			continue;
		*offset += t->members[i].offset;
		*ret_size = member->size;
		return member->class != DC_STRUCT || member->has_variants ||
		       only_value(d, member, offset, ret_size, depth + 1);
	}
	return false;
}

/* An enum with a tag is two values if each variant has one, all of them at one place. One without, in which values
 * of one variant mean the others, is passed on as that variant if the others are empty. */
static enum passed variants_passed(struct debug *d, const struct dw_type *t, unsigned depth)
{
	enum passed largest = PASSED_NOTHING;
	uint64_t first = 0, first_size = 0;
	size_t n = 0;
	bool tagged = true, same = true;

	for (size_t i = 0; i < t->n_variants; i++) {
		const struct dw_variant *v = &t->variants[i];
		const struct dw_type *held = dw_member_type(d, &v->member);
		enum passed one = passed_as(d, held, depth + 1);
		uint64_t at = v->member.offset, size = 0;

		tagged = tagged && !v->is_default;
		if (one == PASSED_NOTHING)
			continue;
		same = same && one == PASSED_ONE && only_value(d, held, &at, &size, depth + 1) &&
		       (!n || (at == first && size == first_size));
		first = at;
		first_size = size;
		largest = one;
		n++;
	}
	if (!tagged)
		return n == 1 ? largest : PASSED_OTHERWISE;
	if (!n)
		return t->discr_size ? PASSED_ONE : PASSED_NOTHING;
	return same && t->discr_size ? PASSED_TWO : PASSED_OTHERWISE;
}

static enum passed passed_as(struct debug *d, const struct dw_type *t, unsigned depth)
{
	if (!t || depth > PASSED_DEPTH || t->declaration)
		return PASSED_OTHERWISE;
	if (!t->size)
		return PASSED_NOTHING;
	switch (t->class) {
	case DC_POINTER:
		return t->size > 8 ? PASSED_TWO : PASSED_ONE;
	case DC_BASE:
	case DC_ENUM:
		return t->size > 8 ? PASSED_OTHERWISE : PASSED_ONE;
	case DC_STRUCT:
		return t->has_variants ? variants_passed(d, t, depth) : members_passed(d, t, depth);
	default:
		return PASSED_OTHERWISE;
	}
}

struct entry {
	uint64_t addr;
	unsigned reg; /* of the debug information */
};

/* The whole value in one register, where the function begins. */
static bool in_register(void *ctx, const uint8_t *p, size_t len, uint64_t low, uint64_t high)
{
	struct entry *e = ctx;

	if (len != 1 || *p < DW_OP_reg0 || *p > DW_OP_reg31 || e->addr < low || e->addr >= high)
		return false;
	e->reg = *p - DW_OP_reg0;
	return true;
}

/* Where the first of a function's own arguments is when it begins, in terms of x86-64; on AArch64 the memory for the
 * result is no argument, and these registers have others. */
static enum dw_returns returns_by_location(struct debug *d, const struct dw_function *f)
{
	enum { RSI = 4, RDI = 5 };
	struct entry e = {.addr = f->low};
	struct dwarf_die die, child;

	if (!debug_units(d) || !units_die(d->units, f->ref, &die))
		return DW_RETURNS_UNKNOWN;
	for (bool ok = die_child(&die, &child); ok; ok = die_sibling(&child, &child)) {
		if (die_tag(&child) != DW_TAG_formal_parameter)
			continue;
		if (!die_has(&child, DW_AT_location) ||
		    !die_locations(&child, DW_AT_location, in_register, &e))
			return DW_RETURNS_UNKNOWN;
		return e.reg == RDI   ? DW_RETURNS_REGISTERS
		       : e.reg == RSI ? DW_RETURNS_MEMORY
				      : DW_RETURNS_UNKNOWN;
	}
	return DW_RETURNS_UNKNOWN;
}

/*
 * One or two values are returned in registers, and what is larger than these never is. What is between, some
 * versions of rustc (since 1.49) return in registers and others (1.95) in memory.
 */
static enum dw_returns returns_of(struct debug *d, const struct dw_function *f,
				  const struct dw_type *result)
{
	enum { REGISTER_BYTES = 8, RESULT_BYTES = 16 };
	enum dw_returns by_location;

	if (result->size <= REGISTER_BYTES)
		return DW_RETURNS_REGISTERS;
	if (result->size > RESULT_BYTES)
		return DW_RETURNS_MEMORY;
	by_location = returns_by_location(d, f);
	if (by_location != DW_RETURNS_UNKNOWN)
		return by_location;
	return passed_as(d, result, 0) == PASSED_TWO ? DW_RETURNS_REGISTERS : DW_RETURNS_UNKNOWN;
}

/* ---- poll functions ---- */

/* The coroutine to which an argument of this type, a pointer, leads by others. */
static void read_borrowed(struct debug *d, const struct dw_type *argument, struct dw_poll *ret)
{
	const struct dw_type *t = argument;

	for (ret->deref_count = 0; t && ret->deref_count <= DW_POLL_MAX_LENT; ret->deref_count++) {
		t = pinned(d, t);
		if (!t || !dw_is_coroutine(t) || !t->discr_size)
			continue;
		/* A coroutine that is the argument itself is that of an ordinary body. */
		ret->borrowed = ret->deref_count ? t : NULL;
		return;
	}
}

/* What a runtime's function is given to call. */
static bool is_borrowed(struct debug *d, const struct dw_function *f, struct dw_poll *ret)
{
	if (!strstr(f->full_name, "::current_thread::"))
		return false;
	for (size_t i = 0; i < f->n_params; i++) {
		const struct dw_type *t = dw_type_of(d, f->params[i].type_ref);

		if (!t || !starts(t->name, "{closure_env#") ||
		    !strstr(t->full_name, "::block_on::"))
			continue;
		for (size_t k = 0; k < t->n_members && !ret->borrowed; k++)
			read_borrowed(d, dw_member_type(d, &t->members[k]), ret);
	}
	return ret->borrowed != NULL;
}

const struct dw_type *debug_method_object(struct debug *d, uint64_t addr,
					  enum dw_returns *ret_returns)
{
	const struct dw_type *self, *result;
	struct dw_function f;

	if (!debug_function(d, addr, &f) || !f.self_ref)
		return NULL;
	self = dw_type_of(d, f.self_ref);
	result = returned(d, f.ref);
	if (!self || self->class != DC_POINTER || !result)
		return NULL;
	*ret_returns = returns_of(d, &f, result);
	if (*ret_returns == DW_RETURNS_UNKNOWN)
		return NULL;
	return dw_type_of(d, self->target_ref);
}

bool debug_poll(struct debug *d, uint64_t addr, struct dw_poll *ret)
{
	struct dw_function f;

	*ret = (struct dw_poll){0};
	if (!debug_function(d, addr, &f) || !f.self_ref)
		return false;
	if (starts(f.name, "enter<"))
		return is_borrowed(d, &f, ret);
	ret->generated = is_body(f.name);
	if (!ret->generated && strcmp(f.name, "poll") != 0 && !starts(f.name, "poll<"))
		return false;
	ret->future = pinned(d, dw_type_of(d, f.self_ref));
	ret->full_name = f.full_name;
	ret->file = f.file;
	ret->line = f.line;
	if (!ret->future || ret->future->declaration)
		return false;
	if (ret->generated)
		return ret->future->has_variants && ret->future->discr_size;
	read_borrowed(d, dw_type_of(d, f.self_ref), ret);
	ret->result = returned(d, f.ref);
	if (!ret->result || !starts(ret->result->full_name, "core::task::poll::Poll<"))
		return false;
	ret->returns = returns_of(d, &f, ret->result);
	return true;
}
