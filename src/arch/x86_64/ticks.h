/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include <stdint.h>

#define ARCH_HAS_TICKS 1

static inline uint64_t arch_ticks(void)
{
	return __builtin_ia32_rdtsc();
}
