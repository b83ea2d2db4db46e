/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the agent costs the program per event, on this machine.
 */
#pragma once

#include <stdint.h>

/* In picoseconds; takes about 15 ms. 0: it can't be measured here (executable memory is refused).
 */
uint64_t event_cost_ps(void);
