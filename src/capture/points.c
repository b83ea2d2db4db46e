/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "capture/points.h"

#include "agent/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int points_add(struct points *p, const struct place_program *program, uint32_t kind,
	       uint32_t process, struct trace_writer *writer)
{
	size_t n = (size_t)program->first + program->n_places;
	struct await_point *v;
	int rc = 0;

	if (n < p->n || n > AGENT_MAX_POINTS + 1)
		return -EINVAL;
	v = reallocarray(p->v, n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	p->v = v;
	memset(v + p->n, 0xff, (n - p->n) * sizeof(*v));
	p->n = n;
	for (size_t i = 0; i < program->n_places && rc == 0; i++) {
		struct await_point *point = &v[program->first + i];
		struct trace_place place = program->places[i];

		place.process = process;
		*point = (struct await_point){.kind = kind, .future = TRACE_KIND_NONE};
		if (program->points)
			point->info = program->points[i];
		else /* whatever follows is inside of it */
			point->info = (struct place_point){.size = UINT64_MAX, .own = true};
		if (point->info.kind == POINT_AWAIT)
			rc = trace_writer_place(writer, &place, &point->place);
	}
	return rc;
}

void points_free(struct points *p)
{
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
		note = "no debug information in the binary: set debug = true in [profile.release]";
	else if (seen < total)
		note = "debug information has none for the other kinds of tasks";
	return (struct trace_coverage){.process = process,
				       .item = "await points",
				       .seen = seen,
				       .total = total,
				       .note = note};
}
