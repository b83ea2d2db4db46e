/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the agent needs of the processor. Everything that another architecture does differently is
 * in a folder of its name, here and in src/arch. */
#ifndef POLLUX_AGENT_ARCH_H
#define POLLUX_AGENT_ARCH_H

#if defined(__x86_64__)
#include "agent/x86_64/arch.h"
#endif

#endif
