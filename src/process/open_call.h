/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A hooked call (AH_CALL) in which a thread sleeps. The agent records it when it is over, so of one
 * that isn't only the agent's frame on the thread's stack says since when.
 */
#pragma once

#include "process/hooks.h"
#include "process/layout.h"

/* Up to here above its stack pointer; libc's own frames are below getaddrinfo's. */
#define OPEN_CALL_WORDS 128u
#define OPEN_CALL_WORDS_DEEP 4096u

/* In these words of its stack, from the stack pointer on. False: there is none, or its system call
 * has another first argument. getaddrinfo makes many system calls: with any. */
bool open_call_find(const uint64_t *words, size_t n, const struct layout *layout,
		    const struct hooks *hooks, uint64_t first_argument,
		    struct attach_open_call *ret);
