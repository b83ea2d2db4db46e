/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An index is built from what a timeline emits (feed.c): each slice goes to the cells of its thread
 * and of its family (series.h), to a heat map by how long it was, and, if it is long, to the spans.
 * Memory has a bound: cells get wider, fewer slices count as long, samples get rarer when one is
 * reached.
 */
#include "index/build.h"

#include "base/vec.h"
#include "index/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LANES 4096u
#define MAX_PLACES 64u /* of a family; what is at more counts as at none */
#define MAX_SERIES 16384u
#define MAX_SERIES_BYTES ((size_t)80 << 20)
#define MAX_SPANS 400000u
#define MAX_SAMPLES 200000u
#define MAX_CHUNKS 1000000u
#define MAX_HEATS 96u
#define FIRST_EXACT_NS 65536u
#define FIRST_HEAT_LOG2 10u

static int take(struct index_builder *b, const struct index_item *item);

struct index_builder *index_builder_new(const struct trace_reader *r, uint64_t base_ns)
{
	struct index_builder *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->feed.reader = r;
	b->feed.take = take;
	b->exact_ns = FIRST_EXACT_NS;
	b->sample_every = 1;
	b->heat_width_log2 = FIRST_HEAT_LOG2;
	series_set_init(&b->set, base_ns, MAX_SERIES_BYTES);
	return b;
}

void index_builder_free(struct index_builder *b)
{
	if (!b)
		return;
	index_builder_join(b);
	for (uint32_t i = 0; i < b->n_lanes; i++) {
		struct building_lane *lane = b->lanes[i];
		free(lane->waits);
		for (unsigned k = 0; k < IH_N; k++)
			free(lane->heat[k]);
		free(lane);
	}
	free(b->lanes);
	free(b->by_thread);
	free(b->by_kind);
	free(b->spans.items);
	free(b->samples.items);
	numbers_done(&b->numbers);
	free(b->chunks);
	free(b->last_chunk);
	series_set_done(&b->set);
	free(b);
}

/* ---- lanes ---- */

static struct building_lane *lane_new(struct index_builder *b, enum index_lane_type type,
				      uint32_t number)
{
	if (b->n_lanes == MAX_LANES || !GROW(b->lanes, b->n_lanes, b->lanes_cap))
		return NULL;
	struct building_lane *lane = calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->info.type = type;
	lane->info.number = number;
	b->lanes[b->n_lanes++] = lane;
	return lane;
}

/* NULL: there are too many, or memory is out. Lanes beyond the limit have no cells. */
static struct building_lane *lane_of(struct index_builder *b, enum index_lane_type type,
				     uint32_t number)
{
	struct building_lane ***by = type == IL_THREAD ? &b->by_thread : &b->by_kind;
	uint32_t *cap = type == IL_THREAD ? &b->by_thread_cap : &b->by_kind_cap;

	if (number >= *cap && !GROW_ZERO(*by, number, *cap))
		return NULL;
	if (!(*by)[number])
		(*by)[number] = lane_new(b, type, number);
	return (*by)[number];
}

static struct series *series_of(struct index_builder *b, struct series **at, enum index_what what)
{
	if (!*at && b->set.n < MAX_SERIES)
		*at = series_new(&b->set, what == IX_LONGEST);
	return *at;
}

static struct series *waiting_at(struct index_builder *b, struct building_lane *lane,
				 uint64_t place)
{
	if (lane->n_waits && lane->waits[lane->last_wait].place == place)
		return lane->waits[lane->last_wait].series;
	for (uint32_t i = 0; i < lane->n_waits; i++) {
		if (lane->waits[i].place == place) {
			lane->last_wait = i;
			return lane->waits[i].series;
		}
	}
	if (place && (lane->n_waits >= MAX_PLACES || b->set.n >= MAX_SERIES))
		return waiting_at(b, lane, 0);
	struct series *s = b->set.n < MAX_SERIES ? series_new(&b->set, false) : NULL;
	if (!s || !GROW_ONE(lane->waits, lane->n_waits))
		return NULL;
	lane->last_wait = lane->n_waits;
	lane->waits[lane->n_waits].place = place;
	lane->waits[lane->n_waits++].series = s;
	return s;
}

/* ---- adding ---- */

static int stretch(struct index_builder *b, struct building_lane *lane, enum index_what what,
		   uint64_t begin_ns, uint64_t end_ns)
{
	struct series *s = lane ? series_of(b, &lane->series[what], what) : NULL;

	return s ? series_stretch(s, begin_ns, end_ns) : 0;
}

static int overview(struct index_builder *b, enum index_what what, uint64_t begin_ns,
		    uint64_t end_ns)
{
	struct series *s = series_of(b, &b->overview[what], what);

	return s ? series_stretch(s, begin_ns, end_ns) : 0;
}

static int value(struct index_builder *b, struct building_lane *lane, enum index_what what,
		 uint64_t time_ns, uint64_t v)
{
	struct series *s = lane ? series_of(b, &lane->series[what], what) : NULL;

	return s ? series_value(s, time_ns, v) : 0;
}

uint64_t index_heat_edge(unsigned row)
{
	return (uint64_t)(2 + (row & 1)) << (7 + row / 2);
}

static unsigned heat_row(uint64_t ns)
{
	if (ns < 256)
		return 0;
	unsigned log2 = 63 - (unsigned)__builtin_clzll(ns);
	unsigned row = 2 * (log2 - 8) + (unsigned)(ns >> (log2 - 1) & 1);
	return row < INDEX_HEAT_ROWS ? row : INDEX_HEAT_ROWS - 1;
}

void index_builder_widen_heat(struct index_builder *b)
{
	for (uint32_t i = 0; i < b->n_lanes; i++) {
		for (unsigned k = 0; k < IH_N; k++) {
			uint32_t(*h)[INDEX_HEAT_ROWS] = b->lanes[i]->heat[k];
			if (!h)
				continue;
			for (unsigned at = 0; at < INDEX_HEAT_CELLS / 2; at++)
				for (unsigned row = 0; row < INDEX_HEAT_ROWS; row++)
					h[at][row] = h[2 * at][row] + h[2 * at + 1][row];
			memset(h + INDEX_HEAT_CELLS / 2, 0, INDEX_HEAT_CELLS / 2 * sizeof(*h));
		}
	}
	b->heat_width_log2++;
}

static int heat(struct index_builder *b, struct building_lane *lane, enum index_heat_what what,
		uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t at = begin_ns < b->set.base_ns ? 0 : begin_ns - b->set.base_ns;

	if (!lane)
		return 0;
	if (at > SERIES_MAX_NS)
		at = SERIES_MAX_NS;
	while (at >> b->heat_width_log2 >= INDEX_HEAT_CELLS)
		index_builder_widen_heat(b);
	if (!lane->heat[what]) {
		if (b->n_heats == MAX_HEATS)
			return 0;
		lane->heat[what] = calloc(INDEX_HEAT_CELLS, sizeof(*lane->heat[what]));
		if (!lane->heat[what])
			return -ENOMEM;
		b->n_heats++;
	}
	lane->heat[what][at >> b->heat_width_log2][heat_row(end_ns - begin_ns)]++;
	return 0;
}

/* A slice that is no span: of tasks the number is kept. */
static int leave_out(struct index_builder *b, const struct index_span *span)
{
	if (span->type != SPAN_TASK || !(span->flags & SPAN_NUMBERED))
		return 0;
	return numbers_add(&b->numbers, span, span->flags & SPAN_BY_ADDRESS);
}

int index_builder_widen_exact(struct index_builder *b)
{
	size_t n = 0;

	b->exact_ns *= 2;
	numbers_part(&b->numbers);
	for (size_t i = 0; i < b->spans.n; i++) {
		const struct index_span *span = &b->spans.items[i];

		if (span->end_ns - span->begin_ns > b->exact_ns)
			b->spans.items[n++] = *span;
		else
			TRY(leave_out(b, span));
	}
	b->spans.n = n;
	numbers_part(&b->numbers);
	return 0;
}

static int add_span(struct index_builder *b, const struct index_span *span)
{
	if (span->end_ns > b->latest_ns && span->end_ns != UINT64_MAX)
		b->latest_ns = span->end_ns;
	if (span->end_ns - span->begin_ns <= b->exact_ns)
		return leave_out(b, span);
	/* Nothing is longer than a half of all numbers. */
	while (b->spans.n == MAX_SPANS && b->exact_ns < UINT64_MAX / 8)
		TRY(index_builder_widen_exact(b));
	if (b->spans.n == MAX_SPANS || span->end_ns - span->begin_ns <= b->exact_ns)
		return leave_out(b, span);
	if (!GROW(b->spans.items, b->spans.n, b->spans.cap))
		return -ENOMEM;
	b->spans.items[b->spans.n++] = *span;
	return 0;
}

/* Of an hour's samples every second one is enough. */
static void thin_samples(struct index_builder *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->samples.n; i += 2) {
		b->samples.items[n] = b->samples.items[i];
		b->samples.items[n++].since_ns *= 2;
	}
	b->samples.n = n;
	b->sample_every *= 2;
}

/* ---- what the timeline emits ---- */

static int take_task(struct index_builder *b, const struct index_item *item)
{
	struct building_lane *lane = lane_of(b, IL_FAMILY, item->span.kind);

	if (lane) {
		lane->info.tasks++;
		lane->info.role = item->role;
	}
	return add_span(b, &item->span);
}

static int take_poll(struct index_builder *b, const struct index_item *item)
{
	const struct index_span *span = &item->span;
	struct building_lane *family = lane_of(b, IL_FAMILY, span->kind);
	struct building_lane *thread = lane_of(b, IL_THREAD, span->thread);
	uint64_t held = span->begin_ns + item->held_ns;
	uint64_t length = span->end_ns - span->begin_ns;
	bool loop = item->role == TR_WORKER;

	if (family) {
		family->info.polls++;
		family->info.role = item->role;
	}
	TRY(stretch(b, family, IX_POLLING, span->begin_ns, span->end_ns));
	TRY(value(b, family, IX_POLLS, span->begin_ns, 1));
	TRY(value(b, family, IX_LONGEST, span->begin_ns, length));
	if (!span->depth && !loop) {
		if (thread)
			thread->info.polls++;
		TRY(stretch(b, thread, IX_POLLING, span->begin_ns, held));
		TRY(value(b, thread, IX_POLLS, span->begin_ns, 1));
		TRY(value(b, thread, IX_LONGEST, span->begin_ns, length));
		if (item->role == TR_TASK)
			TRY(overview(b, IX_POLLING, span->begin_ns, held));
	}
	if (item->measured && !loop)
		TRY(heat(b, family, IH_POLLS, span->begin_ns, span->end_ns));
	return add_span(b, &item->span);
}

static int take_wait(struct index_builder *b, const struct index_item *item)
{
	const struct index_span *span = &item->span;
	struct building_lane *family = lane_of(b, IL_FAMILY, span->kind);

	if (span->type == SPAN_WAIT) {
		struct series *s = family ? waiting_at(b, family, span->what) : NULL;
		if (s)
			TRY(series_stretch(s, span->begin_ns, span->end_ns));
		TRY(heat(b, family, IH_WAITS, span->begin_ns, span->end_ns));
	} else {
		TRY(stretch(b, family, IX_READY, span->begin_ns, span->end_ns));
		if (item->role == TR_TASK)
			TRY(overview(b, IX_READY, span->begin_ns, span->end_ns));
		TRY(heat(b, family, IH_DELAYS, span->begin_ns, span->end_ns));
	}
	return add_span(b, &item->span);
}

static int take_block(struct index_builder *b, const struct index_item *item)
{
	const struct index_span *span = &item->span;

	if (span->flags & SPAN_KEEPS) {
		TRY(stretch(b, lane_of(b, IL_FAMILY, span->kind), IX_BLOCKED, span->begin_ns,
			    span->end_ns));
		TRY(stretch(b, lane_of(b, IL_THREAD, span->thread), IX_BLOCKED, span->begin_ns,
			    span->end_ns));
		if (item->role == TR_TASK)
			TRY(overview(b, IX_BLOCKED, span->begin_ns, span->end_ns));
	}
	return add_span(b, &item->span);
}

static int take_off_cpu(struct index_builder *b, const struct index_item *item)
{
	const struct index_span *span = &item->span;

	TRY(stretch(b, lane_of(b, IL_THREAD, span->thread), IX_OFF_CPU, span->begin_ns,
		    span->end_ns));
	if (span->kind != TRACE_KIND_NONE)
		TRY(stretch(b, lane_of(b, IL_FAMILY, span->kind), IX_OFF_CPU, span->begin_ns,
			    span->end_ns));
	return add_span(b, &item->span);
}

static int take_sample(struct index_builder *b, const struct index_item *item)
{
	if (b->n_samples++ % b->sample_every)
		return 0;
	/* The next one counts for those that are left out, too. */
	uint64_t weight = item->span.since_ns * b->sample_every;
	if (b->samples.n == MAX_SAMPLES)
		thin_samples(b);
	if (!GROW(b->samples.items, b->samples.n, b->samples.cap))
		return -ENOMEM;
	b->samples.items[b->samples.n] = item->span;
	b->samples.items[b->samples.n++].since_ns = weight;
	return 0;
}

static int take_thread_end(struct index_builder *b, const struct index_item *item)
{
	struct building_lane *lane = lane_of(b, IL_THREAD, item->span.thread);

	if (lane)
		lane->info.role = item->role;
	if (item->span.end_ns > b->latest_ns)
		b->latest_ns = item->span.end_ns;
	return 0;
}

static int take(struct index_builder *b, const struct index_item *item)
{
	switch (item->span.type) {
	case SPAN_POLL:
		return take_poll(b, item);
	case SPAN_WAIT:
	case SPAN_READY:
		return take_wait(b, item);
	case SPAN_PARK:
		TRY(stretch(b, lane_of(b, IL_THREAD, item->span.thread), IX_PARKED,
			    item->span.begin_ns, item->span.end_ns));
		return add_span(b, &item->span);
	case SPAN_CALL:
		return take_block(b, item);
	case SPAN_OFF_CPU:
		return take_off_cpu(b, item);
	case SPAN_TASK:
		return take_task(b, item);
	case SPAN_SAMPLE:
		return take_sample(b, item);
	case INDEX_ITEM_THREAD_END:
		return take_thread_end(b, item);
	default:
		return add_span(b, &item->span);
	}
}

/* ---- where events are in the file ---- */

void index_builder_chunk(void *builder, const struct trace_chunk *chunk)
{
	struct index_builder *b = builder;

	if (b->n_chunks == MAX_CHUNKS || !GROW(b->chunks, b->n_chunks, b->chunks_cap) ||
	    !GROW_ZERO(b->last_chunk, chunk->thread, b->last_chunk_cap)) {
		b->chunks_left_out = true;
		return;
	}
	/* A thread's events are in order, nearly: the chunk before ends where this one begins. */
	uint32_t *last = &b->last_chunk[chunk->thread];
	if (*last && b->chunks[*last - 1].first_ns <= chunk->first_ns)
		b->chunks[*last - 1].last_ns = chunk->first_ns;
	b->chunks[b->n_chunks] = (struct index_chunk){
		.first_ns = chunk->first_ns,
		.last_ns = UINT64_MAX,
		.offset = chunk->offset,
		.thread = chunk->thread,
		.n = chunk->n,
	};
	*last = (uint32_t)++b->n_chunks;
}
