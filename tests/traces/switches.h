/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A made-up recording with --sched: a task is preempted by a neighbour and by another worker, and a
 * thread that sleeps is woken and waits for its CPU. tests/traces/make.c writes it into
 * good/switches.plx.
 */
#pragma once

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

#define SWITCHES_START 3000000000000ULL
#define SWITCHES_US 1000ULL

enum { SW_WORKER = 0, SW_OTHER, SW_WORKER_SCHED, SW_OTHER_SCHED, SW_THREADS };
enum { SN_HOG = 1, SN_OTHER, SN_IDLE, SN_STRANGER, SN_WORKER }; /* index + 1 */

static const struct trace_process switches_process = {
	.pid = 200, .exe = "/usr/bin/app", .cmdline = "app", .start_ns = SWITCHES_START};

static const struct trace_runtime switches_runtime = {
	.name = "tokio", .version = "1.54.1", .object = "/usr/bin/app", .verified = "symbols"};

static const struct trace_thread switches_threads[SW_THREADS] = {
	[SW_WORKER] = {.tid = 201, .name = "tokio-rt-worker"},
	[SW_OTHER] = {.tid = 202, .name = "tokio-rt-worker"},
	[SW_WORKER_SCHED] = {.tid = 201, .name = "", .stream_of = SW_WORKER + 1},
	[SW_OTHER_SCHED] = {.tid = 202, .name = "", .stream_of = SW_OTHER + 1},
};

static const struct trace_kind switches_kind = {.name = "app::compute",
						.full_name = "app::compute::{async_fn_env#0}",
						.scheduler = "multi_thread"};

static const struct trace_neighbour switches_neighbours[] = {
	[SN_HOG - 1] = {.pid = 900, .tid = 901, .name = "backup"},
	[SN_OTHER - 1] = {.pid = 200, .tid = 202, .name = "tokio-rt-worker"},
	[SN_IDLE - 1] = {.flags = TRACE_NEIGHBOUR_IDLE, .name = "idle"},
	[SN_STRANGER - 1] = {.name = "elsewhere"},
	[SN_WORKER - 1] = {.pid = 200, .tid = 201, .name = "tokio-rt-worker"},
};

#define SWITCHES_OF(us, event, of_kind, ...)                                                       \
	(*ev++ = (struct trace_event){.time = SWITCHES_START + (us)*SWITCHES_US,                   \
				      .type = (event),                                             \
				      .kind = (of_kind),                                           \
				      __VA_ARGS__})

static inline size_t switches_worker(struct trace_event *first)
{
	struct trace_event *ev = first;
	SWITCHES_OF(100, TE_POLL_BEGIN, 0, .task = 7);
	SWITCHES_OF(9000, TE_POLL_END, 0, .task = 7);
	SWITCHES_OF(9010, TE_PARK, TRACE_KIND_NONE, .arg = TB_FUTEX);
	SWITCHES_OF(20000, TE_UNPARK, TRACE_KIND_NONE, .arg = TB_FUTEX);
	SWITCHES_OF(20010, TE_POLL_BEGIN, 0, .task = 7);
	SWITCHES_OF(21000, TE_POLL_END, 0, .task = 7, .arg = TO_READY);
	return (size_t)(ev - first);
}

static inline size_t switches_other(struct trace_event *first)
{
	struct trace_event *ev = first;
	SWITCHES_OF(200, TE_POLL_BEGIN, 0, .task = 8);
	SWITCHES_OF(15000, TE_WAKE, 0, .task = 7, .arg = TW_SCHEDULED);
	SWITCHES_OF(16000, TE_POLL_END, 0, .task = 8, .arg = TO_READY);
	return (size_t)(ev - first);
}

/* Preempted twice, the second time onto another CPU, then asleep until it is woken. */
static inline size_t switches_worker_sched(struct trace_event *first)
{
	struct trace_event *ev = first;
	SWITCHES_OF(4000, TE_LEFT_CPU, TRACE_KIND_NONE, .task = SN_HOG, .value = 1);
	SWITCHES_OF(4000, TE_GOT_CPU, TRACE_KIND_NONE, .task = SN_OTHER, .value = 1);
	SWITCHES_OF(4000, TE_RAN_INSTEAD, TRACE_KIND_NONE, .task = SN_HOG,
		    .value = 2000 * SWITCHES_US);
	SWITCHES_OF(4000, TE_RAN_INSTEAD, TRACE_KIND_NONE, .task = SN_OTHER,
		    .value = 1000 * SWITCHES_US);
	SWITCHES_OF(4000, TE_OFF_CPU, TRACE_KIND_NONE, .arg = TX_PREEMPTED,
		    .value = 3000 * SWITCHES_US);
	SWITCHES_OF(7000, TE_LEFT_CPU, TRACE_KIND_NONE, .task = SN_STRANGER, .value = 1);
	SWITCHES_OF(7000, TE_GOT_CPU, TRACE_KIND_NONE, .task = SN_IDLE, .value = 4);
	SWITCHES_OF(7000, TE_RAN_INSTEAD, TRACE_KIND_NONE, .task = SN_STRANGER,
		    .value = 500 * SWITCHES_US);
	SWITCHES_OF(7000, TE_RAN_INSTEAD, TRACE_KIND_NONE, .value = 500 * SWITCHES_US);
	SWITCHES_OF(7000, TE_OFF_CPU, TRACE_KIND_NONE, .arg = TX_PREEMPTED,
		    .value = 1000 * SWITCHES_US);
	SWITCHES_OF(19990, TE_LEFT_CPU, TRACE_KIND_NONE, .task = SN_IDLE, .value = 4);
	SWITCHES_OF(19990, TE_GOT_CPU, TRACE_KIND_NONE, .task = SN_HOG, .value = 4);
	SWITCHES_OF(19990, TE_WOKEN, TRACE_KIND_NONE, .task = SN_OTHER,
		    .value = 4980 * SWITCHES_US);
	SWITCHES_OF(19990, TE_RAN_INSTEAD, TRACE_KIND_NONE, .task = SN_HOG,
		    .value = 4980 * SWITCHES_US);
	SWITCHES_OF(19990, TE_OFF_CPU, TRACE_KIND_NONE, .arg = TX_SLEEPING,
		    .value = 10970 * SWITCHES_US, .task = 203);
	return (size_t)(ev - first);
}

/* Of a source that knows the CPUs only. */
static inline size_t switches_other_sched(struct trace_event *first)
{
	struct trace_event *ev = first;
	SWITCHES_OF(3500, TE_LEFT_CPU, TRACE_KIND_NONE, .value = 2);
	SWITCHES_OF(3500, TE_GOT_CPU, TRACE_KIND_NONE, .value = 1);
	SWITCHES_OF(3500, TE_OFF_CPU, TRACE_KIND_NONE, .arg = TX_PREEMPTED,
		    .value = 500 * SWITCHES_US);
	return (size_t)(ev - first);
}

/* Writes it to a file. 0 or negative errno. */
static inline int switches_write(const char *path, struct error *err)
{
	static size_t (*const fill[SW_THREADS])(struct trace_event *) = {
		[SW_WORKER] = switches_worker,
		[SW_OTHER] = switches_other,
		[SW_WORKER_SCHED] = switches_worker_sched,
		[SW_OTHER_SCHED] = switches_other_sched,
	};
	const struct trace_cost cost = {.end_ns = SWITCHES_START + 22000 * SWITCHES_US,
					.end_reason = "interrupted"};
	struct trace_event ev[64];
	struct trace_writer *w;
	uint32_t index;
	int rc = trace_writer_open(path, &w, err);

	if (rc < 0)
		return rc;
	trace_writer_process(w, &switches_process, &index);
	trace_writer_runtime(w, &switches_runtime, &index);
	trace_writer_kind(w, &switches_kind, &index);
	for (size_t i = 0; i < sizeof(switches_neighbours) / sizeof(*switches_neighbours); i++)
		trace_writer_neighbour(w, &switches_neighbours[i], &index);
	for (uint32_t i = 0; i < SW_THREADS; i++)
		trace_writer_thread(w, &switches_threads[i], &index);
	for (uint32_t i = 0; i < SW_THREADS; i++) {
		size_t n = fill[i](ev);

		for (size_t k = 0; k < n; k++)
			ev[k].thread = i;
		trace_writer_events(w, i, ev, n);
	}
	trace_writer_round(w, SWITCHES_START);
	trace_writer_cost(w, &cost);
	return trace_writer_close(w, err);
}
