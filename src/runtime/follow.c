/*
 * The walks are bounded in functions and instructions: one that is cut short finds less, and what
 * isn't found is reported as not found.
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
	size_t n;
	uint64_t addrs[];
};

struct follower {
	struct elf_image *image;
	struct map known; /* function -> struct callees */
	size_t left;	  /* instructions that may still be decoded */
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
		f->left = MAX_INSTRUCTIONS;
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

static size_t decode(struct follower *f, uint64_t function, uint64_t *ret, size_t max)
{
	uint64_t start, end, loaded[16] = {0}; /* words that registers were loaded from */
	size_t n = 0, left = MAX_FUNCTION_INSTRUCTIONS;
	_cleanup_(own_code_done) struct own_code code = {0};
	struct insn in;

	if (!elf_image_function(f->image, function, &start, &end) || start != function ||
	    !own_code_init(&code, f->image, start, end))
		return 0;
	while (n < max && left-- > 0 && f->left > 0 && own_code_next(&code, &in) > 0) {
		uint64_t to = leaves_to(f->image, &in, start, end);

		f->left--;
		/* Unoptimised code loads the address first: mov slot(%rip),%rax; ..; call *%rax. */
		if (in.flow == INSN_CALL && !in.target && !in.slot && in.source < 16 &&
		    loaded[in.source])
			elf_image_pointer_at(f->image, loaded[in.source], &to);
		if (in.reg < 16)
			loaded[in.reg] = in.op == INSN_MOV && !in.mem_written ? in.ref : 0;
		if (to && elf_image_is_code(f->image, to) && !contains(ret, n, to))
			ret[n++] = to;
	}
	return n;
}

static const struct callees *callees_of(struct follower *f, uint64_t function)
{
	struct callees *c = map_get(&f->known, function, 0);
	uint64_t addrs[256];
	size_t n;

	if (c)
		return c;
	n = decode(f, function, addrs, sizeof(addrs) / sizeof(addrs[0]));
	c = malloc(sizeof(*c) + n * sizeof(c->addrs[0]));
	if (!c)
		return NULL;
	c->n = n;
	for (size_t i = 0; i < n; i++)
		c->addrs[i] = addrs[i];
	if (map_put(&f->known, function, 0, c) < 0) {
		free(c);
		return NULL;
	}
	return c;
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
	int r;

	f->n_queue = 0;
	memset(f->queued, 0, sizeof(f->queued));
	r = enqueue_callees(f, start, 1);
	for (size_t i = 0; i < f->n_queue && r == 0; i++) {
		uint64_t addr = f->queue[i].addr;
		const struct elf_symbol *s = elf_image_symbol_at(f->image, addr);
		enum follow_step step = visit(addr, s && s->addr == addr ? s : NULL, opaque);

		if (step == FOLLOW_STOP)
			break;
		if (step == FOLLOW_INTO && f->queue[i].depth < depth)
			r = enqueue_callees(f, addr, f->queue[i].depth + 1);
	}
	return r;
}
