/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The lengths of instructions that refer to nothing: control goes on behind them, they have no
 * operand relative to themselves and no immediate operand that may be an address, and make no system
 * call. Four of five instructions are such, and who follows calls or looks for addresses has no more
 * to know of them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* By a table, of what compilers generate. 0: it may refer to something, or the table hasn't it. */
size_t insn_length(const uint8_t *bytes, size_t left);
/* Of any such instruction, by Zydis. 0: it may refer to something, or is none. */
size_t insn_any_length(const uint8_t *bytes, size_t left);

/* No address: no object has anything there, since it would begin below 0, or in its own header. */
#define INSN_NO_ADDRESS 4096
