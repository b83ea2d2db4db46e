/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The growable byte buffer. Invariant: data is NULL with cap 0, or len < cap and data[len] is 0.
 * Exporters spend their time here, so the path without growth is a compare and a memcpy.
 */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUF_FIRST_BYTES 64u

void buf_done(struct buf *b)
{
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = 0;
}

bool buf_failed(const struct buf *b)
{
	return b->failed;
}

__attribute__((noinline, cold)) static bool grow(struct buf *b, size_t more)
{
	size_t need;
	if (b->failed)
		return false;
	if (__builtin_add_overflow(b->len, more, &need) || need >= SIZE_MAX / 2) {
		b->failed = true;
		return false;
	}

	size_t cap = b->cap ? b->cap : BUF_FIRST_BYTES;
	while (cap <= need)
		cap *= 2;
	char *data = realloc(b->data, cap);
	if (!data) {
		b->failed = true;
		return false;
	}
	data[b->len] = 0;
	b->data = data;
	b->cap = cap;
	return true;
}

/* Room for `more` bytes and the 0 after them. */
static inline bool room(struct buf *b, size_t more)
{
	if (__builtin_expect(more < b->cap - b->len && !b->failed, 1))
		return true;
	return grow(b, more);
}

bool buf_reserve(struct buf *b, size_t more)
{
	return room(b, more);
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!len || !room(b, len))
		return;
	memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = 0;
}

void buf_str(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
	if (!room(b, 1))
		return;
	b->data[b->len++] = c;
	b->data[b->len] = 0;
}

void buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	if (!room(b, BUF_FIRST_BYTES))
		return;

	va_list again;
	va_copy(again, ap);
	size_t space = b->cap - b->len;
	int n = vsnprintf(b->data + b->len, space, fmt, ap);
	if (n >= 0 && (size_t)n >= space) {
		b->data[b->len] = 0;
		if (room(b, n))
			vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		else
			n = 0;
	}
	va_end(again);

	if (n < 0) {
		b->data[b->len] = 0;
		b->failed = true;
		return;
	}
	b->len += n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	buf_vprintf(b, fmt, ap);
	va_end(ap);
}

void buf_u64(struct buf *b, uint64_t v)
{
	static const char pairs[] = "0001020304050607080910111213141516171819"
				    "2021222324252627282930313233343536373839"
				    "4041424344454647484950515253545556575859"
				    "6061626364656667686970717273747576777879"
				    "8081828384858687888990919293949596979899";
	char digits[20];
	char *at = digits + sizeof(digits);

	while (v >= 100) {
		at -= 2;
		memcpy(at, pairs + v % 100 * 2, 2);
		v /= 100;
	}
	if (v >= 10) {
		at -= 2;
		memcpy(at, pairs + v * 2, 2);
	} else {
		*--at = (char)('0' + v);
	}
	buf_add(b, at, digits + sizeof(digits) - at);
}

char *buf_steal(struct buf *b)
{
	char *data = NULL;
	if (room(b, 0)) {
		data = b->data;
		b->data = NULL;
	}
	buf_done(b);
	return data;
}

void buf_uleb(struct buf *b, uint64_t v)
{
	if (!room(b, 10))
		return;
	while (v >= 0x80) {
		b->data[b->len++] = (char)(v | 0x80);
		v >>= 7;
	}
	b->data[b->len++] = (char)v;
	b->data[b->len] = 0;
}
