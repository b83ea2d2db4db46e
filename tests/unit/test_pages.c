/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Which pages are there, of this very process: by PAGEMAP_SCAN where the kernel has it, and by
 * words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "process/pages.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ull
#define BYTES (1ull << 30)

static struct process self;
static struct process_maps maps;
static char *memory; /* of its pages the first, 100 and 101, and the last are used */

static int setup(void **state)
{
	struct error err = {0};

	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || madvise(memory, BYTES, MADV_NOHUGEPAGE) < 0 ||
	    process_open(getpid(), &self, &err) < 0)
		return -1;
	memory[0] = memory[100 * PAGE] = memory[101 * PAGE] = memory[BYTES - 1] = 'x';
	return maps_read(&self, &maps, &err);
}

static int teardown(void **state)
{
	maps_done(&maps);
	process_close(&self);
	return munmap(memory, BYTES);
}

static void expect(struct pages *p, uint64_t from, uint64_t to)
{
	const uint64_t base = (uintptr_t)memory;
	uint64_t start = 0, end = 0;

	if (from == to) {
		assert_int_equal(pages_next(p, base + from * PAGE, base + BYTES, &start, &end), 0);
		return;
	}
	assert_int_equal(
		pages_next(p, base + (from - (from > 0)) * PAGE, base + BYTES, &start, &end), 1);
	assert_int_equal((start - base) / PAGE, from);
	assert_int_equal((end - base) / PAGE, to);
}

static void check(bool listed)
{
	struct pages p;

	pages_open(&self, &p);
	assert_true(p.fd >= 0);
	p.listed = listed;
	expect(&p, 0, 1);
	expect(&p, 100, 102);
	expect(&p, BYTES / PAGE - 1, BYTES / PAGE);
	assert_true(p.budget.steps > 0);
	p.budget.steps = 1;
	if (listed)
		expect(&p, 0, 0); /* nothing is looked at any more */
	pages_close(&p);
}

static void test_scanned(void **state)
{
	check(false); /* where it can't be, it is by words */
}

static void test_listed(void **state)
{
	check(true);
}

static bool is_resident(uint64_t page)
{
	uint64_t start, end;
	struct pages p;
	bool yes;

	pages_open(&self, &p);
	p.listed = true; /* counts pages of zeroes, too */
	yes = pages_next(&p, (uintptr_t)memory + page * PAGE, (uintptr_t)memory + (page + 1) * PAGE,
			 &start, &end) == 1;
	pages_close(&p);
	return yes;
}

/* A page that the program never touched is zeroes, and stays untouched. */
static void test_read(void **state)
{
	static char buffers[4][PAGE];
	struct iovec iov[4];
	struct pages p;

	memset(buffers, 'y', sizeof(buffers));
	for (size_t i = 0; i < 4; i++)
		iov[i] = (struct iovec){buffers[i], PAGE};
	pages_open(&self, &p);
	assert_int_equal(pages_readv(&p, &maps, (uintptr_t)memory + 99 * PAGE, iov, 4), 0);
	assert_int_equal(buffers[0][0], 0);
	assert_int_equal(buffers[1][0], 'x');
	assert_int_equal(buffers[2][0], 'x');
	assert_int_equal(buffers[3][PAGE - 1], 0);
	assert_true(is_resident(100));
	assert_false(is_resident(99));
	assert_false(is_resident(102));
	/* a part of a page; and what is not mapped */
	iov[0].iov_len = 8;
	assert_int_equal(pages_readv(&p, &maps, (uintptr_t)memory + 50 * PAGE + 16, iov, 1), 0);
	assert_false(is_resident(50));
	assert_true(pages_readv(&p, &maps, 4096, iov, 1) < 0);
	pages_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scanned),
		cmocka_unit_test(test_listed),
		cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests_name("pages", tests, setup, teardown);
}
