/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Speedscope's own format: one "evented" profile per thread and per chosen task, in integer ns.
 *
 * The viewer is strict, one fault rejects the whole file: within a profile opens and closes must be
 * balanced, in order of time, and closed at endValue. And profiles follow one another, while the
 * timeline gives the slices of all of them mixed, each when it *ends*, what is inside before what
 * is around it. Both are turned right with two stacks and no memory: every profile's slices are
 * pushed onto a stack of its own as they come. Popped at the end, they come with the latest end
 * first, which is the reverse of the order of closes; a slice's open belongs, in reverse, just
 * where the first slice comes that ends no later than it begins. So one walk pushes all opens and
 * closes, the last first, onto a second stack, and popping that gives them in order. The stacks
 * spill to disk.
 */
#include "export/speedscope.h"

#include "base/cleanup.h"
#include "base/compare.h"
#include "base/json.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const struct limits speedscope_limits = {
	.max_slices = 1000000, /* about 90 MB, 10 s */
	.max_lanes = 1000,
	.ceiling_bytes = 600000000, /* V8's heap of 4 GiB ends at 650 MB */
	.ceiling_lanes = 10000,
	.slice_bytes = 92,
	.requests = true,
	.lane_bytes = 160,
	.tasks_by_choice = true,
	.viewer = "Speedscope",
};

/* ---- the timeline's slices, onto the stacks ---- */

static int push(struct speedscope *s, struct speedscope_profile *p, uint64_t frame,
		uint64_t begin_ns, uint64_t end_ns)
{
	if (!p)
		return 0;
	s->n_slices++;
	return spill_push(&p->slices, &(struct slice){begin_ns, end_ns, frame});
}

struct speedscope_profile *speedscope_thread(struct speedscope *s, uint32_t thread)
{
	uint32_t i = thread < s->sel.lanes.n_threads ? s->thread_profile[thread] : 0;
	return i ? &s->profiles[i - 1] : NULL;
}

struct speedscope_task *speedscope_task(struct speedscope *s, struct tl_task *task)
{
	if (task->user)
		return task->user;
	struct speedscope_task *t = pool_get(&s->tasks);
	if (!t || lanes_task_begin(&s->sel.lanes, task, &t->placed) < 0)
		return NULL;
	const struct lane_family *f = t->placed.family;
	t->family_frame = FRAME_FAMILY + f->index;
	if (t->placed.shown)
		t->profile = &s->profiles[f->lanes[t->placed.lane].at.tid];
	return task->user = t;
}

int speedscope_push(struct speedscope *s, struct tl_task *task, uint32_t thread, uint64_t frame,
		    uint64_t begin_ns, uint64_t end_ns)
{
	struct speedscope_task *t = task ? speedscope_task(s, task) : NULL;
	if (task && !t)
		return -ENOMEM;
	int r = push(s, speedscope_thread(s, thread), frame, begin_ns, end_ns);
	return r < 0 || !t ? r : push(s, t->profile, frame, begin_ns, end_ns);
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	return speedscope_task(ctx, task) ? 0 : -ENOMEM;
}

/* Before a poll or wait is pushed: a request that is over with it is around those before. */
static int push_request(struct speedscope *s, struct speedscope_task *t,
			const struct tl_round *round, bool poll, uint64_t begin_ns, uint64_t end_ns)
{
	struct request_span over;

	return request_goes_on(&t->placed.request, round, poll, begin_ns, end_ns, &over)
		       ? push(s, t->profile, speedscope_handler_frame(s, over.round.kind),
			      over.begin_ns, over.end_ns)
		       : 0;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = speedscope_task(s, task);
	if (!t)
		return -ENOMEM;
	uint64_t end_ns = task->end_ns ? task->end_ns : s->sel.to_ns;
	int r = push_request(s, t, &(struct tl_round){0}, false, end_ns, end_ns);
	if (r == 0)
		r = push(s, t->profile, t->family_frame, t->placed.begin_ns, end_ns);
	lanes_task_end(&s->sel.lanes, &t->placed, end_ns);
	task->user = NULL;
	pool_put(&s->tasks, t);
	return r;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = speedscope_task(s, poll->task);
	if (!t)
		return -ENOMEM;
	struct speedscope_profile *thread = speedscope_thread(s, poll->thread);
	if (thread && !poll->depth && tl_poll_measured(poll))
		thread->busy_ns += poll->end_ns - poll->begin_ns;
	s->any_unseen = s->any_unseen || !poll->end_seen;
	int r = push_request(s, t, &poll->round, true, poll->begin_ns, poll->end_ns);
	if (r == 0)
		r = speedscope_long_poll(s, t, poll);
	if (r == 0 && !poll->end_seen)
		r = speedscope_push(s, poll->task, poll->thread, FRAME_UNSEEN, poll->begin_ns,
				    poll->end_ns);
	if (r == 0)
		r = push(s, thread, t->family_frame, poll->begin_ns, poll->end_ns);
	return r < 0 ? r : push(s, t->profile, FRAME_POLL, poll->begin_ns, poll->end_ns);
}

static int add_wait(struct speedscope *s, const struct speedscope_task *t,
		    const struct tl_wait *wait)
{
	struct speedscope_wait *sum;

	if (!wait->place || wait->state != TS_WAITING)
		return 0;
	sum = map_get_or_new(&s->waits, t->family_frame, wait->place, sizeof(*sum));
	if (!sum)
		return -ENOMEM;
	sum->family_frame = t->family_frame;
	sum->place = wait->place;
	sum->ns += wait->end_ns - wait->begin_ns;
	return 0;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = speedscope_task(s, wait->task);
	if (!t)
		return -ENOMEM;
	unsigned frame = wait->state == TS_WAITING     ? FRAME_WAITING
			 : wait->state == TS_SCHEDULED ? FRAME_SCHEDULED
						       : FRAME_UNKNOWN;
	if (add_wait(s, t, wait) < 0)
		return -ENOMEM;
	int r = push_request(s, t, &wait->round, false, wait->begin_ns, wait->end_ns);
	if (r == 0 && t->profile && wait->place && wait->state == TS_WAITING)
		r = push(s, t->profile, speedscope_place_frame(s, wait->place), wait->begin_ns,
			 wait->end_ns);
	return r < 0 ? r : push(s, t->profile, frame, wait->begin_ns, wait->end_ns);
}

static uint64_t call_frame(struct speedscope *s, uint64_t first, unsigned call)
{
	uint64_t frame = first + (call < MAX_CALLS ? call : MAX_CALLS - 1);
	s->calls_seen[frame - FRAME_BLOCK] = true;
	return frame;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	return speedscope_push(ctx, block->task, block->thread,
			       call_frame(ctx, FRAME_BLOCK, block->call), block->begin_ns,
			       block->end_ns);
}

static int on_section(void *ctx, const struct tl_section *section)
{
	return speedscope_push(ctx, section->task, section->thread, FRAME_SECTION,
			       section->begin_ns, section->end_ns);
}

static int on_park(void *ctx, const struct tl_park *park)
{
	return push(ctx, speedscope_thread(ctx, park->thread),
		    call_frame(ctx, FRAME_PARK, park->call), park->begin_ns, park->end_ns);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	return push(ctx, speedscope_thread(ctx, loss->thread), FRAME_LOST, loss->begin_ns,
		    loss->end_ns);
}

static const struct timeline_sink speedscope_sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.block = on_block,
	.section = on_section,
	.park = on_park,
	.syscall = speedscope_syscall,
	.off_cpu = speedscope_off_cpu,
	.sample = speedscope_sample,
	.future_poll = speedscope_future_poll,
	.loss = on_loss,
};

/* ---- profiles: which there are ---- */

static int by_rank(const void *a, const void *b)
{
	const struct thread_lane *x = *(struct thread_lane *const *)a;
	const struct thread_lane *y = *(struct thread_lane *const *)b;

	return DESCENDING(x->worker, y->worker) ?: ASCENDING(x->at.tid, y->at.tid);
}

static int add_profile(struct speedscope *s, struct buf *name)
{
	struct speedscope_profile *p = &s->profiles[s->n_profiles];
	p->name = buf_steal(name);
	if (!p->name)
		return -ENOMEM;
	spill_init(&p->slices, &s->file, sizeof(struct slice));
	s->n_profiles++;
	return 0;
}

/* The viewer takes no file without profiles. */
static int add_notice(struct speedscope *s)
{
	struct buf name = BUF_INIT;
	buf_str(&name, s->sel.notice);
	return add_profile(s, &name);
}

static int make_profiles(struct speedscope *s)
{
	struct lanes *l = &s->sel.lanes;
	_cleanup_free_ struct thread_lane **shown =
		calloc(l->n_threads + 1, sizeof(struct thread_lane *));
	s->profiles = calloc(s->sel.n_lanes + 1, sizeof(*s->profiles));
	s->thread_profile = calloc(l->n_threads + 1, sizeof(*s->thread_profile));
	if (!shown || !s->profiles || !s->thread_profile)
		return -ENOMEM;

	size_t n = 0;
	for (uint32_t i = 0; i < l->n_threads; i++) {
		const struct trace_thread *tt = trace_reader_thread(s->reader, i);
		if (!l->threads[i].shown || !tt)
			continue;
		l->threads[i].at.tid = tt->tid;
		shown[n++] = &l->threads[i];
	}
	qsort(shown, n, sizeof(*shown), by_rank);

	for (size_t i = 0; i < n; i++) {
		uint32_t thread = (uint32_t)(shown[i] - l->threads);
		const struct trace_thread *tt = trace_reader_thread(s->reader, thread);
		struct buf name = BUF_INIT;
		buf_printf(&name, "%s%s %" PRIu32, shown[i]->worker ? "worker " : "",
			   tt->name && *tt->name ? tt->name : "thread", tt->tid);
		s->thread_profile[thread] = (uint32_t)s->n_profiles + 1;
		s->profiles[s->n_profiles].worker = shown[i]->worker;
		if (add_profile(s, &name) < 0)
			return -ENOMEM;
	}
	s->n_thread_profiles = s->n_profiles;
	for (size_t i = 0; i < l->n_families; i++) {
		struct lane_family *f = l->families[i];
		for (uint32_t k = 0; k < f->n_shown; k++) {
			struct buf name = BUF_INIT;
			buf_printf(&name, "%s #%" PRIu64, f->short_name, f->lanes[k].number);
			f->lanes[k].at.tid = (uint32_t)s->n_profiles;
			if (add_profile(s, &name) < 0)
				return -ENOMEM;
		}
	}
	return s->n_profiles ? 0 : add_notice(s);
}

/* ---- the file ---- */

static const char *const state_frames[FRAME_N_STATES] = {
	[FRAME_POLL] = "poll",
	[FRAME_WAITING] = "waiting",
	[FRAME_SCHEDULED] = "scheduled",
	[FRAME_UNKNOWN] = "not known",
	[FRAME_SECTION] = "block_in_place",
	[FRAME_LOST] = "events lost",
	[FRAME_UNSEEN] = "end not seen: at least",
};

/* The list of frames, and the index of each. */
static int write_frames(struct speedscope *s, struct json *j)
{
	const struct lanes *l = &s->sel.lanes;
	size_t n_frames = FRAME_FAMILY + l->n_families;
	uint32_t n = 0;
	s->frame_places = calloc(n_frames, sizeof(*s->frame_places));
	if (!s->frame_places)
		return -ENOMEM;

	json_object(j, "shared");
	json_array(j, "frames");
	for (size_t i = 0; i < n_frames; i++) {
		_cleanup_buf_ struct buf name = BUF_INIT;
		if (i == FRAME_UNSEEN && !s->any_unseen)
			continue;
		if (i < FRAME_BLOCK)
			buf_str(&name, state_frames[i]);
		else if (i >= FRAME_FAMILY)
			buf_str(&name, l->families[i - FRAME_FAMILY]->short_name);
		else if (!s->calls_seen[i - FRAME_BLOCK])
			continue;
		else if (i < FRAME_PARK)
			buf_printf(&name, "%s %s",
				   trace_call_waits_for_cpu(i - FRAME_BLOCK) ? "in" : "blocked in",
				   trace_call_name(i - FRAME_BLOCK));
		else
			buf_printf(&name, "parked in %s", trace_call_name(i - FRAME_PARK));
		json_object(j, NULL);
		json_string(j, "name", name.data);
		json_end_object(j);
		s->frame_places[i] = n++;
	}
	s->made_place = n;
	buf_add(j->out, s->made_names.data, s->made_names.len);
	json_end_array(j);
	json_end_object(j);
	return buf_failed(&s->made_names) ? -ENOMEM : 0;
}

uint64_t speedscope_place(const struct speedscope *s, uint64_t frame)
{
	return frame >= FRAME_MADE ? s->made_place + (frame - FRAME_MADE) : s->frame_places[frame];
}

static void put_edge(struct speedscope *s, const struct edge *e, bool first)
{
	char *p = out_room(&s->out);
	if (!first)
		*p++ = ',';
	p = put_lit(p, "\n{\"type\":\"");
	*p++ = e->frame_close & 1 ? 'C' : 'O';
	p = put_lit(p, "\",\"frame\":");
	p = put_u64(p, speedscope_place(s, e->frame_close >> 1));
	p = put_lit(p, ",\"at\":");
	p = put_u64(p, e->at_ns > s->sel.base_ns ? e->at_ns - s->sel.base_ns : 0);
	*p++ = '}';
	out_used(&s->out, p);
}

/* The slices that are open at the current point of the walk from end to start. */
struct slice_walk {
	struct spill *edges;
	struct slice *open;
	size_t n, cap;
	uint64_t at_ns; /* of the edge pushed last: none may be later */
};

static int push_edge(struct slice_walk *w, uint64_t at_ns, uint64_t frame, bool close)
{
	if (at_ns < w->at_ns)
		w->at_ns = at_ns;
	return spill_push(w->edges, &(struct edge){w->at_ns, frame << 1 | close});
}

/* Slices that begin at or after `end_ns`: their opens. */
static int push_opens(struct slice_walk *w, uint64_t end_ns)
{
	while (w->n && w->open[w->n - 1].begin_ns >= end_ns) {
		const struct slice *top = &w->open[--w->n];
		TRY(push_edge(w, top->begin_ns, top->frame, false));
	}
	return 0;
}

static int push_close(struct slice_walk *w, struct slice slice)
{
	if (slice.end_ns > w->at_ns)
		slice.end_ns = w->at_ns;
	if (slice.begin_ns > slice.end_ns)
		slice.begin_ns = slice.end_ns;
	if (w->n && slice.begin_ns < w->open[w->n - 1].begin_ns)
		slice.begin_ns = w->open[w->n - 1].begin_ns;
	if (!GROW(w->open, w->n, w->cap))
		return -ENOMEM;
	w->open[w->n++] = slice;
	return push_edge(w, slice.end_ns, slice.frame, true);
}

static int reverse(struct speedscope *s, struct speedscope_profile *p, struct spill *edges)
{
	struct slice_walk w = {.edges = edges, .at_ns = s->sel.to_ns};
	struct slice slice;
	int r;

	while ((r = spill_pop(&p->slices, &slice)) > 0) {
		if (slice.begin_ns < s->sel.from_ns)
			slice.begin_ns = s->sel.from_ns;
		r = push_opens(&w, slice.end_ns);
		if (r == 0)
			r = push_close(&w, slice);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = push_opens(&w, 0);
	free(w.open);
	return r;
}

static int write_profile(struct speedscope *s, struct speedscope_profile *p, bool first)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	buf_str(&b,
		first ? "\n{\"type\":\"evented\",\"name\":" : ",\n{\"type\":\"evented\",\"name\":");
	json_quote_shown(&b, p->name);
	buf_printf(&b,
		   ",\"unit\":\"nanoseconds\",\"startValue\":%" PRIu64 ",\"endValue\":%" PRIu64
		   ",\"events\":[",
		   s->sel.from_ns - s->sel.base_ns, s->sel.to_ns - s->sel.base_ns);
	if (buf_failed(&b))
		return -ENOMEM;
	out_write(&s->out, b.data, b.len);

	struct spill edges;
	spill_init(&edges, &s->file, sizeof(struct edge));
	int r = reverse(s, p, &edges);
	struct edge e;
	for (bool start = true; r >= 0 && (r = spill_pop(&edges, &e)) > 0; start = false)
		put_edge(s, &e, start);
	spill_done(&edges);
	spill_done(&p->slices);
	out_write(&s->out, "]}", 2);
	return r < 0 ? r : s->out.error;
}

static int by_family_and_place(const void *a, const void *b)
{
	const struct speedscope_wait *x = *(struct speedscope_wait *const *)a;
	const struct speedscope_wait *y = *(struct speedscope_wait *const *)b;

	return ASCENDING(x->family_frame, y->family_frame) ?: ASCENDING(x->place, y->place);
}

/* Their frames are made before the list of frames is written. */
static int order_waits(struct speedscope *s)
{
	s->wait_sums = map_sorted(&s->waits, by_family_and_place);
	for (size_t i = 0; s->wait_sums && i < s->waits.n; i++)
		s->wait_sums[i]->frame = speedscope_place_frame(s, s->wait_sums[i]->place);
	return s->wait_sums ? 0 : -ENOMEM;
}

struct sums {
	struct buf samples, weights;
	uint64_t ns;
};

/* `place`: 0: without an await point. */
static void put_sum(const struct speedscope *s, struct sums *sums, size_t family, unsigned state,
		    uint64_t place, uint64_t ns)
{
	if (!ns)
		return;
	buf_printf(&sums->samples, "%s[%" PRIu32 ",%" PRIu32, sums->ns ? "," : "",
		   s->frame_places[FRAME_FAMILY + family], s->frame_places[state]);
	if (place)
		buf_printf(&sums->samples, ",%" PRIu64, speedscope_place(s, place));
	buf_char(&sums->samples, ']');
	buf_printf(&sums->weights, "%s%" PRIu64, sums->ns ? "," : "", ns);
	sums->ns += ns;
}

/* The time of all tasks by family, state and await point: a flame graph in the view "Left Heavy". */
static int write_sums(struct speedscope *s)
{
	const struct lanes *l = &s->sel.lanes;
	struct sums sums = {.samples = BUF_INIT, .weights = BUF_INIT};
	_cleanup_buf_ struct buf b = BUF_INIT;
	size_t w = 0;

	for (size_t i = 0; i < l->n_families; i++) {
		const struct lane_family *f = l->families[i];
		uint64_t placed_ns = 0;

		put_sum(s, &sums, i, FRAME_POLL, 0, f->poll_ns);
		for (; w < s->waits.n && s->wait_sums[w]->family_frame == FRAME_FAMILY + i; w++) {
			put_sum(s, &sums, i, FRAME_WAITING, s->wait_sums[w]->frame,
				s->wait_sums[w]->ns);
			placed_ns += s->wait_sums[w]->ns;
		}
		if (f->wait_ns > placed_ns)
			put_sum(s, &sums, i, FRAME_WAITING, 0, f->wait_ns - placed_ns);
		put_sum(s, &sums, i, FRAME_SCHEDULED, 0, f->sched_ns);
	}
	if (sums.ns)
		buf_printf(
			&b,
			"%s\n{\"type\":\"sampled\",\"name\":\"all tasks: their time by family and "
			"state\","
			"\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%" PRIu64
			",\"samples\":[%s],\"weights\":[%s]}",
			s->n_profiles ? "," : "", sums.ns, sums.samples.data, sums.weights.data);
	bool failed = buf_failed(&sums.samples) || buf_failed(&sums.weights) || buf_failed(&b);

	buf_done(&sums.samples);
	buf_done(&sums.weights);
	if (failed)
		return -ENOMEM;
	if (b.len)
		out_write(&s->out, b.data, b.len);
	return s->out.error;
}

/* The first chosen task, else the busiest worker, else the busiest thread. */
static size_t first_shown(const struct speedscope *s)
{
	size_t best = 0;
	if (s->n_profiles > s->n_thread_profiles)
		return s->n_thread_profiles;
	for (size_t i = 1; i < s->n_profiles; i++) {
		const struct speedscope_profile *p = &s->profiles[i], *b = &s->profiles[best];
		if (p->worker > b->worker || (p->worker == b->worker && p->busy_ns > b->busy_ns))
			best = i;
	}
	return best;
}

static int write_file(struct speedscope *s)
{
	_cleanup_buf_ struct buf head = BUF_INIT;
	struct json j;
	const struct trace_process *tp = trace_reader_process(s->reader, 0);
	_cleanup_buf_ struct buf name = BUF_INIT;
	buf_printf(&name, "%s%s%s", tp && tp->exe ? tp->exe : "trace", *s->sel.notice ? ", " : "",
		   s->sel.notice);

	json_init(&j, &head, false);
	j.shown = true;
	json_object(&j, NULL);
	json_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_string(&j, "exporter", "pollux " POLLUX_VERSION);
	json_string(&j, "name", name.data);
	json_u64(&j, "activeProfileIndex", first_shown(s));
	int r = speedscope_order_samples(s);
	if (r == 0)
		r = order_waits(s);
	if (r == 0)
		r = write_frames(s, &j);
	json_array(&j, "profiles");
	if (r < 0 || buf_failed(&head) || buf_failed(&name))
		return -ENOMEM;
	out_write(&s->out, head.data, head.len);

	for (size_t i = 0; i < s->n_profiles && r == 0; i++)
		r = write_profile(s, &s->profiles[i], i == 0);
	if (r == 0)
		r = write_sums(s);
	if (r == 0)
		r = speedscope_write_samples(s);
	out_write(&s->out, "\n]}\n", 4);
	return r;
}

static int speedscope_write(struct trace_reader *reader, const struct export_options *opt,
			    FILE *file, struct export_summary *ret_summary, struct error *err)
{
	struct speedscope *s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	s->reader = reader;
	short_names_init(&s->names, reader, &s->sel.labels);
	spill_file_init(&s->file);
	pool_init(&s->tasks, sizeof(struct speedscope_task));

	int r = limits_run(reader, opt, &speedscope_limits, &s->sel, err);
	if (r == 0) {
		r = out_init(&s->out, file);
		if (r == 0)
			r = make_profiles(s);
		int replayed = 0;
		if (r == 0) {
			lanes_restart(&s->sel.lanes);
			replayed =
				timeline_replay(reader, &s->sel.filter, &speedscope_sink, s,
						opt->progress, opt->progress_ctx, NULL, NULL, err);
			/* A trace that broke off is shown up to there. */
			r = write_file(s);
			if (r == 0)
				r = out_flush(&s->out);
			if (r < 0 && r != -EPIPE && replayed == 0)
				error_sys(err, r, "cannot write");
			r = r < 0 ? r : replayed;
		} else {
			error_set(err, r, "out of memory");
		}
	}

	*ret_summary = (struct export_summary){.slices = s->n_slices,
					       .lanes = s->sel.n_lanes,
					       .bytes = s->out.bytes,
					       .cut_slices = s->sel.cut_slices};
	memcpy(ret_summary->notice, s->sel.notice, sizeof(ret_summary->notice));
	for (size_t i = 0; i < s->n_profiles; i++) {
		spill_done(&s->profiles[i].slices);
		free(s->profiles[i].name);
	}
	free(s->profiles);
	free(s->thread_profile);
	free(s->frame_places);
	free(s->wait_sums);
	map_free(&s->waits, free);
	pool_done(&s->tasks);
	short_names_done(&s->names);
	speedscope_samples_done(s);
	spill_file_done(&s->file);
	out_done(&s->out);
	export_scope_done(&s->sel);
	free(s);
	return r;
}

const struct export_ops export_speedscope = {
	.name = "speedscope",
	.extension = ".speedscope.json",
	.viewers = "Speedscope",
	.reads = "speedscope",
	.begin = "{\"$schema\":\"https://www.speedscope.app/"
		 "file-format-schema.json\",\"exporter\":\"pollux ",
	.lanes = true,
	.write = speedscope_write,
};
