/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The walker: from a future's type and address to its await tree.
 *
 * The rules, in this order:
 *   1. a coroutine: its state gives the await point; `__awaitee` is walked, then locals that hold
 *      futures which were begun, unless they were moved out of (moved.c)
 *   2. a known leaf ends the path
 *   3. a pair of pointer and vtable of `dyn Future`: the vtable gives the concrete type
 *   4. a fat slice: each element
 *   5. an enum: the variant that lives
 *   6. a closure (what join!, select! and poll_fn poll): members and what its references lead to
 *   7. FuturesUnordered: its list
 *   8. any other structure: members whose type can hold a future; through Box, Pin and &mut
 * Everything is bounded: depth, nodes, elements, steps; a future is walked once per path.
 */
#include "future/moved.h"
#include "future/type_class.h"

#include "base/error.h"
#include "binary/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEFAULT_DEPTH = 256,
	DEFAULT_NODES = 20000,
	MAX_ELEMENTS = 4096,
	MAX_STEPS = 1 << 20, /* of one tree: fifty per node */
};

/* One per type: a hundred thousand tasks have a handful of types. */
static const char *short_name(struct walk *w, const struct dw_type *t)
{
	char *name = map_get(w->ctx->names, (uint64_t)(uintptr_t)t, 0);

	if (name)
		return name;
	name = name_shorten(t->full_name);
	if (name && map_put(w->ctx->names, (uint64_t)(uintptr_t)t, 0, name) < 0) {
		free(name);
		name = NULL;
	}
	return name ? name : t->full_name;
}

static void node_note(struct walk *w, struct await_node *parent, const char *text)
{
	struct await_node *n = await_node_new(w, AN_NOTE, NULL, 0);

	if (n)
		n->name = n->detail = strdup(text);
	await_node_add(parent, n);
}

/* ---- the rules ---- */

/* In the place of an address. */
#define EMPTY_TYPE UINT64_MAX

static void walk_type(struct walk *w, struct await_node *parent, const struct dw_type *t,
		      uint64_t addr, unsigned depth);

/* futures' try_join! is in the file of its join! and keeps the same things, but comes after it: at
 * line 105 (since 0.3.18 or so), 107 (0.3.12), join! at 95 and 97. In 0.3.5 they are at 97 and 87,
 * and both are called join!. */
const char *await_macro(const char *file, uint32_t line)
{
	static const struct {
		const char *end, *name;
		uint32_t first; /* lines from here on */
	} macros[] = {
		{"/src/macros/join.rs", "join!", 0},
		{"/src/macros/try_join.rs", "try_join!", 0},
		{"/src/macros/select.rs", "select!", 0},
		{"/async_await/join_mod.rs", "try_join!", 100},
		{"/async_await/join_mod.rs", "join!", 0},
		{"/async_await/select_mod.rs", "select!", 0},
	};

	for (size_t i = 0; file && i < sizeof(macros) / sizeof(*macros); i++) {
		size_t len = strlen(file), end = strlen(macros[i].end);

		if (len > end && line >= macros[i].first &&
		    !strcmp(file + len - end, macros[i].end))
			return macros[i].name;
	}
	return NULL;
}

/* Has it been polled? One that was not may be a stale copy that a move left. */
static bool has_begun(const struct await_node *n)
{
	if (n->kind == AN_ASYNC)
		return n->state == AS_SUSPENDED && n->n_children;
	for (size_t i = 0; i < n->n_children; i++)
		if (has_begun(n->children[i]))
			return true;
	return false;
}

/* Futures in locals that were begun and that this await point does not poll: a select! in a loop
 * over `&mut future` has left them. They may hold what the task waits for ("futurelock"). */
static void walk_asleep(struct walk *w, struct await_node *n, const struct dw_type *env,
			const struct dw_type *locals, uint64_t addr, unsigned depth)
{
	bool local = w->local;

	for (size_t i = 0; i < locals->n_members; i++) {
		const struct dw_member *m = &locals->members[i];
		const struct dw_type *t = dw_member_type(w->dwarf, m);
		struct await_node *found;

		if (!t || !strcmp(m->name, "__awaitee") || await_is_leaf(t) ||
		    (t->class == DC_POINTER && !await_starts(t->name, "alloc::boxed::Box<")) ||
		    await_is_captured(w, env, locals, m) || !await_can_hold(w->dwarf, t) ||
		    !(found = await_node_new(w, AN_FUTURE, t, addr + m->offset)))
			continue;
		w->local = true;
		walk_type(w, found, t, addr + m->offset, depth + 1);
		w->local = local;
		for (size_t k = 0; k < found->n_children; k++) {
			if (has_begun(found->children[k])) {
				found->children[k]->state = AS_ASLEEP;
				await_node_add(n, found->children[k]);
			} else {
				await_node_free(found->children[k]);
			}
		}
		found->n_children = 0;
		await_node_free(found);
	}
}

static void walk_coroutine(struct walk *w, struct await_node *parent, const struct dw_type *t,
			   uint64_t addr, unsigned depth)
{
	struct await_node *n = await_node_new(w, AN_ASYNC, t, addr);
	const struct dw_variant *v = await_variant(w, t, addr);
	const struct dw_type *state;
	const struct dw_member *awaitee;
	const char *macro;

	if (!n)
		return;
	await_node_add(parent, n);
	n->name = short_name(w, t);
	if (!v) {
		node_note(w, n, "unreadable: no such state");
		return;
	}
	state = dw_member_type(w->dwarf, &v->member);
	n->file = v->member.file;
	n->line = v->member.line;
	switch (v->value) {
	case 0:
		n->state = AS_UNPOLLED;
		return;
	case 1:
		n->state = AS_DONE;
		return;
	case 2:
		n->state = AS_PANICKED;
		return;
	default:
		break;
	}
	awaitee = state ? dw_find_member(state, "__awaitee") : NULL;
	if (!awaitee) {
		node_note(w, n, "unreadable: the await point has no future");
		return;
	}
	macro = w->macro;
	w->macro = await_macro(n->file, n->line);
	if (w->macro)
		debug_await_place(w->dwarf, t, awaitee->type_ref, &n->file, &n->line);
	await_collect_lock_guards(w, n, t, state, addr + v->member.offset);
	if (w->n_outer < 64) {
		w->outer[w->n_outer] = state;
		w->outer_addr[w->n_outer] = addr + v->member.offset;
	}
	w->n_outer++;
	walk_type(w, n, dw_member_type(w->dwarf, awaitee),
		  addr + v->member.offset + awaitee->offset, depth + 1);
	w->n_outer--;
	w->macro = macro;
	walk_asleep(w, n, t, state, addr + v->member.offset, depth);
}

static void walk_dyn(struct walk *w, struct await_node *parent, const struct dw_type *t,
		     uint64_t addr, unsigned depth)
{
	uint64_t pointer, vtable;
	struct debug *dwarf = NULL, *before = w->dwarf;
	const struct dw_type *concrete = NULL;

	if (!mem_u64(w->ctx->mem, addr + dw_find_member(t, "pointer")->offset, &pointer) ||
	    !mem_u64(w->ctx->mem, addr + dw_find_member(t, "vtable")->offset, &vtable)) {
		node_note(w, parent, "unreadable: dyn Future");
		return;
	}
	if (w->local && moved_is_free(w->ctx->mem, pointer))
		return;
	if (!w->ctx->dyn_type || !w->ctx->dyn_type(w->ctx->ctx, vtable, &dwarf, &concrete) ||
	    !concrete) {
		char text[96];

		snprintf(text, sizeof(text), "dyn Future of a type unknown here (vtable %#lx)",
			 (unsigned long)vtable);
		node_note(w, parent, text);
		return;
	}
	w->dwarf = dwarf;
	walk_type(w, parent, concrete, pointer, depth + 1);
	w->dwarf = before;
}

static void note_more(struct walk *w, struct await_node *parent, uint64_t n)
{
	char text[64];

	snprintf(text, sizeof(text), "... and %lu more", (unsigned long)n);
	node_note(w, parent, text);
}

static void walk_elements(struct walk *w, struct await_node *parent, const struct dw_type *elem,
			  uint64_t addr, uint64_t n, unsigned depth)
{
	uint64_t i;

	if (!elem || !elem->size || !await_can_hold(w->dwarf, elem))
		return;
	for (i = 0; i < n && i < MAX_ELEMENTS && w->n_nodes < w->max_nodes; i++)
		walk_type(w, parent, elem, addr + i * elem->size, depth + 1);
	if (i < n)
		note_more(w, parent, n - i);
}

static void walk_slice(struct walk *w, struct await_node *parent, const struct dw_type *t,
		       uint64_t addr, unsigned depth)
{
	const struct dw_member *data = dw_find_member(t, "data_ptr"),
			       *len = dw_find_member(t, "length");
	const struct dw_type *pointer = dw_member_type(w->dwarf, data);
	uint64_t at, n;

	if (!pointer || !mem_u64(w->ctx->mem, addr + data->offset, &at) ||
	    !mem_u64(w->ctx->mem, addr + len->offset, &n)) {
		node_note(w, parent, "unreadable: slice");
		return;
	}
	walk_elements(w, parent, dw_type_of(w->dwarf, pointer->target_ref), at, n, depth);
}

static void walk_vec(struct walk *w, struct await_node *parent, const struct dw_type *t,
		     uint64_t addr, unsigned depth)
{
	const struct dw_type *x;
	uint64_t at, data, n;

	/* the pointer's own type is Unique<u8>: only the parameter says of what it is */
	if (!await_find_member(w, t, addr, "len", &x, &at) || !mem_u64(w->ctx->mem, at, &n) ||
	    !await_find_member(w, t, addr, "ptr", &x, &at) || !mem_u64(w->ctx->mem, at, &data)) {
		node_note(w, parent, "unreadable: Vec");
		return;
	}
	walk_elements(w, parent, dw_param_type(w->dwarf, t, "T"), data, n, depth);
}

/* Shared { inner: Option<Arc<Inner { future_or_output, .. }>> } */
static void walk_shared(struct walk *w, struct await_node *parent, const struct dw_type *t,
			uint64_t addr, unsigned depth)
{
	const struct dw_type *x, *inner;
	uint64_t at, target;

	if (!await_find_member(w, t, addr, "inner", &x, &at) ||
	    !mem_u64(w->ctx->mem, at, &target) || !target || !(inner = await_pointee(w, x)) ||
	    !await_find_member(w, inner, target, "future_or_output", &x, &at)) {
		node_note(w, parent, "unreadable: Shared");
		return;
	}
	walk_type(w, parent, x, at, depth + 1);
}

/* The list of all futures in it, finished ones are empty. */
static void walk_unordered(struct walk *w, struct await_node *parent, const struct dw_type *t,
			   uint64_t addr, unsigned depth)
{
	const struct dw_type *head, *task, *at_type;
	struct await_node *n = await_node_new(w, AN_BRANCH, t, addr);
	uint64_t at, task_addr, next;
	size_t count;

	if (!n)
		return;
	await_node_add(parent, n);
	n->name = "FuturesUnordered";
	/* head_all: AtomicPtr<Task<F>>; the pointer's type is somewhere inside */
	if (!await_find_member(w, t, addr, "head_all", &head, &at) ||
	    !mem_u64(w->ctx->mem, at, &task_addr)) {
		node_note(w, n, "unreadable: list");
		return;
	}
	for (unsigned i = 0; head && head->class != DC_POINTER && i < 8; i++)
		head = head->n_members ? dw_member_type(w->dwarf, &head->members[0]) : NULL;
	task = head ? dw_type_of(w->dwarf, head->target_ref) : NULL;
	if (!task) {
		node_note(w, n, "unreadable: list of an unknown type");
		return;
	}
	for (count = 0; task_addr && count < MAX_ELEMENTS && w->n_nodes < w->max_nodes; count++) {
		const struct dw_member *future = dw_find_member(task, "future");

		if (future)
			walk_type(w, n, dw_member_type(w->dwarf, future),
				  task_addr + future->offset, depth + 1);
		if (!await_find_member(w, task, task_addr, "next_all", &at_type, &at) ||
		    !mem_u64(w->ctx->mem, at, &next) || next == task_addr)
			break;
		task_addr = next;
	}
	if (task_addr && count == MAX_ELEMENTS)
		node_note(w, n, "... and more");
}

/* What a pointer leads to in the end, through pointers to pointers and Pin. */
static void walk_pointer(struct walk *w, struct await_node *parent, const struct dw_type *t,
			 uint64_t addr, unsigned depth)
{
	uint64_t target;

	if (!mem_u64(w->ctx->mem, addr, &target)) {
		node_note(w, parent, "unreadable: pointer");
		return;
	}
	if (target && !(w->local && moved_is_free(w->ctx->mem, target)))
		walk_type(w, parent, dw_type_of(w->dwarf, t->target_ref), target, depth + 1);
}

static bool leads_to_future(struct walk *w, const struct dw_type *t)
{
	for (unsigned i = 0; t && i < 6; i++) {
		const struct dw_member *m;

		if (t->class == DC_POINTER)
			t = dw_type_of(w->dwarf, t->target_ref);
		else if (await_starts(t->name, "Pin<") && (m = dw_find_member(t, "pointer")))
			t = dw_member_type(w->dwarf, m);
		else
			return await_can_hold(w->dwarf, t);
	}
	return false;
}

/* select!'s bits of branches that are off, ~0 if there are none. */
static uint64_t disabled_bits(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	const struct dw_member *m = dw_find_member(t, "_ref__disabled");
	const struct dw_type *pointer = dw_member_type(w->dwarf, m), *bits;
	uint64_t at, v;

	if (!pointer || !mem_u64(w->ctx->mem, addr + m->offset, &at) ||
	    !(bits = dw_type_of(w->dwarf, pointer->target_ref)) ||
	    !mem_uint(w->ctx->mem, at, (unsigned)bits->size, &v))
		return ~0ULL;
	return v;
}

static void walk_closure(struct walk *w, struct await_node *parent, const struct dw_type *t,
			 uint64_t addr, unsigned depth)
{
	const struct dw_member *disabled = dw_find_member(t, "_ref__disabled");
	const char *macro = w->macro;
	struct await_node *n = parent;

	/* the macros keep their futures in locals of the coroutine and poll them from a closure */
	if (macro) {
		n = await_node_new(w, AN_BRANCH, t, addr);
		if (!n)
			return;
		await_node_add(parent, n);
		n->name = macro;
	}
	w->macro = NULL;
	for (size_t i = 0; i < t->n_members; i++) {
		const struct dw_type *m = dw_member_type(w->dwarf, &t->members[i]);

		if (!m || (m->class == DC_POINTER ? !leads_to_future(w, m)
						  : !await_can_hold(w->dwarf, m)))
			continue;
		if (m->class == DC_POINTER)
			walk_pointer(w, n, m, addr + t->members[i].offset, depth);
		else
			walk_type(w, n, m, addr + t->members[i].offset, depth + 1);
	}
	if (disabled) {
		uint64_t bits = disabled_bits(w, t, addr);

		for (size_t i = 0; bits != ~0ULL && i < n->n_children && i < 64; i++)
			if (bits >> i & 1 && n->children[i]->state != AS_DONE)
				n->children[i]->state = AS_DISABLED;
	}
}

static void walk_members(struct walk *w, struct await_node *parent, const struct dw_type *t,
			 uint64_t addr, unsigned depth)
{
	for (size_t i = 0; i < t->n_members; i++) {
		const struct dw_type *m = dw_member_type(w->dwarf, &t->members[i]);

		if (m && await_can_hold(w->dwarf, m))
			walk_type(w, parent, m, addr + t->members[i].offset, depth + 1);
	}
}

/* Wrappers of the standard library that say nothing to a reader. */
static bool is_transparent(const struct dw_type *t, const struct await_node *parent)
{
	/* adaptors of which others are made */
	static const char *const chains[] = {"futures_util::future::future::",
					     "futures_util::future::try_future::"};

	static const char *const prefixes[] = {
		"core::",
		"alloc::",
		"std::",
		"(",
		"tokio::future::poll_fn::",
		"futures_util::future::poll_fn::",
		"futures_util::future::future::flatten::",
		"futures_util::future::future::map::",
		"futures_util::future::join_all::JoinAllKind",
		"futures_util::stream::futures_ordered::",
		"futures_util::stream::futures_unordered::",
		"tokio::runtime::coop::",
		"tokio::task::coop::",
		"futures_util::unfold_state::",
		"async_executor::",
		"tokio::util::",
		"tokio::task::unconstrained::",
		"async_std::task::join_handle::",
		"async_std::task::builder::",
		"async_std::io::timeout::",
		"futures_util::future::either::",
		"futures_util::future::future::fuse::",
	};

	if (!*t->full_name || strstr(t->full_name, "maybe_done::"))
		return true;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (await_starts(t->full_name, prefixes[i]))
			return true;
	for (size_t i = 0; i < 2; i++)
		for (size_t k = 0; k < 2; k++)
			if (await_starts(t->full_name, chains[i]) && parent->kind == AN_FUTURE &&
			    await_starts(parent->full_name, chains[k]))
				return true;
	return false;
}

/* What a finished branch was: the future in the variant that it left. */
static const char *done_name(struct walk *w, const struct dw_type *t)
{
	for (size_t i = 0; i < t->n_variants; i++) {
		const struct dw_type *v = dw_member_type(w->dwarf, &t->variants[i].member);

		for (size_t k = 0; v && k < v->n_members; k++) {
			const struct dw_type *m = dw_member_type(w->dwarf, &v->members[k]);

			if (m && await_can_hold(w->dwarf, m))
				return short_name(w, m);
		}
	}
	return "a future";
}

/* MaybeDone and other enums: the variant that lives, or a mark that it is done. */
static void walk_enum(struct walk *w, struct await_node *parent, const struct dw_type *t,
		      uint64_t addr, unsigned depth)
{
	const struct dw_variant *v = await_variant(w, t, addr);
	const struct dw_type *inner;
	bool done;

	if (!v) {
		node_note(w, parent, "unreadable: no such variant");
		return;
	}
	inner = dw_member_type(w->dwarf, &v->member);
	done = !inner || !await_can_hold(w->dwarf, inner);
	if (done) {
		struct await_node *n;

		if (!strstr(t->name, "MaybeDone<") && !w->fuse)
			return; /* None, Complete: nothing is waited for here */
		n = await_node_new(w, AN_FUTURE, t, addr);
		if (!n)
			return;
		n->name = done_name(w, t);
		n->state = AS_DONE;
		await_node_add(parent, n);
		return;
	}
	w->fuse = false;
	walk_type(w, parent, inner, addr + v->member.offset, depth + 1);
}

static void walk_struct(struct walk *w, struct await_node *parent, const struct dw_type *t,
			uint64_t addr, unsigned depth)
{
	struct await_node *n = parent;

	if (dw_is_coroutine(t)) {
		walk_coroutine(w, parent, t, addr, depth);
		return;
	}
	if (await_is_leaf(t)) {
		n = await_node_new(w, AN_LEAF, t, addr);
		if (!n)
			return;
		await_node_add(parent, n);
		await_leaf(w, t, addr, n);
		return;
	}
	if (shape_is_dyn_future(t)) {
		walk_dyn(w, parent, t, addr, depth);
		return;
	}
	if (shape_is_slice(t)) {
		walk_slice(w, parent, t, addr, depth);
		return;
	}
	if (shape_is_closure(t)) {
		walk_closure(w, parent, t, addr, depth);
		return;
	}
	if (shape_is_unordered(t)) {
		walk_unordered(w, parent, t, addr, depth);
		return;
	}
	if (shape_is_vec(t)) {
		walk_vec(w, parent, t, addr, depth);
		return;
	}
	if (t->has_variants) {
		walk_enum(w, parent, t, addr, depth);
		return;
	}
	if (!is_transparent(t, parent)) {
		n = await_node_new(w, AN_FUTURE, t, addr);
		if (!n)
			return;
		await_node_add(parent, n);
		n->name = short_name(w, t);
	}
	if (shape_is_shared(t)) {
		walk_shared(w, n, t, addr, depth);
		return;
	}
	w->fuse = await_starts(t->full_name, "futures_util::future::future::fuse::Fuse<");
	walk_members(w, n, t, addr, depth);
	w->fuse = false;
}

static void walk_type(struct walk *w, struct await_node *parent, const struct dw_type *t,
		      uint64_t addr, unsigned depth)
{
	size_t n_children = parent->n_children;

	if (!t || w->n_nodes >= w->max_nodes || !await_steps(w, 1))
		return;
	if (depth > w->max_depth) {
		node_note(w, parent, "... deeper than this is not shown");
		return;
	}
	if (t->declaration) {
		node_note(w, parent, "unreadable: the debug information only declares this type");
		return;
	}
	/* Zero-sized ones share addresses: of these only a type that led to nothing is known. */
	if (!t->size) {
		if (map_get(&w->seen, (uintptr_t)t, EMPTY_TYPE))
			return;
	} else {
		if (map_get(&w->seen, t->ref, addr))
			return;
		if (map_put(&w->seen, t->ref, addr, w) < 0)
			return;
	}
	switch (t->class) {
	case DC_STRUCT:
	case DC_UNION:
		walk_struct(w, parent, t, addr, depth);
		break;
	case DC_POINTER:
		walk_pointer(w, parent, t, addr, depth);
		break;
	case DC_ARRAY:
		walk_elements(w, parent, dw_type_of(w->dwarf, t->target_ref), addr, t->n_elements,
			      depth);
		break;
	default:
		break;
	}
	if (!t->size && parent->n_children == n_children)
		map_put(&w->seen, (uintptr_t)t, EMPTY_TYPE, w); /* else it is walked again */
}

struct await_node *await_walk(const struct await_context *ctx, const struct dw_type *type,
			      uint64_t addr)
{
	struct walk w = {
		.ctx = ctx,
		.dwarf = ctx->dwarf,
		.max_nodes = ctx->max_nodes ? ctx->max_nodes : DEFAULT_NODES,
		.max_depth = (ctx->max_depth ? ctx->max_depth : DEFAULT_DEPTH) * 8,
		.max_steps = MAX_STEPS,
	};
	struct await_node *root = await_node_new(&w, AN_FUTURE, type, addr);

	if (!root)
		return NULL;
	walk_type(&w, root, type, addr, 0);
	map_done(&w.seen);
	if (w.n_steps > w.max_steps)
		node_note(&w, root->n_children == 1 ? root->children[0] : root,
			  "... not all of it is shown: it leads to too much");
	/* the root is there to hold the tree: give its only child in its stead */
	if (root->n_children == 1) {
		struct await_node *child = root->children[0];

		root->n_children = 0;
		await_node_free(root);
		return child;
	}
	root->name = short_name(&w, type);
	return root;
}
