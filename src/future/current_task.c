/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Which thread polls which task, found by two methods.
 *
 * Tokio keeps the id of the task that it polls in a thread-local variable, CONTEXT's
 * current_task_id (tokio/src/runtime/context.rs, 1.23 to 1.54). Its symbol gives the address, debug
 * information the contents.
 *
 * Without either, and for async-task, the stack shows it: a frame of the function that polls tasks
 * of this kind, and within it the address of the task's header. If several threads have such a
 * frame, only the one that has the address counts; otherwise the thread is unknown.
 */
#include "future/current_task.h"

#include "binary/code/insn.h"
#include "future/thread_stacks.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_HEAD = 12,	       /* instructions of a poll function that only jumps on */
	STACK_BYTES = 8 << 20, /* that are searched at most, whatever frames say */
	/* looked at in a step of the budget */
	STEP_BYTES = 256,
	STEP_TASKS = 64,
};

/* ---- by CONTEXT ---- */

const struct elf_symbol *running_local(struct elf_image *image, const char *path, const char *name,
				       size_t *pos)
{
	const struct elf_symbol *s;
	size_t n = elf_image_symbols(image, &s);

	while (*pos < n) {
		const struct elf_symbol *one = &s[(*pos)++];

		if (one->type == STT_TLS && strstr(one->name, path) && strstr(one->name, name))
			return one;
	}
	return NULL;
}

const struct dw_type *running_local_type(struct debug *d, const char *symbol)
{
	/* LLVM adds to names of what it makes visible to other units */
	const char *cut = strstr(symbol, ".llvm.");
	char *name = cut ? strndup(symbol, (size_t)(cut - symbol)) : NULL;
	const struct dw_type *t = debug_thread_local(d, name ? name : symbol);

	free(name);
	return t;
}

/* Cell<Option<Id>>: a number, or an enum around one. 0: none. */
static uint64_t read_id(struct walk *w, const struct dw_type *t, uint64_t addr)
{
	uint64_t v;

	for (unsigned i = 0; t && i < 12; i++) {
		const struct dw_member *next = t->n_members ? &t->members[0] : NULL;

		if (t->class == DC_BASE)
			return mem_uint(w->ctx->mem, addr, (unsigned)t->size, &v) ? v : 0;
		if (t->has_variants) {
			const struct dw_variant *variant = await_variant(w, t, addr);

			if (!variant || strcmp(variant->member.name, "Some") != 0)
				return 0;
			next = &variant->member;
		}
		if (!next)
			return 0;
		addr += next->offset;
		t = dw_member_type(w->dwarf, next);
	}
	return 0;
}

static void by_context(struct inspect *in, struct inspect_object *o, struct inspect_result *r)
{
	struct walk w = {.ctx = &(struct await_context){.mem = &in->mem, .budget = &in->budget},
			 .dwarf = o->dwarf};
	const struct elf_symbol *s;
	size_t pos = 0;

	while ((s = running_local(o->object->image, "5tokio7runtime7context", "7CONTEXT", &pos))) {
		const struct dw_type *t = running_local_type(o->dwarf, s->name), *x;

		for (size_t i = 0; t && i < in->n_threads; i++) {
			uint64_t at = stacks_thread_local(&in->threads[i], o, s->addr), id;

			if (!at || !await_find_member(&w, t, at, "current_task_id", &x, &at) ||
			    !(id = read_id(&w, x, at)))
				continue;
			if (!budget_spend(&in->budget, r->n_tasks / STEP_TASKS + 1))
				return;
			for (size_t k = 0; k < r->n_tasks; k++)
				if (r->tasks[k].id == id && inspect_is_running(&r->tasks[k]) &&
				    r->tasks[k].kind->tokio)
					r->tasks[k].thread = i + 1;
		}
	}
}

/* ---- by the stack ---- */

/* Where a poll function that does nothing but jump on goes to; 0: it is none. */
static uint64_t jumps_to(const struct elf_image *image, uint64_t poll)
{
	struct insn_walk w;
	struct insn insn;

	if (!insn_walk_init(&w, image, poll, poll + 64))
		return 0;
	for (unsigned i = 0; i < MAX_HEAD && insn_next(&w, &insn); i++) {
		if (insn.flow == INSN_JUMP)
			return insn.target;
		if (insn.flow != INSN_NEXT)
			return 0;
	}
	return 0;
}

/* The outermost frame of a function; SIZE_MAX: there is none. */
static size_t frame_of(const struct inspect_stack *s, const struct inspect_object *o,
		       const uint64_t starts[2])
{
	for (size_t i = s->n_frames; i-- > 0;) {
		uint64_t pc = s->frames[i].ip, start, end;

		if (pc >= o->object->start && pc < o->object->end &&
		    elf_image_function(o->object->image, pc - o->object->bias, &start, &end) &&
		    (start == starts[0] || start == starts[1]))
			return i;
	}
	return SIZE_MAX;
}

static bool stack_has(struct inspect *in, const struct inspect_stack *s, uint64_t end,
		      uint64_t word)
{
	uint64_t v;

	if (end > s->regs.sp + STACK_BYTES)
		end = s->regs.sp + STACK_BYTES;
	if (end > s->regs.sp && !budget_spend(&in->budget, (end - s->regs.sp) / STEP_BYTES + 1))
		return false;
	for (uint64_t at = s->regs.sp & ~7ULL; at < end; at += 8)
		if (mem_u64(&in->mem, at, &v) && v == word)
			return true;
	for (size_t i = 0; i < s->regs.n_others; i++)
		if (s->regs.others[i] == word)
			return true;
	return s->regs.fp == word;
}

static void by_stack(struct inspect *in, struct inspect_task *t, bool alone)
{
	const struct inspect_object *o = t->kind->object;
	uint64_t poll = t->kind->kind->slots[TF_POLL].function;
	const uint64_t starts[2] = {poll, jumps_to(o->object->image, poll)};
	size_t n_with = 0, n_having = 0, with = 0, having = 0;

	for (size_t i = 0; i < in->n_threads; i++) {
		const struct inspect_stack *s = &in->threads[i];
		size_t frame = frame_of(s, o, starts);

		if (frame == SIZE_MAX)
			continue;
		n_with++;
		with = i;
		if (stack_has(in, s, stacks_frame_end(s, frame), t->addr)) {
			n_having++;
			having = i;
		}
	}
	if (n_having == 1)
		t->thread = having + 1;
	else if (!n_having && n_with == 1 && alone)
		t->thread = with + 1;
}

/* True unless the whole stack of the thread was copied and does not have the word. */
static bool may_have(struct inspect *in, const struct inspect_stack *s, uint64_t word)
{
	const struct process_map *map = maps_at(&in->maps, s->regs.sp);
	uint64_t end = map ? map->end : 0, v;

	if (!map || end - s->regs.sp > STACK_BYTES || stack_has(in, s, end, word))
		return true;
	/* What is copied is one piece. */
	return !in->budget.steps || !mem_u64(&in->mem, end - 8, &v);
}

/* No thread has the task's address, which the polling thread needs at the end. */
static bool runs_nowhere(struct inspect *in, const struct inspect_task *t)
{
	for (size_t i = 0; i < in->n_threads; i++)
		if (may_have(in, &in->threads[i], t->addr))
			return false;
	return in->n_threads != 0;
}

void running_find(struct inspect *in, struct inspect_result *r)
{
	size_t missed = in->mem.n_missed;

	for (size_t i = 0; i < in->n_looked; i++)
		if (in->looked[i].dwarf)
			by_context(in, &in->looked[i], r);
	for (size_t i = 0; i < r->n_tasks; i++) {
		struct inspect_task *t = &r->tasks[i];
		size_t n_alike = 0;

		if (t->thread || !inspect_is_running(t) || !t->kind->kind)
			continue;
		if (!budget_spend(&in->budget, (r->n_tasks + in->n_threads) / STEP_TASKS + 1))
			break;
		for (size_t k = 0; k < r->n_tasks; k++)
			n_alike += r->tasks[k].kind == t->kind && inspect_is_running(&r->tasks[k]);
		by_stack(in, t, n_alike == 1);
		t->ghost = !t->thread && t->kind->tokio && runs_nowhere(in, t);
	}
	in->mem.n_missed = missed;
}
