/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The functions of an object that poll futures, and every use of each: what a recording of each
 * future's polls hooks. Where a function can't be hooked safely, or not all of its uses, it is
 * reported with the reason, and nothing of it is hooked.
 */
#pragma once

#include "agent/ring.h"
#include "binary/dwarf/debug.h"
#include "binary/code/code_refs.h"

#include <stdbool.h>

struct elf_image;

struct futures_wanted {
	bool written; /* also those whose poll was written by hand */
	/* Of the names, whole with wildcards or a part of it; NULL or 0-terminated. */
	const char *const *include, *const *exclude;
};

/* Whether a future of this name is wanted. */
bool futures_want(const struct futures_wanted *w, const char *name, const char *full_name);

#define FUTURE_HOLDER_MEMBERS 2u

/* What a method has to do with the future that a library's object has in a box. */
enum holder_part {
	HOLDER_POLLS, /* it polls the future; others make it, and drop it only when all is over */
	HOLDER_AROUND, /* it makes, polls and drops it: hooked where the one before is a part of it */
	HOLDER_LOOK, /* of the object, or of its first member: called in that one after it was made or dropped */
	HOLDER_MAKES, /* the same: it is there when this returns */
};

/* A library's method that polls a future which its object has in a box: where an optimiser has made
 * that poll a part of the method, there is no other function to hook. */
struct future_holder {
	enum holder_part part;
	const char *begin, *end; /* of its demangled name */
	const char *object;	 /* a part of the names of what drops or uses it */
	const char *members[FUTURE_HOLDER_MEMBERS]; /* that lead from the object to the box */
};

struct scan_future {
	uint64_t poll; /* its entry, as linked */
	char *name;    /* for people */
	char *full_name;
	char *where;	     /* "src/main.rs:15", NULL if not known */
	uint64_t type_key;   /* dw_type_key() of the future's type, 0: not known */
	const char *trouble; /* why it isn't hooked; NULL: it can be */
	bool generated;
	bool memory; /* it returns in memory: the future is its second argument */
	/* From this argument this many pointers lead to the future, 0: see above. A function of the
	 * runtime's, of which the future's poll is a part. */
	uint8_t borrowed_by, borrowed;
	uint64_t value_bytes; /* of a boxed one: its size, by all vtables that it is in */
	uint32_t
		n_types; /* of a boxed one: that its names are of, by what drops it; 0: not by that */
	uint64_t drop;	 /* then: that function */
	const struct future_holder *holder; /* NULL: it is a poll function */
	bool shown;   /* its code begins by reading the state: AGENT_HOOK_SHOWN */
	bool written; /* a boxed one whose poll was written by hand: find_future_result() */
	struct agent_result result;
	uint64_t pending; /* as agent_hook.pending */
	const struct code_ref *uses;
	size_t n_uses;
};

/* The type of the future that it polls; NULL: not known. Not of a holder's. */
const struct dw_type *find_future_type(struct debug *d, const struct scan_future *f);

/* How a boxed future whose poll was written by hand shows that it is pending, and its type; false: not
 * known. */
bool find_future_result(struct debug *d, const struct scan_future *f,
			struct agent_result *ret_result, uint64_t *ret_pending,
			const struct dw_type **ret_type);

/* The method, or the object that it is of, that a symbol (mangled) names; NULL: none. */
const struct future_holder *future_holder_method(const char *symbol);
const struct future_holder *future_holder_object(const char *symbol);

struct scan_futures {
	struct scan_future *v; /* by address */
	size_t n;
	struct code_refs uses, holder_uses;
	bool debug; /* there was debug information */
	bool boxed; /* found_boxed_find()'s */
	bool holds; /* there are objects of a struct future_holder's, whether or not its method is found */
};

/* `d` may be NULL: then only the code is used, and hand-written futures are not found. After them come
 * the methods that hold a future, with all uses. -ENOMEM or 0. */
int found_futures_find(struct elf_image *image, struct debug *d,
		       const struct futures_wanted *wanted, struct scan_futures *ret);
/* Only those that vtables of `dyn Future` lead to, by symbols and code: coroutines, and futures written by
 * hand that may hold one. Their uses are the poll slots of these vtables. After them the methods, as above. */
int found_boxed_find(struct elf_image *image, struct scan_futures *ret);
void found_futures_done(struct scan_futures *f);
