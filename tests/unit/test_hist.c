/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Histograms: quantiles against sorted data, exact sums, merging, the ends of u64. */
#include "base/hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

static uint64_t seed = 7;

static uint64_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void check_quantiles(const struct hist *h, uint64_t *data, size_t n)
{
	static const double qs[] = {0.0001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.99999};

	qsort(data, n, sizeof(*data), by_value);
	assert_true(hist_quantile(h, 0) == data[0]);
	assert_true(hist_quantile(h, 1) == data[n - 1]);
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
		double rank = qs[i] * (double)n;
		size_t at = (size_t)rank;
		if ((double)at == rank && at > 0)
			at--;
		uint64_t got = hist_quantile(h, qs[i]), want = data[at];
		/* The upper edge of the bucket: never below, at most 1/64 above. */
		assert_true(got >= want);
		assert_true((double)(got - want) <= (double)want / 64);
	}
}

static void test_quantiles(void **state)
{
	enum { N = 20000 };
	static uint64_t data[N];

	for (unsigned range = 1; range < 64; range += 3) {
		struct hist h = {0};
		uint64_t sum = 0;
		for (size_t i = 0; i < N; i++) {
			/* Log-uniform up to 2^range. */
			data[i] = rnd() >> (63 - rnd() % range);
			sum += data[i];
			assert_int_equal(hist_add(&h, data[i]), 0);
		}
		assert_int_equal(h.count, N);
		assert_true(h.sum == sum);
		check_quantiles(&h, data, N);

		hist_done(&h);
	}
}

static void test_edges(void **state)
{
	struct hist h = {0};

	assert_true(hist_quantile(&h, 0.5) == 0);
	assert_int_equal(h.count, 0);
	assert_int_equal(hist_add(&h, UINT64_MAX), 0);
	assert_true(h.min == UINT64_MAX);
	assert_true(hist_quantile(&h, 0.5) == UINT64_MAX);
	assert_int_equal(hist_add(&h, 0), 0);
	assert_true(h.min == 0 && h.max == UINT64_MAX);
	assert_true(hist_quantile(&h, 0.5) == 0);
	assert_true(hist_quantile(&h, 0.51) == UINT64_MAX);
	assert_true(hist_quantile(&h, -1) == 0);
	assert_true(hist_quantile(&h, 2) == UINT64_MAX);
	assert_int_equal(h.count, 2);
	hist_done(&h);
}

/* Small values are exact. */
static void test_small(void **state)
{
	struct hist h = {0};

	for (uint64_t v = 1; v <= 100; v++)
		assert_int_equal(hist_add(&h, v), 0);
	for (uint64_t p = 1; p <= 100; p++)
		assert_true(hist_quantile(&h, ((double)p - 0.5) / 100) == p);
	hist_done(&h);
}

/* What two have seen is what one would have seen. */
static void test_merge(void **state)
{
	struct hist all = {0}, parts[3] = {0}, merged = {0};

	for (unsigned i = 0; i < 3000; i++) {
		uint64_t value = rnd() >> (8 + 18 * (i % 3));

		assert_int_equal(hist_add(&all, value), 0);
		assert_int_equal(hist_add(&parts[i % 3], value), 0);
	}
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(hist_merge(&merged, &parts[i]), 0);
	assert_int_equal(hist_merge(&merged, &(struct hist){0}), 0);
	assert_true(merged.count == all.count && merged.sum == all.sum);
	assert_true(merged.min == all.min && merged.max == all.max);
	for (unsigned p = 0; p <= 100; p++)
		assert_true(hist_quantile(&merged, p / 100.0) == hist_quantile(&all, p / 100.0));
	hist_done(&all);
	hist_done(&merged);
	for (size_t i = 0; i < 3; i++)
		hist_done(&parts[i]);
	(void)state;
}

static void test_memory_grows_with_range_only(void **state)
{
	struct hist h = {0};

	for (int i = 0; i < 100000; i++)
		assert_int_equal(hist_add(&h, 1000 + i % 24), 0);
	assert_int_equal(h.n_buckets, 64);
	hist_done(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_memory_grows_with_range_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
