/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The past of tasks and threads, as far as a window of the last segments reaches. A segment is a
 * stretch of a task's life, or of a thread that is parked. Segments have numbers that only grow;
 * each knows the one before it in its task and the one before it on its thread, so a walk goes
 * backwards in time. One that was overwritten is not found, and then the past is not known.
 *
 *     task A   run ◀── wait ◀── ready ◀── run        (`before`)
 *                        │ cause
 *     task B   run ◀── call ◀── (run, still open)
 *
 * Private to this module.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum segment_type {
	SEG_BIRTH = 0, /* no time: the task was spawned; cause: its parent's past */
	SEG_RUN,       /* polled */
	SEG_CALL,      /* the same, in a call that may block */
	SEG_NO_CPU,    /* the same, or a thread without a task, ready and without a CPU */
	SEG_OFF_CPU,   /* the same, asleep or the like */
	SEG_READY,     /* in a run queue; cause: the past of the thread that polled it then */
	SEG_WAIT,      /* cause: the past of the task that woke it */
	SEG_PARK,      /* a thread without a task */
	SEG_UNKNOWN,
};

/* What ended a wait. */
enum woken_by {
	WB_UNKNOWN = 0,
	WB_TASK,    /* in a poll of that kind */
	WB_IO,	    /* the runtime's driver, where the task waits for I/O */
	WB_TIMER,   /* the same, for a time */
	WB_DRIVER,  /* the same, for what is not known */
	WB_OUTSIDE, /* a thread that was in no poll */
	WB_YIELD,   /* the task itself */
	WB_END,	    /* it was cancelled */
	WB_OPEN,    /* nothing: the trace ended before */
};

/* One line of a processor's cache: most of a walk's time is the way to the next segment. */
struct segment {
	uint64_t begin_ns, end_ns;
	/* How far back the other segment is, by number: segment_before(). 0: there is none. */
	uint32_t before, thread_before;
	uint32_t cause;	 /* the newest segment there; SEG_NO_CPU: of the thread that had it */
	uint32_t kind;	 /* of the task that runs; SEG_WAIT, SEG_BIRTH: of the task of `cause` */
	uint32_t thread; /* that runs it; SEG_READY: then; SEG_WAIT: on which the waker fired;
			  * SEG_NO_CPU: 1 + index of the neighbour that had it; 0: not known */
	uint32_t place; /* SEG_WAIT: 1 + index; 0: not known. SEG_NO_CPU: who had it, as a node's */
	/* Of a SEG_WAIT that a driver ended: no thread looked for events from `unlooked_from_ns` (0: one
	 * was looking) to `unlooked_to_ns`; cause and kind say what the one did that was to. */
	union {
		uint64_t task; /* number of the task that `kind` is of */
		uint64_t unlooked_to_ns;
	};
	union {
		uint64_t unlooked_from_ns;
		uint64_t resource; /* SEG_WAIT for a lock: its address; 0: not known */
		uint64_t stack;	   /* SEG_CALL: taken in it, 1 + index; 0: none */
		/* SEG_NO_CPU: what the program's thread did that had the CPU, from `cause` on: 1 + kind
		 * of the task in whose poll it was then; 0: in none */
		uint64_t open;
	};
	uint16_t call; /* SEG_CALL: enum trace_call; SEG_OFF_CPU: number + 1 of the system call */
	uint8_t type, woken_by;
	bool lock;    /* SEG_WAIT: for a lock, a semaphore, and a driver did not end it */
	bool closure; /* SEG_READY: of the blocking pool */
	bool named;   /* SEG_NO_CPU: the recording says who had it, where that is known */
};
_Static_assert(sizeof(struct segment) == 64, "segment");

struct history {
	struct segment *ring;
	uint64_t n; /* numbers given out so far, from 1 */
	size_t cap; /* power of two; grows up to HISTORY_MAX */
};

#define HISTORY_MAX ((size_t)1 << 19)

void history_done(struct history *h);
/* The next segment, zeroed, with *ret_number; NULL: out of memory. */
struct segment *history_add(struct history *h, uint64_t *ret_number);
/* From the segment of that number to one before it, as it keeps it. */
static inline uint32_t segment_back(uint64_t number, uint64_t before)
{
	uint64_t back = before ? number - before : 0;

	return back < UINT32_MAX ? (uint32_t)back : UINT32_MAX; /* longer ago than any window */
}
static inline uint64_t segment_before(uint64_t number, uint32_t back)
{
	return back ? number - back : 0;
}
static inline const struct segment *history_get(const struct history *h, uint64_t number)
{
	if (!number || number > h->n || h->n - number >= h->cap)
		return NULL;
	return &h->ring[number & (h->cap - 1)];
}
