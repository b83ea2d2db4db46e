/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Unwind rules, compiled: from .eh_frame, which every function of a program has, also in stripped
 * files, to rows that a walk through a stack can look up in some ten nanoseconds. A function is
 * compiled when it is looked up for the first time. Of the registers only those matter by which
 * frames are found: the stack pointer (sp), the frame pointer (fp) and the return address.
 */
#pragma once

#include "binary/elf/elf_image.h"
#include "binary/machine.h"

#include <stddef.h>
#include <stdint.h>

/* Where the canonical frame address is: the stack pointer of the caller, after the return. */
enum eh_cfa {
	EH_CFA_NONE = 0, /* no function here, or a rule that isn't understood */
	EH_CFA_SP,	 /* sp + cfa */
	EH_CFA_FP,	 /* fp + cfa */
	EH_CFA_AT_FP,	 /* the word at fp + cfa: stacks that were aligned */
	EH_CFA_PLT,	 /* sp + 8, in the second half of an entry of 16 bytes (from cfa on) + 16 */
	EH_CFA_SIGNAL,	 /* the kernel's signal frame at sp: machine_dwarf.signal_* */
};

/* Where the caller's frame pointer is. */
enum eh_fp {
	EH_FP_SAME = 0,
	EH_FP_AT_CFA, /* at CFA + fp */
	EH_FP_AT_FP,  /* at fp + fp */
	EH_FP_LOST,
};

enum eh_ra {
	EH_RA_AT_CFA = 0, /* at CFA - 8 */
	EH_RA_END,	  /* outermost frame: there is no caller */
	EH_RA_LOST,
};

/* The rules of a function from pc on, to its next row or its end. */
struct eh_row {
	uint32_t pc; /* less the function's start */
	int32_t cfa;
	int16_t fp;
	uint8_t cfa_rule;    /* enum eh_cfa */
	uint8_t fp_rule : 4; /* enum eh_fp */
	uint8_t ra_rule : 4; /* enum eh_ra */
};
_Static_assert(sizeof(struct eh_row) == 12, "eh_row");

/* An entry of .eh_frame: one function, or a part of one. What its program means is up to its CIE.
 */
struct eh_fde {
	uint64_t start, size; /* size > 0 */
	uint64_t addr;	      /* its own, of the length field */
	const struct eh_cie *cie;
	const uint8_t *program;
	size_t len;
};

/* Another value than 0 ends the walk, which returns it. The entry is there for the call alone. */
typedef int eh_fde_fn(void *context, const struct eh_fde *f);

/* All entries of an object, in the section's order; malformed ones are left out. -ENODATA: it has
 * no .eh_frame; -ENOMEM. */
int eh_frame_each_fde(const struct elf_image *img, eh_fde_fn *fn, void *context);

struct eh_table;

/*
 * From the bytes of a machine's .eh_frame that lies at `addr`, all of it at once. `sized`: the length
 * is the section's (a terminator within is no end), else `len` only bounds it. Malformed entries are
 * left out. 0 also if nothing is left; -ENOMEM.
 */
int eh_table_compile(const struct machine *machine, const void *data, size_t len, uint64_t addr,
		     bool sized, struct eh_table **ret_table);
/* Of an object, which has to live as long. -ENODATA: it has none. */
int eh_table_of_image(const struct elf_image *img, struct eh_table **ret_table);
void eh_table_free(struct eh_table *t);

/* The rules at an address; NULL: none. For one thread at a time. A row lives as long as its table. */
const struct eh_row *eh_table_at(struct eh_table *t, uint64_t addr);
/* Of an address whose row has a CFA that hangs on rbp: where its function has just made rbp of rsp,
 * CFA - 16. false: not by the usual prologue. */
bool eh_table_fp_made(struct eh_table *t, uint64_t addr, uint64_t *ret_addr);
/* How many functions it has, and how many of them were compiled. */
size_t eh_table_functions(const struct eh_table *t, size_t *ret_compiled);
/* Where one of them begins. */
uint64_t eh_table_function(const struct eh_table *t, size_t i);
