/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From the rings to the trace: the agent's two-word events become those of trace/event.h.
 *
 * The agent stamps with the low 56 bits of the time stamp counter; the rest is restored from the
 * present, and a stamp that lies outside of the recording (only a target that scribbles makes one)
 * is moved to the event before it. What makes no sense, an unknown type, a kind that was never
 * hooked, a head that jumps, is counted and recorded as a loss, at its place.
 */
#include "base/cleanup.h"
#include "base/compare.h"
#include "base/cpu_yield.h"
#include "base/log.h"
#include "capture/agent/inlined.h"
#include "capture/agent/source.h"
#include "runtime/futures.h"
#include "capture/agent/ring_stacks.h"
#include "capture/kernel/calls.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* See tid_of(). */
#define KNOWN_REST 16u
/* For threads to be back in their calls at the end, all together. */
#define LOOK_NS 50000000u

int drain_flush(struct drain *d)
{
	size_t n = d->n;

	d->n = 0;
	if (!n)
		return 0;
	d->n_events += n;
	if (d->events[n - 1].time > d->last_ns)
		d->last_ns = d->events[n - 1].time;
	return trace_writer_events(d->writer, d->thread, d->events, n);
}

/* Where the thread's next event is put together; it counts when d->n does. */
static inline int next_event(struct drain *d, uint32_t thread, struct trace_event **ret)
{
	if (__builtin_expect(d->n == DRAIN_EVENTS || d->thread != thread, 0)) {
		TRY(drain_flush(d));
		d->thread = thread;
	}
	assert(d->n < DRAIN_EVENTS);
	*ret = &d->events[d->n];
	return 0;
}

int drain_put(struct drain *d, const struct trace_event *e)
{
	struct trace_event *at;

	TRY(next_event(d, e->thread, &at));
	*at = *e;
	d->n++;
	return 0;
}

static int put_loss(struct drain *d, uint32_t thread, uint64_t time, uint64_t n)
{
	const struct trace_event e = {.time = time,
				      .thread = thread,
				      .type = TE_LOST,
				      .kind = TRACE_KIND_NONE,
				      .value = n};

	if (!d->lost.n)
		log_debug(LOG_DRAIN, "first loss: %llu events of trace thread %u",
			  (unsigned long long)n, thread);
	capture_loss_add(&d->lost, n, time, time);
	return drain_put(d, &e);
}

static int put_thread_end(struct drain *d, const struct source *s, uint32_t tid, uint32_t thread,
			  uint64_t time)
{
	const struct trace_event e = {.time = time,
				      .thread = thread,
				      .type = TE_THREAD_END,
				      .arg = s->alive ? 0 : TRACE_END_OF_PROCESS,
				      .kind = TRACE_KIND_NONE};
	struct capture_thread *shared = capture_threads_find(d->threads, s->process, tid);

	if (shared && shared->index == thread)
		capture_threads_end(shared);
	return drain_put(d, &e);
}

static int end_futures(struct drain *d, struct source *s, struct ring_cursor *c)
{
	uint32_t ring = (uint32_t)(c - s->rings.cursors);

	return s->inlined ? inlined_thread_end(d, s, ring, c->thread - 1) : 0;
}

static int end_thread(struct drain *d, struct source *s, struct ring_cursor *c, uint64_t time)
{
	uint32_t thread = c->thread - 1;
	int rc = end_futures(d, s, c);

	assert(c->thread);

	c->thread = 0;
	if (map_get(&s->owners, c->own_tid, 0) == c)
		map_remove(&s->owners, c->own_tid, 0);
	return rc == 0 ? put_thread_end(d, s, c->tid, thread, time) : rc;
}

/* A thread that had this tid before, in a ring that it has not been taken from yet, is gone. */
static int end_other(struct drain *d, struct source *s, uint32_t own_tid, uint64_t time)
{
	struct ring_cursor *c = own_tid ? map_get(&s->owners, own_tid, 0) : NULL;

	return c ? end_thread(d, s, c, time) : 0;
}

static int compare_own(const void *key, const void *item)
{
	const struct attach_thread *t = item;
	uint32_t own = *(const uint32_t *)key;

	return ASCENDING(own, t->own_tid);
}

/*
 * The thread's number as we see it; its own where that can't be had. In another pid namespace all
 * threads have to be listed for it, so that is done again for a new thread only if the time since
 * the last list was KNOWN_REST times as long as making it took.
 */
static uint32_t tid_of(struct source *s, uint32_t own_tid)
{
	const struct attach_thread *t;
	uint64_t began;

	if (!own_tid || attach_same_tids(s->attach))
		return own_tid;
	t = bsearch(&own_tid, s->known, s->n_known, sizeof(*t), compare_own);
	began = clock_monotonic_ns();
	if (!t && began - s->known_ns >= KNOWN_REST * s->known_cost_ns) {
		free(s->known);
		s->known = NULL;
		s->n_known = 0;
		if (attach_threads(s->attach, &s->known, &s->n_known) < 0)
			s->n_known = 0;
		s->known_ns = clock_monotonic_ns();
		s->known_cost_ns = s->known_ns - began;
		t = bsearch(&own_tid, s->known, s->n_known, sizeof(*t), compare_own);
	}
	return t ? t->tid : own_tid;
}

/* The thread with this tid (its own number) writes to this ring from now on. */
static int begin_thread(struct drain *d, struct source *s, struct ring_cursor *c, uint32_t own_tid,
			uint64_t time)
{
	const struct trace_thread unknown_thread = {.process = s->process, .name = ""};
	const struct capture_thread *thread;
	struct trace_event e = {.time = time, .type = TE_THREAD_BEGIN, .kind = TRACE_KIND_NONE};

	TRY(end_other(d, s, own_tid, time));
	if (own_tid)
		TRY(map_put(&s->owners, own_tid, 0, c));
	c->own_tid = own_tid;
	c->tid = own_tid;
	c->depth = c->outer = 0;
	for (uint32_t i = 0; own_tid && i < s->n_early; i++) {
		if (s->early[i].own_tid != own_tid)
			continue;
		c->thread = s->early[i].thread + 1;
		c->tid = s->early[i].tid;
		s->early[i].own_tid = 0;
		return 0;
	}
	c->tid = tid_of(s, own_tid);
	attach_thread_name(s->attach, c->tid, c->name);
	log_debug(LOG_DRAIN, "thread %u (%s) writes ring %zu", c->tid, c->name,
		  (size_t)(c - s->rings.cursors));
	if (own_tid) {
		thread = capture_threads_begin(d->threads, s->process, c->tid, c->name);
		if (!thread)
			return -ENOMEM;
		e.thread = thread->index;
	} else {
		TRY(trace_writer_thread(d->writer, &unknown_thread, &e.thread));
	}
	c->thread = e.thread + 1;
	return drain_put(d, &e);
}

static int begin_early(struct drain *d, struct source *s, const struct attach_root *root)
{
	char name[16];
	const struct capture_thread *thread;
	struct early_thread *early = &s->early[s->n_early];
	/* It may have been woken and polled since it was found, which nothing recorded. */
	struct trace_event e = {
		.time = s->began_ns, .type = TE_THREAD_BEGIN, .kind = TRACE_KIND_NONE};

	attach_thread_name(s->attach, root->tid, name);
	thread = capture_threads_get(d->threads, s->process, root->tid, name);
	if (!thread)
		return -ENOMEM;
	e.thread = thread->index;
	s->n_early++;
	*early = (struct early_thread){root->own_tid, root->tid, e.thread};
	TRY(drain_put(d, &e));
	e.type = TE_ROOT_ENTER;
	e.arg = TRACE_ROOT_BEFORE;
	e.kind = s->kinds[root->kind].index;
	TRY(drain_put(d, &e));
	e.type = TE_PARK;
	e.arg = root->call;
	e.kind = TRACE_KIND_NONE;
	return root->call == TB_NONE ? 0 : drain_put(d, &e);
}

int drain_begin(struct drain *d, struct source *s)
{
	const struct attach_root *roots;
	size_t n = attach_roots(s->attach, &roots);

	for (size_t i = 0; i < n && i < AGENT_MAX_ROOTS; i++)
		if (roots[i].kind < s->n_kinds)
			TRY(begin_early(d, s, &roots[i]));
	return drain_flush(d);
}

/* What each type of the agent's becomes: the type, its argument, and which of the words mean what.
 */
enum { W_TASK = 1, W_KIND = 2, W_CALL = 4, W_TICKS = 8, W_POINT = 16, W_BACK = 32 };

static const struct translation {
	uint8_t type, arg, words;
} translations[AE_N_TYPES] = {
	[AE_POLL_BEGIN] = {TE_POLL_BEGIN, 0, W_KIND | W_TASK},
	[AE_POLL_PENDING] = {TE_POLL_END, TO_PENDING, W_KIND | W_TASK},
	[AE_POLL_READY] = {TE_POLL_END, TO_READY, W_KIND | W_TASK},
	[AE_POLL_PANICKED] = {TE_POLL_END, TO_PANICKED, W_KIND | W_TASK},
	[AE_POLL_CANCELLED] = {TE_POLL_END, TO_CANCELLED, W_KIND | W_TASK},
	[AE_POLL_UNKNOWN] = {TE_POLL_END, TO_UNKNOWN, W_KIND | W_TASK},
	[AE_POLL_UNSEEN] = {TE_POLL_END, TO_UNSEEN, W_KIND | W_TASK},
	[AE_POLL_ABORTED] = {TE_POLL_END, TO_ABORTED, W_KIND | W_TASK},
	[AE_SPAWN] = {TE_SPAWN, 0, W_KIND | W_TASK},
	[AE_WAKE] = {TE_WAKE, TW_SCHEDULED, W_KIND | W_TASK},
	[AE_WAKE_RUNNING] = {TE_WAKE, TW_RUNNING, W_KIND | W_TASK},
	[AE_WAKE_NOOP] = {TE_WAKE, TW_NOOP, W_KIND | W_TASK},
	[AE_SCHEDULE] = {TE_SCHEDULE, 0, W_KIND | W_TASK},
	[AE_CANCEL] = {TE_CANCEL, 0, W_KIND | W_TASK},
	[AE_DROP] = {TE_DROP, 0, W_KIND | W_TASK},
	[AE_PARK] = {TE_PARK, 0, W_CALL},
	[AE_UNPARK] = {TE_UNPARK, 0, W_CALL},
	[AE_BLOCK] = {TE_BLOCK, 0, W_CALL | W_TICKS},
	[AE_ROOT_ENTER] = {TE_ROOT_ENTER, 0, W_KIND | W_BACK},
	[AE_ROOT_WAKE] = {TE_ROOT_WAKE, 0, W_KIND | W_TASK},
	[AE_POLL_PENDING_AT] = {TE_POLL_END, TO_PENDING, W_POINT | W_TASK},
	[AE_FUTURE_BEGIN] = {TE_FUTURE_BEGIN, 0, W_KIND | W_TASK},
	[AE_FUTURE_FIRST] = {TE_FUTURE_BEGIN, TRACE_FUTURE_FIRST, W_KIND | W_TASK},
	[AE_FUTURE_PENDING] = {TE_FUTURE_END, TO_PENDING, W_KIND | W_TASK},
	[AE_FUTURE_PENDING_AT] = {TE_FUTURE_END, TO_PENDING, W_POINT | W_TASK},
	[AE_FUTURE_READY] = {TE_FUTURE_END, TO_READY, W_KIND | W_TASK},
	[AE_FUTURE_PANICKED] = {TE_FUTURE_END, TO_PANICKED, W_KIND | W_TASK},
	[AE_FUTURE_UNKNOWN] = {TE_FUTURE_END, TO_UNKNOWN, W_KIND | W_TASK},
};

#define SAME_CALL(name) _Static_assert((int)AC_##name == (int)TB_##name, #name)
SAME_CALL(FUTEX);
SAME_CALL(EPOLL_WAIT);
SAME_CALL(EPOLL_PWAIT);
SAME_CALL(EPOLL_PWAIT2);
SAME_CALL(READ);
SAME_CALL(RECV);
SAME_CALL(RECVFROM);
SAME_CALL(SEND);
SAME_CALL(SENDTO);
SAME_CALL(CONNECT);
SAME_CALL(PTHREAD_MUTEX_LOCK);
SAME_CALL(PTHREAD_COND_TIMEDWAIT);

static uint64_t ticks_to_ns(const struct drain *d, uint64_t ticks)
{
	return (uint64_t)((double)ticks * d->clock.average);
}

/* A call is 5 to 7 bytes long. */
static void translate_back(const struct source *s, uint64_t back, struct trace_event *e)
{
	const struct source_kind *k = NULL;

	for (uint64_t len = 5; back && len <= 7 && !k; len++)
		k = map_get(&s->by_call, back - len, 0);
	if (k)
		e->kind = k->index;
}

/* False if the event makes no sense. */
static bool translate(const struct drain *d, const struct source *s, const struct agent_event *raw,
		      struct trace_event *e)
{
	unsigned type = raw->word0 & 0xff;
	uint64_t low = raw->word1 & ((1ull << 48) - 1);
	uint32_t high = (uint32_t)(raw->word1 >> 48);
	const struct translation *t;

	if (type >= AE_N_TYPES || !translations[type].type)
		return false;
	t = &translations[type];
	e->type = t->type;
	e->arg = t->arg;
	e->kind = TRACE_KIND_NONE;
	if ((t->words & W_KIND) && high != AGENT_KIND_NONE) {
		if (high >= s->n_kinds)
			return false;
		e->kind = s->kinds[high].index;
		s->kinds[high].recorded = true;
	}
	if (t->words & W_POINT) {
		const struct await_point *point = points_get(&s->points, high);
		if (!point)
			return false;
		e->kind = point->kind;
		if (!s->points.deep)
			e->value = (uint64_t)point->place + 1;
	}
	if (t->words & W_BACK)
		translate_back(s, low, e);
	if (t->words & W_TASK)
		e->task = low;
	if (t->words & W_CALL) {
		if (high >= TB_N)
			return false;
		e->arg = (uint16_t)high;
	}
	if (t->words & W_TICKS)
		e->value = ticks_to_ns(d, low);
	if (type == AE_UNPARK && low & AGENT_UNPARK_IDLE)
		e->arg |= TRACE_CALL_IDLE;
	return true;
}

/* What was gathered for the end of a poll. */
static void forget_chain(struct ring_cursor *c)
{
	c->n_chain = 0;
	if (c->has_resources)
		memset(c->resources, 0, sizeof(c->resources));
	c->has_resources = false;
}

static void keep_resource(struct ring_cursor *c, uint64_t word)
{
	uint32_t link = (uint32_t)(word >> 56);

	if (link == AGENT_LINK_OWN)
		link = AGENT_CHAIN_MAX;
	if (link > AGENT_CHAIN_MAX)
		return;
	c->resources[link] = word & ((1ULL << 56) - 1);
	c->has_resources = true;
}

/* Right before the end of the poll that waits for it. */
static int put_resource(struct drain *d, const struct trace_event *end, uint64_t resource)
{
	const struct trace_event e = {
		.time = end->time,
		.thread = end->thread,
		.type = TE_RESOURCE,
		.arg = (uint16_t)(resource >> 48),
		.kind = TRACE_KIND_NONE,
		.task = resource & ((1ULL << 48) - 1),
	};

	return drain_put(d, &e);
}

/* Adds one link to a chain that ends at *place. */
static int add_link(struct drain *d, struct source *s, uint16_t link, uint32_t flags,
		    uint64_t *place)
{
	uint32_t kind = link - AGENT_CHAIN_KIND;
	uint64_t added = 0;
	int rc = 0;

	if (link <= AGENT_MAX_CHAIN_POINTS)
		rc = points_link(&s->points, link, flags, *place, d->writer, &added);
	else if (kind < s->n_kinds && s->kinds[kind].boxed)
		rc = points_name(&s->points, link, s->kinds[kind].boxed->name, s->process, flags,
				 *place, d->writer, &added);
	if (added)
		*place = added;
	return rc;
}

/* The place of a poll's end: that of its innermost link. The task's own await point is the outermost,
 * the others came before. What was pending earlier in the poll and was given up since lies below a
 * place that can hold none. *ret_resource: what the innermost link waits for. */
static int take_chain(struct drain *d, struct source *s, const struct ring_cursor *c,
		      const struct agent_event *raw, uint64_t *ret_place, uint64_t *ret_resource)
{
	uint32_t flags = 0, n = c->n_chain;
	uint64_t place = 0;
	uint16_t link;

	if (n && c->chain[n - 1] == AGENT_CHAIN_OTHERS) {
		flags = TRACE_PLACE_BRANCHES;
		n--;
	}
	if ((raw->word0 & 0xff) == AE_POLL_PENDING_AT) {
		link = (uint16_t)(raw->word1 >> 48);
		n = points_hold_box(&s->points, link) ? n : 0;
		TRY(add_link(d, s, link, n ? flags : 0, &place));
		*ret_resource = c->resources[AGENT_CHAIN_MAX];
	}
	for (; n; n--) {
		link = c->chain[n - 1];
		if (link == AGENT_CHAIN_OTHERS)
			continue;
		*ret_resource = c->resources[n - 1];
		if (link <= AGENT_MAX_CHAIN_POINTS && !points_hold_box(&s->points, link))
			n = 1;
		flags = n > 1 && c->chain[n - 2] == AGENT_CHAIN_OTHERS ? TRACE_PLACE_BRANCHES : 0;
		TRY(add_link(d, s, link, flags, &place));
	}
	*ret_place = place;
	return 0;
}

/* The end of a poll: its place, and right before it what the task waits for. */
static int take_end(struct drain *d, struct source *s, struct ring_cursor *c,
		    const struct agent_event *raw, struct trace_event **e)
{
	unsigned type = raw->word0 & 0xff;
	struct trace_event end = **e;
	uint64_t resource = 0;

	if (type != AE_POLL_PENDING && type != AE_POLL_PENDING_AT)
		return 0;
	if (s->points.deep)
		TRY(take_chain(d, s, c, raw, &end.value, &resource));
	else if (type == AE_POLL_PENDING_AT)
		resource = c->resources[AGENT_CHAIN_MAX];
	if (resource) {
		TRY(put_resource(d, &end, resource));
		TRY(next_event(d, end.thread, e));
	}
	**e = end;
	return 0;
}

static void keep_links(struct ring_cursor *c, uint64_t word)
{
	for (; word && c->n_chain < AGENT_CHAIN_MAX; word >>= 16)
		if (word & 0xffff)
			c->chain[c->n_chain++] = (uint16_t)word;
}

/* A call through a descriptor that is non-blocking has not waited. */
static void classify_call(struct source *s, struct ring_cursor *c, struct trace_event *e)
{
	if (c->described && e->type == TE_BLOCK &&
	    !descriptors_may_wait(&s->descriptors, attach_process(s->attach), e->arg, c->fd,
				  c->fd_flags, e->value, e->time))
		e->arg |= TRACE_CALL_NONBLOCKING;
	c->described = false;
}

static uint64_t time_of(struct drain *d, struct ring_cursor *c, const struct agent_event *raw)
{
	uint64_t ticks = clock_ticks_restore(raw->word0 >> 8, d->now_ticks), ns;

	if (ticks < d->start_ticks || ticks > d->now_ticks)
		ticks = c->last_ticks ? c->last_ticks : d->start_ticks;
	c->last_ticks = ticks;
	ns = clock_map_ns(&d->clock, ticks);
	return d->test_step_ns ? ns - ns % d->test_step_ns : ns;
}

/* An event takes a ns at least, if no tick: a count beyond that is scribbled, and 0 is believed. */
static uint64_t n_lost_since(const struct drain *d, const struct source *s,
			     const struct ring_cursor *c)
{
	uint32_t i = (uint32_t)(c - s->rings.cursors);
	uint64_t dropped = __atomic_load_n(&ring_set_at(&s->rings, i)->dropped, __ATOMIC_RELAXED);
	uint64_t n = dropped - c->lost_emitted;

	return n <= ticks_to_ns(d, d->now_ticks - d->start_ticks) ? n : 0;
}

/* A thread that has ended with losses that it had no room to report. */
static int emit_last_loss(struct drain *d, struct source *s, struct ring_cursor *c)
{
	uint64_t n = n_lost_since(d, s, c);

	if (!n || !c->thread)
		return 0;
	c->lost_emitted += n;
	return put_loss(d, c->thread - 1, clock_map_ns(&d->clock, clock_ticks()), n);
}

/* What the last drain had no time for. */
static int emit_unread(struct drain *d, struct source *s, struct ring_cursor *c)
{
	bool damaged = false;
	uint64_t head, n;

	if (d->budget.steps)
		return 0; /* it took all */
	head = ring_set_head(&s->rings, (uint32_t)(c - s->rings.cursors), &damaged);
	n = (head - c->tail) / sizeof(struct agent_event);
	s->n_unread += n;
	return n && c->thread
		       ? put_loss(d, c->thread - 1, clock_map_ns(&d->clock, clock_ticks()), n)
		       : 0;
}

/* What other sources learn of the thread: which poll of a task is its outermost open one. */
static void follow_polls(const struct source *s, struct ring_cursor *c,
			 struct capture_thread *thread, const struct agent_event *raw,
			 const struct trace_event *e)
{
	uint32_t kind = (uint32_t)(raw->word1 >> 48);

	if (e->type == TE_POLL_BEGIN) {
		c->depth++;
		if (c->outer || kind == AGENT_KIND_NONE || !s->kinds[kind].task)
			return;
		c->outer = c->depth;
		if (thread) {
			thread->poll_begin_ns = e->time;
			thread->poll_number++;
		}
	} else if (e->type == TE_POLL_END && c->depth) {
		if (c->depth-- != c->outer)
			return;
		c->outer = 0;
		if (thread)
			thread->poll_begin_ns = 0;
		if (thread && thread->watched == thread->poll_number)
			thread->watched_end_ns = e->time;
	}
}

static void forget_polls(struct ring_cursor *c, struct capture_thread *thread)
{
	c->depth = c->outer = 0;
	if (thread)
		thread->poll_begin_ns = 0;
}

/* What was gathered for the thread's next event is not for it. */
static void forget_before(struct source *s, uint32_t ring)
{
	if (s->inlined)
		inlined_forget(s, ring);
	if (s->stacks)
		ring_stacks_forget(s, ring);
}

static int take_events(struct drain *d, struct source *s, struct ring_cursor *c, size_t n)
{
	struct capture_thread *thread =
		c->thread ? capture_threads_find(d->threads, s->process, c->tid) : NULL;
	uint32_t ring = (uint32_t)(c - s->rings.cursors);
	uint64_t damaged = 0, time = 0;

	for (size_t i = 0; i < n; i++) {
		const struct agent_event *raw = &d->raw[i];
		unsigned type = raw->word0 & 0xff;
		struct trace_event *e;

		time = time_of(d, c, raw);
		if (type == AE_THREAD && raw->word1 && raw->word1 <= INT32_MAX) {
			if (c->thread && c->own_tid == (uint32_t)raw->word1)
				continue; /* the same thread, in a ring that was given back too
					     early */
			if (c->thread)
				TRY(end_thread(d, s, c, time));
			TRY(begin_thread(d, s, c, (uint32_t)raw->word1, time));
			forget_before(s, ring);
			forget_chain(c);
			thread = capture_threads_find(d->threads, s->process, c->tid);
			continue;
		}
		if (!c->thread) {
			/* A ring's first event names its thread; so this ring was scribbled over.
			 */
			TRY(begin_thread(d, s, c, 0, time));
			damaged++;
		}
		if (type == AE_LOST) {
			uint64_t lost = n_lost_since(d, s, c);

			/* The losses that its ring's last owner could not report were reported for
			 * it. */
			if (raw->word1 < lost)
				lost = raw->word1;
			c->lost_emitted += lost;
			c->described = false;
			forget_chain(c);
			if (lost)
				TRY(put_loss(d, c->thread - 1, time, lost));
			forget_polls(c, thread);
			forget_before(s, ring);
			continue;
		}
		if (s->inlined &&
		    (type == AE_FUTURE_SNAPSHOT_BEGIN || type == AE_FUTURE_SNAPSHOT_END ||
		     type == AE_FUTURE_SNAPSHOT_PREV)) {
			TRY(inlined_add_snapshot_item(d, s, ring, raw, c->thread - 1));
			continue;
		}
		if (s->stacks && type == AE_STACK) {
			ring_stacks_word(s, ring, raw, time);
			continue;
		}
		if (s->stacks && type == AE_TEXT) {
			ring_stacks_text(s, ring, raw);
			continue;
		}
		if (s->stacks && type == AE_RAISE) {
			TRY(ring_stacks_raise(d, s, ring));
			continue;
		}
		if (type == AE_DESCRIPTOR) {
			c->described = true;
			c->fd = (uint32_t)(raw->word1 >> 32);
			c->fd_flags = (uint32_t)raw->word1;
			continue;
		}
		if (type == AE_CHAIN) {
			keep_links(c, raw->word1);
			continue;
		}
		if (type == AE_RESOURCE) {
			keep_resource(c, raw->word1);
			continue;
		}
		TRY(next_event(d, c->thread - 1, &e));
		*e = (struct trace_event){.time = time, .thread = c->thread - 1};
		if (!translate(d, s, raw, e)) {
			damaged++;
			continue;
		}
		TRY(take_end(d, s, c, raw, &e));
		forget_chain(c);
		classify_call(s, c, e);
		follow_polls(s, c, thread, raw, e);
		if (s->stacks)
			TRY(ring_stacks_event(d, s, ring, e));
		if (s->inlined) {
			const struct trace_event copy = *e;

			TRY(inlined_event(d, s, ring, &copy));
		} else {
			d->n++;
		}
	}
	s->n_damaged += damaged;
	return damaged ? put_loss(d, c->thread - 1, time, damaged) : 0;
}

/*
 * Of the n events that were copied, those that the map of the clocks knows for good. The others
 * stay where they are until the next pair: mapped by a guess at the slope, they would come out
 * ahead of what other threads did after them, and that is mapped when more is known.
 */
static size_t count_due(const struct drain *d, size_t n)
{
	for (; n; n--) {
		uint64_t ticks = clock_ticks_restore(d->raw[n - 1].word0 >> 8, d->now_ticks);

		if (ticks <= d->clock.last.ticks || ticks > d->now_ticks)
			break;
	}
	return n;
}

/* What is in one ring now. Not more, however fast it is filled, and no more than the budget. */
static int drain_ring(struct drain *d, struct source *s, uint32_t i)
{
	struct ring_cursor *c = &s->rings.cursors[i];
	bool damaged = false;
	uint64_t head = ring_set_head(&s->rings, i, &damaged);
	double fill = (double)(head - c->tail) / s->rings.ring_bytes;

	if (damaged) {
		s->n_damaged++;
		if (c->thread)
			TRY(put_loss(d, c->thread - 1, clock_map_ns(&d->clock, d->now_ticks), 1));
	}
	if (fill > d->fill)
		d->fill = fill;
	cpu_yield_buffer_fill(fill);
	while (c->tail != head) {
		size_t n = ring_set_copy(&s->rings, i, head, d->raw), due;

		/* Events up to here were stamped before now. */
		d->now_ticks = clock_ticks();
		due = count_due(d, n);
		ring_set_give(&s->rings, i, due);
		TRY(take_events(d, s, c, due));
		cpu_yield();
		if (due < n || !budget_spend(&d->budget, n))
			break;
	}
	return 0;
}

int drain_source(struct drain *d, struct source *s, uint64_t ns)
{
	uint32_t used = ring_set_used(&s->rings), first = s->next_ring < used ? s->next_ring : 0;

	d->last_ns = 0;
	descriptors_tidy(&s->descriptors);
	d->now_ticks = clock_ticks();
	budget_init(&d->budget, BUDGET_UNLIMITED, ns);
	for (uint32_t k = 0; k < used && d->budget.steps; k++) {
		s->next_ring = (first + k) % used;
		TRY(drain_ring(d, s, s->next_ring++));
	}
	TRY(drain_flush(d));
	if (d->last_ns > s->seen_ns)
		s->seen_ns = d->last_ns;
	return 0;
}

int drain_threads(struct drain *d, struct source *s)
{
	_cleanup_free_ struct attach_thread *threads = NULL;
	uint32_t used = ring_set_used(&s->rings);
	size_t n;

	if (attach_threads(s->attach, &threads, &n) < 0 || !n)
		return 0; /* the process is ending */
	s->threaded = n > 1;
	for (uint32_t i = 0; i < used; i++) {
		struct ring_cursor *c = &s->rings.cursors[i];
		const struct attach_thread *t;
		char name[16];

		if (!c->thread)
			continue;
		t = bsearch(&c->own_tid, threads, n, sizeof(*threads), compare_own);
		if (!t) {
			bool ending = c->depth && !c->gone;

			/* No thread leaves a poll open, but where its process is ending. */
			c->gone = ending;
			if (ending || !ring_set_empty(&s->rings, i) ||
			    attach_give_ring(s->attach, i, c->own_tid) < 0)
				continue;
			TRY(emit_last_loss(d, s, c));
			TRY(end_thread(d, s, c, clock_map_ns(&d->clock, clock_ticks())));
			continue;
		}
		attach_thread_name(s->attach, t->tid, name);
		if (*name && strcmp(name, c->name)) {
			memcpy(c->name, name, sizeof(name));
			TRY(trace_writer_thread_name(d->writer, c->thread - 1, name));
		}
	}
	for (uint32_t i = 0; i < s->n_early; i++) {
		uint32_t own_tid = s->early[i].own_tid;

		if (!own_tid || bsearch(&own_tid, threads, n, sizeof(*threads), compare_own))
			continue;
		s->early[i].own_tid = 0;
		TRY(put_thread_end(d, s, s->early[i].tid, s->early[i].thread,
				   clock_map_ns(&d->clock, clock_ticks())));
	}
	return drain_flush(d);
}

/* Whether a thread in this system call may be in that call of libc's. */
static bool makes(uint16_t call, uint64_t number)
{
	uint16_t made = kernel_call_of(number);

	switch (call) {
	case TB_RECV:
		return made == TB_RECVFROM;
	case TB_SEND:
		return made == TB_SENDTO;
	case TB_PTHREAD_MUTEX_LOCK:
		return made == TB_FUTEX;
	case TB_GETADDRINFO: /* it waits for name servers and daemons */
		return made == TB_POLL || made == TB_PPOLL || made == TB_CONNECT ||
		       made == TB_SENDTO || made == TB_RECVFROM || made == TB_RECVMSG ||
		       made == TB_READ || made == TB_FUTEX;
	default:
		return made == call;
	}
}

/* The call in which a poll is, with its begin; TB_NONE: in none that is known. */
static uint16_t open_call(const struct drain *d, const struct source *s,
			  const struct ring_cursor *c, uint64_t *ret_ticks)
{
	uint32_t i = (uint32_t)(c - s->rings.cursors);
	uint64_t wait = __atomic_load_n(&ring_set_at(&s->rings, i)->wait, __ATOMIC_RELAXED);
	struct attach_open_call open;
	int rc;

	*ret_ticks = clock_ticks_restore(wait >> 8, d->now_ticks);
	if (wait)
		return (wait & 0xff) < TB_N ? wait & 0xff : TB_NONE;
	if (!s->alive)
		return TB_NONE;
	/* A call that was interrupted as the hooks were taken back begins again. */
	while ((rc = attach_open_call(s->attach, c->tid, &open)) == -EAGAIN &&
	       clock_monotonic_ns() < d->look_until_ns)
		usleep(500);
	if (rc < 0 || !makes(open.call, open.number))
		return TB_NONE;
	*ret_ticks = open.ticks;
	return open.call;
}

/* The call in which a poll waits when the recording ends. The call is reported like one that is
 * over; the poll lasts up to the end. */
static int emit_open_call(struct drain *d, struct source *s, struct ring_cursor *c, uint64_t end_ns)
{
	struct trace_event e = {.time = end_ns, .type = TE_BLOCK, .kind = TRACE_KIND_NONE};
	uint64_t ticks, begin_ns;

	if (!c->thread || !c->depth)
		return 0;
	e.arg = open_call(d, s, c, &ticks);
	/* Nothing else happened on the thread since, as far as the ring says. */
	if (e.arg == TB_NONE || ticks < c->last_ticks || ticks > d->now_ticks)
		return 0;
	begin_ns = clock_map_ns(&d->clock, ticks);
	if (begin_ns >= end_ns)
		return 0;
	e.thread = c->thread - 1;
	e.value = end_ns - begin_ns;
	return drain_put(d, &e);
}

int drain_end(struct drain *d, struct source *s, uint64_t until_ns)
{
	uint32_t used = ring_set_used(&s->rings);
	uint64_t end_ns;

	d->now_ticks = clock_ticks();
	d->look_until_ns = clock_monotonic_ns() + LOOK_NS;
	end_ns = s->seen_ns >= s->began_ns ? s->seen_ns : clock_map_ns(&d->clock, d->now_ticks);
	for (uint32_t i = 0; i < used; i++) {
		struct ring_cursor *c = &s->rings.cursors[i];
		uint64_t emitted = c->lost_emitted;

		TRY(emit_open_call(d, s, c, s->alive ? until_ns : end_ns));
		if (c->thread && s->alive)
			TRY(end_futures(d, s, c));
		TRY(emit_last_loss(d, s, c));
		TRY(emit_unread(d, s, c));
		if (c->thread && !s->alive)
			TRY(end_thread(d, s, c,
				       c->lost_emitted == emitted
					       ? end_ns
					       : clock_map_ns(&d->clock, clock_ticks())));
	}
	for (uint32_t i = 0; i < s->n_early && !s->alive; i++) {
		if (s->early[i].own_tid)
			TRY(put_thread_end(d, s, s->early[i].tid, s->early[i].thread, end_ns));
		s->early[i].own_tid = 0;
	}
	return drain_flush(d);
}
