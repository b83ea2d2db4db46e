/* What debug information tells of a function that polls a future: of which type, and what it
 * returns. */
#ifndef POLLUX_BINARY_POLLS_H
#define POLLUX_BINARY_POLLS_H

#include "binary/debug.h"

struct dw_poll {
	bool generated; /* the body of an async fn, block or closure; else an impl of Future */
	const struct dw_type *future; /* of a generated one: with its states as variants */
	const struct dw_type *result; /* Poll<Output>; NULL for generated ones */
	const char *full, *file;
	uint32_t line;
};

/* The function that begins at addr; false: it is none, or none is known there. */
bool debug_poll(struct debug *d, uint64_t addr, struct dw_poll *ret);

#endif
