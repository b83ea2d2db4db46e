/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The calls are found by decoding the functions in which there are any. They count where they are
 * part of a function called block_on, which may be inlined into others.
 *
 * Source: tokio/src/runtime/park.rs, CachedParkThread::block_on(), 1.23 to 1.54; async-io/src/
 * driver.rs, block_on(), and futures-lite/src/future.rs, block_on(), 1 and 2;
 * parking/src/lib.rs, 2.
 */
#include "runtime/root_polls.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "binary/code/code_index.h"
#include "binary/elf/elf_image.h"
#include "binary/code/insn.h"
#include "binary/names.h"
#include "runtime/futures.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CODE = 1 << 20, MAX_ROOTS = 256, MAX_FRAME = 1 << 20 };

/* What Pin<&mut F>, &mut F lead to. */
static const struct dw_type *borrowed_by(struct debug *d, const struct dw_type *t)
{
	while (t && t->class == DC_STRUCT && t->n_members == 1)
		t = dw_member_type(d, &t->members[0]);
	return t && t->class == DC_POINTER ? dw_type_of(d, t->target_ref) : NULL;
}

const struct dw_type *root_poll_type(struct debug *d, uint64_t back, int64_t *ret_offset)
{
	const struct dw_type *found = NULL;
	struct dw_block_on b;

	/* The call's own address: the next instruction may belong to another. */
	if (!debug_block_on(d, back - 1, &b))
		return NULL;
	for (size_t i = 0; i < b.n_slots; i++) {
		const struct dw_slot *s = &b.slots[i];
		const struct dw_type *t = s->is_value && s->base == DW_BASE_SP
						  ? borrowed_by(d, dw_type_of(d, s->type_ref))
						  : NULL;
		bool is_param = false;

		for (size_t k = 0; t && dw_is_coroutine(t) && k < b.n_params && !is_param; k++)
			is_param = dw_same_type(dw_type_of(d, b.params[k].type_ref), t);
		if (!is_param || s->offset < 0 || s->offset > MAX_FRAME ||
		    t->size > MAX_FRAME - (uint64_t)s->offset)
			continue;
		if (found && (!dw_same_type(found, t) || *ret_offset != s->offset))
			return NULL; /* several places */
		found = t;
		*ret_offset = s->offset;
	}
	return found;
}

/* Has it a poll function of its own? */
static bool has_poll(const struct scan_futures *futures, const struct dw_type *t)
{
	for (size_t i = 0; i < futures->n; i++)
		if (!futures->v[i].borrowed && futures->v[i].type_key == dw_type_key(t))
			return true;
	return false;
}

static int add(struct debug *d, const struct futures_wanted *wanted,
	       const struct scan_futures *futures, struct scan_root_polls *f, uint64_t back,
	       const struct scan_park *park)
{
	struct scan_root_poll r = {
		.back = back, .returns_ready = park->returns_ready, .at_end = park->at_end};
	const struct dw_type *t;

	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].back == back)
			return 0;
	t = root_poll_type(d, back, &r.offset);
	if (!t || f->n == MAX_ROOTS || has_poll(futures, t))
		return 0;
	if ((t->discr_size != 1 && t->discr_size != 2 && t->discr_size != 4) ||
	    t->discr_size > t->size || t->discr_offset > t->size - t->discr_size)
		return 0;
	r.state_offset = t->discr_offset;
	r.state_size = t->discr_size;
	r.full_name = strdup(t->full_name);
	r.name = name_shorten(t->full_name);
	if (r.name && r.full_name && !futures_want(wanted, r.name, r.full_name)) {
		free(r.name);
		free(r.full_name);
		return 0;
	}
	r.where = dw_coroutine_where(t);
	if (!GROW_ONE(f->v, f->n) || !r.name || !r.full_name) {
		free(r.name);
		free(r.full_name);
		free(r.where);
		return -ENOMEM;
	}
	f->v[f->n++] = r;
	return 0;
}

/* ---- the calls ---- */

struct root_poll_search {
	struct elf_image *image;
	struct debug *debug;
	const struct futures_wanted *wanted;
	const struct scan_futures *futures;
	struct scan_root_polls *found;
};

const struct scan_park *root_polls_park(const struct scan_root_polls *f, uint64_t addr)
{
	for (size_t i = 0; addr && i < f->n_parks; i++)
		if (f->parks[i].addr == addr)
			return &f->parks[i];
	return NULL;
}

/* The content of a word. */
static const struct scan_park *park_in(const struct root_poll_search *s, uint64_t slot)
{
	uint64_t target;

	return slot && elf_image_pointer_at(s->image, slot, &target)
		       ? root_polls_park(s->found, target)
		       : NULL;
}

/* Several calls in a row may be made through a register: the last park that was put there. */
static int find_calls(const struct root_poll_search *s, uint64_t start, uint64_t end)
{
	const struct scan_park *regs[16] = {NULL};
	struct insn_walk walk;
	struct insn insn;

	if (end - start > MAX_CODE || !insn_walk_init(&walk, s->image, start, end))
		return 0;
	while (insn_next(&walk, &insn)) {
		const struct scan_park *park = NULL;

		if (insn.flow == INSN_CALL && insn.target)
			park = root_polls_park(s->found, insn.target);
		else if (insn.flow == INSN_CALL && insn.slot)
			park = park_in(s, insn.slot);
		else if (insn.flow == INSN_CALL && insn.source < 16 && !insn.mem_bytes)
			park = regs[insn.source];
		else if (insn.op == INSN_MOV && insn.ref && insn.reg < 16)
			regs[insn.reg] = park_in(s, insn.ref);
		if (park && !park->trouble)
			TRY(add(s->debug, s->wanted, s->futures, s->found, insn.addr + insn.len,
				park));
	}
	return 0;
}

/* The functions in which there are any. */
static int find_callers(const struct root_poll_search *s, struct code_index *calls)
{
	int rc = 0;

	for (size_t i = 0; i < s->found->n_parks; i++) {
		uint64_t start, end = 0;
		size_t n;
		const uint64_t *c = code_index_calls(calls, s->found->parks[i].addr, &n);

		for (size_t k = 0; k < n && rc == 0; k++)
			if (c[k] >= end && elf_image_function(s->image, c[k], &start, &end))
				rc = find_calls(s, start, end);
	}
	return rc;
}

/* ---- the functions by which a block_on waits, or that it calls at its end ---- */

static const struct {
	const char *of, *name;
	bool returns_ready, at_end;
} parks[] = {
	{"5tokio", "16CachedParkThread4park", false, false},
	{"7parking", "6Parker4park", false, false},
	{"7parking", "6Parker12park_timeout", true, false},
	{"7parking", "5Inner4park", true, false}, /* where those two are inlined */
	{"8async_io", "6driver8unparker", false, true},
};
_Static_assert(sizeof(parks) / sizeof(parks[0]) == ROOT_POLLS_MAX_PARKS, "parks");

/* Its name is the symbol's last part, in both ways of mangling: before the hash, or at the end. */
static bool is_named(const char *symbol, const char *of, const char *name)
{
	const char *at = strstr(symbol, of);

	at = at ? strstr(at, name) : NULL;
	at = at ? at + strlen(name) : NULL;
	return at && (!*at || *at == '.' || !strncmp(at, "17h", 3));
}

bool root_polls_is_park(const char *symbol)
{
	for (size_t k = 0; k < ROOT_POLLS_MAX_PARKS; k++)
		if (!parks[k].at_end && is_named(symbol, parks[k].of, parks[k].name))
			return true;
	return false;
}

static const struct elf_symbol *park_symbol(struct elf_image *image, size_t which)
{
	const struct elf_symbol *symbols;
	size_t n = elf_image_symbols(image, &symbols);

	for (size_t i = 0; i < n; i++)
		if (symbols[i].type == STT_FUNC &&
		    is_named(symbols[i].name, parks[which].of, parks[which].name))
			return &symbols[i];
	return NULL;
}

bool root_polls_possible(struct elf_image *image)
{
	for (size_t k = 0; k < ROOT_POLLS_MAX_PARKS; k++)
		if (!parks[k].at_end && park_symbol(image, k))
			return true;
	return false;
}

static int find_parks(struct elf_image *image, struct scan_root_polls *f)
{
	uint64_t addrs[ROOT_POLLS_MAX_PARKS];

	for (size_t k = 0; k < ROOT_POLLS_MAX_PARKS; k++) {
		const struct elf_symbol *symbol = park_symbol(image, k);
		size_t at = f->n_parks;

		if (!symbol || root_polls_park(f, symbol->addr))
			continue;
		for (; at > 0 && f->parks[at - 1].addr > symbol->addr; at--)
			f->parks[at] = f->parks[at - 1];
		f->parks[at] = (struct scan_park){.addr = symbol->addr,
						  .returns_ready = parks[k].returns_ready,
						  .at_end = parks[k].at_end};
		f->n_parks++;
	}
	for (size_t k = 0; k < f->n_parks; k++)
		addrs[k] = f->parks[k].addr;
	TRY(code_refs_find(image, addrs, f->n_parks, CODE_REFS_ALL, &f->uses));
	for (size_t k = 0; k < f->n_parks; k++) {
		size_t n;
		const struct code_ref *u = code_refs_of(&f->uses, f->parks[k].addr, &n);

		for (size_t i = 0; i < n; i++)
			if (u[i].kind != REF_WORD && u[i].kind != REF_BRANCH)
				f->parks[k].trouble = "what looks like a call of it isn't one";
	}
	return 0;
}

int root_polls_find(struct elf_image *image, struct debug *d, const struct futures_wanted *wanted,
		    const struct scan_futures *futures, struct scan_root_polls *ret)
{
	struct code_index *calls = NULL;
	const struct root_poll_search s = {image, d, wanted, futures, ret};
	int rc;

	*ret = (struct scan_root_polls){0};
	rc = d ? find_parks(image, ret) : 0;
	if (rc == 0 && ret->n_parks)
		rc = (calls = code_index_of(image)) ? find_callers(&s, calls) : -ENOMEM;
	if (rc < 0)
		root_polls_done(ret);
	return rc;
}

void root_polls_done(struct scan_root_polls *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->v[i].name);
		free(f->v[i].full_name);
		free(f->v[i].where);
	}
	free(f->v);
	code_refs_done(&f->uses);
	*f = (struct scan_root_polls){0};
}
