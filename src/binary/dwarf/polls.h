/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What debug information says of a function that polls a future: of which type, and what it
 * returns. */
#pragma once

#include "binary/dwarf/debug.h"

#define DW_POLL_MAX_LENT 2u

struct dw_poll {
	bool generated; /* the body of an async fn, block or closure; else an impl of Future */
	const struct dw_type *future; /* of a generated one: with its states as variants */
	const struct dw_type *result; /* Poll<Output>; NULL for generated ones */
	/* Of a function that polls what others own, the coroutine whose body may be a part of it,
	 * to which this many pointers lead, the first of which is an argument; NULL: none. Some
	 * have nothing else: of those the future is NULL. */
	const struct dw_type *borrowed;
	uint8_t deref_count;
	const char *full_name, *file;
	uint32_t line;
};

/* The type of the object that a method gets first, as `&mut self`, if what it returns fits into two
 * registers; NULL: not known, or else. */
const struct dw_type *debug_method_object(struct debug *d, uint64_t addr);

/* The function that begins at addr; false: it is none, or none is known there. */
bool debug_poll(struct debug *d, uint64_t addr, struct dw_poll *ret);
