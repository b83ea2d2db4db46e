/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A coroutine's body begins by looking at its state, to jump to where it stopped: the first thing
 * that it reads through the pointer to itself, which is the first argument, or the second one if
 * the result goes to memory. Unoptimised code puts the arguments on the stack first and takes them
 * from there. So the beginning is followed with the arguments in mind: which registers and stack
 * slots hold one of them, plus what was added; and, where the future is borrowed through pointers
 * in memory, what is read from there.
 *
 * The rest of the function is decoded only to see what else a coroutine does, and whether any
 * argument is read from the stack.
 */
#include "runtime/poll_code.h"

#include "base/search.h"
#include "binary/elf/elf_image.h"
#include "binary/code/insn.h"
#include "binary/machine.h"

#include <string.h>

enum { MAX_SLOTS = 32, MAX_ENTRY = 160 /* instructions */ };

/* Argument + delta, or what `borrowed` pointers from there lead to + delta; argument 0: something
 * else.
 */
struct arg_value {
	uint8_t argument, borrowed;
	int64_t delta;
};

struct slot {
	uint8_t base;
	int64_t disp;
	struct arg_value value;
};

struct entry_state {
	const struct machine *machine;
	struct arg_value regs[INSN_N_REGS];
	struct slot slots[MAX_SLOTS];
	size_t n_slots;
	unsigned borrowed; /* up to this many pointers are followed */
};

static struct slot *slot_of(struct entry_state *e, uint8_t base, int64_t disp)
{
	for (size_t i = 0; i < e->n_slots; i++)
		if (e->slots[i].base == base && e->slots[i].disp == disp)
			return &e->slots[i];
	return NULL;
}

static void forget_slots(struct entry_state *e, uint8_t base)
{
	size_t n = 0;

	for (size_t i = 0; i < e->n_slots; i++)
		if (e->slots[i].base != base)
			e->slots[n++] = e->slots[i];
	e->n_slots = n;
}

static void store(struct entry_state *e, const struct insn *in)
{
	struct slot *s = slot_of(e, in->base, in->disp);
	struct arg_value v = {0};

	if (in->op == INSN_MOV && in->mem_bytes == 8 && in->source < INSN_N_REGS && !in->has_imm)
		v = e->regs[in->source];
	if (!s && v.argument && e->n_slots < MAX_SLOTS) {
		s = &e->slots[e->n_slots++];
		*s = (struct slot){.base = in->base, .disp = in->disp};
	}
	if (s)
		s->value = v;
}

/* What the instruction makes of the registers and slots. */
static void follow(struct entry_state *e, const struct insn *in)
{
	const uint8_t sp = e->machine->sp, fp = e->machine->fp;
	bool frame = in->base == sp || in->base == fp;
	struct arg_value v = {0};

	if (in->op == INSN_PUSH || in->op == INSN_POP || in->reg == sp)
		forget_slots(e, sp);
	if (in->reg == fp)
		forget_slots(e, fp);
	if (in->flow == INSN_CALL) {
		for (size_t i = 0; i < INSN_N_REGS; i++)
			if (e->machine->lost >> i & 1)
				e->regs[i] = v;
		return;
	}
	if (in->mem_written && in->has_disp && frame && !in->indexed)
		store(e, in);
	if (in->mem_written || in->reg >= INSN_N_REGS)
		return;
	const struct arg_value *base =
		in->has_disp && !in->indexed && in->base < INSN_N_REGS ? &e->regs[in->base] : NULL;

	if (in->op == INSN_LEA && base) {
		v = *base;
		v.delta += in->disp;
	} else if (in->op == INSN_MOV && base && in->mem_bytes == 8 && base->argument &&
		   base->borrowed < e->borrowed && base->delta + in->disp == 0) {
		v = (struct arg_value){.argument = base->argument, .borrowed = base->borrowed + 1};
	} else if (in->op == INSN_MOV && in->has_disp && frame && !in->indexed &&
		   in->mem_bytes == 8) {
		const struct slot *s = slot_of(e, in->base, in->disp);

		if (s)
			v = s->value;
	} else if (in->op == INSN_MOV && !in->has_disp && !in->ref && !in->has_imm &&
		   in->source < INSN_N_REGS) {
		v = e->regs[in->source];
	}
	e->regs[in->reg] = v;
}

/* The access to the state, in the straight line from the function's start. Whether it is made each
 * time is certain up to the first branch to further on and the first call, which need not return; a
 * loop ends. */
static void find_state(const struct elf_image *image, uint64_t start, uint64_t end,
		       uint64_t state_offset, unsigned bytes, struct entry_state e,
		       struct poll_code *ret)
{
	struct insn_walk w;
	struct insn in;
	bool certain = true;

	if (!insn_walk_init(&w, image, start, end))
		return;
	for (unsigned i = 0; i < MAX_ENTRY && insn_next(&w, &in) > 0; i++) {
		if (in.op != INSN_LEA && in.has_disp && !in.indexed && in.base < INSN_N_REGS &&
		    in.mem_bytes == bytes && e.regs[in.base].argument &&
		    e.regs[in.base].borrowed == e.borrowed) {
			int64_t at = e.regs[in.base].delta + in.disp;

			if (at >= 0 &&
			    (state_offset == POLL_CODE_ANY || state_offset == (uint64_t)at)) {
				ret->argument = e.regs[in.base].argument;
				ret->state_offset = (uint64_t)at;
				ret->certain = certain;
				return;
			}
		}
		if (in.flow == INSN_END || (in.flow == INSN_JUMP && !in.target))
			return;
		if (in.flow == INSN_JUMP) {
			if (in.target < start || in.target >= end ||
			    !insn_walk_init(&w, image, in.target, end))
				return;
			continue;
		}
		if (in.flow == INSN_CALL || (in.flow == INSN_BRANCH && in.target > in.addr))
			certain = false;
		follow(&e, &in);
	}
}

static bool is_one_of(const uint64_t *v, size_t n, uint64_t addr)
{
	size_t at = PARTITION_POINT(i, 0, n, v[i] < addr);

	return at < n && v[at] == addr;
}

/* How far the stack pointer is below the return address, as far as straight-line reading shows:
 * after a jump or a return, what follows is taken to have the frame that the beginning made. */
struct depth {
	const struct machine *machine;
	int64_t current, frame;
	bool fixed;	/* the frame is made */
	bool frame_reg; /* the frame pointer holds the frame's upper end */
};

static bool reads_stack_argument(struct depth *d, const struct insn *in)
{
	const uint8_t sp = d->machine->sp, fp = d->machine->fp;
	bool yes = in->has_disp && ((in->base == sp && in->disp >= d->current + 8) ||
				    (in->base == fp && d->frame_reg && in->disp >= 16));

	if (in->op == INSN_PUSH)
		d->current += 8;
	else if (in->op == INSN_POP)
		d->current -= 8;
	else if (in->op == INSN_SUB && in->reg == sp && in->has_imm)
		d->current += (int64_t)in->imm;
	else if (in->op == INSN_ADD && in->reg == sp && in->has_imm)
		d->current -= (int64_t)in->imm;
	else if (in->op == INSN_MOV && in->reg == fp && in->source == sp && d->current == 8)
		d->frame_reg = true;
	if (!d->fixed && d->current > d->frame)
		d->frame = d->current;
	if (in->flow == INSN_CALL || in->flow == INSN_END || in->flow == INSN_JUMP)
		d->fixed = true;
	if (in->flow == INSN_END || in->flow == INSN_JUMP)
		d->current = d->frame;
	return yes;
}

static bool read_function(struct elf_image *image, uint64_t start, uint64_t end,
			  uint64_t state_offset, unsigned bytes, struct entry_state e,
			  const uint64_t *panics, size_t n_panics, struct poll_code *ret)
{
	struct depth depth = {.machine = e.machine};
	struct insn_walk w;
	struct insn in;

	*ret = (struct poll_code){0};
	find_state(image, start, end, state_offset, bytes, e, ret);
	if (!insn_walk_init(&w, image, start, end))
		return false;
	while (insn_next(&w, &in) > 0) {
		uint64_t target = in.target;

		if (reads_stack_argument(&depth, &in))
			ret->stack = true;
		/* Through a word: called at once, or loaded to be called. */
		if ((in.slot && !elf_image_pointer_at(image, in.slot, &target)) ||
		    (in.op == INSN_MOV && in.ref && !elf_image_pointer_at(image, in.ref, &target)))
			target = 0;
		if (target && is_one_of(panics, n_panics, target))
			ret->resumed = true;
		if (ret->argument && in.op == INSN_MOV && in.mem_written && in.has_imm &&
		    in.mem_bytes == bytes && in.has_disp &&
		    (uint64_t)in.disp == ret->state_offset) {
			if (in.imm == 1)
				ret->returns = true;
			else if (in.imm > 2)
				ret->suspends = true;
		}
	}
	return w.addr >= w.end;
}

bool poll_code_read(struct elf_image *image, uint64_t start, uint64_t end, uint64_t state_offset,
		    unsigned bytes, const uint64_t *panics, size_t n_panics, struct poll_code *ret)
{
	const struct machine *m = elf_image_machine(image);
	struct entry_state e = {.machine = m};

	e.regs[m->args[0]].argument = 1;
	e.regs[m->args[1]].argument = 2;
	return read_function(image, start, end, state_offset, bytes, e, panics, n_panics, ret);
}

void poll_code_read_borrowed(struct elf_image *image, uint64_t start, uint64_t end,
			     uint64_t state_offset, unsigned bytes, unsigned borrowed,
			     struct poll_code *ret)
{
	const struct machine *m = elf_image_machine(image);
	struct entry_state e = {.machine = m, .borrowed = borrowed};

	for (uint8_t i = 0; i < m->n_args; i++)
		e.regs[m->args[i]].argument = (uint8_t)(i + 1);
	if (!read_function(image, start, end, state_offset, bytes, e, NULL, 0, ret))
		ret->argument = 0;
}
