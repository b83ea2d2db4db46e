/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The registers of a stopped thread that describe its stack. */
#ifndef POLLUX_PROCESS_REGISTERS_H
#define POLLUX_PROCESS_REGISTERS_H

#include "process/threads.h"

struct thread_registers {
	pid_t tid;
	uint64_t ip, sp, bp, fs_base;
	long call;	     /* the system call in which it is, or was last; -1: none */
	uint64_t others[14]; /* the other general ones: what a thread is just handling is in them */
};

/* Of all stopped threads; for free(). To be called on their tracer. -ENOMEM or 0. */
int registers_read(const struct process_stop *stopped, struct thread_registers **ret,
		   size_t *ret_n);
/* From a core file's NT_PRSTATUS. False: too short. */
bool registers_of_prstatus(const void *data, size_t len, struct thread_registers *ret);

#endif
