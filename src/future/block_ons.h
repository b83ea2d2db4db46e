/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The futures that block_on polls: they are no tasks, they lie on their thread's stack. */
#pragma once

#include "future/tasks.h"

/* Adds one entry of role TR_ROOT for each block_on that a thread is in. -ENOMEM or 0. */
int block_ons_find(struct inspect *in, struct inspect_result *r, struct error *err);
/* Drops those of the entries from `first` on, once they have their trees, that another one of the
 * same thread polls: layers of one block_on. */
void block_ons_settle(struct inspect_result *r, size_t first);
