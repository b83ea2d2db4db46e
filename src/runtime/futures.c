/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding poll functions. Symbols name the candidates: the body of an async fn, block or closure is
 * called like any closure of its function, an impl of Future is a `poll` of that trait. Debug
 * information says for certain what they are, of which type, with its state where. Without it a
 * coroutine's body is known by its code: it begins by reading a byte through its first or second
 * argument, marks that byte as returned, and panics if it is polled again; of other futures it
 * isn't known which argument is which, so those are left alone. That a function contains the body
 * of a future that it borrows is shown by its type and by its code together: it reads the state at
 * the end of the pointers.
 *
 * What is hooked must not take arguments from the stack (no poll function does, as rustc makes
 * them; an optimiser that changed one's parameters might): the hook calls it from a frame of its
 * own.
 */
#include "runtime/futures.h"

#include "base/cleanup.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/elf/elf_image.h"
#include "binary/names.h"
#include "binary/dwarf/polls.h"
#include "runtime/poll_code.h"

#include <elf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* States of a coroutine: 0 not begun, 1 returned, 2 panicked, then the await points. */
enum { STATE_RETURNED = 1, STATE_PANICKED = 2 };
enum { REGISTER_BYTES = 8 };

/* The symbols of one address, as far as they may name a poll function. */
enum sort { NONE, CLOSURE, IMPL, ENTER };

struct scanner {
	struct elf_image *image;
	struct debug *d;
	const struct futures_wanted *wanted;
	uint64_t *panics; /* sorted */
	size_t n_panics;
	struct scan_futures *out;
	size_t cap;
	bool boxed; /* only what a vtable's poll slot leads to is read */
};

static bool ends(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

/* By the mangled name; what is wrong about it shows in the demangled one. */
static enum sort sort_of(const char *symbol)
{
	if (strstr(symbol, "7Context5enter"))
		return ENTER;
	if (!strncmp(symbol, "_ZN", 3)) {
		if (strstr(symbol, "closure$u7d$$u7d$17h"))
			return CLOSURE;
		return strstr(symbol, "..Future$GT$4poll17h") ? IMPL : NONE;
	}
	if (strncmp(symbol, "_R", 2) != 0)
		return NONE;
	if (!strncmp(symbol, "_RNC", 4) || !strncmp(symbol, "_RINC", 5))
		return CLOSURE;
	return strstr(symbol, "4poll") && strstr(symbol, "6Future") ? IMPL : NONE;
}

/* By the name of an impl: whether it may be that of a pointer, which polls what that leads to. */
static bool may_be_borrowed(const char *symbol)
{
	return symbol[1] == 'R' || strstr(symbol, "..pin..Pin$LT$") ||
	       strstr(symbol, "..boxed..Box$LT$") || strstr(symbol, "$RF$mut");
}

static bool matches(const char *pattern, const char *name)
{
	return strpbrk(pattern, "*?[") ? fnmatch(pattern, name, 0) == 0
				       : strstr(name, pattern) != NULL;
}

static bool any_matches(const char *const *patterns, const char *a, const char *b)
{
	for (; *patterns; patterns++)
		if (matches(*patterns, a) || matches(*patterns, b))
			return true;
	return false;
}

bool futures_want(const struct futures_wanted *w, const char *name, const char *full_name)
{
	if (w->include && *w->include && !any_matches(w->include, name, full_name))
		return false;
	return !w->exclude || !any_matches(w->exclude, name, full_name);
}

/* ---- what is returned ---- */

static const struct dw_variant *variant(const struct dw_type *t, const char *name)
{
	for (size_t i = 0; i < t->n_variants; i++)
		if (!strcmp(t->variants[i].member.name, name))
			return &t->variants[i];
	return NULL;
}

/* How the outcome shows in a Poll<T>. The active variant is given by its discriminant, where there
 * is one that can be found in registers. */
static void read_result(struct scan_future *f, const struct dw_poll *p)
{
	const struct dw_type *t = p->result;
	const struct dw_variant *pending = variant(t, "Pending"), *ready = variant(t, "Ready");
	uint32_t size = t->discr_size;
	uint64_t offset = t->discr_offset;

	f->memory = p->returns == DW_RETURNS_MEMORY;
	if (p->returns == DW_RETURNS_UNKNOWN || !pending || !ready || pending->is_default ||
	    (size != 1 && size != 2 && size != 4 && size != 8) || size > t->size ||
	    offset > t->size - size || offset > UINT32_MAX)
		return;
	f->pending = pending->value;
	f->result.size = (uint8_t)size;
	f->result.ready = ready->is_default || ready->value >= AR_ANY_READY
				  ? AR_ANY_READY
				  : (uint16_t)ready->value;
	if (f->memory) {
		f->result.from = AR_MEMORY;
		f->result.offset = (uint32_t)offset;
	} else if (offset == 0) {
		f->result.from = AR_FIRST;
	} else if (offset == REGISTER_BYTES) {
		f->result.from = AR_SECOND;
	}
}

/* ---- one candidate ---- */

static int set_names(struct scan_future *f, const struct dw_poll *p, const char *demangled)
{
	const char *full = demangled;

	if (f->borrowed) {
		full = p->borrowed->full_name;
		f->where = dw_coroutine_where(p->borrowed);
	} else if (p) {
		full = p->generated ? p->full_name : p->future->full_name;
		if (p->file && p->line && asprintf(&f->where, "%s:%u", p->file, p->line) < 0)
			f->where = NULL;
	}
	f->full_name = strdup(full);
	f->name = name_shorten(full);
	return f->full_name && f->name ? 0 : -ENOMEM;
}

/* How a coroutine's poll has ended is read from its state. */
static void set_state(struct scan_future *f, uint64_t offset, unsigned bytes)
{
	f->result = (struct agent_result){.offset = (uint32_t)offset,
					  .from = AR_STATE,
					  .size = (uint8_t)bytes,
					  .ready = STATE_RETURNED};
	f->pending = STATE_PANICKED;
}

/* Where a coroutine's future and state are, by its code. */
static void read_code(struct scanner *s, struct scan_future *f, uint64_t end,
		      const struct dw_type *t)
{
	unsigned bytes = t ? t->discr_size : 1;
	struct poll_code code;
	bool whole = poll_code_read(s->image, f->poll, end, t ? t->discr_offset : POLL_CODE_ANY,
				    bytes, s->panics, s->n_panics, &code);

	f->generated = t || (code.argument && code.returns && (code.resumed || code.suspends)) ||
		       (s->boxed && code.certain && code.resumed);
	f->memory = code.argument == 2;
	f->shown = code.certain;
	set_state(f, code.state_offset, bytes);
	if (!whole)
		f->trouble = "their code can't be decoded";
	else if (code.stack)
		f->trouble = "they take arguments from the stack";
	else if (!code.argument || code.state_offset > UINT32_MAX)
		f->trouble = "their state isn't where it should be";
}

/* Is the body of what is borrowed a part of this function? Else the function calls it, or what
 * does. */
static bool read_borrowed(struct scanner *s, struct scan_future *f, uint64_t end,
			  const struct dw_poll *p)
{
	const struct dw_type *t = p->borrowed;
	struct poll_code code;

	if (!t)
		return false;
	poll_code_read_borrowed(s->image, f->poll, end, t->discr_offset, t->discr_size,
				p->deref_count, &code);
	if (!code.argument || t->discr_offset > UINT32_MAX)
		return false;
	f->generated = true;
	f->borrowed = p->deref_count;
	f->borrowed_by = code.argument;
	f->shown = code.certain;
	set_state(f, t->discr_offset, t->discr_size);
	if (code.stack)
		f->trouble = "they take arguments from the stack";
	return true;
}

static void read_written(struct scanner *s, struct scan_future *f, uint64_t end,
			 const struct dw_poll *p)
{
	struct poll_code code;

	if (!p) {
		f->trouble = "no debug information says what they return";
		return;
	}
	read_result(f, p);
	if (p->returns == DW_RETURNS_UNKNOWN)
		f->trouble = "debug information does not say where they return";
	else if (!poll_code_read(s->image, f->poll, end, POLL_CODE_ANY, 1, NULL, 0, &code))
		f->trouble = "their code can't be decoded";
	else if (code.stack)
		f->trouble = "they take arguments from the stack";
}

static void future_done(struct scan_future *f)
{
	free(f->name);
	free(f->full_name);
	free(f->where);
}

/* Most closures are no coroutines, and to ask the debug information of each would take long in a
 * large program. Where the functions are known by which a coroutine panics that is polled after its
 * end, its code refers to one of them. */
static bool may_be_body(struct scanner *s, uint64_t start, uint64_t end)
{
	struct poll_code code;

	if (!s->n_panics)
		return true;
	poll_code_read(s->image, start, end, POLL_CODE_ANY, 1, s->panics, s->n_panics, &code);
	return code.resumed;
}

/* True: it is a poll function, and `f` says how it is hooked. */
static bool read_function(struct scanner *s, struct scan_future *f, uint64_t end, enum sort sort,
			  const struct dw_poll *p)
{
	if (p && sort != CLOSURE && read_borrowed(s, f, end, p))
		return true;
	if (p && (!p->future || p->generated != (sort == CLOSURE)))
		return false;
	if (sort == CLOSURE)
		read_code(s, f, end, p ? p->future : NULL);
	else if (sort == IMPL && s->wanted->written)
		read_written(s, f, end, p);
	else
		return false;
	return sort == IMPL || f->generated;
}

/* 1: ret is a future's poll function that is wanted; 0: not. */
static int read_one(struct scanner *s, const struct elf_symbol *symbol, enum sort sort,
		    struct scan_future *ret)
{
	struct scan_future f = {.poll = symbol->addr};
	struct dw_poll poll;
	_cleanup_free_ char *demangled = NULL;
	uint64_t start, end;
	bool known;
	int rc;

	if (!elf_image_function(s->image, symbol->addr, &start, &end) || start != symbol->addr ||
	    (sort == CLOSURE && !may_be_body(s, start, end)))
		return 0;
	known = s->d && debug_poll(s->d, symbol->addr, &poll);
	if (!read_function(s, &f, end, sort, known ? &poll : NULL))
		return 0;
	if (!known) {
		demangled = name_demangle(symbol->name);
		if (!demangled || (sort == IMPL && !ends(demangled, "::future::Future>::poll")))
			return 0;
	}
	if (known)
		f.type_key = dw_type_key(f.borrowed ? poll.borrowed : poll.future);
	rc = set_names(&f, known ? &poll : NULL, demangled);
	/* A closure in a future's clothes, a worker's main loop among them. */
	if (rc == 0 && !strstr(f.full_name, "::blocking::task::BlockingTask<") &&
	    futures_want(s->wanted, f.name, f.full_name)) {
		*ret = f;
		return 1;
	}
	future_done(&f);
	return rc;
}

const struct dw_type *find_future_type(struct debug *d, const struct scan_future *f)
{
	struct dw_poll poll;

	if (!debug_poll(d, f->poll, &poll))
		return NULL;
	return f->borrowed ? poll.borrowed : poll.future;
}

bool find_future_result(struct debug *d, const struct scan_future *f,
			struct agent_result *ret_result, uint64_t *ret_pending,
			const struct dw_type **ret_type)
{
	struct scan_future read = {0};
	struct dw_poll poll;

	if (!debug_poll(d, f->poll, &poll) || poll.generated || poll.future->size != f->value_bytes)
		return false;
	read_result(&read, &poll);
	*ret_result = read.result;
	*ret_pending = read.pending;
	*ret_type = poll.future;
	return read.result.from != AR_UNKNOWN;
}

/* ---- all of them ---- */

static int add(struct scanner *s, const struct scan_future *f)
{
	struct scan_futures *out = s->out;

	if (!GROW(out->v, out->n, s->cap))
		return -ENOMEM;
	out->v[out->n++] = *f;
	return 0;
}

static int find_panics(struct scanner *s, const struct elf_symbol *symbols, size_t n)
{
	size_t cap = 0;

	for (size_t i = 0; i < n; i++) {
		if (symbols[i].type != STT_FUNC || !strstr(symbols[i].name, "panic_const_") ||
		    (!strstr(symbols[i].name, "async_fn_resumed") &&
		     !strstr(symbols[i].name, "coroutine_resumed")))
			continue;
		if (!GROW(s->panics, s->n_panics, cap))
			return -ENOMEM;
		s->panics[s->n_panics++] = symbols[i].addr;
	}
	return 0;
}

/* All or nothing: a function of which one use can't be changed is left alone. */
static void judge_uses(struct scan_future *f)
{
	for (size_t i = 0; i < f->n_uses && !f->trouble; i++) {
		if (f->uses[i].kind == REF_NUMBER)
			f->trouble = "code has their address as a number";
		else if (f->uses[i].kind == REF_UNSURE)
			f->trouble = "what looks like a call of them can't be decoded";
	}
	if (!f->n_uses && !f->trouble)
		f->trouble = "nothing calls them";
}

static int find_uses(struct scan_futures *out, struct elf_image *image)
{
	_cleanup_free_ uint64_t *targets = calloc(out->n + 1, sizeof(*targets));

	if (!targets)
		return -ENOMEM;
	for (size_t i = 0; i < out->n; i++)
		targets[i] = out->v[i].poll;
	TRY(code_refs_find(image, targets, out->n, CODE_REFS_ALL, &out->uses));
	for (size_t i = 0; i < out->n; i++) {
		out->v[i].uses = code_refs_of(&out->uses, out->v[i].poll, &out->v[i].n_uses);
		judge_uses(&out->v[i]);
	}
	return 0;
}

static int find_holders(struct scanner *s, const struct elf_symbol *symbols, size_t n);

int found_futures_find(struct elf_image *image, struct debug *d,
		       const struct futures_wanted *wanted, struct scan_futures *ret)
{
	struct scanner s = {.image = image, .d = d, .wanted = wanted, .out = ret};
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);
	uint64_t last = 0;
	int rc;

	*ret = (struct scan_futures){.debug = d != NULL};
	rc = find_panics(&s, symbols, n);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		enum sort sort = symbols[i].type == STT_FUNC ? sort_of(symbols[i].name) : NONE;
		struct scan_future f;

		if (sort == NONE || symbols[i].addr == last ||
		    (sort == IMPL && !wanted->written && !may_be_borrowed(symbols[i].name)) ||
		    !elf_image_is_code(image, symbols[i].addr))
			continue;
		rc = read_one(&s, &symbols[i], sort, &f);
		if (rc == 1) {
			last = f.poll;
			rc = add(&s, &f);
			if (rc < 0)
				future_done(&f);
		}
	}
	free(s.panics);
	if (rc >= 0)
		rc = find_uses(ret, image);
	if (rc >= 0)
		rc = find_holders(&s, symbols, n);
	if (rc < 0)
		found_futures_done(ret);
	return rc < 0 ? rc : 0;
}

/* ---- those in boxes ---- */

/* A vtable: what drops the value, its size and its alignment, then the methods. Of a `dyn Future`
 * there is one. */
enum { VTABLE_DROP = 24, VTABLE_SIZE = 16, VTABLE_ALIGN = 8 };
#define MAX_ALIGN 4096u
#define MAX_NAMES 3u

static bool image_u64(const struct elf_image *image, uint64_t addr, uint64_t *ret)
{
	size_t left;
	const uint8_t *bytes = elf_image_bytes(image, addr, &left);

	if (!bytes || left < sizeof(*ret))
		return false;
	memcpy(ret, bytes, sizeof(*ret));
	return true;
}

/* Whether the word is the poll slot of a vtable, of a value of this size. */
static bool is_poll_slot(struct elf_image *image, uint64_t slot, uint64_t *ret_size)
{
	uint64_t align, drop = 0;

	if (slot < VTABLE_DROP || !image_u64(image, slot - VTABLE_SIZE, ret_size) ||
	    !image_u64(image, slot - VTABLE_ALIGN, &align))
		return false;
	if (!elf_image_pointer_at(image, slot - VTABLE_DROP, &drop) &&
	    (!image_u64(image, slot - VTABLE_DROP, &drop) || drop))
		return false; /* neither a function nor nothing */
	return *ret_size && align && align <= MAX_ALIGN && !(align & (align - 1)) &&
	       *ret_size % align == 0 && (!drop || elf_image_is_code(image, drop));
}

/* Keeps the uses that are poll slots, all of them after each other as before. */
static void keep_poll_slots(struct elf_image *image, struct code_refs *uses)
{
	size_t n = 0;
	uint64_t size;

	for (size_t i = 0; i < uses->n; i++)
		if (is_poll_slot(image, uses->v[i].operand, &size))
			uses->v[n++] = uses->v[i];
	uses->n = n;
}

/* Code of one function may be that of several types: the smallest one's size, and the largest one's. */
static uint64_t sizes(struct elf_image *image, const struct code_ref *uses, size_t n,
		      uint64_t *ret_largest)
{
	uint64_t least = UINT64_MAX, size;

	*ret_largest = 0;
	for (size_t i = 0; i < n; i++) {
		if (!is_poll_slot(image, uses[i].operand, &size))
			continue;
		least = size < least ? size : least;
		*ret_largest = size > *ret_largest ? size : *ret_largest;
	}
	return least;
}

/* ---- their names, where poll functions have none ---- */

/* A legacy symbol of a generic function lacks its parameters: those of all of a web server's handlers
 * are one name. But the first word of the vtable is the function that drops the future, whose symbol has
 * the future's whole type. */

/* Copies a name without what is in angle brackets. */
static char *without_parameters(const char *name)
{
	char *bare = strdup(name), *to = bare;
	unsigned depth = 0;

	for (const char *c = name; bare && *c; c++) {
		if (*c == '<')
			depth++;
		else if (*c == '>' && depth && c > name && c[-1] != '-')
			depth--;
		else if (!depth)
			*to++ = *c;
	}
	if (bare)
		*to = '\0';
	return bare;
}

/* The type that a function drops, if that is one that `bare` polls; NULL: it is not. free() it. */
static char *dropped_type(const char *symbol, const char *bare)
{
	static const char prefix[] = "core::ptr::drop_in_place<";
	_cleanup_free_ char *name = name_demangle(symbol), *type_bare = NULL;
	size_t len = name ? strlen(name) : 0;
	char *type;

	if (!name || strncmp(name, prefix, strlen(prefix)) != 0 || name[len - 1] != '>')
		return NULL;
	name[len - 1] = '\0';
	type = strdup(name + strlen(prefix));
	type_bare = type ? without_parameters(type) : NULL;
	if (type_bare && !strcmp(type_bare, bare))
		return type;
	free(type);
	return NULL;
}

static int add_dropped(struct scan_future *f, const char *type)
{
	_cleanup_free_ char *shortened = name_shorten(type);
	char *name, *full;

	if (!shortened)
		return -ENOMEM;
	if (f->n_types == 0) {
		name = strdup(shortened);
		full = strdup(type);
	} else {
		if (asprintf(&name, "%s or %s", f->name, shortened) < 0)
			name = NULL;
		if (asprintf(&full, "%s or %s", f->full_name, type) < 0)
			full = NULL;
	}
	if (!name || !full) {
		free(name);
		free(full);
		return -ENOMEM;
	}
	free(f->name);
	free(f->full_name);
	f->name = name;
	f->full_name = full;
	f->n_types++;
	return 0;
}

/* Functions that do the same are one: then there are several names. */
static int name_by_drop(struct scanner *s, struct scan_future *f)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(s->image, &symbols);
	_cleanup_free_ char *bare = without_parameters(f->full_name);
	uint64_t drop, before = 0;
	int rc = bare ? 0 : -ENOMEM;

	for (size_t i = 0; i < f->n_uses && rc == 0; i++) {
		if (!elf_image_pointer_at(s->image, f->uses[i].operand - VTABLE_DROP, &drop) ||
		    drop == before)
			continue;
		before = drop;
		size_t k = PARTITION_POINT(j, 0, n, symbols[j].addr < drop);
		for (; k < n && symbols[k].addr == drop && f->n_types < MAX_NAMES && rc == 0; k++) {
			_cleanup_free_ char *type = dropped_type(symbols[k].name, bare);

			if (type && (!f->n_types || !strstr(f->full_name, type)))
				rc = add_dropped(f, type);
			f->drop = type ? drop : f->drop;
		}
	}
	return rc;
}

/* Whether a future of this poll function may hold a coroutine: by a parameter of its type, since
 * a coroutine's type has no name. Pointers only pass the poll on. */
static bool may_hold_coroutine(const char *demangled)
{
	const char *type = demangled + 1, *end = strstr(demangled, " as core::future::");

	return *demangled == '<' && end && memchr(type, '<', (size_t)(end - type)) &&
	       strncmp(type, "core::pin::Pin<", 15) != 0 &&
	       strncmp(type, "alloc::boxed::Box<", 18) != 0 && *type != '&';
}

/* As read_boxed(), of one whose poll was written by hand. */
static int read_boxed_written(struct scanner *s, const struct elf_symbol *symbol,
			      const struct code_ref *slots, size_t n, struct scan_future *ret)
{
	_cleanup_free_ char *demangled = name_demangle(symbol->name);
	struct scan_future f = {.poll = symbol->addr, .written = true, .uses = slots, .n_uses = n};
	uint64_t start, end, largest;
	struct poll_code code;

	if (!demangled || !ends(demangled, "::future::Future>::poll") ||
	    !may_hold_coroutine(demangled) ||
	    !elf_image_function(s->image, symbol->addr, &start, &end) || start != symbol->addr)
		return 0;
	f.value_bytes = sizes(s->image, slots, n, &largest);
	if (largest != f.value_bytes)
		f.trouble = "one function polls futures of several types";
	else if (!poll_code_read(s->image, start, end, POLL_CODE_ANY, 1, NULL, 0, &code))
		f.trouble = "their code can't be decoded";
	else if (code.stack)
		f.trouble = "they take arguments from the stack";
	TRY(set_names(&f, NULL, demangled));
	*ret = f;
	return 1;
}

/* 1: ret is a coroutine, or may hold one; 0: not. */
static int read_boxed(struct scanner *s, const struct elf_symbol *symbol, struct scan_future *ret)
{
	size_t n;
	const struct code_ref *slots = code_refs_of(&s->out->uses, symbol->addr, &n);
	uint64_t largest;

	if (!slots)
		return 0;
	if (sort_of(symbol->name) == IMPL)
		return read_boxed_written(s, symbol, slots, n, ret);
	int rc = read_one(s, symbol, CLOSURE, ret);

	if (rc != 1)
		return rc;
	ret->uses = slots;
	ret->n_uses = n;
	ret->value_bytes = sizes(s->image, slots, n, &largest);
	if (!strncmp(symbol->name, "_ZN", 3) && (rc = name_by_drop(s, ret)) < 0) {
		future_done(ret);
		return rc;
	}
	if (!ret->trouble && ret->value_bytes < ret->result.offset + (uint64_t)ret->result.size)
		ret->trouble = "their state isn't where it should be";
	return 1;
}

static bool is_candidate(const struct scanner *s, const struct elf_symbol *symbol)
{
	enum sort sort = symbol->type == STT_FUNC ? sort_of(symbol->name) : NONE;

	return (sort == CLOSURE || sort == IMPL) && elf_image_is_code(s->image, symbol->addr);
}

static int find_poll_slots(struct scanner *s, const struct elf_symbol *symbols, size_t n)
{
	_cleanup_free_ uint64_t *targets = calloc(n + 1, sizeof(*targets));
	size_t n_targets = 0;

	if (!targets)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (is_candidate(s, &symbols[i]))
			targets[n_targets++] = symbols[i].addr;
	TRY(code_refs_find(s->image, targets, n_targets, CODE_REFS_WORDS, &s->out->uses));
	keep_poll_slots(s->image, &s->out->uses);
	return 0;
}

/* One function may drop futures of several types, and have the symbol of one of them. */
static int add_another(struct scan_futures *all)
{
	for (size_t i = 0; i < all->n; i++) {
		struct scan_future *f = &all->v[i];
		uint32_t n = 0;

		for (size_t k = 0; k < all->n && f->n_types; k++)
			n += all->v[k].n_types && all->v[k].drop == f->drop;
		for (unsigned k = 0; k < 2 && n > f->n_types; k++) {
			char **name = k ? &f->full_name : &f->name, *longer;

			if (asprintf(&longer, "%s or another", *name) < 0)
				return -ENOMEM;
			free(*name);
			*name = longer;
		}
	}
	return 0;
}

/* ---- methods that hold a future ---- */

/*
 * hyper's connection of HTTP/1 keeps what `service_fn` or a `Service` has given in a
 * Pin<Box<Option<F>>>, and polls it when it looks for something to write; it reads requests, and makes
 * the future, elsewhere.
 *
 * The method is called at one place, and may be a part of its caller, which has all of that in it but for
 * what makes the future, and what writes to the socket after it has returned. If that is a part of its own
 * caller, too, only the object shows that there are such futures.
 *
 * Source: hyper/src/proto/h1/dispatch.rs, struct Server, impl Dispatch for Server, 0.14 to 1.12.
 */
static const struct future_holder holders[] = {
	{HOLDER_POLLS,
	 "hyper::proto::h1::dispatch::Dispatcher<",
	 "::poll_write",
	 "hyper::proto::h1::dispatch::Server<",
	 {"dispatch", "in_flight"}},
	{HOLDER_AROUND,
	 "hyper::proto::h1::dispatch::Dispatcher<",
	 "::poll_catch",
	 "hyper::proto::h1::dispatch::Server<",
	 {"dispatch", "in_flight"}},
	{HOLDER_LOOK,
	 "hyper::proto::h1::dispatch::Dispatcher<",
	 "::poll_flush",
	 "hyper::proto::h1::dispatch::Server<",
	 {"dispatch", "in_flight"}},
	{HOLDER_MAKES,
	 "hyper::proto::h1::dispatch::Server<",
	 "::recv_msg",
	 "hyper::proto::h1::dispatch::Server<",
	 {"dispatch", "in_flight"}},
};

const struct future_holder *future_holder_object(const char *symbol)
{
	/* Few have both words. */
	if (!strstr(symbol, "dispatch") || !strstr(symbol, "Server"))
		return NULL;
	_cleanup_free_ char *name = name_demangle(symbol);

	for (size_t i = 0; name && i < sizeof(holders) / sizeof(holders[0]); i++)
		if (strstr(name, holders[i].object))
			return &holders[i];
	return NULL;
}

const struct future_holder *future_holder_method(const char *symbol)
{
	static const char *const methods[] = {"10poll_write", "10poll_catch", "10poll_flush",
					      "8recv_msg"};
	bool may_be = false;

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		may_be = may_be || strstr(symbol, methods[i]);
	if (!may_be || !strstr(symbol, "dispatch"))
		return NULL;
	_cleanup_free_ char *name = name_demangle(symbol);
	const char *bare = name ? name + (*name == '<') : NULL;

	for (size_t i = 0; bare && i < sizeof(holders) / sizeof(holders[0]); i++)
		if (!strncmp(bare, holders[i].begin, strlen(holders[i].begin)) &&
		    ends(name, holders[i].end))
			return &holders[i];
	return NULL;
}

static int read_holder(struct scanner *s, const struct elf_symbol *symbol)
{
	struct scan_future f = {.poll = symbol->addr};
	uint64_t start, end;
	struct poll_code code;

	f.holder = symbol->type == STT_FUNC ? future_holder_method(symbol->name) : NULL;
	if (!f.holder)
		return 0;
	f.full_name = name_demangle(symbol->name);
	f.name = f.full_name ? name_shorten(f.full_name) : NULL;
	set_state(&f, 0, 1);
	if (!elf_image_function(s->image, symbol->addr, &start, &end) || start != symbol->addr ||
	    !poll_code_read(s->image, start, end, POLL_CODE_ANY, 1, NULL, 0, &code))
		f.trouble = "their code can't be decoded";
	else if (code.stack)
		f.trouble = "they take arguments from the stack";
	int rc = f.name ? add(s, &f) : -ENOMEM;

	if (rc < 0)
		future_done(&f);
	return rc;
}

/* They come after the others. */
static int find_holders(struct scanner *s, const struct elf_symbol *symbols, size_t n)
{
	struct scan_futures *out = s->out;
	size_t first = out->n;
	uint64_t last = 0;

	for (size_t i = 0; i < n; i++) {
		size_t before = out->n;

		if (symbols[i].addr == last || !elf_image_is_code(s->image, symbols[i].addr))
			continue;
		TRY(read_holder(s, &symbols[i]));
		out->holds = out->holds || future_holder_object(symbols[i].name);
		last = out->n > before ? symbols[i].addr : last;
	}
	if (out->n == first)
		return 0;
	_cleanup_free_ uint64_t *targets = calloc(out->n - first, sizeof(*targets));

	if (!targets)
		return -ENOMEM;
	for (size_t i = first; i < out->n; i++)
		targets[i - first] = out->v[i].poll;
	TRY(code_refs_find(s->image, targets, out->n - first, CODE_REFS_ALL, &out->holder_uses));
	for (size_t i = first; i < out->n; i++) {
		struct scan_future *f = &out->v[i];

		f->uses = code_refs_of(&out->holder_uses, f->poll, &f->n_uses);
		judge_uses(f);
	}
	return 0;
}

int found_boxed_find(struct elf_image *image, struct scan_futures *ret)
{
	static const struct futures_wanted all = {0};
	struct scanner s = {.image = image, .wanted = &all, .out = ret, .boxed = true};
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);
	uint64_t last = 0;
	int rc;

	*ret = (struct scan_futures){.boxed = true};
	rc = find_panics(&s, symbols, n);
	if (rc == 0)
		rc = find_poll_slots(&s, symbols, n);
	for (size_t i = 0; i < n && rc >= 0; i++) {
		struct scan_future f;

		if (!is_candidate(&s, &symbols[i]) || symbols[i].addr == last)
			continue;
		rc = read_boxed(&s, &symbols[i], &f);
		if (rc == 1) {
			last = f.poll;
			rc = add(&s, &f);
			if (rc < 0)
				future_done(&f);
		}
	}
	free(s.panics);
	if (rc >= 0)
		rc = add_another(ret);
	if (rc >= 0)
		rc = find_holders(&s, symbols, n);
	if (rc < 0)
		found_futures_done(ret);
	return rc < 0 ? rc : 0;
}

void found_futures_done(struct scan_futures *f)
{
	for (size_t i = 0; i < f->n; i++)
		future_done(&f->v[i]);
	free(f->v);
	code_refs_done(&f->uses);
	code_refs_done(&f->holder_uses);
	*f = (struct scan_futures){0};
}
