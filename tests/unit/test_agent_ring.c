/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The agent's rings, run in this process: full rings and exact losses, a reader that runs at the
 * same time as the writer, threads that come and go, signal handlers that wake tasks in the middle
 * of everything, forks, and a tool that has gone away.
 */
#include "agent_area.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unwind.h>

struct task {
	uint64_t state, next;
	void **vtable;
	uint64_t owner, id;
};

typedef void (*task_fn)(void *);

static struct area area;
static struct agent_hook *poll_hook, *wake_hook;
static void *vtable[4];

static void pend(void *header)
{
	(void)header;
}

static void load(uint32_t n_rings, uint32_t ring_bytes)
{
	area_new(&area, n_rings, ring_bytes);
	area.state->n_unwinders = 0; /* not needed here */
	poll_hook = area_hook(&area, AH_TOKIO_POLL, 1, pend);
	wake_hook = area_hook(&area, AH_TOKIO_WAKE, AGENT_KIND_NONE, pend);
	poll_hook->task.id_offset = offsetof(struct task, id);
	poll_hook->task.end_offset = sizeof(struct task);
	wake_hook->task.vtable_offset = offsetof(struct task, vtable);
	vtable[0] = area_stub(&area, poll_hook);
}

static struct task new_task(uint64_t id)
{
	return (struct task){.state = 64 * 3 | 8, .vtable = vtable, .id = id};
}

static void call(const struct agent_hook *hook, void *arg)
{
	((task_fn)area_stub(&area, hook))(arg);
}

static void test_losses_are_exact(void **state)
{
	struct task task = new_task(0);
	struct agent_event e;
	uint64_t sent = 0, got = 0, lost = 0, emitted = 0;

	(void)state;
	load(1, AGENT_MIN_RING_BYTES);
	srand(1);
	for (int round = 0; round < 2000; round++) {
		for (int i = rand() % 500; i > 0; i--) {
			task.id = ++sent;
			call(wake_hook, &task);
		}
		/* The ids count on; where some are missing, a loss of that number was recorded
		 * before.
		 */
		for (int i = rand() % 500; i > 0 && area_next(&area, area_ring(&area, 0), &e);
		     i--) {
			uint64_t type = e.word0 & 255;
			if (type == AE_THREAD) {
				assert_int_equal(got, 0);
			} else if (type == AE_LOST) {
				assert_int_equal(emitted, 0);
				emitted = e.word1;
				lost += emitted;
			} else {
				got += emitted + 1;
				emitted = 0;
				assert_int_equal(type, AE_WAKE);
				assert_int_equal(e.word1, 1ull << 48 | got);
			}
		}
	}
	struct ring *r = area_ring(&area, 0);
	assert_true(lost > 0);
	uint64_t rest = r->dropped - lost;
	while (area_next(&area, r, &e)) {
		if ((e.word0 & 255) == AE_LOST)
			got += e.word1;
		else
			got++;
	}
	assert_int_equal(sent, got + rest);
}

/*
 * A ring of any size under bursts of any length: every count has one place, in the order of
 * writing; a quiet reader's ring is written in its near part alone; a burst uses all of it, wakes
 * the tool once, and afterwards the near part is enough again.
 */
static void check_places(uint32_t size)
{
	struct task task = new_task(0);
	uint64_t sent = 0, got = 0, near = ring_near(size) / sizeof(struct agent_event);
	uint64_t all = size / sizeof(struct agent_event), n_wide = 0, n_near = 0;
	struct agent_event e;
	struct ring *r;

	load(1, size);
	r = area_ring(&area, 0);
	srand(size);
	task.id = ++sent;
	call(wake_hook, &task);
	assert_true(area_next(&area, r, &e)); /* AE_THREAD */
	for (int round = 0; round < 3000; round++) {
		bool burst = round / 100 % 2;
		uint64_t unread = sent - got, free = (burst ? all : near / 2) - 8;
		bool wide = r->far_end == UINT64_MAX;

		uint64_t n = unread < free ? (uint64_t)rand() % (free - unread) : 0;

		/* Without permission no thread is woken. */
		bool may_wake = round % 3;
		area.state->may_call = may_wake ? AGENT_MAY_WAKE : 0;
		area.rings->asleep = 1;
		for (uint64_t i = 0; i < n; i++) {
			task.id = ++sent;
			call(wake_hook, &task);
		}
		if (!may_wake)
			assert_int_equal(area.rings->asleep, 1);
		else if (n >= 2 * near || (!wide && r->far_end == UINT64_MAX))
			assert_int_equal(area.rings->asleep, 0);
		else if (unread + n < near)
			assert_int_equal(area.rings->asleep, 1);
		n_wide += r->far_end == UINT64_MAX;
		/* In the last rounds of a quiet time. */
		if (round % 200 > 90 && round % 200 < 100) {
			uint64_t run, place = ring_place(r->head - 16, r->far_begin, r->far_end,
							 size, &run);

			assert_int_not_equal(r->far_end, UINT64_MAX);
			assert_true(place < near * sizeof(e));
			n_near++;
		}
		for (uint64_t i = burst ? (uint64_t)rand() % all : all; i && got < sent; i--) {
			assert_true(area_next(&area, r, &e));
			assert_int_equal(e.word0 & 255, AE_WAKE);
			assert_int_equal(e.word1, 1ull << 48 | ++got);
		}
	}
	assert_int_equal(r->dropped, 0);
	assert_true(n_wide > 100 && n_near > 100);
}

static void test_near_and_far(void **state)
{
	(void)state;
	check_places(AGENT_MIN_RING_BYTES);
	check_places(16384);
	check_places(1u << 20);
}

static void *poll_once(void *arg)
{
	struct task task = new_task((uint64_t)arg);

	call(poll_hook, &task);
	return NULL;
}

static void test_threads_that_come_and_go(void **state)
{
	struct agent_event e;
	uint64_t next = 0;
	uint32_t claims = 0;

	(void)state;
	load(16, AGENT_MIN_RING_BYTES);
	for (uint64_t i = 0; i < 1000; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, poll_once, (void *)i), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		/* Another thread, by tid, in the same ring, and both of its events after its name.
		 */
		for (uint32_t j = 0; j < area.rings->n_used; j++) {
			while (area_next(&area, area_ring(&area, j), &e)) {
				static const int types[] = {AE_THREAD, AE_POLL_BEGIN,
							    AE_POLL_PENDING};
				assert_int_equal(e.word0 & 255, types[next % 3]);
				if (next % 3 == 0)
					assert_int_equal(
						e.word1,
						(uint32_t)agent_mapping_owner(&area, j)->claim);
				else
					assert_int_equal(e.word1, 1ull << 48 | i);
				next++;
			}
		}
		assert_int_equal(next, 3 * (i + 1));
	}
	for (uint32_t j = 0; j < area.state->n_rings; j++)
		claims += (uint32_t)(agent_mapping_owner(&area, j)->claim >> 32);
	assert_int_equal(claims, 1000);
	assert_in_range(area.rings->n_used, 1, 4);
	assert_int_equal(area.state->no_ring, 0);
}

static pthread_barrier_t barrier;

static void *poll_together(void *arg)
{
	pthread_barrier_wait(&barrier);
	poll_once(arg);
	pthread_barrier_wait(&barrier); /* all alive at once: no ring can change hands */
	return NULL;
}

static void test_more_threads_than_rings(void **state)
{
	enum { THREADS = 40, RINGS = 16 };
	pthread_t threads[THREADS];
	uint32_t with = 0;

	(void)state;
	load(RINGS, AGENT_MIN_RING_BYTES);
	for (int round = 0; round < 20; round++) {
		uint64_t no_ring = area.state->no_ring;
		pthread_barrier_init(&barrier, NULL, THREADS);
		for (uint64_t i = 0; i < THREADS; i++)
			assert_int_equal(
				pthread_create(&threads[i], NULL, poll_together, (void *)i), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		pthread_barrier_destroy(&barrier);
		uint64_t events = 0;
		struct agent_event e;
		for (uint32_t j = 0; j < RINGS; j++) {
			struct ring *r = area_ring(&area, j);
			while (area_next(&area, r, &e))
				events += (e.word0 & 255) != AE_THREAD;
			with += (uint32_t)agent_mapping_owner(&area, j)->claim != 0;
			area_give(&area, j);
		}
		assert_int_equal(events + area.state->no_ring - no_ring, 2 * THREADS);
		usleep(2000); /* no thread looks for a ring within a millisecond of having found
			       * none
			       */
	}
	assert_true(with > 19 * RINGS);
	assert_true(area.state->no_ring > 0);
}

/* ---- a reader and a writer at once ---- */

static bool writer_done;
static uint64_t reader_got, reader_lost;

static void *read_along(void *arg)
{
	struct ring *r = area_ring(&area, 0);
	struct agent_event e;
	uint64_t ticks = 0, id = 0;

	(void)arg;
	for (;;) {
		bool done = __atomic_load_n(&writer_done, __ATOMIC_ACQUIRE);
		while (area_next(&area, r, &e)) {
			uint64_t type = e.word0 & 255;
			if (type == AE_THREAD)
				continue;
			if (e.word0 >> 8 < ticks)
				return "time goes backwards";
			ticks = e.word0 >> 8;
			if (type == AE_LOST) {
				reader_lost += e.word1;
				id += e.word1;
				continue;
			}
			if (type != AE_WAKE || e.word1 != (1ull << 48 | ++id))
				return "an event is torn or out of order";
			reader_got++;
		}
		if (done)
			return NULL;
	}
}

static void test_reader_beside_the_writer(void **state)
{
	struct task task = new_task(0);
	pthread_t reader;
	void *complaint;

	(void)state;
	load(1, AGENT_MIN_RING_BYTES);
	writer_done = false;
	reader_got = reader_lost = 0;
	assert_int_equal(pthread_create(&reader, NULL, read_along, NULL), 0);
	for (uint64_t i = 1; i <= 3000000; i++) {
		task.id = i;
		call(wake_hook, &task);
	}
	__atomic_store_n(&writer_done, true, __ATOMIC_RELEASE);
	pthread_join(reader, &complaint);
	if (complaint)
		fail_msg("%s", (const char *)complaint);
	assert_int_equal(reader_got + area_ring(&area, 0)->dropped, 3000000);
	assert_true(reader_lost <= area_ring(&area, 0)->dropped);
	assert_true(reader_got > 0);
}

/* ---- signals ---- */

static struct task signal_task;
static volatile uint64_t n_signals;

static void wake_from_signal(int sig)
{
	(void)sig;
	call(wake_hook, &signal_task);
	n_signals++;
}

static void test_signals_in_the_middle(void **state)
{
	struct task task = new_task(5);
	struct sigaction action = {.sa_handler = wake_from_signal};
	struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	struct agent_event e;
	uint64_t polls = 0, begins = 0, ends = 0, wakes = 0, lost = 0;

	(void)state;
	load(2, 65536);
	signal_task = new_task(6);
	n_signals = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (n_signals < 5000) {
		call(poll_hook, &task);
		polls++;
		struct ring *r = area_ring(&area, 0);
		if (polls % 64)
			continue;
		while (area_next(&area, r, &e)) {
			uint64_t type = e.word0 & 255;
			begins += type == AE_POLL_BEGIN && e.word1 == (1ull << 48 | 5);
			ends += type == AE_POLL_PENDING && e.word1 == (1ull << 48 | 5);
			wakes += type == AE_WAKE && e.word1 == (1ull << 48 | 6);
			assert_true(type == AE_POLL_BEGIN || type == AE_POLL_PENDING ||
				    type == AE_WAKE || type == AE_LOST || type == AE_THREAD);
		}
	}
	setitimer(ITIMER_REAL, &never, NULL);
	uint64_t signals = n_signals;
	for (uint32_t i = 0; i < 2; i++) {
		while (area_next(&area, area_ring(&area, i), &e)) {
			uint64_t type = e.word0 & 255;
			begins += type == AE_POLL_BEGIN;
			ends += type == AE_POLL_PENDING;
			wakes += type == AE_WAKE;
		}
		lost += area_ring(&area, i)->dropped;
	}
	/* A signal may come while the thread gets its ring. */
	lost += area.state->no_ring;
	assert_int_equal(begins + ends + wakes + lost, 2 * polls + signals);
	assert_true(begins <= polls && ends <= polls && wakes <= signals);
	assert_true(wakes > 0);
	assert_int_equal(signal_task.state, 64 * 3 | 8);
	assert_int_equal(task.state, 64 * 3 | 8);
}

/* ---- a profiler whose signal comes anywhere ---- */

static volatile uint64_t n_walks, n_short_walks;
static void *walk_end;

static _Unwind_Reason_Code walk_step(struct _Unwind_Context *context, void *arg)
{
	void *function = (void *)_Unwind_GetRegionStart(context);

	if (function == walk_end) {
		*(bool *)arg = true;
		return _URC_END_OF_STACK;
	}
	return _URC_NO_REASON;
}

static void walk_from_signal(int sig)
{
	bool reached = false;

	(void)sig;
	_Unwind_Backtrace(walk_step, &reached);
	n_walks++;
	n_short_walks += !reached;
}

static void __attribute__((noinline)) poll_and_walk(void)
{
	struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	struct task task = new_task(5);

	/* No signal comes before or after this function: each walk has to reach it. */
	setitimer(ITIMER_REAL, &every, NULL);
	while (n_walks < 3000) {
		call(poll_hook, &task);
		call(wake_hook, &task);
		area_ring(&area, 0)->tail = area_ring(&area, 0)->head;
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

static void test_every_instruction_can_be_unwound(void **state)
{
	struct sigaction action = {.sa_handler = walk_from_signal};
	struct task task = new_task(1);

	(void)state;
	load(2, AGENT_MIN_RING_BYTES);
	area.state->n_unwinders = 1;
	call(poll_hook, &task); /* registers */
	assert_int_equal(area.state->registered, 2);
	n_walks = n_short_walks = 0;
	walk_end = (void *)poll_and_walk;
	walk_from_signal(0); /* loads what the unwinder loads */
	n_walks = n_short_walks = 0;
	sigaction(SIGALRM, &action, NULL);
	poll_and_walk();
	assert_true(n_walks >= 3000);
	assert_int_equal(n_short_walks, 0);
}

/* ---- forks, and a tool that is gone ---- */

static bool in_child;
static int child_status;

static void forks(void *header)
{
	pid_t pid = (pid_t)syscall(SYS_fork);

	(void)header;
	in_child = !pid;
	if (!in_child)
		waitpid(pid, &child_status, 0);
}

/* The child comes back from a poll that began in its parent: it gives its copy's reference back,
 * and leaves the rings, which it doesn't have, alone. */
static void test_fork_inside_a_poll(void **state)
{
	struct task task = new_task(1);
	struct agent_event e;

	(void)state;
	load(2, AGENT_MIN_RING_BYTES);
	struct agent_hook *hook = area_hook(&area, AH_TOKIO_POLL, 1, forks);
	hook->task.id_offset = offsetof(struct task, id);
	call(poll_hook, &task); /* a ring */
	struct ring *r = area_ring(&area, 0);
	child_status = -1;
	call(hook, &task);
	if (in_child) {
		call(poll_hook, &task);
		_exit(task.state == (64 * 3 | 8) ? 0 : 1);
	}
	assert_int_equal(child_status, 0);
	static const int types[] = {AE_THREAD, AE_POLL_BEGIN, AE_POLL_PENDING, AE_POLL_BEGIN,
				    AE_POLL_PENDING};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_true(area_next(&area, r, &e));
		assert_int_equal(e.word0 & 255, types[i]);
	}
	assert_false(area_next(&area, r, &e));
}

static void test_child_of_a_fork_is_not_traced(void **state)
{
	struct task task = new_task(1);
	int status;

	(void)state;
	load(2, AGENT_MIN_RING_BYTES);
	call(poll_hook, &task);
	struct ring *r = area_ring(&area, 0);
	uint64_t head = r->head;
	for (int raw = 0; raw < 2; raw++) {
		pid_t pid = raw ? (pid_t)syscall(SYS_fork) : fork();
		if (!pid) {
			call(poll_hook, &task);
			call(wake_hook, &task);
			_exit(task.state == (64 * 3 | 8) && !area.live->enabled ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(r->head, head);
	}
	assert_int_equal(area.rings->n_used, 1);
	call(wake_hook, &task);
	assert_int_equal(r->head, head + sizeof(struct agent_event));
}

static void test_switches_itself_off_when_the_tool_is_gone(void **state)
{
	struct task task = new_task(1);

	(void)state;
	load(1, AGENT_MIN_RING_BYTES);
	area.state->deadline = 1; /* long past, but who reads in time may be late with it */
	for (int i = 0; i < 255; i++)
		call(wake_hook, &task);
	assert_int_equal(area.live->enabled, 1);
	call(wake_hook, &task);
	assert_int_equal(area.live->enabled, 0);
	struct ring *r = area_ring(&area, 0);
	assert_int_equal(r->head, AGENT_MIN_RING_BYTES);
	assert_int_equal(r->dropped, 1);
	call(wake_hook, &task);
	assert_int_equal(r->dropped, 1);
}

static void test_a_ring_with_nonsense_in_it(void **state)
{
	struct task task = new_task(1);

	(void)state;
	load(1, AGENT_MIN_RING_BYTES);
	call(wake_hook, &task);
	struct ring *r = area_ring(&area, 0);
	static const uint64_t tails[] = {1ull << 40, UINT64_MAX, 1, 33};
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		r->tail = tails[i];
		for (int j = 0; j < 2000; j++)
			call(wake_hook, &task);
	}
	assert_in_range(r->head, 0, 4 * AGENT_MIN_RING_BYTES);
	r->tail = r->head;
	uint64_t head = r->head;
	call(wake_hook, &task);
	assert_int_equal(r->head, head + 2 * sizeof(struct agent_event)); /* AE_LOST before it */
}

/* Everything that is shared says anything at any time: nothing but the recording suffers. */
static void *scribble(void *arg)
{
	uint64_t *words = (uint64_t *)area.rings;
	unsigned seed = 1;

	for (uint64_t n = 0; !__atomic_load_n(&writer_done, __ATOMIC_ACQUIRE); n++) {
		uint64_t value = (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed) << 4;
		size_t header = sizeof(struct ring_area) +
				(size_t)(n % 4) * (sizeof(struct ring) + area.state->ring_bytes);
		size_t at = n % 8 ? header + (size_t)rand_r(&seed) % sizeof(struct ring)
				  : (size_t)rand_r(&seed) % area.rings_bytes;

		__atomic_store_n(&words[at / 8], n % 3 ? value : UINT64_MAX, __ATOMIC_RELAXED);
	}
	return arg;
}

static void *poll_many(void *arg)
{
	struct task task = new_task((uint64_t)arg);

	for (int i = 0; i < 100000; i++) {
		call(poll_hook, &task);
		call(wake_hook, &task);
	}
	return task.state == (64 * 3 | 8) ? NULL : "a task's state differs";
}

static void test_hostile_rings(void **state)
{
	enum { THREADS = 3 };
	pthread_t hostile, threads[THREADS];
	void *complaint;

	(void)state;
	load(4, AGENT_MIN_RING_BYTES);
	writer_done = false;
	assert_int_equal(pthread_create(&hostile, NULL, scribble, NULL), 0);
	for (uint64_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, poll_many, (void *)i), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &complaint);
		assert_null(complaint);
	}
	__atomic_store_n(&writer_done, true, __ATOMIC_RELEASE);
	pthread_join(hostile, NULL);
	/* Each ring had one owner after another, however often the words in it changed. */
	assert_int_equal(area.state->no_ring, 0);
	for (uint32_t i = 0; i < THREADS; i++)
		assert_in_range(agent_mapping_owner(&area, i)->claim >> 32, 0, THREADS);
	assert_in_range(area.state->n_used, 1, THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_losses_are_exact),
		cmocka_unit_test(test_near_and_far),
		cmocka_unit_test(test_threads_that_come_and_go),
		cmocka_unit_test(test_more_threads_than_rings),
		cmocka_unit_test(test_reader_beside_the_writer),
		cmocka_unit_test(test_signals_in_the_middle),
		cmocka_unit_test(test_every_instruction_can_be_unwound),
		cmocka_unit_test(test_fork_inside_a_poll),
		cmocka_unit_test(test_child_of_a_fork_is_not_traced),
		cmocka_unit_test(test_switches_itself_off_when_the_tool_is_gone),
		cmocka_unit_test(test_a_ring_with_nonsense_in_it),
		cmocka_unit_test(test_hostile_rings),
	};
	return cmocka_run_group_tests_name("agent_ring", tests, NULL, NULL);
}
