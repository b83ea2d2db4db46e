/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Private to this folder, the source that sees a program by probes that the kernel puts into it. On
 * top of object.h and core.h, the recording itself:
 *
 *   kernel.c         life: start, drain, end; every process of a binary
 *   process.c        a process: what is in it, its part of the trace, its probes put in
 *   points.c         await points: layout programs for the programs in the kernel
 *   sema.c           semaphores that the kernel can't raise
 *   take.c           records into events: threads, calls, losses, known probes
 *   tasks.c          the same for the functions of the runtimes
 */
#pragma once

#include "base/map.h"
#include "base/order.h"
#include "capture/capture.h"
#include "capture/descriptors.h"
#include "capture/drain_interval.h"
#include "capture/exec_watch.h"
#include "capture/kernel/core.h"
#include "process/launch.h"
#include "process/objects.h"
#include "process/process.h"

/* ---- processes ---- */

/* A kind of a process as the records name it: by its vtable. */
struct kernel_kind {
	uint32_t index;	       /* in the trace */
	uint16_t state_offset; /* async-task: OFFSET_UNKNOWN until it is learned */
	bool worker, task;     /* polls are a worker's loop; are known not to be */
};

struct kernel_loaded {
	uint32_t object; /* number */
	uint64_t bias;
	struct kernel_kind *kinds; /* by those of the scan */
	uint32_t *wakers;	   /* trace indices, the same */
};

struct kernel_process {
	struct process process;
	struct process_objects objects;
	pid_t pid;
	uint32_t index; /* in the trace */
	struct kernel_loaded *loaded;
	size_t n_loaded;
	struct kernel_links links[KP_N];
	struct map kinds; /* address of a vtable to a struct kernel_kind */
	struct descriptors descriptors;
	uint64_t *raised; /* semaphores that we have raised, addresses in the process */
	size_t n_raised;
	bool alive;
	struct kernel_points *points; /* NULL: await points are not recorded */
	bool providers;		      /* its events go by the table of known probes */
	bool parks;		      /* its probes report parked threads */
};

/*
 * Raises those that still are 0 in the process' memory, and remembers it. The kernel raises
 * semaphores itself; it can't where one's address is odd, and where a program linked by lld was not
 * yet set up by its loader: its page of the file is mapped twice then, and the kernel counts in the
 * wrong copy.
 */
int kernel_sema_raise(struct kernel_process *p, uint64_t bias, const uint64_t *semaphores,
		      size_t n);
void kernel_sema_lower(struct kernel_process *p);

/* ---- records ---- */

/* A poll that is open on a thread. */
struct kernel_frame {
	struct kernel_kind *kind;
	uint64_t header, task; /* the latter as events name it */
	uint64_t sp;
	bool async;
	bool polled;		  /* its begin is reported */
	bool cancelled;		  /* it ends a task that was cancelled before */
	bool freed;		  /* its memory was given back meanwhile: reported at its end */
	bool finished, shut_down; /* its runtime was shut down: agent/tokio.c */
	bool shut_idle;		  /* the same, while it seemed to wait in a queue */
	bool went_on;		  /* another poll of the task began since: it ended pending */
	bool asked;		  /* it was cancelled, and its output was queried, ... */
	enum trace_outcome read;  /* ... and saw how this ends; TO_PENDING: didn't */
	uint64_t raised_ns;	  /* last thing seen since a panic was raised in it */
};

#define KERNEL_MAX_FRAMES 32u

/* A task whose memory was found given back before a drop was seen. */
struct kernel_freed {
	const struct kernel_process *process;
	uint64_t header, task;
};

#define KERNEL_MAX_FREED 64u /* it is seen within microseconds, if ever */

/* A thread as the source follows it. */
struct kernel_track {
	struct kernel_process *process;
	uint32_t tid;
	uint32_t index; /* in the trace */
	uint32_t depth;
	struct kernel_frame frames[KERNEL_MAX_FRAMES];
	uint64_t wake; /* the task of the last event if that was a wake, else 0 */
	uint32_t wake_kind;
	const struct kernel_kind *spawned; /* of the last event if that was a spawn, else NULL */
	bool parked;			   /* a park is reported and open */
	bool stream_known;		   /* of stacks: */
	uint32_t stream;		   /* index in the trace */
	/* of known probes */
	uint32_t open; /* polls and blocking sections */
	/* for those who watch */
	uint64_t poll_begin_ns, poll_number;
};

struct kernel_out {
	struct trace_event events[1024];
	size_t n;
	uint32_t thread;
};

struct capture {
	struct capture_shared *shared;
	struct kernel_core *core;
	struct kernel_hooks hooks;
	struct kernel_object *objects;
	size_t n_objects;
	struct kernel_process **processes;
	size_t n_processes;
	struct providers *providers;
	struct map tracks; /* (process, tid) */
	struct map open;   /* (process, header) to the struct kernel_track that polls it */
	struct kernel_freed freed[KERNEL_MAX_FREED];
	uint32_t n_freed;     /* so far; the oldest ones make room */
	struct order waiting; /* struct waiting, in kernel.c */
	struct kernel_out out;
	struct capture_loss lost;
	struct kernel_life *life; /* kernel.c's own */
};

/* kernel.c's own, and whether every process of a binary is recorded. */
struct kernel_life {
	pid_t child; /* launched, not yet reaped */
	int exit_status;
	struct exec_watch late; /* launched, with nothing to probe so far */
	struct error why_empty; /* what the last look said */
	struct tracer *tracer;
	struct entry_stop parked;
	uint64_t drain_start_ns, next_alive_ns, next_scan_ns;
	struct drain_interval pace;
	uint64_t attach_ns;
	/* every process of a binary */
	bool all;
	uint64_t dev, ino;
	struct kernel_links all_links[KP_N];
	struct map known; /* pids that were looked at already */
	bool full;
	uint64_t n_busy; /* processes that another pollux records by its agent */
};

/* process.c */
/* What an object is looked at for. */
enum kernel_role { ROLE_PROBES = 1, ROLE_FUNCTIONS, ROLE_UNWINDER };
/* The object's number; without sites if there is nothing in it. Negative errno. */
int kernel_look_at(struct capture *c, struct elf_image *image, const char *path, uint8_t role,
		   uint64_t deadline_ns, struct error *err);
/* Takes the process' handles over in every case. -ENOENT: there is nothing to probe. */
int kernel_add_process(struct capture *c, struct process *taken, struct kernel_process **ret,
		       struct error *err);
int kernel_add_pid(struct capture *c, pid_t pid, struct kernel_process **ret, struct error *err);
void kernel_process_free(struct capture *c, struct kernel_process *p);
int kernel_each_coverage(struct capture *c, const struct kernel_process *p,
			 int (*emit)(struct capture *c, const struct trace_coverage *one,
				     struct capture_stats *stats),
			 struct capture_stats *stats);

/* points.c: begins for a process whose kinds are in the trace; with `wait` a short while until all
 * is there. */
int kernel_points_begin(struct capture *c, struct kernel_process *p, bool wait);
/* Takes what is ready. */
int kernel_points_take(struct capture *c, struct kernel_process *p);
/* The await point of a pending poll's end: trace_event.value. */
uint64_t kernel_points_value(const struct kernel_process *p, uint16_t point, uint32_t kind);
int kernel_points_emit(struct capture *c, const struct kernel_process *p,
		       struct capture_stats *stats);
void kernel_points_free(struct capture *c, struct kernel_process *p);

/* kernel.c: the process of a record; NULL: not recorded (or gone). */
int kernel_process_of(struct capture *c, uint32_t tgid, struct kernel_process **ret_process);

/* take.c: one record. */
int kernel_take(void *context, const void *record, size_t len);
int kernel_put(struct capture *c, const struct kernel_process *p, const struct trace_event *e);
int kernel_flush(struct capture *c);
int kernel_emit_loss(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		     uint64_t time, uint64_t n, uint64_t first_ns);
/* The call in which a poll waits when the recording ends, as if it were over. */
int kernel_emit_open_call(struct capture *c, struct kernel_process *p, const struct kernel_track *t,
			  const struct kernel_thread *in_kernel, uint64_t end_ns);
/* The thread, written to the trace if it is new. NULL: that failed. */
struct kernel_track *kernel_track(struct capture *c, struct kernel_process *p, uint32_t tid,
				  const char *name, uint64_t time);
/* The thread has ended. */
int kernel_track_end(struct capture *c, struct kernel_track *t, uint64_t time);
/* Says to those who watch what each thread is at. */
void kernel_emit_polls(struct capture *c);
void kernel_poll_begins(struct kernel_track *t, uint64_t time);
void kernel_poll_ends(struct capture *c, struct kernel_track *t, uint64_t time);
int kernel_providers_begin(struct capture *c);

/* tasks.c */
int kernel_task(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		const struct kernel_place *place, const struct kernel_record *r);
/* Whether a poll of a task (not a worker's loop) is open. */
bool kernel_in_poll(const struct kernel_track *t);
/* All that is open on the thread ends, unseen. */
int kernel_tasks_end(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		     uint64_t time);
