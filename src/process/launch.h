/* Starting a program and parking it where its relocations are done and nothing of it has run. */
#ifndef POLLUX_PROCESS_LAUNCH_H
#define POLLUX_PROCESS_LAUNCH_H

#include "process/inject.h"
#include "process/threads.h"

/* Forks on the calling thread (whose death a program may have asked to be told of), traces on the
 * tracer. On failure the child is gone and reaped. */
int launch_parked(struct tracer *tracer, char *const argv[], struct process *ret_process,
		  struct parked *ret_parked, struct error *err);
/* Lets it go. */
int launch_go(struct tracer *tracer, struct process *p, const struct parked *parked,
	      struct error *err);
/* Ends and reaps it instead. */
void launch_abort(struct process *p);

#endif
