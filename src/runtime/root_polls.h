/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The polls of a block_on's own future, where they are a part of block_on. Tokio's block_on of the
 * multi-thread runtime parks right after a poll that was pending and polls again right after that,
 * by calls of CachedParkThread::park(). Those of async-io (smol, async-std) and futures-lite call
 * parking's Parker, which says whether it was woken: if not, they look for I/O and park again.
 * async-io's calls one of these once more when its future was ready (2), and at the end its own
 * unparker(): then the future's state shows that it has returned.
 * Where debug information says which place of its frame the future has, these calls show the polls
 * between them.
 */
#pragma once

#include "binary/dwarf/debug.h"
#include "binary/code/code_refs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct scan_futures;
struct futures_wanted;

/* A function by which a block_on waits, or that it calls at its end. */
struct scan_park {
	uint64_t addr;	    /* as linked */
	bool returns_ready; /* it returns whether a poll follows */
	bool at_end;
	const char *trouble; /* why it isn't hooked; NULL: it can be */
};

/* One call of it. */
struct scan_root_poll {
	uint64_t back;		    /* where it returns to, as linked */
	bool returns_ready, at_end; /* as in struct scan_park */
	int64_t offset;		    /* from the stack pointer at the call to the future */
	uint64_t state_offset;
	uint32_t state_size;
	char *name, *full_name, *where; /* of the future; where may be NULL */
};

#define ROOT_POLLS_MAX_PARKS 5u
/* The item of coverage of those that are not recorded. */
#define COVER_ASYNC_BLOCK_ON "block_on futures"

struct scan_root_polls {
	struct scan_park parks[ROOT_POLLS_MAX_PARKS]; /* by address */
	size_t n_parks;
	struct code_refs uses; /* of them: words and branches */
	struct scan_root_poll *v;
	size_t n;
};

/* Those whose future has no poll function of its own among `futures`. -ENOMEM or 0. */
int root_polls_find(struct elf_image *image, struct debug *d, const struct futures_wanted *wanted,
		    const struct scan_futures *futures, struct scan_root_polls *ret);
void root_polls_done(struct scan_root_polls *f);
/* The one at this address, as linked; NULL: none is there. */
const struct scan_park *root_polls_park(const struct scan_root_polls *f, uint64_t addr);
/* A function by which a block_on waits, by its mangled name. */
bool root_polls_is_park(const char *symbol);
/* Whether there may be any: one of the functions is there. */
bool root_polls_possible(struct elf_image *image);

/* The type of the future on whose behalf it is parked in a call that returns to `back`, and where
 * it is, from the stack pointer at the call; NULL: not known. */
const struct dw_type *root_poll_type(struct debug *d, uint64_t back, int64_t *ret_offset);
