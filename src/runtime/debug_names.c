/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbols name functions; debug information names types and places. A kind's poll function has the
 * future's type among its template parameters, and the line table knows which function was inlined
 * where: so names and spawn sites become exact.
 */
#include "runtime/debug_names.h"

#include "base/clock.h"
#include "binary/elf/elf_image.h"
#include "binary/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLACES = 32, MAX_WRAPPERS = 16 };

void debug_kind_read(struct debug *d, const struct scan_kind *k, struct debug_kind *ret)
{
	struct dw_function f;

	*ret = (struct debug_kind){0};
	if (!debug_function(d, k->slots[TF_POLL].function, &f))
		return;
	for (size_t i = 0; i < f.n_params; i++) {
		const char *name = f.params[i].name;

		/* async-task's functions have T too, the output: F comes first there */
		if (!strcmp(name, "F") || (!strcmp(name, "T") && !ret->future))
			ret->future = dw_type_of(d, f.params[i].type_ref);
		else if (!strcmp(name, "S"))
			ret->scheduler = dw_type_of(d, f.params[i].type_ref);
	}
}

static bool starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The type of the future that a wrapper holds, by the member that holds it; NULL: no wrapper. */
static const struct dw_type *unwrap(struct debug *d, const struct dw_type *t)
{
	static const struct {
		const char *type, *member;
	} wrappers[] = {
		{"core::pin::Pin<", "pointer"},
		{"tokio::runtime::blocking::task::BlockingTask<", "func"},
		{"async_std::task::builder::SupportTaskLocals<", "future"},
		{"async_executor::AsyncCallOnDrop<", "future"},
		{"tracing::instrument::Instrumented<", "inner"},
		{"tracing::instrument::WithDispatch<", "inner"},
		{"core::mem::manually_drop::ManuallyDrop<", "value"},
		{"core::mem::maybe_dangling::MaybeDangling<", "__0"},
		{"core::future::from_generator::GenFuture<", "__0"},
	};
	const struct dw_type *p;

	if (t->class == DC_POINTER)
		return starts(t->name, "alloc::boxed::Box<") ? dw_type_of(d, t->target_ref) : NULL;
	if (starts(t->full_name, "core::option::Option<") && t->has_variants) {
		for (size_t i = 0; i < t->n_variants; i++) {
			if (strcmp(t->variants[i].member.name, "Some") != 0)
				continue;
			p = dw_member_type(d, &t->variants[i].member);
			return p && p->n_members ? dw_member_type(d, &p->members[0]) : NULL;
		}
	}
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(*wrappers); i++) {
		if (starts(t->full_name, wrappers[i].type))
			return dw_member_type(d, dw_find_member(t, wrappers[i].member));
	}
	/* async_executor::Executor::spawn wraps in an async block that awaits the future; a
	 * LocalSet that is driven, in RunUntil */
	if (starts(t->full_name, "tokio::task::local::RunUntil<"))
		return dw_member_type(d, dw_find_member(t, "future"));
	if ((starts(t->full_name, "async_executor::") ||
	     (starts(t->full_name, "tokio::task::local::") &&
	      strstr(t->full_name, "::run_until::{async_"))) &&
	    t->has_variants) {
		for (size_t i = 0; i < t->n_variants; i++) {
			const struct dw_type *v = dw_member_type(d, &t->variants[i].member);

			p = v ? dw_member_type(d, dw_find_member(v, "__awaitee")) : NULL;
			if (p)
				return p;
		}
	}
	return NULL;
}

char *debug_future_name(struct debug *d, const struct dw_type *future, const char *libraries)
{
	for (unsigned i = 0; i < MAX_WRAPPERS; i++) {
		const struct dw_type *inner = unwrap(d, future);

		if (!inner || !*inner->full_name || strstr(inner->full_name, "dyn "))
			break;
		future = inner;
	}
	return name_task(future->full_name, libraries ? libraries : "");
}

static bool in_runtime(const char *function)
{
	static const char *const crates[] = {
		"tokio::",	    "async_task::",
		"async_executor::", "async_std::",
		"smol::",	    "core::",
		"alloc::",	    "std::",
		"blocking::",	    "async_global_executor::",
		"once_cell::",	    "async_io::",
		"futures_lite::",   "async_lock::",
	};

	function += *function == '<';
	for (size_t i = 0; i < sizeof(crates) / sizeof(*crates); i++) {
		if (starts(function, crates[i]))
			return true;
	}
	return false;
}

static char *place_at(struct debug *d, uint64_t addr)
{
	struct dw_place places[MAX_PLACES];
	size_t n = debug_places(d, addr, places, MAX_PLACES);
	char *text = NULL;

	for (size_t i = 0; i < n; i++) {
		char *name;

		if (!places[i].function || !*places[i].function || !places[i].file ||
		    !places[i].line || in_runtime(places[i].function))
			continue;
		name = name_shorten(places[i].function);
		if (asprintf(&text, "%s:%u (%s)", places[i].file, places[i].line,
			     name ? name : "?") < 0)
			text = NULL;
		free(name);
		return text;
	}
	return NULL;
}

char *debug_spawn_place(struct debug *d, const struct scan_site *site)
{
	char *text = place_at(d, site->addr);

	for (size_t i = 0; !text && i < site->n_callers; i++)
		text = place_at(d, site->callers[i]);
	return text;
}

static void replace(char **at, char *text)
{
	if (!text)
		return;
	free(*at);
	*at = text;
}

static void name_kind(struct debug *d, struct scan_kind *k, const char *libraries)
{
	struct debug_kind types;

	debug_kind_read(d, k, &types);
	if (types.future && *types.future->full_name) {
		replace(&k->full_name, strdup(types.future->full_name));
		if (k->role != TR_WORKER)
			replace(&k->name, debug_future_name(d, types.future, libraries));
	}
	for (size_t s = 0; s < k->n_sites; s++)
		replace(&k->sites[s].where, debug_spawn_place(d, &k->sites[s]));
}

void debug_names(struct elf_image *image, const char *path, struct runtime_scan *f,
		 uint64_t deadline_ns)
{
	struct debug *d;

	if (!f->n_kinds || debug_open(elf_image_fd(image), path, &d, NULL) < 0)
		return;
	debug_local(d, true);
	for (size_t i = 0; i < f->n_kinds && clock_monotonic_ns() < deadline_ns; i++)
		name_kind(d, &f->kinds[i], f->libraries);
	for (size_t i = 0; i < f->n_wakers && clock_monotonic_ns() < deadline_ns; i++)
		for (size_t s = 0; s < f->wakers[i].n_sites; s++)
			replace(&f->wakers[i].sites[s].where,
				debug_spawn_place(d, &f->wakers[i].sites[s]));
	debug_local(d, false);
	debug_free(d);
}
