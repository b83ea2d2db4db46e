/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The registers of a stopped thread, by what they are for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define ARCH_MAX_OTHERS 32u
#define ARCH_NO_CALL (-1l)

struct arch_regs {
	pid_t tid;
	uint64_t pc, sp, fp;
	uint64_t thread;  /* the thread pointer */
	long call;	  /* the system call in which it is, or was last; ARCH_NO_CALL: none */
	uint64_t result;  /* where a call's result will be or is */
	uint64_t args[6]; /* of the call */
	/* The other general ones: what a thread is just handling is in them. */
	uint64_t others[ARCH_MAX_OTHERS];
	unsigned n_others;
	bool native; /* it runs code of this architecture, not of its 32 bits */
	bool steps;  /* it has a signal after each instruction, by its own wish */
	bool enters; /* at a call's stop: before the call is made */
	struct user_regs_struct kernel; /* all of them */
};

/* ptrace(), of a stopped thread: 0 or negative errno. What is written: pc, call, args, and result. */
int arch_regs_read(pid_t tid, struct arch_regs *ret);
int arch_regs_write(pid_t tid, const struct arch_regs *regs);
/* Of a core file's NT_PRSTATUS. False: too short. */
bool arch_regs_of_prstatus(const void *data, size_t len, struct arch_regs *ret);
