/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * One traced process while it is recorded: its agent, its rings, and what its numbers are called in
 * the trace. Shared by agent.c (life) and drain.c (events).
 */
#pragma once

#include "base/budget.h"
#include "base/clock.h"
#include "base/map.h"
#include "capture/capture.h"
#include "capture/descriptors.h"
#include "capture/points.h"
#include "capture/agent/ring_reader.h"
#include "capture/threads.h"
#include "process/attach.h"
#include "process/places.h"

/* What a kind number of the agent's means. */
struct source_kind {
	uint32_t index; /* in the trace */
	bool task;	/* its polls are those of tasks */
	bool block_on;	/* the future of a block_on, which has no poll function */
	/* A future in a box, whose polls are hooked. They are recorded, and it is in the trace, only
	 * if it turns out to be a handler. Else NULL. */
	const struct scan_future *boxed;
	/* A future that is recorded and whose poll function is in a vtable. Else NULL. */
	const struct scan_future *listed;
	uint32_t
		request; /* then: 1 + the trace index under which requests are recorded, 0: none are */
	bool serves;	 /* a task's: its `listed` futures that have one are requests */
	bool held;	 /* `boxed` is a method of a library's, and where its future is is known */
	bool ambiguous;	  /* the handler's name is another's, too */
	bool recorded;	  /* there are events of it */
	uint32_t runtime; /* of `boxed`, `listed` */
	/* Of a future whose poll is hooked, as place_program's: 0 until its layout is known. */
	uint64_t size;
	uint32_t type_kind;
};

/* Futures that are polled as a part of what is polled around them. */
struct inlined_kind {
	uint32_t kind; /* trace index */
	char *name, *full_name;
	uint64_t n_unknown; /* of n_inlined_unknown */
};
struct inlined_thread;
struct ring_stacks;
struct futures_wanted; /* runtime/futures.h */
struct scan_future;

struct source {
	struct attach *attach;
	/* Threads that were in a block_on at attach: recorded at once, before they have a ring. */
	struct early_thread {
		uint32_t own_tid; /* 0: it has its ring by now, or is gone */
		uint32_t tid;
		uint32_t thread; /* trace index */
	} early[AGENT_MAX_ROOTS];
	uint32_t n_early;
	struct ring_set rings;
	uint32_t next_ring; /* a pass begins here: the one before had no time for more */
	struct descriptors descriptors;
	struct map owners; /* (own tid, 0) -> the cursor of the ring that this thread writes */
	/* Its threads, where they know themselves by other numbers than we do: as they were read
	 * last, when that was, and how long it took. */
	struct attach_thread *known;
	size_t n_known;
	uint64_t known_ns, known_cost_ns;
	uint32_t process;	   /* trace index */
	struct source_kind *kinds; /* by the agent's number */
	uint32_t n_kinds;
	struct map by_index;  /* (trace index, 0) -> one of `kinds` */
	struct map by_call;   /* (address of a call, 0) -> the block_on that makes it: of `kinds` */
	void *compiler;	      /* of layout programs, NULL if there is none */
	struct points points; /* by the agent's number */
	const struct futures_wanted *futures; /* NULL: none are recorded */
	struct inlined_kind *inlined_kinds;
	size_t n_inlined_kinds;
	uint64_t n_inlined_ends;	/* ends of such, except of a task's own future */
	uint64_t n_inlined_unknown;	/* those whose outcome is unknown */
	struct inlined_thread *inlined; /* by ring; NULL unless futures are recorded */
	struct map own_places; /* then: (trace index, 0) -> not NULL: in the program's own code */
	struct ring_stacks *stacks;  /* NULL unless they are recorded */
	uint32_t n_programs;	     /* kinds of tasks that have one */
	struct error points_trouble; /* why others have none */
	uint32_t n_late_programs;    /* those that got it after the first event, */
	uint64_t began_ns, late_ns;  /* when events began, and how much later the last one */
	/* It ran before for at most this time, which is not recorded: another program with a runtime
	 * executed it, or it had no runtime until it loaded a library; 0: no. */
	uint64_t unseen_ns;
	bool loaded_late;   /* the latter */
	bool alive;	    /* its agent may still write */
	uint64_t seen_ns;   /* last time that it was seen to live */
	bool threaded;	    /* it has more than one thread */
	bool may_wake;	    /* attach_may_wake(), a moment ago */
	size_t n_covered;   /* of attach_coverage(): in the trace */
	uint64_t n_damaged; /* pieces of ring that made no sense */
	uint64_t n_unread;  /* events that the end had no time for */
};

/* The fastest thread that was seen fills a ring with 15 million events a second: 4 ns a byte. */
#define FILL_NS_PER_BYTE 4

/* Few enough to be near until the writer has made its columns of them. */
#define DRAIN_EVENTS 256u

/* What drain.c counts and needs of the whole capture. */
struct drain {
	struct trace_writer *writer;
	struct capture_threads *threads;
	struct capture_shared *shared;
	struct source *sources; /* all that are drained by turns */
	size_t n_sources;
	struct clock_map clock;
	uint64_t start_ticks, now_ticks; /* events lie between */
	uint64_t look_until_ns;		 /* drain_end() waits for no thread after that */
	uint64_t test_step_ns;		 /* times are rounded down to it; 0: not */
	uint64_t n_events;
	struct capture_loss lost;
	double fill;	      /* of the fullest ring in this drain, 0 to 1 */
	struct budget budget; /* of this drain; spent: not all rings were emptied */
	struct agent_event raw[RING_BATCH];
	struct trace_event events[DRAIN_EVENTS]; /* put together, not yet given to the writer */
	size_t n;
	uint32_t thread;  /* whose they are */
	uint64_t last_ns; /* of what the writer got */
};

/* Begins the trace of a process with the block_ons that were there before. */
int drain_begin(struct drain *d, struct source *s);
/* Takes what is in all rings now and writes it, as far as that goes within `ns`: a target that
 * never pauses keeps us from nothing. 0 or what the writer says. */
int drain_source(struct drain *d, struct source *s, uint64_t ns);
/* Gives back the rings of threads that have ended and records their end; records names that have
 * changed. */
int drain_threads(struct drain *d, struct source *s);
/* After the last drain: losses that the agent could not report any more, what is still in the
 * rings; of a process that lives, calls that are under way at until_ns; of one that is gone, the
 * end of its threads, at the last time that it was seen to live. */
int drain_end(struct drain *d, struct source *s, uint64_t until_ns);
/* Gives the writer what was put. */
int drain_flush(struct drain *d);
int drain_put(struct drain *d, const struct trace_event *e);
