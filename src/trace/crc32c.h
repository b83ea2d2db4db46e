/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* CRC-32C (Castagnoli) of traces' chunks, and of indexes of traces. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint32_t plx_crc32c(const void *data, size_t len);
