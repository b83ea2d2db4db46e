/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Await points by their numbers: the places that a trace gets of chains. */
#include "capture/points.h"

#include "trace/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

/* A corrupted ring, or a program that awaits itself in a box, makes ever new chains: the trace does
 * not grow for ever, and what is left out has the place of what is around it. */
static void test_endless_chains(void **state)
{
	const struct trace_process process = {.pid = 1, .exe = "p", .cmdline = "p"};
	int fd = memfd_create("points", 0);
	struct trace_writer *w;
	struct points p = {.deep = true};
	uint64_t outer = 0, before = 0, n = 0;
	uint32_t index;

	assert_true(fd >= 0);
	assert_int_equal(trace_writer_open_fd(fd, &w, NULL), 0);
	assert_int_equal(trace_writer_process(w, &process, &index), 0);
	for (unsigned i = 0; i < 200000; i++) {
		before = outer;
		assert_int_equal(points_name(&p, 7, "f", index, 0, outer, w, &outer), 0);
		n += outer != before;
	}
	assert_true(n >= 10000 && n <= 100000);
	assert_int_equal(outer, before);
	/* What is known is found. */
	assert_int_equal(points_name(&p, 7, "f", index, 0, 0, w, &outer), 0);
	assert_int_equal(outer, 1);
	points_free(&p);
	assert_int_equal(trace_writer_close(w, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_endless_chains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
