/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The system calls that this source records: those to which the agent's calls come
 * (runtime/calls.c), handled as there.
 */
#pragma once

#include "capture/kernel/object.h"

#include <stddef.h>
#include <stdint.h>

struct kernel_call {
	uint16_t number;
	uint16_t call; /* enum trace_call */
	struct kernel_call_rule rule;
};

extern const struct kernel_call kernel_calls[];
extern const size_t kernel_n_calls;

/* enum trace_call of a system call; TB_NONE: not one of those. */
uint16_t kernel_call_of(uint64_t number);
