/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The trace file, .plx: writer and reader. The format is specified in docs/trace-format.md.
 *
 * A writer takes events thread by thread in each thread's own order and metadata at any time before
 * the first event that needs it. A reader gives metadata through its tables and all events merged
 * by time, in memory bounded by the writer's rounds (trace_writer_round), not by the file's length.
 * What was cut off (kill -9, full disk) is recovered up to the last whole chunk;
 * trace_reader_truncated() reports it.
 */
#pragma once

#include "base/error.h"
#include "trace/event.h"
#include "trace/moment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_writer;
struct trace_reader;

/* Opens the output as file_output_open() does; a new file gets its name with the first events. The
 * caller owns *ret_writer. */
int trace_writer_open(const char *path, struct trace_writer **ret_writer, struct error *err);
/* Before anything else is written: the file gets its name by trace_writer_close() only, when it is
 * whole. */
void trace_writer_whole(struct trace_writer *w);
/* Writes into a pipe that is open already, and no file. Takes the fd in every case. */
int trace_writer_open_fd(int fd, struct trace_writer **ret_writer, struct error *err);
/* Before anything else is written: all goes to this pipe too, for a reader in the same process (a
 * thread of its own) that sees the recording as it grows. A slow reader slows the writer down; one
 * that goes away ends nothing but the copy. Takes the fd. 0 or negative errno. */
int trace_writer_tee(struct trace_writer *w, int fd);

/* Each gives the new item's index, counted from 0 for each sort, in the order of the calls. */
int trace_writer_process(struct trace_writer *w, const struct trace_process *p,
			 uint32_t *ret_index);
int trace_writer_runtime(struct trace_writer *w, const struct trace_runtime *r,
			 uint32_t *ret_index);
int trace_writer_thread(struct trace_writer *w, const struct trace_thread *t, uint32_t *ret_index);
int trace_writer_kind(struct trace_writer *w, const struct trace_kind *k, uint32_t *ret_index);
int trace_writer_thread_name(struct trace_writer *w, uint32_t thread, const char *name);
int trace_writer_place(struct trace_writer *w, const struct trace_place *p, uint32_t *ret_index);
int trace_writer_frame(struct trace_writer *w, const struct trace_frame *f, uint32_t *ret_index);
int trace_writer_stack(struct trace_writer *w, const struct trace_stack *s, uint32_t *ret_index);
int trace_writer_coverage(struct trace_writer *w, const struct trace_coverage *c);
int trace_writer_cost(struct trace_writer *w, const struct trace_cost *c);
int trace_writer_cpu(struct trace_writer *w, const struct trace_cpu *c);
int trace_writer_neighbour(struct trace_writer *w, const struct trace_neighbour *n,
			   uint32_t *ret_index);
/* What a panic says. */
int trace_writer_message(struct trace_writer *w, const char *text, uint32_t *ret_index);
/* A moment of one of its processes. One of the start comes before that process' events. */
int trace_writer_moment(struct trace_writer *w, const struct trace_moment *m);

/* Events of one thread (all with ev[i].thread == thread) in that thread's order. Buffered; encoded
 * and written by size or at the round's end. Times that go backwards within a thread are kept. */
int trace_writer_events(struct trace_writer *w, uint32_t thread, const struct trace_event *ev,
			size_t n);

/* Ends a round: everything buffered is written, with a record that (nearly) all events older than
 * `watermark_ns` are now in the file. Called by the capture a few times a second. */
int trace_writer_round(struct trace_writer *w, uint64_t watermark_ns);

uint64_t trace_writer_bytes(const struct trace_writer *w);
uint64_t trace_writer_n_events(const struct trace_writer *w);
/* How long the recording lasted, as replay_length_ns() says of the file. */
uint64_t trace_writer_length_ns(const struct trace_writer *w, const struct trace_cost *c);

/* Writes the end mark and closes. A file without end mark is a cut one. Frees w in every case. */
int trace_writer_close(struct trace_writer *w, struct error *err);

/* Instead of that, after a failure: ends without a mark, and a file that has no name yet is gone.
 */
void trace_writer_discard(struct trace_writer *w);

/* Whether a file begins as a trace does. False also if it can't be read. */
bool trace_file_is_trace(const char *path);
/* `path` may be "-" (standard input), or what file_open() takes: also a pipe. Reads the header
 * only. */
int trace_reader_open(const char *path, struct trace_reader **ret_reader, struct error *err);
/* The same from a file or a pipe that is open already. Takes the fd in every case. */
int trace_reader_open_fd(int fd, struct trace_reader **ret_reader, struct error *err);
void trace_reader_free(struct trace_reader *r);
/* The descriptor that it reads, and closes. */
int trace_reader_fd(const struct trace_reader *r);

/* Next event in time order: 1 with *ret_event, 0 at the end, negative errno. Metadata that precedes
 * an event in the file is in the tables when the event is returned. */
int trace_reader_next(struct trace_reader *r, struct trace_event *ret_event, struct error *err);

/* From now on a thread reads ahead of the caller, to the end or until the reader begins again; the events and the
 * tables are the same at every event. That thread also calls what trace_reader_watch_chunks() names.
 * Not where more is waited for at the file's end. 0 or negative errno: it reads as before. */
int trace_reader_read_ahead(struct trace_reader *r);

/* The next event may have to be waited for: what was made of those before should be shown now. */
bool trace_reader_may_wait(const struct trace_reader *r);

/* Begins again at the first event (a second pass). Needs a seekable file, else -ESPIPE. */
int trace_reader_rewind(struct trace_reader *r, struct error *err);

/* Tables as read so far; pointers are valid until trace_reader_free. NULL when out of range. */
const struct trace_process *trace_reader_process(const struct trace_reader *r, uint32_t i);
const struct trace_runtime *trace_reader_runtime(const struct trace_reader *r, uint32_t i);
const struct trace_thread *trace_reader_thread(const struct trace_reader *r, uint32_t i);
const struct trace_kind *trace_reader_kind(const struct trace_reader *r, uint32_t i);
/* A recorder writes all kinds that a program may have. Used are those that an event has named so far, in any pass,
 * and those that the caller knows to be. False: out of memory. */
bool trace_reader_kind_used(const struct trace_reader *r, uint32_t i);
bool trace_reader_use_kind(struct trace_reader *r, uint32_t i);
const struct trace_place *trace_reader_place(const struct trace_reader *r, uint32_t i);
/* Of place i and those around it the one that people look for: the innermost in the program's own
 * code, place i itself if none is. `own`, NULL or NULL-terminated: names of the crates that are the
 * program's; else the recorder's flags say. NULL: there is no place i. */
const struct trace_place *trace_reader_own_place(const struct trace_reader *r, uint32_t i,
						 const char *const *own);
/* "shop::order" and "axum::handler::call<shop::order>" name the crate "shop". */
bool trace_names_crate(const char *function, const char *crate);
/* The first part of a path, and its length: "tokio" of "<tokio::task::Unconstrained<F> as ...".
 * NULL: there is none. */
const char *trace_crate_of(const char *function, size_t *ret_len);
/* Whether the frame is of the program's own code: of a crate of `own` (NULL: none), or not of a
 * library by its source file, or, where that is not known, of the crate that its object is named
 * like. C has no crates and is none. */
bool trace_frame_is_own(const struct trace_frame *f, const char *const *own);
/* Whether it may be of what runs a task's poll: a runtime, the standard library, C. */
bool trace_frame_is_below_poll(const struct trace_frame *f);
/* Stack i's innermost frame of the program's own code, NULL: it has none. */
const struct trace_frame *trace_reader_own_frame(const struct trace_reader *r, uint32_t i,
						 const char *const *own);
const struct trace_frame *trace_reader_frame(const struct trace_reader *r, uint32_t i);
const struct trace_stack *trace_reader_stack(const struct trace_reader *r, uint32_t i);
const char *trace_reader_message(const struct trace_reader *r, uint32_t i); /* NULL if unknown */
const struct trace_coverage *trace_reader_coverage(const struct trace_reader *r, uint32_t i);
const struct trace_cost *trace_reader_cost(const struct trace_reader *r); /* NULL if unknown */
const struct trace_cpu *trace_reader_cpu(const struct trace_reader *r, uint32_t i);
uint32_t trace_reader_n_cpus(const struct trace_reader *r); /* one for each process, if known */
const struct trace_neighbour *trace_reader_neighbour(const struct trace_reader *r, uint32_t i);
/* The wall clock at a time of the trace, in ns; 0: no process is known, whose clock it is. */
uint64_t trace_reader_unix_ns(const struct trace_reader *r, uint64_t time_ns);
uint32_t trace_reader_n_processes(const struct trace_reader *r);
uint32_t trace_reader_n_runtimes(const struct trace_reader *r);
uint32_t trace_reader_n_threads(const struct trace_reader *r);
uint32_t trace_reader_n_kinds(const struct trace_reader *r);
uint32_t trace_reader_n_frames(const struct trace_reader *r);
uint32_t trace_reader_n_coverage(const struct trace_reader *r);

/* The moments that were read so far, in the order of the file: those of a start are there with the
 * first event, those of an end after the last. False: there is no moment i. */
uint32_t trace_reader_n_moments(const struct trace_reader *r);
bool trace_reader_moment_name(const struct trace_reader *r, uint32_t i, uint32_t *ret_process,
			      enum moment_when *ret_when);
/* Decodes one into *ret_moment, for moment_done(). 1; 0: there is none; negative errno. What is
 * damaged of it counts as a damaged chunk, and the rest is there. */
int trace_reader_moment(struct trace_reader *r, uint32_t process, enum moment_when when,
			struct trace_moment *ret_moment, struct error *err);
/* A chunk of events in the file. */
struct trace_chunk {
	uint64_t offset;   /* of its header */
	uint64_t first_ns; /* from which its first event's time counts */
	uint32_t thread;   /* index of its record */
	uint32_t n;	   /* events, as the chunk says */
};
/* Reports each chunk of events that is read from now on. */
void trace_reader_watch_chunks(struct trace_reader *r,
			       void (*watch)(void *ctx, const struct trace_chunk *chunk),
			       void *ctx);
/* Of a file that grows: asked at its end whether it has more now; true: it is read again. */
void trace_reader_on_end(struct trace_reader *r, bool (*more)(void *ctx), void *ctx);
/* Begins again with these chunks, by their offsets, and nothing else of the file: trace_reader_next() gives
 * their events merged. `fd`: another descriptor of the same file, with a position of its own, taken in
 * every case, in place of the one before. The offsets are the caller's until the end. What is no chunk
 * of events is skipped. */
int trace_reader_pick(struct trace_reader *r, int fd, const uint64_t *offsets, size_t n,
		      struct error *err);
/* In place of trace_reader_next(): reads to the end for the tables and moments only. */
int trace_reader_skip_events(struct trace_reader *r, struct error *err);

/* After the end was reached: true if the file was cut or damaged; the sentence says what is lost.
 */
bool trace_reader_truncated(struct trace_reader *r, const char **ret_text);

/* Of a file that is cut: the time up to which it has the events of all threads, once an event after that was
 * returned, or the end reached. What comes later is there of some threads only. UINT64_MAX: it is not cut, or
 * does not say. */
uint64_t trace_reader_complete_ns(const struct trace_reader *r);

/* Bytes read of bytes in all (0 if not known): for a progress bar. */
void trace_reader_progress(const struct trace_reader *r, uint64_t *ret_done, uint64_t *ret_total);
