/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tokio's files among themselves. */
#pragma once

#include "binary/elf/elf_image.h"
#include "runtime/runtime.h"

/* The tasks' waker table and those of block_on, with their sites; adds coverage entries. */
int tokio_add_wakers(struct elf_image *image, struct runtime_scan *f, uint32_t runtime);

/* Address of the counter that gives tasks their ids; 0 if it isn't clear where it is. */
uint64_t tokio_next_id(struct elf_image *image);
