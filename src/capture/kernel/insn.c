/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * At which instruction a probe may be.
 *
 * The kernel puts a breakpoint there and does what the instruction would have done. Pushes, jumps,
 * calls and nops it emulates; others it executes out of line, one step of the CPU, which costs a
 * second exception (1 us, 25 us in some virtual machines). An instruction with a lock or a segment
 * prefix it refuses, and with it everything that was to be attached in the same call
 * (arch/x86/kernel/uprobes.c: is_prefix_bad, branch_setup_xol_ops, push_setup_xol_ops).
 *
 * So a probe moves on to the next emulated instruction if there is one in the same straight run of
 * code: no branch leads in between, and what the probe reads is still there.
 */
#include "base/cleanup.h"
#include "base/vec.h"
#include "binary/code/insn.h"
#include "capture/kernel/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STEPS 64
#define MAX_FUNCTION (1u << 20)

static bool is_legacy_prefix(uint8_t b)
{
	return b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0xf0 || b == 0x64 ||
	       b == 0x65 || b == 0x66 || b == 0x67 || b == 0xf2 || b == 0xf3;
}

/* Those that the kernel knows it can't step over. */
static bool is_bad_opcode(uint8_t b)
{
	return (b >= 0xc4 && b <= 0xc5) || (b >= 0xcc && b <= 0xcf) || (b >= 0x6c && b <= 0x6f) ||
	       (b >= 0xe4 && b <= 0xe7) || (b >= 0xec && b <= 0xef) || b == 0x62 || b == 0xf1 ||
	       b == 0xf4 || b == 0xfa || b == 0xfb;
}

enum kernel_insn kernel_insn_class(const uint8_t *bytes, size_t len)
{
	bool operand_size = false, prefixed = false, rex = false;
	uint8_t rex_byte = 0;
	size_t i = 0;

	for (; i < len && is_legacy_prefix(bytes[i]); i++) {
		uint8_t b = bytes[i];

		if (b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0xf0)
			return KI_REFUSED;
		operand_size = operand_size || b == 0x66;
		prefixed = true;
	}
	if (i < len && (bytes[i] & 0xf0) == 0x40) {
		rex = true;
		rex_byte = bytes[i++];
	}
	if (i == len)
		return KI_REFUSED;

	uint8_t op = bytes[i], second = i + 1 < len ? bytes[i + 1] : 0;

	if (op >= 0x50 && op <= 0x57 && !prefixed && (!rex || rex_byte == 0x41))
		return KI_EMULATED;
	if (op == 0xe8 || op == 0xe9 || op == 0xeb || (op >= 0x70 && op <= 0x7f) ||
	    (op == 0x0f && second >= 0x80 && second <= 0x8f))
		return operand_size ? KI_REFUSED : KI_EMULATED;
	if (op == 0x90 && !rex && !prefixed)
		return KI_EMULATED;
	/* The five bytes that compilers are asked to leave for tracers. */
	if (len == 5 && !memcmp(bytes, "\x0f\x1f\x44\x00\x00", 5))
		return KI_EMULATED;
	return is_bad_opcode(op) ? KI_REFUSED : KI_STEPPED;
}

/* Where direct branches of a function lead; false: it has others, too, or can't be read. */
static bool branch_targets(struct elf_image *image, uint64_t start, uint64_t end, uint64_t **ret,
			   size_t *ret_n)
{
	uint64_t *v = NULL;
	size_t n = 0, cap = 0;
	struct insn_walk w;
	struct insn in;

	if (end - start > MAX_FUNCTION || !insn_walk_init(&w, image, start, end))
		return false;
	while (insn_next(&w, &in) > 0) {
		if (in.flow != INSN_JUMP && in.flow != INSN_BRANCH)
			continue;
		/* By a table of addresses: or, through a word of the GOT, to another function. */
		if (!in.target && !in.slot)
			goto fail;
		if (!GROW(v, n, cap))
			goto fail;
		v[n++] = in.target;
	}
	if (w.at != end)
		goto fail;
	*ret = v;
	*ret_n = n;
	return true;
fail:
	free(v);
	return false;
}

static bool leads_between(const uint64_t *targets, size_t n, uint64_t after, uint64_t to)
{
	for (size_t i = 0; i < n; i++)
		if (targets[i] > after && targets[i] <= to)
			return true;
	return false;
}

enum kernel_insn kernel_insn_place(struct elf_image *image, uint64_t addr, uint16_t keep,
				   uint64_t *ret_addr)
{
	_cleanup_free_ uint64_t *targets = NULL;
	enum kernel_insn first = KI_REFUSED;
	uint64_t start, end;
	size_t n_targets = 0;
	struct insn_walk w;
	struct insn in;

	*ret_addr = addr;
	if (!elf_image_function(image, addr, &start, &end) ||
	    !insn_walk_init(&w, image, addr, end)) {
		size_t left;
		const uint8_t *bytes = elf_image_bytes(image, addr, &left);

		/* A function of unknown end: its first instruction at least. */
		if (!bytes || !insn_walk_init(&w, image, addr, addr + (left < 15 ? left : 15)) ||
		    insn_next(&w, &in) <= 0)
			return KI_REFUSED;
		return kernel_insn_class(bytes, in.len);
	}
	for (int i = 0; i < MAX_STEPS; i++) {
		const uint8_t *bytes = w.bytes;
		enum kernel_insn class;

		if (insn_next(&w, &in) <= 0)
			break;
		class = kernel_insn_class(bytes, in.len);
		if (i == 0)
			first = class;
		if (class == KI_EMULATED) {
			if (i > 0 && (!branch_targets(image, start, end, &targets, &n_targets) ||
				      leads_between(targets, n_targets, addr, in.addr)))
				break;
			*ret_addr = in.addr;
			return KI_EMULATED;
		}
		/* Behind a call through memory nothing of the registers is as it was. */
		if (in.flow == INSN_CALL ? keep != 0 : in.flow != INSN_NEXT || in.writes & keep)
			break;
	}
	return first;
}

int kernel_insn_returns(struct elf_image *image, uint64_t start, uint64_t end, uint64_t **ret,
			size_t *ret_n, bool *ret_leaves)
{
	uint64_t *v = NULL;
	size_t n = 0;
	struct insn_walk w;
	struct insn in;

	*ret_leaves = false;
	if (!insn_walk_init(&w, image, start, end))
		return -EINVAL;
	for (;;) {
		const uint8_t *bytes = w.bytes;

		if (insn_next(&w, &in) <= 0)
			break;
		if ((in.flow == INSN_JUMP || in.flow == INSN_BRANCH) && in.target &&
		    (in.target < start || in.target >= end))
			*ret_leaves = true;
		if (in.flow == INSN_JUMP && in.slot)
			*ret_leaves = true;
		if (in.flow != INSN_END ||
		    !(bytes[0] == 0xc3 || bytes[0] == 0xc2 || (in.len == 2 && bytes[1] == 0xc3)))
			continue;
		if (!GROW_ONE(v, n)) {
			free(v);
			return -ENOMEM;
		}
		v[n++] = in.addr;
	}
	*ret = v;
	*ret_n = n;
	return 0;
}
