/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The instructions of a function, but for what an optimiser with a profile (PGO) has put there of
 * others: where it found that an indirect call mostly has the same target, it compares with that
 * function's address and has it, or its code, after the comparison. What a function does by itself
 * says what it is; what its usual caller gave it to call does not.
 */
#pragma once

#include "binary/code/code_flow.h"

struct own_code {
	struct insn_walk walk;
	struct code_flow flow; /* of a function that may have such code */
	size_t next;
	bool flows;
};

/* False: nothing there. own_code_done() in either case. */
bool own_code_init(struct own_code *o, struct elf_image *image, uint64_t start, uint64_t end);
/* As insn_next(), and as insn_next_reference(). */
int own_code_next(struct own_code *o, struct insn *ret);
int own_code_next_reference(struct own_code *o, struct insn *ret, size_t *ret_passed);
void own_code_done(struct own_code *o);
