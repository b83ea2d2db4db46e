/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Units that many need: times are in ns, memory is in pages of the machine. */
#pragma once

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_SEC 1000000000ull

#define PAGE 4096ull /* of x86-64 */
