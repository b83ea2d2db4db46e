/*
 * A made-up recording of all that happens inside of polls: futures one in the other, two instances
 * at once, one that is dropped; system calls, time off the CPU, samples, the stacks of a long poll,
 * told by sources of their own. tests/traces/make.c writes it into good/inside.plx.
 */
#pragma once

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

#define INSIDE_START 9000000000000ULL
#define INSIDE_US 1000ULL
#define INSIDE_MS 1000000ULL

enum { IN_MAIN = 0, IN_WORKER, IN_SAMPLES, IN_SCHED, IN_THREADS };
enum { IK_SERVE = 0, IK_HASH, IK_ROOT, IK_MY_TEST, IK_SLEEP, IK_FETCH, IK_KINDS };
#define IS_SPAWN 1u /* index + 1 of the stack of the spawns */

static const struct trace_process inside_process = {
	.pid = 100,
	.exe = "/usr/bin/app",
	.cmdline = "app",
	.start_ns = INSIDE_START,
	.start_realtime_ns = 1700000000000000000ULL,
};

static const struct trace_runtime inside_runtime = {
	.name = "tokio", .version = "1.54.1", .object = "/usr/bin/app", .verified = "symbols"};

static const struct trace_thread inside_threads[IN_THREADS] = {
	[IN_MAIN] = {.tid = 100, .name = "app"},
	[IN_WORKER] = {.tid = 101, .name = "tokio-rt-worker"},
	[IN_SAMPLES] = {.tid = 101, .name = "", .stream_of = IN_WORKER + 1},
	[IN_SCHED] = {.tid = 101, .name = "", .stream_of = IN_WORKER + 1},
};

static const struct trace_kind inside_kinds[IK_KINDS] = {
	[IK_SERVE] = {.name = "app::serve",
		      .full_name = "app::serve::{{closure}}",
		      .n_sites = 1,
		      .site_addrs = (const uint64_t[]){0x1000},
		      .sites = (const char *const[]){"app::main (src/main.rs:30)"}},
	[IK_HASH] = {.name = "app::hash", .full_name = "app::hash::{{closure}}"},
	[IK_ROOT] = {.role = TR_ROOT, .name = "app::main", .full_name = "app::main"},
	[IK_MY_TEST] = {.role = TR_FUTURE, .name = "app::my_test"},
	[IK_SLEEP] = {.role = TR_FUTURE, .name = "app::sleep"},
	[IK_FETCH] = {.role = TR_FUTURE, .name = "app::fetch"},
};

static const struct trace_place inside_place = {
	.function = "app::my_test", .file = "src/main.rs", .line = 12, .awaits = "app::sleep"};

static const struct trace_frame inside_frames[] = {
	{.addr = 0x100,
	 .object = "/usr/bin/app",
	 .function = "main",
	 .file = "src/main.rs",
	 .line = 3},
	{.addr = 0x200,
	 .object = "/usr/bin/app",
	 .function = "app::hash",
	 .file = "src/hash.rs",
	 .line = 9},
	{.addr = 0x300, .object = "/usr/bin/app", .function = "app::compress"},
	{.addr = 0x304, .object = "/usr/bin/app", .function = "app::compress"},
	{.addr = 0x400, .object = "/lib/libc.so.6", .function = ""},
	{.addr = 0x500, .object = "/usr/bin/app", .function = "std::sync::Mutex<T>::lock"},
};

/* An event names one by its index + 1. */
static const struct trace_stack inside_stacks[] = {
	{.parent = 0, .frame = 0},			     /* main */
	{.parent = 1, .frame = 1},			     /* main, hash */
	{.parent = 2, .frame = 2},			     /* main, hash, compress */
	{.parent = 2, .frame = 3},			     /* the same, elsewhere in it */
	{.parent = 3, .frame = 4},			     /* ..., libc */
	{.parent = 2, .frame = 5},			     /* main, hash, lock */
	{.parent = 0, .frame = 1, .flags = TRACE_STACK_CUT}, /* ..., hash */
};

/* Adds an event `at` us after the start. */
#define INSIDE(at, type_, ...)                                                                     \
	(*ev++ = (struct trace_event){                                                             \
		 .time = INSIDE_START + (at)*INSIDE_US, .type = (type_), __VA_ARGS__})
#define INSIDE_BARE(at, type_, ...) INSIDE(at, type_, .kind = TRACE_KIND_NONE, __VA_ARGS__)

/* The seed's example: my_test sleeps 100 ms, then 150 ms; two fetches wait at once, and a third is
 * dropped for another in its memory. */
static inline struct trace_event *inside_serve(struct trace_event *ev)
{
	INSIDE(2000, TE_POLL_BEGIN, .kind = IK_SERVE, .task = 7);
	INSIDE(2010, TE_FUTURE_BEGIN, .kind = IK_MY_TEST, .task = 0x7000);
	INSIDE(2020, TE_FUTURE_BEGIN, .kind = IK_SLEEP, .task = 0x7000);
	INSIDE(2080, TE_FUTURE_END, .kind = IK_SLEEP, .task = 0x7000, .arg = TO_PENDING);
	INSIDE(2090, TE_FUTURE_END, .kind = IK_MY_TEST, .task = 0x7000, .arg = TO_PENDING,
	       .value = 1);
	INSIDE(2100, TE_POLL_END, .kind = IK_SERVE, .task = 7, .value = 1);
	INSIDE(102000, TE_WAKE, .kind = IK_SERVE, .task = 7);
	INSIDE(102050, TE_POLL_BEGIN, .kind = IK_SERVE, .task = 7);
	INSIDE(102060, TE_FUTURE_BEGIN, .kind = IK_MY_TEST, .task = 0x7000);
	INSIDE(102070, TE_FUTURE_BEGIN, .kind = IK_SLEEP, .task = 0x7000);
	INSIDE(102080, TE_FUTURE_END, .kind = IK_SLEEP, .task = 0x7000, .arg = TO_READY);
	INSIDE(102090, TE_FUTURE_BEGIN, .kind = IK_SLEEP, .task = 0x7000);
	INSIDE(102110, TE_FUTURE_END, .kind = IK_SLEEP, .task = 0x7000, .arg = TO_PENDING);
	INSIDE(102120, TE_FUTURE_END, .kind = IK_MY_TEST, .task = 0x7000, .arg = TO_PENDING,
	       .value = 1);
	INSIDE(102130, TE_POLL_END, .kind = IK_SERVE, .task = 7, .value = 1);
	INSIDE(252100, TE_WAKE, .kind = IK_SERVE, .task = 7);
	INSIDE(252150, TE_POLL_BEGIN, .kind = IK_SERVE, .task = 7);
	INSIDE(252160, TE_FUTURE_BEGIN, .kind = IK_MY_TEST, .task = 0x7000);
	INSIDE(252170, TE_FUTURE_BEGIN, .kind = IK_SLEEP, .task = 0x7000);
	INSIDE(252180, TE_FUTURE_END, .kind = IK_SLEEP, .task = 0x7000, .arg = TO_READY);
	INSIDE(252190, TE_FUTURE_END, .kind = IK_MY_TEST, .task = 0x7000, .arg = TO_READY);
	INSIDE(252200, TE_FUTURE_BEGIN, .kind = IK_FETCH, .task = 0x7100);
	INSIDE(252210, TE_FUTURE_END, .kind = IK_FETCH, .task = 0x7100, .arg = TO_PENDING);
	INSIDE(252210, TE_FUTURE_BEGIN, .kind = IK_FETCH, .task = 0x7200);
	INSIDE(252230, TE_FUTURE_END, .kind = IK_FETCH, .task = 0x7200, .arg = TO_PENDING);
	INSIDE(252240, TE_FUTURE_BEGIN, .kind = IK_FETCH, .task = 0x7300);
	INSIDE(252250, TE_FUTURE_END, .kind = IK_FETCH, .task = 0x7300, .arg = TO_PENDING);
	INSIDE(252300, TE_POLL_END, .kind = IK_SERVE, .task = 7);
	return ev;
}

/* A poll of 20 ms that computes, waits for a lock and calls the kernel. */
static inline struct trace_event *inside_hash(struct trace_event *ev)
{
	INSIDE(300000, TE_POLL_BEGIN, .kind = IK_HASH, .task = 8);
	INSIDE(320000, TE_POLL_END, .kind = IK_HASH, .task = 8, .arg = TO_READY);
	INSIDE(330000, TE_POLL_BEGIN, .kind = IK_SERVE, .task = 7);
	INSIDE(330010, TE_FUTURE_BEGIN, .kind = IK_FETCH, .task = 0x7200);
	INSIDE(330020, TE_FUTURE_END, .kind = IK_FETCH, .task = 0x7200, .arg = TO_READY);
	INSIDE(330030, TE_FUTURE_BEGIN, .kind = IK_SLEEP, .task = 0x7300);
	INSIDE(330040, TE_FUTURE_END, .kind = IK_SLEEP, .task = 0x7300, .arg = TO_PENDING);
	INSIDE(330100, TE_POLL_END, .kind = IK_SERVE, .task = 7);
	INSIDE(340000, TE_CANCEL, .kind = IK_SERVE, .task = 7);
	return ev;
}

static inline size_t inside_worker(struct trace_event *first)
{
	struct trace_event *ev = first;
	INSIDE_BARE(1000, TE_THREAD_BEGIN);
	ev = inside_serve(ev);
	ev = inside_hash(ev);
	INSIDE_BARE(400000, TE_THREAD_END);
	return (size_t)(ev - first);
}

static inline size_t inside_main(struct trace_event *first)
{
	struct trace_event *ev = first;
	INSIDE(500, TE_SPAWN, .arg = TRACE_SPAWN_NAMED, .kind = IK_ROOT, .task = 1);
	INSIDE(600, TE_POLL_BEGIN, .kind = IK_ROOT, .task = 1);
	INSIDE(700, TE_SPAWN, .arg = TRACE_SPAWN_NAMED, .kind = IK_SERVE, .task = 7);
	INSIDE_BARE(700, TE_SAMPLE, .arg = TM_SPAWN, .task = 1, .value = IS_SPAWN);
	INSIDE(710, TE_SPAWN, .arg = TRACE_SPAWN_NAMED | TRACE_SPAWN_PARENT, .kind = IK_HASH,
	       .task = 8, .value = 7);
	INSIDE(800, TE_POLL_END, .kind = IK_ROOT, .task = 1, .arg = TO_PENDING);
	return (size_t)(ev - first);
}

static inline size_t inside_samples(struct trace_event *first)
{
	struct trace_event *ev = first;
	for (uint64_t i = 1; i <= 8; i++)
		INSIDE_BARE(300000 + 1000 * i, TE_SAMPLE, .arg = TM_CPU_CLOCK, .task = INSIDE_MS,
			    .value = i < 3   ? 3
				     : i < 5 ? 4
				     : i < 8 ? 5
					     : 7);
	INSIDE_BARE(310000, TE_SAMPLE, .arg = TM_LONG_RUNNING, .task = 10 * INSIDE_MS, .value = 5);
	INSIDE_BARE(311000, TE_SAMPLE, .arg = TM_BLOCKED, .task = 0, .value = 6);
	INSIDE_BARE(315000, TE_SAMPLE, .arg = TM_LONG_BLOCKED, .task = 15 * INSIDE_MS, .value = 6);
	INSIDE_BARE(319000, TE_SAMPLE, .arg = TM_CPU_CLOCK, .task = INSIDE_MS, .value = 4);
	INSIDE_BARE(350000, TE_SAMPLE, .arg = TM_CPU_CLOCK, .task = INSIDE_MS, .value = 1);
	INSIDE_BARE(351000, TE_LOST, .value = 3);
	return (size_t)(ev - first);
}

static inline size_t inside_sched(struct trace_event *first)
{
	struct trace_event *ev = first;
	INSIDE_BARE(1950, TE_OFF_CPU, .arg = TX_SLEEPING, .value = 900 * INSIDE_US, .task = 233);
	INSIDE_BARE(1960, TE_SYSCALL, .arg = 232, .value = 920 * INSIDE_US, .task = 1);
	INSIDE_BARE(2050, TE_SYSCALL, .arg = 1, .value = 20 * INSIDE_US, .task = 64);
	INSIDE_BARE(304500, TE_OFF_CPU, .arg = TX_PREEMPTED, .value = 300 * INSIDE_US);
	INSIDE_BARE(316000, TE_OFF_CPU, .arg = TX_SLEEPING, .value = 5000 * INSIDE_US, .task = 203);
	INSIDE_BARE(316010, TE_SYSCALL, .arg = 202, .value = 5020 * INSIDE_US, .task = 0);
	INSIDE_BARE(317000, TE_SYSCALL, .arg = 0, .value = 40 * INSIDE_US, .task = (uint64_t)-11);
	return (size_t)(ev - first);
}

/* Writes it to a file. 0 or negative errno. */
static inline int inside_write(const char *path, struct error *err)
{
	static size_t (*const fill[IN_THREADS])(struct trace_event *) = {
		[IN_MAIN] = inside_main,
		[IN_WORKER] = inside_worker,
		[IN_SAMPLES] = inside_samples,
		[IN_SCHED] = inside_sched,
	};
	struct trace_writer *w;
	struct trace_event ev[128];
	uint32_t index;

	int r = trace_writer_open(path, &w, err);
	if (r < 0)
		return r;
	trace_writer_process(w, &inside_process, &index);
	trace_writer_runtime(w, &inside_runtime, &index);
	for (int i = 0; i < IK_KINDS; i++)
		trace_writer_kind(w, &inside_kinds[i], &index);
	trace_writer_place(w, &inside_place, &index);
	for (size_t i = 0; i < sizeof(inside_frames) / sizeof(inside_frames[0]); i++)
		trace_writer_frame(w, &inside_frames[i], &index);
	for (size_t i = 0; i < sizeof(inside_stacks) / sizeof(inside_stacks[0]); i++)
		trace_writer_stack(w, &inside_stacks[i], &index);
	for (uint32_t i = 0; i < IN_THREADS; i++)
		trace_writer_thread(w, &inside_threads[i], &index);
	for (uint32_t i = 0; i < IN_THREADS; i++) {
		size_t n = fill[i](ev);
		for (size_t k = 0; k < n; k++)
			ev[k].thread = i;
		trace_writer_events(w, i, ev, n);
	}
	trace_writer_round(w, INSIDE_START + 500 * INSIDE_MS);
	return trace_writer_close(w, err);
}
