/* Would a thread's seccomp filters let it make these system calls? A filter may kill for the
 * asking. */
#ifndef POLLUX_PROCESS_SECCOMP_H
#define POLLUX_PROCESS_SECCOMP_H

#include "process/process.h"
#include "process/stub.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

/* The thread is stopped by the calling tracer. 0: it may; -EPERM with a sentence: it may not, or
 * that can't be found out. */
int seccomp_allows(const struct process *p, pid_t tid, const struct stub_call *calls, size_t n,
		   struct error *err);

/* What one filter answers (SECCOMP_RET_*). A program that makes no sense answers KILL. */
uint32_t seccomp_run(const struct sock_filter *program, size_t len,
		     const struct seccomp_data *data);

#endif
