/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of kinds, from symbols alone.
 *
 * A kind is poll::<T, S>: T is the root future, S the scheduler. v0 mangling spells both in the
 * symbol. Legacy mangling (rustc's default for long) doesn't, but symbols of what the functions of
 * the vtable call do:
 *
 *     dealloc        ->  drop_in_place<Cell<T, S>>              both, in full
 *     dealloc, poll  ->  drop_in_place<Stage<T>>                T in full
 *     poll           ->  T's own poll: "app::worker::{{closure}}"
 *                        or, if T's was inlined, that of a future inside
 *
 * LLVM folds functions with equal code: several kinds of one scheduler may then reach the very same
 * drop_in_place, whose symbol names only one of them. Then what poll calls decides, if that is
 * clear; else the name gets "or alike".
 */
#include "runtime/kind_name.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "binary/names.h"
#include "runtime/find.h"
#include "runtime/follow.h"
#include "runtime/panic_places.h"

#include <errno.h>
#include <string.h>

#define DEPTH 6u

/* What is known of one kind. */
struct clue {
	char *t, *s; /* as spelled; NULL if not found */
	uint64_t
		named_by; /* address of the function whose symbol spells T, 0 if it is poll itself */
	char *callee;	  /* first future's poll outside of the runtime that poll calls */
};

static void clue_done(struct clue *c)
{
	free(c->t);
	free(c->s);
	free(c->callee);
}

/* The end of the generic argument at p: at `,` or `>` of its own level; NULL if there is none. */
static const char *argument_end(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (*p == '<' || *p == '(' || *p == '[' || *p == '{')
			depth++;
		else if (depth == 0 && (*p == ',' || *p == '>'))
			return p;
		else if (*p == ')' || *p == ']' || *p == '}' || (*p == '>' && p[-1] != '-'))
			depth--;
	}
	return NULL;
}

/* The first argument after `before` in a demangled name, and where the next one begins (NULL:
 * none). */
static char *read_argument(const char *name, const char *before, const char **ret_next)
{
	const char *p = strstr(name, before), *end;

	if (!p)
		return NULL;
	p += strlen(before);
	end = argument_end(p);
	if (!end)
		return NULL;
	*ret_next = *end == ',' ? end + 1 + strspn(end + 1, " ") : NULL;
	return strndup(p, (size_t)(end - p));
}

/* T and S after `before`: "..Cell<T, S>". S is argument number `s_index`, left out if it isn't
 * there. */
static bool read_types(struct clue *c, const char *name, const char *before, unsigned s_index)
{
	const char *next;
	char *t = read_argument(name, before, &next);

	if (!t)
		return false;
	free(c->t);
	free(c->s);
	c->t = t;
	c->s = NULL;
	for (unsigned i = 1; next && i <= s_index; i++) {
		free(c->s);
		c->s = read_argument(next, "", &next);
	}
	return true;
}

/* Names of functions that drop a task's parts, the most telling first. */
struct name_part {
	const char *legacy, *v0; /* in the mangled name */
	const char *before;	 /* in the demangled one */
};

static const struct name_part tokio_parts[] = {
	{"task..core..Cell$LT$", "4task4core4Cell", "tokio::runtime::task::core::Cell<"},
	{"task..core..Core$LT$", "4task4core4Core", "tokio::runtime::task::core::Core<"},
	{"task..core..Stage$LT$", "4task4core5Stage", "tokio::runtime::task::core::Stage<"},
	{"task..core..CoreStage$LT$", "4task4core9CoreStage",
	 "tokio::runtime::task::core::CoreStage<"},
};

/* The guard in `run` that closes the task if the future panics names all its types. */
static const struct name_part async_task_parts[] = {
	{"..run..Guard$LT$", "3run5Guard", "::run::Guard<"},
};

/* What differs between the runtimes. */
struct naming {
	const struct name_part *parts;
	size_t n_parts;
	unsigned s_index;	 /* which argument of those is the scheduler */
	const char *poll_symbol; /* in the mangled name of poll */
	const char *poll_before; /* in its demangled name, if that spells the types (v0) */
};

static const struct naming tokio_naming = {
	tokio_parts,
	sizeof(tokio_parts) / sizeof(tokio_parts[0]),
	1,
	"5tokio7runtime4task3raw4poll",
	"tokio::runtime::task::raw::poll::<",
};

static const struct naming async_task_naming = {
	async_task_parts,
	sizeof(async_task_parts) / sizeof(async_task_parts[0]),
	2,
	"10async_task3raw",
	"<async_task::raw::RawTask<",
};

struct part_walk {
	const struct naming *naming;
	struct clue *clue;
	size_t best; /* index into parts of what was found */
};

static enum follow_step visit_parts(uint64_t addr, const struct elf_symbol *s, void *opaque)
{
	struct part_walk *w = opaque;

	if (!s)
		return FOLLOW_PAST;
	for (size_t i = 0; i < w->best; i++) {
		const struct name_part *part = &w->naming->parts[i];
		_cleanup_free_ char *name = NULL;

		if (!strstr(s->name, part->legacy) && !strstr(s->name, part->v0))
			continue;
		name = name_demangle(s->name);
		if (!name || !strstr(name, "drop_in_place") ||
		    !read_types(w->clue, name, part->before, w->naming->s_index))
			continue;
		w->clue->named_by = addr;
		w->best = i;
	}
	if (w->best == 0)
		return FOLLOW_STOP;
	return strstr(s->name, "5tokio") || strstr(s->name, "tokio..") ||
			       strstr(s->name, "async_task") || strstr(s->name, "13drop_in_place")
		       ? FOLLOW_INTO
		       : FOLLOW_PAST;
}

static bool begins_any(const char *s, const char *const *list)
{
	for (; *list; list++) {
		if (strncmp(s, *list, strlen(*list)) == 0)
			return true;
	}
	return false;
}

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static enum follow_step visit_poll(uint64_t addr, const struct elf_symbol *s, void *opaque)
{
	static const char *const through[] = {
		"tokio::runtime::task::",
		"<tokio::runtime::task::",
		"tokio::runtime::coop",
		"tokio::task::coop",
		"tokio::loom::",
		"<tokio::runtime::blocking::task::",
		"core::",
		"<core::",
		"std::",
		"<std::",
		"alloc::",
		"<alloc::",
		"<tracing::instrument::",
		NULL,
	};
	static const char *const not_through[] = {"core::ptr::drop_in_place", "core::panicking",
						  "std::panicking", "core::fmt", NULL};
	static const char *const runtime[] = {"tokio::runtime", "<tokio::runtime", "tokio::loom",
					      "tokio::util",	"<tokio::util",	   NULL};
	struct clue *c = opaque;
	_cleanup_free_ char *name = s ? name_demangle(s->name) : NULL;

	(void)addr;
	if (!name || begins_any(name, not_through))
		return FOLLOW_PAST;
	if (begins_any(name, through))
		return FOLLOW_INTO;
	if (begins_any(name, runtime) || !(ends(name, "}") || ends(name, "Future>::poll")))
		return FOLLOW_PAST;
	c->callee = steal(name);
	return FOLLOW_STOP;
}

/* The symbol of poll spells T and S itself (v0). */
static bool named_by_poll(struct elf_image *image, uint64_t poll, const struct naming *naming,
			  struct clue *c)
{
	const struct elf_symbol *s = find_symbol(image, poll, naming->poll_symbol);
	_cleanup_free_ char *name = s && s->name[1] == 'R' ? name_demangle(s->name) : NULL;

	return name && read_types(c, name, naming->poll_before, naming->s_index);
}

static int gather(struct elf_image *image, struct follower *follower, const struct scan_kind *k,
		  const struct naming *naming, struct clue *c)
{
	struct part_walk w = {naming, c, naming->n_parts};

	if (named_by_poll(image, k->slots[TF_POLL].function, naming, c))
		return 0;
	TRY(follow(follower, k->slots[TF_FREE].function, DEPTH, visit_parts, &w));
	if (w.best > 0)
		TRY(follow(follower, k->slots[TF_POLL].function, DEPTH, visit_parts, &w));
	return follow(follower, k->slots[TF_POLL].function, DEPTH, visit_poll, c);
}

struct scheduler_walk {
	const char *name;
};

static const char *scheduler_name(const char *s)
{
	static const struct {
		const char *part, *name;
	} table[] = {
		{"multi_thread", "multi_thread"},   {"current_thread", "current_thread"},
		{"task::local::", "local"},	    {"task5local", "local"},
		{"BlockingSchedule", "blocking"},   {"NoopSchedule", "blocking"},
		{"blocking::Executor", "blocking"}, {"8blocking8Executor", "blocking"},
		{"async_executor", "executor"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (strstr(s, table[i].part))
			return table[i].name;
	}
	return NULL;
}

static enum follow_step visit_schedule(uint64_t addr, const struct elf_symbol *s, void *opaque)
{
	struct scheduler_walk *w = opaque;

	(void)addr;
	if (!s)
		return FOLLOW_PAST;
	w->name = scheduler_name(s->name);
	return w->name ? FOLLOW_STOP : FOLLOW_INTO;
}

static int set_scheduler(struct follower *follower, struct scan_kind *k, const struct clue *c)
{
	struct scheduler_walk w = {c->s ? scheduler_name(c->s) : NULL};
	int r = 0;

	/* Tokio's schedulers are an Arc, one word; only the blocking pool's is something else. */
	if (!w.name && k->id_offset && k->id_offset != k->scheduler_offset + 8)
		w.name = "blocking";
	if (!w.name)
		r = follow(follower, k->slots[TF_SCHEDULE].function, 3, visit_schedule, &w);
	k->scheduler = strdup(w.name ? w.name : "");
	return r < 0 ? r : k->scheduler ? 0 : -ENOMEM;
}

/*
 * Types around the future that say nothing of what the task does: boxes (Tokio boxes large
 * futures), instrumentation, executors' own; and which of their arguments goes on.
 */
static const struct {
	const char *before;
	unsigned index;
} wrappers[] = {
	{"core::pin::Pin<alloc::boxed::Box<", 0},
	{"alloc::boxed::Box<", 0},
	{"tokio::runtime::blocking::task::BlockingTask<", 0},
	{"tracing::instrument::Instrumented<", 0},
	{"tracing_futures::Instrumented<", 0},
	{"core::panic::unwind_safe::AssertUnwindSafe<", 0},
	{"futures_util::future::future::catch_unwind::CatchUnwind<", 0},
	{"futures_util::abortable::Abortable<", 0},
	{"async_std::task::builder::SupportTaskLocals<", 0},
	{"async_executor::AsyncCallOnDrop<", 0},
	{"async_executor::Executor::spawn<", 1},
	{"async_executor::Executor::spawn_inner<", 1},
	{"<async_executor::Executor>::spawn<", 1},
	{"<async_executor::Executor>::spawn_inner<", 1},
	{"blocking::unblock<", 1},
};

/* Takes them off. Returns a fresh string. */
static char *unwrap(const char *type)
{
	char *t = strdup(type);

	for (size_t i = 0; t && i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
		struct clue inner = {0};
		const char *before = wrappers[i].before;

		if (strncmp(t, before, strlen(before)) != 0 ||
		    strncmp(t + strlen(before), "dyn ", 4) == 0 ||
		    !read_types(&inner, t, before, wrappers[i].index))
			continue;
		if (wrappers[i].index == 0 || inner.s) {
			free(t);
			t = wrappers[i].index == 0 ? steal(inner.t) : steal(inner.s);
			i = SIZE_MAX; /* once more from the first wrapper */
		}
		clue_done(&inner);
	}
	return t;
}

static void set_role(struct scan_kind *k, const char *type)
{
	bool blocking = strstr(type, "tokio::runtime::blocking::task::BlockingTask<") == type ||
			strstr(type, "blocking::unblock<") == type ||
			strcmp(k->scheduler, "blocking") == 0;
	bool worker = strstr(type, "::worker::") && strstr(type, "::multi_thread");

	if (!blocking)
		return;
	k->role = TR_BLOCKING;
	if (!worker || !strstr(type, "tokio::runtime::"))
		return;
	/* Launch::launch starts the workers; block_in_place (also spelled by its helper
	 * maybe_move_runtime) hands a worker's core to a fresh thread. */
	if (strstr(type, "::launch::{") || strstr(type, "Launch")) {
		k->role = TR_WORKER;
	} else if (strstr(type, "block_in_place") || strstr(type, "maybe_move_runtime")) {
		k->role = TR_WORKER;
		k->block_in_place = true;
	}
}

static const char unsure_prefix[] = "one of several with equal code: ";

bool kind_name_unsure(const struct scan_kind *k)
{
	return !strncmp(k->full_name, unsure_prefix, strlen(unsure_prefix));
}

static int set_name(const struct runtime_scan *f, struct scan_kind *k, const char *type,
		    bool unsure)
{
	_cleanup_free_ char *inner = unwrap(type), *shortened = NULL;
	struct buf name = BUF_INIT, full = BUF_INIT;

	if (!inner)
		return -ENOMEM;
	set_role(k, type);
	if (k->role == TR_WORKER) {
		buf_str(&name, find_worker_name(k->block_in_place));
	} else {
		shortened = name_task(inner, f->libraries);
		buf_printf(&name, "%s%s", shortened ? shortened : inner,
			   unsure ? " (or alike)" : "");
	}
	buf_printf(&full, "%s%s", unsure ? unsure_prefix : "", type);
	free(k->name);
	free(k->full_name);
	k->name = buf_steal(&name);
	k->full_name = buf_steal(&full);
	return k->name && k->full_name ? 0 : -ENOMEM;
}

static int set_unnamed(struct scan_kind *k, size_t number)
{
	struct buf name = BUF_INIT;

	if (strcmp(k->scheduler, "blocking") == 0)
		k->role = TR_BLOCKING;
	buf_printf(&name, "kind %zu", number);
	k->name = buf_steal(&name);
	k->full_name = strdup("");
	return k->name && k->full_name ? 0 : -ENOMEM;
}

/* True if another kind of the same scheduler is named by the same function, so that function's
 * symbol is the name of one of them only. */
static bool is_folded(const struct runtime_scan *f, size_t first, const struct clue *clues,
		      size_t i)
{
	for (size_t k = 0; clues[i].named_by && k < f->n_kinds - first; k++) {
		if (k != i && clues[k].named_by == clues[i].named_by &&
		    strcmp(f->kinds[first + k].scheduler, f->kinds[first + i].scheduler) == 0)
			return true;
	}
	return false;
}

static int name_all(struct runtime_scan *f, size_t first, const struct clue *clues,
		    size_t *ret_named, size_t *ret_unsure)
{
	int r = 0;

	*ret_named = *ret_unsure = 0;
	for (size_t i = 0; i < f->n_kinds - first && r == 0; i++) {
		struct scan_kind *k = &f->kinds[first + i];
		const struct clue *c = &clues[i];
		bool folded = is_folded(f, first, clues, i);

		if (c->t && !folded)
			r = set_name(f, k, c->t, false);
		else if (c->callee)
			r = set_name(f, k, c->callee, false);
		else if (c->t)
			r = set_name(f, k, c->t, true);
		else
			r = set_unnamed(k, i + 1);
		*ret_named += c->t || c->callee;
		*ret_unsure += c->t && folded && !c->callee && k->role != TR_WORKER;
	}
	return r;
}

static int name_kinds(struct elf_image *image, struct runtime_scan *f, size_t first,
		      const struct naming *naming, size_t *ret_named, size_t *ret_unsure)
{
	size_t n = f->n_kinds - first;
	struct clue *clues = calloc(n + 1, sizeof(*clues));
	struct follower *follower = follower_new(image);
	int r = clues && follower ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && r == 0; i++) {
		if (elf_image_has_symtab(image))
			r = gather(image, follower, &f->kinds[first + i], naming, &clues[i]);
		if (r == 0)
			r = set_scheduler(follower, &f->kinds[first + i], &clues[i]);
	}
	if (r == 0)
		r = name_all(f, first, clues, ret_named, ret_unsure);
	for (size_t i = 0; clues && i < n; i++)
		clue_done(&clues[i]);
	free(clues);
	follower_free(follower);
	return r;
}

static int cover(struct runtime_scan *f, size_t first, size_t named, size_t unsure)
{
	size_t n = f->n_kinds - first;

	if (!f->has_symbols)
		return find_cover(
			f, "names", named, n, "%s",
			"the program is stripped: places of panics take the place of names");
	return find_cover(f, "names", named - unsure, n, "%s",
			  unsure      ? "functions with equal code share one symbol"
			  : named < n ? "the optimiser left no symbol of some"
				      : "");
}

static int name_and_cover(struct elf_image *image, struct runtime_scan *f, size_t first,
			  const struct naming *naming)
{
	size_t named = 0, unsure = 0;
	int r;

	if (!f->libraries && !(f->libraries = libraries_find(image)))
		return -ENOMEM;
	r = name_kinds(image, f, first, naming, &named, &unsure);

	if (r == 0 && !f->has_symbols)
		r = panic_places_find(image, f, first, &named);
	return r < 0 ? r : cover(f, first, named, unsure);
}

int kind_names_tokio(struct elf_image *image, struct runtime_scan *f, size_t first)
{
	return name_and_cover(image, f, first, &tokio_naming);
}

int kind_names_async_task(struct elf_image *image, struct runtime_scan *f, size_t first)
{
	return name_and_cover(image, f, first, &async_task_naming);
}
