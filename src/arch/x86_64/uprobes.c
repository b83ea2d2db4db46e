/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel puts a breakpoint there and does what the instruction would have done. Pushes, jumps,
 * calls and nops it emulates; others it executes out of line. An instruction with a lock or a
 * segment prefix it refuses (arch/x86/kernel/uprobes.c: is_prefix_bad, branch_setup_xol_ops,
 * push_setup_xol_ops).
 */
#include "arch/uprobes.h"

#include "arch/arch.h"

#include <string.h>

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

enum arch_uprobe arch_uprobe_of(const uint8_t *bytes, size_t len)
{
	bool operand_size = false, prefixed = false, rex = false;
	uint8_t rex_byte = 0;
	size_t i = 0;

	for (; i < len && is_legacy_prefix(bytes[i]); i++) {
		uint8_t b = bytes[i];

		if (b == 0x26 || b == 0x2e || b == 0x36 || b == 0x3e || b == 0xf0)
			return UPROBE_REFUSED;
		operand_size = operand_size || b == 0x66;
		prefixed = true;
	}
	if (i < len && (bytes[i] & 0xf0) == 0x40) {
		rex = true;
		rex_byte = bytes[i++];
	}
	if (i == len)
		return UPROBE_REFUSED;

	uint8_t op = bytes[i], second = i + 1 < len ? bytes[i + 1] : 0;

	if (op >= 0x50 && op <= 0x57 && !prefixed && (!rex || rex_byte == 0x41))
		return UPROBE_EMULATED;
	if (op == 0xe8 || op == 0xe9 || op == 0xeb || (op >= 0x70 && op <= 0x7f) ||
	    (op == 0x0f && second >= 0x80 && second <= 0x8f))
		return operand_size ? UPROBE_REFUSED : UPROBE_EMULATED;
	if (op == 0x90 && !rex && !prefixed)
		return UPROBE_EMULATED;
	/* The five bytes that compilers are asked to leave for tracers. */
	if (len == 5 && !memcmp(bytes, "\x0f\x1f\x44\x00\x00", 5))
		return UPROBE_EMULATED;
	return is_bad_opcode(op) ? UPROBE_REFUSED : UPROBE_STEPPED;
}

bool arch_is_return(const uint8_t *bytes, size_t len)
{
	return bytes[0] == 0xc3 || bytes[0] == 0xc2 || (len == 2 && bytes[1] == 0xc3);
}

uint64_t arch_first_jump(const uint8_t *bytes, size_t len, uint64_t addr)
{
	int32_t rel;

	if (len < ARCH_JUMP_BYTES || bytes[0] != ARCH_JUMP)
		return 0;
	memcpy(&rel, bytes + 1, sizeof(rel));
	return addr + ARCH_JUMP_BYTES + (uint64_t)(int64_t)rel;
}
