/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An index that is being built. Private to this module. */
#pragma once

#include "base/handover.h"
#include "index/index.h"
#include "index/numbers.h"
#include "index/series.h"

#include <pthread.h>

#define INDEX_ITEM_THREAD_END SPAN_N /* as a span's type: the end of a thread, `role` is its */

/* What the timeline emits of one slice. */
struct index_item {
	struct index_span span;
	uint64_t held_ns; /* a poll: tl_poll_held_ns() */
	uint8_t role;	  /* of the task, enum trace_role; of a thread, enum index_thread_role */
	bool measured;	  /* a poll: tl_poll_measured() */
};

/* From the timeline to the builder: at once, or through a thread. */
struct index_feed {
	const struct trace_reader *reader;
	int (*take)(struct index_builder *b,
		    const struct index_item *item); /* 0 or negative errno */
	struct index_item one;
	pthread_t thread;
	struct handover *lots; /* NULL: there is no thread */
	struct index_item *filling;
	size_t n; /* in it */
	int code; /* of the thread, which has ended */
};

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
	struct index_feed feed;
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
/* Waits until all that was emitted is in it. 0 or what the thread failed with. */
int index_builder_join(struct index_builder *b);
