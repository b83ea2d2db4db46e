/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Tables fit, lose what says the same in all rows, and have no two rows that read the same. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/text_fit.h"
#include "report/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct table_column columns[] = {
	{.title = "name", .min_width = 12, .align_left = true},
	{.title = "role", .rank = 3, .align_left = true},
	{.title = "n"},
	{.title = "time", .rank = 1},
	{.title = "place", .rank = 2, .min_width = 10, .align_left = true},
};

static void table_is(const char *const *cells, size_t n, unsigned width, const char *want)
{
	_cleanup_buf_ struct buf b = BUF_INIT;
	struct table t;

	table_init(&t, columns, 5);
	for (size_t i = 0; i < n; i++)
		table_cell(&t, cells[i]);
	table_write(&t, &b, width, 2, NULL, NULL);
	table_done(&t);
	assert_string_equal(b.data, want);
}

static void test_equal_columns(void **state)
{
	static const char *const cells[] = {
		"app::a", "task", "1", "0 ns", "", "app::b", "task", "2", "0 ns", "",
	};

	table_is(cells, 10, 80,
		 "  name    n\n"
		 "  app::a  1\n"
		 "  app::b  2\n"
		 "  in all rows: role task, time 0 ns\n");
	/* One row says it as it is, and without a limit all columns are there. */
	table_is(cells, 5, 80,
		 "  name    role  n  time\n"
		 "  app::a  task  1  0 ns\n");
	table_is(cells, 10, 0,
		 "  name    role  n  time  place\n"
		 "  app::a  task  1  0 ns\n"
		 "  app::b  task  2  0 ns\n");
}

static void test_names_first(void **state)
{
	static const char *const cells[] = {
		"application::module::first",  "task", "1", "10 ns", "src/a.rs:1 app::main",
		"application::module::second", "root", "2", "20 ns", "src/b.rs:2 app::main",
	};

	table_is(cells, 10, 100,
		 "  name                         role  n   time  place\n"
		 "  application::module::first   task  1  10 ns  src/a.rs:1 app::main\n"
		 "  application::module::second  root  2  20 ns  src/b.rs:2 app::main\n");
	table_is(cells, 10, 50,
		 "  name                        n   time  place\n"
		 "  application::module::first  1  10 ns  …/a…::main\n"
		 "  application::…::second      2  20 ns  …/b…::main\n");
	table_is(cells, 10, 20,
		 "  name             n\n"
		 "  …::first         1\n"
		 "  …::second        2\n");
}

static void test_distinguished(void **state)
{
	static const char *const cells[] = {
		"shop::work::store::resize", "task", "1", "1 ns", "a",
		"shop::work::share::resize", "task", "1", "1 ns", "a",
		"shop::work::share::resize", "root", "1", "1 ns", "b",
	};

	/* What was cut from the second differs; the third differs in a column that went. */
	table_is(cells, 10, 20,
		 "  name             n\n"
		 "  …store::resize   1\n"
		 "  …share::resize   1\n"
		 "  in all rows: role task, time 1 ns, place a\n");
	table_is(cells + 5, 10, 20,
		 "  name             n\n"
		 "  …::resize #1     1\n"
		 "  …::resize #2     1\n"
		 "  in all rows: time 1 ns\n");
}

/* Names that were cut to one text are two, whatever else their rows say. */
static void test_cut_alike(void **state)
{
	static const char *const cells[] = {
		"shop::work::store::resize", "task", "1", "1 ns", "a",
		"shop::work::share::resize", "task", "2", "1 ns", "a",
		"shop::work::share::resize", "task", "3", "1 ns", "a",
		"shop::work::start::main",   "task", "4", "1 ns", "a",
	};

	(void)state;
	table_is(cells, 10, 20,
		 "  name             n\n"
		 "  …::resize #1     1\n"
		 "  …::resize #2     2\n"
		 "  in all rows: role task, time 1 ns, place a\n");
	/* Of one name there are two rows: their numbers say which is which. */
	table_is(cells + 5, 10, 20,
		 "  name             n\n"
		 "  shop::…::resize  2\n"
		 "  shop::…::resize  3\n"
		 "  in all rows: role task, time 1 ns, place a\n");
	table_is(cells, 20, 20,
		 "  name             n\n"
		 "  …::resize #1     1\n"
		 "  …::resize #2     2\n"
		 "  …::resize #3     3\n"
		 "  shop::…::main    4\n"
		 "  in all rows: role task, time 1 ns, place a\n");
}

static uint32_t seed = 7;

static uint32_t any(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void test_any(void **state)
{
	static const char *const parts[] = {"shop",	   "work",    "日本",
					    "serve",	   "x",	      "a_long_module_name",
					    "{closure#0}", "call<T>", "call<shop::Order<u8>>",
					    "🦀"};

	for (unsigned i = 0; i < 3000; i++) {
		unsigned width = 20 + any(150), rows = 1 + any(20), n = 0;
		_cleanup_buf_ struct buf b = BUF_INIT;
		char *lines[64];
		struct table t;

		table_init(&t, columns, 5);
		for (unsigned k = 0; k < rows * 5; k++) {
			_cleanup_buf_ struct buf cell = BUF_INIT;

			for (unsigned m = k % 5 == 0 || k % 5 == 4 ? 1 + any(6) : 1; m; m--)
				buf_printf(&cell, "%s%s", cell.len ? "::" : "", parts[any(10)]);
			table_cell(&t, k % 5 == 2 ? "1" : cell.data);
		}
		table_write(&t, &b, width, 2, NULL, NULL);
		table_done(&t);
		for (char *line = strtok(b.data, "\n"); line; line = strtok(NULL, "\n")) {
			if (strstr(line, "in all rows"))
				continue;
			assert_true(text_width(line) <= width);
			lines[n++] = line;
		}
		assert_int_equal(n, rows + 1);
		qsort(lines, n, sizeof(*lines), compare);
		for (unsigned k = 1; k < n; k++)
			assert_string_not_equal(lines[k - 1], lines[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_columns), cmocka_unit_test(test_names_first),
		cmocka_unit_test(test_distinguished), cmocka_unit_test(test_cut_alike),
		cmocka_unit_test(test_any),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
