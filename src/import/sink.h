/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Where importers put what they have read: processes and threads, hits of probes and other events
 * nearly in order of time, stacks, losses, and what was not understood. Private to this module.
 */
#pragma once

#include "base/map.h"
#include "base/order.h"
#include "import/diagnostics.h"
#include "import/frames.h"
#include "import/import.h"
#include "runtime/providers.h"

#define SINK_COMM_BYTES 32u
#define SINK_NO_SYSCALL UINT32_MAX

struct import_process {
	uint32_t index, pid;
	bool declared; /* the trace knows of it */
	char *exe;     /* NULL: not known */
};

enum sink_item_type {
	HIT_PROBE = 1,
	HIT_SYS_ENTER, /* args: number; detail 1: as the kernel of the recorded machine counts them */
	HIT_SYS_EXIT, /* args: number, result; detail as above */
	HIT_SAMPLE,   /* detail: enum trace_sample; args: weight */
	HIT_LOST,     /* args: how many, of whatever threads: a buffer is a processor's */
	HIT_EXIT,     /* of the thread */
	HIT_EXEC,     /* the process executed a new program */
	/* The thread leaves its CPU. detail: enum trace_off_cpu, or TX_N: for good; args, as
	 * sched_switch gives them, or 0: the kernel's own number for the thread, and for the one
	 * that comes in its place. thread may be NULL: only the other is of interest. */
	HIT_OFF_CPU,
	HIT_ON_CPU,	   /* and it comes back */
	HIT_LOST_SWITCHES, /* args: how many of those two, of whatever threads */
};

/* Something that happened on a thread, before it is put in order. */
struct sink_item {
	struct order_item order;
	struct import_thread *thread;
	const struct provider_probe *probe; /* HIT_PROBE */
	const char *file, *name;	    /* sink_keep(), or NULL */
	uint64_t args[PROVIDER_MAX_ARGS];
	uint64_t stack;	       /* as frames_stack() */
	uint16_t type, detail; /* enum sink_item_type; see there */
};

struct import_thread {
	struct import_process *process;
	uint32_t index, tid;
	uint32_t syscall; /* number of the one that it is in, SINK_NO_SYSCALL: none */
	uint64_t syscall_ns;
	uint64_t off_ns;      /* off its CPU since then; 0: on it, or not known */
	uint32_t off_syscall; /* number + 1 of the system call that it was in then, 0: none */
	uint16_t off_why;
	uint32_t stream;    /* its times off CPU: index + 1, 0: none yet */
	bool syscall_named; /* its number is x86-64's */
	bool declared;	    /* the trace knows of it */
	bool active;	    /* something happened on it since the last loss */
	uint32_t comm_len;
	char comm[SINK_COMM_BYTES];
	struct sink_item last; /* what was given of it last */
	void *user;	       /* the importer's own, freed with it */
};

struct sink {
	struct trace_writer *writer;
	const char *input; /* name of the file */
	char machine[16];  /* on which it was recorded, as uname calls it; empty: as this one */
	struct diagnostics diagnostics;
	struct frames frames;
	struct import_names strings;
	struct order order;
	struct providers *providers;
	struct map processes, threads; /* by pid; by (pid, tid) */
	struct map away;	       /* threads off their CPU, by the kernel's number for them */
	struct import_thread **active; /* threads on which something happened since the last loss */
	size_t n_active, active_cap;
	uint32_t n_threads, n_emitted;
	bool rounds;	   /* the trace gets rounds: not if several files are read */
	uint64_t given_ns; /* what was taken out of the order last */
	uint64_t n_items;  /* set by the importers as they go */
	uint64_t n_events, n_lost, n_late;
	uint64_t n_hits, n_twice, n_inconsistent_syscalls, n_unnamed_syscalls;
	uint64_t n_off_cpu, n_never_back;
	uint64_t n_undrained, drain_mark_ns;
	uint64_t round_events; /* n_events at the last round */
	uint64_t first_ns, last_ns;
	int code; /* of the writer, sticky */
};

/* On what it was recorded: nothing changes if it is a machine such as this. */
void sink_machine(struct sink *s, const char *name, size_t len);

int sink_init(struct sink *s, struct trace_writer *w, bool rounds, struct error *err);
void sink_done(struct sink *s);

/* Never written twice; pid 0: not known. NULL: out of memory (the sink's code is set). `exe` counts
 * until the first thread of the process is seen. */
struct import_process *sink_process(struct sink *s, uint32_t pid, const char *exe, size_t len);
/* The thread; its name is written again if it changed. */
struct import_thread *sink_thread(struct sink *s, uint32_t pid, uint32_t tid, const char *comm,
				  size_t len);
/* Its name, whether or not it ever has events. */
int sink_comm(struct sink *s, uint32_t pid, uint32_t tid, const char *comm, size_t len);
/* The thread is gone: if it never had events, it is not written either. */
void sink_forget(struct sink *s, uint32_t pid, uint32_t tid);
/* A string that stays, 0-terminated; NULL: not kept. */
const char *sink_keep(struct sink *s, const char *text, size_t len);

/* Takes it into the order; may give out others. The sink's code, 0 if all is well. */
int sink_hit(struct sink *s, const struct sink_item *hit);
/* The end of a file. */
int sink_flush(struct sink *s);

/* Past order and probes: in each thread's own order, all nearly in order of time; a round says that
 * what is older than the watermark was given. */
int sink_event(struct sink *s, struct trace_event *ev);

/* An item that was not understood; at: number of its line or record. */
void sink_diagnose(struct sink *s, const char *reason, const char *detail, size_t len, uint64_t at);
int sink_cover(struct sink *s, const char *item, uint64_t seen, uint64_t total, const char *note);
