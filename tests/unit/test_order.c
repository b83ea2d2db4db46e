/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What comes nearly in order, put in order: with a limit as importers do, up to a time as live
 * sources do. */
#include "base/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
	struct order_item order;
	uint64_t value;
};

static void put(struct order *o, uint64_t time, uint64_t value)
{
	const struct item item = {.order.time = time, .value = value};

	assert_int_equal(order_put(o, &item), 0);
}

static void sorts_within_its_window(void **state)
{
	struct order o;
	struct item item;
	uint64_t last = 0, n = 0, seed = 1;

	order_init(&o, sizeof(struct item), 64);
	for (uint64_t i = 0; i < 10000; i++) {
		if (order_full(&o)) {
			assert_true(order_next(&o, UINT64_MAX, &item));
			assert_true(item.order.time >= last);
			last = item.order.time;
			n++;
		}
		seed = seed * 6364136223846793005ull + 1;
		put(&o, i * 10 + (seed >> 60) * 20, i);
		assert_true(order_n(&o) <= 64);
	}
	for (; order_next(&o, UINT64_MAX, &item); n++) {
		assert_true(item.order.time >= last);
		last = item.order.time;
	}
	assert_int_equal(n, 10000);
	assert_null(order_first(&o));
	order_done(&o);
}

static void takes(struct order *o, uint64_t before_ns, const uint64_t *values, size_t n)
{
	struct item item;

	for (size_t i = 0; i < n; i++) {
		assert_int_equal(((const struct item *)order_first(o))->value, values[i]);
		assert_true(order_next(o, before_ns, &item));
		assert_int_equal(item.value, values[i]);
	}
	assert_false(order_next(o, before_ns, &item));
}

static void keeps_equal_times_in_their_order(void **state)
{
	static const uint64_t times[] = {5, 3, 5, 3, UINT64_MAX, 3, 5};
	struct order o;

	order_init(&o, sizeof(struct item), 64);
	for (uint64_t i = 0; i < 7; i++)
		put(&o, times[i], i);
	takes(&o, UINT64_MAX, (const uint64_t[]){1, 3, 5, 0, 2, 6, 4}, 7);
	order_done(&o);
}

static void leaves_what_is_not_before(void **state)
{
	static const uint64_t times[] = {5, 3, 9, 9, 4, 1, 8};
	struct order o;

	order_init(&o, sizeof(struct item), SIZE_MAX);
	takes(&o, UINT64_MAX, NULL, 0);
	for (uint64_t i = 0; i < 7; i++)
		put(&o, times[i], i);
	takes(&o, 5, (const uint64_t[]){5, 1, 4}, 3);
	put(&o, 7, 7);
	takes(&o, 5, NULL, 0);
	takes(&o, UINT64_MAX, (const uint64_t[]){0, 7, 6, 2, 3}, 5);
	order_done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorts_within_its_window),
		cmocka_unit_test(keeps_equal_times_in_their_order),
		cmocka_unit_test(leaves_what_is_not_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
