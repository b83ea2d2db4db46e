/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A part of a trace as a trace: its header and tables, the chunks of events that are wanted, as they
 * are, and an end. Chunks are whole, so a few events more than wanted may be in it.
 */
#include "trace/cut.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/io.h"
#include "base/search.h"
#include "trace/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cut {
	int from, to;
	uint64_t n_events;
};

static int read_at(const struct cut *c, uint64_t offset, void *ret, size_t bytes)
{
	ssize_t n = io_read_at(c->from, ret, bytes, offset);

	return n < 0 ? (int)n : (size_t)n < bytes ? -ENODATA : 0;
}

static int put(const struct cut *c, const void *data, size_t bytes)
{
	return io_write(c->to, data, bytes);
}

static uint64_t events_of(const uint8_t *payload, uint32_t size)
{
	struct cursor at;

	cursor_init(&at, payload, size);
	cursor_uleb(&at);
	uint64_t n = cursor_uleb(&at);
	return cursor_ok(&at) && n <= PLX_MAX_EVENTS ? n : 0;
}

static int copy_chunk(struct cut *c, uint64_t offset, const struct plx_chunk_header *h)
{
	_cleanup_free_ uint8_t *payload = malloc(h->size + 1);

	if (!payload)
		return -ENOMEM;
	TRY(read_at(c, offset + sizeof(*h), payload, h->size));
	if (h->type == PLX_EVENTS)
		c->n_events += events_of(payload, h->size);
	TRY(put(c, h, sizeof(*h)));
	return put(c, payload, h->size);
}

/* The tables before and after, the events that are wanted; and the rounds between these, which bound what
 * a reader holds. Moments are of the whole recording, and left out. */
static bool is_wanted(const struct plx_chunk_header *h, uint64_t offset, const uint64_t *offsets,
		      size_t n)
{
	size_t at = PARTITION_POINT(i, 0, n, offsets[i] < offset);

	switch (h->type) {
	case PLX_META:
		return true;
	case PLX_EVENTS:
		return at < n && offsets[at] == offset;
	case PLX_ROUND:
		return at && at < n;
	default:
		return false;
	}
}

static int copy_chunks(struct cut *c, uint64_t at, const uint64_t *offsets, size_t n)
{
	struct plx_chunk_header h;

	for (;;) {
		int code = read_at(c, at, &h, sizeof(h));

		/* Where a reader ends, too. */
		if (code == -ENODATA ||
		    h.checksum != plx_crc32c(&h, offsetof(struct plx_chunk_header, checksum)) ||
		    h.size > PLX_MAX_CHUNK_BYTES || h.type == PLX_END)
			return 0;
		TRY(code);
		if (is_wanted(&h, at, offsets, n)) {
			code = copy_chunk(c, at, &h);
			if (code == -ENODATA)
				return 0;
			TRY(code);
		}
		at += sizeof(h) + h.size;
	}
}

static int put_end(const struct cut *c)
{
	struct plx_chunk_header h = {.type = PLX_END, .size = sizeof(c->n_events)};

	h.payload_checksum = plx_crc32c(&c->n_events, sizeof(c->n_events));
	h.checksum = plx_crc32c(&h, offsetof(struct plx_chunk_header, checksum));
	TRY(put(c, &h, sizeof(h)));
	return put(c, &c->n_events, sizeof(c->n_events));
}

int trace_cut(int from, int to, const uint64_t *offsets, size_t n, struct error *err)
{
	struct cut c = {.from = from, .to = to};
	struct plx_header h;
	char rest[PLX_MAX_HEADER_BYTES];

	int code = read_at(&c, 0, &h, sizeof(h));
	if (code == 0 && (memcmp(h.magic, PLX_MAGIC, sizeof(h.magic)) != 0 ||
			  h.header_bytes < sizeof(h) || h.header_bytes > PLX_MAX_HEADER_BYTES))
		code = -EBADMSG;
	if (code == 0)
		code = read_at(&c, sizeof(h), rest, h.header_bytes - sizeof(h));
	if (code == 0)
		code = put(&c, &h, sizeof(h));
	if (code == 0)
		code = put(&c, rest, h.header_bytes - sizeof(h));
	if (code == 0)
		code = copy_chunks(&c, h.header_bytes, offsets, n);
	if (code == 0)
		code = put_end(&c);
	return code < 0 ? error_sys(err, code, "cannot copy a part of the trace") : 0;
}
