/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Errors: order of sentences, codes, cutting at the end, NULL. */
#include "base/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

static void test_story(void **state)
{
	struct error err = {0};

	assert_int_equal(error_set(&err, -EPERM, "ptrace is forbidden by %s", "yama"), -EPERM);
	assert_int_equal(error_add(&err, "cannot attach to %d", 4242), -EPERM);
	assert_string_equal(err.text, "cannot attach to 4242: ptrace is forbidden by yama");
	assert_int_equal(err.code, -EPERM);
}

static void test_sys(void **state)
{
	struct error err = {0};

	assert_int_equal(error_sys(&err, -ENOENT, "cannot open %s", "x"), -ENOENT);
	assert_string_equal(err.text, "cannot open x: No such file or directory");
}

static void test_null(void **state)
{
	assert_int_equal(error_set(NULL, -EPERM, "x"), -EPERM);
	assert_int_equal(error_sys(NULL, -EPERM, "x"), -EPERM);
	assert_int_equal(error_add(NULL, "x"), -EIO);
}

static void test_add_without_cause(void **state)
{
	struct error err = {0};

	assert_int_equal(error_add(&err, "odd"), -EIO);
	assert_string_equal(err.text, "odd");
}

static void test_arguments_may_be_own_text(void **state)
{
	struct error err = {0};

	error_set(&err, -EIO, "inner");
	error_set(&err, -EPERM, "outer (%s)", err.text);
	assert_string_equal(err.text, "outer (inner)");
	error_add(&err, "again (%s)", err.text);
	assert_string_equal(err.text, "again (outer (inner)): outer (inner)");
}

static void test_cut(void **state)
{
	struct error err = {0};
	char deep[sizeof(err.text)];

	memset(deep, 'a', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = 0;
	error_set(&err, -EIO, "%s%s", deep, deep);
	assert_string_equal(err.text, deep);
	error_add(&err, "outermost");
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_memory_equal(err.text, "outermost: aaa", 14);
	error_sys(&err, -EIO, "%s", deep);
	assert_string_equal(err.text, deep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_story),
		cmocka_unit_test(test_sys),
		cmocka_unit_test(test_null),
		cmocka_unit_test(test_add_without_cause),
		cmocka_unit_test(test_arguments_may_be_own_text),
		cmocka_unit_test(test_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
