/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The requests that a connection's task serves: rows of docs/timeline.md, as timeline_script.h plays them. */
#include "timeline_script.h"

/* A round, from the first poll of its handler to the last: what belongs to it. */
ROW(63)
{
	/* the task waits for a request, which awaits once and blocks; then for another one */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 pending task 1\n"
		      "20 1 wake task 1\n"
		      "21 0 poll task 1\n"
		      "22 0 wake-running task 1\n"
		      "23 0 future order 64\n"
		      "24 0 sample 4 5\n"
		      "25 0 wake-running task 1\n"
		      "26 0 f-pending order 64 5\n"
		      "27 0 pending task 1 5\n"
		      "28 0 poll task 1\n"
		      "29 0 future order 64\n"
		      "30 0 f-pending order 64 5\n"
		      "31 0 pending task 1 5\n"
		      "35 1 wake task 1\n"
		      "40 0 poll task 1\n"
		      "41 0 future order 64\n"
		      "46 0 block 3\n"
		      "47 0 f-ready order 64\n"
		      "48 0 wake-running task 1\n"
		      "49 0 pending task 1 6\n"
		      "finish 70",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "poll 1 t0 10-11 pending\n"
		      "w1 1 t1 20 scheduled\n"
		      "waiting 1 11-20\n"
		      "scheduled 1 20-21\n"
		      "w2 1 t0 22 running by 1\n"
		      "sample 0 t0 24 5 stack 4 of 1 depth 1 of order 1\n"
		      "w3 1 t0 25 running by 1 of order 1\n"
		      "future 1 order t0 23-26 pending self 3 at 5 of 1 of order 1\n"
		      "poll 1 t0 21-27 pending since 20 w1 at 5 woken of order 1\n"
		      "scheduled 1 27-28 at 5 of order 1\n"
		      "future 1 order t0 29-30 pending self 1 waited 3 at 5 of 1 of order 1\n"
		      "poll 1 t0 28-31 pending since 27 w2 at 5 of order 1\n"
		      "w4 1 t1 35 scheduled of order 1\n"
		      "waiting 1 31-35 at 5 of order 1\n"
		      "scheduled 1 35-40 at 5 of order 1\n"
		      "block 1 t0 7 43-46 of order 1\n"
		      "future 1 order t0 41-47 ready self 6 waited 11 of 1 of order 1\n"
		      "future 1 ready 47: 3 polls 10 self 10 waited 14\n"
		      "w5 1 t0 48 running by 1\n"
		      "poll 1 t0 40-49 pending since 35 w4 at 6 blocked 1*3 woken of order 1\n"
		      "worker t0 -70\n"
		      "scheduled 1 49-70 at 6\n"
		      "-1 alive scheduled\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* Several rounds in one poll; a poll in which none is polled; one that is polled in another. */
ROW(64)
{
	/* hello is ready, order begins in the same poll and takes longer; then the task is polled without
	 * it, and with it again, and a future of that kind is polled in it */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 future hello 64\n"
		      "12 0 f-ready hello 64\n"
		      "13 0 future order 96\n"
		      "16 0 f-pending order 96\n"
		      "17 0 pending task 1\n"
		      "20 0 poll task 1\n"
		      "21 0 pending task 1\n"
		      "30 0 poll task 1\n"
		      "31 0 future order 96\n"
		      "32 0 future hello 128\n"
		      "33 0 f-ready hello 128\n"
		      "34 0 wake-running task 1\n"
		      "35 0 f-ready order 96\n"
		      "36 0 pending task 1\n"
		      "finish 50",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "future 1 hello t0 11-12 ready self 1 of 1 of hello 1\n"
		      "future 1 ready 12: 1 polls 1 self 1 waited 0\n"
		      "future 2 order t0 13-16 pending self 3 of 1 of order 2\n"
		      "poll 1 t0 10-17 pending of order 2\n"
		      "waiting 1 17-20 of order 2\n"
		      "poll 1 t0 20-21 pending\n"
		      "waiting 1 21-30\n"
		      "future 3 hello t0 32-33 ready self 1 in 2 of 1 depth 1 of order 2\n"
		      "future 3 ready 33: 1 polls 1 self 1 waited 0\n"
		      "w1 1 t0 34 running by 1 of order 2\n"
		      "future 2 order t0 31-35 ready self 3 waited 15 of 1 of order 2\n"
		      "future 2 ready 35: 2 polls 7 self 6 waited 15\n"
		      "poll 1 t0 30-36 pending woken of order 2\n"
		      "worker t0 -50\n"
		      "scheduled 1 36-50\n"
		      "-1 alive scheduled\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* A handler that is dropped while it waits, with its task, or as its poll's end is not seen. */
ROW(65)
{
	/* another request's handler takes its memory; a loss; the task is dropped */
	struct timeline_totals t =
		story("10 0 poll task 1\n"
		      "11 0 future order 64\n"
		      "12 0 f-pending order 64\n"
		      "13 0 pending task 1\n"
		      "20 0 poll task 1\n"
		      "21 0 future hello 64\n"
		      "22 0 f-pending hello 64\n"
		      "23 0 pending task 1\n"
		      "30 0 poll task 1\n"
		      "31 0 future hello 64\n"
		      "35 0 lost 3\n"
		      "40 0 poll task 1\n"
		      "41 0 future hello 64\n"
		      "42 0 f-pending hello 64\n"
		      "43 0 pending task 1\n"
		      "50 0 cancel task 1\n"
		      "finish 60",
		      "+1 task 1 seen 10\n"
		      "worker t0 10-\n"
		      "future 1 order t0 11-12 pending self 1 of 1 of order 1\n"
		      "poll 1 t0 10-13 pending of order 1\n"
		      "waiting 1 13-20 of order 1\n"
		      "future 1 cancelled 21: 1 polls 1 self 1 waited 9\n"
		      "future 2 hello t0 21-22 pending self 1 of 1 of hello 2\n"
		      "poll 1 t0 20-23 pending of hello 2\n"
		      "waiting 1 23-30 of hello 2\n"
		      "future 2 hello t0 31-31 unknown self 0 waited 9 of 1 of hello 2\n"
		      "poll 1 t0 30-31 unknown of hello 2\n"
		      "loss t0 31-35 3\n"
		      "unknown 1 31-40 of hello 2\n"
		      "future 2 hello t0 41-42 pending self 1 of 1 of hello 2\n"
		      "poll 1 t0 40-43 pending of hello 2\n"
		      "waiting 1 43-50 of hello 2\n"
		      "future 2 cancelled 50: 3 polls 2 self 2 waited 17\n"
		      "-1 cancelled 50\n"
		      "worker t0 -60\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* On another thread before the end of the poll is recorded; in a block_on; of no task. */
ROW(66)
{
	/* thread 1 polls on while thread 0's end is to come; the poll there belongs to the round */
	struct timeline_totals t = story("10 0 poll task 1\n"
					 "11 0 future order 64\n"
					 "20 1 wake task 1\n"
					 "21 1 poll task 1\n"
					 "22 1 future order 64\n"
					 "23 0 f-pending order 64\n"
					 "24 0 pending task 1\n"
					 "25 1 f-ready order 64\n"
					 "26 1 ready task 1\n"
					 "30 2 future hello 96\n"
					 "31 2 f-ready hello 96\n"
					 "finish 40",
					 "+1 task 1 seen 10\n"
					 "worker t0 10-\n"
					 "w1 1 t1 20 scheduled of order 1\n"
					 "poll 1 t0 10-20 pending woken of order 1\n"
					 "scheduled 1 20-21 of order 1\n"
					 "worker t1 21-\n"
					 "future 1 order t1 22-25 ready self 3 of 1 of order 1\n"
					 "future 1 ready 25: 2 polls 14 self 3 waited 0\n"
					 "poll 1 t1 21-26 ready since 20 w1 of order 1\n"
					 "-1 ready 26\n"
					 "future 2 hello t2 30-31 ready self 1\n"
					 "future 2 ready 31: 1 polls 1 self 1 waited 0\n"
					 "worker t0 -40\n"
					 "worker t1 -40\n");
	assert_int_equal(t.n_inconsistent, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(63),
		TEST(64),
		TEST(65),
		TEST(66),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
