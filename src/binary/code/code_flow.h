/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One function, decoded once: where control goes in it, and where a value goes that one of its
 * instructions makes. Jumps through registers, exceptions and what a called function does are not
 * followed.
 */
#pragma once

#include "binary/code/insn.h"

#define CODE_NOWHERE UINT32_MAX

/* A piece of the stack frame that an instruction reads or writes. */
struct code_slot {
	int64_t disp;
	uint8_t base, bytes;
	bool loaded;
};

struct code_flow {
	const struct machine *machine;
	struct insn *insns; /* by address */
	size_t n, cap;
	uint32_t *targets; /* where a jump or branch leads, by its index, once it's asked for */
	struct code_slot *slots; /* once they are asked for */
	size_t n_slots, slots_cap, n_asked;
	bool slots_read;
	uint64_t *state; /* room to work in, for `room` instructions */
	uint32_t *work;
	uint8_t *seen;
	size_t room;
	uint8_t *open;	/* what the guard does not protect; NULL: there is none */
	bool has_frame; /* the frame pointer is the frame's */
};

enum value_fate {
	VALUE_USED,   /* made once for each use, and used on each way */
	VALUE_REUSED, /* may be used again without being made again: a loop's constant */
	VALUE_SPARED, /* may be made and not used: the use is on some ways only */
};

/* Another function, after the one before. -ENOMEM or 0. */
int code_flow_read(struct code_flow *f, const struct elf_image *img, uint64_t start, uint64_t end);
void code_flow_done(struct code_flow *f);

struct code_value {
	enum value_fate fate;
	bool guarded; /* it reaches its uses only through what the guard protects */
};

typedef bool code_match(uint64_t constant, void *opaque);

/* Until the next function, what is reached only where a comparison has shown that something equals
 * a constant that matches is guarded: the path that an optimiser with a profile adds for an
 * indirect call's usual target. *ret_any: something is. -ENOMEM or 0. */
int code_flow_guard(struct code_flow *f, code_match *match, void *opaque, bool *ret_any);
/* Instruction i is guarded; it is a branch whose target is. */
bool code_flow_guarded(const struct code_flow *f, size_t i);
bool code_flow_guards(const struct code_flow *f, size_t i);

/* What becomes of the value that the instruction at `addr` puts into general purpose register
 * `reg` (INSN_NO_REG: into memory). A use is a store that is no spill, a call or a return with it.
 */
struct code_value code_flow_value(struct code_flow *f, uint64_t addr, uint8_t reg);
