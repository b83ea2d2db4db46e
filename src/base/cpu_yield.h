/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * How a background job shares a busy machine. It lets other threads go first as long as its own
 * work can wait: buffers that others fill. A recorder that waits for a CPU while the buffers are
 * full loses events, so then it asks to go first.
 */
#pragma once

/*
 * The calling thread lets others go first from now on, until buffers fill up: as a batch job it
 * waits for its turn instead of taking the CPU from a thread in the middle of its work. (A longer
 * slice or SCHED_IDLE would spare the others more, and lose events where a burst begins on busy
 * CPUs.) A policy other than the usual one was chosen on purpose, and is kept. Before
 * that the other two do nothing.
 */
void cpu_yield_begin(void);

/*
 * A buffer was found so full, 0 to 1, before it is emptied. A buffer that is nearly half full was
 * meant to be a quarter full (capture/drain_interval.h): then it is in a hurry, for a while. Where
 * it may not ask for more, it runs as it is.
 */
void cpu_yield_buffer_fill(double fill);

/*
 * Called between small pieces of work: yields the CPU if some work was done since the last call and
 * there is no hurry. A scheduler lets a running thread keep its CPU for some milliseconds; for a
 * server that answers in about ten us that is very long. Where others keep it for long (then they
 * need it for long, and what we do is needed too) it does nothing for a while.
 */
void cpu_yield(void);
