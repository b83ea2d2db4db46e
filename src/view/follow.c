/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Follows a trace that grows: see follow.h. */
#include "view/follow.h"

#include "base/clock.h"
#include "base/units.h"
#include "view/common.h"
#include "view/growing.h"

#include <event2/event.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TICK_MS 300
#define LEAST_NS NSEC_PER_SEC
#define PAUSES 4 /* times the CPU time that it took to read what was new and to write the index */

struct trace_follow {
	struct event_base *base;
	struct view_source *source;
	void (*changed)(void *ctx);
	void *ctx;
	struct event *tick, *built;
	struct view_growing *growing;
	uint64_t bytes; /* of the trace that has an index, or is being indexed; 0: it failed */
	uint64_t began_ns, not_before_ns;
};

static void take_index(struct trace_follow *f, struct index *index)
{
	struct trace_reader *tables;
	const char *lost;

	if (view_reader(f->source, &tables, NULL) < 0) {
		index_free(index);
		return;
	}
	if (index_use_kinds(index, tables, NULL) < 0 ||
	    trace_reader_skip_events(tables, NULL) < 0) {
		trace_reader_free(tables);
		index_free(index);
		return;
	}
	index_free(f->source->index);
	trace_reader_free(f->source->tables);
	f->source->index = index;
	f->source->tables = tables;
	/* One that has its end mark is whole. */
	f->source->live = trace_reader_truncated(tables, &lost);
	f->changed(f->ctx);
}

static void on_built(evutil_socket_t fd, short what, void *ctx)
{
	struct trace_follow *f = ctx;
	struct index *index;
	uint64_t now = clock_monotonic_ns();

	(void)fd;
	(void)what;
	event_free(f->built);
	f->built = NULL;
	/* One that failed is tried again, also of a trace that does not grow any more. */
	if (view_growing_take(f->growing, &index, NULL) == 0)
		take_index(f, index);
	else
		f->bytes = 0;
	f->not_before_ns = now + f->growing->cpu_ns * PAUSES;
	if (f->not_before_ns < f->began_ns + LEAST_NS)
		f->not_before_ns = f->began_ns + LEAST_NS;
	if (!f->source->live)
		event_del(f->tick);
}

static void on_tick(evutil_socket_t fd, short what, void *ctx)
{
	struct trace_follow *f = ctx;
	struct view_progress quiet = {0};
	struct stat st;

	(void)fd;
	(void)what;
	if (f->built || clock_monotonic_ns() < f->not_before_ns ||
	    fstat(f->source->trace, &st) < 0 || (uint64_t)st.st_size == f->bytes)
		return;
	f->bytes = (uint64_t)st.st_size;
	f->began_ns = clock_monotonic_ns();
	if (view_growing_ask(f->growing, f->source->trace, &quiet, NULL) == 0) {
		f->built = event_new(f->base, f->growing->socket, EV_READ, on_built, f);
		if (f->built && event_add(f->built, NULL) == 0)
			return;
		if (f->built)
			event_free(f->built);
		f->built = NULL;
		view_growing_stop(f->growing);
	}
	/* The next tick tries it again. */
	f->bytes = 0;
}

struct trace_follow *follow_start(struct event_base *base, struct view_source *source,
				  struct view_growing *growing, void (*changed)(void *ctx),
				  void *ctx)
{
	static const struct timeval interval = {.tv_usec = TICK_MS * 1000};
	struct trace_follow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	*f = (struct trace_follow){
		.base = base, .source = source, .growing = growing, .changed = changed, .ctx = ctx};
	f->tick = event_new(base, -1, EV_PERSIST, on_tick, f);
	if (!f->tick || event_add(f->tick, &interval) < 0) {
		follow_stop(f);
		return NULL;
	}
	return f;
}

void follow_stop(struct trace_follow *f)
{
	if (!f)
		return;
	if (f->built)
		event_free(f->built);
	if (f->tick)
		event_free(f->tick);
	free(f);
}
