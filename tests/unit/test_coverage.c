/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Lists of coverage: rows are copies, and what was made of a note that was formatted. */
#include "trace/coverage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static void rows_are_copies_in_order(void **state)
{
	struct coverage_list l = {0};
	char item[] = "spawn sites", note[] = "too short";
	struct trace_coverage *row;

	(void)state;
	row = coverage_add(&l, item, 3, 5, note);
	assert_non_null(row);
	row->runtime = "tokio";
	memset(item, 'x', sizeof(item) - 1);
	memset(note, 'x', sizeof(note) - 1);
	assert_non_null(coverage_add(&l, "wakers", 1, 1, NULL));
	for (unsigned i = 0; i < 20; i++)
		assert_non_null(coverage_addf(&l, "names", i, 20, "%u of %s", i, "them"));
	assert_int_equal(coverage_result(&l), 0);
	assert_int_equal(l.n, 22);
	assert_string_equal(l.v[0].item, "spawn sites");
	assert_string_equal(l.v[0].note, "too short");
	assert_string_equal(l.v[0].runtime, "tokio");
	assert_int_equal(l.v[0].seen, 3);
	assert_int_equal(l.v[0].total, 5);
	assert_string_equal(l.v[1].note, "");
	assert_null(l.v[1].runtime);
	assert_string_equal(l.v[21].note, "19 of them");
	coverage_done(&l);
	assert_int_equal(l.n, 0);
}

/* Rows that could be added stay; the end knows that one is missing. */
static void a_missing_row_is_reported_at_the_end(void **state)
{
	struct coverage_list l = {.failed = true};

	(void)state;
	assert_non_null(coverage_add(&l, "wakers", 1, 1, ""));
	assert_int_not_equal(coverage_result(&l), 0);
	coverage_done(&l);
	assert_int_equal(coverage_result(&l), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_copies_in_order),
		cmocka_unit_test(a_missing_row_is_reported_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
