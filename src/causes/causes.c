/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The timeline's items become segments, and stretches between two of them units.
 *
 * A task's segments follow each other without a gap, from its spawn or first event on. A poll is
 * reported when it ends, but calls in it before, so it comes in pieces, and at any time what follows
 * the task's newest segment is a poll that is open.
 *
 * Units:
 *   a whole task, if its spawn and its end were seen; its parts are added up with each segment;
 *   the part of another task that was recorded, for families of which no task is whole;
 *   a request of a handler, whose begin the timeline reports at its end;
 *   a round of a task that lives on: from a wake at its family's head point to the end of the poll
 *   after which it waits there again. The head point is where a task waits for what it is to do:
 *   for I/O rather than for a message, for that rather than for a time, and of several the most
 *   frequent.
 * Parts of the last two are found at their ends, in the window.
 */
#include "causes/data.h"

#include "base/hash.h"
#include "base/units.h"
#include "base/vec.h"
#include "timeline/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TREES 4096
/* A wait for events that takes less found them there; without such a wait for less than this there is
 * always a while: the runtime polls tasks in between. */
#define LOOK_NS (100 * NSEC_PER_USEC)
#define UNLOOKED_NS (100 * NSEC_PER_USEC)

/* ---- places ---- */

static struct point *point_at(struct causes *c, uint64_t place)
{
	if (!place || place > UINT32_MAX || !trace_reader_place(c->reader, (uint32_t)(place - 1)))
		return NULL;
	if (!GROW_ZERO(c->points, place - 1, c->n_points)) {
		c->out_of_memory = true;
		return NULL;
	}
	return &c->points[place - 1];
}

static uint64_t hash_place(uint64_t seed, const struct trace_place *p)
{
	seed = hash_string(seed, p->function ? p->function : "");
	seed = hash_string(seed ^ p->line, p->file ? p->file : "");
	return hash_string(seed, p->awaits ? p->awaits : "");
}

static struct point *known_point(struct causes *c, uint64_t place)
{
	struct point *p = point_at(c, place);
	const struct trace_place *own, *leaf;
	uint64_t hash;

	if (!p || p->known)
		return p;
	own = trace_reader_own_place(c->reader, (uint32_t)(place - 1), c->opt.own);
	leaf = trace_reader_place(c->reader, (uint32_t)(place - 1));
	if (!own)
		own = leaf;
	hash = hash_string(hash_place(own->process, own), leaf->awaits ? leaf->awaits : "");
	p->known = true;
	p->waits_for = trace_place_waits_for(c->reader, place, c->opt.own);
	if (p->waits_for == WF_LOCK &&
	    (trace_place_awaits_a(c->reader, place, c->opt.own, "mpsc::") ||
	     trace_place_awaits_a(c->reader, place, c->opt.own, "channel")))
		p->waits_for = WF_MESSAGE;
	p->place = (uint32_t)(uintptr_t)map_get(&c->same_points, hash, own->process);
	if (p->place)
		return p;
	p->place = (uint32_t)place;
	if (map_put(&c->same_points, hash, own->process, (void *)(uintptr_t)place) < 0)
		c->out_of_memory = true;
	return p;
}

/* 1 + the index of the first place that reads as this one; 0: of none. */
static uint32_t point_of(struct causes *c, uint64_t place)
{
	const struct point *p = known_point(c, place);

	return p ? p->place : 0;
}

/* The first stack that reads as this one: that has the same line of the program's own code. */
static uint32_t stack_of(struct causes *c, uint32_t stack)
{
	const struct trace_frame *f = trace_reader_own_frame(c->reader, stack - 1, c->opt.own);
	uint64_t hash;
	uint32_t first;

	if (!f)
		return stack;
	hash = hash_place(
		f->process,
		&(struct trace_place){.function = f->function, .file = f->file, .line = f->line});
	first = (uint32_t)(uintptr_t)map_get(&c->same_stacks, hash, f->process);
	if (first)
		return first;
	if (map_put(&c->same_stacks, hash, f->process, (void *)(uintptr_t)stack) < 0)
		c->out_of_memory = true;
	return stack;
}

static enum wait_for waits_for(struct causes *c, uint64_t place)
{
	const struct point *p = known_point(c, place);

	return p ? p->waits_for : WF_OTHER;
}

/* ---- tasks, threads, families ---- */

static struct thread_past *thread_of(struct causes *c, uint32_t thread)
{
	if (!GROW_ZERO(c->threads, thread, c->n_threads)) {
		c->out_of_memory = true;
		return NULL;
	}
	return &c->threads[thread];
}

static struct kind_past *kind_of(struct causes *c, uint32_t kind)
{
	if (!GROW_ZERO(c->kinds, kind, c->n_kinds)) {
		c->out_of_memory = true;
		return NULL;
	}
	return &c->kinds[kind];
}

static struct tree *new_tree(struct causes *c, uint32_t kind, uint32_t handler)
{
	struct tree *t;

	if (c->trees.n >= MAX_TREES) {
		c->n_trees_left_out++;
		return NULL;
	}
	t = map_new(&c->trees, kind, handler, sizeof(*t));
	if (!t || tree_init(t, &c->all_trees) < 0) {
		c->out_of_memory = true;
		return NULL;
	}
	t->kind = kind;
	t->handler = handler;
	return t;
}

static struct tree *tree_of(struct causes *c, uint32_t kind)
{
	struct kind_past *k = kind_of(c, kind);

	if (k && !k->tree)
		k->tree = new_tree(c, kind, TRACE_KIND_NONE);
	return k ? k->tree : NULL;
}

/* NULL: it has ended, and what is in its slot is another one's. */
static struct task_past *find_task(const struct causes *c, uint32_t slot, uint64_t serial)
{
	struct task_past *t = slot / TASKS_PER_PAGE < c->n_task_pages
				      ? &c->task_pages[slot / TASKS_PER_PAGE][slot % TASKS_PER_PAGE]
				      : NULL;

	return t && t->serial == serial ? t : NULL;
}

static struct task_past *new_task(struct causes *c, uint32_t slot)
{
	struct task_past *page, *t;

	while (slot / TASKS_PER_PAGE >= c->n_task_pages) {
		page = aligned_alloc(_Alignof(struct task_past), TASKS_PER_PAGE * sizeof(*page));
		if (!page || !GROW(c->task_pages, c->n_task_pages, c->cap_task_pages)) {
			free(page);
			return NULL;
		}
		memset(page, 0, TASKS_PER_PAGE * sizeof(*page));
		c->task_pages[c->n_task_pages++] = page;
	}
	t = &c->task_pages[slot / TASKS_PER_PAGE][slot % TASKS_PER_PAGE];
	*t = (struct task_past){.parts = t->parts};
	return t;
}

/* The next one in its slot begins with its memory, unless that is much. */
static void end_task(struct task_past *t)
{
	free(t->off.items);
	t->off = (struct offs){0};
	if (t->parts.cap > PARTS_KEPT)
		parts_done(&t->parts);
	t->parts.n = t->parts.last = 0;
	t->serial = 0;
}

/* Of an item: it pays for walks. */
static struct task_past *task_of(struct causes *c, const struct tl_task *task)
{
	if (c->credit < CREDIT_MAX)
		c->credit += CREDIT_PER_ITEM;
	return find_task(c, task->slot, task->serial);
}

static bool is_wanted(const struct causes *c, uint64_t number)
{
	return !c->opt.tasks || match_number(c->opt.tasks, number);
}

/* ---- segments ---- */

/* The next one of a task, from its last one on; NULL: it has no length, or memory is out. */
static struct segment *add_segment(struct causes *c, struct task_past *t, enum segment_type type,
				   uint64_t end_ns)
{
	struct segment *s;
	uint64_t before = t->head;

	if (type != SEG_BIRTH && end_ns <= t->last_ns)
		return NULL;
	s = history_add(&c->history, &t->head);
	if (!s) {
		c->out_of_memory = true;
		return NULL;
	}
	s->type = type;
	s->begin_ns = t->last_ns;
	s->end_ns = end_ns;
	s->before = segment_back(t->head, before);
	s->kind = t->kind;
	s->task = t->number;
	s->thread = UINT32_MAX;
	t->last_ns = end_ns;
	return s;
}

/* It is complete: its causes are added to the task's. */
static void account(struct causes *c, struct task_past *t, const struct segment *s)
{
	struct tree *tree;

	if (c->opt.unit == CU_ROUND || !s || s->type == SEG_BIRTH || !is_wanted(c, t->number))
		return;
	tree = tree_of(c, t->kind);
	if (!tree)
		return;
	c->n_parts -= t->parts.n;
	if (c->n_parts < MAX_PARTS)
		walk_own(c, tree, &t->parts, t->head, s->begin_ns, s->end_ns);
	else
		walk_nothing(c, tree, &t->parts, s->end_ns - s->begin_ns);
	c->n_parts += t->parts.n;
}

static void on_thread(struct causes *c, struct segment *s, uint32_t thread)
{
	struct thread_past *th = thread_of(c, thread);

	if (!th)
		return;
	if (th->head && blocks_add(&th->blocks, th->head, history_get(&c->history, th->head)) < 0)
		c->out_of_memory = true;
	s->thread = thread;
	s->thread_before = segment_back(c->history.n, th->head);
	th->head = c->history.n;
}

static void flush_thread(struct causes *c, uint32_t thread, uint64_t park_ns);

/* A stretch of a poll. */
static struct segment *add_polled(struct causes *c, struct task_past *t, enum segment_type type,
				  uint32_t thread, uint64_t end_ns)
{
	struct segment *s;

	flush_thread(c, thread, 0);
	s = add_segment(c, t, type, end_ns);
	if (s)
		on_thread(c, s, thread);
	return s;
}

static void add_run(struct causes *c, struct task_past *t, uint32_t thread, uint64_t end_ns)
{
	account(c, t, add_polled(c, t, SEG_RUN, thread, end_ns));
}

static void add_call(struct causes *c, struct task_past *t, const struct tl_block *block,
		     uint64_t stack, uint64_t end_ns)
{
	struct segment *s = add_polled(c, t, SEG_CALL, block->thread, end_ns);

	if (!s)
		return;
	s->call = block->call;
	s->stack = stack;
	account(c, t, s);
}

/* What is not known of the task, up to there. */
static void fill(struct causes *c, struct task_past *t, uint64_t end_ns)
{
	account(c, t, add_segment(c, t, SEG_UNKNOWN, end_ns));
}

/* ---- times off the CPU ---- */

static void number_threads(struct causes *c)
{
	while (c->n_numbered < trace_reader_n_threads(c->reader)) {
		const struct trace_thread *t = trace_reader_thread(c->reader, c->n_numbered++);
		const struct trace_process *p =
			t && !t->stream_of ? trace_reader_process(c->reader, t->process) : NULL;

		if (p && map_put(&c->thread_numbers, p->pid, t->tid,
				 (void *)(uintptr_t)c->n_numbered) < 0)
			c->out_of_memory = true;
	}
}

/* NULL: not known. */
static const struct neighbour *neighbour_of(struct causes *c, uint32_t number)
{
	const struct trace_neighbour *one =
		number ? trace_reader_neighbour(c->reader, number - 1) : NULL;
	struct neighbour *n;
	uint64_t hash;

	if (!one)
		return NULL;
	if (!GROW_ZERO(c->neighbours, number - 1, c->n_neighbours)) {
		c->out_of_memory = true;
		return NULL;
	}
	n = &c->neighbours[number - 1];
	if (n->same)
		return n;
	number_threads(c);
	n->thread = (uint32_t)(uintptr_t)map_get(&c->thread_numbers, one->pid, one->tid);
	hash = hash_string(one->flags, one->name);
	n->same = (uint32_t)(uintptr_t)map_get(&c->same_neighbours, n->thread ? one->pid : 0, hash);
	if (n->same)
		return n;
	n->same = number;
	if (map_put(&c->same_neighbours, n->thread ? one->pid : 0, hash,
		    (void *)(uintptr_t)number) < 0)
		c->out_of_memory = true;
	return n;
}

static void put_off(struct causes *c, struct offs *offs, const struct off_cpu *off)
{
	if (off->begin_ns >= off->end_ns)
		return;
	if (!GROW(offs->items, offs->n, offs->cap)) {
		c->out_of_memory = true;
		return;
	}
	offs->items[offs->n++] = *off;
}

/* The thread waited for a CPU, which that neighbour had. */
static void put_ran(struct causes *c, struct offs *offs, struct off_cpu off, uint32_t number,
		    uint64_t begin_ns, uint64_t end_ns)
{
	const struct neighbour *n = neighbour_of(c, number);
	const struct thread_past *th;

	off.ready = true;
	off.begin_ns = begin_ns;
	off.end_ns = end_ns;
	if (n) {
		off.ran = n->same;
		off.neighbour = number;
	}
	if (n && n->thread && n->thread - 1 < c->n_threads) {
		th = &c->threads[n->thread - 1];
		off.ran_head = th->head;
		off.ran_open = th->polling ? 1 + (uint64_t)th->polling_kind : 0;
	}
	put_off(c, offs, &off);
}

/* It slept, until it was woken, as far as is known; then it waited for a CPU, which others had. */
static void put_offs(struct causes *c, struct offs *offs, const struct tl_off_cpu *o)
{
	const struct tl_switch *how = o->how;
	bool preempted = o->reason == TX_PREEMPTED;
	uint64_t at = preempted ? o->begin_ns : how && how->woken_ns ? how->woken_ns : o->end_ns;
	struct off_cpu off = {.thread = o->thread};
	uint32_t one;

	off.call = preempted ? 0 : (uint16_t)o->syscall;
	off.begin_ns = o->begin_ns;
	off.end_ns = at;
	put_off(c, offs, &off);
	off.call = 0;
	c->names_neighbours |= how && (how->n_ran || how->next || how->before);
	off.named = c->names_neighbours;
	for (uint32_t i = 0; how && i < how->n_ran; i++) {
		const struct tl_ran_instead *ran = &how->ran[i];

		if (ran->begin_ns > at) {
			put_ran(c, offs, off, 0, at, ran->begin_ns);
			at = ran->begin_ns;
		}
		if (ran->end_ns > at) {
			put_ran(c, offs, off, ran->neighbour, at, ran->end_ns);
			at = ran->end_ns;
		}
	}
	/* Of a short wait it is known who ran at its begin or end. */
	one = !how || how->n_ran ? 0 : preempted ? how->next : how->before;
	put_ran(c, offs, off, one, at, o->end_ns);
}

static void describe_no_cpu(struct segment *s, uint64_t number, const struct off_cpu *off)
{
	s->place = off->ran;
	s->thread = off->neighbour;
	s->cause = segment_back(number, off->ran_head);
	s->open = off->ran_open;
	s->named = off->named;
}

static void add_off(struct causes *c, struct task_past *t, const struct off_cpu *off)
{
	struct segment *s;

	s = add_polled(c, t, off->ready ? SEG_NO_CPU : SEG_OFF_CPU, off->thread, off->end_ns);
	if (!s)
		return;
	if (off->ready)
		describe_no_cpu(s, t->head, off);
	else
		s->call = off->call;
	account(c, t, s);
}

/* Its times off the CPU that end before that were in no call that was reported; the others were: one that
 * begins just before its call is of the kernel's clock, which is not quite the agent's. Of these it
 * counts when there was no CPU: that it slept, the call says. */
static void add_off_cpu(struct causes *c, struct task_past *t, uint64_t before_ns,
			const struct tl_block *block, uint64_t stack)
{
	for (size_t i = 0; i < t->off.n; i++) {
		const struct off_cpu *off = &t->off.items[i];

		if (off->end_ns <= before_ns) {
			add_run(c, t, off->thread, off->begin_ns);
			add_off(c, t, off);
			continue;
		}
		add_run(c, t, off->thread, before_ns);
		if (!off->ready || off->begin_ns >= block->end_ns)
			continue;
		add_call(c, t, block, stack, off->begin_ns);
		add_off(c, t, off);
	}
	t->off.n = 0;
}

static void add_all_off_cpu(struct causes *c, struct task_past *t)
{
	if (t->off.n)
		add_off_cpu(c, t, UINT64_MAX, NULL, 0);
}

static void add_thread_segment(struct causes *c, uint32_t thread, enum segment_type type,
			       uint64_t begin_ns, uint64_t end_ns, const struct off_cpu *off)
{
	struct segment *s;
	uint64_t number;

	if (begin_ns >= end_ns)
		return;
	s = history_add(&c->history, &number);
	if (!s) {
		c->out_of_memory = true;
		return;
	}
	s->type = type;
	s->begin_ns = begin_ns;
	s->end_ns = end_ns;
	s->kind = TRACE_KIND_NONE;
	on_thread(c, s, thread);
	if (off)
		describe_no_cpu(s, number, off);
}

/* What it had no CPU for outside of polls. park_ns: it was parked since then, but for these times; 0: it
 * was not. Then it was parked after the last of them until the park's end. */
static void flush_thread(struct causes *c, uint32_t thread, uint64_t park_ns)
{
	struct thread_past *th = thread_of(c, thread);
	struct offs offs;

	if (!th || !th->off.n)
		return;
	offs = th->off;
	th->off = (struct offs){0};
	for (size_t i = 0; i < offs.n; i++) {
		const struct off_cpu *off = &offs.items[i];

		if (!off->ready)
			continue;
		if (park_ns && off->begin_ns > park_ns)
			add_thread_segment(c, thread, SEG_PARK, park_ns, off->begin_ns, NULL);
		add_thread_segment(c, thread, SEG_NO_CPU, off->begin_ns, off->end_ns, off);
		if (park_ns && off->end_ns > park_ns)
			park_ns = off->end_ns;
	}
	free(offs.items);
}

/* ---- units ---- */

static void add_unit(struct causes *c, struct tree *tree, const struct unit *unit,
		     const struct parts *parts)
{
	if (tree_add_unit(tree, &c->all_trees, unit, parts) < 0)
		c->out_of_memory = true;
}

/* A round that ends now: what the task did since. */
static void add_round(struct causes *c, const struct task_past *t, struct tree *tree,
		      uint64_t begin_ns, uint64_t end_ns)
{
	struct parts parts = {0};

	if (!tree || c->opt.unit == CU_TASK || end_ns <= begin_ns || !is_wanted(c, t->number))
		return;
	walk_own(c, tree, &parts, t->head, begin_ns, end_ns);
	if (!c->out_of_memory)
		add_unit(c, tree,
			 &(struct unit){.type = UNIT_ROUND,
					.length = end_ns - begin_ns,
					.task = t->number},
			 &parts);
	parts_done(&parts);
}

/* How likely a task waits for something to do, where such a wake ends its wait. */
static unsigned rank_of(struct causes *c, const struct task_past *t, const struct tl_wait *wait)
{
	enum wait_for what = waits_for(c, wait->place);

	if (what == WF_LOCK || wait->resource.type == TRACE_RESOURCE_TASK)
		return 0;
	switch (t->woken_by) {
	case WB_IO:
		return 4;
	case WB_DRIVER:
		return 3;
	case WB_TASK:
	case WB_OUTSIDE:
		return what == WF_MESSAGE || what == WF_IO ? 3 : 0;
	case WB_TIMER:
		return 1;
	default:
		return 0;
	}
}

/* Whether a wait at that point, which ends, begins a round. */
static bool begins_round(struct causes *c, const struct task_past *t, const struct tl_wait *wait)
{
	struct kind_past *k = kind_of(c, t->kind);
	uint32_t point = point_of(c, wait->place);
	unsigned rank;

	if (!k || k->handlers || !point || t->role != TR_TASK)
		return false;
	rank = rank_of(c, t, wait);
	if (!rank || rank < k->head_rank)
		return false;
	if (point == k->head) {
		k->head_votes++;
		return true;
	}
	if (rank == k->head_rank && k->head_votes) {
		k->head_votes--;
		return false;
	}
	/* What was counted began elsewhere. */
	k->head = point;
	k->head_rank = rank;
	k->head_votes = 1;
	if (k->tree)
		tree_clear(k->tree, &c->all_trees, UNIT_ROUND);
	return true;
}

static void begin_round(struct causes *c, struct task_past *t, uint64_t begin_ns)
{
	const struct kind_past *k = kind_of(c, t->kind);

	t->in_round = k;
	t->waited_in_round = false;
	t->round_ns = begin_ns;
	t->round_head = k ? (uint32_t)k->head : 0;
}

/* One that began at a point that was the head then is none. One that begins or ends with the task, or
 * that is not over, has no such wait on one side, so it is one if the task waited for something else. */
static void end_round(struct causes *c, struct task_past *t, uint64_t end_ns, bool at_head)
{
	const struct kind_past *k = kind_of(c, t->kind);

	if (k && k->head && !k->handlers && t->in_round &&
	    (t->round_head == k->head || !t->round_head) &&
	    ((at_head && t->round_head) || t->waited_in_round))
		add_round(c, t, tree_of(c, t->kind), t->round_ns, end_ns);
	t->in_round = false;
}

/* Its poll has ended: if it waits at the head point now, a round is over. */
static void end_round_at_head(struct causes *c, struct task_past *t, const struct tl_poll *poll)
{
	const struct kind_past *k = kind_of(c, t->kind);

	if (!k || !k->head || poll->outcome != TO_PENDING || point_of(c, poll->place) != k->head)
		return;
	end_round(c, t, poll->end_ns, true);
	if (poll->woken_inside)
		begin_round(c, t, poll->end_ns);
}

/* A wait that is over, or lasts still, at another point than between rounds. Where the point is not known it
 * may be that one, so what began with the task may be many rounds. */
static void note_wait(struct causes *c, struct task_past *t, const struct tl_wait *wait)
{
	const struct kind_past *k = kind_of(c, t->kind);
	uint32_t point = point_of(c, wait->place);

	if (!point && !t->round_head)
		t->in_round = false;
	if (k && point && point != k->head)
		t->waited_in_round = true;
}

/* ---- the sink ---- */

static int status(const struct causes *c)
{
	return c->out_of_memory ? -ENOMEM : 0;
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	struct causes *c = ctx;
	struct task_past *t = new_task(c, task->slot);
	struct segment *birth;
	struct task_past *parent;

	if (!t)
		return -ENOMEM;
	t->serial = task->serial;
	t->number = task->number;
	t->kind = task->kind;
	t->role = task->role;
	t->whole = task->spawn_seen;
	t->first_ns = t->last_ns = task->spawn_ns;
	if (!t->whole)
		return 0;
	t->in_round = t->role == TR_TASK;
	t->round_ns = task->spawn_ns;
	parent = task->parent ? find_task(c, task->parent_slot, task->parent) : NULL;
	if (parent)
		add_all_off_cpu(c, parent);
	birth = add_segment(c, t, SEG_BIRTH, task->spawn_ns);
	if (birth) {
		birth->kind = parent ? parent->kind : TRACE_KIND_NONE;
		birth->cause = parent ? segment_back(t->head, parent->head) : 0;
		birth->task = parent ? parent->number : 0;
	}
	return status(c);
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct causes *c = ctx;
	struct task_past *t = find_task(c, task->slot, task->serial);
	struct tree *tree;
	uint64_t end;

	if (!t)
		return 0;
	if (task->end_ns)
		fill(c, t, task->end_ns);
	end = t->last_ns;
	end_round(c, t, end, false);
	tree = c->opt.unit == CU_ROUND ? NULL : tree_of(c, t->kind);
	if (tree && !c->out_of_memory && end > t->first_ns && is_wanted(c, t->number))
		add_unit(c, tree,
			 &(struct unit){.type = t->whole && task->end_ns ? UNIT_TASK : UNIT_PART,
					.length = end - t->first_ns,
					.task = t->number},
			 &t->parts);
	c->n_parts -= t->parts.n;
	end_task(t);
	return status(c);
}

static void add_ready(struct causes *c, struct task_past *t, const struct tl_wait *wait)
{
	struct segment *s;
	struct thread_past *th;

	if (wait->thread != UINT32_MAX)
		flush_thread(c, wait->thread, 0);
	s = add_segment(c, t, SEG_READY, wait->end_ns);
	if (!s)
		return;
	s->closure = t->role == TR_BLOCKING;
	if (wait->thread != UINT32_MAX && (th = thread_of(c, wait->thread))) {
		s->thread = wait->thread;
		s->cause = segment_back(t->head, th->head);
		th->polling = true;
		th->polling_kind = t->kind;
	}
	account(c, t, s);
}

/* What the thread does now that was to look for events. */
static void add_unlooked(struct causes *c, const struct task_past *t, struct segment *s)
{
	const struct thread_past *th;

	s->unlooked_from_ns = s->unlooked_to_ns = 0;
	if (!t->unlooked.from_ns || !(th = thread_of(c, t->unlooked.thread)))
		return;
	s->unlooked_from_ns = t->unlooked.from_ns;
	s->unlooked_to_ns = t->unlooked.to_ns;
	s->cause = segment_back(t->head, th->head);
	s->kind = th->polling ? th->polling_kind : TRACE_KIND_NONE;
}

/* A bounded channel has a semaphore, too, but what a sender waits for is the receiver. */
static bool is_for_lock(struct causes *c, const struct tl_wait *wait)
{
	switch (wait->resource.address ? wait->resource.type : TRACE_RESOURCE_OTHER) {
	case TRACE_RESOURCE_MUTEX:
	case TRACE_RESOURCE_SEMAPHORE:
	case TRACE_RESOURCE_RWLOCK:
		return true;
	case TRACE_RESOURCE_OTHER:
		return waits_for(c, wait->place) == WF_LOCK;
	default:
		return false;
	}
}

static void add_wait(struct causes *c, struct task_past *t, const struct tl_wait *wait)
{
	struct segment *s = add_segment(c, t, SEG_WAIT, wait->end_ns);

	if (!s)
		return;
	s->place = point_of(c, wait->place);
	s->kind = TRACE_KIND_NONE;
	s->woken_by = wait->open		   ? WB_OPEN
		      : wait->next == TS_DONE	   ? WB_END
		      : wait->next == TS_SCHEDULED ? t->woken_by
						   : WB_UNKNOWN;
	if (s->woken_by == WB_TASK) {
		s->kind = t->waker_kind;
		s->task = t->waker_task;
		s->cause = segment_back(t->head, t->cause);
	}
	s->thread = t->waker_thread;
	if (s->woken_by == WB_IO || s->woken_by == WB_TIMER || s->woken_by == WB_DRIVER) {
		add_unlooked(c, t, s);
	} else if (is_for_lock(c, wait)) {
		s->lock = true;
		s->resource = wait->resource.address;
	}
	account(c, t, s);
}

/* A thread that polls tasks fires a waker between polls: its driver found what the task waits for, or
 * it is that of a task that has yielded, which is fired there, too. */
static enum woken_by driver_wake(struct causes *c, const struct task_past *t,
				 const struct tl_wait *wait)
{
	enum wait_for what = waits_for(c, wait->place);

	if (what == WF_IO || wait->resource.type == TRACE_RESOURCE_IO)
		return WB_IO;
	if (what == WF_TIMER)
		return WB_TIMER;
	if (what == WF_YIELD)
		return WB_YIELD;
	return t->by_driver ? WB_DRIVER : WB_OUTSIDE;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct causes *c = ctx;
	struct task_past *t = task_of(c, wait->task);

	if (!t)
		return 0;
	fill(c, t, wait->begin_ns);
	if (wait->state == TS_SCHEDULED) {
		add_ready(c, t, wait);
	} else if (wait->state == TS_WAITING) {
		if (t->woken_by == WB_DRIVER)
			t->woken_by = driver_wake(c, t, wait);
		add_wait(c, t, wait);
		if (wait->next == TS_SCHEDULED && begins_round(c, t, wait))
			begin_round(c, t, wait->end_ns);
		else
			note_wait(c, t, wait);
		t->woken_by = WB_UNKNOWN;
	} else {
		fill(c, t, wait->end_ns);
	}
	return status(c);
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct causes *c = ctx;
	struct task_past *t = task_of(c, poll->task);
	struct thread_past *th = thread_of(c, poll->thread);

	if (!t || !th)
		return status(c);
	th->driver = th->polling = false;
	th->polls = true;
	fill(c, t, poll->begin_ns);
	add_all_off_cpu(c, t);
	add_run(c, t, poll->thread, poll->end_ns);
	end_round_at_head(c, t, poll);
	return status(c);
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct causes *c = ctx;
	struct task_past *t = task_of(c, block->task);
	uint64_t stack;

	if (!t || block->nonblocking)
		return 0;
	struct thread_past *th = thread_of(c, block->thread);

	if (th) {
		th->polling = true;
		th->polling_kind = t->kind;
	}
	stack = t->stack_ns >= block->begin_ns && t->stack_ns <= block->end_ns ? t->stack : 0;
	if (t->off.n)
		add_off_cpu(c, t, block->begin_ns, block, stack);
	add_run(c, t, block->thread, block->begin_ns);
	add_call(c, t, block, stack, block->end_ns);
	return status(c);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct causes *c = ctx;
	struct thread_past *th;
	struct task_past *t;

	if (off->task) {
		t = task_of(c, off->task);
		if (!t)
			return 0;
		if (t->off.n >= MAX_OFF_CPU)
			add_all_off_cpu(c, t);
		put_offs(c, &t->off, off);
		return status(c);
	}
	th = thread_of(c, off->thread);
	if (!th)
		return status(c);
	if (th->off.n >= MAX_OFF_CPU)
		flush_thread(c, off->thread, 0);
	put_offs(c, &th->off, off);
	return status(c);
}

/* A thread has waited for events. What it found at once may have been there since the look before. */
static void note_look(struct causes *c, struct thread_past *th, const struct tl_park *park)
{
	const struct trace_thread *meta = trace_reader_thread(c->reader, park->thread);
	struct last_look *last;

	th->unlooked = (struct unlooked){0};
	if (!meta || meta->process >= trace_reader_n_processes(c->reader))
		return;
	if (!GROW_ZERO(c->looks, meta->process, c->n_looks)) {
		c->out_of_memory = true;
		return;
	}
	last = &c->looks[meta->process];
	if (last->end_ns && park->end_ns - park->begin_ns < LOOK_NS &&
	    park->begin_ns > last->end_ns + UNLOOKED_NS)
		th->unlooked = (struct unlooked){
			.from_ns = last->end_ns, .to_ns = park->begin_ns, .thread = last->thread};
	if (park->end_ns > last->end_ns)
		*last = (struct last_look){.end_ns = park->end_ns, .thread = park->thread};
}

static void add_park(struct causes *c, const struct tl_park *park)
{
	struct thread_past *th = &c->threads[park->thread];
	uint64_t from = park->begin_ns;

	for (size_t i = 0; i < th->off.n; i++)
		if (th->off.items[i].ready && th->off.items[i].end_ns > from)
			from = th->off.items[i].end_ns;
	flush_thread(c, park->thread, park->begin_ns);
	add_thread_segment(c, park->thread, SEG_PARK, from, park->end_ns, NULL);
}

static int on_park(void *ctx, const struct tl_park *park)
{
	struct causes *c = ctx;
	struct thread_past *th = thread_of(c, park->thread);

	if (!th)
		return -ENOMEM;
	th->polling = false;
	th->driver = park->call == TB_EPOLL_WAIT || park->call == TB_EPOLL_PWAIT ||
		     park->call == TB_EPOLL_PWAIT2;
	if (th->driver)
		note_look(c, th, park);
	c->has_parks = true;
	add_park(c, park);
	return status(c);
}

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct causes *c = ctx;
	struct task_past *t = task_of(c, wake->task), *source;
	const struct thread_past *th;

	if (!t || wake->task->state != TS_WAITING)
		return 0;
	t->cause = 0;
	t->unlooked = (struct unlooked){0};
	t->waker_kind = TRACE_KIND_NONE;
	t->waker_thread = wake->thread;
	if (wake->self) {
		t->woken_by = WB_YIELD;
	} else if (wake->source_task) {
		source = find_task(c, wake->source_task->slot, wake->source_task->serial);
		if (source)
			add_all_off_cpu(c, source); /* it is in no call now */
		t->woken_by = source ? WB_TASK : WB_UNKNOWN;
		t->waker_kind = wake->source_task->kind;
		t->waker_task = wake->source_task->number;
		t->cause = source ? source->head : 0;
	} else {
		th = thread_of(c, wake->thread);
		t->by_driver = th && th->driver;
		if (t->by_driver)
			t->unlooked = th->unlooked;
		t->woken_by = th && (th->driver || th->polls) ? WB_DRIVER : WB_OUTSIDE;
	}
	return status(c);
}

/* The stack of a poll that takes long: where the call is that it is in. */
static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct causes *c = ctx;
	struct task_past *t;

	if (sample->type != TM_LONG_BLOCKED || !sample->task || !sample->stack)
		return 0;
	t = find_task(c, sample->task->slot, sample->task->serial);
	if (t) {
		t->stack = stack_of(c, (uint32_t)sample->stack);
		t->stack_ns = sample->time_ns;
	}
	return status(c);
}

static int on_future_end(void *ctx, struct tl_future *future)
{
	struct causes *c = ctx;
	struct task_past *t;
	struct kind_past *k;
	struct tree *tree;

	if (!tl_is_round(future) || !future->task)
		return 0;
	t = find_task(c, future->task->slot, future->task->serial);
	k = kind_of(c, future->task->kind);
	if (!t || !k)
		return status(c);
	if (!k->handlers && k->tree)
		tree_clear(k->tree, &c->all_trees, UNIT_ROUND);
	k->handlers = true;
	if (!future->end_ns)
		return 0;
	tree = map_get(&c->trees, t->kind, future->kind);
	if (!tree)
		tree = new_tree(c, t->kind, future->kind);
	add_all_off_cpu(c, t);
	add_round(c, t, tree, future->begin_ns, future->end_ns);
	return status(c);
}

static const struct timeline_sink sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.park = on_park,
	.future_end = on_future_end,
};

struct fan_out_sink causes_sink(struct causes *c)
{
	return (struct fan_out_sink){&sink, c};
}
