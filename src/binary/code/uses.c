/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Finding uses in two steps, as refs.c does. First every four bytes of code are taken for a
 * displacement and looked up in a bitmap of the wanted addresses, with nothing decoded. Then each
 * function with a hit is decoded from its start, and what is an instruction there counts. Bytes
 * that hit within a function and are no displacement of an instruction are chance; bytes that hit
 * where nothing could be decoded are reported as unsure.
 */
#include "binary/code/uses.h"

#include "base/cleanup.h"
#include "base/vec.h"
#include "binary/elf/elf_image.h"
#include "binary/elf/image.h"
#include "binary/code/insn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FUNCTION_BYTES (16u << 20)
#define MAX_SPAN (1ull << 32) /* of all wanted addresses */

struct search {
	struct elf_image *img;
	uint64_t low, span; /* bit i of the map: is low + i wanted? */
	uint64_t *map;
	struct uses *out;
	size_t cap;
	uint64_t start, decoded, end; /* of the last function: decoded from its start up to there */
};

static bool wanted(const struct search *s, uint64_t addr)
{
	uint64_t i = addr - s->low;

	return i < s->span && s->map[i / 64] >> (i % 64) & 1;
}

static int add(struct search *s, uint64_t target, uint64_t at, enum use_kind kind)
{
	struct uses *out = s->out;

	if (!GROW(out->uses, out->n, s->cap))
		return -ENOMEM;
	out->uses[out->n++] = (struct use){.target = target, .at = at, .kind = kind};
	return 0;
}

static int decode_function(struct search *s)
{
	bool fixed = !elf_image_pie(s->img);
	struct insn_walk w;
	struct insn in;
	int r = 0;

	s->decoded = s->start;
	if (s->end - s->start > MAX_FUNCTION_BYTES || !insn_walk_init(&w, s->img, s->start, s->end))
		return 0;
	while (r == 0 && insn_next(&w, &in) > 0) {
		if (in.rel_at && in.target && wanted(s, in.target))
			r = add(s, in.target, in.addr + in.rel_at, USE_BRANCH);
		else if (in.rel_at && in.ref && wanted(s, in.ref))
			r = add(s, in.ref, in.addr + in.rel_at,
				in.op == INSN_LEA ? USE_ADDRESS : USE_UNSURE);
		else if (fixed && in.has_imm && in.flow == INSN_NEXT && wanted(s, in.imm))
			r = add(s, in.imm, in.addr, USE_NUMBER);
	}
	s->decoded = w.at;
	return r;
}

/* The four bytes at `at` look like a use of `target`. */
static int candidate(struct search *s, uint64_t target, uint64_t at)
{
	int r = 0;

	if (at < s->start || at >= s->end) {
		if (!elf_image_function(s->img, at, &s->start, &s->end)) {
			s->start = s->end = 0;
			/* Zeros right before a function are what fills the gap to it. */
			return target == at + 4 ? 0 : add(s, target, at, USE_UNSURE);
		}
		r = decode_function(s);
	}
	return r == 0 && at >= s->decoded ? add(s, target, at, USE_UNSURE) : r;
}

static int search_code(struct search *s, const uint8_t *code, uint64_t addr, size_t len)
{
	bool fixed = !elf_image_pie(s->img);

	for (size_t i = 0; i + 4 <= len; i++) {
		int32_t disp;
		int r = 0;

		memcpy(&disp, code + i, 4);
		uint64_t target = addr + i + 4 + (uint64_t)(int64_t)disp;
		if (wanted(s, target))
			r = candidate(s, target, addr + i);
		else if (fixed && wanted(s, (uint32_t)disp))
			r = candidate(s, (uint32_t)disp, addr + i);
		if (r < 0)
			return r;
	}
	return 0;
}

static int search_words(struct search *s)
{
	const struct elf_pointer *pointers;
	size_t n = elf_image_pointers(s->img, &pointers);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		if (wanted(s, pointers[i].target))
			r = add(s, pointers[i].target, pointers[i].slot, USE_WORD);
	return r;
}

int uses_find(struct elf_image *img, const uint64_t *targets, size_t n_targets,
	      struct uses *ret_uses)
{
	struct uses out = {0};
	struct search s = {.img = img, .out = &out};
	_cleanup_free_ uint64_t *map = NULL;
	int r = 0;

	*ret_uses = out;
	if (!n_targets)
		return 0;
	s.low = targets[0];
	s.span = targets[n_targets - 1] - s.low + 1;
	if (s.span > MAX_SPAN)
		return -E2BIG;
	map = calloc(s.span / 64 + 1, sizeof(*map));
	if (!map)
		return -ENOMEM;
	s.map = map;
	for (size_t i = 0; i < n_targets; i++) {
		uint64_t bit = targets[i] - s.low;

		map[bit / 64] |= 1ull << (bit % 64);
	}
	for (size_t i = 0; i < elf_image_n_code(img) && r == 0; i++) {
		uint64_t start, end;
		const uint8_t *code;
		size_t left;

		elf_image_code(img, i, &start, &end);
		code = elf_image_bytes(img, start, &left);
		if (!code)
			continue;
		s.start = s.end = 0;
		r = search_code(&s, code, start, left < end - start ? left : end - start);
	}
	if (r == 0)
		r = search_words(&s);
	if (r == 0)
		r = image_sort(out.uses, out.n, sizeof(*out.uses));
	if (r < 0)
		uses_done(&out);
	*ret_uses = out;
	return r;
}

void uses_done(struct uses *u)
{
	free(u->uses);
	*u = (struct uses){0};
}

const struct use *uses_of(const struct uses *u, uint64_t target, size_t *ret_n)
{
	size_t i = image_find(u->uses, u->n, sizeof(*u->uses), target, ret_n);

	return *ret_n ? &u->uses[i] : NULL;
}
