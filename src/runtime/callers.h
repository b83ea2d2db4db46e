/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Who makes tasks of a kind, and which worker kind is block_in_place's. */
#pragma once

#include "binary/elf/elf_image.h"
#include "runtime/runtime.h"

/* With symbols: replaces `where` of the sites of kinds and of root wakers that lie in the runtime by
 * the places in the program's own code from which it gets there, "via" the library that does so, if
 * one is in between; keeps the calls on the way. Settles block_in_place of worker kinds by the way
 * that leads to their site (two of them may have equal code). -ENOMEM or 0. */
int callers_find(struct elf_image *image, struct runtime_scan *f, size_t first_kind,
		 size_t first_waker);

/* With symbols: where the block_ons are called, and their names. -ENOMEM or 0. */
int callers_of_block_ons(struct elf_image *image, struct runtime_scan *f);
