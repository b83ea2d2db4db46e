/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel does with an instruction that has a probe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arch_uprobe { UPROBE_REFUSED = 0, UPROBE_STEPPED, UPROBE_EMULATED };
enum arch_uprobe arch_uprobe_of(const uint8_t *bytes, size_t len);
/* Whether the last instruction of a function returns (it may be a jump instead). */
bool arch_is_return(const uint8_t *bytes, size_t len);
/* The target of the jump at `addr`, if the code there begins with one; else 0. */
uint64_t arch_first_jump(const uint8_t *bytes, size_t len, uint64_t addr);

/* A function that is called with a probe on it, to measure what a probe costs whose instruction the
 * kernel emulates. */
void arch_measured(void);
