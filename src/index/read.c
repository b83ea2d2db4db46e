/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An index from its file, which any user may have written: pieces are read by pread() with their
 * sizes checked against the file and against what an index can have, and their checksums; what is
 * in them is used as numbers only, each within its bound.
 */
#include "index/index.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/own_build.h"
#include "base/search.h"
#include "base/vec.h"
#include "index/format.h"
#include "index/numbers.h"
#include "trace/crc32c.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define MAX_LANES 65536u
#define MAX_SERIES 65536u
#define MAX_GROUPS 65536u
#define MAX_KINDS (1u << 24)
#define MAX_NUMBERS (1u << 20)
#define MAX_REPORT ((uint64_t)64 << 20)

struct index {
	int fd;
	uint64_t bytes;
	struct index_header h;
	struct index_lane *lanes;
	struct index_series *series; /* by lane */
	struct map by_number;	     /* (type, number) to the lane's index + 1 */
	ZSTD_DCtx *zstd;
};

static int damaged(struct error *err)
{
	return error_set(err, -EBADMSG, "the index is damaged");
}

static int read_at(const struct index *ix, uint64_t offset, void *ret, size_t bytes)
{
	char *to = ret;

	if (offset > ix->bytes || bytes > ix->bytes - offset)
		return -EBADMSG;
	while (bytes) {
		ssize_t n = pread(ix->fd, to, bytes, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		to += n;
		offset += (size_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Items of a piece (free), at least one byte of memory. */
static int read_piece(const struct index *ix, const struct index_piece *p, size_t item_bytes,
		      uint64_t max_n, void *ret_items)
{
	if (p->n > max_n || p->bytes != (uint64_t)p->n * item_bytes || p->bytes > ix->bytes)
		return -EBADMSG;
	void *items = malloc(p->bytes + 1);
	if (!items)
		return -ENOMEM;
	int code = read_at(ix, p->offset, items, p->bytes);
	if (code == 0 && plx_crc32c(items, p->bytes) != p->checksum)
		code = -EBADMSG;
	if (code < 0) {
		free(items);
		return code;
	}
	*(void **)ret_items = items;
	return 0;
}

static uint64_t modified_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

int index_trace_read(int fd, struct index_trace *ret)
{
	struct index_trace trace = {0};
	_cleanup_free_ char *part = malloc(64 << 10);
	struct stat st;

	if (!part)
		return -ENOMEM;
	if (fstat(fd, &st) < 0)
		return -errno;
	trace.bytes = (uint64_t)st.st_size;
	trace.modified_ns = modified_ns(&st);
	ssize_t n = pread(fd, part, 64 << 10, 0);
	if (n < 0)
		return -errno;
	trace.head = plx_crc32c(part, (size_t)n);
	n = pread(fd, part, 64 << 10, st.st_size > 64 << 10 ? st.st_size - (64 << 10) : 0);
	if (n < 0)
		return -errno;
	trace.tail = plx_crc32c(part, (size_t)n);
	*ret = trace;
	return 0;
}

/* ---- opening ---- */

static bool header_fits(const struct index_header *h)
{
	return h->base_ns <= h->end_ns && h->end_ns - h->base_ns <= SERIES_MAX_NS &&
	       h->width_log2 < 63 && h->heat_width_log2 < 63 && h->exact_ns <= UINT64_MAX / 4 &&
	       h->n_cells == ((h->end_ns - h->base_ns) >> h->width_log2) + 1 &&
	       h->n_cells <= SERIES_CELLS && h->n_levels && h->n_levels <= SERIES_CELLS_LOG2 + 1 &&
	       h->n_levels + h->width_log2 <= 64 && 1ull << (h->n_levels - 1) >= h->n_cells &&
	       (h->end_ns - h->base_ns) >> h->heat_width_log2 < INDEX_HEAT_CELLS;
}

static int check_header(const struct index *ix, const struct index_trace *trace, struct error *err)
{
	const struct index_header *h = &ix->h;

	if (memcmp(h->magic, INDEX_MAGIC, sizeof(h->magic)) != 0)
		return error_set(err, -EBADMSG, "the file is no index");
	if (h->version != INDEX_VERSION || h->header_bytes != sizeof(*h) || h->build != own_build())
		return error_set(err, -ESTALE, "the index is of another build of pollux");
	if (h->checksum != plx_crc32c(h, offsetof(struct index_header, checksum)) ||
	    !header_fits(h))
		return damaged(err);
	if (memcmp(&h->trace, trace, sizeof(*trace)) != 0)
		return error_set(err, -ESTALE, "the index is of another trace");
	return 0;
}

static int read_lanes(struct index *ix)
{
	uint32_t lane = 0;

	TRY(read_piece(ix, &ix->h.lanes, sizeof(*ix->lanes), MAX_LANES, &ix->lanes));
	TRY(read_piece(ix, &ix->h.series, sizeof(*ix->series), MAX_SERIES, &ix->series));
	for (uint32_t i = 0; i < ix->h.lanes.n; i++) {
		if (ix->lanes[i].type > IL_FAMILY)
			return -EBADMSG;
		if (map_put(&ix->by_number, ix->lanes[i].type, ix->lanes[i].number,
			    (void *)(uintptr_t)(i + 1)) < 0)
			return -ENOMEM;
	}
	/* Those of all come first, then lane by lane. */
	for (uint32_t i = 0; i < ix->h.series.n; i++) {
		uint32_t at = ix->series[i].lane == INDEX_OVERVIEW ? 0 : ix->series[i].lane + 1;

		if (at > ix->h.lanes.n || at < lane || ix->series[i].what >= IX_N)
			return -EBADMSG;
		lane = at;
	}
	return 0;
}

int index_open(int fd, const struct index_trace *trace, struct index **ret_index, struct error *err)
{
	struct index *ix = calloc(1, sizeof(*ix));
	struct stat st;
	int code;

	if (!ix) {
		close(fd);
		return error_set(err, -ENOMEM, "out of memory for an index");
	}
	ix->fd = fd;
	ix->zstd = ZSTD_createDCtx();
	if (!ix->zstd)
		code = error_set(err, -ENOMEM, "out of memory for an index");
	else if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		code = error_set(err, -EBADMSG, "the index is no file");
	else {
		ix->bytes = (uint64_t)st.st_size;
		code = read_at(ix, 0, &ix->h, sizeof(ix->h));
		code = code < 0 ? damaged(err) : check_header(ix, trace, err);
		if (code == 0 && (code = read_lanes(ix)) < 0)
			code = error_sys(err, code, "the index is damaged");
	}
	if (code < 0) {
		index_free(ix);
		return code;
	}
	*ret_index = ix;
	return 0;
}

void index_free(struct index *ix)
{
	if (!ix)
		return;
	close(ix->fd);
	free(ix->lanes);
	free(ix->series);
	map_done(&ix->by_number);
	ZSTD_freeDCtx(ix->zstd);
	free(ix);
}

bool index_fits(const struct index *ix, int trace)
{
	struct stat st;

	return fstat(trace, &st) == 0 && (uint64_t)st.st_size == ix->h.trace.bytes &&
	       modified_ns(&st) == ix->h.trace.modified_ns;
}

int index_fd(const struct index *ix)
{
	return ix->fd;
}

void index_facts(const struct index *ix, struct index_facts *ret)
{
	*ret = (struct index_facts){
		.base_ns = ix->h.base_ns,
		.end_ns = ix->h.end_ns,
		.n_events = ix->h.n_events,
		.n_lost = ix->h.n_lost,
		.exact_ns = ix->h.exact_ns,
		.width_log2 = ix->h.width_log2,
		.n_levels = ix->h.n_levels,
		.heat_width_log2 = ix->h.heat_width_log2,
		.n_cells = ix->h.n_cells,
		.n_lanes = ix->h.lanes.n,
	};
}

const struct index_lane *index_lane(const struct index *ix, uint32_t i)
{
	return i < ix->h.lanes.n ? &ix->lanes[i] : NULL;
}

uint32_t index_find_lane(const struct index *ix, enum index_lane_type type, uint32_t number)
{
	uintptr_t at = (uintptr_t)map_get(&ix->by_number, type, number);

	return at ? (uint32_t)(at - 1) : INDEX_OVERVIEW;
}

/* ---- cells ---- */

static uint64_t lane_order(uint32_t lane)
{
	return lane == INDEX_OVERVIEW ? 0 : (uint64_t)lane + 1;
}

bool index_next_series(const struct index *ix, uint32_t lane, uint32_t *pos,
		       struct index_series_name *ret)
{
	uint64_t wanted = lane_order(lane);

	if (!*pos)
		*pos = (uint32_t)PARTITION_POINT(i, 0, ix->h.series.n,
						 lane_order(ix->series[i].lane) < wanted) +
		       1;
	uint32_t at = *pos - 1;
	if (at >= ix->h.series.n || lane_order(ix->series[at].lane) != wanted)
		return false;
	*ret = (struct index_series_name){at, ix->series[at].what, ix->series[at].place};
	++*pos;
	return true;
}

static int read_block(const struct index *ix, const struct index_block *b,
		      uint64_t values[SERIES_BLOCK])
{
	char packed[64 << 10];

	if (b->bytes > sizeof(packed))
		return -EBADMSG;
	TRY(read_at(ix, b->offset, packed, b->bytes));
	if (plx_crc32c(packed, b->bytes) != b->checksum)
		return -EBADMSG;
	size_t n = ZSTD_decompressDCtx(ix->zstd, values, SERIES_BLOCK * sizeof(*values), packed,
				       b->bytes);
	return n == SERIES_BLOCK * sizeof(*values) ? 0 : -EBADMSG;
}

static int add_values(const struct index *ix, const struct index_series *s, unsigned level,
		      uint64_t first, size_t n, uint64_t *ret)
{
	/* All levels together have up to twice the blocks of the first. */
	uint64_t max_blocks = 2 * (uint64_t)SERIES_BLOCKS + SERIES_CELLS_LOG2 + 1;
	_cleanup_free_ struct index_block *blocks = NULL;
	uint64_t values[SERIES_BLOCK];

	TRY(read_piece(ix, &s->directory, sizeof(*blocks), max_blocks, &blocks));
	for (uint32_t i = 0; i < s->directory.n; i++) {
		uint64_t from = (uint64_t)blocks[i].number * SERIES_BLOCK;

		if (blocks[i].level != level || from >= first + n || from + SERIES_BLOCK <= first)
			continue;
		TRY(read_block(ix, &blocks[i], values));
		for (unsigned k = 0; k < SERIES_BLOCK; k++) {
			uint64_t at = from + k - first; /* wraps if before it */
			if (from + k < first || at >= n)
				continue;
			if (s->what != IX_LONGEST)
				ret[at] += values[k];
			else if (values[k] > ret[at])
				ret[at] = values[k];
		}
	}
	return 0;
}

int index_values(const struct index *ix, uint32_t series, unsigned level, uint64_t first, size_t n,
		 uint64_t *ret, struct error *err)
{
	int code = series < ix->h.series.n && first <= SERIES_CELLS && n <= SERIES_CELLS
			   ? add_values(ix, &ix->series[series], level, first, n, ret)
			   : -EINVAL;

	return code < 0 ? error_sys(err, code, "cannot read the index") : 0;
}

static int read_heat(const struct index *ix, const struct index_heat *heat, uint32_t *cells,
		     size_t bytes)
{
	if (heat->cells.bytes > ZSTD_compressBound(bytes))
		return -EBADMSG;
	_cleanup_free_ char *packed = malloc(heat->cells.bytes + 1);
	if (!packed)
		return -ENOMEM;
	TRY(read_at(ix, heat->cells.offset, packed, heat->cells.bytes));
	if (plx_crc32c(packed, heat->cells.bytes) != heat->cells.checksum)
		return -EBADMSG;
	return ZSTD_decompressDCtx(ix->zstd, cells, bytes, packed, heat->cells.bytes) == bytes
		       ? 0
		       : -EBADMSG;
}

int index_heat(const struct index *ix, uint32_t lane, enum index_heat_what what, uint32_t **ret,
	       struct error *err)
{
	size_t bytes = (size_t)INDEX_HEAT_CELLS * INDEX_HEAT_ROWS * sizeof(**ret);
	_cleanup_free_ struct index_heat *heats = NULL;
	_cleanup_free_ uint32_t *cells = malloc(bytes);
	int code = cells ? read_piece(ix, &ix->h.heat, sizeof(*heats), MAX_LANES, &heats) : -ENOMEM;

	if (code < 0)
		return error_sys(err, code, "cannot read the index");
	for (uint32_t i = 0; i < ix->h.heat.n; i++) {
		if (heats[i].lane != lane || heats[i].what != what)
			continue;
		code = read_heat(ix, &heats[i], cells, bytes);
		if (code < 0)
			return error_sys(err, code, "cannot read the index");
		*ret = steal(cells);
		return 0;
	}
	return error_set(err, -ENOENT, "the index has no such times");
}

/* ---- what is sorted by time ---- */

struct group_reader {
	const struct index *ix;
	size_t item_bytes;
	uint64_t from_ns, to_ns;
	int (*take)(void *ctx, const void *item);
	void *ctx;
};

static int read_group(const struct group_reader *g, const struct index_group *group, char *items)
{
	size_t bytes = group->n * g->item_bytes;

	TRY(read_at(g->ix, group->offset, items, bytes));
	if (plx_crc32c(items, bytes) != group->checksum)
		return -EBADMSG;
	for (uint32_t i = 0; i < group->n; i++) {
		const char *item = items + i * g->item_bytes;
		uint64_t times[2];

		memcpy(times, item, sizeof(times));
		/* What has no length is in the window too. */
		bool overlaps =
			times[0] < g->to_ns &&
			(times[1] > g->from_ns || (times[0] == times[1] && times[0] >= g->from_ns));
		if (overlaps && times[0] <= times[1])
			TRY(g->take(g->ctx, item));
	}
	return 0;
}

static int read_groups(const struct group_reader *g, const struct index_piece *piece)
{
	_cleanup_free_ struct index_group *groups = NULL;
	_cleanup_free_ char *items = malloc(INDEX_GROUP * g->item_bytes);

	if (!items)
		return -ENOMEM;
	TRY(read_piece(g->ix, piece, sizeof(*groups), MAX_GROUPS, &groups));
	for (uint32_t i = 0; i < piece->n; i++) {
		if (groups[i].first_ns >= g->to_ns || groups[i].last_ns < g->from_ns)
			continue;
		if (groups[i].n > INDEX_GROUP)
			return -EBADMSG;
		TRY(read_group(g, &groups[i], items));
	}
	return 0;
}

struct take_span {
	int (*take)(void *ctx, const struct index_span *span);
	void *ctx;
	int code;
};

static int take_span(void *ctx, const void *item)
{
	struct take_span *t = ctx;
	struct index_span span;

	memcpy(&span, item, sizeof(span));
	if (span.type >= SPAN_N)
		return -EBADMSG;
	t->code = t->take(t->ctx, &span);
	return t->code;
}

static int read_spans(const struct index *ix, const struct index_piece *piece, uint64_t from_ns,
		      uint64_t to_ns, int (*take)(void *ctx, const struct index_span *span),
		      void *ctx, struct error *err)
{
	struct take_span t = {.take = take, .ctx = ctx};
	struct group_reader g = {ix, sizeof(struct index_span), from_ns, to_ns, take_span, &t};
	int code = read_groups(&g, piece);

	return code < 0 && !t.code ? error_sys(err, code, "cannot read the index") : code;
}

int index_spans(const struct index *ix, uint64_t from_ns, uint64_t to_ns,
		int (*take)(void *ctx, const struct index_span *span), void *ctx, struct error *err)
{
	return read_spans(ix, &ix->h.spans, from_ns, to_ns, take, ctx, err);
}

int index_samples(const struct index *ix, uint64_t from_ns, uint64_t to_ns,
		  int (*take)(void *ctx, const struct index_span *span), void *ctx,
		  struct error *err)
{
	return read_spans(ix, &ix->h.samples, from_ns, to_ns, take, ctx, err);
}

struct take_chunk {
	uint64_t *offsets;
	size_t n, cap;
	uint64_t left; /* events */
};

static int take_chunk(void *ctx, const void *item)
{
	struct take_chunk *t = ctx;
	struct index_chunk chunk;

	memcpy(&chunk, item, sizeof(chunk));
	if (chunk.n > t->left)
		return -E2BIG;
	t->left -= chunk.n;
	if (!GROW(t->offsets, t->n, t->cap))
		return -ENOMEM;
	t->offsets[t->n++] = chunk.offset;
	return 0;
}

int index_chunks(const struct index *ix, uint64_t from_ns, uint64_t to_ns, uint64_t max_events,
		 uint64_t **ret_offsets, size_t *ret_n, struct error *err)
{
	struct take_chunk t = {.left = max_events};
	struct group_reader g = {ix, sizeof(struct index_chunk), from_ns, to_ns, take_chunk, &t};
	int code = ix->h.flags & INDEX_NO_CHUNKS ? -E2BIG : read_groups(&g, &ix->h.chunks);

	if (code < 0) {
		free(t.offsets);
		return code == -E2BIG ? error_set(err, code, "the window has too many events")
				      : error_sys(err, code, "cannot read the index");
	}
	*ret_offsets = t.offsets;
	*ret_n = t.n;
	return 0;
}

int index_each_named(const struct index *ix, int (*take)(void *ctx, const struct index_named *task),
		     void *ctx, struct error *err)
{
	_cleanup_free_ struct index_named *tasks = NULL;
	int code = read_piece(ix, &ix->h.named, sizeof(*tasks), MAX_NUMBERS, &tasks);

	if (code < 0)
		return error_sys(err, code, "cannot read the index");
	for (uint32_t i = 0; i < ix->h.named.n; i++)
		TRY(take(ctx, &tasks[i]));
	return 0;
}

int index_find_number(const struct index *ix, uint64_t number,
		      int (*named)(void *ctx, const struct index_named *task),
		      int (*stretch)(void *ctx, uint64_t from_ns, uint64_t to_ns), void *ctx,
		      struct error *err)
{
	_cleanup_free_ struct index_numbers *blocks = NULL;
	_cleanup_free_ struct index_named *tasks = NULL;
	int code = read_piece(ix, &ix->h.numbers, sizeof(*blocks), MAX_NUMBERS, &blocks);

	if (code == 0)
		code = read_piece(ix, &ix->h.named, sizeof(*tasks), MAX_NUMBERS, &tasks);
	if (code < 0)
		return error_sys(err, code, "cannot read the index");
	for (uint32_t i = 0; i < ix->h.named.n; i++)
		if (tasks[i].number == number)
			TRY(named(ctx, &tasks[i]));
	for (uint32_t i = 0; i < ix->h.numbers.n; i++)
		if (blocks[i].first <= number && number <= blocks[i].last)
			TRY(stretch(ctx, blocks[i].begin_ns, blocks[i].end_ns));
	return 0;
}

int index_use_kinds(const struct index *ix, struct trace_reader *r, struct error *err)
{
	_cleanup_free_ uint8_t *used = NULL;
	int code = read_piece(ix, &ix->h.kinds, 1, MAX_KINDS, &used);

	for (uint32_t i = 0; code == 0 && i < ix->h.kinds.n; i++)
		if (used[i] && !trace_reader_use_kind(r, i))
			code = -ENOMEM;
	return code < 0 ? error_sys(err, code, "cannot read the index") : 0;
}

int index_report(const struct index *ix, struct buf *out, struct error *err)
{
	_cleanup_free_ char *text = NULL;
	int code = read_piece(ix, &ix->h.report, 1, MAX_REPORT, &text);

	if (code < 0)
		return error_sys(err, code, "cannot read the index");
	buf_add(out, text, ix->h.report.n);
	return 0;
}
