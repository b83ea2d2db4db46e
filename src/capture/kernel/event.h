/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the BPF programs of kernel.bpf.c and the source around them (kernel*.c) share: the table of
 * hooks, filled by the source, and the records of the ring buffer. Fixed widths, since clang
 * compiles this for both sides.
 *
 * A hook is a place with a probe; its number is the probe's cookie. The programs do no more than a
 * place needs: they read what is gone a moment later (registers, the task's first words, a string)
 * and leave all meaning to the source.
 */
#pragma once

#include "agent/runtimes.h"

#define KERNEL_MAX_HOOKS 16384u
#define KERNEL_MAX_POLLS 16u /* open at once on a thread; a power of two */
#define KERNEL_MAX_ARGS 6u
#define KERNEL_MAX_TEXTS 2u
#define KERNEL_TEXT_BYTES 240u
#define KERNEL_MAX_CALLS 512u
#define KERNEL_LAYOUT_WORDS (1u << 18) /* of layout programs of all processes */
#define KERNEL_MAX_PROGRAMS 65536u
#define KERNEL_CALL_MIN_NS 10000u /* shorter calls in a poll are not reported */

enum kernel_hook_type {
	KH_NONE = 0,
	KH_TOKIO_POLL,	   /* entry of Vtable.poll(header), and its return */
	KH_TOKIO_SCHEDULE, /* Vtable.schedule(header) */
	KH_TOKIO_DEALLOC,
	KH_TOKIO_SHUTDOWN,
	KH_TOKIO_OUTPUT_QUERY, /* Vtable.try_read_output, drop_join_handle_slow,
			        * drop_abort_handle */
	KH_TOKIO_WAKE,	       /* wake_by_val, wake_by_ref of a task's waker */
	KH_ASYNC_RUN,	       /* entry of TaskVTable.run(header) */
	KH_ASYNC_RETURN,       /* a `ret` of it */
	KH_ASYNC_SCHEDULE,
	KH_ASYNC_DESTROY,
	KH_ASYNC_CANCEL, /* drop_future */
	KH_ASYNC_WAKE,
	KH_ROOT_WAKE,  /* of a block_on's waker */
	KH_ROOT_ENTER, /* where a block_on makes its waker */
	KH_SPAWN,      /* where a kind's tasks are made */
	KH_RAISE,      /* _Unwind_RaiseException(exception) */
	KH_RESUME,     /* _Unwind_Resume: a cleanup of the function that called it is done */
	KH_PROBE,      /* a USDT probe, or a function that serves as one */
	KH_MEASURE,    /* in pollux itself: what a hit costs */
	KH_N_TYPES,
};

/* As struct probe_arg of binary/elf/probes.h: see there. */
enum kernel_arg_form { KA_NONE = 0, KA_CONST, KA_REG, KA_MEMORY };
#define KERNEL_NO_REG 0xffu

struct kernel_arg {
	__u8 form, size, is_signed, base, index, index_bits, index_signed, shift;
	__s64 value;
};

/* A string among the arguments. */
struct kernel_text {
	__u8 arg; /* number of the argument that points to it, + 1; 0: none */
	__u8 len; /* number of the one that has its length, + 1; 0: it ends with a 0 */
};

struct kernel_hook {
	__u32 type;
	__u32 spawns; /* it says that a task is made */
	/* What the hook has besides, by its type. */
	union {
		/* KH_TOKIO_*: layout of the task. */
		struct {
			__u16 id_offset;      /* OFFSET_UNKNOWN: the vtable says it */
			__u16 trailer_offset; /* end of where an output may be */
		} tokio;
		/* KH_ASYNC_RUN: the function that has the place. */
		struct {
			__u32 before, after; /* how far it reaches from the place */
		} run;
		/* KH_ASYNC_WAKE: the function that calls this one for the same wake. */
		struct {
			__s64 caller;	    /* its start, seen from the place */
			__u32 caller_bytes; /* 0: none */
		} wake;
		/* KH_SPAWN, KH_ROOT_ENTER. */
		struct {
			__s64 next_id; /* Tokio's counter of ids, seen from the place; 0: not known */
		} spawn;
		/* KH_PROBE. */
		struct {
			__u32 n_args;
			struct kernel_text texts[KERNEL_MAX_TEXTS];
			struct kernel_arg args[KERNEL_MAX_ARGS];
		} probe;
	};
};

enum kernel_record_type {
	KR_NONE = 0,
	KR_HOOK = 1,   /* struct kernel_record */
	KR_RETURN,     /* the same: the end of a KH_TOKIO_POLL */
	KR_THREAD,     /* struct kernel_record: a thread's first; words: its name; header: ip */
	KR_EXIT,       /* the thread is gone */
	KR_LOST,       /* header: records of this thread dropped since the one before; sp: when the
			* first of them was */
	KR_CALL_BEGIN, /* a system call that waits begins; header: its number */
	KR_CALL_END,   /* a system call ended; header: its number, sp: when it began; words: first
			* argument << 32 | flags, result */
	KR_PROBE,      /* struct kernel_probe_record */
	KR_TEXTS,      /* struct kernel_text_record */
	KR_STACK,      /* struct kernel_stack_record: of what makes a task, before its own record */
};

enum kernel_flags {
	KF_READ = 1,		 /* the task's words could be read */
	KF_RAISED = 2,		 /* a panic was raised in this poll */
	KF_OUTCOME_SAVED = 4,	 /* its output was read when a waker fired ... */
	KF_OUTCOME_PANICKED = 8, /* ... and was the panic, */
	KF_OUTCOME_ABORTED = 16, /* or the error of an aborted task */
	KF_PANICKED = 32,	 /* the same, at its end */
	KF_ABORTED = 64,
	KF_WOKEN = 128,	   /* run() returned true */
	KF_PAYLOAD = 256,  /* async-task: the output holds the panic */
	KF_UNPOLLED = 512, /* KF_OUTCOME_ABORTED before it was polled */
};

/*
 * Tokio: words are state, id, vtable, state at a second look. async-task: the header's first four.
 * KH_SPAWN: words[0] is the highest id given out.
 */
struct kernel_record {
	__u64 time;
	__u32 tgid, tid; /* as pollux sees them */
	__u16 hook;
	__u16 point; /* at the end of a poll: number of the await point, 0: not known */
	__u16 type, flags;
	__u64 sp;
	__u64 header;
	__u64 words[4];
};

struct kernel_probe_record {
	__u64 time;
	__u32 tgid, tid;
	__u16 hook, reserved;
	__u16 type, flags; /* bit i: argument i could not be read */
	__u64 args[KERNEL_MAX_ARGS];
};

struct kernel_text_record {
	struct kernel_probe_record probe;
	__s32 len[KERNEL_MAX_TEXTS];			/* -1: it could not be read */
	char text[KERNEL_MAX_TEXTS][KERNEL_TEXT_BYTES]; /* the second may not be there */
};
#define KERNEL_ONE_TEXT_BYTES (sizeof(struct kernel_text_record) - KERNEL_TEXT_BYTES)

struct kernel_stack_record {
	__u64 time;
	__u32 tgid, tid;
	__u16 hook, reserved;
	__u16 type, flags;
	struct user_stack stack;
};

/* Whose layout program (agent/ring.h) it is: it is in `layouts`, from a word on. */
struct kernel_program_key {
	__u64 process; /* as pollux sees it */
	__u64 vtable;
};

/* A poll that is open on a thread, as the programs know it. */
struct kernel_poll {
	__u64 header;
	__u64 id;	  /* Tokio: of the task; 0: not known */
	__u64 sp;	  /* at the entry: address of the return address */
	__u64 start, end; /* async-task: of the function */
	struct panic_payload raised;
	__u32 hook;
	__u16 flags; /* enum kernel_flags */
	__u16 is_async;
	__u16 id_offset, trailer_offset;
	__u32 reserved;
};

struct kernel_thread {
	__u32 tgid, tid; /* as pollux sees them */
	__u32 depth;
	__u32 call; /* number + 1 of the system call that it is in, if that is recorded */
	__u64 call_ns;
	__u64 call_args;     /* first argument << 32 | flags */
	__u64 lost, lost_ns; /* not reported yet; the first of them */
	struct kernel_poll polls[KERNEL_MAX_POLLS];
};

struct kernel_lost {
	__u64 of_gone;	    /* records of threads that could not report them at their end */
	__u64 of_untracked; /* of threads that there was no room to keep notes of */
};

enum kernel_call_type {
	KC_NONE = 0,
	KC_WAIT,  /* a thread goes there to wait: its begin is recorded */
	KC_FUTEX, /* the same, of the operations that wait */
	KC_BLOCK, /* recorded when it is over and was long */
};

/* How a system call is handled. */
struct kernel_call_rule {
	__u8 type;
	__u8 flags_word; /* of the registers: its flags; 0: it has none */
};
