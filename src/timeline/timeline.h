/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The one state machine that gives events their meaning: tasks, polls, waits, wakes, workers. Fed
 * with events in time order (each thread's own order is exact, the order between threads is nearly
 * so), it reports what happened to a sink as soon as it is known. Memory grows with what is alive,
 * never with the length of the trace; no I/O.
 *
 *               spawn            poll begins          poll ends: ready, panicked, cancelled
 *    (unseen) ────────▶ SCHEDULED ────────▶ POLLING ─────────────────────────────▶ DONE
 *                           ▲                  │ pending                              ▲
 *                           │ wake             ▼                                      │ cancel
 *                           └────────────── WAITING ───────────────────────────────── ┘
 *
 * A wake during the task's own poll makes it SCHEDULED at the end of that poll. A lost event may
 * have woken, polled or ended any task, so after a loss every task that is not just being polled
 * elsewhere is in state UNKNOWN until its next event: nothing is invented. docs/timeline.md says
 * what each broken input means; tests/unit/test_timeline*.c have a test for each row.
 *
 * Spawns find their tasks. TE_SPAWN comes where the task is made and has its kind, its parent (the
 * poll open on that thread) and, where known, the highest id given out so far; the task's own name
 * comes with its first event. Rules, the first that fits:
 *   address-named kinds: the TE_SCHEDULE or TE_POLL_BEGIN of an unknown task of that kind that
 *     follows on the same thread (async-task schedules a new task at once), but not of blocking
 *     tasks, which get into their queue unseen;
 *   with hints: the waiting spawn of that kind with the smallest hint >= id;
 *   without: the oldest waiting spawn of that kind (the parent is then likely, not proven).
 * A waiting spawn is a live task. task_begin is called when the task's name is known, with the
 * spawn's time; spawns that never find their task are reported at the finish, alive and never
 * polled.
 *
 * block_on's root future is no task of the runtime, and its polls are *inferred*: see roots.c.
 *
 * A connection's task serves one request after another. Each is a *round*: an instance of a future
 * whose kind is a handler (TRACE_KIND_HANDLER), from its first poll to its last. What the task does
 * belongs to one round, or to none, so what is summed up by round adds up to the task's own sums:
 *   a poll, to the round that was polled longest in it, none if none was;
 *   what is between polls, to the round that was polled last in the poll before and is pending;
 *   a wake, a call, a sample, to the round that is polled then, else to that of what is around.
 */
#pragma once

#include "base/error.h"
#include "trace/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timeline;

enum task_state { TS_UNKNOWN = 0, TS_SCHEDULED, TS_POLLING, TS_WAITING, TS_DONE };

/* A task as the timeline knows it. Valid during the call of the sink only. */
struct tl_task {
	uint64_t serial; /* trace-wide number in order of first appearance, from 1 */
	uint32_t kind;	 /* index of a struct trace_kind */
	/* Its kind's; a kind without a name may turn out to be a worker's later. */
	enum trace_role role;
	/* The runtime's name for it: id or address. A root: index of its thread, or the address of
	 * its waker if it began before the recording. */
	uint64_t id;
	/* The number by which people know it: the runtime's id where there is one (so that it is
	 * the same in every tool), the serial elsewhere. */
	uint64_t number;
	/* Dense: below the most that have been alive at a time. After task_end it is another one's. */
	uint32_t slot;
	uint32_t parent_slot; /* that `parent` had; meaningless if there is none */
	uint64_t parent;      /* serial of the task whose poll spawned it, 0 if none or not known */
	uint64_t parent_number; /* and the number by which people know that one */
	uint32_t spawn_thread;	/* index; UINT32_MAX if the spawn was not seen */
	bool spawn_seen;	/* false: it lived before the recording (or its spawn was lost) */
	uint64_t spawn_ns;	/* time of its spawn; if not seen, of its first event */
	uint64_t end_ns;	/* 0 while alive */
	enum trace_outcome outcome; /* TO_PENDING while alive; else how it ended */
	enum task_state state;
	/* So far, in its whole life: no filter counts here. */
	uint64_t n_polls, n_wakes, n_self_wakes; /* self-wakes: deferred ones included */
	uint64_t poll_ns, wait_ns, sched_ns;	 /* polled (known lengths), waiting, scheduled */
	void *user; /* the sink's own: set and read in callbacks, kept until task_end */
	/* replay.c's own notes: what the filter says of it; calls in its open poll that were before
	 * the window */
	uint8_t passed;
	uint64_t blocked_before_ns;
};

/* What every count of tasks counts: a block_on, a worker's loop or a future is no task. */
static inline bool tl_role_counts(unsigned role)
{
	return role == TR_TASK || role == TR_BLOCKING;
}

/* The request that something belongs to; serial 0: none. */
struct tl_round {
	uint64_t serial; /* of the tl_future that handles it */
	uint32_t kind;	 /* and its kind; meaningless if there is none */
};

/* One poll of a task, reported when it ends. Polls of one task never overlap; polls on one thread
 * nest.
 */
struct tl_poll {
	struct tl_task *task;
	uint32_t thread;
	uint32_t depth; /* 0: not inside another task's poll on this thread (workers' main loops
			 * do not count) */
	uint64_t begin_ns, end_ns;
	enum trace_outcome outcome; /* TO_UNKNOWN also where a loss or the trace's end cut it */
	bool begin_seen; /* false: began before the recording or in a loss: no length is known, and
			  * begin_ns == end_ns */
	bool end_seen;	 /* false: it ended at an unknown time after end_ns, the last that was seen
			  * of it: no length is known. True also where it was cut: it lasted at
			  * least that long */
	bool inferred;	 /* of a root future: between the events that were seen, see roots.c */
	bool woken_inside;     /* woken while running: it is scheduled again at end_ns */
	uint64_t scheduled_ns; /* when it became scheduled, 0 if not known; begin_ns - this is the
				* scheduling delay */
	uint64_t wake_serial;  /* number of the tl_wake that scheduled it, 0 if none */
	uint64_t place;	       /* await point at which it ended pending: 1 + the index of a struct
				* trace_place; 0: not known */
	uint64_t blocked_ns;   /* sum of blocking calls inside: those that kept the worker */
	uint32_t n_blocks;
	uint64_t section_ns; /* from then on it was in block_in_place: another thread is the worker.
			      * 0: it wasn't */
	struct tl_round round;
};

/* How long it kept its worker from other tasks. */
static inline uint64_t tl_poll_held_ns(const struct tl_poll *poll)
{
	bool gave_up = poll->section_ns && poll->section_ns < poll->end_ns;
	uint64_t end = gave_up ? poll->section_ns : poll->end_ns;
	return end > poll->begin_ns ? end - poll->begin_ns : 0;
}

/* What a task waits for. */
struct tl_resource {
	uint64_t address; /* in the task's process; 0: not known */
	uint16_t type;	  /* enum trace_resource */
};

/* A stretch of a task's life between polls, reported when it ends. */
struct tl_wait {
	struct tl_task *task;
	enum task_state state; /* TS_WAITING: not woken; TS_SCHEDULED: in a run queue; TS_UNKNOWN */
	enum task_state next;  /* what follows; TS_DONE: it ended */
	bool open;	       /* the trace ended before it did */
	uint64_t place;	       /* the await point at which it waits, as tl_poll.place */
	struct tl_resource resource; /* what it waits for */
	uint32_t thread; /* on which it is polled next; UINT32_MAX: it isn't, or unseen */
	uint64_t begin_ns, end_ns;
	struct tl_round round;
};

/* A waker fired, or a task was scheduled otherwise. */
struct tl_wake {
	uint64_t serial;	     /* from 1, counts all wakes */
	struct tl_task *task;	     /* the woken one */
	struct tl_task *source_task; /* whose poll was open on the thread, NULL: the thread itself
				      * (a driver, a foreign thread). With a filter it may be one
				      * that was not reported; its user is NULL then */
	uint32_t thread;
	uint64_t time_ns;
	enum trace_wake effect;
	bool by_waker; /* false: TE_SCHEDULE */
	/* The task woke itself: in its poll, or it yielded (deferred) and the worker fired its
	 * waker after the poll. At most one wake of a poll is the first. */
	bool self, deferred, first_self;
	struct tl_round round; /* of the woken one */
};

/* A blocking call inside a poll. */
struct tl_block {
	struct tl_task *task; /* innermost task being polled */
	uint32_t thread;
	uint32_t depth; /* polls of futures around it, inside the task's poll */
	uint16_t call;
	/* False: it kept no worker from other tasks. It can't have waited (nonblocking), or its
	 * task is in block_in_place. */
	bool keeps_worker;
	bool nonblocking; /* its descriptor is; or it only offers the CPU to others (sched_yield) */
	uint64_t begin_ns, end_ns;
	struct tl_round round;
};

/* A system call, reported when it ends. */
struct tl_syscall {
	struct tl_task *task; /* innermost task being polled there; NULL: none */
	uint32_t thread;
	uint32_t depth;	 /* as tl_block.depth */
	uint16_t number; /* of x86-64 */
	int64_t result;
	uint64_t begin_ns, end_ns;
	struct tl_round round;
};

/* Whom a CPU ran while a thread waited for it. */
struct tl_ran_instead {
	uint32_t neighbour; /* 1 + index of a struct trace_neighbour; 0: not known */
	uint64_t begin_ns, end_ns;
};

/* Of those that a source reports for one wait the last ones are kept. */
#define TL_MAX_RAN 128u

/* How a thread left its CPU and got one again. Numbers as in struct tl_ran_instead; 0: not
 * known. */
struct tl_switch {
	uint32_t left_cpu, got_cpu; /* the CPU + 1 */
	uint32_t next, before;	    /* who ran there next, and who had run there before */
	uint64_t woken_ns;	    /* it slept until then; 0: it did not, or not known */
	uint32_t waker;		    /* who was running where that came from */
	uint32_t n_ran;
	struct tl_ran_instead
		ran[TL_MAX_RAN]; /* in order of time, the last ends with the stretch */
};

/* A stretch in which a thread was on no CPU, reported when it ends. */
struct tl_off_cpu {
	struct tl_task *task; /* as above */
	uint32_t thread;
	uint32_t depth; /* as tl_block.depth */
	enum trace_off_cpu reason;
	uint32_t syscall; /* number + 1 of the system call that it was in; 0: none or not known */
	uint64_t begin_ns, end_ns;
	const struct tl_switch *how; /* NULL: not known */
	struct tl_round round;
};

/* A sample of a thread: of its CPU time, or of a poll that takes long. */
struct tl_sample {
	struct tl_task *task; /* as above */
	uint32_t thread;
	uint32_t depth; /* as tl_block.depth */
	enum trace_sample type;
	uint64_t time_ns, weight; /* weight: see enum trace_sample; of a panic 1 */
	uint64_t message;	  /* TM_PANIC: 1 + the index of what it says; 0: not known */
	uint64_t stack;		  /* 1 + the index of a struct trace_stack; 0: without */
	uint64_t poll_ns;	  /* when the task's poll began; 0: of no task */
	struct tl_round round;
};

/* An instance of a future inside a task: found by its address and kind, from its first poll until
 * it is ready, its task ends, or another kind is polled at its address. One that was not seen to
 * end was dropped: TO_CANCELLED, and end_ns is when that was known. Valid during the call of the
 * sink only. */
struct tl_future {
	uint64_t serial; /* trace-wide, from 1 */
	uint32_t kind;	 /* role future */
	uint64_t addr;
	struct tl_task *task; /* in which it was polled first; NULL outside of all tasks */
	/* Whose poll polled it first; NULL: the task's own future. It may have ended (end_ns): then
	 * its user is what the sink left. */
	struct tl_future *parent;
	struct tl_round round;	   /* in which it was polled first; its own serial: it is one */
	uint64_t begin_ns, end_ns; /* first poll begins; end, 0 while alive */
	enum trace_outcome outcome;
	uint64_t n_polls;
	uint64_t poll_ns; /* in its polls, children's included */
	uint64_t self_ns; /* without those of children that were recorded */
	uint64_t wait_ns; /* between its polls, and after the last one */
	/* Emitted at its end: the wait after its last poll, until it was dropped or the trace
	 * ended; 0 if there was none, or none is known. */
	uint64_t last_wait_since_ns, last_wait_ns;
	void *user;	/* the sink's own, kept until future_end */
	uint8_t passed; /* replay.c's own note */
};

/* Whether it handles a request. */
static inline bool tl_is_round(const struct tl_future *future)
{
	return future->round.serial == future->serial;
}

/* One poll of a future, reported when it ends; inner ones before outer ones. */
struct tl_future_poll {
	struct tl_future *future;
	struct tl_task *task; /* whose poll is open; may differ from future->task */
	uint32_t thread;
	uint32_t depth; /* futures' polls around it in the same poll of the task */
	uint64_t begin_ns, end_ns;
	uint64_t waited_ns; /* since its poll before ended; 0 at the first, or after a loss */
	uint64_t self_ns;   /* without children's polls */
	enum trace_outcome outcome;
	bool end_seen;	/* as tl_poll.end_seen */
	uint64_t place; /* as tl_poll.place */
};

/* Whether end_ns - begin_ns is how long it took. */
static inline bool tl_poll_measured(const struct tl_poll *poll)
{
	return poll->begin_seen && poll->end_seen;
}

/* What a machine of async-std was seen to do. */
struct tl_machine {
	enum trace_machine type;
	uint64_t machine;     /* its address */
	struct tl_task *task; /* which it is about, or which the machine had last; NULL. It may
			       * have ended: then its user is what the sink left */
	uint32_t thread;
	uint64_t time_ns;
};

/* A stretch in which a thread was parked, reported when it ends. */
struct tl_park {
	uint32_t thread;
	uint16_t call;
	uint64_t begin_ns, end_ns;
};

/* A thread as the timeline knows it. */
struct tl_thread {
	uint32_t thread; /* index of a struct trace_thread */
	bool worker;	 /* runs a runtime's loop: a worker kind's poll, or it was seen to poll a
			  * task outside of any other poll. A block_on alone is none, but for one of
			  * a kind whose thread does (current_thread) */
	bool root;	 /* a block_on ran on it */
	uint64_t begin_ns, end_ns; /* first and last event; of one that was in a park or poll then,
				    * the trace's end */
	uint64_t n_polls;	   /* of tasks, depth 0 */
	uint64_t n_unmeasured;	   /* polls of depth 0, a root's included, of unknown length */
	uint64_t busy_ns;	   /* in polls of depth 0, a root's included, but for what is in
				    * block_in_place */
	uint64_t parked_ns;	   /* in parks */
	uint64_t blocked_ns;	   /* in blocking calls inside polls; part of busy_ns */
	uint64_t lost;		   /* events lost on this thread */
};

/* block_in_place: a section of a poll that hands the worker's queue to another thread. */
struct tl_section {
	struct tl_task *task;
	uint32_t thread;
	uint64_t begin_ns, end_ns; /* end: the poll's end (the exact end is not visible) */
};

struct tl_loss {
	uint32_t thread;
	bool aux; /* of samples, system calls or switches: events of tasks are complete */
	uint64_t begin_ns, end_ns;
	uint64_t n_events;
};

/* All may be NULL. A negative return stops the feed and comes out of timeline_feed/_finish. */
struct timeline_sink {
	int (*task_begin)(void *ctx, struct tl_task *task);
	int (*task_end)(void *ctx,
			struct tl_task *task); /* also at the trace's end for the living */
	int (*poll)(void *ctx, const struct tl_poll *poll);
	int (*wait)(void *ctx, const struct tl_wait *wait);
	int (*wake)(void *ctx, const struct tl_wake *wake);
	int (*block)(void *ctx, const struct tl_block *block);
	int (*section)(void *ctx, const struct tl_section *section);
	int (*park)(void *ctx, const struct tl_park *park);
	int (*syscall)(void *ctx, const struct tl_syscall *call);
	int (*off_cpu)(void *ctx, const struct tl_off_cpu *off);
	int (*sample)(void *ctx, const struct tl_sample *sample);
	int (*future_poll)(void *ctx, const struct tl_future_poll *poll);
	int (*future_end)(void *ctx, struct tl_future *future); /* also at the trace's end */
	int (*machine)(void *ctx, const struct tl_machine *machine);
	int (*loss)(void *ctx, const struct tl_loss *loss);
	int (*thread_end)(void *ctx, const struct tl_thread *thread); /* once each, at the finish */
	/* A waker that can't be reported as a tl_wake: its task has ended, or it is a block_on's
	 * and there are several that it may belong to. */
	int (*stray_wake)(void *ctx, uint32_t kind, uint32_t thread, uint64_t time_ns);
	/* May come late (time_ns in the past): when a poll turns out to be a worker's loop. */
	int (*worker_begin)(void *ctx, uint32_t thread, uint64_t time_ns);
	int (*worker_end)(void *ctx, uint32_t thread, uint64_t time_ns);
};

/* What the timeline needs to know of a kind; NULL for an unknown one. */
typedef const struct trace_kind *(*timeline_kind_fn)(const void *ctx, uint32_t kind);

/* The sink and both contexts must outlive the timeline. */
struct timeline *timeline_new(const struct timeline_sink *sink, void *sink_ctx,
			      timeline_kind_fn kind, const void *kind_ctx);
void timeline_free(struct timeline *tl);

/* A task that lived before the first event, as a moment shows it. */
struct timeline_before {
	uint32_t kind;
	uint64_t id;	       /* the runtime's name for it */
	enum task_state state; /* TS_WAITING, TS_SCHEDULED, TS_POLLING or TS_UNKNOWN */
	uint64_t place;	       /* as tl_wait.place */
};
/* Before the first event of its process is fed. 0 or -ENOMEM. */
int timeline_before(struct timeline *tl, const struct timeline_before *task, struct error *err);
/* Before the finish: of those that had no event the ones that are not `there` at the end have ended
 * unseen, and are not emitted; the others have been as they were since begin_ns or the first
 * event. */
void timeline_before_end(struct timeline *tl, uint64_t begin_ns,
			 bool (*there)(const void *ctx, uint32_t kind, uint64_t id),
			 const void *ctx);

/* A worker's thread that was there before its first event, as a moment shows it. */
struct timeline_before_thread {
	uint32_t thread;   /* as tl_thread.thread */
	bool parked;	   /* in a system call, in no task's poll */
	bool polls;	   /* in a task's poll */
	uint16_t call;	   /* enum trace_call, if it is parked */
	uint64_t since_ns; /* the moment's time */
};
/* Before the first event of the thread is fed; once it had one there is no effect. 0 or -ENOMEM. */
int timeline_before_thread(struct timeline *tl, const struct timeline_before_thread *thread,
			   struct error *err);
/* Before the finish: whether one that had no event is still there at the end, and parked. */
void timeline_before_thread_end(struct timeline *tl, uint32_t thread, bool there, bool parked);

/* Returns 0 or a negative errno: a sink's, or -ENOMEM. After a failure every later call
 * gives the same. */
int timeline_feed(struct timeline *tl, const struct trace_event *ev, struct error *err);

/* An event after the end that timeline_finish() will get, in place of timeline_feed(): it may show
 * what was open at the end. */
void timeline_look_ahead(struct timeline *tl, const struct trace_event *ev);

/* The trace is over at end_ns: everything open is reported (outcome TO_UNKNOWN, tasks alive).
 * Nothing can be fed after it. */
int timeline_finish(struct timeline *tl, uint64_t end_ns, struct error *err);

struct timeline_totals {
	uint64_t n_events; /* all that were fed */
	uint64_t n_lost;
	uint64_t n_lost_aux;	    /* of auxiliary events: samples, system calls; not in n_lost */
	uint64_t n_futures;	    /* instances */
	uint64_t first_ns, last_ns; /* first event; last event, after the finish the trace's end */
	/* tasks of role task and blocking: workers' own polls and roots are not counted */
	uint64_t spawned;   /* spawns seen */
	uint64_t unspawned; /* tasks that lived before, or whose spawn was lost */
	uint64_t completed, cancelled, panicked, ended_unknown,
		alive;					      /* sum: spawned + unspawned */
	uint64_t n_polls, n_wakes, n_self_wakes, n_schedules; /* wakes: stray ones included */
	uint64_t n_inconsistent; /* events that did not fit (end without begin, clock backwards,
				    ...) */
};
void timeline_totals(const struct timeline *tl, struct timeline_totals *ret);
