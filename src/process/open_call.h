/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A hooked call (AH_CALL) in which a thread sleeps. The agent records it when it is over, so of one
 * that isn't only the agent's frame on the thread's stack tells since when.
 */
#pragma once

#include "process/hooks.h"
#include "process/layout.h"

/* Up to here above its stack pointer. */
#define OPEN_CALL_WORDS 128u

/* In these words of its stack, from the stack pointer on. False: there is none, or its system call
 * has another first argument. */
bool open_call_find(const uint64_t *words, size_t n, const struct layout *layout,
		    const struct hooks *hooks, uint64_t first_argument,
		    struct attach_open_call *ret);
