/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding references in two steps. First the bytes of all code are searched for the pattern, with
 * nothing decoded: some tens of megabytes must pass in milliseconds, and only a handful of places
 * hit. Then each function with a hit is decoded from its start; only what is an instruction there
 * is reported. Callers that patch them check afterwards what becomes of the addresses.
 */
#include "binary/code/refs.h"

#include "base/budget.h"
#include "base/cleanup.h"
#include "base/search.h"
#include "base/vec.h"
#include "binary/code/code_flow.h"
#include "binary/code/code_scan_x86_64.h"
#include "binary/elf/elf_image.h"

#include <errno.h>
#include <string.h>

/* A function longer than this isn't decoded. */
#define MAX_FUNCTION_BYTES (4u << 20)
/* Instructions of functions, for each reference all of its own: real programs have some 20 million.
 */
#define MAX_JUDGED (1u << 28)

struct search {
	struct elf_image *img;
	const uint64_t *targets;
	size_t n_targets;
	struct refs *out;
	size_t cap;
	uint64_t done_to; /* end of the last function that was decoded */
};

static bool wanted(const struct search *s, uint64_t addr)
{
	size_t lo;

	if (addr < s->targets[0] || addr > s->targets[s->n_targets - 1])
		return false;
	lo = PARTITION_POINT(i, 0, s->n_targets, s->targets[i] < addr);
	return lo < s->n_targets && s->targets[lo] == addr;
}

static int add_ref(struct search *s, const struct insn *in, uint64_t target, uint64_t function)
{
	struct refs *out = s->out;

	if (!GROW(out->refs, out->n, s->cap))
		return -ENOMEM;
	out->refs[out->n++] = (struct ref){
		.addr = in->addr,
		.target = target,
		.function = function,
		.len = in->len,
		.reg = in->mem_written ? INSN_NO_REG : in->reg,
		.lea = in->op == INSN_LEA,
	};
	return 0;
}

static int decode_function(struct search *s, uint64_t start, uint64_t end)
{
	struct insn_walk w;
	struct insn in;
	int r = 0;

	if (!insn_walk_init(&w, s->img, start, end))
		return 0;
	while (r == 0 && insn_next(&w, &in) > 0) {
		if (in.op == INSN_LEA && in.ref && wanted(s, in.ref))
			r = add_ref(s, &in, in.ref, start);
		else if (in.has_imm && in.flow == INSN_NEXT && wanted(s, in.imm))
			r = add_ref(s, &in, in.imm, start);
	}
	return r;
}

/* Something at addr looks like a reference. */
static int candidate(struct search *s, uint64_t addr)
{
	uint64_t start, end;

	if (addr < s->done_to)
		return 0;
	if (!elf_image_function(s->img, addr, &start, &end) || end - start > MAX_FUNCTION_BYTES) {
		s->out->n_unbounded++;
		return 0;
	}
	s->done_to = end;
	return decode_function(s, start, end);
}

static int search_lea(struct search *s, const uint8_t *code, uint64_t addr, size_t len)
{
	int r = 0;

	for (size_t i = 0; r == 0; i++) {
		int32_t disp;

		i = CODE_SCAN(code, i, len, 7, code_scan_lea, code_scan_is_lea);
		if (i >= len)
			break;
		memcpy(&disp, code + i + 3, 4);
		if (wanted(s, addr + i + 7 + (uint64_t)(int64_t)disp))
			r = candidate(s, addr + i);
	}
	return r;
}

static int search_immediates(struct search *s, const uint8_t *code, uint64_t addr, size_t len)
{
	uint64_t low = s->targets[0], high = s->targets[s->n_targets - 1];
	uint32_t base, width;

	if (high > INT32_MAX)
		return 0;
	base = (uint32_t)low;
	width = (uint32_t)(high - low);
	for (size_t i = 0; i + 4 <= len; i++) {
		uint32_t value;
		int r;

		memcpy(&value, code + i, 4);
		if (value - base > width || !wanted(s, value))
			continue;
		r = candidate(s, addr + i);
		if (r < 0)
			return r;
	}
	return 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct ref *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

int refs_find(struct elf_image *img, const uint64_t *targets, size_t n_targets, struct refs *ret)
{
	struct refs out = {0};
	struct search s = {.img = img, .targets = targets, .n_targets = n_targets, .out = &out};
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; n_targets > 0 && i < elf_image_n_code(img) && r == 0; i++) {
		uint64_t start, end;
		const uint8_t *code;
		size_t left;

		elf_image_code(img, i, &start, &end);
		code = elf_image_bytes(img, start, &left);
		if (!code)
			continue;
		if (left > end - start)
			left = end - start;
		s.done_to = 0;
		r = search_lea(&s, code, start, left);
		s.done_to = 0;
		if (r == 0 && !elf_image_pie(img))
			r = search_immediates(&s, code, start, left);
	}
	if (r < 0) {
		refs_done(&out);
		return r;
	}
	/* A function with both forms was decoded twice. */
	if (out.n)
		qsort(out.refs, out.n, sizeof(*out.refs), by_addr);
	for (size_t i = 0; i < out.n; i++) {
		if (n == 0 || out.refs[n - 1].addr != out.refs[i].addr)
			out.refs[n++] = out.refs[i];
	}
	out.n = n;
	*ret = out;
	return 0;
}

/*
 * A compiler may take an address once before a loop and use it in each round, or before a branch
 * and use it on one side. A hook on the instruction would then see one use only, or one too many.
 */
static void judge(struct code_flow *flow, struct ref *r)
{
	struct code_value v = code_flow_value(flow, r->addr, r->reg);

	r->reused = v.fate == VALUE_REUSED;
	r->spared = v.fate == VALUE_SPARED;
	r->guarded = v.guarded;
	for (size_t i = 0; i < flow->n; i++) {
		const struct insn *in = &flow->insns[i];

		if (in->flow != INSN_CALL && in->target > r->addr && in->target < r->addr + r->len)
			r->jumped_into = true;
	}
}

static bool is_guard(uint64_t constant, void *opaque)
{
	return constant == *(uint64_t *)opaque;
}

int refs_judge(struct elf_image *img, struct refs *refs, uint64_t guard)
{
	_cleanup_(code_flow_done) struct code_flow flow = {0};
	struct budget budget;
	int r = 0;

	budget_init(&budget, MAX_JUDGED, 0);
	for (size_t i = 0; i < refs->n && r == 0; i++) {
		struct ref *ref = &refs->refs[i];
		uint64_t start, end;
		bool any;

		if (!elf_image_function(img, ref->addr, &start, &end))
			continue;
		if (!flow.n || flow.insns[0].addr != start) {
			r = code_flow_read(&flow, img, start, end);
			if (r == 0 && guard)
				r = code_flow_guard(&flow, is_guard, &guard, &any);
		}
		/* What isn't looked at isn't patched. */
		ref->spared = true;
		if (r == 0 && budget_spend(&budget, flow.n))
			judge(&flow, ref);
	}
	return r;
}

void refs_done(struct refs *r)
{
	free(r->refs);
	*r = (struct refs){0};
}
