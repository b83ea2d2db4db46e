/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A process' memory, through /proc/PID/mem. All or nothing: 0 or negative errno. */
#pragma once

#include "base/units.h"
#include "process/process.h"

int memory_read(const struct process *p, uint64_t addr, void *out, size_t len);
/* Many small pieces, by few system calls. 0, or what memory_read() says of one of them. */
struct memory_piece {
	uint64_t addr;
	void *out;
	size_t len;
};
int memory_read_pieces(const struct process *p, const struct memory_piece *v, size_t n);
int memory_read_u64(const struct process *p, uint64_t addr, uint64_t *ret_value);

/* Writes also where the page is not writable (text, RELRO). An aligned write of 8 bytes is seen
 * whole or not at all by the running program. Where the kernel forbids writing through /proc, the
 * words go by PTRACE_POKEDATA through process.stopped_tid, else through a thread that is stopped
 * for it (then the caller must be a tracer, threads.h). */
int memory_write(const struct process *p, uint64_t addr, const void *data, size_t len);
int memory_write_u64(const struct process *p, uint64_t addr, uint64_t value);

/* The same into a page that is writable, which no kernel forbids; for a word while the program
 * runs: nothing is stopped for it. */
int memory_store(const struct process *p, uint64_t addr, const void *data, size_t len);

/* Gives a page its copy for this process alone, by a byte that is written as it is: what else is
 * written to that page later costs little. Where the kernel forbids that nothing is done. */
void memory_unshare(const struct process *p, uint64_t addr, uint8_t byte);

/*
 * Changes bytes of code that threads may come by once they go on: whole or not at all, also if pollux
 * is killed at it. Two pages are two writes inside the kernel. Between them pollux may be killed,
 * with all that it has started (by the kernel for want of memory, a control group, a terminal): then
 * the second never comes, and the threads go on at once. -EOPNOTSUPP: it is across pages (across.h).
 */
int memory_replace(const struct process *p, uint64_t addr, const void *bytes, size_t len);

static inline bool memory_in_one_page(uint64_t addr, size_t len)
{
	return addr / PAGE == (addr + len - 1) / PAGE;
}
