/*
 * Events into the payload of an EVENTS chunk (docs/trace-format.md). One pass over the events fills
 * six columns; then each column is compressed on its own. All memory is there from the start: the
 * capture encodes while a program runs and must not stumble.
 *
 * Which name is put on the list, and when an event refers to it, is the encoder's choice. It lists
 * every name once, and finds it again by a hash table sized to the number of events, so that
 * clearing it costs a small chunk little.
 */
#include "trace/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX ENCODER_MAX_EVENTS
#define HASH_BITS 15u
#define ZSTD_LEVEL 1
/* Below it a frame's head eats what it could save. */
#define MIN_COMPRESSED 48u

_Static_assert((1u << HASH_BITS) >= 2 * MAX, "the hash table is at most half full");
_Static_assert(MAX <= 65535, "a number of a name, plus one, has 16 bits");

struct column {
	uint8_t *raw, *stored; /* stored: what goes into the file; raw itself or in packed[] */
	size_t n_raw, n_stored;
};

struct encoder {
	ZSTD_CCtx *zstd;
	uint8_t *memory; /* of the columns */
	uint8_t *packed;
	size_t packed_cap;
	struct column columns[PLX_N_COLUMNS];

	uint32_t n_shapes;
	struct decoder_shape shapes[PLX_MAX_SHAPES];
	uint8_t shape_hash[256]; /* shape + 1, 0 is free */

	uint32_t n_names, name_bits;
	struct decoder_name names[MAX];
	uint16_t name_hash[1u << HASH_BITS]; /* number + 1, 0 is free */
};

static const unsigned column_bytes[PLX_N_COLUMNS] = {1, 1, 7, 1, 1, PLX_MAX_REST_BYTES};

struct encoder *encoder_new(void)
{
	struct encoder *e = calloc(1, sizeof(*e));
	size_t total = 0;

	if (!e)
		return NULL;
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++) {
		total += column_bytes[c] * (size_t)MAX + 8;
		e->packed_cap += ZSTD_compressBound(column_bytes[c] * (size_t)MAX);
	}
	e->memory = malloc(total);
	e->packed = malloc(e->packed_cap);
	e->zstd = ZSTD_createCCtx();
	if (!e->memory || !e->packed || !e->zstd) {
		encoder_free(e);
		return NULL;
	}
	ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
	ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_contentSizeFlag, 0);
	uint8_t *at = e->memory;
	for (unsigned c = 0; c < PLX_N_COLUMNS; c++) {
		e->columns[c].raw = at;
		at += column_bytes[c] * (size_t)MAX + 8;
	}
	return e;
}

void encoder_free(struct encoder *e)
{
	if (!e)
		return;
	ZSTD_freeCCtx(e->zstd);
	free(e->memory);
	free(e->packed);
	free(e);
}

/* The number of a name, or n_names; *ret_slot is its place in the hash table. */
static inline uint32_t find_name(const struct encoder *e, uint32_t kind, uint64_t task,
				 uint32_t *ret_slot)
{
	uint64_t h = (task + ((uint64_t)kind << 40)) * 0x9e3779b97f4a7c15ULL;
	uint32_t mask = (1u << e->name_bits) - 1;
	uint32_t slot = (uint32_t)((h ^ h >> 29) >> 32) & mask;
	for (;; slot = (slot + 1) & mask) {
		uint32_t i = e->name_hash[slot];
		if (!i || (e->names[i - 1].task == task && e->names[i - 1].kind == kind)) {
			*ret_slot = slot;
			return i ? i - 1 : e->n_names;
		}
	}
}

/* The number of a shape, which it makes if need be; PLX_MAX_SHAPES if there is no room. */
static inline uint32_t find_shape(struct encoder *e, uint16_t type, uint16_t arg, uint32_t how)
{
	uint32_t slot = (type * 37u + arg * 11u + how * 101u) & 0xff;
	for (;; slot = (slot + 1) & 0xff) {
		uint32_t i = e->shape_hash[slot];
		if (!i)
			break;
		const struct decoder_shape *s = &e->shapes[i - 1];
		if (s->type == type && s->arg == arg && s->how == how)
			return i - 1;
	}
	if (e->n_shapes == PLX_MAX_SHAPES)
		return PLX_MAX_SHAPES;
	e->shapes[e->n_shapes++] = (struct decoder_shape){.type = type, .arg = arg, .how = how};
	e->shape_hash[slot] = (uint8_t)e->n_shapes;
	return e->n_shapes - 1;
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

/* What was gathered over some time is in no near cache any more, and the processor's own foresight
 * ends at each page. */
#define AHEAD 24

/* Fills the columns; how many of the events found room. */
static size_t fill_columns(struct encoder *e, const struct trace_event *ev, size_t n)
{
	static const uint8_t n_high[4] = {0, 1, 2, 7};
	struct column *c = e->columns;
	uint8_t *tags = c[PLX_TAGS].raw, *low = c[PLX_TIME_LOW].raw, *high = c[PLX_TIME_HIGH].raw;
	uint8_t *name_low = c[PLX_NAME_LOW].raw, *name_high = c[PLX_NAME_HIGH].raw;
	uint8_t *rest = c[PLX_REST].raw;
	uint64_t time = ev[0].time, last_task[PLX_N_KIND_SLOTS] = {0};
	uint32_t open[PLX_MAX_OPEN], depth = 0, same = UINT32_MAX;
	size_t i;

	for (i = 0; i < n; i++) {
		const struct trace_event *x = &ev[i];
		uint32_t how, name = same, slot = 0;

		__builtin_prefetch(x + AHEAD);

		if (x->kind == TRACE_KIND_NONE && !x->task) {
			how = PLX_NAME_NONE;
		} else if ((x->type == TE_POLL_END || x->type == TE_FUTURE_END) && depth &&
			   e->names[open[depth - 1]].task == x->task &&
			   e->names[open[depth - 1]].kind == x->kind) {
			how = PLX_NAME_OPEN;
			name = open[depth - 1];
		} else if (same != UINT32_MAX && e->names[same].task == x->task &&
			   e->names[same].kind == x->kind) {
			how = PLX_NAME_SAME;
		} else {
			name = find_name(e, x->kind, x->task, &slot);
			how = name < e->n_names ? PLX_NAME_LISTED : PLX_NAME_NEW;
		}
		uint32_t way = how;
		if ((x->type == TE_POLL_BEGIN || x->type == TE_FUTURE_BEGIN) &&
		    how != PLX_NAME_NONE && depth < PLX_MAX_OPEN)
			how |= PLX_PUSH;
		if (x->value)
			how |= PLX_VALUE;

		uint32_t shape = find_shape(e, x->type, x->arg, how);
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
			uint64_t *last = &last_task[x->kind % PLX_N_KIND_SLOTS];
			int64_t step = (int64_t)(x->task - *last);
			*last = x->task;
			rest = put_uleb(rest, (uint32_t)(x->kind + 1));
			rest = put_uleb(rest, ((uint64_t)step << 1) ^ (uint64_t)(step >> 63));
			e->names[e->n_names++] =
				(struct decoder_name){.task = x->task, .kind = x->kind};
			e->name_hash[slot] = (uint16_t)e->n_names;
		} else if (way == PLX_NAME_OPEN) {
			depth--;
		}
		same = name;
		if (how & PLX_PUSH)
			open[depth++] = name;
		if (how & PLX_VALUE)
			rest = put_uleb(rest, x->value);
	}

	c[PLX_TAGS].n_raw = c[PLX_TIME_LOW].n_raw = i;
	c[PLX_TIME_HIGH].n_raw = high - c[PLX_TIME_HIGH].raw;
	c[PLX_NAME_LOW].n_raw = c[PLX_NAME_HIGH].n_raw = name_low - c[PLX_NAME_LOW].raw;
	c[PLX_REST].n_raw = rest - c[PLX_REST].raw;
	return i;
}

static void pack_columns(struct encoder *e)
{
	uint8_t *at = e->packed;
	for (unsigned i = 0; i < PLX_N_COLUMNS; i++) {
		struct column *c = &e->columns[i];
		c->stored = c->raw;
		c->n_stored = c->n_raw;
		if (c->n_raw < MIN_COMPRESSED)
			continue;
		size_t n = ZSTD_compress2(e->zstd, at, e->packed + e->packed_cap - at, c->raw,
					  c->n_raw);
		if (ZSTD_isError(n) || n >= c->n_raw)
			continue;
		c->stored = at;
		c->n_stored = n;
		at += n;
	}
}

int encoder_run(struct encoder *e, uint32_t thread, const struct trace_event *ev, size_t n,
		struct buf *out, size_t *ret_done)
{
	if (n > MAX)
		n = MAX;
	for (e->name_bits = 4; (1u << e->name_bits) < 2 * n; e->name_bits++)
		;
	memset(e->name_hash, 0, sizeof(e->name_hash[0]) << e->name_bits);
	memset(e->shape_hash, 0, sizeof(e->shape_hash));
	e->n_names = e->n_shapes = 0;

	size_t done = fill_columns(e, ev, n);
	pack_columns(e);

	buf_uleb(out, thread);
	buf_uleb(out, done);
	buf_add(out, &ev[0].time, sizeof(ev[0].time));
	buf_uleb(out, e->n_shapes);
	for (uint32_t i = 0; i < e->n_shapes; i++) {
		buf_uleb(out, e->shapes[i].type);
		buf_uleb(out, e->shapes[i].arg);
		buf_char(out, (char)e->shapes[i].how);
	}
	buf_uleb(out, PLX_N_COLUMNS);
	for (unsigned i = 0; i < PLX_N_COLUMNS; i++) {
		buf_uleb(out, e->columns[i].n_raw);
		buf_uleb(out, e->columns[i].n_stored);
	}
	for (unsigned i = 0; i < PLX_N_COLUMNS; i++)
		buf_add(out, e->columns[i].stored, e->columns[i].n_stored);
	if (buf_failed(out))
		return -ENOMEM;
	*ret_done = done;
	return 0;
}
