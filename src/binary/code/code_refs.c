/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding references in two steps. First the bytes of all code are searched for what looks like
 * one, with nothing decoded (code_scan.h): some tens of megabytes must pass in milliseconds, and
 * only a handful of places hit. Then each function with a hit is decoded from its start, and what
 * is an instruction there counts. Bytes that hit within a function and are no operand of an
 * instruction are chance; bytes that hit where nothing could be decoded are reported as unsure.
 */
#include "binary/code/code_refs.h"

#include "base/budget.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "binary/code/code_flow.h"
#include "binary/code/code_index.h"
#include "binary/code/code_scan.h"
#include "binary/elf/elf_image.h"
#include "binary/elf/image.h"

#include <errno.h>
#include <stdlib.h>

/* A function longer than this isn't decoded. */
#define MAX_FUNCTION_BYTES (16u << 20)
/* Instructions of functions, for each reference all of its own: real programs have some 20 million.
 */
#define MAX_JUDGED (1u << 28)

struct ref_search {
	struct elf_image *img;
	struct code_targets targets;
	enum code_refs_of wanted;
	bool fixed; /* the object is at a fixed address: code may have addresses as numbers */
	struct code_refs *out;
	size_t cap;
	uint64_t start, decoded, end; /* of the last function: decoded from its start up to there */
	uint64_t next;		      /* behind the last instruction that was added */
};

static int add(struct ref_search *s, uint64_t target, uint64_t at, enum code_ref_kind kind,
	       const struct insn *in)
{
	struct code_refs *out = s->out;

	if (s->wanted == CODE_REFS_TAKEN && kind != REF_ADDRESS && kind != REF_NUMBER)
		return 0;
	if (!GROW(out->v, out->n, s->cap))
		return -ENOMEM;
	out->v[out->n++] = (struct code_ref){
		.target = target,
		.operand = at,
		.kind = kind,
		.addr = in ? in->addr : at,
		.function = in ? s->start : 0,
		.len = in ? in->len : 0,
		.reg = !in || in->mem_written ? INSN_NO_REG : in->reg,
	};
	return 0;
}

static int add_insn(struct ref_search *s, const struct insn *in)
{
	const struct code_targets *t = &s->targets;

	if (in->addr < s->next) /* of two functions that have it, the second */
		return 0;
	s->next = in->addr + in->len;
	if (in->rel_at && in->target && code_targets_have(t, in->target))
		return add(s, in->target, in->addr + in->rel_at, REF_BRANCH, in);
	if (in->rel_at && in->ref && code_targets_have(t, in->ref))
		return add(s, in->ref, in->addr + in->rel_at,
			   in->op == INSN_LEA ? REF_ADDRESS : REF_UNSURE, in);
	if (s->fixed && in->has_imm && in->flow == INSN_NEXT && code_targets_have(t, in->imm))
		return add(s, in->imm, in->addr, REF_NUMBER, in);
	return 0;
}

static int decode_function(struct ref_search *s)
{
	struct insn_walk w;
	struct insn in;
	size_t passed;
	int r = 0;

	s->decoded = s->start;
	if (s->end - s->start > MAX_FUNCTION_BYTES || !insn_walk_init(&w, s->img, s->start, s->end))
		return 0;
	while (r == 0 && insn_next_reference(&w, &in, &passed) > 0)
		r = add_insn(s, &in);
	s->decoded = w.addr;
	if (s->next < w.addr)
		s->next = w.addr;
	return r;
}

static int candidate(void *context, const struct code_hit *hit)
{
	struct ref_search *s = context;
	int r = 0;

	if (hit->operand < s->start || hit->operand >= s->end) {
		if (!elf_image_function(s->img, hit->operand, &s->start, &s->end)) {
			s->start = s->end = 0;
			/* Zeros right before a function are what fills the gap to it. */
			return hit->target == hit->operand + 4
				       ? 0
				       : add(s, hit->target, hit->operand, REF_UNSURE, NULL);
		}
		r = decode_function(s);
	}
	return r == 0 && hit->operand >= s->decoded
		       ? add(s, hit->target, hit->operand, REF_UNSURE, NULL)
		       : r;
}

static int search_words(struct ref_search *s)
{
	const struct elf_pointer *pointers;
	size_t n = elf_image_pointers(s->img, &pointers);

	for (size_t i = 0; i < n; i++)
		if (code_targets_have(&s->targets, pointers[i].target))
			TRY(add(s, pointers[i].target, pointers[i].slot, REF_WORD, NULL));
	return 0;
}

static bool all_outside(const struct elf_image *img, const uint64_t *targets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (elf_image_is_code(img, targets[i]))
			return false;
	return true;
}

/* What takes an address of data is in the index of the code. */
static int search_index(struct ref_search *s)
{
	const struct code_index *index = code_index_of(s->img);

	return index ? code_index_takes(index, &s->targets, candidate, s) : -ENOMEM;
}

int code_refs_find(struct elf_image *img, const uint64_t *targets, size_t n_targets,
		   enum code_refs_of of, struct code_refs *ret)
{
	struct code_refs out = {0};
	struct ref_search s = {.img = img, .wanted = of, .fixed = !elf_image_pie(img), .out = &out};
	unsigned patterns = s.fixed		    ? CODE_RELATIVE | CODE_NUMBERS
			    : of == CODE_REFS_TAKEN ? CODE_TAKES
						    : CODE_RELATIVE;
	int r;

	*ret = out;
	if (!n_targets)
		return 0;
	r = code_targets_init(&s.targets, targets, n_targets);
	if (r == 0 && patterns == CODE_TAKES && all_outside(img, targets, n_targets))
		r = search_index(&s);
	else if (r == 0 && of != CODE_REFS_WORDS)
		r = code_scan(img, patterns, &s.targets, candidate, &s);
	if (r == 0 && of != CODE_REFS_TAKEN)
		r = search_words(&s);
	if (r == 0 && of != CODE_REFS_TAKEN)
		r = image_sort(out.v, out.n, sizeof(*out.v));
	if (r < 0)
		code_refs_done(&out);
	code_targets_done(&s.targets);
	*ret = out;
	return r;
}

void code_refs_done(struct code_refs *r)
{
	free(r->v);
	*r = (struct code_refs){0};
}

const struct code_ref *code_refs_of(const struct code_refs *r, uint64_t target, size_t *ret_n)
{
	size_t i = image_find(r->v, r->n, sizeof(*r->v), target, ret_n);

	return *ret_n ? &r->v[i] : NULL;
}

/*
 * A compiler may take an address once before a loop and use it in each round, or before a branch
 * and use it on one side. A hook on the instruction would then see one use only, or one too many.
 */
static void judge(struct code_flow *flow, struct code_ref *r)
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

int code_refs_judge(struct elf_image *img, struct code_refs *refs, uint64_t guard)
{
	_cleanup_(code_flow_done) struct code_flow flow = {0};
	struct budget budget;
	int r = 0;

	budget_init(&budget, MAX_JUDGED, 0);
	for (size_t i = 0; i < refs->n && r == 0; i++) {
		struct code_ref *ref = &refs->v[i];
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
