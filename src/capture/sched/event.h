/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the BPF programs of sched.bpf.c and sched_plain.bpf.c send to the source in bpf.c: the
 * records of their ring buffer. Fixed widths, since clang compiles this for both sides.
 */
#pragma once

enum sched_event_type {
	SCHED_NOTHING = 0, /* but a loss */
	SCHED_SYSCALL,	   /* value: ns it took; result; number */
	/* struct sched_switch. value: ns; arg: enum sched_why; number: of the system call + 1 or 0 */
	SCHED_OFF_CPU,
	SCHED_EXIT,  /* the thread is gone; arg 1: its process executes another program */
	SCHED_STACK, /* struct sched_stack: where a long wait for a lock was */
};

enum sched_why { SCHED_PREEMPTED = 0, SCHED_SLEEPING, SCHED_UNINTERRUPTIBLE, SCHED_OTHER };

struct sched_event {
	__u64 time; /* ns of CLOCK_MONOTONIC, at the end of what is reported */
	__u64 value;
	__s64 result;
	__u32 tgid, tid; /* as pollux sees them */
	__u32 lost;	 /* events of this thread that found no room since its event before */
	__u16 type, arg;
	__u32 number;
	__u32 reserved;
};

/* Of a wait for a lock: when it took this long (report/hists.c needs no less). */
#define SCHED_LOCK_NS 100000u

struct sched_stack {
	struct sched_event event;
	struct user_stack stack;
};

enum sched_who_flags { SCHED_KNOWN = 1, SCHED_IDLE = 2 };

/* A thread of the machine. */
struct sched_who {
	__u32 tgid, tid; /* as pollux sees them; 0: not known */
	__u32 flags;	 /* enum sched_who_flags */
	__u32 reserved;
	char name[16];
};

/* What a CPU ran from when to when. */
struct sched_run {
	__u64 begin_ns, end_ns;
	struct sched_who who;
};

/* Runs that are kept of each CPU. */
#define SCHED_RUNS 64u
#define SCHED_FEW_RUNS 4u
#define SCHED_SOME_RUNS 16u
/* After a wait for a CPU of this length they are reported: all, some or a few, whichever suffice. */
#define SCHED_WAIT_NS 50000u

struct sched_switch {
	struct sched_event event; /* SCHED_OFF_CPU */
	__u64 ready_ns;		  /* it waited for a CPU since then; 0: not known */
	__u32 left_cpu, got_cpu;  /* the CPU + 1; 0: not known */
	struct sched_who next, before, waker;
	/* As many as the record is long: what the CPU ran that it waited for, the newest last. Of another
	 * CPU the first one is what it runs still. */
	struct sched_run runs[SCHED_RUNS];
};

struct sched_settings {
	__u32 pid_ns;	 /* inode of pollux' own pid namespace, where that is not the first one */
	__s32 stacks_of; /* the system call whose long waits are reported with their stack; -1:
			  * none */
	__u32 has_state; /* the tracepoint of a switch hands the state over (Linux 5.18) */
};

/* What the programs keep of each thread, by the kernel's own tid. */
struct sched_thread {
	__u64 enter_ns; /* in a system call since then; 0: not, or not known */
	__u64 off_ns;	/* off its CPU since then; 0: on it, or not known */
	__u32 tgid, tid;
	__u32 number;	  /* of the system call */
	__u32 off_reason; /* it is off its CPU */
	__u32 off_number;
	__u32 lost;	/* not yet reported */
	__u32 ended;	/* what it does on its way out is not reported */
	__u32 left_cpu; /* + 1 */
	__u32 left_run; /* runs of that CPU by then, its own with them */
	__u32 reserved;
	__u64 woken_ns; /* while it was off its CPU; 0: it was not */
	struct sched_who next, waker;
};

/* What the programs keep of each CPU. */
struct sched_cpu {
	__u64 since_ns;	      /* it has run what it runs since then; 0: not known */
	struct sched_who now; /* what it runs, */
	__u32 key;	      /* by the kernel's own tid */
	__u32 n_runs;
	struct sched_run runs[SCHED_RUNS]; /* by their number, modulo SCHED_RUNS */
};

/* Counts beyond those of a thread. */
struct sched_lost {
	__u64 of_gone;	    /* events of threads that could not report them at their end */
	__u64 of_untracked; /* what happened to threads that there was no room to keep notes of */
};
