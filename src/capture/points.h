/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Await points of one process: what the numbers mean that layout programs give to places
 * (future/program.h), for every source.
 */
#ifndef POLLUX_CAPTURE_POINTS_H
#define POLLUX_CAPTURE_POINTS_H

#include "process/places.h"
#include "trace/trace.h"

struct await_point {
	uint32_t kind;	 /* trace index; TRACE_KIND_NONE: the number has no meaning */
	uint32_t place;	 /* trace index */
	uint32_t future; /* trace index of info.future's kind; TRACE_KIND_NONE: not recorded */
	bool by_state;	 /* that future is named by the address of its state (inlined.c) */
	struct place_point info;
};

struct points {
	struct await_point *v; /* by number */
	size_t n;
};

/* The places of a program of the kind with this trace index: the trace knows them from now on. 0,
 * -EINVAL for numbers that can't be, -ENOMEM or what the writer says. */
int points_add(struct points *p, const struct place_program *program, uint32_t kind,
	       uint32_t process, struct trace_writer *writer);
void points_free(struct points *p);

/* Of how many kinds of tasks, of all, await points are known. */
struct trace_coverage points_coverage(uint32_t process, uint64_t seen, uint64_t total,
				      const struct error *trouble);

/* What `number` means; NULL: nothing. */
static inline const struct await_point *points_get(const struct points *p, uint64_t number)
{
	return number < p->n && p->v[number].kind != TRACE_KIND_NONE ? &p->v[number] : NULL;
}

#endif
