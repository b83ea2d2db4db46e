/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A small trace with the moments of a program in which a task hangs: task 7 waits for a lock that
 * task 8 holds, at both ends, and never has an event; task 8 ends; task 10 is spawned. Task 9 has no
 * tree, and runs. tests/traces/make.c writes it into good/moments.plx.
 */
#pragma once

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

#define MOMENT_SAMPLE_NS 9000000000000ULL
#define MOMENT_SAMPLE_LOCK 0x55aa1000u

static const struct moment_kind moment_sample_kinds[3] = {
	{.name = "app::request",
	 .full_name = "app::request::{async_fn_env#0}",
	 .object = "/usr/bin/app",
	 .site = "src/main.rs:12 (app::main)",
	 .tokio = true,
	 .vtable = 0x5f3a0,
	 .future_bytes = 120,
	 .task_bytes = 256},
	{.name = "app::job",
	 .full_name = "",
	 .object = "/usr/bin/app",
	 .site = "",
	 .role = TR_BLOCKING,
	 .tokio = true,
	 .vtable = 0x5f400},
	{.name = "app::main",
	 .full_name = "app::main::{async_block_env#0}",
	 .object = "/usr/bin/app",
	 .site = "",
	 .role = TR_ROOT},
};

/* app::request ─ src/main.rs:40 ─ Mutex::lock, and a socket beside it */
static struct await_node moment_sample_lock = {
	.kind = AN_LEAF,
	.name = "Mutex::lock",
	.full_name = "tokio::sync::batch_semaphore::Acquire",
	.detail = (char[]){"semaphore 0x55aa1000"},
	.wait = AW_MUTEX,
	.resource = MOMENT_SAMPLE_LOCK,
	.value = 1,
	.addr = 0x7f0000001040,
	.bytes = 56,
};
static char moment_sample_fd[] = "fd 12, 127.0.0.1:80 <- 127.0.0.1:51234";
static struct await_node moment_sample_socket = {
	.kind = AN_LEAF,
	.state = AS_UNPOLLED,
	.name = "TcpStream read",
	.full_name = "tokio::net::tcp::stream::TcpStream",
	.detail = moment_sample_fd,
	.ends = moment_sample_fd + 7,
	.wait = AW_SOCKET,
	.value = 12,
	.addr = 0x7f0000001080,
};
static struct await_node *moment_sample_branches[2] = {&moment_sample_lock, &moment_sample_socket};
static struct await_node moment_sample_join = {
	.kind = AN_BRANCH,
	.name = "join!",
	.full_name = "core::future::poll_fn::PollFn<app::request::{closure_env#1}>",
	.addr = 0x7f0000001038,
	.children = moment_sample_branches,
	.n_children = 2,
};
static struct await_node *moment_sample_awaited[1] = {&moment_sample_join};
static struct await_node moment_sample_waiting = {
	.kind = AN_ASYNC,
	.name = "app::request",
	.full_name = "app::request::{async_fn_env#0}",
	.file = "src/main.rs",
	.line = 40,
	.addr = 0x7f0000001030,
	.bytes = 120,
	.children = moment_sample_awaited,
	.n_children = 1,
};
static struct await_node moment_sample_sleep = {
	.kind = AN_LEAF,
	.name = "sleep",
	.full_name = "tokio::time::sleep::Sleep",
	.detail = (char[]){"84.2 s left"},
	.wait = AW_SLEEP,
	.value = MOMENT_SAMPLE_NS + 84200000000,
	.addr = 0x7f0000002040,
};
static struct await_node *moment_sample_slept[1] = {&moment_sample_sleep};
static struct await_held moment_sample_held[2] = {
	{.kind = AH_GUARD,
	 .type = "std::sync::poison::mutex::MutexGuard<u64>",
	 .addr = 0x7f0000005000,
	 .bytes = 16},
	{.kind = AH_CHANNEL,
	 .type = "tokio::sync::mpsc::bounded::Receiver<u64>",
	 .addr = 0x7f0000006000,
	 .counted = true,
	 .length = 7,
	 .capacity = 100,
	 .senders = 2},
};
static struct await_node moment_sample_holding = {
	.kind = AN_ASYNC,
	.name = "app::request",
	.full_name = "app::request::{async_fn_env#0}",
	.file = "src/main.rs",
	.line = 44,
	.addr = 0x7f0000002030,
	.holds = (uint64_t[]){MOMENT_SAMPLE_LOCK},
	.n_holds = 1,
	.held = moment_sample_held,
	.n_held = 2,
	.children = moment_sample_slept,
	.n_children = 1,
};

static struct moment_task moment_sample_start_tasks[3] = {
	{.kind = &moment_sample_kinds[0],
	 .addr = 0x7f0000001000,
	 .id = 7,
	 .raw_state = 0xcc,
	 .owner = 1,
	 .refs = 3,
	 .join_interest = true,
	 .place = 2,
	 .tree = &moment_sample_waiting},
	{.kind = &moment_sample_kinds[0],
	 .addr = 0x7f0000002000,
	 .id = 8,
	 .raw_state = 0xcc,
	 .owner = 1,
	 .refs = 3,
	 .tree = &moment_sample_holding},
	{.kind = &moment_sample_kinds[1],
	 .addr = 0x7f0000003000,
	 .id = 9,
	 .raw_state = 0x49,
	 .refs = 1,
	 .state = IS_RUNNING,
	 .thread = 2,
	 .no_tree_reason = "a blocking closure"},
};
static struct moment_task moment_sample_end_tasks[4] = {
	{.kind = &moment_sample_kinds[0],
	 .addr = 0x7f0000001000,
	 .id = 7,
	 .raw_state = 0xcc,
	 .owner = 1,
	 .refs = 3,
	 .join_interest = true,
	 .place = 2,
	 .tree = &moment_sample_waiting},
	{.kind = &moment_sample_kinds[1],
	 .addr = 0x7f0000003000,
	 .id = 9,
	 .raw_state = 0x49,
	 .refs = 1,
	 .state = IS_RUNNING,
	 .thread = 2,
	 .no_tree_reason = "a blocking closure"},
	{.kind = &moment_sample_kinds[0],
	 .addr = 0x7f0000004000,
	 .id = 10,
	 .raw_state = 0xc4,
	 .owner = 1,
	 .refs = 3,
	 .state = IS_SCHEDULED,
	 .cancelled = true,
	 .queue = "run queue of worker 0",
	 .no_tree_reason = "its future can't be read now"},
	{.kind = &moment_sample_kinds[2],
	 .addr = 0x7ffd00001000,
	 .thread = 1,
	 .torn = true,
	 .tree = &moment_sample_sleep},
};

static const struct moment_frame moment_sample_frames[2] = {
	{.addr = 0x1234, .object = "/usr/lib/libc.so.6", .function = "read", .file = ""},
	{.addr = 0x5678,
	 .object = "/usr/bin/app",
	 .function = "app::job::{closure#0}",
	 .file = "src/main.rs",
	 .line = 77},
};
static struct moment_thread moment_sample_threads[2] = {
	{.tid = 4242,
	 .name = "app",
	 .call = 1 + 232,
	 .call_arg = 5,
	 .frames = moment_sample_frames},
	{.tid = 4243,
	 .name = "tokio-runtime-w",
	 .call = 1 + 0,
	 .frames = moment_sample_frames,
	 .n_frames = 2},
};

static inline struct trace_moment moment_sample(enum moment_when when)
{
	static const char *notes[] = {"/usr/lib/libx.so: no await trees"};
	bool end = when == MOMENT_END;

	return (struct trace_moment){
		.when = when,
		.now_ns = MOMENT_SAMPLE_NS + (end ? 1000000000 : 0),
		.stop_ns = 345678,
		.stopped = true,
		.n_torn = end,
		.n_found = end ? 7 : 3,
		.n_descriptors = 60,
		.max_descriptors = 64,
		.tasks = end ? moment_sample_end_tasks : moment_sample_start_tasks,
		.n_tasks = end ? 4 : 3,
		.threads = moment_sample_threads,
		.n_threads = 2,
		.notes = notes,
		.n_notes = 1,
	};
}

/* Writes the sample to a file. 0 or negative errno. */
static inline int moment_sample_write(const char *path, struct error *err)
{
	const struct trace_process process = {.pid = 4242,
					      .exe = "/usr/bin/app",
					      .cmdline = "app",
					      .start_ns = MOMENT_SAMPLE_NS - 1000000};
	const struct trace_runtime runtime = {
		.name = "tokio", .version = "1.54.0", .object = "/usr/bin/app"};
	const struct trace_kind kind = {
		.vtable = 0x5f3a0, .name = "app::request", .scheduler = "multi_thread"};
	const struct trace_kind job = {.vtable = 0x5f400,
				       .name = "app::job",
				       .role = TR_BLOCKING,
				       .scheduler = "blocking"};
	const struct trace_thread thread = {.tid = 4242, .name = "app"};
	const struct trace_place place = {
		.function = "app::request", .file = "src/main.rs", .line = 44, .awaits = "Sleep"};
	const struct trace_place lock = {
		.function = "app::request", .file = "src/main.rs", .line = 40, .awaits = "join!"};
	const struct trace_cost cost = {.begin_ns = MOMENT_SAMPLE_NS + 1000000,
					.end_ns = MOMENT_SAMPLE_NS + 999000000,
					.end_reason = "duration"};
	const uint64_t t = MOMENT_SAMPLE_NS + 100000000;
	const struct trace_event events[] = {
		{.time = t, .type = TE_WAKE, .arg = TW_SCHEDULED, .task = 8},
		{.time = t + 1000, .type = TE_POLL_BEGIN, .task = 8},
		{.time = t + 2000, .type = TE_SPAWN, .arg = TRACE_SPAWN_NAMED, .task = 10},
		{.time = t + 5000, .type = TE_POLL_END, .task = 8, .value = 1},
		{.time = t + 400000000, .type = TE_WAKE, .arg = TW_SCHEDULED, .task = 8},
		{.time = t + 400001000, .type = TE_POLL_BEGIN, .task = 8},
		{.time = t + 400003000, .type = TE_POLL_END, .arg = TO_READY, .task = 8},
	};
	const struct trace_moment start = moment_sample(MOMENT_START);
	const struct trace_moment end = moment_sample(MOMENT_END);
	struct trace_writer *w;
	uint32_t index;
	int r = trace_writer_open(path, &w, err);

	if (r < 0)
		return r;
	trace_writer_process(w, &process, &index);
	trace_writer_runtime(w, &runtime, &index);
	trace_writer_kind(w, &kind, &index);
	trace_writer_kind(w, &job, &index);
	trace_writer_place(w, &place, &index);
	trace_writer_place(w, &lock, &index);
	trace_writer_thread(w, &thread, &index);
	trace_writer_moment(w, &start);
	trace_writer_events(w, 0, events, sizeof(events) / sizeof(events[0]));
	trace_writer_round(w, t + 500000000);
	trace_writer_moment(w, &end);
	trace_writer_cost(w, &cost);
	return trace_writer_close(w, err);
}
