/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stripped program still carries the places of its panics: a core::panic::Location { file, its
 * length, line, column } in read-only data for each. Two of them are useful here.
 *
 *   - Every async fn and async block can panic when it is polled after its end. That panic's place
 *     is its first line. So the call of panic_const_async_fn_resumed in the poll function of a
 *     kind's future says where that future is written. The function is known by the message that
 *     it prints.
 *   - A worker's main loop panics at many places in "scheduler/multi_thread/", no other blocking
 *     task does so near its beginning; and the worker that block_in_place starts is made next to
 *     the message that it can't.
 *
 * Of several places (futures inlined into each other) the name has one, the program's own before
 * its libraries'. Programs built with -Zlocation-detail=none have none of this.
 */
#include "runtime/panic_places.h"

#include "base/compare.h"
#include "binary/machine.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "binary/code/code_index.h"
#include "binary/code/own_code.h"
#include "runtime/find.h"
#include "runtime/follow.h"
#include "runtime/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define POLL_DEPTH 4u
#define WORKER_DEPTH 12u
#define MAX_PLACES 4u
#define MAX_FILE_BYTES 1024u
#define MIN_WORKER_PLACES 10u /* seen: 15 to 41 from a worker's poll, 0 or 1 from others */
#define MAX_INSTRUCTIONS 2000000u

static const char worker_folder[] = "/scheduler/multi_thread/";
static const char resumed_text[] = "`async fn` resumed after completion";
static const char block_in_place_text[] =
	"can call blocking only when running on the multi-threaded runtime";

struct location {
	const char *file;
	size_t len;
	uint32_t line;
};

/* What the panics of one function show. */
struct panic_facts {
	uint64_t places[MAX_PLACES]; /* Locations of async fns that are polled in it */
	size_t n_places;
	size_t n_worker; /* places in scheduler/multi_thread */
	bool block_in_place;
};

struct places {
	struct elf_image *image;
	struct follower *follower;
	uint64_t resumed;     /* panic_const_async_fn_resumed */
	uint64_t messages[8]; /* of block_in_place, and words that point to them */
	size_t n_messages;
	struct map known;    /* function -> struct panic_facts */
	size_t n_insns_left; /* instructions that may still be decoded */
	/* the walk under way */
	const struct panic_facts *found;
	size_t n_worker;
};

static bool read_location(struct elf_image *image, uint64_t addr, struct location *ret)
{
	uint64_t file, len, line;
	const char *text;
	size_t left;

	if (!elf_image_pointer_at(image, addr, &file) || !tables_word(image, addr + 8, &len) ||
	    !tables_word(image, addr + 16, &line) || len < 4 || len > MAX_FILE_BYTES)
		return false;
	text = (const char *)elf_image_bytes(image, file, &left);
	if (!text || left < len)
		return false;
	if (text[len - 1] == 0) /* some versions of Rust count a final 0 */
		len--;
	if (memcmp(text + len - 3, ".rs", 3) != 0 || (uint32_t)line == 0 || line >> 32 == 0)
		return false;
	*ret = (struct location){text, len, (uint32_t)line};
	return true;
}

/* The addresses of a text in read-only data and of the words that point to it (a message may be
 * reached through a table of its pieces), sorted. A text may be there more than once. */
static size_t find_text(struct elf_image *image, const char *text, uint64_t *ret, size_t max)
{
	const struct elf_pointer *p;
	size_t n_pointers = elf_image_pointers(image, &p), n = 0, texts;

	for (uint64_t at = 0; n < max && (at = elf_image_find(image, at, text, strlen(text))); at++)
		ret[n++] = at;
	texts = n;
	for (size_t i = 0; i < n_pointers && texts > 0; i++) {
		for (size_t k = 0; k < texts && n < max; k++) {
			if (p[i].target == ret[k])
				ret[n++] = p[i].slot;
		}
	}
	qsort(ret, n, sizeof(*ret), compare_u64);
	return n;
}

/* The function that prints the message: the one whose code takes it, directly or by its table. */
static int find_resumed(struct places *p)
{
	_cleanup_(code_refs_done) struct code_refs refs = {0};
	uint64_t targets[8];
	size_t n = find_text(p->image, resumed_text, targets, 8);
	int r;

	r = code_refs_find(p->image, targets, n, CODE_REFS_TAKEN, &refs);
	/* One function, or it isn't clear which. */
	for (size_t i = 0; i < refs.n; i++) {
		if (i > 0 && refs.v[i].function != p->resumed)
			p->resumed = 0;
		else
			p->resumed = refs.v[i].function;
	}
	return r;
}

static void note_place(struct panic_facts *s, uint64_t place)
{
	for (size_t i = 0; i < s->n_places; i++) {
		if (s->places[i] == place)
			return;
	}
	if (s->n_places < MAX_PLACES)
		s->places[s->n_places++] = place;
}

static bool is_in(const struct location *l, const char *path_end)
{
	size_t n = strlen(path_end);

	return l->len > n && memcmp(l->file + l->len - n, path_end, n) == 0;
}

static bool is_message(const struct places *p, uint64_t addr)
{
	return addr && bsearch(&addr, p->messages, p->n_messages, sizeof(addr), compare_u64);
}

struct listening {
	struct places *p;
	struct panic_facts *facts;
	uint64_t last; /* a place that is the first argument of the next call */
};

static bool hear(const struct insn *in, size_t passed, void *opaque)
{
	struct listening *l = opaque;
	struct places *p = l->p;
	uint64_t taken, target;
	struct location place;

	if (passed >= p->n_insns_left) {
		p->n_insns_left = 0;
		return false;
	}
	p->n_insns_left -= passed;
	if (!in)
		return false;
	taken = in->op == INSN_LEA ? in->ref : in->has_imm ? in->imm : 0;
	target = in->target;
	if (!target && in->slot)
		elf_image_pointer_at(p->image, in->slot, &target);
	if (p->resumed && target == p->resumed && l->last)
		note_place(l->facts, l->last);
	if (is_message(p, taken))
		l->facts->block_in_place = true;
	if (taken && read_location(p->image, taken, &place)) {
		l->facts->n_worker += memmem(place.file, place.len, worker_folder,
					     sizeof(worker_folder) - 1) != NULL;
		l->last = in->reg == elf_image_machine(p->image)->args[0] ? taken : 0;
	} else if (in->flow != INSN_NEXT) {
		l->last = 0;
	}
	return --p->n_insns_left > 0;
}

static const struct panic_facts *facts_of(struct places *p, uint64_t function)
{
	struct panic_facts *s = map_get(&p->known, function, 0);
	struct listening l = {.p = p};

	if (s)
		return s;
	l.facts = s = map_new(&p->known, function, 0, sizeof(*s));
	if (s && p->n_insns_left > 0 && follower_read(p->follower, function, hear, &l) < 0)
		return NULL;
	return s;
}

/* Whose code a file is. */
enum owner { OWN, LIBRARY, RUNTIME, N_OWNERS };

static bool has(const struct location *l, const char *text)
{
	return memmem(l->file, l->len, text, strlen(text)) != NULL;
}

/* Cargo gives the compiler relative paths of a workspace's files, absolute ones of what it fetched;
 * other builders give absolute paths of all. */
static enum owner owner_of(const struct location *l)
{
	static const char *const glue[] = {"/tokio-", "/futures-", "/pyo3-", "/napi-", "/sqlx-"};

	if (!has(l, "/registry/src/") && !has(l, "/git/checkouts/") && !has(l, "/rustc/"))
		return OWN;
	for (size_t i = 0; i < sizeof(glue) / sizeof(glue[0]); i++) {
		if (has(l, glue[i]))
			return RUNTIME;
	}
	return LIBRARY;
}

static enum owner best_owner(struct elf_image *image, const struct panic_facts *s)
{
	enum owner best = N_OWNERS;
	struct location l;

	for (size_t i = 0; i < s->n_places; i++) {
		if (read_location(image, s->places[i], &l) && owner_of(&l) < best)
			best = owner_of(&l);
	}
	return best;
}

static enum follow_step visit_poll(uint64_t addr, const struct elf_symbol *symbol, void *opaque)
{
	struct places *p = opaque;
	const struct panic_facts *s = facts_of(p, addr);

	(void)symbol;
	if (s && s->n_places > 0 &&
	    (!p->found || best_owner(p->image, s) < best_owner(p->image, p->found)))
		p->found = s;
	return p->found && best_owner(p->image, p->found) == OWN ? FOLLOW_STOP : FOLLOW_INTO;
}

static enum follow_step visit_worker(uint64_t addr, const struct elf_symbol *symbol, void *opaque)
{
	struct places *p = opaque;
	const struct panic_facts *s = facts_of(p, addr);

	(void)symbol;
	p->n_worker += s ? s->n_worker : 0;
	return p->n_worker >= MIN_WORKER_PLACES ? FOLLOW_STOP : FOLLOW_INTO;
}

/* True if the site's function, or one that calls it, has the message of block_in_place. */
static bool made_by_block_in_place(struct places *p, struct code_index *calls,
				   const struct scan_kind *k)
{
	uint64_t functions[16], end;
	size_t n = 0;

	for (size_t i = 0; i < k->n_sites && n < 4; i++) {
		if (elf_image_function(p->image, k->sites[i].addr, &functions[n], &end))
			n++;
	}
	for (size_t i = 0; i < n; i++) {
		const struct panic_facts *s = facts_of(p, functions[i]);
		const uint64_t *c;
		size_t n_calls;

		if (s && s->block_in_place)
			return true;
		c = code_index_calls(calls, functions[i], &n_calls);
		for (size_t j = 0; j < n_calls && n_calls <= 3 && n < 16; j++) {
			if (elf_image_function(p->image, c[j], &functions[n], &end))
				n++;
		}
	}
	return false;
}

static void places_done(struct places *p)
{
	map_free(&p->known, free);
	follower_free(p->follower);
}

/* A path without the machine that built it: of a relative one all; else what follows the folder of
 * fetched crates, or the crate's folder and what is in it. */
static const char *without_root(const struct location *l)
{
	static const char *const folders[] = {"/registry/src/", "/git/checkouts/"};
	const char *end = l->file + l->len, *from;

	for (size_t i = 0; i < 2; i++) {
		from = memmem(l->file, l->len, folders[i], strlen(folders[i]));
		if (!from)
			continue;
		from += strlen(folders[i]);
		from = memchr(from, '/', (size_t)(end - from));
		return from ? from + 1 : l->file;
	}
	from = *l->file == '/' ? memmem(l->file, l->len, "/src/", 5) : NULL;
	if (from) {
		while (from > l->file && from[-1] != '/')
			from--;
		return from;
	}
	return l->file;
}

/* "kind 3 (src/main.rs:12)": of futures inlined into each other the program's own. The full name is
 * all places, as the compiler knew them. */
static int write_places(struct places *p, struct scan_kind *k)
{
	enum owner best = best_owner(p->image, p->found);
	struct buf name = BUF_INIT, full = BUF_INIT;
	struct location l;

	buf_str(&name, k->name);
	buf_str(&full, "");
	for (size_t i = 0; i < p->found->n_places; i++) {
		if (!read_location(p->image, p->found->places[i], &l))
			continue;
		if (full.len)
			buf_str(&full, " or ");
		buf_add(&full, l.file, l.len);
		buf_printf(&full, ":%u", l.line);
		if (owner_of(&l) == best) {
			const char *from = without_root(&l);

			buf_printf(&name, " (%.*s:%u)", (int)(l.file + l.len - from), from, l.line);
			best = N_OWNERS;
		}
	}
	free(k->name);
	free(k->full_name);
	k->name = buf_steal(&name);
	k->full_name = buf_steal(&full);
	return k->name && k->full_name ? 0 : -ENOMEM;
}

static int name_kind(struct places *p, struct code_index *calls, struct scan_kind *k, size_t *named)
{
	int r;

	p->found = NULL;
	p->n_worker = 0;
	if (k->role == TR_BLOCKING) {
		r = follow(p->follower, k->slots[TF_POLL].function, WORKER_DEPTH, visit_worker, p);
		if (r < 0)
			return r;
	}
	if (p->n_worker >= MIN_WORKER_PLACES) {
		k->role = TR_WORKER;
		k->block_in_place = made_by_block_in_place(p, calls, k);
		free(k->name);
		k->name = strdup(find_worker_name(k->block_in_place));
		(*named)++;
		return k->name ? 0 : -ENOMEM;
	}
	r = follow(p->follower, k->slots[TF_POLL].function, POLL_DEPTH, visit_poll, p);
	if (r < 0 || !p->found)
		return r;
	(*named)++;
	return write_places(p, k);
}

int panic_places_find(struct elf_image *image, struct runtime_scan *f, size_t first,
		      size_t *ret_named)
{
	_cleanup_(places_done) struct places p = {
		.image = image, .follower = follower_new(image), .n_insns_left = MAX_INSTRUCTIONS};
	struct code_index *calls = code_index_of(image);
	int r = p.follower && calls ? 0 : -ENOMEM;

	*ret_named = 0;
	if (r == 0)
		r = find_resumed(&p);
	p.n_messages = find_text(image, block_in_place_text, p.messages,
				 sizeof(p.messages) / sizeof(p.messages[0]));
	for (size_t i = first; i < f->n_kinds && r == 0; i++)
		r = name_kind(&p, calls, &f->kinds[i], ret_named);
	return r;
}

void panic_places_in_place(struct elf_image *image, struct code_index *calls,
			   const struct scan_kind *kinds, size_t n, bool *ret)
{
	_cleanup_(places_done) struct places p = {
		.image = image, .follower = follower_new(image), .n_insns_left = MAX_INSTRUCTIONS};

	p.n_messages = find_text(image, block_in_place_text, p.messages,
				 sizeof(p.messages) / sizeof(p.messages[0]));
	for (size_t i = 0; i < n; i++)
		ret[i] = p.follower && kinds[i].role == TR_WORKER && p.n_messages &&
			 made_by_block_in_place(&p, calls, &kinds[i]);
}

struct file_walk {
	struct elf_image *image;
	const char *path_end;
	bool found;
};

static bool panics_in(struct file_walk *w, uint64_t function)
{
	uint64_t start, end;
	_cleanup_(own_code_done) struct own_code code = {0};
	struct location place;
	struct insn in;
	size_t passed;

	if (!elf_image_function(w->image, function, &start, &end) ||
	    !own_code_init(&code, w->image, start, end))
		return false;
	while (own_code_next_reference(&code, &in, &passed) > 0) {
		uint64_t taken = in.op == INSN_LEA ? in.ref : in.has_imm ? in.imm : 0;

		if (taken && read_location(w->image, taken, &place) && is_in(&place, w->path_end))
			return true;
	}
	return false;
}

static enum follow_step visit_file(uint64_t addr, const struct elf_symbol *symbol, void *opaque)
{
	struct file_walk *w = opaque;

	(void)symbol;
	w->found = panics_in(w, addr);
	return w->found ? FOLLOW_STOP : FOLLOW_INTO;
}

bool panic_places_in(struct elf_image *image, struct follower *follower, uint64_t function,
		     unsigned depth, const char *path_end)
{
	struct file_walk w = {.image = image, .path_end = path_end};

	if (panics_in(&w, function))
		return true;
	return follow(follower, function, depth, visit_file, &w) == 0 && w.found;
}
