/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Polls of futures inside a task's poll: rows of docs/timeline.md, as timeline_script.h plays them. */
#include "timeline_script.h"

/* Polls of futures inside a task's poll. */
ROW(44)
{
	/* outer, and inner at the same address, polled twice; leaf is ready at once */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 future outer 64\n"
		      "12 0 future inner 64\n"
		      "13 0 future leaf 96\n"
		      "15 0 f-ready leaf 96\n"
		      "16 0 f-pending inner 64 5\n"
		      "18 0 f-pending outer 64\n"
		      "20 0 pending task 1\n"
		      "50 0 poll task 1\n"
		      "51 0 future outer 64\n"
		      "52 0 future inner 64\n"
		      "54 0 f-ready inner 64\n"
		      "57 0 f-ready outer 64\n"
		      "60 0 ready task 1\n"
		      "finish 70",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "future 3 leaf t0 13-15 ready self 2 in 2 of 1 depth 2\n"
		      "future 3 ready 15: 1 polls 2 self 2 waited 0\n"
		      "future 2 inner t0 12-16 pending self 2 in 1 at 5 of 1 depth 1\n"
		      "future 1 outer t0 11-18 pending self 3 of 1\n"
		      "poll 1 t0 10-20 pending\n"
		      "waiting 1 20-50\n"
		      "future 2 inner t0 52-54 ready self 2 waited 36 in 1 of 1 depth 1\n"
		      "future 2 ready 54: 2 polls 6 self 4 waited 36\n"
		      "future 1 outer t0 51-57 ready self 4 waited 33 of 1\n"
		      "future 1 ready 57: 2 polls 13 self 7 waited 33\n"
		      "poll 1 t0 50-60 ready\n"
		      "-1 ready 60\n"
		      "worker t0 -70\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.n_futures, 3);
	assert_int_equal(t.unspawned, 1);
}

/* Another kind is polled first at a future's address; a future's task ends. */
ROW(45)
{
	/* select!: leaf was dropped, inner is polled in its memory; outer goes with its task */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 future outer 64\n"
		      "12 0 future leaf 96\n"
		      "13 0 f-pending leaf 96\n"
		      "14 0 future inner 96\n"
		      "15 0 f-pending inner 96\n"
		      "16 0 f-pending outer 64\n"
		      "20 0 pending task 1\n"
		      "30 0 cancel task 1\n"
		      "40 1 poll task 2\n"
		      "41 1 future inner 96\n"
		      "42 1 f-pending inner 96\n"
		      "43 1 pending task 2\n"
		      "finish 70",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "future 2 leaf t0 12-13 pending self 1 in 1 of 1 depth 1\n"
		      "future 2 cancelled 14: 1 polls 1 self 1 waited 0\n"
		      "future 3 inner t0 14-15 pending self 1 in 1 of 1 depth 1\n"
		      "future 1 outer t0 11-16 pending self 3 of 1\n"
		      "poll 1 t0 10-20 pending\n"
		      "waiting 1 20-30\n"
		      "future 1 cancelled 30: 1 polls 5 self 3 waited 14\n"
		      "future 3 cancelled 30: 1 polls 1 self 1 waited 15\n"
		      "-1 cancelled 30\n"
		      "+2 task 2 seen 40\n"
		      "worker t1 40-\n"
		      "future 4 inner t1 41-42 pending self 1 of 2\n"
		      "poll 2 t1 40-43 pending\n"
		      "worker t0 -70\n"
		      "worker t1 -70\n"
		      "waiting 2 43-70\n"
		      "future 4 alive: 1 polls 1 self 1 waited 28\n"
		      "-2 alive waiting\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* A future's poll without end, an end without begin. */
ROW(46)
{
	/* ends that are missing: of the inner one; of both at a poll's end, in a panic not odd */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 future outer 64\n"
		      "12 0 future inner 96\n"
		      "14 0 f-pending outer 64\n"
		      "15 0 future outer 64\n"
		      "16 0 future outer 64\n"
		      "20 0 pending task 1\n"
		      "30 0 f-ready inner 96\n" /* begin not seen */
		      "31 0 f-pending leaf 97\n"
		      "40 0 poll task 1\n"
		      "41 0 future outer 64\n"
		      "50 0 panicked task 1\n"
		      "finish 70",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "future 2 inner t0 12-12 unknown end unseen self 0 in 1 of 1 depth 1\n"
		      "future 1 outer t0 11-14 pending self 3 of 1\n"
		      "future 1 outer t0 15-15 unknown end unseen self 0 waited 1 of 1\n"
		      "future 1 outer t0 16-16 unknown end unseen self 0 of 1\n"
		      "poll 1 t0 10-20 pending\n"
		      "future 2 ready 30: 1 polls 0 self 0 waited 0\n"
		      "waiting 1 20-40\n"
		      "future 1 outer t0 41-50 panicked self 9 of 1\n"
		      "future 1 panicked 50: 4 polls 12 self 12 waited 1\n"
		      "poll 1 t0 40-50 panicked\n"
		      "-1 panicked 50\n"
		      "worker t0 -70\n");
	assert_int_equal(t.n_inconsistent, 5);
}

/* A future's end without begin, cancelled or unknown. */
ROW(53)
{
	/* dropped, which is no poll; one of which it is unknown whether it has ended; neither is
	 * inconsistent
	 */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 future outer 64\n"
		      "12 0 future inner 96\n"
		      "13 0 f-pending inner 96\n"
		      "14 0 future leaf 128\n"
		      "15 0 f-pending leaf 128\n"
		      "16 0 f-pending outer 64\n"
		      "20 0 pending task 1\n"
		      "30 0 poll task 1\n"
		      "31 0 future outer 64\n"
		      "32 0 f-dropped inner 96\n"
		      "33 0 f-ended leaf 128\n"
		      "34 0 f-ready outer 64\n"
		      "40 0 ready task 1\n"
		      "finish 70",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "future 2 inner t0 12-13 pending self 1 in 1 of 1 depth 1\n"
		      "future 3 leaf t0 14-15 pending self 1 in 1 of 1 depth 1\n"
		      "future 1 outer t0 11-16 pending self 3 of 1\n"
		      "poll 1 t0 10-20 pending\n"
		      "waiting 1 20-30\n"
		      "future 2 cancelled 32: 1 polls 1 self 1 waited 19\n"
		      "future 1 outer t0 31-34 ready self 3 waited 15 of 1\n"
		      "future 1 ready 34: 2 polls 8 self 6 waited 15\n"
		      "poll 1 t0 30-40 ready\n"
		      "future 3 unknown 40: 1 polls 1 self 1 waited 18\n"
		      "-1 ready 40\n"
		      "worker t0 -70\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* Events lost while futures are open. */
ROW(47)
{
	/* events lost in between: no waiting is known; dropped or ready, which is unknown */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 future outer 64\n"
		      "12 0 future inner 96\n"
		      "13 0 f-pending inner 96\n"
		      "16 0 lost 3\n"
		      "40 0 poll task 1\n"
		      "41 0 future outer 64\n"
		      "42 0 future leaf 96\n"
		      "43 0 f-pending leaf 96\n"
		      "44 0 f-pending outer 64\n"
		      "50 0 ready task 1\n"
		      "finish 70",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "future 2 inner t0 12-13 pending self 1 in 1 of 1 depth 1\n"
		      "future 1 outer t0 11-13 unknown self 1 of 1\n"
		      "poll 1 t0 10-13 unknown\n"
		      "loss t0 13-16 3\n"
		      "unknown 1 13-40\n"
		      "future 2 unknown 42: 1 polls 1 self 1 waited 0\n"
		      "future 3 leaf t0 42-43 pending self 1 in 1 of 1 depth 1\n"
		      "future 1 outer t0 41-44 pending self 2 of 1\n"
		      "poll 1 t0 40-50 ready\n"
		      "future 1 cancelled 50: 2 polls 5 self 3 waited 0\n"
		      "future 3 cancelled 50: 1 polls 1 self 1 waited 0\n"
		      "-1 ready 50\n"
		      "worker t0 -70\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* Futures outside of all tasks; on a block_on's thread; polled on two threads at once. */
ROW(48)
{
	/* outside of all tasks; in a block_on; polled on another thread before its end is
	 * recorded */
	struct timeline_totals t = story("10 0 future outer 64\n"
					 "11 0 f-pending outer 64\n"
					 "20 1 enter root\n"
					 "21 1 future inner 96\n"
					 "22 1 f-pending inner 96\n"
					 "23 1 park\n"
					 "30 2 poll task 1\n"
					 "31 2 future leaf 32\n"
					 "35 3 poll task 1\n"
					 "36 3 future leaf 32\n"
					 "37 2 f-pending leaf 32\n"
					 "38 2 pending task 1\n"
					 "39 3 f-ready leaf 32\n"
					 "40 3 ready task 1\n"
					 "50 1 thread-end\n"
					 "finish 70",
					 "future 1 outer t0 10-11 pending self 1\n"
					 "+1 root 1 spawned 20\n"
					 "future 2 inner t1 21-22 pending self 1 of 1\n"
					 "+2 task 1 seen 30\n"
					 "worker t2 30-\n"
					 "poll 2 t2 30-35 pending\n"
					 "worker t3 35-\n"
					 "future 3 leaf t3 36-39 ready self 3 of 2\n"
					 "future 3 ready 39: 2 polls 8 self 3 waited 0\n"
					 "poll 2 t3 35-40 ready\n"
					 "-2 ready 40\n"
					 "poll 1 t1 20-20 unknown end unseen inferred\n"
					 "park t1 1 23-50\n"
					 "unknown 1 20-50\n"
					 "future 2 unknown 50: 1 polls 1 self 1 waited 0\n"
					 "-1 unknown 50\n"
					 "worker t2 -70\n"
					 "worker t3 -70\n"
					 "future 1 alive: 1 polls 1 self 1 waited 0\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* A task's poll inside a future's poll that is outside of tasks (an executor's); such a future
 * open at its thread's end. */
ROW(54)
{
	/* an executor's future polls a task; the block_on returns unseen, and the thread ends */
	struct timeline_totals t =
		story("10 0 future outer 64\n"
		      "12 0 poll task 1\n"
		      "15 0 ready task 1\n"
		      "16 0 f-pending outer 64\n"
		      "20 0 future outer 64\n"
		      "24 0 future inner 96\n"
		      "25 0 f-pending inner 96\n"
		      "60 0 thread-end\n"
		      "finish 70",
		      "+1 task 1 seen 12\n"
		      "worker t0 12-\n"
		      "poll 1 t0 12-15 ready\n"
		      "-1 ready 15\n"
		      "future 1 outer t0 10-16 pending self 3\n"
		      "future 2 inner t0 24-25 pending self 1 in 1 depth 1\n"
		      "future 1 outer t0 20-25 unknown end unseen self 4 waited 4\n"
		      "worker t0 -60\n"
		      "future 1 unknown 70: 2 polls 11 self 7 waited 4\n"
		      "future 2 alive: 1 polls 1 self 1 waited 0\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* Task events of a future's kind, future events of another. */
ROW(51)
{
	struct timeline_totals t = story("10 0 spawn outer 1\n"
					 "11 0 poll inner 2\n"
					 "12 0 future task 3\n"
					 "13 0 f-ready root 4\n"
					 "finish 20",
					 "");
	assert_int_equal(t.n_inconsistent, 4);
}

/* Futures that wait when the trace ends, when they are dropped. */
ROW(57)
{
	/* What waits when the trace ends: the leaf, but the branch may have been dropped in the
	 * task's last poll; and a task that is ready. */
	story("10 0 poll task 1\n"
	      "11 0 future leaf 64\n"
	      "12 0 f-pending leaf 64\n"
	      "13 0 future inner 96\n"
	      "14 0 f-pending inner 96\n"
	      "15 0 pending task 1\n"
	      "20 1 wake task 1\n"
	      "30 0 poll task 1\n"
	      "31 0 future leaf 64\n"
	      "32 0 f-pending leaf 64\n"
	      "33 0 pending task 1\n"
	      "50 1 wake task 1\n"
	      "finish 100",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "future 1 leaf t0 11-12 pending self 1 of 1\n"
	      "future 2 inner t0 13-14 pending self 1 of 1\n"
	      "poll 1 t0 10-15 pending\n"
	      "w1 1 t1 20 scheduled\n"
	      "waiting 1 15-20\n"
	      "scheduled 1 20-30\n"
	      "future 1 leaf t0 31-32 pending self 1 waited 19 of 1\n"
	      "poll 1 t0 30-33 pending since 20 w1\n"
	      "w2 1 t1 50 scheduled\n"
	      "waiting 1 33-50\n"
	      "worker t0 -100\n"
	      "scheduled 1 50-100\n"
	      "future 2 alive: 1 polls 1 self 1 waited 0\n"
	      "future 1 alive: 2 polls 2 self 2 waited 87\n"
	      "-1 alive scheduled\n");
}

/* A future's poll marked by the source as its first. */
ROW(58)
{
	/* Two instances in one place: the former was dropped unfinished. */
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "11 0 future-first leaf 64\n"
					 "12 0 f-pending leaf 64\n"
					 "20 0 pending task 1\n"
					 "30 0 poll task 1\n"
					 "31 0 future leaf 64\n"
					 "32 0 f-pending leaf 64\n"
					 "33 0 future-first leaf 64\n"
					 "35 0 f-pending leaf 64\n"
					 "40 0 pending task 1\n"
					 "50 0 poll task 1\n"
					 "51 0 future leaf 64\n"
					 "52 0 f-ready leaf 64\n"
					 "60 0 ready task 1\n"
					 "finish 100",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "future 1 leaf t0 11-12 pending self 1 of 1\n"
					 "poll 1 t0 10-20 pending\n"
					 "waiting 1 20-30\n"
					 "future 1 leaf t0 31-32 pending self 1 waited 19 of 1\n"
					 "future 1 cancelled 33: 2 polls 2 self 2 waited 19\n"
					 "future 2 leaf t0 33-35 pending self 2 of 1\n"
					 "poll 1 t0 30-40 pending\n"
					 "waiting 1 40-50\n"
					 "future 2 leaf t0 51-52 ready self 1 waited 16 of 1\n"
					 "future 2 ready 52: 2 polls 3 self 3 waited 16\n"
					 "poll 1 t0 50-60 ready\n"
					 "-1 ready 60\n"
					 "worker t0 -100\n");
	assert_int_equal(t.n_inconsistent, 0);
	assert_int_equal(t.n_futures, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(44), TEST(45), TEST(46), TEST(47), TEST(48),
		TEST(51), TEST(53), TEST(54), TEST(57), TEST(58),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
