/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Small recordings for tests of findings: each goes through the writer, the reader and the timeline, as
 * a real one does.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/units.h"
#include "findings/findings.h"
#include "timeline/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS NSEC_PER_MSEC
#define US NSEC_PER_USEC
#define START (5000 * MS)
#define N_THREADS 26
#define N_RULES 49

enum { K_TASK, K_OTHER, K_WORKER, K_JOB, K_ROOT, K_FUTURE, K_IN_PLACE, K_HANDLER, N_KINDS };

static const struct trace_kind kinds[N_KINDS] = {
	[K_TASK] = {.name = "app::task",
		    .full_name = "app::task",
		    .scheduler = "multi_thread",
		    .vtable = 0x1000},
	[K_OTHER] = {.name = "app::other", .full_name = "app::other", .scheduler = "multi_thread"},
	[K_WORKER] = {.role = TR_WORKER, .name = "Launch::launch", .full_name = "Launch::launch"},
	[K_JOB] = {.role = TR_BLOCKING,
		   .name = "app::job",
		   .full_name = "app::job",
		   .vtable = 0x1100,
		   .n_sites = 2,
		   .site_addrs = (const uint64_t[]){0x1200, 0x1300},
		   .sites = (const char *const[]){"tokio::spawn+0x4d",
						  "src/main.rs:70 (app::login)"}},
	[K_ROOT] = {.role = TR_ROOT, .name = "block_on", .scheduler = "multi_thread"},
	[K_FUTURE] = {.role = TR_FUTURE, .name = "app::read_frame", .full_name = "app::read_frame"},
	[K_HANDLER] = {.role = TR_FUTURE,
		       .name = "app::order",
		       .full_name = "app::order",
		       .flags = TRACE_KIND_HANDLER},
	[K_IN_PLACE] = {.role = TR_WORKER, .name = "block_in_place", .full_name = "block_in_place"},
};

enum { P_NONE, P_LOCK, P_SLEEP, P_SOCKET, P_NOTIFY, P_SEND, P_SLEEP_TOO, P_CONNECT, P_PERMIT };

static const struct trace_place places[] = {
	{.function = "app::task",
	 .file = "src/main.rs",
	 .line = 10,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::sync::mutex::lock"},
	{.function = "app::other",
	 .file = "src/main.rs",
	 .line = 20,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::time::sleep::Sleep"},
	{.function = "app::task",
	 .file = "src/main.rs",
	 .line = 30,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::net::tcp::stream::readable"},
	{.function = "app::task",
	 .file = "src/main.rs",
	 .line = 40,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::sync::notify::Notified"},
	{.function = "app::task",
	 .file = "src/main.rs",
	 .line = 50,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::sync::mpsc::bounded::send"},
	/* Another number of a place that reads as P_SLEEP. */
	{.function = "app::other",
	 .file = "src/main.rs",
	 .line = 20,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::time::sleep::Sleep"},
	{.function = "app::task",
	 .file = "src/main.rs",
	 .line = 60,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::net::tcp::stream::connect"},
	{.function = "app::task",
	 .file = "src/main.rs",
	 .line = 80,
	 .flags = TRACE_PLACE_OWN,
	 .awaits = "tokio::sync::batch_semaphore::Acquire"},
};

/* Innermost first. C is nobody's own code, also where its source file is known. */
static const struct trace_frame frames[] = {
	{.function = "clock_nanosleep",
	 .object = "/lib/libc.so.6",
	 .file = "../sysdeps/unix/sysv/linux/clock_nanosleep.c",
	 .line = 48},
	{.function = "std::thread::functions::sleep",
	 .object = "/srv/app",
	 .file = "/rustc/59807616e1fa/library/std/src/thread/functions.rs",
	 .line = 289},
	{.function = "app::backoff", .object = "/srv/app", .file = "../src/retry.rs", .line = 7},
	{.function = "clone3",
	 .object = "/lib/libc.so.6",
	 .file = "../sysdeps/clone3.S",
	 .line = 1},
};
#define N_FRAMES (sizeof(frames) / sizeof(frames[0]))

/* And where core's panics come by, called by app::backoff. */
static const struct trace_frame raise_frame = {
	.function = "rust_begin_unwind",
	.object = "/srv/app",
	.file = "/rustc/59807616e1fa/library/std/src/panicking.rs",
	.line = 689};
#define RAISE_STACK (N_FRAMES + 1)

/* A lock of the runtime's, which app::backoff comes to. */
static const struct trace_frame lock_frames[] = {
	{.function = "tokio::runtime::blocking::pool::Spawner::spawn_task", .object = "/srv/app"},
	{.function = "std::sys::sync::mutex::futex::Mutex::lock", .object = "/srv/app"},
	{.function = "Mutex::lock_contended", .object = "/srv/app"},
	/* Code of which nobody knows whose it is, which calls std. */
	{.function = "tokio::runtime::task::raw::poll", .object = "/srv/other"},
	{.function = "shop_core::disk::sync", .object = "/srv/other"},
	{.function = "std::thread::functions::sleep", .object = "/srv/other"},
};
#define N_LOCK_FRAMES 6u
#define RUNTIME_LOCK_STACK (N_FRAMES + 4)
#define BARE_STACK (N_FRAMES + 7)
#define MESSAGE "no rows"

/* ---- a recording ---- */

struct recording {
	struct trace_event *events[N_THREADS];
	size_t n[N_THREADS];
	uint64_t length_ns;
	struct trace_cpu cpu;			      /* n_threads 0: none */
	uint32_t process;			      /* of all threads, as their records have it */
	const struct trace_moment *moments[MOMENT_N]; /* NULL: none */
	bool cut;				      /* the file has no end */
	uint64_t round_ns; /* of a ROUND after all events before that; 0: there is none */
	const char *names[N_THREADS]; /* of the threads; NULL: "worker" */
};

#define MAX_EVENTS 65536

static inline void at(struct recording *rec, unsigned thread, uint64_t time_ns, unsigned type,
		      unsigned arg, uint32_t kind, uint64_t task, uint64_t value)
{
	if (!rec->events[thread])
		rec->events[thread] = calloc(MAX_EVENTS, sizeof(struct trace_event));
	assert_non_null(rec->events[thread]);
	assert_true(rec->n[thread] < MAX_EVENTS);
	rec->events[thread][rec->n[thread]++] = (struct trace_event){
		.time = START + time_ns,
		.thread = thread,
		.type = type,
		.arg = arg,
		.kind = kind,
		.task = task,
		.value = value,
	};
}

static inline void spawn(struct recording *rec, unsigned thread, uint64_t t, uint32_t kind,
			 uint64_t task)
{
	at(rec, thread, t, TE_SPAWN, TRACE_SPAWN_NAMED, kind, task, 0);
}

static inline void poll_begin(struct recording *rec, unsigned thread, uint64_t t, uint32_t kind,
			      uint64_t task)
{
	at(rec, thread, t, TE_POLL_BEGIN, 0, kind, task, 0);
}

static inline void poll_end(struct recording *rec, unsigned thread, uint64_t t, uint32_t kind,
			    uint64_t task, unsigned outcome, unsigned place)
{
	at(rec, thread, t, TE_POLL_END, outcome, kind, task, place);
}

static inline void poll(struct recording *rec, unsigned thread, uint64_t t, uint64_t ns,
			uint32_t kind, uint64_t task, unsigned outcome, unsigned place)
{
	poll_begin(rec, thread, t, kind, task);
	poll_end(rec, thread, t + ns, kind, task, outcome, place);
}

static inline void wake(struct recording *rec, unsigned thread, uint64_t t, uint32_t kind,
			uint64_t task)
{
	at(rec, thread, t, TE_WAKE, TW_SCHEDULED, kind, task, 0);
}

static inline void block(struct recording *rec, unsigned thread, uint64_t end, uint64_t ns,
			 unsigned call)
{
	at(rec, thread, end, TE_BLOCK, call, TRACE_KIND_NONE, 0, ns);
}

static inline void park(struct recording *rec, unsigned thread, uint64_t from, uint64_t to,
			unsigned call)
{
	at(rec, thread, from, TE_PARK, call, TRACE_KIND_NONE, 0, 0);
	at(rec, thread, to, TE_UNPARK, call, TRACE_KIND_NONE, 0, 0);
}

/* A thread whose loop a worker's poll is. */
static inline void worker(struct recording *rec, unsigned thread)
{
	at(rec, thread, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	at(rec, thread, thread + 1, TE_POLL_BEGIN, 0, K_WORKER, 1000 + thread, 0);
}

static inline void write_around_round(const struct recording *rec, struct trace_writer *w)
{
	for (unsigned after = 0; after < 2; after++) {
		for (unsigned i = 0; i < N_THREADS; i++) {
			const struct trace_event *events = rec->events[i];
			size_t n = 0;

			while (n < rec->n[i] && events[n].time < START + rec->round_ns)
				n++;
			size_t from = after ? n : 0, to = after ? rec->n[i] : n;

			if (from < to)
				assert_int_equal(
					trace_writer_events(w, i, &events[from], to - from), 0);
		}
		if (!after)
			assert_int_equal(trace_writer_round(w, START + rec->round_ns), 0);
	}
}

static inline void write_recording(struct recording *rec, const char *path)
{
	struct error err = {0};
	struct trace_writer *w;
	uint32_t index;
	const struct trace_process process = {
		.pid = 4242, .exe = "/srv/app", .cmdline = "app", .start_ns = START};
	const struct trace_runtime runtime = {.name = "tokio", .object = "/srv/app"};
	const struct trace_cost cost = {.end_ns = START + rec->length_ns, .end_reason = "duration"};

	assert_int_equal(trace_writer_open(path, &w, &err), 0);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	assert_int_equal(trace_writer_runtime(w, &runtime, &index), 0);
	for (size_t i = 0; i < N_KINDS; i++)
		assert_int_equal(trace_writer_kind(w, &kinds[i], &index), 0);
	for (unsigned i = 0; i < N_THREADS; i++) {
		const struct trace_thread thread = {.process = rec->process,
						    .tid = 100 + i,
						    .name = rec->names[i] ? rec->names[i]
									  : "worker"};

		assert_int_equal(trace_writer_thread(w, &thread, &index), 0);
	}
	for (size_t i = N_FRAMES; i-- > 0;) {
		const struct trace_stack stack = {.parent = N_FRAMES - 1 - i, .frame = i};

		assert_int_equal(trace_writer_stack(w, &stack, &index), 0);
		assert_int_equal(index, N_FRAMES - 1 - i);
	}
	const struct trace_stack raise = {.parent = 2, .frame = N_FRAMES};
	assert_int_equal(trace_writer_stack(w, &raise, &index), 0);
	assert_int_equal(index + 1, RAISE_STACK);
	for (uint32_t i = 0; i < N_LOCK_FRAMES; i++) {
		const struct trace_stack lock = {.parent = i == 0   ? 2
							   : i == 3 ? 0
								    : index + 1,
						 .frame = N_FRAMES + 1 + i};

		assert_int_equal(trace_writer_stack(w, &lock, &index), 0);
	}
	assert_int_equal(index + 1, BARE_STACK);
	assert_int_equal(trace_writer_message(w, MESSAGE, &index), 0);
	if (rec->moments[MOMENT_START])
		assert_int_equal(trace_writer_moment(w, rec->moments[MOMENT_START]), 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		if (rec->n[i] && !rec->round_ns)
			assert_int_equal(trace_writer_events(w, i, rec->events[i], rec->n[i]), 0);
	if (rec->round_ns)
		write_around_round(rec, w);
	for (size_t i = 0; i < N_FRAMES; i++)
		assert_int_equal(trace_writer_frame(w, &frames[i], &index), 0);
	assert_int_equal(trace_writer_frame(w, &raise_frame, &index), 0);
	for (size_t i = 0; i < N_LOCK_FRAMES; i++)
		assert_int_equal(trace_writer_frame(w, &lock_frames[i], &index), 0);
	/* As in a live recording, what places read is known after they were used. */
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		assert_int_equal(trace_writer_place(w, &places[i], &index), 0);
	if (rec->moments[MOMENT_END])
		assert_int_equal(trace_writer_moment(w, rec->moments[MOMENT_END]), 0);
	assert_int_equal(trace_writer_cost(w, &cost), 0);
	if (rec->cpu.n_threads)
		assert_int_equal(trace_writer_cpu(w, &rec->cpu), 0);
	assert_int_equal(trace_writer_close(w, &err), 0);
	for (unsigned i = 0; i < N_THREADS; i++)
		free(rec->events[i]);
}

static inline void family(const void *ctx, struct buf *out, uint32_t kind, uint32_t handler)
{
	(void)ctx;
	buf_str(out, kind < N_KINDS ? kinds[kind].name : "?");
	if (handler != TRACE_KIND_NONE)
		buf_printf(out, " > %s", kinds[handler].name);
}

static inline void log_lanes(struct buf *out, const struct finding *f, uint64_t base_ns)
{
	buf_printf(out, "%s: %.3f..%.3f ms, process %u, threads", f->rule,
		   (double)(f->from_ns - base_ns) / 1e6, (double)(f->to_ns - base_ns) / 1e6,
		   f->process);
	for (size_t i = 0; i < f->n_threads; i++)
		buf_printf(out, " %u", f->threads[i]);
	buf_str(out, ", tasks");
	for (size_t i = 0; i < f->n_tasks; i++)
		buf_printf(out, " %llu=%llu", (unsigned long long)f->tasks[i],
			   (unsigned long long)f->numbers[i]);
	buf_char(out, '\n');
}

static inline void cut_end(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 1), 0);
}

/* One line for each finding of that score or more: "rule: text", with "<- cause". In *lanes, unless
 * it is NULL, one for each with what it is about. */
static inline char *judged_all(struct recording *rec, const struct replay_filter *filter,
			       unsigned least_score, struct buf *lanes)
{
	char path[] = "/tmp/test_findings.XXXXXX";
	struct timeline_totals totals;
	struct trace_reader *reader;
	struct error err = {0};
	struct buf log = BUF_INIT;
	struct fan_out all = {0};
	uint64_t base_ns;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	write_recording(rec, path);
	if (rec->cut)
		cut_end(path);
	assert_int_equal(trace_reader_open(path, &reader, &err), 0);
	struct findings *f = findings_new(reader, NULL);
	assert_non_null(f);
	all.sinks = findings_sinks(f, &all.n);
	if (timeline_replay(reader, filter, &fan_out_sink, &all, NULL, NULL, &totals, &base_ns,
			    &err) < 0)
		fail_msg("%s", err.text);
	const struct findings_scope scope = {
		.base_ns = base_ns,
		.begin_ns = base_ns,
		.end_ns = totals.last_ns,
		.length_ns = replay_length_ns(reader, filter, base_ns, totals.last_ns),
		.filtered = filter,
		.totals = &totals,
		.family = family,
	};
	assert_int_equal(findings_judge(f, &scope), 0);
	for (size_t i = 0; i < findings_n(f); i++) {
		const struct finding *one = findings_get(f, i);

		assert_in_range(one->score, 1, 100);
		if (i)
			assert_true(findings_get(f, i - 1)->score >= one->score);
		if (one->score < least_score)
			continue;
		buf_printf(&log, "%s: %s", one->rule, one->text);
		if (one->cause)
			buf_printf(&log, " <- %s", one->cause);
		buf_char(&log, '\n');
		if (lanes)
			log_lanes(lanes, one, base_ns);
		assert_true(one->from_ns >= base_ns && one->to_ns >= one->from_ns);
		assert_true(one->to_ns <= totals.last_ns);
	}
	buf_str(&log, "");
	assert_int_equal(findings_n_checks(f), N_RULES);
	findings_free(f);
	trace_reader_free(reader);
	unlink(path);
	*rec = (struct recording){0};
	return buf_steal(&log);
}

static inline char *judged_with_lanes(struct recording *rec, const struct replay_filter *filter,
				      struct buf *lanes)
{
	return judged_all(rec, filter, FINDING_MINOR, lanes);
}

static inline char *judged(struct recording *rec, const struct replay_filter *filter)
{
	return judged_with_lanes(rec, filter, NULL);
}

static inline char *judged_from(struct recording *rec, unsigned least_score)
{
	return judged_all(rec, NULL, least_score, NULL);
}

/* That a finding of the rule is about this, as log_lanes() writes it. */
static inline void expect_lanes(struct recording *rec, const char *rule, const char *about)
{
	struct buf lanes = BUF_INIT;
	char want[256];

	free(judged_with_lanes(rec, NULL, &lanes));
	snprintf(want, sizeof(want), "%s: %s\n", rule, about);
	buf_str(&lanes, "");
	if (!strstr(lanes.data, want))
		fail_msg("%s is not in:\n%s", want, lanes.data);
	buf_done(&lanes);
}

static inline void expect(struct recording *rec, const char *want)
{
	char *got = judged(rec, NULL);

	assert_string_equal(got ? got : "", want);
	free(got);
}

/* Of several findings, that this rule has one that begins so; or none. */
static inline void expect_rule(struct recording *rec, const char *rule, const char *begins)
{
	char *got = judged(rec, NULL), want[512];

	snprintf(want, sizeof(want), "%s: %s", rule, begins ? begins : "");
	char *found = got ? strstr(got, want) : NULL;
	if (begins ? !found : found != NULL)
		fail_msg("%s \"%s\" %s:\n%s", rule, want, begins ? "is not in" : "is in",
			 got ? got : "");
	free(got);
}
