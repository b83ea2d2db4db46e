/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Clocks: the map follows the monotonic clock and never turns back, hostile ticks included. */
#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

static void sleep_ms(long ms)
{
	struct timespec ts = {.tv_nsec = ms * 1000000};
	nanosleep(&ts, NULL);
}

static void test_readings(void **state)
{
	uint64_t ns = clock_monotonic_ns(), ticks = clock_ticks();

	assert_true(clock_realtime_ns() > 1600000000000000000ULL);
	assert_true(clock_cpu_ns() > 0);
	sleep_ms(2);
	assert_true(clock_monotonic_ns() >= ns + 2000000);
	assert_true(clock_ticks() > ticks);
}

static void test_map_follows_the_clock(void **state)
{
	struct clock_map m;
	uint64_t last_mapped = 0;

	clock_map_init(&m, 20000000);
	for (int i = 0; i < 12; i++) {
		struct clock_pair now;
		sleep_ms(25);
		clock_pair_read(&now);
		uint64_t mapped = clock_map_ns(&m, now.ticks);
		/* 100 µs is far above the map's error and far below a wrong slope's; machines under
		 * test may be loaded. */
		assert_true(mapped < now.ns + 100000 && now.ns < mapped + 100000);

		/* With the new pair the map goes through it, and on through the one before. */
		struct clock_pair before = m.last;
		clock_map_add(&m);
		assert_true(m.base.ticks == before.ticks && m.last.ticks > now.ticks);
		assert_in_range(clock_map_ns(&m, before.ticks), before.ns - 1, before.ns + 1);
		assert_in_range(clock_map_ns(&m, m.last.ticks), m.last.ns - 1, m.last.ns + 1);
		/* In between it errs by what reading a pair errs: some ten ns, unless disturbed. */
		mapped = clock_map_ns(&m, now.ticks);
		assert_true(mapped < now.ns + 20000 && now.ns < mapped + 20000);
		assert_true(mapped >= last_mapped);
		last_mapped = mapped;
	}
}

/* What lies between pairs is mapped for good, however close and uneven they are. */
static void test_map_keeps_its_word(void **state)
{
	static struct {
		uint64_t ticks, ns;
	} was[3000];
	struct clock_map m;
	size_t n = 0;

	clock_map_init(&m, 1000000);
	for (int i = 0; i < 1000; i++) {
		for (int k = 1; k < 4; k++) {
			uint64_t ticks = m.base.ticks + (m.last.ticks - m.base.ticks) * k / 4;

			was[n].ticks = ticks;
			was[n++].ns = clock_map_ns(&m, ticks);
		}
		clock_map_add(&m);
		/* as far back as is remembered */
		for (size_t k = n > 150 ? n - 150 : 0; k < n; k++)
			assert_int_equal(clock_map_ns(&m, was[k].ticks), was[k].ns);
	}
	for (size_t k = 1; k < n; k++)
		assert_true(was[k].ns >= was[k - 1].ns);
}

static void test_map_is_monotonic(void **state)
{
	struct clock_map m = {.base = {1000000, 500000},
			      .ns_per_tick = 0.31,
			      .average = 0.29,
			      .first = {1000000, 500000},
			      .last = {1100000, 531000},
			      .pairs = {{1000000, 500000}, {1100000, 531000}},
			      .n_pairs = 2};
	uint64_t last = 0;

	for (uint64_t t = 0; t < 2000000; t += 3) {
		uint64_t ns = clock_map_ns(&m, t);
		assert_true(ns >= last);
		last = ns;
	}
	/* Hostile ticks. */
	assert_true(clock_map_ns(&m, UINT64_MAX) > last);
	m.average = 1.0;
	assert_true(clock_map_ns(&m, UINT64_MAX) == UINT64_MAX);
	m.base.ticks = UINT64_MAX;
	m.average = 10;
	assert_true(clock_map_ns(&m, 0) == 0);
}

static void test_restore(void **state)
{
	const uint64_t mask = (1ULL << 56) - 1, far = (1ULL << 55) - 1;
	static const uint64_t nears[] = {1ULL << 55, (1ULL << 56) - 1, 1ULL << 56,
					 0x1234567890abcdefULL};

	for (size_t i = 0; i < sizeof(nears) / sizeof(nears[0]); i++) {
		uint64_t near = nears[i];
		const uint64_t fulls[] = {near, near - 1, near + 1, near - far, near + far};
		for (size_t k = 0; k < sizeof(fulls) / sizeof(fulls[0]); k++)
			assert_true(clock_ticks_restore(fulls[k] & mask, near) == fulls[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readings),
		cmocka_unit_test(test_map_follows_the_clock),
		cmocka_unit_test(test_map_is_monotonic),
		cmocka_unit_test(test_map_keeps_its_word),
		cmocka_unit_test(test_restore),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
