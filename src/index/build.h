/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An index that is being built. Private to this module. */
#pragma once

#include "index/index.h"
#include "index/numbers.h"
#include "index/series.h"

struct building_lane {
	struct index_lane info;
	struct series *series[IX_N]; /* but IX_WAITING */
	struct {
		uint64_t place;
		struct series *series;
	} * waits;
	uint32_t n_waits, last_wait;
	uint32_t (*heat[IH_N])[INDEX_HEAT_ROWS]; /* INDEX_HEAT_CELLS of them */
};

struct span_list {
	struct index_span *items;
	size_t n, cap;
};

struct index_builder {
	const struct trace_reader *reader;
	struct series_set set;
	struct series *overview[IX_N];
	struct building_lane **lanes;
	uint32_t n_lanes, lanes_cap;
	struct building_lane **by_thread, **by_kind;
	uint32_t by_thread_cap, by_kind_cap;
	struct span_list spans, samples;
	struct numbers numbers; /* of tasks that are no spans */
	uint64_t exact_ns;
	uint64_t n_samples, sample_every;
	unsigned heat_width_log2, n_heats;
	struct index_chunk *chunks;
	size_t n_chunks, chunks_cap;
	uint32_t *last_chunk; /* of a thread, index + 1 */
	uint32_t last_chunk_cap;
	bool chunks_left_out;
	uint64_t latest_ns;
};

/* Fewer slices count as long: those above twice the length. 0 or -ENOMEM. */
int index_builder_widen_exact(struct index_builder *b);
/* Heat maps of twice as wide cells. */
void index_builder_widen_heat(struct index_builder *b);
