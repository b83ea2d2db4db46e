/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of all recorded processes, as the trace knows them. Every source uses this, so that
 * all of them report the same thread; and the main source keeps here what each thread is doing, for
 * the watching sources.
 */
#pragma once

#include "trace/trace.h"

#include <stdint.h>
#include <sys/types.h>

struct capture_threads;

/* A live thread. It stays where it is until it has ended, and until the next tidy() then: hold no
 * pointer from one drain to the next. */
struct capture_thread {
	uint32_t process; /* trace index */
	uint32_t tid;	  /* as we see it */
	uint32_t index;	  /* trace index of its first record */
	/* By the main source, as of its last drain: */
	uint64_t poll_begin_ns; /* the outermost poll of a task (not a worker's loop) that is open;
				 * 0: none */
	uint64_t poll_number;	/* goes up with every such poll */
	/* A watcher says which poll's end it wants to know, by its number; the main source answers.
	 */
	uint64_t watched, watched_end_ns; /* 0: it isn't over */
};

struct capture_threads *capture_threads_new(struct trace_writer *w);
void capture_threads_free(struct capture_threads *t);

/* The live thread with this tid, written to the trace if it is new (name: "" if not known; it is
 * set when a later caller knows it). NULL: out of memory, or the trace can't be written. */
struct capture_thread *capture_threads_get(struct capture_threads *t, uint32_t process,
					   uint32_t tid, const char *name);
/* For the main source, which knows that a thread begins: one that had its tid is another one. */
struct capture_thread *capture_threads_begin(struct capture_threads *t, uint32_t process,
					     uint32_t tid, const char *name);
/* The same, but NULL if it is not in the trace. */
struct capture_thread *capture_threads_find(const struct capture_threads *t, uint32_t process,
					    uint32_t tid);
/* A record of its own for another source of that thread's events (trace_thread.stream_of). The
 * source keeps the index. Negative errno of the writer. */
int capture_threads_stream(struct capture_threads *t, const struct capture_thread *thread,
			   uint32_t *ret_index);
/* The thread is gone. For a second more get() gives it to those who are late. */
void capture_threads_end(struct capture_thread *thread);
/* All live threads, one after the other: *i is 0 at first. NULL at the end. */
struct capture_thread *capture_threads_next(const struct capture_threads *t, size_t *i);
/* Forgets those that are gone, once a second. By the set. */
void capture_threads_tidy(struct capture_threads *t, uint64_t now_ns);
