/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "moment/sizes.h"

/* What lies in the allocation of the future around it is part of that one's size. */
static uint64_t boxed(const struct await_node *n, uint64_t start, uint64_t end)
{
	uint64_t sum = 0;

	if (n->addr && n->bytes && (n->addr < start || n->addr >= end)) {
		sum = n->bytes;
		start = n->addr;
		end = n->addr + n->bytes;
	}
	for (size_t i = 0; i < n->n_children; i++)
		sum += boxed(n->children[i], start, end);
	return sum;
}

struct task_size moment_task_size(const struct moment_task *t)
{
	const struct moment_kind *k = t->kind;
	uint64_t own = k->task_bytes > k->future_bytes ? k->task_bytes : k->future_bytes;
	struct task_size size = {.future_bytes = k->future_bytes, .whole_bytes = own};

	if (t->tree && t->state != IS_DONE)
		size.boxed_bytes = boxed(t->tree, t->addr, t->addr + (own ? own : 1));
	size.whole_bytes += size.boxed_bytes;
	return size;
}
