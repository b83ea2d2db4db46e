/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * capture: what an event costs is measured with the agent's own image. A measurement in which
 * events were dropped, or not written, gives 0; so does a machine that forbids executable memory.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "capture/agent/event_cost.h"

static void test_event_cost(void **state)
{
	(void)state;
	/* A stamp alone takes some nanoseconds; a system call, which there must be none, hundreds.
	 */
	for (int i = 0; i < 3; i++)
		assert_in_range(event_cost_ps(), 2000, 400000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_event_cost)};

	return cmocka_run_group_tests_name("event_cost", tests, NULL, NULL);
}
