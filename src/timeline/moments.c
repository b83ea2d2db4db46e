/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A moment names kinds by their vtables, as linked, and the object that they are in; events by the
 * index of the kind's record. Tasks of the start's moment lived before all events; those of them
 * that never have one, and are in the end's moment too, have been as they were all the time. The
 * same is true of the workers' threads, which a moment names by their tids.
 */
#include "timeline/moments.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/syscalls.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t kind_key(uint64_t vtable, const char *object)
{
	return hash_string(vtable, object ? object : "");
}

/* Kinds are added while a recording goes on. */
static int learn_kinds(struct tl_moments *m, const struct trace_reader *r)
{
	for (; m->n_kinds < trace_reader_n_kinds(r); m->n_kinds++) {
		const struct trace_kind *k = trace_reader_kind(r, m->n_kinds);
		const struct trace_runtime *rt = k ? trace_reader_runtime(r, k->runtime) : NULL;
		uint64_t key;

		if (!k || !rt || !k->vtable || !tl_role_counts(k->role))
			continue;
		key = kind_key(k->vtable, rt->object);
		if (!map_get(&m->kinds, key, k->process) &&
		    map_put(&m->kinds, key, k->process, (void *)(uintptr_t)(m->n_kinds + 1)) < 0)
			return -ENOMEM;
	}
	return 0;
}

uint32_t tl_moments_kind(struct tl_moments *m, const struct trace_reader *r, uint32_t process,
			 const struct moment_kind *kind)
{
	uintptr_t at = 0;

	if (kind->vtable && learn_kinds(m, r) == 0)
		at = (uintptr_t)map_get(&m->kinds, kind_key(kind->vtable, kind->object), process);
	return at ? (uint32_t)(at - 1) : TRACE_KIND_NONE;
}

uint64_t tl_moments_name(const struct trace_reader *r, uint32_t kind, const struct moment_task *t)
{
	const struct trace_kind *k = trace_reader_kind(r, kind);

	return k && k->address_named ? t->addr : t->id;
}

static enum task_state state_of(const struct moment_task *t)
{
	switch (t->state) {
	case IS_IDLE:
		return TS_WAITING;
	case IS_SCHEDULED:
		return TS_SCHEDULED;
	case IS_RUNNING:
	case IS_WOKEN_RUNNING:
		return TS_POLLING;
	default:
		return TS_UNKNOWN;
	}
}

/* A task that is to be emitted, or is in the end's moment. */
static int take_task(struct tl_moments *m, struct trace_reader *r, struct timeline *tl,
		     const struct trace_moment *moment, const struct moment_task *t,
		     struct error *err)
{
	uint32_t kind = t->state == IS_DONE ? TRACE_KIND_NONE
					    : tl_moments_kind(m, r, moment->process, t->kind);
	struct timeline_before before = {.kind = kind, .state = state_of(t), .place = t->place};

	if (kind == TRACE_KIND_NONE)
		return 0;
	before.id = tl_moments_name(r, kind, t);
	if (moment->when == MOMENT_START) {
		if (!trace_reader_use_kind(r, kind))
			return error_set(err, -ENOMEM, "out of memory");
		return tl ? timeline_before(tl, &before, err) : 0;
	}
	if (map_put(&m->alive, kind, before.id, m) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* ---- workers ---- */

/* A worker of a start's moment, and its thread once that is known. */
struct found_worker {
	uint32_t process, tid, thread;
};

/* The call of a thread, as events name it. */
static uint16_t call_of(const struct moment_thread *t)
{
	const char *name = t->call ? syscall_name(t->call - 1) : NULL;

	for (uint16_t call = TB_NONE + 1; name && call < TB_N; call++)
		if (!strcmp(trace_call_name(call), name))
			return call;
	return TB_NONE;
}

static int take_worker(struct tl_moments *m, const struct trace_moment *moment,
		       const struct moment_thread *t, bool polls)
{
	static const bool parked = true, not_parked = false;
	bool parks = t->call && !polls;
	struct timeline_before_thread *worker;

	if (moment->when == MOMENT_END)
		return map_put_const(&m->last_workers, moment->process, t->tid,
				     parks ? &parked : &not_parked);
	worker = map_get_or_new(&m->workers, moment->process, t->tid, sizeof(*worker));
	if (!worker)
		return -ENOMEM;
	*worker = (struct timeline_before_thread){
		.parked = parks,
		.polls = polls,
		.call = call_of(t),
		.since_ns = moment->now_ns,
	};
	m->n_threads = 0;
	return 0;
}

/* The threads on which a worker's loop runs. */
static int take_workers(struct tl_moments *m, const struct trace_moment *moment)
{
	enum { WORKS = 1, POLLS = 2 };
	_cleanup_free_ uint8_t *does = calloc(moment->n_threads + 1, 1);

	if (!does)
		return -ENOMEM;
	for (size_t i = 0; i < moment->n_tasks; i++) {
		const struct moment_task *t = &moment->tasks[i];
		const struct moment_thread *thread = moment_thread_of(moment, t);

		if (thread)
			does[thread - moment->threads] |= moment_worker_of(moment, t)	  ? WORKS
							  : tl_role_counts(t->kind->role) ? POLLS
											  : 0;
	}
	for (size_t i = 0; i < moment->n_threads; i++)
		if (does[i] & WORKS)
			TRY(take_worker(m, moment, &moment->threads[i], does[i] & POLLS));
	return 0;
}

/* Threads get their records while a recording goes on. */
static int find_workers(struct tl_moments *m, const struct trace_reader *r, struct timeline *tl,
			struct error *err)
{
	for (; m->workers.n && m->n_threads < trace_reader_n_threads(r); m->n_threads++) {
		const struct trace_thread *t = trace_reader_thread(r, m->n_threads);
		_cleanup_free_ struct timeline_before_thread *worker =
			t && !t->stream_of ? map_remove(&m->workers, t->process, t->tid) : NULL;

		if (!worker)
			continue;
		worker->thread = m->n_threads;
		if (!GROW_ONE(m->found, m->n_found))
			return error_set(err, -ENOMEM, "out of memory");
		m->found[m->n_found++] = (struct found_worker){t->process, t->tid, m->n_threads};
		TRY(timeline_before_thread(tl, worker, err));
	}
	return 0;
}

/* ---- all of a moment ---- */

int tl_moments_feed(struct tl_moments *m, struct trace_reader *r, struct timeline *tl,
		    struct error *err)
{
	enum moment_when when;
	uint32_t process;
	int rc = 0;

	while (rc == 0 && trace_reader_moment_name(r, m->n_read, &process, &when)) {
		struct trace_moment moment = {0};

		m->n_read++;
		rc = trace_reader_moment(r, process, when, &moment, err);
		if (rc > 0)
			rc = 0;
		for (size_t i = 0; i < moment.n_tasks && rc == 0; i++)
			rc = take_task(m, r, tl, &moment, &moment.tasks[i], err);
		if (rc == 0 && tl && take_workers(m, &moment) < 0)
			rc = error_set(err, -ENOMEM, "out of memory");
		/* Of one that is damaged, or has not all tasks, nothing follows from what it lacks. */
		if (rc == 0 && when == MOMENT_END && moment.n_tasks &&
		    moment.n_tasks >= moment.n_found &&
		    (map_put(&m->ends, (uint64_t)process + 1, 0, m) < 0 ||
		     (moment.n_threads && map_put(&m->lasts, (uint64_t)process + 1, 0, m) < 0)))
			rc = error_set(err, -ENOMEM, "out of memory");
		moment_done(&moment);
	}
	return rc < 0 || !tl ? rc : find_workers(m, r, tl, err);
}

struct there {
	const struct tl_moments *m;
	const struct trace_reader *r;
};

static bool is_there(const void *ctx, uint32_t kind, uint64_t id)
{
	const struct there *there = ctx;
	const struct trace_kind *k = trace_reader_kind(there->r, kind);

	return !k || !map_get(&there->m->ends, (uint64_t)k->process + 1, 0) ||
	       map_get(&there->m->alive, kind, id);
}

void tl_moments_end(struct tl_moments *m, struct trace_reader *r, struct timeline *tl,
		    uint64_t begin_ns)
{
	timeline_before_end(tl, begin_ns, is_there, &(struct there){m, r});
	for (size_t i = 0; i < m->n_found; i++) {
		const struct found_worker *f = &m->found[i];
		const bool *parked = map_get(&m->last_workers, f->process, f->tid);

		if (map_get(&m->lasts, (uint64_t)f->process + 1, 0))
			timeline_before_thread_end(tl, f->thread, parked, parked && *parked);
	}
}

void tl_moments_done(struct tl_moments *m)
{
	map_done(&m->kinds);
	map_done(&m->ends);
	map_done(&m->alive);
	map_free(&m->workers, free);
	map_done(&m->last_workers);
	map_done(&m->lasts);
	free(m->found);
	*m = (struct tl_moments){0};
}
