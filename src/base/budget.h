/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Limits on the cost of reading untrusted input. A program, an ELF file, a core or a trace may be
 * hostile: sizes lie, structures branch into 2^44 paths, writers never pause. So all work on such
 * input has a budget, which the code that does the work charges:
 *
 *   steps and time of one piece of work (a drain, a tree, a search)	struct budget
 *   bytes that the command holds of files that others made		budget_hold()
 *
 * The limits are far above what real programs need. Code that reaches one stops, keeps what it has,
 * and says what it left out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct budget {
	uint64_t steps;	    /* left; 0: it is spent */
	uint64_t until_ns;  /* CLOCK_MONOTONIC; 0: time does not count */
	uint64_t unchecked; /* steps since the clock was last read */
};

#define BUDGET_UNLIMITED UINT64_MAX

/* `ns` 0: time does not count. */
void budget_init(struct budget *b, uint64_t steps, uint64_t ns);
/* Subtracts steps. False: the budget is spent, and remains so. */
bool budget_spend(struct budget *b, uint64_t steps);

/* Counts bytes that are about to be read into memory, for all threads of the command together.
 * False, and nothing is counted: they are too many. */
bool budget_hold(uint64_t bytes);
void budget_release(uint64_t bytes);
/* How many bytes may be held: 8 GiB, or half of a smaller machine's memory. */
uint64_t budget_bytes(void);

/* Tests set this to another number of bytes; 0: as above. */
extern uint64_t budget_test_bytes;
