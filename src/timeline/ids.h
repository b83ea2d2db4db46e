/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The ids that one runtime has given out, but of which no task was seen yet. A runtime counts
 * upwards and gives out each id once. So if a spawn has no task, and all ids that its task could
 * have belong to other tasks, it was no spawn.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct id_range {
	uint64_t first, last;
};

struct ids {
	uint64_t highest;	  /* of the ids known to be given out; 0: none is */
	uint64_t unknown;	  /* up to here it isn't known which ids were seen */
	struct id_range *missing; /* not seen, ascending */
	size_t n_missing, cap_missing;
};

void ids_done(struct ids *ids);
/* All up to `highest` have been given out. -ENOMEM or 0. */
int ids_add_given(struct ids *ids, uint64_t highest);
/* A task has it. -ENOMEM or 0. */
int ids_add_seen(struct ids *ids, uint64_t id);
/* Tasks were seen of each from `first` to `last`. False where that isn't known. */
bool ids_all_seen(const struct ids *ids, uint64_t first, uint64_t last);
