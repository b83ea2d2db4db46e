/*
 * The walk is bounded in functions and instructions: a walk that is cut short finds less, and what
 * isn't found is told as not found.
 */
#include "runtime/follow.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "binary/insn.h"

#include <errno.h>

#define MAX_FUNCTIONS 512u
#define MAX_INSTRUCTIONS 50000u

struct walk {
	struct elf_image *image;
	struct map seen;
	struct {
		uint64_t addr;
		unsigned depth;
	} queue[MAX_FUNCTIONS];
	size_t n;
};

/* Where an instruction goes outside of its function, 0 if nowhere. */
static uint64_t callee(struct elf_image *image, const struct insn *in, uint64_t start, uint64_t end)
{
	uint64_t target = in->target;

	if (in->flow != INSN_CALL && in->flow != INSN_JUMP && in->flow != INSN_BRANCH)
		return 0;
	if (!target && in->slot && !elf_image_pointer_at(image, in->slot, &target))
		return 0;
	return target >= start && target < end ? 0 : target;
}

static int enqueue(struct walk *w, uint64_t addr, unsigned depth)
{
	if (w->n == MAX_FUNCTIONS || map_get(&w->seen, addr, 0))
		return 0;
	w->queue[w->n].addr = addr;
	w->queue[w->n++].depth = depth;
	return map_put(&w->seen, addr, 0, w);
}

static int callees(struct walk *w, uint64_t function, unsigned depth, size_t *left)
{
	uint64_t start, end, loaded[16] = {0}; /* words that registers were loaded from */
	struct insn_walk code;
	struct insn in;
	int r = 0;

	if (!elf_image_function(w->image, function, &start, &end) || start != function ||
	    !insn_walk_init(&code, w->image, start, end))
		return 0;
	while (r == 0 && *left > 0 && insn_next(&code, &in) > 0) {
		uint64_t to = callee(w->image, &in, start, end);

		(*left)--;
		/* Unoptimised code loads the address first: mov slot(%rip),%rax; ..; call *%rax. */
		if (in.flow == INSN_CALL && !in.target && !in.slot && in.source < 16 &&
		    loaded[in.source])
			elf_image_pointer_at(w->image, loaded[in.source], &to);
		if (in.reg < 16)
			loaded[in.reg] = in.op == INSN_MOV && !in.mem_written ? in.ref : 0;
		if (to && elf_image_is_code(w->image, to))
			r = enqueue(w, to, depth);
	}
	return r;
}

int follow(struct elf_image *image, uint64_t start, unsigned depth, follow_visit *visit,
	   void *opaque)
{
	_cleanup_free_ struct walk *w = calloc(1, sizeof(*w));
	size_t left = MAX_INSTRUCTIONS;
	int r;

	if (!w)
		return -ENOMEM;
	w->image = image;
	r = map_put(&w->seen, start, 0, w);
	if (r == 0)
		r = callees(w, start, 1, &left);
	for (size_t i = 0; i < w->n && r == 0; i++) {
		uint64_t addr = w->queue[i].addr;
		const struct elf_symbol *s = elf_image_symbol_at(image, addr);
		enum follow_step step = visit(addr, s && s->addr == addr ? s : NULL, opaque);

		if (step == FOLLOW_STOP)
			break;
		if (step == FOLLOW_INTO && w->queue[i].depth < depth)
			r = callees(w, addr, w->queue[i].depth + 1, &left);
	}
	map_done(&w->seen);
	return r;
}
