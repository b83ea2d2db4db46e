/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the machine decides for which an object is: one table each, in a folder of the machine's
 * name. It is the file's, not that on which pollux runs (src/arch).
 */
#pragma once

#include "binary/code/code_scan.h"
#include "binary/code/insn.h"
#include "binary/elf/probes.h"

struct machine {
	uint16_t elf; /* e_machine */
	enum probe_machine probes;
	const char *name;
	struct {
		uint32_t relative, word, got, plt;
	} reloc;
	/* General purpose registers as struct insn numbers them: by bits, what a call
	 * may change, what it may be given, and what it returns. */
	uint8_t sp, fp, args[8], n_args;
	uint16_t lost, given, returned;
	uint8_t min_call, max_call; /* lengths of instructions that call */
	/* Adds to *ret, which has `addr` and no registers yet; false: no instruction. */
	bool (*decode)(const uint8_t *bytes, size_t left, struct insn *ret);
	/* The length of an instruction that refers to nothing, see insn_next_reference(); 0: it may,
	 * or that isn't known so quickly. */
	size_t (*length)(const uint8_t *bytes, size_t left);
	/* As decode(), but of an instruction that refers to nothing maybe (*ret_passed) only the
	 * length. */
	bool (*decode_reference)(const uint8_t *bytes, size_t left, struct insn *ret,
				 bool *ret_passed);
	/* code_scan() of these bytes, which are at `addr` */
	int (*scan)(const uint8_t *code, size_t len, uint64_t addr, unsigned patterns,
		    const struct code_targets *targets, code_hit_fn hit, void *context);
	/* What begins in the first `len` of `left` bytes at `addr`. All addresses are less than 4 GiB
	 * behind the base. */
	void (*list)(const uint8_t *code, size_t len, size_t left, uint64_t addr,
		     struct code_lists *lists);
	/* Words of struct pt_regs with a function's arguments. */
	uint8_t arg_words[6];
	/* Registers by DWARF's numbers, and what unwinding has to know besides. */
	struct machine_dwarf {
		uint8_t sp, fp, ra;
		int8_t ra_at_cfa; /* where the return address is, from the CFA */
		/* In a signal frame: offsets from sp of what the interrupted code had. */
		uint16_t signal_sp, signal_fp, signal_pc;
		/* The CFA in an entry of a PLT of sixteen bytes; the byte plt_cfa[plt_offset] is a
		 * literal that differs, the first offset in the entry at which more is pushed. */
		uint8_t plt_cfa[11], plt_offset;
	} dwarf;
	/* Registers as perf numbers them, and the ABI that has these. */
	struct machine_perf {
		uint8_t sp, fp, pc, abi;
	} perf;
};

extern const struct machine machine_x86_64;

const struct machine *machine_find(uint16_t elf); /* NULL: not known */
const struct machine *machine_here(void);	  /* on which pollux runs; NULL: not known */
