/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The way out of an exporter: one large buffer in front of a FILE, and the inline formatters that
 * hot code writes into it. No printf, no allocation, no check per number: a caller asks for room
 * once per record, writes through a plain pointer and hands the pointer back.
 *
 *     char *p = out_room(o);
 *     p = put_lit(p, "\"ts\":");
 *     p = put_us(p, ns);
 *     out_used(o, p);
 *
 * The first failed write is kept (-EPIPE when the reader has gone); everything after it is thrown
 * away, so that only the end has to look.
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define OUT_ROOM_BYTES 4096u /* what out_room() promises: no record may be longer */

struct out {
	FILE *file;
	char *data;
	size_t len;
	uint64_t bytes; /* written or buffered so far */
	int error;	/* negative errno of the first failed write */
};

int out_init(struct out *o, FILE *file); /* 0 or -ENOMEM */
void out_done(struct out *o);		 /* frees; does not flush */
int out_flush(struct out *o);		 /* o->error afterwards */
/* The end of an export that gave `r` so far: flushes, and says what failed, but for -EPIPE. Returns r,
 * or the error of writing. */
int out_end(struct out *o, int r, struct error *err);
void out_make_room(struct out *o);
void out_write(struct out *o, const void *data, size_t len); /* of any length */

#define OUT_BUFFER_BYTES (256u * 1024u)

static inline char *out_room(struct out *o)
{
	if (__builtin_expect(o->len > OUT_BUFFER_BYTES - OUT_ROOM_BYTES, 0))
		out_make_room(o);
	return o->data + o->len;
}

static inline void out_used(struct out *o, const char *p)
{
	size_t len = (size_t)(p - o->data);
	o->bytes += len - o->len;
	o->len = len;
}

/* ---- formatters: each writes at p and returns the end ---- */

#define put_lit(p, literal) put_mem(p, "" literal, sizeof(literal) - 1)

static inline char *put_mem(char *p, const char *s, size_t len)
{
	memcpy(p, s, len);
	return p + len;
}

extern const char put_pairs[200]; /* "00" to "99" */

static inline char *put_u64(char *p, uint64_t v)
{
	char digits[20];
	char *at = digits + sizeof(digits);

	while (v >= 100) {
		at -= 2;
		memcpy(at, put_pairs + v % 100 * 2, 2);
		v /= 100;
	}
	if (v >= 10) {
		at -= 2;
		memcpy(at, put_pairs + v * 2, 2);
	} else {
		*--at = (char)('0' + v);
	}
	return put_mem(p, at, (size_t)(digits + sizeof(digits) - at));
}

/* ns as µs with exactly three decimals, in integers: 1234567 is "1234.567". */
static inline char *put_us(char *p, uint64_t ns)
{
	unsigned rest = (unsigned)(ns % 1000);

	p = put_u64(p, ns / 1000);
	*p++ = '.';
	*p++ = (char)('0' + rest / 100);
	return put_mem(p, put_pairs + rest % 100 * 2, 2);
}
