/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Each rule of docs/findings.md over events on a small recording that has its trouble, and on one that
 * nearly has. test_findings_moments.c has those over moments.
 */
#include "tests/unit/findings_recording.h"

#include <errno.h>

/* ---- polls ---- */

static void test_nothing(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 10, K_TASK, 1);
	poll(&rec, 0, 1 * MS, 50 * US, K_TASK, 1, TO_READY, 0);
	expect(&rec, "");
}

static void test_long_polls(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t t = 100 * MS * (i + 1);

		spawn(&rec, 0, t - 1, K_TASK, 1 + i);
		poll_begin(&rec, 0, t, K_TASK, 1 + i);
		block(&rec, 0, t + 20 * MS + i * MS, 19 * MS, TB_NANOSLEEP);
		poll_end(&rec, 0, t + 20 * MS + i * MS, K_TASK, 1 + i, TO_READY, 0);
	}
	expect(&rec, "long-polls: app::task held its thread in 3 polls of 20.0 ms to 22.0 ms "
		     "(63.0 ms in total), 57.0 ms of it in nanosleep\n");

	/* The CPU was given away. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll_begin(&rec, 0, 2 * MS, K_TASK, 1);
	block(&rec, 0, 70 * MS, 67 * MS, TB_SCHED_YIELD);
	poll_end(&rec, 0, 70 * MS, K_TASK, 1, TO_READY, 0);
	expect(&rec, "");

	/* It panicked: that is what there is to say. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll(&rec, 0, 2 * MS, 200 * MS, K_TASK, 1, TO_PANICKED, 0);
	expect_rule(&rec, "panicked", "1 task panicked: app::task");
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll(&rec, 0, 2 * MS, 200 * MS, K_TASK, 1, TO_PANICKED, 0);
	expect_rule(&rec, "long-polls", NULL);

	/* Not long; and closures are there to block. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll(&rec, 0, 2 * MS, 9 * MS, K_TASK, 1, TO_READY, 0);
	spawn(&rec, 0, 20 * MS, K_JOB, 2);
	at(&rec, 1, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	poll(&rec, 1, 21 * MS, 500 * MS, K_JOB, 2, TO_READY, 0);
	expect(&rec, "");
}

static void long_poll_of(struct recording *rec, uint64_t t, uint64_t task, bool handled)
{
	spawn(rec, 0, t - 1, K_TASK, task);
	poll_begin(rec, 0, t, K_TASK, task);
	if (handled)
		at(rec, 0, t, TE_FUTURE_BEGIN, TRACE_FUTURE_FIRST, K_HANDLER, 0x1000, 0);
	block(rec, 0, t + 20 * MS, 19 * MS, TB_NANOSLEEP);
	if (handled)
		at(rec, 0, t + 20 * MS, TE_FUTURE_END, TO_READY, K_HANDLER, 0x1000, 0);
	poll_end(rec, 0, t + 20 * MS, K_TASK, task, TO_READY, 0);
}

/* Polls before a handler was recognised are one trouble with those of the handler. */
static void test_long_polls_before_handlers(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	for (unsigned i = 0; i < 6; i++)
		long_poll_of(&rec, 100 * MS * (i + 1), 1 + i, i >= 2);
	expect(&rec, "long-polls: app::task > app::order held its thread in 4 polls of 20.0 ms "
		     "(80.0 ms in total), 76.0 ms of it in nanosleep\n"
		     "slow-requests: 99 % of the requests to app::order took up to 20.0 ms; most "
		     "of their time they were blocked in nanosleep\n");

	/* And two, if the family has them among those of its handlers. */
	rec = (struct recording){.length_ns = 1000 * MS};
	worker(&rec, 0);
	for (unsigned i = 0; i < 6; i++)
		long_poll_of(&rec, 100 * MS * (i + 1), 1 + i, i % 3);
	expect_rule(&rec, "long-polls",
		    "app::task > app::order held its thread in 4 polls of 20.0 ms "
		    "(80.0 ms in total), 76.0 ms of it in nanosleep\n"
		    "long-polls: app::task held its thread in 2 polls of 20.0 ms "
		    "(40.0 ms in total), 38.0 ms of it in nanosleep\n");
}

static void test_long_poll_stack(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll_begin(&rec, 0, 2 * MS, K_TASK, 1);
	at(&rec, 0, 13 * MS, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 11 * MS, N_FRAMES);
	block(&rec, 0, 32 * MS, 29 * MS, TB_NANOSLEEP);
	poll_end(&rec, 0, 32 * MS, K_TASK, 1, TO_READY, 0);
	expect(&rec, "long-polls: app::task held its thread for 30.0 ms without yielding, 29.0 ms "
		     "of it in nanosleep, called at ../src/retry.rs:7 app::backoff\n");
	/* One that is taken after the call is not where it was called. */
	rec = (struct recording){.length_ns = 1000 * MS};
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll_begin(&rec, 0, 2 * MS, K_TASK, 1);
	at(&rec, 0, 13 * MS, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 11 * MS, N_FRAMES);
	block(&rec, 0, 31 * MS, 28 * MS, TB_NANOSLEEP);
	at(&rec, 0, 32 * MS, TE_SAMPLE, TM_LONG_RUNNING, TRACE_KIND_NONE, 30 * MS, BARE_STACK);
	poll_end(&rec, 0, 33 * MS, K_TASK, 1, TO_READY, 0);
	expect_rule(&rec, "long-polls",
		    "app::task held its thread for 31.0 ms without yielding, 28.0 ms of it in "
		    "nanosleep, called at ../src/retry.rs:7 app::backoff\n");
}

static void waits_in_poll(struct recording *rec, uint64_t stack, uint64_t lacked_ns)
{
	rec->length_ns = 1000 * MS;
	rec->cpu =
		(struct trace_cpu){.n_threads = 2, .cpu_ns = 100 * MS, .run_delay_ns = lacked_ns};
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_TASK, 1);
	poll_begin(rec, 0, 2 * MS, K_TASK, 1);
	at(rec, 0, 13 * MS, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 11 * MS, stack);
	block(rec, 0, 232 * MS, 229 * MS, TB_FUTEX);
	poll_end(rec, 0, 232 * MS, K_TASK, 1, TO_READY, 0);
}

/* Where threads lack a CPU, who holds the runtime's own lock may be one of them; a lock of the program's
 * may be held for as long as that. */
/* At one line: two wait in turn for the lock that a third has while it writes. */
static void test_long_lock_and_call(void **state)
{
	static const struct {
		unsigned call, ms;
	} polls[] = {{TB_WRITE, 60}, {TB_FUTEX, 90}, {TB_FUTEX, 95}};
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		uint64_t end = (2 + polls[i].ms) * MS;

		worker(&rec, i);
		spawn(&rec, i, 1 * MS, K_TASK, 1 + i);
		poll_begin(&rec, i, 2 * MS, K_TASK, 1 + i);
		at(&rec, i, 13 * MS, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE, 11 * MS,
		   N_FRAMES);
		block(&rec, i, end, (polls[i].ms - 1) * MS, polls[i].call);
		poll_end(&rec, i, end, K_TASK, 1 + i, TO_READY, 0);
	}
	expect(&rec,
	       "long-polls: app::task held its thread for 60.0 ms without yielding, 59.0 ms of it "
	       "in "
	       "write, called at ../src/retry.rs:7 app::backoff\n"
	       "long-polls: app::task held its thread in 2 polls of 90.0 ms to 95.0 ms (185 ms in "
	       "total), 183 ms of it in futex, called at ../src/retry.rs:7 app::backoff, for a "
	       "lock "
	       "that others have meanwhile, in write\n");
}

static void test_runtime_lock(void **state)
{
	struct recording rec = {0};
	(void)state;
	waits_in_poll(&rec, RUNTIME_LOCK_STACK, 400 * MS);
	expect(&rec,
	       "no-cpu: threads were ready to run, but had no CPU for 400 ms in total (they ran "
	       "100 ms): polls and delays took longer\n");
	waits_in_poll(&rec, N_FRAMES, 400 * MS);
	expect_rule(&rec, "long-polls", "app::task held its thread for 230 ms");
	waits_in_poll(&rec, BARE_STACK, 0);
	expect_rule(&rec, "long-polls",
		    "app::task held its thread for 230 ms without yielding, 229 ms of it in futex, "
		    "called at shop_core::disk::sync\n");
	waits_in_poll(&rec, RUNTIME_LOCK_STACK, 0);
	expect_rule(&rec, "long-polls", "app::task held its thread for 230 ms");
}

/* What computes is long whatever the machine lacks, and delays others whatever it lacks. */
static void test_computes(void **state)
{
	(void)state;
	for (unsigned n_samples = 0; n_samples <= 40; n_samples += 40) {
		struct recording rec = {
			.length_ns = 1000 * MS,
			.cpu = {.n_threads = 2, .cpu_ns = 100 * MS, .run_delay_ns = 700 * MS}};

		worker(&rec, 0);
		worker(&rec, 1);
		spawn(&rec, 0, 1 * MS, K_TASK, 1);
		poll(&rec, 0, 2 * MS, US, K_TASK, 1, TO_PENDING, P_NOTIFY);
		spawn(&rec, 0, 3 * MS, K_OTHER, 2);
		park(&rec, 1, 3 * MS, 900 * MS, TB_EPOLL_WAIT);
		poll_begin(&rec, 0, 10 * MS, K_OTHER, 2);
		wake(&rec, 0, 11 * MS, K_TASK, 1);
		for (unsigned i = 0; i < n_samples; i++)
			at(&rec, 0, (12 + i) * MS, TE_SAMPLE, TM_CPU_CLOCK, TRACE_KIND_NONE, MS, 0);
		poll_end(&rec, 0, 160 * MS, K_OTHER, 2, TO_READY, 0);
		poll(&rec, 0, 161 * MS, US, K_TASK, 1, TO_READY, 0);
		char *got = judged(&rec, NULL);
		bool lifo =
			strstr(got, "lifo-slot: app::task was ready for 150 ms behind app::other");
		bool lasts =
			strstr(got, "long-polls: app::other held its thread for 150 ms without "
				    "yielding, and computed for 40.0 ms of it");

		if (lifo != (n_samples > 0) || lasts != (n_samples > 0))
			fail_msg("%u samples: %s", n_samples, got);
		free(got);
	}
}

/* Sums of a stranger's times overflow, here to 0. */
static void test_slow_requests_of_ages(void **state)
{
	const uint64_t half = 1ull << 63;
	struct recording rec = {.length_ns = half + 10 * MS};
	char *text;
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t t = 1 * MS;

		worker(&rec, i);
		spawn(&rec, i, t - 1, K_TASK, 1 + i);
		for (unsigned k = 0; k < 2; k++, t += half - 1 * US) {
			unsigned outcome = k ? TO_READY : TO_PENDING;

			if (k)
				at(&rec, i, t, TE_WAKE, TW_SCHEDULED, K_TASK, 1 + i, 0);
			poll_begin(&rec, i, t, K_TASK, 1 + i);
			at(&rec, i, t, TE_FUTURE_BEGIN, k ? 0 : TRACE_FUTURE_FIRST, K_HANDLER,
			   0x1000 + i, 0);
			at(&rec, i, t + 1 * US, TE_FUTURE_END, outcome, K_HANDLER, 0x1000 + i, 0);
			poll_end(&rec, i, t + 1 * US, K_TASK, 1 + i, outcome, k ? 0 : P_LOCK);
		}
	}
	text = judged(&rec, NULL);
	assert_non_null(strstr(text, "slow-requests: "));
	free(text);
}

/* What a request's polls do is said where it is known. */
static void test_requests_blocked(void **state)
{
	(void)state;
	for (unsigned blocks = 0; blocks < 2; blocks++) {
		struct recording rec = {.length_ns = 1000 * MS};

		worker(&rec, 0);
		spawn(&rec, 0, 1 * MS, K_TASK, 1);
		poll_begin(&rec, 0, 2 * MS, K_TASK, 1);
		at(&rec, 0, 2 * MS, TE_FUTURE_BEGIN, TRACE_FUTURE_FIRST, K_HANDLER, 0x1000, 0);
		if (blocks)
			block(&rec, 0, 40 * MS, 30 * MS, TB_NANOSLEEP);
		at(&rec, 0, 42 * MS, TE_FUTURE_END, TO_READY, K_HANDLER, 0x1000, 0);
		poll_end(&rec, 0, 42 * MS, K_TASK, 1, TO_READY, 0);
		expect_rule(
			&rec, "slow-requests",
			blocks ? "99 % of the requests to app::order took up to 40.0 ms; most of "
				 "their time they were blocked in nanosleep\n"
			       : "99 % of the requests to app::order took up to 40.0 ms; most of "
				 "their time they were in polls\n");
	}
}

/* A line may have several places: their waits are waits at one. */
static void test_requests_at_one_line(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};

	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 3; i++) {
		const uint64_t t = (2 + 40 * i) * MS;
		const unsigned outcome = i == 2 ? TO_READY : TO_PENDING;

		if (i)
			wake(&rec, 0, t, K_TASK, 1);
		poll_begin(&rec, 0, t, K_TASK, 1);
		at(&rec, 0, t, TE_FUTURE_BEGIN, i ? 0 : TRACE_FUTURE_FIRST, K_HANDLER, 0x1000, 0);
		at(&rec, 0, t + 1 * US, TE_FUTURE_END, outcome, K_HANDLER, 0x1000, 0);
		poll_end(&rec, 0, t + 1 * US, K_TASK, 1, outcome,
			 i == 0	  ? P_SLEEP
			 : i == 1 ? P_SLEEP_TOO
				  : P_NONE);
	}
	expect_rule(&rec, "slow-requests",
		    "99 % of the requests to app::order took up to 80.0 ms; they waited 99 % of "
		    "their time for tokio::time::sleep::Sleep at src/main.rs:20 app::other\n");
}

static void test_long_polls_without_cpu(void **state)
{
	struct recording rec = {
		.length_ns = 1000 * MS,
		.cpu = {.n_threads = 2, .cpu_ns = 100 * MS, .run_delay_ns = 300 * MS}};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll(&rec, 0, 2 * MS, 200 * MS, K_TASK, 1, TO_READY, 0);
	expect(&rec, "no-cpu: threads were ready to run, but had no CPU for 300 ms in total (they "
		     "ran 100 ms): polls and delays took longer\n");

	/* More than can be explained so. */
	rec.length_ns = 1000 * MS;
	rec.cpu = (struct trace_cpu){.n_threads = 2, .cpu_ns = 100 * MS, .run_delay_ns = 300 * MS};
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll(&rec, 0, 2 * MS, 400 * MS, K_TASK, 1, TO_READY, 0);
	expect_rule(&rec, "long-polls",
		    "app::task held its thread for 400 ms without yielding, perhaps because its "
		    "thread had no CPU\n");
}

/* The trace is cut off before what says how long threads had no CPU: nobody knows. */
static void test_long_poll_of_a_torso(void **state)
{
	(void)state;
	for (unsigned cut = 0; cut < 2; cut++) {
		struct recording rec = {.length_ns = 1000 * MS, .cut = cut};

		worker(&rec, 0);
		spawn(&rec, 0, 1 * MS, K_TASK, 1);
		poll(&rec, 0, 2 * MS, 20 * MS, K_TASK, 1, TO_READY, 0);
		char *got = judged(&rec, NULL);

		if (!strstr(got, "held its thread for 20.0 ms") ||
		    cut != !!strstr(got, "perhaps because its thread had no CPU"))
			fail_msg("cut %u: %s", cut, got);
		free(got);
	}
}

/* One preemption explains it, though threads had a CPU nearly all the time. */
static void test_long_poll_preempted(void **state)
{
	(void)state;
	for (unsigned delay_ms = 10; delay_ms <= 30; delay_ms += 20) {
		struct recording rec = {
			.length_ns = 1000 * MS,
			.cpu = {.n_threads = 2, .cpu_ns = 900 * MS, .run_delay_ns = delay_ms * MS}};

		worker(&rec, 0);
		spawn(&rec, 0, 1 * MS, K_TASK, 1);
		poll(&rec, 0, 2 * MS, 20 * MS, K_TASK, 1, TO_READY, 0);
		char *got = judged(&rec, NULL);
		const char *may = "perhaps because its thread had no CPU";

		assert_non_null(strstr(got, "long-polls: app::task held its thread for 20.0 ms"));
		assert_true(!strstr(got, may) == (delay_ms == 10));
		free(got);
	}
}

static void test_open_poll(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 7);
	poll_begin(&rec, 0, 200 * MS, K_TASK, 7);
	expect_rule(&rec, "open-poll",
		    "app::task (task 7) has been in one poll for 800 ms when the recording ended: "
		    "thread worker/100 ran nothing else meanwhile\n");

	/* Two of a family are one trouble. */
	rec.length_ns = 1000 * MS;
	for (unsigned i = 0; i < 2; i++) {
		worker(&rec, i);
		spawn(&rec, i, (1 + i) * MS, K_TASK, 7 + i);
		poll_begin(&rec, i, (200 + i * 200) * MS, K_TASK, 7 + i);
	}
	expect_rule(&rec, "open-poll",
		    "app::task (task 7) has been in one poll for 800 ms when the recording ended: "
		    "thread worker/100 ran nothing else meanwhile; 1 other thread is in such a "
		    "poll, too\n");

	/* One that is cut, as some poll of a busy program always is. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 7);
	poll_begin(&rec, 0, 901 * MS, K_TASK, 7);
	expect_rule(&rec, "open-poll", NULL);
}

/* The recorder was killed: of what came after the last ROUND only one thread's events are in the file. What is
 * open on others is known up to the ROUND. */
static void test_ends_of_a_torso(void **state)
{
	static const char *const rules[] = {
		"open-poll: ", "pool-full: ", "never-polled: ", "delay: "};
	(void)state;
	for (unsigned late = 0; late < 2; late++) {
		struct recording rec = {.length_ns = 1000 * MS,
					.cut = true,
					.round_ns = late ? 900 * MS : 205 * MS};

		worker(&rec, 0);
		worker(&rec, 1);
		spawn(&rec, 0, 194 * MS, K_TASK, 7);
		at(&rec, 2, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
		for (unsigned i = 0; i < 5; i++)
			spawn(&rec, 0, (195 + i) * MS, K_JOB, 10 + i);
		poll(&rec, 2, 1 * MS, 195 * MS, K_JOB, 20, TO_READY, 0);
		poll_begin(&rec, 2, 200 * MS, K_JOB, 10);
		spawn(&rec, 0, 199 * MS, K_TASK, 8);
		poll_begin(&rec, 0, 200 * MS, K_TASK, 7);
		wake(&rec, 1, 990 * MS, K_TASK, 7);
		char *got = judged(&rec, NULL);

		for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
			if ((strstr(got, rules[i]) != NULL) != late)
				fail_msg("ROUND %s: %s: %s", late ? "late" : "early", rules[i],
					 got);
		if (late && !strstr(got, "app::task (task 7) has been in one poll for 700 ms"))
			fail_msg("%s", got);
		free(got);
	}
}

static void test_blocking_calls(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t t = (2 + i * 5) * MS;

		if (i)
			wake(&rec, 0, t - US, K_TASK, 1);
		poll_begin(&rec, 0, t, K_TASK, 1);
		block(&rec, 0, t + 500 * US, 400 * US, TB_READ);
		poll_end(&rec, 0, t + 510 * US, K_TASK, 1, TO_PENDING, P_SOCKET);
	}
	expect(&rec, "blocking-calls: 100 blocking calls inside polls took 40.0 ms; most in "
		     "app::task: read 100 × = 40.0 ms\n");

	/* Of the longest whose stack was taken the line is said. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t t = 2 * MS + i * 20 * MS;

		poll_begin(&rec, 0, t, K_TASK, 1);
		/* within the call, and one after another call's end */
		at(&rec, 0, t + (i % 2 ? 4 : 9) * MS, TE_SAMPLE, TM_LONG_BLOCKED, TRACE_KIND_NONE,
		   3 * MS, i % 2 ? N_FRAMES : 1);
		block(&rec, 0, t + 5 * MS, 4 * MS, TB_NANOSLEEP);
		poll_end(&rec, 0, t + 9 * MS + 500 * US, K_TASK, 1, TO_PENDING, P_SOCKET);
	}
	expect(&rec,
	       "blocking-calls: 4 blocking calls inside polls took 16.0 ms; most in app::task: "
	       "nanosleep 4 × = 16.0 ms, called at ../src/retry.rs:7 app::backoff\n");

	/* sched_yield() offers the CPU only. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll_begin(&rec, 0, 2 * MS, K_TASK, 1);
	block(&rec, 0, 8 * MS, 5 * MS, TB_SCHED_YIELD);
	poll_end(&rec, 0, 9 * MS, K_TASK, 1, TO_READY, 0);
	expect(&rec, "");
}

/* ---- wakes ---- */

static void spins(struct recording *rec, unsigned of_ten)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t t = 2 * MS + i * 100 * US;

		poll_begin(rec, 0, t, K_TASK, 1);
		if (i % 10 < of_ten)
			at(rec, 0, t + US, TE_WAKE, TW_RUNNING, K_TASK, 1, 0);
		poll_end(rec, 0, t + 90 * US, K_TASK, 1, TO_PENDING, P_NOTIFY);
		if (i % 10 >= of_ten)
			wake(rec, 1, t + 95 * US, K_TASK, 1);
	}
	/* At last it rests: that is not where it spun. */
	poll(rec, 0, 202 * MS, US, K_TASK, 1, TO_PENDING, P_SLEEP);
}

static void test_spin(void **state)
{
	struct recording rec = {0};
	(void)state;
	spins(&rec, 10);
	expect_rule(&rec, "spin",
		    "app::task woke itself in 99 % of its 2,001 polls (10,004 a second): it "
		    "yields, or spins, at src/main.rs:40 app::task\n");
	spins(&rec, 8);
	expect_rule(&rec, "spin", NULL);
}

/* It computes for that long, and yields. */
static void test_yields_at_work(void **state)
{
	for (unsigned us = 100; us <= 200; us += 100) {
		struct recording rec = {.length_ns = 1000 * MS};
		char *got;
		(void)state;
		worker(&rec, 0);
		spawn(&rec, 0, 1 * MS, K_TASK, 1);
		for (unsigned i = 0; i < 2000; i++) {
			uint64_t t = 2 * MS + i * 400 * US;

			poll_begin(&rec, 0, t, K_TASK, 1);
			at(&rec, 0, t + US, TE_WAKE, TW_RUNNING, K_TASK, 1, 0);
			poll_end(&rec, 0, t + us * US, K_TASK, 1, TO_PENDING, P_NOTIFY);
		}
		got = judged_from(&rec, FINDING_WARNING);
		assert_int_equal(!!strstr(got, "spin: "), us == 100);
		free(got);
	}
}

/* The runtime puts the wake off until the worker has looked for events: the budget ended the poll. */
static void test_spin_budget(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t t = 2 * MS + i * 100 * US;

		poll(&rec, 0, t, 80 * US, K_TASK, 1, TO_PENDING, P_NOTIFY);
		at(&rec, 0, t + 85 * US, TE_PARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
		at(&rec, 0, t + 86 * US, TE_UNPARK, TB_EPOLL_WAIT | TRACE_CALL_IDLE,
		   TRACE_KIND_NONE, 0, 0);
		wake(&rec, 0, t + 90 * US, K_TASK, 1);
	}
	expect_rule(&rec, "spin",
		    "app::task woke itself in 100 % of its 2,000 polls (10,001 a second): what it "
		    "awaits is always ready, and only its budget ends its polls, at "
		    "src/main.rs:40 app::task\n");
}

/* A task that the driver wakes again and again: after connecting, but for each tenth of which so many read. */
static void connects(struct recording *rec, unsigned reads_of_ten, uint64_t every_ns)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t t = 2 * MS + i * every_ns;

		poll(rec, 0, t, 40 * US, K_TASK, 1, TO_PENDING,
		     i % 10 < reads_of_ten ? P_SOCKET : P_CONNECT);
		wake(rec, 1, t + 45 * US, K_TASK, 1);
	}
}

static void test_connects(void **state)
{
	struct recording rec = {0};
	(void)state;
	connects(&rec, 0, 100 * US);
	expect_rule(
		&rec, "busy-task",
		"app::task did nothing but connect, 2,000 times (10,003 a second), in 80.0 ms of "
		"the workers' time, at src/main.rs:60 app::task\n");
	/* A client that also reads answers, one that serves, and one that pauses. */
	connects(&rec, 5, 100 * US);
	expect_rule(&rec, "busy-task", NULL);
	connects(&rec, 10, 100 * US);
	expect_rule(&rec, "busy-task", NULL);
	connects(&rec, 0, 2 * MS);
	expect_rule(&rec, "busy-task", NULL);
	/* As many, but each by a task of its own. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t t = 2 * MS + i * 100 * US;

		spawn(&rec, 0, t, K_TASK, 1 + i);
		poll(&rec, 0, t + US, 40 * US, K_TASK, 1 + i, TO_PENDING, P_CONNECT);
		wake(&rec, 1, t + 50 * US, K_TASK, 1 + i);
		poll(&rec, 0, t + 51 * US, 40 * US, K_TASK, 1 + i, TO_READY, 0);
	}
	expect_rule(&rec, "busy-task", NULL);
}

/* Two tasks in turn; of a hundred wakes of the first so many come from outside. */
static void turns(struct recording *rec, unsigned place, unsigned from_outside, uint64_t poll_ns)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_TASK, 1);
	spawn(rec, 0, 1 * MS + 1, K_OTHER, 2);
	wake(rec, 0, 1 * MS + 2, K_TASK, 1);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t t = 2 * MS + i * 100 * US;
		bool outside = i % 2 && i / 2 % 100 < from_outside;

		poll_begin(rec, 0, t, i % 2 ? K_OTHER : K_TASK, 1 + i % 2);
		if (!outside)
			wake(rec, 0, t + US, i % 2 ? K_TASK : K_OTHER, 2 - i % 2);
		poll_end(rec, 0, t + poll_ns, i % 2 ? K_OTHER : K_TASK, 1 + i % 2, TO_PENDING,
			 place);
		if (outside)
			wake(rec, 1, t + poll_ns + US, K_TASK, 1);
	}
}

static void test_wake_each_other(void **state)
{
	struct recording rec = {0};
	struct buf lanes = BUF_INIT;
	char *got;
	(void)state;
	turns(&rec, P_NOTIFY, 0, 18 * US);
	/* The rest of the recording is as long again. */
	rec.length_ns = 402 * MS;
	expect_rule(
		&rec, "busy-task",
		"app::task and app::other did nothing but wake each other, 4,000 times (10,004 a "
		"second), in 72.0 ms of the workers' time, at src/main.rs:40 app::task\n");
	/* What comes from sockets is work, and so are messages, and what takes time. */
	turns(&rec, P_NOTIFY, 5, 18 * US);
	expect_rule(&rec, "busy-task", NULL);
	turns(&rec, P_SEND, 0, 18 * US);
	expect_rule(&rec, "busy-task", NULL);
	turns(&rec, P_NOTIFY, 0, 50 * US);
	expect_rule(&rec, "busy-task", NULL);
	/* Both are named to programs. */
	turns(&rec, P_NOTIFY, 0, 18 * US);
	rec.length_ns = 402 * MS;
	got = judged_with_lanes(&rec, NULL, &lanes);
	buf_str(&lanes, "");
	assert_non_null(strstr(lanes.data,
			       "busy-task: 2.000..401.818 ms, process 0, threads 0, tasks "
			       "2=1 3=2\n"));
	buf_done(&lanes);
	free(got);
}

static void herd(struct recording *rec, unsigned outcome)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	worker(rec, 1);
	spawn(rec, 0, 1, K_OTHER, 5000);
	for (unsigned i = 0; i < 300; i++)
		spawn(rec, 0, 10 + i, K_TASK, 1 + i);
	for (unsigned i = 0; i < 300; i++)
		poll(rec, 1, MS + i * 2 * US, US, K_TASK, 1 + i, TO_PENDING, P_NOTIFY);
	poll_begin(rec, 0, 100 * MS, K_OTHER, 5000);
	for (unsigned i = 0; i < 300; i++)
		wake(rec, 0, 100 * MS + i * US, K_TASK, 1 + i);
	poll_end(rec, 0, 101 * MS, K_OTHER, 5000, TO_PENDING, P_SLEEP);
	for (unsigned i = 0; i < 300; i++)
		poll(rec, 1, 102 * MS + i * 2 * US, US, K_TASK, 1 + i, outcome, P_NOTIFY);
}

static void test_herd(void **state)
{
	struct recording rec = {0};
	(void)state;
	herd(&rec, TO_PENDING);
	expect_rule(&rec, "herd",
		    "up to 300 tasks of app::task were woken at once by app::other, 1 time; 100 % "
		    "of their polls did nothing but wait again, at src/main.rs:40 app::task\n");
	/* Each has a timer. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	for (unsigned i = 0; i < 300; i++)
		spawn(&rec, 0, 10 + i, K_TASK, 1 + i);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 300; i++)
			poll(&rec, 0, (1 + 100 * round) * MS + i * 2 * US, US, K_TASK, 1 + i,
			     TO_PENDING, P_SLEEP);
		for (unsigned i = 0; i < 300; i++)
			wake(&rec, 0, (90 + 100 * round) * MS + i * US, K_TASK, 1 + i);
	}
	expect_rule(
		&rec, "herd",
		"up to 300 tasks of app::task were woken at once by their timers, 2 times; 100 % "
		"of their polls did nothing but wait again, at src/main.rs:20 app::other\n");
	/* What each was woken for was there. */
	herd(&rec, TO_READY);
	expect_rule(&rec, "herd", NULL);
}

/* A few tasks to which one hands work out in turn are no herd, however fast that goes. */
static void test_turns(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	worker(&rec, 1);
	spawn(&rec, 0, 1, K_OTHER, 5000);
	for (unsigned i = 0; i < 4; i++)
		spawn(&rec, 0, 10 + i, K_TASK, 1 + i);
	poll_begin(&rec, 0, 100 * MS, K_OTHER, 5000);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t t = 100 * MS + i * 10 * US;

		wake(&rec, 0, t, K_TASK, 1 + i % 4);
		poll(&rec, 1, t + 2 * US, US, K_TASK, 1 + i % 4, TO_PENDING, P_NOTIFY);
	}
	poll_end(&rec, 0, 200 * MS, K_OTHER, 5000, TO_PENDING, P_SLEEP);
	expect_rule(&rec, "herd", NULL);
}

/* ---- workers ---- */

static void stall(struct recording *rec, unsigned call_of_other)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	worker(rec, 1);
	spawn(rec, 0, 1 * MS, K_TASK, 1);
	park(rec, 0, 2 * MS, 100 * MS, TB_EPOLL_WAIT);
	poll(rec, 0, 101 * MS, 300 * MS, K_TASK, 1, TO_READY, 0);
	park(rec, 0, 402 * MS, 990 * MS, TB_EPOLL_WAIT);
	park(rec, 1, 3 * MS, 995 * MS, call_of_other);
}

static void test_driver(void **state)
{
	struct recording rec = {0};
	(void)state;
	stall(&rec, TB_FUTEX);
	expect_rule(&rec, "driver-stalled",
		    "no thread looked at timers and sockets for 302 ms (from 100 ms): thread "
		    "worker/100, which had the driver, was in a poll of app::task; 1 other worker "
		    "slept <- long-polls\n");
	/* The other one looks. */
	stall(&rec, TB_EPOLL_WAIT);
	expect_rule(&rec, "driver-stalled", NULL);
	/* A process of any number: memory is for those that there are. */
	stall(&rec, TB_FUTEX);
	rec.process = UINT32_MAX;
	expect_rule(&rec, "driver-stalled", "no thread looked at timers and sockets for 302 ms");
}

static void behind_its_waker(struct recording *rec, bool other_is_idle)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	worker(rec, 1);
	spawn(rec, 0, 1 * MS, K_OTHER, 1);
	spawn(rec, 0, 2 * MS, K_TASK, 2);
	poll(rec, 0, 3 * MS, US, K_TASK, 2, TO_PENDING, P_NOTIFY);
	poll_begin(rec, 0, 10 * MS, K_OTHER, 1);
	wake(rec, 0, 11 * MS, K_TASK, 2);
	poll_end(rec, 0, 100 * MS, K_OTHER, 1, TO_PENDING, P_SLEEP);
	poll(rec, 0, 101 * MS, US, K_TASK, 2, TO_READY, 0);
	if (other_is_idle)
		park(rec, 1, 4 * MS, 900 * MS, TB_FUTEX);
}

static void test_lifo_slot(void **state)
{
	struct recording rec = {0};
	(void)state;
	behind_its_waker(&rec, true);
	expect_rule(&rec, "lifo-slot",
		    "app::task was ready for 90.0 ms behind app::other, which had woken it and "
		    "went on in the same poll, while 1 other worker slept\n");
	behind_its_waker(&rec, false);
	expect_rule(&rec, "lifo-slot", NULL);

	/* The poll that woke it, of the first kind, ends at once: something else kept the worker. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	worker(&rec, 1);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	spawn(&rec, 0, 2 * MS, K_OTHER, 2);
	poll(&rec, 0, 3 * MS, US, K_OTHER, 2, TO_PENDING, P_NOTIFY);
	poll_begin(&rec, 0, 10 * MS, K_TASK, 1);
	wake(&rec, 0, 11 * MS, K_OTHER, 2);
	poll_end(&rec, 0, 12 * MS, K_TASK, 1, TO_PENDING, P_SLEEP);
	poll(&rec, 0, 101 * MS, US, K_OTHER, 2, TO_READY, 0);
	park(&rec, 1, 4 * MS, 900 * MS, TB_FUTEX);
	expect_rule(&rec, "lifo-slot", NULL);
}

static void one_worker_does_it_all(struct recording *rec)
{
	for (unsigned i = 0; i < 4; i++)
		worker(rec, i);
	spawn(rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 100; i++) {
		if (i)
			wake(rec, 1, (2 + i * 9) * MS - US, K_TASK, 1);
		poll(rec, 0, (2 + i * 9) * MS, 8 * MS, K_TASK, 1, TO_PENDING, P_SOCKET);
	}
}

static void test_imbalance(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS,
				.names = {"net-0", "net-1", "net-10", "net-2"}};
	(void)state;
	/* Workers of other runtimes are idle for reasons of their own. */
	one_worker_does_it_all(&rec);
	rec.names[3] = "app-0";
	expect_rule(&rec, "imbalance", NULL);

	rec = (struct recording){.length_ns = 1000 * MS};
	one_worker_does_it_all(&rec);
	expect(&rec, "imbalance: thread worker/100 did 100 % of the work of 4 workers (it was busy "
		     "for 800 ms)\n");
}

static void test_nothing_polled(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	at(&rec, 0, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	park(&rec, 0, MS, 900 * MS, TB_EPOLL_WAIT);
	expect_rule(&rec, "nothing-polled", "no task was polled in 1.00 s: ");
}

/* ---- delays ---- */

static void test_delay(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	spawn(&rec, 0, 2 * MS, K_OTHER, 2);
	poll(&rec, 0, 3 * MS, 50 * MS, K_OTHER, 2, TO_READY, 0);
	poll(&rec, 0, 54 * MS, US, K_TASK, 1, TO_READY, 0);
	expect_rule(&rec, "delay",
		    "a task was ready but waited 53.0 ms for a worker (polled at 54.0 ms): "
		    "app::task, while its worker was in a poll of app::other <- long-polls\n");

	/* A blocking client's runtime runs in block_on only, and has no worker. */
	rec = (struct recording){.length_ns = 1000 * MS};
	at(&rec, 0, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	at(&rec, 0, MS, TE_ROOT_ENTER, 0, K_ROOT, 7, 0);
	spawn(&rec, 0, 2 * MS, K_TASK, 1);
	poll(&rec, 0, 3 * MS, US, K_TASK, 1, TO_PENDING, P_SOCKET);
	wake(&rec, 0, 4 * MS, K_TASK, 1);
	at(&rec, 0, 500 * MS, TE_ROOT_ENTER, 0, K_ROOT, 7, 0);
	poll(&rec, 0, 504 * MS, US, K_TASK, 1, TO_READY, 0);
	expect_rule(
		&rec, "delay",
		"a task was ready but waited 500 ms for a block_on to poll it (polled at 504 ms): "
		"app::task\n");
}

static void test_failing_calls(void **state)
{
	enum { ACCEPT4 = 288 };
	(void)state;
	for (int error = EAGAIN; error <= EMFILE; error += EMFILE - EAGAIN)
		for (unsigned n = 900; n <= 2000; n += 1100) {
			struct recording rec = {.length_ns = 1000 * MS};

			worker(&rec, 0);
			spawn(&rec, 0, 10, K_TASK, 1);
			poll_begin(&rec, 0, 1 * MS, K_TASK, 1);
			for (unsigned i = 0; i < n; i++)
				at(&rec, 0, 2 * MS + i * US, TE_SYSCALL, ACCEPT4, TRACE_KIND_NONE,
				   (uint64_t) - (int64_t)error, 1);
			poll_end(&rec, 0, 5 * MS, K_TASK, 1, TO_READY, 0);
			expect_rule(
				&rec, "failing-calls",
				error == EMFILE && n == 2000
					? "accept4 failed 2,000 times with \"Too many open files\" "
					  "(2,000 a second), in app::task\n"
					: NULL);
		}
}

static void test_queue_depth(void **state)
{
	(void)state;
	for (unsigned n = 90; n <= 200; n += 110) {
		struct recording rec = {.length_ns = 1000 * MS};

		worker(&rec, 0);
		for (unsigned i = 0; i < n; i++)
			spawn(&rec, 0, 10, K_TASK, 1 + i);
		expect_rule(&rec, "queue-depth",
			    n == 200 ? "199 tasks were ready on average, and waited for a worker; "
				       "most of app::task\n"
				     : NULL);
	}
}

static void test_never_polled(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_OTHER, 2);
	poll(&rec, 0, 2 * MS, US, K_OTHER, 2, TO_READY, 0);
	spawn(&rec, 0, 600 * MS, K_TASK, 1);
	at(&rec, 0, 990 * MS, TE_PARK, TB_EPOLL_WAIT, TRACE_KIND_NONE, 0, 0);
	expect_rule(&rec, "never-polled",
		    "1 task was spawned, but not polled by the end, for up to 400 ms: app::task\n");
}

/* ---- the blocking pool ---- */

static void test_pool_full(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	at(&rec, 1, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	for (unsigned i = 0; i < 8; i++)
		spawn(&rec, 0, (1 + i) * MS, K_JOB, 10 + i);
	for (unsigned i = 0; i < 4; i++) {
		poll_begin(&rec, 1, (20 + i * 200) * MS, K_JOB, 10 + i);
		block(&rec, 1, (210 + i * 200) * MS, 190 * MS, TB_GETADDRINFO);
		poll_end(&rec, 1, (215 + i * 200) * MS, K_JOB, 10 + i, TO_READY, 0);
	}
	expect_rule(
		&rec, "pool-full",
		"the blocking pool is full: a closure waited 995 ms for a "
		"thread (p50 621 ms; 4 had none by the end); its 1 thread was mostly in app::job "
		"(195 ms each, getaddrinfo); spawned at src/main.rs:70 (app::login)\n");

	/* One thread that took its time to be started. */
	rec.length_ns = 1000 * MS;
	worker(&rec, 0);
	at(&rec, 1, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	for (unsigned i = 0; i < 20; i++) {
		spawn(&rec, 0, (1 + i * 40) * MS, K_JOB, 10 + i);
		poll(&rec, 1, (1 + i * 40 + (i ? 1 : 30)) * MS, MS, K_JOB, 10 + i, TO_READY, 0);
	}
	expect_rule(&rec, "pool-full", NULL);
}

static void test_chatty_pool(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	at(&rec, 1, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	for (unsigned i = 0; i < 3000; i++) {
		spawn(&rec, 0, 10 + i * 300 * US, K_JOB, 10 + i);
		poll(&rec, 1, 20 * US + i * 300 * US, 5 * US, K_JOB, 10 + i, TO_READY, 0);
	}
	expect_rule(
		&rec, "chatty-pool",
		"3,000 closures of app::job took only 5.00 µs each (p50): the way to the blocking "
		"pool and back costs more; spawned at src/main.rs:70 (app::login)\n");
}

/* Few, since each has to wait for the one before: most of the time goes by on the way. */
static void test_chatty_pool_in_turn(void **state)
{
	for (unsigned delay_us = 200; delay_us <= 1200; delay_us += 1000) {
		struct recording rec = {.length_ns = 2000 * MS};
		(void)state;
		worker(&rec, 0);
		at(&rec, 1, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
		for (unsigned i = 0; i < 1400; i++) {
			spawn(&rec, 0, 10 + i * 1300 * US, K_JOB, 10 + i);
			poll(&rec, 1, delay_us * US + i * 1300 * US, 5 * US, K_JOB, 10 + i,
			     TO_READY, 0);
		}
		expect_rule(&rec, "chatty-pool",
			    delay_us > 1000 ? "1,400 closures of app::job took only 5.00 µs each"
					    : NULL);
	}
}

static void in_place(struct recording *rec, unsigned n)
{
	rec->length_ns = 1000 * MS;
	for (unsigned i = 0; i < n; i++) {
		worker(rec, i);
		spawn(rec, i, (1 + i) * MS, K_TASK, 1 + i);
		poll_begin(rec, i, 100 * MS + i, K_TASK, 1 + i);
		at(rec, i, (101 + i) * MS, TE_SPAWN, 0, K_IN_PLACE, 2000 + i, 0);
		poll_end(rec, i, (200 + i) * MS, K_TASK, 1 + i, TO_READY, 0);
	}
}

static void test_in_place(void **state)
{
	struct recording rec = {0};
	(void)state;
	in_place(&rec, 24);
	expect_rule(&rec, "in-place",
		    "up to 24 tasks were in block_in_place at once, each with a thread of its own "
		    "(24 in all); most in app::task\n");
	in_place(&rec, 20);
	expect_rule(&rec, "in-place", NULL);
}

/* ---- waits ---- */

static void at_a_lock(struct recording *rec, bool one_goes_on)
{
	rec->length_ns = 3000 * MS;
	worker(rec, 0);
	for (unsigned i = 0; i < 5; i++) {
		spawn(rec, 0, (1 + i) * MS, K_TASK, 1 + i);
		poll(rec, 0, (10 + i) * MS, US, K_TASK, 1 + i, TO_PENDING, P_LOCK);
	}
	if (one_goes_on) {
		wake(rec, 0, 2500 * MS, K_TASK, 1);
		poll(rec, 0, 2501 * MS, US, K_TASK, 1, TO_READY, 0);
	}
}

static void test_no_progress(void **state)
{
	struct recording rec = {0};
	(void)state;
	at_a_lock(&rec, false);
	expect_rule(&rec, "no-progress",
		    "5 tasks of app::task wait for tokio::sync::mutex::lock at src/main.rs:10 "
		    "app::task, the longest for 2.99 s; none has gone on\n");
	at_a_lock(&rec, true);
	expect_rule(&rec, "no-progress", NULL);

	/* Connections may wait as long as they like. */
	rec.length_ns = 3000 * MS;
	worker(&rec, 0);
	for (unsigned i = 0; i < 40; i++) {
		spawn(&rec, 0, (1 + i * 50) * MS, K_TASK, 1 + i);
		poll(&rec, 0, (2 + i * 50) * MS, US, K_TASK, 1 + i, TO_PENDING, P_SOCKET);
	}
	expect(&rec, "");
}

/* Every second one goes on after that long, the others never. */
static void leave_behind(struct recording *rec, uint64_t goes_on_ns, unsigned pause_ms)
{
	rec->length_ns = 4000 * MS;
	worker(rec, 0);
	worker(rec, 1);
	for (unsigned i = 0; i < 60; i++) {
		uint64_t t = (10 + i * pause_ms) * MS;

		spawn(rec, 0, t, K_TASK, 1 + i);
		poll(rec, 0, t + US, US, K_TASK, 1 + i, TO_PENDING, P_NOTIFY);
		if (i % 2)
			continue;
		wake(rec, 1, t + goes_on_ns, K_TASK, 1 + i);
		poll(rec, 1, t + goes_on_ns + US, US, K_TASK, 1 + i, TO_READY, 0);
	}
}

static void test_left_behind(void **state)
{
	struct recording rec = {0};
	(void)state;
	leave_behind(&rec, 15 * MS, 40);
	expect_rule(
		&rec, "no-progress",
		"30 tasks of app::task wait for tokio::sync::notify::Notified at src/main.rs:40 "
		"app::task, the longest for 3.95 s, and more all the time, while others went on "
		"there "
		"after 15.0 ms\n");
	/* Some wait long, and go on; all came at once. */
	leave_behind(&rec, 1100 * MS, 40);
	expect_rule(&rec, "no-progress", NULL);
	leave_behind(&rec, 4 * MS, 5);
	expect_rule(&rec, "no-progress", NULL);
}

/* One alone waits again and again; the holder waits at `place` meanwhile. */
static void wait_alone(struct recording *rec, unsigned place)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_OTHER, 50);
	poll(rec, 0, 2 * MS, US, K_OTHER, 50, TO_PENDING, place);
	spawn(rec, 0, 3 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t t = (10 + i * 200) * MS;

		poll(rec, 0, t, US, K_TASK, 1, TO_PENDING, P_LOCK);
		wake(rec, 0, t + 100 * MS, K_OTHER, 50);
		poll_begin(rec, 0, t + 101 * MS, K_OTHER, 50);
		wake(rec, 0, t + 102 * MS, K_TASK, 1);
		poll_end(rec, 0, t + 103 * MS, K_OTHER, 50, TO_PENDING, place);
		poll(rec, 0, t + 104 * MS, US, K_TASK, 1, TO_PENDING, P_SLEEP);
		wake(rec, 0, t + 199 * MS, K_TASK, 1);
	}
}

static void test_waits_alone(void **state)
{
	struct recording rec = {0};
	(void)state;
	wait_alone(&rec, P_SLEEP);
	expect_rule(
		&rec, "lock-convoy",
		"4 waits of app::task for tokio::sync::mutex::lock at src/main.rs:10 app::task "
		"took up "
		"to 102 ms: app::other let go at the end of the longest; it had held it while it "
		"waited at src/main.rs:20 app::other\n");
	/* As those do who take turns at a queue. */
	wait_alone(&rec, P_NOTIFY);
	expect_rule(&rec, "lock-convoy", NULL);
	wait_alone(&rec, P_SOCKET);
	expect_rule(&rec, "lock-convoy", NULL);
}

static void test_convoy(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_OTHER, 50);
	poll(&rec, 0, 2 * MS, US, K_OTHER, 50, TO_PENDING, P_SLEEP);
	for (unsigned i = 0; i < 4; i++) {
		spawn(&rec, 0, (3 + i) * MS, K_TASK, 1 + i);
		poll(&rec, 0, (10 + i) * MS, US, K_TASK, 1 + i, TO_PENDING, P_LOCK);
	}
	wake(&rec, 0, 700 * MS, K_OTHER, 50);
	poll_begin(&rec, 0, 701 * MS, K_OTHER, 50);
	wake(&rec, 0, 702 * MS, K_TASK, 1);
	poll_end(&rec, 0, 703 * MS, K_OTHER, 50, TO_PENDING, P_SLEEP);
	for (unsigned i = 0; i < 4; i++) {
		poll_begin(&rec, 0, (704 + i) * MS, K_TASK, 1 + i);
		if (i < 3)
			wake(&rec, 0, (704 + i) * MS + US, K_TASK, 2 + i);
		poll_end(&rec, 0, (704 + i) * MS + 2 * US, K_TASK, 1 + i, TO_READY, 0);
	}
	expect(&rec,
	       "lock-convoy: 4 waits of app::task for tokio::sync::mutex::lock at "
	       "src/main.rs:10 app::task took up to 693 ms: app::other let go at the end of 1 "
	       "convoy; it had held it while it waited at src/main.rs:20 app::other\n");
}

/* Four wait for what one has that sleeps; `behind` another one, which takes it, and lets it go at once. */
static void convoy_of(struct recording *rec, unsigned place, bool behind, unsigned n_open)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_TASK, 50);
	poll(rec, 0, 2 * MS, US, K_TASK, 50, TO_PENDING, P_SLEEP);
	if (behind) {
		spawn(rec, 0, 3 * MS, K_OTHER, 60);
		poll(rec, 0, 4 * MS, US, K_OTHER, 60, TO_PENDING, place);
	}
	for (unsigned i = 0; i < 4 + n_open; i++) {
		spawn(rec, 0, (5 + i) * MS, K_TASK, 1 + i);
		poll(rec, 0, (20 + i) * MS, US, K_TASK, 1 + i, TO_PENDING, place);
	}
	wake(rec, 0, 700 * MS, K_TASK, 50);
	poll_begin(rec, 0, 701 * MS, K_TASK, 50);
	wake(rec, 0, 702 * MS, behind ? K_OTHER : K_TASK, behind ? 60 : 1);
	poll_end(rec, 0, 703 * MS, K_TASK, 50, TO_PENDING, P_NOTIFY);
	if (behind) {
		poll_begin(rec, 0, 704 * MS, K_OTHER, 60);
		wake(rec, 0, 704 * MS + US, K_TASK, 1);
		poll_end(rec, 0, 704 * MS + 2 * US, K_OTHER, 60, TO_READY, 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		poll_begin(rec, 0, (705 + i) * MS, K_TASK, 1 + i);
		if (i < 3)
			wake(rec, 0, (705 + i) * MS + US, K_TASK, 2 + i);
		poll_end(rec, 0, (705 + i) * MS + 2 * US, K_TASK, 1 + i, TO_READY, 0);
	}
}

/* A writer waits for a reader, and others for the writer: the reader had the lock. */
static void test_convoy_behind(void **state)
{
	struct recording rec = {0};
	(void)state;
	convoy_of(&rec, P_LOCK, true, 0);
	expect_rule(&rec, "lock-convoy",
		    "4 waits of app::task for tokio::sync::mutex::lock at src/main.rs:10 app::task "
		    "took up to 684 ms: app::task let go at the end of 1 convoy; it had held it "
		    "while it waited at src/main.rs:20 app::other\n");
}

/* A semaphore may be there to make tasks wait, unless more and more do. */
static void test_permits(void **state)
{
	static const char text[] =
		"lock-convoy: 4 waits of app::task for tokio::sync::batch_semaphore::Acquire at "
		"src/main.rs:80 app::task took up to 684 ms";
	struct recording rec = {0};
	char *got;
	(void)state;
	convoy_of(&rec, P_PERMIT, false, 0);
	got = judged(&rec, NULL);
	if (!strstr(got, text))
		fail_msg("%s", got);
	free(got);
	convoy_of(&rec, P_PERMIT, false, 0);
	got = judged_from(&rec, FINDING_WARNING);
	assert_null(strstr(got, "lock-convoy"));
	free(got);
	convoy_of(&rec, P_PERMIT, false, 8);
	got = judged_from(&rec, FINDING_WARNING);
	assert_non_null(strstr(got,
			       "took up to 684 ms, and 8 wait when the recording ends: app::task "
			       "gave a permit back at the end of 1 convoy; it had held it while "
			       "it waited at src/main.rs:20 app::other\n"));
	free(got);
}

/* Senders wait for room, which other() makes after a wait of its own; `open`: it never does. */
static void full_channel(struct recording *rec, unsigned n_senders, bool open)
{
	rec->length_ns = 2000 * MS;
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_OTHER, 50);
	poll(rec, 0, 2 * MS, US, K_OTHER, 50, TO_PENDING, P_SLEEP);
	for (unsigned i = 0; i < n_senders; i++) {
		spawn(rec, 0, (3 + i) * MS, K_TASK, 1 + i);
		poll(rec, 0, (20 + i) * MS, US, K_TASK, 1 + i, TO_PENDING, P_SEND);
	}
	for (unsigned i = 0; i < n_senders && !open; i++) {
		uint64_t t = (400 + i * 200) * MS;

		wake(rec, 0, t, K_OTHER, 50);
		poll_begin(rec, 0, t + MS, K_OTHER, 50);
		wake(rec, 0, t + 2 * MS, K_TASK, 1 + i);
		poll_end(rec, 0, t + 3 * MS, K_OTHER, 50, TO_PENDING, P_SLEEP);
		poll(rec, 0, t + 4 * MS, US, K_TASK, 1 + i, TO_READY, 0);
	}
}

static void test_full_channel(void **state)
{
	struct recording rec = {0};
	(void)state;
	full_channel(&rec, 6, false);
	expect_rule(
		&rec, "channel-full",
		"6 waits of app::task for room in a channel at src/main.rs:50 app::task took up "
		"to 1.38 s: app::other receives from it, after a wait at src/main.rs:20 "
		"app::other\n");
	full_channel(&rec, 2, false);
	expect_rule(&rec, "channel-full", NULL);
	full_channel(&rec, 2, true);
	expect_rule(&rec, "channel-full",
		    "2 tasks of app::task wait for room in a channel at src/main.rs:50 app::task, "
		    "the longest for 1.98 s\n");
	full_channel(&rec, 1, true);
	expect_rule(&rec, "channel-full", NULL);
	/* A channel is no lock that somebody holds. */
	full_channel(&rec, 6, true);
	expect_rule(&rec, "no-progress", NULL);
}

/* ---- tasks ---- */

static void test_panicked(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 3);
	poll(&rec, 0, 2 * MS, MS, K_TASK, 3, TO_PANICKED, 0);
	expect(&rec, "panicked: 1 task panicked: app::task, task 3 at 3.00 ms\n");
}

static void panic_at(struct recording *rec, uint64_t message, uint64_t stack, unsigned outcome)
{
	rec->length_ns = 1000 * MS;
	worker(rec, 0);
	spawn(rec, 0, 1 * MS, K_TASK, 3);
	poll_begin(rec, 0, 2 * MS, K_TASK, 3);
	at(rec, 0, 2 * MS + 500 * US, TE_SAMPLE, TM_PANIC, TRACE_KIND_NONE, message, stack);
	poll_end(rec, 0, 3 * MS, K_TASK, 3, outcome, 0);
}

static void test_panic_place(void **state)
{
	struct recording rec = {0};
	(void)state;
	panic_at(&rec, 1, RAISE_STACK, TO_PANICKED);
	expect(&rec,
	       "panicked: 1 task panicked: app::task, task 3 at 3.00 ms, in ../src/retry.rs:7 "
	       "app::backoff: \"" MESSAGE "\"\n");
	/* No message, one that the trace lost, and a payload that std's panics did not make. */
	for (unsigned i = 0; i < 3; i++) {
		panic_at(&rec, i == 0 ? 0 : i, i == 2 ? RAISE_STACK : N_FRAMES - i, TO_PANICKED);
		expect(&rec, "panicked: 1 task panicked: app::task, task 3 at 3.00 ms, in "
			     "../src/retry.rs:7 app::backoff\n");
	}
	panic_at(&rec, 1, 0, TO_PANICKED);
	expect(&rec, "panicked: 1 task panicked: app::task, task 3 at 3.00 ms\n");
	/* It was caught. */
	panic_at(&rec, 1, RAISE_STACK, TO_READY);
	expect(&rec, "");
}

static void grow(struct recording *rec, unsigned pause_ms, unsigned place, bool end)
{
	rec->length_ns = 3000 * MS;
	worker(rec, 0);
	for (unsigned i = 0; i < 50; i++) {
		uint64_t t = (1 + i * pause_ms) * MS;

		spawn(rec, 0, t, K_TASK, 1 + i);
		poll(rec, 0, t + MS / 2, US, K_TASK, 1 + i, end ? TO_READY : TO_PENDING, place);
	}
}

static void test_growth(void **state)
{
	struct recording rec = {0};
	(void)state;
	grow(&rec, 58, P_NOTIFY, false);
	expect_rule(&rec, "growth",
		    "app::task: 50 tasks were spawned (16 a second), none ended; they wait at "
		    "src/main.rs:40 app::task");
	grow(&rec, 58, P_NONE, false); /* perhaps connections: no warning */
	char *warned = judged_from(&rec, FINDING_WARNING);
	assert_string_equal(warned, "");
	free(warned);
	grow(&rec, 58, P_NONE, false);
	expect_rule(&rec, "growth", "app::task: 50 tasks were spawned (16 a second), none ended\n");
	grow(&rec, 58, P_SOCKET, false); /* connections */
	expect_rule(&rec, "growth", NULL);
	grow(&rec, 1, P_NOTIFY, false); /* at the start only */
	expect_rule(&rec, "growth", NULL);
	grow(&rec, 58, P_NOTIFY, true);
	expect_rule(&rec, "growth", NULL);
}

/* Each tenth that is not cancelled ends by itself. */
static void cancel(struct recording *rec, unsigned n, unsigned of_ten, bool polled)
{
	rec->length_ns = 2000 * MS;
	worker(rec, 0);
	for (unsigned i = 0; i < n; i++) {
		uint64_t t = (10 + i * 20) * MS;

		spawn(rec, 0, t, K_TASK, 1 + i);
		if (polled)
			poll(rec, 0, t + MS, US, K_TASK, 1 + i, TO_PENDING, P_SOCKET);
		if (i % 10 < of_ten) {
			at(rec, 0, t + 11 * MS, TE_DROP, 0, K_TASK, 1 + i, 0);
			continue;
		}
		wake(rec, 0, t + 11 * MS, K_TASK, 1 + i);
		poll(rec, 0, t + 12 * MS, US, K_TASK, 1 + i, TO_READY, 0);
	}
}

static void test_cancelled(void **state)
{
	struct recording rec = {0};
	char *got;
	(void)state;
	cancel(&rec, 50, 10, true);
	expect_rule(
		&rec, "cancelled",
		"50 tasks of app::task were cancelled before they had ended, after 11.0 ms on "
		"average, while they waited at src/main.rs:30 app::task; none ended by itself\n");
	cancel(&rec, 50, 10, true);
	got = judged_from(&rec, FINDING_WARNING);
	assert_null(strstr(got, "cancelled"));
	free(got);
	/* A fifth ends; few; none has begun. */
	cancel(&rec, 50, 8, true);
	expect_rule(&rec, "cancelled", NULL);
	cancel(&rec, 19, 10, true);
	expect_rule(&rec, "cancelled", NULL);
	cancel(&rec, 50, 10, false);
	expect_rule(&rec, "cancelled", NULL);
}

static void test_dropped(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	for (unsigned i = 0; i < 40; i++) {
		uint64_t t = (2 + i * 10) * MS;

		if (i)
			wake(&rec, 0, t - US, K_TASK, 1);
		poll_begin(&rec, 0, t, K_TASK, 1);
		at(&rec, 0, t + 10, TE_FUTURE_BEGIN, TRACE_FUTURE_FIRST, K_FUTURE, 0x1000, 0);
		at(&rec, 0, t + 20, TE_FUTURE_END, i % 2 ? TO_READY : TO_PENDING, K_FUTURE, 0x1000,
		   0);
		poll_end(&rec, 0, t + 30, K_TASK, 1, TO_PENDING, P_SOCKET);
	}
	expect(&rec, "dropped: app::read_frame was dropped unfinished 20 of 40 times: what it had "
		     "done until then is lost\n");
}

/* ---- the recording itself ---- */

/* A task that waits for a timer of 700 ms at the end, 1 s, while a worker is in a poll. */
static void sleeps(struct recording *rec, uint64_t last_look)
{
	static const struct moment_kind kind = {
		.name = "app::task", .full_name = "app::task", .object = "", .site = ""};
	static struct moment_thread thread = {.tid = 100, .name = "worker"};
	static struct await_node leaf = {.kind = AN_LEAF,
					 .name = "sleep",
					 .full_name = "tokio::time::sleep::Sleep",
					 .wait = AW_SLEEP,
					 .value = START + 700 * MS};
	static struct moment_task task = {.kind = &kind, .id = 2, .addr = 64, .tree = &leaf};
	static const struct trace_moment moment = {.when = MOMENT_END,
						   .now_ns = START + 1000 * MS,
						   .stopped = true,
						   .n_found = 1,
						   .tasks = &task,
						   .n_tasks = 1,
						   .threads = &thread,
						   .n_threads = 1};

	rec->length_ns = 1000 * MS;
	rec->moments[MOMENT_END] = &moment;
	worker(rec, 0);
	park(rec, 0, 10 * MS, last_look, TB_EPOLL_WAIT);
	spawn(rec, 0, last_look + MS, K_OTHER, 1);
	poll_begin(rec, 0, last_look + 2 * MS, K_OTHER, 1);
}

static void test_overdue(void **state)
{
	struct recording rec = {0};
	(void)state;
	sleeps(&rec, 600 * MS);
	expect_rule(&rec, "overdue-timers",
		    "1 timer is overdue by 300 ms, that of task 2 app::task: no worker looks at "
		    "timers");
	/* Timers were looked at since: the task has it, but does not wait for it any more. */
	sleeps(&rec, 800 * MS);
	expect_rule(&rec, "overdue-timers", NULL);
}

/* At both ends, or at the begin only, a task runs that has no event. */
static void runs(struct recording *rec, bool at_end, const char *function, uint32_t call)
{
	static const struct moment_kind kind = {.name = "app::task",
						.full_name = "app::task",
						.object = "/srv/app",
						.site = "",
						.vtable = 0x1000};
	static struct moment_frame frame = {.object = "", .file = "src/main.rs", .line = 50};
	static struct moment_thread thread = {
		.tid = 100, .name = "worker", .frames = &frame, .n_frames = 1};
	static struct moment_task task = {
		.kind = &kind, .id = 2, .addr = 64, .state = IS_RUNNING, .thread = 1};
	static struct trace_moment moments[MOMENT_N];

	frame.function = function;
	thread.call = call;
	rec->length_ns = 1000 * MS;
	for (enum moment_when when = 0; when < MOMENT_N; when++) {
		moments[when] = (struct trace_moment){.when = when,
						      .now_ns = START + 1000 * MS * when,
						      .stopped = true,
						      .n_found = 1,
						      .tasks = &task,
						      .n_tasks = 1,
						      .threads = &thread,
						      .n_threads = 1};
		if (when == MOMENT_START || at_end)
			rec->moments[when] = &moments[when];
	}
	worker(rec, 1);
	spawn(rec, 1, 1 * MS, K_OTHER, 1);
	poll(rec, 1, 900 * MS, US, K_OTHER, 1, TO_READY, 0);
}

/* The same moment, with its task and its thread twice. */
static const struct trace_moment *two_run(const struct trace_moment *m)
{
	static struct moment_task tasks[2];
	static struct moment_thread threads[2];
	static struct trace_moment moments[MOMENT_N];
	struct trace_moment *two = &moments[m->when];

	*two = *m;
	for (unsigned i = 0; i < 2; i++) {
		tasks[i] = m->tasks[0];
		tasks[i].id += i;
		tasks[i].addr += 64 * i;
		tasks[i].thread += i;
		threads[i] = m->threads[0];
		threads[i].tid += i;
	}
	two->tasks = tasks;
	two->threads = threads;
	two->n_tasks = two->n_threads = 2;
	return two;
}

static void test_stuck_poll(void **state)
{
	struct recording rec = {0};
	(void)state;
	runs(&rec, true, "app::lock", 203);
	expect_rule(&rec, "stuck-poll",
		    "thread 100 (worker) has been in a poll of task 2 app::task since before the "
		    "recording: futex at src/main.rs:50 app::lock");
	runs(&rec, true, "app::parse", 0);
	wake(&rec, 1, 500 * MS, K_TASK, 2); /* by others */
	expect_rule(&rec, "stuck-poll",
		    "thread 100 (worker) has been in a poll of task 2 app::task since before the "
		    "recording: it computes at src/main.rs:50 app::parse");
	/* Two at one line are one trouble. */
	runs(&rec, true, "app::lock", 203);
	rec.moments[MOMENT_END] = two_run(rec.moments[MOMENT_END]);
	rec.moments[MOMENT_START] = two_run(rec.moments[MOMENT_START]);
	char *got = judged(&rec, NULL);
	char *first = strstr(got, "stuck-poll: ");

	assert_non_null(first);
	assert_non_null(strstr(first, "futex at src/main.rs:50 app::lock; 1 other thread is in "
				      "such a poll, too\n"));
	assert_null(strstr(first + 1, "stuck-poll: "));
	free(got);
	/* Another thread is the worker then. */
	runs(&rec, true, "tokio::task::blocking::block_in_place", 203);
	expect_rule(&rec, "stuck-poll", NULL);
	/* The poll may have ended before there were hooks, if the end was not seen. */
	runs(&rec, false, "app::lock", 203);
	expect_rule(&rec, "stuck-poll", NULL);
}

/* What a timeline marks: the stretch, or the worst of several, its threads and tasks. */
static void test_lanes(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	worker(&rec, 1);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t t = 100 * MS * (i + 1), ns = (i == 1 ? 30 : 20) * MS;

		spawn(&rec, i % 2, t - 1, K_TASK, 11 + i);
		poll_begin(&rec, i % 2, t, K_TASK, 11 + i);
		block(&rec, i % 2, t + ns, ns, TB_NANOSLEEP);
		poll_end(&rec, i % 2, t + ns, K_TASK, 11 + i, TO_READY, 0);
	}
	expect_lanes(&rec, "long-polls", "200.000..230.000 ms, process 0, threads 1, tasks 4=12");

	/* All of the recording, where no stretch is known. */
	rec.length_ns = 1000 * MS;
	at(&rec, 0, 0, TE_THREAD_BEGIN, 0, TRACE_KIND_NONE, 0, 0);
	park(&rec, 0, 1 * MS, 2 * MS, TB_EPOLL_WAIT);
	expect_lanes(&rec, "nothing-polled", "0.000..1000.000 ms, process 0, threads, tasks");

	/* A moment's task is the one of that name in the timeline, its thread the one of that tid. */
	runs(&rec, true, "app::lock", 203);
	expect_lanes(&rec, "stuck-poll", "0.000..1000.000 ms, process 0, threads 0, tasks 3=2");

	/* Several tasks at one point: the first of them. */
	at_a_lock(&rec, false);
	expect_lanes(&rec, "no-progress",
		     "10.001..3000.000 ms, process 0, threads, tasks 2=1 3=2 4=3 5=4 6=5");
}

static void test_quality(void **state)
{
	struct recording rec = {.length_ns = 1000 * MS};
	(void)state;
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll(&rec, 0, 2 * MS, US, K_TASK, 1, TO_READY, 0);
	at(&rec, 0, 3 * MS, TE_LOST, 0, TRACE_KIND_NONE, 0, 1234);
	expect(&rec,
	       "events-lost: 1,234 events were lost: counts are lower bounds; task states are "
	       "unknown during the gaps\n");

	rec.length_ns = 1000 * MS;
	rec.cpu = (struct trace_cpu){.n_threads = 3,
				     .cpu_ns = 130 * MS,
				     .n_periods = 10,
				     .n_throttled = 9,
				     .throttled_ns = 800 * MS,
				     .quota_ns = 15 * MS,
				     .period_ns = 100 * MS};
	worker(&rec, 0);
	spawn(&rec, 0, 1 * MS, K_TASK, 1);
	poll(&rec, 0, 2 * MS, 100 * MS, K_TASK, 1, TO_READY, 0);
	expect(&rec, "throttled: the cgroup was throttled in 9 of 10 periods (quota 0.15 CPU, 3 "
		     "threads): polls and delays took longer\n");
}

/* What a loss may have faked is not claimed, nor what a filter hides. */
static void test_lost_or_filtered(void **state)
{
	struct recording rec = {0};
	const char *const one[] = {"app", NULL};
	const struct replay_filter filter = {.families = one};
	(void)state;
	at_a_lock(&rec, false);
	at(&rec, 0, 20 * MS, TE_LOST, 0, TRACE_KIND_NONE, 0, 10);
	expect_rule(&rec, "no-progress", NULL);

	at_a_lock(&rec, false);
	char *got = judged(&rec, &filter);
	assert_null(strstr(got ? got : "", "no-progress"));
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_long_polls),
		cmocka_unit_test(test_long_polls_before_handlers),
		cmocka_unit_test(test_runtime_lock),
		cmocka_unit_test(test_long_lock_and_call),
		cmocka_unit_test(test_computes),
		cmocka_unit_test(test_long_poll_stack),
		cmocka_unit_test(test_slow_requests_of_ages),
		cmocka_unit_test(test_long_polls_without_cpu),
		cmocka_unit_test(test_long_poll_of_a_torso),
		cmocka_unit_test(test_long_poll_preempted),
		cmocka_unit_test(test_requests_blocked),
		cmocka_unit_test(test_requests_at_one_line),
		cmocka_unit_test(test_open_poll),
		cmocka_unit_test(test_ends_of_a_torso),
		cmocka_unit_test(test_blocking_calls),
		cmocka_unit_test(test_spin),
		cmocka_unit_test(test_yields_at_work),
		cmocka_unit_test(test_spin_budget),
		cmocka_unit_test(test_connects),
		cmocka_unit_test(test_wake_each_other),
		cmocka_unit_test(test_herd),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_driver),
		cmocka_unit_test(test_lifo_slot),
		cmocka_unit_test(test_imbalance),
		cmocka_unit_test(test_nothing_polled),
		cmocka_unit_test(test_delay),
		cmocka_unit_test(test_never_polled),
		cmocka_unit_test(test_queue_depth),
		cmocka_unit_test(test_failing_calls),
		cmocka_unit_test(test_pool_full),
		cmocka_unit_test(test_chatty_pool),
		cmocka_unit_test(test_chatty_pool_in_turn),
		cmocka_unit_test(test_in_place),
		cmocka_unit_test(test_no_progress),
		cmocka_unit_test(test_left_behind),
		cmocka_unit_test(test_waits_alone),
		cmocka_unit_test(test_convoy),
		cmocka_unit_test(test_permits),
		cmocka_unit_test(test_convoy_behind),
		cmocka_unit_test(test_full_channel),
		cmocka_unit_test(test_panicked),
		cmocka_unit_test(test_panic_place),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_overdue),
		cmocka_unit_test(test_stuck_poll),
		cmocka_unit_test(test_lanes),
		cmocka_unit_test(test_quality),
		cmocka_unit_test(test_lost_or_filtered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
