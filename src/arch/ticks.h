/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The counter that stamps events, in the agent as here. ARCH_HAS_TICKS: the architecture is known. */
#pragma once

#if defined(__x86_64__)
#include "arch/x86_64/ticks.h"
#endif
