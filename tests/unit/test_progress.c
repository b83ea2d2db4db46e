/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The line on a terminal that says what takes long. */
#include "cli/cli.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Stderr is a terminal while this runs; what was written to it. */
static void written(long ms, char *ret, size_t size)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), before = dup(STDERR_FILENO),
	    end;
	size_t len = 0;
	ssize_t n;

	assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
	end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	assert_true(end >= 0 && dup2(end, STDERR_FILENO) == STDERR_FILENO);
	cli_slow_begin("looking into", "a\x1b[2Jb");
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
	cli_slow_end();
	fputc('.', stderr);
	fflush(stderr);
	/* A terminal hands on what it got piece by piece, and some time later. */
	while (len + 1 < size && !memchr(ret, '.', len)) {
		struct pollfd one = {.fd = terminal, .events = POLLIN};

		assert_int_equal(poll(&one, 1, 10000), 1);
		n = read(terminal, ret + len, size - 1 - len);
		assert_true(n > 0);
		len += (size_t)n;
	}
	ret[len] = 0;
	dup2(before, STDERR_FILENO);
	close(before);
	close(end);
	close(terminal);
}

static void test_slow(void **state)
{
	char text[256];

	(void)state;
	written(2500, text, sizeof(text));
	assert_string_equal(text, "\r\033[Klooking into a\\x1b[2Jb\r\033[K.");
}

static void test_no_terminal(void **state)
{
	int before = dup(STDERR_FILENO), ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
	dup2(ends[1], STDERR_FILENO);
	cli_slow_begin("looking into", "it");
	nanosleep(&(struct timespec){1, 500000000}, NULL);
	cli_slow_end();
	fflush(stderr);
	dup2(before, STDERR_FILENO);
	assert_int_equal(read(ends[0], &byte, 1), -1);
	close(before);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_no_terminal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
