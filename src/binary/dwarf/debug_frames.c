/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a frame on a thread's stack keeps of a future that is polled from there: the references to
 * it among the variables of the function and of all that was inlined into it.
 *
 * A future that was pinned does not move, and in code of rustc's the stack pointer does not change
 * between a function's head and its end. So a variable whose *value* is an address in the frame
 * ("rsp + 240") gives it for the whole of the function, also where that variable itself is not
 * alive: between two polls, when block_on waits. A variable that *lies* in the frame is only read
 * where it is alive.
 */
#include "binary/dwarf/debug_data.h"
#include "binary/machine.h"

#include <dwarf.h>
#include <string.h>

enum { MAX_SLOTS = 64 };

struct collect {
	struct debug *d;
	struct debug_frame_answer *f;
	uint64_t pc;
	/* of the variable that is looked at */
	uint64_t type_ref;
	bool alive; /* its scope covers pc */
	/* DW_AT_frame_base */
	bool has_base;
	uint8_t base; /* enum dw_base, 0: another register */
};

/* block_on itself, or a closure in it: some pin their future within one. */
static bool is_block_on(const struct dw_function *f)
{
	size_t path = strcspn(f->full_name, "<"); /* what follows are types */
	const char *in = memmem(f->full_name, path, "::block_on::{closure", 20);

	if (!strncmp(f->name, "block_on", 8))
		return !f->name[8] || f->name[8] == '<';
	return !strncmp(f->name, "{closure", 8) && in;
}

/* enum dw_base of a register by DWARF's number; 0: another. */
static uint8_t base_of(const struct collect *c, unsigned reg)
{
	const struct machine *m = c->d->machine;

	return !m ? 0 : reg == m->dwarf.sp ? DW_BASE_SP : reg == m->dwarf.fp ? DW_BASE_FP : 0;
}

/* The register that a frame base is. */
static bool frame_base(void *ctx, const uint8_t *p, size_t len, uint64_t low, uint64_t high)
{
	struct collect *c = ctx;

	(void)low;
	(void)high;
	if (len == 1 && *p >= DW_OP_reg0 && *p <= DW_OP_reg31)
		c->base = base_of(c, *p - DW_OP_reg0);
	else if (len == 1 && *p == DW_OP_call_frame_cfa)
		c->base = DW_BASE_FRAME_END;
	else
		return false;
	c->has_base = true;
	return true;
}

static void add_slot(struct collect *c, const struct dw_slot *s)
{
	struct debug_frame_answer *f = c->f;

	for (size_t i = 0; i < f->n_slots; i++)
		if (f->slots[i].type_ref == s->type_ref && f->slots[i].offset == s->offset &&
		    f->slots[i].base == s->base && f->slots[i].is_value == s->is_value)
			return;
	if (f->n_slots < MAX_SLOTS)
		f->slots[f->n_slots++] = *s;
}

/* [register + offset], or that as a value. */
static bool one_location(void *ctx, const uint8_t *p, size_t len, uint64_t low, uint64_t high)
{
	struct collect *c = ctx;
	const uint8_t *end = p + len;
	struct dw_slot s = {.type_ref = c->type_ref};
	unsigned op;
	bool alive;

	if (!len)
		return false;
	op = *p++;
	if (op == DW_OP_fbreg && c->has_base)
		s.base = c->base;
	else if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
		s.base = base_of(c, op - DW_OP_breg0);
	else
		return false;
	if (!s.base || !dwarf_sleb(&p, end, &s.offset))
		return false;
	alive = c->alive && c->pc >= low && c->pc < high;
	s.is_value = end - p == 1 && *p == DW_OP_stack_value;
	if (p != end && !s.is_value)
		return false;
	/* The register stays only if it is the frame's pointer. */
	if (!alive && (!s.is_value || (s.base == DW_BASE_FP && c->base != DW_BASE_FP)))
		return false;
	add_slot(c, &s);
	return false;
}

/* Pin<&mut F>, &mut Pin<&mut F>, &mut F, Pin<Box<F>>: moved or not, it leads there */
static bool is_reference(struct debug *d, uint64_t type)
{
	struct dwarf_die die;
	const char *name;

	if (!units_die(d->units, type, &die))
		return false;
	name = die_name(&die);
	return !strncmp(name, "Pin<&mut ", 9) || !strncmp(name, "&mut ", 5) ||
	       !strncmp(name, "Pin<alloc::boxed::Box<", 22);
}

static void collect_variables(struct collect *c, const struct dwarf_die *scope, bool alive,
			      unsigned depth)
{
	struct dwarf_die die;

	if (depth > 2 * DEBUG_MAX_DEPTH)
		return;
	for (bool ok = die_child(scope, &die); ok; ok = die_sibling(&die, &die)) {
		switch (die_tag(&die)) {
		case DW_TAG_formal_parameter:
		case DW_TAG_variable:
			if (!die_has(&die, DW_AT_location))
				break;
			c->type_ref = debug_type_ref(c->d, &die);
			c->alive = alive;
			if (is_reference(c->d, c->type_ref))
				die_locations(&die, DW_AT_location, one_location, c);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_inlined_subroutine:
			collect_variables(c, &die, alive && die_covers(&die, c->pc), depth + 1);
			break;
		default:
			break;
		}
	}
}

static void find_frame(struct debug *d, uint64_t pc, struct debug_frame_answer *f)
{
	struct dwarf_die function, inlined[DEBUG_MAX_DEPTH];
	struct collect c = {.d = d, .f = f, .pc = pc};
	size_t depth;

	if (!debug_function_covering(d, pc, &function))
		return;
	depth = debug_inlined_at(&function, pc, inlined, DEBUG_MAX_DEPTH);
	for (size_t i = depth + 1; i-- > 0;) {
		struct dw_function of = {0};

		debug_function_read(d, i ? &inlined[i - 1] : &function, &of);
		if (!is_block_on(&of))
			continue;
		if (!f->block_on)
			f->block_on = of.full_name;
		for (size_t k = 0; k < of.n_params && f->n_params < DEBUG_FRAME_PARAMS; k++)
			f->params[f->n_params++] = of.params[k];
	}
	if (!f->block_on)
		return;
	die_locations(&function, DW_AT_frame_base, frame_base, &c);
	collect_variables(&c, &function, true, 0);
}

bool debug_block_on(struct debug *d, uint64_t pc, struct dw_block_on *ret)
{
	struct debug_frame_answer *f = map_get(&d->frames, pc, 0);

	if (!f) {
		if (!debug_units(d))
			return false;
		f = debug_alloc(d, sizeof(*f) + MAX_SLOTS * sizeof(f->slots[0]));
		if (!f)
			return false;
		find_frame(d, pc, f);
		debug_keep(d, &d->frames, pc, 0, f);
	}
	if (!f->block_on)
		return false;
	*ret = (struct dw_block_on){f->block_on, f->params, f->n_params, f->slots, f->n_slots};
	return true;
}
