/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The agent: tasks of async-task's shape. */
#include "agent_tasks.h"

/* ---- async-task ---- */

static bool run_woken(struct async_task *t)
{
	t->state |= A_SCHEDULED;
	return true;
}

static bool run_cancelled(struct async_task *t)
{
	run_to(t, A_CLOSED);
	return false;
}

static bool run_raised(struct async_task *t)
{
	call(panic_hook, rust_exception);
	t->future[0] = PAYLOAD; /* the output */
	return run_ready(t);
}

static bool run_caught(struct async_task *t)
{
	call(panic_hook, rust_exception);
	t->future[0] = 3;
	return run_ready(t);
}

static void test_runs(void **state)
{
	static const struct {
		bool (*how)(struct async_task *);
		int type;
		uint64_t before, after;
		bool drop;
	} cases[] = {
		{run_pending, AE_POLL_PENDING, A_TASK | 2 * A_REF, A_TASK | A_REF, false},
		{run_woken, AE_POLL_PENDING, A_TASK | A_REF, A_TASK | A_SCHEDULED | A_REF, false},
		{run_ready, AE_POLL_READY, A_TASK | A_REF, A_TASK | A_COMPLETED, false},
		{run_ready, AE_POLL_READY, A_REF, A_COMPLETED | A_CLOSED, true},
		{run_ready, AE_POLL_READY, 2 * A_REF, A_COMPLETED | A_CLOSED | A_REF, false},
		{run_cancelled, AE_POLL_CANCELLED, A_TASK | A_REF, A_TASK | A_CLOSED, false},
		{run_cancelled, AE_POLL_CANCELLED, A_REF, A_CLOSED, true},
		{run_raised, AE_POLL_PANICKED, A_TASK | A_REF, A_TASK | A_COMPLETED, false},
		{run_caught, AE_POLL_READY, A_TASK | A_REF, A_TASK | A_COMPLETED, false},
		/* detached, pending, never woken again: as run() itself would have left it
		 */
		{run_pending, AE_POLL_PENDING, A_REF, 0, true},
	};

	(void)state;
	expect_nothing();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		n_destroyed = 0;
		assert_int_equal(run_as(cases[i].how, cases[i].before | A_SCHEDULED),
				 cases[i].how == run_woken);
		if (!i)
			expect_thread();
		expect(AE_POLL_BEGIN, async_ref());
		expect(cases[i].type, async_ref());
		if (cases[i].drop)
			expect(AE_DROP, async_ref());
		expect_nothing();
		assert_int_equal(atask.state, cases[i].after);
		assert_int_equal(n_destroyed, cases[i].drop);
	}
	assert_int_equal(run_hook->task.vtable_offset, 0);
	assert_int_equal(run_hook->task.state_offset, 8);

	/* Closed before: the run only drops the future. */
	run_as(run_cancelled, A_CLOSED | A_SCHEDULED | A_TASK | A_REF);
	expect(AE_CANCEL, async_ref());
	expect_nothing();
}

static bool run_pending_then_detached(struct async_task *t)
{
	run_pending(t);
	t->state &= ~(uint64_t)A_TASK; /* the handle's owner saw us, so it left it to us */
	return false;
}

static void test_the_last_to_leave_a_pending_task(void **state)
{
	struct agent_hook *schedule = area_hook(&area, AH_ASYNC_SCHEDULE, 8, count_orig);

	(void)state;
	schedule->task.vtable = (uint64_t)async_vtable;
	run_as(run_pending_then_detached, A_SCHEDULED | A_TASK | A_REF);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
	expect(AE_SCHEDULE, async_ref());
	expect_nothing();
	assert_int_equal(atask.state,
			 A_SCHEDULED | A_CLOSED | A_REF); /* to have its future dropped */
	assert_int_equal(n_originals, 1);
	assert_int_equal(n_destroyed, 0);
	run_as(run_cancelled, atask.state);
	expect(AE_CANCEL, async_ref());
	expect(AE_DROP, async_ref());
	assert_int_equal(n_destroyed, 1);
}

static void test_header_that_cannot_be_learned(void **state)
{
	(void)state;
	atask.awaiter[1] = (void *)(A_SCHEDULED | A_REF); /* looks like a state, too */
	run_as(run_ready, A_SCHEDULED | A_REF * 2);
	expect_thread();
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_UNKNOWN, async_ref());
	assert_int_equal(run_hook->task.state_offset, OFFSET_UNKNOWN);
	assert_int_equal(atask.state / A_REF, 1);
	run_as(run_woken, A_SCHEDULED | A_REF);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref()); /* run() says so */
	atask.awaiter[1] = NULL;
	run_as(run_ready, A_SCHEDULED | A_REF * 2);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_READY, async_ref());
}

static void test_async_wakes(void **state)
{
	(void)state;
	awake_hook->task.vtable_offset = OFFSET_UNKNOWN; /* found by the vtables of known kinds */
	atask.state = A_REF | A_TASK;
	call(awake_hook, &atask); /* state not yet known: a wake */
	expect_thread();
	expect(AE_WAKE, async_ref());
	run_as(run_pending, A_SCHEDULED | A_REF | A_TASK);
	expect(AE_POLL_BEGIN, async_ref());
	expect(AE_POLL_PENDING, async_ref());
	atask.state = A_REF | A_TASK | A_RUNNING;
	call(awake_hook, &atask);
	expect(AE_WAKE_RUNNING, async_ref());
	atask.state = A_REF | A_TASK | A_SCHEDULED;
	call(awake_hook, &atask);
	expect(AE_WAKE_NOOP, async_ref());
	atask.state = A_REF | A_TASK | A_COMPLETED;
	call(awake_hook, &atask);
	expect(AE_WAKE_NOOP, async_ref());
	atask.state = A_REF | A_TASK;
	call(awake_hook, &atask);
	expect(AE_WAKE, async_ref());
	call(area_hook(&area, AH_ASYNC_SCHEDULE, 8, count_orig), &atask);
	expect(AE_SCHEDULE, async_ref());
	call(area_hook(&area, AH_ASYNC_CANCEL, 8, count_orig), &atask);
	expect(AE_CANCEL, async_ref());
	call(area_hook(&area, AH_ASYNC_DESTROY, 8, count_orig), &atask);
	expect(AE_DROP, async_ref());
}

int main(void)
{
#define WITH(name, up) cmocka_unit_test_setup_teardown(name, up, teardown)
	const struct CMUnitTest tests[] = {
		WITH(test_runs, setup_async),
		WITH(test_the_last_to_leave_a_pending_task, setup_async),
		WITH(test_header_that_cannot_be_learned, setup_async),
		WITH(test_async_wakes, setup_async),
	};
	return cmocka_run_group_tests_name("agent_async", tests, NULL, NULL);
}
