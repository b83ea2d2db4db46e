/*
 * Both sorts of poll functions take a Pin<&mut Self> first. A coroutine's body is called after what
 * it was written as, "{async_fn#0}", and its Self is the coroutine's type, "{async_fn_env#0}".
 */
#include "binary/polls.h"

#include "binary/debug_data.h"

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
	if (t && starts(t->full, "core::pin::Pin<") && t->n_members)
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

bool debug_poll(struct debug *d, uint64_t addr, struct dw_poll *ret)
{
	struct dw_function f;

	*ret = (struct dw_poll){0};
	if (!debug_function(d, addr, &f) || !f.self_ref)
		return false;
	ret->generated = is_body(f.name);
	if (!ret->generated && strcmp(f.name, "poll") != 0 && !starts(f.name, "poll<"))
		return false;
	ret->future = pinned(d, dw_type_of(d, f.self_ref));
	ret->full = f.full;
	ret->file = f.file;
	ret->line = f.line;
	if (!ret->future || ret->future->declaration)
		return false;
	if (ret->generated)
		return ret->future->has_variants && ret->future->discr_size;
	ret->result = returned(d, f.ref);
	return ret->result && starts(ret->result->full, "core::task::poll::Poll<");
}
