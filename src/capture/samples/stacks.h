/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Call stacks of the recorded processes: walked where they are taken, written to the trace as one
 * tree, with the names of their functions.
 *
 * Names take time (reading symbols, lines, what was inlined), and a recording must not wait for
 * them. So a thread of its own finds them, once for each address, and events that need a stack wait
 * in a queue until its names are there. All functions are for the one thread that records.
 */
#pragma once

#include "base/units.h"
#include "capture/capture.h"
#include "process/unwind.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>
#include <linux/types.h>
#include <sys/types.h>

#include "capture/samples/user_stack.h"

struct capture_stacks;

/* Events with stacks may be this late: their source must hold its watermark back that far. */
#define CAPTURE_STACKS_SETTLE_NS NSEC_PER_MSEC

int capture_stacks_new(struct trace_writer *w, struct capture_stacks **ret_stacks,
		       struct error *err);
void capture_stacks_free(struct capture_stacks *s);

/* A process whose stacks will be taken; once more is fine. What is loaded in it is read in the
 * background; with `wait` it is there on return, as far as it can be read. -ENOMEM, or why the
 * process can't be opened. */
int capture_stacks_join(struct capture_stacks *s, pid_t pid, uint32_t process, bool wait,
			struct error *err);
/* In the middle of a recording, for its first stack: makes shared->stacks, if there are none, and the
 * process joins. What is loaded is read in the background, for which this waits a moment. 0, -ENOMEM, or
 * why the process can't be opened. */
int capture_stacks_begin(struct capture_shared *shared, pid_t pid, uint32_t process);
/* What is loaded is known: stacks can be walked. */
bool capture_stacks_ready(struct capture_stacks *s, uint32_t process);
/* Waits until everything requested is ready and has its names, up to a limit. */
bool capture_stacks_wait(struct capture_stacks *s, uint64_t ns);

/* A stack: innermost frame and all its callers; 0: none. */
typedef uint32_t capture_stack;

/* What is at the innermost end, besides what is walked. */
enum capture_leaf { CL_NONE = 0, CL_KERNEL /* the thread was in the kernel */ };

/* Walks and keeps: the same stack is the same number. -ENOMEM; -EAGAIN: not ready. */
int capture_stacks_walk(struct capture_stacks *s, uint32_t process,
			const struct unwind_start *start, enum capture_leaf leaf,
			capture_stack *ret_stack);
/* The last stack that was seen of a running thread, by its samples, for others who want it. */
int capture_stacks_seen(struct capture_stacks *s, uint32_t process, uint32_t tid, uint64_t time_ns,
			capture_stack stack);
capture_stack capture_stacks_last(const struct capture_stacks *s, uint32_t process, uint32_t tid,
				  uint64_t *ret_time_ns);

/* ---- events that wait for the names of their stacks ---- */

/* Keeps it until it can be written; its value will be the stack (0: none). In each stream of the
 * trace they go in order of time, but for what comes more than a few ms late. */
int capture_stacks_put(struct capture_stacks *s, const struct trace_event *e, capture_stack stack);
/* The same of a stack that was copied; the copy has this many bytes. Where what is loaded is not
 * known yet the event is left out. */
int capture_stacks_put_copy(struct capture_stacks *s, const struct trace_event *e, uint32_t process,
			    const struct user_stack *copy, size_t len);
/* Writes those that are ready. *ret_before_ns: what happened before it is written. */
int capture_stacks_flush(struct capture_stacks *s, uint64_t *ret_before_ns);
/* When all sources are closed: waits for names as long as is reasonable, writes the rest, and
 * reports how many stacks are whole and have names. */
int capture_stacks_end(struct capture_stacks *s, struct capture_stats *stats);
