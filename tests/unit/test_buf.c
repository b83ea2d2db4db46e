/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Buffers: growth, numbers, LEB128, sticky failure. */
#include "base/buf.h"
#include "base/cursor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under AddressSanitizer too an allocation that is too big fails as it does elsewhere. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void test_empty(void **state)
{
	struct buf b = BUF_INIT;

	buf_add(&b, "x", 0);
	buf_clear(&b);
	assert_int_equal(b.len, 0);
	char *s = buf_steal(&b);
	assert_string_equal(s, "");
	free(s);
	buf_done(&b);
	buf_done(&b);
}

static void test_always_terminated(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	for (int i = 0; i < 300; i++) {
		buf_char(&b, 'x');
		assert_int_equal(b.len, i + 1);
		assert_int_equal(strlen(b.data), i + 1);
	}
	buf_clear(&b);
	assert_string_equal(b.data, "");
	buf_add(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 4);
	assert_true(buf_reserve(&b, 1000));
	assert_true(b.cap > 1003);
	assert_memory_equal(b.data, "a\0b", 4);
}

static void test_printf(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	char expected[2000];

	memset(expected, 'y', 1500);
	expected[1500] = 0;
	for (int len = 0; len < 1500; len += 7) {
		buf_clear(&b);
		buf_printf(&b, "%.*s|%d", len, expected, len);
		char want[1600];
		snprintf(want, sizeof(want), "%.*s|%d", len, expected, len);
		assert_string_equal(b.data, want);
		assert_int_equal(b.len, strlen(want));
	}
}

static void test_u64(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	char want[32];
	uint64_t v = 1;

	buf_u64(&b, 0);
	assert_string_equal(b.data, "0");
	for (int i = 0; i < 64; i++, v <<= 1) {
		for (int d = -1; d <= 1; d++) {
			snprintf(want, sizeof(want), "%" PRIu64, v + (uint64_t)d);
			buf_clear(&b);
			buf_u64(&b, v + (uint64_t)d);
			assert_string_equal(b.data, want);
		}
	}
	v = 1;
	for (int i = 0; i < 20; i++, v *= 10) {
		for (int d = -1; d <= 1; d++) {
			snprintf(want, sizeof(want), "%" PRIu64, v + (uint64_t)d);
			buf_clear(&b);
			buf_u64(&b, v + (uint64_t)d);
			assert_string_equal(b.data, want);
		}
	}
}

static void test_leb(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	for (int i = 0; i < 64; i++) {
		for (int d = -1; d <= 1; d++) {
			uint64_t v = (1ULL << i) + (uint64_t)d;
			buf_clear(&b);
			buf_uleb(&b, v);
			struct cursor c;
			cursor_init(&c, b.data, b.len);
			assert_true(cursor_uleb(&c) == v);
			assert_true(cursor_ok(&c));
			assert_int_equal(cursor_left(&c), 0);
		}
	}
	buf_clear(&b);
	buf_uleb(&b, 624485);
	assert_memory_equal(b.data, "\xe5\x8e\x26", 4);
}

static void test_failure_sticks(void **state)
{
	struct buf b = BUF_INIT;

	buf_str(&b, "kept");
	assert_false(buf_reserve(&b, SIZE_MAX - 2));
	assert_true(buf_failed(&b));
	buf_str(&b, "more");
	buf_char(&b, 'x');
	buf_u64(&b, 7);
	buf_uleb(&b, 7);
	buf_printf(&b, "%d", 7);
	assert_string_equal(b.data, "kept");
	buf_clear(&b);
	assert_true(buf_failed(&b));
	assert_null(buf_steal(&b));
	assert_false(buf_failed(&b));
	/* A size that no allocator gives. */
	assert_false(buf_reserve(&b, SIZE_MAX / 2 - 100));
	assert_true(buf_failed(&b));
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),  cmocka_unit_test(test_always_terminated),
		cmocka_unit_test(test_printf), cmocka_unit_test(test_u64),
		cmocka_unit_test(test_leb),    cmocka_unit_test(test_failure_sticks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
