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
	/* code_scan() of these bytes, which are at `addr` */
	int (*scan)(const uint8_t *code, size_t len, uint64_t addr, unsigned patterns,
		    const struct code_targets *targets, code_hit_fn hit, void *context);
	/* Words of struct pt_regs with a function's arguments. */
	uint8_t arg_words[6];
};

extern const struct machine machine_x86_64;

const struct machine *machine_find(uint16_t elf); /* NULL: not known */
