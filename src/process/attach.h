/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent in a process: loading it, flipping the hooks, taking it out again. Launch and attach
 * are one mechanism. What may go wrong at any point leaves the target as it was or consistent: see
 * the essay in attach.c and docs/agent-safety.md.
 */
#pragma once

#include "agent/ring.h"
#include "base/error.h"
#include "runtime/runtime.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attach;
struct follow; /* process/follow.h */

struct futures_wanted; /* runtime/futures.h */

struct attach_options {
	uint32_t ring_bytes; /* per thread; rounded up to a power of two */
	uint32_t n_rings;
	const struct futures_wanted *futures; /* whose polls are hooked; NULL: none */
	bool deep;	 /* places of tasks go on in boxes, where futures are not hooked */
	uint32_t stacks; /* enum agent_stacks */
	/* The program has just begun: if most of what is to be hooked is not relocated yet, -EAGAIN
	 * and nothing is done. */
	bool starting;
	bool launched; /* attach_open(): the process was started by us, and not by another of us */
	bool force;    /* seccomp filters that can't be read are risked */
};

/* One loaded ELF object with at least one runtime or call to hook. */
struct attach_object {
	struct runtime_scan scan;
	uint64_t bias; /* process address = linked address + bias */
	bool holds;    /* scan_futures.holds */
};

/* A kind as it was hooked: agent kind number i is kinds[i]. */
struct attach_kind {
	const struct attach_object *object;
	/* One of four: */
	const struct scan_kind *kind;
	const struct scan_waker *waker;		/* of a root kind, */
	const struct scan_block_on *block_on;	/* and of one block_on; NULL: of all others */
	const struct scan_future *future;	/* runtime/futures.h */
	const struct scan_root_poll *root_poll; /* runtime/root_polls.h */
};

/* Looks at every loaded object of the process, finds runtimes, loads the agent and flips the hooks;
 * attach_go() enables. Errors say what is missing and what to do; nothing is left in the target
 * then. -ENOENT with a sentence: no runtime in this process. */
int attach_open(pid_t pid, const struct attach_options *opt, struct attach **ret_attach,
		struct error *err);

/* Hash of the code that is mapped in a process: changes when it loads a library or executes another
 * program. 0 if the process is gone. */
uint64_t attach_code_hash(pid_t pid);

/* Starts a program stopped where its relocations are done and attaches; attach_go() enables and
 * lets it run. argv[0] is searched in PATH. The child's exit is reaped by the caller (waitpid). A
 * program that has no runtime yet (a shell that will exec one, an interpreter that will load one)
 * is let run at once: *ret_attach is NULL then, and *err says why. It is followed to its next exec
 * then (process/follow.h) unless *ret_follow is NULL; when its code has changed without an exec,
 * attach_open() is tried. */
int attach_launch(char *const argv[], const struct attach_options *opt, pid_t *ret_pid,
		  struct attach **ret_attach, struct follow **ret_follow, struct error *err);
/* The same for the program that a followed one has executed (FOLLOW_EXEC). *follow is taken, and
 * set if it is followed on. -ECHILD: it has ended, *ret_status is waitpid's; other errors: it runs
 * on as it is. */
int attach_followed(struct follow **follow, pid_t pid, const struct attach_options *opt,
		    struct attach **ret_attach, int *ret_status, struct error *err);
/* *ret_alive: whether the program was there when it was enabled. It may have ended since, or executed
 * another one: that is no error. */
int attach_go(struct attach *a, bool *ret_alive, struct error *err);

/* Takes every hook back, byte for byte, and disables; the agent's mapping stays, idle. Works on a
 * process that is gone. The rings may be read until attach_free. */
int attach_close(struct attach *a, struct error *err);
void attach_free(struct attach *a);

pid_t attach_pid(const struct attach *a);
bool attach_alive(const struct attach *a); /* false once the process is gone or has exec'ed */
/* How it ended, as waitpid() says; -1: it has not, or that can't be known. */
int attach_end_status(const struct attach *a);
/* The threads that are there now, sorted by the tid by which they know themselves (which is what
 * the agent writes; in another pid namespace it differs). For free(). */
struct attach_thread {
	uint32_t own_tid, tid;
};
int attach_threads(const struct attach *a, struct attach_thread **ret_threads, size_t *ret_n);
/* Those tids are the same in this namespace. */
bool attach_same_tids(const struct attach *a);
/* comm of a thread, by our tid; "" if it is gone. */
void attach_thread_name(const struct attach *a, uint32_t tid, char ret_name[static 16]);
const struct process *attach_process(const struct attach *a);
/* What the target's path and arguments are, for free(); "" if not known. */
char *attach_exe(const struct attach *a);
char *attach_cmdline(const struct attach *a);
/* The rings as mapped here: n_rings x (ring + events) after struct ring_area. Their content is
 * untrusted; the numbers are pollux's own. */
struct attach_rings {
	struct ring_area *area;
	uint32_t n_rings, ring_bytes;
};
void attach_rings(const struct attach *a, struct attach_rings *ret);
/* Ring i is free for another thread: its owner, who knows itself by this tid, is dead and all that
 * it wrote was read. -ESTALE: the owner is another one by now. */
int attach_give_ring(const struct attach *a, uint32_t i, uint32_t own_tid);
/* The agent takes us for gone when a ring is full after this time, in ticks. */
int attach_set_deadline(const struct attach *a, uint64_t ticks);
size_t attach_objects(const struct attach *a, const struct attach_object *const **ret);
size_t attach_kinds(const struct attach *a, const struct attach_kind **ret);
/* Threads that were in a block_on when the agent was loaded. They get a ring at their next blocking
 * call at the latest. */
struct attach_root {
	uint32_t own_tid, tid;
	uint16_t kind; /* agent kind number */
	uint16_t call; /* enum trace_call in which it was blocked, TB_NONE: it was not */
};
size_t attach_roots(const struct attach *a, const struct attach_root **ret);
/* A hooked call in which a thread (our tid) sleeps now, of those whose begin the agent does not
 * record. Works after attach_close(), too. -EAGAIN: the thread does not sleep now; other errors:
 * not in such a call. */
struct attach_open_call {
	uint16_t call;	 /* enum trace_call */
	uint64_t number; /* of the system call in which it sleeps */
	uint64_t ticks;	 /* at its begin */
};
int attach_open_call(const struct attach *a, uint32_t tid, struct attach_open_call *ret);
/* Coverage of scanning and hooking together; strings belong to a. */
size_t attach_coverage(const struct attach *a, const struct trace_coverage **ret);
/* The total time for which threads were stopped; the length of the whole attach. */
uint64_t attach_stop_ns(const struct attach *a);
uint64_t attach_total_ns(const struct attach *a);
/* Whether the agent may wake pollux (ring_area.asleep), by a system call of any thread: not in a
 * program under seccomp filters, nor in one that pollux started, which may still install some. Call
 * it again each time: once there is a filter, the agent makes no more calls by itself. */
bool attach_may_wake(struct attach *a);
/* Whether such a filter has come since the attach. */
bool attach_shut_in(const struct attach *a);
/* Gives the tasks of an agent kind a layout program (agent/ring.h), while the program runs.
 * -ENOSPC: there is no room for more; -ENOENT: the kind's polls aren't hooked. */
int attach_program(struct attach *a, uint32_t kind, const uint64_t *words, size_t n_words,
		   uint64_t task_bytes);
/* Where a kind's method has its future; it is not recorded before (AGENT_HOOK_HELD). */
struct place_held;
int attach_held(struct attach *a, uint32_t kind, const struct place_held *held);
/* How the polls of a kind's boxed futures, which were written by hand, show that they are
 * pending. They are not recorded before. */
int attach_result(struct attach *a, uint32_t kind, const struct agent_result *returns,
		  uint64_t pending);
/* A kind's futures handle what is served, or serve (AGENT_HOOK_HANDLER, AGENT_HOOK_SERVES). */
int attach_owner(struct attach *a, uint32_t kind, bool handler);
/* For struct places_target, with the attach as its context.
 * Memory of the process; 0 or negative errno. Any thread may ask. */
int attach_read(const void *attach, uint64_t addr, void *out, size_t len);
/* The file of an object, the attach's own file descriptor; -1: none. Any thread may ask. */
int attach_object_fd(const void *attach, const struct attach_object *o);
/* The number of events that were dropped since no ring was free. */
int attach_no_ring(struct attach *a, uint64_t *ret_events);
