/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A spawn site mostly lies in the runtime, in a function that exists once per kind (Cell::new,
 * OwnedTasks::bind, spawn_unchecked), called by others of that kind (Handle::spawn, tokio::spawn)
 * and finally by the program's own code. Climbing from caller to caller until outside of the
 * runtime shows where in the program the kind is spawned. Where a function has too many callers it
 * is no helper of one kind any more: there the climb ends.
 */
#include "runtime/callers.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/vec.h"
#include "binary/code/call_index.h"
#include "binary/names.h"
#include "runtime/find.h"
#include "runtime/panic_places.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 24u
#define MAX_CALLERS 6u

/* One function on the way from a site outwards. */
struct step {
	size_t kind, site;
	uint64_t function; /* its start */
	uint64_t insn;	   /* the instruction in it that goes on inwards */
	unsigned depth;
	bool outside; /* outside of the runtime: the end of the way */
	bool polled;  /* a place of the runtime into which the program's code may be inlined */
	bool launch, block_in_place; /* passed on the way */
};

struct steps {
	struct step *steps;
	size_t n, cap;
};

static void steps_done(struct steps *s)
{
	free(s->steps);
}

static int steps_add(struct steps *s, const struct step *step)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->steps[i].kind == step->kind && s->steps[i].site == step->site &&
		    s->steps[i].insn == step->insn)
			return 0;
	}
	if (!GROW(s->steps, s->n, s->cap))
		return -ENOMEM;
	s->steps[s->n++] = *step;
	return 0;
}

static bool in_runtime(const char *name)
{
	static const char *const crates[] = {
		"tokio::",
		"async_task::",
		"async_executor::",
		"async_std::",
		"blocking::",
		"async_io::",
		"async_global_executor::",
		"smol::",
		"core::",
		"alloc::",
		"std::",
		"once_cell::",
		"async_lock::",
		"futures_lite::",
		"futures_util::",
		"futures_core::",
		NULL,
	};

	name += *name == '<';
	for (size_t i = 0; crates[i]; i++) {
		if (strncmp(name, crates[i], strlen(crates[i])) == 0)
			return true;
	}
	return false;
}

/* Where a runtime polls or calls the program's code, that code may be inlined: no use to climb on.
 */
static bool calls_program(const char *name)
{
	static const char *const parts[] = {"block_on",	       "::poll",    "run_until",
					    "short_backtrace", "call_once", NULL};

	for (size_t i = 0; parts[i]; i++) {
		if (strstr(name, parts[i]))
			return true;
	}
	return false;
}

static void look(struct elf_image *image, struct step *s)
{
	const struct elf_symbol *symbol = elf_image_symbol_at(image, s->function);
	_cleanup_free_ char *name = symbol ? name_demangle(symbol->name) : NULL;

	if (!name)
		return;
	s->outside = !in_runtime(name);
	s->polled = !s->outside && calls_program(name);
	if (!s->outside) {
		s->launch = s->launch || strstr(name, "Launch") ||
			    strstr(name, "runtime::builder::Builder::build");
		s->block_in_place = s->block_in_place || strstr(name, "block_in_place") ||
				    strstr(name, "maybe_move_runtime");
	}
}

/* From one function that is still in the runtime to its callers. */
static int climb(struct elf_image *image, const struct call_index *calls, struct steps *all,
		 size_t i)
{
	struct step s = all->steps[i];
	const struct call *c;
	size_t n;

	if (s.outside || s.polled || s.depth == MAX_STEPS)
		return 0;
	c = call_index_find(calls, s.function, &n);
	for (size_t k = 0; k < n && n <= MAX_CALLERS; k++) {
		struct step next = s;
		uint64_t end;

		next.insn = c[k].addr;
		next.depth++;
		if (!elf_image_function(image, next.insn, &next.function, &end) ||
		    next.function == s.function)
			continue;
		look(image, &next);
		TRY(steps_add(all, &next));
	}
	return 0;
}

/* Of a list such as below. */
static bool is_listed(const char *list, const char *place)
{
	size_t len = strlen(place);

	for (const char *at = list; at && (at = strstr(at, place)); at += len)
		if ((at == list || at[-1] == ' ') && (!at[len] || at[len] == ','))
			return true;
	return false;
}

/* "app::serve+0x1f3, app::main+0x40"; copies of a function have one name. */
static int add_place(struct elf_image *image, struct buf *where, uint64_t at)
{
	const struct elf_symbol *s = elf_image_symbol_at(image, at);
	_cleanup_free_ char *name = s ? name_demangle(s->name) : NULL;
	_cleanup_free_ char *shortened = name ? name_shorten(name) : NULL;
	_cleanup_free_ char *place = NULL;

	if (!shortened)
		return s && !name ? 0 : -ENOMEM;
	if (asprintf(&place, "%s+0x%" PRIx64, shortened, at - s->addr) < 0) {
		place = NULL;
		return -ENOMEM;
	}
	if (!is_listed(where->data, place))
		buf_printf(where, "%s%s", where->len ? ", " : "", place);
	return 0;
}

static int name_worker(struct scan_kind *k, bool block_in_place)
{
	k->block_in_place = block_in_place;
	free(k->name);
	k->name = strdup(find_worker_name(block_in_place));
	return k->name ? 0 : -ENOMEM;
}

/* Workers are launched by Tokio's builder alone; whatever else makes one is block_in_place. Where
 * the program's own code does, one of them is a part of it: block_in_place has its message there.
 */
static int settle(struct scan_kind *k, const struct steps *all, size_t kind, bool has_message)
{
	bool launch = false, in_place = has_message, other = false;

	for (size_t i = 0; i < all->n; i++) {
		const struct step *s = &all->steps[i];

		if (s->kind != kind)
			continue;
		launch = launch || s->launch;
		in_place = in_place || s->block_in_place;
		other = other || s->outside || s->polled;
	}
	if (k->role != TR_WORKER || (!launch && !in_place && !other))
		return 0;
	return name_worker(k, !launch && in_place);
}

/* The only kind of worker that there is is the ordinary one, too: code that is equal is there once.
 */
static int settle_only(struct runtime_scan *f, size_t first_kind)
{
	struct scan_kind *only = NULL;
	char *full;
	size_t n = 0;

	for (size_t i = first_kind; i < f->n_kinds; i++) {
		if (f->kinds[i].role != TR_WORKER)
			continue;
		only = &f->kinds[i];
		n++;
	}
	if (n != 1 || !only->block_in_place)
		return 0;
	/* What it says there is what the timeline knows it by. */
	if (asprintf(&full, "%s, or of block_in_place", only->full_name ? only->full_name : "") < 0)
		return -ENOMEM;
	free(only->full_name);
	only->full_name = full;
	return name_worker(only, false);
}

/* One site's places; with none of the program's own it keeps what it has. */
static int tell(struct elf_image *image, struct scan_site *site, const struct steps *all,
		size_t kind, size_t number)
{
	struct buf where = BUF_INIT;
	bool root = false;

	for (size_t i = 0; i < all->n; i++) {
		const struct step *s = &all->steps[i];
		const struct elf_symbol *symbol;

		if (s->kind != kind || s->site != number)
			continue;
		symbol = s->polled ? elf_image_symbol_at(image, s->function) : NULL;
		root = root || (symbol && strstr(symbol->name, "block_on"));
		if ((s->outside || s->polled) && site->n_callers < 4)
			site->callers[site->n_callers++] = s->insn;
		if (s->outside && add_place(image, &where, s->insn) < 0)
			break;
	}
	if (where.len == 0 && root) {
		add_place(image, &where, site->addr);
		buf_str(&where, " (from the root future of block_on)");
	}
	if (where.len > 0 && !buf_failed(&where)) {
		free(site->where);
		site->where = buf_steal(&where);
	}
	buf_done(&where);
	return site->where ? 0 : -ENOMEM;
}

static int start(struct elf_image *image, struct runtime_scan *f, size_t first_kind,
		 struct steps *ret)
{
	int r = 0;

	for (size_t i = first_kind; i < f->n_kinds; i++) {
		for (size_t k = 0; k < f->kinds[i].n_sites && r == 0; k++) {
			struct step s = {.kind = i - first_kind, .site = k};
			uint64_t end;

			s.insn = f->kinds[i].sites[k].addr;
			if (!elf_image_function(image, s.insn, &s.function, &end))
				continue;
			look(image, &s);
			r = steps_add(ret, &s);
		}
	}
	return r;
}

int callers_find(struct elf_image *image, struct runtime_scan *f, size_t first_kind)
{
	_cleanup_(steps_done) struct steps all = {0};
	_cleanup_(call_index_done) struct call_index calls = {0};
	_cleanup_free_ bool *has_message = calloc(f->n_kinds + 1, sizeof(*has_message));

	if (!has_message)
		return -ENOMEM;
	if (!elf_image_has_symtab(image))
		return 0;
	TRY(call_index_init(&calls, image));
	panic_places_in_place(image, &calls, f->kinds, f->n_kinds, has_message);
	TRY(start(image, f, first_kind, &all));
	for (size_t i = 0; i < all.n; i++)
		TRY(climb(image, &calls, &all, i));
	for (size_t i = first_kind; i < f->n_kinds; i++) {
		TRY(settle(&f->kinds[i], &all, i - first_kind, has_message[i]));
		for (size_t k = 0; k < f->kinds[i].n_sites; k++)
			TRY(tell(image, &f->kinds[i].sites[k], &all, i - first_kind, k));
	}
	return settle_only(f, first_kind);
}
