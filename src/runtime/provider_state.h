/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What providers.c knows between hits, for the files of the state machine only: tasks, threads with
 * their queues, kinds. See the head of providers.c.
 */
#pragma once

#include "base/map.h"
#include "runtime/providers.h"

enum { N_PROVIDERS = 2 }; /* Tokio's, async-std's */

#define MAX_ENDED 65536u   /* tasks remembered, so that a second end is known for one */
#define MAX_TASKS 1048576u /* beyond this the one not heard of for longest is forgotten */
#define MAX_PLACES 65536u
#define MAX_NAMES 1024u	 /* kinds of a process that differ by the task's name */
#define MAX_EARLY 64u	 /* of what may be workers' loops, in a process */
#define MAX_OPEN 256u	 /* polls open on a thread */
#define MAX_STRING 4096u /* of a file's or task's name */

struct provider_loc {
	struct provider_loc *next; /* with the same hash */
	char *file, *name;	   /* "" if unknown */
	uint32_t line, column;
};

struct provider_process {
	uint32_t number;
	bool has_runtime[N_PROVIDERS];
	uint32_t runtime[N_PROVIDERS];
	uint64_t last_ns;	/* of its last hit */
	uint64_t first_spawned; /* smallest id seen to be given out; UINT64_MAX */
	uint64_t first_task;	/* smallest id of an ordinary task; UINT64_MAX */
	bool section_ended;	/* a blocking task has ended */
	/* Those that run as workers do and may be some. */
	struct early {
		uint64_t id, end_ns; /* 0: open */
	} early[MAX_EARLY];
	unsigned n_early;
	uint32_t n_names;
};

struct provider_kind {
	uint32_t index; /* in the trace */
};

struct provider_task {
	struct provider_task *prev, *next; /* in its list */
	struct provider_process *process;
	uint64_t id, born_ns, end_ns;
	const struct provider_loc *place; /* NULL: unknown */
	const struct provider_kind *kind; /* NULL: not needed yet */
	uint32_t n_refs;		  /* in queues and open polls */
	uint8_t role;			  /* enum trace_role, once it is decided */
	uint8_t make;			  /* enum provider_make */
	bool decided;			  /* which kind it is */
	bool ended, gone;		  /* gone: not found any more */
	bool local, polled;
	bool details; /* they came, the spawn didn't yet */
	bool outside; /* not spawned in a poll */
	bool section; /* it runs as blocking tasks and workers do ... */
	bool early;   /* ... and has all that a worker's loop has when its runtime starts */
};

/* The one heard of last at the end. */
struct task_list {
	struct provider_task *first, *last;
	size_t n;
};

struct queued_event {
	struct trace_event ev;
	struct provider_task *task; /* whose kind goes into the event; NULL: none */
	bool open;		    /* the thread's next hit decides what it is */
};

struct provider_thread {
	struct provider_process *process; /* of its first hit; NULL */
	struct queued_event *queue;	  /* a ring */
	size_t head, n, cap;		  /* cap: a power of two, or 0 */
	struct provider_thread *next_waiting,
		**waiting; /* waiting: it is in the list of those with a queue
						 */
	struct provider_poll {
		struct provider_task *task;
		uint8_t outcome; /* TO_UNKNOWN: not known yet */
	} * polls;		 /* innermost last */
	unsigned n_polls, cap_polls;
	bool gone;	     /* it has ended */
	bool seen;	     /* it has had events */
	bool polled, worked; /* a poll's begin was seen; or it has parked */
	bool lost;	     /* hits are missing, ends of polls among them maybe */
	bool after_worker;   /* a worker's loop has ended, nothing was polled since */
	bool section_unseen; /* a blocking section has ended whose begin was not seen */
};

struct providers {
	const struct providers_sink *sink;
	void *ctx;
	int failed;
	/* by number; (process, id); number; hash; (place, process and sort) */
	struct map processes, tasks, threads, places, kinds;
	size_t n_places;
	struct task_list live, ended;
	struct provider_thread *waiting;
	struct providers_stats stats;
};

struct provider_process *provider_process(struct providers *p, uint32_t number);
struct provider_thread *provider_thread(struct providers *p, uint32_t number);
const struct provider_loc *provider_place(struct providers *p, const char *file, const char *name,
					  uint32_t line, uint32_t column);
bool provider_has_kind(struct providers *p, const struct provider_process *ps,
		       const struct provider_loc *place, enum trace_role role);

struct provider_task *provider_task(struct providers *p, const struct provider_process *ps,
				    uint64_t id);
struct provider_task *provider_task_new(struct providers *p, struct provider_process *ps,
					uint64_t id, uint64_t time, enum provider_make make);
void provider_task_heard(struct providers *p, struct provider_task *t);
void provider_task_end(struct providers *p, struct provider_task *t, uint64_t time);
void provider_task_forget(struct providers *p, struct provider_task *t);
/* Which kind of task it is. Reports what waited for that. */
void provider_task_decide(struct providers *p, struct provider_task *t, enum trace_role role);

void provider_poll_push(struct providers *p, struct provider_thread *th, struct provider_task *t);
struct provider_task *provider_poll_top(const struct provider_thread *th); /* NULL */
/* Its poll and those inside are over; gives its outcome, or TO_N if it isn't open here. */
unsigned provider_poll_pop(struct provider_thread *th, const struct provider_task *t);
void provider_polls_clear(struct provider_thread *th);

void provider_put(struct providers *p, struct provider_thread *th, const struct trace_event *ev,
		  struct provider_task *t, bool open);
struct queued_event *provider_last(struct provider_thread *th); /* in the queue; NULL */
/* Nothing more is asked of the open entry. */
void provider_close(struct providers *p, struct provider_thread *th, struct queued_event *e);
/* The oldest entry of any thread that waits to be decided and is older; NULL. */
struct queued_event *provider_undecided(struct providers *p, uint64_t before_ns,
					struct provider_thread **ret_th);
void provider_state_done(struct providers *p);
