/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The hash of bytes: files keep it, so its values are for ever. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void the_values_never_change(void **state)
{
	(void)state;
	assert_int_equal(hash_bytes(0, "", 0), 0x0ULL);
	assert_int_equal(hash_bytes(42, "abc", 3), 0xe20fbc03411c51d9ULL);
	assert_int_equal(hash_bytes(0, "0123456789abcdef", 16), 0xb1666c75237c9f67ULL);
	assert_int_equal(hash_bytes(0, "0123456789abcdefghi", 19), 0xf7218a13ef9dc4afULL);
}

static void every_byte_and_its_place_count(void **state)
{
	uint8_t bytes[24] = {0};
	uint64_t none = hash_bytes(0, bytes, sizeof(bytes)), seen[sizeof(bytes)];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = 1;
		seen[i] = hash_bytes(0, bytes, sizeof(bytes));
		bytes[i] = 0;
		assert_int_not_equal(seen[i], none);
		assert_int_not_equal(hash_bytes(0, bytes, i), none);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
	}
}

static void no_string_is_an_empty_one(void **state)
{
	(void)state;
	assert_int_equal(hash_string(7, NULL), hash_string(7, ""));
	assert_int_equal(hash_string(7, "abc"), hash_bytes(7, "abc", 3));
	assert_int_not_equal(hash_string(hash_string(0, "ab"), "c"),
			     hash_string(hash_string(0, "a"), "bc"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_values_never_change),
		cmocka_unit_test(every_byte_and_its_place_count),
		cmocka_unit_test(no_string_is_an_empty_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
