/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What known probes become. A script is lines of "THREAD TIME PROVIDER:PROBE ARG..." (an argument
 * that is a word is a string that the probe pointed at); "THREAD TIME lost" and "... gone" are
 * events passed by; "- TIME drain" decides what is older. What comes out is compared as text,
 * "THREAD TIME EVENT KIND TASK": the threads one after the other, each in its order.
 */
#include "runtime/providers.h"

#include "base/buf.h"
#include "binary/elf/probes.h"
#include "binary/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_KINDS 4096
#define N_THREADS 8
#define UNIT_NS 1000000u /* times in scripts are milliseconds */

struct out {
	struct buf threads[N_THREADS];
	char *kinds[MAX_KINDS];
	uint32_t n_kinds, n_runtimes;
	uint64_t last[N_THREADS];
	int fail_at; /* after this number of calls; 0: never */
};

static int fails(struct out *o)
{
	return o->fail_at && --o->fail_at == 0 ? -EIO : 0;
}

static int on_runtime(void *ctx, const struct trace_runtime *rt, uint32_t *ret)
{
	struct out *o = ctx;

	assert_non_null(rt->name);
	*ret = o->n_runtimes++;
	return fails(o);
}

static int on_kind(void *ctx, const struct trace_kind *k, uint32_t *ret)
{
	struct out *o = ctx;
	struct buf name = BUF_INIT;

	assert_true(o->n_kinds < MAX_KINDS && k->runtime < o->n_runtimes);
	buf_printf(&name, "%s", k->name);
	if (k->role == TR_BLOCKING)
		buf_str(&name, " (blocking)");
	if (k->role == TR_ROOT)
		buf_str(&name, " (root)");
	if (*k->scheduler && k->role == TR_TASK)
		buf_printf(&name, " (%s)", k->scheduler);
	if (k->n_sites && strcmp(k->sites[0], k->name) != 0)
		buf_printf(&name, " @%s", k->sites[0]);
	*ret = o->n_kinds;
	o->kinds[o->n_kinds++] = buf_steal(&name);
	return fails(o);
}

static int on_event(void *ctx, const struct trace_event *ev)
{
	struct out *o = ctx;
	struct buf *b = &o->threads[ev->thread];
	bool about = ev->kind != TRACE_KIND_NONE;

	assert_true(ev->thread < N_THREADS && ev->time >= o->last[ev->thread]);
	assert_true(!about || ev->kind < o->n_kinds);
	o->last[ev->thread] = ev->time;
	buf_printf(b, "%u %llu %s", ev->thread, (unsigned long long)(ev->time / UNIT_NS),
		   trace_event_type_name(ev->type));
	if (ev->type == TE_POLL_END || (ev->type == TE_CANCEL && ev->arg))
		buf_printf(b, " %s", trace_outcome_name(ev->arg));
	if (ev->type == TE_WAKE)
		buf_printf(b, " %s", trace_wake_name(ev->arg));
	if (ev->type == TE_MACHINE)
		buf_printf(b, " %s 0x%llx", trace_machine_name(ev->arg),
			   (unsigned long long)ev->value);
	if (about)
		buf_printf(b, " %s #%llu", o->kinds[ev->kind], (unsigned long long)ev->task);
	if (ev->type == TE_SPAWN) {
		assert_true(ev->arg & TRACE_SPAWN_NAMED);
		if (ev->arg & TRACE_SPAWN_PARENT)
			buf_printf(b, " by #%llu", (unsigned long long)ev->value);
	}
	buf_char(b, '\n');
	return fails(o);
}

static const struct providers_sink sink = {on_runtime, on_kind, on_event};

/* One line; false at the end. */
static bool step(struct providers *p, const char **script, int *ret_r)
{
	struct provider_hit hit = {0};
	char line[256], words[10][64], *colon;
	const char *end = strchr(*script, '\n');
	size_t len = end ? (size_t)(end - *script) : strlen(*script), n = 0;

	if (!**script)
		return false;
	snprintf(line, sizeof(line), "%.*s", (int)len, *script);
	*script += len + (end != NULL);
	for (char *save, *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save))
		snprintf(words[n++], sizeof(words[0]), "%s", w);
	assert_true(n >= 3);
	hit.thread = (uint32_t)strtoul(words[0], NULL, 10);
	hit.time = strtoull(words[1], NULL, 10) * UNIT_NS;
	if (strcmp(words[2], "drain") == 0) {
		*ret_r = providers_drain(p, hit.time);
		return true;
	}
	if (strcmp(words[2], "exec") == 0) {
		*ret_r = providers_forget(p, 0);
		return true;
	}
	colon = strchr(words[2], ':');
	if (!colon) {
		struct trace_event ev = {
			.time = hit.time,
			.thread = hit.thread,
			.type = strcmp(words[2], "lost") == 0 ? TE_LOST : TE_THREAD_END,
			.kind = TRACE_KIND_NONE,
		};

		*ret_r = providers_pass(p, &ev);
		return true;
	}
	*colon = 0;
	hit.probe = providers_match_event(words[2], colon + 1, n - 3);
	if (!hit.probe)
		fail_msg("no probe %s:%s with %zu arguments", words[2], colon + 1, n - 3);
	for (size_t i = 0; i < n - 3; i++) {
		const char *w = words[3 + i];

		if (isdigit((unsigned char)*w))
			hit.args[i] = strtoull(w, NULL, 0);
		else if (hit.probe->args[i] == PV_FILE)
			hit.file = w;
		else if (hit.probe->args[i] == PV_NAME)
			hit.name = strcmp(w, "-") == 0 ? NULL : w;
		else
			fail_msg("%s is no argument of %s", w, hit.probe->name);
	}
	*ret_r = providers_feed(p, &hit);
	return true;
}

static void out_done(struct out *o)
{
	for (size_t i = 0; i < N_THREADS; i++)
		buf_done(&o->threads[i]);
	for (size_t i = 0; i < o->n_kinds; i++)
		free(o->kinds[i]);
}

static void run(const char *script, const char *want)
{
	struct out o = {0};
	struct providers *p = providers_new(&sink, &o);
	_cleanup_buf_ struct buf got = BUF_INIT;
	int r = 0;

	while (step(p, &script, &r))
		assert_int_equal(r, 0);
	assert_int_equal(providers_drain(p, UINT64_MAX), 0);
	for (size_t i = 0; i < N_THREADS; i++)
		buf_str(&got, o.threads[i].data ? o.threads[i].data : "");
	assert_string_equal(got.data ? got.data : "", want);
	providers_free(p);
	out_done(&o);
}

/* ---- Tokio2Chrome ---- */

static void test_chrome_task(void **state)
{
	(void)state;
	run("1 10 tokio:task_start 7\n"
	    "2 20 tokio:task_poll_begin 7\n"
	    "2 30 tokio:task_poll_end 7 0 0\n"
	    "1 40 tokio:task_schedule_start 7\n"
	    "3 50 tokio:task_poll_begin 7\n"
	    "3 60 tokio:task_poll_end 7 1 0\n"
	    "3 61 tokio:task_finish 7\n"
	    "3 62 tokio:task_finish 7\n"
	    "1 70 tokio:task_finish 7\n",
	    "1 10 spawn tokio task #7\n"
	    "1 40 schedule tokio task #7\n"
	    "2 20 poll_begin tokio task #7\n"
	    "2 30 poll_end pending tokio task #7\n"
	    "3 50 poll_begin tokio task #7\n"
	    "3 60 poll_end ready tokio task #7\n");
}

static void test_chrome_ends(void **state)
{
	(void)state;
	/* Panicked; cancelled while it sleeps; never polled; the first form, without `panicked`. */
	run("1 10 tokio:task_start 7\n"
	    "1 11 tokio:task_start 8\n"
	    "1 12 tokio:task_start 9\n"
	    "2 20 tokio:task_poll_begin 7\n"
	    "2 30 tokio:task_poll_end 7 0 1\n"
	    "2 31 tokio:task_finish 7\n"
	    "2 32 tokio:task_poll_begin 8\n"
	    "2 33 tokio:task_poll_end 8 0 0\n"
	    "1 40 tokio:task_finish 8\n"
	    "1 41 tokio:task_finish 8\n"
	    "1 50 tokio:task_finish 9\n"
	    "1 60 tokio:task_finish 3\n"
	    "4 70 tokio:task_poll_begin 99\n"
	    "4 71 tokio:task_poll_end 99 1\n",
	    "1 10 spawn tokio task #7\n"
	    "1 11 spawn tokio task #8\n"
	    "1 12 spawn tokio task #9\n"
	    "1 40 cancel tokio task #8\n"
	    "1 50 cancel tokio task #9\n"
	    "2 20 poll_begin tokio task #7\n"
	    "2 30 poll_end panicked tokio task #7\n"
	    "2 32 poll_begin tokio task #8\n"
	    "2 33 poll_end pending tokio task #8\n"
	    "4 70 poll_begin tokio task #99\n"
	    "4 71 poll_end ready tokio task #99\n");
}

static void test_chrome_roles(void **state)
{
	(void)state;
	/* Two workers, one of which finds nothing to do, and a blocking task of a task. */
	run("1 10 tokio:task_start 1\n"
	    "1 11 tokio:task_start 2\n"
	    "2 20 tokio:task_poll_begin 1\n"
	    "2 21 tokio:task_blocking_begin\n"
	    "3 22 tokio:task_poll_begin 2\n"
	    "3 23 tokio:task_blocking_begin\n"
	    "1 30 tokio:task_start 3\n"
	    "2 40 tokio:task_poll_begin 3\n"
	    "2 41 tokio:task_start 4\n"
	    "2 42 tokio:task_poll_end 3 0 0\n"
	    "4 50 tokio:task_poll_begin 4\n"
	    "4 51 tokio:task_blocking_begin\n"
	    "4 52 tokio:task_blocking_end\n"
	    "4 53 tokio:task_poll_end 4 1 0\n"
	    "2 60 tokio:task_poll_begin 3\n"
	    "2 61 tokio:task_poll_end 3 1 0\n"
	    "- 1000 drain\n"
	    "3 2000 tokio:task_blocking_end\n"
	    "3 2001 tokio:task_poll_end 2 1 0\n"
	    "2 2002 tokio:task_blocking_end\n"
	    "2 2003 tokio:task_poll_end 1 1 0\n"
	    "2 2004 tokio:task_finish 1\n",
	    "1 10 spawn tokio worker #1\n"
	    "1 11 spawn tokio worker #2\n"
	    "1 30 spawn tokio task #3\n"
	    "2 20 poll_begin tokio worker #1\n"
	    "2 40 poll_begin tokio task #3\n"
	    "2 41 spawn tokio blocking task (blocking) #4\n"
	    "2 42 poll_end pending tokio task #3\n"
	    "2 60 poll_begin tokio task #3\n"
	    "2 61 poll_end ready tokio task #3\n"
	    "2 2003 poll_end ready tokio worker #1\n"
	    "3 22 poll_begin tokio worker #2\n"
	    "3 2001 poll_end ready tokio worker #2\n"
	    "4 50 poll_begin tokio blocking task (blocking) #4\n"
	    "4 53 poll_end ready tokio blocking task (blocking) #4\n");
}

static void test_chrome_blocking(void **state)
{
	(void)state;
	/* From block_on and short; panicking: no end of the section; before any other task. */
	run("1 10 tokio:task_start 5\n"
	    "2 20 tokio:task_poll_begin 5\n"
	    "2 21 tokio:task_blocking_begin\n"
	    "2 22 tokio:task_blocking_end\n"
	    "2 23 tokio:task_poll_end 5 1 0\n"
	    "1 30 tokio:task_start 6\n"
	    "2 31 tokio:task_poll_begin 6\n"
	    "2 32 tokio:task_blocking_begin\n"
	    "2 33 tokio:task_poll_end 6 0 1\n"
	    "1 40 tokio:task_start 7\n"
	    "3 41 tokio:task_poll_begin 7\n"
	    "3 42 tokio:task_blocking_begin\n"
	    "- 1000 drain\n"
	    "3 2000 tokio:task_blocking_end\n"
	    "3 2001 tokio:task_poll_end 7 1 0\n",
	    "1 10 spawn tokio blocking task (blocking) #5\n"
	    "1 30 spawn tokio blocking task (blocking) #6\n"
	    "1 40 spawn tokio blocking task (blocking) #7\n"
	    "2 20 poll_begin tokio blocking task (blocking) #5\n"
	    "2 23 poll_end ready tokio blocking task (blocking) #5\n"
	    "2 31 poll_begin tokio blocking task (blocking) #6\n"
	    "2 33 poll_end panicked tokio blocking task (blocking) #6\n"
	    "3 41 poll_begin tokio blocking task (blocking) #7\n"
	    "3 2001 poll_end ready tokio blocking task (blocking) #7\n");
}

static void test_chrome_attached(void **state)
{
	(void)state;
	/* In the middle of a task's poll, of a worker's loop and of a closure. Pull request 5352
	 * has no spawns: perf's form of the names. */
	run("2 10 sdt_tokio:task_poll_end 7 0 0\n"
	    "2 20 sdt_tokio:task_poll_begin_1 8\n"
	    "2 30 sdt_tokio:task_poll_end 8 1 0\n"
	    "3 40 sdt_tokio:task_blocking_end\n"
	    "3 41 sdt_tokio:task_poll_end 5 1 0\n"
	    "2 50 sdt_tokio:task_blocking_end\n"
	    "2 51 sdt_tokio:task_poll_end 1 1 0\n",
	    "2 10 poll_end pending tokio task #7\n"
	    "2 20 poll_begin tokio task #8\n"
	    "2 30 poll_end ready tokio task #8\n"
	    "3 41 poll_end ready tokio blocking task (blocking) #5\n");
}

static void test_id_again(void **state)
{
	(void)state;
	run("2 10 tokio:task_poll_begin 7\n"
	    "2 20 tokio:task_poll_end 7 1 0\n"
	    "2 21 tokio:task_finish 7\n"
	    "2 30 tokio:task_poll_begin 7\n"
	    "2 31 tokio:task_poll_end 7 0 0\n"
	    "1 40 tokio:task_start 7\n"
	    "2 50 tokio:task_poll_begin 7\n"
	    "2 51 tokio:task_poll_end 7 1 0\n",
	    "1 40 drop tokio task #7\n"
	    "1 40 spawn tokio task #7\n"
	    "2 10 poll_begin tokio task #7\n"
	    "2 20 poll_end ready tokio task #7\n"
	    "2 30 drop tokio task #7\n"
	    "2 30 poll_begin tokio task #7\n"
	    "2 31 poll_end pending tokio task #7\n"
	    "2 50 poll_begin tokio task #7\n"
	    "2 51 poll_end ready tokio task #7\n");
	/* Threads overtake each other: the spawn comes a moment after the first poll. */
	run("2 20 tokio:task_poll_begin 7\n"
	    "1 10 tokio:task_start 7\n"
	    "2 30 tokio:task_poll_end 7 1 0\n"
	    "1 25 tokio:task_schedule_start 7\n"
	    "1 35 tokio:task_schedule_start 7\n",
	    "1 10 spawn tokio task #7\n"
	    "1 25 schedule tokio task #7\n"
	    "2 20 poll_begin tokio task #7\n"
	    "2 30 poll_end ready tokio task #7\n");
}

/* ---- tokio-dtrace ---- */

static void test_hooks(void **state)
{
	(void)state;
	run("1 10 tokio:task-spawn 7 src/main.rs 42 5\n"
	    "1 11 tokio:task-spawn 8 /root/.cargo/registry/src/index.crates.io-1/h2-0.4/src/a.rs 9 "
	    "1\n"
	    "2 20 tokio:task-poll-start 7 src/main.rs 42 5\n"
	    "2 30 tokio:task-poll-end 7 src/main.rs 42 5\n"
	    "2 40 tokio:worker-thread-park\n"
	    "2 50 tokio:worker-thread-unpark\n"
	    "2 60 tokio:task-poll-start 7 src/main.rs 42 5\n"
	    "2 61 tokio:task-terminate 7 src/main.rs 42 5\n"
	    "2 62 tokio:task-poll-end 7 src/main.rs 42 5\n"
	    "2 70 tokio:task-poll-start 8 x.rs 1 1\n"
	    "2 71 tokio:task-poll-end 8 x.rs 1 1\n",
	    "1 10 spawn src/main.rs:42:5 #7\n"
	    "1 11 spawn h2-0.4/src/a.rs:9:1 #8\n"
	    "2 20 poll_begin src/main.rs:42:5 #7\n"
	    "2 30 poll_end pending src/main.rs:42:5 #7\n"
	    "2 40 park\n"
	    "2 50 unpark\n"
	    "2 60 poll_begin src/main.rs:42:5 #7\n"
	    "2 62 poll_end ready src/main.rs:42:5 #7\n"
	    "2 70 poll_begin h2-0.4/src/a.rs:9:1 #8\n"
	    "2 71 poll_end pending h2-0.4/src/a.rs:9:1 #8\n");
	/* 0.1.0, and perf's names. */
	run("2 20 sdt_tokio:task_poll_start 7\n"
	    "2 21 sdt_tokio:task_terminate 7\n"
	    "2 22 sdt_tokio:task_poll_end 7\n"
	    "2 23 tokio1234:task__poll__start 8\n",
	    "2 20 poll_begin tokio task #7\n"
	    "2 22 poll_end ready tokio task #7\n"
	    "2 23 poll_begin tokio task #8\n");
}

static void test_hooks_blocking(void **state)
{
	(void)state;
	/* Of a blocking task only the end is recorded; of a worker's loop nothing. */
	run("1 10 tokio:task-spawn 7 src/main.rs 42 5\n"
	    "3 20 tokio:worker-thread-start\n"
	    "3 30 tokio:task-terminate 8 src/main.rs 50 9\n"
	    "3 31 tokio:task-terminate 9 src/main.rs 50 9\n"
	    "3 40 tokio:worker-thread-stop\n"
	    "2 50 tokio:worker-thread-park\n"
	    "2 60 tokio:task-terminate 1 /r/tokio-1.46.1/src/runtime/scheduler/w.rs 20 1\n"
	    "2 61 tokio:task-terminate 7 src/main.rs 42 5\n"
	    "2 61 tokio:task-poll-start 7 src/main.rs 42 5\n"
	    "2 61 tokio:task-poll-end 7 src/main.rs 42 5\n"
	    "2 62 tokio:task-terminate 3 src/main.rs 42 5\n"
	    "2 63 tokio:task-terminate 4 src/main.rs 60 5\n",
	    "1 10 spawn src/main.rs:42:5 #7\n"
	    "2 50 park\n"
	    "2 61 cancel src/main.rs:42:5 #7\n"
	    "2 62 cancel src/main.rs:42:5 #3\n"
	    "2 63 cancel src/main.rs:60:5 #4\n"
	    "3 20 thread_begin\n"
	    "3 30 cancel ready src/main.rs:50:9 (blocking) #8\n"
	    "3 31 cancel ready src/main.rs:50:9 (blocking) #9\n"
	    "3 40 thread_end\n");
}

static void test_hooks_attached(void **state)
{
	(void)state;
	/* In the middle of a last poll; of a poll. */
	run("2 10 tokio:task-terminate 7 src/main.rs 42 5\n"
	    "2 11 tokio:task-poll-end 7 src/main.rs 42 5\n"
	    "3 20 tokio:task-poll-end 8 src/main.rs 42 5\n"
	    "- 21 drain\n",
	    "2 11 poll_end ready src/main.rs:42:5 #7\n"
	    "3 20 poll_end pending src/main.rs:42:5 #8\n");
}

/* ---- Tokio's pull request 7717 ---- */

static void test_pull_request(void **state)
{
	(void)state;
	run("1 10 tokio:task-start 1 0 64 64\n"
	    "1 11 tokio:task-details 1 - src/main.rs 3 1\n"
	    "1 12 tokio:task-poll-start 1\n"
	    "1 13 tokio:task-details 7 reader src/main.rs 42 5\n"
	    "1 14 tokio:task-start 7 1 64 64\n"
	    "1 15 tokio:task-start 8 2 64 64\n"
	    "1 16 tokio:task-details 8 - src/main.rs 50 5\n"
	    "1 17 tokio:waker-wake 7\n"
	    "1 18 tokio:waker-drop 7\n"
	    "1 19 tokio:trace-root\n"
	    "1 20 tokio:task-poll-end 1\n"
	    "2 30 tokio:task-poll-start 7\n"
	    "2 31 tokio:task-poll-end 7\n"
	    "2 32 tokio:task-terminate 7 0\n"
	    "2 33 tokio:waker-wake 7\n"
	    "2 40 tokio:task-poll-start 8\n"
	    "2 41 tokio:task-poll-end 8\n"
	    "2 42 tokio:task-terminate 8 2\n"
	    "1 50 tokio:task-start 9 1 64 64\n"
	    "2 51 tokio:task-poll-start 9\n"
	    "2 52 tokio:task-poll-end 9\n"
	    "2 53 tokio:task-poll-start 10\n"
	    "1 54 tokio:task-terminate 9 1\n",
	    "1 10 spawn src/main.rs:3:1 (root) #1\n"
	    "1 12 poll_begin src/main.rs:3:1 (root) #1\n"
	    "1 14 spawn reader @src/main.rs:42:5 #7\n"
	    "1 15 spawn src/main.rs:50:5 (local) #8\n"
	    "1 17 wake unknown reader @src/main.rs:42:5 #7\n"
	    "1 20 poll_end pending src/main.rs:3:1 (root) #1\n"
	    "1 50 spawn tokio task #9\n"
	    "1 54 cancel tokio task #9\n"
	    "2 30 poll_begin reader @src/main.rs:42:5 #7\n"
	    "2 31 poll_end ready reader @src/main.rs:42:5 #7\n"
	    "2 33 wake noop reader @src/main.rs:42:5 #7\n"
	    "2 40 poll_begin src/main.rs:50:5 (local) #8\n"
	    "2 41 poll_end panicked src/main.rs:50:5 (local) #8\n"
	    "2 51 poll_begin tokio task #9\n"
	    "2 52 poll_end pending tokio task #9\n"
	    "2 53 poll_begin tokio task #10\n");
	/* A worker's loop from before the recording; a task's poll from before it. */
	run("2 10 tokio:task-poll-start 7\n"
	    "2 11 tokio:task-poll-end 7\n"
	    "2 20 tokio:task-poll-end 2\n"
	    "2 21 tokio:task-terminate 2 0\n"
	    "3 30 tokio:task-poll-end 5\n"
	    "3 31 tokio:task-terminate 5 0\n",
	    "2 10 poll_begin tokio task #7\n"
	    "2 11 poll_end pending tokio task #7\n"
	    "3 30 poll_end ready tokio task #5\n");
}

/* ---- async-std ---- */

static void test_async_std(void **state)
{
	(void)state;
	run("1 10 async_std:machine_starting 0xa0\n"
	    "1 20 async_std:task_spawn 2 0 reader 6\n"
	    "1 21 async_std:task_spawn 3 2 - 0\n"
	    "1 22 async_std:machine_scheduled_task 0xa0 2 0\n"
	    "2 23 async_std:machine_scheduled_task 0xa0 2 1\n"
	    "3 30 async_std:machine_blocked 0xa0\n"
	    "2 40 async_std:task_completed 2\n"
	    "2 41 async_std:task_completed 2\n"
	    "2 50 async_std:machine_scheduled_task 0xa0 9 1\n"
	    "2 51 async_std:task_completed 9\n"
	    "2 52 async_std:task_completed 10\n"
	    "1 60 async_std:task_spawn 2 3 -\n",
	    "1 10 machine starting 0xa0\n"
	    "1 20 spawn reader #2 by #0\n"
	    "1 21 spawn async-std task #3 by #2\n"
	    "1 22 machine task global 0xa0 reader #2\n"
	    "1 60 drop reader #2\n"
	    "1 60 spawn async-std task #2 by #3\n"
	    "2 23 machine task local 0xa0 reader #2\n"
	    "2 40 cancel ready reader #2\n"
	    "2 50 machine task local 0xa0 async-std task #9\n"
	    "2 51 cancel ready async-std task #9\n"
	    "2 52 cancel ready async-std task #10\n"
	    "3 30 machine blocked 0xa0\n");
}

/* ---- losses and limits ---- */

static void test_lost(void **state)
{
	(void)state;
	run("2 10 tokio:task-poll-start 7\n"
	    "2 11 tokio:task-poll-end 7\n"
	    "2 12 lost\n"
	    "2 13 tokio:task-poll-end 8\n"
	    "2 14 gone\n",
	    "2 10 poll_begin tokio task #7\n"
	    "2 11 poll_end unknown tokio task #7\n"
	    "2 12 lost\n"
	    "2 13 poll_end pending tokio task #8\n"
	    "2 14 thread_end\n");
	/* After an exec ids begin again. */
	run("2 10 tokio:task_poll_begin 7\n"
	    "2 11 tokio:task_poll_end 7 1 0\n"
	    "- 0 exec\n"
	    "2 20 tokio:task_poll_begin 7\n"
	    "2 21 tokio:task_poll_end 7 1 0\n",
	    "2 10 poll_begin tokio task #7\n"
	    "2 11 poll_end ready tokio task #7\n"
	    "2 20 poll_begin tokio task #7\n"
	    "2 21 poll_end ready tokio task #7\n");
}

static void test_waits(void **state)
{
	struct out o = {0};
	struct providers *p = providers_new(&sink, &o);
	struct providers_stats stats;
	const char *script = "1 10 tokio:task_start 7\n"
			     "1 20 tokio:task_start 8\n"
			     "2 30 tokio:task_poll_begin 8\n";
	int r;

	(void)state;
	while (step(p, &script, &r))
		assert_int_equal(r, 0);
	/* Nothing is decided; then the oldest; then all. Both ways keep each thread's order. */
	assert_int_equal(o.threads[1].len + o.threads[2].len, 0);
	assert_int_equal(providers_drain(p, 11 * UNIT_NS), 0);
	assert_string_equal(o.threads[1].data, "1 10 spawn tokio task #7\n");
	assert_int_equal(providers_drain(p, 31 * UNIT_NS), 0);
	assert_string_equal(o.threads[2].data, "2 30 poll_begin tokio task #8\n");
	providers_stats(p, &stats);
	assert_int_equal(stats.n_tasks, 2);
	assert_int_equal(stats.n_hits, 3);
	assert_int_equal(stats.n_placed, 0);
	assert_int_equal(stats.n_late, 0);
	script = "2 40 tokio:task_blocking_begin\n";
	step(p, &script, &r);
	providers_stats(p, &stats);
	assert_int_equal(stats.n_late, 1);
	providers_free(p);
	out_done(&o);
}

/* A failing sink ends it, wherever it fails. */
static void test_sink_fails(void **state)
{
	(void)state;
	for (int at = 1; at < 12; at++) {
		struct out o = {.fail_at = at};
		struct providers *p = providers_new(&sink, &o);
		const char *script = "1 10 tokio:task-spawn 7 a.rs 1 1\n"
				     "1 11 tokio:task-spawn 8 b.rs 1 1\n"
				     "2 20 tokio:task-poll-start 7\n"
				     "2 21 tokio:task-poll-end 7\n"
				     "3 30 tokio:task_poll_begin 9\n"
				     "3 31 tokio:task_poll_end 9 1 0\n";
		int r = 0;

		while (step(p, &script, &r) && r == 0)
			;
		if (r == 0)
			r = providers_drain(p, UINT64_MAX);
		assert_int_equal(r, o.fail_at ? 0 : -EIO);
		assert_int_equal(providers_drain(p, UINT64_MAX), r);
		providers_free(p);
		out_done(&o);
	}
}

/* Names may be as many as tasks: kinds must not. Polls may be open without end. */
static void test_limits(void **state)
{
	struct out o = {0};
	struct providers *p = providers_new(&sink, &o);
	struct provider_hit hit = {.thread = 1};
	char name[32];

	(void)state;
	hit.probe = providers_match_event("async_std", "task_spawn", 4);
	hit.name = name;
	for (unsigned i = 1; i <= 3000; i++) {
		snprintf(name, sizeof(name), "task %u", i);
		hit.time = hit.args[0] = i;
		assert_int_equal(providers_feed(p, &hit), 0);
	}
	assert_in_range(o.n_kinds, 1000, 1100);
	hit.probe = providers_match_event("tokio", "task_poll_begin", 1);
	hit.name = NULL;
	for (unsigned i = 1; i <= 3000; i++) {
		hit.time = i + 5000;
		hit.args[0] = i + 5000;
		assert_int_equal(providers_feed(p, &hit), 0);
	}
	hit.probe = providers_match_event("tokio", "task_poll_end", 3);
	for (unsigned i = 3000; i >= 1; i--) {
		hit.time = 20000 - i;
		hit.args[0] = i + 5000;
		hit.args[1] = 1;
		assert_int_equal(providers_feed(p, &hit), 0);
	}
	/* Ended ones are remembered, but not all for good. */
	for (unsigned i = 1; i <= 200000; i++) {
		hit.probe = providers_match_event("tokio", "task_poll_begin", 1);
		hit.time = 30000 + i;
		hit.args[0] = 10000 + i;
		assert_int_equal(providers_feed(p, &hit), 0);
		hit.probe = providers_match_event("tokio", "task_poll_end", 3);
		assert_int_equal(providers_feed(p, &hit), 0);
	}
	providers_free(p);
	out_done(&o);
}

/* ---- the table ---- */

static void test_table(void **state)
{
	struct probe note = {.provider = "tokio", .name = "task-terminate", .n_args = 2};
	struct probe_arg arg;
	size_t n;

	(void)state;
	assert_string_equal(providers_match(&note)->source, "Tokio's pull request 7717");
	note.n_args = 1;
	assert_string_equal(providers_match(&note)->source, "tokio-dtrace 0.1.0");
	note.n_args = 3;
	assert_null(providers_match(&note));
	/* A note says what it is: only perf writes `_` for `-`. */
	note.name = "task_terminate";
	note.n_args = 1;
	assert_null(providers_match(&note));
	note.name = "task__terminate";
	assert_non_null(providers_match(&note));
	note.provider = "tokio77";
	assert_non_null(providers_match(&note));
	note.provider = "tokio-like";
	assert_null(providers_match(&note));
	assert_null(providers_match_event("tokio", "task_poll_begin_", 1));
	assert_null(providers_match_event("tokio", "", 1));
	assert_null(providers_match_event("sdt_", "7", 1));
	assert_null(providers_function("async_std_task_spawned"));
	assert_int_equal(providers_function("async_std_task_spawn")->type, PW_SPAWN);
	providers_function_arg(&machine_x86_64, 3, &arg);
	assert_int_equal(arg.base, PROBE_X86_RCX);
	providers_function_arg(&machine_x86_64, 6, &arg);
	assert_int_equal(arg.form, PA_REFUSED);
	for (n = 0; providers_row(n); n++) {
		const struct provider_probe *row = providers_row(n);

		assert_true(row->n_args <= PROVIDER_MAX_ARGS && row->type < PW_N);
		assert_ptr_equal(providers_match_event(row->provider, row->name, row->n_args), row);
		assert_string_not_equal(provider_what_text(row->type), "?");
	}
	assert_true(n > 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chrome_task),	cmocka_unit_test(test_chrome_ends),
		cmocka_unit_test(test_chrome_roles),	cmocka_unit_test(test_chrome_blocking),
		cmocka_unit_test(test_chrome_attached), cmocka_unit_test(test_id_again),
		cmocka_unit_test(test_hooks),		cmocka_unit_test(test_hooks_blocking),
		cmocka_unit_test(test_hooks_attached),	cmocka_unit_test(test_pull_request),
		cmocka_unit_test(test_async_std),	cmocka_unit_test(test_lost),
		cmocka_unit_test(test_waits),		cmocka_unit_test(test_sink_fails),
		cmocka_unit_test(test_limits),		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
