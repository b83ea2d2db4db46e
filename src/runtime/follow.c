/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a function calls is read once and kept (struct callees). A walk visits callees of callees by a
 * queue. Both are bounded, in functions and in instructions: a walk that is cut short finds less, and
 * what it doesn't find is reported as not found.
 */
#include "runtime/follow.h"

#include "base/cleanup.h"
#include "base/hash.h"
#include "base/map.h"
#include "binary/code/own_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_QUEUE 512u
#define QUEUED (4 * MAX_QUEUE)
#define MAX_FUNCTION_INSTRUCTIONS 20000u
/* Of all walks of one follower together: some 100 ns each. */
#define MAX_INSTRUCTIONS 3000000u

/* What one function calls. */
struct callees {
	size_t n, cost; /* instructions that were decoded */
	bool paid;	/* `cost` was taken from the follower's budget */
	uint64_t addrs[];
};

struct follower {
	struct elf_image *image;
	struct map known;    /* function -> struct callees */
	size_t n_insns_left; /* instructions that may still be decoded */
	struct {
		uint64_t addr;
		unsigned depth;
	} queue[MAX_QUEUE];
	size_t n_queue;
	uint16_t queued[QUEUED]; /* by hash: 1 + where it is in the queue; 0: free */
};

struct follower *follower_new(struct elf_image *image)
{
	struct follower *f = calloc(1, sizeof(*f));

	if (f) {
		f->image = image;
		f->n_insns_left = MAX_INSTRUCTIONS;
	}
	return f;
}

void follower_free(struct follower *f)
{
	if (!f)
		return;
	map_free(&f->known, free);
	free(f);
}

/* Where an instruction goes outside of its function, 0 if nowhere. */
static uint64_t leaves_to(struct elf_image *image, const struct insn *in, uint64_t start,
			  uint64_t end)
{
	uint64_t target = in->target;

	if (in->flow != INSN_CALL && in->flow != INSN_JUMP && in->flow != INSN_BRANCH)
		return 0;
	if (!target && in->slot && !elf_image_pointer_at(image, in->slot, &target))
		return 0;
	return target >= start && target < end ? 0 : target;
}

static bool contains(const uint64_t *addrs, size_t n, uint64_t addr)
{
	for (size_t i = 0; i < n; i++) {
		if (addrs[i] == addr)
			return true;
	}
	return false;
}

struct follower_reading {
	uint64_t callees[256], loaded[16]; /* words that registers were loaded from */
	size_t n, cost;
	bool loads; /* a register was loaded with an address of code: each instruction counts */
};

static bool collects(const struct follower *f, const struct follower_reading *r)
{
	return r->n < sizeof(r->callees) / sizeof(r->callees[0]) &&
	       r->cost < MAX_FUNCTION_INSTRUCTIONS && r->cost < f->n_insns_left;
}

static void note_load(struct follower *f, struct follower_reading *r, const struct insn *in)
{
	uint64_t word = in->op == INSN_MOV && !in->mem_written ? in->ref : 0, function;

	r->loaded[in->reg] = word;
	if (!r->loads && word)
		r->loads = elf_image_pointer_at(f->image, word, &function) &&
			   elf_image_is_code(f->image, function);
}

/* Counts instructions that refer to nothing, as far as they would have been collected. */
static void pass(const struct follower *f, struct follower_reading *r, size_t passed)
{
	size_t max = f->n_insns_left < MAX_FUNCTION_INSTRUCTIONS ? f->n_insns_left
								 : MAX_FUNCTION_INSTRUCTIONS;

	if (collects(f, r))
		r->cost = passed < max - r->cost ? r->cost + passed : max;
}

static void collect(struct follower *f, struct follower_reading *r, const struct insn *in,
		    uint64_t start, uint64_t end)
{
	uint64_t to = leaves_to(f->image, in, start, end);

	r->cost++;
	/* Unoptimised code loads the address first: mov slot(%rip),%rax; ..; call *%rax. */
	if (in->flow == INSN_CALL && !in->target && !in->slot && in->source < 16 &&
	    r->loaded[in->source])
		elf_image_pointer_at(f->image, r->loaded[in->source], &to);
	if (in->reg < 16)
		note_load(f, r, in);
	if (to && elf_image_is_code(f->image, to) && !contains(r->callees, r->n, to))
		r->callees[r->n++] = to;
}

static void read_function(struct follower *f, uint64_t function, struct follower_reading *r,
			  follow_insn_fn *each, void *opaque)
{
	_cleanup_(own_code_done) struct own_code code = {0};
	uint64_t start, end;
	size_t passed = 0;
	struct insn in;
	bool whole;

	if (!elf_image_function(f->image, function, &start, &end) || (!each && start != function) ||
	    !own_code_init(&code, f->image, start, end))
		return;
	whole = start == function;
	while (each || (whole && collects(f, r))) {
		bool more = r->loads ? own_code_next(&code, &in) > 0
				     : own_code_next_reference(&code, &in, &passed) > 0;

		if (whole)
			pass(f, r, passed);
		if (more && whole && collects(f, r))
			collect(f, r, &in, start, end);
		if (each && !each(more ? &in : NULL, passed, opaque))
			each = NULL;
		if (!more)
			break;
		passed = 0;
	}
}

static struct callees *remember(struct follower *f, uint64_t function,
				const struct follower_reading *r)
{
	struct callees *old = map_get(&f->known, function, 0);
	struct callees *c = malloc(sizeof(*c) + r->n * sizeof(c->addrs[0]));

	if (!c)
		return NULL;
	*c = (struct callees){.n = r->n, .cost = r->cost};
	for (size_t i = 0; i < r->n; i++)
		c->addrs[i] = r->callees[i];
	if (map_put(&f->known, function, 0, c) < 0) {
		free(c);
		return NULL;
	}
	free(old);
	return c;
}

static const struct callees *callees_of(struct follower *f, uint64_t function)
{
	struct callees *c = map_get(&f->known, function, 0);

	if (!c || (!c->paid && c->cost > f->n_insns_left)) {
		struct follower_reading r = {0};

		read_function(f, function, &r, NULL, NULL);
		c = remember(f, function, &r);
	}
	if (c && !c->paid) {
		f->n_insns_left -= c->cost;
		c->paid = true;
	}
	return c;
}

int follower_read(struct follower *f, uint64_t function, follow_insn_fn *each, void *opaque)
{
	bool known = map_get(&f->known, function, 0);
	struct follower_reading r = {0};

	read_function(f, function, &r, each, opaque);
	return known || remember(f, function, &r) ? 0 : -ENOMEM;
}

static void enqueue(struct follower *f, uint64_t addr, unsigned depth)
{
	size_t at = hash_bytes(0, &addr, sizeof(addr)) % QUEUED;

	if (f->n_queue == MAX_QUEUE)
		return;
	for (; f->queued[at]; at = (at + 1) % QUEUED)
		if (f->queue[f->queued[at] - 1].addr == addr)
			return;
	f->queue[f->n_queue].addr = addr;
	f->queue[f->n_queue++].depth = depth;
	f->queued[at] = (uint16_t)f->n_queue;
}

static int enqueue_callees(struct follower *f, uint64_t function, unsigned depth)
{
	const struct callees *c = callees_of(f, function);

	if (!c)
		return -ENOMEM;
	for (size_t i = 0; i < c->n; i++)
		enqueue(f, c->addrs[i], depth);
	return 0;
}

int follow(struct follower *f, uint64_t start, unsigned depth, follow_visit *visit, void *opaque)
{
	f->n_queue = 0;
	memset(f->queued, 0, sizeof(f->queued));
	TRY(enqueue_callees(f, start, 1));
	for (size_t i = 0; i < f->n_queue; i++) {
		uint64_t addr = f->queue[i].addr;
		const struct elf_symbol *s = elf_image_symbol_at(f->image, addr);
		enum follow_step step = visit(addr, s && s->addr == addr ? s : NULL, opaque);

		if (step == FOLLOW_STOP)
			break;
		if (step == FOLLOW_INTO && f->queue[i].depth < depth)
			TRY(enqueue_callees(f, addr, f->queue[i].depth + 1));
	}
	return 0;
}
