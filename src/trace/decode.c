/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The payload of an EVENTS chunk back into events.
 *
 * The payload is from a stranger. Its head is read with a cursor; then one pass over the tags
 * counts how many bytes each column must have, and a chunk whose columns have others is refused. So
 * the loop over the events, where the time of reading a trace is spent, needs no check for four of
 * the six columns; what is left to check there is the stack, the list and the last column.
 */
#include "trace/codec.h"

#include "base/cursor.h"
#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How many bytes of a delta are in the column of high bytes, by the low bits of a tag. */
static const uint8_t n_high[4] = {0, 1, 2, 7};
static const uint64_t high_mask[4] = {0, 0xff, 0xffff, 0x00ffffffffffffff};

struct event_head {
	uint32_t thread, n, n_shapes;
	uint64_t time;
	struct decoder_shape shapes[PLX_MAX_SHAPES];
	struct {
		const uint8_t *stored;
		size_t n_raw, n_stored;
	} columns[PLX_N_COLUMNS];
};

static int read_shapes(struct cursor *c, struct event_head *h)
{
	uint64_t n = cursor_uleb(c);
	if (n < 1 || n > PLX_MAX_SHAPES)
		return -EBADMSG;
	h->n_shapes = (uint32_t)n;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t type = cursor_uleb(c), arg = cursor_uleb(c);
		uint8_t how = cursor_u8(c);
		if (type > UINT16_MAX || arg > UINT16_MAX || (how & ~PLX_HOW_MASK) ||
		    (how & PLX_NAME_MASK) > PLX_NAME_NEW)
			return -EBADMSG;
		h->shapes[i] = (struct decoder_shape){
			.type = (uint16_t)type, .arg = (uint16_t)arg, .how = how};
	}
	return 0;
}

static int read_columns(struct cursor *c, struct event_head *h)
{
	static const unsigned max_bytes[PLX_N_COLUMNS] = {1, 1, 7, 1, 1, PLX_MAX_REST_BYTES};
	uint64_t stored[PLX_MAX_COLUMNS], total = 0;
	uint64_t n = cursor_uleb(c);

	if (n < PLX_N_COLUMNS || n > PLX_MAX_COLUMNS)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++) {
		uint64_t raw = cursor_uleb(c);
		stored[i] = cursor_uleb(c);
		if (raw > PLX_MAX_RAW_BYTES || stored[i] > raw)
			return -EBADMSG;
		total += raw;
		if (i < PLX_N_COLUMNS) {
			if (raw > (uint64_t)h->n * max_bytes[i])
				return -EBADMSG;
			h->columns[i].n_raw = raw;
			h->columns[i].n_stored = stored[i];
		}
	}
	if (total > PLX_MAX_RAW_BYTES)
		return -EBADMSG;
	for (unsigned i = 0; i < n; i++) {
		const uint8_t *bytes = cursor_bytes(c, stored[i]);
		if (i < PLX_N_COLUMNS)
			h->columns[i].stored = bytes;
	}
	return 0;
}

static int read_head(const void *payload, size_t size, struct event_head *h)
{
	struct cursor c;

	cursor_init(&c, payload, size);
	uint64_t thread = cursor_uleb(&c), n = cursor_uleb(&c);
	if (thread > PLX_MAX_INDEX || n < 1 || n > PLX_MAX_EVENTS)
		return -EBADMSG;
	h->thread = (uint32_t)thread;
	h->n = (uint32_t)n;
	h->time = cursor_u64(&c);
	if (read_shapes(&c, h) < 0 || read_columns(&c, h) < 0 || !cursor_ok(&c))
		return -EBADMSG;
	return 0;
}

int decoder_peek(const void *payload, size_t size, uint32_t *ret_thread, size_t *ret_bytes)
{
	struct event_head h;
	size_t bytes;

	if (read_head(payload, size, &h) < 0)
		return -EBADMSG;
	bytes = h.n * sizeof(struct decoder_name);
	for (unsigned i = 0; i < PLX_N_COLUMNS; i++)
		bytes += h.columns[i].n_raw + DECODER_SLACK;
	*ret_thread = h.thread;
	*ret_bytes = bytes;
	return 0;
}

static int reserve(void **p, size_t *cap, size_t need)
{
	if (*cap >= need)
		return 0;
	free(*p);
	*cap = 0;
	*p = malloc(need);
	if (!*p)
		return -ENOMEM;
	*cap = need;
	return 0;
}

/* Decompresses the columns that need it; ret_columns point to the plain bytes. */
static int unpack(struct decoder *d, ZSTD_DCtx *zstd, const struct event_head *h,
		  const uint8_t *ret_columns[])
{
	size_t need = 0, at = 0;

	for (unsigned i = 0; i < PLX_N_COLUMNS; i++)
		if (h->columns[i].n_stored != h->columns[i].n_raw)
			need += h->columns[i].n_raw + DECODER_SLACK;

	TRY(reserve((void **)&d->raw, &d->raw_cap, need));

	for (unsigned i = 0; i < PLX_N_COLUMNS; i++) {
		size_t n_raw = h->columns[i].n_raw, n_stored = h->columns[i].n_stored;
		ret_columns[i] = h->columns[i].stored;
		if (n_stored == n_raw)
			continue;
		size_t n = ZSTD_decompressDCtx(zstd, d->raw + at, n_raw, ret_columns[i], n_stored);
		if (n != n_raw)
			return -EBADMSG;
		memset(d->raw + at + n_raw, 0, DECODER_SLACK);
		ret_columns[i] = d->raw + at;
		at += n_raw + DECODER_SLACK;
	}
	return 0;
}

/* Are the columns as long as the tags say? */
static int check(const struct event_head *h, const uint8_t *tags, size_t *ret_n_new)
{
	uint32_t counts[2][256] = {0};
	size_t n_time_high = 0, n_listed = 0, n_new = 0;

	if (h->columns[PLX_TAGS].n_raw != h->n || h->columns[PLX_TIME_LOW].n_raw != h->n)
		return -EBADMSG;
	for (uint32_t i = 0; i < h->n; i++)
		counts[i & 1][tags[i]]++;
	for (unsigned tag = 0; tag < 256; tag++) {
		uint32_t count = counts[0][tag] + counts[1][tag];
		if (!count)
			continue;
		if (tag >> 2 >= h->n_shapes)
			return -EBADMSG;
		n_time_high += (size_t)count * n_high[tag & 3];
		switch (h->shapes[tag >> 2].how & PLX_NAME_MASK) {
		case PLX_NAME_LISTED:
			n_listed += count;
			break;
		case PLX_NAME_NEW:
			n_new += count;
			break;
		}
	}
	if (h->columns[PLX_TIME_HIGH].n_raw != n_time_high ||
	    h->columns[PLX_NAME_LOW].n_raw != n_listed ||
	    h->columns[PLX_NAME_HIGH].n_raw != n_listed)
		return -EBADMSG;
	*ret_n_new = n_new;
	return 0;
}

int decoder_begin(struct decoder *d, ZSTD_DCtx *zstd, const void *payload, size_t size)
{
	struct event_head h;
	const uint8_t *columns[PLX_N_COLUMNS];
	size_t n_new;

	d->n = d->n_given = 0;
	d->damaged = false;
	if (read_head(payload, size, &h) < 0)
		return -EBADMSG;
	int r;

	TRY(unpack(d, zstd, &h, columns));
	TRY(check(&h, columns[PLX_TAGS], &n_new));
	size_t names_bytes = d->names_cap * sizeof(*d->names);
	r = reserve((void **)&d->names, &names_bytes, n_new * sizeof(*d->names));
	d->names_cap = names_bytes / sizeof(*d->names);
	if (r < 0)
		return r;

	d->thread = h.thread;
	d->n = h.n;
	d->time = h.time;
	d->tags = columns[PLX_TAGS];
	d->time_low = columns[PLX_TIME_LOW];
	d->time_high = columns[PLX_TIME_HIGH];
	d->name_low = columns[PLX_NAME_LOW];
	d->name_high = columns[PLX_NAME_HIGH];
	d->rest = columns[PLX_REST];
	d->rest_end = d->rest + h.columns[PLX_REST].n_raw;
	d->n_shapes = h.n_shapes;
	d->n_names = d->depth = 0;
	d->same = (struct decoder_name){.kind = TRACE_KIND_NONE};
	memcpy(d->shapes, h.shapes, h.n_shapes * sizeof(h.shapes[0]));
	memset(d->last_task, 0, sizeof(d->last_task));
	return 0;
}

/* Reads at most ten bytes; the caller checks afterwards that they were inside. */
static inline const uint8_t *get_uleb(const uint8_t *at, uint64_t *ret)
{
	uint64_t v = *at & 0x7f;
	for (unsigned shift = 7; *at++ & 0x80 && shift < 64; shift += 7)
		v |= (uint64_t)(*at & 0x7f) << shift;
	*ret = v;
	return at;
}

size_t decoder_next(struct decoder *d, struct trace_event *ev, size_t max)
{
	size_t n = d->n - d->n_given < max ? d->n - d->n_given : max;
	const uint8_t *tags = d->tags + d->n_given, *time_low = d->time_low + d->n_given;
	const uint8_t *time_high = d->time_high, *name_low = d->name_low;
	const uint8_t *name_high = d->name_high, *rest = d->rest, *rest_end = d->rest_end;
	struct decoder_name *names = d->names, same = d->same;
	uint32_t n_names = d->n_names, thread = d->thread;
	uint64_t time = d->time, high, kind, step;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct decoder_shape shape = d->shapes[tags[i] >> 2];
		unsigned size = tags[i] & 3;
		struct decoder_name name;
		uint64_t value = 0;

		memcpy(&high, time_high, sizeof(high));
		time_high += n_high[size];
		time += time_low[i] | (high & high_mask[size]) << 8;

		switch (shape.how & PLX_NAME_MASK) {
		case PLX_NAME_SAME:
			name = same;
			break;
		case PLX_NAME_OPEN:
			if (!d->depth)
				goto damaged;
			same = name = d->open[--d->depth];
			break;
		case PLX_NAME_LISTED: {
			uint32_t number = *name_low++ | (uint32_t)*name_high++ << 8;
			if (number >= n_names)
				goto damaged;
			same = name = names[number];
			break;
		}
		case PLX_NAME_NEW:
			rest = get_uleb(rest, &kind);
			rest = get_uleb(rest, &step);
			if (rest > rest_end)
				goto damaged;
			name.kind = (uint32_t)kind - 1;
			name.task = d->last_task[name.kind % PLX_N_KIND_SLOTS] +
				    ((step >> 1) ^ -(step & 1));
			d->last_task[name.kind % PLX_N_KIND_SLOTS] = name.task;
			same = names[n_names++] = name;
			break;
		default:
			name = (struct decoder_name){.kind = TRACE_KIND_NONE};
		}
		if (shape.how & PLX_PUSH) {
			if (d->depth == PLX_MAX_OPEN)
				goto damaged;
			d->open[d->depth++] = name;
		}
		if (shape.how & PLX_VALUE) {
			rest = get_uleb(rest, &value);
			if (rest > rest_end)
				goto damaged;
		}
		ev[i] = (struct trace_event){
			.time = time,
			.thread = thread,
			.type = shape.type,
			.arg = shape.arg,
			.kind = name.kind,
			.task = name.task,
			.value = value,
		};
	}
	d->n_given += (uint32_t)n;
	d->time = time;
	d->time_high = time_high;
	d->name_low = name_low;
	d->name_high = name_high;
	d->rest = rest;
	d->same = same;
	d->n_names = n_names;
	return n;

damaged:
	d->damaged = true;
	d->n = d->n_given + (uint32_t)i;
	d->n_given = d->n;
	return i;
}

void decoder_done(struct decoder *d)
{
	free(d->names);
	free(d->raw);
	*d = (struct decoder){0};
}
