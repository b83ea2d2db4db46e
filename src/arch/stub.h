/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A self-restoring stub: machine code that a stopped thread of the target runs once. It makes a
 * list of raw system calls, restores the registers that it changed, and goes on where the thread
 * was, also inside a system call that has to begin again. It needs no stack. Once the thread's
 * instruction pointer is set to the stub, it needs nothing more from pollux, which may be killed.
 */
#pragma once

#include "arch/regs.h"

#include <stddef.h>
#include <stdint.h>

enum stub_check {
	STUB_ANY = 0,  /* go on whatever the result is */
	STUB_NO_ERROR, /* stop the list at a result in [-4095, -1] */
	STUB_EQUAL,    /* stop it at any other result than `expected` */
	STUB_DONE,     /* at `expected` the list is done; at any other result go on */
};

struct stub_call {
	uint32_t nr;
	uint8_t from_memory; /* bit i: args[i] is the address of a word that holds the argument */
	uint8_t check;	     /* enum stub_check */
	uint8_t always;	     /* made also when the list was stopped; such calls come last */
	uint64_t args[6];
	uint64_t expected;
	uint64_t result_at; /* address for the result, 0 if it is of no use */
};

/* Where a thread with these registers goes on, and with which result of a call. `regs` must
 * remain. */
struct stub_resume {
	const struct arch_regs *regs;
	uint64_t pc, result;
};
void stub_resume_of(const struct arch_regs *regs, struct stub_resume *ret);

#define STUB_MAX_BYTES 4096u

/* Writes the code; its length, or -ENOSPC. If done_at is not 0, the word there becomes done_value
 * when the whole list was made, and the result that stopped it (an error is negative) if it was
 * not; the calls that are always made come after that. It is position independent. */
long stub_build(uint8_t *out, size_t cap, const struct stub_call *calls, size_t n, uint64_t done_at,
		uint64_t done_value, const struct stub_resume *resume);
