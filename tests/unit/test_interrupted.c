/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads in calls that a stop interrupts: what they return is what they would have returned, also under a seccomp
 * filter that ends the program for restart_syscall(), which the kernel makes for some of them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/units.h"
#include "process/threads.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 20
#define STOPS 60u
#define FILE_BYTES (16l << 20)
#define LOOPS 6000 /* of a BPF program: the verifier goes through all of them */

/* ---- the calls: 0, or what was wrong ---- */

static long in_poll(void)
{
	return poll(NULL, 0, WAIT_MS) ? errno : 0;
}

static long in_nanosleep(void)
{
	const struct timespec t = {.tv_nsec = WAIT_MS * 1000000l};

	return syscall(SYS_nanosleep, &t, NULL) ? errno : 0;
}

static long in_futex(void)
{
	static uint32_t word;
	struct timespec until, now;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += WAIT_MS * 1000000l;
	until.tv_sec += until.tv_nsec / 1000000000l;
	until.tv_nsec %= 1000000000l;
	long rc = syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &until, NULL,
			  FUTEX_BITSET_MATCH_ANY);

	if (rc == 0 || errno != ETIMEDOUT)
		return errno ? errno : -1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec < until.tv_sec ||
			       (now.tv_sec == until.tv_sec && now.tv_nsec < until.tv_nsec)
		       ? ETIME
		       : 0;
}

static long in_fallocate(void)
{
	int fd = memfd_create("allocated", MFD_CLOEXEC);
	long rc = fd < 0 || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, FILE_BYTES) < 0 ? errno : 0;

	close(fd);
	return rc;
}

static long in_bpf(void)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_0, .imm = 1},
		{.code = BPF_JMP | BPF_JLT | BPF_K, .dst_reg = BPF_REG_0, .off = -2, .imm = LOOPS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
			       .insn_cnt = sizeof(code) / sizeof(code[0]),
			       .insns = (uintptr_t)code,
			       .license = (uintptr_t) "GPL"};
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static long (*const calls[])(void) = {in_poll, in_nanosleep, in_futex, in_fallocate, in_bpf};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

/* ---- the program ---- */

static struct {
	volatile uint64_t n_done[N_CALLS];
	volatile long wrong[N_CALLS];
	volatile int ready, end;
} * shared;

static void *make(void *arg)
{
	size_t i = (size_t)arg;

	while (!shared->end) {
		long wrong = calls[i]();

		if (wrong == EPERM || wrong == ENOSYS)
			return NULL; /* it can't be made here at all */
		if (wrong && !shared->wrong[i])
			shared->wrong[i] = wrong;
		shared->n_done[i]++;
	}
	return NULL;
}

static void forbid_restarts(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_restart_syscall, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = 4, .filter = code};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(2);
}

static pid_t start(bool forbids)
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = fork();
	if (pid == 0) {
		const struct rlimit no_core = {0, 0};
		pthread_t threads[N_CALLS];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setrlimit(RLIMIT_CORE, &no_core);
		if (forbids)
			forbid_restarts();
		for (size_t i = 0; i < N_CALLS; i++)
			if (pthread_create(&threads[i], NULL, make, (void *)i))
				_exit(2);
		shared->ready = 1;
		for (size_t i = 0; i < N_CALLS; i++)
			pthread_join(threads[i], NULL);
		_exit(0);
	}
	while (!shared->ready)
		usleep(1000);
	return pid;
}

/* ---- the stops ---- */

struct stops {
	struct process process;
	struct error err;
	int rc;
};

static int stop_often(void *arg)
{
	struct stops *s = arg;

	for (unsigned i = 0; i < STOPS && s->rc == 0; i++) {
		struct process_stop stopped;

		s->rc = threads_stop(&s->process, 5 * NSEC_PER_SEC, &stopped, &s->err);
		if (s->rc == 0)
			threads_resume(&stopped);
		usleep(4000);
	}
	return 0;
}

static void stop_and_look(bool forbids)
{
	struct stops s = {.process = PROCESS_INIT};
	pid_t pid = start(forbids);
	struct tracer *tracer;
	int status;

	assert_int_equal(process_open(pid, &s.process, &s.err), 0);
	assert_int_equal(tracer_start(&tracer, &s.err), 0);
	tracer_call(tracer, stop_often, &s);
	tracer_end(tracer);
	process_close(&s.process);
	shared->end = 1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	if (s.rc)
		print_error("%s\n", s.err.text);
	assert_int_equal(s.rc, 0);
	for (size_t i = 0; i < N_CALLS; i++)
		assert_int_equal(shared->wrong[i], 0);
	/* They need no rights. */
	for (size_t i = 0; i < 4; i++)
		assert_true(shared->n_done[i] > 0);
}

static void test_stops(void **state)
{
	(void)state;
	stop_and_look(false);
}

static void test_stops_under_a_filter(void **state)
{
	(void)state;
	stop_and_look(true);
}

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return shared == MAP_FAILED;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_stops_under_a_filter),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
