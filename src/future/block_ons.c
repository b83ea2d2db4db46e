/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Root futures of block_on: Tokio's (both schedulers), futures-lite's, async-io's (which smol and
 * async-std use), futures-executor's, pollster's, and any other function of that name.
 *
 * A thread in a block_on has its frame on the stack. block_on pins its future in its own frame, or
 * in a Box, and keeps a Pin<&mut F> to it. Debug information describes that reference: where it is,
 * or which address in the frame it holds (binary/dwarf/debug_frames.c). Where it doesn't, the code
 * does: the call of F's own poll function gets the address in rdi. An answer counts only if its
 * type is a parameter of that block_on, and if all answers of a frame are one place.
 *
 * Through layers of block_on (Runtime, scheduler, parker) one future may be found several times; it
 * is shown once.
 */
#include "future/block_ons.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "base/vec.h"
#include "binary/machine.h"
#include "binary/code/insn.h"
#include "future/thread_stacks.h"
#include "runtime/debug_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_CODE = 64 << 10,
	MAX_STEPS = 6,	 /* from a reference to the future */
	MAX_PLACES = 16, /* of one address */
};

struct candidate {
	const struct dw_type *type; /* NULL: none yet */
	uint64_t addr;
	bool several; /* not all of one place */
};

struct block_on_search {
	struct inspect *in;
	struct inspect_object *o;
	const struct inspect_stack *s;
	size_t frame;
	struct dw_block_on b;
	struct candidate found;
};

/* The future among the parameters of block_on that this type is; NULL: none. */
static const struct dw_type *as_param(const struct block_on_search *s, const struct dw_type *t)
{
	for (size_t i = 0; i < s->b.n_params; i++) {
		const struct dw_type *p = dw_type_of(s->o->dwarf, s->b.params[i].type_ref);

		if (dw_same_type(p, t))
			return p;
	}
	return NULL;
}

static void add(struct block_on_search *s, const struct dw_type *type, uint64_t addr)
{
	if (s->found.type && s->found.addr != addr)
		s->found.several = true;
	s->found.type = type;
	s->found.addr = addr;
}

/* What structures of one member have in the end. A broken one may have itself. */
static const struct dw_type *unwrap(struct block_on_search *s, const struct dw_type *t)
{
	for (unsigned i = 0; t && t->class == DC_STRUCT && t->n_members == 1; i++)
		t = i < MAX_STEPS ? dw_member_type(s->o->dwarf, &t->members[0]) : NULL;
	return t;
}

/* From a reference whose value is `addr` to the future, through references to it. */
static void follow(struct block_on_search *s, const struct dw_type *t, uint64_t addr)
{
	for (unsigned i = 0; t && i < MAX_STEPS; i++) {
		const struct dw_type *f = i ? as_param(s, t) : NULL;

		if (f) {
			add(s, f, addr);
			return;
		}
		if (i && !mem_u64(&s->in->mem, addr, &addr))
			return;
		t = unwrap(s, t);
		t = t && t->class == DC_POINTER ? dw_type_of(s->o->dwarf, t->target_ref) : NULL;
	}
}

static void by_variables(struct block_on_search *s)
{
	const struct unwind_frame *f = &s->s->frames[s->frame];

	for (size_t i = 0; i < s->b.n_slots; i++) {
		const struct dw_slot *slot = &s->b.slots[i];
		uint64_t base = slot->base == DW_BASE_SP   ? f->sp
				: slot->base == DW_BASE_FP ? (f->bp_known ? f->bp : 0)
							   : stacks_frame_end(s->s, s->frame);
		uint64_t value = base + (uint64_t)slot->offset;

		if (base && (slot->is_value || mem_u64(&s->in->mem, value, &value)))
			follow(s, dw_type_of(s->o->dwarf, slot->type_ref), value);
	}
}

/* ---- by the code ---- */

/* Registers that hold an address in the frame, as offsets from the stack pointer. */
struct frame_registers {
	bool known[16];
	int64_t offset[16];
};

static void track(const struct machine *m, struct frame_registers *r, const struct insn *i)
{
	if (i->flow == INSN_CALL) {
		for (size_t k = 0; k < 16; k++)
			r->known[k] = r->known[k] && !(m->lost >> k & 1);
		return;
	}
	if (i->reg >= 16)
		return;
	if (i->op == INSN_LEA && i->base == m->sp && !i->indexed) {
		r->known[i->reg] = true;
		r->offset[i->reg] = i->disp;
	} else if (i->op == INSN_MOV && i->source == m->sp && !i->has_disp) {
		r->known[i->reg] = true;
		r->offset[i->reg] = 0;
	} else if (i->op == INSN_MOV && i->source < 16 && !i->has_disp) {
		r->known[i->reg] = r->known[i->source];
		r->offset[i->reg] = r->offset[i->source];
	} else {
		r->known[i->reg] = false;
	}
}

static void by_code(struct block_on_search *s)
{
	const struct unwind_frame *f = &s->s->frames[s->frame];
	struct elf_image *image = s->o->object->image;
	struct frame_registers r = {0};
	uint64_t start, end;
	struct insn_walk w;
	struct insn insn;

	if (!elf_image_function(image, f->ip - s->o->object->bias, &start, &end) ||
	    end - start > MAX_CODE || !insn_walk_init(&w, image, start, end))
		return;
	while (insn_next(&w, &insn)) {
		struct dw_function callee;

		if (insn.flow == INSN_CALL && insn.target && r.known[w.machine->args[0]] &&
		    debug_function(s->o->dwarf, insn.target, &callee) && callee.self_ref)
			follow(s, dw_type_of(s->o->dwarf, callee.self_ref),
			       f->sp + (uint64_t)r.offset[w.machine->args[0]]);
		track(w.machine, &r, &insn);
	}
}

/* ---- entries ---- */

/* "src/main.rs:12 (app::main)": the first place of the program's own from this frame outwards, else
 * that of a library which is no runtime; NULL: none. */
static char *place_of(struct inspect *in, const struct inspect_stack *s, size_t frame)
{
	char *text = NULL, *via = NULL;

	for (size_t i = frame; i < s->n_frames && !text; i++) {
		struct inspect_object *o = stacks_object(in, s->frames[i].ip);

		/* A return address may be another line's, or another function's. */
		if (o && o->dwarf)
			text = debug_place_text(o->dwarf,
						s->frames[i].ip - o->object->bias - (i > 0), &via);
	}
	if (!text)
		return via;
	free(via);
	return text;
}

/* Is the future being polled? Code of a task's in between means that a task is. */
static bool is_polled(struct inspect *in, const struct inspect_stack *s, size_t frame)
{
	for (size_t i = frame + 1; i-- > 0;) {
		struct inspect_object *o = stacks_object(in, s->frames[i].ip);
		struct dw_place places[MAX_PLACES];
		size_t n = o && o->dwarf ? debug_places(o->dwarf, s->frames[i].ip - o->object->bias,
							places, MAX_PLACES)
					 : 0;

		for (size_t k = n; k-- > 0;) {
			const char *name = places[k].function ? places[k].function : "";

			if (await_starts(name, "tokio::runtime::task::") ||
			    await_starts(name, "async_task::raw::"))
				return false;
			if (strstr(name, "::{async_fn#") || strstr(name, "::{async_block#") ||
			    strstr(name, "::{async_closure#"))
				return true;
		}
	}
	return false;
}

static const struct scan_kind root_kind = {.role = TR_ROOT};

/* One per future and place, so that equal ones are alike. NULL: out of memory. */
static struct inspect_kind *kind_of(struct inspect *in, struct inspect_object *o,
				    const struct dw_type *future, char *site)
{
	_cleanup_free_ char *place = site;
	struct inspect_kind *k;

	for (size_t i = 0; i < in->n_root_kinds; i++) {
		k = in->root_kinds[i];
		if (k->future == future && k->object == o && !strcmp(k->site, place ? place : ""))
			return k;
	}
	k = calloc(1, sizeof(*k));
	if (!k || !GROW_ONE(in->root_kinds, in->n_root_kinds)) {
		free(k);
		return NULL;
	}
	*k = (struct inspect_kind){
		.object = o,
		.kind = &root_kind,
		.runtime = "",
		.resolved = true,
		.future = future,
		.name = o->dwarf ? debug_block_on_name(o->dwarf, future, place, o->scan.libraries)
				 : NULL,
		.site = place ? steal(place) : strdup(""),
	};
	in->root_kinds[in->n_root_kinds++] = k;
	if (!k->name)
		k->name = strdup("block_on");
	return k->name && k->site ? k : NULL;
}

/* A parameter may itself be a reference, as where a layer of block_on has pinned the future. */
static void dereference(struct block_on_search *s, struct candidate *c)
{
	const struct dw_type *t = c->type;

	for (unsigned i = 0;
	     t && i < MAX_STEPS &&
	     (await_starts(t->full_name, "core::pin::Pin<&mut ") || await_starts(t->name, "&mut "));
	     i++) {
		const struct dw_type *p = t;
		uint64_t addr;

		p = unwrap(s, p);
		p = p && p->class == DC_POINTER ? dw_type_of(s->o->dwarf, p->target_ref) : NULL;
		if (!p || !mem_u64(&s->in->mem, c->addr, &addr))
			break;
		c->type = t = p;
		c->addr = addr;
	}
}

/* A thread other than the one that drives a current_thread runtime polls its future from a closure
 * of Tokio's that also waits for its turn to drive it. */
static void skip_wrapper(struct block_on_search *s, struct candidate *c)
{
	struct await_context ctx = {.mem = &s->in->mem, .budget = &s->in->budget};
	struct walk w = {.ctx = &ctx, .dwarf = s->o->dwarf};
	const struct dw_type *x;
	struct candidate inner;

	if (!strstr(c->type->full_name, "PollFn<tokio::runtime::scheduler::current_thread::") ||
	    (!await_find_member(&w, c->type, c->addr, "_ref__future", &x, &inner.addr) &&
	     !await_find_member(&w, c->type, c->addr, "future", &x, &inner.addr)))
		return;
	inner.type = x;
	dereference(s, &inner);
	if (inner.type != x)
		*c = (struct candidate){.type = inner.type, .addr = inner.addr};
}

static int add_root(struct block_on_search *s, size_t thread, const char *why,
		    struct inspect_result *r)
{
	bool known = !why;
	const struct dw_type *future = known	     ? s->found.type
				       : s->o->dwarf ? debug_block_on_future(s->o->dwarf, &s->b)
						     : NULL;
	struct inspect_kind *k = kind_of(s->in, s->o, future, place_of(s->in, s->s, s->frame));

	if (!k || !GROW_ONE(r->tasks, r->n_tasks))
		return -ENOMEM;
	r->tasks[r->n_tasks++] = (struct inspect_task){
		.addr = known ? s->found.addr : s->s->frames[s->frame].sp,
		.kind = k,
		.state = is_polled(s->in, s->s, s->frame) ? IS_RUNNING : IS_IDLE,
		.thread = thread + 1,
		.root = known ? future : NULL,
		.no_tree_reason = why,
	};
	return 0;
}

/* Whether this future was found in an inner layer of the same block_on. An outer layer may refer to
 * where the future was before it was moved inwards: the innermost layer has it. */
static bool is_known(const struct inspect_result *r, size_t first, const struct candidate *c)
{
	for (size_t i = first; i < r->n_tasks; i++)
		if (r->tasks[i].root &&
		    (r->tasks[i].addr == c->addr || dw_same_type(r->tasks[i].root, c->type)))
			return true;
	return false;
}

static bool look_at_frame(struct block_on_search *s)
{
	uint64_t pc = s->s->frames[s->frame].ip;

	s->o = stacks_object(s->in, pc);
	s->found = (struct candidate){0};
	if (!s->o)
		return false;
	if (!inspect_debug(s->in, s->o)) {
		const struct elf_symbol *symbol =
			elf_image_symbol_at(s->o->object->image, pc - s->o->object->bias);

		s->b = (struct dw_block_on){0};
		return symbol && strstr(symbol->name, "8block_on");
	}
	if (!debug_block_on(s->o->dwarf, pc - s->o->object->bias, &s->b))
		return false;
	by_variables(s);
	if (!s->found.type)
		by_code(s);
	if (s->found.type)
		dereference(s, &s->found);
	if (s->found.type)
		skip_wrapper(s, &s->found);
	return true;
}

static int find_in_thread(struct inspect *in, size_t thread, struct inspect_result *r)
{
	struct block_on_search s = {.in = in, .s = &in->threads[thread]}, outermost = {0};
	size_t first = r->n_tasks;

	for (size_t i = 0; i < s.s->n_frames; i++) {
		s.frame = i;
		if (!look_at_frame(&s))
			continue;
		if (!outermost.found.several)
			outermost = s;
		if (s.found.type && !s.found.several && !is_known(r, first, &s.found))
			TRY(add_root(&s, thread, NULL, r));
	}
	if (r->n_tasks == first && outermost.s)
		TRY(add_root(&outermost, thread,
			     !outermost.o->dwarf ? "no debug information"
			     : outermost.found.several
				     ? "debug information gives several places for its future"
				     : "the debug information doesn't say where its future is",
			     r));
	return 0;
}

/* Is it somewhere below in a tree? */
static bool is_below(const struct await_node *n, uint64_t addr)
{
	for (size_t i = 0; i < n->n_children; i++)
		if (n->children[i]->addr == addr || is_below(n->children[i], addr))
			return true;
	return false;
}

/* Do both show the same future, `b` as what `a` polls, or both alike (through a Box)? */
static bool is_layer(const struct inspect_task *a, const struct inspect_task *b)
{
	return a->thread == b->thread && a->tree && b->tree &&
	       (is_below(a->tree, b->addr) || a->tree->addr == b->tree->addr);
}

void block_ons_settle(struct inspect_result *r, size_t first)
{
	for (size_t i = first; i < r->n_tasks; i++) {
		bool inner = false;

		for (size_t k = first; k < r->n_tasks && !inner; k++)
			inner = k != i && is_layer(&r->tasks[k], &r->tasks[i]);
		if (!inner)
			continue;
		await_node_free(r->tasks[i].tree);
		memmove(&r->tasks[i], &r->tasks[i + 1], (r->n_tasks - i - 1) * sizeof(r->tasks[i]));
		r->n_tasks--;
		i--;
	}
}

int block_ons_find(struct inspect *in, struct inspect_result *r, struct error *err)
{
	size_t missed = in->mem.n_missed;
	int rc = 0;

	for (size_t i = 0; i < in->n_threads && rc == 0; i++)
		rc = find_in_thread(in, i, r);
	in->mem.n_missed = missed;
	return rc < 0 ? error_set(err, rc, "out of memory") : 0;
}
