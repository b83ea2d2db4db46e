/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The uses of a set of addresses in an object: instructions that call, jump to or take one of them
 * (relative to themselves; in an object at a fixed address also as a number), and words of data
 * that hold it. Confirmed by decoding each function from its start, so bytes that only look like
 * such an instruction don't count. Together they are all paths to such an address, except for what
 * is reported as unsure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

enum code_ref_kind {
	REF_BRANCH = 0, /* a call or jump: four bytes at `operand`, relative to what follows them */
	REF_ADDRESS,	/* takes the address: the same four bytes */
	REF_WORD,	/* a word of data that holds the address */
	REF_NUMBER,	/* an instruction of a program at a fixed address that has it as a number */
	REF_UNSURE,	/* looks like one of the others, in code that could not be decoded */
};

struct code_ref {
	uint64_t target; /* what it leads to */
	uint64_t
		operand; /* address of the four bytes, the word, or the instruction with the number */
	uint64_t addr, function; /* the instruction, and the start of its function */
	enum code_ref_kind kind;
	uint8_t len, reg; /* of the instruction; reg: INSN_NO_REG if it stores to memory */
	/* What code_refs_judge() fills in. */
	bool jumped_into; /* some branch of the function leads into the middle of the instruction */
	bool reused;	  /* the address may be used repeatedly, as in a loop after this */
	bool spared;	  /* the address may be taken and then not used */
	bool guarded;	  /* control comes here only where something has equalled the guard */
};

struct code_refs {
	struct code_ref *v;
	size_t n;
};

enum code_refs_of {
	CODE_REFS_TAKEN, /* REF_ADDRESS and REF_NUMBER: by address of the instruction */
	CODE_REFS_ALL,	 /* all: by target */
	CODE_REFS_WORDS, /* REF_WORD: by target; no code is looked at */
};

/* `targets` must be sorted. One pass over all code. -ENOMEM or 0. */
int code_refs_find(struct elf_image *img, const uint64_t *targets, size_t n_targets,
		   enum code_refs_of of, struct code_refs *ret);
/* Reports for each reference what becomes of the address. `guard`: see `guarded`; 0: none.
 * -ENOMEM or 0. */
int code_refs_judge(struct elf_image *img, struct code_refs *refs, uint64_t guard);
void code_refs_done(struct code_refs *r);
/* Of CODE_REFS_ALL or CODE_REFS_WORDS, those of `target`: the first of *ret_n, NULL if there are none. */
const struct code_ref *code_refs_of(const struct code_refs *r, uint64_t target, size_t *ret_n);
