/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which function a task calls whose type debug information has as `fn()` only. */
#pragma once

#include "binary/dwarf/debug.h"

struct elf_image;

/* The function's name as debug information has it, for free(); NULL: not known for certain.
 * `libraries` as a scan has them. */
char *fn_item_find(struct debug *d, struct elf_image *image, uint64_t poll, const char *libraries);
