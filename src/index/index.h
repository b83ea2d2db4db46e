/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An index of a trace: what a viewer needs of any part of it at any zoom, so that no answer reads
 * more of a long trace than it shows. It is built in one pass over the timeline, in bounded memory,
 * and lies next to the trace (docs/view.md).
 *
 *   cells     for each lane (a thread, a family) and time cell, cells of doubling widths: how long it was
 *             polling, blocked, ready, waiting where, ...; polls, the longest one. Sums are exact at every level.
 *   heat      for each family: how many polls, delays, waits took how long, by time
 *   spans     each poll, wait, park, call, life of a task that is longer than `exact_ns`
 *   samples   of CPU time, with their stacks
 *   chunks    where in the trace file the events of which time are
 *
 * Exact slices of a window come from the spans and, for the short ones, from the trace itself: what
 * overlaps the window and is no longer than `exact_ns` lies within that much around it (window.h).
 */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

/* Which trace an index is of: another file, or one that was changed, has other numbers. */
struct index_trace {
	uint64_t bytes, modified_ns;
	uint32_t head, tail; /* CRC-32C of up to 64 KiB at its begin and end */
};
/* 0 or negative errno. */
int index_trace_read(int fd, struct index_trace *ret);

enum index_what {
	IX_POLLING = 0, /* ns */
	IX_BLOCKED,	/* ns, in blocking calls inside polls; part of polling */
	IX_OFF_CPU,	/* ns */
	IX_PARKED,	/* ns; of a thread */
	IX_READY,	/* ns; of a family */
	IX_WAITING,	/* ns; of a family, at one place */
	IX_POLLS,	/* that begin in the cell */
	IX_LONGEST,	/* ns, of these */
	IX_N
};

/* The lane of sums over all: polling of workers, ready tasks, blocked. */
#define INDEX_OVERVIEW UINT32_MAX

enum index_lane_type { IL_THREAD = 0, IL_FAMILY = 1 };

struct index_lane {
	uint32_t type;	 /* enum index_lane_type */
	uint32_t number; /* of the thread or kind in the trace */
	uint32_t role;	 /* of a family, enum trace_role; of a thread, enum index_thread_role */
	uint32_t flags;	 /* 0 */
	uint64_t polls, tasks;
};

enum index_thread_role { IX_OTHER = 0, IX_WORKER, IX_BLOCK_ON };

enum index_heat_what { IH_POLLS = 0, IH_DELAYS, IH_WAITS, IH_N };
/* Half octaves: row r counts what took from index_heat_edge(r) ns up to the next. */
#define INDEX_HEAT_ROWS 64u
#define INDEX_HEAT_CELLS 1024u
uint64_t index_heat_edge(unsigned row);

enum span_type {
	SPAN_POLL = 0,
	SPAN_WAIT,
	SPAN_READY,
	SPAN_PARK,
	SPAN_CALL,
	SPAN_OFF_CPU,
	SPAN_SYSCALL,
	SPAN_TASK,
	SPAN_SAMPLE,
	SPAN_N
};

enum span_flags {
	SPAN_OPEN = 1,	      /* it went on when the trace ended */
	SPAN_KEEPS = 2,	      /* a call: it kept the worker from other tasks */
	SPAN_SPAWN_SEEN = 4,  /* a task */
	SPAN_WOKEN = 8,	      /* a poll: it was woken inside */
	SPAN_NUMBERED = 16,   /* a task: search finds it by its number */
	SPAN_BY_ADDRESS = 32, /* a task: its runtime names it by its address */
};

/* A stretch of time of a task or a thread. Times are CLOCK_MONOTONIC. */
struct index_span {
	uint64_t begin_ns, end_ns;
	uint32_t thread, kind; /* TRACE_KIND_NONE, UINT32_MAX: none */
	uint64_t task;	       /* the runtime's name for it, if there is a kind */
	/* A poll, wait: its place; a call: its number; off the CPU: why; a system call: its number; a
	 * sample: its stack; a task: kind of the parent + 1. */
	uint64_t what;
	uint64_t
		since_ns; /* a poll: when it became ready, 0: not known; a sample: its weight; a task:
			      * the parent's name */
	uint64_t blocked_ns; /* a poll: in calls; a task: the number by which people know it */
	uint8_t type;	     /* enum span_type */
	uint8_t outcome;     /* a poll, a task: enum trace_outcome; a sample: enum trace_sample */
	uint8_t flags;	     /* enum span_flags */
	uint8_t depth;	     /* a poll */
	uint32_t n;	     /* a task: polls */
};
_Static_assert(sizeof(struct index_span) == 64, "index_span");

/* A task that is named by its address and too short for a span, by the number by which people know it. */
struct index_named {
	uint64_t number, task, begin_ns;
	uint32_t kind, reserved;
};
_Static_assert(sizeof(struct index_named) == 32, "index_named");

/* A chunk of events in the trace file. */
struct index_chunk {
	uint64_t first_ns, last_ns; /* of its events, nearly */
	uint64_t offset;
	uint32_t thread, n;
};
_Static_assert(sizeof(struct index_chunk) == 32, "index_chunk");

/* ---- building ---- */

struct index_builder;

/* NULL: out of memory. `base_ns`: time of the first event. The reader must outlive it. */
struct index_builder *index_builder_new(const struct trace_reader *r, uint64_t base_ns);
void index_builder_free(struct index_builder *b);
/* Before the timeline emits anything: a thread of its own adds up what it emits. 0 or negative errno: it is added at once. */
int index_builder_start(struct index_builder *b);
/* Of a timeline over the whole trace; its context is the builder. Does not use the `user` of tasks. */
extern const struct timeline_sink index_sink;
/* For trace_reader_watch_chunks(). */
void index_builder_chunk(void *builder, const struct trace_chunk *chunk);
/* After the end: writes the index into an empty file. `report`: what is kept with it. */
int index_builder_write(struct index_builder *b, int fd, const struct index_trace *trace,
			const struct timeline_totals *totals, const struct buf *report,
			struct error *err);

/* ---- reading ---- */

struct index;

/* Takes the descriptor, in every case. -ESTALE: it is of another trace or version; -EBADMSG: it is
 * damaged. The file may be anything. */
int index_open(int fd, const struct index_trace *trace, struct index **ret_index,
	       struct error *err);
void index_free(struct index *ix);
/* Whether the trace (a descriptor) has the size and the time of the change that it had when it was made. */
bool index_fits(const struct index *ix, int trace);
/* Its file, read by pread() only. */
int index_fd(const struct index *ix);

struct index_facts {
	uint64_t base_ns, end_ns, n_events, n_lost, exact_ns;
	unsigned width_log2, n_levels, heat_width_log2;
	uint64_t n_cells;
	uint32_t n_lanes;
};
void index_facts(const struct index *ix, struct index_facts *ret);
const struct index_lane *index_lane(const struct index *ix, uint32_t i); /* NULL: there is none */
/* The lane of a thread or kind; INDEX_OVERVIEW: it has none. */
uint32_t index_find_lane(const struct index *ix, enum index_lane_type type, uint32_t number);

/* A series' place in the index: `*pos` starts at 0; false: there is none further of the lane. */
struct index_series_name {
	uint32_t number; /* of the series */
	enum index_what what;
	uint64_t place;
};
bool index_next_series(const struct index *ix, uint32_t lane, uint32_t *pos,
		       struct index_series_name *ret);
/* Values of n cells of a level from one on: added to, or maximum with, what is in ret. Cells beyond
 * the end are 0. 0 or negative errno. */
int index_values(const struct index *ix, uint32_t series, unsigned level, uint64_t first, size_t n,
		 uint64_t *ret, struct error *err);
/* A heat map, [cell][INDEX_HEAT_ROWS] (free); -ENOENT: there is none. */
int index_heat(const struct index *ix, uint32_t lane, enum index_heat_what what, uint32_t **ret,
	       struct error *err);
/* All spans (samples) that overlap from <= t < to, in order of their begin, to `take`; a negative
 * return ends it and comes out. */
int index_spans(const struct index *ix, uint64_t from_ns, uint64_t to_ns,
		int (*take)(void *ctx, const struct index_span *span), void *ctx,
		struct error *err);
int index_samples(const struct index *ix, uint64_t from_ns, uint64_t to_ns,
		  int (*take)(void *ctx, const struct index_span *span), void *ctx,
		  struct error *err);
/* Where a task of a number may be that is too short for a span: each one that is named by its address, to `named`; each
 * stretch of time in which there may be one that is not, to `stretch`. A negative return ends it and comes out. */
int index_find_number(const struct index *ix, uint64_t number,
		      int (*named)(void *ctx, const struct index_named *task),
		      int (*stretch)(void *ctx, uint64_t from_ns, uint64_t to_ns), void *ctx,
		      struct error *err);
/* All of those that are named by their address. */
int index_each_named(const struct index *ix, int (*take)(void *ctx, const struct index_named *task),
		     void *ctx, struct error *err);
/* Chunks with events of these times, in the order of the file, as far as up to max_events are in
 * them (free). -E2BIG: there are more. */
int index_chunks(const struct index *ix, uint64_t from_ns, uint64_t to_ns, uint64_t max_events,
		 uint64_t **ret_offsets, size_t *ret_n, struct error *err);
/* The reader, of the same trace, knows which kinds are used as if it had read all events. 0 or negative errno. */
int index_use_kinds(const struct index *ix, struct trace_reader *r, struct error *err);
/* What was kept with it. */
int index_report(const struct index *ix, struct buf *out, struct error *err);
