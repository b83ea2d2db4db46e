/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A function is decoded in a straight line from its start: compilers of the programs that pollux
 * looks at put no data between instructions (jump tables are in read-only data), and a byte that
 * doesn't decode ends the walk, so nothing after it is trusted.
 */
#include "binary/code/insn.h"

#include "binary/elf/elf_image.h"
#include "binary/machine.h"

bool insn_walk_init(struct insn_walk *w, const struct elf_image *img, uint64_t start, uint64_t end)
{
	size_t left;

	w->bytes = elf_image_bytes(img, start, &left);
	if (!w->bytes || end <= start)
		return false;
	w->machine = elf_image_machine(img);
	w->addr = start;
	w->end = end - start < left ? end : start + left;
	return true;
}

static void begin(const struct insn_walk *w, struct insn *ret)
{
	*ret = (struct insn){
		.addr = w->addr,
		.reg = INSN_NO_REG,
		.source = INSN_NO_REG,
		.base = INSN_NO_REG,
	};
}

static void advance(struct insn_walk *w, size_t len)
{
	w->addr += len;
	w->bytes += len;
}

int insn_next(struct insn_walk *w, struct insn *ret)
{
	if (w->addr >= w->end)
		return 0;
	begin(w, ret);
	if (!w->machine->decode(w->bytes, w->end - w->addr, ret))
		return 0;
	advance(w, ret->len);
	return 1;
}

int insn_next_reference(struct insn_walk *w, struct insn *ret, size_t *ret_passed)
{
	for (*ret_passed = 0; w->addr < w->end; (*ret_passed)++) {
		size_t left = w->end - w->addr, len = w->machine->length(w->bytes, left);
		bool passed = true;

		if (!len) {
			begin(w, ret);
			if (!w->machine->decode_reference(w->bytes, left, ret, &passed))
				return 0;
			len = ret->len;
		}
		advance(w, len);
		if (!passed)
			return 1;
	}
	return 0;
}

bool insn_pushed(const struct elf_image *img, uint64_t start, uint64_t end, uint64_t *ret_bytes)
{
	struct insn_walk w;
	struct insn in;
	uint64_t bytes = 0;
	uint8_t sp = elf_image_machine(img)->sp;

	*ret_bytes = 0;
	if (start == end)
		return true;
	if (!insn_walk_init(&w, img, start, end))
		return false;
	while (insn_next(&w, &in) && in.flow == INSN_NEXT) {
		if (!(in.writes & 1u << sp))
			continue;
		if (in.op == INSN_PUSH && in.reg != sp)
			bytes += 8;
		else if (in.op == INSN_SUB && in.reg == sp && in.has_imm)
			bytes += in.imm;
		else if (in.op == INSN_ADD && in.reg == sp && in.has_imm)
			bytes -= in.imm;
		else
			return false;
	}
	*ret_bytes = bytes;
	return true;
}

bool insn_behind_call(const struct elf_image *img, uint64_t addr)
{
	const struct machine *m = elf_image_machine(img);

	for (unsigned len = m->min_call; len <= m->max_call && len < addr; len++) {
		struct insn_walk w;
		struct insn in;

		if (insn_walk_init(&w, img, addr - len, addr) && insn_next(&w, &in) &&
		    in.len == len && in.flow == INSN_CALL)
			return true;
	}
	return false;
}
