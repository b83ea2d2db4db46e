/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where in the target everything of pollux is. Two mappings next to the program (code; data), one
 * for the rings anywhere, and a block of trampolines near each further object whose code is
 * patched.
 */
#pragma once

#include "agent/ring.h"
#include "arch/arch.h"
#include "process/maps.h"
#include "process/objects.h"

#define LAYOUT_MAX_BLOCKS 32u
/* In the switch's page, away from the switch: words for remote calls' arguments and results. */
#define LAYOUT_WORDS_OFFSET 1024u

/* Which of them holds how much of the programs' part was ever written. */
#define LAYOUT_WORD_PROGRAMS 48u

/* Trampolines for the sites of one object: within reach of a jump from all of its code. */
struct layout_block {
	uint64_t addr, bytes;
	const struct process_object *object;
	uint32_t n, used; /* trampolines */
};

struct layout {
	/* R-X: image, stubs, trampolines of the first object, a page for remote calls */
	uint64_t code, code_bytes;
	uint64_t stubs, remote_calls;
	/* RW-: state with the agent's private tables, hook table, layout programs, words for
	 * remote calls, the switch's page */
	uint64_t data, data_bytes;
	uint64_t hooks, programs, programs_bytes, words, live;
	/* the rings */
	uint64_t rings, rings_bytes;		      /* rings is 0 until it is known */
	struct layout_block block[LAYOUT_MAX_BLOCKS]; /* block[0] is part of the code */
	uint32_t n_blocks;
};

/* The kernel's: 4, 16 or 64 KiB. */
uint64_t layout_page_bytes(void);
/* Whole pages of them. */
uint64_t layout_pages(uint64_t bytes);

/* Where an earlier agent mapping is, to be used again. */
struct layout_earlier {
	uint64_t code;
	uint64_t blocks[LAYOUT_MAX_BLOCKS];
};

/* How many trampolines which object needs, before layout_plan. */
int layout_want(struct layout *l, const struct process_object *object, uint32_t n);

/* Chooses all addresses; `at` is an earlier mapping to be used again, or NULL. -ENOSPC
 * with a sentence. */
int layout_plan(struct layout *l, const struct agent_image *image, uint32_t n_hooks,
		const struct process_maps *maps, const struct process_object *main_object,
		const struct layout_earlier *at, struct error *err);

/* The next free trampoline for this object, 0 if there is none. */
uint64_t layout_trampoline(struct layout *l, const struct process_object *object);
