/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Backwards through the past. A stretch of time that is to be explained goes along a chain of
 * segments; each takes its share of the stretch, and gives it to one cause, or, where it was a wait
 * that a task ended, to what that task did meanwhile, in the same way. All of the stretch gets a
 * cause: what no segment covers is unknown, and says why.
 *
 * A wake comes out of a poll that is still open then, so what follows the newest segment of the
 * waking task is that poll. The cause of a segment is an earlier one (by its number), so a walk
 * ends; and each step is paid from a credit that every item of the timeline adds to, so that no
 * trace makes it expensive.
 *
 * A lock goes from task to task. The task that woke the waiting one had the lock, from the end of
 * its own last wait for it; before, the task that woke that one had it. So the causes of the time
 * of a long queue are the holders, one after the other, not waits nested in waits.
 */
#include "causes/data.h"

struct cause_walk {
	struct causes *c;
	struct tree *tree;
	struct parts *out;
	unsigned n_steps, depth;
	bool closure; /* what is ready is a closure of the blocking pool */
	bool ran;     /* this is about who had a CPU */
};

static void add_many(struct cause_walk *w, uint32_t node, uint32_t n, uint64_t ns)
{
	if (ns && parts_add_many(w->out, node, n, ns) < 0)
		w->c->out_of_memory = true;
}

static void add(struct cause_walk *w, uint32_t node, uint64_t ns)
{
	add_many(w, node, 1, ns);
}

static uint32_t child(struct cause_walk *w, uint32_t node, enum node_type type, uint32_t a,
		      uint64_t b)
{
	return tree_child(w->tree, &w->c->all_trees, node, type, a, b);
}

static void add_to(struct cause_walk *w, uint32_t node, enum node_type type, uint32_t a, uint64_t b,
		   uint64_t ns)
{
	if (ns)
		add(w, child(w, node, type, a, b), ns);
}

/* A stretch of that task, which is of that kind. Not where there are too many nodes, and this
 * one is of something else. */
static void note_task(struct cause_walk *w, uint32_t node, uint32_t kind, uint64_t ns,
		      uint64_t task)
{
	const struct node *n = &w->tree->nodes[node];

	if ((n->type == NT_TASK || n->type == NT_HOLDER || n->type == NT_SPAWNER ||
	     n->type == NT_HELD) &&
	    n->a == kind)
		tree_note_task(w->tree, node, ns, task);
}

static void note(struct cause_walk *w, uint32_t node, const struct segment *s, uint64_t ns)
{
	note_task(w, node, s->kind, ns, s->task);
}

static void add_unknown(struct cause_walk *w, uint32_t node, enum unknown_reason why, uint64_t ns)
{
	add_to(w, node, NT_UNKNOWN, why, 0, ns);
}

/* Whether there may be one more step. */
static bool pay(struct cause_walk *w)
{
	if (!w->c->credit || w->n_steps >= WALK_MAX)
		return false;
	w->c->credit--;
	w->n_steps++;
	return true;
}

/* The segment of that number; NULL: there is none, or it was overwritten, *ret_why says which. */
static const struct segment *find(const struct cause_walk *w, uint64_t number,
				  enum unknown_reason *ret_why)
{
	*ret_why = number ? UR_WINDOW : UR_BEFORE;
	return history_get(&w->c->history, number);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- what a thread did while a task was ready ---- */

static void walk_no_cpu(struct cause_walk *w, uint32_t node, uint64_t number,
			const struct segment *s, uint64_t a, uint64_t b);

static void add_held(struct cause_walk *w, uint32_t node, uint64_t number, const struct segment *s,
		     uint64_t a, uint64_t b)
{
	uint64_t ns = b - a;
	uint32_t held;

	if (s->type == SEG_PARK) {
		add_to(w, node, NT_ASLEEP, 0, 0, ns);
		return;
	}
	if (s->kind == TRACE_KIND_NONE) {
		walk_no_cpu(w, child(w, node, NT_NO_CPU, 0, s->named), number, s, a, b);
		return;
	}
	held = child(w, node, NT_HELD, s->kind, 0);
	note(w, held, s, ns);
	if (s->type == SEG_CALL)
		add_to(w, held, NT_CALL, (uint32_t)s->stack, s->call, ns);
	else if (s->type == SEG_OFF_CPU)
		add_to(w, held, NT_SYSCALL, 0, s->call, ns);
	else if (s->type == SEG_NO_CPU)
		walk_no_cpu(w, child(w, held, NT_PREEMPTED, 0, s->named), number, s, a, b);
	else
		add_to(w, held, NT_POLLED, 0, 0, ns);
}

#define SINGLE_STEPS 2

/* All of a block, as add_held() and what is between its segments. */
static void add_block(struct cause_walk *w, uint32_t node, const struct block *block)
{
	for (uint32_t i = 0; i < block->n_causes; i++) {
		const struct block_cause *c = &block->causes[i];
		uint32_t to;

		if (c->type == SEG_PARK) {
			add_many(w, child(w, node, NT_ASLEEP, 0, 0), c->n, c->ns);
			continue;
		}
		to = child(w, node, NT_HELD, c->kind, 0);
		note_task(w, to, c->kind, c->longest_ns, c->longest_task);
		to = c->type == SEG_CALL      ? child(w, to, NT_CALL, (uint32_t)c->stack, c->call)
		     : c->type == SEG_OFF_CPU ? child(w, to, NT_SYSCALL, 0, c->call)
					      : child(w, to, NT_POLLED, 0, 0);
		add_many(w, to, c->n, c->ns);
	}
	if (block->n_gaps)
		add_many(w, child(w, node, NT_RUNTIME, 0, 0), block->n_gaps, block->gaps_ns);
}

/* The block that ends with that segment, if all of it lies between a and b, and its segments are
 * kept. */
static const struct block *whole_block(const struct cause_walk *w, const struct block *block,
				       uint64_t head, uint64_t a, uint64_t b)
{
	return block && block->last == head && !block->by_segments && block->begin_ns >= a &&
			       block->end_ns <= b && history_get(&w->c->history, block->first)
		       ? block
		       : NULL;
}

/* `open`: kind of the task in whose poll it was after its newest segment; TRACE_KIND_NONE: in
 * none. thread: UINT32_MAX: not known. */
static void walk_thread(struct cause_walk *w, uint32_t node, uint32_t thread, uint64_t head,
			uint32_t open, uint64_t a, uint64_t b)
{
	const struct blocks *blocks =
		thread < w->c->n_threads ? &w->c->threads[thread].blocks : NULL;
	const struct block *block = NULL, *whole = NULL;
	enum unknown_reason why;
	const struct segment *s = find(w, head, &why);
	unsigned n_steps = 0; /* most walks are short */

	if (s && open != TRACE_KIND_NONE && s->end_ns < b) {
		uint64_t from = later(a, s->end_ns);

		add_to(w, child(w, node, NT_HELD, open, 0), NT_POLLED, 0, 0, b - from);
		b = from;
	}
	while (b > a) {
		if (!s && why == UR_BEFORE && w->closure) {
			add_to(w, node, NT_STARTING, 0, 0, b - a);
			return;
		}
		if (!s) {
			add_unknown(w, node, why, b - a);
			return;
		}
		if (!pay(w)) {
			add_unknown(w, node, UR_BUDGET, b - a);
			return;
		}
		if (s->end_ns < b) {
			uint64_t from = later(a, s->end_ns);

			add_to(w, node, NT_RUNTIME, 0, 0, b - from);
			b = from;
		}
		if (blocks && ++n_steps == SINGLE_STEPS)
			block = blocks_find(blocks, head);
		while (block && block->last > head)
			block = block_previous(blocks, block);
		whole = whole_block(w, block, head, a, b);
		if (whole) {
			add_block(w, node, whole);
			b = whole->begin_ns;
			head = whole->before;
		} else {
			if (s->begin_ns < b) {
				uint64_t from = later(a, s->begin_ns);

				add_held(w, node, head, s, from, b);
				b = from;
			}
			head = segment_before(head, s->thread_before);
		}
		s = find(w, head, &why);
	}
}

/* Who had the CPU that a thread waited for; of a thread of the program's, what it did with it.
 * Whom that one in its turn waited for is too far away. */
static void walk_no_cpu(struct cause_walk *w, uint32_t node, uint64_t number,
			const struct segment *s, uint64_t a, uint64_t b)
{
	const struct causes *c = w->c;
	bool closure = w->closure;

	if (!s->named || w->ran) {
		add(w, node, b - a);
		return;
	}
	node = child(w, node, NT_RAN, s->place, 0);
	if (w->tree->nodes[node].type == NT_RAN && w->tree->nodes[node].a == s->place)
		tree_note_task(w->tree, node, b - a, s->thread);
	if (!s->thread || !c->neighbours[s->thread - 1].thread) {
		add(w, node, b - a);
		return;
	}
	w->ran = true;
	w->closure = false;
	walk_thread(w, node, c->neighbours[s->thread - 1].thread - 1,
		    segment_before(number, s->cause),
		    s->open ? (uint32_t)(s->open - 1) : TRACE_KIND_NONE, a, b);
	w->closure = closure;
	w->ran = false;
}

/* ---- what a task did ---- */

static void walk_wait(struct cause_walk *w, uint32_t node, uint64_t number, const struct segment *s,
		      uint64_t a, uint64_t b);

/* A thread of the pool that had done nothing before was made for the closure. Where parks are
 * recorded: an old one would have been parked. */
static void walk_ready(struct cause_walk *w, uint32_t node, uint64_t number,
		       const struct segment *s, uint64_t a, uint64_t b)
{
	w->closure = s->closure && w->c->has_parks;
	walk_thread(w, node, s->thread, segment_before(number, s->cause), TRACE_KIND_NONE, a, b);
	w->closure = false;
}

static void add_segment(struct cause_walk *w, uint32_t node, uint64_t number,
			const struct segment *s, uint64_t a, uint64_t b)
{
	switch ((enum segment_type)s->type) {
	case SEG_RUN:
	case SEG_PARK:
		add_to(w, node, NT_POLLED, 0, 0, b - a);
		break;
	case SEG_CALL:
		add_to(w, node, NT_CALL, (uint32_t)s->stack, s->call, b - a);
		break;
	case SEG_OFF_CPU:
		add_to(w, node, NT_SYSCALL, 0, s->call, b - a);
		break;
	case SEG_NO_CPU:
		walk_no_cpu(w, child(w, node, NT_PREEMPTED, 0, s->named), number, s, a, b);
		break;
	case SEG_READY:
		node = child(w, node, NT_READY, 0, 0);
		if (s->thread == UINT32_MAX)
			add_to(w, node, NT_NOT_TAKEN, 0, 0, b - a);
		else
			walk_ready(w, node, number, s, a, b);
		break;
	case SEG_WAIT:
		walk_wait(w, child(w, node, NT_WAIT, 0, s->place), number, s, a, b);
		break;
	case SEG_BIRTH:
	case SEG_UNKNOWN:
		add_unknown(w, node, UR_STATE, b - a);
		break;
	}
}

static bool same_lock(const struct segment *s, const struct segment *lock)
{
	if (s->type != SEG_WAIT || !s->lock)
		return false;
	return s->resource || lock->resource ? s->resource == lock->resource
					     : s->place == lock->place;
}

/* Newest first, from b back to a. With a lock: up to where the task got it; then the number of that
 * wait is given, and *ret_b is its end. 0: all is done. */
static uint64_t walk_task(struct cause_walk *w, uint32_t node, uint64_t head, uint64_t a,
			  uint64_t b, const struct segment *lock, uint64_t *ret_b)
{
	enum unknown_reason why;
	const struct segment *s = find(w, head, &why);

	/* The poll that was open at b. */
	if (s && s->end_ns < b) {
		uint64_t from = later(a, s->end_ns);

		add_to(w, node, NT_POLLED, 0, 0, b - from);
		b = from;
	}
	while (b > a) {
		if (!s) {
			add_unknown(w, node, why, b - a);
			return 0;
		}
		if (!pay(w)) {
			add_unknown(w, node, UR_BUDGET, b - a);
			return 0;
		}
		if (s->end_ns < b) {
			uint64_t from = later(a, s->end_ns);

			add_unknown(w, node, UR_STATE, b - from);
			b = from;
			if (b == a)
				break;
		}
		if (lock && s->end_ns <= b && same_lock(s, lock)) {
			*ret_b = b;
			return head;
		}
		if (s->type == SEG_BIRTH) {
			uint64_t rest;

			if (s->kind == TRACE_KIND_NONE || w->depth >= WALK_DEPTH) {
				add_unknown(w, node, UR_BEFORE, b - a);
				return 0;
			}
			node = child(w, node, NT_SPAWNER, s->kind, 0);
			note(w, node, s, b - a);
			w->depth++;
			walk_task(w, node, segment_before(head, s->cause), a, b, NULL, &rest);
			w->depth--;
			return 0;
		}
		if (s->begin_ns < b) {
			uint64_t from = later(a, s->begin_ns);

			add_segment(w, node, head, s, from, b);
			b = from;
		}
		head = segment_before(head, s->before);
		s = find(w, head, &why);
	}
	return 0;
}

/* Of a wait that a task ended: its holders in turn. */
static void walk_lock(struct cause_walk *w, uint32_t node, uint64_t number, const struct segment *s,
		      uint64_t a, uint64_t b)
{
	enum unknown_reason why;

	while (s && b > a) {
		if (s->woken_by != WB_TASK) {
			walk_wait(w, node, number, s, a, b);
			return;
		}
		uint32_t holder = child(w, node, NT_HOLDER, s->kind, 0);
		uint64_t until = b,
			 got = walk_task(w, holder, segment_before(number, s->cause), a, b, s, &b);

		note(w, holder, s, until - (got ? b : a));
		number = got;
		s = find(w, number, &why);
	}
}

/* A driver ended the wait: what it waited for had come, at the latest, when a thread looked for
 * it, and at the earliest when one had looked before. */
static void walk_driver(struct cause_walk *w, uint32_t node, uint64_t number,
			const struct segment *s, enum node_type type, uint64_t a, uint64_t b)
{
	uint64_t from = later(a, s->unlooked_from_ns),
		 to = s->unlooked_to_ns < b ? s->unlooked_to_ns : b;

	if (from >= to) {
		add_to(w, node, type, 0, 0, b - a);
		return;
	}
	add_to(w, node, type, 0, 0, from - a + (b - to));
	walk_thread(w, child(w, node, NT_UNLOOKED, 0, 0), UINT32_MAX,
		    segment_before(number, s->cause), s->kind, from, to);
}

static void walk_wait(struct cause_walk *w, uint32_t node, uint64_t number, const struct segment *s,
		      uint64_t a, uint64_t b)
{
	uint64_t rest;

	switch ((enum woken_by)s->woken_by) {
	case WB_TASK:
		if (w->depth >= WALK_DEPTH) {
			add_to(w, node, NT_FURTHER, 0, 0, b - a);
			return;
		}
		w->depth++;
		if (s->lock) {
			walk_lock(w, node, number, s, a, b);
		} else {
			node = child(w, node, NT_TASK, s->kind, 0);
			note(w, node, s, b - a);
			walk_task(w, node, segment_before(number, s->cause), a, b, NULL, &rest);
		}
		w->depth--;
		return;
	case WB_IO:
		walk_driver(w, node, number, s, NT_IO, a, b);
		return;
	case WB_TIMER:
		walk_driver(w, node, number, s, NT_TIMER, a, b);
		return;
	case WB_DRIVER:
		walk_driver(w, node, number, s, NT_DRIVER, a, b);
		return;
	case WB_OUTSIDE:
		add_to(w, node, NT_OUTSIDE, s->thread, 0, b - a);
		return;
	case WB_YIELD:
		add_to(w, node, NT_YIELD, 0, 0, b - a);
		return;
	case WB_END:
		add_to(w, node, NT_CANCELLED, 0, 0, b - a);
		return;
	case WB_OPEN:
		add_to(w, node, NT_OPEN, 0, 0, b - a);
		return;
	case WB_UNKNOWN:
		break;
	}
	add_unknown(w, node, UR_WAKE, b - a);
}

void walk_own(struct causes *c, struct tree *t, struct parts *out, uint64_t head, uint64_t a,
	      uint64_t b)
{
	struct cause_walk w = {.c = c, .tree = t, .out = out};
	uint64_t rest;

	walk_task(&w, 0, head, a, b, NULL, &rest);
}

void walk_nothing(struct causes *c, struct tree *t, struct parts *out, uint64_t ns)
{
	struct cause_walk w = {.c = c, .tree = t, .out = out};

	add_unknown(&w, 0, UR_BUDGET, ns);
}
