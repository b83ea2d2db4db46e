/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a local of a suspended coroutine holds apart from locks of its runtime: guards of locks that block
 * their thread, receiving ends of channels. */
#pragma once

#include "future/await.h"

/* Whether `t` is the receiving end of a channel; fills *ret_held with what could be read of it. */
bool held_receiver(struct walk *w, const struct dw_type *t, uint64_t addr,
		   struct await_held *ret_held);
/* Of a leaf that waits for a channel: of what it waits for at `t`, or of the channel's end among the
 * references of the coroutines around it. */
void held_by_leaf(struct walk *w, const struct dw_type *t, uint64_t addr, struct await_node *n);
/* Whether `t` is the guard of a lock that blocks its thread. */
bool held_guard(struct walk *w, const struct dw_type *t, uint64_t addr,
		struct await_held *ret_held);
void await_add_held(struct await_node *n, const struct await_held *held);
