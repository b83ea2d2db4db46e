/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory of the probes' state machine: tasks by (process, id), from their first hit until some
 * time after their end; threads with the polls open on them; and each thread's queue of events that
 * wait, because it isn't known yet of which kind a task is or how a poll ended, in front of all
 * that came after them. What is decided leaves at once.
 *
 * Ids and strings come from the traced program: tasks, places and names have limits.
 */
#include "runtime/provider_state.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *get_new(struct providers *p, struct map *m, uint64_t a, uint64_t b, size_t size)
{
	void *found = map_new(m, a, b, size);

	if (!found)
		p->failed = -ENOMEM;
	return found;
}

struct provider_process *provider_process(struct providers *p, uint32_t number)
{
	struct provider_process *ps = map_get(&p->processes, number, 0);

	if (ps || !(ps = get_new(p, &p->processes, number, 0, sizeof(*ps))))
		return ps;
	*ps = (struct provider_process){
		.number = number, .first_spawned = UINT64_MAX, .first_task = UINT64_MAX};
	return ps;
}

struct provider_thread *provider_thread(struct providers *p, uint32_t number)
{
	struct provider_thread *th = map_get(&p->threads, number, 0);

	return th ? th : get_new(p, &p->threads, number, 0, sizeof(*th));
}

/* ---- tasks ---- */

static void list_add(struct task_list *l, struct provider_task *t)
{
	t->prev = l->last;
	t->next = NULL;
	if (l->last)
		l->last->next = t;
	else
		l->first = t;
	l->last = t;
	l->n++;
}

static void list_take(struct task_list *l, struct provider_task *t)
{
	if (t->prev)
		t->prev->next = t->next;
	else
		l->first = t->next;
	if (t->next)
		t->next->prev = t->prev;
	else
		l->last = t->prev;
	l->n--;
}

static void unref(struct provider_task *t)
{
	if (--t->n_refs == 0 && t->gone)
		free(t);
}

struct provider_task *provider_task(struct providers *p, const struct provider_process *ps,
				    uint64_t id)
{
	return map_get(&p->tasks, ps->number, id);
}

struct provider_task *provider_task_new(struct providers *p, struct provider_process *ps,
					uint64_t id, uint64_t time, enum provider_make make)
{
	struct provider_task *t = get_new(p, &p->tasks, ps->number, id, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct provider_task){
		.process = ps,
		.id = id,
		.born_ns = time,
		.role = TR_TASK,
		.make = make,
		/* The probes of the others report at most the ends of blocking tasks. */
		.decided = make != PM_TOKIO2CHROME,
	};
	list_add(&p->live, t);
	p->stats.n_tasks++;
	if (p->live.n > MAX_TASKS)
		provider_task_forget(p, p->live.first);
	return t;
}

void provider_task_heard(struct providers *p, struct provider_task *t)
{
	if (t->ended || p->live.last == t)
		return;
	list_take(&p->live, t);
	list_add(&p->live, t);
}

void provider_task_forget(struct providers *p, struct provider_task *t)
{
	map_remove(&p->tasks, t->process->number, t->id);
	list_take(t->ended ? &p->ended : &p->live, t);
	t->gone = true;
	if (t->n_refs == 0)
		free(t);
}

void provider_task_end(struct providers *p, struct provider_task *t, uint64_t time)
{
	if (t->ended || t->gone)
		return;
	list_take(&p->live, t);
	t->ended = true;
	t->end_ns = time;
	list_add(&p->ended, t);
	if (p->ended.n > MAX_ENDED)
		provider_task_forget(p, p->ended.first);
}

/* ---- places and kinds ---- */

static void place_free(struct provider_loc *pl)
{
	if (!pl)
		return;
	free(pl->file);
	free(pl->name);
	free(pl);
}

const struct provider_loc *provider_place(struct providers *p, const char *file, const char *name,
					  uint32_t line, uint32_t column)
{
	size_t file_len = strnlen(file, MAX_STRING), name_len = strnlen(name, MAX_STRING);
	uint64_t h = hash_bytes((uint64_t)line << 32 | column, file, file_len);
	struct provider_loc *first, *pl;

	h = hash_bytes(h, name, name_len);
	first = map_get(&p->places, h, 0);
	for (pl = first; pl; pl = pl->next) {
		if (pl->line == line && pl->column == column && strlen(pl->file) == file_len &&
		    strlen(pl->name) == name_len && memcmp(pl->file, file, file_len) == 0 &&
		    memcmp(pl->name, name, name_len) == 0)
			return pl;
	}
	if (p->n_places == MAX_PLACES)
		return NULL;
	pl = calloc(1, sizeof(*pl));
	if (pl)
		*pl = (struct provider_loc){first, strndup(file, file_len), strndup(name, name_len),
					    line, column};
	if (!pl || !pl->file || !pl->name || map_put(&p->places, h, 0, pl) < 0) {
		place_free(pl);
		p->failed = -ENOMEM;
		return NULL;
	}
	p->n_places++;
	return pl;
}

/* "src/main.rs:42:5"; of a library what follows the registry's folder. */
static void place_text(struct buf *out, const struct provider_loc *pl, bool whole)
{
	static const char registry[] = "/registry/src/";
	const char *at = whole ? NULL : strstr(pl->file, registry);

	if (at)
		at = strchr(at + sizeof(registry) - 1, '/');
	buf_str(out, at ? at + 1 : pl->file);
	if (pl->line)
		buf_printf(out, ":%u", pl->line);
	if (pl->line && pl->column)
		buf_printf(out, ":%u", pl->column);
}

static int runtime_of(struct providers *p, struct provider_process *ps, unsigned provider,
		      uint32_t *ret)
{
	struct trace_runtime rt = {
		.process = ps->number,
		.name = provider ? "async-std" : "tokio",
		.version = "",
		.object = "",
		.verified = "by probes",
	};
	int r = 0;

	if (!ps->has_runtime[provider]) {
		r = p->sink->runtime(p->ctx, &rt, &ps->runtime[provider]);
		ps->has_runtime[provider] = r >= 0;
	}
	*ret = ps->runtime[provider];
	return r;
}

static int emit_kind(struct providers *p, const struct provider_task *t,
		     const struct provider_loc *pl, uint32_t *ret_index)
{
	static const char *const names[N_PROVIDERS][TR_N] = {
		{"tokio task", "tokio blocking task", "tokio worker", "tokio block_on", ""},
		{"async-std task", "", "", "", ""},
	};
	_cleanup_buf_ struct buf site = BUF_INIT, whole = BUF_INIT;
	unsigned provider = t->make == PM_ASYNC_STD;
	const char *sites[1];
	uint64_t addr = 0;
	struct trace_kind tk = {
		.process = t->process->number,
		.role = t->role,
		.name = names[provider][t->role],
		.full_name = "",
		.scheduler = t->role == TR_BLOCKING ? "blocking"
			     : t->local		    ? "local"
						    : "",
		.site_addrs = &addr,
		.sites = sites,
	};
	int r = runtime_of(p, t->process, provider, &tk.runtime);

	if (r < 0)
		return r;
	if (pl && *pl->file) {
		place_text(&site, pl, false);
		place_text(&whole, pl, true);
		if (buf_failed(&site) || buf_failed(&whole))
			return -ENOMEM;
		sites[0] = site.data;
		tk.n_sites = 1;
		tk.name = site.data;
		tk.full_name = whole.data;
	}
	if (pl && *pl->name)
		tk.name = pl->name;
	return p->sink->kind(p->ctx, &tk, ret_index);
}

static uint64_t kind_sort(const struct provider_process *ps, unsigned provider, unsigned role,
			  bool local)
{
	return (uint64_t)ps->number << 8 | role << 2 | (unsigned)local << 1 | provider;
}

bool provider_has_kind(struct providers *p, const struct provider_process *ps,
		       const struct provider_loc *place, enum trace_role role)
{
	return map_get(&p->kinds, (uintptr_t)place, kind_sort(ps, 0, role, false)) ||
	       map_get(&p->kinds, (uintptr_t)place, kind_sort(ps, 0, role, true));
}

/* The task is decided. */
static const struct provider_kind *kind_of(struct providers *p, struct provider_task *t)
{
	struct provider_process *ps = t->process;
	/* Where workers are spawned is of no interest. */
	const struct provider_loc *pl = t->role == TR_WORKER ? NULL : t->place;
	uint64_t sort = kind_sort(ps, t->make == PM_ASYNC_STD, t->role, t->local);
	struct provider_kind *k;
	int r;

	if (t->kind)
		return t->kind;
	if (t->place)
		p->stats.n_placed++;
	k = map_get(&p->kinds, (uintptr_t)pl, sort);
	if (!k && pl && *pl->name && ps->n_names >= MAX_NAMES) {
		pl = provider_place(p, pl->file, "", pl->line, pl->column);
		if (p->failed)
			return NULL;
		k = map_get(&p->kinds, (uintptr_t)pl, sort);
	}
	if (k)
		return t->kind = k;
	k = get_new(p, &p->kinds, (uintptr_t)pl, sort, sizeof(*k));
	if (!k)
		return NULL;
	r = emit_kind(p, t, pl, &k->index);
	if (r < 0) {
		p->failed = r;
		return NULL;
	}
	ps->n_names += pl && *pl->name;
	return t->kind = k;
}

/* ---- queues ---- */

static struct queued_event *queue_at(const struct provider_thread *th, size_t i)
{
	return &th->queue[(th->head + i) & (th->cap - 1)];
}

static bool ready(const struct queued_event *e)
{
	return !e->open && (!e->task || e->task->decided);
}

static void emit(struct providers *p, const struct queued_event *e)
{
	struct trace_event ev = e->ev;
	const struct provider_kind *k;
	int r;

	if (e->task) {
		k = kind_of(p, e->task);
		if (!k)
			return;
		ev.kind = k->index;
	}
	r = p->sink->event(p->ctx, &ev);
	if (r < 0)
		p->failed = r;
}

/* Emits what is decided, in order. */
static void flush(struct providers *p, struct provider_thread *th)
{
	while (th->n && ready(queue_at(th, 0)) && !p->failed) {
		struct queued_event e = *queue_at(th, 0);

		th->head = (th->head + 1) & (th->cap - 1);
		th->n--;
		emit(p, &e);
		if (e.task)
			unref(e.task);
	}
	if (th->n)
		return;
	/* Threads come and go, and their records stay. */
	if (th->gone) {
		free(th->queue);
		th->queue = NULL;
		th->head = th->cap = 0;
	}
	if (!th->waiting)
		return;
	*th->waiting = th->next_waiting;
	if (th->next_waiting)
		th->next_waiting->waiting = th->waiting;
	th->waiting = NULL;
	th->next_waiting = NULL;
}

static bool queue_grow(struct provider_thread *th)
{
	size_t cap = th->cap ? th->cap * 2 : 8;
	struct queued_event *q = malloc(cap * sizeof(*q));

	if (!q)
		return false;
	for (size_t i = 0; i < th->n; i++)
		q[i] = *queue_at(th, i);
	free(th->queue);
	th->queue = q;
	th->cap = cap;
	th->head = 0;
	return true;
}

void provider_put(struct providers *p, struct provider_thread *th, const struct trace_event *ev,
		  struct provider_task *t, bool open)
{
	struct queued_event e = {*ev, t, open};

	if (p->failed)
		return;
	if (th->n == 0 && ready(&e)) {
		emit(p, &e);
		if (th->gone)
			flush(p, th);
		return;
	}
	if (th->n == th->cap && !queue_grow(th)) {
		p->failed = -ENOMEM;
		return;
	}
	if (t)
		t->n_refs++;
	th->n++;
	*queue_at(th, th->n - 1) = e;
	if (!th->waiting) {
		th->next_waiting = p->waiting;
		if (p->waiting)
			p->waiting->waiting = &th->next_waiting;
		th->waiting = &p->waiting;
		p->waiting = th;
	}
}

struct queued_event *provider_last(struct provider_thread *th)
{
	return th->n ? queue_at(th, th->n - 1) : NULL;
}

void provider_close(struct providers *p, struct provider_thread *th, struct queued_event *e)
{
	e->open = false;
	flush(p, th);
}

void provider_task_decide(struct providers *p, struct provider_task *t, enum trace_role role)
{
	struct provider_thread *next;

	if (t->decided)
		return;
	t->decided = true;
	t->role = role;
	if (role == TR_TASK && t->id < t->process->first_task)
		t->process->first_task = t->id;
	for (struct provider_thread *th = p->waiting; th; th = next) {
		next = th->next_waiting;
		flush(p, th);
	}
}

struct queued_event *provider_undecided(struct providers *p, uint64_t before_ns,
					struct provider_thread **ret_th)
{
	struct queued_event *oldest = NULL;

	for (struct provider_thread *th = p->waiting; th; th = th->next_waiting) {
		struct queued_event *e = queue_at(th, 0);

		if (e->ev.time >= before_ns || (oldest && e->ev.time >= oldest->ev.time))
			continue;
		oldest = e;
		*ret_th = th;
	}
	return oldest;
}

/* ---- open polls ---- */

void provider_poll_push(struct providers *p, struct provider_thread *th, struct provider_task *t)
{
	if (th->n_polls == MAX_OPEN) {
		unref(th->polls[0].task);
		memmove(th->polls, th->polls + 1, (MAX_OPEN - 1) * sizeof(*th->polls));
		th->n_polls--;
	}
	if (!GROW(th->polls, th->n_polls, th->cap_polls)) {
		p->failed = -ENOMEM;
		return;
	}
	t->n_refs++;
	th->polls[th->n_polls++] = (struct provider_poll){t, TO_UNKNOWN};
}

struct provider_task *provider_poll_top(const struct provider_thread *th)
{
	return th->n_polls ? th->polls[th->n_polls - 1].task : NULL;
}

unsigned provider_poll_pop(struct provider_thread *th, const struct provider_task *t)
{
	for (unsigned i = th->n_polls; i-- > 0;) {
		unsigned outcome = th->polls[i].outcome;

		if (th->polls[i].task != t)
			continue;
		while (th->n_polls > i)
			unref(th->polls[--th->n_polls].task);
		return outcome;
	}
	return TO_N;
}

void provider_polls_clear(struct provider_thread *th)
{
	while (th->n_polls)
		unref(th->polls[--th->n_polls].task);
	free(th->polls);
	th->polls = NULL;
	th->cap_polls = 0;
}

/* ---- the end ---- */

void provider_state_done(struct providers *p)
{
	const struct map_entry *e;
	size_t at = 0;

	while ((e = map_next(&p->threads, &at))) {
		struct provider_thread *th = e->value;

		provider_polls_clear(th);
		for (size_t i = 0; i < th->n; i++) {
			if (queue_at(th, i)->task)
				unref(queue_at(th, i)->task);
		}
		free(th->queue);
	}
	for (at = 0; (e = map_next(&p->places, &at));) {
		struct provider_loc *next;

		for (struct provider_loc *pl = e->value; pl; pl = next) {
			next = pl->next;
			place_free(pl);
		}
	}
	map_done(&p->places);
	map_free(&p->threads, free);
	map_free(&p->tasks, free);
	map_free(&p->kinds, free);
	map_free(&p->processes, free);
}
