/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code that lies in two pages, in a process of whose threads two execute it all the time: they see it
 * as it was or as it will be, never the half, whenever the pollux that changes it is killed.
 */
#include "process/across.h"

#include "base/error.h"
#include "process/memory.h"
#include "process/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <asm/unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* mov $0x01010101,%eax ; ret: two bytes in one page, three of the number in the next. */
uint32_t two_pages(void);
extern uint8_t two_pages_code[];
__asm__(".text\n.balign 4096\n.skip 4094, 0xcc\n"
	".type two_pages, @function\ntwo_pages:\ntwo_pages_code:\n"
	".byte 0xb8, 1, 1, 1, 1, 0xc3\n.balign 4096\n");

static const uint8_t before[] = {0xb8, 1, 1, 1, 1}, after[] = {0xb8, 2, 2, 2, 2};
static const struct across_change change = {(uint64_t)two_pages_code, before, after, 5};

/* Of the child, which has them at the same addresses. */
static struct {
	uint64_t words[ACROSS_WORDS];
	volatile uint64_t n_before, n_after, n_torn;
	volatile int ready, end, replace, replaced;
} * shared;
static uint8_t *place; /* for remote calls */

static void *execute(void *unused)
{
	(void)unused;
	while (!shared->end)
		for (int i = 0; i < 1000; i++) {
			uint32_t n = two_pages();

			if (n == 0x01010101)
				shared->n_before++;
			else if (n == 0x02020202)
				shared->n_after++;
			else
				shared->n_torn++;
		}
	return NULL;
}

static void put_under_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mremap, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = 4, .filter = code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static pid_t start_such(bool locks, bool kills_for_mremap)
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = fork();
	if (pid == 0) {
		pthread_t threads[2];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (locks)
			syscall(SYS_mlock, shared, 4096); /* AddressSanitizer's does nothing */
		if (kills_for_mremap)
			put_under_filter();
		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, execute, NULL);
		shared->ready = 1;
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		_exit(shared->n_torn != 0);
	}
	while (!shared->ready)
		usleep(1000);
	return pid;
}

/* What it maps in the place of the code, and what it finds there at its end. */
#define OTHER 0x5a

/* A program of which a thread unloads the code, when it is told to, and maps something else there. */
static pid_t start_unloading(void)
{
	uint8_t *pages = (uint8_t *)(change.addr & ~(uint64_t)4095);
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		shared->ready = 1;
		while (!shared->replace)
			usleep(100);
		syscall(SYS_mmap, pages, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		for (int i = 0; i < 8192; i++)
			pages[i] = OTHER;
		shared->replaced = 1;
		while (!shared->end)
			usleep(100);
		for (int i = 0; i < 8192; i++)
			shared->n_torn += pages[i] != OTHER;
		_exit(0);
	}
	while (!shared->ready)
		usleep(1000);
	return pid;
}

static pid_t start(void)
{
	return start_such(false, false);
}

static void finish(pid_t pid)
{
	int status;

	shared->end = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		print_error("status %#x, %lu torn\n", status, (unsigned long)shared->n_torn);
	assert_int_equal(status, 0);
	assert_int_equal(shared->n_torn, 0);
}

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	place = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED || place == MAP_FAILED;
}

/* One pollux. */
struct job {
	struct process process;
	struct process_objects objects;
	bool undo;
	int rc;
	struct error err;
};

static int run_job(void *arg)
{
	struct job *j = arg;
	struct injector in = {.process = &j->process};
	struct across x = {.in = &in,
			   .cave = {.addr = (uint64_t)place, .size = 4096},
			   .words = (uint64_t)shared->words};

	/* Another pollux may have been killed with a thread in there. */
	x.cave.dirty = !inject_is_free(&j->process, x.cave.addr, x.cave.size);
	if (x.cave.dirty) {
		struct process_maps maps;

		if (maps_read(&j->process, &maps, &j->err) < 0 ||
		    inject_find_cave(&j->process, &maps, 320, &x.cave, &j->err) < 0)
			return j->rc = -ENOENT;
		x.cave.size = 320;
		maps_done(&maps);
	}
	j->rc = j->undo ? across_undo(&x, &j->objects, &change, &j->err)
			: across_make(&x, &j->objects, &change, &j->err);
	return 0;
}

static int run_pollux(pid_t pid, bool undo, bool poke_only)
{
	struct job j = {.process = PROCESS_INIT, .undo = undo, .rc = -EINVAL};
	struct process_maps maps;
	struct tracer *tracer;

	if (process_open(pid, &j.process, &j.err) < 0 || maps_read(&j.process, &maps, &j.err) < 0 ||
	    objects_read(&j.process, &maps, &j.objects, &j.err) < 0 ||
	    tracer_start(&tracer, &j.err) < 0)
		return -EINVAL;
	j.process.poke_only = poke_only;
	tracer_call(tracer, run_job, &j);
	tracer_end(tracer);
	maps_done(&maps);
	objects_done(&j.objects);
	process_close(&j.process);
	if (j.rc < 0)
		print_error("%d: %s\n", j.rc, j.err.text);
	return j.rc;
}

/* ---- maps ---- */

extern void __asan_init(void) __attribute__((weak));

/* Of a sanitized program those of files: its runtime maps memory at any time. */
static char *maps_of(pid_t pid)
{
	char name[64], line[512], *text = NULL;
	size_t size;
	FILE *f, *kept = open_memstream(&text, &size);

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	f = fopen(name, "r");
	assert_true(f && kept);
	while (fgets(line, sizeof(line), f))
		if (!__asan_init || strchr(line, '/'))
			fputs(line, kept);
	fclose(f);
	fclose(kept);
	assert_true(size > 0);
	return text;
}

static bool live_is(pid_t pid, const uint8_t *bytes)
{
	struct process p = PROCESS_INIT;
	uint8_t live[5] = {0};

	assert_int_equal(process_open(pid, &p, NULL), 0);
	/* While the kernel moves the pages none may be there. */
	while (memory_read(&p, change.addr, live, sizeof(live)) < 0)
		;
	process_close(&p);
	return !memcmp(live, bytes, sizeof(live));
}

static void wait_for(volatile uint64_t *n)
{
	uint64_t was = *n;

	for (int i = 0; *n == was && i < 10000; i++)
		usleep(1000);
	assert_true(*n != was);
}

/* There and back: what remains is what was there before. */
static void test_there_and_back(void **state)
{
	(void)state;
	for (int poke_only = 0; poke_only < 2; poke_only++) {
		pid_t pid = start();
		char *first = maps_of(pid), *last;

		for (int i = 0; i < 10; i++) {
			assert_int_equal(run_pollux(pid, false, poke_only), 0);
			assert_true(live_is(pid, after));
			wait_for(&shared->n_after);
			/* It isn't made twice. */
			assert_int_equal(run_pollux(pid, false, poke_only), 1);
			last = maps_of(pid);
			assert_string_equal(last, first);
			free(last);
			assert_int_equal(run_pollux(pid, true, poke_only), 0);
			assert_true(live_is(pid, before));
			wait_for(&shared->n_before);
			assert_int_equal(run_pollux(pid, true, poke_only), 0);
		}
		last = maps_of(pid);
		assert_string_equal(last, first);
		free(last);
		free(first);
		finish(pid);
	}
}

/* Pages in which somebody else has changed something are left alone, and so is a program that locks
 * its memory, or that a filter ends for the call. */
static void test_left_alone(void **state)
{
	struct process p = PROCESS_INIT;
	uint8_t byte = 0, breakpoint = 0xcc;
	uint64_t at = change.addr + 100; /* in the padding */
	pid_t pid = start();

	(void)state;
	assert_int_equal(process_open(pid, &p, NULL), 0);
	assert_int_equal(memory_read(&p, at, &byte, 1), 0);
	assert_int_equal(memory_write(&p, at, &breakpoint, 1), 0);
	assert_int_equal(run_pollux(pid, false, false), 1);
	assert_true(live_is(pid, before));
	assert_int_equal(memory_write(&p, at, &byte, 1), 0);
	assert_int_equal(run_pollux(pid, false, false), 0);
	assert_int_equal(memory_write(&p, at, &breakpoint, 1), 0);
	assert_int_equal(run_pollux(pid, true, false), 1);
	assert_true(live_is(pid, after));
	assert_int_equal(memory_write(&p, at, &byte, 1), 0);
	assert_int_equal(run_pollux(pid, true, false), 0);
	process_close(&p);
	finish(pid);
	for (int filter = 0; filter < 2; filter++) {
		pid = start_such(!filter, filter);
		assert_int_equal(run_pollux(pid, false, false), 1);
		assert_true(live_is(pid, before));
		finish(pid);
	}
}

/* What the kernel may not end for want of memory is not changed, but given back what it had. */
static void test_never_ended(void **state)
{
	struct process p = PROCESS_INIT;
	pid_t pid = start();

	(void)state;
	assert_int_equal(process_open(pid, &p, NULL), 0);
	int fd = openat(p.proc_fd, "oom_score_adj", O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(run_pollux(pid, false, false), 0);
	bool may = write(fd, "-1000", 5) == 5; /* CAP_SYS_RESOURCE, which containers don't have */

	assert_int_equal(run_pollux(pid, true, false), 0);
	assert_true(live_is(pid, before));
	assert_int_equal(run_pollux(pid, false, false), may ? 1 : 0);
	assert_true(live_is(pid, may ? before : after));
	close(fd);
	process_close(&p);
	finish(pid);
	if (!may)
		skip();
}

/* ---- unloaded ---- */

static int unloads_at; /* before that thread is seized, counted from 0 */

static void unload_at_step(const char *what)
{
	if (strcmp(what, "seize") || unloads_at-- != 0)
		return;
	shared->replace = 1;
	while (!shared->replaced)
		usleep(100);
}

/* Once all was compared, and before the thread is sent, the program unloads the code and maps something
 * else at its place: that is never touched. */
static void test_unloaded(void **state)
{
	(void)state;
	for (int undo = 0; undo < 2; undo++) {
		pid_t pid = start_unloading();

		if (undo)
			assert_int_equal(run_pollux(pid, false, false), 0);
		unloads_at = 0;
		process_step_hook = unload_at_step;
		assert_int_equal(run_pollux(pid, undo, false), 1);
		process_step_hook = NULL;
		assert_true(shared->replaced);
		finish(pid);
	}
}

/* ---- a thread that gets no CPU ---- */

/* Of the one thread that makes the calls. */
static struct {
	int held, late_at; /* it is late in the call after this many */
	bool in_call, others_ran;
} slow;

/* The time of the others' stop is over as the thread is let go. */
static void be_late(const char *what)
{
	if (!strcmp(what, "held"))
		slow.held++;
	if (!strcmp(what, "detach") && slow.in_call)
		slow.others_ran = true;
	if (strcmp(what, "syscall"))
		return;
	slow.in_call = false;
	if (slow.held == slow.late_at) {
		slow.late_at = -1;
		slow.in_call = true;
		usleep(300000);
	}
}

/* While the pages are moved the others stand still, however long that takes: they might unload the code, and map
 * something else there, between the look at it and the call. */
static void test_no_cpu(void **state)
{
	(void)state;
	/* Held before both moves, and in between. */
	for (int call = 1; call <= 3; call += 2) {
		pid_t pid = start();

		memset(&slow, 0, sizeof(slow));
		slow.late_at = call;
		process_step_hook = be_late;
		assert_int_equal(run_pollux(pid, false, false), 0);
		process_step_hook = NULL;
		assert_int_equal(slow.late_at, -1);
		assert_false(slow.others_ran);
		assert_true(live_is(pid, after));
		assert_int_equal(run_pollux(pid, true, false), 0);
		finish(pid);
	}
}

/* ---- killed ---- */

static int steps_left;

static void die_at_step(const char *what)
{
	(void)what;
	if (steps_left-- == 0)
		kill(getpid(), SIGKILL);
}

/* True: it came to its end. */
static bool is_through(int k, pid_t target, bool undo)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		steps_left = k;
		process_step_hook = die_at_step;
		_exit(run_pollux(target, undo, false) ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return false;
	assert_int_equal(status, 0);
	return true;
}

/* A thread may still be on its way. */
static void settle(pid_t pid)
{
	for (int i = 0; i < 20; i++) {
		assert_true(live_is(pid, before) || live_is(pid, after) || live_is(pid, before));
		usleep(1000);
	}
}

/* Nothing of what was moved remains. */
static void until_maps_are(pid_t pid, const char *wanted)
{
	char *maps = maps_of(pid);

	for (int i = 0; strcmp(maps, wanted) && i < 5000; i++) {
		free(maps);
		usleep(1000);
		maps = maps_of(pid);
	}
	assert_string_equal(maps, wanted);
	free(maps);
}

static void test_killed(void **state)
{
	(void)state;
	for (int undo = 0; undo < 2; undo++) {
		bool through = false;
		int k = 0;

		for (; !through; k++) {
			pid_t pid = start();
			char *first = maps_of(pid);

			assert_true(k < 100);
			if (undo)
				assert_int_equal(run_pollux(pid, false, false), 0);
			through = is_through(k, pid, undo);
			settle(pid);
			until_maps_are(pid, first);
			free(first);
			/* The next one finds the whole or nothing, and takes it back. */
			assert_int_equal(run_pollux(pid, true, false), 0);
			assert_true(live_is(pid, before));
			wait_for(&shared->n_before);
			finish(pid);
		}
		assert_true(k > 5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_left_alone),
		cmocka_unit_test(test_never_ended),    cmocka_unit_test(test_unloaded),
		cmocka_unit_test(test_no_cpu),	       cmocka_unit_test(test_killed),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
