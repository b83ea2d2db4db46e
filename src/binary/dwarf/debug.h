/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Types as DWARF describes them, lazily: only the units that are asked for are ever walked, found
 * by address ranges. A 500 MB debug binary costs what its few units cost. What was answered once is
 * cached, so the next time it costs no reading of DWARF at all.
 *
 * A type is compiled once into struct dw_type and then stays: members with offsets, rustc's variant
 * parts, template parameters. Types of members are resolved when asked for, so the graph is only
 * built where it is walked. All of it belongs to the struct debug and lives as long. Everything
 * comes from outside: depths, counts and loops are bounded.
 *
 * Source: DWARF 4 and 5 sections 3 and 5; what rustc emits: DW_TAG_variant_part in structures,
 * `__state` of coroutines, `{vtable}` variables with DW_AT_containing_type.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct debug;
struct dw_type;

enum dw_class { DC_STRUCT = 1, DC_UNION, DC_POINTER, DC_BASE, DC_ARRAY, DC_ENUM, DC_OTHER };

struct dw_member {
	const char *name; /* "" if it has none */
	uint64_t offset;
	uint64_t type_ref; /* see dw_type_of() */
	const char *file;  /* of decl_file, NULL if there is none */
	uint32_t line;
};

struct dw_variant {
	bool is_default; /* the one without a discriminant value */
	uint64_t value;
	struct dw_member member;
};

/* A template parameter or an enumerator. */
struct dw_param {
	const char *name;
	uint64_t type_ref; /* enumerators: the value */
};

struct dw_type {
	uint64_t ref; /* identity: equal refs, equal type (several refs may name one type) */
	enum dw_class class;
	const char *name;      /* DW_AT_name, "" if none: "{async_fn_env#0}", "Option<u64>" */
	const char *full_name; /* with its namespaces: "app::serve::{async_fn_env#0}" */
	uint64_t size;
	bool declaration;
	struct dw_member *members;
	size_t n_members;
	/* variant part: has_variants; discr_size 0 means that there is but one variant */
	bool has_variants;
	uint64_t discr_offset;
	uint32_t discr_size;
	struct dw_variant *variants;
	size_t n_variants;
	struct dw_param *params; /* template type parameters; DC_ENUM: enumerators */
	size_t n_params;
	uint64_t target_ref; /* pointee or element type */
	uint64_t n_elements; /* DC_ARRAY */
	uint8_t encoding;    /* DC_BASE: DW_ATE_* */
	/* for users of the graph: what they found out about the type, by their own numbering */
	uint32_t *note;
};

/*
 * Opens the debug information that belongs to an ELF file: inside it, or found by build-id, by
 * .gnu_debuglink, in debuginfod's cache (its network is never asked); split units from a .dwp next
 * to it or their .dwo files. DWARF 2 to 5. -ENODATA with a sentence: there is none. `fd` stays the
 * caller's; `path` is what messages name and where neighbours are looked for.
 */
int debug_open(int fd, const char *path, struct debug **ret_dwarf, struct error *err);
/* The same without the cache of answers, neither read nor written. */
int debug_open_fresh(int fd, const char *path, struct debug **ret_dwarf, struct error *err);
/* Also writes the cache, if there is something new for it. */
void debug_free(struct debug *d);

/* While `local`, nothing is searched in all units: an answer that isn't where it should be is none
 * (and not remembered). For callers with little time. */
void debug_local(struct debug *d, bool local);

/* Asks whether reading is to end, every few steps, on the thread that reads. If so nothing more is read: what
 * isn't known yet stays unknown, and what was found out meanwhile is not kept. What was known stays so. */
void debug_stop_when(struct debug *d, bool (*ask)(void *ctx), void *ctx);
/* One such step of a caller's own; true: it is to end. */
bool debug_stopped(struct debug *d);

/* How many split units' files were missed so far (0 where the cache had all answers), and the name
 * of one: what is in them is unknown. */
size_t debug_missing(const struct debug *d, const char **ret_file);

/* The type of a reference; NULL: unreadable. */
const struct dw_type *dw_type_of(struct debug *d, uint64_t ref);
const struct dw_type *dw_member_type(struct debug *d, const struct dw_member *m);
/* Template parameter by name ("T"), NULL if absent. */
const struct dw_type *dw_param_type(struct debug *d, const struct dw_type *t, const char *name);
const struct dw_member *dw_find_member(const struct dw_type *t, const char *name);

/* Whether two are the same type (no NULL is), of whichever units: the debug information has most
 * types again and again. The key is the same for those, and another's only by bad luck; it is never
 * 0. */
bool dw_same_type(const struct dw_type *a, const struct dw_type *b);
uint64_t dw_type_key(const struct dw_type *t);

/* The state machine of an async fn, block or closure? */
bool dw_is_coroutine(const struct dw_type *t);
/* "src/main.rs:15", where that begins, for free(); NULL: not known. */
char *dw_coroutine_where(const struct dw_type *t);

/* A function, found by its entry address. */
struct dw_function {
	const char *name, *full_name;
	uint64_t low, high;
	uint64_t ref;
	struct dw_param params[8]; /* template type parameters */
	size_t n_params;
	uint64_t self_ref; /* type of the first formal parameter, 0 if none */
	const char *file;  /* declaration */
	uint32_t line;
};
/* 1 found (entry at exactly addr), 0 not. */
int debug_function(struct debug *d, uint64_t addr, struct dw_function *ret);

/* The structure `Cell<...>` whose first template parameters are these types: a runtime's cell of a
 * task. Units that cover `near_addrs` are looked at first, all others only if it isn't there. NULL:
 * none. */
const struct dw_type *debug_cell(struct debug *d, const uint64_t *near_addrs, size_t n_near,
				 const uint64_t *param_refs, size_t n_params);

/* The concrete type of a vtable `<X as Trait>::{vtable}` at this address; NULL: none. Walks all
 * units once, at the first call that the cache can't answer. */
const struct dw_type *debug_vtable_type(struct debug *d, uint64_t vtable_addr);

/* Where a macro-made await point was written: the `__awaitee` variable of that type in the poll
 * function of the coroutine `env`. true with file and line. */
bool debug_await_place(struct debug *d, const struct dw_type *env, uint64_t awaitee_ref,
		       const char **ret_file, uint32_t *ret_line);

/* The structure, union or enum of this name with its namespaces, without parameters; NULL: none.
 * Walks all units once, as above. */
const struct dw_type *debug_named_type(struct debug *d, const char *full);
/* The type of a thread-local variable by its symbol; NULL: none. Walks all units once, as above. */
const struct dw_type *debug_thread_local(struct debug *d, const char *symbol);

/* A place in a frame, from a variable that refers to a future. */
enum dw_base {
	DW_BASE_FP = 6, /* these numbers are in the cache */
	DW_BASE_SP = 7,
	DW_BASE_FRAME_END = 0xff, /* what the stack pointer is in the caller */
};
struct dw_slot {
	uint64_t type_ref; /* Pin<&mut F>, &mut F and the like */
	int64_t offset;	   /* from base */
	uint8_t base;	   /* enum dw_base */
	bool is_value;	   /* base + offset is the reference itself; else it lies there */
};
/* The innermost function `block_on` to which this code belongs (it may be inlined into others of
 * that name), and what the frame of the function around it holds of the future. */
struct dw_block_on {
	const char *full_name;
	const struct dw_param *params; /* type parameters of all: among them the future's */
	size_t n_params;
	const struct dw_slot *slots;
	size_t n_slots;
};
bool debug_block_on(struct debug *d, uint64_t pc, struct dw_block_on *ret);

/* File and line of a code address, innermost and the functions inlined there, outermost last. */
struct dw_place {
	const char *function; /* as in the debug information, NULL if not known */
	const char *file;
	uint32_t line;
};
size_t debug_places(struct debug *d, uint64_t addr, struct dw_place *ret, size_t max);
