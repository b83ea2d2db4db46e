/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Text that is shortened or broken so that it fits, also with characters of other widths. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/text.h"
#include "base/text_fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_width(void **state)
{
	static const struct {
		const char *text;
		size_t width;
	} rows[] = {
		{"", 0},
		{"abc", 3},
		{"日本", 4},
		{"ﾆﾎﾝ", 3}, /* half-width */
		{"한국", 4},
		{"e\xcc\x81", 1},		 /* combining acute */
		{"\xe0\xb8\x81\xe0\xb8\xb4", 1}, /* Thai with a vowel above */
		{"🦀", 2},
		{"🛑 stop", 7},
		{"│└ •…µ×", 7},
		{"\x1b[1mbold\x1b[0m", 4},
		{"\xff", 1}, /* no character */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(text_width(rows[i].text), rows[i].width);
}

static void shorten_is(const char *text, size_t width, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	text_shorten(&b, text, width);
	assert_string_equal(b.data ? b.data : "", want);
	assert_true(text_width(b.data ? b.data : "") <= width);
}

static void test_shorten(void **state)
{
	static const char serve[] = "axum::serve::Serve<tokio::net::TcpListener, "
				    "axum::Router<app::State>>::into_future::{closure}";

	shorten_is("shop::serve", 20, "shop::serve");
	shorten_is("shop::serve", 11, "shop::serve");
	shorten_is("abc", 1, "…");
	shorten_is("abc", 0, "");
	shorten_is("日本語日本語", 7, "日…本語");
	shorten_is("日本語日本語", 6, "日…語");
	shorten_is("e\xcc\x81"
		   "abcdef",
		   4,
		   "e\xcc\x81"
		   "…ef");

	shorten_is(serve, 93, serve);
	shorten_is(serve, 92,
		   "axum::serve::Serve<TcpListener, Router<State>>::into_future::{closure}");
	shorten_is(serve, 69, "axum::serve::Serve<TcpListener, Router<…>>::into_future::{closure}");
	shorten_is(serve, 60, "axum::serve::Serve<…>::into_future::{closure}");
	shorten_is(serve, 44, "axum::…::Serve<…>::into_future::{closure}");
	shorten_is(serve, 38, "axum::…::into_future::{closure}");
	shorten_is(serve, 30, "…::into_future::{closure}");
	shorten_is(serve, 16, "…::into_future");
	shorten_is(serve, 12, "into_future");
	shorten_is(serve, 10, "int…future");
	shorten_is("../src/service/work.rs:42 service::work::take_item", 48,
		   "…/work.rs:42 service::work::take_item");

	/* A short argument says more than the way to the function. */
	shorten_is("axum::handler::call<service::order>", 30, "axum::handler::call<order>");
	shorten_is("axum::handler::call<service::order>", 24, "axum::…::call<order>");
	shorten_is("axum::handler::call<service::order>", 16, "axum::…::call<…>");

	shorten_is("tokio-1.38.0/src/io/util/copy.rs:7 tokio::io::util::copy", 56,
		   "tokio-1.38.0/src/io/util/copy.rs:7 tokio::io::util::copy");
	shorten_is("tokio-1.38.0/src/io/util/copy.rs:7 tokio::io::util::copy", 50,
		   "tokio-1.38.0/…/copy.rs:7 tokio::io::util::copy");
	shorten_is("tokio-1.38.0/src/io/util/copy.rs:7 tokio::io::util::copy", 20,
		   "…/copy.rs:7 …::copy");
	shorten_is("src/main.rs:3 app::main", 20, "…/main.rs:3 …::main");
	shorten_is("axum connection › order", 23, "axum connection › order");
	shorten_is("axum connection › order", 16, "› order");
	shorten_is("axum connection › svc::order", 20, "› svc::order");
	/* The name of a thread is no path. */
	shorten_is("tokio-runtime-worker/4243", 16, "tokio-…rker/4243");

	/* Not what a compiler writes. */
	shorten_is("a<<<b", 4, "a…<b");
	shorten_is(">>>>>>", 4, ">…>>");
	shorten_is("fn(a::b) -> c::d<e::f>", 19, "fn(a::b) -> c::d<f>");
}

static uint32_t seed = 1;

static uint32_t any(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static void random_text(struct buf *b, unsigned pieces)
{
	static const char *const some[] = {
		"::",	     "<",
		">",	     "/",
		".",	     " ",
		",",	     "a",
		"bc",	     "日",
		"🦀",	     "{closure#0}",
		"e\xcc\x81", "->",
		"12",	     "(",
		")",	     "\xff",
		"│ ",	     "└ ",
		"• ",	     "src/main.rs:3",
		"app::main", "&",
		"  ",
	};

	buf_clear(b);
	for (unsigned n = any(pieces); n; n--)
		buf_str(b, some[any(sizeof(some) / sizeof(some[0]))]);
	buf_str(b, "");
}

static void test_shorten_any(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT, one = BUF_INIT;

	for (unsigned i = 0; i < 20000; i++) {
		size_t width = any(60);

		random_text(&text, 40);
		buf_clear(&one);
		text_shorten(&one, text.data ? text.data : "", width);
		assert_true(text_width(one.data ? one.data : "") <= width);
		if (text.data && text_width(text.data) <= width)
			assert_string_equal(one.data ? one.data : "", text.data);
		buf_clear(&one);
		text_shorten_from(&one, text.data ? text.data : "", text.len ? any(text.len) : 0,
				  width);
		assert_true(text_width(one.data ? one.data : "") <= width);
	}
}

/* A stranger's name may be as deep as it is long. */
static void test_shorten_deep(void **state)
{
	enum { DEPTH = 50000 };
	_cleanup_buf_ struct buf text = BUF_INIT, one = BUF_INIT;

	for (unsigned i = 0; i < DEPTH; i++)
		buf_str(&text, "a<");
	for (unsigned i = 0; i < DEPTH; i++)
		buf_str(&text, ">");
	text_shorten(&one, text.data, 40);
	assert_true(text_width(one.data) <= 40);
}

static void wrap_is(const char *text, unsigned width, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	buf_str(&b, text);
	text_wrap(&b, width);
	assert_string_equal(b.data, want);
}

static void test_wrap(void **state)
{
	wrap_is("one two three\n", 13, "one two three\n");
	wrap_is("one two three\n", 10, "one two\n  three\n");
	wrap_is("one two three\n", 0, "one two three\n");
	wrap_is("  • took 12 ms, all\n", 12, "  • took\n    12 ms,\n    all\n");
	wrap_is("  ├ one two three\n", 12, "  ├ one two\n  │ three\n");
	wrap_is("  └ one two three\n", 12, "  └ one two\n    three\n");
	wrap_is("abcdefghijkl\n", 5, "abcde\n  fgh\n  ijk\n  l\n");
	wrap_is("日本語日本語\n", 5, "日本\n  語\n  日\n  本\n  語\n");
	wrap_is("\x1b[1mone\x1b[0m two\n", 7, "\x1b[1mone\x1b[0m two\n");
	wrap_is("no end of line", 7, "no end\n  of\n  line");
}

/* Lines are not wider, and nothing but blanks and branches comes or goes. */
static void test_wrap_any(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT, whole = BUF_INIT;

	for (unsigned i = 0; i < 5000; i++) {
		unsigned width = 6 + any(60);
		const char *at, *from;

		random_text(&text, 200);
		buf_clear(&whole);
		buf_add(&whole, text.data, text.len);
		text_wrap(&text, width);
		for (char *line = text.data; line && *line;) {
			char *end = strchrnul(line, '\n');
			char save = *end;

			*end = 0;
			assert_true(text_width(line) <= width);
			*end = save;
			line = *end ? end + 1 : end;
		}
		from = whole.data;
		for (at = text.data; at && *at; at++) {
			if (*at == ' ' || *at == '\n' || !strncmp(at, "│", 3) ||
			    !strncmp(at, "└", 3) || !strncmp(at, "•", 3)) {
				at += *at == ' ' || *at == '\n' ? 0 : 2;
				continue;
			}
			while (*from == ' ' || !strncmp(from, "│", 3) || !strncmp(from, "└", 3) ||
			       !strncmp(from, "•", 3))
				from += *from == ' ' ? 1 : 3;
			assert_int_equal(*at, *from);
			from++;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_width),	    cmocka_unit_test(test_shorten),
		cmocka_unit_test(test_shorten_any), cmocka_unit_test(test_shorten_deep),
		cmocka_unit_test(test_wrap),	    cmocka_unit_test(test_wrap_any),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
