/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The threads that all sources of a recording share; names of system calls. */
#include "base/syscalls.h"
#include "capture/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000000ull

static char path[] = "/tmp/pollux-threads-XXXXXX";

static void test_one_record_for_all(void **state)
{
	struct trace_writer *w = *state;
	struct capture_threads *t = capture_threads_new(w);
	struct capture_thread *a, *b;
	uint32_t stream = 0;
	size_t i = 0;

	assert_null(capture_threads_find(t, 0, 1));
	a = capture_threads_get(t, 0, 1, "");
	assert_ptr_equal(capture_threads_get(t, 0, 1, "main"), a);
	assert_ptr_equal(capture_threads_find(t, 0, 1), a);
	b = capture_threads_get(t, 1, 1, "other process");
	assert_ptr_not_equal(a, b);
	assert_int_not_equal(a->index, b->index);
	assert_int_equal(capture_threads_stream(t, a, &stream), 0);
	assert_int_not_equal(stream, a->index);
	assert_ptr_equal(capture_threads_next(t, &i), a);
	assert_ptr_equal(capture_threads_next(t, &i), b);
	assert_null(capture_threads_next(t, &i));
	capture_threads_free(t);
}

/* A tid comes again: late sources get the thread that has ended, its successor is another one. */
static void test_end(void **state)
{
	struct capture_threads *t = capture_threads_new(*state);
	struct capture_thread *a = capture_threads_begin(t, 0, 7, "first"), *b;
	uint32_t first = a->index;
	size_t i = 0;

	assert_ptr_equal(capture_threads_begin(t, 0, 7, "first"), a);
	capture_threads_end(a);
	assert_null(capture_threads_next(t, &i));
	assert_int_equal(capture_threads_get(t, 0, 7, "")->index, first);
	b = capture_threads_begin(t, 0, 7, "second");
	assert_int_not_equal(b->index, first);
	capture_threads_free(t);
}

static void test_tidy(void **state)
{
	struct capture_threads *t = capture_threads_new(*state);
	struct capture_thread *here = capture_threads_get(t, 0, (uint32_t)getpid(), "");

	capture_threads_get(t, 0, UINT32_MAX, "never was");
	capture_threads_tidy(t, 10 * SECOND);
	assert_non_null(capture_threads_find(t, 0, UINT32_MAX));
	capture_threads_tidy(t, 10 * SECOND + 1); /* too soon */
	assert_non_null(capture_threads_find(t, 0, UINT32_MAX));
	capture_threads_tidy(t, 12 * SECOND);
	assert_null(capture_threads_find(t, 0, UINT32_MAX));
	assert_ptr_equal(capture_threads_find(t, 0, (uint32_t)getpid()), here);
	capture_threads_free(t);
}

static void test_syscall_names(void **state)
{
	assert_string_equal(syscall_name(0), "read");
	assert_string_equal(syscall_name(202), "futex");
	assert_null(syscall_name(100000));
	assert_int_equal(syscall_number("futex"), 202);
	assert_int_equal(syscall_number("no such call"), -1);
}

static int open_writer(void **state)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return -1;
	close(fd);
	return trace_writer_open(path, (struct trace_writer **)state, NULL);
}

static int close_writer(void **state)
{
	unlink(path);
	return trace_writer_close(*state, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_record_for_all),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_tidy),
		cmocka_unit_test(test_syscall_names),
	};

	return cmocka_run_group_tests(tests, open_writer, close_writer);
}
