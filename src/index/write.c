/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An index into its file: piece after piece, the header last. */
#include "base/compare.h"
#include "index/build.h"
#include "index/format.h"

#include "base/cleanup.h"
#include "base/own_build.h"
#include "base/vec.h"
#include "trace/crc32c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define LEVEL 1 /* of zstd */
#define MIN_CELLS 4096u
#define CELL_EVENTS 64u
#define FEW_SPANS 4096u
/* Of exact_ns around a window, and events that may be in them. */
#define MARGINS 3
#define MARGIN_EVENTS 50000

struct index_writer {
	FILE *file;
	uint64_t offset;
	ZSTD_CCtx *zstd;
	uint64_t *values; /* of a series, all cells of a level */
	uint64_t n_cells; /* of the level 0 */
	unsigned n_levels;
	struct index_block *blocks; /* of a series */
	size_t n_blocks, blocks_cap;
	char packed[64 << 10];
};

static int put(struct index_writer *w, const void *data, size_t bytes)
{
	if (bytes && fwrite(data, 1, bytes, w->file) != bytes)
		return errno ? -errno : -EIO;
	w->offset += bytes;
	return 0;
}

static int put_piece(struct index_writer *w, const void *data, size_t item_bytes, size_t n,
		     struct index_piece *ret)
{
	ret->offset = w->offset;
	ret->bytes = item_bytes * n;
	ret->n = (uint32_t)n;
	ret->checksum = plx_crc32c(data, item_bytes * n);
	return put(w, data, item_bytes * n);
}

/* ---- cells ---- */

static int put_block(struct index_writer *w, unsigned level, unsigned number,
		     const uint64_t *values)
{
	size_t bytes = ZSTD_compressCCtx(w->zstd, w->packed, sizeof(w->packed), values,
					 SERIES_BLOCK * sizeof(*values), LEVEL);

	if (ZSTD_isError(bytes) || !GROW(w->blocks, w->n_blocks, w->blocks_cap))
		return -ENOMEM;
	w->blocks[w->n_blocks++] = (struct index_block){
		.level = level,
		.number = number,
		.offset = w->offset,
		.bytes = (uint32_t)bytes,
		.checksum = plx_crc32c(w->packed, bytes),
	};
	return put(w, w->packed, bytes);
}

static int keep_block(void *ctx, unsigned number, const uint64_t *values)
{
	struct index_writer *w = ctx;

	memcpy(w->values + (size_t)number * SERIES_BLOCK, values, SERIES_BLOCK * sizeof(*values));
	return 0;
}

static bool is_zero(const uint64_t *values)
{
	for (unsigned i = 0; i < SERIES_BLOCK; i++)
		if (values[i])
			return false;
	return true;
}

static int put_levels(struct index_writer *w, const struct series *s)
{
	size_t n = w->n_cells;

	memset(w->values, 0, SERIES_CELLS * sizeof(*w->values));
	TRY(series_each_block(s, keep_block, w));
	for (unsigned level = 0; level < w->n_levels; level++) {
		for (size_t i = 0; i * SERIES_BLOCK < n; i++)
			if (!is_zero(w->values + i * SERIES_BLOCK))
				TRY(put_block(w, level, (unsigned)i, w->values + i * SERIES_BLOCK));
		for (size_t i = 0; i < (n + 1) / 2; i++) {
			uint64_t a = w->values[2 * i], b = w->values[2 * i + 1];
			w->values[i] = !s->max ? a + b : a > b ? a : b;
		}
		memset(w->values + (n + 1) / 2, 0, (n - (n + 1) / 2) * sizeof(*w->values));
		n = (n + 1) / 2;
	}
	return 0;
}

struct series_list {
	struct index_series *items;
	size_t n, cap;
};

static int put_series(struct index_writer *w, struct series_list *list, uint32_t lane,
		      enum index_what what, uint64_t place, const struct series *s)
{
	struct index_series one = {.lane = lane, .what = what, .place = place};

	if (!s)
		return 0;
	w->n_blocks = 0;
	TRY(put_levels(w, s));
	TRY(put_piece(w, w->blocks, sizeof(*w->blocks), w->n_blocks, &one.directory));
	if (!GROW(list->items, list->n, list->cap))
		return -ENOMEM;
	list->items[list->n++] = one;
	return 0;
}

static int put_all_series(struct index_builder *b, struct index_writer *w, struct series_list *list)
{
	for (unsigned k = 0; k < IX_N; k++)
		TRY(put_series(w, list, INDEX_OVERVIEW, k, 0, b->overview[k]));
	for (uint32_t i = 0; i < b->n_lanes; i++) {
		const struct building_lane *lane = b->lanes[i];

		for (unsigned k = 0; k < IX_N; k++)
			TRY(put_series(w, list, i, k, 0, lane->series[k]));
		for (uint32_t k = 0; k < lane->n_waits; k++)
			TRY(put_series(w, list, i, IX_WAITING, lane->waits[k].place,
				       lane->waits[k].series));
	}
	return 0;
}

static int put_heats(struct index_builder *b, struct index_writer *w, struct index_piece *ret)
{
	size_t bytes = INDEX_HEAT_CELLS * sizeof(*b->lanes[0]->heat[0]), n = 0;
	size_t bound = ZSTD_compressBound(bytes);
	_cleanup_free_ char *packed = malloc(bound);
	_cleanup_free_ struct index_heat *heats = calloc(b->n_heats + 1, sizeof(*heats));

	if (!packed || !heats)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->n_lanes; i++) {
		for (unsigned k = 0; k < IH_N; k++) {
			const void *cells = b->lanes[i]->heat[k];
			if (!cells)
				continue;
			size_t len = ZSTD_compressCCtx(w->zstd, packed, bound, cells, bytes, LEVEL);
			if (ZSTD_isError(len))
				return -ENOMEM;
			heats[n].lane = i;
			heats[n].what = k;
			TRY(put_piece(w, packed, len, 1, &heats[n++].cells));
		}
	}
	return put_piece(w, heats, sizeof(*heats), n, ret);
}

/* ---- what is sorted by time ---- */

static int by_begin(const void *a, const void *b)
{
	const struct index_span *x = a, *y = b;

	return ASCENDING(x->begin_ns, y->begin_ns) ?: ASCENDING(x->end_ns, y->end_ns);
}

/* Items whose first two members are their begin and end. */
static int put_groups(struct index_writer *w, const void *items, size_t item_bytes, size_t n,
		      struct index_piece *ret)
{
	_cleanup_free_ struct index_group *groups = calloc(n / INDEX_GROUP + 1, sizeof(*groups));
	const char *at = items;
	size_t n_groups = 0;

	if (!groups)
		return -ENOMEM;
	for (size_t i = 0; i < n; i += INDEX_GROUP, n_groups++) {
		struct index_group *g = &groups[n_groups];

		g->n = n - i < INDEX_GROUP ? (uint32_t)(n - i) : INDEX_GROUP;
		g->offset = w->offset;
		g->first_ns = UINT64_MAX;
		for (uint32_t k = 0; k < g->n; k++) {
			uint64_t times[2];
			memcpy(times, at + (i + k) * item_bytes, sizeof(times));
			g->first_ns = times[0] < g->first_ns ? times[0] : g->first_ns;
			g->last_ns = times[1] > g->last_ns ? times[1] : g->last_ns;
		}
		g->checksum = plx_crc32c(at + i * item_bytes, g->n * item_bytes);
		TRY(put(w, at + i * item_bytes, g->n * item_bytes));
	}
	return put_piece(w, groups, sizeof(*groups), n_groups, ret);
}

static void end_spans(struct span_list *list, uint64_t end_ns)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->items[i].end_ns == UINT64_MAX)
			list->items[i].end_ns =
				end_ns > list->items[i].begin_ns ? end_ns : list->items[i].begin_ns;
	if (list->n)
		qsort(list->items, list->n, sizeof(*list->items), by_begin);
}

static int put_kinds(struct index_builder *b, struct index_writer *w, struct index_piece *ret)
{
	uint32_t n = trace_reader_n_kinds(b->feed.reader);
	_cleanup_free_ uint8_t *used = calloc((size_t)n + 1, 1);

	if (!used)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		used[i] = trace_reader_kind_used(b->feed.reader, i);
	return put_piece(w, used, 1, n, ret);
}

/* ---- all ---- */

static int put_all(struct index_builder *b, struct index_writer *w, struct index_header *h,
		   const struct buf *report)
{
	_cleanup_free_ struct index_lane *lanes = calloc(b->n_lanes + 1, sizeof(*lanes));
	struct series_list list = {0};

	if (!lanes)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->n_lanes; i++)
		lanes[i] = b->lanes[i]->info;
	TRY(put(w, h, sizeof(*h)));
	TRY(put_piece(w, lanes, sizeof(*lanes), b->n_lanes, &h->lanes));
	int code = put_all_series(b, w, &list);
	if (code == 0)
		code = put_piece(w, list.items, sizeof(*list.items), list.n, &h->series);
	free(list.items);
	TRY(code);
	TRY(put_heats(b, w, &h->heat));
	end_spans(&b->spans, h->end_ns);
	end_spans(&b->samples, h->end_ns);
	TRY(put_groups(w, b->spans.items, sizeof(*b->spans.items), b->spans.n, &h->spans));
	TRY(put_groups(w, b->samples.items, sizeof(*b->samples.items), b->samples.n, &h->samples));
	TRY(put_groups(w, b->chunks, sizeof(*b->chunks), b->n_chunks, &h->chunks));
	TRY(put_kinds(b, w, &h->kinds));
	numbers_sort(&b->numbers);
	TRY(put_piece(w, b->numbers.blocks, sizeof(*b->numbers.blocks), b->numbers.n_blocks,
		      &h->numbers));
	TRY(put_piece(w, b->numbers.named, sizeof(*b->numbers.named), b->numbers.n_named,
		      &h->named));
	TRY(put_piece(w, report->data, 1, report->len, &h->report));
	h->checksum = plx_crc32c(h, offsetof(struct index_header, checksum));
	if (fflush(w->file) || fseek(w->file, 0, SEEK_SET) < 0)
		return -errno;
	TRY(put(w, h, sizeof(*h)));
	return fflush(w->file) ? -errno : 0;
}

/* One cell for this number of events, which a screen of slices shows better: a short trace has a
 * small index. */
static int fit(struct index_builder *b, uint64_t end_ns, uint64_t n_events)
{
	uint64_t n = MIN_CELLS;

	while (n < SERIES_CELLS && n < n_events / CELL_EVENTS)
		n *= 2;
	return series_set_fit(&b->set, end_ns, n);
}

/* Slices count as long only where reading those of a window from the trace would read too much. */
static int choose_exact(struct index_builder *b, uint64_t end_ns, uint64_t n_events)
{
	uint64_t span = end_ns - b->set.base_ns;
	double wide = n_events ? (double)span * MARGIN_EVENTS / (double)n_events : 0;

	while (b->spans.n > FEW_SPANS && (double)b->exact_ns * 2 * MARGINS < wide)
		TRY(index_builder_widen_exact(b));
	return 0;
}

int index_builder_write(struct index_builder *b, int fd, const struct index_trace *trace,
			const struct timeline_totals *totals, const struct buf *report,
			struct error *err)
{
	struct index_header h = {
		.magic = INDEX_MAGIC,
		.version = INDEX_VERSION,
		.header_bytes = sizeof(h),
		.build = own_build(),
		.trace = *trace,
		.base_ns = b->set.base_ns,
		.end_ns = totals->last_ns > b->set.base_ns ? totals->last_ns : b->set.base_ns,
		.n_events = totals->n_events,
		.n_lost = totals->n_lost,
		.flags = b->chunks_left_out ? INDEX_NO_CHUNKS : 0,
	};
	int joined = index_builder_join(b);
	if (joined < 0)
		return error_sys(err, joined, "cannot make the index");
	int copy = dup(fd), code;
	_cleanup_free_ struct index_writer *w = calloc(1, sizeof(*w));

	if (b->latest_ns > h.end_ns && b->latest_ns != UINT64_MAX)
		h.end_ns = b->latest_ns;
	if (h.end_ns - h.base_ns > SERIES_MAX_NS)
		h.end_ns = h.base_ns + SERIES_MAX_NS;
	if (w) {
		w->file = copy < 0 ? NULL : fdopen(copy, "w");
		w->zstd = ZSTD_createCCtx();
		w->values = calloc(SERIES_CELLS, sizeof(*w->values));
	}
	if (!w || !w->file || !w->zstd || !w->values) {
		code = -ENOMEM;
		if (copy >= 0 && !(w && w->file))
			close(copy);
	} else {
		code = fit(b, h.end_ns, h.n_events);
		if (code == 0)
			code = choose_exact(b, h.end_ns, h.n_events);
		while ((h.end_ns - h.base_ns) >> b->heat_width_log2 >= INDEX_HEAT_CELLS)
			index_builder_widen_heat(b);
		h.exact_ns = b->exact_ns;
		h.width_log2 = b->set.width_log2;
		h.heat_width_log2 = b->heat_width_log2;
		h.n_cells = series_cell(&b->set, h.end_ns) + 1;
		h.n_levels = 1;
		while (h.n_cells > 1ull << (h.n_levels - 1))
			h.n_levels++;
		w->n_cells = h.n_cells;
		w->n_levels = h.n_levels;
		if (code == 0)
			code = put_all(b, w, &h, report);
	}
	if (w) {
		if (w->file && fclose(w->file) && code == 0)
			code = -errno;
		ZSTD_freeCCtx(w->zstd);
		free(w->values);
		free(w->blocks);
	}
	return code < 0 ? error_sys(err, code, "cannot write the index") : 0;
}
