/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The instructions of an object that take one of a set of addresses: `lea disp32(%rip), reg`, and
 * in objects at fixed addresses also immediates (`mov $imm32, reg`, `movq $imm32, mem`). Confirmed
 * by decoding each function from its start, so bytes that only look like such an instruction don't
 * count.
 */
#ifndef POLLUX_BINARY_CODE_REFS_H
#define POLLUX_BINARY_CODE_REFS_H

#include "binary/code/insn.h"

struct elf_image;

struct ref {
	uint64_t addr;	   /* of the instruction */
	uint64_t target;   /* the address that it takes */
	uint64_t function; /* start of its function */
	uint8_t len, reg;  /* reg: INSN_NO_REG if it stores to memory or something else */
	bool lea;	   /* else an immediate */
	/* What refs_judge() fills in. */
	bool jumped_into; /* some branch of the function leads to the inside of the instruction */
	bool reused;	  /* the address may be used repeatedly, as in a loop after this */
	bool spared;	  /* the address may be taken and then not used */
	bool guarded;	  /* control comes here only where something has equalled the guard */
};

struct refs {
	struct ref *refs; /* by address */
	size_t n;
	size_t n_unbounded; /* look-alikes in code whose function's bounds aren't known: not counted
			     */
};

/* `targets` must be sorted. One pass over all code. -ENOMEM or 0. */
int refs_find(struct elf_image *img, const uint64_t *targets, size_t n_targets, struct refs *ret);
/* Tells of each reference what becomes of the address. `guard`: see `guarded`; 0: none. -ENOMEM or
 * 0.
 */
int refs_judge(struct elf_image *img, struct refs *refs, uint64_t guard);
void refs_done(struct refs *r);

#endif
