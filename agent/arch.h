/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the agent needs of the processor. Everything that another architecture does differently is
 * in a folder of its name, here and in src/arch. */
#pragma once

#if defined(__x86_64__)
#include "agent/x86_64/arch.h"
#endif
