/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks, polls, wakes and what blocks, as slices (draw.h). What was measured of the viewers decides
 * here: an arrow's begin must lie inside a slice (a wake from outside of all polls gets a slice of
 * 1 ns), its end just inside the poll, or it would bind to the slice that ends there.
 */
#include "export/draw.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "base/syscalls.h"
#include "base/units.h"
#include "base/vec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LONG_POLL_NS NSEC_PER_MSEC
#define STACK_TEXT_MAX 2000u
#define STACK_TEXT_FRAMES 12u

/* A wake that may lead to a poll, and the lane that it came from. */
struct wake_ref {
	uint64_t serial, time_ns;
	struct draw_at at;
	bool own_slice; /* came from outside of all polls */
};

struct draw_task {
	struct lane_slot placed;
	struct wake_ref wakes[DRAW_MAX_WAKES]; /* oldest first */
	unsigned n_wakes;
};

/* ---- times and lanes ---- */

static const struct task_lane *lane_of(const struct lane_slot *at)
{
	return &at->family->lanes[at->lane];
}

static struct draw_at at_task(const struct draw_task *t)
{
	return lane_of(&t->placed)->at;
}

/* Slices of a lane touch and never overlap, also where two threads' clocks disagree by a little. */
struct span {
	uint64_t begin_ns, end_ns;
};

static struct span place(struct lane_slot *at, uint64_t begin_ns, uint64_t end_ns)
{
	struct span s = {begin_ns, end_ns};

	if (s.begin_ns < at->last_ns)
		s.begin_ns = at->last_ns;
	if (s.end_ns < s.begin_ns)
		s.end_ns = s.begin_ns;
	at->last_ns = s.end_ns;
	return s;
}

/* How deep things lie in the poll around them: on a thread's lane, and on a task's. Where several begin
 * at once, as at a window's begin, each needs a begin of its own. `n`: polls of futures around. */
enum level { LEVEL_SECTION, LEVEL_FUTURE, LEVEL_BLOCK = LEVEL_FUTURE, LEVEL_CALL, LEVEL_OFF_CPU };

/* A slice `n` levels inside another begins this many ns later. */
static uint64_t deeper(uint64_t begin_ns, uint64_t end_ns, uint32_t n)
{
	return begin_ns + n < end_ns ? begin_ns + n : end_ns;
}

static uint64_t inside(uint64_t begin_ns, uint64_t end_ns)
{
	return deeper(begin_ns, end_ns, 1);
}

/* On a task's lane, where the poll around it will not begin before the last slice's end, and 1 ns
 * later if it is a request's first. */
static uint64_t inside_poll(const struct lane_slot *at, uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t begin = begin_ns > at->last_ns ? begin_ns : at->last_ns;

	return begin + 2 < end_ns ? begin + 2 : end_ns;
}

static int slice(struct draw *d, struct draw_slice *s)
{
	if (s->end_ns < s->begin_ns)
		s->end_ns = s->begin_ns;
	d->n_slices++;
	return d->pen->slice(d->ctx, s);
}

/* The clocks of what a slice was seen by differ by some microseconds (the kernel's switches, the agent's calls), so a
 * slice may begin in an earlier one and end after it. Its begin is moved to the nearer edge of that one, as nothing on a
 * lane may cross; its end, where it is the end that crosses. */
static void nest(struct lane_nest *n, struct draw_slice *s)
{
	while (n->n) {
		uint64_t begin = n->spans[n->n - 1].begin_ns, end = n->spans[n->n - 1].end_ns;
		bool room = n->n < 2 || n->spans[n->n - 2].end_ns < begin;

		if (s->begin_ns >= end)
			break; /* after it */
		if (s->begin_ns <= begin && s->end_ns >= end) {
			n->n--; /* around it */
		} else if (s->begin_ns >= begin && s->end_ns <= end) {
			return; /* inside it */
		} else if (s->begin_ns < begin) {
			s->end_ns = s->end_ns < begin ? s->end_ns : begin;
			return;
		} else if (room && begin && s->begin_ns - begin < end - s->begin_ns) {
			s->begin_ns = begin - 1;
		} else {
			s->begin_ns = end;
		}
	}
	if (n->n == LANE_NEST)
		memmove(n->spans, n->spans + 1, --n->n * sizeof(n->spans[0]));
	n->spans[n->n].begin_ns = s->begin_ns;
	n->spans[n->n++].end_ns = s->end_ns;
}

static int nested_slice(struct draw *d, struct lane_nest *n, struct draw_slice *s)
{
	if (s->end_ns < s->begin_ns)
		s->end_ns = s->begin_ns;
	nest(n, s);
	return slice(d, s);
}

/* What the timeline's task is here, made when new; NULL when out of memory. */
static struct draw_task *task_of(struct draw *d, struct tl_task *task)
{
	if (task->user)
		return task->user;
	struct draw_task *t = pool_get(&d->tasks);
	if (!t || lanes_task_begin(&d->sel.lanes, task, &t->placed) < 0)
		return NULL;
	if (t->placed.begin_ns < d->sel.from_ns)
		t->placed.begin_ns = d->sel.from_ns;
	t->placed.last_ns = t->placed.begin_ns + 1; /* inside the task's own slice */
	return task->user = t;
}

/* A slice inside a poll: on the lanes of its task (NULL: of none) and of its thread. */
static int both(struct draw *d, struct draw_task *t, uint32_t thread_index, enum level level,
		uint32_t depth, struct draw_slice *s)
{
	struct thread_lane *thread = lanes_thread(&d->sel.lanes, thread_index);
	uint64_t begin = s->begin_ns, end = s->end_ns;

	if (!thread)
		return -ENOMEM;
	if (t && t->placed.shown) {
		s->on_task = true;
		s->at = at_task(t);
		s->begin_ns = deeper(inside_poll(&t->placed, begin, s->end_ns), s->end_ns,
				     (uint32_t)level + depth);
		TRY(nested_slice(d, &t->placed.nest, s));
	}
	if (!thread->shown)
		return 0;
	s->on_task = false;
	s->at = thread->at;
	s->end_ns = end;
	s->begin_ns = deeper(begin, end, 1 + (uint32_t)level + depth);
	return nested_slice(d, &thread->nest, s);
}

/* ---- tasks ---- */

/* Takes a poll or wait into account, where it is drawn: a request that is over is around those
 * before. *ret_begins (may be NULL): one begins with it. */
static int follow_request(struct draw *d, struct draw_task *t, const struct tl_round *round,
			  bool poll, struct span span, bool *ret_begins)
{
	struct lane_slot *at = &t->placed;
	bool begins = round->serial && round->serial != at->request.round.serial;
	struct request_span over;

	if (ret_begins)
		*ret_begins = begins;
	if (!request_goes_on(&at->request, round, poll, span.begin_ns, span.end_ns, &over) ||
	    !at->shown)
		return 0;
	return slice(d, &(struct draw_slice){.type = DRAW_REQUEST,
					     .at = at_task(t),
					     .on_task = true,
					     .begin_ns = over.begin_ns,
					     .end_ns = over.end_ns,
					     .request = &over,
					     .family = at->family});
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	return task_of(ctx, task) ? 0 : -ENOMEM;
}

struct stack_place {
	struct draw *d;
	struct draw_at at;
};

static int stack_slice(void *ctx, const struct stack_slice *stack)
{
	const struct stack_place *at = ctx;
	uint64_t begin = stack->begin_ns, end = stack->end_ns;

	if (begin < at->d->sel.from_ns)
		begin = at->d->sel.from_ns;
	if (!at->at.tid || end < begin)
		return 0;
	return slice(at->d, &(struct draw_slice){.type = DRAW_STACK,
						 .at = at->at,
						 .begin_ns = deeper(begin, end, stack->depth),
						 .end_ns = end,
						 .frame = stack->frame});
}

static int end_stack(struct draw *d, struct stack_lane *l, struct draw_at at)
{
	int r = stack_lane_end(l, stack_slice, &(struct stack_place){d, at});

	stack_lane_done(l);
	return r;
}

static int end_stacks(struct draw *d)
{
	struct lanes *l = &d->sel.lanes;

	for (uint32_t i = 0; i < l->n_threads; i++)
		TRY(end_stack(d, &l->threads[i].stack, l->threads[i].stacks_at));
	return 0;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct draw *d = ctx;
	struct draw_task *t = task_of(d, task);
	int r;
	if (!t)
		return -ENOMEM;

	uint64_t end_ns = task->end_ns && task->end_ns < d->sel.to_ns ? task->end_ns : d->sel.to_ns;
	if (end_ns < t->placed.last_ns)
		end_ns = t->placed.last_ns;
	r = follow_request(d, t, &(struct tl_round){0}, false, (struct span){end_ns, end_ns}, NULL);
	if (r == 0 && t->placed.shown)
		r = slice(d, &(struct draw_slice){.type = DRAW_TASK,
						  .at = at_task(t),
						  .on_task = true,
						  .begin_ns = t->placed.begin_ns,
						  .end_ns = end_ns,
						  .task = task,
						  .family = t->placed.family});
	if (r == 0 && t->placed.shown)
		r = end_stack(d, &t->placed.stack, lane_of(&t->placed)->stacks_at);
	lanes_task_end(&d->sel.lanes, &t->placed, task->end_ns);
	task->user = NULL;
	pool_put(&d->tasks, t);
	return r;
}

static int on_wait(void *ctx, const struct tl_wait *wait)
{
	struct draw *d = ctx;
	struct draw_task *t = task_of(d, wait->task);
	bool begins;
	if (!t)
		return -ENOMEM;
	if (d->pen->counter && wait->state == TS_SCHEDULED && tl_role_counts(wait->task->role))
		gauge_add(&d->ready, wait->begin_ns, wait->end_ns);
	struct span span = place(&t->placed, wait->begin_ns, wait->end_ns);
	if (!t->placed.shown || span.begin_ns == span.end_ns)
		return 0;
	TRY(follow_request(d, t, &wait->round, false, span, &begins));
	if (begins)
		span.begin_ns = inside(span.begin_ns, span.end_ns);
	return nested_slice(d, &t->placed.nest,
			    &(struct draw_slice){.type = DRAW_WAIT,
						 .at = at_task(t),
						 .on_task = true,
						 .begin_ns = span.begin_ns,
						 .end_ns = span.end_ns,
						 .wait = wait,
						 .family = t->placed.family});
}

/* ---- wakes and the polls that they led to ---- */

static int on_wake(void *ctx, const struct tl_wake *wake)
{
	struct draw *d = ctx;
	if (wake->effect == TW_NOOP || !wake->by_waker)
		return 0;
	struct draw_task *t = task_of(d, wake->task);
	struct thread_lane *thread = lanes_thread(&d->sel.lanes, wake->thread);
	if (!t || !thread)
		return -ENOMEM;

	struct wake_ref ref = {.serial = wake->serial, .time_ns = wake->time_ns};
	const struct draw_task *source = wake->source_task ? wake->source_task->user : NULL;
	if (source && source->placed.shown) {
		ref.at = at_task(source);
	} else if (thread->shown) {
		ref.at = thread->at;
		ref.own_slice = !source; /* no poll, or one that the filter keeps back */
	} else {
		return 0; /* no lane to come from */
	}
	/* Of those that come while it is polled, the first counts. */
	if (t->n_wakes == DRAW_MAX_WAKES)
		t->n_wakes--;
	t->wakes[t->n_wakes++] = ref;
	return 0;
}

/* The wake that led to this poll. It and those before it are forgotten. */
static bool take_wake(struct draw_task *t, const struct tl_poll *poll, struct wake_ref *ret)
{
	bool found = false;
	unsigned n = 0;

	for (unsigned i = 0; i < t->n_wakes; i++) {
		const struct wake_ref ref = t->wakes[i];
		if (poll->wake_serial && ref.serial == poll->wake_serial) {
			*ret = ref;
			found = true;
		} else if (ref.serial > poll->wake_serial && ref.time_ns > poll->begin_ns) {
			t->wakes[n++] = ref;
		}
	}
	t->n_wakes = n;
	return found;
}

static int flow(struct draw *d, const struct wake_ref *from, uint64_t number, struct draw_at to,
		uint64_t to_ns)
{
	if (from->own_slice)
		TRY(slice(d, &(struct draw_slice){.type = DRAW_WAKE,
						  .at = from->at,
						  .begin_ns = from->time_ns,
						  .end_ns = from->time_ns + 1}));
	return d->pen->flow(d->ctx, &(struct draw_flow){.number = number,
							.from = from->at,
							.to = to,
							.from_ns = from->time_ns,
							.to_ns = to_ns});
}

static int on_poll(void *ctx, const struct tl_poll *poll)
{
	struct draw *d = ctx;
	struct draw_task *t = task_of(d, poll->task);
	struct thread_lane *thread = lanes_thread(&d->sel.lanes, poll->thread);
	bool begins;
	if (!t || !thread)
		return -ENOMEM;

	if (d->pen->counter && thread->worker && !poll->depth)
		gauge_add(&d->busy, poll->begin_ns, poll->end_ns);
	struct span span = place(&t->placed, poll->begin_ns, poll->end_ns);
	TRY(follow_request(d, t, &poll->round, true, span, &begins));
	if (begins)
		span.begin_ns = inside(span.begin_ns, span.end_ns);
	uint64_t length = poll->end_ns - poll->begin_ns;
	uint64_t begin_ns = poll->begin_ns + (poll->depth < length ? poll->depth : length);
	struct wake_ref wake;
	bool woken =
		take_wake(t, poll, &wake) && d->pen->flow && (t->placed.shown || thread->shown);
	struct draw_slice s = {
		.type = DRAW_POLL,
		.begin_ns = span.begin_ns,
		.end_ns = span.end_ns,
		.poll = poll,
		.family = t->placed.family,
		.worst = tl_poll_measured(poll) && length >= LONG_POLL_NS &&
			 t->placed.family->role != TR_BLOCKING, /* these are to block */
		.open = poll->outcome >= TO_UNKNOWN && poll->end_ns >= d->sel.to_ns,
		.flow = woken ? ++d->n_flows : 0,
	};
	if (t->placed.shown) {
		s.at = at_task(t);
		s.on_task = true;
		TRY(nested_slice(d, &t->placed.nest, &s));
		span = (struct span){s.begin_ns, s.end_ns};
		s.flow = 0;
	}
	if (thread->shown) {
		s.at = thread->at;
		s.on_task = false;
		s.begin_ns = begin_ns;
		s.end_ns = poll->end_ns;
		TRY(nested_slice(d, &thread->nest, &s));
		begin_ns = s.begin_ns;
	}
	if (woken && t->placed.shown)
		return flow(d, &wake, d->n_flows, at_task(t), inside(span.begin_ns, span.end_ns));
	return woken ? flow(d, &wake, d->n_flows, thread->at, inside(begin_ns, poll->end_ns)) : 0;
}

/* ---- what is inside polls, and outside of all ---- */

/* The task in whose poll something is; *ret NULL: in none. */
static int task_around(struct draw *d, struct tl_task *task, struct draw_task **ret)
{
	*ret = task ? task_of(d, task) : NULL;
	return task && !*ret ? -ENOMEM : 0;
}

static int on_block(void *ctx, const struct tl_block *block)
{
	struct draw_task *t;

	TRY(task_around(ctx, block->task, &t));
	return both(ctx, t, block->thread, LEVEL_BLOCK, block->depth,
		    &(struct draw_slice){.type = DRAW_BLOCK,
					 .begin_ns = block->begin_ns,
					 .end_ns = block->end_ns,
					 .block = block});
}

static int on_section(void *ctx, const struct tl_section *section)
{
	struct draw_task *t;

	TRY(task_around(ctx, section->task, &t));
	return both(ctx, t, section->thread, LEVEL_SECTION, 0,
		    &(struct draw_slice){.type = DRAW_SECTION,
					 .begin_ns = section->begin_ns,
					 .end_ns = section->end_ns});
}

static int on_syscall(void *ctx, const struct tl_syscall *call)
{
	struct draw_task *t;

	TRY(task_around(ctx, call->task, &t));
	return both(ctx, t, call->thread, LEVEL_CALL, call->depth,
		    &(struct draw_slice){.type = DRAW_SYSCALL,
					 .begin_ns = call->begin_ns,
					 .end_ns = call->end_ns,
					 .syscall = call});
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *off)
{
	struct draw *d = ctx;
	struct draw_task *t;

	if (d->pen->off_cpu) {
		const struct thread_lane *thread = lanes_thread(&d->sel.lanes, off->thread);

		if (!thread)
			return -ENOMEM;
		if (thread->shown)
			TRY(d->pen->off_cpu(d->ctx, off));
	}
	TRY(task_around(ctx, off->task, &t));
	return both(ctx, t, off->thread, LEVEL_OFF_CPU, off->depth,
		    &(struct draw_slice){.type = DRAW_OFF_CPU,
					 .begin_ns = off->begin_ns,
					 .end_ns = off->end_ns,
					 .off_cpu = off});
}

/* A slice of a thread alone. */
static int on_thread(struct draw *d, uint32_t thread_index, struct draw_slice *s)
{
	struct thread_lane *thread = lanes_thread(&d->sel.lanes, thread_index);

	if (!thread)
		return -ENOMEM;
	s->at = thread->at;
	return thread->shown ? nested_slice(d, &thread->nest, s) : 0;
}

static int on_park(void *ctx, const struct tl_park *park)
{
	return on_thread(ctx, park->thread,
			 &(struct draw_slice){.type = DRAW_PARK,
					      .begin_ns = park->begin_ns,
					      .end_ns = park->end_ns,
					      .park = park});
}

static int on_loss(void *ctx, const struct tl_loss *loss)
{
	return on_thread(ctx, loss->thread,
			 &(struct draw_slice){.type = DRAW_LOSS,
					      .begin_ns = loss->begin_ns,
					      .end_ns = loss->end_ns,
					      .loss = loss});
}

static int on_sample(void *ctx, const struct tl_sample *sample)
{
	struct draw *d = ctx;
	struct draw_task *t;
	struct thread_lane *thread = lanes_thread(&d->sel.lanes, sample->thread);

	TRY(task_around(d, sample->task, &t));
	if (!thread)
		return -ENOMEM;
	if (sample->type == TM_LONG_RUNNING || sample->type == TM_LONG_BLOCKED) {
		if (!thread->shown || !d->pen->long_poll)
			return 0;
		d->n_slices++;
		return d->pen->long_poll(d->ctx, sample, thread->at);
	}
	if (!stack_lane_wants(sample))
		return 0;
	if (d->pen->sample)
		return thread->shown ? d->pen->sample(d->ctx, sample, thread->at) : 0;
	if (thread->shown)
		TRY(stack_lane_sample(&thread->stack, d->reader, sample, stack_slice,
				      &(struct stack_place){d, thread->stacks_at}));
	if (!t || !t->placed.shown)
		return 0;
	return stack_lane_sample(&t->placed.stack, d->reader, sample, stack_slice,
				 &(struct stack_place){d, lane_of(&t->placed)->stacks_at});
}

/* ---- futures ---- */

static int instance_slice(struct draw *d, const struct lane_future *at, enum draw_type type,
			  const struct tl_future *future, uint64_t begin_ns, uint64_t end_ns)
{
	return slice(d, &(struct draw_slice){.type = type,
					     .at = at->family->lanes[at->lane].at,
					     .begin_ns = begin_ns,
					     .end_ns = end_ns,
					     .future = future});
}

static int on_future_poll(void *ctx, const struct tl_future_poll *poll)
{
	struct draw *d = ctx;
	struct draw_task *t;
	struct lane_future *at;

	TRY(task_around(d, poll->task, &t));
	TRY(lanes_future_poll(&d->sel.lanes, &d->futures, poll->future, poll->outcome, &at));
	TRY(both(d, t, poll->thread, LEVEL_FUTURE, poll->depth,
		 &(struct draw_slice){.type = DRAW_FUTURE_POLL,
				      .begin_ns = poll->begin_ns,
				      .end_ns = poll->end_ns,
				      .future_poll = poll}));
	if (!at || !at->shown)
		return 0;

	uint64_t first = at->begin_ns > d->sel.from_ns ? at->begin_ns : d->sel.from_ns;
	if (at->last_ns <= first)
		at->last_ns = first + 1; /* inside the instance's own slice */
	uint64_t since = poll->begin_ns - poll->waited_ns;
	if (since < at->last_ns)
		since = at->last_ns;
	if (poll->waited_ns && since < poll->begin_ns) {
		TRY(instance_slice(d, at, DRAW_INSTANCE_WAIT, poll->future, since, poll->begin_ns));
		at->last_ns = poll->begin_ns;
	}
	uint64_t begin = poll->begin_ns > at->last_ns ? poll->begin_ns : at->last_ns;
	if (begin > poll->end_ns)
		return 0;
	at->last_ns = poll->end_ns;
	return instance_slice(d, at, DRAW_INSTANCE_POLL, poll->future, begin, poll->end_ns);
}

static int on_future_end(void *ctx, struct tl_future *future)
{
	struct draw *d = ctx;
	struct lane_future *at = future->user;
	int r = 0;

	if (!at)
		return 0;
	uint64_t begin = at->begin_ns > d->sel.from_ns ? at->begin_ns : d->sel.from_ns;
	uint64_t end =
		future->end_ns && future->end_ns < d->sel.to_ns ? future->end_ns : d->sel.to_ns;
	if (end < at->last_ns)
		end = at->last_ns;
	if (at->shown)
		r = instance_slice(d, at, DRAW_INSTANCE, future, begin, end);
	lanes_future_end(at, future->end_ns);
	future->user = NULL;
	pool_put(&d->futures, at);
	return r;
}

/* ---- texts ---- */

/* By what is awaited there, or at the innermost place of the chain. */
static enum wait_class wait_class(const struct trace_place *own, const struct trace_place *leaf)
{
	static const struct {
		const char *part;
		enum wait_class class;
	} classes[] = {
		{"::time::", WAIT_FOR_TIMER},  {"Timer", WAIT_FOR_TIMER},
		{"::fs::", WAIT_FOR_TASK},     {"blocking", WAIT_FOR_TASK},
		{"mpsc", WAIT_FOR_CHANNEL},    {"oneshot", WAIT_FOR_CHANNEL},
		{"watch", WAIT_FOR_CHANNEL},   {"broadcast", WAIT_FOR_CHANNEL},
		{"channel", WAIT_FOR_CHANNEL}, {"mutex", WAIT_FOR_LOCK},
		{"Mutex", WAIT_FOR_LOCK},      {"rwlock", WAIT_FOR_LOCK},
		{"RwLock", WAIT_FOR_LOCK},     {"semaphore", WAIT_FOR_LOCK},
		{"Semaphore", WAIT_FOR_LOCK},  {"notify", WAIT_FOR_LOCK},
		{"barrier", WAIT_FOR_LOCK},    {"::task::join", WAIT_FOR_TASK},
		{"join_set", WAIT_FOR_TASK},
	};

	for (unsigned i = 0; i < 2; i++) {
		const struct trace_place *p = i ? leaf : own;

		for (size_t k = 0; p && p->awaits && k < sizeof(classes) / sizeof(classes[0]); k++)
			if (strstr(p->awaits, classes[k].part))
				return classes[k].class;
	}
	return WAIT_FOR_OTHER;
}

const struct place_text *draw_place(struct draw *d, uint64_t place)
{
	uint32_t i = (uint32_t)(place - 1);
	const struct trace_place *p = place ? trace_reader_own_place(d->reader, i, NULL) : NULL;
	_cleanup_buf_ struct buf at = BUF_INIT;

	if (!p || !GROW_ZERO(d->places, i, d->n_places))
		return NULL;
	struct place_text *text = &d->places[i];
	if (text->name)
		return text;
	trace_place_text(&at, p);
	if (buf_failed(&at) || !at.data)
		return NULL;
	/* The folders of the file are what one can do without. */
	const char *name = at.data, *end = strchr(at.data, ' ');
	for (const char *s = name; end && s < end; s++)
		if (*s == '/')
			name = s + 1;
	text->at = strdup(at.data);
	/* And the parameters of the function. */
	size_t len = strlen(name);
	if (len && name[len - 1] == '>' && strchr(name, '<'))
		at.data[strchr(name, '<') - at.data] = 0;
	text->awaits = strdup(p->awaits ? p->awaits : "");
	text->class = wait_class(p, trace_reader_place(d->reader, i));
	text->name = text->at && text->awaits ? strdup(name) : NULL;
	return text->name ? text : NULL;
}

const char *draw_future_end(const struct tl_future *future)
{
	if (!future->end_ns)
		return "alive";
	return future->outcome == TO_CANCELLED ? "dropped" : trace_outcome_name(future->outcome);
}

void draw_syscall_name(struct buf *out, uint32_t number)
{
	const char *name = syscall_name(number);

	if (name)
		buf_str(out, name);
	else
		buf_printf(out, "system call %" PRIu32, number);
}

void draw_off_cpu_name(struct buf *out, const struct tl_off_cpu *off)
{
	buf_printf(out, "off CPU, %s", trace_off_cpu_name(off->reason));
	if (off->syscall) {
		buf_str(out, " in ");
		draw_syscall_name(out, off->syscall - 1);
	}
}

void draw_stack_text(const struct draw *d, const struct tl_sample *sample, struct buf *out)
{
	const struct trace_stack *s =
		sample->stack ? trace_reader_stack(d->reader, (uint32_t)(sample->stack - 1)) : NULL;

	for (unsigned n = 0; s && n < STACK_TEXT_FRAMES && out->len < STACK_TEXT_MAX; n++) {
		buf_str(out, n ? "\n" : "");
		trace_frame_name(out, trace_reader_frame(d->reader, s->frame));
		s = s->parent ? trace_reader_stack(d->reader, s->parent - 1) : NULL;
	}
	if (!out->len)
		buf_str(out, "not known");
}

/* ---- all of it ---- */

static const struct timeline_sink draw_sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.section = on_section,
	.park = on_park,
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.future_poll = on_future_poll,
	.future_end = on_future_end,
	.loss = on_loss,
};

int draw_init(struct draw *d, struct trace_reader *r, const struct export_options *opt,
	      const struct limits *limits, const struct pen *pen, void *ctx, struct error *err)
{
	*d = (struct draw){.reader = r, .pen = pen, .ctx = ctx, .opt = opt};
	pool_init(&d->tasks, sizeof(struct draw_task));
	pool_init(&d->futures, sizeof(struct lane_future));
	short_names_init(&d->names, r, &d->sel.labels);
	return limits_run(r, opt, limits, &d->sel, err);
}

int draw_names(struct draw *d)
{
	return lane_names_emit(d);
}

static int draw_findings(struct draw *d)
{
	uint64_t from = d->sel.from_ns, to = d->sel.to_ns;

	for (size_t i = 0; i < d->opt->n_findings; i++) {
		const struct export_finding *f = &d->opt->findings[i];
		uint64_t begin = f->from_ns > from ? f->from_ns : from;
		uint64_t end = f->to_ns && f->to_ns < to ? f->to_ns : to;

		if (begin > to || end < from)
			continue; /* in what was cut */
		TRY(slice(d, &(struct draw_slice){.type = DRAW_FINDING,
						  .at = d->findings[i],
						  .begin_ns = begin,
						  .end_ns = end > begin ? end : begin + 1,
						  .finding = f}));
	}
	return 0;
}

int draw_run(struct draw *d, const struct export_options *opt, struct error *err)
{
	bool counts = d->pen->counter;

	if (counts && (gauge_init(&d->ready, d->sel.from_ns, d->sel.to_ns) < 0 ||
		       gauge_init(&d->busy, d->sel.from_ns, d->sel.to_ns) < 0))
		return error_set(err, -ENOMEM, "out of memory");
	TRY(draw_findings(d));
	lanes_restart(&d->sel.lanes);
	TRY(timeline_replay(d->reader, &d->sel.filter, &draw_sink, d, opt->progress,
			    opt->progress_ctx, NULL, NULL, err));
	TRY(end_stacks(d));
	if (counts)
		TRY(d->pen->counter(d->ctx, "ready tasks", &d->ready));
	return counts ? d->pen->counter(d->ctx, "busy workers", &d->busy) : 0;
}

void draw_summary(const struct draw *d, uint64_t bytes, struct export_summary *ret)
{
	*ret = (struct export_summary){.slices = d->n_slices,
				       .flows = d->n_flows,
				       .lanes = d->sel.n_lanes,
				       .bytes = bytes,
				       .cut_slices = d->sel.cut_slices,
				       .cut_tasks = d->sel.n_tasks - d->sel.shown_tasks};
	memcpy(ret->notice, d->sel.notice, sizeof(ret->notice));
}

void draw_done(struct draw *d)
{
	for (uint32_t i = 0; i < d->n_places; i++) {
		free(d->places[i].name);
		free(d->places[i].at);
		free(d->places[i].awaits);
	}
	free(d->places);
	free(d->findings);
	pool_done(&d->tasks);
	pool_done(&d->futures);
	short_names_done(&d->names);
	gauge_done(&d->ready);
	gauge_done(&d->busy);
	export_scope_done(&d->sel);
}
