/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The index file, docs/view.md: what an answer about any part of a trace needs, in pieces that can be
 * read alone. All integers are little-endian. Each piece has a checksum where it is named.
 *
 *     header │ lanes │ series │ their directories and blocks │ heat maps │ spans │ samples │ chunks │ kinds │ numbers │ named │ report
 *
 * It is made again whenever it does not fit the trace or the build of pollux, so nothing of it is kept
 * compatible.
 */
#pragma once

#include "index/index.h"
#include "index/series.h"

#include <stddef.h>
#include <stdint.h>

#define INDEX_MAGIC "\x89PLI\r\n\x1a\n"
#define INDEX_VERSION 5u

/* Of the header: there are more chunks of events than are listed. */
#define INDEX_NO_CHUNKS 1u

/* A stretch of the file. */
struct index_piece {
	uint64_t offset;
	uint64_t bytes;
	uint32_t n;	   /* items */
	uint32_t checksum; /* CRC-32C of its bytes; 0 if its parts have their own */
};

struct index_header {
	uint8_t magic[8];
	uint32_t version, header_bytes;
	struct index_trace trace;
	uint64_t base_ns, end_ns; /* CLOCK_MONOTONIC: the trace's first event, its end */
	uint64_t n_events, n_lost;
	uint64_t exact_ns;
	uint32_t width_log2, n_levels;
	uint64_t n_cells;
	uint32_t heat_width_log2, flags;
	struct index_piece lanes, series, heat, spans, samples, chunks, kinds, numbers, named,
		report;
	uint32_t build; /* own_build() of what made it: another one's report may say other things */
	uint32_t checksum; /* of all before */
};
_Static_assert(sizeof(struct index_header) == 352, "index_header");
_Static_assert(offsetof(struct index_header, checksum) == 348, "index_header.checksum");

/* One series: of a lane, in all levels. */
struct index_series {
	uint32_t lane; /* index; INDEX_OVERVIEW */
	uint32_t what; /* enum index_what */
	uint64_t place;
	struct index_piece directory; /* of struct index_block */
};
_Static_assert(sizeof(struct index_series) == 40, "index_series");

/* SERIES_BLOCK values of a level, one Zstandard frame of u64. */
struct index_block {
	uint32_t level, number;
	uint64_t offset;
	uint32_t bytes, checksum;
};
_Static_assert(sizeof(struct index_block) == 24, "index_block");

struct index_heat {
	uint32_t lane, what;	  /* enum index_heat_what */
	struct index_piece cells; /* one Zstandard frame of u32 [cells][INDEX_HEAT_ROWS] */
};
_Static_assert(sizeof(struct index_heat) == 32, "index_heat");

/* kinds: a byte for each kind of the trace, 1: it is used.
 *
 * numbers and named: see numbers.h.
 *
 * Spans, samples and chunks are sorted by begin and come in groups; their piece is the list of groups. */
#define INDEX_GROUP 1024u
struct index_group {
	uint64_t first_ns, last_ns; /* the earliest begin, the latest end in it */
	uint64_t offset;
	uint32_t n, checksum;
};
_Static_assert(sizeof(struct index_group) == 32, "index_group");
