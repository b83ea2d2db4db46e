/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fuzz target for the index of a trace, a file that others can write: all that is read of one. The
 * input's checksums are made right first, from the inside out.
 */
#include "base/own_build.h"
#include "fuzz.h"

#include "index/format.h"
#include "index/index.h"
#include "trace/crc32c.h"

#include <string.h>

static const struct index_trace trace = {.bytes = 1, .modified_ns = 2, .head = 3, .tail = 4};

static bool is_inside(uint64_t offset, uint64_t bytes, size_t size)
{
	return offset >= sizeof(struct index_header) && offset <= size && bytes <= size - offset;
}

static void sum_piece(uint8_t *data, size_t size, struct index_piece *p)
{
	if (is_inside(p->offset, p->bytes, size))
		p->checksum = plx_crc32c(data + p->offset, p->bytes);
}

/* The i-th item of a piece, false: it is not inside. */
static bool item(uint8_t *data, size_t size, const struct index_piece *p, uint32_t i, size_t bytes,
		 void *ret)
{
	uint64_t at = p->offset + (uint64_t)i * bytes;

	if (p->offset > size || i >= p->n || i > 4096 || !is_inside(at, bytes, size))
		return false;
	memcpy(ret, data + at, bytes);
	return true;
}

static void put_item(uint8_t *data, const struct index_piece *p, uint32_t i, size_t bytes,
		     const void *from)
{
	memcpy(data + p->offset + (uint64_t)i * bytes, from, bytes);
}

static void sum_blocks(uint8_t *data, size_t size, const struct index_piece *directory)
{
	struct index_block b;

	for (uint32_t i = 0; item(data, size, directory, i, sizeof(b), &b); i++) {
		if (!is_inside(b.offset, b.bytes, size))
			continue;
		b.checksum = plx_crc32c(data + b.offset, b.bytes);
		put_item(data, directory, i, sizeof(b), &b);
	}
}

static void sum_groups(uint8_t *data, size_t size, const struct index_piece *groups, size_t bytes)
{
	struct index_group g;

	for (uint32_t i = 0; item(data, size, groups, i, sizeof(g), &g); i++) {
		if (!is_inside(g.offset, g.n * bytes, size))
			continue;
		g.checksum = plx_crc32c(data + g.offset, g.n * bytes);
		put_item(data, groups, i, sizeof(g), &g);
	}
}

static void make_right(uint8_t *data, size_t size)
{
	struct index_header h;
	struct index_series s;
	struct index_heat heat;

	memcpy(&h, data, sizeof(h));
	memcpy(h.magic, INDEX_MAGIC, sizeof(h.magic));
	h.version = INDEX_VERSION;
	h.build = own_build();
	h.header_bytes = sizeof(h);
	h.trace = trace;
	for (uint32_t i = 0; item(data, size, &h.series, i, sizeof(s), &s); i++) {
		sum_blocks(data, size, &s.directory);
		sum_piece(data, size, &s.directory);
		put_item(data, &h.series, i, sizeof(s), &s);
	}
	for (uint32_t i = 0; item(data, size, &h.heat, i, sizeof(heat), &heat); i++) {
		sum_piece(data, size, &heat.cells);
		put_item(data, &h.heat, i, sizeof(heat), &heat);
	}
	sum_groups(data, size, &h.spans, sizeof(struct index_span));
	sum_groups(data, size, &h.samples, sizeof(struct index_span));
	sum_groups(data, size, &h.chunks, sizeof(struct index_chunk));
	struct index_piece *const pieces[] = {&h.lanes,	  &h.series, &h.heat,  &h.spans,
					      &h.samples, &h.chunks, &h.report};
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++)
		sum_piece(data, size, pieces[i]);
	h.checksum = plx_crc32c(&h, offsetof(struct index_header, checksum));
	memcpy(data, &h, sizeof(h));
}

static int take(void *ctx, const struct index_span *span)
{
	uint64_t *sum = ctx;

	if (span->type >= SPAN_N || span->end_ns < span->begin_ns)
		abort();
	*sum += span->what;
	return 0;
}

static void read_lane(const struct index *ix, uint32_t lane, unsigned n_levels)
{
	static uint64_t values[3000];
	struct index_series_name name;
	uint32_t pos = 0, *cells;

	while (index_next_series(ix, lane, &pos, &name)) {
		if (name.what >= IX_N)
			abort();
		for (unsigned level = 0; level < n_levels; level += 5)
			index_values(ix, name.number, level, 100, 3000, values, NULL);
	}
	for (unsigned what = 0; what < IH_N; what++)
		if (index_heat(ix, lane, what, &cells, NULL) == 0)
			free(cells);
}

static void read_index(const struct index *ix)
{
	struct index_facts facts;
	struct buf report = BUF_INIT;
	uint64_t sum = 0, *offsets;
	size_t n;

	index_facts(ix, &facts);
	read_lane(ix, INDEX_OVERVIEW, facts.n_levels);
	for (uint32_t lane = 0; lane < 64 && index_lane(ix, lane); lane++)
		read_lane(ix, lane, facts.n_levels);
	index_spans(ix, 0, UINT64_MAX, take, &sum, NULL);
	index_spans(ix, facts.base_ns, facts.base_ns + 1000, take, &sum, NULL);
	index_samples(ix, 0, UINT64_MAX, take, &sum, NULL);
	if (index_chunks(ix, 0, UINT64_MAX, 1000000, &offsets, &n, NULL) == 0)
		free(offsets);
	index_report(ix, &report, NULL);
	buf_done(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct index *ix;

	if (size < sizeof(struct index_header))
		return 0;
	uint8_t *copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	make_right(copy, size);
	int fd = fuzz_file(copy, size);
	free(copy);
	if (index_open(fd, &trace, &ix, NULL) == 0) {
		read_index(ix);
		index_free(ix);
	}
	return 0;
}
