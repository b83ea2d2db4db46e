/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasks that a moment shows to have lived before the recording: those that have events, and those
 * that never have one.
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

int main(void)
{
	const struct CMUnitTest tests[] = {TEST(68), TEST(69), TEST(70)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
