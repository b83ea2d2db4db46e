/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Is it proven that a thread's seccomp filters let it make these system calls? A filter may kill
 * the program for the asking. The proofs, and their limits: seccomp.c. An argument of a call that
 * is not known beforehand is marked in from_memory.
 */
#pragma once

#include "process/process.h"
#include "arch/stub.h"

/* How the calls went in a child of pollux, made if pollux itself is under filters: before a thread
 * is stopped for them. */
struct seccomp_trial {
	int rc; /* 0: it lives; -EPERM: it was killed at `nr`; -EBUSY: it says nothing this time; others: it
		 * was not made */
	uint32_t nr;
};
struct seccomp_trial seccomp_try(const struct stub_call *calls, size_t n);

/* The thread is stopped by the calling tracer. -EPERM with a sentence, whatever the user risks: it
 * makes no calls for pollux, since syscall user dispatch hands them to the program. Kernels before
 * 6.4 don't report it. */
int seccomp_undispatched(const struct process *p, pid_t tid, struct error *err);

/* The thread is stopped by the calling tracer. 0: it may, or that is not proven and the user takes
 * the risk (process.forced); -EPERM with a sentence: it may not, or that is not proven. */
int seccomp_allows(const struct process *p, pid_t tid, const struct stub_call *calls, size_t n,
		   const struct seccomp_trial *trial, struct error *err);

/* The same for calls that any thread may make, on a tracer: each thread that is under a filter is
 * stopped for a moment, except process.stopped_tid. A thread that is made meanwhile has the filters
 * of the one that made it, at most, and no dispatch. It says nothing of filters that come later,
 * nor of dispatch on threads without filters, which aren't stopped. */
int seccomp_allows_all(const struct process *p, const struct stub_call *calls, size_t n,
		       struct error *err);

/* No thread is under any filter. Stops no thread. */
bool seccomp_none(const struct process *p);
/* The number of filters that the thread is under; -1: it is gone. */
long seccomp_count(const struct process *p, pid_t tid);
