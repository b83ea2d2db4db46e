/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The log: off until a domain is asked for, one safe line per call. */
#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int evaluated;

static int count(void)
{
	return ++evaluated;
}

static void test_off_evaluates_nothing(void **state)
{
	log_debug(LOG_ATTACH, "%d", count());
	assert_int_equal(evaluated, 0);
}

static void test_unknown_domain_turns_on_nothing(void **state)
{
	assert_int_equal(log_enable("attach,fnid"), -EINVAL);
	assert_int_equal(log_enable(""), -EINVAL);
	assert_int_equal(log_enable("attach,"), -EINVAL);
	assert_int_equal(log_domains, 0);
}

static void test_all_turns_on_each(void **state)
{
	char names[] = LOG_DOMAINS;
	unsigned n = 0;

	assert_int_equal(log_enable("all"), 0);
	for (unsigned i = 0; i < LOG_N; i++)
		assert_true(log_on(i));
	/* Help names each of them. */
	for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "), n++) {
		assert_int_equal(log_enable(name), 0);
		assert_int_equal(log_domains, n < LOG_N ? 1u << n : (1u << LOG_N) - 1);
	}
	assert_int_equal(n, LOG_N + 1);
	log_domains = 0;
}

static void test_lines_of_chosen_domains(void **state)
{
	FILE *out = tmpfile();
	int saved = dup(STDERR_FILENO);
	char text[256] = "";

	assert_non_null(out);
	fflush(stderr);
	dup2(fileno(out), STDERR_FILENO);
	assert_int_equal(log_enable("attach,debug"), 0);
	log_debug(LOG_ATTACH, "object %s", "/tmp/\033[2Jx");
	log_debug(LOG_FIND, "%d", count());
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	log_domains = 0;
	rewind(out);
	assert_non_null(fgets(text, sizeof(text), out));
	assert_int_equal(strncmp(text, "pollux: attach ", 15), 0);
	assert_non_null(strstr(text, " ms: object /tmp/"));
	assert_null(strchr(text, '\033'));
	assert_null(fgets(text, sizeof(text), out));
	assert_int_equal(evaluated, 0);
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_off_evaluates_nothing),
		cmocka_unit_test(test_unknown_domain_turns_on_nothing),
		cmocka_unit_test(test_all_turns_on_each),
		cmocka_unit_test(test_lines_of_chosen_domains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
