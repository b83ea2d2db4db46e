/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Protocol Buffers (proto.h): what is not inlined. */
#include "export/proto.h"

#include "base/text.h"

#include <string.h>

void proto_text(struct buf *b, unsigned field, const char *s)
{
	size_t begin = proto_begin(b, field);

	text_safe(b, s);
	proto_end(b, begin);
}

/* One byte is left for the length, for most messages are short; the others are moved. */
size_t proto_begin(struct buf *b, unsigned field)
{
	proto_varint(b, field << 3 | PROTO_BYTES);
	buf_char(b, 0);
	return b->len;
}

void proto_end(struct buf *b, size_t begin)
{
	size_t len = b->len - begin, more = 0;

	if (buf_failed(b))
		return;
	for (size_t rest = len >> 7; rest; rest >>= 7)
		more++;
	if (more) {
		if (!buf_reserve(b, more))
			return;
		memmove(b->data + begin + more, b->data + begin, len + 1);
		b->len += more;
	}
	char *p = b->data + begin - 1;
	for (size_t i = 0; i <= more; i++, len >>= 7)
		*p++ = (char)((len & 0x7f) | (i < more ? 0x80 : 0));
}
