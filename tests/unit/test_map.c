/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The map against a naive model under random operations, with crowded and spread keys. */
#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 700

static uint64_t seed = 88172645463325252ULL;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Random puts, gets and removals over KEYS keys; the model is an array indexed by key number. */
static void compare_with_model(uint64_t a_step, uint64_t b_step, unsigned put_share)
{
	struct map m = {0};
	char *model[KEYS] = {0};
	static char values[64];
	size_t n = 0;

	for (int i = 0; i < 60000; i++) {
		size_t k = rnd() % KEYS;
		uint64_t a = k * a_step, b = k * b_step;
		unsigned what = rnd() % 100;
		if (what < put_share) {
			char *v = &values[rnd() % sizeof(values)];
			assert_int_equal(map_put(&m, a, b, v), 0);
			n += !model[k];
			model[k] = v;
		} else if (what < 90) {
			assert_ptr_equal(map_remove(&m, a, b), model[k]);
			n -= !!model[k];
			model[k] = NULL;
		} else {
			assert_ptr_equal(map_get(&m, a, b), model[k]);
		}
		assert_int_equal(m.n, n);
	}
	for (size_t k = 0; k < KEYS; k++)
		assert_ptr_equal(map_get(&m, k * a_step, k * b_step), model[k]);

	size_t seen = 0, pos = 0;
	const struct map_entry *e;
	while ((e = map_next(&m, &pos))) {
		size_t k = a_step ? e->a / a_step : e->b / b_step;
		assert_true(k < KEYS);
		assert_ptr_equal(e->value, model[k]);
		model[k] = NULL;
		seen++;
	}
	assert_int_equal(seen, n);
	map_done(&m);
}

static void test_random_operations(void **state)
{
	compare_with_model(1, 0, 45);
	compare_with_model(0, 1, 70);
	compare_with_model(0x1000, 7, 50);
	compare_with_model(1ULL << 40, 1ULL << 50, 30);
}

static void test_edges(void **state)
{
	struct map m = {0};
	int v, w;
	size_t pos = 0;

	assert_null(map_get(&m, 0, 0));
	assert_null(map_remove(&m, 0, 0));
	assert_null(map_next(&m, &pos));
	assert_int_equal(map_put(&m, 0, 0, NULL), -EINVAL);
	assert_int_equal(map_put(&m, 0, 0, &v), 0);
	assert_int_equal(map_put(&m, UINT64_MAX, UINT64_MAX, &w), 0);
	assert_int_equal(map_put(&m, 0, 0, &w), 0);
	assert_int_equal(m.n, 2);
	assert_ptr_equal(map_get(&m, 0, 0), &w);
	assert_null(map_get(&m, 0, 1));
	assert_ptr_equal(map_remove(&m, UINT64_MAX, UINT64_MAX), &w);
	assert_null(map_remove(&m, UINT64_MAX, UINT64_MAX));
	map_done(&m);
	assert_null(map_get(&m, 0, 0));
}

/* A long life with few entries at a time must not grow the table. */
static void test_turnover_does_not_grow(void **state)
{
	struct map m = {0};
	int v;

	for (uint64_t i = 0; i < 200000; i++) {
		assert_int_equal(map_put(&m, 3, i, &v), 0);
		if (i >= 10)
			assert_ptr_equal(map_remove(&m, 3, i - 10), &v);
	}
	assert_int_equal(m.n, 10);
	assert_true(m.cap <= 32);
	map_done(&m);
}

static unsigned n_freed;

static void count_and_free(void *value)
{
	n_freed++;
	free(value);
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = *(uint64_t *const *)a, *y = *(uint64_t *const *)b;

	return (*x > *y) - (*x < *y);
}

/* A value is made once, zeroed; in order all come; freeing the map frees each once. */
static void test_values_of_its_own(void **state)
{
	struct map m = {0};
	uint64_t **all = map_sorted(&m, by_number);

	assert_non_null(all);
	free(all);
	for (unsigned round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < 500; i++) {
			uint64_t *v = map_get_or_new(&m, i * 77 % 500, 5, sizeof(*v));

			assert_non_null(v);
			assert_int_equal(*v, round ? i * 77 % 500 + 1 : 0);
			*v = i * 77 % 500 + 1;
		}
	}
	assert_int_equal(m.n, 500);
	all = map_sorted(&m, by_number);
	assert_non_null(all);
	for (uint64_t i = 0; i < 500; i++)
		assert_int_equal(*all[i], i + 1);
	free(all);
	map_free(&m, count_and_free);
	assert_int_equal(n_freed, 500);
	assert_int_equal(m.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_operations),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_turnover_does_not_grow),
		cmocka_unit_test(test_values_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
