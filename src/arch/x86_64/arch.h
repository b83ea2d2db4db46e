/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

#include <asm/perf_regs.h>
#include <elf.h>
#include <linux/audit.h>
#include <stdint.h>

#define ARCH_NAME "64-bit x86"
#define ARCH_ELF_MACHINE EM_X86_64
#define ARCH_SECCOMP AUDIT_ARCH_X86_64

/* A breakpoint, and how far after its address a thread stops. */
typedef uint8_t arch_breakpoint;
#define ARCH_BREAKPOINT 0xcc
#define ARCH_BREAKPOINT_PASSED 1u
/* The instruction that makes a system call. */
#define ARCH_SYSCALL_BYTES 2u

#define ARCH_JUMP 0xe9 /* the first byte of a jump */
#define ARCH_JUMP_BYTES 5u
#define ARCH_JUMP_REACH 0x7fffffffull
#define ARCH_TRAMPOLINE_BYTES 64u

/* The registers that a perf sample has, in the order of their bits. */
#define ARCH_PERF_REGS (1u << PERF_REG_X86_BP | 1u << PERF_REG_X86_SP | 1u << PERF_REG_X86_IP)
struct arch_perf_regs {
	uint64_t fp, sp, pc;
};

/* musl's return from a signal handler, which has no unwind rules: mov $15,%rax; syscall. */
#define ARCH_SIGNAL_RETURN                                                                         \
	{                                                                                          \
		0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05                                        \
	}
