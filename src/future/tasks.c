/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What is a task: headers found by the addresses of their kinds' vtables, and checked by all that
 * must hold of a live one. Freed memory and copies on stacks look like tasks too.
 *
 * Source: Tokio runtime/task/{core,state,list}.rs, async-task header.rs and state.rs.
 */
#include "future/tasks.h"

#include "agent/runtime_async_task.h"
#include "agent/runtime_tokio.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/search.h"
#include "base/units.h"
#include "base/vec.h"
#include "binary/code/code_scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SCAN_BYTES = 1 << 20,
	WHOLE_BYTES = 32 << 20,
	MIN_SEARCH_BYTES = 1 << 30,
};

/* NULL: none. */
static struct inspect_kind *kind_at(struct inspect *in, uint64_t vtable)
{
	size_t lo = PARTITION_POINT(i, 0, in->n_kinds, in->kinds[i].vtable < vtable);

	return lo < in->n_kinds && in->kinds[lo].vtable == vtable ? &in->kinds[lo] : NULL;
}

/* A stack has its guard page right below it: copies of headers lie there, never tasks. */
static bool is_stack(const struct inspect *in, size_t i)
{
	const struct process_map *m = &in->maps.v[i];
	const struct process_map *below = i ? &in->maps.v[i - 1] : NULL;

	if (!strncmp(m->path, "[stack", 6))
		return true;
	return below && below->end == m->start && !below->read && !below->write && !below->exec &&
	       below->end - below->start <= 65536 && m->inode == 0;
}

/* owned: Pointers { prev, next }, each 0 or the header of another task that points back. */
static bool links_ok(struct inspect *in, uint64_t addr, uint64_t trailer)
{
	uint64_t links[2];

	if (!mem_read(&in->mem, addr + trailer, links, sizeof(links)))
		return false;
	for (unsigned i = 0; i < 2; i++) {
		const struct inspect_kind *other;
		uint64_t vtable, back;

		if (!links[i])
			continue;
		if (!mem_u64(&in->mem, links[i] + TOKIO_VTABLE_OFFSET, &vtable)) {
			if (in->mem.frozen && !mem_has(&in->mem, links[i] + TOKIO_VTABLE_OFFSET))
				continue; /* became a neighbour after the first look: not in the
					     copy */
			return false;
		}
		other = kind_at(in, vtable);
		if (!other || !other->tokio ||
		    !mem_u64(&in->mem, links[i] + other->kind->trailer_offset + 8 * (1 - i),
			     &back) ||
		    back != addr)
			return false;
	}
	return true;
}

/*
 * From 1.29 on Tokio aligns a task's cell to 128 bytes (x86-64 and aarch64; runtime/task/core.rs).
 * An object may hold more than one Tokio, and one whose version isn't known may be any.
 */
static bool place_ok(const struct inspect_kind *k, uint64_t addr)
{
	const char *version = k->object->scan.runtimes[k->kind->runtime].version;

	return addr % (version_at_least(version, 1, 29) ? 128 : 8) == 0;
}

/* What Tokio's state machine never shows: what runs and is over; a closure for the blocking pool
 * that has been let go again: it is queued, then it runs, then it is over. */
static bool state_ok(const struct scan_kind *k, uint64_t s)
{
	bool running = s & TOKIO_RUNNING, complete = s & TOKIO_COMPLETE;

	if (running && complete)
		return false;
	if (k->role != TR_BLOCKING && k->role != TR_WORKER)
		return true;
	return complete || (running ? !(s & TOKIO_NOTIFIED) : s & TOKIO_NOTIFIED);
}

/*
 * The next task of the queue in which it is, if any. An allocator keeps its lists in the first words of what
 * is free (glibc: the chunk before, or a key, is here), where a small heap address is a state like any other.
 */
static bool next_ok(struct inspect *in, const struct inspect_kind *k, uint64_t addr)
{
	uint64_t next, vtable;
	const struct inspect_kind *other;

	if (!mem_u64(&in->mem, addr + TOKIO_NEXT_OFFSET, &next))
		return false;
	if (!next)
		return true;
	if (!place_ok(k, next))
		return false;
	if (!mem_u64(&in->mem, next + TOKIO_VTABLE_OFFSET, &vtable))
		return in->mem.frozen && !mem_has(&in->mem, next + TOKIO_VTABLE_OFFSET);
	other = kind_at(in, vtable);
	return other && other->tokio;
}

/* Ids come from one counter, which holds the next one. */
static bool id_ok(struct inspect *in, const struct inspect_kind *k, uint64_t id)
{
	uint64_t counter = k->object->scan.runtimes[k->kind->runtime].next_id, next;

	return id && (!counter ||
		      (mem_u64(&in->mem, counter + k->object->object->bias, &next) && id < next));
}

/* The scheduler of a task in a list is an Arc, whose counts of references come first. */
static bool scheduler_ok(struct inspect *in, uint64_t addr, const struct scan_kind *k)
{
	uint64_t arc, counts[2];

	return mem_u64(&in->mem, addr + k->scheduler_offset, &arc) &&
	       mem_read(&in->mem, arc, counts, sizeof(counts)) && counts[0] &&
	       counts[0] < MAX_REFERENCES && counts[1] && counts[1] < MAX_REFERENCES;
}

static bool read_tokio(struct inspect *in, struct inspect_task *t)
{
	const struct scan_kind *k = t->kind->kind;
	uint64_t vtable, s;

	if (!mem_u64(&in->mem, t->addr + TOKIO_STATE_OFFSET, &s) ||
	    !mem_u64(&in->mem, t->addr + TOKIO_VTABLE_OFFSET, &vtable) ||
	    vtable != t->kind->vtable ||
	    !mem_u64(&in->mem, t->addr + TOKIO_OWNER_OFFSET, &t->owner) ||
	    !mem_u64(&in->mem, t->addr + k->id_offset, &t->id))
		return false;
	t->raw_state = s;
	if (!tokio_is_state(s) || !place_ok(t->kind, t->addr) || !state_ok(k, s) ||
	    !id_ok(in, t->kind, t->id) || t->owner >> 48)
		return false;
	/* not yet in its runtime's list: being made, or what is left of that on a stack. Blocking
	 * tasks are in no list, and without symbols only their running shows that they are blocking
	 * tasks. */
	if (!t->owner && k->role == TR_TASK && !(s & TOKIO_LIFECYCLE))
		return false;
	if (!links_ok(in, t->addr, k->trailer_offset) || !next_ok(in, t->kind, t->addr) ||
	    (t->owner && !scheduler_ok(in, t->addr, k))) {
		/* Of two moments: it may be one all the same. */
		t->doubtful = !in->mem.frozen;
		if (!t->doubtful)
			return false;
	}
	t->refs = (uint32_t)tokio_references(s);
	t->cancelled = s & TOKIO_CANCELLED;
	t->join_interest = s & TOKIO_JOIN_INTEREST;
	t->state = s & TOKIO_COMPLETE	? IS_DONE
		   : s & TOKIO_RUNNING	? (s & TOKIO_NOTIFIED ? IS_WOKEN_RUNNING : IS_RUNNING)
		   : s & TOKIO_NOTIFIED ? IS_SCHEDULED
					: IS_IDLE;
	return true;
}

/*
 * The other words of a header are the awaiter's, a waker, or metadata: no task's vtable is there. One
 * is where a vtable is left at the end of an allocation, and the next is a task: then the "state" is
 * the allocator's word between them.
 */
static bool awaiter_ok(struct inspect *in, const uint64_t words[ASYNC_HEADER_WORDS], unsigned state,
		       unsigned vtable)
{
	for (unsigned i = 0; i < ASYNC_HEADER_WORDS; i++)
		if (i != state && i != vtable && words[i] && kind_at(in, words[i]))
			return false;
	return true;
}

static bool read_async(struct inspect *in, struct inspect_task *t)
{
	const unsigned state = t->kind->kind->state_offset / 8, vtable = t->kind->vtable_offset / 8;
	uint64_t words[ASYNC_HEADER_WORDS], s;

	if (state >= ASYNC_HEADER_WORDS || vtable >= ASYNC_HEADER_WORDS ||
	    !mem_read(&in->mem, t->addr, words, sizeof(words)) || words[vtable] != t->kind->vtable)
		return false;
	s = words[state];
	t->raw_state = s;
	if (!async_is_state(s) || !awaiter_ok(in, words, state, vtable))
		return false;
	t->refs = (uint32_t)async_references(s);
	t->cancelled = (s & ASYNC_CLOSED) && !(s & ASYNC_COMPLETED);
	t->join_interest = s & ASYNC_TASK;
	t->state = s & (ASYNC_COMPLETED | ASYNC_CLOSED) ? IS_DONE
		   : s & ASYNC_RUNNING	 ? (s & ASYNC_SCHEDULED ? IS_WOKEN_RUNNING : IS_RUNNING)
		   : s & ASYNC_SCHEDULED ? IS_SCHEDULED
					 : IS_IDLE;
	return true;
}

bool task_read_header(struct inspect *in, struct inspect_task *t)
{
	return t->kind->tokio ? read_tokio(in, t) : read_async(in, t);
}

static int found_add(struct found_list *l, uint64_t addr, struct inspect_kind *k)
{
	if (!GROW(l->v, l->n, l->cap))
		return -ENOMEM;
	l->v[l->n++] = (struct found_task){addr, k};
	return 0;
}

struct header_search {
	struct inspect *in;
	bool copy;
	uint64_t *buf;
	struct code_targets vtables; /* of all kinds: few words pass its filter */
	struct budget budget;	     /* pages */
	struct found_list *list;
};

static int scan_words(struct header_search *s, uint64_t base, size_t n)
{
	const struct code_targets vtables = s->vtables;

	for (size_t i = 0; i < n; i++) {
		struct inspect_kind *k;

		if (!code_targets_have(&vtables, s->buf[i]))
			continue;
		k = kind_at(s->in, s->buf[i]);
		if (!k || k->vtable_offset == OFFSET_UNKNOWN)
			continue;
		if (found_add(s->list, base + i * 8 - k->vtable_offset, k) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Where tasks can be: private writable memory that is no stack. */
static bool may_hold_tasks(const struct inspect *in, size_t map)
{
	const struct process_map *m = &in->maps.v[map];

	return m->read && m->write && !m->shared && !m->exec && !is_stack(in, map);
}

/*
 * How many pages a search may read: twice what the program has, as the kernel counts it or as the
 * core is long, and 1 GiB. Only where it isn't known which pages are there, or by a core that shows
 * the same bytes again and again, it comes to more.
 */
static uint64_t pages_to_search(const struct inspect *in)
{
	char status[PROCESS_STATUS_BYTES];
	uint64_t bytes = in->core ? in->core->file_bytes : 0;

	if (!in->core && process_read_status(&in->process, 0, status)) {
		long resident = process_status_number(status, "VmRSS", false);
		long swapped = process_status_number(status, "VmSwap", false);

		bytes = ((uint64_t)(resident > 0 ? resident : 0) +
			 (uint64_t)(swapped > 0 ? swapped : 0)) *
			1024;
	}
	return (2 * bytes + MIN_SEARCH_BYTES) / PAGE;
}

static int search_run(struct header_search *s, uint64_t start, uint64_t end)
{
	struct mem *m = &s->in->mem;
	size_t step = s->copy ? PAGE : SCAN_BYTES;

	for (uint64_t at = start; at < end; at += step) {
		size_t len = end - at < step ? end - at : step;

		if (!budget_spend(&s->budget, (len + PAGE - 1) / PAGE))
			return 0;
		if (s->copy ? !mem_read(m, at, s->buf, len) : m->read(m->ctx, at, s->buf, len) < 0)
			continue; /* unmapped meanwhile */
		if (scan_words(s, at, len / 8) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Of a mapping what is there; a copy has all of it. */
static int search_map(struct header_search *s, const struct process_map *map)
{
	struct mem *m = &s->in->mem;
	uint64_t start, end;

	if (s->copy)
		return search_run(s, map->start, map->end);
	for (uint64_t at = map->start; at < map->end && s->budget.steps; at = end) {
		if (m->next(m->ctx, at, map->end, &start, &end) <= 0)
			break;
		TRY(search_run(s, start, end));
	}
	return 0;
}

/* All words there that are a vtable's address, in the program or in the copy. */
int tasks_scan(struct inspect *in, bool copy, struct found_list *list, struct error *err)
{
	_cleanup_free_ uint64_t *buf = malloc(SCAN_BYTES),
				*vtables = calloc(in->n_kinds + 1, sizeof(*vtables));
	struct header_search s = {.in = in, .copy = copy, .buf = buf, .list = list};
	int r = 0;

	for (size_t i = 0; vtables && i < in->n_kinds; i++)
		vtables[i] = in->kinds[i].vtable;
	if (!buf || !vtables || code_targets_init(&s.vtables, vtables, in->n_kinds) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	budget_init(&s.budget, pages_to_search(in), 0);
	if (!in->core)
		budget_init(&in->pages.budget, PAGES_LISTED, 0);
	for (size_t i = 0; i < in->maps.n && r == 0; i++)
		if (may_hold_tasks(in, i))
			r = search_map(&s, &in->maps.v[i]);
	code_targets_done(&s.vtables);
	if (r < 0)
		return error_set(err, r, "out of memory");
	if ((!s.budget.steps || (!in->core && !in->pages.budget.steps)) && !in->unsearched) {
		in->unsearched = true;
		inspect_note(in, strdup(in->core ? "the core claims more memory than it has: not "
						   "all of it was searched for tasks"
						 : "the program reserves more memory than could be "
						   "searched for tasks: some may be missing"));
	}
	return 0;
}

/* Of a program with little memory all of it is copied while it is stopped: then the copy has every
 * task, also those that come and go faster than we look. */
bool tasks_want_whole(struct inspect *in)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < in->maps.n; i++)
		if (may_hold_tasks(in, i))
			bytes += in->maps.v[i].end - in->maps.v[i].start;
	if (bytes > WHOLE_BYTES)
		return false;
	for (size_t i = 0; i < in->maps.n; i++)
		if (may_hold_tasks(in, i) && mem_want(&in->mem, in->maps.v[i].start,
						      in->maps.v[i].end - in->maps.v[i].start) < 0)
			return false;
	return true;
}

/* ---- facts about all of them together ---- */

/* Whether both have their ids from one counter: that of an object's one Tokio. */
static int by_counter(const struct inspect_task *x, const struct inspect_task *y)
{
	return ASCENDING(x->kind->object, y->kind->object) ?:
	       ASCENDING(x->kind->kind->runtime, y->kind->kind->runtime) ?: ASCENDING(x->id, y->id);
}

/* The likeliest first: what is in its runtime's list, or known to run. */
static int by_counter_and_proof(const void *a, const void *b)
{
	const struct inspect_task *x = *(struct inspect_task *const *)a;
	const struct inspect_task *y = *(struct inspect_task *const *)b;
	int proof_x = 2 * (x->owner != 0) + (x->thread != 0);
	int proof_y = 2 * (y->owner != 0) + (y->thread != 0);

	return by_counter(x, y) ?: DESCENDING(proof_x, proof_y) ?: ASCENDING(x->addr, y->addr);
}

static bool has_counter(const struct inspect_task *t)
{
	const char *versions;

	if (!t->kind->tokio || t->root || t->kind->kind->role == TR_ROOT || !t->id)
		return false;
	versions = t->kind->object->scan.runtimes[t->kind->kind->runtime].version;
	return versions && !strchr(versions, ',');
}

int tasks_drop_ghosts(struct inspect_result *r)
{
	_cleanup_free_ struct inspect_task **v =
		calloc(r->n_tasks + 1, sizeof(struct inspect_task *));
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_tasks; i++)
		if (has_counter(&r->tasks[i]))
			v[n++] = &r->tasks[i];
	qsort(v, n, sizeof(*v), by_counter_and_proof);
	for (size_t i = 1; i < n; i++)
		v[i]->ghost = v[i]->ghost || by_counter(v[i - 1], v[i]) == 0;
	n = 0;
	for (size_t i = 0; i < r->n_tasks; i++) {
		if (r->tasks[i].ghost)
			await_node_free(r->tasks[i].tree);
		else
			r->tasks[n++] = r->tasks[i];
	}
	r->n_tasks = n;
	return 0;
}

bool inspect_is_running(const struct inspect_task *t)
{
	return t->state == IS_RUNNING || t->state == IS_WOKEN_RUNNING;
}

void inspect_note(struct inspect *in, char *text)
{
	if (text && GROW_ONE(in->notes, in->n_notes))
		in->notes[in->n_notes++] = text;
	else
		free(text);
}
