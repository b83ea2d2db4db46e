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

const struct dw_type *debug_method_object(struct debug *d, uint64_t addr)
{
	enum { RESULT_BYTES = 16 };
	const struct dw_type *self, *result;
	struct dw_function f;

	if (!debug_function(d, addr, &f) || !f.self_ref)
		return NULL;
	self = dw_type_of(d, f.self_ref);
	result = returned(d, f.ref);
	if (!self || self->class != DC_POINTER || !result || result->size > RESULT_BYTES)
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
	return ret->result && starts(ret->result->full_name, "core::task::poll::Poll<");
}
