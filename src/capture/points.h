/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Await points of one process: what the numbers mean that layout programs give to places
 * (future/program.h), for every source.
 */
#pragma once

#include "base/map.h"
#include "process/places.h"
#include "trace/trace.h"

struct await_point {
	uint32_t kind;	 /* trace index; TRACE_KIND_NONE: the number has no meaning */
	uint32_t place;	 /* trace index */
	uint32_t future; /* trace index of info.future's kind; TRACE_KIND_NONE: not recorded */
	bool by_state;	 /* that future is named by the address of its state (inlined.c) */
	struct place_point info;
};

/* What is known of a point of a chain. Its place is written when a chain first has it. */
struct chain_point {
	struct trace_place place; /* strings belong to it */
	uint32_t outer;		  /* number of the point around it; 0: none, or in another box */
	bool holds_box;		  /* what is in a box may be awaited there */
};

struct points {
	struct await_point *v; /* by number */
	size_t n;
	bool deep;		   /* chains are recorded */
	struct chain_point *links; /* then, by number as `v` */
	struct map
		places; /* (number | flags << 32, place around) -> place; both of the trace, + 1 */
};

/* The places of a program of the kind with this trace index: the trace knows them from now on. 0,
 * -EINVAL for numbers that can't be, -ENOMEM or what the writer says. */
int points_add(struct points *p, const struct place_program *program, uint32_t kind,
	       uint32_t process, struct trace_writer *writer);
void points_free(struct points *p);

/* The place of a link that is awaited at `outer` (1 + trace index, 0: by the task itself), and those
 * between the two: 1 + trace index. `flags` are added to what the link's own place has. 0: the number
 * has no meaning. */
int points_link(struct points *p, uint32_t number, uint32_t flags, uint64_t outer,
		struct trace_writer *writer, uint64_t *ret_place);
/* The same of a future of which only the name is known: `number` is one that no point has. */
int points_name(struct points *p, uint32_t number, const char *function, uint32_t process,
		uint32_t flags, uint64_t outer, struct trace_writer *writer, uint64_t *ret_place);
/* Whether links in boxes may be awaited at the point: where not, they have been given up. */
bool points_hold_box(const struct points *p, uint32_t number);

/* Of how many kinds of tasks, of all, await points are known. */
struct trace_coverage points_coverage(uint32_t process, uint64_t seen, uint64_t total,
				      const struct error *trouble);

/* What `number` means; NULL: nothing. */
static inline const struct await_point *points_get(const struct points *p, uint64_t number)
{
	return number < p->n && p->v[number].kind != TRACE_KIND_NONE ? &p->v[number] : NULL;
}
