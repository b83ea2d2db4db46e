/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Futures that were moved away or dropped. rustc keeps the place of a local that was borrowed in a
 * coroutine's state, also when the local was moved out of: the pointer that is left there leads to
 * what another owns now, or to memory that was freed.
 */
#pragma once

#include "future/inspect.h"

/* Whether glibc's malloc holds this block as free. False: it doesn't, or that isn't known (other
 * allocators, a block that was merged into the free ones before it). */
bool moved_is_free(struct mem *m, uint64_t addr);

/* Takes out of the trees what only a local of a task leads to, and what is awaited by another
 * task. -ENOMEM or 0. */
int moved_take_out(struct inspect_result *r);
