/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The threads of all recorded processes: (process, tid) to the one record that the trace has of
 * each.
 *
 * The source that sees a thread first writes it to the trace, whether that is the one that knows
 * its tasks or the one that saw it lose its CPU. The main source says when one has ended. Threads
 * that only others have seen are looked up in /proc once in a while, since a tid comes again. One
 * that has ended is kept for a second more, for sources that are still on their way to its last
 * events.
 */
#include "capture/threads.h"

#include "base/map.h"
#include "base/units.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TIDY_NS NSEC_PER_SEC

struct thread_entry {
	struct capture_thread thread; /* first: a pointer to it is one to the entry */
	size_t slot;		      /* its index in the list */
	bool named;
	bool ended;
	bool missed; /* by the last tidy */
};

struct capture_threads {
	struct trace_writer *writer;
	struct map map;
	struct thread_entry **list;
	size_t n, cap;
	uint64_t next_tidy_ns;
};

struct capture_threads *capture_threads_new(struct trace_writer *w)
{
	struct capture_threads *t = calloc(1, sizeof(*t));

	if (t)
		t->writer = w;
	return t;
}

void capture_threads_free(struct capture_threads *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->list[i]);
	free(t->list);
	map_done(&t->map);
	free(t);
}

static struct thread_entry *add(struct capture_threads *t, uint32_t process, uint32_t tid,
				const char *name)
{
	const struct trace_thread record = {.process = process, .tid = tid, .name = name};
	struct thread_entry *e;

	if (!GROW(t->list, t->n, t->cap))
		return NULL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	*e = (struct thread_entry){.thread = {.process = process, .tid = tid}, .slot = t->n};
	e->named = *name;
	if (trace_writer_thread(t->writer, &record, &e->thread.index) < 0 ||
	    map_put(&t->map, process, tid, e) < 0) {
		free(e);
		return NULL;
	}
	t->list[t->n++] = e;
	return e;
}

static void drop(struct capture_threads *t, struct thread_entry *e)
{
	map_remove(&t->map, e->thread.process, e->thread.tid);
	t->list[e->slot] = t->list[--t->n];
	t->list[e->slot]->slot = e->slot;
	free(e);
}

struct capture_thread *capture_threads_get(struct capture_threads *t, uint32_t process,
					   uint32_t tid, const char *name)
{
	struct thread_entry *e = map_get(&t->map, process, tid);

	if (!e) {
		e = add(t, process, tid, name);
	} else if (!e->named && *name) {
		if (trace_writer_thread_name(t->writer, e->thread.index, name) < 0)
			return NULL;
		e->named = true;
	}
	return e ? &e->thread : NULL;
}

struct capture_thread *capture_threads_find(const struct capture_threads *t, uint32_t process,
					    uint32_t tid)
{
	struct thread_entry *e = map_get(&t->map, process, tid);

	return e ? &e->thread : NULL;
}

int capture_threads_stream(struct capture_threads *t, const struct capture_thread *thread,
			   uint32_t *ret_index)
{
	const struct trace_thread record = {.process = thread->process,
					    .tid = thread->tid,
					    .stream_of = thread->index + 1,
					    .name = ""};

	return trace_writer_thread(t->writer, &record, ret_index);
}

struct capture_thread *capture_threads_begin(struct capture_threads *t, uint32_t process,
					     uint32_t tid, const char *name)
{
	struct thread_entry *e = map_get(&t->map, process, tid);

	if (e && e->ended)
		drop(t, e);
	return capture_threads_get(t, process, tid, name);
}

void capture_threads_end(struct capture_thread *thread)
{
	struct thread_entry *e = (struct thread_entry *)thread;

	if (e)
		e->ended = true;
}

struct capture_thread *capture_threads_next(const struct capture_threads *t, size_t *i)
{
	while (*i < t->n && t->list[*i]->ended)
		++*i;
	return *i < t->n ? &t->list[(*i)++]->thread : NULL;
}

void capture_threads_tidy(struct capture_threads *t, uint64_t now_ns)
{
	if (now_ns < t->next_tidy_ns)
		return;
	t->next_tidy_ns = now_ns + TIDY_NS;
	for (size_t i = t->n; i-- > 0;) {
		struct thread_entry *e = t->list[i];
		char path[32];
		bool gone;

		snprintf(path, sizeof(path), "/proc/%u", e->thread.tid);
		gone = e->ended || access(path, F_OK) < 0;
		if (gone && e->missed)
			drop(t, e);
		else
			e->missed = gone;
	}
}
