/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls of functions, as uftrace records them, into polls of tasks and of the futures in them.
 * Private to this module; docs/import.md says which functions count as what.
 */
#pragma once

#include "import/sink.h"

#define CALLS_MAX_DEPTH 1024u /* of uftrace */

struct calls;
struct call_function; /* belongs to the calls */

struct calls *calls_new(struct sink *sink); /* NULL: out of memory */
void calls_free(struct calls *c);

/* The function of this name as uftrace writes it: "ufapp::my_test::_{{closure}}". `is_future`: 1 or
 * 0 if debug information says whether a closure is the body of an async fn or block, else -1. NULL:
 * out of memory, or too many. */
struct call_function *calls_function(struct calls *c, const char *name, size_t len, int is_future);

/* Another thread's calls follow. */
int calls_thread(struct calls *c, uint32_t pid, uint32_t tid, const char *comm);
/* In order of time; `at` is the line's or record's number. Negative errno of the sink. */
int calls_entry(struct calls *c, struct call_function *f, unsigned depth, uint64_t time,
		uint64_t at);
int calls_exit(struct calls *c, const struct call_function *f, unsigned depth, uint64_t time,
	       uint64_t at);
int calls_lost(struct calls *c, uint64_t n, uint64_t time);
/* After the last thread: what was left out, for the coverage. */
int calls_finish(struct calls *c);

struct calls_stats {
	uint64_t n_calls, n_polls, n_futures;
	uint64_t n_bare, n_outside; /* roots without a future; futures without a task */
};
void calls_stats(const struct calls *c, struct calls_stats *ret);
