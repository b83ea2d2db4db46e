/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Holes of sparse files: bytes that a file claims to have, and that are stored nowhere. */
#pragma once

#include <stdint.h>

/* The next bytes within [at, end) of a file that are data: 1; 0: there are none; negative errno. In
 * a file system without holes all of a file is data. Moves the descriptor's offset. */
int holes_next_data(int fd, uint64_t at, uint64_t end, uint64_t *ret_start, uint64_t *ret_end);
