/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Growable arrays: what fits stays, new items of GROW_ZERO are zero, counters do not overflow. */
#include "base/vec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

static void items_stay_and_the_capacity_doubles(void **state)
{
	size_t n_grown = 0, cap = 0;
	uint32_t *v = NULL;

	(void)state;
	for (uint32_t n = 0; n < 5000; n++) {
		size_t before = cap;

		assert_true(GROW(v, n, cap));
		assert_true(n < cap);
		n_grown += cap != before;
		v[n] = n * 7;
	}
	assert_in_range(n_grown, 2, 14);
	for (uint32_t n = 0; n < 5000; n++)
		assert_int_equal(v[n], n * 7);
	free(v);
}

static void room_far_behind_the_end_is_made_at_once(void **state)
{
	uint64_t *v = NULL;
	uint32_t cap = 0;

	(void)state;
	assert_true(GROW_ZERO(v, 3u, cap));
	v[3] = 42;
	assert_true(GROW_ZERO(v, 100000u, cap));
	assert_true(cap > 100000);
	assert_int_equal(v[3], 42);
	for (uint32_t i = 4; i < cap; i++)
		assert_int_equal(v[i], 0);
	free(v);
}

static void a_full_counter_is_out_of_memory(void **state)
{
	uint8_t cap = 0, *v = NULL;
	unsigned n = 0;

	(void)state;
	while (GROW(v, n, cap)) {
		v[n] = (uint8_t)n;
		n++;
	}
	assert_int_equal(n, UINT8_MAX);
	assert_int_equal(cap, UINT8_MAX);
	assert_int_equal(v[n - 1], n - 1);
	free(v);
}

static void too_much_is_refused_and_nothing_lost(void **state)
{
	uint64_t *v = NULL;
	size_t cap = 0;

	(void)state;
	assert_true(GROW(v, 0u, cap));
	v[0] = 42;
	assert_false(GROW(v, SIZE_MAX - 1, cap));
	assert_false(GROW(v, SIZE_MAX / 8, cap));
	assert_int_equal(v[0], 42);
	assert_in_range(cap, 1, 100);
	free(v);
}

/* Under AddressSanitizer every write beyond what is there fails. */
static void an_implied_capacity_is_enough_after_removals(void **state)
{
	size_t n = 0;
	char *v = NULL;

	(void)state;
	for (unsigned round = 1; round <= 300; round++) {
		for (unsigned i = 0; i < round; i++) {
			assert_true(GROW_ONE(v, n));
			v[n++] = (char)i;
		}
		n -= n < round / 2 * 3 ? n / 3 : round / 2;
	}
	assert_int_equal(vec_implied_cap(0), 0);
	assert_int_equal(vec_implied_cap(1), 4);
	assert_int_equal(vec_implied_cap(4), 4);
	assert_int_equal(vec_implied_cap(5), 8);
	assert_int_equal(vec_implied_cap(8), 8);
	assert_int_equal(vec_implied_cap(9), 16);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_stay_and_the_capacity_doubles),
		cmocka_unit_test(room_far_behind_the_end_is_made_at_once),
		cmocka_unit_test(a_full_counter_is_out_of_memory),
		cmocka_unit_test(too_much_is_refused_and_nothing_lost),
		cmocka_unit_test(an_implied_capacity_is_enough_after_removals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
