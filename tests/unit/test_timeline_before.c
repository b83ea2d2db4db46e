/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks and workers that a moment shows to have lived before the recording: those that have events,
 * and those that never have one.
 */
#include "timeline_script.h"

static void known(struct stage *s, const char *kind, uint64_t id, enum task_state state)
{
	struct timeline_before before = {.id = id, .state = state, .place = 5};

	for (uint32_t i = 0; i < N_KINDS; i++)
		if (!strcmp(kinds[i].word, kind))
			before.kind = i;
	assert_int_equal(timeline_before(s->tl, &before, NULL), 0);
}

/* All but task 9. */
static bool there(const void *ctx, uint32_t kind, uint64_t id)
{
	return id != 9;
}

static void end(struct stage *s, const char *line)
{
	timeline_before_end(s->tl, 700, there, NULL);
	play(s, line);
}

/* What hangs: it is alive, and waits from end to end, at its await point. */
static void without_events(void)
{
	struct stage *s = stage_new();

	known(s, "task", 7, TS_WAITING);
	known(s, "task", 8, TS_SCHEDULED);
	known(s, "blocking", 3, TS_POLLING);
	known(s, "task", 7, TS_WAITING);   /* once more: it is one task */
	known(s, "worker", 1, TS_POLLING); /* a worker's loop is no task */
	play(s, "1000 0 poll task 20\n"
		"1100 0 pending task 20\n");
	end(s, "finish 2000\n");
	expect_log(s, "+1 task 20 seen 1000\n"
		      "worker t0 1000-\n"
		      "poll 1 t0 1000-1100 pending\n"
		      "worker t0 -2000\n"
		      "+2 task 7 seen 1000\n"
		      "+3 task 8 seen 1000\n"
		      "+4 blocking 3 seen 1000\n"
		      "waiting 1 1100-2000\n"
		      "-1 alive waiting\n"
		      "waiting 2 1000-2000 at 5\n"
		      "-2 alive waiting\n"
		      "scheduled 3 1000-2000\n"
		      "-3 alive scheduled\n"
		      "-4 alive polling\n");
	const struct timeline_totals t = stage_end(s);

	assert_int_equal(t.unspawned, 4);
	assert_int_equal(t.alive, 4);
}

/* Of a recording in which nothing happens, too. */
static void no_event_at_all(void)
{
	struct stage *s = stage_new();

	known(s, "task", 7, TS_WAITING);
	end(s, "finish 2000\n");
	expect_log(s, "+1 task 7 seen 700\n"
		      "waiting 1 700-2000 at 5\n"
		      "-1 alive waiting\n");
	stage_end(s);
}

/* Without a moment all is as before. */
static void no_moment(void)
{
	story("1000 0 park\n"
	      "finish 2000\n",
	      "park t0 1 1000-2000\n");
}

/* It ended before its hooks were there. */
static void gone_unseen(void)
{
	struct stage *s = stage_new();

	known(s, "task", 9, TS_WAITING);
	end(s, "finish 2000\n");
	expect_log(s, "");
	const struct timeline_totals t = stage_end(s);

	assert_int_equal(t.alive, 0);
}

/* The wake ends a wait that began before the recording. */
static void woken(void)
{
	struct stage *s = stage_new();

	known(s, "task", 7, TS_WAITING);
	known(s, "task", 9, TS_WAITING);
	play(s, "1000 0 park\n"
		"1300 0 unpark\n"
		"1300 0 wake task 7\n"
		"1400 0 poll task 7\n"
		"1500 0 ready task 7\n");
	end(s, "finish 2000\n");
	expect_log(s, "park t0 1 1000-1300\n"
		      "+1 task 7 seen 1000\n"
		      "w1 1 t0 1300 scheduled\n"
		      "waiting 1 1000-1300 at 5\n"
		      "scheduled 1 1300-1400 at 5\n"
		      "worker t0 1400-\n"
		      "poll 1 t0 1400-1500 ready since 1300 w1\n"
		      "-1 ready 1500\n"
		      "worker t0 -2000\n");
	const struct timeline_totals t = stage_end(s);

	assert_int_equal(t.n_inconsistent, 0);
}

/* What it did between the moment and the first event is not known: only what agrees counts. */
static void changed_since(void)
{
	struct stage *s = stage_new();

	known(s, "task", 7, TS_WAITING);
	play(s, "1000 0 poll task 7\n"
		"1100 0 pending task 7\n");
	end(s, "finish 2000\n");
	expect_log(s, "+1 task 7 seen 1000\n"
		      "worker t0 1000-\n"
		      "poll 1 t0 1000-1100 pending\n"
		      "worker t0 -2000\n"
		      "waiting 1 1100-2000\n"
		      "-1 alive waiting\n");
	const struct timeline_totals t = stage_end(s);

	assert_int_equal(t.n_inconsistent, 0);
}

/* A task of before is none that was spawned, even if its id would fit. */
static void takes_no_spawn(void)
{
	struct stage *s = stage_new();

	known(s, "task", 7, TS_SCHEDULED);
	play(s, "1000 0 poll other 1\n"
		"1010 0 spawn task 20\n"
		"1020 0 pending other 1\n"
		"1100 0 poll task 7\n"
		"1110 0 ready task 7\n"
		"1200 0 poll task 20\n"
		"1210 0 ready task 20\n");
	end(s, "finish 2000\n");
	assert_non_null(strstr(s->log.data, "task 20 spawned"));
	assert_non_null(strstr(s->log.data, "task 7 seen"));
	const struct timeline_totals t = stage_end(s);

	assert_int_equal(t.spawned, 1);
	assert_int_equal(t.unspawned, 2);
	assert_int_equal(t.completed, 2);
}

/* After a loss nothing is claimed of what had no event. */
static void loss(void)
{
	struct stage *s = stage_new();

	known(s, "task", 7, TS_WAITING);
	play(s, "1000 0 park\n"
		"1500 0 lost 3\n");
	end(s, "finish 2000\n");
	assert_non_null(strstr(s->log.data, "waiting 1 1000-1000 at 5\n") ||
					strstr(s->log.data, "unknown 1 1000-2000\n")
				? s->log.data
				: NULL);
	assert_non_null(strstr(s->log.data, "-1 alive unknown\n"));
	stage_end(s);
}

/* A moment shows a task that then has an event. */
ROW(68)
{
	woken();
	changed_since();
	takes_no_spawn();
}

/* It never has one. */
ROW(69)
{
	no_moment();
	without_events();
	no_event_at_all();
	loss();
}

/* Nor is it there at the end. */
ROW(70)
{
	gone_unseen();
}

/* ---- workers ---- */

static int log_life(void *ctx, const struct tl_thread *t)
{
	struct stage *s = ctx;

	buf_printf(&s->log, "t%u %s %lu-%lu parked %lu busy %lu unmeasured %lu\n", t->thread,
		   t->worker ? "worker" : "other", t->begin_ns, t->end_ns, t->parked_ns, t->busy_ns,
		   t->n_unmeasured);
	return 0;
}

/* One that also logs threads. */
static struct stage *lives_new(void)
{
	static struct timeline_sink lives;
	struct stage *s = stage_new();

	lives = sink;
	lives.thread_end = log_life;
	timeline_free(s->tl);
	s->tl = timeline_new(&lives, s, stage_kind, NULL);
	assert_non_null(s->tl);
	return s;
}

static void worker(struct stage *s, uint32_t thread, bool parked)
{
	const struct timeline_before_thread before = {.thread = thread,
						      .parked = parked,
						      .polls = !parked,
						      .call = parked ? TB_FUTEX : TB_NONE,
						      .since_ns = 900};

	assert_int_equal(timeline_before_thread(s->tl, &before, NULL), 0);
}

/* Workers 0 and 1 are parked when the recording begins, worker 2 has begun it. */
static void first_event_ends_the_park(const char *lines, const char *want)
{
	struct stage *s = lives_new();

	worker(s, 0, true);
	play(s, "1000 2 park\n");
	play(s, lines);
	play(s, "finish 2000\n");
	expect_log(s, want);
	const struct timeline_totals t = stage_end(s);

	assert_int_equal(t.n_inconsistent, 0);
}

/* The begin of a poll, an unpark, a park again. */
static void comes_back(void)
{
	first_event_ends_the_park("1600 0 poll task 7\n"
				  "1700 0 ready task 7\n",
				  "worker t0 1000-\n"
				  "park t0 1 1000-1600\n"
				  "+1 task 7 seen 1600\n"
				  "poll 1 t0 1600-1700 ready\n"
				  "-1 ready 1700\n"
				  "worker t0 -2000\n"
				  "park t2 1 1000-2000\n"
				  "t0 worker 1000-1700 parked 600 busy 100 unmeasured 0\n"
				  "t2 other 1000-2000 parked 1000 busy 0 unmeasured 0\n");
	first_event_ends_the_park("1600 0 unpark\n"
				  "1700 0 park\n",
				  "worker t0 1000-\n"
				  "park t0 1 1000-1600\n"
				  "park t0 1 1700-2000\n"
				  "worker t0 -2000\n"
				  "park t2 1 1000-2000\n"
				  "t0 worker 1000-2000 parked 900 busy 0 unmeasured 0\n"
				  "t2 other 1000-2000 parked 1000 busy 0 unmeasured 0\n");
	/* A worker that ends. */
	first_event_ends_the_park("1600 0 ready worker 1\n",
				  "worker t0 1000-\n"
				  "park t0 1 1000-1600\n"
				  "+1 worker 1 seen 1600\n"
				  "worker t0 -1600\n"
				  "-1 ready 1600\n"
				  "park t2 1 1000-2000\n"
				  "t0 worker 1000-1600 parked 600 busy 0 unmeasured 0\n"
				  "t2 other 1000-2000 parked 1000 busy 0 unmeasured 0\n");
}

/* A driver fires wakers outside of polls: the first of these events ends the park. */
static void driver_comes_back(void)
{
	first_event_ends_the_park("1600 0 wake task 7\n"
				  "1610 0 poll task 7\n"
				  "1700 0 ready task 7\n",
				  "worker t0 1000-\n"
				  "+1 task 7 seen 1600\n"
				  "w1 1 t0 1600 scheduled\n"
				  "park t0 1 1000-1600\n"
				  "scheduled 1 1600-1610\n"
				  "poll 1 t0 1610-1700 ready since 1600 w1\n"
				  "-1 ready 1700\n"
				  "worker t0 -2000\n"
				  "park t2 1 1000-2000\n"
				  "t0 worker 1000-1700 parked 600 busy 90 unmeasured 0\n"
				  "t2 other 1000-2000 parked 1000 busy 0 unmeasured 0\n");
}

/* It left the park before the recording: the end of a poll without a begin, after a wake in it. */
static void was_in_a_poll(void)
{
	first_event_ends_the_park("1600 0 wake task 8\n"
				  "1700 0 ready task 7\n",
				  "worker t0 1000-\n"
				  "+1 task 8 seen 1600\n"
				  "w1 1 t0 1600 scheduled\n"
				  "+2 task 7 seen 1700\n"
				  "poll 2 t0 1700-1700 ready unseen\n"
				  "-2 ready 1700\n"
				  "worker t0 -2000\n"
				  "park t2 1 1000-2000\n"
				  "scheduled 1 1600-2000\n"
				  "-1 alive scheduled\n"
				  "t0 worker 1000-1700 parked 0 busy 0 unmeasured 1\n"
				  "t2 other 1000-2000 parked 1000 busy 0 unmeasured 0\n");
}

ROW(71)
{
	comes_back();
	driver_comes_back();
	was_in_a_poll();
}

/* All the time, but for those that are gone; one in a poll is busy for an unknown time. */
ROW(72)
{
	struct stage *s = lives_new();

	worker(s, 0, true);
	worker(s, 1, false);
	worker(s, 3, true);
	worker(s, 4, true);
	play(s, "1000 2 park\n"
		"1500 2 unpark\n");
	timeline_before_thread_end(s->tl, 0, true, true);
	timeline_before_thread_end(s->tl, 1, true, false);
	timeline_before_thread_end(s->tl, 3, false, false);
	/* What comes after the end of a window. */
	timeline_look_ahead(
		s->tl,
		&(struct trace_event){
			.time = 2500, .thread = 4, .type = TE_POLL_END, .kind = 0, .task = 7});
	play(s, "finish 2000\n");
	expect_log(s, "park t2 1 1000-1500\n"
		      "worker t0 1000-\n"
		      "park t0 1 1000-2000\n"
		      "worker t0 -2000\n"
		      "worker t1 1000-\n"
		      "worker t1 -2000\n"
		      "worker t4 1000-\n"
		      "worker t4 -2000\n"
		      "t0 worker 1000-2000 parked 1000 busy 0 unmeasured 0\n"
		      "t1 worker 1000-2000 parked 0 busy 0 unmeasured 1\n"
		      "t2 other 1000-1500 parked 500 busy 0 unmeasured 0\n"
		      "t4 worker 1000-2000 parked 0 busy 0 unmeasured 1\n");
	stage_end(s);

	/* A process that joins later, of which nothing is known before. */
	s = lives_new();
	worker(s, 0, true);
	play(s, "100 2 park\n"
		"finish 2000\n");
	expect_log(s, "worker t0 900-\n"
		      "park t0 1 900-2000\n"
		      "worker t0 -2000\n"
		      "park t2 1 100-2000\n"
		      "t0 worker 900-2000 parked 1100 busy 0 unmeasured 0\n"
		      "t2 other 100-2000 parked 1900 busy 0 unmeasured 0\n");
	stage_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {TEST(68), TEST(69), TEST(70), TEST(71), TEST(72)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
