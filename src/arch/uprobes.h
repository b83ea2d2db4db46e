/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the kernel does with an instruction that has a probe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arch_uprobe { UPROBE_REFUSED = 0, UPROBE_STEPPED, UPROBE_EMULATED };
enum arch_uprobe arch_uprobe_of(const uint8_t *bytes, size_t len);
/* Of an instruction after which nothing follows: whether it returns. */
bool arch_is_return(const uint8_t *bytes, size_t len);
/* The target of the jump at `addr` that the code there begins with; 0: it is something else. */
uint64_t arch_first_jump(const uint8_t *bytes, size_t len, uint64_t addr);

/* A function whose call with a probe on it is measured: the kernel emulates its first instruction.
 */
void arch_measured(void);
