/*
 * A small trace with everything in it: every record, three threads, four rounds, an address-named
 * kind, losses, a clock that goes back. tests/traces/make.c writes it into good/small.plx; tests
 * make it anew and compare.
 */
#pragma once

#include "trace/trace.h"

#include <stddef.h>
#include <stdint.h>

#define SAMPLE_ROUNDS 4u
#define SAMPLE_THREADS 3u
#define SAMPLE_START 7000000000000ULL
#define SAMPLE_ROUND_NS 100000u

static const struct trace_process sample_process = {
	.pid = 4242,
	.exe = "/usr/bin/app",
	.cmdline = "app --serve µ",
	.start_ns = SAMPLE_START,
	.start_realtime_ns = 1700000000000000000ULL,
};

static const struct trace_runtime sample_runtimes[2] = {
	{.name = "tokio", .version = "1.38.0", .object = "/usr/bin/app", .verified = "symbols"},
	{.name = "async-task", .version = "", .object = "/usr/lib/libx.so", .verified = NULL},
};

static const struct trace_thread sample_threads[SAMPLE_THREADS] = {
	{.tid = 4242, .name = "main"},
	{.tid = 4243, .name = "tokio-runtime-w"},
	{.tid = 4244, .name = "async-std/runti"},
};

static const struct trace_kind sample_kinds[3] = {
	{
		.role = TR_TASK,
		.vtable = 0x5f3a0,
		.poll = 0x1200,
		.name = "app::serve",
		.full_name = "app::serve::{{closure}}",
		.scheduler = "multi_thread",
		.n_sites = 2,
		.site_addrs = (const uint64_t[]){0x1234, 0x5678},
		.sites = (const char *const[]){"app::main+0x1f3", "app::accept (src/main.rs:12)"},
	},
	{.role = TR_WORKER, .name = "worker", .scheduler = "blocking"},
	{.runtime = 1, .role = TR_TASK, .address_named = 1, .name = "kind 2"},
};

static const struct trace_coverage sample_coverage[2] = {
	{.item = "task vtables", .seen = 9, .total = 9},
	{.item = "spawn sites", .seen = 3, .total = 4, .note = "one is inlined twice"},
};

static const struct trace_cost sample_cost = {
	.stop_ns = 812000,
	.attach_ns = 90000000,
	.recorder_cpu_ns = 12000000,
	.event_cost_ps = 22000,
	.end_ns = SAMPLE_START + 1000000000,
	.end_reason = "interrupted",
};

/* The events of a thread in a round; up to 32, all within the round. How many. */
static inline size_t sample_events(uint32_t thread, uint32_t round, struct trace_event *ev)
{
	uint64_t t = SAMPLE_START + round * SAMPLE_ROUND_NS + 100 + thread * 37;
	uint32_t kind = thread == 2 ? 2 : 0;
	size_t n = 0;
#define SAMPLE_ADD(at, ...)                                                                        \
	(ev[n++] = (struct trace_event){.time = (at), .thread = thread, __VA_ARGS__})

	if (round == 0)
		SAMPLE_ADD(t, .type = TE_THREAD_BEGIN, .kind = TRACE_KIND_NONE);
	if (round == 0 && thread == 1)
		SAMPLE_ADD(t + 1, .type = TE_POLL_BEGIN, .kind = 1, .task = 3);
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t task = (thread == 2 ? 0x7f0012340000 + i * 0x180 : 10 + i) + round;
		t += 17 * i + 300;
		SAMPLE_ADD(t, .type = TE_WAKE, .arg = TW_SCHEDULED, .kind = kind, .task = task);
		SAMPLE_ADD(t + 4000, .type = TE_POLL_BEGIN, .kind = kind, .task = task);
		if (i == 2)
			SAMPLE_ADD(t + 9000, .type = TE_BLOCK, .arg = TB_NANOSLEEP,
				   .kind = TRACE_KIND_NONE, .value = 5000);
		SAMPLE_ADD(t + 12000, .type = TE_POLL_END, .arg = i == 3 ? TO_READY : TO_PENDING,
			   .kind = kind, .task = task);
		t += 13000;
	}
	if (thread == 1 && round == 2) {
		SAMPLE_ADD(t + 500, .type = TE_LOST, .kind = TRACE_KIND_NONE, .value = 123456);
		SAMPLE_ADD(t + 400, .type = TE_WAKE, .arg = TW_NOOP, .kind = 0, .task = UINT64_MAX);
	}
	if (round == SAMPLE_ROUNDS - 1)
		SAMPLE_ADD(t + 600, .type = TE_THREAD_END, .kind = TRACE_KIND_NONE);
#undef SAMPLE_ADD
	return n;
}

/* Writes the sample to a file. 0 or negative errno. */
static inline int sample_write(const char *path, struct error *err)
{
	struct trace_writer *w;
	struct trace_event ev[32];
	uint32_t index;

	int r = trace_writer_open(path, &w, err);
	if (r < 0)
		return r;
	trace_writer_process(w, &sample_process, &index);
	for (int i = 0; i < 2; i++)
		trace_writer_runtime(w, &sample_runtimes[i], &index);
	for (int i = 0; i < 3; i++)
		trace_writer_kind(w, &sample_kinds[i], &index);
	trace_writer_coverage(w, &sample_coverage[0]);
	for (uint32_t i = 0; i < SAMPLE_THREADS; i++)
		trace_writer_thread(w, &sample_threads[i], &index);
	for (uint32_t round = 0; round < SAMPLE_ROUNDS; round++) {
		for (uint32_t i = 0; i < SAMPLE_THREADS; i++)
			trace_writer_events(w, i, ev, sample_events(i, round, ev));
		if (round == 1)
			trace_writer_thread_name(w, 1, "renamed");
		trace_writer_round(w, SAMPLE_START + (round + 1) * SAMPLE_ROUND_NS);
	}
	trace_writer_coverage(w, &sample_coverage[1]);
	trace_writer_cost(w, &sample_cost);
	return trace_writer_close(w, err);
}
