/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The value of an instruction is followed as "may be here": one bit for each general purpose
 * register, vector register, and slot of the stack frame that a spill may have put it into. The
 * bits at an instruction are those of all ways to it (a union), so they only grow, and the walk
 * ends. A slot is one of which all loads and stores are of the whole: what is stored elsewhere in
 * the frame is a structure that is built there, and that is a use.
 *
 * Everything is bounded: a function or a value that takes more steps counts as used.
 */
#include "binary/code/code_flow.h"

#include "base/budget.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/elf/elf_image.h"
#include "binary/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VECTORS_AT 16u
#define SLOTS_AT 48u
#define MAX_VALUE_SLOTS 16u
#define VECTORS (0xffffffffull << VECTORS_AT)

#define MAX_INSNS (1u << 17)
#define MAX_STEPS 20000u
#define MAX_USES 16u
#define MAX_UNSORTED 8u

/* In code_flow.targets. */
#define NOT_SOUGHT (CODE_NOWHERE - 1)

/* Of code_flow.open. */
enum { OPEN = 1, BRANCHES_BEHIND = 2 };

void code_flow_done(struct code_flow *f)
{
	free(f->insns);
	free(f->targets);
	free(f->slots);
	free(f->state);
	free(f->work);
	free(f->seen);
	free(f->open);
	*f = (struct code_flow){0};
}

static uint32_t index_of(const struct code_flow *f, uint64_t addr)
{
	size_t lo = PARTITION_POINT(i, 0, f->n, f->insns[i].addr < addr);

	return lo < f->n && f->insns[lo].addr == addr ? (uint32_t)lo : CODE_NOWHERE;
}

/* In the frame, by rsp, or by rbp where that is the frame's. */
static bool in_frame(const struct code_flow *f, const struct insn *in)
{
	return in->has_disp && !in->indexed && in->mem_bytes &&
	       (in->base == f->machine->sp || (in->base == f->machine->fp && f->has_frame));
}

static int by_slot(const void *a, const void *b)
{
	const struct code_slot *x = a, *y = b;

	return ASCENDING(x->base, y->base) ?: ASCENDING(x->disp, y->disp);
}

static bool uses_slot(const struct code_flow *f, const struct insn *in)
{
	return in->op != INSN_LEA && in_frame(f, in);
}

/* Room to work in, as large as the function. Of the one before, `state` is 0. */
static int make_room(struct code_flow *f)
{
	size_t n = f->n ? f->n : 1;

	if (n > f->room) {
		free(f->targets);
		free(f->state);
		free(f->work);
		free(f->seen);
		f->targets = malloc(n * sizeof(*f->targets));
		f->state = calloc(n, sizeof(*f->state));
		f->work = malloc(2 * n * sizeof(*f->work));
		f->seen = malloc(n * sizeof(*f->seen));
		f->room = f->targets && f->state && f->work && f->seen ? n : 0;
		if (!f->room)
			return -ENOMEM;
	}
	for (size_t i = 0; i < f->n; i++)
		f->targets[i] = NOT_SOUGHT;
	return 0;
}

/* Where a jump or branch leads; CODE_NOWHERE: out of the function, or it is none. Most are never asked
 * for. */
static uint32_t target_of(const struct code_flow *f, uint32_t i)
{
	const struct insn *in = &f->insns[i];

	if (f->targets[i] == NOT_SOUGHT)
		f->targets[i] = in->target && in->flow != INSN_CALL ? index_of(f, in->target)
								    : CODE_NOWHERE;
	return f->targets[i];
}

/* Few functions' values are spilled. -ENOMEM or 0. */
static int read_slots(struct code_flow *f)
{
	if (f->slots_read)
		return 0;
	for (size_t i = 0; i < f->n; i++) {
		const struct insn *in = &f->insns[i];

		if (!uses_slot(f, in))
			continue;
		if (!GROW(f->slots, f->n_slots, f->slots_cap))
			return -ENOMEM;
		f->slots[f->n_slots++] =
			(struct code_slot){in->disp, in->base, in->mem_bytes, !in->mem_written};
	}
	f->slots_read = true;
	return 0;
}

int code_flow_read(struct code_flow *f, const struct elf_image *img, uint64_t start, uint64_t end)
{
	struct insn_walk w;

	f->n = f->n_slots = f->n_asked = 0;
	f->slots_read = f->has_frame = false;
	free(f->open);
	f->open = NULL;
	f->machine = elf_image_machine(img);
	if (!insn_walk_init(&w, img, start, end))
		return 0;
	for (; f->n < MAX_INSNS; f->n++) {
		const struct insn *in;

		if (!GROW(f->insns, f->n, f->cap))
			return -ENOMEM;
		in = &f->insns[f->n];
		if (insn_next(&w, &f->insns[f->n]) <= 0)
			break;
		f->has_frame = f->has_frame || (in->op == INSN_MOV && in->reg == f->machine->fp &&
						in->source == f->machine->sp);
	}
	return make_room(f);
}

static bool overlap(const struct code_slot *s, const struct insn *in)
{
	return s->base == in->base && s->disp < in->disp + in->mem_bytes &&
	       in->disp < s->disp + s->bytes;
}

/* True for a spill: all that the function reads or writes of this piece of its frame is the whole
 * of it. A structure that is built there is copied in other pieces. */
static bool is_spill(struct code_flow *f, const struct insn *in)
{
	const struct code_slot first = {in->disp - UINT8_MAX, in->base, 0, false};
	bool loaded = false, sorted;
	size_t lo = 0;

	if (read_slots(f) < 0)
		return false;
	/* Where one asks often it's worth while. */
	if (++f->n_asked == MAX_UNSORTED && f->n_slots)
		qsort(f->slots, f->n_slots, sizeof(*f->slots), by_slot);
	sorted = f->n_asked >= MAX_UNSORTED;
	if (sorted)
		lo = PARTITION_POINT(i, 0, f->n_slots, by_slot(&f->slots[i], &first) < 0);
	for (; lo < f->n_slots; lo++) {
		if (sorted && (f->slots[lo].base != in->base ||
			       f->slots[lo].disp >= in->disp + in->mem_bytes))
			break;
		if (!overlap(&f->slots[lo], in))
			continue;
		if (f->slots[lo].disp != in->disp || f->slots[lo].bytes != in->mem_bytes)
			return false;
		loaded = loaded || f->slots[lo].loaded;
	}
	return loaded;
}

bool code_flow_guards(const struct code_flow *f, size_t i)
{
	return f->open && f->open[i] & BRANCHES_BEHIND;
}

bool code_flow_guarded(const struct code_flow *f, size_t i)
{
	return f->open && !(f->open[i] & OPEN);
}

/* A value that is followed. */
struct value_flow {
	struct code_flow *f;
	uint32_t from; /* the instruction that makes it */
	struct code_slot slots[MAX_VALUE_SLOTS];
	size_t n_slots;
	struct budget budget;
	bool open_only;	   /* not to what the guard protects */
	uint8_t *compares; /* comparisons with it are marked here, if not NULL */
	uint32_t uses[MAX_USES];
	uint64_t states[MAX_USES]; /* where the value is after that use */
	size_t n_uses, n_work, n_touched;
};

/* The slots that it loads, or writes some of. */
static uint64_t slot_bits(const struct value_flow *v, const struct insn *in)
{
	uint64_t bits = 0;

	for (size_t i = 0; in_frame(v->f, in) && i < v->n_slots; i++)
		if (in->mem_written
			    ? overlap(&v->slots[i], in)
			    : v->slots[i].base == in->base && v->slots[i].disp == in->disp &&
				      v->slots[i].bytes == in->mem_bytes)
			bits |= 1ull << (SLOTS_AT + i);
	return bits;
}

/* The bit of the slot that the instruction stores to; 0: not one that is loaded from. */
static uint64_t spill_bit(struct value_flow *v, const struct insn *in)
{
	if (!in->copies || !in_frame(v->f, in) || !is_spill(v->f, in))
		return 0;
	for (size_t i = 0; i < v->n_slots; i++)
		if (v->slots[i].base == in->base && v->slots[i].disp == in->disp &&
		    v->slots[i].bytes == in->mem_bytes)
			return 1ull << (SLOTS_AT + i);
	if (v->n_slots == MAX_VALUE_SLOTS)
		return 0;
	v->slots[v->n_slots++] = (struct code_slot){in->disp, in->base, in->mem_bytes, true};
	return 1ull << (SLOTS_AT + v->n_slots - 1);
}

/* Where the value is after the instruction; *ret_used: the instruction uses it. */
static uint64_t step(struct value_flow *v, uint32_t i, uint64_t state, bool *ret_used)
{
	const struct insn *in = &v->f->insns[i];
	const struct machine *m = v->f->machine;
	uint64_t reads = in->reads | (uint64_t)in->vectors_read << VECTORS_AT;
	uint64_t writes = in->writes | (uint64_t)in->vectors_written << VECTORS_AT;
	uint64_t slots = slot_bits(v, in), spill = 0;
	bool carries = state & reads,
	     leaves = in->flow == INSN_JUMP && target_of(v->f, i) == CODE_NOWHERE;

	*ret_used = ((in->flow == INSN_CALL || leaves) && state & m->given) ||
		    (in->ret && state & m->returned) || (in->op == INSN_PUSH && carries);
	if (in->flow == INSN_CALL)
		writes |= m->lost | VECTORS;
	if (in->mem_written) {
		spill = carries ? spill_bit(v, in) : 0;
		*ret_used = *ret_used || (carries && !spill);
		return (state & ~writes & ~slots) | spill;
	}
	carries = carries || (in->op != INSN_LEA && state & slots);
	return (state & ~writes) | (carries && in->copies ? writes : 0);
}

/* Up to two; CODE_NOWHERE if there are less. */
static void successors(const struct code_flow *f, uint32_t i, uint32_t ret[2])
{
	const struct insn *in = &f->insns[i];

	ret[0] = in->flow == INSN_JUMP || in->flow == INSN_END || i + 1 == f->n ? CODE_NOWHERE
										: i + 1;
	ret[1] = in->flow == INSN_JUMP || in->flow == INSN_BRANCH ? target_of(f, i) : CODE_NOWHERE;
}

static void reach(struct value_flow *v, uint32_t i, uint64_t state)
{
	uint64_t *at = &v->f->state[i];

	if (!(state & ~*at) || (v->open_only && code_flow_guarded(v->f, i)))
		return;
	if (!*at)
		v->f->work[v->f->n + v->n_touched++] = i;
	*at |= state;
	if (v->n_work < v->f->n)
		v->f->work[v->n_work++] = i;
	else
		v->budget.steps = 0;
}

static void forget(struct value_flow *v)
{
	for (size_t i = 0; i < v->n_touched; i++)
		v->f->state[v->f->work[v->f->n + i]] = 0;
	v->n_touched = v->n_work = 0;
}

static bool compares(const struct value_flow *v, uint32_t i, uint64_t state)
{
	const struct insn *in = &v->f->insns[i];

	return in->op == INSN_CMP && (state & (in->reads | slot_bits(v, in)));
}

static void add_use(struct value_flow *v, uint32_t i, uint64_t behind)
{
	size_t k = 0;

	while (k < v->n_uses && v->uses[k] != i)
		k++;
	if (k == MAX_USES)
		return;
	v->uses[k] = i;
	v->states[k] = behind;
	if (k == v->n_uses)
		v->n_uses++;
}

/* Follows the value from the end of instruction `after`, where it is at `state`, to all that it may
 * come to without being made again. True: `again` uses it (CODE_NOWHERE: uses are gathered). */
static bool spread(struct value_flow *v, uint32_t after, uint64_t state, uint32_t again)
{
	uint32_t next[2], i = after;
	bool used = false;

	for (;;) {
		successors(v->f, i, next);
		for (unsigned k = 0; k < 2; k++)
			if (next[k] != CODE_NOWHERE && next[k] != v->from)
				reach(v, next[k], state);
		if (!v->n_work || !budget_spend(&v->budget, 1))
			return false;
		i = v->f->work[--v->n_work];
		if (v->compares && compares(v, i, v->f->state[i]))
			v->compares[i] = 1;
		state = step(v, i, v->f->state[i], &used);
		if (used && i == again)
			return true;
		if (used && again == CODE_NOWHERE)
			add_use(v, i, state);
	}
}

/* True if there is a way from the value's making to the function's end, or back to the making, on
 * which nothing uses it. The ways are those of spread(), which has left where the value is. */
static bool is_spared(struct value_flow *v)
{
	struct code_flow *f = v->f;
	uint32_t next[2], i = v->from;
	size_t n = 0;
	bool used = false, spared = false;

	memset(f->seen, 0, f->n);
	while (!spared) {
		const struct insn *in;

		successors(f, i, next);
		for (unsigned k = 0; k < 2; k++) {
			spared = spared || next[k] == v->from;
			if (next[k] == CODE_NOWHERE || f->seen[next[k]])
				continue;
			f->seen[next[k]] = 1;
			f->work[n++] = next[k];
		}
		do {
			if (!n || !budget_spend(&v->budget, 1))
				return spared && v->budget.steps;
			i = f->work[--n];
			in = &f->insns[i];
			step(v, i, f->state[i], &used);
		} while (used);
		spared = spared || in->ret ||
			 (in->flow == INSN_JUMP && in->target && target_of(f, i) == CODE_NOWHERE);
	}
	return true;
}

/* True if the way from i to `to` is taken only where a marked comparison has found equality. */
static bool is_equal(const struct code_flow *f, uint32_t i, uint32_t to, const uint8_t *compares)
{
	const struct insn *in = &f->insns[i];

	if (i == 0 || !compares[i - 1])
		return false;
	return (in->op == INSN_EQUAL && target_of(f, i) == to) ||
	       (in->op == INSN_NOT_EQUAL && i + 1 == to && target_of(f, i) != to);
}

static void mark(struct code_flow *f, uint32_t i, size_t *n)
{
	if (f->open[i] & OPEN)
		return;
	f->open[i] |= OPEN;
	f->work[(*n)++] = i;
}

/* All that control comes to on other ways. Where no way leads to (a catch, a jump table's place)
 * may be come to by one that isn't known. */
static int mark_unguarded(struct code_flow *f, const uint8_t *compares)
{
	uint32_t next[2];
	size_t n = 0;

	free(f->open);
	f->open = calloc(f->n + 1, 1);
	if (!f->open)
		return -ENOMEM;
	memset(f->seen, 0, f->n);
	for (uint32_t i = 0; i < f->n; i++) {
		successors(f, i, next);
		for (unsigned k = 0; k < 2; k++)
			if (next[k] != CODE_NOWHERE)
				f->seen[next[k]] = 1;
	}
	for (uint32_t i = 0; i < f->n; i++)
		if (i == 0 || !f->seen[i])
			mark(f, i, &n);
	for (uint32_t i = 1; i < f->n; i++)
		if (compares[i - 1] && f->insns[i].op == INSN_EQUAL)
			f->open[i] |= BRANCHES_BEHIND;
	while (n) {
		uint32_t i = f->work[--n];

		successors(f, i, next);
		for (unsigned k = 0; k < 2; k++)
			if (next[k] != CODE_NOWHERE && !is_equal(f, i, next[k], compares))
				mark(f, next[k], &n);
	}
	return 0;
}

static bool is_reused(struct value_flow *v)
{
	bool reused = false;

	for (size_t i = 0; i < v->n_uses && !reused; i++) {
		reused = spread(v, v->uses[i], v->states[i], v->uses[i]);
		forget(v);
	}
	return reused;
}

struct code_value code_flow_value(struct code_flow *f, uint64_t addr, uint8_t reg)
{
	struct code_value ret = {.fate = VALUE_USED};
	struct value_flow v = {.f = f, .from = index_of(f, addr)};

	if (v.from == CODE_NOWHERE)
		return ret;
	ret.guarded = code_flow_guarded(f, v.from);
	if (reg == INSN_NO_REG)
		return ret;
	budget_init(&v.budget, MAX_STEPS, 0);
	spread(&v, v.from, 1ull << reg, CODE_NOWHERE);
	if (v.n_uses && is_spared(&v))
		ret.fate = VALUE_SPARED;
	forget(&v);
	if (ret.fate == VALUE_USED && is_reused(&v))
		ret.fate = VALUE_REUSED;
	if (v.n_uses && f->open && !ret.guarded) {
		v.open_only = true;
		v.n_uses = 0;
		spread(&v, v.from, 1ull << reg, CODE_NOWHERE);
		forget(&v);
		ret.guarded = !v.n_uses && v.budget.steps;
	}
	return ret;
}

/* The constant that the instruction puts into a register or compares with; 0: none. */
static uint64_t constant_of(const struct insn *in)
{
	if (in->op == INSN_LEA && in->reg != INSN_NO_REG)
		return in->ref;
	return in->has_imm && (in->op == INSN_CMP || (in->op == INSN_MOV && in->reg != INSN_NO_REG))
		       ? in->imm
		       : 0;
}

int code_flow_guard(struct code_flow *f, code_match *match, void *opaque, bool *ret_any)
{
	_cleanup_free_ uint8_t *compares = calloc(f->n + 1, 1);
	struct value_flow v = {.f = f, .compares = compares};

	*ret_any = false;
	if (!compares)
		return -ENOMEM;
	budget_init(&v.budget, MAX_STEPS, 0);
	for (uint32_t i = 0; i < f->n; i++) {
		const struct insn *in = &f->insns[i];
		uint64_t constant = constant_of(in);

		if (!constant || !match(constant, opaque))
			continue;
		if (in->op == INSN_CMP) {
			compares[i] = 1;
			continue;
		}
		v.from = i;
		spread(&v, i, 1ull << in->reg, CODE_NOWHERE);
		forget(&v);
	}
	*ret_any = memchr(compares, 1, f->n) != NULL;
	return *ret_any ? mark_unguarded(f, compares) : 0;
}
