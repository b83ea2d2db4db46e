/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The slices of a window: see window.h. */
#include "index/window.h"

#include "base/map.h"
#include "base/vec.h"
#include "index/spans.h"
#include "timeline/fan_out.h"
#include "timeline/moments.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct window_reading {
	struct window *w;
	struct trace_reader *reader;
	uint64_t exact_ns;
	struct index_span *open; /* polls that are open when the feed begins, outer ones first */
	size_t n_open, open_cap;
	struct index_span *before; /* waits and ready times then */
	size_t n_before, before_cap;
	struct map waiting; /* (kind, task) to such a one, until it has ended */
	uint64_t first_ns;  /* time of the first event that is fed */
};

static bool overlaps(const struct window *w, uint64_t begin_ns, uint64_t end_ns)
{
	return begin_ns < w->to_ns &&
	       (end_ns > w->from_ns || (begin_ns == end_ns && begin_ns >= w->from_ns));
}

/* Of the timeline: those that it knows from their begin, and that are no spans. */
static int emit(const struct window_reading *r, const struct index_span *span)
{
	const struct window *w = r->w;

	if (span->end_ns - span->begin_ns > r->exact_ns ||
	    !overlaps(w, span->begin_ns, span->end_ns))
		return 0;
	return w->slice(w->ctx, span);
}

/* ---- what the timeline emits ---- */

/* What its task was in when the feed began; NULL: that has ended, or is not known. */
static const struct index_span *was_in(struct window_reading *r, const struct index_span *span)
{
	return r->n_before ? map_remove(&r->waiting, span->kind, span->task) : NULL;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct window_reading *r = ctx;
	struct index_span span;

	if (!poll->begin_seen && r->w->fed_ns)
		return 0;
	index_span_of_poll(poll, &span);
	const struct index_span *before = was_in(r, &span);
	if (before && before->type == SPAN_READY)
		span.since_ns = before->begin_ns;
	return emit(r, &span);
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct window_reading *r = ctx;
	struct index_span span;

	if (!index_span_of_wait(wait, &span))
		return 0;
	/* The rest of one that began before: it is a span. */
	if (wait->begin_ns <= r->first_ns && was_in(r, &span))
		return 0;
	return emit(r, &span);
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct index_span span;

	index_span_of_block(block, &span);
	return emit(ctx, &span);
}

static int on_park(void *ctx, const struct tl_park *park)
{
	struct index_span span;

	index_span_of_park(park, &span);
	return emit(ctx, &span);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct index_span span;

	index_span_of_off_cpu(off, &span);
	return emit(ctx, &span);
}

static int on_syscall(void *ctx, const struct tl_syscall *call)
{
	struct index_span span;

	index_span_of_syscall(call, &span);
	return emit(ctx, &span);
}

static const struct trace_kind *reader_kind(const void *ctx, uint32_t kind)
{
	return trace_reader_kind(ctx, kind);
}

/* ---- what is fed ---- */

static bool add(struct index_span **list, size_t *n, size_t *cap, const struct index_span *span)
{
	if (!GROW(*list, *n, *cap))
		return false;
	(*list)[(*n)++] = *span;
	return true;
}

static int take_span(void *ctx, const struct index_span *span)
{
	struct window_reading *r = ctx;
	const struct window *w = r->w;

	if (span->begin_ns < w->fed_ns && span->end_ns > w->fed_ns) {
		if (span->type == SPAN_POLL && !add(&r->open, &r->n_open, &r->open_cap, span))
			return -ENOMEM;
		if ((span->type == SPAN_WAIT || span->type == SPAN_READY) &&
		    !add(&r->before, &r->n_before, &r->before_cap, span))
			return -ENOMEM;
	}
	return overlaps(w, span->begin_ns, span->end_ns) ? w->slice(w->ctx, span) : 0;
}

/* How all is when the feed begins, as far as it has been so for long. */
static int feed_before(struct window_reading *r, struct timeline *tl, struct error *err)
{
	for (size_t i = 0; i < r->n_before; i++) {
		const struct index_span *s = &r->before[i];
		struct timeline_before before = {
			.kind = s->kind,
			.id = s->task,
			.state = s->type == SPAN_WAIT ? TS_WAITING : TS_SCHEDULED,
			.place = s->what,
		};
		const struct trace_kind *k = trace_reader_kind(r->reader, s->kind);

		if (!k || !tl_role_counts(k->role))
			continue;
		if (map_put_const(&r->waiting, s->kind, s->task, s) < 0)
			return error_set(err, -ENOMEM, "out of memory");
		TRY(timeline_before(tl, &before, err));
	}
	return 0;
}

static int feed_open(const struct window_reading *r, struct timeline *tl, struct error *err)
{
	for (size_t i = 0; i < r->n_open; i++) {
		const struct index_span *s = &r->open[i];
		struct trace_event ev = {.time = r->w->fed_ns,
					 .thread = s->thread,
					 .type = TE_POLL_BEGIN,
					 .kind = s->kind,
					 .task = s->task};
		const struct trace_kind *k = trace_reader_kind(r->reader, s->kind);

		if (k && k->role == TR_ROOT) {
			ev.type = TE_ROOT_ENTER;
			ev.arg = TRACE_ROOT_BEFORE;
			ev.task = 0;
		}
		TRY(timeline_feed(tl, &ev, err));
	}
	return 0;
}

static int feed(struct window_reading *r, struct timeline *tl, uint64_t end_ns, struct error *err)
{
	struct window *w = r->w;
	uint64_t to_ns = w->fed_to_ns < end_ns ? w->fed_to_ns : end_ns;
	struct tl_moments moments = {0};
	struct trace_event ev;
	int code = 0;

	/* From the trace's begin the moment of the start is part of it. */
	if (!w->fed_ns)
		code = tl_moments_feed(&moments, r->reader, tl, err);
	else if ((code = feed_before(r, tl, err)) == 0)
		code = feed_open(r, tl, err);
	while (code >= 0 && (code = trace_reader_next(r->reader, &ev, err)) > 0) {
		if (ev.time < w->fed_ns)
			continue;
		if (!w->fed_ns && tl_moments_due(&moments, r->reader) &&
		    (code = tl_moments_feed(&moments, r->reader, tl, err)) < 0)
			break;
		if (!r->first_ns)
			r->first_ns = ev.time;
		if (ev.time > to_ns) {
			timeline_look_ahead(tl, &ev);
			continue;
		}
		code = timeline_feed(tl, &ev, err);
	}
	if (code >= 0 && !w->fed_ns && w->fed_to_ns >= end_ns)
		tl_moments_end(&moments, r->reader, tl, 0);
	tl_moments_done(&moments);
	if (code >= 0)
		code = timeline_finish(tl, to_ns, err);
	return code;
}

static const struct timeline_sink own_sink = {
	.poll = on_poll,
	.wait = on_wait,
	.block = on_block,
	.park = on_park,
	.off_cpu = on_off_cpu,
	.syscall = on_syscall,
};

static int replay(struct window_reading *r, uint64_t end_ns, struct error *err)
{
	const struct timeline_sink nothing = {0};
	struct window *w = r->w;
	struct fan_out_sink sinks[] = {{&own_sink, r}, {w->also ? w->also : &nothing, w->ctx}};
	struct fan_out all = {.sinks = sinks, .n = 2};
	struct timeline *tl = timeline_new(&fan_out_sink, &all, reader_kind, r->reader);
	int code = tl ? feed(r, tl, end_ns, err) : error_set(err, -ENOMEM, "out of memory");

	timeline_free(tl);
	return code;
}

static uint64_t before(uint64_t time_ns, uint64_t by_ns)
{
	return time_ns > by_ns ? time_ns - by_ns : 0;
}

static uint64_t after(uint64_t time_ns, uint64_t by_ns)
{
	return time_ns > UINT64_MAX - by_ns ? UINT64_MAX : time_ns + by_ns;
}

int window_read(struct window *w, struct trace_reader *reader, int fd, struct error *err)
{
	struct window_reading r = {.w = w, .reader = reader};
	struct index_facts facts;
	uint64_t *offsets = NULL;
	size_t n = 0;

	index_facts(w->ix, &facts);
	r.exact_ns = facts.exact_ns;
	w->fed_ns = before(w->from_ns, 2 * facts.exact_ns);
	w->fed_to_ns = after(w->to_ns, facts.exact_ns);
	if (w->fed_ns <= facts.base_ns)
		w->fed_ns = 0;
	int code = index_chunks(w->ix, w->fed_ns, w->fed_to_ns,
				w->max_events ? w->max_events : WINDOW_EVENTS, &offsets, &n, err);
	w->exact = code == 0;
	if (code == -E2BIG) {
		err->code = 0;
		code = 0;
	}
	/* Long slices from the index: also those that are open when the feed begins. */
	if (code == 0)
		code = index_spans(w->ix, w->exact ? w->fed_ns : w->from_ns, w->to_ns, take_span,
				   &r, err);
	if (code == 0 && w->exact)
		code = trace_reader_pick(reader, fd, offsets, n, err);
	else
		close(fd);
	if (code == 0 && w->exact)
		code = replay(&r, facts.end_ns, err);
	free(offsets);
	free(r.open);
	free(r.before);
	map_done(&r.waiting);
	return code < 0 ? code : 0;
}
