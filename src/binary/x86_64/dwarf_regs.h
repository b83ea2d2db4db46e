/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Registers by DWARF's numbers (System V ABI for x86-64, figure 3.36), and what unwinding has to
 * know besides. */
#pragma once

#include <dwarf.h>

enum { DWARF_FP = 6, DWARF_SP = 7, DWARF_RA = 16 };
/* Where the return address is, from the CFA. */
enum { DWARF_RA_AT_CFA = -8 };
/* In a signal frame: offsets from the stack pointer of what the interrupted code had (struct
 * ucontext, arch/x86/include/uapi/asm/sigcontext.h). */
enum { EH_SIGNAL_FP = 120, EH_SIGNAL_SP = 160, EH_SIGNAL_PC = 168 };
/* The CFA in an entry of a PLT of sixteen bytes: breg sp 8, breg pc 0, lit15, and, litN, ge, lit3,
 * shl, plus. */
#define EH_PLT_CFA                                                                                 \
	{                                                                                          \
		DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit0, DW_OP_ge,     \
			DW_OP_lit3, DW_OP_shl, DW_OP_plus                                          \
	}
