/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The registers that the kernel shows to BPF programs, by words: enum arch_pt_regs. */
#pragma once

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#include "arch/x86_64/pt_regs.h"
#endif
