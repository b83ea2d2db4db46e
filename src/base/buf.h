/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A growable run of bytes, always followed by a 0 that is not counted. Out of memory is sticky:
 * after it every call is a no-op and buf_failed() says so; callers check once, at the end.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* NULL or 0-terminated */
	size_t len, cap;
	bool failed;
};

#define BUF_INIT                                                                                   \
	{                                                                                          \
		0                                                                                  \
	}

void buf_done(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory, and the failure */
bool buf_failed(const struct buf *b);
bool buf_reserve(struct buf *b, size_t more);
void buf_add(struct buf *b, const void *data, size_t len);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void buf_u64(struct buf *b, uint64_t v); /* decimal, fast */
/* The string, now owned by the caller (free); NULL if the buffer failed. Clears b. */
char *buf_steal(struct buf *b);

/* LEB128 as in DWARF. */
void buf_uleb(struct buf *b, uint64_t v);

#define _cleanup_buf_ __attribute__((cleanup(buf_done)))
