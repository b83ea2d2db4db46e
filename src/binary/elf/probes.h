/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The probes that a program carries: SystemTap's .note.stapsdt, version 3. Each note names one site
 * (a nop), its arguments as assembler operands, and a semaphore: a 16-bit counter in the program's
 * data; where it is 0, the program may skip the site with all work for its arguments. The same
 * provider and name may have many sites, with other operands and another semaphore at each.
 *
 * An operand is parsed once into a struct probe_arg, which a recorder evaluates against registers
 * and memory without knowing assembler: registers are numbers of 8-byte words of what the kernel
 * hands to a uprobe (x86-64: struct pt_regs, and user_regs_struct; aarch64: struct user_pt_regs).
 *
 *     switch (arg.form)
 *     PA_CONST:  v = value
 *     PA_REG:    v = word[base] >> shift
 *     PA_MEMORY: v = memory at word[base] + (extended word[index] << shift) + value, size bytes
 *     then       v is cut to size bytes, extended by its sign if it is signed
 */
#pragma once

#include "base/error.h"
#include "binary/elf/elf_image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum probe_machine { PROBE_X86_64, PROBE_AARCH64 };

enum probe_arg_form {
	PA_REFUSED = 0, /* `reason` says why it can't be read */
	PA_CONST,
	PA_REG,
	PA_MEMORY,
	PA_VECTOR, /* vector register `base`: no uprobe can read it, but others can */
};

#define PROBE_NO_REG 0xff
#define PROBE_MAX_ARGS 12u

/* Words of struct pt_regs that are asked for by name; the others come out of operands. */
enum {
	PROBE_X86_RBP = 4,
	PROBE_X86_R10 = 7,
	PROBE_X86_R9,
	PROBE_X86_R8,
	PROBE_X86_RAX,
	PROBE_X86_RCX,
	PROBE_X86_RDX,
	PROBE_X86_RSI,
	PROBE_X86_RDI,
	PROBE_X86_RIP = 16,
	PROBE_X86_RSP = 19,
	PROBE_X86_N_WORDS = 21,
	PROBE_ARM_SP = 31,
	PROBE_ARM_PC = 32,
	PROBE_ARM_N_WORDS = 34,
};

struct probe_arg {
	enum probe_machine machine;
	uint8_t form;	      /* enum probe_arg_form */
	uint8_t size;	      /* 1, 2, 4, 8: bytes that count */
	bool is_signed;	      /* else 0-extended */
	bool is_float;	      /* the bits are an IEEE number of `size` bytes */
	uint8_t base;	      /* word, or PROBE_NO_REG: 0 */
	uint8_t index;	      /* word, or PROBE_NO_REG: 0; PA_MEMORY only */
	uint8_t index_bits;   /* 64, or 32: only the lower half of index counts ... */
	bool index_signed;    /* ... and is extended by its sign */
	uint8_t shift;	      /* of index; of PA_REG: to the right (8 for %ah) */
	int64_t value;	      /* constant, or displacement */
	const char *reason;   /* PA_REFUSED: static text */
	const char *operand;  /* as it is in the note, not 0-terminated ... */
	uint32_t operand_len; /* ... this long; belongs to the probes, or to whom it was parsed for
			       */
};

struct probe {
	const char *provider, *name; /* the name as in the note: "task-poll-start", "task_start" */
	const char *args_text;	     /* "8@%rdi 4@%edx"; "" if none */
	uint64_t addr;		     /* linked address of the site, prelink undone */
	uint64_t semaphore;	     /* linked address, 0: none */
	uint64_t offset;	     /* of the site in the file */
	uint64_t semaphore_offset;   /* in the file */
	const char *refused; /* NULL, or why it must not be touched: static text. E.g. its site is
			      * not in code; its semaphore is not in writable data */
	uint32_t n_args;
	struct probe_arg args[PROBE_MAX_ARGS];
};

struct probes;

/* All notes of the object, sorted by provider, name, address; 0 with an empty table if there are
 * none. What is broken in the table ends it: probes_damaged() then says so. The image may go. */
int probes_read(const struct elf_image *img, struct probes **ret_probes, struct error *err);
void probes_free(struct probes *p);
size_t probes_n(const struct probes *p);
const struct probe *probes_at(const struct probes *p, size_t i); /* NULL when out of range */
const char *probes_damaged(const struct probes *p);		 /* NULL, or a static sentence */

/* Parses "N@OP N@OP ..." into at most PROBE_MAX_ARGS; gives how many. An operand that can't be read
 * is PA_REFUSED and does not disturb the others. `text` must outlive the arguments. */
size_t probe_args_parse(enum probe_machine machine, const char *text,
			struct probe_arg args[PROBE_MAX_ARGS]);

/* The argument's value of the raw bytes that a recorder read: cut, sign- or zero-extended to 64 bits. */
uint64_t probe_arg_extend(const struct probe_arg *arg, uint64_t raw);

/* "arg in rdi, u64", "i32 at [rbp - 20]": for people. */
void probe_arg_text(struct buf *out, const struct probe_arg *arg);
