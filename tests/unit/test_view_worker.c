/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the process that makes an answer has of the server's: only the descriptors that it needs. */
#include "view/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LAST 40

/* From now on this process has no close_range, as before Linux 5.9. */
static bool forbid_close_range(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a child: 0 if it has the standard ones, 7 and 30 in the end, and no other up to LAST. */
static int keep_two(bool old_kernel)
{
	int kept[] = {30, 7}, status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		for (int fd = STDERR_FILENO + 1; fd <= LAST; fd++)
			if (dup2(STDERR_FILENO, fd) < 0)
				_exit(1);
		if (old_kernel && !forbid_close_range())
			_exit(2);
		worker_keep_only(kept, 2);
		for (int fd = 0; fd <= LAST; fd++)
			if ((fcntl(fd, F_GETFD) >= 0) !=
			    (fd <= STDERR_FILENO || fd == 7 || fd == 30))
				_exit(100 + fd);
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void only_these_descriptors_are_kept(void **state)
{
	assert_int_equal(keep_two(false), 0);
}

static void also_where_no_call_closes_many(void **state)
{
	assert_int_equal(keep_two(true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_these_descriptors_are_kept),
		cmocka_unit_test(also_where_no_call_closes_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
