/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Await trees: what a suspended task waits for, from its root future down to the leaves that
 * returned pending. One walker of general rules reads any future whose layout DWARF describes; a
 * table of leaves says what the ends of the tree wait for. Nothing is guessed: the tree shows what
 * can't be read as "unreadable", with the reason.
 *
 * Source of the shapes: rustc's coroutine layouts, Tokio 1.23 to 1.54, futures-util 0.3.
 */
#pragma once

#include "base/budget.h"
#include "base/buf.h"
#include "binary/dwarf/debug.h"
#include "future/memory_cache.h"
#include "trace/moment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void await_node_free(struct await_node *n);

/* Finds the concrete type of a `dyn Future`: debug information and load bias by vtable address.
 * Fills ret_type and ret_dwarf; false: unknown. */
struct await_context {
	struct mem *mem;
	struct debug *dwarf; /* of the type that is walked */
	bool (*dyn_type)(void *ctx, uint64_t vtable, struct debug **ret_dwarf,
			 const struct dw_type **ret_type);
	void *ctx;
	struct map *names; /* type -> its short name, for free(); grows, and outlives the trees */
	uint64_t now_ns;   /* CLOCK_MONOTONIC, for deadlines; 0: not known */
	unsigned max_depth, max_nodes; /* 0: defaults */
	struct budget *budget;	       /* of steps, for all walks together; NULL: not limited */
};

/* The tree of the future of this type at this address; NULL only when out of memory. */
struct await_node *await_walk(const struct await_context *ctx, const struct dw_type *type,
			      uint64_t addr);

/* ---- for the files of this module ---- */

struct walk {
	const struct await_context *ctx;
	struct debug *dwarf;
	struct map seen; /* (type, address): no future is walked twice on one path */
	unsigned n_nodes, max_nodes, max_depth;
	uint64_t n_steps, max_steps; /* of this walk; max 0: the context's budget alone counts */
	const struct dw_type *outer[64]; /* coroutines on the path, for what leaves need of them */
	uint64_t outer_addr[64];
	unsigned n_outer;
	const char *macro; /* "select!": wrote the await point that is walked; NULL: none */
	bool fuse;	   /* right below a Fuse: None means done */
	bool local;	   /* in a local that is not awaited: it may have been moved out of */
};

/* Takes n steps, one per value that is looked at; false: there were too many. Every loop and every
 * recursion over what a type or a value leads to asks, since types may branch without end. */
bool await_steps(struct walk *w, uint64_t n);
/* A leaf if `t` is a known one: fills `n`; false: not a leaf. */
bool await_leaf(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_node *n);
/* NULL: out of memory or of nodes. */
struct await_node *await_node_new(struct walk *w, enum await_node_kind kind,
				  const struct dw_type *t, uint64_t addr);
/* Takes the child, which may be NULL, over, also when it fails. */
void await_node_add(struct await_node *parent, struct await_node *child);
/* A new child of n; NULL: out of memory or of nodes. `name` may be NULL. */
struct await_node *await_child(struct walk *w, struct await_node *n, enum await_node_kind kind,
			       const char *name, uint64_t addr);
bool await_is_leaf(const struct dw_type *t);
/* Whether a future may be somewhere in it, also through pointers. */
bool await_can_hold(struct debug *d, const struct dw_type *t);
/* The same, of what is no leaf: its polls may take a while. */
bool await_can_work(struct debug *d, const struct dw_type *t);
/* Whether its poll may lead to that of a `dyn Future` in a box; false only where it can't. */
bool await_may_poll_box(struct debug *d, const struct dw_type *t);
/* The macro that wrote an await point, by its source place; NULL: none. */
const char *await_macro(const char *file, uint32_t line);
/* The variant that lives: NULL if unreadable or none fits. */
const struct dw_variant *await_variant(struct walk *w, const struct dw_type *t, uint64_t addr);
/* Searches by value, live variants only, for a member name or a type whose full name starts so. */
bool await_find_member(struct walk *w, const struct dw_type *t, uint64_t addr, const char *name,
		       const struct dw_type **ret_type, uint64_t *ret_addr);
bool await_find_type(struct walk *w, const struct dw_type *t, uint64_t addr, const char *prefix,
		     const struct dw_type **ret_type, uint64_t *ret_addr);
/* What a pointer in wrappers (NonNull, Option, Arc: the first member each) points at; NULL: none.
 */
const struct dw_type *await_pointee(struct walk *w, const struct dw_type *t);
void await_add_hold(struct await_node *n, uint64_t lock);
/* True if rustc lists member `m` of an await point as captured only: it may have been moved away.
 */
bool await_is_captured(struct walk *w, const struct dw_type *env, const struct dw_type *locals,
		       const struct dw_member *m);
/* Fills n->holds from the locals of a coroutine `env` at the await point of `locals`. */
void await_collect_lock_guards(struct walk *w, struct await_node *n, const struct dw_type *env,
			       const struct dw_type *locals, uint64_t addr);
bool await_starts(const char *s, const char *prefix);
