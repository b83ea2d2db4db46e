/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a kind of task is called, from symbols. */
#pragma once

#include "runtime/runtime.h"

#include "binary/elf/elf_image.h"

/* Sets name, full_name, scheduler, role and block_in_place of the kinds from number `first` on, all
 * of one runtime, and adds a coverage entry. Kinds of unknown name become "kind N".
 * -ENOMEM or 0. */
int kind_names_tokio(struct elf_image *image, struct runtime_scan *f, size_t first);
int kind_names_async_task(struct elf_image *image, struct runtime_scan *f, size_t first);

/* Whether its full_name is that of one of several with equal code, of which it may be another. */
bool kind_name_unsure(const struct scan_kind *k);
