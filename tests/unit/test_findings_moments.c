/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each rule of docs/findings.md over moments on one that has its trouble, and on one that nearly has.
 */
#include "tests/unit/findings_recording.h"

#define LOCK 0x9000
#define OTHER_LOCK 0x9100
#define CHANNEL 0xa000
#define MAX_TASKS 200

static struct moment_kind task_kind = {.role = TR_TASK,
				       .tokio = true,
				       .name = "app::task",
				       .full_name = "app::task",
				       .object = "/srv/app",
				       .site = "src/main.rs:7 (app::main)",
				       .vtable = 0x1000};
static struct moment_kind job_kind = {.role = TR_BLOCKING,
				      .tokio = true,
				      .name = "app::job",
				      .full_name = "app::job",
				      .object = "/srv/app",
				      .site = "",
				      .vtable = 0x1100};

/* ---- trees ---- */

static uint8_t arena[1 << 20];
static size_t arena_used;

static void *copied(const void *data, size_t size)
{
	void *to = arena + arena_used;

	arena_used += (size + 15) & ~(size_t)15;
	assert_true(arena_used <= sizeof(arena));
	if (size)
		memcpy(to, data, size);
	return size ? to : NULL;
}

/* A node that lives until begin() is called again, and so what it has. */
static struct await_node *kept(struct await_node n)
{
	n.children = copied(n.children, n.n_children * sizeof(struct await_node *));
	n.holds = copied(n.holds, n.n_holds * sizeof(*n.holds));
	n.held = copied(n.held, n.n_held * sizeof(*n.held));
	return copied(&n, sizeof(n));
}

#define CHILDREN(...)                                                                              \
	.children = (struct await_node *[]){__VA_ARGS__},                                          \
	.n_children = sizeof((struct await_node *[]){__VA_ARGS__}) / sizeof(struct await_node *)
#define LEAF(what, ...)                                                                            \
	kept((struct await_node){.kind = AN_LEAF, .full_name = "", .wait = (what), __VA_ARGS__})
#define POINT(at_line, ...)                                                                        \
	kept((struct await_node){.kind = AN_ASYNC,                                                 \
				 .name = "app::task",                                              \
				 .full_name = "",                                                  \
				 .file = "src/main.rs",                                            \
				 .line = (at_line),                                                \
				 __VA_ARGS__})
#define HOLDS(lock) .holds = (uint64_t[]){(lock)}, .n_holds = 1
#define HELD(...) .held = (struct await_held[]){{__VA_ARGS__}}, .n_held = 1

/* ---- moments ---- */

struct scene {
	struct moment_task tasks[MAX_TASKS];
	struct moment_thread threads[8];
	struct moment_frame frames[8];
	struct trace_moment m[MOMENT_N];
	struct recording rec;
};

static struct scene scene;

static void begin(void)
{
	memset(&scene, 0, sizeof(scene));
	arena_used = 0;
}

static struct moment_task *add_task(const struct await_node *tree)
{
	struct trace_moment *m = &scene.m[MOMENT_END];
	struct moment_task *t = &scene.tasks[m->n_tasks++];

	*t = (struct moment_task){.kind = &task_kind,
				  .id = m->n_tasks,
				  .addr = 0x100000 + 0x1000 * m->n_tasks,
				  .refs = 3,
				  .owner = 1,
				  .join_interest = true,
				  .tree = tree};
	return t;
}

/* Runs on a thread of its own that is in futex. */
static void runs_in_futex(struct moment_task *t, const char *function)
{
	struct trace_moment *m = &scene.m[MOMENT_END];
	size_t n = m->n_threads++;

	bool own = !strncmp(function, "app::", 5);

	scene.frames[n] = (struct moment_frame){.object = "/srv/app",
						.function = function,
						.file = own ? "src/main.rs" : "",
						.line = own ? 50 : 0};
	scene.threads[n] = (struct moment_thread){.tid = (uint32_t)(100 + n),
						  .name = "worker",
						  .call = 203,
						  .frames = &scene.frames[n],
						  .n_frames = 1};
	if (!t)
		return;
	t->state = IS_RUNNING;
	t->thread = n + 1;
}

/* The moment of the end, and the same of the start. */
static struct recording *recorded(void)
{
	scene.rec.length_ns = 1000 * MS;
	for (enum moment_when when = 0; when < MOMENT_N; when++) {
		struct trace_moment *m = &scene.m[when];

		*m = scene.m[MOMENT_END];
		m->when = when;
		m->now_ns = START + 1000 * MS * when;
		m->stopped = true;
		m->n_found = m->n_tasks;
		m->tasks = scene.tasks;
		m->threads = scene.threads;
		scene.rec.moments[when] = m;
	}
	worker(&scene.rec, 10);
	park(&scene.rec, 10, 1 * MS, 999 * MS, TB_EPOLL_WAIT);
	return &scene.rec;
}

static void finds(const char *rule, const char *text)
{
	expect_rule(recorded(), rule, text);
	begin();
}

/* Of one that hardly matters. */
static void finds_minor(const char *rule, const char *text)
{
	char *got = judged_from(recorded(), 1), want[512];

	snprintf(want, sizeof(want), "%s: %s\n", rule, text);
	if (!strstr(got, want))
		fail_msg("%s is not in:\n%s", want, got);
	free(got);
	begin();
}

/* ---- who waits for whom ---- */

static void two_locks(bool second_waits_for_first)
{
	begin();
	add_task(POINT(10, HOLDS(LOCK),
		       CHILDREN(LEAF(AW_MUTEX, .name = "Mutex::lock", .resource = OTHER_LOCK))));
	if (second_waits_for_first)
		add_task(POINT(20, HOLDS(OTHER_LOCK),
			       CHILDREN(LEAF(AW_MUTEX, .name = "Mutex::lock", .resource = LOCK))));
	else
		add_task(POINT(20, HOLDS(OTHER_LOCK), CHILDREN(LEAF(AW_SLEEP, .name = "sleep"))));
}

static void test_deadlock(void **state)
{
	(void)state;
	two_locks(true);
	finds("deadlock", "DEADLOCK: task 1 app::task waits for Mutex::lock at src/main.rs:10 "
			  "app::task, held by the next one, for which task 2 app::task waits for "
			  "Mutex::lock at src/main.rs:20 app::task, which the first one holds\n");
	two_locks(false);
	finds("deadlock", NULL);

	two_locks(true);
	expect_lanes(recorded(), "deadlock",
		     "0.000..1000.000 ms, process 0, threads, tasks 2=1 3=2");
}

static void test_read_twice(void **state)
{
	for (int writer_waits = 0; writer_waits < 2; writer_waits++) {
		(void)state;
		begin();
		add_task(
			POINT(10, HOLDS(LOCK),
			      CHILDREN(LEAF(AW_RWLOCK, .name = "RwLock::read", .resource = LOCK))));
		if (writer_waits)
			add_task(POINT(20, CHILDREN(LEAF(AW_RWLOCK, .name = "RwLock::write",
							 .resource = LOCK))));
		finds("read-twice",
		      writer_waits
			      ? "DEADLOCK: task 1 app::task has a guard of an RwLock and waits for "
				"RwLock::read of the same lock at src/main.rs:10 app::task, behind "
				"task 2 app::task, which waits to write it at src/main.rs:20 "
				"app::task\n"
			      : NULL);
	}
	/* It goes on when its timer is over. */
	add_task(POINT(10, HOLDS(LOCK),
		       CHILDREN(LEAF(AW_RWLOCK, .name = "RwLock::write", .resource = LOCK),
				LEAF(AW_SLEEP, .name = "sleep"))));
	finds("read-twice", NULL);
	/* Nobody is needed between a reader and itself if it wants to write. */
	add_task(POINT(10, HOLDS(LOCK),
		       CHILDREN(LEAF(AW_RWLOCK, .name = "RwLock::write", .resource = LOCK))));
	finds("read-twice", "DEADLOCK: task 1 app::task has a guard of an RwLock and waits for "
			    "RwLock::write of the same lock at src/main.rs:10 app::task\n");
}

static void permits(unsigned n_stuck, bool one_works)
{
	begin();
	for (unsigned i = 0; i < n_stuck; i++)
		add_task(POINT(6, HOLDS(LOCK),
			       CHILDREN(LEAF(AW_SEMAPHORE, .name = "Semaphore::acquire",
					     .resource = LOCK, .value = 1))));
	if (one_works)
		add_task(POINT(7, HOLDS(LOCK), CHILDREN(LEAF(AW_SLEEP, .name = "sleep"))));
	add_task(POINT(8, CHILDREN(LEAF(AW_SEMAPHORE, .name = "Semaphore::acquire",
					.resource = LOCK, .value = 1))));
}

static void test_semaphore(void **state)
{
	(void)state;
	permits(4, false);
	finds("semaphore-stuck",
	      "5 tasks wait for one semaphore, and those that have its permits are among them: 4 "
	      "have "
	      "one and wait for more at src/main.rs:6 app::task, the others at src/main.rs:8 "
	      "app::task\n");
	/* One that has a permit goes on, and gives it back. */
	permits(4, true);
	finds("semaphore-stuck", NULL);
	permits(0, false);
	finds("semaphore-stuck", NULL);
}

static void test_lost_task(void **state)
{
	(void)state;
	begin();
	add_task(POINT(10, CHILDREN(LEAF(AW_UNKNOWN, .name = "app::Ready"))))->refs = 2;
	finds("lost-task",
	      "task 1 app::task can never run again: it is idle and no waker of it exists");
	for (unsigned i = 0; i < 2; i++)
		add_task(POINT(10, CHILDREN(LEAF(AW_UNKNOWN, .name = "app::Ready"))))->refs = 2;
	finds("lost-task", "task 1 app::task can never run again: it is idle and no waker of it "
			   "exists: its 2 references are its list's and its join handle's; nor "
			   "can 1 other task\n");
	/* The third reference is a waker's. */
	add_task(POINT(10, CHILDREN(LEAF(AW_UNKNOWN, .name = "app::Ready"))))->refs = 3;
	finds("lost-task", NULL);
}

/* It waits to be aborted. */
static void test_pending(void **state)
{
	(void)state;
	begin();
	add_task(POINT(10))->refs = 2;
	finds("lost-task", NULL);
}

static void rests(enum await_wait wait, uint64_t value)
{
	begin();
	add_task(POINT(10, CHILDREN(LEAF(AW_SOCKET, .name = "socket ready"))));
	add_task(POINT(20, CHILDREN(LEAF(wait, .name = "sleep", .value = value))));
	scene.tasks[1].id = 2;
}

/* Nothing has happened: whether that is all right, the memory says. */
static void test_rests(void **state)
{
	(void)state;
	rests(AW_SLEEP, START + 60000 * MS);
	finds("nothing-polled",
	      "no task was polled in 1.00 s: 2 tasks wait for timers, sockets and messages\n");
	rests(AW_SLEEP, START + 500 * MS);
	finds("nothing-polled",
	      "no task was polled in 1.00 s: the program has no load, or its workers");
	rests(AW_MUTEX, 0);
	finds("nothing-polled",
	      "no task was polled in 1.00 s: the program has no load, or its workers");
}

/* Nor has a program without tasks anything to do, if it really has none. */
static void test_no_tasks(void **state)
{
	static const char *notes[] = {"the tasks of this runtime could not be read"};
	(void)state;
	begin();
	finds("nothing-polled", "no task was polled in 1.00 s: the program has no tasks\n");
	scene.m[MOMENT_END].notes = notes;
	scene.m[MOMENT_END].n_notes = 1;
	finds("nothing-polled",
	      "no task was polled in 1.00 s: the program has no load, or its workers");
	scene.m[MOMENT_END].n_missed = 1;
	finds("nothing-polled",
	      "no task was polled in 1.00 s: the program has no load, or its workers");
}

/* ---- the blocking pool, handles, descriptors ---- */

static void pool(unsigned n_waiting)
{
	begin();
	for (unsigned i = 0; i < n_waiting + 1; i++) {
		struct moment_task *t = add_task(NULL);

		t->kind = &job_kind;
		t->state = IS_SCHEDULED;
		if (i == 0)
			runs_in_futex(t, "app::job");
	}
}

static void test_pool_stuck(void **state)
{
	(void)state;
	pool(3);
	finds("pool-stuck",
	      "the blocking pool is full since before the recording: 1 closure runs, of "
	      "app::job (futex at src/main.rs:50 app::job); 3 wait for a thread, the "
	      "first of app::job\n");
	/* It came to that while pollux attached. */
	pool(3);
	recorded();
	scene.m[MOMENT_START].n_tasks = 0;
	expect_rule(&scene.rec, "pool-stuck",
		    "the blocking pool is full since before the recording: 1");
	begin();
	pool(2);
	finds("pool-stuck", NULL);
	/* It is full, but closures go on; or did, at first. */
	for (unsigned ms = 100; ms <= 700; ms += 600) {
		pool(3);
		recorded();
		at(&scene.rec, 12, 1, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
		spawn(&scene.rec, 12, 2 * MS, K_JOB, 99);
		poll(&scene.rec, 12, 3 * MS, ms * MS, K_JOB, 99, TO_READY, 0);
		expect_rule(&scene.rec, "pool-stuck",
			    ms == 100 ? "the blocking pool is full since before the recording"
				      : NULL);
	}
	begin();
}

static void test_kept(void **state)
{
	for (unsigned n = 100; n < 102; n++) {
		(void)state;
		begin();
		for (unsigned i = 0; i < n; i++)
			add_task(NULL)->state = IS_DONE;
		finds("kept-tasks",
		      n == 101 ? "101 tasks of app::task have ended, but are kept by join "
				 "handles that are never awaited (spawned at src/main.rs:7 "
				 "(app::main))\n"
			       : NULL);
	}
}

static void test_descriptors(void **state)
{
	for (unsigned n = 94; n < 96; n++) {
		(void)state;
		begin();
		add_task(NULL);
		scene.m[MOMENT_END].n_descriptors = n;
		scene.m[MOMENT_END].max_descriptors = 100;
		finds("descriptors", n == 95 ? "95 of 100 descriptors are open: accept, connect "
					       "and open fail soon "
					       "(EMFILE)\n"
					     : NULL);
	}
}

/* ---- what is held ---- */

static void guard(uint64_t futex, const char *type)
{
	begin();
	add_task(POINT(10, HELD(.kind = AH_GUARD, .type = type, .addr = LOCK, .bytes = 16),
		       CHILDREN(LEAF(AW_SLEEP, .name = "sleep"))));
	runs_in_futex(add_task(NULL), "app::lock");
	scene.threads[0].call_arg = futex;
}

static void test_guard(void **state)
{
	const char *std = "std::sync::poison::mutex::MutexGuard<u64>";
	(void)state;
	guard(LOCK + 4, std);
	finds("guard-over-await",
	      "task 1 app::task holds a std::sync::poison::mutex::MutexGuard<u64> over "
	      "the await at src/main.rs:10 app::task; 1 thread sleeps until it "
	      "lets go, thread 100 in futex at src/main.rs:50 app::lock\n");
	/* Nobody waits for it: no more than a note. */
	guard(LOCK + 16, std);
	finds("guard-over-await", NULL);
	guard(LOCK, "core::cell::Ref<u64>");
	finds("guard-over-await", NULL);
}

/* Of several, whichever is blocked on is named; how many there are is said where none is. */
static void test_guards(void **state)
{
	(void)state;
	for (unsigned n = 2; n <= 3; n++) {
		begin();
		for (unsigned i = 0; i < n; i++)
			add_task(POINT(10,
				       HELD(.kind = AH_GUARD, .type = "MutexGuard<u64>",
					    .addr = LOCK, .bytes = 16),
				       CHILDREN(LEAF(AW_SLEEP, .name = "sleep"))));
		finds_minor(
			"guard-over-await",
			n == 2 ? "task 1 app::task holds a MutexGuard<u64> over the await at "
				 "src/main.rs:10 app::task; 1 other guard is held over one, too"
			       : "task 1 app::task holds a MutexGuard<u64> over the await at "
				 "src/main.rs:10 app::task; 2 other guards are held over awaits, "
				 "too");
	}
}

static void wait_for(unsigned n, enum await_wait what, bool also_for_a_timer)
{
	begin();
	for (unsigned i = 0; i < n; i++) {
		struct await_node *leaf = LEAF(what, .name = "Notified", .resource = LOCK);

		if (also_for_a_timer)
			add_task(POINT(10, CHILDREN(leaf, LEAF(AW_SLEEP, .name = "sleep"))));
		else
			add_task(POINT(10, CHILDREN(leaf)));
	}
}

static void test_idle_waits(void **state)
{
	(void)state;
	wait_for(3, AW_NOTIFY, false);
	finds("idle-waits",
	      "3 tasks of app::task waited all the time for Notified at src/main.rs:10 "
	      "app::task; it has not been given\n");
	wait_for(2, AW_NOTIFY, false);
	finds("idle-waits", NULL);
	wait_for(3, AW_NOTIFY, true);
	finds("idle-waits", NULL);
	wait_for(3, AW_SOCKET, false);
	finds("idle-waits", NULL);
}

static void held_future(uint64_t due_ns)
{
	begin();
	add_task(POINT(10, CHILDREN(LEAF(AW_MUTEX, .name = "Mutex::lock", .resource = LOCK),
				    POINT(20, .state = AS_ASLEEP,
					  CHILDREN(LEAF(AW_SLEEP, .name = "sleep",
							.value = START + due_ns))))));
}

static void test_held_future(void **state)
{
	(void)state;
	held_future(800 * MS);
	finds("held-future",
	      "task 1 app::task holds a future and does not poll it, though its timer is "
	      "over, at src/main.rs:20 app::task: it waits at src/main.rs:10 app::task\n");
	held_future(950 * MS);
	finds("held-future", NULL);
	held_future(2000 * MS);
	finds("held-future", NULL);
}

/* What the task waits for itself is late: then the other future is, too. */
static void test_held_future_late(void **state)
{
	for (unsigned waits_ms = 50; waits_ms <= 250; waits_ms += 200) {
		(void)state;
		begin();
		add_task(POINT(10, CHILDREN(LEAF(AW_SLEEP, .name = "sleep",
						 .value = START + (600 + waits_ms) * MS),
					    POINT(20, .state = AS_ASLEEP,
						  CHILDREN(LEAF(AW_SLEEP, .name = "sleep",
								.value = START + 500 * MS))))));
		recorded();
		worker(&scene.rec, 12);
		poll(&scene.rec, 12, 600 * MS, US, K_TASK, 1, TO_PENDING, P_SLEEP);
		expect_rule(&scene.rec, "held-future",
			    waits_ms > 100 ? "task 1 app::task holds a future and does not poll it"
					   : NULL);
	}
	begin();
}

/* The moment is taken when the last event is long ago: it says nothing of the time between. */
static void test_held_future_moment(void **state)
{
	for (unsigned polled_ms = 500; polled_ms <= 950; polled_ms += 450) {
		(void)state;
		held_future(400 * MS);
		recorded();
		scene.m[MOMENT_END].now_ns = START + 30000 * MS;
		worker(&scene.rec, 12);
		poll(&scene.rec, 12, polled_ms * MS, US, K_TASK, 1, TO_PENDING, P_LOCK);
		expect_rule(&scene.rec, "held-future",
			    polled_ms < 900 ? "task 1 app::task holds a future and does not poll it"
					    : NULL);
	}
	begin();
}

/* It receives from a channel that has no sender any more, which is ready at once. */
static void test_spin_closed(void **state)
{
	for (unsigned closed = 0; closed < 2; closed++) {
		char *got;
		(void)state;
		begin();
		add_task(POINT(10,
			       HELD(.kind = AH_CHANNEL, .type = "tokio::sync::watch::Receiver<u8>",
				    .addr = CHANNEL, .counted = true, .closed = closed)))
			->state = IS_RUNNING;
		recorded();
		worker(&scene.rec, 12);
		spawn(&scene.rec, 12, 20, K_TASK, 1);
		for (unsigned i = 0; i < 2000; i++) {
			uint64_t t = 2 * MS + i * 100 * US;

			poll_begin(&scene.rec, 12, t, K_TASK, 1);
			at(&scene.rec, 12, t + US, TE_WAKE, TW_RUNNING, K_TASK, 1, 0);
			poll_end(&scene.rec, 12, t + 90 * US, K_TASK, 1, TO_PENDING, P_NOTIFY);
		}
		got = judged(&scene.rec, NULL);
		assert_non_null(strstr(got, "spin: app::task woke itself"));
		assert_int_equal(
			!!strstr(got, "app::task; a channel from which it receives is closed\n"),
			closed);
		free(got);
	}
	begin();
}

/* In futex when the recording ends, at the line at which others are in a call: these have the lock. */
static void test_open_poll_in_call(void **state)
{
	for (unsigned writes = 0; writes < 2; writes++) {
		char *got;
		(void)state;
		begin();
		runs_in_futex(add_task(NULL), "app::backoff");
		scene.frames[0].file = "../src/retry.rs";
		scene.frames[0].line = 7;
		recorded();
		worker(&scene.rec, 0);
		spawn(&scene.rec, 0, 20, K_TASK, 1);
		poll_begin(&scene.rec, 0, 100 * MS, K_TASK, 1);
		worker(&scene.rec, 1);
		spawn(&scene.rec, 1, 30, K_TASK, 2);
		poll_begin(&scene.rec, 1, 100 * MS, K_TASK, 2);
		at(&scene.rec, 1, 113 * MS, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 11 * MS,
		   N_FRAMES);
		block(&scene.rec, 1, 700 * MS, 599 * MS, writes ? TB_WRITE : TB_FUTEX);
		poll_end(&scene.rec, 1, 700 * MS, K_TASK, 2, TO_READY, 0);
		got = judged(&scene.rec, NULL);
		if (!strstr(got, "app::task (task 1) has been in one poll for 900 ms when the "
				 "recording ended, in futex at ../src/retry.rs:7 app::backoff"))
			fail_msg("%s", got);
		if (writes != !!strstr(got,
				       "app::backoff, for a lock that others have meanwhile, in "
				       "write: thread worker/100 ran nothing else"))
			fail_msg("%s", got);
		if (writes && strstr(got, "long-polls: ") > strstr(got, "open-poll: "))
			fail_msg("%s", got);
		free(got);
	}
	begin();
}

static void channel(uint64_t length, uint64_t capacity)
{
	begin();
	add_task(POINT(10,
		       HELD(.kind = AH_CHANNEL,
			    .type = "tokio::sync::mpsc::unbounded::UnboundedReceiver<u64>",
			    .addr = CHANNEL, .counted = true, .length = length,
			    .capacity = capacity, .senders = 3),
		       CHILDREN(LEAF(AW_SLEEP, .name = "sleep"))));
}

static void test_channel(void **state)
{
	(void)state;
	channel(1234, 0);
	finds("channel-fills",
	      "1,234 messages are queued in a channel without a bound: task 1 app::task, "
	      "which receives from it, waits at src/main.rs:10 app::task; 3 senders\n");
	channel(1234, 0);
	scene.tasks[0].state = IS_SCHEDULED;
	finds("channel-fills",
	      "1,234 messages are queued in a channel without a bound: task 1 app::task, "
	      "which receives from it, is ready, but not polled; 3 senders\n");
	channel(1234, 2000);
	finds("channel-fills", NULL);
	channel(999, 0);
	finds("channel-fills", NULL);
}

/* A few, but more than when the recording began. */
static void test_channel_grows(void **state)
{
	struct moment_task earlier;
	(void)state;
	channel(400, 0);
	recorded();
	earlier = scene.tasks[0];
	earlier.tree = POINT(10,
			     HELD(.kind = AH_CHANNEL, .type = "", .addr = CHANNEL, .counted = true,
				  .length = 150, .senders = 1),
			     CHILDREN(LEAF(AW_SLEEP, .name = "sleep")));
	scene.m[MOMENT_START].tasks = &earlier;
	expect_rule(&scene.rec, "channel-fills",
		    "400 messages are queued in a channel without a bound, 250 more each second: ");
}

/* Two tasks that send for 900 ms, and one that has the other end. */
static void sends(enum inspect_state receiver, bool polled)
{
	begin();
	for (unsigned i = 0; i < 2; i++)
		add_task(POINT(50, CHILDREN(LEAF(AW_CHANNEL_SEND, .name = "mpsc send",
						 HELD(.kind = AH_CHANNEL, .addr = CHANNEL)))));
	add_task(POINT(10,
		       HELD(.kind = AH_CHANNEL, .type = "tokio::sync::mpsc::bounded::Receiver<u8>",
			    .addr = CHANNEL, .counted = true, .length = 8, .capacity = 8,
			    .senders = 2),
		       CHILDREN(LEAF(AW_SLEEP, .name = "sleep"))))
		->state = receiver;
	recorded();
	scene.rec.length_ns = 1500 * MS;
	scene.m[MOMENT_END].now_ns = START + 1500 * MS;
	worker(&scene.rec, 11);
	for (unsigned i = 0; i < 2; i++)
		poll(&scene.rec, 11, (2 + i) * MS, US, K_TASK, 1 + i, TO_PENDING, P_SEND);
	for (unsigned i = 0; i < 20 && polled; i++) {
		wake(&scene.rec, 11, (20 + i) * MS, K_TASK, 3);
		poll(&scene.rec, 11, (20 + i) * MS + US, US, K_TASK, 3, TO_PENDING, P_SLEEP);
	}
}

static void test_sends(void **state)
{
	(void)state;
	sends(IS_IDLE, false);
	expect_rule(&scene.rec, "channel-full",
		    "2 tasks of app::task wait for room in a channel at src/main.rs:50 app::task, "
		    "the longest for 1.50 s: task 3 app::task, which receives from it, waits at "
		    "src/main.rs:10 app::task\n");
	sends(IS_SCHEDULED, true);
	expect_rule(&scene.rec, "channel-full",
		    "2 tasks of app::task wait for room in a channel at src/main.rs:50 app::task, "
		    "the longest for 1.50 s: task 3 app::task, which receives from it, is ready, "
		    "but not polled; it is polled, but takes nothing from this one\n");
}

/* The receiver is in no task: the one that had it may have panicked. */
static void test_sends_to_nobody(void **state)
{
	(void)state;
	sends(IS_IDLE, false);
	scene.m[MOMENT_END].n_tasks = scene.m[MOMENT_START].n_tasks = 2;
	expect_rule(&scene.rec, "channel-full",
		    "2 tasks of app::task wait for room in a channel at src/main.rs:50 app::task, "
		    "the longest for 1.50 s: no task is seen to receive from it\n");
}

/* Since before the recording, but others go on with the lock, at the same line. */
static void test_stuck_behind_call(void **state)
{
	char *got;
	(void)state;
	begin();
	runs_in_futex(add_task(NULL), "app::backoff");
	scene.frames[0].file = "../src/retry.rs";
	scene.frames[0].line = 7;
	recorded();
	worker(&scene.rec, 1);
	spawn(&scene.rec, 1, 30, K_TASK, 2);
	poll_begin(&scene.rec, 1, 100 * MS, K_TASK, 2);
	at(&scene.rec, 1, 113 * MS, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 11 * MS, N_FRAMES);
	block(&scene.rec, 1, 700 * MS, 599 * MS, TB_WRITE);
	poll_end(&scene.rec, 1, 700 * MS, K_TASK, 2, TO_READY, 0);
	got = judged(&scene.rec, NULL);
	char *stuck = strstr(got, "stuck-poll: "), *writes = strstr(got, "long-polls: ");

	if (!stuck || !writes || writes > stuck ||
	    !strstr(stuck, "since before the recording: futex at ../src/retry.rs:7 app::backoff, "
			   "for a lock "
			   "that others have meanwhile, in write\n"))
		fail_msg("%s", got);
	free(got);
	begin();
}

/* It came to that in the recording, whose beginning says nothing of places. */
static void test_waits_since(void **state)
{
	for (unsigned since_ms = 200; since_ms <= 1200; since_ms += 1000) {
		struct recording *rec;
		char *got;
		(void)state;
		wait_for(3, AW_NOTIFY, false);
		rec = recorded();
		scene.m[MOMENT_START].n_tasks = 0;
		rec->length_ns = 2000 * MS;
		scene.m[MOMENT_END].now_ns = START + 2000 * MS;
		worker(rec, 12);
		for (unsigned i = 0; i < 3; i++) {
			spawn(rec, 12, (since_ms + i) * MS - US, K_TASK, 1 + i);
			poll(rec, 12, (since_ms + i) * MS, US, K_TASK, 1 + i, TO_PENDING, P_NONE);
		}
		got = judged(rec, NULL);
		if (!!strstr(got,
			     "idle-waits: 3 tasks of app::task have waited for 1.80 s or more for "
			     "Notified at src/main.rs:10 app::task; it has not been given\n") !=
		    (since_ms < 1000))
			fail_msg("%s", got);
		free(got);
	}
	begin();
}

/* An actor that has asked itself: the answer would come by its own channel. */
static void asks(enum await_wait wait, uint64_t length)
{
	begin();
	add_task(POINT(10,
		       HELD(.kind = AH_CHANNEL, .type = "tokio::sync::mpsc::bounded::Receiver<u8>",
			    .addr = CHANNEL, .counted = true, .length = length, .capacity = 8,
			    .senders = 2),
		       CHILDREN(POINT(20, CHILDREN(LEAF(wait, .name = "oneshot receive"))))));
}

static void test_unserved(void **state)
{
	(void)state;
	asks(AW_ONESHOT, 2);
	finds("unserved-channel",
	      "2 messages are in the channel that task 1 app::task receives from, but all the time "
	      "it has waited for oneshot receive at src/main.rs:20 app::task\n");
	asks(AW_ONESHOT, 0);
	finds("unserved-channel", NULL);
	asks(AW_SOCKET, 2);
	finds("unserved-channel", NULL);
}

static void broadcast(uint64_t length)
{
	channel(length, 64);
	((struct await_held *)scene.tasks[0].tree->held)->type =
		"tokio::sync::broadcast::Receiver<u64>";
}

static void test_broadcast(void **state)
{
	struct moment_task earlier;
	(void)state;
	broadcast(64);
	finds("broadcast-lag",
	      "all 64 messages of a broadcast channel are new to one of its receivers: task 1 "
	      "app::task, which receives from it, waits at src/main.rs:10 app::task, and loses "
	      "what "
	      "is overwritten (RecvError::Lagged)\n");
	/* It has received some in the moment. */
	broadcast(63);
	finds("broadcast-lag",
	      "63 of 64 messages of a broadcast channel are new to one of its receivers: task 1 "
	      "app::task, which receives from it, waits at src/main.rs:10 app::task, and loses "
	      "what "
	      "is overwritten (RecvError::Lagged)\n");

	broadcast(59);
	finds("broadcast-lag", NULL);
	/* It had received nearly all when the recording began. */
	broadcast(64);
	recorded();
	earlier = scene.tasks[0];
	earlier.tree = POINT(10,
			     HELD(.kind = AH_CHANNEL, .type = "", .addr = CHANNEL, .counted = true,
				  .length = 2, .capacity = 64, .senders = 1),
			     CHILDREN(LEAF(AW_SLEEP, .name = "sleep")));
	scene.m[MOMENT_START].tasks = &earlier;
	expect_rule(&scene.rec, "broadcast-lag", NULL);
}

static void dropped(const char *function)
{
	begin();
	add_task(NULL)->kind = &job_kind;
	runs_in_futex(&scene.tasks[0], "app::job");
	runs_in_futex(NULL, function);
}

static void test_runtime_drop(void **state)
{
	(void)state;
	dropped("tokio::runtime::blocking::shutdown::Receiver::wait");
	finds("runtime-drop",
	      "thread 101 drops a runtime and waits for 1 thread of it, which runs task 1 "
	      "app::job (futex at src/main.rs:50 app::job)\n");
	dropped("tokio::runtime::park::Inner::park");
	finds("runtime-drop", NULL);
}

/* ---- sizes ---- */

static void sizes(const char *type, uint64_t future_bytes, uint64_t tree_bytes, unsigned n)
{
	begin();
	task_kind.full_name = type;
	task_kind.future_bytes = future_bytes;
	for (unsigned i = 0; i < n; i++)
		add_task(POINT(10, .bytes = tree_bytes, CHILDREN(LEAF(AW_SLEEP, .name = "sleep"))));
}

static void test_sizes(void **state)
{
	const char *box = "core::pin::Pin<alloc::boxed::Box<app::task>>";
	(void)state;
	sizes("app::task", 16000, 16000, 100);
	finds("large-future", "app::task: a future of 16,000 bytes, 100 of them (spawned at "
			      "src/main.rs:7 (app::main)): each spawn copies it\n");
	/* Large, but few. */
	sizes("app::task", 16000, 16000, 10);
	finds("large-future", NULL);
	sizes(box, 8, 20000, 100);
	finds("boxed-future", "app::task: a future of 20,000 bytes, 100 of them (spawned at "
			      "src/main.rs:7 (app::main)), in a box of its own\n");
	sizes("core::pin::Pin<alloc::boxed::Box<dyn core::future::Future>>", 16, 20000, 100);
	finds("boxed-future", NULL);
	task_kind.full_name = "app::task";
	task_kind.future_bytes = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deadlock),
		cmocka_unit_test(test_read_twice),
		cmocka_unit_test(test_semaphore),
		cmocka_unit_test(test_lost_task),
		cmocka_unit_test(test_pool_stuck),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_guard),
		cmocka_unit_test(test_guards),
		cmocka_unit_test(test_idle_waits),
		cmocka_unit_test(test_waits_since),
		cmocka_unit_test(test_held_future),
		cmocka_unit_test(test_held_future_moment),
		cmocka_unit_test(test_open_poll_in_call),
		cmocka_unit_test(test_spin_closed),
		cmocka_unit_test(test_held_future_late),
		cmocka_unit_test(test_channel),
		cmocka_unit_test(test_channel_grows),
		cmocka_unit_test(test_sends),
		cmocka_unit_test(test_stuck_behind_call),
		cmocka_unit_test(test_sends_to_nobody),
		cmocka_unit_test(test_pending),
		cmocka_unit_test(test_rests),
		cmocka_unit_test(test_no_tasks),
		cmocka_unit_test(test_unserved),
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_runtime_drop),
		cmocka_unit_test(test_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
