/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The internals of the timeline, shared by its files:
 *
 *     timeline.c  the public face: tables of kinds and threads, one function per event
 *     tasks.c     a task's life: from its first event to its end, waits, wakes
 *     spawns.c    spawns find their tasks
 *     before.c    tasks that moments show
 *     before_threads.c workers that moments show
 *     polls.c     what is open on a thread: polls, workers' loops, blocking calls, parks
 *     roots.c     block_on: its polls are inferred
 *     futures.c   what is polled inside a task's poll
 *     rounds.c    the requests that a connection's task serves
 *     aux_events.c what other sources report of a thread: system calls, samples, ...
 *
 * Failure is sticky: `failed` is set once, by the sink or for lack of memory; no callback is made
 * after it, and timeline_feed returns it. So nothing in between has to pass errors on.
 */
#pragma once

#include "base/map.h"
#include "timeline/ids.h"
#include "timeline/pool.h"
#include "timeline/timeline.h"

#define NO_THREAD UINT32_MAX
#define MAX_NUMBER (1u << 22)  /* of threads and of kinds: events beyond are odd and ignored */
#define MAX_LIVE (1u << 21)    /* tasks that live at once: events of more are odd and ignored */
#define MAX_OPEN 256	       /* polls open on one thread */
#define MAX_ENDED 65536	       /* ended tasks whose name is kept until TE_DROP */
#define MAX_LOSSES 4096	       /* losses whose begin is remembered */
#define CLOCKS_APART_NS 100000 /* at most, between the sources of one thread */
#define MAX_MACHINES 65536     /* of async-std */
#define LOOK_NS 500000	       /* a park shorter than this did not wait for a time: those are ms */
#define TIMER_NS 1000000       /* timers have steps of a millisecond */

/* A spawn whose task has not been seen yet. A node of its kind's treap: see spawns.c. */
struct spawn {
	uint64_t key, seq;
	struct spawn *left, *right;
	uint32_t priority;
	uint32_t thread;
	uint64_t time_ns, parent, parent_number, n_losses;
	uint32_t parent_slot;
	/* The highest id that was given out before its thread came to it: its own is higher. 0: not
	 * known. */
	uint64_t given_before;
};

struct future;

/* Those of one owner, the one polled last at the end. */
struct future_list {
	struct future *first, *last;
	uint32_t n;
};

struct kind {
	uint32_t number, process;
	enum trace_role role;
	bool address_named;
	bool maybe_worker;   /* its name does not show its role: nested polls may show that it is a
			      * worker's loop */
	bool block_in_place; /* its spawn inside a poll is a block_in_place */
	bool loops;	     /* a root whose thread polls tasks itself (current_thread) */
	bool handler;	     /* a future's: its instances are rounds */
	struct ids *ids;     /* of its runtime; NULL: its tasks have none */
	struct spawn *spawns;
	uint64_t n_waiting;  /* spawns in the treap */
	uint64_t first_hint; /* of its first spawn with a hint: much smaller ids were not spawned
				here */
	/* roots only */
	/* Their polls come as events like those of tasks, or are inferred: what comes first. */
	bool polled, inferred;
	struct kind *same; /* of a block_on: the first kind whose wakers may be its; else itself */
	uint64_t n_stray;  /* wakes that may be of any of them */
	uint64_t n_nameless;   /* live roots whose waker's address is not known yet */
	struct task *nameless; /* one of them, or NULL */
	/* totals of this kind */
	uint64_t n_spawned, n_unspawned, n_ended[TO_N], n_polls, n_wakes, n_self_wakes, n_schedules;
};

struct task {
	struct tl_task tl;	  /* what the sink sees; the first member */
	struct task *prev, *next; /* in `live` or in `ended` */
	struct kind *kind;
	uint64_t name;	    /* second half of its key in the map; a root's: address of its waker */
	bool named;	    /* it is in the map */
	bool has_futures;   /* a list in `future_lists` */
	uint32_t queued_by; /* thread + 1 whose TE_SCHEDULE made it SCHEDULED; 0: not one */
	uint32_t woken_by;  /* thread + 1 whose wake made it SCHEDULED; 0: not one */
	uint64_t since_ns;  /* the present state began */
	uint64_t place;	    /* its await point, see tl_poll.place */
	struct tl_round round;		     /* to which what it does now belongs */
	struct tl_resource resource;	     /* what it waits for there */
	uint64_t polled_ns, polled_until_ns; /* its last poll that has ended */
	uint64_t n_losses;		     /* known when its state was last certain */
	uint64_t scheduled_ns, wake_serial;  /* how it became SCHEDULED, 0 if not known */
	uint32_t thread; /* of the open poll; a root: the thread that it blocks */
	/* seen during the open poll, or one whose end is not seen; all take effect at its end */
	bool woken_inside, drop_inside;
	uint8_t end_inside;   /* enum trace_outcome: ended so, says another thread; 0: no */
	bool end_unseen;      /* the end of its last poll was not seen: it may be over */
	bool unqueued;	      /* its spawn has its name, and no event yet shows how it got into the
			       * queue */
	uint64_t wake_inside; /* serial of the first */
	uint64_t stray_seen;  /* a root: n_stray of its kind when it was last polled */
	bool self_woken;      /* since its last poll began */
	/* Where its last poll was: thread + 1, and how often that thread had parked by then. */
	uint32_t polled_on;
	uint64_t polled_parks;
	uint64_t idle_ns; /* another event already shows it idle: the poll's end is stamped late */
};

struct future {
	struct tl_future tl;	    /* what the sink sees */
	struct future *prev, *next; /* in its owner's list */
	struct future_list *list;
	struct future *at_same; /* another at the same address */
	struct future *parent;
	struct kind *kind;
	uint64_t last_ns;	/* its last poll ended */
	uint64_t n_losses;	/* known then */
	uint32_t thread;	/* on which it is being polled; NO_THREAD: it isn't */
	uint32_t n_refs;	/* 1 while it lives, and 1 a child */
	uint32_t chain;		/* length of the chain of its parents */
	uint64_t wait_until_ns; /* an event says that it was left or dropped then */
	bool unknown;		/* how its last poll ended */
	bool end_unseen;	/* and when */
};

/* A future's poll that is open on a thread. */
struct open_future {
	struct future *future; /* NULL: it is polled elsewhere already */
	struct kind *kind;
	uint64_t addr, begin_ns, waited_ns, children_ns;
	uint64_t until_ns; /* as a frame's */
	uint32_t n_frames; /* polls of tasks around it */
};

/* A poll that is open on a thread. */
struct frame {
	struct task
		*task; /* NULL: it has ended for its task already, only the thread is still in it */
	struct kind *kind;
	uint64_t name;
	uint64_t begin_ns, scheduled_ns, wake_serial, section_ns, blocked_ns;
	uint64_t place;		     /* known at its end only */
	struct tl_resource resource; /* the same */
	uint64_t until_ns; /* something happened inside at that time, so it had not ended */
	uint32_t n_blocks, depth;
	bool worker;	   /* a worker's loop, not a task's poll */
	bool inferred;	   /* a root's */
	bool unseen;	   /* the begin was not seen */
	struct task *root; /* a block_on inside this poll */
	struct tl_round longest,
		pending; /* rounds polled in it: longest; last, and still pending */
	uint64_t longest_ns;
};

/* What a moment shows of a worker before its first event: see before_threads.c. */
struct thread_before {
	bool known;  /* a moment shows it */
	bool open;   /* its events have not decided yet what it did before them */
	bool parked; /* it was parked then, in that call */
	bool polls;  /* it was in a task's poll */
	bool acted;  /* it has had an event other than its begin */
	bool gone;   /* it had no event, and has ended */
	bool lives;  /* it had no event, and lived all the time */
	uint16_t call;
	uint64_t since_ns;	     /* the moment's time */
	uint64_t begin_ns, until_ns; /* it is known since; its first event */
};

struct thread {
	struct tl_thread tl;
	uint64_t last_ns;   /* time of its last event, never going back */
	uint64_t before_ns; /* time of the event before that */
	uint64_t raw_ns;    /* of the last event, as the trace has it */
	uint64_t n_events;
	struct frame *frames; /* innermost last */
	uint32_t n_frames, cap_frames;
	uint32_t n_futures; /* in `futures` */
	bool complete;	    /* a poll or park was seen to begin since its start or last loss */
	uint64_t unseen; /* serial of the task whose poll began here last, if its end is not seen */
	uint64_t unseen_losses; /* known then */
	bool working;		/* worker_begin was called */
	bool parked;
	uint16_t park_call;
	uint64_t park_ns;
	uint64_t n_parks;
	bool looked; /* its last park returned at once and found nothing: it had looked for events
		      * only */
	/* the block_on on it, see roots.c */
	struct task *root;
	bool loops;	   /* it polls tasks itself */
	bool driver;	   /* it parks in epoll: a root's poll follows an unpark */
	bool root_due;	   /* woken: the next gap is its poll */
	bool root_early;   /* from before the recording, and nothing of its thread was seen yet */
	bool after_unpark; /* nothing was polled since the last unpark */
	struct frame root_poll;	  /* open if root_poll.task */
	struct frame root_parked; /* its poll up to the present park, if root_parked.task */
	uint64_t root_parked_ns, root_parked_losses;
	bool root_parks;	     /* after the end it went into a futex */
	bool root_decided;	     /* what came after the end shows, whether ... */
	bool root_goes_on;	     /* ... it was still open then */
	struct open_future *futures; /* innermost last */
	struct tl_resource resource; /* of the end of a poll that comes next */
	uint32_t cap_futures;
	bool seen_aux;			     /* another source had events of it */
	uint64_t aux_ns;		     /* time of that source's last event */
	uint64_t call_begin_ns, call_end_ns; /* its last system call */
	/* What was reported of the end of a stretch off its CPU that comes next. */
	struct tl_switch *switched; /* NULL: never anything */
	bool switch_known;
	/* Those of the runtime that it polled a task of, or spawned one of, last; the highest one
	 * that was given out by then. */
	const struct ids *ids;
	uint64_t given;
	struct thread_before before;
};

struct timeline {
	const struct timeline_sink *sink;
	void *sink_ctx;
	timeline_kind_fn kind_fn;
	const void *kind_ctx;
	int failed;
	bool finished;

	struct kind **kinds;
	struct thread **threads;
	size_t n_kinds, n_threads; /* lengths of both arrays; entries may be NULL */
	struct ids **ids;	   /* of runtimes; entries may be NULL */
	size_t n_ids;

	struct map names; /* (kind, name) to struct task: the living, and the ended until TE_DROP */
	struct task *live, *live_last, *ended, *ended_last;
	uint64_t n_live, n_ended;
	struct pool tasks, spawns;
	uint32_t *free_slots, n_slots; /* of tasks that have ended; given out so far */
	size_t n_free_slots, cap_free_slots;

	struct map future_places;   /* (process, address) to the futures there */
	struct future_list futures; /* outside of all tasks */
	struct map future_lists;    /* of tasks that have some, by serial */
	struct pool future_pool, future_list_pool;
	uint32_t n_futures, n_future_items; /* alive; with ended parents of others */
	uint64_t last_future;		    /* serial given out last */
	struct map machines;		    /* by address, see aux_events.c */
	struct pool machine_pool;

	struct timeline_before *before; /* of moments, in their order */
	size_t n_before;
	struct map before_names; /* (kind, id) to index + 1, of those that had no event yet */
	uint64_t before_ns;	 /* when they are known to be so, if there is no event */

	/* [i % MAX_LOSSES]: the earliest begin of the losses numbered i and later */
	uint64_t loss_begins[MAX_LOSSES];
	uint64_t n_losses;

	uint64_t n_tasks, n_wakes, n_spawns; /* last serials given out */
	bool drivers_seen;		     /* a thread waited for events: such calls are
					      * recorded */
	uint64_t n_events, n_lost, n_lost_aux, n_inconsistent, first_ns, last_ns;
	bool begun; /* first_ns is known */
	uint32_t random;
};

/* Takes note of an event's time. */
static inline void timeline_saw(struct timeline *tl, uint64_t t)
{
	if (!tl->begun)
		tl->first_ns = t;
	tl->begun = true;
	if (t > tl->last_ns)
		tl->last_ns = t;
}

/* Calls the sink unless something failed before. */
#define EMIT(tl, slot, ...)                                                                        \
	do {                                                                                       \
		if ((tl)->sink->slot && !(tl)->failed)                                             \
			(tl)->failed = (tl)->sink->slot((tl)->sink_ctx, __VA_ARGS__);              \
	} while (0)

/* timeline.c */
struct kind *timeline_kind(struct timeline *tl,
			   uint32_t number); /* NULL: failed, or an impossible number */
struct thread *timeline_thread(struct timeline *tl, uint32_t number); /* the same */
void timeline_fail(struct timeline *tl, int code);
/* `t`, but not before what the task and the thread have lived through already. */
uint64_t timeline_at_task(struct thread *th, const struct task *task, uint64_t t);

/* before.c */
/* Whether a moment shows the task, which appears now: it is emitted from now on as others are. */
bool before_take(struct timeline *tl, const struct kind *k, uint64_t name);
/* Whether one shows it, and it has had no event yet, */
bool before_has(const struct timeline *tl, const struct kind *k, uint64_t name);
/* and it waits there. */
bool before_waits(const struct timeline *tl, const struct kind *k, uint64_t name,
		  uint64_t *ret_place);
/* Those that never had an event. */
void before_finish(struct timeline *tl);

/* before_threads.c: each for a thread of which before.known is true */
/* An event of a thread whose before.open is true, before it is looked at. */
void before_thread_event(struct timeline *tl, struct thread *th, const struct trace_event *ev);
/* The same of an event after the end. */
void before_thread_look_ahead(struct timeline *tl, struct thread *th, const struct trace_event *ev);
/* Those that never had an event. */
void before_threads_finish(struct timeline *tl, uint64_t end_ns);

/* tasks.c */
/* The task of that name, living or ended; NULL. */
struct task *task_find(const struct timeline *tl, const struct kind *k, uint64_t name);
/* How a task that appears may find its spawn; if it finds none it lived before, but a drop of a
 * task that lived before makes no task (NULL). */
enum task_origin { TASK_OF_ANY_SPAWN, TASK_OF_HINTED_SPAWN, TASK_OF_HINTED_SPAWN_ONLY };
struct task *task_new(struct timeline *tl, struct kind *k, uint64_t name, struct thread *th,
		      uint64_t t, enum task_origin origin);
/* A root, or a task of a spawn without events of its own. */
struct task *task_new_spawned(struct timeline *tl, struct kind *k, const struct spawn *s,
			      uint64_t id);
/* A task without events of its own that a moment shows, since t. */
void task_new_known(struct timeline *tl, struct kind *k, const struct timeline_before *b,
		    uint64_t t);
/* A root that was there before the recording. */
struct task *task_new_before(struct timeline *tl, struct kind *k, uint64_t t);
int task_name(struct timeline *tl, struct task *task, uint64_t name);
void task_unname(struct timeline *tl, struct task *task);
/* Before an event of the task is looked at: what losses left of its state. */
void task_settle(struct timeline *tl, struct task *task);
/* Ends the present state at t, telling the wait if it was one, and begins the other. */
void task_state(struct timeline *tl, struct task *task, enum task_state state, uint64_t t);
void task_scheduled(struct timeline *tl, struct task *task, uint64_t t, uint64_t wake_serial);
/* The end; the task's memory may be gone afterwards. */
void task_end(struct timeline *tl, struct task *task, enum trace_outcome outcome, uint64_t t);
void task_forget(struct timeline *tl, struct task *ended);
/* The task of that address, NULL if the address is another's now. */
struct task *task_unless_reused(struct timeline *tl, struct thread *th, struct kind *k,
				struct task *task);
void task_wake(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t,
	       enum trace_wake effect);
void task_schedule(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name,
		   uint64_t t);
void task_cancel(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t,
		 enum trace_outcome outcome);
void task_drop(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t);
/* Emits a wake of a living task and counts it. */
uint64_t task_emit_wake(struct timeline *tl, struct thread *th, struct task *task, uint64_t t,
			enum trace_wake effect, bool by_waker);
void task_stray_wake(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t);
void task_finish(struct timeline *tl, uint64_t end_ns);

/* spawns.c */
void spawn_add(struct timeline *tl, struct thread *th, struct kind *k, uint64_t hint, uint64_t t);
/* One with the new task's own name. NULL: its parent is the poll that is open, else *parent is its
 * name. */
void spawn_named(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name,
		 const uint64_t *parent, uint64_t t);
/* The spawn of a task that appears now; it is taken out and filled into *ret. */
bool spawn_take(struct timeline *tl, struct kind *k, uint64_t name, const struct thread *th,
		bool by_hint_only, struct spawn *ret);
/* Whether a spawn of the kind on this thread waits for its task. */
bool spawn_waits(const struct kind *k, const struct thread *th);
/* The thread polls a task of the kind now, or has spawned one. */
void spawn_note_given(struct thread *th, const struct kind *k);
void spawn_finish(struct timeline *tl);

/* polls.c */
/* The innermost poll of a task that is open here; NULL. */
struct frame *poll_open(struct thread *th);
void poll_begin(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t);
void poll_end(struct timeline *tl, struct thread *th, struct kind *k, uint64_t name, uint64_t t,
	      enum trace_outcome outcome, uint64_t place);
/* Ends a frame that has been taken off its thread: reports it, and the task continues. */
void poll_finish(struct timeline *tl, struct thread *th, struct frame *f, uint64_t t,
		 enum trace_outcome outcome);
/* Outcome TO_UNKNOWN: they lasted at least up to t; TO_UNSEEN: unknown length. */
void poll_close_all(struct timeline *tl, struct thread *th, uint64_t t, enum trace_outcome outcome,
		    bool workers);
/* Both `arg`: the call with its flags, enum trace_call_flags. */
void poll_block(struct timeline *tl, struct thread *th, uint16_t arg, uint64_t t, uint64_t ns);
void poll_park(struct timeline *tl, struct thread *th, uint16_t call, uint64_t t);
void poll_unpark(struct timeline *tl, struct thread *th, uint16_t arg, uint64_t t);
void poll_park_end(struct timeline *tl, struct thread *th, uint64_t t);
void poll_working(struct timeline *tl, struct thread *th, uint64_t t);
void poll_not_working(struct timeline *tl, struct thread *th, uint64_t t);

/* roots.c */
void root_enter(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t);
/* The same of a block_on that was there before the recording. */
void root_before(struct timeline *tl, struct thread *th, struct kind *k, uint64_t t);
/* An event on the thread of such a block_on, before it is looked at. */
void root_appears(struct timeline *tl, struct thread *th, enum trace_event_type type, uint64_t t);
void root_wake(struct timeline *tl, struct thread *th, struct kind *k, uint64_t data, uint64_t t);
void root_gap_begin(struct timeline *tl, struct thread *th, uint64_t t, bool after_park);
/* The thread parks in that call. */
void root_park(struct timeline *tl, struct thread *th, uint16_t call, uint64_t t);
/* What the root's poll before the thread's park was: over and pending if it `waits` for certain or
 * was woken, else it may have been the last. */
void root_decide(struct timeline *tl, struct thread *th, bool waits);
void root_gap_end(struct timeline *tl, struct thread *th, uint64_t t, enum trace_outcome outcome);
/* An event of after the end, on a thread with an open root_poll. */
void root_look_ahead(struct thread *th, const struct trace_event *ev);
/* A root's wake of after the end. */
void root_look_ahead_wake(struct timeline *tl, const struct kind *k, uint64_t data);
/* Whether a runtime parks in that call: in others the thread is after the block_on, or blocked in
 * its poll. */
bool root_parks(uint16_t call);
/* The block_on on this thread has ended; one block_on has. */
void root_end(struct timeline *tl, struct thread *th, uint64_t t);
void root_finish(struct timeline *tl, struct task *root, uint64_t t);

/* futures.c */
/* `first`: it was never polled before. */
void future_begin(struct timeline *tl, struct thread *th, struct kind *k, uint64_t addr, uint64_t t,
		  bool first);
void future_end(struct timeline *tl, struct thread *th, struct kind *k, uint64_t addr, uint64_t t,
		enum trace_outcome outcome, uint64_t place);
/* The innermost task's poll ends with that outcome: what is open inside it ends too. */
void future_close(struct timeline *tl, struct thread *th, uint64_t t, enum trace_outcome outcome);
/* A task's poll of that length has ended in the innermost open one, if it is around it: an
 * executor's future, whose own time that is not. */
void future_polled_task(struct thread *th, uint64_t length, uint64_t t);
/* All that is open on the thread ends, outcome unknown: they lasted at least up to t, or, with
 * TO_UNSEEN, have an unknown length. */
void future_close_all(struct timeline *tl, struct thread *th, uint64_t t,
		      enum trace_outcome outcome);
/* Polls of futures that are open inside the innermost poll. */
uint32_t future_depth(const struct thread *th);
/* Before a task's end is reported (end_ns 0: it is alive at the trace's end). */
void future_task_end(struct timeline *tl, struct task *task, uint64_t t);
void future_finish(struct timeline *tl);

/* rounds.c: each of a future that is a round. */
/* The round that a new future is in, or begins. */
void round_of_new(const struct thread *th, struct future *f);
void round_polled(struct thread *th, const struct future *f);
/* The poll of that length has ended; n_frames: polls of tasks around it. */
void round_poll_end(struct thread *th, const struct future *f, uint32_t n_frames, uint64_t length,
		    enum trace_outcome outcome);
/* It is over, and is not being polled. */
void round_over(const struct future *f);
/* The task's poll ends: what belongs to what from then on. */
void round_task_polled(const struct frame *f);

/* aux_events.c */
void aux_init(struct timeline *tl);
void aux_syscall(struct timeline *tl, struct thread *th, const struct trace_event *ev);
void aux_off_cpu(struct timeline *tl, struct thread *th, const struct trace_event *ev);
/* TE_LEFT_CPU to TE_RAN_INSTEAD. */
void aux_switch(struct timeline *tl, struct thread *th, const struct trace_event *ev);
void aux_sample(struct timeline *tl, struct thread *th, const struct trace_event *ev);
void aux_machine(struct timeline *tl, struct thread *th, const struct trace_event *ev);
void aux_lost(struct timeline *tl, struct thread *th, const struct trace_event *ev);
