/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where in a runtime's task the future lies, by debug information and by what the runtime's own
 * tables say. */
#pragma once

#include "binary/dwarf/debug.h"
#include "process/places.h"
#include "runtime/debug_names.h"

struct future_cell {
	const struct dw_type *future;
	uint64_t offset; /* from the task's header */
	uint64_t size;	 /* of the task, the future's end at the latest; 0: not known */
};

/* Tokio's Stage<T> in the cell of a kind, and its offset from the header; NULL: unknown. */
const struct dw_type *cell_stage(struct debug *d, const struct scan_kind *k,
				 const struct debug_kind *types, uint64_t *ret_offset);

/* The future that a method polls in a box, which `members` lead to from its object (process/places.h).
 * ret_cell gets the future, at 0. False: unknown, or it is no coroutine, or one next to
 * something else. */
bool cell_held(struct debug *d, uint64_t method, const char *const *members, size_t n_members,
	       struct future_cell *ret_cell, struct place_held *ret_held);

/* The future in the cell of a Tokio task that isn't complete. False: unknown. */
bool cell_tokio(struct debug *d, const struct scan_kind *k, struct future_cell *ret);

/* Fills in offset and size of an async-task by the layout_info in its vtable in the process. */
bool cell_async_offset(uint64_t vtable,
		       int (*read)(void *ctx, uint64_t addr, void *out, size_t len), void *ctx,
		       struct future_cell *ret);

/* Where in an async-task the function that schedules it keeps what it has captured. */
bool cell_async_schedule(uint64_t vtable,
			 int (*read)(void *ctx, uint64_t addr, void *out, size_t len), void *ctx,
			 uint64_t *ret_offset);

/* The future in an async-task; `vtable` is its address in the process, which gives the offset. */
bool cell_async(struct debug *d, const struct scan_kind *k, uint64_t vtable,
		int (*read)(void *ctx, uint64_t addr, void *out, size_t len), void *ctx,
		struct future_cell *ret);
