/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code that pollux writes into a program, and instructions that it changes there. */
#pragma once

#include "arch/arch.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- hooks' stubs: AGENT_STUB_BYTES, see agent/ring.h ---- */

/* The stub at `addr`: puts the hook's number where the thunk expects it, and jumps to the thunk. */
void arch_put_stub(uint8_t *out, uint64_t addr, uint32_t hook, uint64_t thunk);
/* Fills the rest of a block of code with instructions that stop the program. */
void arch_put_padding(uint8_t *out, uint64_t bytes);

/* ---- instructions that become jumps to a trampoline ---- */

/* The offset in the instruction at which the jump begins, which replaces ARCH_JUMP_BYTES. Negative:
 * the instruction is too short, or too long. */
int arch_jump_at(const uint8_t *insn, uint8_t len);
void arch_put_jump(uint8_t *out, uint64_t addr, uint64_t target);
/* The offset of the jump in `live`, the first eight bytes of an instruction that were `saved`
 * before; -1: it isn't patched. The first byte may be a breakpoint. */
int arch_jump_left(const uint8_t live[8], const uint8_t saved[8]);

/* ARCH_TRAMPOLINE_BYTES at `addr`: calls the thunk with the hook's number, executes the instruction
 * of `len` bytes that was at `insn_addr`, and goes on after it. */
void arch_put_trampoline(uint8_t *out, uint64_t addr, uint32_t hook, uint64_t thunk,
			 const uint8_t *insn, uint8_t len, uint64_t insn_addr);
/* For a thread that is `offset` bytes into such a trampoline: where it is to go on outside of it,
 * and by how much its stack pointer is lowered. False: these bytes are no trampoline. */
bool arch_leave_trampoline(const uint8_t *trampoline, uint64_t addr, unsigned offset,
			   uint64_t *ret_pc, uint64_t *ret_lowered);

/* ---- instructions that call ---- */

/* The value of the field at `addr`, of an instruction that calls `target`; false: it is too far. */
bool arch_call_field(uint64_t addr, uint64_t target, uint32_t *ret_field);
