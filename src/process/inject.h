/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Remote calls: a list of raw system calls that one thread of the target makes for pollux, in a
 * stub. All functions run on a tracer thread (threads.h).
 */
#pragma once

#include "process/maps.h"
#include "process/process.h"
#include "process/seccomp.h"
#include "arch/arch.h"
#include "arch/stub.h"

/*
 * Where pollux holds a program at its start, and where the program comes back to after each remote
 * call. It should be right before a system call, which the kernel reports: then the program
 * continues whenever pollux is killed. Elsewhere pollux needs a breakpoint there during a remote
 * call.
 */
struct entry_stop {
	pid_t tid;
	uint64_t addr;
	bool is_call;		  /* right before a system call, ... */
	long call;		  /* ... which has this number */
	arch_breakpoint original; /* else: the bytes under the breakpoint */
};

/* Memory that holds a stub's code, and the mask of the thread's signals; the program can execute
 * and read it. */
struct code_cave {
	uint64_t addr;
	size_t size;
	bool dirty; /* a thread may still be inside, or come back: never use it again */
};

struct remote_calls {
	const struct stub_call *calls;
	size_t n_calls;
	uint64_t done_at; /* a word of the target for the outcome; 0: use `mapped_at` */
	/* The list is done when this address has this value. With another value the
	 * memory may be the program's, which has mapped it meanwhile. */
	uint64_t mapped_at, mapped_value;
	/* Called right before each call whose bit is in `hold`, if the list gets there,
	 * while the thread is stopped: after the effects of earlier calls, before those
	 * of later ones. If it is set, all other threads are stopped until the list is
	 * done, unless that takes long: then the argument `alone` is false. If it
	 * returns false, the first argument of that call becomes an address that the
	 * kernel refuses. */
	bool (*held)(void *arg, size_t call, bool alone);
	void *arg;
	uint64_t hold;
	/* Calls, by bit, from which on to the next one the others are not resumed, however long that takes (5 s at
	 * most): what those may do meanwhile would make it another call. */
	uint64_t alone;
};

struct injector {
	struct process *process;
	struct entry_stop *parked; /* NULL: the program is running */
	pid_t last_tid;		   /* ran the last remote call: the first choice for the next */
	uint64_t fs_base;	   /* thread pointer of that thread, when it was last stopped */
	uint64_t avoid_start, avoid_end; /* threads whose rip is in here are not chosen */
	uint64_t stop_ns;		 /* total time for which threads were stopped */
	uint64_t serial;		 /* of remote calls, for done values */
	struct seccomp_trial trial;	 /* of the remote call's calls */
};

/* Slack at the end of an executable page, for a first stub: at least `size` bytes that no program
 * uses. -ENOENT with a sentence. */
int inject_find_cave(const struct process *p, const struct process_maps *maps, size_t size,
		     struct code_cave *ret_place, struct error *err);

/* Whether memory that only stubs use holds none: all of it is zero. */
bool inject_is_free(const struct process *p, uint64_t addr, size_t size);

/* Runs a remote call. Afterwards the cave has its former content, or is marked dirty. If the result
 * of a call stopped the list early, that is the outcome if it is negative, else -EIO. */
int inject_run(struct injector *in, struct code_cave *cave, const struct remote_calls *e,
	       struct error *err);

/* Offset of the tid in a thread's control block, found in the target; 0 if unknown. */
uint32_t inject_tid_offset(struct injector *in);
