/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a task waits for at an await point, by the names of what is awaited there. */
#pragma once

#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

enum wait_for { WF_OTHER = 0, WF_LOCK, WF_IO, WF_TIMER, WF_MESSAGE, WF_YIELD };

/* Whether `part` is in the name of what the program's own code awaits at this place, or of anything
 * awaited inside that. `place`: 1 + the index of a struct trace_place, 0: none; `own`: as for
 * trace_reader_own_place(). */
bool trace_place_awaits_a(const struct trace_reader *r, uint64_t place, const char *const *own,
			  const char *part);
/* By parts of those names, in the order of the enum: mutexes, rwlocks and semaphores; sockets and
 * files; sleeps; channels and notifications; yield_now(). */
enum wait_for trace_place_waits_for(const struct trace_reader *r, uint64_t place,
				    const char *const *own);
