/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* /proc/PID/maps, parsed. The names in it are the target's: hostile text. */
#pragma once

#include "process/process.h"

struct process_map {
	uint64_t start, end;
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	bool read, write, exec, shared;
	const char *path; /* "" if none; "[heap]"; without " (deleted)" when `deleted` says it */
	bool deleted;
};

struct process_maps {
	struct process_map *v; /* sorted by address, not overlapping */
	size_t n;
	char *text; /* holds the paths */
};

int maps_read(const struct process *p, struct process_maps *ret_maps, struct error *err);
/* Takes over `text` (heap, 0-terminated) in every case. Lines that make no sense are left out. */
int maps_parse(char *text, struct process_maps *ret_maps);
void maps_done(struct process_maps *m);

/* A copy that lives as long as m, and in it what shall be mapped, too. -ENOMEM or 0. */
int maps_copy(const struct process_maps *m, struct process_maps *ret_maps);
int maps_take(struct process_maps *m, uint64_t start, uint64_t bytes);

/* The mapping that covers addr, or NULL. */
const struct process_map *maps_at(const struct process_maps *m, uint64_t addr);

/* A free range of `bytes` (a multiple of the page size) all of which is within `reach` bytes of
 * [near_start, near_end), 0 if there is none. Searched downwards first, since above an executable
 * lies the heap, and with distance to it. near_end 0: anywhere. */
uint64_t maps_find_hole(const struct process_maps *m, uint64_t near_start, uint64_t near_end,
			uint64_t reach, uint64_t bytes);
