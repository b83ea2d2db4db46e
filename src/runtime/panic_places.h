/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What panic messages say of kinds in a program without symbols. */
#pragma once

#include "binary/code/code_index.h"
#include "binary/elf/elf_image.h"
#include "runtime/follow.h"
#include "runtime/runtime.h"

/* In an object without symbols: adds the source place of its async fn to the names of the kinds
 * from number `first` on ("kind 3 (src/main.rs:12)"), and finds Tokio's workers. *ret_named counts
 * the kinds that got a place or a role. -ENOMEM or 0. */
int panic_places_find(struct elf_image *image, struct runtime_scan *f, size_t first,
		      size_t *ret_named);

/* Of n kinds: true for a worker's if what spawns it has the message with which block_in_place
 * refuses. */
void panic_places_in_place(struct elf_image *image, struct code_index *calls,
			   const struct scan_kind *kinds, size_t n, bool *ret);

/* True if `function`, or what it calls up to `depth` calls away, can panic at a place in a file
 * whose path ends so. */
bool panic_places_in(struct elf_image *image, struct follower *follower, uint64_t function,
		     unsigned depth, const char *path_end);
