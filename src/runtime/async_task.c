/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * async-task 4.x, the task under async-std, smol, async-executor, async-global-executor and
 * blocking.
 *
 * A task's header points at a static TaskVTable of its kind (agent/runtime_async_task.h). Its last
 * word, layout_info, points at { Layout { align, size }, offset_s, offset_f, offset_r }, kept by
 * its authors for debuggers: a strong check. The header is repr(Rust), so the places of its two
 * words that the agent needs are read from the code of this very binary, or left open
 * (OFFSET_UNKNOWN) for the agent to find: clone_waker adds one reference (0x100) to the state; the
 * code that makes a task stores the table's address and the first state (0x111) into the same
 * object.
 *
 * A waker's table is one whose first word is a kind's clone_waker. Where the optimiser saw the
 * waker being made it calls past the table.
 */
#include "agent/runtime_async_task.h"
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/error.h"
#include "binary/code/code_refs.h"
#include "binary/machine.h"
#include "runtime/callers.h"
#include "runtime/find.h"
#include "runtime/kind_name.h"
#include "runtime/root_polls.h"
#include "runtime/tables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER_BYTES 64u
#define HEAD 48u

/* { align, size, offset_s, offset_f, offset_r }; Layout's two words in either order. */
static bool is_layout_info(const struct elf_image *image, uint64_t addr)
{
	uint64_t w[5];

	for (size_t i = 0; i < 5; i++) {
		if (!tables_word(image, addr + i * 8, &w[i]))
			return false;
	}
	if (w[0] > w[1]) {
		uint64_t size = w[0];

		w[0] = w[1];
		w[1] = size;
	}
	return w[0] > 0 && (w[0] & (w[0] - 1)) == 0 && w[0] <= 4096 && w[1] % w[0] == 0 &&
	       w[1] < (1ULL << 40) && w[2] >= 24 && w[2] <= w[3] && w[3] == w[4] && w[3] <= w[1];
}

static bool has_layout_info(struct elf_image *image, uint64_t vtable)
{
	uint64_t info;

	return elf_image_pointer_at(image, vtable + 8 * ASYNC_SLOT_LAYOUT_INFO, &info) &&
	       is_layout_info(image, info);
}

static bool is_run(struct elf_image *image, uint64_t function)
{
	const struct elf_symbol *s = find_symbol(image, function, "10async_task3raw");
	const char *hit = s ? strstr(s->name, "3run") : NULL;

	/* The method's name comes last: before the hash (legacy) or what instantiates it (v0). */
	return hit && (strncmp(hit, "3run17h", 7) == 0 || strncmp(s->name, "_R", 2) == 0);
}

static int find_tables(struct elf_image *image, struct tables *ret)
{
	const struct elf_pointer *p;
	size_t n = elf_image_pointers(image, &p);
	bool symbols = elf_image_has_symtab(image);

	for (size_t i = 0; i + ASYNC_N_FUNCTIONS <= n; i++) {
		int r;

		if (symbols && !is_run(image, p[i + ASYNC_SLOT_RUN].target))
			continue;
		if (!tables_run(image, p + i, n - i, ASYNC_N_FUNCTIONS, !symbols) ||
		    (!symbols && !has_layout_info(image, p[i].slot))) {
			ret->n_other_layout += symbols;
			continue;
		}
		r = tables_add(ret, p[i].slot);
		if (r < 0)
			return r;
		i += ASYNC_N_FUNCTIONS - 1;
	}
	return 0;
}

/* Where clone_waker adds a reference: `lock xadd %rax, off(%rdi)` or `lock add $0x100, off(%rdi)`;
 * unoptimised: `add $off, %rdi; mov $0x100, %esi; ..; call`. */
static uint16_t state_offset(struct elf_image *image, uint64_t clone_waker)
{
	const struct machine *m = elf_image_machine(image);
	struct insn in[HEAD];
	size_t n = tables_head(image, clone_waker, in, HEAD);
	bool reference = false;

	for (size_t i = 0; i < n; i++) {
		reference = reference || (in[i].has_imm && in[i].imm == ASYNC_REFERENCE);
		if (in[i].op == INSN_LOCKED)
			return reference && in[i].has_disp && in[i].disp >= 0 &&
					       in[i].disp < MAX_HEADER_BYTES
				       ? (uint16_t)in[i].disp
				       : OFFSET_UNKNOWN;
		if (i > 0 && in[i].op == INSN_MOV && in[i].has_imm &&
		    in[i].imm == ASYNC_REFERENCE && in[i].reg == m->args[1] &&
		    in[i - 1].op == INSN_ADD && in[i - 1].reg == m->args[0] && in[i - 1].has_imm &&
		    in[i - 1].imm < MAX_HEADER_BYTES)
			return (uint16_t)in[i - 1].imm;
	}
	return OFFSET_UNKNOWN;
}

/* From the code after a spawn site: the table's address and the first state are stored through the
 * same register; the difference of the two places and the state's own give the table's. */
static uint16_t vtable_offset(struct elf_image *image, const struct code_ref *ref, uint16_t state)
{
	uint64_t start, end;
	struct insn_walk w;
	struct insn in, table = {0}, first = {0};

	if (state == OFFSET_UNKNOWN || !elf_image_function(image, ref->addr, &start, &end) ||
	    !insn_walk_init(&w, image, ref->addr, end))
		return OFFSET_UNKNOWN;
	for (size_t i = 0; i < HEAD && insn_next(&w, &in) > 0; i++) {
		bool stores = in.op == INSN_MOV && in.mem_written && in.has_disp;

		/* `lea; mov %reg, off(..)`, or one `movq $table, off(..)`. */
		if (stores && !table.len &&
		    (in.addr == ref->addr || (!in.has_imm && in.source == ref->reg)))
			table = in;
		else if (stores && in.has_imm && in.imm == ASYNC_FIRST_STATE)
			first = in;
		if (table.len && first.len) {
			int64_t offset = state + table.disp - first.disp;

			return table.base == first.base && offset >= 0 && offset % 8 == 0 &&
					       offset < MAX_HEADER_BYTES
				       ? (uint16_t)offset
				       : OFFSET_UNKNOWN;
		}
	}
	return OFFSET_UNKNOWN;
}

static const enum task_function functions[ASYNC_N_FUNCTIONS] = {
	[ASYNC_SLOT_SCHEDULE] = TF_SCHEDULE,
	[ASYNC_SLOT_DROP_FUTURE] = TF_DROP_FUTURE,
	[ASYNC_SLOT_GET_OUTPUT] = TF_READ,
	[ASYNC_SLOT_DROP_REF] = TF_DROP_REF,
	[ASYNC_SLOT_DESTROY] = TF_FREE,
	[ASYNC_SLOT_RUN] = TF_POLL,
	[ASYNC_SLOT_CLONE_WAKER] = TF_CLONE_WAKER,
};

static int add_kind(struct elf_image *image, struct runtime_scan *f, uint32_t runtime,
		    uint64_t vtable)
{
	struct scan_kind *k = find_add_kind(f);

	if (!k)
		return -ENOMEM;
	*k = (struct scan_kind){
		.runtime = runtime,
		.role = TR_TASK,
		.vtable = vtable,
		.vtable_offset = OFFSET_UNKNOWN,
	};
	if (!tables_read_slots(image, vtable, functions, ASYNC_N_FUNCTIONS, k->slots))
		return -EINVAL;
	k->state_offset = state_offset(image, k->slots[TF_CLONE_WAKER].function);
	return 0;
}

/* All sites of a kind must agree. */
static void set_vtable_offsets(struct elf_image *image, struct runtime_scan *f, size_t first_kind,
			       const struct code_refs *refs)
{
	for (size_t i = 0; i < f->n_kinds - first_kind; i++) {
		struct scan_kind *k = &f->kinds[first_kind + i];
		bool first = true;

		for (size_t j = 0; j < refs->n; j++) {
			uint16_t offset;

			if (refs->v[j].target != k->vtable)
				continue;
			offset = vtable_offset(image, &refs->v[j], k->state_offset);
			if (!first && offset != k->vtable_offset)
				offset = OFFSET_UNKNOWN;
			k->vtable_offset = offset;
			first = false;
		}
	}
}

static bool in_tables(const struct tables *t, uint64_t slot)
{
	for (size_t i = 0; i < t->n; i++) {
		if (slot >= t->addrs[i] && slot < t->addrs[i] + 8 * ASYNC_N_FUNCTIONS)
			return true;
	}
	return false;
}

/* { clone_waker, wake, wake_by_ref, drop_waker }: the first is one of the kinds', and gives its
 * clone this very table. */
static int add_wakers(struct elf_image *image, struct runtime_scan *f, uint32_t runtime,
		      const struct tables *t, size_t *ret_n)
{
	uint64_t *clones = calloc(t->n, sizeof(*clones));
	const struct elf_pointer *p;
	size_t n = elf_image_pointers(image, &p);
	int r = clones ? 0 : -ENOMEM;

	*ret_n = 0;
	for (size_t i = 0; clones && i < t->n; i++)
		elf_image_pointer_at(image, t->addrs[i] + 8 * ASYNC_SLOT_CLONE_WAKER, &clones[i]);
	if (clones)
		qsort(clones, t->n, sizeof(*clones), compare_u64);
	for (size_t i = 0; i + 4 <= n && r == 0; i++) {
		struct scan_waker *w;

		if (!bsearch(&p[i].target, clones, t->n, sizeof(*clones), compare_u64) ||
		    in_tables(t, p[i].slot) || !tables_run(image, p + i, n - i, 4, false) ||
		    !tables_takes(image, p[i].target, p[i].slot))
			continue;
		w = find_add_waker(f);
		if (!w) {
			r = -ENOMEM;
			break;
		}
		*w = (struct scan_waker){
			.runtime = runtime,
			.vtable = p[i].slot,
			.wake = {p[i + 1].slot, p[i + 1].target},
			.wake_by_ref = {p[i + 2].slot, p[i + 2].target},
			.name = strdup("task"),
		};
		r = w->name ? 0 : -ENOMEM;
		(*ret_n)++;
	}
	free(clones);
	return r;
}

/* The waker that the function is of; NULL: none. */
static struct scan_waker *waker_of(struct runtime_scan *f, size_t first, uint64_t function)
{
	for (size_t i = first; i < f->n_wakers; i++)
		if (f->wakers[i].wake.function == function ||
		    f->wakers[i].wake_by_ref.function == function)
			return &f->wakers[i];
	return NULL;
}

/* Calls past the tables. One of these functions may call the other: that is one wake. */
static int find_direct(struct elf_image *image, struct runtime_scan *f, size_t first)
{
	_cleanup_(code_refs_done) struct code_refs uses = {0};
	size_t n = 2 * (f->n_wakers - first), n_targets = 0;
	_cleanup_free_ uint64_t *targets = calloc(n + 1, sizeof(*targets));
	uint64_t start, end;
	int r = targets ? 0 : -ENOMEM;

	for (size_t i = first; i < f->n_wakers && targets; i++) {
		targets[n_targets++] = f->wakers[i].wake.function;
		targets[n_targets++] = f->wakers[i].wake_by_ref.function;
	}
	if (n_targets) {
		qsort(targets, n_targets, sizeof(*targets), compare_u64);
		r = code_refs_find(image, targets, n_targets, CODE_REFS_ALL, &uses);
	}
	for (size_t i = 0; r == 0 && i < uses.n; i++) {
		const struct code_ref *u = &uses.v[i];
		struct scan_waker *w = waker_of(f, first, u->target);
		struct scan_direct *d;

		if (u->kind != REF_BRANCH || !w ||
		    !elf_image_function(image, u->operand, &start, &end) ||
		    waker_of(f, first, start))
			continue;
		d = find_add_direct(w);
		if (!d)
			return -ENOMEM;
		*d = (struct scan_direct){u->operand, u->target};
	}
	return r;
}

static int cover(struct runtime_scan *f, size_t first_kind, size_t n_wakers)
{
	size_t n = f->n_kinds - first_kind, placed = 0;

	for (size_t i = first_kind; i < f->n_kinds; i++)
		placed += f->kinds[i].vtable_offset != OFFSET_UNKNOWN &&
			  f->kinds[i].state_offset != OFFSET_UNKNOWN;
	TRY(find_cover(f, "async-task task tables", n, n, "%s", ""));
	TRY(find_cover(f, "task wakers", n_wakers, n_wakers ? n_wakers : 1, "%s",
		       n_wakers ? "" : "no table of wakers was found"));
	return find_cover_as(f, TRACE_COVER_TASK_HEADERS, "task header layouts", placed, n, "%s",
			     placed == n ? ""
					 : "the code doesn't show it; the agent finds it when "
					   "such a task runs first");
}

/* The block_on of async-std, smol and futures-lite is no task; a program may also have none, as one
 * that uses `blocking` only. */
static int cover_block_on(struct elf_image *image, struct runtime_scan *f)
{
	if (!f->has_symbols)
		return find_cover(f, COVER_ASYNC_BLOCK_ON, 0, 1,
				  "without symbols it isn't known where one is");
	return root_polls_possible(image)
		       ? find_cover(f, COVER_ASYNC_BLOCK_ON, 0, 1,
				    "what it polls is recorded by --futures if there is debug "
				    "information: set debug = true in [profile.release]")
		       : 0;
}

static int find(struct elf_image *image, struct runtime_scan *f, struct error *err)
{
	__attribute__((cleanup(tables_done))) struct tables t = {0};
	__attribute__((cleanup(code_refs_done))) struct code_refs refs = {0};
	size_t first_kind = f->n_kinds, first_waker = f->n_wakers, n_wakers;
	uint32_t runtime = (uint32_t)f->n_runtimes;

	(void)err;
	TRY(find_tables(image, &t));
	if (t.n == 0 && t.n_other_layout > 0)
		return find_cover(f, "async-task task tables", 0, t.n_other_layout,
				  "their layout is not one of async-task 4.0 to 4.7");
	if (t.n == 0 && !f->n_kinds && !f->coverage.n && root_polls_possible(image))
		return find_cover(f, "tasks", 0, 0,
				  "no task is spawned in it; what its block_on polls is shown by "
				  "record --futures if it has debug information");
	if (t.n > 0)
		TRY(code_refs_find(image, t.addrs, t.n, CODE_REFS_TAKEN, &refs));
	if (!elf_image_has_symtab(image))
		tables_keep_used(&t, &refs);
	TRY(code_refs_judge(image, &refs, 0));
	if (t.n == 0)
		return 0;
	int r = find_add_runtime(image, f, TASK_ASYNC_TASK,
				 f->has_symbols
					 ? "symbols"
					 : "shape, layout_info and the code that takes each table");
	for (size_t i = 0; i < t.n && r == 0; i++)
		r = add_kind(image, f, runtime, t.addrs[i]);
	if (r == 0)
		r = tables_add_sites(image, f, first_kind, &refs);
	if (r < 0)
		return r;
	set_vtable_offsets(image, f, first_kind, &refs);
	TRY(add_wakers(image, f, runtime, &t, &n_wakers));
	TRY(find_direct(image, f, first_waker));
	TRY(cover(f, first_kind, n_wakers));
	TRY(cover_block_on(image, f));
	TRY(kind_names_async_task(image, f, first_kind));
	return callers_find(image, f, first_kind, first_waker);
}

const struct runtime_ops runtime_async_task = {"async-task", find};
