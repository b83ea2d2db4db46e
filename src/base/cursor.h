/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The one way to read bytes from outside: bounded, with a sticky error. After a read beyond the
 * end every read gives 0 or NULL and cursor_ok() is false.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cursor {
	const uint8_t *at, *end;
	bool failed;
};

void cursor_init(struct cursor *c, const void *data, size_t len);
bool cursor_ok(const struct cursor *c);
size_t cursor_left(const struct cursor *c);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c); /* little-endian */
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
uint64_t cursor_uleb(struct cursor *c);			/* over 64 bits: fails */
const void *cursor_bytes(struct cursor *c, size_t len); /* points into the data */
