/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The System V ABI for x86-64: figures 3.4 and 3.36, table 4.10. */
#include "binary/machine.h"

#include "binary/x86_64/insn_length.h"
#include "binary/x86_64/insn_plain.h"
#include "binary/x86_64/scan.h"

#include <dwarf.h>
#include <elf.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };
#define BIT(reg) (1u << (reg))
#define GIVEN (BIT(RDI) | BIT(RSI) | BIT(RDX) | BIT(RCX) | BIT(R8) | BIT(R9))

static bool decode(const uint8_t *bytes, size_t left, struct insn *ret)
{
	return insn_plain(bytes, left, ret) || insn_any(bytes, left, ret);
}

static bool decode_reference(const uint8_t *bytes, size_t left, struct insn *ret, bool *ret_passed)
{
	size_t len;

	*ret_passed = false;
	if (insn_plain(bytes, left, ret))
		return true;
	len = insn_any_length(bytes, left);
	if (!len)
		return insn_any(bytes, left, ret);
	ret->len = (uint8_t)len;
	return *ret_passed = true;
}

const struct machine machine_x86_64 = {
	.elf = EM_X86_64,
	.probes = PROBE_X86_64,
	.name = "x86-64",
	.reloc = {R_X86_64_RELATIVE, R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT},
	.sp = RSP,
	.fp = RBP,
	.args = {RDI, RSI, RDX, RCX, R8, R9},
	.n_args = 6,
	.lost = GIVEN | BIT(RAX) | BIT(R10) | BIT(R11),
	.given = GIVEN,
	.returned = BIT(RAX) | BIT(RDX),
	.min_call = 2,
	.max_call = 8,
	.decode = decode,
	.length = insn_length,
	.decode_reference = decode_reference,
	.scan = scan_x86_64,
	.list = list_x86_64,
	.arg_words = {PROBE_X86_RDI, PROBE_X86_RSI, PROBE_X86_RDX, PROBE_X86_RCX, PROBE_X86_R8,
		      PROBE_X86_R9},
	.dwarf = {.sp = 7,
		  .fp = 6,
		  .ra = 16,
		  .ra_at_cfa = -8,
		  /* struct ucontext, arch/x86/include/uapi/asm/sigcontext.h */
		  .signal_sp = 160,
		  .signal_fp = 120,
		  .signal_pc = 168,
		  /* sp + 8 + ((pc & 15 >= offset) << 3) */
		  .plt_cfa = {DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit0,
			      DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus},
		  .plt_offset = 6},
	/* asm/perf_regs.h */
	.perf = {.sp = 7, .fp = 6, .pc = 8, .abi = 2},
};
