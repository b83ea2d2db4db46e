/*
 * Manners of a background job on a busy machine. It lets whoever works go first, as long as what it
 * works on can wait: buffers that others fill. A recorder that waits for a CPU while they are full
 * loses events, so it asks to be first then.
 */
#ifndef POLLUX_BASE_TURN_H
#define POLLUX_BASE_TURN_H

/*
 * The calling thread lets others go first from now on, until buffers fill up: as a batch job it
 * waits for its turn instead of taking the CPU from a thread in the middle of its work. (A longer
 * slice or SCHED_IDLE would spare the others more, and lose events where a burst begins on busy
 * CPUs.) Whoever chose another policy than the usual one for us knows why, and it is kept. Before
 * that the other two do nothing.
 */
void turn_begin(void);

/*
 * A buffer was found so full, 0 to 1, before it is emptied. A buffer that is nearly half full was
 * meant to be a quarter full (capture/drain_interval.h): then it is in a hurry, for a while. Where
 * it may not ask for more, it runs as it is.
 */
void turn_met(double fill);

/*
 * Between small pieces of work: lets others have the CPU, if some work was done since the last time
 * and there is no hurry. A scheduler gives whoever is on a CPU some milliseconds before it lets
 * another one in; for a server whose answers take some ten us that is an age. Where others keep it
 * for long (then they need it for long, and what we do is needed too) it does nothing for a while.
 */
void turn_pass(void);

#endif
