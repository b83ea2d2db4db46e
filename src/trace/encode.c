/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Events into the payload of an EVENTS chunk (docs/trace-format.md). A draft of a thread's next
 * chunk is six columns, to which its events are added while they are hot: in columns they take a
 * tenth of the memory that they take as events, and a recorder that runs now and then on a busy
 * machine finds its own data evicted from the caches. When the chunk is due each column is
 * compressed on its own.
 *
 * Which name is put on the list, and when an event refers to it, is the encoder's choice. It lists
 * every name once, and finds it again by a hash table sized to the number of events.
 */
#include "trace/codec.h"

#include "base/cpu_yield.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX ENCODER_MAX_EVENTS
#define FIRST_EVENTS 64u
#define ZSTD_LEVEL 1
/* Below it a frame's head eats what it could save. */
#define MIN_COMPRESSED 48u

_Static_assert(MAX <= 65535, "a number of a name, plus one, has 16 bits");
_Static_assert((MAX & (MAX - 1)) == 0 && (FIRST_EVENTS & (FIRST_EVENTS - 1)) == 0, "doubles");

static const unsigned column_bytes[PLX_N_COLUMNS] = {1, 1, 7, 1, 1, PLX_MAX_REST_BYTES};

struct draft {
	uint32_t n, cap; /* of events; cap is a power of two */
	uint32_t depth, same;
	uint64_t begin_ns, time;
	uint8_t *raw[PLX_N_COLUMNS], *end[PLX_N_COLUMNS]; /* of what was put */

	uint32_t n_names;
	struct decoder_name *names; /* cap of them: one block of memory with all that follows */
	uint16_t *name_hash;	    /* 2 * cap: number + 1, 0 is free */

	uint32_t n_shapes;
	struct decoder_shape shapes[PLX_MAX_SHAPES];
	uint8_t shape_hash[256]; /* shape + 1, 0 is free */
	uint32_t open[PLX_MAX_OPEN];
	uint64_t last_task[PLX_N_KIND_SLOTS];
};

struct encoder {
	ZSTD_CCtx *zstd;
	uint8_t *packed;
	size_t packed_cap;
};

struct encoder *encoder_new(void)
{
	struct encoder *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++)
		e->packed_cap += ZSTD_compressBound(column_bytes[c] * (size_t)MAX);
	e->packed = malloc(e->packed_cap);
	e->zstd = ZSTD_createCCtx();
	if (!e->packed || !e->zstd) {
		encoder_free(e);
		return NULL;
	}
	ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
	ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_contentSizeFlag, 0);
	return e;
}

void encoder_free(struct encoder *e)
{
	if (!e)
		return;
	ZSTD_freeCCtx(e->zstd);
	free(e->packed);
	free(e);
}

/* The number of a name, or n_names; *ret_slot is its place in the hash table. */
static inline uint32_t find_name(const struct draft *d, uint32_t kind, uint64_t task,
				 uint32_t *ret_slot)
{
	uint64_t h = (task + ((uint64_t)kind << 40)) * 0x9e3779b97f4a7c15ULL;
	uint32_t mask = 2 * d->cap - 1;
	uint32_t slot = (uint32_t)((h ^ h >> 29) >> 32) & mask;
	for (;; slot = (slot + 1) & mask) {
		uint32_t i = d->name_hash[slot];
		if (!i || (d->names[i - 1].task == task && d->names[i - 1].kind == kind)) {
			*ret_slot = slot;
			return i ? i - 1 : d->n_names;
		}
	}
}

/* The number of a shape, which it makes if need be; PLX_MAX_SHAPES if there is no room. */
static inline uint32_t find_shape(struct draft *d, uint16_t type, uint16_t arg, uint32_t how)
{
	uint32_t slot = (type * 37u + arg * 11u + how * 101u) & 0xff;
	for (;; slot = (slot + 1) & 0xff) {
		uint32_t i = d->shape_hash[slot];
		if (!i)
			break;
		const struct decoder_shape *s = &d->shapes[i - 1];
		if (s->type == type && s->arg == arg && s->how == how)
			return i - 1;
	}
	if (d->n_shapes == PLX_MAX_SHAPES)
		return PLX_MAX_SHAPES;
	d->shapes[d->n_shapes++] = (struct decoder_shape){.type = type, .arg = arg, .how = how};
	d->shape_hash[slot] = (uint8_t)d->n_shapes;
	return d->n_shapes - 1;
}

static inline uint8_t *put_uleb(uint8_t *at, uint64_t v)
{
	while (v >= 0x80) {
		*at++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*at++ = (uint8_t)v;
	return at;
}

static size_t block_bytes(uint32_t cap)
{
	size_t bytes = cap * (sizeof(struct decoder_name) + 2 * sizeof(uint16_t));

	for (unsigned c = 0; c < PLX_N_COLUMNS; c++)
		bytes += column_bytes[c] * (size_t)cap + 8;
	return bytes;
}

/* Gives the draft room for cap events, in a block of its own. */
static int draft_grow(struct draft *d, uint32_t cap)
{
	struct decoder_name *names = malloc(block_bytes(cap)), *before = d->names;
	uint8_t *at;

	if (!names)
		return -ENOMEM;
	d->cap = cap;
	d->name_hash = (uint16_t *)(names + cap);
	memset(d->name_hash, 0, 2 * cap * sizeof(*d->name_hash));
	d->names = names;
	for (uint32_t i = 0, n = d->n_names; i < n; i++) {
		uint32_t slot;

		names[i] = before[i];
		d->n_names = i; /* this many can be found */
		find_name(d, names[i].kind, names[i].task, &slot);
		d->name_hash[slot] = (uint16_t)(i + 1);
		d->n_names = n;
	}
	at = (uint8_t *)(d->name_hash + 2 * cap);
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++) {
		size_t n = (size_t)(d->end[c] - d->raw[c]);

		if (n)
			memcpy(at, d->raw[c], n);
		d->raw[c] = at;
		d->end[c] = at + n;
		at += column_bytes[c] * (size_t)cap + 8;
	}
	free(before);
	return 0;
}

struct draft *draft_new(void)
{
	struct draft *d = calloc(1, sizeof(*d));

	if (d && draft_grow(d, FIRST_EVENTS) == 0) {
		d->same = UINT32_MAX;
		return d;
	}
	free(d);
	return NULL;
}

void draft_free(struct draft *d)
{
	if (!d)
		return;
	free(d->names);
	free(d);
}

uint32_t draft_n(const struct draft *d)
{
	return d->n;
}

static void draft_clear(struct draft *d)
{
	memset(d->name_hash, 0, 2 * d->cap * sizeof(*d->name_hash));
	memset(d->shape_hash, 0, sizeof(d->shape_hash));
	memset(d->last_task, 0, sizeof(d->last_task));
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++)
		d->end[c] = d->raw[c];
	d->n = d->depth = d->n_names = d->n_shapes = 0;
	d->same = UINT32_MAX;
}

/* Fills the columns; how many of the events found room. */
static size_t fill_columns(struct draft *d, const struct trace_event *ev, size_t n)
{
	static const uint8_t n_high[4] = {0, 1, 2, 7};
	uint8_t *tags = d->end[PLX_TAGS], *low = d->end[PLX_TIME_LOW];
	uint8_t *high = d->end[PLX_TIME_HIGH], *rest = d->end[PLX_REST];
	uint8_t *name_low = d->end[PLX_NAME_LOW], *name_high = d->end[PLX_NAME_HIGH];
	uint32_t *open = d->open, depth = d->depth, same = d->same;
	uint64_t time = d->time;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct trace_event *x = &ev[i];
		uint32_t how, name = same, slot = 0;

		if (x->kind == TRACE_KIND_NONE && !x->task) {
			how = PLX_NAME_NONE;
		} else if ((x->type == TE_POLL_END || x->type == TE_FUTURE_END) && depth &&
			   d->names[open[depth - 1]].task == x->task &&
			   d->names[open[depth - 1]].kind == x->kind) {
			how = PLX_NAME_OPEN;
			name = open[depth - 1];
		} else if (same != UINT32_MAX && d->names[same].task == x->task &&
			   d->names[same].kind == x->kind) {
			how = PLX_NAME_SAME;
		} else {
			name = find_name(d, x->kind, x->task, &slot);
			how = name < d->n_names ? PLX_NAME_LISTED : PLX_NAME_NEW;
		}
		uint32_t way = how;
		if ((x->type == TE_POLL_BEGIN || x->type == TE_FUTURE_BEGIN) &&
		    how != PLX_NAME_NONE && depth < PLX_MAX_OPEN)
			how |= PLX_PUSH;
		if (x->value)
			how |= PLX_VALUE;

		uint32_t shape = find_shape(d, x->type, x->arg, how);
		if (shape == PLX_MAX_SHAPES)
			break;

		uint64_t delta = x->time - time;
		time = x->time;
		unsigned size = (delta > 0xff) + (delta > 0xffff) + (delta > 0xffffff);
		*tags++ = (uint8_t)(shape << 2 | size);
		*low++ = (uint8_t)delta;
		uint64_t above = delta >> 8;
		memcpy(high, &above, 8);
		high += n_high[size];

		if (way == PLX_NAME_LISTED) {
			*name_low++ = (uint8_t)name;
			*name_high++ = (uint8_t)(name >> 8);
		} else if (way == PLX_NAME_NEW) {
			uint64_t *last = &d->last_task[x->kind % PLX_N_KIND_SLOTS];
			int64_t step = (int64_t)(x->task - *last);
			*last = x->task;
			rest = put_uleb(rest, (uint32_t)(x->kind + 1));
			rest = put_uleb(rest, ((uint64_t)step << 1) ^ (uint64_t)(step >> 63));
			d->names[d->n_names++] =
				(struct decoder_name){.task = x->task, .kind = x->kind};
			d->name_hash[slot] = (uint16_t)d->n_names;
		} else if (way == PLX_NAME_OPEN) {
			depth--;
		}
		same = name;
		if (how & PLX_PUSH)
			open[depth++] = name;
		if (how & PLX_VALUE)
			rest = put_uleb(rest, x->value);
	}

	d->end[PLX_TAGS] = tags;
	d->end[PLX_TIME_LOW] = low;
	d->end[PLX_TIME_HIGH] = high;
	d->end[PLX_NAME_LOW] = name_low;
	d->end[PLX_NAME_HIGH] = name_high;
	d->end[PLX_REST] = rest;
	d->depth = depth;
	d->same = same;
	d->time = time;
	return i;
}

#ifndef NDEBUG
static bool columns_fit(const struct draft *d)
{
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++)
		if ((size_t)(d->end[c] - d->raw[c]) > column_bytes[c] * (size_t)d->n)
			return false;
	return true;
}
#endif

int draft_add(struct draft *d, const struct trace_event *ev, size_t n, size_t *ret_done)
{
	if (n > MAX - d->n)
		n = MAX - d->n;
	for (*ret_done = 0; n > d->cap - d->n;)
		if (draft_grow(d, d->cap * 2) < 0)
			return -ENOMEM;
	if (!d->n && n)
		d->begin_ns = d->time = ev[0].time;
	*ret_done = fill_columns(d, ev, n);
	d->n += (uint32_t)*ret_done;
	assert(d->n <= d->cap && d->n_names <= d->n && d->depth <= PLX_MAX_OPEN);
	assert(columns_fit(d));
	return 0;
}

struct stored {
	const uint8_t *data;
	size_t n;
};

static void pack_columns(struct encoder *e, const struct draft *d, struct stored *out)
{
	uint8_t *at = e->packed;

	for (unsigned c = 0; c < PLX_N_COLUMNS; c++) {
		size_t n_raw = (size_t)(d->end[c] - d->raw[c]);

		out[c] = (struct stored){d->raw[c], n_raw};
		if (n_raw < MIN_COMPRESSED)
			continue;
		cpu_yield();
		size_t n = ZSTD_compress2(e->zstd, at, (size_t)(e->packed + e->packed_cap - at),
					  d->raw[c], n_raw);
		if (ZSTD_isError(n) || n >= n_raw)
			continue;
		out[c] = (struct stored){at, n};
		at += n;
	}
}

int encoder_run(struct encoder *e, uint32_t thread, struct draft *d, struct buf *out)
{
	struct stored stored[PLX_N_COLUMNS];

	pack_columns(e, d, stored);
	buf_uleb(out, thread);
	buf_uleb(out, d->n);
	buf_add(out, &d->begin_ns, sizeof(d->begin_ns));
	buf_uleb(out, d->n_shapes);
	for (uint32_t i = 0; i < d->n_shapes; i++) {
		buf_uleb(out, d->shapes[i].type);
		buf_uleb(out, d->shapes[i].arg);
		buf_char(out, (char)d->shapes[i].how);
	}
	buf_uleb(out, PLX_N_COLUMNS);
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++) {
		buf_uleb(out, (uint64_t)(d->end[c] - d->raw[c]));
		buf_uleb(out, stored[c].n);
	}
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++)
		buf_add(out, stored[c].data, stored[c].n);
	draft_clear(d);
	return buf_failed(out) ? -ENOMEM : 0;
}
