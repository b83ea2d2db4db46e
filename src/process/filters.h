/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread's seccomp filters: how many there are, and what they answer, where they can be read. */
#pragma once

#include "process/process.h"
#include "arch/stub.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

struct filters {
	long mode;  /* 0: none; 1: strict; 2: filters */
	long n;	    /* -1: a kernel before 5.9 */
	bool fixed; /* it may add none: no no_new_privs, and CAP_SYS_ADMIN not in any set */
};

/* From the status of a thread, 0: of the main thread. -ESRCH. */
int filters_read(const struct process *p, pid_t tid, struct filters *ret);

/* The thread is stopped by the calling tracer. 1: all its filters were read and allow the calls; 0: they can't be
 * read; -EPERM: they forbid the one with *ret_nr; -ENOMEM. */
int filters_permit(pid_t tid, const struct stub_call *calls, size_t n, uint32_t *ret_nr);

/* The same of restart_syscall(), which the kernel makes in place of some calls that a stop has interrupted. False:
 * that isn't proven. */
bool filters_permit_restart(pid_t tid);

/* What one filter answers (SECCOMP_RET_*). A program that makes no sense answers KILL, and so does
 * one that loads a word of the data that is not known: bit k of `unknown` is the k-th. */
uint32_t filters_run(const struct sock_filter *program, size_t len, const struct seccomp_data *data,
		     unsigned unknown);
