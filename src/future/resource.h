/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where a future that is awaited keeps the address of what it waits for (a lock, a channel, a task,
 * a socket), by its type alone: layout programs lead the agent there (agent/ring.h).
 */
#pragma once

#include "binary/dwarf/debug.h"
#include "trace/event.h"

#include <stdbool.h>
#include <stdint.h>

struct resource_path {
	enum trace_resource type;
	uint64_t offset; /* from the future: a pointer */
	/* What the pointer leads to is not the resource, but has its address there. */
	bool indirect;
	uint64_t target_offset;
};

/* False: it waits for none that is known, or for one of several. */
bool resource_find(struct debug *d, const struct dw_type *awaited, struct resource_path *ret);
/* What a semaphore, or a Notify, is a part of, by the function that awaits it or one around that;
 * TRACE_RESOURCE_OTHER: that says nothing. */
enum trace_resource resource_user(const char *function);
