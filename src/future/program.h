/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From debug information to the layout program (agent/ring.h) by which the agent names the await
 * point of a task: the chain of coroutines that lie in each other by value. It goes through any
 * type that holds one future by value (ManuallyDrop, Instrumented, Timeout, Map, MaybeDone) and
 * ends where several are held, or one through a pointer.
 *
 * A point is in the program's own code: a coroutine of a library that the program awaits gives no
 * point of its own, it is what is awaited. A task that is a library's has the library's. In a program
 * of chains each coroutine has points, and each of these leads on by itself: a point is reached in
 * one way only.
 */
#pragma once

#include "base/map.h"
#include "future/cell.h"
#include "process/places.h"
#include "trace/event.h"

#include <stddef.h>
#include <stdint.h>

struct program {
	uint64_t *words;
	size_t n_words, cap_words;
	struct trace_place *places; /* strings belong to the compiler; the caller fills in
				     * processes */
	size_t n_places, cap_places;
	struct place_link *links; /* of a program of chains: by place */
	/* Of a program of chains, also without places: a future of the program's own, not a
	 * library's, lies in it, or it is one, and it does not only call another one. */
	bool has_own;
	/* The same: it awaits a connection that it serves. */
	bool serves;
	/* of a program that lists every future */
	struct place_point *points;   /* by place */
	struct place_future *futures; /* strings belong to the compiler */
	size_t n_futures, cap_futures;
};

enum program_mode {
	PROGRAM_POINT,	  /* the innermost await point of the program itself */
	PROGRAM_CHAIN,	  /* the innermost one, which says the chain of those around it, too */
	PROGRAM_BY_VALUE, /* every coroutine, also those of libraries and of branches */
	PROGRAM_FUTURES,  /* also those through pointers */
};

/* Compiles; `hooked` are the types whose polls are hooked, (dw_type_key, 0) -> agent kind + 1,
 * NULL: none; `own` the crates that are the program's own, NULL-terminated, NULL: those whose source
 * lies where cargo keeps no libraries; points are numbered from `first` (at least 1). 0, also for a future that has no await
 * points to be seen (n_words is 0 then); -ENOMEM; -E2BIG; -ECANCELED: see debug_stop_when(). */
int program_compile(struct debug *d, const struct future_cell *cell, enum program_mode mode,
		    const struct map *hooked, const char *const *own, unsigned first,
		    struct program *ret);
void program_done(struct program *p);
