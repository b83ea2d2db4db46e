/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A moment: all that the memory of a process says of its tasks at one time. `tree` shows the moment
 * of now; a recording has one of its start and one of its end (docs/trace-format.md, MOMENT), from
 * which a reader learns of tasks that never had an event: what hangs shows there.
 *
 *    src/future reads a process ─▶ struct trace_moment ─▶ src/moment: who waits for whom, as text,
 *                                      ▲        │                    as JSON
 *                                      │        ▼
 *                                      MOMENT chunks
 *
 * All addresses are of the process' memory, unless they are "as linked".
 */
#pragma once

#include "base/buf.h"
#include "base/map.h"
#include "trace/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- await trees ---- */

enum await_node_kind {
	AN_ASYNC,  /* an async fn, block or closure at an await point */
	AN_BRANCH, /* join!, select!, FuturesUnordered ...: children are siblings */
	AN_FUTURE, /* another type that holds futures: Timeout, Map, a struct of the program's */
	AN_LEAF,   /* what is waited for */
	AN_NOTE,   /* "unreadable: ...", "... and 992 more" */
	AN_N
};

enum await_state {
	AS_SUSPENDED = 0,
	AS_UNPOLLED, /* never polled */
	AS_DONE,     /* returned, its output may still lie there */
	AS_PANICKED,
	AS_DISABLED, /* a select! branch that is off */
	AS_ASLEEP,   /* begun, held in a local, but not polled by the await point that now waits */
	AS_N
};

/* What a leaf waits for. */
enum await_wait {
	AW_UNKNOWN = 0,
	AW_SLEEP,     /* value: deadline, ns of CLOCK_MONOTONIC */
	AW_SEMAPHORE, /* resource: address of the semaphore; value: permits missing */
	AW_MUTEX,     /* resource: the same, within a lock() */
	AW_RWLOCK,
	AW_CHANNEL_SEND,
	AW_CHANNEL_RECV, /* resource: the channel */
	AW_ONESHOT,
	AW_NOTIFY,
	AW_TASK,   /* resource: header of the awaited task */
	AW_SOCKET, /* value: fd */
	AW_BLOCKING,
	AW_N
};

enum await_held_kind {
	AH_GUARD, /* of a lock that blocks its thread: std's, parking_lot's, dashmap's, a RefCell */
	AH_CHANNEL, /* the receiving end of a channel, or the end that a leaf waits at */
	AH_N
};

/* What a local of a coroutine holds while it is suspended, apart from locks of its runtime; of a
 * leaf, the channel that it waits for. */
struct await_held {
	enum await_held_kind kind;
	const char *
		type; /* of the guard, or of the channel's end, as the debug information spells it */
	uint64_t addr;	/* of the lock, of what the ends of the channel share */
	uint64_t bytes; /* of the lock's type; 0: not known */
	/* Of a channel, if `counted`. */
	bool counted, closed;	   /* closed: nothing can be sent any more */
	uint64_t length, capacity; /* messages in it; how many there may be, 0: any number */
	uint64_t senders;
};

struct await_node {
	enum await_node_kind kind;
	enum await_state state;
	const char *name;      /* "app::serve", "select!", "sleep" */
	const char *full_name; /* type as the debug information spells it; "": none */
	const char *file;      /* of the await point; NULL if unknown */
	uint32_t line;
	char *detail;	  /* for people: "84.2 s left", "fd 12"; NULL if none */
	const char *ends; /* AW_SOCKET: "127.0.0.1:80 <-> ...", within detail; NULL if not known */
	enum await_wait wait;
	uint64_t resource, value;
	bool granted;	/* AW_MUTEX and the like: has got its permits, and was not polled since */
	uint64_t addr;	/* of the future */
	uint64_t bytes; /* of its type; 0: not known */
	/* locks that locals of this coroutine hold while it is suspended, or that were granted to
	 * this leaf: addresses as in `resource` */
	uint64_t *holds;
	size_t n_holds;
	struct await_held *held;
	size_t n_held;
	struct await_node **children;
	size_t n_children, cap_children;
};

/* ---- a moment ---- */

enum inspect_state { IS_IDLE = 0, IS_SCHEDULED, IS_RUNNING, IS_WOKEN_RUNNING, IS_DONE, IS_N };

struct moment_kind {
	const char *name;      /* for people */
	const char *full_name; /* its future's type; "" if not known */
	const char *object;    /* path of the ELF object that it is in; "" if not known */
	const char *site; /* "src/main.rs:12 (app::main)", or function+offset; "" if not known */
	enum trace_role role;
	bool tokio;	       /* it counts references as Tokio does, else as async-task */
	uint64_t vtable;       /* as linked; 0: it has none (a block_on's future) */
	uint64_t future_bytes; /* size of its future; 0: not known */
	uint64_t task_bytes;   /* of a whole task, header and future; 0: not known */
};

struct moment_task {
	const struct moment_kind *kind;
	uint64_t addr; /* of its header; a root: of its future */
	uint64_t id;   /* the runtime's, 0 where it has none */
	uint64_t raw_state;
	uint64_t owner; /* Tokio: id of the owning list, 0: none (finished, or a blocking task) */
	uint32_t refs;
	enum inspect_state state;
	bool cancelled, join_interest;
	bool torn;	   /* it changed whenever it was read: see trace_moment.stopped */
	bool in_no_queue;  /* scheduled, but proven to be in none and on no worker */
	size_t thread;	   /* it runs there: index + 1 of the moment's threads; 0: not known */
	uint32_t place;	   /* 1 + index of the struct trace_place at which it waits; 0: not known */
	const char *queue; /* scheduled: the run queue that has it; NULL: not known */
	const char *no_tree_reason; /* there is no tree: "finished", "no debug information"; NULL */
	const struct await_node *tree; /* NULL: see no_tree_reason */
};

struct moment_frame {
	uint64_t addr;	      /* of the instruction, as linked; 0: not known */
	const char *object;   /* path of the ELF object; "" if not known */
	const char *function; /* for people; "" if not known */
	const char *file;     /* "" if not known */
	uint32_t line;
};

struct moment_thread {
	uint32_t tid;
	const char *name; /* "" if not known */
	uint32_t call;	  /* number + 1 (x86-64's table) of the system call it is in; 0: none */
	/* Its first argument: of a futex the address, or that of the lock for which parking_lot sleeps there. */
	uint64_t call_arg;
	const struct moment_frame *frames; /* innermost first, inlined ones are frames too */
	size_t n_frames;
};

enum moment_when { MOMENT_START = 0, MOMENT_END = 1, MOMENT_N };

struct trace_moment {
	uint32_t process; /* index of a struct trace_process */
	enum moment_when when;
	uint64_t now_ns;   /* CLOCK_MONOTONIC at the moment; 0: not known (a core) */
	uint64_t stop_ns;  /* how long threads were stopped */
	bool stopped;	   /* all of it is of one moment */
	uint64_t n_torn;   /* tasks that changed whenever they were read, without a stop */
	uint64_t n_missed; /* reads that failed: the program changed meanwhile */
	uint64_t n_found;  /* tasks in all, those included that were left out */
	uint64_t n_descriptors, max_descriptors; /* open ones, and the limit; 0: not known */
	struct moment_task *tasks;		 /* by runtime, id, address */
	size_t n_tasks;
	struct moment_thread *threads; /* none without a stop */
	size_t n_threads;
	const char **notes; /* what is missing, one sentence each */
	size_t n_notes;
	/* private: the memory of all the above, except what belongs to someone else */
	struct map kinds;
	struct moment_block *memory;
	size_t memory_bytes;
	bool full; /* it needs more memory than a moment may */
};

/* Zeroed memory that lives as long as the moment; NULL: there is none, or too much was taken. */
void *moment_take(struct trace_moment *m, size_t size);
/* A copy of a string; NULL: the same. */
char *moment_string(struct trace_moment *m, const char *s, size_t len);
/* Arrays are grown by GROW_ONE(); all goes with: */
void moment_done(struct trace_moment *m);

bool moment_task_runs(const struct moment_task *t);
/* The thread on which it runs; NULL: it does not, or that is not known. */
const struct moment_thread *moment_thread_of(const struct trace_moment *m,
					     const struct moment_task *t);
/* The same if the task is a worker's loop: the thread is a worker. */
const struct moment_thread *moment_worker_of(const struct trace_moment *m,
					     const struct moment_task *t);

/* The innermost frame of the program's own code, as trace_frame_is_own(), that has a line; NULL:
 * none. */
const struct moment_frame *moment_own_frame(const struct moment_thread *t);

const char *inspect_state_name(enum inspect_state s);
const char *await_wait_name(enum await_wait w); /* "sleep", "channel_receive", ... */
const char *moment_when_name(enum moment_when when);

/* Tasks of a moment that are written: more are left out. */
#define MOMENT_MAX_TASKS 200000u

/* ---- the chunks; a reader has them decoded by trace_reader_moment() ---- */

/* Calls `chunk` with one payload after the other. 0 or negative errno: what it gave, or -ENOMEM. */
int moment_encode(const struct trace_moment *m, int (*chunk)(void *ctx, const struct buf *payload),
		  void *ctx);

/* What a payload is a part of, and how many bytes of records it has. 0 or -EBADMSG. */
int moment_peek(const void *payload, size_t size, uint32_t *ret_process, enum moment_when *ret_when,
		size_t *ret_raw_bytes);
/* Adds what a payload holds to m, which is zeroed before the first one. 0; -EBADMSG: some of it is
 * damaged, the rest counts; -ENOMEM. */
int moment_decode(struct trace_moment *m, const void *payload, size_t size);
/* After the last one: tasks find their threads. 0 or -ENOMEM. */
int moment_decoded(struct trace_moment *m);
