/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A moment is read by others (capture_options.moments, src/future); here is when: before events
 * flow, and after the last source has let go of the process. So it never meets a tracer of pollux'
 * own, and each wait that is older or younger than all events has its place.
 */
#include "capture/moments.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/text.h"
#include "base/vec.h"
#include "binary/names.h"
#include "capture/threads.h"
#include "process/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct moment_source {
	struct process process; /* whether it still is the program that it was */
	uint32_t index;
	bool open;
};

struct moments {
	struct trace_writer *writer;
	struct capture_threads *threads;
	const struct capture_options *options;
	struct moment_source *members;
	size_t n_members;
	struct capture_moment_cost cost[MOMENT_N];
	struct map places; /* (hash of a place, process) -> 1 + its index in the trace */
	struct coverage_list coverage; /* written at the end, with all other */
};

struct telling {
	struct moments *moments;
	uint32_t process;
	enum moment_when when;
	bool emitted;
	int rc; /* of the trace */
};

struct moments *moments_new(struct trace_writer *w, struct capture_threads *threads,
			    const struct capture_options *opt)
{
	struct moments *m = calloc(1, sizeof(*m));

	if (m) {
		m->writer = w;
		m->threads = threads;
		m->options = opt;
	}
	return m;
}

void moments_free(struct moments *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_members; i++)
		if (m->members[i].open)
			process_close(&m->members[i].process);
	free(m->members);
	coverage_done(&m->coverage);
	map_done(&m->places);
	free(m);
}

static const char *item_of(enum moment_when when)
{
	return when == MOMENT_START ? "tasks at the start" : "tasks at the end";
}

static void cover(struct moments *m, const struct telling *t, uint64_t seen, uint64_t total,
		  const char *note)
{
	struct trace_coverage *c = coverage_add(&m->coverage, item_of(t->when), seen, total, note);

	if (c)
		c->process = t->process;
}

/* ---- places ---- */

/* The place of an await point within another place: 1 + its index in the trace. */
static int write_place(struct moments *m, uint32_t process, const struct await_node *n,
		       uint32_t outer, uint32_t *ret_place)
{
	const struct await_node *awaited = n->children[0];
	_cleanup_free_ char *full = name_shorten(awaited->full_name);
	const struct trace_place place = {
		.process = process,
		.function = n->name,
		.file = n->file,
		.line = n->line,
		.awaits = awaited->kind == AN_BRANCH || !full ? awaited->name : full,
		.flags = (awaited->kind == AN_BRANCH ? TRACE_PLACE_BRANCHES : 0) |
			 (text_library_file(n->file) ? 0 : TRACE_PLACE_OWN),
		.outer = outer,
	};
	uint64_t hash = hash_string(
		hash_string(hash_string((uint64_t)outer << 32 | n->line, n->full_name), n->file),
		place.awaits);
	uintptr_t known = (uintptr_t)map_get(&m->places, hash, process);
	uint32_t index;

	if (!known) {
		TRY(trace_writer_place(m->writer, &place, &index));
		known = (uintptr_t)index + 1;
		TRY(map_put(&m->places, hash, process, (void *)known));
	}
	*ret_place = (uint32_t)known;
	return 0;
}

/* The innermost await point of a task that waits, down to where it waits for several things. */
static int place_of(struct moments *m, uint32_t process, const struct await_node *n,
		    uint32_t *ret_place)
{
	*ret_place = 0;
	while (n && n->n_children && n->state == AS_SUSPENDED && n->kind != AN_BRANCH) {
		if (n->kind == AN_ASYNC && n->file)
			TRY(write_place(m, process, n, *ret_place, ret_place));
		n = n->children[0];
	}
	return 0;
}

static int add_places(struct moments *m, struct trace_moment *moment)
{
	int rc = 0;

	for (size_t i = 0; i < moment->n_tasks && rc == 0; i++) {
		struct moment_task *t = &moment->tasks[i];

		if (t->state == IS_IDLE && t->kind->role == TR_TASK)
			rc = place_of(m, moment->process, t->tree, &t->place);
	}
	return rc;
}

/* Workers have their records, so that one which never has an event is in the trace as well. */
static int add_workers(struct moments *m, const struct trace_moment *moment)
{
	for (size_t i = 0; i < moment->n_tasks; i++) {
		const struct moment_thread *thread = moment_worker_of(moment, &moment->tasks[i]);

		if (thread &&
		    !capture_threads_get(m->threads, moment->process, thread->tid, thread->name))
			return -ENOMEM;
	}
	return 0;
}

/* ---- taking ---- */

static int emit(void *ctx, struct trace_moment *moment)
{
	struct telling *t = ctx;
	struct capture_moment_cost *cost = &t->moments->cost[t->when];
	char note[160] = "";

	moment->process = t->process;
	moment->when = t->when;
	t->emitted = true;
	cost->n_tasks += moment->n_tasks;
	cost->stop_ns += moment->stop_ns;
	cost->n_processes++;
	if (moment->n_found > moment->n_tasks)
		snprintf(note, sizeof(note), "a moment has up to %zu tasks", moment->n_tasks);
	else if (!moment->stopped)
		snprintf(note, sizeof(note),
			 "its threads could not be stopped: what is shown of them may mix several "
			 "moments");
	cover(t->moments, t, moment->n_tasks, moment->n_found, note);
	t->rc = add_places(t->moments, moment);
	if (t->rc == 0 && t->when == MOMENT_START)
		t->rc = add_workers(t->moments, moment);
	if (t->rc == 0)
		t->rc = trace_writer_moment(t->moments->writer, moment);
	return t->rc;
}

static int take(struct moments *m, pid_t pid, uint32_t process, enum moment_when when,
		struct error *err)
{
	struct telling t = {.moments = m, .process = process, .when = when};
	struct error why = {0};
	int rc = m->options->moments(pid, emit, &t, &why);

	if (t.rc < 0)
		return error_sys(err, t.rc, "cannot write the trace");
	if (rc == -ENOMEM)
		return error_sys(err, rc, "cannot record");
	log_debug(LOG_TREE, "the moment of the %s of process %d: %s", moment_when_name(when), pid,
		  rc < 0 ? why.text : "written");
	/* One that ends just now loses nothing. */
	if (rc < 0 && rc != -ESRCH && !t.emitted)
		cover(m, &t, 0, 0, why.text);
	return 0;
}

int moments_join(struct moments *m, pid_t pid, uint32_t process, struct error *err)
{
	struct moment_source *one;

	if (!GROW_ONE(m->members, m->n_members))
		return error_sys(err, -ENOMEM, "cannot record");
	one = &m->members[m->n_members++];
	*one = (struct moment_source){.process = PROCESS_INIT, .index = process};
	one->open = process_open(pid, &one->process, NULL) == 0;
	/* A program that begins has no tasks yet. */
	return m->options->argv || !one->open ? 0 : take(m, pid, process, MOMENT_START, err);
}

int moments_end(struct moments *m, struct capture_stats *stats, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->n_members && rc == 0; i++) {
		struct moment_source *one = &m->members[i];

		if (one->open && process_alive(&one->process))
			rc = take(m, one->process.pid, one->index, MOMENT_END, err);
	}
	for (enum moment_when when = 0; when < MOMENT_N; when++) {
		stats->moments[when] = m->cost[when];
		stats->cost.stop_ns += m->cost[when].stop_ns;
	}
	for (size_t i = 0; i < m->coverage.n && rc == 0; i++) {
		rc = capture_emit_coverage(m->writer, stats, &m->coverage.v[i]);
		if (rc < 0)
			error_sys(err, rc, "cannot write the trace");
	}
	return rc;
}
