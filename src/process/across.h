/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Changes of code that lie in two pages, which are two writes in the kernel: made so that all threads
 * see both or none, whenever pollux is killed. All of it runs on a tracer (threads.h).
 */
#pragma once

#include "process/inject.h"
#include "process/objects.h"

/* Words of the target, one after the other, for the remote calls' results and arguments. */
enum { ACROSS_DONE, ACROSS_AWAY, ACROSS_SOURCE, ACROSS_FLAGS, ACROSS_WORDS };

struct across {
	struct injector *in;
	struct code_cave cave; /* not in the pages that are changed */
	uint64_t words;
};

/* A change of `len` bytes, at most eight. */
struct across_change {
	uint64_t addr;
	const uint8_t *before, *after;
	size_t len;
};

/*
 * Makes the change, where both pages hold what the file has: so no other change of code is in them yet.
 * 0; 1: it is left, with the reason in the log; negative errno with a sentence: the process is gone, or a
 * thread is still on its way and may make the change.
 */
int across_make(struct across *x, const struct process_objects *objects,
		const struct across_change *change, struct error *err);

/* Gives both pages back what the file has, if they hold the change and no other one. Results as above. */
int across_undo(struct across *x, const struct process_objects *objects,
		const struct across_change *change, struct error *err);
