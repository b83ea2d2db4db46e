/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stopping threads by ptrace, for as short as can be, without leaving a trace: signals that appear
 * are passed on, a thread that does not stop in time is let go.
 *
 * ptrace belongs to a *thread* of the tracer, and only its end lets go of a thread that won't stop.
 * So everything here runs on a tracer: a thread of pollux made for the purpose.
 */
#pragma once

#include "base/units.h"
#include "process/process.h"

struct tracer;

int tracer_start(struct tracer **ret_tracer, struct error *err);
/* Runs fn(arg) there and gives its result. */
int tracer_call(struct tracer *t, int (*fn)(void *arg), void *arg);
/* Interrupts what it waits for there, if that has unblocked the signal. */
void tracer_signal(struct tracer *t, int signal_number);
/* Ends the thread: whatever it still holds is resumed by the kernel. NULL is fine. */
void tracer_end(struct tracer *t);

/* The rest is called on a tracer. */

/* While a thread is stopped, pollux must not wait for a CPU: it takes a real-time priority, as far
 * as permitted, until tracer_calm(). */
struct tracer_priority {
	int policy, rt_priority, nice;
};
void tracer_hurry(struct tracer_priority *ret_before);
void tracer_calm(const struct tracer_priority *before);

/* All tids of the process, for free(). */
int threads_list(const struct process *p, pid_t **ret_tids, size_t *ret_n);

enum thread_state {
	THREAD_STOPPED,	 /* plainly, by our interrupt */
	THREAD_SIGNALED, /* a signal was about to be delivered: it goes with the resume */
	THREAD_HELD,	 /* its process is stopped by job control (SIGSTOP, ^Z) */
	THREAD_GONE,
};

struct stopped_thread {
	pid_t tid;
	int signal; /* to be passed on */
	enum thread_state state;
	bool waiting; /* interrupted, not yet stopped */
};

/* Stops one thread of a process, in the memory of the process' handle. -ESRCH: it has ended, or
 * executed another program, or is a worker of the kernel (process_is_worker()); -ETIMEDOUT: it
 * did not stop in time (vfork, disk sleep): end the tracer, which releases it; -EPERM and others
 * as from ptrace. THREAD_STOP_TIMEOUT, for callers whom no other thread waits for, is long
 * enough for a thread to get a busy CPU. */
#define THREAD_STOP_TIMEOUT (5000 * NSEC_PER_MSEC)
int thread_stop(const struct process *p, pid_t tid, uint64_t timeout_ns,
		struct stopped_thread *ret_thread);
void thread_resume(struct stopped_thread *t);

struct process_stop {
	struct stopped_thread *v; /* gone ones left out */
	size_t n, cap;
	uint64_t began_ns, stopped_ns; /* since when all are stopped */
	struct tracer_priority before; /* our own, before the stop */
	uint64_t stop_ns;	       /* after threads_resume: how long they were stopped */
};

/* Stops all threads, also those that come into being meanwhile. On failure all are resumed. */
int threads_stop(const struct process *p, uint64_t timeout_ns, struct process_stop *ret_stop,
		 struct error *err);
void threads_resume(struct process_stop *s);

/*
 * Changes code while all threads are stopped. `some` does as much as it can up to a time, and gives
 * 1 if there is more: then the threads run before it goes on, so that no thread is stopped for
 * longer where there are thousands of places. Each place is whole before and after each stop. Adds
 * to *stop_ns the time for which they were stopped; what `some` gives in the end.
 */
int threads_in_stops(struct process *p,
		     int (*some)(void *arg, const struct process_stop *stopped, uint64_t until_ns,
				 struct error *err),
		     void *arg, uint64_t *stop_ns, struct error *err);

/* Waits for a stop of one tid: waitpid's status, or -ETIMEDOUT, -ECHILD. The end of a child of
 * pollux is taken by that: no other wait reports it. */
int thread_wait(pid_t tid, uint64_t timeout_ns, int *ret_status);
/* Whether the last end that a wait or a stop took is this one's; *ret_status: waitpid's. */
bool thread_end_taken(pid_t tid, int *ret_status);
