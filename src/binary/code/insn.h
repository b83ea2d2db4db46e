/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Instructions of an ELF object, decoded: enough to walk a function from its start, to
 * follow calls, and to find and confirm the instructions that take an address.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct machine;

enum insn_flow {
	INSN_NEXT = 0, /* continues after itself */
	INSN_CALL,
	INSN_JUMP,
	INSN_BRANCH,
	INSN_END, /* ret, ud2, hlt, int3: nothing follows */
};

enum insn_op {
	INSN_OTHER = 0,
	INSN_LEA,
	INSN_MOV,
	INSN_ADD,
	INSN_SUB,
	INSN_PUSH,
	INSN_POP,
	INSN_SYSCALL,
	INSN_LOCKED, /* with a lock prefix, or xchg with memory */
	INSN_CMP,
	INSN_EQUAL,	/* branch if equal */
	INSN_NOT_EQUAL, /* branch if not equal */
};

#define INSN_NO_REG 0xff
#define INSN_N_REGS 16u /* general purpose registers; a bit each in `reads` and `writes` */

struct insn {
	uint64_t addr;
	uint8_t len;
	uint8_t flow;	 /* enum insn_flow */
	uint8_t op;	 /* enum insn_op */
	uint8_t reg;	 /* destination, if a general purpose register, by its number in code */
	uint8_t source;	 /* first register that is only read, if general purpose */
	uint64_t target; /* of a direct call, jump or branch; 0 if indirect */
	uint64_t slot;	 /* of an indirect call or jump through a word relative to pc; 0 if not */
	uint64_t ref;	 /* address that an operand relative to pc means; 0 if none */
	uint64_t imm;	 /* immediate, sign-extended as by the operation */
	int64_t disp;	 /* of a memory operand that has a base register other than pc */
	bool has_imm, has_disp;
	bool mem_written;  /* the memory operand is (also) a destination */
	uint8_t base;	   /* base register of the memory operand, if any */
	bool indexed;	   /* the memory operand has an index register, too */
	uint8_t mem_bytes; /* size of the memory operand, 0: there is none, or more than 255 */
	uint8_t rel_at;	   /* offset in the instruction of the four bytes of `target` or `ref`; 0:
			    * none */
	uint16_t writes;   /* general purpose registers that it changes, by bits */
	/* Registers whose values it reads as operands, not as addresses; general purpose registers
	 * in the lower 16 bits, vector registers in the upper 32 (as `vectors_written`). */
	uint16_t reads;
	uint32_t vectors_read, vectors_written;
	bool copies; /* what it reads is, whole or in part, in what it writes */
	bool ret;    /* it returns */
};

/* Walks straight through [start, end). */
struct insn_walk {
	const struct machine *machine;
	const uint8_t *bytes;
	uint64_t addr, end;
};

/* Clips to what is in the file. false: nothing there. */
bool insn_walk_init(struct insn_walk *w, const struct elf_image *img, uint64_t start, uint64_t end);
/* 1 with an instruction, 0 at the end or at bytes that are none. */
int insn_next(struct insn_walk *w, struct insn *ret);

/* The same, but passes instructions that refer to nothing: control goes on behind them, and they have
 * no operand relative to pc, no immediate operand that may be an address (of more than two bytes,
 * above the first page), and make no system call.
 * Some of these are given all the same. *ret_passed: how many were passed, also at the end. */
int insn_next_reference(struct insn_walk *w, struct insn *ret, size_t *ret_passed);

/* By how much straight code lowers rsp from `start` up to `end`, or to the first instruction that
 * may go elsewhere. false: by an unknown amount. */
bool insn_pushed(const struct elf_image *img, uint64_t start, uint64_t end, uint64_t *ret_bytes);
/* Is the instruction before this address a call? */
bool insn_behind_call(const struct elf_image *img, uint64_t addr);
