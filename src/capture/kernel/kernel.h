/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Private to this folder, the source that sees a program by probes that the kernel puts into it.
 *
 *   kernel.c         life: start, drain, end; every process of a binary
 *   process.c        a process: what is in it, its part of the trace, its probes put in
 *   sites.c          an ELF object: where its probes are and what each hit means
 *   insn.c           at which instruction a probe may be, and at which it is cheap
 *   core.c           the programs in the kernel: loading, attaching, the ring
 *   points.c         await points: layout programs for the programs in the kernel
 *   sema.c           semaphores that the kernel can't raise
 *   window.c         records in the order of time
 *   take.c           records into events: threads, calls, losses, known probes
 *   tasks.c          the same for the functions of the runtimes
 */
#ifndef POLLUX_CAPTURE_KERNEL_KERNEL_H
#define POLLUX_CAPTURE_KERNEL_KERNEL_H

#include "base/map.h"
#include "binary/elf/probes.h"
#include "capture/bpf_ring.h"
#include "capture/capture.h"
#include "capture/exec_watch.h"
#include "capture/drain_interval.h"
#include "process/launch.h"
#include "process/objects.h"
#include "process/process.h"
#include "runtime/providers.h"
#include "runtime/runtime.h"

#include <linux/types.h>

#include "capture/samples/user_stack.h"

#include "capture/kernel/event.h"
#include "trace/coverage.h"

/* ---- where probes are ---- */

enum kernel_program { KP_FUNCTION = 0, KP_RETURN, KP_PROBE, KP_N };

struct kernel_site {
	uint64_t addr;	  /* linked */
	uint64_t offset;  /* in the file */
	uint64_t ref_ctr; /* of its semaphore in the file, 0: none, or pollux raises it */
	uint32_t hook;
	uint8_t program; /* enum kernel_program */
	bool refused;	 /* the kernel did not take it */
};

#define KERNEL_NO_KIND UINT32_MAX

/* What the source knows of a hook besides what the programs know. */
struct kernel_place {
	uint32_t object; /* number of its struct kernel_object */
	uint32_t kind;	 /* into scan.kinds; KERNEL_NO_KIND: by the task's vtable */
	uint32_t waker;	 /* into scan.wakers, or KERNEL_NO_KIND */
	uint8_t type;	 /* enum kernel_hook_type */
	uint64_t addr;	 /* linked */
	const struct provider_probe *row; /* KH_PROBE */
	const struct probe *probe;	  /* of a note; NULL: of a function */
};

/* An ELF file with everything that can be probed in it, once for all processes that have it. */
struct kernel_object {
	uint64_t dev, ino;
	uint8_t role; /* what was looked for in it: kernel.c's own */
	char *path;   /* as the first process names it */
	int fd;
	struct runtime_scan scan;
	struct probes *probes;
	struct kernel_site *sites;
	size_t n_sites;
	uint64_t *semaphores; /* linked addresses of all */
	size_t n_semaphores;
	struct coverage_list coverage; /* of its sites */
	uint32_t n_known;	       /* sites of probes that are known */
	uint32_t n_stepped;	       /* sites whose instruction is single-stepped */
	uint32_t n_tail_leaves;	       /* run functions that may be left by a jump */
	bool parks;		       /* its probes report parked threads themselves */
};

struct kernel_hooks {
	struct kernel_hook *table; /* as the programs have it */
	struct kernel_place *places;
	uint32_t n, n_told; /* of them, those that the kernel knows by now */
};

/* All that can be probed in an object. Known probes win over functions: with `functions` false only
 * those are looked for. -ENOENT: there is nothing. `deadline_ns`: debug information may be read for
 * names until then. */
int kernel_sites_find(struct elf_image *image, const char *path, uint32_t number, bool functions,
		      uint64_t deadline_ns, struct kernel_hooks *hooks, struct kernel_object *ret,
		      struct error *err);
/* The unwinder's two functions, if it is in this object and anything of `hooks` may panic. */
int kernel_sites_unwinder(struct elf_image *image, const char *path, uint32_t number,
			  struct kernel_hooks *hooks, struct kernel_object *ret, struct error *err);
/* Whether the object carries probes that are known. */
int kernel_sites_known(struct elf_image *image, bool *ret_known, struct error *err);
void kernel_object_done(struct kernel_object *o);
void kernel_hooks_done(struct kernel_hooks *h);
/* An operand for the programs; false if they can't read it. */
bool kernel_arg_of(const struct probe_arg *arg, struct kernel_arg *ret);

/* What the kernel does with an instruction that has a probe. */
enum kernel_insn { KI_REFUSED = 0, KI_STEPPED, KI_EMULATED };
enum kernel_insn kernel_insn_class(const uint8_t *bytes, size_t len);
/* A place for a probe at addr: there, or at an instruction after it that is executed exactly as
 * often, that the kernel emulates, and at which `keep` (registers by bits) are still as at addr. */
enum kernel_insn kernel_insn_place(struct elf_image *image, uint64_t addr, uint16_t keep,
				   uint64_t *ret_addr);
/* The function's `ret`s, for free(); *ret_leaves: it can be left by a jump, too. */
int kernel_insn_returns(struct elf_image *image, uint64_t start, uint64_t end, uint64_t **ret,
			size_t *ret_n, bool *ret_leaves);

/* ---- the programs in the kernel ---- */

struct kernel_core;

struct kernel_core_options {
	uint64_t ring_bytes;
	bool spawn_stacks;
	bool event_per_probe; /* a perf event for each, as for a kernel before 6.6 */
};

int kernel_core_open(const struct kernel_core_options *opt, struct kernel_core **ret_core,
		     struct error *err);
void kernel_core_free(struct kernel_core *core);
/* Whether begins are reported (they are at first); what has begun reports its end in any case. */
void kernel_core_gate(struct kernel_core *core, bool open);
/* What one hit costs the program, measured on the way. */
uint64_t kernel_core_cost_ps(const struct kernel_core *core);
struct bpf_ring *kernel_core_ring(struct kernel_core *core);
int kernel_core_tell_hooks(struct kernel_core *core, struct kernel_hooks *hooks);
/* The layout program of the tasks with this vtable in a process. -ENOSPC: there is no room. */
int kernel_core_layout(struct kernel_core *core, pid_t pid, uint64_t vtable, const uint64_t *words,
		       size_t n);

/* File descriptors that hold probes in place; closing them takes the probes out. */
struct kernel_links {
	int *fds;
	size_t n;
};

/* Puts probes into one process (0: into all that have or will have the file). Sites that the kernel
 * refuses are marked. Negative errno: nothing could be attached. */
int kernel_core_attach(struct kernel_core *core, enum kernel_program program, int file_fd,
		       pid_t pid, struct kernel_site *sites, size_t n, struct kernel_links *links,
		       struct error *err);
void kernel_links_close(struct kernel_links *links);
/* Losses that no thread has reported: of threads that still exist, one call of `tell` each; and the
 * number of all others. */
int kernel_core_untold(struct kernel_core *core,
		       int (*tell)(void *context, uint32_t tgid, uint32_t tid, uint64_t n,
				   uint64_t first_ns),
		       void *context, uint64_t *ret_others);

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

/* Records of all threads, in the order of time. */
struct kernel_window {
	struct kernel_item {
		uint64_t time;
		uint32_t at, len; /* into bytes */
	} * items;
	size_t n, cap;
	uint8_t *bytes;
	size_t n_bytes, cap_bytes;
};
void kernel_window_done(struct kernel_window *w);
int kernel_window_add(struct kernel_window *w, const void *record, size_t len);
/* Gives the records before `before` to take(), oldest first, and forgets them. */
int kernel_window_take(struct kernel_window *w, uint64_t before_ns,
		       int (*take)(void *context, const void *record, size_t len), void *context);

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

/* A task whose memory was found given back before anybody was seen to do it. */
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
	uint32_t n_freed; /* so far; the oldest ones make room */
	struct kernel_window window;
	struct kernel_out out;
	uint64_t n_events, n_lost, first_lost_ns, last_lost_ns;
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
			 int (*tell)(struct capture *c, const struct trace_coverage *one,
				     struct capture_stats *stats),
			 struct capture_stats *stats);

/* points.c: begins for a process whose kinds are in the trace; with `wait` a short while until all
 * is there. */
int kernel_points_begin(struct capture *c, struct kernel_process *p, bool wait);
/* Takes what is ready. */
int kernel_points_take(struct capture *c, struct kernel_process *p);
/* The await point of a pending poll's end: trace_event.value. */
uint64_t kernel_points_value(const struct kernel_process *p, uint16_t point, uint32_t kind);
int kernel_points_tell(struct capture *c, const struct kernel_process *p,
		       struct capture_stats *stats);
void kernel_points_free(struct capture *c, struct kernel_process *p);

/* kernel.c: the process of a record; NULL: not recorded (or gone). */
int kernel_process_of(struct capture *c, uint32_t tgid, struct kernel_process **ret_process);

/* take.c: one record. */
int kernel_take(void *context, const void *record, size_t len);
int kernel_put(struct capture *c, const struct kernel_process *p, const struct trace_event *e);
int kernel_flush(struct capture *c);
int kernel_tell_loss(struct capture *c, struct kernel_process *p, struct kernel_track *t,
		     uint64_t time, uint64_t n, uint64_t first_ns);
/* The thread, written to the trace if it is new. NULL: that failed. */
struct kernel_track *kernel_track(struct capture *c, struct kernel_process *p, uint32_t tid,
				  const char *name, uint64_t time);
/* The thread has ended. */
int kernel_track_end(struct capture *c, struct kernel_track *t, uint64_t time);
/* Says to those who watch what each thread is at. */
void kernel_tell_polls(struct capture *c);
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

#endif
