/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each cause of docs/causes.md on a small recording whose truth is known. A recording goes through
 * the writer, the reader and the timeline, as a real one does. A tree is compared as text, one line a
 * node: cause, what of, its time. All times are exact.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/buf.h"
#include "causes/data.h"
#include "timeline/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START 5000000000ull
#define N_THREADS 6

enum { K_TASK, K_OTHER, K_THIRD, K_JOB, K_ROOT, K_WORKER, K_HANDLER, N_KINDS };

static const struct trace_kind kinds[N_KINDS] = {
	[K_TASK] = {.name = "app::task", .full_name = "app::task"},
	[K_OTHER] = {.name = "app::other", .full_name = "app::other"},
	[K_THIRD] = {.name = "app::third", .full_name = "app::third"},
	[K_JOB] = {.role = TR_BLOCKING, .name = "app::job", .full_name = "app::job"},
	[K_ROOT] = {.role = TR_ROOT, .name = "block_on", .scheduler = "multi_thread"},
	[K_WORKER] = {.role = TR_WORKER, .name = "Launch::launch", .full_name = "Launch::launch"},
	[K_HANDLER] = {.role = TR_FUTURE,
		       .name = "app::order",
		       .full_name = "app::order",
		       .flags = TRACE_KIND_HANDLER},
};

enum {
	P_NONE,
	P_LOCK,
	P_SLEEP,
	P_SOCKET,
	P_CHANNEL,
	P_JOIN,
	P_SELECT,
	P_LOCK_2,
	P_SEND,
	P_YIELD,
	N_PLACES
};

static const struct trace_place places[N_PLACES - 1] = {
	[P_LOCK - 1] = {.function = "app::a",
			.file = "m.rs",
			.line = 10,
			.awaits = "tokio::sync::mutex::lock"},
	[P_SLEEP - 1] = {.function = "app::b",
			 .file = "m.rs",
			 .line = 20,
			 .awaits = "tokio::time::sleep::Sleep"},
	[P_SOCKET - 1] = {.function = "app::c",
			  .file = "m.rs",
			  .line = 30,
			  .awaits = "tokio::net::tcp::readable"},
	[P_CHANNEL - 1] = {.function = "app::d",
			   .file = "m.rs",
			   .line = 40,
			   .awaits = "tokio::sync::mpsc::recv"},
	[P_JOIN - 1] = {.function = "app::e",
			.file = "m.rs",
			.line = 50,
			.awaits = "tokio::task::JoinHandle<()>"},
	[P_SELECT - 1] = {.function = "app::f",
			  .file = "m.rs",
			  .line = 60,
			  .flags = TRACE_PLACE_BRANCHES,
			  .awaits = "select!"},
	[P_SEND - 1] = {.function = "app::h",
			.file = "m.rs",
			.line = 80,
			.awaits = "tokio::sync::mpsc::bounded::send::Acquire"},
	[P_YIELD - 1] = {.function = "app::i",
			 .file = "m.rs",
			 .line = 90,
			 .awaits = "tokio::task::yield_now::yield_now"},
	[P_LOCK_2 - 1] = {.function = "app::g",
			  .file = "m.rs",
			  .line = 70,
			  .awaits = "tokio::sync::mutex::lock"},
};

enum { N_BACKUP = 1, N_BACKUP_2, N_OWN, N_IDLE, N_NEIGHBOURS };

static const struct trace_neighbour neighbours[N_NEIGHBOURS - 1] = {
	[N_BACKUP - 1] = {.pid = 900, .tid = 901, .name = "backup"},
	[N_BACKUP_2 - 1] = {.pid = 902, .tid = 902, .name = "backup"},
	[N_OWN - 1] = {.pid = 42, .tid = 101, .name = "worker"},
	[N_IDLE - 1] = {.flags = TRACE_NEIGHBOUR_IDLE, .name = "idle"},
};

/* ---- a recording ---- */

struct recording {
	struct trace_event events[1024];
	size_t n;
};

static void at(struct recording *rec, uint64_t time, unsigned thread, unsigned type, unsigned arg,
	       uint32_t kind, uint64_t task, uint64_t value)
{
	assert_true(rec->n < sizeof(rec->events) / sizeof(rec->events[0]));
	rec->events[rec->n++] = (struct trace_event){
		.time = START + time,
		.thread = thread,
		.type = type,
		.arg = arg,
		.kind = kind,
		.task = task,
		.value = value,
	};
}

#define RECORD(name) struct recording name##_memory = {.n = 0}, *name = &name##_memory

static void spawn(struct recording *rec, uint64_t t, unsigned thread, uint32_t kind, uint64_t task)
{
	at(rec, t, thread, TE_SPAWN, TRACE_SPAWN_NAMED, kind, task, 0);
}

static void begin(struct recording *rec, uint64_t t, unsigned thread, uint32_t kind, uint64_t task)
{
	at(rec, t, thread, TE_POLL_BEGIN, 0, kind, task, 0);
}

static void end(struct recording *rec, uint64_t t, unsigned thread, uint32_t kind, uint64_t task,
		unsigned outcome, unsigned place)
{
	at(rec, t, thread, TE_POLL_END, outcome, kind, task, place);
}

static void poll(struct recording *rec, uint64_t from, uint64_t to, unsigned thread, uint32_t kind,
		 uint64_t task, unsigned outcome, unsigned place)
{
	begin(rec, from, thread, kind, task);
	end(rec, to, thread, kind, task, outcome, place);
}

static void wake(struct recording *rec, uint64_t t, unsigned thread, uint32_t kind, uint64_t task)
{
	at(rec, t, thread, TE_WAKE, TW_SCHEDULED, kind, task, 0);
}

static void resource(struct recording *rec, uint64_t t, unsigned thread, unsigned type,
		     uint64_t address)
{
	at(rec, t, thread, TE_RESOURCE, type, TRACE_KIND_NONE, address, 0);
}

static void block(struct recording *rec, uint64_t from, uint64_t to, unsigned thread, unsigned call)
{
	at(rec, to, thread, TE_BLOCK, call, TRACE_KIND_NONE, 0, to - from);
}

static void park(struct recording *rec, uint64_t from, uint64_t to, unsigned thread, unsigned call)
{
	at(rec, from, thread, TE_PARK, call, TRACE_KIND_NONE, 0, 0);
	at(rec, to, thread, TE_UNPARK, call, TRACE_KIND_NONE, 0, 0);
}

static void write_recording(const struct recording *rec, const char *path)
{
	struct error err = {0};
	struct trace_writer *w;
	uint32_t index;
	const struct trace_process process = {.pid = 42, .exe = "/srv/app", .start_ns = START};
	const struct trace_runtime runtime = {.name = "tokio", .object = "/srv/app"};

	assert_int_equal(trace_writer_open(path, &w, &err), 0);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	assert_int_equal(trace_writer_runtime(w, &runtime, &index), 0);
	for (size_t i = 0; i < N_KINDS; i++)
		assert_int_equal(trace_writer_kind(w, &kinds[i], &index), 0);
	for (unsigned i = 0; i < N_THREADS; i++) {
		const struct trace_thread thread = {.tid = 100 + i, .name = "worker"};

		assert_int_equal(trace_writer_thread(w, &thread, &index), 0);
	}
	for (size_t i = 0; i < N_NEIGHBOURS - 1; i++)
		assert_int_equal(trace_writer_neighbour(w, &neighbours[i], &index), 0);
	for (size_t i = 0; i < N_PLACES - 1; i++)
		assert_int_equal(trace_writer_place(w, &places[i], &index), 0);
	assert_int_equal(trace_writer_frame(w,
					    &(struct trace_frame){.function = "app::sweep",
								  .object = "/srv/app",
								  .file = "src/sweep.rs",
								  .line = 104},
					    &index),
			 0);
	assert_int_equal(trace_writer_frame(w,
					    &(struct trace_frame){.function = "app::task",
								  .object = "/srv/app",
								  .file = "src/m.rs",
								  .line = 7},
					    &index),
			 0);
	assert_int_equal(trace_writer_stack(w, &(struct trace_stack){.frame = 0}, &index), 0);
	assert_int_equal(trace_writer_stack(w, &(struct trace_stack){.frame = 1}, &index), 0);
	assert_int_equal(
		trace_writer_stack(w, &(struct trace_stack){.frame = 0, .parent = 2}, &index), 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		for (size_t k = 0; k < rec->n; k++)
			if (rec->events[k].thread == i)
				assert_int_equal(trace_writer_events(w, i, &rec->events[k], 1), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);
}

static struct causes *causes_of(const struct recording *rec, const struct causes_options *opt,
				struct trace_reader **ret_reader)
{
	char path[] = "/tmp/test_causes.XXXXXX";
	struct error err = {0};
	int fd = mkstemp(path);
	struct causes *c;

	assert_true(fd >= 0);
	close(fd);
	write_recording(rec, path);
	assert_int_equal(trace_reader_open(path, ret_reader, &err), 0);
	c = causes_new(*ret_reader, opt);
	assert_non_null(c);
	struct fan_out_sink one = causes_sink(c);

	if (timeline_replay(*ret_reader, NULL, one.sink, one.ctx, NULL, NULL, NULL, NULL, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(causes_judge(c), 0);
	unlink(path);
	return c;
}

static void write_node(const struct causes *c, struct buf *out, const struct shown_tree *s,
		       uint32_t node)
{
	const struct node *n = &s->tree->nodes[node];
	uint64_t ns = n->sums[s->type].ns.sum, below = 0;

	buf_printf(out, "%*s", n->depth * 2, "");
	if (node)
		words_node(c, out, s->tree, node);
	else
		words_family(c, out, s->tree);
	buf_printf(out, " %llu\n", (unsigned long long)ns);
	for (uint32_t i = node + 1; i < s->tree->n_nodes; i++) {
		const struct node *child = &s->tree->nodes[i];

		if (child->parent != node || !child->sums[s->type].ns.count)
			continue;
		below += child->sums[s->type].ns.sum;
		write_node(c, out, s, i);
	}
	/* All of a cause's time is in those below it, if it has any. */
	assert_true(below == ns || !below);
}

/* The tree of the family, of its units that are shown. */
static void expect(const struct recording *rec, enum causes_unit unit, uint32_t kind,
		   const char *want)
{
	const struct causes_options opt = {.unit = unit};
	struct trace_reader *reader;
	struct causes *c = causes_of(rec, &opt, &reader);
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < c->n_shown; i++)
		if (c->shown[i].tree->kind == kind)
			write_node(c, &out, &c->shown[i], 0);
	assert_string_equal(out.data ? out.data : "", want);
	buf_done(&out);
	causes_free(c);
	trace_reader_free(reader);
}

/* A worker that polls a task early: its thread is known. */
static void worker(struct recording *rec, unsigned thread)
{
	begin(rec, thread, thread, K_WORKER, 900 + thread);
}

/* ---- a task alone ---- */

static void test_polls(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 100, 0, K_TASK, 1);
	begin(rec, 130, 0, K_TASK, 1);
	block(rec, 140, 190, 0, TB_NANOSLEEP);
	end(rec, 200, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 100\n"
	       "  ready, not polled 30\n"
	       "    unknown: before its first event 30\n"
	       "  polled 20\n"
	       "  in nanosleep 50\n");
}

/* Ready while its thread does other things. */
static void test_ready(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	park(rec, 50, 90, 0, TB_FUTEX);
	spawn(rec, 60, 1, K_TASK, 1);
	begin(rec, 100, 0, K_OTHER, 2);
	block(rec, 110, 150, 0, TB_READ);
	end(rec, 160, 0, K_OTHER, 2, TO_READY, 0);
	poll(rec, 165, 200, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 140\n"
	       "  ready, not polled 105\n"
	       "    its thread was between polls 15\n"
	       "    its thread was busy with other 60\n"
	       "      polled 20\n"
	       "      in read 40\n"
	       "    its thread was parked 30\n"
	       "  polled 35\n");
}

static void test_driver(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 100, 0, K_TASK, 1);
	poll(rec, 100, 110, 0, K_TASK, 1, TO_PENDING, P_SLEEP);
	park(rec, 110, 200, 0, TB_EPOLL_WAIT);
	wake(rec, 200, 0, K_TASK, 1);
	poll(rec, 200, 210, 0, K_TASK, 1, TO_PENDING, P_SOCKET);
	park(rec, 210, 300, 0, TB_EPOLL_WAIT);
	wake(rec, 300, 0, K_TASK, 1);
	poll(rec, 300, 310, 0, K_TASK, 1, TO_PENDING, P_SELECT);
	park(rec, 310, 400, 0, TB_EPOLL_WAIT);
	wake(rec, 400, 0, K_TASK, 1);
	poll(rec, 400, 410, 0, K_TASK, 1, TO_PENDING, P_CHANNEL);
	wake(rec, 500, 5, K_TASK, 1);
	poll(rec, 500, 510, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 410\n"
	       "  polled 50\n"
	       "  waiting for time::sleep::Sleep at m.rs:20 app::b 90\n"
	       "    for a timer 90\n"
	       "  waiting for net::tcp::readable at m.rs:30 app::c 90\n"
	       "    for I/O 90\n"
	       "  waiting for select! at m.rs:60 app::f 90\n"
	       "    for a timer or I/O 90\n"
	       "  waiting for mpsc::recv at m.rs:40 app::d 90\n"
	       "    for thread worker 90\n");
}

#define US 1000ull

/* The event may have come while no thread looked: the one that had looked last was in a poll. */
static void unlooked(struct recording *rec, unsigned looks)
{
	worker(rec, 0);
	worker(rec, 1);
	spawn(rec, 900 * US, 1, K_OTHER, 2);
	spawn(rec, 1000 * US, 0, K_TASK, 1);
	poll(rec, 1000 * US, 2000 * US, 0, K_TASK, 1, TO_PENDING, P_SOCKET);
	poll(rec, 2000 * US, 2100 * US, 0, K_OTHER, 2, TO_PENDING, P_SLEEP);
	park(rec, 2100 * US, 10000 * US, 0, TB_EPOLL_WAIT);
	wake(rec, 10000 * US, 0, K_OTHER, 2);
	begin(rec, 10000 * US, 0, K_OTHER, 2);
	block(rec, 15000 * US, 55000 * US, 0, TB_NANOSLEEP);
	if (!looks)
		end(rec, 60000 * US, 0, K_OTHER, 2, TO_READY, 0);
	park(rec, 61000 * US, 61010 * US, looks, TB_EPOLL_WAIT);
	wake(rec, 61010 * US, looks, K_TASK, 1);
	poll(rec, 61010 * US, 61020 * US, looks, K_TASK, 1, TO_READY, 0);
}

static void test_unlooked(void **state)
{
	(void)state;
	RECORD(rec);
	unlooked(rec, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 60020000\n"
	       "  polled 1010000\n"
	       "  waiting for net::tcp::readable at m.rs:30 app::c 59010000\n"
	       "    for I/O 8010000\n"
	       "    no thread looked for timers and I/O 51000000\n"
	       "      its thread was between polls 1000000\n"
	       "      its thread was busy with other 50000000\n"
	       "        polled 10000000\n"
	       "        in nanosleep 40000000\n");

	/* Another thread looks, while that poll goes on. */
	RECORD(more);
	unlooked(more, 1);
	expect(more, CU_TASK, K_TASK,
	       "app::task 60020000\n"
	       "  polled 1010000\n"
	       "  waiting for net::tcp::readable at m.rs:30 app::c 59010000\n"
	       "    for I/O 8010000\n"
	       "    no thread looked for timers and I/O 51000000\n"
	       "      its thread was busy with other 51000000\n"
	       "        polled 11000000\n"
	       "        in nanosleep 40000000\n");
}

/* With --sched: without a CPU, asleep in a call that is not recorded otherwise, and in one that is. */
static void test_sched(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 100, 0, K_TASK, 1);
	begin(rec, 100, 0, K_TASK, 1);
	at(rec, 130, 0, TE_OFF_CPU, TX_PREEMPTED, TRACE_KIND_NONE, 0, 20);
	at(rec, 150, 0, TE_OFF_CPU, TX_SLEEPING, TRACE_KIND_NONE, 1, 10); /* read */
	/* A call that sleeps twice, and is without a CPU in between. The kernel's clock differs. */
	at(rec, 168, 0, TE_OFF_CPU, TX_SLEEPING, TRACE_KIND_NONE, 36, 9); /* nanosleep */
	at(rec, 171, 0, TE_OFF_CPU, TX_PREEMPTED, TRACE_KIND_NONE, 0, 2);
	at(rec, 179, 0, TE_OFF_CPU, TX_SLEEPING, TRACE_KIND_NONE, 36, 7);
	block(rec, 160, 180, 0, TB_NANOSLEEP);
	end(rec, 200, 0, K_TASK, 1, TO_READY, 0);
	spawn(rec, 200, 1, K_OTHER, 2);
	at(rec, 240, 0, TE_OFF_CPU, TX_PREEMPTED, TRACE_KIND_NONE, 0, 30);
	poll(rec, 250, 260, 0, K_OTHER, 2, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 100\n"
	       "  polled 50\n"
	       "  without a CPU 22\n"
	       "  off the CPU, in read 10\n"
	       "  in nanosleep 18\n");
	expect(rec, CU_TASK, K_OTHER,
	       "app::other 60\n"
	       "  ready, not polled 50\n"
	       "    its thread was between polls 20\n"
	       "    its thread had no CPU 30\n"
	       "  polled 10\n");
}

static void off_cpu(struct recording *rec, uint64_t from, uint64_t to, unsigned thread,
		    unsigned reason, uint64_t call)
{
	at(rec, to, thread, TE_OFF_CPU, reason, TRACE_KIND_NONE, call, to - from);
}

static void ran(struct recording *rec, uint64_t t, unsigned thread, uint64_t neighbour, uint64_t ns)
{
	at(rec, t, thread, TE_RAN_INSTEAD, 0, TRACE_KIND_NONE, neighbour, ns);
}

/* Who had the CPU: threads of one name together, one of the program's with what it did. After a sleep in a
 * call, too. */
static void test_who_ran(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	poll(rec, 2, 5, 1, K_THIRD, 3, TO_READY, 0);
	spawn(rec, 100, 0, K_TASK, 1);
	begin(rec, 100, 0, K_TASK, 1);
	spawn(rec, 105, 1, K_OTHER, 2);
	begin(rec, 110, 1, K_OTHER, 2);
	block(rec, 115, 170, 1, TB_READ);
	ran(rec, 200, 0, N_BACKUP, 30);
	ran(rec, 200, 0, N_OWN, 40);
	ran(rec, 200, 0, N_BACKUP_2, 10);
	off_cpu(rec, 120, 200, 0, TX_PREEMPTED, 0);
	at(rec, 295, 0, TE_WOKEN, 0, TRACE_KIND_NONE, N_OWN, 25);
	ran(rec, 295, 0, N_IDLE, 25);
	off_cpu(rec, 215, 295, 0, TX_SLEEPING, 36);
	block(rec, 210, 300, 0, TB_NANOSLEEP);
	at(rec, 306, 0, TE_LEFT_CPU, 0, TRACE_KIND_NONE, N_BACKUP_2, 1);
	off_cpu(rec, 303, 306, 0, TX_PREEMPTED, 0);
	end(rec, 310, 0, K_TASK, 1, TO_READY, 0);
	end(rec, 400, 1, K_OTHER, 2, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 210\n"
	       "  polled 37\n"
	       "  without a CPU 108\n"
	       "    its CPU ran backup 43\n"
	       "    its CPU ran worker of this program 40\n"
	       "      its thread was busy with other 40\n"
	       "        polled 20\n"
	       "        in read 20\n"
	       "    its CPU was idle 25\n"
	       "  in nanosleep 65\n");
}

/* A worker that was woken to poll a task, and had no CPU at first. */
static void test_parked_without_cpu(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 100, 0, K_TASK, 1);
	poll(rec, 100, 110, 0, K_TASK, 1, TO_PENDING, P_CHANNEL);
	at(rec, 130, 0, TE_PARK, TB_FUTEX, TRACE_KIND_NONE, 0, 0);
	poll(rec, 140, 145, 1, K_OTHER, 2, TO_PENDING, 0);
	begin(rec, 160, 1, K_OTHER, 2);
	wake(rec, 165, 1, K_TASK, 1);
	end(rec, 166, 1, K_OTHER, 2, TO_READY, 0);
	at(rec, 195, 0, TE_WOKEN, 0, TRACE_KIND_NONE, N_OWN, 25);
	ran(rec, 195, 0, N_BACKUP, 20);
	off_cpu(rec, 131, 195, 0, TX_SLEEPING, 203);
	at(rec, 200, 0, TE_UNPARK, TB_FUTEX, TRACE_KIND_NONE, 0, 0);
	poll(rec, 205, 210, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 110\n"
	       "  polled 15\n"
	       "  waiting for mpsc::recv at m.rs:40 app::d 55\n"
	       "    for other 55\n"
	       "      polled 10\n"
	       "      waiting at a place that is not known 15\n"
	       "        unknown: its wake was not seen 15\n"
	       "      unknown: before its first event 30\n"
	       "  ready, not polled 40\n"
	       "    its thread was between polls 5\n"
	       "    its thread was parked 10\n"
	       "    its thread had no CPU 25\n"
	       "      its CPU ran backup 20\n"
	       "      what its CPU ran is not known 5\n");
}

/* The stack that was taken in a call says where it is; one that was taken elsewhere does not. */
static void test_stack(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 100, 0, K_TASK, 1);
	begin(rec, 100, 0, K_TASK, 1);
	at(rec, 130, 0, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 30, 1);
	block(rec, 110, 140, 0, TB_NANOSLEEP);
	block(rec, 150, 160, 0, TB_NANOSLEEP);
	end(rec, 170, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 70\n"
	       "  polled 30\n"
	       "  in nanosleep at src/sweep.rs:104 app::sweep 30\n"
	       "  in nanosleep 10\n");
}

/* Calls whose stacks differ, but not in the line of the program's own code, are one cause. */
static void test_stacks_alike(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 100, 0, K_TASK, 1);
	for (unsigned i = 0; i < 3; i++) {
		begin(rec, 100 + i * 50, 0, K_TASK, 1);
		at(rec, 110 + i * 50, 0, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 10, i + 1);
		block(rec, 105 + i * 50, 120 + i * 50, 0, TB_NANOSLEEP);
		at(rec, 125 + i * 50, 0, TE_WAKE, TW_RUNNING, K_TASK, 1, 0);
		end(rec, 150 + i * 50, 0, K_TASK, 1, i < 2 ? TO_PENDING : TO_READY, 0);
	}
	expect(rec, CU_TASK, K_TASK,
	       "app::task 150\n"
	       "  polled 105\n"
	       "  in nanosleep at src/sweep.rs:104 app::sweep 30\n"
	       "  in nanosleep at src/m.rs:7 app::task 15\n");
}

/* A waiting task that is cancelled, one that yields, one that still waits at the end. */
static void test_ends(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_CHANNEL);
	at(rec, 70, 0, TE_CANCEL, TO_CANCELLED, K_TASK, 1, 0);
	spawn(rec, 70, 0, K_OTHER, 2);
	begin(rec, 70, 0, K_OTHER, 2);
	at(rec, 75, 0, TE_WAKE, TW_RUNNING, K_OTHER, 2, 0);
	end(rec, 80, 0, K_OTHER, 2, TO_PENDING, P_CHANNEL);
	poll(rec, 85, 90, 0, K_OTHER, 2, TO_READY, 0);
	spawn(rec, 90, 0, K_THIRD, 3);
	poll(rec, 90, 95, 0, K_THIRD, 3, TO_PENDING, P_JOIN);
	park(rec, 95, 195, 0, TB_EPOLL_WAIT);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 60\n"
	       "  polled 10\n"
	       "  waiting for mpsc::recv at m.rs:40 app::d 50\n"
	       "    until it was cancelled 50\n");
	expect(rec, CU_TASK, K_OTHER,
	       "app::other 20\n"
	       "  polled 15\n"
	       "  ready, not polled 5\n"
	       "    its thread was between polls 5\n");
	expect(rec, CU_TASK, K_THIRD,
	       "app::third 105\n"
	       "  polled 5\n"
	       "  waiting for task::JoinHandle<()> at m.rs:50 app::e 100\n"
	       "    still, at the end 100\n");
}

/* The worker parks twice before it fires the waker of a task that has yielded. What is awaited is
 * no I/O, though "tokio::" ends like "io::", and no round begins. */
static void test_yield(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_YIELD);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t t = 100 * (i + 1);

		park(rec, t - 70, t - 20, 0, TB_EPOLL_WAIT);
		park(rec, t - 20, t, 0, TB_EPOLL_WAIT);
		wake(rec, t, 0, K_TASK, 1);
		poll(rec, t, t + 10, 0, K_TASK, 1, TO_PENDING, P_YIELD);
	}
	park(rec, 310, 400, 0, TB_EPOLL_WAIT);
	expect(rec, CU_AUTO, K_TASK,
	       "app::task 390\n"
	       "  polled 40\n"
	       "  waiting for task::yield_now::yield_now at m.rs:90 app::i 350\n"
	       "    it had yielded 260\n"
	       "    still, at the end 90\n");
}

/* One task ended at once, two wait still: these are shown, unless whole ones are asked for. */
static void test_parts(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	for (unsigned i = 1; i <= 3; i++) {
		spawn(rec, 10 * i, 0, K_TASK, i);
		poll(rec, 10 * i, 10 * i + 5, 0, K_TASK, i, i == 1 ? TO_READY : TO_PENDING,
		     i == 1 ? P_NONE : P_CHANNEL);
	}
	park(rec, 35, 100, 0, TB_EPOLL_WAIT);
	expect(rec, CU_AUTO, K_TASK,
	       "app::task 150\n"
	       "  polled 10\n"
	       "  waiting for mpsc::recv at m.rs:40 app::d 140\n"
	       "    still, at the end 140\n");
	expect(rec, CU_TASK, K_TASK, "app::task 5\n  polled 5\n");
}

/* ---- tasks that wait for tasks ---- */

/* A message through three tasks: what each did since the first began to wait. */
static void test_chain(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	worker(rec, 1);
	spawn(rec, 10, 0, K_OTHER, 2);
	spawn(rec, 10, 0, K_THIRD, 3);
	poll(rec, 20, 30, 0, K_OTHER, 2, TO_PENDING, P_CHANNEL);
	poll(rec, 30, 40, 1, K_THIRD, 3, TO_PENDING, P_SLEEP);
	spawn(rec, 100, 0, K_TASK, 1);
	poll(rec, 100, 110, 0, K_TASK, 1, TO_PENDING, P_CHANNEL);
	park(rec, 110, 200, 1, TB_EPOLL_WAIT);
	wake(rec, 200, 1, K_THIRD, 3);
	begin(rec, 205, 1, K_THIRD, 3);
	wake(rec, 220, 1, K_OTHER, 2); /* it has worked for 15 */
	end(rec, 230, 1, K_THIRD, 3, TO_READY, 0);
	begin(rec, 240, 0, K_OTHER, 2);
	wake(rec, 270, 0, K_TASK, 1); /* 30 */
	end(rec, 280, 0, K_OTHER, 2, TO_READY, 0);
	poll(rec, 280, 290, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 190\n"
	       "  polled 20\n"
	       "  waiting for mpsc::recv at m.rs:40 app::d 160\n"
	       "    for other 160\n"
	       "      polled 30\n"
	       "      ready, not polled 20\n"
	       "        its thread was between polls 20\n"
	       "      waiting for mpsc::recv at m.rs:40 app::d 110\n"
	       "        for third 110\n"
	       "          polled 15\n"
	       "          ready, not polled 5\n"
	       "            its thread was between polls 5\n"
	       "          waiting for time::sleep::Sleep at m.rs:20 app::b 90\n"
	       "            for a timer 90\n"
	       "  ready, not polled 10\n"
	       "    its thread was busy with other 10\n"
	       "      polled 10\n");
}

/* Tasks 2 and 3 have the lock in turn before 1 gets it, each over a sleep. */
static void locks(struct recording *rec, uint64_t address, unsigned place)
{
	worker(rec, 0);
	worker(rec, 1);
	spawn(rec, 10, 0, K_OTHER, 2);
	spawn(rec, 10, 0, K_THIRD, 3);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 20, 30, 0, K_OTHER, 2, TO_PENDING, P_SLEEP); /* has it */
	begin(rec, 30, 1, K_THIRD, 3);
	if (address)
		resource(rec, 40, 1, TRACE_RESOURCE_MUTEX, address);
	end(rec, 40, 1, K_THIRD, 3, TO_PENDING, P_LOCK);
	begin(rec, 40, 1, K_TASK, 1);
	if (address)
		resource(rec, 50, 1, TRACE_RESOURCE_MUTEX, address);
	end(rec, 50, 1, K_TASK, 1, TO_PENDING, place);
	park(rec, 50, 100, 1, TB_EPOLL_WAIT);
	wake(rec, 100, 1, K_OTHER, 2);
	begin(rec, 100, 1, K_OTHER, 2);
	wake(rec, 110, 1, K_THIRD, 3); /* lets go */
	end(rec, 120, 1, K_OTHER, 2, TO_READY, 0);
	poll(rec, 120, 130, 1, K_THIRD, 3, TO_PENDING, P_SLEEP); /* has it */
	park(rec, 130, 200, 1, TB_EPOLL_WAIT);
	wake(rec, 200, 1, K_THIRD, 3);
	begin(rec, 200, 1, K_THIRD, 3);
	wake(rec, 205, 1, K_TASK, 1); /* lets go */
	end(rec, 210, 1, K_THIRD, 3, TO_READY, 0);
	poll(rec, 210, 220, 1, K_TASK, 1, TO_READY, 0);
}

static void test_lock(void **state)
{
	RECORD(rec);
	(void)state;
	locks(rec, 0x7000, P_LOCK_2);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 210\n"
	       "  ready, not polled 35\n"
	       "    its thread was busy with third 15\n"
	       "      polled 15\n"
	       "    unknown: before its first event 20\n"
	       "  polled 20\n"
	       "  waiting for mutex::lock at m.rs:70 app::g 155\n"
	       "    held by third 95\n"
	       "      polled 15\n"
	       "      waiting for time::sleep::Sleep at m.rs:20 app::b 70\n"
	       "        for a timer 70\n"
	       "      ready, not polled 10\n"
	       "        its thread was busy with other 10\n"
	       "          polled 10\n"
	       "    held by other 60\n"
	       "      polled 10\n"
	       "      waiting for time::sleep::Sleep at m.rs:20 app::b 50\n"
	       "        for a timer 50\n");
}

/* The longest of each, by the numbers of the tasks. */
static void test_longest(void **state)
{
	const struct causes_options opt = {.unit = CU_TASK};
	struct trace_reader *reader;
	RECORD(rec);
	(void)state;
	locks(rec, 0x7000, P_LOCK_2);
	struct causes *c = causes_of(rec, &opt, &reader);
	unsigned n = 0;

	for (size_t i = 0; i < c->n_shown; i++) {
		const struct tree *t = c->shown[i].tree;

		if (t->kind != K_TASK)
			continue;
		assert_int_equal(t->units[UNIT_TASK].longest_task, 1);
		for (size_t k = 0; k < t->n_nodes; k++) {
			if (t->nodes[k].type != NT_HOLDER)
				continue;
			assert_int_equal(t->nodes[k].longest_task,
					 t->nodes[k].a == K_OTHER ? 2 : 3);
			assert_int_equal(t->nodes[k].longest_ns,
					 t->nodes[k].a == K_OTHER ? 60 : 95);
			n++;
		}
	}
	assert_int_equal(n, 2);
	causes_free(c);
	trace_reader_free(reader);
}

/* Without addresses two waits at one point are for one lock. */
static void test_lock_by_place(void **state)
{
	RECORD(rec);
	(void)state;
	locks(rec, 0, P_LOCK);
	const struct causes_options opt = {.unit = CU_TASK};
	struct trace_reader *reader;
	struct causes *c = causes_of(rec, &opt, &reader);
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < c->n_shown; i++)
		if (c->shown[i].tree->kind == K_TASK)
			write_node(c, &out, &c->shown[i], 0);
	assert_non_null(strstr(out.data, "    held by third 95\n"));
	assert_non_null(strstr(out.data, "    held by other 60\n"));
	buf_done(&out);
	causes_free(c);
	trace_reader_free(reader);
}

/* A full channel: its receiver is no holder, also not one that itself waited to send. */
static void test_full_channel(void **state)
{
	(void)state;
	for (unsigned known = 0; known < 2; known++) {
		RECORD(rec);
		worker(rec, 0);
		spawn(rec, 10, 0, K_OTHER, 2);
		poll(rec, 10, 20, 0, K_OTHER, 2, TO_PENDING, P_SLEEP);
		spawn(rec, 20, 0, K_TASK, 1);
		begin(rec, 20, 0, K_TASK, 1);
		if (known)
			resource(rec, 30, 0, TRACE_RESOURCE_CHANNEL, 0x8000);
		end(rec, 30, 0, K_TASK, 1, TO_PENDING, P_SEND);
		park(rec, 30, 90, 0, TB_EPOLL_WAIT);
		wake(rec, 90, 0, K_OTHER, 2);
		begin(rec, 90, 0, K_OTHER, 2);
		wake(rec, 95, 0, K_TASK, 1);
		end(rec, 100, 0, K_OTHER, 2, TO_READY, 0);
		poll(rec, 100, 110, 0, K_TASK, 1, TO_READY, 0);
		expect(rec, CU_TASK, K_TASK,
		       "app::task 90\n"
		       "  polled 20\n"
		       "  waiting for mpsc::bounded::send::Acquire at m.rs:80 app::h 65\n"
		       "    for other 65\n"
		       "      polled 5\n"
		       "      waiting for time::sleep::Sleep at m.rs:20 app::b 60\n"
		       "        for a timer 60\n"
		       "  ready, not polled 5\n"
		       "    its thread was busy with other 5\n"
		       "      polled 5\n");
	}
}

/* A closure on the blocking pool, which is queued and run, and then wakes the task. */
static void test_blocking(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	poll(rec, 20, 70, 2, K_JOB, 8, TO_READY, 0);
	poll(rec, 70, 150, 2, K_JOB, 8 + 1, TO_READY, 0);
	spawn(rec, 90, 0, K_TASK, 1);
	begin(rec, 90, 0, K_TASK, 1);
	spawn(rec, 100, 0, K_JOB, 20);
	end(rec, 110, 0, K_TASK, 1, TO_PENDING, P_JOIN);
	begin(rec, 155, 2, K_JOB, 20);
	block(rec, 160, 190, 2, TB_FSYNC);
	wake(rec, 195, 2, K_TASK, 1);
	end(rec, 200, 2, K_JOB, 20, TO_READY, 0);
	poll(rec, 195, 205, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 115\n"
	       "  polled 30\n"
	       "  waiting for task::JoinHandle<()> at m.rs:50 app::e 85\n"
	       "    for job 85\n"
	       "      running 10\n"
	       "      in fsync 30\n"
	       "      queued for a blocking thread 45\n"
	       "        its thread was between polls 5\n"
	       "        its thread was busy with job 40\n"
	       "          running 40\n");
}

/* A task is awaited that is spawned only later, by a third. */
/* A thread that had done nothing before was made for it. */
static void test_new_thread(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	park(rec, 10, 20, 0, TB_FUTEX);
	spawn(rec, 90, 0, K_TASK, 5);
	begin(rec, 90, 0, K_TASK, 5);
	spawn(rec, 100, 0, K_JOB, 1);
	end(rec, 110, 0, K_TASK, 5, TO_PENDING, P_JOIN);
	begin(rec, 150, 3, K_JOB, 1);
	wake(rec, 170, 3, K_TASK, 5);
	end(rec, 170, 3, K_JOB, 1, TO_READY, 0);
	poll(rec, 170, 180, 0, K_TASK, 5, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 90\n"
	       "  polled 30\n"
	       "  waiting for task::JoinHandle<()> at m.rs:50 app::e 60\n"
	       "    for job 60\n"
	       "      running 20\n"
	       "      queued for a blocking thread 40\n"
	       "        a new thread of the pool was starting 40\n");
}

static void test_spawner(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	worker(rec, 1);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_CHANNEL);
	spawn(rec, 20, 1, K_THIRD, 3);
	begin(rec, 20, 1, K_THIRD, 3);
	block(rec, 30, 80, 1, TB_SLEEP);
	spawn(rec, 90, 1, K_OTHER, 2);
	end(rec, 95, 1, K_THIRD, 3, TO_READY, 0);
	begin(rec, 100, 1, K_OTHER, 2);
	wake(rec, 130, 1, K_TASK, 1);
	end(rec, 140, 1, K_OTHER, 2, TO_READY, 0);
	poll(rec, 130, 150, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 140\n"
	       "  polled 30\n"
	       "  waiting for mpsc::recv at m.rs:40 app::d 110\n"
	       "    for other 110\n"
	       "      polled 30\n"
	       "      ready, not polled 10\n"
	       "        its thread was between polls 5\n"
	       "        its thread was busy with third 5\n"
	       "          polled 5\n"
	       "      to be spawned by third 70\n"
	       "        polled 20\n"
	       "        in sleep 50\n");
}

/* ---- rounds ---- */

static void test_rounds(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_SOCKET);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t t = 100 * (i + 1);

		park(rec, t - 70, t, 0, TB_EPOLL_WAIT);
		wake(rec, t, 0, K_TASK, 1);
		poll(rec, t + 2, t + 10, 0, K_TASK, 1, TO_PENDING, P_SLEEP);
		park(rec, t + 10, t + 20, 0, TB_EPOLL_WAIT);
		wake(rec, t + 20, 0, K_TASK, 1);
		poll(rec, t + 20, t + 25, 0, K_TASK, 1, TO_PENDING, P_SOCKET);
	}
	expect(rec, CU_ROUND, K_TASK,
	       "app::task 75\n"
	       "  polled 39\n"
	       "  waiting for time::sleep::Sleep at m.rs:20 app::b 30\n"
	       "    for a timer 30\n"
	       "  ready, not polled 6\n"
	       "    its thread was between polls 6\n");
}

/* The first one from the spawn on, the last one to the end, and one that is not over: if the task waited for
 * something else than the next request. */
static void test_first_and_last_round(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	/* The family's head point is found. */
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_SOCKET);
	park(rec, 20, 100, 0, TB_EPOLL_WAIT);
	wake(rec, 100, 0, K_TASK, 1);
	poll(rec, 100, 110, 0, K_TASK, 1, TO_READY, 0); /* its client has gone: no round */
	/* A request that had come before its task, and one that is the last. */
	spawn(rec, 200, 0, K_TASK, 2);
	poll(rec, 200, 210, 0, K_TASK, 2, TO_PENDING, P_SLEEP);
	park(rec, 210, 240, 0, TB_EPOLL_WAIT);
	wake(rec, 240, 0, K_TASK, 2);
	poll(rec, 240, 250, 0, K_TASK, 2, TO_PENDING, P_SOCKET);
	park(rec, 250, 300, 0, TB_EPOLL_WAIT);
	wake(rec, 300, 0, K_TASK, 2);
	poll(rec, 300, 310, 0, K_TASK, 2, TO_PENDING, P_SLEEP);
	park(rec, 310, 360, 0, TB_EPOLL_WAIT);
	wake(rec, 360, 0, K_TASK, 2);
	poll(rec, 360, 370, 0, K_TASK, 2, TO_READY, 0);
	/* One that waits still. */
	spawn(rec, 400, 0, K_TASK, 3);
	poll(rec, 400, 410, 0, K_TASK, 3, TO_PENDING, P_SOCKET);
	park(rec, 410, 500, 0, TB_EPOLL_WAIT);
	wake(rec, 500, 0, K_TASK, 3);
	poll(rec, 500, 510, 0, K_TASK, 3, TO_PENDING, P_LOCK);
	park(rec, 510, 700, 0, TB_EPOLL_WAIT);
	expect(rec, CU_ROUND, K_TASK,
	       "app::task 320\n" /* 50 + 70 + 200 */
	       "  polled 50\n"
	       "  waiting for time::sleep::Sleep at m.rs:20 app::b 80\n"
	       "    for a timer 80\n"
	       "  waiting for mutex::lock at m.rs:10 app::a 190\n"
	       "    still, at the end 190\n");
}

/* Before await points are known, a task may have waited between rounds: what it did since its spawn is none. */
static void test_first_round_without_places(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_NONE);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t t = 100 * (i + 1);

		park(rec, t - 70, t, 0, TB_EPOLL_WAIT);
		wake(rec, t, 0, K_TASK, 1);
		poll(rec, t, t + 10, 0, K_TASK, 1, TO_PENDING, i ? P_SOCKET : P_NONE);
	}
	expect(rec, CU_ROUND, K_TASK, "app::task 10\n  polled 10\n");
}

/* A round that began at what was the head point then is none, wherever it ends. */
static void test_head_changes(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_SLEEP);
	spawn(rec, 20, 0, K_TASK, 2);
	poll(rec, 20, 30, 0, K_TASK, 2, TO_PENDING, P_SOCKET);
	park(rec, 30, 100, 0, TB_EPOLL_WAIT);
	wake(rec, 100, 0, K_TASK, 1); /* a timer: the head, until the socket's */
	poll(rec, 100, 110, 0, K_TASK, 1, TO_PENDING, P_LOCK);
	park(rec, 110, 200, 0, TB_EPOLL_WAIT);
	wake(rec, 200, 0, K_TASK, 2);
	begin(rec, 200, 0, K_TASK, 2);
	wake(rec, 205, 0, K_TASK, 1);
	end(rec, 210, 0, K_TASK, 2, TO_PENDING, P_SOCKET);
	poll(rec, 210, 220, 0, K_TASK, 1, TO_PENDING, P_SOCKET);
	expect(rec, CU_ROUND, K_TASK, "app::task 10\n  polled 10\n");
}

/* Requests of a handler, which begins and ends within polls. */
static void test_handler(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 10, 0, K_TASK, 1);
	begin(rec, 10, 0, K_TASK, 1);
	at(rec, 15, 0, TE_FUTURE_BEGIN, TRACE_FUTURE_FIRST, K_HANDLER, 0x100, 0);
	at(rec, 18, 0, TE_FUTURE_END, TO_PENDING, K_HANDLER, 0x100, P_SLEEP);
	end(rec, 20, 0, K_TASK, 1, TO_PENDING, P_SLEEP);
	park(rec, 20, 100, 0, TB_EPOLL_WAIT);
	wake(rec, 100, 0, K_TASK, 1);
	begin(rec, 100, 0, K_TASK, 1);
	at(rec, 101, 0, TE_FUTURE_BEGIN, 0, K_HANDLER, 0x100, 0);
	block(rec, 103, 106, 0, TB_READ);
	at(rec, 108, 0, TE_FUTURE_END, TO_READY, K_HANDLER, 0x100, 0);
	end(rec, 120, 0, K_TASK, 1, TO_PENDING, P_SOCKET);
	expect(rec, CU_ROUND, K_TASK,
	       "task › order 93\n"
	       "  polled 10\n"
	       "  in read 3\n"
	       "  waiting for time::sleep::Sleep at m.rs:20 app::b 80\n"
	       "    for a timer 80\n");
}

/* ---- what is not known ---- */

static void test_lost(void **state)
{
	RECORD(rec);
	(void)state;
	worker(rec, 0);
	spawn(rec, 10, 0, K_TASK, 1);
	poll(rec, 10, 20, 0, K_TASK, 1, TO_PENDING, P_CHANNEL);
	at(rec, 40, 0, TE_LOST, 0, TRACE_KIND_NONE, 0, 3);
	poll(rec, 90, 100, 0, K_TASK, 1, TO_READY, 0);
	expect(rec, CU_TASK, K_TASK,
	       "app::task 90\n"
	       "  polled 20\n"
	       "  unknown: events are missing 70\n");
}

/* A task that waits for another for longer than the window reaches: the rest says so, and the sum
 * is right. */
static void test_window(void **state)
{
	struct history h = {0};
	uint64_t number, first = 0;

	(void)state;
	for (size_t i = 0; i < HISTORY_MAX + 10; i++) {
		struct segment *s = history_add(&h, &number);

		assert_non_null(s);
		s->begin_ns = i;
		if (!i)
			first = number;
	}
	assert_int_equal(h.cap, HISTORY_MAX);
	assert_null(history_get(&h, first));
	assert_null(history_get(&h, 0));
	assert_null(history_get(&h, number + 1));
	assert_int_equal(history_get(&h, number)->begin_ns, HISTORY_MAX + 9);
	assert_int_equal(history_get(&h, number - 1000)->begin_ns, HISTORY_MAX + 9 - 1000);
	history_done(&h);
}

static void test_slowest(void **state)
{
	struct trees all_trees = {0};
	struct tree t = {0};
	uint32_t a, b;

	(void)state;
	assert_int_equal(tree_init(&t, &all_trees), 0);
	a = tree_child(&t, &all_trees, 0, NT_POLLED, 0, 0);
	b = tree_child(&t, &all_trees, 0, NT_READY, 0, 0);
	for (unsigned i = 1; i <= 100; i++) {
		struct parts parts = {0};

		assert_int_equal(parts_add(&parts, a, 100), 0);
		if (i > 98)
			assert_int_equal(parts_add(&parts, b, 100000), 0);
		const struct unit unit = {UNIT_TASK, i > 98 ? 100100 : 100, i};

		assert_int_equal(tree_add_unit(&t, &all_trees, &unit, &parts), 0);
		parts_done(&parts);
	}
	struct slow_set set = tree_slowest(&t, UNIT_TASK, 0.01);
	struct cell *cells = tree_slow_cells(&t, UNIT_TASK, &set);

	assert_non_null(cells);
	assert_int_equal(set.n, 2);
	assert_int_equal(set.ns, 200200);
	assert_int_equal(cells[a].ns, 200);
	assert_int_equal(cells[b].ns, 200000);
	assert_int_equal(cells[b].n_units, 2);
	assert_int_equal(t.units[UNIT_TASK].longest_task, 100);
	free(cells);
	tree_clear(&t, &all_trees, UNIT_TASK);
	assert_int_equal(all_trees.n_cells, 0);
	assert_int_equal(t.units[UNIT_TASK].length.count, 0);
	tree_done(&t);
}

/* ---- limits ---- */

static uint64_t seed = 88172645463325252;

static uint64_t roll(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* Too many causes: their time is that of the one above; too many sums: units are left out, and
 * counted. */
static void test_too_many_causes(void **state)
{
	static struct trees all_trees;
	struct tree t = {0};
	struct parts parts = {0};
	const struct unit unit = {UNIT_TASK, 3000, 1};

	(void)state;
	assert_int_equal(tree_init(&t, &all_trees), 0);
	uint32_t wait = tree_child(&t, &all_trees, 0, NT_WAIT, 0, 1);

	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t node = tree_child(&t, &all_trees, wait, NT_TASK, i, 0);

		assert_int_equal(parts_add(&parts, node, 1), 0);
	}
	assert_int_equal(t.n_nodes, TREE_MAX_NODES);
	assert_int_equal(tree_add_unit(&t, &all_trees, &unit, &parts), 0);
	assert_int_equal(t.nodes[wait].sums[UNIT_TASK].ns.sum, 3000);
	assert_int_equal(t.nodes[wait].sums[UNIT_TASK].n, 3000);
	all_trees.n_cells = TREES_MAX_CELLS;
	assert_int_equal(tree_add_unit(&t, &all_trees, &unit, &parts), 0);
	assert_int_equal(t.units[UNIT_TASK].length.count, 1);
	assert_int_equal(t.units[UNIT_TASK].n_left_out, 1);
	parts_done(&parts);
	tree_done(&t);
}

/* A segment of a chain from `before`, which it follows. */
static uint64_t segment(struct causes *c, uint64_t before, enum segment_type type, uint64_t from,
			uint64_t to, uint64_t cause)
{
	uint64_t number;
	struct segment *s = history_add(&c->history, &number);

	assert_non_null(s);
	s->type = type;
	s->begin_ns = from;
	s->end_ns = to;
	s->before = segment_back(number, before);
	s->cause = segment_back(number, cause);
	s->kind = K_OTHER;
	s->woken_by = WB_TASK;
	return number;
}

/* The time from 0 to 100 of the chain with that head: how much of it is unknown for that reason. */
static uint64_t walked(struct causes *c, uint64_t head, enum node_type type, uint32_t reason)
{
	struct tree t = {0};
	struct parts parts = {0};
	uint64_t sum = 0, found = 0;

	assert_int_equal(tree_init(&t, &c->all_trees), 0);
	walk_own(c, &t, &parts, head, 0, 100);
	for (size_t i = 0; i < parts.n; i++) {
		const struct node *n = &t.nodes[parts.items[i].node];

		sum += parts.items[i].ns;
		if (n->type == type && n->a == reason)
			found += parts.items[i].ns;
	}
	assert_int_equal(sum, 100);
	parts_done(&parts);
	tree_done(&t);
	c->all_trees = (struct trees){0};
	return found;
}

static void test_budget(void **state)
{
	struct causes *c = causes_new(NULL, &(struct causes_options){0});
	uint64_t head = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		head = segment(c, head, SEG_RUN, i, i + 1, 0);
	assert_int_equal(walked(c, head, NT_UNKNOWN, UR_BUDGET), 0);
	c->credit = 30;
	assert_int_equal(walked(c, head, NT_UNKNOWN, UR_BUDGET), 70);
	assert_int_equal(c->credit, 0);
	causes_free(c);
}

static void test_past_the_window(void **state)
{
	struct causes *c = causes_new(NULL, &(struct causes_options){0});
	uint64_t head = segment(c, 0, SEG_RUN, 0, 60, 0);

	(void)state;
	for (size_t i = 0; i < HISTORY_MAX; i++)
		segment(c, 0, SEG_PARK, 0, 1, 0);
	head = segment(c, head, SEG_RUN, 60, 100, 0);
	assert_int_equal(walked(c, head, NT_UNKNOWN, UR_WINDOW), 60);
	causes_free(c);
}

/* What a thread did while a task was ready, up to a segment of it, as text. */
static char *while_ready(struct causes *c, uint32_t thread, uint64_t head, uint64_t from,
			 uint64_t to)
{
	struct tree t = {0};
	struct parts parts = {0};
	struct buf out = BUF_INIT;
	uint64_t number;
	struct segment *ready = history_add(&c->history, &number);

	assert_non_null(ready);
	ready->type = SEG_READY;
	ready->begin_ns = from;
	ready->end_ns = to;
	ready->thread = thread;
	ready->cause = segment_back(number, head);
	c->credit = CREDIT_MAX;
	assert_int_equal(tree_init(&t, &c->all_trees), 0);
	walk_own(c, &t, &parts, number, from, to);
	/* In an order that does not depend on which was found first. */
	for (uint32_t of = 0; of < NT_N * (N_KINDS + 1); of++)
		for (size_t i = 0; i < parts.n; i++) {
			const struct part *p = &parts.items[i];
			const struct node *n = &t.nodes[p->node], *above = &t.nodes[n->parent];

			if (n->type * (N_KINDS + 1) + above->a == of)
				buf_printf(&out, "%u in %llu of %u %u (%llu): %u, %llu\n", n->type,
					   (unsigned long long)n->b, above->type, above->a,
					   (unsigned long long)above->longest_task, p->n,
					   (unsigned long long)p->ns);
		}
	parts_done(&parts);
	tree_done(&t);
	c->all_trees = (struct trees){0};
	return out.data;
}

/* The polls, calls and parks of a thread, some in others, some of times without a CPU: what is summed up by
 * blocks is what the segments are one by one. */
static void test_blocks(void **state)
{
	for (unsigned round = 0; round < 40; round++) {
		struct causes *c = causes_new(NULL, &(struct causes_options){0});
		uint64_t heads[400], ends[400], time = 0, kinds_here = 1 + round % 5;
		struct thread_past *th;

		(void)state;
		c->threads = calloc(1, sizeof(*c->threads));
		c->n_threads = 1;
		th = &c->threads[0];
		for (unsigned i = 0; i < 400; i++) {
			struct segment *s;

			if (th->head)
				assert_int_equal(blocks_add(&th->blocks, th->head,
							    history_get(&c->history, th->head)),
						 0);
			s = history_add(&c->history, &heads[i]);
			s->type = (uint8_t)(round < 20 ? SEG_RUN : SEG_RUN + roll(3));
			if (round >= 30 && !roll(20))
				s->type = SEG_PARK;
			s->begin_ns = time + roll(2);
			s->end_ns = time = s->begin_ns + 1 + roll(9);
			if (round % 4 == 3 && !roll(12) && s->begin_ns > 30)
				s->begin_ns -= 30; /* around those before it */
			s->kind =
				s->type == SEG_PARK ? TRACE_KIND_NONE : (uint32_t)roll(kinds_here);
			s->call = s->type == SEG_CALL ? (uint16_t)(TB_READ + roll(2)) : 0;
			s->task = s->kind == TRACE_KIND_NONE ? 0 : 1 + roll(50);
			s->thread_before = segment_back(heads[i], th->head);
			th->head = heads[i];
			ends[i] = time;
		}
		for (unsigned i = 0; i < 200; i++) {
			size_t to = roll(400), from = roll(to + 1);
			uint64_t a = from ? ends[from] - roll(3) : 0, b = ends[to] + roll(3);
			struct blocks kept = th->blocks;
			char *by_blocks, *one_by_one;
			uint64_t credit;

			if (a >= b)
				continue;
			by_blocks = while_ready(c, 0, heads[to], a, b);
			credit = c->credit;
			th->blocks = (struct blocks){0};
			one_by_one = while_ready(c, 0, heads[to], a, b);
			th->blocks = kept;
			assert_string_equal(by_blocks, one_by_one);
			if (kinds_here == 1 && round < 15 &&
			    to - from > 100) /* of one kind: it is quicker */
				assert_true((CREDIT_MAX - credit) * 3 < CREDIT_MAX - c->credit);
			free(by_blocks);
			free(one_by_one);
		}
		causes_free(c);
	}
}

/* Tasks behind tasks: the ninth is not followed. */
static void test_deep(void **state)
{
	struct causes *c = causes_new(NULL, &(struct causes_options){0});
	uint64_t head = segment(c, 0, SEG_RUN, 0, 100, 0);

	(void)state;
	for (unsigned i = 0; i < WALK_DEPTH; i++)
		head = segment(c, 0, SEG_WAIT, 0, 100, head);
	assert_int_equal(walked(c, head, NT_FURTHER, 0), 0);
	assert_int_equal(walked(c, head, NT_POLLED, 0), 100);
	head = segment(c, 0, SEG_WAIT, 0, 100, head);
	assert_int_equal(walked(c, head, NT_FURTHER, 0), 100);
	causes_free(c);
}

/* ---- text ---- */

/* Each of five tasks waits for the next, for what at an unknown place: the text has two of these rows. */
static void test_unknown_places(void **state)
{
	RECORD(rec);
	const struct causes_options opt = {.unit = CU_TASK, .width = 100};
	struct trace_reader *reader;
	struct buf text = BUF_INIT;
	unsigned n_rows = 0;

	(void)state;
	worker(rec, 0);
	for (unsigned i = 0; i < 5; i++) {
		spawn(rec, 100 + i * 10, 0, K_TASK, 1 + i);
		poll(rec, 101 + i * 10, 105 + i * 10, 0, K_TASK, 1 + i, TO_PENDING, 0);
	}
	park(rec, 200, 1000, 0, TB_EPOLL_WAIT);
	wake(rec, 1000, 0, K_TASK, 5);
	for (unsigned i = 5; i-- > 0;) {
		begin(rec, 1010 + (5 - i) * 10, 0, K_TASK, 1 + i);
		if (i)
			wake(rec, 1011 + (5 - i) * 10, 0, K_TASK, i);
		end(rec, 1015 + (5 - i) * 10, 0, K_TASK, 1 + i, TO_READY, 0);
	}
	struct causes *c = causes_of(rec, &opt, &reader);

	causes_text(c, &text);
	for (const char *at = text.data; at && (at = strstr(at, "waiting at a place")); at++)
		n_rows++;
	if (n_rows != 2)
		fail_msg("%u rows:\n%s", n_rows, text.data);
	buf_done(&text);
	causes_free(c);
	trace_reader_free(reader);
}

/* ---- anything at all ---- */

static const struct trace_kind *kind_of_reader(const void *ctx, uint32_t kind)
{
	return trace_reader_kind(ctx, kind);
}

/* Any event with any name, time a bit out of order: each unit's parts add up (tree_add_unit() asserts
 * it), and so does each cause's time. */
static void test_torture(void **state)
{
	static const struct recording empty;
	char path[] = "/tmp/test_causes.XXXXXX";
	struct trace_reader *reader;
	struct trace_event ev;
	uint64_t n_units = 0;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	write_recording(&empty, path);
	assert_int_equal(trace_reader_open(path, &reader, NULL), 0);
	assert_int_equal(trace_reader_next(reader, &ev, NULL), 0);
	for (unsigned round = 0; round < 300; round++) {
		/* Also with times that are no clock's. */
		uint64_t most = round % 10 ? 40 : UINT64_MAX / 4000;
		const struct causes_options opt = {.unit = round % 3, .width = 100};
		struct causes *c = causes_new(reader, &opt);
		struct fan_out_sink to = causes_sink(c);
		struct timeline *tl = timeline_new(to.sink, to.ctx, kind_of_reader, reader);
		uint64_t time = START;

		for (unsigned i = 0; i < 2000; i++) {
			time += roll(most);
			ev = (struct trace_event){
				.time = time - (roll(8) ? 0 : roll(most < 100 ? 100 : most)),
				.thread = (uint32_t)roll(N_THREADS),
				.type = (uint16_t)roll(TE_N_TYPES),
				.arg = (uint16_t)roll(5),
				.kind = (uint32_t)roll(N_KINDS),
				.task = 1 + roll(6),
				.value = roll(3) ? roll(N_PLACES) : roll(200),
			};
			assert_int_equal(timeline_feed(tl, &ev, NULL), 0);
		}
		assert_int_equal(timeline_finish(tl, time, NULL), 0);
		assert_int_equal(causes_judge(c), 0);
		for (size_t i = 0; i < c->n_shown; i++) {
			const struct shown_tree *s = &c->shown[i];
			struct buf out = BUF_INIT;

			n_units += s->tree->units[s->type].length.count;
			assert_true(s->tree->nodes[0].sums[s->type].ns.sum ==
				    s->tree->units[s->type].length.sum);
			write_node(c, &out, s, 0);
			buf_done(&out);
		}
		struct buf text = BUF_INIT;

		causes_text(c, &text);
		assert_false(buf_failed(&text));
		buf_done(&text);
		timeline_free(tl);
		causes_free(c);
	}
	assert_true(n_units > 1000);
	trace_reader_free(reader);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_polls),
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_driver),
		cmocka_unit_test(test_unlooked),
		cmocka_unit_test(test_sched),
		cmocka_unit_test(test_too_many_causes),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_past_the_window),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_unknown_places),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_full_channel),
		cmocka_unit_test(test_stack),
		cmocka_unit_test(test_stacks_alike),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_lock),
		cmocka_unit_test(test_lock_by_place),
		cmocka_unit_test(test_blocking),
		cmocka_unit_test(test_spawner),
		cmocka_unit_test(test_who_ran),
		cmocka_unit_test(test_parked_without_cpu),
		cmocka_unit_test(test_new_thread),
		cmocka_unit_test(test_first_and_last_round),
		cmocka_unit_test(test_first_round_without_places),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_handler),
		cmocka_unit_test(test_yield),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_head_changes),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_window),
		cmocka_unit_test(test_slowest),
		cmocka_unit_test(test_torture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
