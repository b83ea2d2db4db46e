/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Await points of one process, by the numbers that layout programs give them.
 *
 * Without chains, a point is a place of the trace, written as its program comes. With them, a place
 * depends on what is around the point, too: it is written when an event first has that chain.
 */
#include "capture/points.h"

#include "base/cleanup.h"

#include "agent/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_LINKS = 64, /* of one program: it is no deeper than AGENT_PROGRAM_DEPTH */
	/* Of chains: a corrupted ring, or a recursion of the program, would make new ones without
	 * end. */
	MAX_PLACES = 65536,
};

static int keep_link(struct chain_point *to, const struct trace_place *place, uint32_t process,
		     uint32_t outer, bool holds_box)
{
	to->place = *place;
	to->place.process = process;
	to->place.function = strdup(place->function);
	to->place.file = strdup(place->file);
	to->place.awaits = strdup(place->awaits);
	to->outer = outer;
	to->holds_box = holds_box;
	return to->place.function && to->place.file && to->place.awaits ? 0 : -ENOMEM;
}

/* Grows both lists to the point with this number. */
static int make_room(struct points *p, size_t n)
{
	struct await_point *v = reallocarray(p->v, n, sizeof(*v));

	if (!v)
		return -ENOMEM;
	p->v = v;
	if (p->deep) {
		struct chain_point *all = reallocarray(p->links, n, sizeof(*all));

		if (!all)
			return -ENOMEM;
		p->links = all;
		memset(all + p->n, 0, (n - p->n) * sizeof(*all));
	}
	memset(v + p->n, 0xff, (n - p->n) * sizeof(*v));
	p->n = n;
	return 0;
}

int points_add(struct points *p, const struct place_program *program, uint32_t kind,
	       uint32_t process, struct trace_writer *writer)
{
	size_t n = (size_t)program->first + program->n_places;

	if (n < p->n || n > AGENT_MAX_POINTS + 1)
		return -EINVAL;
	TRY(make_room(p, n));
	for (size_t i = 0; i < program->n_places; i++) {
		struct await_point *point = &p->v[program->first + i];
		struct trace_place place = program->places[i];
		struct place_link link = {.holds_box = true};

		if (program->links)
			link = program->links[i];
		place.process = process;
		*point = (struct await_point){.kind = kind, .future = TRACE_KIND_NONE};
		if (program->points)
			point->info = program->points[i];
		else /* all that follows is inside it */
			point->info = (struct place_point){.size = UINT64_MAX, .own = true};
		if (point->info.kind != POINT_AWAIT)
			continue;
		if (p->deep)
			TRY(keep_link(&p->links[program->first + i], &place, process,
				      link.outer ? program->first + link.outer - 1 : 0,
				      link.holds_box));
		else
			TRY(trace_writer_place(writer, &place, &point->place));
	}
	return 0;
}

/* Writes a place, or finds the one that was written by the same key. If there are too many, the place
 * around it is used instead. */
static int write_link(struct points *p, uint64_t key, const struct trace_place *place,
		      struct trace_writer *writer, uint64_t *ret_place)
{
	uintptr_t known = (uintptr_t)map_get(&p->places, key, place->outer);
	uint32_t index;
	int rc;

	*ret_place = known ? known : place->outer;
	if (known || p->places.n >= MAX_PLACES)
		return 0;
	rc = trace_writer_place(writer, place, &index);
	if (rc == 0)
		rc = map_put(&p->places, key, place->outer, (void *)((uintptr_t)index + 1));
	*ret_place = (uint64_t)index + 1;
	return rc;
}

int points_link(struct points *p, uint32_t number, uint32_t flags, uint64_t outer,
		struct trace_writer *writer, uint64_t *ret_place)
{
	uint32_t path[MAX_LINKS];
	size_t n = 0;
	int rc = 0;

	*ret_place = 0;
	for (; number && number < p->n && p->links && p->links[number].place.function &&
	       n < MAX_LINKS;
	     number = p->links[number].outer)
		path[n++] = number;
	while (n-- > 0 && rc == 0) {
		struct trace_place place = p->links[path[n]].place;

		place.outer = (uint32_t)outer;
		/* `flags` are the innermost point's. */
		place.flags |= n ? 0 : flags;
		rc = write_link(p, path[n] | (uint64_t)(n ? 0 : flags) << 32, &place, writer,
				&outer);
		*ret_place = outer;
	}
	return rc;
}

int points_name(struct points *p, uint32_t number, const char *function, uint32_t process,
		uint32_t flags, uint64_t outer, struct trace_writer *writer, uint64_t *ret_place)
{
	const struct trace_place place = {.process = process,
					  .function = function,
					  .file = "",
					  .awaits = "",
					  .flags = flags,
					  .outer = (uint32_t)outer};

	return write_link(p, number | (uint64_t)flags << 32, &place, writer, ret_place);
}

bool points_hold_box(const struct points *p, uint32_t number)
{
	return number >= p->n || !p->links || !p->links[number].place.function ||
	       p->links[number].holds_box;
}

void points_free(struct points *p)
{
	for (size_t i = 0; p->links && i < p->n; i++) {
		free_const(p->links[i].place.function);
		free_const(p->links[i].place.file);
		free_const(p->links[i].place.awaits);
	}
	free(p->links);
	map_done(&p->places);
	free(p->v);
	*p = (struct points){0};
}

struct trace_coverage points_coverage(uint32_t process, uint64_t seen, uint64_t total,
				      const struct error *trouble)
{
	const char *note = "";

	if (seen < total && trouble->code)
		note = trouble->text;
	else if (!seen && total)
		note = "no debug information with types: set debug = true in [profile.release]";
	else if (seen < total)
		note = "debug information has none for the other kinds of tasks";
	return (struct trace_coverage){.process = process,
				       .item = "await points",
				       .seen = seen,
				       .total = total,
				       .note = note};
}
