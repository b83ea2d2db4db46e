/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The instructions that compiled code consists of, decoded by a table; what it doesn't know is for
 * Zydis (insn_any.c). Tens of millions are decoded before a program is recorded.
 */
#pragma once

#include "binary/code/insn.h"

/* Adds to *ret, which has `addr` and no registers yet, all that Zydis would. False: not one of
 * these, and *ret is as it was. */
bool insn_plain(const uint8_t *bytes, size_t left, struct insn *ret);
/* The same of any instruction, by Zydis. */
bool insn_any(const uint8_t *bytes, size_t left, struct insn *ret);
