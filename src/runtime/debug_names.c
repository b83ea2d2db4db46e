/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Symbols name functions; debug information names types and places. A kind's poll function has the
 * future's type among its template parameters, and the line table knows which function was inlined
 * where: so names and spawn sites become exact.
 */
#include "runtime/debug_names.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "binary/elf/elf_image.h"
#include "binary/names.h"
#include "runtime/crates.h"
#include "runtime/fn_item.h"
#include "runtime/kind_name.h"

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

static char *future_name(struct debug *d, const struct dw_type *future, const char *libraries)
{
	for (unsigned i = 0; i < MAX_WRAPPERS; i++) {
		const struct dw_type *inner = unwrap(d, future);

		if (!inner || !*inner->full_name || strstr(inner->full_name, "dyn "))
			break;
		future = inner;
	}
	return name_task(future->full_name, libraries ? libraries : "");
}

/* What is known of a site, or of one call on the way to it. */
struct way_place {
	bool named; /* a place of the program's own, here or on the way to here */
	char *via;  /* the library's place on the way */
};

/* Line tables alone have functions' names without their paths: those say too little. */
static char *place_text(const struct dw_place *p)
{
	const char *path = strstr(p->function, "::"), *generics = strchr(p->function + 1, '<');
	char *name = path && !(generics && generics < path) ? name_shorten(p->function) : NULL;
	char *text;

	if (asprintf(&text, "%s:%u%s%s%s", text_short_file(p->file), p->line, name ? " (" : "",
		     name ? name : "", name ? ")" : "") < 0)
		text = NULL;
	free(name);
	return text;
}

char *debug_place_text(struct debug *d, uint64_t addr, char **ret_via)
{
	struct dw_place places[MAX_PLACES];
	size_t n = debug_places(d, addr, places, MAX_PLACES);

	for (size_t i = 0; i < n; i++) {
		const struct dw_place *p = &places[i];

		if (!p->function || !*p->function || !p->file || !p->line ||
		    crates_runtime_function(p->function) || crates_runtime_file(p->file))
			continue;
		if (!text_library_file(p->file))
			return place_text(p);
		if (!*ret_via)
			*ret_via = place_text(p);
	}
	return NULL;
}

/* Adds what this address says, unless the way to it has said it. */
static void add_address(struct debug *d, uint64_t addr, const struct way_place *inner,
			struct way_place *ret, struct buf *out)
{
	char *place;

	*ret = (struct way_place){.named = inner && inner->named};
	if (ret->named)
		return;
	if (inner && inner->via)
		ret->via = strdup(inner->via);
	place = debug_place_text(d, addr, &ret->via);
	ret->named = place != NULL;
	if (place && !(out->len && strstr(out->data, place)))
		buf_printf(out, "%s%s%s%.*s", out->len ? ", " : "", place, ret->via ? " via " : "",
			   ret->via ? (int)strcspn(ret->via, " ") : 0, ret->via ? ret->via : "");
	free(place);
}

char *debug_spawn_place(struct debug *d, const struct scan_site *site)
{
	struct way_place *way = calloc(site->n_callers + 1, sizeof(*way));
	struct buf out = BUF_INIT;

	if (way)
		add_address(d, site->addr, NULL, &way[0], &out);
	for (size_t i = 0; way && i < site->n_callers && !buf_failed(&out); i++)
		add_address(d, site->callers[i].addr, &way[site->callers[i].inner], &way[i + 1],
			    &out);
	for (size_t i = 0; way && !out.len && i <= site->n_callers; i++)
		if (way[i].via)
			buf_str(&out, way[i].via);
	for (size_t i = 0; way && i <= site->n_callers; i++)
		free(way[i].via);
	free(way);
	if (!out.len)
		buf_done(&out);
	return out.len ? buf_steal(&out) : NULL;
}

static void replace(char **at, char *text)
{
	if (!text)
		return;
	free(*at);
	*at = text;
}

/* Whether a name says no more than that there is a function's item, which is only `fn()` here. */
static bool lacks_item(const char *name, const char *type, const char *libraries)
{
	return name && strstr(type, "fn(") &&
	       (starts(name, "fn(") || name_is_library(name, libraries ? libraries : ""));
}

/* The item by the code. */
static char *name_by_code(struct debug *d, struct elf_image *image, const struct scan_kind *k,
			  const char *libraries)
{
	_cleanup_free_ char *item = fn_item_find(d, image, k->slots[TF_POLL].function, libraries);

	return item ? name_shorten(item) : NULL;
}

/* By types, and where these lack an item by symbols, if they are certain. */
static char *name_by_type(struct debug *d, const struct scan_kind *k, const struct dw_type *future,
			  const char *libraries)
{
	char *name = future_name(d, future, libraries);

	if (!lacks_item(name, future->full_name, libraries) || !*k->full_name ||
	    kind_name_unsure(k) || strstr(k->full_name, "fn("))
		return name;
	free(name);
	return strdup(k->name);
}

char *debug_kind_name(struct debug *d, struct elf_image *image, const struct scan_kind *k,
		      const struct dw_type *future, const char *libraries)
{
	char *name = name_by_type(d, k, future, libraries), *item = NULL;

	if (lacks_item(name, future->full_name, libraries))
		item = name_by_code(d, image, k, libraries);
	if (!item)
		return name;
	free(name);
	return item;
}

static void name_kind(struct debug *d, struct scan_kind *k, const char *libraries)
{
	struct debug_kind types;

	debug_kind_read(d, k, &types);
	if (types.future && *types.future->full_name) {
		if (k->role != TR_WORKER)
			replace(&k->name, name_by_type(d, k, types.future, libraries));
		replace(&k->full_name, strdup(types.future->full_name));
	}
	for (size_t s = 0; s < k->n_sites; s++)
		replace(&k->sites[s].where, debug_spawn_place(d, &k->sites[s]));
}

/* The function in "src/main.rs:93 (app::main)". For free(). */
static char *function_in(const char *where)
{
	const char *open = strchr(where, '('), *end = strrchr(where, ')');

	return open && end && !end[1] && !strstr(where, "), ") && !strstr(where, " via ")
		       ? strndup(open + 1, (size_t)(end - open - 1))
		       : NULL;
}

char *debug_block_on_name(struct debug *d, const struct dw_type *future, const char *where,
			  const char *libraries)
{
	char *name = NULL;

	/* What a reference to a trait object is of is only known while it runs. */
	if (where && (!future || strstr(future->full_name, "dyn ")))
		name = function_in(where);
	if (!name && future)
		name = future_name(d, future, libraries);
	return name;
}

const struct dw_type *debug_block_on_future(struct debug *d, const struct dw_block_on *b)
{
	/* The outermost's: the others may have put something around it. */
	for (size_t i = b->n_params; i-- > 0;)
		if (!strcmp(b->params[i].name, "F") || starts(b->params[i].name, "impl "))
			return dw_type_of(d, b->params[i].type_ref);
	return NULL;
}

static void name_block_on(struct debug *d, struct scan_block_on *b, const char *libraries)
{
	const struct dw_type *future = NULL;
	struct dw_block_on known;

	replace(&b->site.where, debug_spawn_place(d, &b->site));
	if (debug_block_on(d, b->site.addr, &known))
		future = debug_block_on_future(d, &known);
	replace(&b->name, debug_block_on_name(d, future, b->site.where, libraries));
	if (future && *future->full_name)
		replace(&b->full_name, strdup(future->full_name));
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
	for (size_t i = 0; i < f->n_block_ons && clock_monotonic_ns() < deadline_ns; i++)
		name_block_on(d, &f->block_ons[i], f->libraries);
	/* The code takes longer to read. */
	for (size_t i = 0; i < f->n_kinds && clock_monotonic_ns() < deadline_ns; i++)
		if (lacks_item(f->kinds[i].name, f->kinds[i].full_name, f->libraries))
			replace(&f->kinds[i].name,
				name_by_code(d, image, &f->kinds[i], f->libraries));
	debug_local(d, false);
	debug_free(d);
}
