/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Text for people: rounding at every unit border, hostile strings, numbers with units. */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

static void duration_is(uint64_t ns, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_duration(&b, ns);
	assert_string_equal(b.data, want);
}

static void test_duration(void **state)
{
	duration_is(0, "0 ns");
	duration_is(850, "850 ns");
	duration_is(999, "999 ns");
	duration_is(1000, "1.00 µs");
	duration_is(9994, "9.99 µs");
	duration_is(9996, "10.0 µs");
	duration_is(12345, "12.3 µs");
	duration_is(99949, "99.9 µs");
	duration_is(99951, "100 µs");
	duration_is(999499, "999 µs");
	duration_is(999500, "1.00 ms");
	duration_is(4560000, "4.56 ms");
	duration_is(1230000000, "1.23 s");
	duration_is(59949999999, "59.9 s");
	duration_is(59950000000, "1 min 00 s");
	duration_is(125000000000, "2 min 05 s");
	duration_is(3599499999999, "59 min 59 s");
	duration_is(3599500000000, "1 h 00 min");
	duration_is(UINT64_MAX, "5124095 h 34 min");
}

static void count_is(uint64_t n, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_count(&b, n);
	assert_string_equal(b.data, want);
}

static void test_count(void **state)
{
	count_is(0, "0");
	count_is(999, "999");
	count_is(1000, "1,000");
	count_is(12345, "12,345");
	count_is(99999, "99,999");
	count_is(100000, "100 k");
	count_is(999499, "999 k");
	count_is(999500, "1.00 M");
	count_is(4560000, "4.56 M");
	count_is(UINT64_MAX, "18.4 E");
}

static void bytes_is(uint64_t n, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_bytes(&b, n);
	assert_string_equal(b.data, want);
}

static void test_bytes(void **state)
{
	bytes_is(0, "0 B");
	bytes_is(512, "512 B");
	bytes_is(1023, "1023 B");
	bytes_is(1024, "1.0 KiB");
	bytes_is(1229, "1.2 KiB");
	bytes_is(3565158, "3.4 MiB");
	bytes_is(1048575, "1.0 MiB");
	bytes_is(1ULL << 40, "1.0 TiB");
	bytes_is(UINT64_MAX, "16.0 EiB");
}

static void safe_is(const char *s, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	text_safe(&b, s);
	assert_string_equal(b.data ? b.data : "", want);
}

static void test_safe(void **state)
{
	safe_is("", "");
	safe_is("app::serve<T> µ→🦀", "app::serve<T> µ→🦀");
	safe_is("\x1b[31mred\x7f\n", "\\x1b[31mred\\x7f\\x0a");
	safe_is("\xc2\x9b"
		"31m",
		"\\xc2\\x9b31m");
	safe_is("a\xff\x80z", "a\\xff\\x80z");
	safe_is("\xe2\x80\xae"
		"evil",
		"\\xe2\\x80\\xaeevil");
	safe_is("\xe2\x82", "\\xe2\\x82");
	safe_is("x\xef\xbb\xbfy\xf3\xa0\x81\x81", "x\\xef\\xbb\\xbfy\\xf3\\xa0\\x81\\x81");
}

/* The ends of each range of hidden characters, and their neighbours. */
static void test_hidden(void **state)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x1, 0x1f},	    {0x7f, 0x9f},	{0xad, 0xad},	    {0x34f, 0x34f},
		{0x61c, 0x61c},	    {0x115f, 0x1160},	{0x17b4, 0x17b5},   {0x180b, 0x180f},
		{0x200b, 0x200f},   {0x2028, 0x202e},	{0x2060, 0x206f},   {0x3164, 0x3164},
		{0xfe00, 0xfe0f},   {0xfeff, 0xfeff},	{0xffa0, 0xffa0},   {0xfff0, 0xfffb},
		{0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
	};

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		assert_true(i == 0 || !text_hidden(ranges[i].first - 1));
		for (uint32_t c = ranges[i].first; c <= ranges[i].last; c++)
			assert_true(text_hidden(c));
		assert_false(text_hidden(ranges[i].last + 1));
	}
	assert_false(text_hidden(' '));
	assert_false(text_hidden(0x1f980));
	assert_false(text_hidden(0x10ffff));
}

static void test_point(void **state)
{
	uint32_t point = 7;

	assert_int_equal(text_point("a", 1, &point), 1);
	assert_int_equal(point, 'a');
	assert_int_equal(text_point("\xf0\x9f\xa6\x80", 4, &point), 4);
	assert_int_equal(point, 0x1f980);
	assert_int_equal(text_point("\xf0\x9f\xa6\x80", 3, &point), 0);
	assert_int_equal(text_point("\xed\xa0\x80", 3, &point), 0);
	assert_int_equal(text_point("a", 0, &point), 0);
	assert_int_equal(point, 0x1f980);
}

static void duration_parses(const char *s, int want, uint64_t want_ns)
{
	uint64_t ns = 77;
	assert_int_equal(text_parse_duration(s, 1000000000, &ns), want);
	assert_true(ns == (want ? 77 : want_ns));
}

static void test_of_bytes(void **state)
{
	static const struct {
		char bytes[9];
		size_t length;
	} rows[] = {
		{"exploded", 8},
		{"no\n\t\033[0m", 8},
		{"\xc3\xa4\xc3\xb6", 4},
		/* cut in a character */
		{"abcde\xf0\x9f\xa6", 5},
		/* a cut elsewhere, no text, nothing */
		{"abc\xf0\x9f\xa6", 0},
		{"\xff\xff\xff\xff", 0},
		{"", 0},
		/* numbers: of 4 bytes each, a counter, a code */
		{"A\0\0\0B", 0},
		{"\1", 0},
		{"a\5", 0},
		{"a\x7f", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (text_of_bytes(rows[i].bytes, 8) != rows[i].length)
			fail_msg("row %zu: %zu", i, text_of_bytes(rows[i].bytes, 8));
	(void)state;
}

static void test_parse_duration(void **state)
{
	duration_parses("10", 0, 10000000000);
	duration_parses("10s", 0, 10000000000);
	duration_parses("0", 0, 0);
	duration_parses("250ms", 0, 250000000);
	duration_parses("1.5s", 0, 1500000000);
	duration_parses("0.000000001", 0, 1);
	duration_parses("0.12345678912345678912345", 0, 123456789);
	duration_parses("2m", 0, 120000000000);
	duration_parses("2min", 0, 120000000000);
	duration_parses("1h", 0, 3600000000000);
	duration_parses("80us", 0, 80000);
	duration_parses("80µs", 0, 80000);
	duration_parses("100ns", 0, 100);
	duration_parses("18446744073709551615ns", 0, UINT64_MAX);
	duration_parses("18446744073709551616ns", -EINVAL, 0);
	duration_parses("18446744073.709551616s", -EINVAL, 0);
	duration_parses("99999999999999999999999", -EINVAL, 0);
	duration_parses("", -EINVAL, 0);
	duration_parses("-1", -EINVAL, 0);
	duration_parses("+1", -EINVAL, 0);
	duration_parses(" 1", -EINVAL, 0);
	duration_parses("1.", -EINVAL, 0);
	duration_parses(".5", 0, 500000000);
	duration_parses(".25ms", 0, 250000);
	duration_parses(".", -EINVAL, 0);
	duration_parses(".s", -EINVAL, 0);
	duration_parses("s", -EINVAL, 0);
	duration_parses("1 s", -EINVAL, 0);
	duration_parses("1sx", -EINVAL, 0);
	duration_parses("1.5.5s", -EINVAL, 0);
}

static void bytes_parse(const char *s, int want, uint64_t want_bytes)
{
	uint64_t bytes = 77;
	assert_int_equal(text_parse_bytes(s, &bytes), want);
	assert_true(bytes == (want ? 77 : want_bytes));
}

static void test_parse_bytes(void **state)
{
	bytes_parse("4096", 0, 4096);
	bytes_parse("64K", 0, 65536);
	bytes_parse("64k", 0, 65536);
	bytes_parse("16M", 0, 16777216);
	bytes_parse("16MiB", 0, 16777216);
	bytes_parse("1G", 0, 1073741824);
	bytes_parse("2T", 0, 2199023255552);
	bytes_parse("16777215T", 0, 16777215ULL << 40);
	bytes_parse("16777216T", -EINVAL, 0);
	bytes_parse("18446744073709551615", 0, UINT64_MAX);
	bytes_parse("18446744073709551616", -EINVAL, 0);
	bytes_parse("", -EINVAL, 0);
	bytes_parse("K", -EINVAL, 0);
	bytes_parse("1X", -EINVAL, 0);
	bytes_parse("1KB", -EINVAL, 0);
	bytes_parse("1.5M", -EINVAL, 0);
	bytes_parse("-1", -EINVAL, 0);
}

static void number_parses(const char *s, int want, uint64_t want_number)
{
	uint64_t number = 77;

	assert_int_equal(text_parse_number(s, &number), want);
	assert_true(number == (want ? 77 : want_number));
}

static void test_parse_number(void **state)
{
	number_parses("0", 0, 0);
	number_parses("017", 0, 17);
	number_parses("0x1F", 0, 31);
	number_parses("18446744073709551615", 0, UINT64_MAX);
	for (const char *const *bad = (const char *const[]){"", "-1", "+1", " 1", "1 ", "1x5", "x",
							    "0x", "18446744073709551616", NULL};
	     *bad; bad++)
		number_parses(*bad, -EINVAL, 0);
}

static void rate_is(uint64_t n, uint64_t ns, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	text_rate(&b, n, ns);
	assert_string_equal(b.data, want);
}

/* Numbers from a stranger's trace pass no limit. */
static void test_rate(void **state)
{
	rate_is(500, 2000000000, "250");
	rate_is(7, 1000000, "7,000");
	rate_is(UINT64_MAX, 1000000000, "18.4 E");
	rate_is(UINT64_MAX, 1, "18.4 E");
	rate_is(3, 0, "3.00 G");
}

static void share_is(uint64_t part, uint64_t whole, const char *want, uint64_t percent)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	text_share(&b, part, whole);
	assert_string_equal(b.data, want);
	assert_int_equal(text_percent(part, whole), percent);
}

/* No part is more than the whole, whatever numbers a trace has. */
static void test_share(void **state)
{
	(void)state;
	share_is(1, 8, "12.5 %", 12);
	share_is(1, 3000, "< 0.1 %", 0);
	share_is(0, 8, "0.0 %", 0);
	share_is(7, 0, "-", 0);
	share_is(0, 0, "-", 0);
	share_is(8, 8, "100.0 %", 100);
	share_is(116, 100, "100.0 %", 100);
	share_is(UINT64_MAX, 1, "100.0 %", 100);
	share_is(UINT64_MAX / 2, UINT64_MAX, "50.0 %", 49);
}

static void shell_word_is(const char *s, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	text_shell_word(&b, s);
	assert_string_equal(b.data, want);
}

static void test_shell_word(void **state)
{
	shell_word_is("dir/trace-1.plx", "dir/trace-1.plx");
	shell_word_is("a b.plx", "'a b.plx'");
	shell_word_is("it's", "'it'\\''s'");
	shell_word_is("$(x)", "'$(x)'");
	shell_word_is("-x.plx", "'./-x.plx'");
	shell_word_is("", "''");
}

/* Whose a source file is, by its path. */
static void test_library_file(void **state)
{
	static const char *const libraries[] = {
		"/home/me/.cargo/registry/src/index.crates.io-1949/tokio-1.54.1/x.rs",
		"/rustc/0123/library/core/src/x.rs",
		"/home/me/shop/target/release/build/shop-0123456789abcdef/out/shop.rs",
	};
	static const char *const own[] = {
		"src/main.rs",
		"/home/me/build/shop/src/out/main.rs",
		"/home/me/build/shop-1/out/main.rs",
		"/home/me/build/shop-0123456789abcdef/src/out.rs",
		"/build/0123456789abcdef/out/main.rs",
		"/build/",
	};

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		assert_true(text_library_file(libraries[i]));
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		assert_false(text_library_file(own[i]));
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_share),	    cmocka_unit_test(test_library_file),
		cmocka_unit_test(test_duration),    cmocka_unit_test(test_count),
		cmocka_unit_test(test_bytes),	    cmocka_unit_test(test_safe),
		cmocka_unit_test(test_hidden),	    cmocka_unit_test(test_point),
		cmocka_unit_test(test_of_bytes),    cmocka_unit_test(test_parse_duration),
		cmocka_unit_test(test_parse_bytes), cmocka_unit_test(test_parse_number),
		cmocka_unit_test(test_shell_word),  cmocka_unit_test(test_rate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
