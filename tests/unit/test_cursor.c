/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The cursor: every read at every cut, LEB128 beyond 64 bits, hostile lengths. */
#include "base/cursor.h"

#include "base/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09};

static void test_fixed(void **state)
{
	struct cursor c;

	cursor_init(&c, bytes, sizeof(bytes));
	assert_int_equal(cursor_u8(&c), 0x01);
	assert_int_equal(cursor_u16(&c), 0x0302);
	assert_int_equal(cursor_u32(&c), 0x07060504);
	assert_int_equal(cursor_left(&c), 2);
	assert_int_equal(cursor_u32(&c), 0);
	assert_false(cursor_ok(&c));
	assert_int_equal(cursor_left(&c), 0);
	/* What would have fitted before fails now too. */
	assert_int_equal(cursor_u8(&c), 0);
	assert_null(cursor_bytes(&c, 0));

	cursor_init(&c, bytes, sizeof(bytes));
	assert_true(cursor_u64(&c) == 0x0807060504030201ULL);
	assert_true(cursor_u64(&c) == 0);
	assert_false(cursor_ok(&c));
}

static void test_bytes(void **state)
{
	struct cursor c;

	cursor_init(&c, bytes, sizeof(bytes));
	assert_ptr_equal(cursor_bytes(&c, 4), bytes);
	assert_ptr_equal(cursor_bytes(&c, 5), bytes + 4);
	assert_non_null(cursor_bytes(&c, 0));
	assert_true(cursor_ok(&c));
	assert_null(cursor_bytes(&c, 1));
	cursor_init(&c, bytes, sizeof(bytes));
	cursor_u8(&c);
	assert_null(cursor_bytes(&c, SIZE_MAX));
	assert_false(cursor_ok(&c));
	cursor_init(&c, NULL, 0);
	assert_int_equal(cursor_u8(&c), 0);
	assert_false(cursor_ok(&c));
}

static void test_leb_overflow(void **state)
{
	struct cursor c;
	uint8_t data[11];

	memset(data, 0xff, sizeof(data));
	data[9] = 0x01;
	cursor_init(&c, data, sizeof(data));
	assert_true(cursor_uleb(&c) == UINT64_MAX);
	assert_int_equal(cursor_left(&c), 1);

	data[9] = 0x02; /* bit 64 */
	cursor_init(&c, data, sizeof(data));
	assert_true(cursor_uleb(&c) == 0);
	assert_false(cursor_ok(&c));

	data[9] = 0x81; /* an eleventh byte */
	cursor_init(&c, data, sizeof(data));
	cursor_uleb(&c);
	assert_false(cursor_ok(&c));

	/* Padded zeroes within ten bytes are allowed. */
	const uint8_t padded[] = {0x85, 0x80, 0x00};
	cursor_init(&c, padded, sizeof(padded));
	assert_true(cursor_uleb(&c) == 5);
	assert_true(cursor_ok(&c));

	/* Cut after every byte. */
	for (size_t len = 0; len < 9; len++) {
		memset(data, 0x80, sizeof(data));
		cursor_init(&c, data, len);
		assert_true(cursor_uleb(&c) == 0);
		assert_false(cursor_ok(&c));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_leb_overflow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
