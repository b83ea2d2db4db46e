/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Random events through the timeline: whatever comes, the callbacks of the sink must be consistent.
 *
 *   - each task begins once, ends once; no callback is about it before or after
 *   - the stretches of a task (polls, waits) do not overlap; the seen lengths add up to its sums,
 *     and, from its first event to its end, to its life without gaps
 *   - polls on one thread nest, blocking calls lie in them, parks do not overlap
 *   - each instance of a future ends once, before its task; its polls add up to its sums, and no
 *     more than their own time is its children's
 *   - what other sources record is of living tasks
 *   - the totals are the sums of the callbacks
 *
 * Two kinds of input: any event with any name (a hostile file), and a little runtime that behaves,
 * of which random events are lost. Time between threads is a bit out of order in both.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/map.h"
#include "timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

#define N_THREADS 6
#define N_KINDS 10

static const struct trace_kind kinds[N_KINDS] = {
	{.role = TR_TASK, .name = "task", .full_name = "task"},
	{.role = TR_BLOCKING, .name = "job", .full_name = "job"},
	{.role = TR_WORKER, .name = "block_in_place", .full_name = "block_in_place"},
	{.role = TR_ROOT, .name = "block_on"},
	{.role = TR_TASK, .address_named = 1, .name = "smol", .full_name = "smol"},
	{.role = TR_TASK, .name = "kind 5"},
	{.role = TR_ROOT, .name = "block_on (current_thread)"},
	{.role = TR_FUTURE, .name = "outer"},
	{.role = TR_FUTURE, .name = "inner"},
	{.role = TR_FUTURE, .process = 1, .name = "elsewhere"},
};

static const struct trace_kind *kind_of(const void *ctx, uint32_t kind)
{
	return kind < N_KINDS ? &kinds[kind] : NULL;
}

static uint64_t seed;

static uint64_t roll(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* What is known of a living task. */
struct life {
	uint64_t serial, at_ns; /* reported up to here */
	uint64_t poll_ns, wait_ns, sched_ns;
	uint64_t n_polls, n_wakes, n_self_wakes;
};

struct judge {
	struct map lives;
	uint64_t n_begun, n_ended, n_spawned, n_outcomes[TO_N];
	uint64_t n_polls, n_wakes, n_self_wakes, n_schedules, n_lost, n_stray;
	uint64_t last_serial, last_wake;
	uint64_t busy_ns[N_THREADS], parked_ns[N_THREADS], blocked_ns[N_THREADS],
		park_end[N_THREADS];
	uint64_t poll_end[N_THREADS]; /* of depth 0 */
	int working[N_THREADS];
	uint64_t n_threads_ended;
	struct map futures; /* the living, by serial, to struct instance */
	uint64_t n_futures_ended, n_beside;
};

struct instance {
	uint64_t poll_ns, self_ns, wait_ns, last_ns;
};

static struct life *life_of(struct judge *j, const struct tl_task *task)
{
	assert_non_null(task);
	assert_non_null(task->user);
	struct life *life = map_get(&j->lives, task->serial, 0);
	assert_ptr_equal(life, task->user);
	return life;
}

/* A stretch of the task: directly after the one before. A worker's poll is not reported as such. */
static void stretch(struct life *life, const struct tl_task *task, uint64_t begin, uint64_t end)
{
	assert_true(begin <= end);
	if (task->role == TR_WORKER)
		assert_true(begin >= life->at_ns);
	else
		assert_int_equal(begin, life->at_ns);
	life->at_ns = end;
}

static int on_task_begin(void *ctx, struct tl_task *task)
{
	struct judge *j = ctx;
	assert_null(task->user);
	assert_true(task->serial > j->last_serial);
	j->last_serial = task->serial;
	struct life *life = calloc(1, sizeof(*life));
	life->serial = task->serial;
	life->at_ns = task->spawn_ns;
	task->user = life;
	assert_int_equal(map_put(&j->lives, task->serial, 0, life), 0);
	assert_true(task->parent < task->serial || task->spawn_seen);
	assert_int_equal(task->spawn_seen, task->spawn_thread != UINT32_MAX);
	j->n_begun++;
	return 0;
}

static int on_task_end(void *ctx, struct tl_task *task)
{
	struct judge *j = ctx;
	struct life *life = life_of(j, task);
	assert_int_equal(task->poll_ns, life->poll_ns);
	assert_int_equal(task->wait_ns, life->wait_ns);
	assert_int_equal(task->sched_ns, life->sched_ns);
	assert_int_equal(task->n_wakes, life->n_wakes);
	assert_int_equal(task->n_self_wakes, life->n_self_wakes);
	if (task->role != TR_WORKER) {
		assert_int_equal(task->n_polls, life->n_polls);
		if (task->end_ns)
			assert_int_equal(task->end_ns, life->at_ns);
	}
	assert_int_equal(task->outcome == TO_PENDING, task->end_ns == 0);
	if (task->outcome != TO_PENDING)
		assert_int_equal(task->state, TS_DONE);
	if (task->role == TR_TASK || task->role == TR_BLOCKING) {
		j->n_outcomes[task->outcome]++;
		j->n_spawned += task->spawn_seen;
		j->n_polls += task->n_polls;
		j->n_wakes += task->n_wakes;
		j->n_self_wakes += task->n_self_wakes;
	}
	map_remove(&j->lives, task->serial, 0);
	free(life);
	j->n_ended++;
	return 0;
}

static int on_poll(void *ctx, const struct tl_poll *p)
{
	struct judge *j = ctx;
	struct life *life = life_of(j, p->task);
	stretch(life, p->task, p->begin_ns, p->end_ns);
	life->poll_ns += tl_poll_measured(p) ? p->end_ns - p->begin_ns : 0;
	life->n_polls++;
	assert_true(p->scheduled_ns <= p->begin_ns);
	assert_true(p->wake_serial <= j->last_wake);
	assert_true(p->blocked_ns <= p->end_ns - p->begin_ns);
	if (!p->begin_seen)
		assert_int_equal(p->begin_ns, p->end_ns);
	if (!p->depth) {
		assert_true(p->begin_ns >= j->poll_end[p->thread]);
		j->poll_end[p->thread] = p->end_ns;
		j->busy_ns[p->thread] += tl_poll_held_ns(p);
	}
	return 0;
}

static int on_wait(void *ctx, const struct tl_wait *w)
{
	struct life *life = life_of(ctx, w->task);
	assert_true(w->state == TS_WAITING || w->state == TS_SCHEDULED || w->state == TS_UNKNOWN);
	assert_true(w->begin_ns < w->end_ns);
	stretch(life, w->task, w->begin_ns, w->end_ns);
	if (w->state == TS_WAITING)
		life->wait_ns += w->end_ns - w->begin_ns;
	else if (w->state == TS_SCHEDULED)
		life->sched_ns += w->end_ns - w->begin_ns;
	return 0;
}

static int on_wake(void *ctx, const struct tl_wake *w)
{
	struct judge *j = ctx;
	struct life *life = life_of(j, w->task);
	assert_int_equal(w->serial, j->last_wake + 1);
	j->last_wake = w->serial;
	if (w->source_task)
		life_of(j, w->source_task);
	if (!w->by_waker) {
		j->n_schedules++;
		return 0;
	}
	life->n_wakes++;
	life->n_self_wakes += w->self;
	assert_true(w->self == (w->by_waker && (w->source_task == w->task || w->deferred)));
	return 0;
}

static int on_block(void *ctx, const struct tl_block *b)
{
	struct judge *j = ctx;
	life_of(j, b->task);
	assert_true(b->begin_ns <= b->end_ns);
	j->blocked_ns[b->thread] += b->keeps_worker ? b->end_ns - b->begin_ns : 0;
	return 0;
}

static int on_section(void *ctx, const struct tl_section *s)
{
	life_of(ctx, s->task);
	assert_true(s->begin_ns <= s->end_ns);
	return 0;
}

static int on_park(void *ctx, const struct tl_park *p)
{
	struct judge *j = ctx;
	assert_true(p->begin_ns <= p->end_ns);
	assert_true(p->begin_ns >= j->park_end[p->thread]);
	j->park_end[p->thread] = p->end_ns;
	j->parked_ns[p->thread] += p->end_ns - p->begin_ns;
	return 0;
}

static int on_loss(void *ctx, const struct tl_loss *l)
{
	struct judge *j = ctx;
	assert_true(l->begin_ns <= l->end_ns);
	if (!l->aux)
		j->n_lost += l->n_events;
	return 0;
}

static int on_stray_wake(void *ctx, uint32_t kind, uint32_t thread, uint64_t time_ns)
{
	struct judge *j = ctx;
	if (kind >= N_KINDS || kinds[kind].role == TR_TASK || kinds[kind].role == TR_BLOCKING)
		j->n_stray++;
	return 0;
}

static int on_worker_begin(void *ctx, uint32_t thread, uint64_t time_ns)
{
	struct judge *j = ctx;
	assert_int_equal(j->working[thread]++, 0);
	return 0;
}

static int on_worker_end(void *ctx, uint32_t thread, uint64_t time_ns)
{
	struct judge *j = ctx;
	assert_int_equal(--j->working[thread], 0);
	return 0;
}

static int on_thread_end(void *ctx, const struct tl_thread *t)
{
	struct judge *j = ctx;
	assert_int_equal(t->busy_ns, j->busy_ns[t->thread]);
	/* calls of a worker that was recognised late were reported as blocking calls */
	assert_int_equal(t->parked_ns + t->blocked_ns,
			 j->parked_ns[t->thread] + j->blocked_ns[t->thread]);
	assert_true(t->begin_ns <= t->end_ns);
	j->n_threads_ended++;
	return 0;
}

/* ---- futures, and what other sources record ---- */

static struct instance *instance_of(struct judge *j, struct tl_future *f)
{
	struct instance *i = map_get(&j->futures, f->serial, 0);
	assert_ptr_equal(i, f->user);
	assert_true(f->kind >= 7);
	if (f->task)
		life_of(j, f->task);
	if (i)
		return i;
	i = calloc(1, sizeof(*i));
	f->user = i;
	assert_int_equal(map_put(&j->futures, f->serial, 0, i), 0);
	return i;
}

static int on_future_poll(void *ctx, const struct tl_future_poll *p)
{
	struct judge *j = ctx;
	struct instance *i = instance_of(j, p->future);
	uint64_t length = p->end_ns - p->begin_ns;
	assert_true(p->begin_ns <= p->end_ns);
	assert_true(p->begin_ns >= p->future->begin_ns);
	assert_true(p->self_ns <= length);
	assert_true(p->thread < N_THREADS);
	assert_true(p->depth < 256);
	if (p->task)
		life_of(j, p->task);
	if (p->future->parent) /* it is there, also when it has ended */
		assert_true(p->future->parent->serial != p->future->serial);
	i->poll_ns += length;
	i->self_ns += p->self_ns;
	i->wait_ns += p->waited_ns;
	i->last_ns = p->end_ns;
	return 0;
}

static int on_future_end(void *ctx, struct tl_future *f)
{
	struct judge *j = ctx;
	struct instance *i = instance_of(j, f);
	/* Polls that went on elsewhere before their end are not reported. */
	assert_true(f->poll_ns >= i->poll_ns);
	assert_int_equal(f->self_ns, i->self_ns);
	assert_true(f->wait_ns >= i->wait_ns + f->last_wait_ns);
	assert_true(f->n_polls > 0);
	assert_int_equal(f->outcome == TO_PENDING, f->end_ns == 0);
	map_remove(&j->futures, f->serial, 0);
	free(i);
	f->user = NULL;
	j->n_futures_ended++;
	return 0;
}

static int on_syscall(void *ctx, const struct tl_syscall *c)
{
	struct judge *j = ctx;
	assert_true(c->begin_ns <= c->end_ns);
	if (c->task)
		life_of(j, c->task);
	j->n_beside++;
	return 0;
}

static int on_off_cpu(void *ctx, const struct tl_off_cpu *o)
{
	struct judge *j = ctx;
	assert_true(o->begin_ns <= o->end_ns);
	assert_true(o->reason < TX_N);
	if (o->task)
		life_of(j, o->task);
	return 0;
}

static int on_sample(void *ctx, const struct tl_sample *x)
{
	struct judge *j = ctx;
	assert_true(x->type < TM_N);
	if (x->task)
		life_of(j, x->task);
	return 0;
}

static int on_machine(void *ctx, const struct tl_machine *m)
{
	struct judge *j = ctx;
	assert_true(m->type < TC_N);
	if (m->task && m->task->state != TS_DONE)
		life_of(j, m->task);
	return 0;
}

static const struct timeline_sink sink = {
	.task_begin = on_task_begin,
	.task_end = on_task_end,
	.poll = on_poll,
	.wait = on_wait,
	.wake = on_wake,
	.block = on_block,
	.section = on_section,
	.park = on_park,
	.loss = on_loss,
	.stray_wake = on_stray_wake,
	.worker_begin = on_worker_begin,
	.worker_end = on_worker_end,
	.thread_end = on_thread_end,
	.future_poll = on_future_poll,
	.future_end = on_future_end,
	.syscall = on_syscall,
	.off_cpu = on_off_cpu,
	.sample = on_sample,
	.machine = on_machine,
};

static void judge_end(struct judge *j, struct timeline *tl, uint64_t end,
		      bool kind5_worker_possible)
{
	assert_int_equal(timeline_finish(tl, end, NULL), 0);
	struct timeline_totals t;
	timeline_totals(tl, &t);
	assert_int_equal(j->n_begun, j->n_ended);
	assert_int_equal(j->lives.n, 0);
	assert_int_equal(t.spawned + t.unspawned,
			 t.completed + t.cancelled + t.panicked + t.ended_unknown + t.alive);
	assert_int_equal(t.n_lost, j->n_lost);
	assert_int_equal(t.n_futures, j->n_futures_ended);
	assert_int_equal(j->futures.n, 0);
	map_done(&j->futures);
	for (unsigned i = 0; i < N_THREADS; i++)
		assert_int_equal(j->working[i], 0);
	/* A kind that turns out to be a worker's leaves the totals with all its former tasks. */
	if (!kind5_worker_possible) {
		assert_int_equal(t.spawned, j->n_spawned);
		assert_int_equal(t.completed, j->n_outcomes[TO_READY]);
		assert_int_equal(t.cancelled, j->n_outcomes[TO_CANCELLED]);
		assert_int_equal(t.panicked, j->n_outcomes[TO_PANICKED]);
		assert_int_equal(t.ended_unknown, j->n_outcomes[TO_UNKNOWN]);
		assert_int_equal(t.alive, j->n_outcomes[TO_PENDING]);
		assert_int_equal(t.n_polls, j->n_polls);
		assert_int_equal(t.n_wakes, j->n_wakes + j->n_stray);
		assert_int_equal(t.n_self_wakes, j->n_self_wakes);
	}
	timeline_free(tl);
	map_done(&j->lives);
}

/* ---- any event at all ---- */

static void hostile(uint64_t with_seed, bool with_kind5)
{
	seed = with_seed * 0x9e3779b97f4a7c15ULL + 1;
	struct judge j = {0};
	struct timeline *tl = timeline_new(&sink, &j, kind_of, NULL);
	uint64_t time = 1000, names = 1 + roll(30);
	unsigned weird = roll(4) ? 200 : 10;
	for (unsigned i = 0; i < 4000; i++) {
		time += roll(20);
		struct trace_event ev = {
			.time = time - roll(15) + (roll(weird) ? 0 : roll(500)),
			.thread = roll(N_THREADS),
			.type = 1 + roll(TE_N_TYPES),
			.arg = roll(roll(20) ? 3 : 7),
			.kind = roll(N_KINDS + 1),
			.task = roll(names),
			.value = roll(50),
			.stream = roll(8) ? 0 : 1 + roll(3),
		};
		if (ev.kind == 5 && !with_kind5)
			ev.kind = 0;
		if (ev.type == TE_LOST && roll(10))
			ev.type = TE_WAKE;
		if ((ev.type == TE_THREAD_BEGIN || ev.type == TE_THREAD_END) && roll(20))
			ev.type = TE_POLL_END;
		assert_int_equal(timeline_feed(tl, &ev, NULL), 0);
	}
	judge_end(&j, tl, time + roll(1000), with_kind5);
}

static void test_hostile(void **state)
{
	for (uint64_t s = 1; s <= 400; s++)
		hostile(s, false);
}

static void test_hostile_workers(void **state)
{
	for (uint64_t s = 1; s <= 200; s++)
		hostile(1000 + s, true);
}

/* ---- a little runtime, some of whose events are lost ---- */

enum { RT_IDLE, RT_QUEUED, RT_POLLED, RT_GONE };
#define RT_TASKS 64

struct little {
	struct timeline *tl;
	uint64_t time, n_ids, n_lost[N_THREADS], loss; /* one in `loss` events, 0: none */
	struct {
		uint64_t id;
		int state;
		bool woken;
		uint64_t thread;
	} tasks[RT_TASKS];
	uint64_t polled[N_THREADS]; /* index + 1 of what this thread polls */
	uint64_t n_spawned, n_completed, n_polls, n_wakes;
};

static void emit(struct little *l, uint32_t thread, uint16_t type, uint16_t arg, uint64_t id)
{
	l->time += 1 + roll(10);
	struct trace_event ev = {
		.time = l->time, .thread = thread, .type = type, .arg = arg, .task = id};
	if (l->loss && !roll(l->loss)) {
		l->n_lost[thread]++;
		return;
	}
	if (l->n_lost[thread]) {
		struct trace_event lost = ev;
		lost.type = TE_LOST;
		lost.value = l->n_lost[thread];
		l->n_lost[thread] = 0;
		assert_int_equal(timeline_feed(l->tl, &lost, NULL), 0);
	}
	assert_int_equal(timeline_feed(l->tl, &ev, NULL), 0);
}

static void little_step(struct little *l)
{
	uint32_t thread = roll(N_THREADS);
	uint64_t i = roll(RT_TASKS);
	if (l->polled[thread]) {
		uint64_t p = l->polled[thread] - 1;
		switch (roll(4)) {
		case 0: /* spawn */
			if (l->tasks[i].id)
				break;
			l->tasks[i].id = ++l->n_ids;
			l->tasks[i].state = RT_QUEUED;
			l->n_spawned++;
			emit(l, thread, TE_SPAWN, 0, l->n_ids);
			break;
		case 1: /* wake */
			if (!l->tasks[i].id)
				break;
			l->n_wakes++;
			if (l->tasks[i].state == RT_IDLE) {
				l->tasks[i].state = RT_QUEUED;
				emit(l, thread, TE_WAKE, TW_SCHEDULED, l->tasks[i].id);
			} else if (l->tasks[i].state == RT_POLLED && !l->tasks[i].woken) {
				l->tasks[i].woken = true;
				emit(l, thread, TE_WAKE, TW_RUNNING, l->tasks[i].id);
			} else {
				emit(l, thread, TE_WAKE, TW_NOOP, l->tasks[i].id);
			}
			break;
		case 2: /* the end of the poll */
			l->polled[thread] = 0;
			if (p && !roll(10)) {
				emit(l, thread, TE_POLL_END, TO_READY, l->tasks[p].id);
				emit(l, thread, TE_DROP, 0, l->tasks[p].id);
				memset(&l->tasks[p], 0, sizeof(l->tasks[p]));
				l->n_completed++;
			} else {
				l->tasks[p].state = l->tasks[p].woken ? RT_QUEUED : RT_IDLE;
				l->tasks[p].woken = false;
				emit(l, thread, TE_POLL_END, TO_PENDING, l->tasks[p].id);
			}
			break;
		default:
			emit(l, thread, TE_BLOCK, 1, 0);
		}
	} else if (l->tasks[i].id && l->tasks[i].state == RT_QUEUED) {
		l->tasks[i].state = RT_POLLED;
		l->polled[thread] = i + 1;
		l->n_polls++;
		emit(l, thread, TE_POLL_BEGIN, 0, l->tasks[i].id);
	} else if (l->tasks[0].state == RT_IDLE) {
		l->n_wakes++;
		l->tasks[0].state = RT_QUEUED;
		emit(l, thread, TE_WAKE, TW_SCHEDULED, l->tasks[0].id);
	}
}

static void little_runtime(uint64_t with_seed, uint64_t loss)
{
	seed = with_seed * 0x9e3779b97f4a7c15ULL + 1;
	struct judge j = {0};
	struct little l = {.loss = loss, .n_ids = 1, .n_spawned = 1};
	l.tl = timeline_new(&sink, &j, kind_of, NULL);
	l.tasks[0].id = 1;
	l.tasks[0].state = RT_QUEUED;
	emit(&l, 0, TE_SPAWN, 0, 1);
	for (unsigned i = 0; i < 5000; i++)
		little_step(&l);
	struct timeline_totals t;
	timeline_totals(l.tl, &t);
	if (!loss) {
		/* Nothing lost: everything exact, nothing odd. */
		assert_int_equal(t.n_inconsistent, 0);
		assert_int_equal(t.spawned, l.n_spawned);
		assert_int_equal(t.unspawned, 0);
		assert_int_equal(t.completed, l.n_completed);
		assert_int_equal(t.n_polls, l.n_polls);
		assert_int_equal(t.n_wakes, l.n_wakes);
		assert_int_equal(t.alive, l.n_spawned - l.n_completed);
		assert_int_equal(t.cancelled + t.panicked + t.ended_unknown, 0);
	} else {
		/* What can't be known is said to be unknown, and no task is invented. */
		assert_int_equal(t.cancelled + t.panicked, 0);
		assert_true(t.completed <= l.n_completed);
		assert_true(t.spawned <= l.n_spawned);
	}
	judge_end(&j, l.tl, l.time, false);
}

static void test_runtime(void **state)
{
	for (uint64_t s = 1; s <= 100; s++)
		little_runtime(s, 0);
}

static void test_runtime_with_losses(void **state)
{
	for (uint64_t s = 1; s <= 100; s++)
		little_runtime(s, 5 + s * 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_hostile_workers),
		cmocka_unit_test(test_runtime),
		cmocka_unit_test(test_runtime_with_losses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
