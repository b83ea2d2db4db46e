/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Binary search against a walk from the front, for every key, with equal items and without any. */
#include "base/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_point_is_that_of_a_walk(void **state)
{
	static const uint32_t v[] = {2, 3, 3, 3, 7, 8, 8, 11, 4000};

	(void)state;
	for (size_t n = 0; n <= sizeof(v) / sizeof(v[0]); n++) {
		for (uint32_t key = 0; key < 15; key++) {
			size_t first = 0, behind = 0;

			while (first < n && v[first] < key)
				first++;
			while (behind < n && v[behind] <= key)
				behind++;
			assert_int_equal(PARTITION_POINT(i, 0, n, v[i] < key), first);
			assert_int_equal(PARTITION_POINT(i, 0, n, v[i] <= key), behind);
		}
	}
}

static void nothing_outside_of_the_range_is_looked_at(void **state)
{
	static const uint32_t v[] = {9, 1, 2, 3, 0};

	(void)state;
	assert_int_equal(PARTITION_POINT(i, 1, 4, v[i] < 3), 3);
	assert_int_equal(PARTITION_POINT(i, 1, 4, v[i] < 100), 4);
	assert_int_equal(PARTITION_POINT(i, 1, 4, v[i] < 1), 1);
	assert_int_equal(PARTITION_POINT(i, 4, 4, v[i] < 100), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_point_is_that_of_a_walk),
		cmocka_unit_test(nothing_outside_of_the_range_is_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
