/*
 * The ways from a type down to the coroutines that lie in it: by value, through what it owns, or
 * through what it borrows to poll it.
 */
#ifndef POLLUX_FUTURE_FUTURE_PATH_H
#define POLLUX_FUTURE_FUTURE_PATH_H

#include "base/map.h"
#include "binary/dwarf/debug.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ways_through {
	WAYS_VALUE, /* no pointer, nor in what lies in coroutines on the way */
	WAYS_OWNED, /* a Box, too */
	WAYS_LENT,  /* also a &mut of what polls whatever it borrows (wrapper_borrows) */
};

/* Where a way ends: at a type with a state, or at a pointer that is to be followed. */
struct way {
	const struct dw_type *type;
	uint64_t at;
	/* The number of the last type on the way that is in the map of ways_below(). */
	uint32_t below;
	enum ways_through through; /* from there on */
	/* Along the path is something else that may be polled, too, and that no path reaches.
	 */
	bool beside;
};

#define WAYS_MAX 64u /* side by side */

/* The number of a type whose polls are hooked, else `below`. `hooked`: (dw_type_key, 0) -> number.
 */
uint32_t ways_below(const struct map *hooked, const struct dw_type *t, uint32_t below);

/* Whether a coroutine lies somewhere in it. */
bool ways_reach(struct debug *d, const struct dw_type *t, enum ways_through through);
/* A member lies within its type. */
bool ways_holds(const struct dw_type *t, const struct dw_member *m, const struct dw_type *inner);
/* The end of the one way down from w->type; false: there is none, or there are several. */
bool ways_next(struct debug *d, const struct map *hooked, struct way *w);
/* All ends, up to WAYS_MAX; -E2BIG: there are more. */
int ways_all(struct debug *d, const struct map *hooked, const struct way *from, struct way *ret,
	     size_t *ret_n);
/* Whether all on the ways down is such that it keeps what it holds until that is ready
 * (wrapper_keeps). */
bool ways_keep(struct debug *d, const struct dw_type *t, enum ways_through through);

#endif
