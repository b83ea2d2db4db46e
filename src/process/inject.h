/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Remote calls: a list of raw system calls that one thread of the target makes for us, by a stub.
 * All of it runs on a tracer (threads.h).
 */
#pragma once

#include "process/maps.h"
#include "process/process.h"
#include "process/seccomp.h"
#include "arch/arch.h"
#include "arch/stub.h"

/*
 * A program that pollux holds at its start, where it comes back to after each remote call. Best
 * that is right before a system call, which the kernel reports: then the program continues
 * whenever pollux is killed. Elsewhere a breakpoint is there during a remote call.
 */
struct entry_stop {
	pid_t tid;
	uint64_t addr;
	bool is_call;		  /* of a system call, not yet made, ... */
	long call;		  /* ... and its number */
	arch_breakpoint original; /* else: what was there */
};

/* Memory that holds a stub's code, and the mask of the thread's signals; the program can execute and
 * read it. */
struct code_cave {
	uint64_t addr;
	size_t size;
	bool dirty; /* a thread may still be inside, or come back: leave it alone, for ever */
};

struct remote_calls {
	const struct stub_call *calls;
	size_t n_calls;
	uint64_t done_at; /* a word of the target for the outcome; 0: use `mapped_at` */
	/* Done when there is memory at this address, with this value: what is there else may be the
	 * program's, which has mapped it meanwhile. */
	uint64_t mapped_at, mapped_value;
	/* Called while the thread is stopped right before each call whose bit is in `hold`, if the list
	 * comes there: what the calls made so far is there, what later ones take away is, too. With it
	 * all other threads are stopped until the list is done, unless that takes long: then the argument
	 * `alone` is false. False: that call gets an address that the kernel refuses as its first argument. */
	bool (*held)(void *arg, size_t call, bool alone);
	void *arg;
	uint64_t hold;
	/* Calls, by bit, during which the others are not resumed, however long that takes: what those may do
	 * meanwhile would make it another call. */
	uint64_t alone;
};

struct injector {
	struct process *process;
	struct entry_stop *parked; /* NULL: the program is running */
	pid_t last_tid;		   /* ran the last remote call: asked first for the next one */
	uint64_t fs_base;	   /* thread pointer of that thread, when it was last stopped */
	uint64_t avoid_start, avoid_end; /* threads whose rip is in here are not taken */
	uint64_t stop_ns;		 /* total time for which threads were stopped */
	uint64_t serial;		 /* of remote calls, for done values */
	struct seccomp_trial trial;	 /* of the remote call's calls */
};

/* Slack at the end of an executable page, for a first stub: at least `size` bytes that no program
 * uses. -ENOENT with a sentence. */
int inject_find_cave(const struct process *p, const struct process_maps *maps, size_t size,
		     struct code_cave *ret_place, struct error *err);

/* Whether nothing was left in memory that is for stubs only: all of it is zero. */
bool inject_is_free(const struct process *p, uint64_t addr, size_t size);

/* Runs a remote call. The place has its former content afterwards, or is marked dirty. The outcome of a list that a
 * result stopped early is that result, if it is negative, else -EIO. */
int inject_run(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
	       struct error *err);

/* Offset of the tid in a thread's control block, found in the target; 0 if unknown. */
uint32_t inject_tid_offset(struct injector *in);
