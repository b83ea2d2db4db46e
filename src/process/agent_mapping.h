/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent mapping in the target: making it, filling it, and taking over what an earlier pollux
 * left.
 */
#pragma once

#include "process/across.h"
#include "process/hooks.h"
#include "process/inject.h"
#include "process/layout.h"

/* The mapping of an earlier attach, found in the target. Its content is untrusted. */
struct stale_agent {
	struct layout_earlier earlier; /* earlier.code is 0: there is none */
	uint64_t data;
	uint64_t hooks, stubs;
	uint32_t n_hooks;
	uint64_t live;
	uint64_t rings, rings_bytes;
	uint32_t n_rings, ring_bytes;
	bool retired; /* nothing of it is hooked: a later attach has undone it */
	bool kept;    /* a change over two pages could not be undone now */
};

struct stale_agents {
	struct stale_agent *v;
	size_t n;
};

/* All of them. */
int stale_agents_find(const struct process *p, const struct process_maps *maps,
		      struct stale_agents *ret);
void stale_agents_done(struct stale_agents *l);
/* Disables them and removes all hooks that are still in place. Runs on a tracer if there are
 * patches.
 */
int stale_agents_undo(struct stale_agents *l, struct process *p,
		      const struct process_objects *objects, uint64_t *stop_ns, struct error *err);

struct agent_rings {
	uint32_t n_rings, ring_bytes;
	const char *cut;	 /* why they are fewer than wanted */
	struct ring_area *areas; /* here, NULL until made */
	size_t bytes;
	/* What the kernel refused: the program's children, its dumps have them. */
	bool in_children, in_dumps;
};

/* Makes the mappings (or takes those of one of `old`, if code and hooks there would be the same),
 * writes code and trampolines, makes the rings and maps them here. l is planned here. */
int agent_mapping_make(struct injector *in, struct hooks *h, struct layout *l,
		       const struct stale_agents *old, const struct process_object *main_object,
		       struct agent_rings *rings, bool *ret_reused, struct error *err);

/* Whether a thread has forbidden itself to read the clock since an agent with this switch was there. */
bool agent_mapping_no_clock(const struct process *p, uint64_t live);

/* How changes over two pages are made, with the mapping's own place for remote calls. */
struct across agent_mapping_across(struct injector *in, const struct layout *l);

/* Unmaps them here, and gives all their memory back. */
void agent_rings_done(struct agent_rings *rings);

/* Address of struct agent_owner of ring i. */
uint64_t agent_mapping_owner(const struct layout *l, uint32_t i);

/* The embedded agent. */
const struct agent_image *agent_mapping_image(size_t *ret_bytes);
