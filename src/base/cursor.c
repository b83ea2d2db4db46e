/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The bounded cursor. Every read goes through cursor_bytes() or checks the end itself; a failed
 * cursor is at its end, so loops over cursor_left() stop by themselves.
 */
#include "base/cursor.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

void cursor_init(struct cursor *c, const void *data, size_t len)
{
	c->at = data;
	c->end = len ? c->at + len : c->at;
	c->failed = false;
}

bool cursor_ok(const struct cursor *c)
{
	return !c->failed;
}

size_t cursor_left(const struct cursor *c)
{
	assert(c->at <= c->end);
	return c->end - c->at;
}

static void fail(struct cursor *c)
{
	c->failed = true;
	c->at = c->end;
}

const void *cursor_bytes(struct cursor *c, size_t len)
{
	if (c->failed || len > cursor_left(c)) {
		fail(c);
		return NULL;
	}
	const void *data = c->at;
	c->at += len;
	return data;
}

uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);
	return p ? *p : 0;
}

uint16_t cursor_u16(struct cursor *c)
{
	uint16_t v = 0;
	const void *p = cursor_bytes(c, sizeof(v));
	if (p)
		memcpy(&v, p, sizeof(v));
	return le16toh(v);
}

uint32_t cursor_u32(struct cursor *c)
{
	uint32_t v = 0;
	const void *p = cursor_bytes(c, sizeof(v));
	if (p)
		memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

uint64_t cursor_u64(struct cursor *c)
{
	uint64_t v = 0;
	const void *p = cursor_bytes(c, sizeof(v));
	if (p)
		memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

uint64_t cursor_uleb(struct cursor *c)
{
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
		uint8_t byte = *c->at++;
		/* The tenth byte holds bit 63 alone. */
		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	fail(c);
	return 0;
}
