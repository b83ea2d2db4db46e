/*
 * Speedscope's own format: one "evented" profile per thread and per chosen task, in integer ns.
 *
 * The viewer is strict, one fault rejects the whole file: within a profile opens and closes must be
 * balanced, in order of time, and closed at endValue. And profiles stand one after the other,
 * while the timeline tells the slices of all of them mixed, each when it *ends*, what is inside
 * before what is around it. Both are turned right with two stacks and no memory: every profile's
 * slices are pushed onto a stack of its own as they are told. Popped at the end, they come with the
 * latest end first, which is the reverse of the order of closes; a slice's open stands, in
 * reverse, just where the first slice comes that ends no later than it begins. So one walk pushes
 * all opens and closes, the last first, onto a second stack, and popping that gives them in order.
 * The stacks spill to disk.
 */
#include "export/export.h"
#include "export/lanes.h"
#include "export/out.h"
#include "export/select.h"
#include "export/spill.h"
#include "timeline/pool.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/syscalls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static const struct limits speedscope_limits = {
	.max_slices = 1000000, /* about 90 MB, 10 s */
	.max_lanes = 1000,
	.ceiling_bytes = 600000000, /* V8's heap of 4 GiB ends at 650 MB */
	.ceiling_lanes = 10000,
	.slice_bytes = 92,
	.lane_bytes = 160,
	.tasks_by_choice = true,
	.viewer = "Speedscope",
};

/* Frames: parts of one list. Those of futures, system calls, times off the CPU and functions on
 * stacks are made when they are first met, and stand behind all others. */
enum {
	FRAME_POLL,
	FRAME_WAITING,
	FRAME_SCHEDULED,
	FRAME_UNKNOWN,
	FRAME_SECTION,
	FRAME_LOST,
	FRAME_N_STATES
};
#define MAX_CALLS 256u			      /* more than trace_call_name() knows */
#define FRAME_BLOCK FRAME_N_STATES	      /* + call: blocked in it */
#define FRAME_PARK (FRAME_BLOCK + MAX_CALLS)  /* + call: parked in it */
#define FRAME_FAMILY (FRAME_PARK + MAX_CALLS) /* + index of the family */
#define MAX_FRAMES 512u			      /* of a stack */
#define FRAME_MADE (1ull << 40)		      /* + number in the order of making */

/* By what a made frame is found again. */
enum made { MADE_FUTURE = 1, MADE_CALL, MADE_OFF, MADE_FUNCTION };

/* The weight of one stack in a profile of samples. */
struct sampled {
	uint32_t profile; /* index + 1; 0: that of all tasks */
	uint32_t kind;	  /* there: of the task */
	unsigned what;	  /* enum trace_sample */
	uint64_t stack, weight;
};

struct slice {
	uint64_t begin_ns, end_ns;
	uint64_t frame;
};

/* An open or a close. */
struct edge {
	uint64_t at_ns;
	uint64_t frame_close; /* frame << 1 | 1 for a close */
};

struct profile {
	char *name;
	struct spill slices;
	bool worker;
	uint64_t busy_ns; /* in polls */
};

struct speedscope {
	struct trace_reader *reader;
	struct selection sel;
	struct out out;
	struct pool tasks;
	struct spill_file file;
	struct profile *profiles; /* threads in order of rank, then tasks */
	size_t n_profiles;
	uint32_t *thread_profile;	/* by thread: index + 1, 0 if not shown */
	bool calls_seen[2 * MAX_CALLS]; /* from FRAME_BLOCK on */
	uint32_t *frame_places;		/* by frame: where it stands in the file's list */
	struct map made;		/* (enum made, number) or two hashes to its number + 1 */
	struct buf made_names;		/* JSON of the made frames */
	size_t n_made, made_place;	/* place of the first */
	struct map by_stack;		/* to struct sampled */
	struct sampled **sampled;	/* in the order of profiles */
	size_t n_sampled;
	uint64_t n_slices;
};

struct speedscope_task {
	struct placed at;
	struct profile *profile; /* NULL if not shown */
	uint64_t family_frame;
};

/* ---- what the timeline tells, onto the stacks ---- */

static int push(struct speedscope *s, struct profile *p, uint64_t frame, uint64_t begin_ns,
		uint64_t end_ns)
{
	if (!p)
		return 0;
	s->n_slices++;
	return spill_push(&p->slices, &(struct slice){begin_ns, end_ns, frame});
}

static struct profile *thread_profile(struct speedscope *s, uint32_t thread)
{
	uint32_t i = thread < s->sel.lanes.n_threads ? s->thread_profile[thread] : 0;
	return i ? &s->profiles[i - 1] : NULL;
}

static struct speedscope_task *task_of(struct speedscope *s, struct tl_task *task)
{
	if (task->user)
		return task->user;
	struct speedscope_task *t = pool_get(&s->tasks);
	if (!t || lanes_task_begin(&s->sel.lanes, task, &t->at) < 0)
		return NULL;
	const struct family *f = t->at.family;
	t->family_frame = FRAME_FAMILY + f->index;
	if (t->at.shown)
		t->profile = &s->profiles[f->lanes[t->at.lane].tid];
	return task->user = t;
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	return task_of(ctx, task) ? 0 : -ENOMEM;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = task_of(s, task);
	if (!t)
		return -ENOMEM;
	uint64_t end_ns = task->end_ns ? task->end_ns : s->sel.to_ns;
	int r = push(s, t->profile, t->family_frame, t->at.begin_ns, end_ns);
	lanes_task_end(&s->sel.lanes, &t->at, end_ns);
	task->user = NULL;
	pool_put(&s->tasks, t);
	return r;
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = task_of(s, poll->task);
	if (!t)
		return -ENOMEM;
	struct profile *thread = thread_profile(s, poll->thread);
	if (thread && !poll->depth)
		thread->busy_ns += poll->end_ns - poll->begin_ns;
	int r = push(s, thread, t->family_frame, poll->begin_ns, poll->end_ns);
	return r < 0 ? r : push(s, t->profile, FRAME_POLL, poll->begin_ns, poll->end_ns);
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = task_of(s, wait->task);
	if (!t)
		return -ENOMEM;
	unsigned frame = wait->state == TS_WAITING     ? FRAME_WAITING
			 : wait->state == TS_SCHEDULED ? FRAME_SCHEDULED
						       : FRAME_UNKNOWN;
	return push(s, t->profile, frame, wait->begin_ns, wait->end_ns);
}

/* In a poll: on the profiles of its thread and of its task. */
static int push_inside(struct speedscope *s, struct tl_task *task, uint32_t thread, uint64_t frame,
		       uint64_t begin_ns, uint64_t end_ns)
{
	struct speedscope_task *t = task ? task_of(s, task) : NULL;
	if (task && !t)
		return -ENOMEM;
	int r = push(s, thread_profile(s, thread), frame, begin_ns, end_ns);
	return r < 0 || !t ? r : push(s, t->profile, frame, begin_ns, end_ns);
}

static uint64_t call_frame(struct speedscope *s, uint64_t first, unsigned call)
{
	uint64_t frame = first + (call < MAX_CALLS ? call : MAX_CALLS - 1);
	s->calls_seen[frame - FRAME_BLOCK] = true;
	return frame;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	return push_inside(ctx, block->task, block->thread,
			   call_frame(ctx, FRAME_BLOCK, block->call), block->begin_ns,
			   block->end_ns);
}

/* ---- frames that are made when they are met ---- */

static uint64_t made_frame(struct speedscope *s, uint64_t a, uint64_t b, const char *name,
			   const struct trace_frame *at)
{
	uintptr_t number = (uintptr_t)map_get(&s->made, a, b);
	if (number)
		return FRAME_MADE + number - 1;
	struct json j;
	buf_str(&s->made_names, ",");
	json_init(&j, &s->made_names, false);
	json_object(&j, NULL);
	json_string(&j, "name", name);
	if (at && at->file && *at->file) {
		json_string(&j, "file", at->file);
		if (at->line)
			json_u64(&j, "line", at->line);
	}
	json_end_object(&j);
	number = ++s->n_made;
	if (map_put(&s->made, a, b, (void *)number) < 0)
		s->made_names.failed = true;
	return FRAME_MADE + number - 1;
}

static uint64_t future_frame(struct speedscope *s, uint32_t kind)
{
	const struct trace_kind *k = trace_reader_kind(s->reader, kind);
	return made_frame(s, MADE_FUTURE, kind, k && k->name && *k->name ? k->name : "future",
			  NULL);
}

static void call_text(struct buf *out, uint32_t number)
{
	const char *name = syscall_name(number);
	if (name)
		buf_str(out, name);
	else
		buf_printf(out, "system call %" PRIu32, number);
}

static int on_syscall(void *ctx, const struct tl_syscall *call)
{
	struct speedscope *s = ctx;
	_cleanup_buf_ struct buf name = BUF_INIT;
	call_text(&name, call->number);
	return push_inside(s, call->task, call->thread,
			   made_frame(s, MADE_CALL, call->number, name.data, NULL), call->begin_ns,
			   call->end_ns);
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct speedscope *s = ctx;
	_cleanup_buf_ struct buf name = BUF_INIT;
	buf_printf(&name, "off CPU, %s", trace_off_cpu_name(off->why));
	if (off->syscall) {
		buf_str(&name, " in ");
		call_text(&name, off->syscall - 1);
	}
	uint64_t number = (uint64_t)off->why << 32 | off->syscall;
	return push_inside(s, off->task, off->thread,
			   made_frame(s, MADE_OFF, number, name.data, NULL), off->begin_ns,
			   off->end_ns);
}

static int on_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	return push_inside(ctx, poll->task, poll->thread, future_frame(ctx, poll->future->kind),
			   poll->begin_ns, poll->end_ns);
}

/* ---- samples ---- */

static int add_sample(struct speedscope *s, uint32_t profile, uint32_t kind,
		      const struct tl_sample *sample)
{
	uint64_t key = (uint64_t)profile << 34 | (uint64_t)sample->what << 32 | kind;
	struct sampled *x = map_get(&s->by_stack, key, sample->stack);
	if (!x) {
		x = calloc(1, sizeof(*x));
		if (!x || map_put(&s->by_stack, key, sample->stack, x) < 0) {
			free(x);
			return -ENOMEM;
		}
		*x = (struct sampled){.profile = profile,
				      .kind = kind,
				      .what = sample->what,
				      .stack = sample->stack};
	}
	x->weight += sample->weight;
	return 0;
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct speedscope *s = ctx;
	struct speedscope_task *t = sample->task ? task_of(s, sample->task) : NULL;
	if (sample->task && !t)
		return -ENOMEM;
	if (!stack_lane_wants(sample))
		return 0;
	const struct profile *thread = thread_profile(s, sample->thread);
	int r = 0;
	if (thread)
		r = add_sample(s, (uint32_t)(thread - s->profiles) + 1, 0, sample);
	if (r == 0 && t && t->profile)
		r = add_sample(s, (uint32_t)(t->profile - s->profiles) + 1, 0, sample);
	return r == 0 && t ? add_sample(s, 0, sample->task->kind, sample) : r;
}

static int on_section(void *ctx, const struct tl_section *section)
{
	return push_inside(ctx, section->task, section->thread, FRAME_SECTION, section->begin_ns,
			   section->end_ns);
}

static int on_park(void *ctx, const struct tl_park *park)
{
	return push(ctx, thread_profile(ctx, park->thread), call_frame(ctx, FRAME_PARK, park->call),
		    park->begin_ns, park->end_ns);
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	return push(ctx, thread_profile(ctx, loss->thread), FRAME_LOST, loss->begin_ns,
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
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.future_poll = on_future_poll,
	.loss = on_loss,
};

/* ---- profiles: which there are ---- */

static int by_rank(const void *a, const void *b)
{
	const struct thread_lane *x = *(struct thread_lane *const *)a;
	const struct thread_lane *y = *(struct thread_lane *const *)b;
	if (x->worker != y->worker)
		return x->worker ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int add_profile(struct speedscope *s, struct buf *name)
{
	struct profile *p = &s->profiles[s->n_profiles];
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
		l->threads[i].tid = tt->tid;
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
	for (size_t i = 0; i < l->n_families; i++) {
		struct family *f = l->families[i];
		for (uint32_t k = 0; k < f->n_shown; k++) {
			struct buf name = BUF_INIT;
			buf_printf(&name, "%s, task %" PRIu64, f->name, f->lanes[k].number);
			f->lanes[k].tid = (uint32_t)s->n_profiles;
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
};

/* The list of frames, and where each stands in it. */
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
		if (i < FRAME_BLOCK)
			buf_str(&name, state_frames[i]);
		else if (i >= FRAME_FAMILY)
			buf_str(&name, l->families[i - FRAME_FAMILY]->name);
		else if (!s->calls_seen[i - FRAME_BLOCK])
			continue;
		else if (i < FRAME_PARK)
			buf_printf(&name, "blocked in %s", trace_call_name(i - FRAME_BLOCK));
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

static uint64_t frame_place(const struct speedscope *s, uint64_t frame)
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
	p = put_u64(p, frame_place(s, e->frame_close >> 1));
	p = put_lit(p, ",\"at\":");
	p = put_u64(p, e->at_ns > s->sel.base_ns ? e->at_ns - s->sel.base_ns : 0);
	*p++ = '}';
	out_used(&s->out, p);
}

/* The slices that are open where the walk, from the end to the start, stands. */
struct walk {
	struct spill *edges;
	struct slice *open;
	size_t n, cap;
	uint64_t at_ns; /* of the edge pushed last: none may be later */
};

static int push_edge(struct walk *w, uint64_t at_ns, uint64_t frame, bool close)
{
	if (at_ns < w->at_ns)
		w->at_ns = at_ns;
	return spill_push(w->edges, &(struct edge){w->at_ns, frame << 1 | close});
}

/* Slices that begin at or after `end_ns`: their opens. */
static int push_opens(struct walk *w, uint64_t end_ns)
{
	int r = 0;
	while (r == 0 && w->n && w->open[w->n - 1].begin_ns >= end_ns) {
		const struct slice *top = &w->open[--w->n];
		r = push_edge(w, top->begin_ns, top->frame, false);
	}
	return r;
}

static int push_close(struct walk *w, struct slice slice)
{
	if (slice.end_ns > w->at_ns)
		slice.end_ns = w->at_ns;
	if (slice.begin_ns > slice.end_ns)
		slice.begin_ns = slice.end_ns;
	if (w->n && slice.begin_ns < w->open[w->n - 1].begin_ns)
		slice.begin_ns = w->open[w->n - 1].begin_ns;
	if (w->n == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 16;
		struct slice *open = realloc(w->open, cap * sizeof(*open));
		if (!open)
			return -ENOMEM;
		w->open = open;
		w->cap = cap;
	}
	w->open[w->n++] = slice;
	return push_edge(w, slice.end_ns, slice.frame, true);
}

static int reverse(struct speedscope *s, struct profile *p, struct spill *edges)
{
	struct walk w = {.edges = edges, .at_ns = s->sel.to_ns};
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

static int write_profile(struct speedscope *s, struct profile *p, bool first)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	buf_str(&b,
		first ? "\n{\"type\":\"evented\",\"name\":" : ",\n{\"type\":\"evented\",\"name\":");
	json_quote(&b, p->name);
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

/* The time of all tasks by family and state: a flame graph in the view "Left Heavy". */
static int write_sums(struct speedscope *s)
{
	const struct lanes *l = &s->sel.lanes;
	_cleanup_buf_ struct buf samples = BUF_INIT, weights = BUF_INIT, b = BUF_INIT;
	uint64_t sum = 0;

	for (size_t i = 0; i < l->n_families; i++) {
		const struct family *f = l->families[i];
		const uint64_t ns[] = {[FRAME_POLL] = f->poll_ns,
				       [FRAME_WAITING] = f->wait_ns,
				       [FRAME_SCHEDULED] = f->sched_ns};
		for (unsigned k = 0; k < 3; k++) {
			if (!ns[k])
				continue;
			buf_printf(&samples, "%s[%" PRIu32 ",%" PRIu32 "]", samples.len ? "," : "",
				   s->frame_places[FRAME_FAMILY + i], s->frame_places[k]);
			buf_printf(&weights, "%s%" PRIu64, weights.len ? "," : "", ns[k]);
			sum += ns[k];
		}
	}
	if (!sum)
		return 0;
	buf_printf(
		&b,
		"%s\n{\"type\":\"sampled\",\"name\":\"all tasks: their time by family and state\","
		"\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%" PRIu64
		",\"samples\":[%s],\"weights\":[%s]}",
		s->n_profiles ? "," : "", sum, samples.data, weights.data);
	if (buf_failed(&samples) || buf_failed(&weights) || buf_failed(&b))
		return -ENOMEM;
	out_write(&s->out, b.data, b.len);
	return s->out.error;
}

/* ---- profiles of samples ---- */

static uint64_t hash(uint64_t h, const char *text)
{
	for (; text && *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return h * 0x9e3779b97f4a7c15ull ^ h >> 29;
}

/* A function has one frame, whatever the places in it that were met. */
static uint64_t function_frame(struct speedscope *s, const struct trace_frame *f)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	stack_frame_name(f, &name);
	uint64_t a = hash(0xcbf29ce484222325ull, name.data);
	uint64_t b = hash(0x84222325cbf29ce4ull ^ MADE_FUNCTION, f ? f->object : NULL) ^ a >> 7;
	return made_frame(s, a, b, name.data ? name.data : "?", f);
}

static int by_profile(const void *a, const void *b)
{
	const struct sampled *x = *(struct sampled *const *)a, *y = *(struct sampled *const *)b;
	if (x->profile != y->profile)
		return x->profile < y->profile ? -1 : 1;
	if (x->what != y->what)
		return x->what < y->what ? -1 : 1;
	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* Puts the sums in order and makes the frames of all functions, before the list is written. */
static int order_samples(struct speedscope *s)
{
	const struct map_entry *e;
	s->sampled = calloc(s->by_stack.n + 1, sizeof(*s->sampled));
	if (!s->sampled)
		return -ENOMEM;
	for (size_t pos = 0; (e = map_next(&s->by_stack, &pos));)
		s->sampled[s->n_sampled++] = e->value;
	qsort(s->sampled, s->n_sampled, sizeof(*s->sampled), by_profile);
	for (size_t i = 0; i < s->n_sampled; i++) {
		uint64_t at = s->sampled[i]->stack;
		for (unsigned n = 0; at && n < MAX_FRAMES; n++) {
			const struct trace_stack *x =
				trace_reader_stack(s->reader, (uint32_t)(at - 1));
			if (!x)
				break;
			function_frame(s, trace_reader_frame(s->reader, x->frame));
			at = x->parent;
		}
	}
	return buf_failed(&s->made_names) ? -ENOMEM : 0;
}

/* "[3,17,18]": outermost first, in the profile of all tasks below the family. */
static void stack_text(struct speedscope *s, struct buf *out, const struct sampled *x)
{
	uint64_t frames[MAX_FRAMES + 1];
	size_t n = 0;
	for (uint64_t at = x->stack; at && n < MAX_FRAMES;) {
		const struct trace_stack *st = trace_reader_stack(s->reader, (uint32_t)(at - 1));
		if (!st)
			break;
		frames[n++] = function_frame(s, trace_reader_frame(s->reader, st->frame));
		at = st->parent;
	}
	const struct family *f = x->profile ? NULL : map_get(&s->sel.lanes.by_kind, x->kind, 0);
	if (f)
		frames[n++] = FRAME_FAMILY + f->index;
	buf_char(out, '[');
	while (n-- > 0)
		buf_printf(out, "%" PRIu64 "%s", frame_place(s, frames[n]), n ? "," : "");
	buf_char(out, ']');
}

static int write_sampled(struct speedscope *s)
{
	for (size_t i = 0, next; i < s->n_sampled; i = next) {
		_cleanup_buf_ struct buf samples = BUF_INIT, weights = BUF_INIT, name = BUF_INIT,
					 head = BUF_INIT;
		const struct sampled *first = s->sampled[i];
		uint64_t sum = 0;
		for (next = i; next < s->n_sampled; next++) {
			const struct sampled *x = s->sampled[next];
			if (x->profile != first->profile || x->what != first->what)
				break;
			buf_str(&samples, next > i ? "," : "");
			stack_text(s, &samples, x);
			buf_printf(&weights, "%s%" PRIu64, next > i ? "," : "", x->weight);
			sum += x->weight;
		}
		buf_printf(&name, "%s of %s", trace_sample_name(first->what),
			   first->profile ? s->profiles[first->profile - 1].name
					  : "all tasks by family");
		buf_str(&head, ",\n{\"type\":\"sampled\",\"name\":");
		json_quote(&head, name.data ? name.data : "samples");
		buf_printf(&head,
			   ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64
			   ",\"samples\":[",
			   first->what == TM_CPU_CLOCK ? "nanoseconds" : "none", sum);
		if (buf_failed(&head) || buf_failed(&samples) || buf_failed(&weights))
			return -ENOMEM;
		out_write(&s->out, head.data, head.len);
		out_write(&s->out, samples.data, samples.len);
		out_write(&s->out, "],\"weights\":[", 13);
		out_write(&s->out, weights.data, weights.len);
		out_write(&s->out, "]}", 2);
	}
	return s->out.error;
}

/* The first chosen task, else the busiest worker, else the busiest thread. */
static size_t first_shown(const struct speedscope *s)
{
	size_t best = 0;
	if (s->sel.shown_tasks && s->n_profiles > s->sel.shown_tasks)
		return s->n_profiles - s->sel.shown_tasks;
	for (size_t i = 1; i < s->n_profiles; i++) {
		const struct profile *p = &s->profiles[i], *b = &s->profiles[best];
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
	json_object(&j, NULL);
	json_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_string(&j, "exporter", "pollux " POLLUX_VERSION);
	json_string(&j, "name", name.data);
	json_u64(&j, "activeProfileIndex", first_shown(s));
	int r = order_samples(s);
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
		r = write_sampled(s);
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
	spill_file_init(&s->file);
	pool_init(&s->tasks, sizeof(struct speedscope_task));

	int r = select_run(reader, opt, &speedscope_limits, &s->sel, err);
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
	pool_done(&s->tasks);
	map_done(&s->made);
	buf_done(&s->made_names);
	const struct map_entry *e;
	for (size_t pos = 0; (e = map_next(&s->by_stack, &pos));)
		free(e->value);
	map_done(&s->by_stack);
	free(s->sampled);
	spill_file_done(&s->file);
	out_done(&s->out);
	selection_done(&s->sel);
	free(s);
	return r;
}

const struct export_ops export_speedscope = {
	.name = "speedscope",
	.extension = ".speedscope.json",
	.viewers = "Speedscope",
	.write = speedscope_write,
};
