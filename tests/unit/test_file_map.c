/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files as memory: which may be mapped, and what a cut one reads as. */
#include "base/file_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 8u
#define PAGE 4096u

static int make_file(mode_t mode)
{
	char name[] = "/tmp/pollux-map-XXXXXX";
	int fd = mkstemp(name);
	uint8_t page[PAGE];

	assert_true(fd >= 0);
	memset(page, 'x', sizeof(page));
	for (unsigned i = 0; i < PAGES; i++)
		assert_int_equal(write(fd, page, sizeof(page)), PAGE);
	assert_int_equal(fchmod(fd, mode), 0);
	unlink(name);
	return fd;
}

static void test_whose(void **state)
{
	struct file_map m = {0};
	int fd = make_file(0600), other;

	assert_int_equal(file_map_open(fd, &m), 0);
	assert_int_equal(m.len, PAGES * PAGE);
	assert_int_equal(m.data[PAGES * PAGE - 1], 'x');
	assert_false(file_map_damaged(&m));
	file_map_close(&m);
	assert_null(m.data);
	close(fd);

	fd = make_file(0602); /* others may write */
	assert_int_equal(file_map_open(fd, &m), -EPERM);
	close(fd);
	if (geteuid() == 0) {
		fd = make_file(0600);
		assert_int_equal(fchown(fd, 12345, 12345), 0); /* another's */
		assert_int_equal(file_map_open(fd, &m), -EPERM);
		assert_int_equal(fchown(fd, 0, 12345), 0);
		assert_int_equal(fchmod(fd, 0660), 0); /* a group that isn't the owner's */
		assert_int_equal(file_map_open(fd, &m), -EPERM);
		close(fd);
	}
	other = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(file_map_open(other, &m), -EINVAL);
	close(other);
}

static void *read_all(void *arg)
{
	const struct file_map *m = arg;
	size_t sum = 0;

	for (size_t i = 0; i < m->len; i++)
		sum += m->data[i];
	return (void *)sum;
}

/* What is cut while it is mapped reads as zeros, on any thread, also one without signals; the maps
 * next to it are not touched. */
static void test_cut(void **state)
{
	int fd = make_file(0600), beside = make_file(0600);
	struct file_map m, n;
	pthread_t threads[2];
	sigset_t before;

	assert_int_equal(file_map_open(fd, &m), 0);
	assert_int_equal(file_map_open(beside, &n), 0);
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	assert_int_equal(m.data[PAGE], 'x');
	file_map_block_signals(&before);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_all, &m), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (int i = 0; i < 2; i++) {
		void *sum;

		pthread_join(threads[i], &sum);
		assert_int_equal((size_t)sum, 2 * PAGE * 'x');
	}
	assert_true(file_map_damaged(&m));
	/* Zeros in the place of what was cut stay zeros when the pages are read again. */
	assert_int_equal(madvise((void *)(uintptr_t)m.data, m.len, MADV_DONTNEED), 0);
	assert_int_equal(m.data[PAGE], 'x');
	assert_int_equal(m.data[3 * PAGE], 0);
	assert_false(file_map_damaged(&n));
	assert_int_equal((size_t)read_all(&n), PAGES * PAGE * 'x');
	file_map_close(&m);
	assert_int_equal((size_t)read_all(&n), PAGES * PAGE * 'x');
	file_map_close(&n);
	/* the slot is as new */
	assert_int_equal(file_map_open(beside, &n), 0);
	assert_false(file_map_damaged(&n));
	file_map_close(&n);
	close(fd);
	close(beside);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: cmocka takes SIGBUS for itself at each test, and the guard is set up once.
		 */
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_whose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
