/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Protocol Buffers, written: https://protobuf.dev/programming-guides/encoding/. A message is bytes in
 * a buf; a message inside another is begun and ended, and its length is put in front of it at its
 * end. Fields of value 0 are written too: the caller leaves out what is not to be there.
 */
#pragma once

#include "base/buf.h"

#include <stdint.h>
#include <string.h>

enum proto_wire { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2 };

static inline void proto_varint(struct buf *b, uint64_t v)
{
	buf_uleb(b, v);
}

static inline void proto_u64(struct buf *b, unsigned field, uint64_t v)
{
	proto_varint(b, field << 3 | PROTO_VARINT);
	proto_varint(b, v);
}

static inline void proto_fixed64(struct buf *b, unsigned field, uint64_t v)
{
	unsigned char le[8];

	for (unsigned i = 0; i < 8; i++)
		le[i] = (unsigned char)(v >> 8 * i);
	proto_varint(b, field << 3 | PROTO_FIXED64);
	buf_add(b, le, sizeof(le));
}

static inline void proto_double(struct buf *b, unsigned field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	proto_fixed64(b, field, bits);
}

static inline void proto_bytes(struct buf *b, unsigned field, const void *data, size_t len)
{
	proto_varint(b, field << 3 | PROTO_BYTES);
	proto_varint(b, len);
	buf_add(b, data, len);
}

/* Text must be UTF-8, or readers refuse the whole message: bytes that are not, and hidden characters,
 * are as text_safe() writes them. */
void proto_text(struct buf *b, unsigned field, const char *s);

/* A message inside: proto_begin() gives what proto_end() wants. */
size_t proto_begin(struct buf *b, unsigned field);
void proto_end(struct buf *b, size_t begin);
