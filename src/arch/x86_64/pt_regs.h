/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Source: Linux arch/x86/include/uapi/asm/ptrace.h. */
#pragma once

enum arch_pt_regs {
	REG_FP = 4,
	REG_CALL_ARG_4 = 7, /* of a system call */
	REG_RESULT = 10,
	REG_ARG_3 = 12,
	REG_ARG_2,
	REG_ARG_1,
	REG_PC = 16,
	REG_SP = 19,
	REG_WORDS = 21,
};
/* The member of struct pt_regs that has the number of the system call. */
#define ARCH_PT_REGS_CALL orig_ax
