/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* block_ons, whose root futures' polls are inferred: rows of docs/timeline.md, as timeline_script.h plays them. */
#include "timeline_script.h"

/* Block_on on a thread that polls no tasks. */
ROW(30)
{
	struct timeline_totals t =
		story("10 0 enter root\n"
		      "15 0 spawn task 1\n"
		      "16 1 poll task 1\n"
		      "20 0 park\n"
		      "30 1 root-wake root 4096\n"
		      "40 0 unpark\n"
		      "45 0 wake task 1\n"
		      "50 0 park\n"
		      "60 0 unpark\n"
		      "65 0 park\n"
		      "66 0 root-wake root 4096\n"
		      "67 0 unpark\n"
		      "70 0 thread-end\n",
		      "+1 root 0 spawned 10\n"
		      "+2 task 1 spawned 15 by 1\n"
		      "scheduled 2 15-16\n"
		      "worker t1 16-\n"
		      "poll 1 t0 10-20 pending inferred\n"
		      "w1 1 t1 30 scheduled by 2\n"
		      "waiting 1 20-30\n"
		      "park t0 1 20-40\n"
		      "scheduled 1 30-40\n"
		      "w2 2 t0 45 scheduled by 1\n"
		      /* not woken: in it, or after the block_on, it was in a lock */
		      "poll 1 t0 40-40 unknown since 30 w1 end unseen inferred\n"
		      "park t0 1 50-60\n"
		      "w3 1 t0 66 scheduled\n"
		      "unknown 1 40-66\n"
		      "park t0 1 65-67\n"
		      "scheduled 1 66-67\n"
		      /* not woken: whatever the thread does, it is not the root's poll */
		      "poll 1 t0 67-67 unknown since 66 w3 end unseen inferred\n"
		      "unknown 1 67-70\n"
		      "-1 unknown 70\n");
	assert_int_equal(t.spawned, 1);
	assert_int_equal(t.alive, 1);
	assert_int_equal(t.n_polls, 1);
	assert_int_equal(t.n_inconsistent, 0);

	/* Which of the two was woken is unknown: either may have been. */
	story("10 0 enter root\n"
	      "11 0 park\n"
	      "12 1 enter root\n"
	      "13 1 park\n"
	      "14 2 root-wake root 8\n"
	      "15 0 unpark\n"
	      "16 0 park\n"
	      "17 0 unpark\n",
	      "+1 root 0 spawned 10\n"
	      "+2 root 1 spawned 12\n"
	      "stray root t2 14\n"
	      "poll 1 t0 10-11 pending inferred\n"
	      "park t0 1 11-15\n"
	      "waiting 1 11-15\n"
	      "poll 1 t0 15-15 unknown end unseen inferred\n"
	      "park t0 1 16-17\n");
}

/* Block_on on a thread that polls tasks. */
ROW(31)
{
	/* with a driver */
	story("10 0 enter loop\n"
	      "20 0 poll task 1\n"
	      "25 0 root-wake loop 64\n"
	      "30 0 pending task 1\n"
	      "31 0 poll task 2\n"
	      "32 0 pending task 2\n"
	      "40 0 epoll\n"
	      "50 0 unpark\n"
	      "60 0 epoll\n"
	      "70 0 unpark\n"
	      "71 0 wake task 1\n"
	      "80 0 poll task 1\n"
	      "81 0 pending task 1\n"
	      "90 0 epoll\n"
	      "91 0 unpark\n"
	      "92 0 root-wake loop 64\n"
	      "99 0 epoll\n",
	      "+1 loop 0 spawned 10\n"
	      "worker t0 10-\n"
	      "poll 1 t0 10-20 pending inferred\n"
	      "+2 task 1 seen 20\n"
	      "w1 1 t0 25 scheduled by 2\n"
	      "waiting 1 20-25\n"
	      "poll 2 t0 20-30 pending\n"
	      /* no driver has been seen yet: the next gap */
	      "scheduled 1 25-30\n"
	      "poll 1 t0 30-31 pending since 25 w1 inferred\n"
	      "+3 task 2 seen 31\n"
	      "poll 3 t0 31-32 pending\n"
	      "park t0 2 40-50\n"
	      "park t0 2 60-70\n"
	      "w2 2 t0 71 scheduled\n"
	      "waiting 2 30-71\n"
	      "scheduled 2 71-80\n"
	      "poll 2 t0 80-81 pending since 71 w2\n"
	      "park t0 2 90-91\n"
	      "w3 1 t0 92 scheduled\n"
	      "waiting 1 31-92\n"
	      "poll 1 t0 92-99 pending since 92 w3 inferred\n");
	/* woken by its own task: polled after the next unpark, not in the next gap */
	story("10 0 enter loop\n"
	      "11 0 epoll\n"
	      "12 0 unpark\n"
	      "20 0 poll task 1\n"
	      "25 0 root-wake loop 64\n"
	      "30 0 pending task 1\n"
	      "31 0 poll task 2\n"
	      "32 0 pending task 2\n"
	      "40 0 epoll\n"
	      "41 0 unpark\n"
	      "50 0 poll task 2\n",
	      "+1 loop 0 spawned 10\n"
	      "worker t0 10-\n"
	      "poll 1 t0 10-11 pending inferred\n"
	      "park t0 2 11-12\n"
	      "+2 task 1 seen 20\n"
	      "w1 1 t0 25 scheduled by 2\n"
	      "waiting 1 11-25\n"
	      "poll 2 t0 20-30 pending\n"
	      "+3 task 2 seen 31\n"
	      "poll 3 t0 31-32 pending\n"
	      "park t0 2 40-41\n"
	      "scheduled 1 25-41\n"
	      "poll 1 t0 41-50 pending since 25 w1 inferred\n"
	      "waiting 3 32-50\n");
}

/* Block_on inside a task's poll. */
ROW(32)
{
	story("10 0 poll task 1\n"
	      "20 0 enter root\n"
	      "30 0 enter root\n"
	      "40 0 pending task 1\n",
	      "+1 task 1 seen 10\n"
	      "worker t0 10-\n"
	      "+2 root 0 spawned 20 by 1\n"
	      "unknown 2 20-30\n"
	      "-2 unknown 30\n"
	      "+3 root 0 spawned 30 by 1\n"
	      "unknown 3 30-40\n"
	      "-3 unknown 40\n"
	      "poll 1 t0 10-40 pending\n");
}

/* A block_on's wake. */
ROW(33)
{
	/* two of which one is known after the first wake; then a third makes the new address
	 * unclear */
	struct timeline_totals t = story("10 5 root-wake loop 7\n"
					 "11 0 enter root\n"
					 "12 0 park\n"
					 "13 5 root-wake root 100\n"
					 "14 1 enter root\n"
					 "15 1 park\n"
					 "16 2 enter root\n"
					 "17 2 park\n"
					 "18 5 root-wake root 200\n"
					 "19 2 thread-end\n"
					 "20 5 root-wake root 200\n"
					 "21 5 root-wake loop 7\n",
					 "+1 loop 7 seen 10\n"
					 "w1 1 t5 10 scheduled\n"
					 "+2 root 0 spawned 11\n"
					 "poll 2 t0 11-12 pending inferred\n"
					 "w2 2 t5 13 scheduled\n"
					 "waiting 2 12-13\n"
					 "+3 root 1 spawned 14\n"
					 "+4 root 2 spawned 16\n"
					 "stray root t5 18\n"
					 "poll 4 t2 16-17 pending inferred\n"
					 "park t2 1 17-19\n"
					 "waiting 4 17-19\n"
					 "-4 unknown 19\n"
					 "poll 3 t1 14-15 pending inferred\n"
					 "w3 3 t5 20 scheduled\n"
					 "waiting 3 15-20\n"
					 "w4 1 t5 21 scheduled\n");
	assert_int_equal(t.n_wakes, 0);
	assert_int_equal(t.alive, 0);
	/* one whose thread is not known is not polled as far as anyone sees: nor is it ready all the time */
	story("10 5 root-wake loop 7\n"
	      "20 5 root-wake loop 7\n"
	      "finish 30",
	      "+1 loop 7 seen 10\n"
	      "w1 1 t5 10 scheduled\n"
	      "w2 1 t5 20 scheduled\n"
	      "unknown 1 10-30\n"
	      "-1 alive unknown\n");
	/* a loop's own thread wakes it: its own, whatever other loops there are */
	story("10 0 enter loop\n"
	      "11 0 poll task 1\n"
	      "12 1 enter loop\n"
	      "13 1 poll task 2\n"
	      "14 1 root-wake loop 300\n",
	      "+1 loop 0 spawned 10\n"
	      "worker t0 10-\n"
	      "poll 1 t0 10-11 pending inferred\n"
	      "+2 task 1 seen 11\n"
	      "+3 loop 1 spawned 12\n"
	      "worker t1 12-\n"
	      "poll 3 t1 12-13 pending inferred\n"
	      "+4 task 2 seen 13\n"
	      "w1 3 t1 14 scheduled by 4\n"
	      "waiting 3 13-14\n");
}

/* Two copies of one waker's table are one kind. */
/* A block_on that began before the recording. */
ROW(38)
{
	/* recorded as parked: its unpark is not seen, it was polled from the wake to its next
	 * park */
	story("10 0 before root\n"
	      "10 0 park\n"
	      "20 1 root-wake root 99\n"
	      "30 0 park\n"
	      "40 1 root-wake root 99\n"
	      "41 0 unpark\n"
	      "50 0 park\n"
	      "60 1 root-wake root 99\n",
	      "+1 root 0 seen 10\n"
	      "w1 1 t1 20 scheduled\n"
	      "waiting 1 10-20\n"
	      "park t0 1 10-20\n"
	      "poll 1 t0 20-30 pending w1 inferred\n"
	      "w2 1 t1 40 scheduled\n"
	      "waiting 1 30-40\n"
	      "park t0 1 30-41\n"
	      "scheduled 1 40-41\n"
	      "poll 1 t0 41-50 pending since 40 w2 inferred\n"
	      "w3 1 t1 60 scheduled\n"
	      "waiting 1 50-60\n");
	/* parked again without a wake: not polled */
	story("10 0 before root\n"
	      "10 0 park\n"
	      "20 0 park\n"
	      "30 0 thread-end\n",
	      "+1 root 0 seen 10\n"
	      "park t0 1 10-20\n"
	      "park t0 1 20-30\n"
	      "waiting 1 10-30\n"
	      "-1 unknown 30\n");
	/* in the middle of something: it is polled when it is woken next */
	story("10 0 before root\n"
	      "20 0 park\n"
	      "30 1 root-wake root 99\n"
	      "31 0 unpark\n"
	      "40 0 park\n"
	      "50 1 root-wake root 99\n",
	      "+1 root 0 seen 10\n"
	      "unknown 1 10-20\n"
	      "w1 1 t1 30 scheduled\n"
	      "waiting 1 20-30\n"
	      "park t0 1 20-31\n"
	      "scheduled 1 30-31\n"
	      "poll 1 t0 31-40 pending since 30 w1 inferred\n"
	      "w2 1 t1 50 scheduled\n"
	      "waiting 1 40-50\n");
	/* a thread that polls tasks: its driver's wake is the first that is seen of it */
	story("10 0 before loop\n"
	      "10 0 epoll\n"
	      "20 0 root-wake loop 99\n"
	      "25 0 poll task 1\n"
	      "30 0 pending task 1\n"
	      "31 0 epoll\n",
	      "+1 loop 0 seen 10\n"
	      "worker t0 10-\n"
	      "park t0 2 10-20\n"
	      "w1 1 t0 20 scheduled\n"
	      "waiting 1 10-20\n"
	      "poll 1 t0 20-25 pending since 20 w1 inferred\n"
	      "+2 task 1 seen 25\n"
	      "poll 2 t0 25-30 pending\n");
}

static void test_same_root_kinds(void **state)
{
	story("10 0 enter loop\n"
	      "11 0 epoll\n"
	      "12 1 root-wake loop2 64\n"
	      "13 0 unpark\n"
	      "14 0 epoll\n",
	      "+1 loop 0 spawned 10\n"
	      "worker t0 10-\n"
	      "poll 1 t0 10-11 pending inferred\n"
	      "w1 1 t1 12 scheduled\n"
	      "waiting 1 11-12\n"
	      "park t0 2 11-13\n"
	      "scheduled 1 12-13\n"
	      "poll 1 t0 13-14 pending since 12 w1 inferred\n");
}

/* Block_on of a multi-thread runtime. */
ROW(61)
{
	story("10 0 enter root\n"
	      "20 0 park\n"
	      "30 1 enter loop\n"
	      "40 1 park\n"
	      "finish 50",
	      "+1 root 0 spawned 10\n"
	      "+2 loop 1 spawned 30\n"
	      "worker t1 30-\n"
	      "poll 2 t1 30-40 pending inferred\n"
	      "poll 1 t0 10-20 pending inferred\n"
	      "park t0 1 20-50\n"
	      "park t1 1 40-50\n"
	      "worker t1 -50\n"
	      "waiting 1 20-50\n"
	      "-1 alive waiting\n"
	      "waiting 2 40-50\n"
	      "-2 alive waiting\n");
}

/* A block_on's inferred poll, after which its thread neither parks as a runtime does (futex,
 * epoll) nor polls a task. */
ROW(56)
{
	/* The last polls of block_ons: another follows, the thread sleeps, ends, the trace ends. A
	 * call of another kind may be in the poll. */
	struct timeline_totals t = story("10 0 enter root\n"
					 "300 0 enter root\n"
					 "308 0 block 2\n"
					 "310 0 park\n"
					 "320 0 unpark\n"
					 "330 1 enter root\n"
					 "340 1 sleep\n"
					 "350 2 enter root\n"
					 "360 2 thread-end\n"
					 "370 3 enter root\n"
					 "finish 400",
					 "+1 root 0 spawned 10\n"
					 "poll 1 t0 10-10 unknown end unseen inferred\n"
					 "unknown 1 10-300\n"
					 "-1 unknown 300\n"
					 "+2 root 0 spawned 300\n"
					 "poll 2 t0 300-300 unknown end unseen inferred\n"
					 "park t0 1 310-320\n"
					 "+3 root 1 spawned 330\n"
					 "poll 3 t1 330-330 unknown end unseen inferred\n"
					 "+4 root 2 spawned 350\n"
					 "poll 4 t2 350-350 unknown end unseen inferred\n"
					 "unknown 4 350-360\n"
					 "-4 unknown 360\n"
					 "+5 root 3 spawned 370\n"
					 "park t1 7 340-400\n"
					 "poll 5 t3 370-370 unknown end unseen inferred\n"
					 "-2 unknown 300\n"
					 "-3 unknown 330\n"
					 "-5 unknown 370\n");
	assert_int_equal(t.n_inconsistent, 0);
}

/* The thread waits for something else, in its poll or after the block_on. */
/* A thread enters a futex call in a block_on's inferred poll, and returns without a wake of the
 * block_on. */
ROW(62)
{
	struct timeline_totals t = story("10 0 enter root\n"
					 "20 0 park\n"
					 "30 0 unpark\n"
					 "40 0 park\n"
					 "50 1 root-wake root 64\n"
					 "50 0 unpark\n"
					 "60 0 park\n"
					 "900 0 unpark\n"
					 "910 0 park\n"
					 "950 0 unpark\n"
					 "960 0 enter root\n"
					 "970 0 park\n"
					 "finish 1000",
					 "+1 root 0 spawned 10\n"
					 "poll 1 t0 10-10 unknown end unseen inferred\n"
					 "park t0 1 20-30\n"
					 "w1 1 t1 50 scheduled\n"
					 "unknown 1 10-50\n"
					 "park t0 1 40-50\n"
					 "poll 1 t0 50-50 unknown since 50 w1 end unseen inferred\n"
					 "park t0 1 60-900\n"
					 "park t0 1 910-950\n"
					 "unknown 1 50-960\n"
					 "-1 unknown 960\n"
					 "+2 root 0 spawned 960\n"
					 "poll 2 t0 960-970 pending inferred\n"
					 "park t0 1 970-1000\n"
					 "waiting 2 970-1000\n"
					 "-2 alive waiting\n");
	assert_int_equal(t.n_inconsistent, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(30), TEST(31), TEST(32),
		TEST(33), TEST(38), TEST(56),
		TEST(61), TEST(62), cmocka_unit_test(test_same_root_kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
