/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The one vocabulary of events. Every source (agent, kernel, import) speaks it, every reader
 * (timeline) understands it; what an event *means* for tasks is decided in src/timeline alone.
 *
 * A task is named by (kind, task): `kind` is the trace-wide number of a struct trace_kind, `task`
 * the runtime's id of the task (Tokio) or its header's address (async-task, until TE_DROP).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The numbers of the enums in this header are in files, docs/trace-format.md lists them: a number
 * never changes its meaning, new ones are added at the end.
 */

enum trace_event_type {
	TE_NONE = 0,
	/* kind; task = highest id given out when it was seen, 0 if not known. The parent is the
	 * task whose poll is open on this thread. The new task's own id comes with its first other
	 * event: see timeline.h, "spawns find their tasks". arg = TRACE_SPAWN_NAMED: task is the
	 * new task's own name; with TRACE_SPAWN_PARENT value is its parent's, of whatever kind, 0:
	 * it has none */
	TE_SPAWN = 1,
	TE_POLL_BEGIN = 2, /* kind, task */
	/* kind, task; arg = enum trace_outcome: ends the innermost open poll here; value = index of
	 * a struct trace_place + 1: pending there; 0: not known */
	TE_POLL_END = 3,
	/* kind, task; arg = enum trace_wake; the source is what this thread does now */
	TE_WAKE = 4,
	/* kind, task: put into a run queue, by a waker or by something else: only that is known */
	TE_SCHEDULE = 5,
	/* kind, task: ended outside of a poll; arg = enum trace_outcome, 0: cancelled (without
	 * poll events a task can end ready here) */
	TE_CANCEL = 6,
	/* kind, task: memory given back; for address-named tasks the name is free again */
	TE_DROP = 7,
	/* arg = enum trace_call: the thread blocks outside of every task's poll */
	TE_PARK = 8,
	TE_UNPARK = 9, /* arg = the call: and goes on; | TRACE_CALL_IDLE */
	/* arg = the call; value = ns it took; `time` is its end: blocking call in a poll;
	 * | TRACE_CALL_NONBLOCKING */
	TE_BLOCK = 10,
	TE_THREAD_BEGIN = 11, /* this thread's first event in this ring */
	TE_THREAD_END = 12,   /* the thread is gone; arg = TRACE_END_OF_PROCESS: with its process */
	TE_LOST = 13,	      /* value = events of this thread dropped since its event before */
	/* kind (role root): a block_on begins on this thread; arg = TRACE_ROOT_BEFORE: no, it was
	 * there before the recording */
	TE_ROOT_ENTER = 14,
	TE_ROOT_WAKE = 15, /* kind (role root); task = address of its waker's data */
	/* arg = number (x86-64's table); value = ns it took; `time` is its end; task = what it
	 * returned */
	TE_SYSCALL = 16,
	/* arg = enum trace_off_cpu; value = ns; `time` is when the thread ran again; task =
	 * number + 1 of the system call it was in, 0: none or not known */
	TE_OFF_CPU = 17,
	/* arg = enum trace_sample; value = index of a struct trace_stack + 1, 0: without; task =
	 * its weight: ns of time, or counts of the unit */
	TE_SAMPLE = 18,
	/* kind (role future); task = address of the future: its poll begins, inside the poll
	 * that is open on this thread. arg = TRACE_FUTURE_FIRST: it was never polled before */
	TE_FUTURE_BEGIN = 19,
	/* kind, task; arg = enum trace_outcome; value as in TE_POLL_END. Without a begin:
	 * TO_CANCELLED, it was dropped; TO_UNKNOWN, it is not known whether it has ended */
	TE_FUTURE_END = 20,
	/* arg = enum trace_machine; value = address of a machine, what async-std of 2019 called a
	 * worker; kind, task: which task it is about */
	TE_MACHINE = 21,
	/* task = address of what the poll waits for whose TE_POLL_END, pending, is the next event of
	 * this source; arg = enum trace_resource; no kind */
	TE_RESOURCE = 22,
	/* What is known of the next TE_OFF_CPU of this source, whose time they have; task = index of
	 * a struct trace_neighbour + 1, 0: not known; no kind.
	 * TE_LEFT_CPU, TE_GOT_CPU: value = the CPU + 1, 0: not known; task: who ran there next, and
	 * who had run there before */
	TE_LEFT_CPU = 23,
	TE_GOT_CPU = 24,
	TE_WOKEN =
		25, /* value = ns before `time`; task: who was running where the wake came from */
	/* The thread was ready and waited for a CPU, and task had that for `value` ns: of several the
	 * last ends at `time`, each of the others where the next one begins. */
	TE_RAN_INSTEAD = 26,
	TE_N_TYPES,
};

/* Of a TE_POLL_END only: TO_ABORTED, it was no poll. The task was aborted just as it began, and
 * dropped instead. TO_UNSEEN: it ends at an unknown time between its begin and the thread's next
 * event that can't be in it, how is not known; written at once where no end will be seen. */
enum trace_outcome {
	TO_PENDING = 0,
	TO_READY = 1,
	TO_PANICKED = 2,
	TO_CANCELLED = 3,
	TO_UNKNOWN = 4,
	TO_ABORTED = 5,
	TO_UNSEEN = 6,
	TO_N
};

enum trace_wake { TW_SCHEDULED = 0, TW_RUNNING = 1, TW_NOOP = 2, TW_UNKNOWN = 3, TW_N };

enum { TRACE_END_OF_PROCESS = 1 };

enum { TRACE_ROOT_BEFORE = 1 };

enum { TRACE_FUTURE_FIRST = 1 };

/* A call that may block. */
enum trace_call {
	TB_NONE = 0,
	TB_FUTEX = 1, /* a wait: FUTEX_WAIT and its relatives */
	TB_EPOLL_WAIT = 2,
	TB_EPOLL_PWAIT = 3,
	TB_EPOLL_PWAIT2 = 4,
	TB_POLL = 5,
	TB_PPOLL = 6,
	TB_SELECT = 7,
	TB_NANOSLEEP = 8,
	TB_CLOCK_NANOSLEEP = 9,
	TB_USLEEP = 10,
	TB_SLEEP = 11,
	TB_READ = 12,
	TB_PREAD = 13,
	TB_READV = 14,
	TB_WRITE = 15,
	TB_PWRITE = 16,
	TB_WRITEV = 17,
	TB_RECV = 18,
	TB_RECVFROM = 19,
	TB_RECVMSG = 20,
	TB_SEND = 21,
	TB_SENDTO = 22,
	TB_SENDMSG = 23,
	TB_ACCEPT = 24,
	TB_ACCEPT4 = 25,
	TB_CONNECT = 26,
	TB_FSYNC = 27,
	TB_FDATASYNC = 28,
	TB_FLOCK = 29,
	TB_WAITPID = 30,
	TB_WAITID = 31,
	TB_PTHREAD_JOIN = 32,
	TB_PTHREAD_MUTEX_LOCK = 33,
	TB_PTHREAD_COND_WAIT = 34,
	TB_PTHREAD_COND_TIMEDWAIT = 35,
	TB_GETADDRINFO = 36,
	TB_SCHED_YIELD = 37,
	TB_N
};

/* What `arg` holds besides the call. */
enum trace_call_flags {
	TRACE_CALL_NUMBER = 0xff,	/* these bits of `arg` are the call */
	TRACE_CALL_NONBLOCKING = 0x100, /* it can't have waited: only its work took that long */
	TRACE_CALL_IDLE = 0x200,	/* an epoll that returned no event */
};

enum { TRACE_SPAWN_NAMED = 1, TRACE_SPAWN_PARENT = 2 };

/* Why a thread was not on a CPU. */
enum trace_off_cpu {
	TX_PREEMPTED = 0,
	TX_SLEEPING = 1,
	TX_UNINTERRUPTIBLE = 2,
	TX_OTHER = 3,
	TX_N
};

/* What a sample is of. Those of a long poll are its stack, taken while it lasts. */
enum trace_sample {
	TM_CPU_CLOCK = 0, /* weight in ns */
	TM_CYCLES = 1,
	TM_INSTRUCTIONS = 2,
	TM_BLOCKED = 3,	     /* a thread leaves its CPU here; weight 0 */
	TM_LONG_RUNNING = 4, /* weight: ns since the poll began */
	TM_LONG_BLOCKED = 5,
	TM_SPAWN = 6, /* the stack of a spawn, next to its TE_SPAWN; weight 1 */
	TM_PANIC =
		7, /* the stack where a panic starts; weight: 1 + index of its message, 0: not known */
	TM_N
};

/* TASK_LOCAL, TASK_GLOBAL: the task goes into or comes out of that queue, or is about to be run. */
enum trace_machine { TC_STARTING = 0, TC_TASK_LOCAL = 1, TC_TASK_GLOBAL = 2, TC_BLOCKED = 3, TC_N };

/* What a task waits for. */
enum trace_resource {
	TRACE_RESOURCE_OTHER = 0,
	TRACE_RESOURCE_SEMAPHORE = 1,
	TRACE_RESOURCE_MUTEX = 2,
	TRACE_RESOURCE_RWLOCK = 3,
	TRACE_RESOURCE_CHANNEL = 4, /* an end of it, or its semaphore */
	TRACE_RESOURCE_NOTIFY = 5,
	TRACE_RESOURCE_TASK = 6, /* its header */
	TRACE_RESOURCE_IO = 7,	 /* what the runtime knows of a descriptor */
	TRACE_RESOURCE_N
};

/* Times are ns of CLOCK_MONOTONIC, on both sides of the trace file: the source converts. */
struct trace_event {
	uint64_t time;
	uint32_t thread; /* index of a struct trace_thread */
	uint16_t type;	 /* enum trace_event_type */
	uint16_t arg;
	uint32_t kind; /* index of a struct trace_kind, or TRACE_KIND_NONE */
	/* Set by the reader: where the event comes from another source of its thread than the
	 * first, the index of that source's struct trace_thread + 1; else 0. */
	uint32_t stream;
	uint64_t task;
	uint64_t value;
};
_Static_assert(sizeof(struct trace_event) == 40, "trace_event");

#define TRACE_KIND_NONE 0xffffffffu

/* Fixed English words for output: "pending", "scheduled", "epoll_wait"; "?" when out of range. */
const char *trace_event_type_name(unsigned type);
const char *trace_outcome_name(unsigned outcome);
const char *trace_wake_name(unsigned wake);
const char *trace_call_name(unsigned call); /* its flags don't matter */
/* What a blocking call waits for: a lock that another thread holds; a CPU only. */
bool trace_call_waits_for_lock(unsigned call);
bool trace_call_waits_for_cpu(unsigned call);
const char *trace_off_cpu_name(unsigned why);	  /* "preempted", "sleeping", ... */
const char *trace_sample_name(unsigned sample);	  /* "cpu-clock", "cycles", ... */
const char *trace_machine_name(unsigned machine); /* "starting", "task local", ... */
const char *trace_resource_name(unsigned what);	  /* "mutex", "channel", ... */

enum trace_role { TR_TASK = 0, TR_BLOCKING = 1, TR_WORKER = 2, TR_ROOT = 3, TR_FUTURE = 4, TR_N };
const char *trace_role_name(unsigned role); /* "task", "blocking", "worker", "root", "future" */

/* ---- metadata: what the numbers in events mean ---- */

/* Strings belong to the code that filled the struct; writer and reader copy. NULL reads as "". */

struct trace_process {
	uint32_t pid;
	const char *exe;     /* path as the target sees it */
	const char *cmdline; /* arguments joined by spaces */
	uint64_t start_ns;   /* recording began, CLOCK_MONOTONIC */
	uint64_t start_realtime_ns;
	uint64_t clock_step_ps; /* times of events are multiples of it, but for rounding; 0: not
				 * known */
};

struct trace_runtime {
	uint32_t process;     /* index */
	const char *name;     /* "tokio", "async-task" */
	const char *version;  /* "1.38.0", "" if unknown */
	const char *object;   /* path of the ELF object that it was found in */
	const char *verified; /* how the layout was verified: "symbols", "shape: 9 tables", ... */
};

struct trace_thread {
	uint32_t process;
	uint32_t tid;
	/* Several sources may have events of one thread, each in its own order: each then has its
	 * own record. All but the first say here which that is: its index + 1; 0: none before.
	 * trace_reader_next() gives every event with the first one's index. */
	uint32_t stream_of;
	const char *name; /* comm; may be written again when it changes: the last one counts */
};

struct trace_kind {
	uint32_t process;
	uint32_t runtime;	/* index of a struct trace_runtime */
	uint16_t role;		/* enum trace_role */
	uint16_t address_named; /* 1: `task` is an address (async-task), 0: an id */
	uint32_t n_sites;
	uint64_t vtable;       /* address as linked (file), for matching with symbols later */
	uint64_t poll;	       /* address of poll/run, as linked */
	const char *name;      /* for people: "app::worker"; "kind 7" when stripped */
	const char *full_name; /* as the symbols spell it; "" if unknown */
	const char *scheduler; /* "multi_thread", "current_thread", "local", "blocking", "" */
	/* spawn sites, n_sites of each: where tasks of this kind are made */
	const uint64_t *site_addrs; /* as linked */
	const char *const
		*sites; /* "app::main+0x1f3", "app::serve (src/main.rs:12)", "server+0x5f3a0" */
	uint32_t flags; /* enum trace_kind_flags; since 1.6 */
};

enum trace_kind_flags {
	/* A future that handles one request after another of what a library's task serves: in such a
	 * task the outermost one of the program's own. */
	TRACE_KIND_HANDLER = 1,
};

enum trace_place_flags {
	TRACE_PLACE_BRANCHES = 1, /* what is awaited holds further futures: several, or one through
				   * a pointer */
	TRACE_PLACE_OWN = 2,	  /* since 1.5: of the program's own code, not of a library's */
};

/* Links of a chain of await points that are looked at: real ones have some tens. */
enum { TRACE_MAX_OUTER = 256 };

/* An await point: where in its function a task was when its poll ended pending. */
struct trace_place {
	uint32_t process;
	uint32_t line;	      /* 0: not known */
	uint32_t flags;	      /* enum trace_place_flags */
	const char *function; /* for people: "app::serve" */
	const char *file;     /* as the debug information spells it: "src/main.rs"; "" if unknown */
	const char *awaits;   /* what is awaited there: "tokio::time::sleep::Sleep", "select!" */
	/* Since 1.5: 1 + index of the place where the function itself is awaited, by that around it;
	 * 0: by nothing, or not known. Always an earlier one. */
	uint32_t outer;
};

/* "src/main.rs:15 app::serve", of a library's file what follows the registry; safe for a terminal.
 */
struct buf;
void trace_place_text(struct buf *out, const struct trace_place *p);

/* A function in a call stack. One that was inlined has a frame of its own. */
struct trace_frame {
	uint32_t process;
	uint32_t line;	      /* 0: not known */
	uint64_t addr;	      /* as linked, of the instruction; 0: not known */
	const char *object;   /* path of the ELF object, "[vdso]", "[kernel]"; "" if unknown */
	const char *function; /* for people; "" if unknown: then use `addr` and `object` */
	const char *file;     /* "" if unknown */
};

/* "app::serve", or where its code is. */
void trace_frame_name(struct buf *out, const struct trace_frame *f);

/* Frames of a stack that readers look at: one from a stranger's file may have millions. */
#define TRACE_STACK_FRAMES 1024u

enum trace_stack_flags {
	TRACE_STACK_CUT = 1, /* of an outermost frame: there are more, which could not be read */
};

/* A call stack is its innermost frame and the stack of the caller: all stacks are one tree, and an
 * event names one node of it. */
struct trace_stack {
	uint32_t parent; /* index of the caller's struct trace_stack + 1; 0: outermost */
	uint32_t frame;	 /* index of a struct trace_frame */
	uint32_t flags;	 /* enum trace_stack_flags */
};

/* Items of coverage that something looks for: their texts are for people and may change. */
enum trace_cover {
	TRACE_COVER_OTHER = 0,
	TRACE_COVER_PANICS = 1,	      /* objects whose panics are seen; the note names others */
	TRACE_COVER_SPAWNS = 2,	      /* patched spawn sites, which record each task's spawn */
	TRACE_COVER_SPAWN_SITES = 3,  /* spawn sites that were found */
	TRACE_COVER_CALLS = 4,	      /* blocking calls */
	TRACE_COVER_TASK_HEADERS = 5, /* layouts of tasks' headers */
	TRACE_COVER_HANDLERS = 6,     /* handlers of requests that have a name of their own */
	TRACE_COVER_N
};
const char *trace_cover_name(unsigned cover); /* "panics", "patched_spawn_sites", ..., "other" */

/* What was seen and what not: `seen` of `total` items, and why the rest is missing. */
struct trace_coverage {
	uint32_t process;
	uint32_t cover;	  /* enum trace_cover */
	const char *item; /* "task vtables", "spawn sites", "blocking calls", "wakers", "names" */
	uint64_t seen, total;
	const char *note; /* one sentence, "" if all is well */
	/* Whose it is, where a process has several: path of the ELF object and name of the
	 * runtime in it; "" if of all. */
	const char *object, *runtime;
};

/* The recording's own cost, written at its end. */
struct trace_cost {
	uint64_t stop_ns;   /* threads of the target were paused, in total (attach and detach) */
	uint64_t attach_ns; /* from the command to the enabled agent */
	uint64_t recorder_cpu_ns; /* CPU time of pollux itself while recording, without: */
	uint64_t event_cost_ps;	  /* one event in the agent, measured on this machine, in ps; 0: not
				     known */
	uint64_t end_ns;	  /* recording ended, CLOCK_MONOTONIC */
	uint64_t begin_ns;	  /* all sources were in place; 0: not known. The first may have
				   * written events before */
	const char *end_reason;	  /* "interrupted", "duration", "exited 0", "killed by signal 9" */
	uint64_t analysis_cpu_ns; /* to find what is hooked, before the first event; 0 in traces
				   * before 1.3, where it is part of the other */
};

/* What the CPUs gave a process while it was recorded, written at the end. */
struct trace_cpu {
	uint32_t process;
	uint32_t n_threads;    /* whose schedstat was looked at; 0: the kernel has none */
	uint64_t cpu_ns;       /* its CPU time; 0: not known */
	uint64_t run_delay_ns; /* those threads were ready to run, but had no CPU: sum */
	/* of the cgroup, its own or one above, that was throttled most often: periods, those in
	 * which it was throttled, and for how long in all */
	uint64_t n_periods, n_throttled, throttled_ns;
	uint64_t quota_ns, period_ns; /* CPU time that it may use in each; 0: it has no limit */
	const char *cgroup;	      /* its path; "" if there is none with a limit */
};

enum trace_neighbour_flags {
	TRACE_NEIGHBOUR_IDLE = 1, /* no thread: the CPU had nothing to do */
};

/* A thread, of whatever process, that a CPU ran instead of, before or after one that is recorded. */
struct trace_neighbour {
	uint32_t pid, tid; /* as pollux sees them; 0: not known, as of another pid namespace */
	uint32_t flags;	   /* enum trace_neighbour_flags */
	const char *name;  /* comm */
};
