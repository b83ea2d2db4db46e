/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A made-up recording of a web service: two connections that handle requests. An order waits for a room
 * in a channel, a login blocks and is sampled, a hello is ready at once and another is dropped.
 * tests/traces/make.c writes it into good/requests.plx.
 */
#pragma once

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

#define REQUESTS_START 9000000000000ULL
#define REQUESTS_US 1000ULL
#define REQUESTS_MS 1000000ULL

enum { RQ_WORKER = 0, RQ_SAMPLES, RQ_OTHER, RQ_THREADS };
enum { RK_CONNECTION = 0, RK_MAILER, RK_ORDER, RK_LOGIN, RK_HELLO, RK_KINDS };
enum { RP_CONNECTION = 1, RP_ORDER, RP_RESERVE, RP_MAILER, RP_POLL_FN }; /* index + 1 */

static const struct trace_process requests_process = {
	.pid = 100,
	.exe = "/usr/bin/shop",
	.cmdline = "shop",
	.start_ns = REQUESTS_START,
	.start_realtime_ns = 1700000000000000000ULL,
};

static const struct trace_runtime requests_runtime = {
	.name = "tokio", .version = "1.54.1", .object = "/usr/bin/shop", .verified = "symbols"};

static const struct trace_thread requests_threads[RQ_THREADS] = {
	[RQ_WORKER] = {.tid = 101, .name = "tokio-rt-worker"},
	[RQ_SAMPLES] = {.tid = 101, .name = "", .stream_of = RQ_WORKER + 1},
	[RQ_OTHER] = {.tid = 102, .name = "tokio-rt-worker"},
};

#define REQUESTS_CALL "axum::handler::{impl#6}::call::{async_block_env#0}"
static const struct trace_kind requests_kinds[RK_KINDS] = {
	[RK_CONNECTION] = {.name = "axum::serve::into_future::{async_block#4}<..>",
			   .full_name = "axum::serve::into_future::{async_block_env#4}<R, R>"},
	[RK_MAILER] = {.name = "shop::mailer", .full_name = "shop::mailer::{async_fn_env#0}"},
	[RK_ORDER] = {.role = TR_FUTURE,
		      .address_named = 1,
		      .flags = TRACE_KIND_HANDLER,
		      .name = "axum::handler::call",
		      .full_name = REQUESTS_CALL "<fn(S) -> shop::order::{async_fn_env#0}, "
						 "shop::order::{async_fn_env#0}, S>"},
	[RK_LOGIN] = {.role = TR_FUTURE,
		      .address_named = 1,
		      .flags = TRACE_KIND_HANDLER,
		      .name = "axum::handler::call",
		      .full_name = REQUESTS_CALL "<fn(S) -> shop::user::login::{async_fn_env#0}, "
						 "shop::user::login::{async_fn_env#0}, S>"},
	[RK_HELLO] = {.role = TR_FUTURE,
		      .address_named = 1,
		      .flags = TRACE_KIND_HANDLER,
		      .name = "axum::handler::call",
		      .full_name = REQUESTS_CALL "<fn() -> shop::hello::{async_fn_env#0}, "
						 "shop::hello::{async_fn_env#0}, S>"},
};

static const struct trace_place requests_places[] = {
	{.function = "axum::serve::into_future",
	 .file = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/axum-0.7.9/src/"
		 "serve.rs",
	 .line = 257,
	 .awaits = "hyper_util::server::conn::auto::UpgradeableConnection<..>",
	 .flags = TRACE_PLACE_BRANCHES},
	{.function = "shop::order",
	 .file = "src/api/order.rs",
	 .line = 24,
	 .awaits = "tokio::sync::mpsc::bounded::send",
	 .flags = TRACE_PLACE_OWN,
	 .outer = RP_CONNECTION},
	{.function = "tokio::sync::mpsc::bounded::reserve",
	 .file = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/tokio-1.54.1/src/sync/"
		 "mpsc/bounded.rs",
	 .line = 1180,
	 .awaits = "tokio::sync::batch_semaphore::Acquire",
	 .outer = RP_ORDER},
	{.function = "shop::mailer",
	 .file = "src/main.rs",
	 .line = 60,
	 .awaits = "tokio::time::sleep::Sleep",
	 .flags = TRACE_PLACE_OWN},
	/* As RP_RESERVE, of a source that knows another innermost future. */
	{.function = "tokio::sync::mpsc::bounded::reserve",
	 .file = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/tokio-1.54.1/src/sync/"
		 "mpsc/bounded.rs",
	 .line = 1180,
	 .awaits = "core::future::poll_fn::PollFn<..>",
	 .outer = RP_ORDER},
};

static const struct trace_frame requests_frames[] = {
	{.addr = 0x100, .object = "/usr/bin/shop", .function = "std::thread::start"},
	{.addr = 0x200,
	 .object = "/usr/bin/shop",
	 .function = "tokio::runtime::task::raw::poll<axum::serve::into_future>"},
	{.addr = 0x300, .object = "/usr/bin/shop", .function = "hyper::proto::h1::dispatch::poll"},
	{.addr = 0x400,
	 .object = "/usr/bin/shop",
	 .function = "shop::user::login",
	 .file = "src/user.rs",
	 .line = 9},
	{.addr = 0x500, .object = "/lib/libc.so.6", .function = "clock_nanosleep"},
};

/* An event names one by its index + 1. */
static const struct trace_stack requests_stacks[] = {
	{.parent = 0, .frame = 0}, {.parent = 1, .frame = 1}, {.parent = 2, .frame = 2},
	{.parent = 3, .frame = 3}, {.parent = 4, .frame = 4},
};

/* Adds an event `at` us after the start. */
#define REQUEST(at, type_, ...)                                                                    \
	(*ev++ = (struct trace_event){                                                             \
		 .time = REQUESTS_START + (at)*REQUESTS_US, .type = (type_), __VA_ARGS__})
#define REQUEST_BARE(at, type_, ...) REQUEST(at, type_, .kind = TRACE_KIND_NONE, __VA_ARGS__)
#define REQUEST_POLL(at, task_) REQUEST(at, TE_POLL_BEGIN, .kind = RK_CONNECTION, .task = (task_))
#define REQUEST_END(at, task_, place)                                                              \
	REQUEST(at, TE_POLL_END, .kind = RK_CONNECTION, .task = (task_), .value = (place))
#define REQUEST_WAKE(at, task_) REQUEST(at, TE_WAKE, .kind = RK_CONNECTION, .task = (task_))

/* Connection 7: an order that waits, a login that blocks for 12 ms, a hello after it in one poll. */
static inline size_t requests_worker(struct trace_event *first)
{
	struct trace_event *ev = first;

	REQUEST_BARE(1000, TE_THREAD_BEGIN);
	REQUEST(1010, TE_POLL_BEGIN, .kind = RK_MAILER, .task = 3);
	REQUEST(1020, TE_POLL_END, .kind = RK_MAILER, .task = 3, .value = RP_MAILER);
	REQUEST_POLL(1100, 7);
	REQUEST_END(1120, 7, RP_CONNECTION);
	REQUEST_WAKE(2000, 7);
	REQUEST_POLL(2010, 7);
	REQUEST(2020, TE_FUTURE_BEGIN, .kind = RK_ORDER, .task = 0x7000, .arg = TRACE_FUTURE_FIRST);
	REQUEST(2030, TE_FUTURE_END, .kind = RK_ORDER, .task = 0x7000, .arg = TO_PENDING,
		.value = RP_RESERVE);
	REQUEST_END(2040, 7, RP_RESERVE);
	REQUEST(8000, TE_POLL_BEGIN, .kind = RK_MAILER, .task = 3);
	REQUEST_WAKE(8010, 7);
	REQUEST(8020, TE_POLL_END, .kind = RK_MAILER, .task = 3, .value = RP_MAILER);
	REQUEST_POLL(8040, 7);
	REQUEST(8050, TE_FUTURE_BEGIN, .kind = RK_ORDER, .task = 0x7000);
	REQUEST(8060, TE_FUTURE_END, .kind = RK_ORDER, .task = 0x7000, .arg = TO_READY);
	REQUEST_END(8070, 7, RP_CONNECTION);
	REQUEST_WAKE(9000, 7);
	REQUEST_POLL(9010, 7);
	REQUEST(9020, TE_FUTURE_BEGIN, .kind = RK_LOGIN, .task = 0x7100, .arg = TRACE_FUTURE_FIRST);
	REQUEST_BARE(21020, TE_BLOCK, .arg = TB_CLOCK_NANOSLEEP, .value = 11900 * REQUESTS_US);
	REQUEST(21030, TE_FUTURE_END, .kind = RK_LOGIN, .task = 0x7100, .arg = TO_READY);
	REQUEST(21050, TE_FUTURE_BEGIN, .kind = RK_HELLO, .task = 0x7200,
		.arg = TRACE_FUTURE_FIRST);
	REQUEST(21060, TE_FUTURE_END, .kind = RK_HELLO, .task = 0x7200, .arg = TO_READY);
	REQUEST_END(21080, 7, RP_CONNECTION);
	REQUEST_WAKE(22000, 7);
	REQUEST_POLL(22010, 7);
	REQUEST(22020, TE_FUTURE_BEGIN, .kind = RK_HELLO, .task = 0x7200,
		.arg = TRACE_FUTURE_FIRST);
	REQUEST(22025, TE_FUTURE_END, .kind = RK_HELLO, .task = 0x7200, .arg = TO_READY);
	REQUEST(22030, TE_POLL_END, .kind = RK_CONNECTION, .task = 7, .arg = TO_READY);
	REQUEST_BARE(40000, TE_THREAD_END);
	return (size_t)(ev - first);
}

static inline size_t requests_samples(struct trace_event *first)
{
	struct trace_event *ev = first;

	REQUEST_BARE(9300, TE_SAMPLE, .arg = TM_CPU_CLOCK, .task = 100 * REQUESTS_US, .value = 4);
	REQUEST_BARE(14000, TE_SAMPLE, .arg = TM_LONG_BLOCKED, .task = 5 * REQUESTS_MS, .value = 5);
	return (size_t)(ev - first);
}

/* Connection 8: an order that is dropped while it waits, by what cancels its task. */
static inline size_t requests_other(struct trace_event *first)
{
	struct trace_event *ev = first;

	REQUEST_BARE(3000, TE_THREAD_BEGIN);
	REQUEST_POLL(3010, 8);
	REQUEST(3020, TE_FUTURE_BEGIN, .kind = RK_ORDER, .task = 0x8000, .arg = TRACE_FUTURE_FIRST);
	REQUEST(3030, TE_FUTURE_END, .kind = RK_ORDER, .task = 0x8000, .arg = TO_PENDING,
		.value = RP_POLL_FN);
	REQUEST_END(3040, 8, RP_POLL_FN);
	REQUEST(30000, TE_CANCEL, .kind = RK_CONNECTION, .task = 8);
	REQUEST_BARE(40000, TE_THREAD_END);
	return (size_t)(ev - first);
}

/* Writes it to a file. 0 or negative errno. */
static inline int requests_write(const char *path, struct error *err)
{
	static size_t (*const fill[RQ_THREADS])(struct trace_event *) = {
		[RQ_WORKER] = requests_worker,
		[RQ_SAMPLES] = requests_samples,
		[RQ_OTHER] = requests_other,
	};
	struct trace_writer *w;
	struct trace_event ev[64];
	uint32_t index;

	int r = trace_writer_open(path, &w, err);
	if (r < 0)
		return r;
	trace_writer_process(w, &requests_process, &index);
	trace_writer_runtime(w, &requests_runtime, &index);
	for (int i = 0; i < RK_KINDS; i++)
		trace_writer_kind(w, &requests_kinds[i], &index);
	for (size_t i = 0; i < sizeof(requests_places) / sizeof(requests_places[0]); i++)
		trace_writer_place(w, &requests_places[i], &index);
	for (size_t i = 0; i < sizeof(requests_frames) / sizeof(requests_frames[0]); i++)
		trace_writer_frame(w, &requests_frames[i], &index);
	for (size_t i = 0; i < sizeof(requests_stacks) / sizeof(requests_stacks[0]); i++)
		trace_writer_stack(w, &requests_stacks[i], &index);
	for (uint32_t i = 0; i < RQ_THREADS; i++)
		trace_writer_thread(w, &requests_threads[i], &index);
	for (uint32_t i = 0; i < RQ_THREADS; i++) {
		size_t n = fill[i](ev);
		for (size_t k = 0; k < n; k++)
			ev[k].thread = i;
		trace_writer_events(w, i, ev, n);
	}
	trace_writer_round(w, REQUESTS_START + 50 * REQUESTS_MS);
	return trace_writer_close(w, err);
}
