/*
 * The merge of the threads' events by time.
 *
 *     chunks of thread 0 ──▶ decoder ──▶ batch ─┐
 *     chunks of thread 3 ──▶ decoder ──▶ batch ─┼─▶ heap by time of each batch's first ──▶ runs
 *     chunks of thread 7 ──▶ decoder ──▶ batch ─┘
 *
 * Chunks wait compressed, at two or three bytes an event, and are decoded a small batch at a time
 * when their turn comes, so a long round costs little memory and the batches stay in the cache. A
 * thread usually has several events in a row before another one's turn: such a run is found by
 * comparing with the second of the heap, and costs the heap nothing.
 *
 * A thread's own order is never changed: if its clock went back, the earlier time simply follows.
 * Equal times of two threads come in the order of the threads' numbers, so that the result does not
 * depend on how the file was cut into chunks.
 */
#include "trace/merge.h"

#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 256u
/* What may be held before events are given out in spite of the rounds: some forty million events
 * that wait in well-behaved files, and the decoders' memory for hostile ones. */
#define MAX_HELD_BYTES ((size_t)128 << 20)
#define MAX_SPARE_STREAMS 64u

struct stream {
	struct decoder decoder;
	struct merge_chunk *current; /* that the decoder reads */
	struct merge_chunk *first, **last;
	size_t decoder_bytes; /* the most that the decoder needed or will need */
	uint32_t thread, at, n;
	struct stream *spare;
	struct trace_event batch[BATCH];
};

struct entry {
	uint64_t time;
	struct stream *stream;
};

struct merge {
	merge_damage_fn damage;
	void *ctx;
	ZSTD_DCtx *zstd;
	struct map streams; /* by thread: those in the heap */
	struct entry *heap;
	size_t n, cap;
	bool run_out; /* the top's events up to its `at` were given out; the heap is not in order */
	size_t held_bytes;
	struct stream *spare;
	unsigned n_spare;
};

struct merge *merge_new(merge_damage_fn damage, void *ctx)
{
	struct merge *m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->damage = damage;
	m->ctx = ctx;
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

static void stream_free(struct stream *s)
{
	decoder_done(&s->decoder);
	free(s);
}

/* A stream and what it still holds. It is kept for the next thread that needs one, up to some
 * number, so that the decoders' memory is used again. */
static void put_away(struct merge *m, struct stream *s)
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
	while (m->n)
		put_away(m, m->heap[--m->n].stream);
	map_done(&m->streams);
	m->run_out = false;
}

void merge_free(struct merge *m)
{
	if (!m)
		return;
	merge_clear(m);
	while (m->spare) {
		struct stream *next = m->spare->spare;
		stream_free(m->spare);
		m->spare = next;
	}
	free(m->heap);
	ZSTD_freeDCtx(m->zstd);
	free(m);
}

bool merge_full(const struct merge *m)
{
	return m->held_bytes > MAX_HELD_BYTES;
}

/* ---- the heap ---- */

static inline bool is_before(const struct entry *a, const struct entry *b)
{
	return a->time < b->time || (a->time == b->time && a->stream->thread < b->stream->thread);
}

static void sift_down(struct merge *m)
{
	struct entry *h = m->heap, moving = h[0];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < m->n) {
		if (child + 1 < m->n && is_before(&h[child + 1], &h[child]))
			child++;
		if (!is_before(&h[child], &moving))
			break;
		h[at] = h[child];
		at = child;
	}
	h[at] = moving;
}

static int push(struct merge *m, struct stream *s)
{
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 16;
		struct entry *heap = realloc(m->heap, cap * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		m->heap = heap;
		m->cap = cap;
	}
	struct entry e = {.time = s->batch[s->at].time, .stream = s};
	size_t at = m->n++;
	while (at && is_before(&e, &m->heap[(at - 1) / 2])) {
		m->heap[at] = m->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	m->heap[at] = e;
	return 0;
}

/* ---- streams ---- */

/* Makes batch[at] exist: 1, 0 if the stream has no more events, -ENOMEM. */
static int fill(struct merge *m, struct stream *s)
{
	for (;;) {
		if (s->at < s->n)
			return 1;
		if (s->current) {
			s->at = 0;
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

static struct stream *take_stream(struct merge *m, uint32_t thread)
{
	struct stream *s = m->spare;
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
	s->at = s->n = 0;
	s->current = s->first = NULL;
	s->last = &s->first;
	s->decoder_bytes = sizeof(*s);
	m->held_bytes += s->decoder_bytes;
	return s;
}

/* After a run was given out: its stream's next event takes its place in the heap. */
static int settle(struct merge *m)
{
	if (!m->run_out)
		return 0;
	m->run_out = false;

	struct stream *s = m->heap[0].stream;
	int r = fill(m, s);
	if (r > 0) {
		m->heap[0].time = s->batch[s->at].time;
	} else {
		map_remove(&m->streams, s->thread, 0);
		put_away(m, s);
		m->heap[0] = m->heap[--m->n];
	}
	if (m->n)
		sift_down(m);
	return r < 0 ? r : 0;
}

int merge_add(struct merge *m, struct merge_chunk *chunk)
{
	size_t decoder_bytes;
	uint32_t thread;
	int r = settle(m);
	if (r == 0)
		r = decoder_peek(chunk->payload, chunk->size, &thread, &decoder_bytes);
	if (r < 0) {
		free(chunk);
		return r;
	}

	struct stream *s = map_get(&m->streams, thread, 0);
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
	r = map_put(&m->streams, thread, 0, s);
	if (r == 0)
		r = push(m, s);
	if (r < 0) {
		map_remove(&m->streams, thread, 0);
		put_away(m, s);
	}
	return r;
}

int merge_next(struct merge *m, uint64_t limit, bool forced, const struct trace_event **ret_events,
	       size_t *ret_n)
{
	int r = settle(m);
	if (r < 0)
		return r;
	if (!m->n || (!forced && m->heap[0].time >= limit))
		return 0;

	/* The last time that may still come before the next stream's turn, and before the limit. */
	struct stream *s = m->heap[0].stream;
	uint64_t last = forced ? UINT64_MAX : limit - 1;
	if (m->n > 1) {
		const struct entry *second = &m->heap[1];
		if (m->n > 2 && is_before(&m->heap[2], second))
			second = &m->heap[2];
		uint64_t until = second->time - (s->thread > second->stream->thread);
		last = until < last ? until : last;
	}

	const struct trace_event *from = &s->batch[s->at], *end = &s->batch[s->n], *to = from + 1;
	while (to < end && to->time <= last)
		to++;
	s->at = (uint32_t)(to - s->batch);
	m->run_out = true;
	*ret_events = from;
	*ret_n = to - from;
	return 1;
}
