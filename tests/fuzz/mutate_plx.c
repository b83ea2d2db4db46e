/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mutator of traces. Of a chunk of events it unpacks the columns first, which a byte changed in
 * a zstd frame would only damage; numbers in records and heads are set to their extremes, and what
 * is around them mended: sizes, checksums.
 */
#include "mutate.h"

#include "base/cleanup.h"
#include "base/cursor.h"
#include "tests/traces/file.h"

#include <stdbool.h>
#include <zstd.h>

enum { MAX_RAW = 1 << 16 };

/* The offset of some chunk; 0: there is none. */
static size_t some_chunk(struct mutator *m, const uint8_t *data, size_t size)
{
	struct plx_chunk_header h;
	size_t at = sizeof(struct plx_header), found = 0;

	for (unsigned n = 1; at + sizeof(h) <= size; n++) {
		memcpy(&h, data + at, sizeof(h));
		if (h.size > size - at - sizeof(h))
			break;
		if (mutator_next(m, n) == 0)
			found = at;
		at += sizeof(h) + h.size;
	}
	return found;
}

/* The number whose bytes begin there gets another value, of as many bytes as that needs. */
static void replace_uleb(struct mutator *m, const uint8_t *payload, size_t size, size_t at,
			 struct buf *out)
{
	struct cursor c;
	uint64_t old;
	size_t bytes;

	cursor_init(&c, payload + at, size - at);
	old = cursor_uleb(&c);
	bytes = cursor_ok(&c) ? size - at - cursor_left(&c) : 1;
	buf_add(out, payload, at);
	buf_uleb(out, mutator_extreme(m, old));
	buf_add(out, payload + at + bytes, size - at - bytes);
}

/* A record of which a number has changed, and with it the record's length. */
static void bend_record(struct mutator *m, const uint8_t *payload, size_t size, struct buf *out)
{
	struct cursor c;
	size_t at = 0, body = 0, len = 0;
	uint64_t type = 0;

	cursor_init(&c, payload, size);
	for (unsigned n = 1; cursor_left(&c); n++) {
		size_t begin = size - cursor_left(&c);
		uint64_t this_type = cursor_uleb(&c), this_len = cursor_uleb(&c);

		if (!cursor_ok(&c) || this_len > cursor_left(&c))
			break;
		if (mutator_next(m, n) == 0) {
			at = begin;
			body = size - cursor_left(&c);
			len = (size_t)this_len;
			type = this_type;
		}
		cursor_bytes(&c, (size_t)this_len);
	}
	if (!len) {
		buf_add(out, payload, size);
		return;
	}
	_cleanup_buf_ struct buf fields = BUF_INIT;

	replace_uleb(m, payload + body, len, (size_t)mutator_next(m, len), &fields);
	buf_add(out, payload, at);
	buf_uleb(out, type);
	buf_uleb(out, fields.len);
	buf_add(out, fields.data, fields.len);
	buf_add(out, payload + body + len, size - body - len);
	if (mutator_next(m, 4) == 0) /* the record once more */
		buf_add(out, payload + at, body + len - at);
}

/* A column's bytes as they are without compression; false: damaged, or too many. */
static bool unpack(struct buf *out, const uint8_t *stored, size_t n_stored, size_t n_raw)
{
	char *to;

	if (n_raw > MAX_RAW || !buf_reserve(out, n_raw))
		return false;
	to = out->data + out->len;
	if (n_stored == n_raw)
		memcpy(to, stored, n_raw);
	else if (ZSTD_decompress(to, n_raw, stored, n_stored) != n_raw)
		return false;
	out->len += n_raw;
	return true;
}

/* The events with their columns unpacked, and one of those changed; or a number of the head. */
static void bend_events(struct mutator *m, const uint8_t *payload, size_t size, struct buf *out)
{
	struct cursor c;
	uint64_t raw[PLX_MAX_COLUMNS], stored[PLX_MAX_COLUMNS], n_shapes, n_columns;
	size_t head, which = mutator_next(m, PLX_N_COLUMNS + 1);

	cursor_init(&c, payload, size);
	cursor_uleb(&c);
	cursor_uleb(&c);
	cursor_bytes(&c, 8);
	n_shapes = cursor_uleb(&c);
	for (uint64_t i = 0; i < n_shapes && i < PLX_MAX_SHAPES; i++) {
		cursor_uleb(&c);
		cursor_uleb(&c);
		cursor_u8(&c);
	}
	head = size - cursor_left(&c);
	n_columns = cursor_uleb(&c);
	if (which == PLX_N_COLUMNS || n_columns > PLX_MAX_COLUMNS || !cursor_ok(&c)) {
		replace_uleb(m, payload, size, (size_t)mutator_next(m, head ? head : 1), out);
		return;
	}
	for (uint64_t i = 0; i < n_columns; i++) {
		raw[i] = cursor_uleb(&c);
		stored[i] = cursor_uleb(&c);
	}
	buf_add(out, payload, head);
	buf_uleb(out, n_columns);
	for (uint64_t i = 0; i < n_columns; i++) {
		buf_uleb(out, raw[i]);
		buf_uleb(out, raw[i]);
	}
	for (uint64_t i = 0; i < n_columns; i++) {
		const uint8_t *bytes = cursor_bytes(&c, (size_t)stored[i]);
		size_t begin = out->len;

		if (!bytes || !unpack(out, bytes, (size_t)stored[i], (size_t)raw[i])) {
			buf_clear(out);
			buf_add(out, payload, size);
			return;
		}
		/* as many bytes as before: what is cut off stays as it was */
		if (i == which && raw[i])
			LLVMFuzzerMutate((uint8_t *)out->data + begin, (size_t)raw[i],
					 (size_t)raw[i]);
	}
}

/* The records of a moment unpacked, and a number in one of them changed. */
static void bend_moment(struct mutator *m, const uint8_t *payload, size_t size, struct buf *out)
{
	_cleanup_buf_ struct buf raw = BUF_INIT, bent = BUF_INIT;
	uint64_t process, when, n;
	struct cursor c;

	cursor_init(&c, payload, size);
	process = cursor_uleb(&c);
	when = cursor_uleb(&c);
	n = cursor_uleb(&c);
	if (!cursor_ok(&c) || !unpack(&raw, c.at, cursor_left(&c), (size_t)n)) {
		buf_add(out, payload, size);
		return;
	}
	bend_record(m, (const uint8_t *)raw.data, raw.len, &bent);
	buf_uleb(out, process);
	buf_uleb(out, when);
	buf_uleb(out, bent.len);
	buf_add(out, bent.data, bent.len);
}

/* A chunk away, twice, or with its number changed. */
static void bend_chunks(struct mutator *m, const uint8_t *data, size_t size, size_t chunk,
			struct buf *out)
{
	struct plx_chunk_header h;
	size_t end;

	memcpy(&h, data + chunk, sizeof(h));
	end = chunk + sizeof(h) + h.size;
	buf_add(out, data, chunk);
	if (mutator_next(m, 3) == 0) {
		h.type = (uint16_t)mutator_next(m, PLX_MOMENT + 2);
		h.flags = (uint16_t)(mutator_next(m, 8) == 0);
		buf_add(out, &h, sizeof(h));
		buf_add(out, data + chunk + sizeof(h), size - chunk - sizeof(h));
		return;
	}
	if (mutator_next(m, 2)) {
		buf_add(out, data + chunk, end - chunk);
		buf_add(out, data + chunk, end - chunk);
	}
	buf_add(out, data + end, size - end);
}

static void bend(struct mutator *m, const uint8_t *data, size_t size, size_t chunk, struct buf *out)
{
	struct plx_chunk_header h;
	_cleanup_buf_ struct buf payload = BUF_INIT;
	const uint8_t *old = data + chunk + sizeof(h);

	memcpy(&h, data + chunk, sizeof(h));
	if (mutator_next(m, 8) == 0 || !h.size) {
		bend_chunks(m, data, size, chunk, out);
		return;
	}
	if (h.type == PLX_META)
		bend_record(m, old, h.size, &payload);
	else if (h.type == PLX_EVENTS)
		bend_events(m, old, h.size, &payload);
	else if (h.type == PLX_MOMENT)
		bend_moment(m, old, h.size, &payload);
	else
		buf_add(&payload, old, h.size);
	if ((h.type == PLX_ROUND || h.type == PLX_END) && payload.len >= 8) {
		struct mutator part = *m;

		part.size = payload.len;
		mutator_number(&part, (uint8_t *)payload.data, mutator_next(m, payload.len / 8) * 8,
			       8);
	}
	h.size = (uint32_t)payload.len;
	buf_add(out, data, chunk);
	buf_add(out, &h, sizeof(h));
	buf_add(out, payload.data, payload.len);
	memcpy(&h, data + chunk, sizeof(h));
	buf_add(out, old + h.size, size - chunk - sizeof(h) - h.size);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	struct mutator m = mutator_of(seed, size);
	_cleanup_buf_ struct buf out = BUF_INIT, sealed = BUF_INIT;
	size_t chunk = some_chunk(&m, data, size);

	if (mutator_next(&m, 4) == 0 || !chunk)
		return LLVMFuzzerMutate(data, size, max_size);
	bend(&m, data, size, chunk, &out);
	if (buf_failed(&out) || out.len > max_size || out.len < sizeof(struct plx_header))
		return LLVMFuzzerMutate(data, size, max_size);
	file_seal(&sealed, out.data, out.len);
	memcpy(data, sealed.data, sealed.len);
	return sealed.len;
}
