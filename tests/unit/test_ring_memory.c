/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The rings' memory, while the thread that makes it gets no CPU: as long as it works with a descriptor's number, the
 * program's other threads, which may close it and open a file by it, are stopped.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "process/ring_memory.h"
#include "process/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (64u << 10)

/* Of the child, which has them at the same addresses. */
static struct {
	uint64_t word[8];
	volatile int ready;
} * shared;
static uint8_t *place; /* for remote calls */

static void *sleep_on(void *unused)
{
	for (;;)
		usleep(1000);
	return unused;
}

static pid_t start(void)
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	memcpy(&shared->word[1], "pollux", 7);
	pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < 3; i++)
			pthread_create(&thread, NULL, sleep_on, NULL);
		shared->ready = 1;
		sleep_on(NULL);
	}
	while (!shared->ready)
		usleep(1000);
	return pid;
}

/* From before the call that is held on: begins and ends of ftruncate, fcntl, mmap, two of madvise, close. The one
 * after these gives the thread its signals back. */
#define STEPS 12

/* The thread is late at one of them, by more than the others would wait. */
static int n_steps, late_at;
static bool in_list, others_ran;

static void be_late(const char *what)
{
	if (!strcmp(what, "held"))
		in_list = true;
	if (!strcmp(what, "detach") && in_list)
		others_ran = true;
	if (!strcmp(what, "syscall") && in_list) {
		in_list = n_steps < STEPS;
		if (n_steps++ == late_at)
			usleep(300000);
	}
}

struct job {
	struct process process;
	struct error err;
	void *map;
	int rc;
};

static int make(void *arg)
{
	struct job *j = arg;
	struct injector in = {.process = &j->process};
	struct code_cave cave = {.addr = (uint64_t)place, .size = 4096};
	const uint64_t words = (uint64_t)shared->word;
	const struct ring_memory_words at = {.done = words,
					     .name = words + 8,
					     .number = words + 16,
					     .mapped = words + 24,
					     .no_fork = words + 32,
					     .no_dump = words + 40};

	j->rc = ring_memory_make(&in, &cave, &at, BYTES, 0, &j->map, &j->err);
	return 0;
}

static void test_no_cpu(void **state)
{
	(void)state;
	for (late_at = 0; late_at < STEPS; late_at += 3) {
		struct job j = {.process = PROCESS_INIT};
		struct tracer *tracer;
		pid_t pid = start();
		int status;

		n_steps = 0;
		in_list = others_ran = false;
		assert_int_equal(process_open(pid, &j.process, &j.err), 0);
		assert_int_equal(tracer_start(&tracer, &j.err), 0);
		process_step_hook = be_late;
		tracer_call(tracer, make, &j);
		process_step_hook = NULL;
		tracer_end(tracer);
		process_close(&j.process);
		if (j.rc)
			print_error("%s\n", j.err.text);
		assert_int_equal(j.rc, 0);
		assert_true(n_steps > STEPS);
		assert_false(others_ran);
		munmap(j.map, BYTES);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
}

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	place = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED || place == MAP_FAILED;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_cpu)};

	return cmocka_run_group_tests(tests, setup, NULL);
}
