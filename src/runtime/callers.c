/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where in the program's own code tasks are spawned. A spawn site mostly lies in the runtime, in a
 * function that exists once per kind (Cell::new, OwnedTasks::bind, spawn_unchecked), called by
 * others of that kind (Handle::spawn, tokio::spawn) and finally by the program's own code. So this
 * climbs from caller to caller until outside of the runtime. A function with too many callers
 * serves more than one kind: there the climb ends. If a library spawns for the program, the climb
 * goes on through the library, and both the library's and the program's call are reported.
 */
#include "runtime/callers.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/code/code_index.h"
#include "binary/names.h"
#include "runtime/crates.h"
#include "runtime/find.h"
#include "runtime/kind_name.h"
#include "runtime/panic_places.h"
#include "runtime/root_polls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 24u
#define MAX_CALLERS 6u
#define MAX_ROOT_CALLERS 32u /* of one block_on */
#define MAX_STEPS 256u	     /* of one site */

/* One function on a path from a site to its outermost callers. */
struct step {
	uint64_t function; /* its start */
	uint64_t at;	   /* the call in it that leads to the inner step */
	size_t inner;	   /* that step; of the first one the step itself */
	unsigned depth;
	bool outside;	 /* of the runtime */
	bool library;	 /* outside, but not the program's own code */
	bool may_inline; /* of a runtime or library, into which the program's code may be inlined */
	bool root;	 /* may_inline, and a block_on */
	bool named;	 /* a caller further out is the program's own code */
};

/* All paths of one site. */
struct caller_paths {
	struct elf_image *image;
	struct code_index *calls;
	const char *libraries;
	struct step steps[MAX_STEPS];
	size_t n;
	bool of_root;		 /* the site is a block_on's */
	const uint64_t *waiting; /* functions that wait for a block_on's future, sorted */
	size_t n_waiting;
};

/* Which functions are on the paths of all sites of a kind. */
struct passed {
	bool launch, block_in_place, other;
};

/* Whether a function of a runtime polls or calls the program's code, which may be inlined into it:
 * the climb ends there. A climb from the site of a block_on goes on through block_on itself. */
static bool calls_program(const char *name, bool of_root)
{
	static const struct {
		const char *part;
		bool block_on;
	} parts[] = {
		{"block_on", true},	    {"run_until", true},   {"set_scheduler", true},
		{"enter_runtime", true},    {"with_budget", true}, {"::poll", false},
		{"short_backtrace", false}, {"call_once", false},
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		if (strstr(name, parts[i].part) && !(of_root && parts[i].block_on))
			return true;
	}
	return false;
}

static bool waits(const struct caller_paths *w, uint64_t function)
{
	size_t at = PARTITION_POINT(i, 0, w->n_waiting, w->waiting[i] < function);

	return at < w->n_waiting && w->waiting[at] == function;
}

static void classify(const struct caller_paths *w, struct step *s, struct passed *passed)
{
	const struct elf_symbol *symbol = elf_image_symbol_at(w->image, s->function);
	_cleanup_free_ char *name = symbol ? name_demangle(symbol->name) : NULL;

	if (!name)
		return;
	s->outside = !crates_runtime_function(name);
	s->library = s->outside && name_is_library(name, w->libraries);
	s->may_inline = (!s->outside || s->library) && calls_program(name, w->of_root);
	if (!s->outside && !w->of_root && waits(w, s->function))
		s->may_inline = s->root = true; /* a block_on, whatever its name is */
	s->root = s->root || (s->may_inline && strstr(name, "block_on"));
	passed->other = passed->other || s->outside || s->may_inline;
	if (s->outside)
		return;
	passed->launch = passed->launch || strstr(name, "Launch") ||
			 strstr(name, "runtime::builder::Builder::build");
	passed->block_in_place = passed->block_in_place || strstr(name, "block_in_place") ||
				 strstr(name, "maybe_move_runtime");
}

static bool is_known(const struct caller_paths *w, uint64_t at)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->steps[i].at == at)
			return true;
	return false;
}

/* From one function that is still in the runtime, or in a library, to its callers. */
static void climb(struct caller_paths *w, size_t i, struct passed *passed)
{
	const struct step *s = &w->steps[i];
	size_t n, max = w->of_root ? MAX_ROOT_CALLERS : MAX_CALLERS;
	const uint64_t *c;

	if ((s->outside && !s->library) || s->may_inline || s->depth == MAX_DEPTH)
		return;
	c = code_index_calls(w->calls, s->function, &n);
	for (size_t k = 0; k < n && n <= max && w->n < MAX_STEPS; k++) {
		struct step next = {.at = c[k], .depth = s->depth + 1, .inner = i};
		uint64_t end;

		if (!elf_image_function(w->image, next.at, &next.function, &end) ||
		    next.function == s->function || is_known(w, next.at))
			continue;
		classify(w, &next, passed);
		w->steps[w->n++] = next;
	}
}

static void find_paths(struct caller_paths *w, uint64_t site, struct passed *passed)
{
	struct step first = {.at = site};
	uint64_t end;

	w->n = 0;
	if (!elf_image_function(w->image, site, &first.function, &end))
		return;
	classify(w, &first, passed);
	w->steps[w->n++] = first;
	for (size_t i = 0; i < w->n; i++)
		climb(w, i, passed);
	for (size_t i = w->n; i-- > 0;) {
		struct step *s = &w->steps[i];

		if (s->named || (s->outside && !s->library))
			w->steps[s->inner].named = true;
	}
}

/* Whether a list such as that of add_place() has the place. */
static bool is_listed(const char *list, const char *place)
{
	size_t len = strlen(place);

	for (const char *at = list; at && (at = strstr(at, place)); at += len)
		if ((at == list || at[-1] == ' ') && (!at[len] || at[len] == ','))
			return true;
	return false;
}

/* "app::serve+0x1f3"; NULL: no symbol, or out of memory. */
static char *place_of(struct elf_image *image, uint64_t at)
{
	const struct elf_symbol *s = elf_image_symbol_at(image, at);
	_cleanup_free_ char *name = s ? name_demangle(s->name) : NULL;
	_cleanup_free_ char *shortened = name ? name_shorten(name) : NULL;
	char *place;

	if (!shortened || asprintf(&place, "%s+0x%" PRIx64, shortened, at - s->addr) < 0)
		return NULL;
	return place;
}

/* "app::serve+0x1f3, app::main+0x40 via pool::spawn+0x12"; copies of a function have one name. */
static void add_place(const struct caller_paths *w, struct buf *where, const struct step *s)
{
	_cleanup_free_ char *place = place_of(w->image, s->at), *via = NULL, *text = NULL;
	uint64_t library = 0;

	for (const struct step *in = s; in != w->steps;) {
		in = &w->steps[in->inner];
		if (in->library)
			library = in->at; /* the innermost */
	}
	if (library)
		via = place_of(w->image, library);
	if (place && asprintf(&text, "%s%s%s", place, via ? " via " : "", via ? via : "") < 0)
		text = NULL;
	if (text && !is_listed(where->data, text))
		buf_printf(where, "%s%s", where->len ? ", " : "", text);
}

static int name_worker(struct scan_kind *k, bool block_in_place)
{
	k->block_in_place = block_in_place;
	free(k->name);
	k->name = strdup(find_worker_name(block_in_place));
	return k->name ? 0 : -ENOMEM;
}

/* Names the kind of a worker. Tokio's builder launches ordinary workers; any other worker is made
 * by block_in_place, whose panic message is in the program's function if it was inlined there.
 */
static int name_worker_kind(struct scan_kind *k, const struct passed *p, bool has_message)
{
	bool in_place = has_message || p->block_in_place;

	if (k->role != TR_WORKER || (!p->launch && !in_place && !p->other))
		return 0;
	return name_worker(k, !p->launch && in_place);
}

/* If there is only one kind of worker, ordinary workers have that kind, too: the linker keeps equal
 * code once. */
static int name_only_worker_kind(struct runtime_scan *f, size_t first_kind)
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
	/* The timeline recognises it by this text. */
	if (asprintf(&full, "%s, or of block_in_place", only->full_name ? only->full_name : "") < 0)
		return -ENOMEM;
	free(only->full_name);
	only->full_name = full;
	return name_worker(only, false);
}

static int keep_callers(const struct caller_paths *w, struct scan_site *site)
{
	if (w->n < 2)
		return 0;
	site->callers = calloc(w->n - 1, sizeof(*site->callers));
	if (!site->callers)
		return -ENOMEM;
	for (size_t i = 1; i < w->n; i++)
		site->callers[site->n_callers++] = (struct scan_caller){
			.addr = w->steps[i].at, .inner = (uint32_t)w->steps[i].inner};
	return 0;
}

/* Sets where a site is: the program's calls that lead to it. Without any the site keeps its
 * text. */
static int set_where(const struct caller_paths *w, struct scan_site *site)
{
	struct buf where = BUF_INIT;
	bool root = false;

	for (size_t i = 0; i < w->n; i++) {
		const struct step *s = &w->steps[i];
		bool outer = s->library && !s->named && !w->steps[s->inner].library;

		root = root || s->root;
		if ((s->outside && !s->library) || outer || (s->library && !s->named && i == 0))
			add_place(w, &where, s);
	}
	if (where.len == 0 && root && !w->of_root) {
		add_place(w, &where, &w->steps[0]);
		buf_str(&where, " (from the root future of block_on)");
	}
	if (where.len > 0 && !buf_failed(&where)) {
		free(site->where);
		site->where = buf_steal(&where);
	}
	buf_done(&where);
	return site->where ? keep_callers(w, site) : -ENOMEM;
}

/* The function in "app::main+0x40, app::main+0x93", if it is one only. For free(). */
static char *only_function(const char *where)
{
	const char *end = strstr(where, "+0x");
	size_t len = end ? (size_t)(end - where) : 0;

	if (!end || strstr(where, " ("))
		return NULL;
	for (const char *at = where; (at = strstr(at, ", ")); at++)
		if (strncmp(at + 2, where, len + 3) != 0)
			return NULL;
	return strndup(where, len);
}

/* Functions that call a function by which block_ons wait: a block_on may be inlined into them. */
static int find_waiting(struct elf_image *image, struct code_index *calls, uint64_t **ret,
			size_t *ret_n)
{
	const struct elf_symbol *symbols;
	size_t n_symbols = elf_image_symbols(image, &symbols), cap = 0;

	for (size_t i = 0; i < n_symbols; i++) {
		const uint64_t *c;
		size_t n = 0;

		c = root_polls_is_park(symbols[i].name)
			    ? code_index_calls(calls, symbols[i].addr, &n)
			    : NULL;
		for (size_t k = 0; c && k < n; k++) {
			uint64_t start, end;

			if (!elf_image_function(image, c[k], &start, &end))
				continue;
			if (!GROW(*ret, *ret_n, cap))
				return -ENOMEM;
			(*ret)[(*ret_n)++] = start;
		}
	}
	if (*ret_n)
		qsort(*ret, *ret_n, sizeof(**ret), compare_u64);
	return 0;
}

/* If several kinds have equal code, symbols name one of them: only the spawning function is
 * certain. */
static void name_by_site(struct scan_kind *k, const char *libraries)
{
	_cleanup_free_ char *function = NULL;
	char *name;

	if (k->role == TR_WORKER || k->n_sites != 1 || !kind_name_unsure(k))
		return;
	function = only_function(k->sites[0].where);
	if (!function || crates_runtime_function(function) ||
	    name_is_library(function, libraries) || asprintf(&name, "spawned by %s", function) < 0)
		return;
	free(k->name);
	k->name = name;
}

int callers_find(struct elf_image *image, struct runtime_scan *f, size_t first_kind,
		 size_t first_waker)
{
	_cleanup_free_ bool *has_message = calloc(f->n_kinds + 1, sizeof(*has_message));
	_cleanup_free_ uint64_t *waiting = NULL;
	struct caller_paths w = {.image = image, .libraries = f->libraries ? f->libraries : ""};

	if (!has_message)
		return -ENOMEM;
	if (!elf_image_has_symtab(image))
		return 0;
	w.calls = code_index_of(image);
	if (!w.calls)
		return -ENOMEM;
	TRY(find_waiting(image, w.calls, &waiting, &w.n_waiting));
	w.waiting = waiting;
	panic_places_in_place(image, w.calls, f->kinds, f->n_kinds, has_message);
	for (size_t i = first_kind; i < f->n_kinds; i++) {
		struct passed passed = {0};

		for (size_t k = 0; k < f->kinds[i].n_sites; k++) {
			find_paths(&w, f->kinds[i].sites[k].addr, &passed);
			TRY(set_where(&w, &f->kinds[i].sites[k]));
		}
		TRY(name_worker_kind(&f->kinds[i], &passed, has_message[i]));
		name_by_site(&f->kinds[i], w.libraries);
	}
	w.of_root = true;
	for (size_t i = first_waker; i < f->n_wakers; i++) {
		struct passed passed = {0};

		for (size_t k = 0; f->wakers[i].root && k < f->wakers[i].n_sites; k++) {
			find_paths(&w, f->wakers[i].sites[k].addr, &passed);
			TRY(set_where(&w, &f->wakers[i].sites[k]));
		}
	}
	return name_only_worker_kind(f, first_kind);
}

/* ---- block_ons ---- */

/* Of `block_on::<F, ..>` in a v0 symbol the future. For free(). */
static char *future_in(const char *function)
{
	static const char part[] = "block_on::<";
	const char *at = strstr(function, part);

	return at ? name_argument(at + strlen(part)) : NULL;
}

static void name_block_on(const struct caller_paths *w, struct scan_block_on *b)
{
	const struct elf_symbol *symbol = elf_image_symbol_at(w->image, b->site.addr);
	_cleanup_free_ char *function = symbol ? name_demangle(symbol->name) : NULL;
	_cleanup_free_ char *future = function ? future_in(function) : NULL;

	if (future && *future != '&' && !strstr(future, "dyn ") && !strstr(future, "Pin<&")) {
		b->name = name_task(future, w->libraries);
		b->full_name = steal(future);
	} else {
		b->name = only_function(b->site.where);
	}
}

int callers_of_block_ons(struct elf_image *image, struct runtime_scan *f)
{
	struct caller_paths w = {
		.image = image, .libraries = f->libraries ? f->libraries : "", .of_root = true};

	if (!f->n_block_ons || !elf_image_has_symtab(image))
		return 0;
	w.calls = code_index_of(image);
	if (!w.calls)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_block_ons; i++) {
		struct scan_block_on *b = &f->block_ons[i];
		struct passed passed = {0};

		b->site.where = strdup("");
		find_paths(&w, b->site.addr, &passed);
		TRY(set_where(&w, &b->site));
		name_block_on(&w, b);
	}
	return 0;
}
