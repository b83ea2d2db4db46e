/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The merge of the threads' events by time.
 *
 *     chunks of thread 0 ──▶ decoder ──▶ batch ─┐
 *     chunks of thread 3 ──▶ decoder ──▶ batch ─┼─▶ loser tree ──▶ events in order
 *     chunks of thread 7 ──▶ decoder ──▶ batch ─┘
 *
 * Chunks wait compressed, at two or three bytes an event, and are decoded a small batch at a time
 * when their turn comes, so a long round costs little memory and the batches stay in the cache.
 *
 * Which thread is next can't be foreseen, so every branch that depends on it is mispredicted. The
 * loser tree needs none: on the way from a leaf to the root each node keeps the later of two keys
 * and passes on the earlier one, by arithmetic.
 *
 * A thread's own order is never changed: if its clock went back, the earlier time simply follows.
 * Equal times of two threads come in the order of the threads' numbers, so that the result does not
 * depend on how the file was cut into chunks; then ties.c puts right what contradicts their tasks.
 */
#include "trace/merge.h"

#include "base/map.h"
#include "base/vec.h"
#include "trace/ties.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 128u
#define OUT 256u
/* What may be held before events are given out in spite of the rounds: some forty million events
 * that wait in well-behaved files, and the decoders' memory for hostile ones. */
#define MAX_HELD_BYTES ((size_t)128 << 20)
#define MAX_SPARE_STREAMS 64u

struct merge_stream {
	struct decoder decoder;
	struct merge_chunk *current; /* that the decoder reads */
	struct merge_chunk *first, **last;
	size_t decoder_bytes; /* the most that the decoder needed or will need */
	uint32_t thread, next, n;
	struct merge_stream *spare;
	struct trace_event batch[BATCH];
};

/* A leaf without stream has a key later than all others. */
struct key {
	uint64_t time;
	uint64_t source; /* thread << 32 | leaf */
};

struct merge {
	merge_damage_fn damage;
	void *ctx;
	ZSTD_DCtx *zstd;
	struct map by_thread;	      /* the streams that have events */
	struct merge_stream **leaves; /* the same; NULL where one ran out of events */
	uint32_t n_leaves, leaves_cap;
	bool stale; /* streams came since the tree was built */
	struct key winner;
	struct key *tree; /* its nodes from 1 to tree_leaves - 1; leaves are not stored */
	uint32_t tree_leaves, tree_cap;
	size_t held_bytes;
	struct merge_stream *spare;
	unsigned n_spare;
	size_t n_out, n_held; /* given out last; those after them, whose time goes on */
	struct trace_event out[OUT];
};

struct merge *merge_new(merge_damage_fn damage, void *ctx)
{
	struct merge *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->damage = damage;
	m->ctx = ctx;
	m->stale = true;
	m->zstd = ZSTD_createDCtx();
	if (!m->zstd) {
		free(m);
		return NULL;
	}
	return m;
}

/* Ends the use of a chunk that is in no queue any more. */
static void chunk_drop(struct merge *m, struct merge_chunk *chunk)
{
	if (chunk)
		m->held_bytes -= chunk->size;
	free(chunk);
}

static void stream_free(struct merge_stream *s)
{
	decoder_done(&s->decoder);
	free(s);
}

/* A stream and what it still holds. It is kept for the next thread that needs one, up to some
 * number, so that the decoders' memory is used again. */
static void put_away(struct merge *m, struct merge_stream *s)
{
	chunk_drop(m, s->current);
	while (s->first) {
		struct merge_chunk *next = s->first->next;
		chunk_drop(m, s->first);
		s->first = next;
	}
	m->held_bytes -= s->decoder_bytes;
	if (m->n_spare == MAX_SPARE_STREAMS) {
		stream_free(s);
		return;
	}
	s->spare = m->spare;
	m->spare = s;
	m->n_spare++;
}

void merge_clear(struct merge *m)
{
	for (uint32_t i = 0; i < m->n_leaves; i++)
		if (m->leaves[i])
			put_away(m, m->leaves[i]);
	map_done(&m->by_thread);
	m->n_leaves = 0;
	m->n_out = m->n_held = 0;
	m->stale = true;
}

void merge_free(struct merge *m)
{
	if (!m)
		return;
	merge_clear(m);
	while (m->spare) {
		struct merge_stream *next = m->spare->spare;
		stream_free(m->spare);
		m->spare = next;
	}
	free(m->leaves);
	free(m->tree);
	ZSTD_freeDCtx(m->zstd);
	free(m);
}

bool merge_full(const struct merge *m)
{
	return m->held_bytes > MAX_HELD_BYTES;
}

/* ---- the tree ---- */

static inline struct key key_of(const struct merge *m, uint32_t leaf)
{
	const struct merge_stream *s = leaf < m->n_leaves ? m->leaves[leaf] : NULL;
	return (struct key){
		.time = s ? s->batch[s->next].time : UINT64_MAX,
		.source = (uint64_t)(s ? s->thread : UINT32_MAX) << 32 | leaf,
	};
}

/* 1 or 0; written so that it compiles to no branch. */
static inline uint64_t is_before(struct key a, struct key b)
{
	return (uint64_t)(a.time < b.time) | ((a.time == b.time) & (a.source < b.source));
}

/* A leaf has a new key: the winner after it. */
static inline struct key replay(struct key *tree, uint32_t tree_leaves, uint32_t leaf,
				struct key key)
{
	for (uint32_t node = (tree_leaves + leaf) / 2; node; node /= 2) {
		struct key loser = tree[node];
		uint64_t mask = -is_before(loser, key);
		uint64_t time = (loser.time ^ key.time) & mask;
		uint64_t source = (loser.source ^ key.source) & mask;
		tree[node] =
			(struct key){.time = loser.time ^ time, .source = loser.source ^ source};
		key.time ^= time;
		key.source ^= source;
	}
	return key;
}

/* Builds the tree below a node; gives the winner. */
static struct key build_below(struct merge *m, uint32_t node)
{
	if (node >= m->tree_leaves)
		return key_of(m, node - m->tree_leaves);
	struct key left = build_below(m, 2 * node), right = build_below(m, 2 * node + 1);
	bool swap = is_before(right, left);
	m->tree[node] = swap ? left : right;
	return swap ? right : left;
}

static int build(struct merge *m)
{
	uint32_t n = 0, tree_leaves = 1;

	for (uint32_t i = 0; i < m->n_leaves; i++)
		if (m->leaves[i])
			m->leaves[n++] = m->leaves[i];
	m->n_leaves = n;
	while (tree_leaves < n)
		tree_leaves *= 2;
	if (tree_leaves > m->tree_cap) {
		free(m->tree);
		m->tree_cap = 0;
		m->tree = malloc(tree_leaves * sizeof(*m->tree));
		if (!m->tree)
			return -ENOMEM;
		m->tree_cap = tree_leaves;
	}
	m->tree_leaves = tree_leaves;
	m->winner = build_below(m, 1);
	m->stale = false;
	return 0;
}

static int add_leaf(struct merge *m, struct merge_stream *s)
{
	if (!GROW(m->leaves, m->n_leaves, m->leaves_cap))
		return -ENOMEM;
	m->leaves[m->n_leaves++] = s;
	m->stale = true;
	return 0;
}

/* ---- streams ---- */

/* Makes batch[at] exist: 1, 0 if the stream has no more events, -ENOMEM. */
static int fill(struct merge *m, struct merge_stream *s)
{
	for (;;) {
		if (s->next < s->n)
			return 1;
		if (s->current) {
			s->next = 0;
			s->n = (uint32_t)decoder_next(&s->decoder, s->batch, BATCH);
			if (s->decoder.damaged) {
				m->damage(m->ctx, s->current->offset);
				s->decoder.damaged = false;
			}
			if (s->n)
				continue;
			chunk_drop(m, s->current);
			s->current = NULL;
		}
		struct merge_chunk *chunk = s->first;
		if (!chunk)
			return 0;
		s->first = chunk->next;
		if (!s->first)
			s->last = &s->first;
		int r = decoder_begin(&s->decoder, m->zstd, chunk->payload, chunk->size);
		if (r == 0) {
			s->current = chunk;
			continue;
		}
		if (r == -EBADMSG)
			m->damage(m->ctx, chunk->offset);
		chunk_drop(m, chunk);
		if (r != -EBADMSG)
			return r;
	}
}

static struct merge_stream *take_stream(struct merge *m, uint32_t thread)
{
	struct merge_stream *s = m->spare;
	if (s) {
		m->spare = s->spare;
		m->n_spare--;
	} else {
		s = malloc(sizeof(*s));
		if (!s)
			return NULL;
		s->decoder = (struct decoder){0};
	}
	s->thread = thread;
	s->next = s->n = 0;
	s->current = s->first = NULL;
	s->last = &s->first;
	s->decoder_bytes = sizeof(*s);
	m->held_bytes += s->decoder_bytes;
	return s;
}

int merge_add(struct merge *m, struct merge_chunk *chunk)
{
	size_t decoder_bytes;
	uint32_t thread;
	int r = decoder_peek(chunk->payload, chunk->size, &thread, &decoder_bytes);
	/* The thread's record comes first. */
	if (r == 0 && thread > plx_max_index(chunk->offset))
		r = -EBADMSG;
	if (r < 0) {
		free(chunk);
		return r;
	}

	struct merge_stream *s = map_get(&m->by_thread, thread, 0);
	bool is_new = !s;
	if (is_new)
		s = take_stream(m, thread);
	if (!s) {
		free(chunk);
		return -ENOMEM;
	}
	chunk->next = NULL;
	*s->last = chunk;
	s->last = &chunk->next;
	m->held_bytes += chunk->size;
	decoder_bytes += sizeof(*s);
	if (decoder_bytes > s->decoder_bytes) {
		m->held_bytes += decoder_bytes - s->decoder_bytes;
		s->decoder_bytes = decoder_bytes;
	}
	if (!is_new)
		return 0;

	r = fill(m, s);
	if (r <= 0) {
		put_away(m, s);
		return r;
	}
	r = map_put(&m->by_thread, thread, 0, s);
	if (r == 0)
		r = add_leaf(m, s);
	if (r < 0) {
		map_remove(&m->by_thread, thread, 0);
		put_away(m, s);
	}
	return r;
}

/* Orders the runs of one time, of n events, in which the events at `tied` are. Returns how many
 * events are whole: a last run waits for more of its time, which is the next one's, unless it is
 * all that there is room for. */
static size_t settle_ties(struct merge *m, size_t n, const uint16_t *tied, size_t n_tied,
			  uint64_t next_time)
{
	size_t done = 0;

	for (size_t i = 0; i < n_tied; i++) {
		size_t begin = tied[i], end;
		uint64_t time = begin < n ? m->out[begin].time : next_time;
		bool threads = false;

		if (begin < done)
			continue;
		while (begin > done && m->out[begin - 1].time == time)
			begin--;
		for (end = begin; end < n && m->out[end].time == time; end++)
			threads |= m->out[end].thread != m->out[begin].thread;
		if (end == n && begin && time == next_time)
			return begin;
		if (threads)
			ties_order(m->out + begin, end - begin);
		done = end;
	}
	return n;
}

int merge_next(struct merge *m, uint64_t limit, bool forced, const struct trace_event **ret_events,
	       size_t *ret_n)
{
	uint16_t tied[OUT + 1]; /* events with the time of the one before them */
	size_t n = m->n_held, n_tied = n > 0;
	int r = m->stale ? build(m) : 0;

	if (r < 0)
		return r;
	tied[0] = 0;
	if (n)
		memmove(m->out, m->out + m->n_out, n * sizeof(*m->out));
	struct key key = m->winner, *tree = m->tree;
	uint32_t tree_leaves = m->tree_leaves;
	while (n < OUT && (forced || key.time < limit)) {
		uint64_t time = key.time;
		uint32_t leaf = (uint32_t)key.source;
		struct merge_stream *s = leaf < m->n_leaves ? m->leaves[leaf] : NULL;
		if (!s)
			break;
		m->out[n++] = s->batch[s->next++];
		if (s->next < s->n) {
			key.time = s->batch[s->next].time;
		} else {
			r = fill(m, s);
			if (r <= 0) {
				map_remove(&m->by_thread, s->thread, 0);
				put_away(m, s);
				m->leaves[leaf] = NULL;
			}
			key = key_of(m, leaf);
		}
		key = replay(tree, tree_leaves, leaf, key);
		if (__builtin_expect(key.time == time, 0))
			tied[n_tied++] = (uint16_t)n;
		if (r < 0)
			break;
	}
	m->winner = key;
	m->n_out = n;
	if (n_tied)
		n = settle_ties(m, n, tied, n_tied, key.time);
	m->n_held = m->n_out - n;
	m->n_out = n;
	*ret_events = m->out;
	*ret_n = n;
	return r < 0 ? r : n > 0;
}
