/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The meaning of events of tasks, threads, parks and losses: rows of docs/timeline.md, as timeline_script.h plays them. */
#include "timeline_script.h"

/* Spawn, polls, wakes, end, drop in order. */
ROW(1)
{
	struct timeline_totals t = story("10 0 spawn task 7\n"
					 "20 1 poll task 7\n"
					 "30 1 pending task 7\n"
					 "50 2 wake task 7\n"
					 "60 1 poll task 7\n"
					 "70 1 ready task 7\n"
					 "71 1 drop task 7\n"
					 "finish 100",
					 "+1 task 7 spawned 10\n"
					 "scheduled 1 10-20\n"
					 "worker t1 20-\n"
					 "poll 1 t1 20-30 pending since 10\n"
					 "w1 1 t2 50 scheduled\n"
					 "waiting 1 30-50\n"
					 "scheduled 1 50-60\n"
					 "poll 1 t1 60-70 ready since 50 w1\n"
					 "-1 ready 70\n"
					 "worker t1 -100\n");
	assert_int_equal(t.n_events, 7);
	assert_int_equal(t.spawned, 1);
	assert_int_equal(t.completed, 1);
	assert_int_equal(t.n_polls, 2);
	assert_int_equal(t.n_wakes, 1);
	assert_int_equal(t.n_inconsistent, 0);
}

/* Wake during the task's own poll. */
ROW(2)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "15 0 wake-running task 1\n"
					 "16 1 wake-running task 1\n"
					 "20 0 pending task 1\n"
					 "25 0 poll task 1\n"
					 "30 0 ready task 1\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "w1 1 t0 15 running by 1\n"
					 "w2 1 t1 16 running\n"
					 "poll 1 t0 10-20 pending woken\n"
					 "scheduled 1 20-25\n"
					 "poll 1 t0 25-30 ready since 20 w1\n"
					 "-1 ready 30\n");
	assert_int_equal(t.n_self_wakes, 1);
	assert_int_equal(t.unspawned, 1);
	assert_int_equal(t.n_inconsistent, 0);
}

/* A task is first seen by a wake or a poll. A wake that had no effect shows none: it may be over. */
ROW(3)
{
	struct timeline_totals t = story("10 0 wake task 1\n"
					 "20 0 wake-noop task 2\n"
					 "30 0 poll task 1\n"
					 "40 0 poll task 2\n",
					 "+1 task 1 seen 10\n"
					 "w1 1 t0 10 scheduled\n"
					 "stray task t0 20\n"
					 "scheduled 1 10-30\n"
					 "worker t0 30-\n"
					 "+2 task 2 seen 40\n");
	assert_int_equal(t.alive, 2);
	assert_int_equal(t.spawned, 0);
}

/* Poll end without begin, at a thread's start or after a loss. */
ROW(4)
{
	struct timeline_totals t = story("10 0 pending task 1\n"
					 "20 0 poll task 1\n"
					 "30 0 lost 5\n"
					 "40 0 pending task 1\n"
					 "50 1 ready task 2\n",
					 "+1 task 1 seen 10\n"
					 "poll 1 t0 10-10 pending unseen\n"
					 "unknown 1 10-20\n"
					 "worker t0 20-\n"
					 "poll 1 t0 20-20 unknown\n"
					 "loss t0 20-30 5\n"
					 "unknown 1 20-40\n"
					 "poll 1 t0 40-40 pending unseen\n"
					 "+2 task 2 seen 50\n"
					 "poll 2 t1 50-50 ready unseen\n"
					 "-2 ready 50\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.n_lost, 5);
	assert_int_equal(t.completed, 1);
}

/* Poll end without begin elsewhere. */
ROW(5)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 pending task 1\n"
					 "30 0 pending task 1\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-20 pending\n"
					 "waiting 1 20-30\n"
					 "poll 1 t0 30-30 pending unseen\n");
	assert_int_equal(t.n_inconsistent, 1);
}

/* Poll end that is not the innermost. */
ROW(6)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 poll task 2\n"
					 "30 0 pending task 1\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "+2 task 2 seen 20\n"
					 "poll 2 t0 20-20 unknown depth 1 end unseen\n"
					 "poll 1 t0 10-30 pending\n");
	assert_int_equal(t.n_inconsistent, 1);
}

/* A task's poll begins inside its own poll. */
ROW(7)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 poll task 2\n"
					 "30 0 poll task 1\n"
					 "40 0 ready task 1\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "+2 task 2 seen 20\n"
					 "poll 2 t0 20-20 unknown depth 1 end unseen\n"
					 "poll 1 t0 10-30 unknown end unseen\n"
					 "poll 1 t0 30-40 ready\n"
					 "-1 ready 40\n");
	assert_int_equal(t.n_inconsistent, 1);
}

/* A task's poll begins while its poll is open on another thread. */
ROW(8)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 1 wake task 1\n"
					 "22 2 poll task 1\n"
					 "23 0 block 1\n"
					 "23 0 pending task 1\n"
					 "24 2 ready task 1\n"
					 "30 0 poll task 2\n"
					 "40 1 poll task 2\n"
					 "41 0 pending task 2\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "w1 1 t1 20 scheduled\n"
					 "poll 1 t0 10-20 pending woken\n"
					 "scheduled 1 20-22\n"
					 "worker t2 22-\n"
					 "poll 1 t2 22-24 ready since 20 w1\n"
					 "-1 ready 24\n"
					 "+2 task 2 seen 30\n"
					 "poll 2 t0 30-40 pending\n"
					 "worker t1 40-\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.n_polls, 4);
}

/* Cancel or drop while the task is polled. */
ROW(9)
{
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "20 1 drop task 1\n"
		      "21 0 ready task 1\n"
		      "30 0 poll task 2\n"
		      "31 1 cancel task 2\n"
		      "32 1 drop task 2\n"
		      "33 0 pending task 2\n"
		      /* an address that is used again before the poll's end is seen */
		      "40 0 poll addr 64\n"
		      "41 1 drop addr 64\n"
		      "42 1 poll addr 64\n"
		      "43 0 ready addr 64\n"
		      "44 1 ready addr 64\n",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "poll 1 t0 10-21 ready\n"
		      "-1 ready 21\n"
		      "+2 task 2 seen 30\n"
		      "poll 2 t0 30-33 pending\n"
		      "-2 cancelled 33\n"
		      "+3 addr 64 seen 40\n"
		      "+4 addr 64 seen 42\n"
		      "worker t1 42-\n"
		      "poll 3 t0 40-43 ready\n"
		      "-3 ready 43\n"
		      "poll 4 t1 42-44 ready\n"
		      "-4 ready 44\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.cancelled, 1);
	assert_int_equal(t.completed, 3);
}

/* Drop of a task that has not ended. */
ROW(10)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 pending task 1\n"
					 "30 0 drop task 1\n"
					 "40 0 wake-running task 2\n"
					 "50 0 drop task 2\n"
					 "55 0 wake-noop task 4\n"
					 "56 0 drop task 4\n"
					 "60 0 poll task 3\n"
					 "70 0 pending task 3\n"
					 "80 1 cancel task 3\n"
					 "90 1 drop task 3\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-20 pending\n"
					 "waiting 1 20-30\n"
					 "-1 cancelled 30\n"
					 "+2 task 2 seen 40\n"
					 "w1 2 t0 40 running\n"
					 "unknown 2 40-50\n"
					 "-2 unknown 50\n"
					 "stray task t0 55\n"
					 "+3 task 3 seen 60\n"
					 "poll 3 t0 60-70 pending\n"
					 "waiting 3 70-80\n"
					 "-3 cancelled 80\n");
	assert_int_equal(t.cancelled, 2);
	assert_int_equal(t.ended_unknown, 1);
	assert_int_equal(t.n_inconsistent, 0);
}

/* Drop of a task never seen. */
ROW(11)
{
	struct timeline_totals t = story("10 0 drop task 3\n"
					 "20 0 spawn task 101\n"
					 "30 0 drop task 2\n"
					 "40 0 drop task 101\n",
					 "+1 task 101 spawned 20\n"
					 "scheduled 1 20-40\n"
					 "-1 cancelled 40\n");
	assert_int_equal(t.spawned, 1);
	assert_int_equal(t.unspawned, 0);
	assert_int_equal(t.n_inconsistent, 0);
}

/* Wake of an ended task. */
ROW(12)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 ready task 1\n"
					 "30 1 wake-noop task 1\n"
					 "40 1 wake task 1\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-20 ready\n"
					 "-1 ready 20\n"
					 "stray task t1 30\n"
					 "stray task t1 40\n");
	assert_int_equal(t.n_inconsistent, 1);
	assert_int_equal(t.n_wakes, 2);
}

/* Other events of an ended task. */
ROW(13)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 ready task 1\n"
					 "30 0 poll task 1\n"
					 "31 0 block 1\n"
					 "32 0 pending task 1\n"
					 "33 0 schedule task 1\n"
					 "34 0 cancel task 1\n"
					 "40 0 poll addr 64\n"
					 "50 0 ready addr 64\n"
					 "60 0 schedule addr 64\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-20 ready\n"
					 "-1 ready 20\n"
					 "+2 addr 64 seen 40\n"
					 "poll 2 t0 40-50 ready\n"
					 "-2 ready 50\n"
					 "+3 addr 64 seen 60\n"
					 "w1 3 t0 60 scheduled queue\n");
	assert_int_equal(t.n_inconsistent, 3);
	assert_int_equal(t.n_polls, 2);
}

/* Drop. */
ROW(14)
{
	struct stage *s = stage_new();
	play(s, "10 0 poll addr 64\n20 0 ready addr 64\n30 0 drop addr 64\n40 0 poll addr 64\n");
	expect_log(s, "+1 addr 64 seen 10\nworker t0 10-\npoll 1 t0 10-20 ready\n-1 ready 20\n"
		      "+2 addr 64 seen 40\n");
	play(s, "50 0 ready addr 64\n");
	/* Ended tasks without a drop are remembered up to a number. */
	for (unsigned i = 1; i <= 70000; i++) {
		struct trace_event ev = {
			.time = 100 + i, .type = TE_POLL_END, .arg = TO_READY, .task = i};
		ev.type = TE_POLL_BEGIN;
		assert_int_equal(timeline_feed(s->tl, &ev, NULL), 0);
		ev.type = TE_POLL_END;
		assert_int_equal(timeline_feed(s->tl, &ev, NULL), 0);
	}
	buf_clear(&s->log);
	play(s, "80000 0 wake-noop task 70000\n80001 0 wake-noop task 1\n");
	expect_log(s, "stray task t0 80000\nstray task t0 80001\n");
	struct timeline_totals t = stage_end(s);
	assert_int_equal(t.completed, 70002);
	assert_int_equal(t.n_inconsistent, 0);
}

/* Wake "idle to scheduled" of a scheduled task. */
ROW(15)
{
	struct timeline_totals t = story("10 0 wake task 1\n"
					 "20 0 wake task 1\n"
					 "30 0 wake-running task 1\n"
					 "40 0 poll task 1\n",
					 "+1 task 1 seen 10\n"
					 "w1 1 t0 10 scheduled\n"
					 "w2 1 t0 20 scheduled\n"
					 "scheduled 1 10-20\n"
					 "w3 1 t0 30 running\n"
					 "scheduled 1 20-40\n"
					 "worker t0 40-\n");
	assert_int_equal(t.n_inconsistent, 0);

	t = story("10 0 poll task 1\n"
		  "20 0 pending task 1\n"
		  "30 0 wake task 1\n"
		  "40 0 wake task 1\n",
		  "+1 task 1 seen 10\n"
		  "worker t0 10-\n"
		  "poll 1 t0 10-20 pending\n"
		  "w1 1 t0 30 scheduled\n"
		  "waiting 1 20-30\n"
		  "w2 1 t0 40 scheduled\n"
		  "scheduled 1 30-40\n");
	assert_int_equal(t.n_inconsistent, 1);

	/* by two threads: one of them was a moment late */
	t = story("10 0 poll task 1\n"
		  "20 0 pending task 1\n"
		  "30 0 wake task 1\n"
		  "31 1 wake task 1\n"
		  "40 0 poll task 1\n",
		  "+1 task 1 seen 10\n"
		  "worker t0 10-\n"
		  "poll 1 t0 10-20 pending\n"
		  "w1 1 t0 30 scheduled\n"
		  "waiting 1 20-30\n"
		  "w2 1 t1 31 scheduled\n"
		  "scheduled 1 30-40\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* Events lost on a thread. */
ROW(16)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "11 0 pending task 1\n"
					 "12 0 poll task 2\n"
					 "13 0 pending task 2\n"
					 "14 0 poll task 3\n"
					 "15 0 pending task 3\n"
					 "16 1 wake task 2\n"
					 "20 0 park\n"
					 "30 1 unpark\n"
					 "40 0 lost 9\n"
					 "50 1 poll task 1\n"
					 "60 1 ready task 1\n"
					 "70 1 poll task 2\n"
					 "80 1 ready task 2\n"
					 "90 1 drop task 3\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-11 pending\n"
					 "+2 task 2 seen 12\n"
					 "poll 2 t0 12-13 pending\n"
					 "+3 task 3 seen 14\n"
					 "poll 3 t0 14-15 pending\n"
					 "w1 2 t1 16 scheduled\n"
					 "waiting 2 13-16\n"
					 "park t0 1 20-20\n"
					 "loss t0 20-40 9\n"
					 "waiting 1 11-20\n"
					 "unknown 1 20-50\n"
					 "worker t1 50-\n"
					 "poll 1 t1 50-60 ready\n"
					 "-1 ready 60\n"
					 "scheduled 2 16-20\n"
					 "unknown 2 20-70\n"
					 "poll 2 t1 70-80 ready\n"
					 "-2 ready 80\n"
					 "waiting 3 15-20\n"
					 "unknown 3 20-90\n"
					 "-3 unknown 90\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.n_lost, 9);
}

/* A task is polled elsewhere while events are lost. */
ROW(17)
{
	story("10 0 poll task 1\n"
	      "12 1 poll task 2\n"
	      "13 1 wake-running task 2\n"
	      "20 2 park\n"
	      "30 2 lost 1\n"
	      "40 0 pending task 1\n"
	      "41 1 pending task 2\n"
	      "50 0 poll task 1\n"
	      "51 1 poll task 2\n",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "+2 task 2 seen 12\n"
	      "worker t1 12-\n"
	      "w1 2 t1 13 running by 2\n"
	      "park t2 1 20-20\n"
	      "loss t2 20-30 1\n"
	      "poll 1 t0 10-40 pending\n"
	      "poll 2 t1 12-41 pending woken\n"
	      "unknown 1 40-50\n"
	      "scheduled 2 41-51\n");
}

/* Park while a poll is open. */
ROW(18)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 park\n"
					 "30 0 unpark\n",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-10 unknown end unseen\n"
					 "park t0 1 20-30\n");
	assert_int_equal(t.n_inconsistent, 1);
}

/* Park while parked, unpark while not, poll while parked. */
ROW(19)
{
	struct timeline_totals t = story("5 0 unpark\n"
					 "10 0 park\n"
					 "20 0 epoll\n"
					 "30 0 unpark\n"
					 "40 0 unpark\n"
					 "50 0 park\n"
					 "60 0 poll task 1\n",
					 "park t0 1 10-20\n"
					 "park t0 2 20-30\n"
					 "park t0 1 50-60\n"
					 "+1 task 1 seen 60\n"
					 "worker t0 60-\n");
	assert_int_equal(t.n_inconsistent, 3);
}

/* Blocking call outside of a task's poll. */
ROW(20)
{
	story("10 0 poll worker 1\n"
	      "50 0 block 30\n"
	      "60 1 block 5\n",
	      "+1 worker 1 seen 10\n"
	      "worker t0 10-\n"
	      "park t0 7 20-50\n"
	      "park t1 7 55-60\n");
}

/* Tasks 1001 to 1200, each spawned and polled by thread 0; but `idle` is spawned only. After the spawn
 * of `at` comes another one, of which no task comes. Returns how many tasks were spawned. */
static uint64_t n_spawned(unsigned idle, unsigned at)
{
	struct stage *s = stage_new();
	struct timeline_totals t;
	char line[64];

	play(s, "10 0 spawn task 1000"); /* before it nothing is known: it may be one */
	for (unsigned id = 1001; id <= 1200; id++) {
		snprintf(line, sizeof(line), "%u 0 spawn task %u", id, id);
		play(s, line);
		if (id == at)
			play(s, line);
		if (id == idle)
			continue;
		snprintf(line, sizeof(line), "%u 0 poll task %u", id, id);
		play(s, line);
		snprintf(line, sizeof(line), "%u 0 ready task %u", id, id);
		play(s, line);
	}
	play(s, "1300 0 thread-end\nfinish 1300");
	buf_clear(&s->log);
	t = stage_end(s);
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.unspawned, 0);
	return t.spawned;
}

/* A spawn of which no task comes, and whose possible ids are all those of others. */
ROW(67)
{
	(void)state;
	assert_int_equal(n_spawned(0, 0), 201);
	assert_int_equal(n_spawned(0, 1100), 201);
	/* its id may be that of a task that was not polled; that is one in any case */
	assert_int_equal(n_spawned(1090, 0), 201);
	assert_int_equal(n_spawned(1090, 1100), 202);
	assert_int_equal(n_spawned(1090, 1020), 202);
	/* far from it the one that was not polled stays, the other does not */
	assert_int_equal(n_spawned(1190, 1100), 201);
	/* near the begin and the end the ids around it are not known */
	assert_int_equal(n_spawned(0, 1003), 202);
	assert_int_equal(n_spawned(0, 1199), 202);
}

/* Blocking call longer than the time since the thread's event before; or whose system call,
 * from another source, begins a little before it. */
ROW(21)
{
	story("10 0 poll task 1\n"
	      "20 0 block 5\n"
	      "30 0 block 25\n"
	      "40 0 pending task 1\n",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "block 1 t0 7 15-20\n"
	      "block 1 t0 7 20-30\n"
	      "poll 1 t0 10-40 pending blocked 2*15\n");
}

static void test_block_and_its_call(void **state)
{
	story("10 0 poll task 1\n"
	      "49 0 syscall 31 0\n" /* from 18 on */
	      "50 0 block 30\n"	    /* from 20 on */
	      "60 0 ready task 1\n"
	      "finish 70",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "syscall 202=0 t0 18-49 of 1\n"
	      "block 1 t0 7 18-50\n"
	      "poll 1 t0 10-60 ready blocked 1*32\n"
	      "-1 ready 60\n"
	      "worker t0 -70\n");
}

/* A thread's clock goes back. */
ROW(22)
{
	struct timeline_totals t = story("100 0 poll task 1\n"
					 "90 0 pending task 1\n"
					 "95 0 poll task 1\n"
					 "110 0 ready task 1\n",
					 "+1 task 1 seen 100\n"
					 "worker t0 100-\n"
					 "poll 1 t0 100-100 pending\n"
					 "poll 1 t0 100-110 ready\n"
					 "-1 ready 110\n");
	assert_int_equal(t.n_inconsistent, 1);
}

/* An event older than its task's last one (another thread's clock). */
ROW(23)
{
	struct timeline_totals t = story("100 0 poll task 1\n"
					 "120 0 pending task 1\n"
					 "115 1 wake task 1\n"
					 "118 1 poll task 1\n"
					 "119 1 ready task 1\n",
					 "+1 task 1 seen 100\n"
					 "worker t0 100-\n"
					 "poll 1 t0 100-120 pending\n"
					 "w1 1 t1 120 scheduled\n"
					 "worker t1 120-\n"
					 "poll 1 t1 120-120 ready since 120 w1\n"
					 "-1 ready 120\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* A worker kind's poll. */
ROW(24)
{
	struct timeline_totals t = story("10 0 spawn worker 1\n"
					 "20 1 poll worker 1\n"
					 "30 1 poll task 2\n"
					 "40 1 poll other 3\n"
					 "50 1 ready other 3\n"
					 "60 1 ready task 2\n"
					 "70 1 ready worker 1\n",
					 "+1 worker 1 spawned 10\n"
					 "scheduled 1 10-20\n"
					 "worker t1 20-\n"
					 "+2 task 2 seen 30\n"
					 "+3 other 3 seen 40\n"
					 "poll 3 t1 40-50 ready depth 1\n"
					 "-3 ready 50\n"
					 "poll 2 t1 30-60 ready\n"
					 "-2 ready 60\n"
					 "worker t1 -70\n"
					 "-1 ready 70\n");
	assert_int_equal(t.spawned, 0);
	assert_int_equal(t.unspawned, 2);
	assert_int_equal(t.completed, 2);
	assert_int_equal(t.n_polls, 2);
	assert_int_equal(t.n_inconsistent, 0);
}

/* Worker or blocking task begins in a worker's loop. */
ROW(25)
{
	struct timeline_totals t = story("10 0 poll worker 1\n"
					 "20 0 poll blocking 2\n"
					 "30 0 ready blocking 2\n",
					 "+1 worker 1 seen 10\n"
					 "worker t0 10-\n"
					 "worker t0 -20\n"
					 "+2 blocking 2 seen 20\n"
					 "poll 2 t0 20-30 ready\n"
					 "-2 ready 30\n");
	assert_int_equal(t.n_inconsistent, 1);
}

/* A kind without a name, never seen pending, in whose poll a task is polled, without a
 * block_on. */
ROW(26)
{
	/* kind 6 is the worker's loop, kind 7 a task: it was seen pending, so a nested poll means
	 * nothing */
	struct timeline_totals t =
		story("5 0 spawn kind6 1\n"
		      "10 0 poll kind6 1\n"
		      "20 0 block 5\n"
		      "30 0 poll kind7 2\n"
		      "40 0 pending kind7 2\n"
		      "50 0 poll kind7 2\n"
		      "60 0 poll kind7 3\n"
		      "70 0 ready kind7 3\n"
		      "80 0 ready kind7 2\n"
		      "90 0 ready kind6 1\n"
		      /* with a block_on inside it is a blocking task that runs a runtime */
		      "100 1 poll kind6 4\n",
		      "+1 kind6 1 spawned 5\n"
		      "scheduled 1 5-10\n"
		      "block 1 t0 7 15-20\n"
		      "worker t0 10-\n"
		      "+2 kind7 2 seen 30\n"
		      "poll 2 t0 30-40 pending\n"
		      "waiting 2 40-50\n"
		      "+3 kind7 3 seen 60\n"
		      "poll 3 t0 60-70 ready depth 1\n"
		      "-3 ready 70\n"
		      "poll 2 t0 50-80 ready\n"
		      "-2 ready 80\n"
		      "worker t0 -90\n"
		      "-1 ready 90\n"
		      "+4 kind6 4 seen 100\n"
		      "worker t1 100-\n");
	assert_int_equal(t.spawned, 0);
	assert_int_equal(t.completed, 2);

	t = story("10 0 poll kind6 1\n"
		  "20 0 enter root\n"
		  "30 0 poll kind7 2\n"
		  "40 0 pending kind7 2\n"
		  "50 0 ready kind6 1\n",
		  "+1 kind6 1 seen 10\n"
		  "+2 root 0 spawned 20 by 1\n"
		  "+3 kind7 2 seen 30\n"
		  "poll 3 t0 30-40 pending depth 1\n"
		  "unknown 2 20-50\n"
		  "-2 unknown 50\n"
		  "poll 1 t0 10-50 ready\n"
		  "-1 ready 50\n");
	assert_int_equal(t.completed, 1);
}

/* A worker's spawn inside a task's poll. */
ROW(27)
{
	story("10 0 poll task 1\n"
	      "20 0 spawn inplace 2\n"
	      "25 0 spawn worker 3\n"
	      "30 1 poll inplace 2\n"
	      "40 0 pending task 1\n"
	      "50 1 poll task 4\n"
	      "60 1 spawn worker 5\n"
	      "70 1 pending task 4\n",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "+2 inplace 2 spawned 20 by 1\n"
	      "scheduled 2 20-30\n"
	      "worker t1 30-\n"
	      "section 1 t0 20-40\n"
	      "poll 1 t0 10-40 pending\n"
	      "+3 task 4 seen 50\n"
	      "poll 3 t1 50-70 pending\n");
}

/* Spawns. */
ROW(28)
{
	/* by thread */
	struct timeline_totals t = story("10 0 poll addr 8\n"
					 "20 0 spawn addr 0\n"
					 "21 1 spawn addr 0\n"
					 "22 1 schedule addr 24\n"
					 "23 0 schedule addr 16\n",
					 "+1 addr 8 seen 10\n"
					 "worker t0 10-\n"
					 "+2 addr 24 spawned 21\n"
					 "w1 2 t1 22 scheduled queue\n"
					 "+3 addr 16 spawned 20 by 1\n"
					 "w2 3 t0 23 scheduled by 1 queue\n");
	assert_int_equal(t.spawned, 2);
	assert_int_equal(t.n_schedules, 2);

	/* of blocking tasks by order, also if nothing else happened on the threads that made them
	 */
	t = story("10 1 spawn job 0\n"
		  "11 0 spawn job 0\n"
		  "20 2 poll job 8\n"
		  "21 3 poll job 16\n"
		  "30 2 ready job 8\n"
		  "31 3 ready job 16\n",
		  "+1 job 8 spawned 10\n"
		  "scheduled 1 10-20\n"
		  "+2 job 16 spawned 11\n"
		  "scheduled 2 11-21\n"
		  "poll 1 t2 20-30 ready since 10\n"
		  "-1 ready 30\n"
		  "poll 2 t3 21-31 ready since 11\n"
		  "-2 ready 31\n");
	assert_int_equal(t.spawned, 2);
	assert_int_equal(t.alive, 0);

	/* by hint: the smallest that is not less, whatever the order */
	t = story("10 0 spawn task 5\n"
		  "11 1 spawn task 7\n"
		  "12 0 spawn task 9\n"
		  "20 2 poll task 6\n"
		  "21 2 ready task 6\n"
		  "22 2 poll task 5\n"
		  "23 2 ready task 5\n"
		  "finish 50\n",
		  "+1 task 6 spawned 11\n"
		  "scheduled 1 11-20\n"
		  "worker t2 20-\n"
		  "poll 1 t2 20-21 ready since 11\n"
		  "-1 ready 21\n"
		  "+2 task 5 spawned 10\n"
		  "scheduled 2 10-22\n"
		  "poll 2 t2 22-23 ready since 10\n"
		  "-2 ready 23\n"
		  "worker t2 -50\n"
		  "+3 task 0 spawned 12\n"
		  "scheduled 3 12-50\n"
		  "-3 alive scheduled\n");
	assert_int_equal(t.alive, 1);

	/* without: in order */
	t = story("10 0 spawn task 0\n"
		  "11 0 spawn task 0\n"
		  "20 1 poll task 12\n",
		  "+1 task 12 spawned 10\n"
		  "scheduled 1 10-20\n"
		  "worker t1 20-\n");
	assert_int_equal(t.alive, 2);

	/* made on a thread that has gone on since, first run elsewhere */
	story("10 0 spawn addr 0\n"
	      "11 0 park\n"
	      "20 1 poll addr 8\n",
	      "+1 addr 8 spawned 10\n"
	      "scheduled 1 10-20\n"
	      "worker t1 20-\n");
}

/* Tasks with ids far below the kind's first hint. */
ROW(29)
{
	struct timeline_totals t = story("10 0 spawn task 1000\n"
					 "20 1 poll task 5\n"
					 "30 1 pending task 5\n"
					 "40 1 poll task 1000\n",
					 "+1 task 5 seen 20\n"
					 "worker t1 20-\n"
					 "poll 1 t1 20-30 pending\n"
					 "+2 task 1000 spawned 10\n"
					 "scheduled 2 10-40\n");
	assert_int_equal(t.unspawned, 1);
	assert_int_equal(t.spawned, 1);
}

/* Thread begin in the middle, thread end. */
ROW(34)
{
	struct timeline_totals t = story("10 0 thread-begin\n"
					 "20 0 poll task 1\n"
					 "30 0 thread-begin\n"
					 "40 1 poll worker 2\n"
					 "50 1 poll task 3\n"
					 "60 1 thread-end\n"
					 "70 2 poll worker 4\n"
					 "80 2 park\n"
					 "90 2 thread-end\n"
					 "95 3 poll task 5\n"
					 "100 3 process-end\n",
					 "+1 task 1 seen 20\n"
					 "worker t0 20-\n"
					 "poll 1 t0 20-20 unknown end unseen\n"
					 "+2 worker 2 seen 40\n"
					 "worker t1 40-\n"
					 "+3 task 3 seen 50\n"
					 "poll 3 t1 50-50 unknown end unseen\n"
					 "worker t1 -60\n"
					 "+4 worker 4 seen 70\n"
					 "worker t2 70-\n"
					 "worker t2 -90\n"
					 "park t2 1 80-90\n"
					 "+5 task 5 seen 95\n"
					 "worker t3 95-\n"
					 "poll 5 t3 95-100 unknown\n"
					 "worker t3 -100\n");
	assert_int_equal(t.n_inconsistent, 2);
}

/* The trace ends. */
ROW(35)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 1 poll task 2\n"
					 "30 1 pending task 2\n"
					 "40 1 park\n"
					 "50 2 wake task 3\n"
					 "60 2 spawn task 4\n"
					 "finish 100",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "+2 task 2 seen 20\n"
					 "worker t1 20-\n"
					 "poll 2 t1 20-30 pending\n"
					 "+3 task 3 seen 50\n"
					 "w1 3 t2 50 scheduled\n"
					 "poll 1 t0 10-100 unknown\n"
					 "worker t0 -100\n"
					 "park t1 1 40-100\n"
					 "worker t1 -100\n"
					 "+4 task 0 spawned 60\n"
					 "-1 alive polling\n"
					 "waiting 2 30-100\n"
					 "-2 alive waiting\n"
					 "scheduled 3 50-100\n"
					 "-3 alive scheduled\n"
					 "scheduled 4 60-100\n"
					 "-4 alive scheduled\n");
	assert_int_equal(t.alive, 4);
	assert_int_equal(t.n_inconsistent, 0);
}

/* Unknown event types, outcomes, wakes; impossible thread or kind numbers; more than 256 nested
 * polls. */
ROW(36)
{
	struct stage *s = stage_new();
	struct trace_event odd[] = {
		{.time = 1, .type = 99},
		{.time = 2, .type = TE_WAKE, .kind = TRACE_KIND_NONE, .task = 1},
		{.time = 3, .type = TE_PARK, .thread = UINT32_MAX},
		{.time = 4, .type = TE_POLL_BEGIN, .task = 1},
		{.time = 5, .type = TE_POLL_END, .task = 1, .arg = 77},
		{.time = 6, .type = TE_WAKE, .task = 1, .arg = 77},
		/* a kind that no record named */
		{.time = 7, .type = TE_WAKE, .task = 1, .kind = 500, .arg = TW_RUNNING},
	};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		assert_int_equal(timeline_feed(s->tl, &odd[i], NULL), 0);
	expect_log(s, "+1 task 1 seen 4\nworker t0 4-\npoll 1 t0 4-5 unknown\nw1 1 t0 6 unknown\n"
		      "unknown 1 5-6\n+2 ? 1 seen 7\nw2 2 t0 7 running\n");
	for (unsigned i = 0; i < 257; i++) {
		struct trace_event ev = {.time = 10, .type = TE_POLL_BEGIN, .task = 1000 + i};
		assert_int_equal(timeline_feed(s->tl, &ev, NULL), 0);
	}
	struct timeline_totals t = stage_end(s);
	assert_int_equal(t.n_inconsistent, 4);
}

/* Block_on events of a kind that is no root's. */
ROW(37)
{
	struct timeline_totals t = story("30 0 enter task\n"
					 "40 0 root-wake task 1\n",
					 "");
	assert_int_equal(t.n_inconsistent, 2);
}

/* ---- failures ---- */

static int refuse(void *ctx, struct tl_task *task)
{
	return *(int *)ctx;
}

/* An await point belongs to the poll that ended there and to the wait after it, in whatever queue;
 * not to what came before, nor to a state that isn't known. */
/* A poll ends pending at a known await point. */
ROW(39)
{
	story("10 0 spawn task 7\n"
	      "20 1 poll task 7\n"
	      "30 1 pending task 7 3\n"
	      "50 2 wake task 7\n"
	      "60 1 poll task 7\n"
	      "65 1 wake-running task 7\n"
	      "70 1 pending task 7 4\n"
	      "75 1 poll task 7\n"
	      "80 1 pending task 7\n"
	      "85 2 wake task 7\n"
	      "90 1 poll task 7\n"
	      "95 1 pending task 7 5\n"
	      "96 2 lost 1\n"
	      "97 1 wake task 7\n"
	      "98 1 poll task 7\n"
	      "99 1 ready task 7 6\n"
	      "finish 100",
	      "+1 task 7 spawned 10\n"
	      "scheduled 1 10-20\n"
	      "worker t1 20-\n"
	      "poll 1 t1 20-30 pending since 10 at 3\n"
	      "w1 1 t2 50 scheduled\n"
	      "waiting 1 30-50 at 3\n"
	      "scheduled 1 50-60 at 3\n"
	      "w2 1 t1 65 running by 1\n"
	      "poll 1 t1 60-70 pending since 50 w1 at 4 woken\n"
	      "scheduled 1 70-75 at 4\n"
	      "poll 1 t1 75-80 pending since 70 w2\n"
	      "w3 1 t2 85 scheduled\n"
	      "waiting 1 80-85\n"
	      "scheduled 1 85-90\n"
	      "poll 1 t1 90-95 pending since 85 w3 at 5\n"
	      "loss t2 85-96 1\n"
	      "w4 1 t1 97 scheduled\n"
	      "unknown 1 95-97\n"
	      "scheduled 1 97-98\n"
	      "poll 1 t1 98-99 ready since 97 w4\n"
	      "-1 ready 99\n"
	      "worker t1 -100\n");
}

/* A spawn with its task's name. */
ROW(40)
{
	struct timeline_totals t = story("10 0 spawn-named task 7\n"
					 "12 0 schedule task 7\n"
					 "20 1 poll task 7\n"
					 "22 1 spawn-of other 8 7\n"
					 "23 1 spawn-of other 9 0\n"
					 "24 1 spawn-named other 10\n"
					 "30 1 pending task 7\n"
					 "31 1 spawn-named task 7\n" /* late: ids are used once */
					 "40 1 spawn-named addr 5\n"
					 "50 1 spawn-named addr 5\n"
					 "finish 100",
					 "+1 task 7 spawned 10\n"
					 "w1 1 t0 12 scheduled queue\n"
					 "scheduled 1 10-20\n"
					 "worker t1 20-\n"
					 "+2 other 8 spawned 22 by 1\n"
					 "+3 other 9 spawned 23\n"
					 "+4 other 10 spawned 24 by 1\n"
					 "poll 1 t1 20-30 pending since 10 w1\n"
					 "+5 addr 5 spawned 40\n"
					 "scheduled 5 40-50\n"
					 "-5 unknown 50\n"
					 "+6 addr 5 spawned 50\n"
					 "worker t1 -100\n"
					 "waiting 1 30-100\n"
					 "-1 alive waiting\n"
					 "scheduled 2 22-100\n"
					 "-2 alive scheduled\n"
					 "scheduled 3 23-100\n"
					 "-3 alive scheduled\n"
					 "scheduled 4 24-100\n"
					 "-4 alive scheduled\n"
					 "scheduled 6 50-100\n"
					 "-6 alive scheduled\n");
	assert_int_equal(t.spawned, 6);
	assert_int_equal(t.n_inconsistent, 2);
}

/* Polls and wakes of a root kind (probes record them). */
ROW(41)
{
	struct timeline_totals t = story("10 0 spawn-named main 3\n"
					 "20 0 poll main 3\n"
					 "25 0 spawn-named task 4\n"
					 "30 0 pending main 3\n"
					 "40 1 wake-unknown main 3\n"
					 "50 0 poll main 3\n"
					 "60 0 ready main 3\n"
					 "65 1 wake-unknown main 3\n"
					 "finish 70",
					 "+1 main 3 spawned 10\n"
					 "scheduled 1 10-20\n"
					 "+2 task 4 spawned 25 by 1\n"
					 "poll 1 t0 20-30 pending since 10\n"
					 "w1 1 t1 40 unknown\n"
					 "waiting 1 30-40\n"
					 "scheduled 1 40-50\n"
					 "poll 1 t0 50-60 ready since 40 w1\n"
					 "-1 ready 60\n"
					 "stray main t1 65\n"
					 "scheduled 2 25-70\n"
					 "-2 alive scheduled\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* A schedule, then the wake that caused it, by the same thread; or the wake, then the schedule. */
ROW(42)
{
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "20 0 pending task 1\n"
					 "30 2 schedule task 1\n" /* and the waker that did it */
					 "31 2 wake task 1\n"
					 "40 0 poll task 1\n"
					 "50 0 pending task 1\n"
					 "60 2 wake-unknown task 1\n" /* the other way round */
					 "61 2 schedule task 1\n"
					 "70 0 poll task 1\n"
					 "80 0 ready task 1\n"
					 "finish 90",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-20 pending\n"
					 "w1 1 t2 30 scheduled queue\n"
					 "waiting 1 20-30\n"
					 "w2 1 t2 31 scheduled\n"
					 "scheduled 1 30-40\n"
					 "poll 1 t0 40-50 pending since 30 w2\n"
					 "w3 1 t2 60 unknown\n"
					 "waiting 1 50-60\n"
					 "w4 1 t2 61 noop queue\n"
					 "scheduled 1 60-70\n"
					 "poll 1 t0 70-80 ready since 60 w3\n"
					 "-1 ready 80\n"
					 "worker t0 -90\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.n_wakes, 2);
	assert_int_equal(t.n_schedules, 2);
}

/* A cancel with another outcome. */
ROW(43)
{
	struct timeline_totals t = story("10 0 spawn-named task 1\n"
					 "20 0 done task 1\n"
					 "30 0 poll task 2\n"
					 "35 0 done task 2\n"
					 "40 0 pending task 2\n"
					 "finish 50",
					 "+1 task 1 spawned 10\n"
					 "scheduled 1 10-20\n"
					 "-1 ready 20\n"
					 "+2 task 2 seen 30\n"
					 "worker t0 30-\n"
					 "poll 2 t0 30-40 pending\n"
					 "-2 ready 40\n"
					 "worker t0 -50\n");
	assert_int_equal(t.completed, 2);
	assert_int_equal(t.n_inconsistent, 0);
}

/* A wake outside of polls, by the thread of the task's last poll, which since then has not
 * parked, or has looked for events once and found none. */
ROW(59)
{
	/* yield_now(): the worker fires the waker after the poll, before or after it has looked for
	 * events. What it waited for, and what other threads wake, is no yield; nor is what it
	 * wakes where no such call is recorded. */
	struct timeline_totals t = story("5 0 wake task 1\n"
					 "10 0 poll task 1\n"
					 "11 0 pending task 1\n"
					 "12 0 wake task 1\n"
					 "20 1 epoll\n"
					 "30 0 poll task 1\n"
					 "31 0 pending task 1\n"
					 "32 0 wake task 1\n"
					 "33 0 poll task 1\n"
					 "34 0 wake-running task 1\n"
					 "35 0 wake-running task 1\n"
					 "36 0 pending task 1\n"
					 "40 0 poll task 1\n"
					 "41 0 pending task 1\n"
					 "42 0 epoll\n"
					 "43 0 nothing\n"
					 "44 0 wake task 1\n"
					 "50 0 poll task 1\n"
					 "51 0 pending task 1\n"
					 "52 0 epoll\n"
					 "53 0 unpark\n"
					 "54 0 wake task 1\n"
					 "60 0 poll task 1\n"
					 "61 0 pending task 1\n"
					 "62 1 wake task 1\n"
					 "70 0 poll task 1\n"
					 "71 0 pending task 1\n"
					 "72 0 epoll\n"
					 "600072 0 nothing\n"
					 "600074 0 wake task 1\n"
					 "600080 0 poll task 1\n"
					 "600081 0 pending task 1\n"
					 "2600082 0 epoll\n"
					 "2600083 0 nothing\n"
					 "2600084 0 wake task 1\n",
					 "+1 task 1 seen 5\n"
					 "w1 1 t0 5 scheduled\n"
					 "scheduled 1 5-10\n"
					 "worker t0 10-\n"
					 "poll 1 t0 10-11 pending since 5 w1\n"
					 "w2 1 t0 12 scheduled\n"
					 "waiting 1 11-12\n"
					 "scheduled 1 12-30\n"
					 "poll 1 t0 30-31 pending since 12 w2\n"
					 "w3 1 t0 32 scheduled deferred\n"
					 "waiting 1 31-32\n"
					 "scheduled 1 32-33\n"
					 "w4 1 t0 34 running by 1\n"
					 "w5 1 t0 35 running by 1\n"
					 "poll 1 t0 33-36 pending since 32 w3 woken\n"
					 "scheduled 1 36-40\n"
					 "poll 1 t0 40-41 pending since 36 w4\n"
					 "park t0 2 42-43\n"
					 "w6 1 t0 44 scheduled deferred\n"
					 "waiting 1 41-44\n"
					 "scheduled 1 44-50\n"
					 "poll 1 t0 50-51 pending since 44 w6\n"
					 "park t0 2 52-53\n"
					 "w7 1 t0 54 scheduled\n"
					 "waiting 1 51-54\n"
					 "scheduled 1 54-60\n"
					 "poll 1 t0 60-61 pending since 54 w7\n"
					 "w8 1 t1 62 scheduled\n"
					 "waiting 1 61-62\n"
					 "scheduled 1 62-70\n"
					 "poll 1 t0 70-71 pending since 62 w8\n"
					 "park t0 2 72-600072\n"
					 "w9 1 t0 600074 scheduled\n"
					 "waiting 1 71-600074\n"
					 "scheduled 1 600074-600080\n"
					 "poll 1 t0 600080-600081 pending since 600074 w9\n"
					 "park t0 2 2600082-2600083\n"
					 "w10 1 t0 2600084 scheduled\n"
					 "waiting 1 600081-2600084\n");
	assert_int_equal(t.n_self_wakes, 4);
	assert_int_equal(t.n_inconsistent, 0);
}

/* A blocking call through a non-blocking descriptor; sched_yield; any call inside block_in_place. */
ROW(60)
{
	/* a call that can't wait, one that only offers the CPU, and one in block_in_place, keep no worker;
	 * outside of polls the former two are no park */
	story("10 0 poll task 1\n"
	      "14 0 send 3\n"
	      "18 0 block 3\n"
	      "19 0 yield 1\n"
	      "20 0 spawn inplace 2\n"
	      "30 0 block 9\n"
	      "40 0 pending task 1\n"
	      "50 0 send 5\n"
	      "54 0 yield 2\n"
	      "60 0 block 5\n",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "block 1 t0 21 11-14 aside\n"
	      "block 1 t0 7 15-18\n"
	      "block 1 t0 37 18-19 aside\n"
	      "block 1 t0 7 21-30 aside\n"
	      "section 1 t0 20-40\n"
	      "poll 1 t0 10-40 pending blocked 1*3\n"
	      "park t0 7 55-60\n");
}

/* Auxiliary events: system calls, off-CPU times, samples, losses of a thread's other sources. */
ROW(49)
{
	/* what other sources record belongs to the poll that is open at its end */
	struct timeline_totals t = story("5 0 sample 3 100\n"
					 "6 0 syscall 90 0\n" /* from before the trace: cut */
					 "10 0 poll task 1\n"
					 "12 0 sample 3 100\n"
					 "13 0 future outer 64\n"
					 "20 0 slept 4 203\n"
					 "21 0 syscall 6 0\n"
					 "22 0 preempted 99 0\n" /* from before the poll: cut */
					 "25 0 block 12\n"	 /* not cut by what came between */
					 "26 0 f-pending outer 64\n"
					 "9 0 sample 2 50\n" /* late: of a time before the poll */
					 "30 0 pending task 1\n"
					 "35 0 sample 0 7\n"
					 "40 0 lost-beside 2\n"
					 "50 0 poll task 1\n"
					 "60 0 ready task 1\n"
					 "80 4 sample 1 9\n" /* a thread without tasks */
					 "finish 90",
					 "sample 0 t0 5 100 stack 3\n"
					 "syscall 202=0 t0 5-6\n"
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "sample 0 t0 12 100 stack 3 of 1\n"
					 "off 1 in 203 t0 16-20 of 1 depth 1\n"
					 "syscall 202=0 t0 15-21 of 1 depth 1\n"
					 "off 0 in 0 t0 10-22 of 1 depth 1\n"
					 "block 1 t0 7 13-25\n"
					 "future 1 outer t0 13-26 pending self 13 of 1\n"
					 "sample 0 t0 9 50 stack 2\n"
					 "poll 1 t0 10-30 pending blocked 1*12\n"
					 "sample 0 t0 35 7 stack 0\n"
					 "loss t0 35-40 2 beside\n"
					 "waiting 1 30-50\n"
					 "poll 1 t0 50-60 ready\n"
					 "future 1 cancelled 60: 1 polls 13 self 13 waited 0\n"
					 "-1 ready 60\n"
					 "sample 0 t4 80 9 stack 1\n"
					 "worker t0 -90\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.n_lost, 0);
	assert_int_equal(t.n_lost_aux, 2);
	assert_int_equal(t.n_events, 17);

	/* how a thread left its CPU and got one again belongs to the next time off the CPU only */
	story("10 0 poll task 1\n"
	      "30 0 left-cpu 1 7\n"
	      "30 0 got-cpu 3 8\n"
	      "30 0 woken 15 9\n"
	      "30 0 ran 5 7\n"
	      "30 0 ran 4 0\n"
	      "30 0 ran 3 8\n"
	      "30 0 slept 19 0\n"
	      "35 0 slept 2 0\n"
	      "40 0 left-cpu 2 5\n"
	      "40 0 woken 20 1\n" /* before it left: as it left */
	      "40 0 ran 9 5\n"	  /* longer than all of it */
	      "40 0 slept 4 0\n"
	      "50 0 pending task 1\n"
	      "finish 60",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "off 1 in 0 t0 11-30 cpu 1>3 to 7 after 8 woken 15 by 9 7:18-23 0:23-27 8:27-30 of "
	      "1\n"
	      "off 1 in 0 t0 33-35 of 1\n"
	      "off 1 in 0 t0 36-40 cpu 2>0 to 5 after 0 woken 36 by 1 5:36-40 of 1\n"
	      "poll 1 t0 10-50 pending\n"
	      "worker t0 -60\n"
	      "waiting 1 50-60\n"
	      "-1 alive waiting\n");
}

/* Events of a machine (async-std). */
ROW(50)
{
	struct timeline_totals t = story("10 0 m-starting - 0 4096\n"
					 "20 0 spawn-named task 7\n"
					 "30 0 m-task task 7 4096\n"
					 "40 1 m-blocked - 0 4096\n"
					 "50 0 done task 7\n"
					 "60 0 m-task task 8 4096\n" /* from before */
					 "70 1 m-blocked - 0 8192\n" /* never seen with a task */
					 "finish 80",
					 "machine 4096 0 10\n"
					 "+1 task 7 spawned 20\n"
					 "machine 4096 1 30 of 1\n"
					 "machine 4096 3 40 of 1\n"
					 "scheduled 1 20-50\n"
					 "-1 ready 50\n"
					 "+2 task 8 seen 60\n"
					 "machine 4096 1 60 of 2\n"
					 "machine 8192 3 70\n"
					 "unknown 2 60-80\n"
					 "-2 alive unknown\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* Poll end "unpolled". */
ROW(52)
{
	struct timeline_totals t = story("10 0 spawn task 1\n"
					 "20 0 poll task 1\n"
					 "21 0 unpolled task 1\n"
					 "30 0 unpolled task 2\n"
					 "finish 40",
					 "+1 task 1 spawned 10\n"
					 "scheduled 1 10-20\n"
					 "worker t0 20-\n"
					 "-1 cancelled 20\n"
					 "+2 task 2 seen 30\n"
					 "-2 cancelled 30\n"
					 "worker t0 -40\n");
	assert_int_equal(t.n_polls, 0);
	assert_int_equal(t.cancelled, 2);
}

/* Poll end "unseen". */
ROW(55)
{
	/* Ends that are not seen: of the first nothing more is known; the second is woken; the
	 * address of the third is that of a new task's. What the thread does may be after them. */
	struct timeline_totals t = story("10 0 spawn addr 1\n"
					 "11 0 schedule addr 64\n"
					 "20 0 poll addr 64\n"
					 "20 0 unseen addr 64\n"
					 "30 0 block 5\n"
					 "40 0 poll addr 96\n"
					 "40 0 unseen addr 96\n"
					 "50 1 wake addr 96\n"
					 "55 0 spawn addr 1\n"
					 "60 0 poll addr 128\n"
					 "60 0 unseen addr 128\n"
					 "70 0 spawn addr 1\n"
					 "80 0 poll addr 128\n"
					 "80 0 unseen addr 128\n"
					 "finish 100",
					 "+1 addr 64 spawned 10\n"
					 "w1 1 t0 11 scheduled queue\n"
					 "scheduled 1 10-20\n"
					 "worker t0 20-\n"
					 "poll 1 t0 20-20 unknown since 10 w1 end unseen\n"
					 "park t0 7 25-30\n"
					 "+2 addr 96 seen 40\n"
					 "poll 2 t0 40-40 unknown end unseen\n"
					 "w2 2 t1 50 scheduled\n"
					 "unknown 2 40-50\n"
					 "+3 addr 128 spawned 55\n"
					 "scheduled 3 55-60\n"
					 "poll 3 t0 60-60 unknown since 55 end unseen\n"
					 "-3 unknown 60\n"
					 "+4 addr 128 spawned 70\n"
					 "scheduled 4 70-80\n"
					 "poll 4 t0 80-80 unknown since 70 end unseen\n"
					 "worker t0 -100\n"
					 "-1 unknown 20\n"
					 "scheduled 2 50-100\n"
					 "-2 alive scheduled\n"
					 "-4 unknown 80\n");
	assert_int_equal(t.alive, 1);
	assert_int_equal(t.ended_unknown, 3);
	assert_int_equal(t.spawned, 3);
	assert_int_equal(t.n_inconsistent, 0);

	/* It wakes itself in such a poll, and is queued at its end. The same wake by another thread
	 * is none of its own; nor is it after the thread polled something else, or in a loss. */
	t = story("10 0 poll addr 64\n"
		  "10 0 unseen addr 64\n"
		  "12 0 block 1\n"
		  "13 0 wake-running addr 64\n"
		  "14 0 wake-noop addr 64\n"
		  "15 0 schedule addr 64\n"
		  "20 1 poll addr 64\n"
		  "20 1 unseen addr 64\n"
		  "21 0 wake-running addr 64\n"
		  "22 1 schedule addr 64\n"
		  "30 0 poll addr 64\n"
		  "30 0 unseen addr 64\n"
		  "31 0 poll addr 96\n"
		  "32 0 wake-running addr 64\n"
		  "33 0 pending addr 96\n"
		  "34 0 wake-running addr 64\n"
		  "35 0 schedule addr 64\n"
		  "40 0 poll addr 64\n"
		  "40 0 unseen addr 64\n"
		  "41 1 lost 5\n"
		  "42 0 wake-running addr 64\n"
		  "finish 50",
		  "+1 addr 64 seen 10\n"
		  "worker t0 10-\n"
		  "poll 1 t0 10-10 unknown end unseen\n"
		  "park t0 7 11-12\n"
		  "w1 1 t0 13 running by 1\n"
		  "w2 1 t0 14 noop by 1\n"
		  "w3 1 t0 15 scheduled queue\n"
		  "unknown 1 10-15\n"
		  "scheduled 1 15-20\n"
		  "worker t1 20-\n"
		  "poll 1 t1 20-20 unknown since 15 w1 end unseen\n"
		  "w4 1 t0 21 running\n"
		  "w5 1 t1 22 scheduled queue\n"
		  "unknown 1 20-22\n"
		  "scheduled 1 22-30\n"
		  "poll 1 t0 30-30 unknown since 22 w4 end unseen\n"
		  "+2 addr 96 seen 31\n"
		  "w6 1 t0 32 running by 2\n"
		  "poll 2 t0 31-33 pending\n"
		  "w7 1 t0 34 running\n"
		  "w8 1 t0 35 scheduled queue\n"
		  "unknown 1 30-35\n"
		  "scheduled 1 35-40\n"
		  "poll 1 t0 40-40 unknown since 35 w6 end unseen\n"
		  "loss t1 22-41 5\n"
		  "w9 1 t0 42 running\n"
		  "worker t0 -50\n"
		  "worker t1 -50\n"
		  "-1 unknown 40\n"
		  "unknown 2 33-50\n"
		  "-2 alive unknown\n");
	assert_int_equal(t.n_inconsistent, 0);
}

static void test_sink_stops(void **state)
{
	int code = -32;
	const struct timeline_sink stops = {.task_begin = refuse};
	struct timeline *tl = timeline_new(&stops, &code, stage_kind, NULL);
	struct trace_event ev = {.time = 1, .type = TE_POLL_BEGIN, .task = 1};
	struct error err = {0};
	assert_int_equal(timeline_feed(tl, &ev, &err), -32);
	assert_int_equal(err.code, -32);
	ev.task = 2;
	assert_int_equal(timeline_feed(tl, &ev, NULL), -32);
	assert_int_equal(timeline_finish(tl, 5, NULL), -32);
	timeline_free(tl);
	timeline_free(NULL);
}

static int on_thread_end(void *ctx, const struct tl_thread *t)
{
	struct stage *s = ctx;
	buf_printf(&s->log, "thread t%u %lu-%lu\n", t->thread, t->begin_ns, t->end_ns);
	return 0;
}

/* A thread lasts as long as the park or poll that it is in: its parks and polls are no longer than
 * its life. Of one that is in neither nothing is known after its last event. */
static void test_life_of_thread(void **state)
{
	const struct timeline_sink lives = {.thread_end = on_thread_end};
	struct stage *s = calloc(1, sizeof(*s));
	assert_non_null(s);
	s->tl = timeline_new(&lives, s, stage_kind, NULL);
	assert_non_null(s->tl);
	play(s, "10 0 poll task 1\n"
		"20 0 pending task 1\n"
		"30 0 park\n"
		"10 1 poll task 2\n"
		"10 2 poll task 3\n"
		"40 2 pending task 3\n"
		"finish 100");
	expect_log(s, "thread t0 10-100\n"
		      "thread t1 10-100\n"
		      "thread t2 10-40\n");
	stage_end(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(1),
		TEST(2),
		TEST(3),
		TEST(4),
		TEST(5),
		TEST(6),
		TEST(7),
		TEST(8),
		TEST(9),
		TEST(10),
		TEST(11),
		TEST(12),
		TEST(13),
		TEST(14),
		TEST(15),
		TEST(16),
		TEST(17),
		TEST(18),
		TEST(19),
		TEST(20),
		TEST(21),
		TEST(22),
		TEST(23),
		TEST(24),
		TEST(25),
		TEST(26),
		TEST(27),
		TEST(28),
		TEST(29),
		TEST(34),
		TEST(35),
		TEST(36),
		TEST(37),
		TEST(39),
		TEST(40),
		TEST(41),
		TEST(42),
		TEST(43),
		TEST(49),
		TEST(50),
		TEST(52),
		TEST(55),
		TEST(59),
		TEST(60),
		TEST(67),
		cmocka_unit_test(test_block_and_its_call),
		cmocka_unit_test(test_sink_stops),
		cmocka_unit_test(test_life_of_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
