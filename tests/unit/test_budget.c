/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Budgets of steps, time and bytes; holes of files. */
#include "base/budget.h"
#include "base/clock.h"
#include "base/holes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

static void test_steps(void **state)
{
	struct budget b;

	budget_init(&b, 10, 0);
	assert_true(budget_spend(&b, 9));
	assert_false(budget_spend(&b, 1));
	assert_int_equal(b.steps, 0);
	assert_false(budget_spend(&b, 0)); /* it stays spent */
	budget_init(&b, 10, 0);
	assert_false(budget_spend(&b, UINT64_MAX));
}

static void test_time(void **state)
{
	uint64_t began = clock_monotonic_ns(), n = 0;
	struct budget b;

	budget_init(&b, BUDGET_UNLIMITED, 20000000);
	while (budget_spend(&b, 1))
		n++;
	assert_true(clock_monotonic_ns() - began >= 20000000);
	assert_true(n > 0);
	assert_false(budget_spend(&b, 1));
	/* of a large step the time is seen at once */
	budget_init(&b, BUDGET_UNLIMITED, 1);
	assert_false(budget_spend(&b, 1000));
}

static void test_bytes(void **state)
{
	assert_true(budget_bytes() > 0 && budget_bytes() <= 8ull << 30);
	budget_test_bytes = 1000;
	assert_int_equal(budget_bytes(), 1000);
	assert_true(budget_hold(600));
	assert_false(budget_hold(401));
	assert_false(budget_hold(UINT64_MAX));
	assert_true(budget_hold(400));
	assert_false(budget_hold(1));
	budget_release(600);
	assert_true(budget_hold(1));
	budget_release(401);
	budget_test_bytes = 0;
}

static void test_holes(void **state)
{
	const uint64_t first = 1 << 20, last = 1ull << 33, end = last + (4ull << 20);
	char name[] = "/tmp/pollux-holes-XXXXXX", data[4096] = "x";
	uint64_t at = 0, n = 0, start, stop;
	int fd = mkstemp(name), r = 1;

	assert_true(fd >= 0 && unlink(name) == 0);
	assert_int_equal(holes_next_data(fd, 0, 100, &start, &stop), 0);
	assert_int_equal(ftruncate(fd, (off_t)end), 0);
	assert_int_equal(pwrite(fd, data, sizeof(data), (off_t)first), sizeof(data));
	assert_int_equal(pwrite(fd, data, sizeof(data), (off_t)last), sizeof(data));
	/* Each byte of data lies in one of the runs, which come in order, within the range. A file
	 * system may take more for data than was written. */
	while ((r = holes_next_data(fd, at, end, &start, &stop)) == 1) {
		assert_true(start >= at && stop > start && stop <= end);
		n += start <= first && stop >= first + sizeof(data);
		n += start <= last && stop >= last + sizeof(data);
		at = stop;
	}
	assert_int_equal(r, 0);
	assert_int_equal(n, 2);
	assert_int_equal(holes_next_data(fd, first + 1, first + 9, &start, &stop), 1);
	assert_true(start == first + 1 && stop == first + 9);
	assert_int_equal(holes_next_data(fd, 5, 5, &start, &stop), 0);
	assert_int_equal(holes_next_data(fd, end, UINT64_MAX, &start, &stop), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_holes),
	};

	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
