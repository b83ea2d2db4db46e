/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Parquet (github.com/apache/parquet-format), flat tables without nulls, a file per table:
 *
 *     "PAR1" MARK, row groups: per column [dictionary page] data page, metadata, its length, "PAR1"
 *
 * Numbers are INT64, DELTA_BINARY_PACKED; texts are byte arrays in a dictionary per row group, whose
 * numbers are bit-packed. Pages are compressed with zstd. A row group has GROUP_ROWS rows, which is
 * what is held in memory; each column has its least and greatest number, so that readers skip groups
 * by time. Nothing depends on the clock: the same trace gives the same bytes.
 */
#include "export/formats.h"
#include "export/row_files.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#define GROUP_ROWS 65536u
#define MAGIC "PAR1"
/* After the magic, where no reader looks: whose file it is. */
#define MARK "PAR1pollux\n"

/* The format's numbers. */
enum { TYPE_INT64 = 2, TYPE_BYTE_ARRAY = 6 };
enum { ENCODING_PLAIN = 0, ENCODING_RLE = 3, ENCODING_DELTA = 5, ENCODING_DICTIONARY = 8 };
enum { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };
enum { CODEC_ZSTD = 6, CONVERTED_UTF8 = 0, REQUIRED = 0 };

/* ---- Thrift's compact protocol, as far as it is needed ---- */

enum { THRIFT_I32 = 5, THRIFT_I64 = 6, THRIFT_BINARY = 8, THRIFT_LIST = 9, THRIFT_STRUCT = 12 };

static void zigzag(struct buf *b, int64_t v)
{
	buf_uleb(b, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

/* Fields of a struct come in the order of their numbers; `last` is that of the one before. */
static void field(struct buf *b, int *last, int id, int type)
{
	buf_char(b, (char)((id - *last) << 4 | type)); /* never further apart than 15 */
	*last = id;
}

static void field_i32(struct buf *b, int *last, int id, int64_t v)
{
	field(b, last, id, THRIFT_I32);
	zigzag(b, v);
}

static void field_i64(struct buf *b, int *last, int id, uint64_t v)
{
	field(b, last, id, THRIFT_I64);
	zigzag(b, (int64_t)v);
}

static void binary(struct buf *b, const void *data, size_t len)
{
	buf_uleb(b, len);
	buf_add(b, data, len);
}

static void field_text(struct buf *b, int *last, int id, const char *s)
{
	field(b, last, id, THRIFT_BINARY);
	binary(b, s, strlen(s));
}

static void list(struct buf *b, size_t n, int type)
{
	if (n < 15) {
		buf_char(b, (char)(n << 4 | (unsigned)type));
	} else {
		buf_char(b, (char)(0xf0 | type));
		buf_uleb(b, n);
	}
}

static void end_struct(struct buf *b)
{
	buf_char(b, 0);
}

/* ---- a column of a row group ---- */

/* What the metadata say of it. */
struct chunk {
	uint64_t data_at, dictionary_at, bytes, raw_bytes, n;
	int64_t min, max;
};

struct column_rows {
	int64_t *values; /* or numbers in the dictionary */
	struct map by_text;
	struct buf dictionary; /* its page: length and bytes of each text */
};

struct parquet_table {
	struct column_rows columns[ROWS_MAX_COLUMNS];
	uint32_t n; /* rows of the group */
	uint64_t n_rows;
	struct chunk *chunks; /* of all groups, one after the other */
	size_t n_chunks, cap_chunks;
	uint32_t *group_rows;
	size_t n_groups;
};

struct parquet {
	struct row_files files;
	struct parquet_table tables[TABLE_N];
	struct buf page, packed, head;
	ZSTD_CCtx *zstd;
};

/* `values` of `width` bits each, the lowest bit first, up to a multiple of 8 values. */
static void pack_bits(struct buf *b, const uint64_t *values, size_t n, unsigned width)
{
	unsigned have = 0;
	unsigned __int128 bits = 0;

	for (size_t i = 0; i < (n + 7) / 8 * 8; i++) {
		bits |= (unsigned __int128)(i < n ? values[i] : 0) << have;
		for (have += width; have >= 8; have -= 8, bits >>= 8)
			buf_char(b, (char)bits);
	}
}

static unsigned width_of(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

enum { BLOCK = 128, MINIBLOCK = 32 };

/* A block of n differences between n + 1 values, less the least of them, in four parts with a width
 * each. */
static void delta_block(struct buf *b, const int64_t *values, size_t n)
{
	uint64_t deltas[BLOCK] = {0};
	int64_t least = INT64_MAX;
	size_t parts = (n + MINIBLOCK - 1) / MINIBLOCK;

	for (size_t i = 0; i < n; i++) {
		deltas[i] = (uint64_t)values[i + 1] - (uint64_t)values[i];
		if ((int64_t)deltas[i] < least)
			least = (int64_t)deltas[i];
	}
	zigzag(b, least);
	unsigned widths[BLOCK / MINIBLOCK] = {0};
	for (size_t i = 0; i < n; i++) {
		deltas[i] -= (uint64_t)least;
		unsigned width = width_of(deltas[i]);
		if (width > widths[i / MINIBLOCK])
			widths[i / MINIBLOCK] = width;
	}
	for (size_t i = 0; i < BLOCK / MINIBLOCK; i++)
		buf_char(b, (char)widths[i]);
	for (size_t i = 0; i < parts; i++)
		pack_bits(b, deltas + i * MINIBLOCK, MINIBLOCK, widths[i]);
}

static void delta_encode(struct buf *b, const int64_t *values, size_t n)
{
	buf_uleb(b, BLOCK);
	buf_uleb(b, BLOCK / MINIBLOCK);
	buf_uleb(b, n);
	zigzag(b, n ? values[0] : 0);
	for (size_t i = 1; i < n; i += BLOCK)
		delta_block(b, values + i - 1, n - i < BLOCK ? n - i : BLOCK);
}

/* Numbers in a dictionary of `size`: one run of bit-packed groups of 8. */
static void dictionary_encode(struct buf *b, const int64_t *values, size_t n, size_t size)
{
	unsigned width = size > 1 ? width_of(size - 1) : 1;

	buf_char(b, (char)width);
	buf_uleb(b, (n + 7) / 8 << 1 | 1);
	pack_bits(b, (const uint64_t *)values, n, width);
}

/* A page, compressed, after its head. */
static int write_page(struct parquet *p, struct out *o, int type, int encoding, size_t n,
		      struct chunk *chunk)
{
	size_t bound = ZSTD_compressBound(p->page.len);
	int last = 0, inner = 0;

	buf_clear(&p->packed);
	if (buf_failed(&p->page) || !buf_reserve(&p->packed, bound))
		return -ENOMEM;
	size_t packed = ZSTD_compressCCtx(p->zstd, p->packed.data, bound,
					  p->page.data ? p->page.data : "", p->page.len, 3);
	if (ZSTD_isError(packed))
		return -ENOMEM;

	buf_clear(&p->head);
	field_i32(&p->head, &last, 1, type);
	field_i32(&p->head, &last, 2, (int64_t)p->page.len);
	field_i32(&p->head, &last, 3, (int64_t)packed);
	field(&p->head, &last, type == PAGE_DATA ? 5 : 7, THRIFT_STRUCT);
	field_i32(&p->head, &inner, 1, (int64_t)n);
	field_i32(&p->head, &inner, 2, encoding);
	if (type == PAGE_DATA) { /* levels, of which there are none */
		field_i32(&p->head, &inner, 3, ENCODING_RLE);
		field_i32(&p->head, &inner, 4, ENCODING_RLE);
	}
	end_struct(&p->head);
	end_struct(&p->head);
	if (buf_failed(&p->head))
		return -ENOMEM;
	out_write(o, p->head.data, p->head.len);
	out_write(o, p->packed.data, packed);
	chunk->bytes += p->head.len + packed;
	chunk->raw_bytes += p->head.len + p->page.len;
	buf_clear(&p->page);
	return o->error;
}

static int write_text(struct parquet *p, struct out *o, struct column_rows *c, size_t n,
		      struct chunk *chunk)
{
	size_t size = c->by_text.n;

	chunk->dictionary_at = o->bytes;
	buf_clear(&p->page);
	buf_add(&p->page, c->dictionary.data, c->dictionary.len);
	TRY(write_page(p, o, PAGE_DICTIONARY, ENCODING_PLAIN, size, chunk));
	chunk->data_at = o->bytes;
	dictionary_encode(&p->page, c->values, n, size);
	map_done(&c->by_text);
	buf_clear(&c->dictionary);
	return write_page(p, o, PAGE_DATA, ENCODING_DICTIONARY, n, chunk);
}

static int write_numbers(struct parquet *p, struct out *o, const struct column_rows *c, size_t n,
			 struct chunk *chunk)
{
	chunk->min = chunk->max = c->values[0];
	for (size_t i = 1; i < n; i++) {
		chunk->min = c->values[i] < chunk->min ? c->values[i] : chunk->min;
		chunk->max = c->values[i] > chunk->max ? c->values[i] : chunk->max;
	}
	chunk->data_at = o->bytes;
	buf_clear(&p->page);
	delta_encode(&p->page, c->values, n);
	return write_page(p, o, PAGE_DATA, ENCODING_DELTA, n, chunk);
}

static int write_group(struct parquet *p, enum table table)
{
	struct parquet_table *t = &p->tables[table];
	const struct table_type *type = &row_tables[table];
	struct out *o = p->files.of[table];

	if (!t->n)
		return 0;
	if (!GROW_ONE(t->group_rows, t->n_groups))
		return -ENOMEM;
	t->group_rows[t->n_groups++] = t->n;
	for (unsigned i = 0; i < type->n_columns; i++) {
		if (!GROW(t->chunks, t->n_chunks, t->cap_chunks))
			return -ENOMEM;
		struct chunk *chunk = &t->chunks[t->n_chunks++];
		*chunk = (struct chunk){.n = t->n};
		TRY(type->columns[i].text ? write_text(p, o, &t->columns[i], t->n, chunk)
					  : write_numbers(p, o, &t->columns[i], t->n, chunk));
	}
	t->n_rows += t->n;
	t->n = 0;
	return o->error;
}

/* ---- rows ---- */

/* The number of a text in the dictionary of this group. */
static int text_number(struct column_rows *c, const char *text, int64_t *ret)
{
	uint64_t hash = hash_string(0, text), again = hash_string(1, text);
	uintptr_t known = (uintptr_t)map_get(&c->by_text, hash, again);
	size_t len = strlen(text);

	*ret = (int64_t)(known ? known - 1 : c->by_text.n);
	if (known)
		return 0;
	const unsigned char le[4] = {(unsigned char)len, (unsigned char)(len >> 8),
				     (unsigned char)(len >> 16), (unsigned char)(len >> 24)};
	buf_add(&c->dictionary, le, sizeof(le));
	buf_add(&c->dictionary, text, len);
	return buf_failed(&c->dictionary)
		       ? -ENOMEM
		       : map_put(&c->by_text, hash, again, (void *)(uintptr_t)(*ret + 1));
}

static int on_row(void *ctx, enum table table, const struct row_cell *cells)
{
	struct parquet *p = ctx;
	struct parquet_table *t = &p->tables[table];
	const struct table_type *type = &row_tables[table];

	if (!p->files.of[table])
		return 0;
	p->files.n_rows++;
	for (unsigned i = 0; i < type->n_columns; i++) {
		struct column_rows *c = &t->columns[i];
		int64_t v = cells[i].number;

		if (type->columns[i].text)
			TRY(text_number(c, cells[i].text, &v));
		if (!GROW_ONE(c->values, t->n))
			return -ENOMEM;
		c->values[t->n] = v;
	}
	return ++t->n == GROUP_ROWS ? write_group(p, table) : 0;
}

/* ---- metadata ---- */

static void put_schema(struct buf *b, const struct table_type *type)
{
	int last = 0;

	list(b, type->n_columns + 1, THRIFT_STRUCT);
	field_text(b, &last, 4, type->name);
	field_i32(b, &last, 5, type->n_columns);
	end_struct(b);
	for (unsigned i = 0; i < type->n_columns; i++) {
		last = 0;
		field_i32(b, &last, 1, type->columns[i].text ? TYPE_BYTE_ARRAY : TYPE_INT64);
		field_i32(b, &last, 3, REQUIRED);
		field_text(b, &last, 4, type->columns[i].name);
		if (type->columns[i].text)
			field_i32(b, &last, 6, CONVERTED_UTF8);
		end_struct(b);
	}
}

static void put_i64_text(struct buf *b, int *last, int id, int64_t v)
{
	unsigned char le[8];

	for (unsigned i = 0; i < 8; i++)
		le[i] = (unsigned char)((uint64_t)v >> 8 * i);
	field(b, last, id, THRIFT_BINARY);
	binary(b, le, sizeof(le));
}

static void put_chunk(struct buf *b, const struct row_column *column, const struct chunk *c)
{
	int last = 0, meta = 0, stats = 0;

	field_i64(b, &last, 2, column->text ? c->dictionary_at : c->data_at);
	field(b, &last, 3, THRIFT_STRUCT);
	field_i32(b, &meta, 1, column->text ? TYPE_BYTE_ARRAY : TYPE_INT64);
	field(b, &meta, 2, THRIFT_LIST);
	list(b, column->text ? 2 : 1, THRIFT_I32);
	zigzag(b, column->text ? ENCODING_PLAIN : ENCODING_DELTA);
	if (column->text)
		zigzag(b, ENCODING_DICTIONARY);
	field(b, &meta, 3, THRIFT_LIST);
	list(b, 1, THRIFT_BINARY);
	binary(b, column->name, strlen(column->name));
	field_i32(b, &meta, 4, CODEC_ZSTD);
	field_i64(b, &meta, 5, c->n);
	field_i64(b, &meta, 6, c->raw_bytes);
	field_i64(b, &meta, 7, c->bytes);
	field_i64(b, &meta, 9, c->data_at);
	if (column->text) {
		field_i64(b, &meta, 11, c->dictionary_at);
	} else {
		field(b, &meta, 12, THRIFT_STRUCT);
		field_i64(b, &stats, 3, 0); /* nulls */
		put_i64_text(b, &stats, 5, c->max);
		put_i64_text(b, &stats, 6, c->min);
		end_struct(b);
	}
	end_struct(b);
	end_struct(b);
}

static void put_groups(struct buf *b, const struct parquet_table *t, const struct table_type *type)
{
	list(b, t->n_groups, THRIFT_STRUCT);
	for (size_t g = 0; g < t->n_groups; g++) {
		const struct chunk *chunks = &t->chunks[g * type->n_columns];
		uint64_t bytes = 0;
		int last = 0;

		field(b, &last, 1, THRIFT_LIST);
		list(b, type->n_columns, THRIFT_STRUCT);
		for (unsigned i = 0; i < type->n_columns; i++) {
			put_chunk(b, &type->columns[i], &chunks[i]);
			bytes += chunks[i].raw_bytes;
		}
		field_i64(b, &last, 2, bytes);
		field_i64(b, &last, 3, t->group_rows[g]);
		end_struct(b);
	}
}

static int write_end(struct parquet *p, enum table table)
{
	const struct table_type *type = &row_tables[table];
	struct parquet_table *t = &p->tables[table];
	struct out *o = p->files.of[table];
	struct buf *b = &p->head;
	int last = 0;

	TRY(write_group(p, table));
	buf_clear(b);
	field_i32(b, &last, 1, 2);
	field(b, &last, 2, THRIFT_LIST);
	put_schema(b, type);
	field_i64(b, &last, 3, t->n_rows);
	field(b, &last, 4, THRIFT_LIST);
	put_groups(b, t, type);
	field_text(b, &last, 6, "pollux " POLLUX_VERSION);
	end_struct(b);
	if (buf_failed(b) || b->len > UINT32_MAX)
		return -ENOMEM;
	const unsigned char len[4] = {(unsigned char)b->len, (unsigned char)(b->len >> 8),
				      (unsigned char)(b->len >> 16), (unsigned char)(b->len >> 24)};
	out_write(o, b->data, b->len);
	out_write(o, len, sizeof(len));
	out_write(o, MAGIC, 4);
	return o->error;
}

static int write_files(struct parquet *p, struct trace_reader *reader,
		       const struct export_options *opt, struct error *err)
{
	int made, r = 0;

	p->zstd = ZSTD_createCCtx();
	if (!p->zstd)
		return -ENOMEM;
	for (enum table t = 0; t < TABLE_N; t++)
		if (p->files.of[t])
			out_write(p->files.of[t], MARK, sizeof(MARK) - 1);
	made = rows_make(reader, opt, on_row, p, err);
	if (made == -ENOMEM)
		return made;
	/* A trace that broke off is there up to that point. */
	for (enum table t = 0; t < TABLE_N && r == 0; t++)
		if (p->files.of[t])
			r = write_end(p, t);
	return r < 0 ? r : made;
}

static int parquet_write(struct trace_reader *reader, const struct export_options *opt, FILE *file,
			 struct export_summary *ret_summary, struct error *err)
{
	struct parquet *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	r = row_files_open(&p->files, opt, file, false, err);
	if (r == 0) {
		r = write_files(p, reader, opt, err);
		if (r == -ENOMEM)
			error_set(err, r, "out of memory");
		r = row_files_end(&p->files, r, err);
	}
	row_files_summary(&p->files, ret_summary);
	for (enum table t = 0; t < TABLE_N; t++) {
		for (unsigned i = 0; i < ROWS_MAX_COLUMNS; i++) {
			free(p->tables[t].columns[i].values);
			map_done(&p->tables[t].columns[i].by_text);
			buf_done(&p->tables[t].columns[i].dictionary);
		}
		free(p->tables[t].chunks);
		free(p->tables[t].group_rows);
	}
	buf_done(&p->page);
	buf_done(&p->packed);
	buf_done(&p->head);
	ZSTD_freeCCtx(p->zstd);
	row_files_done(&p->files);
	free(p);
	return r;
}

const struct export_ops export_parquet = {
	.name = "parquet",
	.extension = ".parquet",
	.viewers = "DuckDB, pandas, Spark, ClickHouse",
	.reads = "duckdb pandas spark clickhouse",
	.begin = MARK,
	.tables = true,
	.write = parquet_write,
};
