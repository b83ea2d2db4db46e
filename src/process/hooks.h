/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The hook table and what goes with it: from what was found in the objects (runtime.h) to entries,
 * stubs, trampolines, flipped slots and patched sites; and back.
 */
#pragma once

#include "arch/arch.h"
#include "process/across.h"
#include "process/attach.h"
#include "process/layout.h"
#include "process/threads.h"
#include "process/unwinders.h"
#include "runtime/futures.h"
#include "runtime/root_polls.h"

/* An object of the process with what was found in it. */
struct hooked_object {
	struct attach_object attach;
	const struct process_object *object;
	enum unwinder unwinder;
	struct scan_futures futures;	   /* none unless asked for */
	struct scan_root_polls root_polls; /* the same */
};

/* A spawn site, to be patched or patched. */
struct hook_patch {
	uint32_t hook;
	uint64_t addr;
	uint8_t len;
	uint8_t live[16];	       /* the instruction as it is in the process */
	uint8_t jump_offset;	       /* the first byte that is replaced: arch_jump_at() */
	uint8_t jump[ARCH_JUMP_BYTES]; /* what replaces the bytes from there */
	const struct process_object *object;
	uint64_t trampoline;
	bool applied;
};

/* An instruction that reaches a function, to be led to a stub. */
struct hook_call {
	uint64_t addr; /* of the four bytes of its relative target */
	uint32_t hook;
	uint32_t original, patched;
	bool reachable, applied;
};

struct hooks {
	struct agent_hook *table;
	bool *flipped;
	bool *dropped; /* is not hooked, since another hook of its group can't be */
	size_t n, cap;
	struct hook_patch *patches;
	size_t n_patches;
	struct hook_call *calls;
	size_t n_calls;
	size_t n_tried; /* patches, then calls, that hooks_patch() is done with */
	struct attach_kind *kinds;
	size_t n_kinds;
	/* for the coverage */
	size_t n_slots, n_slots_other; /* slots to flip; of them, holding something unexpected */
	size_t n_unbound;	      /* calls whose GOT entry the loader fills at the first call */
	size_t n_sites, n_sites_left; /* sites in all; not patched */
	size_t n_calls_left;	      /* of calls, for a reason that shows only at the end */
	size_t n_wakes;		      /* of calls: those of wakers past their tables */
	size_t n_root_polls;	      /* calls of park() that are known to be between polls */
};

/* Reads the process and makes the table; nothing is changed. */
int hooks_plan(const struct process *p, struct hooked_object *const *objects, size_t n_objects,
	       const struct process_objects *all, struct hooks *ret_hooks, struct error *err);
void hooks_done(struct hooks *h);
/* A new entry of the table, and a new kind, for those who plan; NULL: there are too many, or out of
 * memory. */
struct agent_hook *hooks_add(struct hooks *h);
struct attach_kind *hooks_add_kind(struct hooks *h);

/* Whether it isn't a slot but an instruction's target. */
static inline bool hook_is_call(const struct agent_hook *hook)
{
	return hook->flags & AGENT_HOOK_CALL;
}

/* Whether what its polls return is set while the program runs: of a boxed future that was
 * written by hand. */
static inline bool hooks_learns_result(const struct agent_hook *hook)
{
	return hook->type == AH_FUTURE && hook->flags & AGENT_HOOK_CHAIN &&
	       hook->future.result.from == AR_UNKNOWN;
}

/* Asks the layout for trampolines (before layout_plan). */
int hooks_want(const struct hooks *h, struct layout *l);
/* Machine code into buffers that lie in the target at the layout's addresses. */
void hooks_write_stubs(const struct hooks *h, const struct layout *l,
		       const struct agent_image *image, uint8_t *out);
/* Gives each patch its trampoline and its jump; writes the code of those in `block` to `out`. */
void hooks_place(struct hooks *h, struct layout *l);
void hooks_write_trampolines(const struct hooks *h, const struct layout_block *block,
			     const struct layout *l, const struct agent_image *image, uint8_t *out);

/* Flips all slots, with the program running. On failure those flipped are flipped back. */
int hooks_flip(struct hooks *h, struct process *p, const struct layout *l, struct error *err);
/* Before the stop: gives the pages that will be patched to the process alone, so that to write
 * there takes a microsecond and not twenty. */
int hooks_prepare(const struct hooks *h, const struct process *p);
/* Patches the sites, while all threads are stopped. Sites that hold something else are left alone.
 * 1: it is `until_ns`, and there are more, for another stop. */
#define HOOKS_AT_ONCE 64
int hooks_patch(struct hooks *h, struct process *p, const struct process_stop *stopped,
		uint64_t until_ns, struct error *err);
/*
 * Makes the changes that lie in two pages, before all others, each by a separate remote call. Hooks
 * for which that fails are left out, with all hooks of their group. Negative errno with a sentence:
 * across_make().
 */
int hooks_patch_across(struct hooks *h, struct across *x, const struct process_objects *objects,
		       struct error *err);
/* After all others are undone: undoes them, or those only that were dropped. 1: some are left. */
int hooks_unpatch_across(struct hooks *h, struct across *x, const struct process_objects *objects,
			 bool dropped, struct error *err);
/* Restores every byte that still has the value that pollux wrote. Patches need all threads
 * stopped. */
int hooks_unflip(struct hooks *h, struct process *p, const struct layout *l);
int hooks_unpatch(struct hooks *h, struct process *p,
		  uint64_t until_ns);	     /* within a page; 1: as above */
bool hooks_any_patch(const struct hooks *h); /* applied */
bool hooks_any_flip(const struct hooks *h);
