/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ways from a type down to the coroutines that lie in it: by value, through what it owns, or
 * through what it borrows to poll it.
 */
#pragma once

#include "base/map.h"
#include "binary/dwarf/debug.h"
#include "process/places.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pointer_policy {
	POINTERS_NONE,	   /* no pointer, nor in what lies in coroutines on the way */
	POINTERS_OWNED,	   /* a Box, too */
	POINTERS_BORROWED, /* also a &mut of what polls whatever it borrows
			    * (wrapper_polls_by_reference) */
};

/* Where a way ends: at a type with a state, or at a pointer that is to be followed. */
struct future_path {
	const struct dw_type *type;
	uint64_t offset;
	/* The number of the last type on the way that is in the map of
	 * future_path_hooked_parent(). */
	uint32_t hooked_parent;
	enum pointer_policy through; /* from there on */
	/* Along the path is something else that may be polled, too, and that no path reaches.
	 */
	bool concurrent;
	/* The same may poll a `dyn Future` in a box. */
	bool beside_box;
	/* That what lies at its end was ready; unproven from where something may drop it before. */
	enum ready_proof proof;
};

#define FUTURE_PATHS_MAX 64u /* side by side */

/* The number of a type whose polls are hooked, else `below`. `hooked`: (dw_type_key, 0) -> number.
 */
uint32_t future_path_hooked_parent(const struct map *hooked, const struct dw_type *t,
				   uint32_t below);

/* Whether a coroutine lies somewhere in it. */
bool future_path_exists(struct debug *d, const struct dw_type *t, enum pointer_policy through);
/* A member lies within its type. */
bool future_path_is_within(const struct dw_type *t, const struct dw_member *m,
			   const struct dw_type *inner);
/* The end of the one way down from w->type; false: there is none, or there are several. */
bool future_path_single(struct debug *d, const struct map *hooked, struct future_path *w);
/* All ends, up to FUTURE_PATHS_MAX; -E2BIG: there are more. */
int future_path_find_all(struct debug *d, const struct map *hooked, const struct future_path *from,
			 struct future_path *ret, size_t *ret_n);
