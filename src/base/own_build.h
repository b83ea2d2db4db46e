/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which build of pollux this is. */
#pragma once

#include <stdint.h>

/* The same for one build, another one for (nearly) each other: of the executable's build id, or, where the linker made
 * none, of the version. What is kept of a result is of no use to another build, which may see more in a trace. */
uint32_t own_build(void);
