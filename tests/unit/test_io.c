/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reading and writing to the end, however small the parts; and what qsort() compares by. */
#include "base/compare.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES (1u << 20) /* more than a pipe takes */

/* A pipe gives and takes some of it at a time. */
static void test_pipe(void **state)
{
	char *in = malloc(BYTES), *out = malloc(BYTES + 1);
	int fds[2], status;
	pid_t child;

	for (size_t i = 0; i < BYTES; i++)
		in[i] = (char)(i * 7);
	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(fds[0]);
		_exit(io_write(fds[1], in, BYTES) == 0 ? 0 : 1);
	}
	close(fds[1]);
	assert_int_equal(io_read(fds[0], out, BYTES + 1), BYTES);
	assert_memory_equal(in, out, BYTES);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(fds[0]);
	free(in);
	free(out);
}

static void test_file(void **state)
{
	char path[] = "/tmp/pollux-io-XXXXXX", text[8] = "";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(io_write_at(fd, "world", 5, 6), 0);
	assert_int_equal(io_write_at(fd, "hello ", 6, 0), 0);
	assert_int_equal(io_read_at(fd, text, 5, 6), 5);
	assert_string_equal(text, "world");
	assert_int_equal(io_read_at(fd, text, 5, 8), 3);
	assert_int_equal(io_read_at(fd, text, 5, 100), 0);
	close(fd);
}

static void test_errors(void **state)
{
	int fds[2];
	char byte;

	assert_int_equal(io_read(-1, &byte, 1), -EBADF);
	assert_int_equal(io_read_at(-1, &byte, 1, 0), -EBADF);
	assert_int_equal(io_write(-1, "a", 1), -EBADF);
	assert_int_equal(io_write_at(-1, "a", 1, 0), -EBADF);
	assert_int_equal(io_write(-1, "", 0), 0);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	assert_int_equal(io_write(fds[1], "a", 1), -EPIPE);
	close(fds[1]);
}

struct pair {
	uint32_t a;
	uint64_t b;
};

static int by_b_then_a(const void *va, const void *vb)
{
	const struct pair *x = va, *y = vb;

	return DESCENDING(x->b, y->b) ?: ASCENDING(x->a, y->a);
}

static void test_compare(void **state)
{
	struct pair pairs[] = {{2, 1}, {1, UINT64_MAX}, {0, UINT64_MAX}, {1, 1}, {9, 0}};
	const uint32_t sorted[] = {0, 1, 1, 2, 9};
	uint64_t numbers[] = {UINT64_MAX, 0, 1ULL << 63, 5};

	qsort(pairs, 5, sizeof(pairs[0]), by_b_then_a);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(pairs[i].a, sorted[i]);
	qsort(numbers, 4, sizeof(numbers[0]), compare_u64);
	for (size_t i = 1; i < 4; i++)
		assert_true(numbers[i - 1] < numbers[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
