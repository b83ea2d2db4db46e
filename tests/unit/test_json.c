/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* JSON: commas and nesting, both layouts, escapes at every position, UTF-8 good and bad. */
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_sample(struct json *j)
{
	json_object(j, NULL);
	json_u64(j, "n", UINT64_MAX);
	json_i64(j, "i", INT64_MIN);
	json_array(j, "list");
	json_string(j, NULL, "a");
	json_string(j, NULL, NULL);
	json_object(j, NULL);
	json_end_object(j);
	json_array(j, NULL);
	json_end_array(j);
	json_bool(j, NULL, false);
	json_end_array(j);
	json_double(j, "d", 0.5);
	json_bool(j, "b", true);
	json_end_object(j);
}

static void test_compact(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	json_init(&j, &b, false);
	write_sample(&j);
	assert_string_equal(b.data, "{\"n\":18446744073709551615,\"i\":-9223372036854775808,"
				    "\"list\":[\"a\",null,{},[],false],\"d\":0.5,\"b\":true}");
}

static void test_pretty(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct json j;

	json_init(&j, &b, true);
	write_sample(&j);
	assert_string_equal(b.data, "{\n"
				    "  \"n\": 18446744073709551615,\n"
				    "  \"i\": -9223372036854775808,\n"
				    "  \"list\": [\n"
				    "    \"a\",\n"
				    "    null,\n"
				    "    {},\n"
				    "    [],\n"
				    "    false\n"
				    "  ],\n"
				    "  \"d\": 0.5,\n"
				    "  \"b\": true\n"
				    "}");
}

static void test_doubles(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {
		{0, "0"},
		{1.1, "1.1"},
		{-2.5, "-2.5"},
		{1e300, "1e+300"},
		{0.1 + 0.2, "0.30000000000000004"},
		{NAN, "null"},
		{INFINITY, "null"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT;
		struct json j;
		json_init(&j, &b, false);
		json_double(&j, NULL, cases[i].v);
		assert_string_equal(b.data, cases[i].text);
	}
}

static void quote_is(const char *s, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	char padded[200], padded_want[300];

	/* At every position of the eight-byte steps. */
	for (int before = 0; before < 18; before++) {
		for (int after = 0; after < 18; after += 5) {
			snprintf(padded, sizeof(padded), "%.*s%s%.*s", before, "..................",
				 s, after, "..................");
			snprintf(padded_want, sizeof(padded_want), "\"%.*s%s%.*s\"", before,
				 "..................", want, after, "..................");
			buf_clear(&b);
			json_quote(&b, padded);
			assert_string_equal(b.data, padded_want);
		}
	}
}

static void test_quote(void **state)
{
	quote_is("", "");
	quote_is("plain text ~", "plain text ~");
	quote_is("\"", "\\\"");
	quote_is("\\", "\\\\");
	quote_is("\n\t\r", "\\n\\t\\r");
	quote_is("\x01\x1f\x7f", "\\u0001\\u001f\\u007f");
	quote_is("!\"#[\\]", "!\\\"#[\\\\]");
	quote_is("µs → 🦀", "µs → 🦀");
}

/* Hidden characters: the first and the last of each range, and their neighbours. */
static const struct {
	const char *s, *json, *shown;
} hidden[] = {
	{"\x1b[31m", "\\u001b[31m", "\\\\x1b[31m"},
	{"\xc2\x80", "\\u0080", "\\\\xc2\\\\x80"},
	{"\xc2\x9b", "\\u009b", "\\\\xc2\\\\x9b"},
	{"\xc2\x9f", "\\u009f", "\\\\xc2\\\\x9f"},
	{"\xc2\xa0", "\xc2\xa0", "\xc2\xa0"},
	{"\xd8\x9c", "\\u061c", "\\\\xd8\\\\x9c"},
	{"\xe2\x80\xae", "\\u202e", "\\\\xe2\\\\x80\\\\xae"},
	{"\xef\xbb\xbf", "\\ufeff", "\\\\xef\\\\xbb\\\\xbf"},
	{"\xf3\xa0\x80\x80", "\\udb40\\udc00", "\\\\xf3\\\\xa0\\\\x80\\\\x80"},
	{"\xf3\xa0\x81\xbf", "\\udb40\\udc7f", "\\\\xf3\\\\xa0\\\\x81\\\\xbf"},
	{"\xf3\xa1\x80\x80", "\xf3\xa1\x80\x80", "\xf3\xa1\x80\x80"},
};

static void test_quote_hidden(void **state)
{
	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT;
		struct json j;
		char want[80];

		quote_is(hidden[i].s, hidden[i].json);
		json_init(&j, &b, false);
		j.shown = true;
		json_string(&j, NULL, hidden[i].s);
		snprintf(want, sizeof(want), "\"%s\"", hidden[i].shown);
		assert_string_equal(b.data, want);
		buf_clear(&b);
		json_quote_shown(&b, hidden[i].s);
		assert_string_equal(b.data, want);
	}
	_cleanup_buf_ struct buf b = BUF_INIT;
	json_quote_shown(&b, "a\nb\t\"\\\r");
	assert_string_equal(b.data, "\"a\\nb\\t\\\"\\\\\\r\"");
}

static void test_quote_bad_utf8(void **state)
{
	quote_is("\x80", "\xef\xbf\xbd");
	quote_is("\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd");
	quote_is("\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd");		  /* overlong */
	quote_is("\xe0\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* overlong */
	quote_is("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* surrogate */
	quote_is("\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
	quote_is("\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"); /* cut */
	quote_is("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
}

/* Every single byte, alone: valid JSON has no control byte and no stray quote. */
static void test_every_byte(void **state)
{
	for (int c = 1; c < 256; c++) {
		_cleanup_buf_ struct buf b = BUF_INIT;
		json_quote(&b, (char[]){(char)c, 0});
		assert_true(b.len >= 3 && b.data[0] == '"' && b.data[b.len - 1] == '"');
		for (size_t i = 0; i < b.len; i++)
			assert_true((unsigned char)b.data[i] >= 0x20);
		if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
			assert_int_equal(b.len, 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compact),	     cmocka_unit_test(test_pretty),
		cmocka_unit_test(test_doubles),	     cmocka_unit_test(test_quote),
		cmocka_unit_test(test_quote_hidden), cmocka_unit_test(test_quote_bad_utf8),
		cmocka_unit_test(test_every_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
