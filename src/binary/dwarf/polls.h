/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What debug information says of a function that polls a future: of which type, and what it
 * returns. */
#pragma once

#include "binary/dwarf/debug.h"

#define DW_POLL_MAX_LENT 2u

/* How a function returns its result: as the second of two arguments it may have got the memory for it first. */
enum dw_returns { DW_RETURNS_UNKNOWN, DW_RETURNS_REGISTERS, DW_RETURNS_MEMORY };

struct dw_poll {
	bool generated; /* the body of an async fn, block or closure; else an impl of Future */
	const struct dw_type *future; /* of a generated one: with its states as variants */
	const struct dw_type *result; /* Poll<Output>; NULL for generated ones */
	enum dw_returns returns;      /* not of generated ones */
	/* Of a function that polls what others own, the coroutine whose body may be a part of it,
	 * to which this many pointers lead, the first of which is an argument; NULL: none. Some
	 * have nothing else: of those the future is NULL. */
	const struct dw_type *borrowed;
	uint8_t deref_count;
	const char *full_name, *file;
	uint32_t line;
};

/* The type of the object that a method gets as `&mut self`, after the memory for its result if it returns in that;
 * NULL: not known. */
const struct dw_type *debug_method_object(struct debug *d, uint64_t addr,
					  enum dw_returns *ret_returns);

/* The function that begins at addr; false: it is none, or none is known there. */
bool debug_poll(struct debug *d, uint64_t addr, struct dw_poll *ret);
