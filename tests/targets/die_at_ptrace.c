/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * To be preloaded into pollux: ends it by SIGKILL after its call number $DIE_AT of ptrace(), counted
 * from where it follows a program or sends a thread on a remote call, or from $FROM_THE_FIRST on. Or after it has sent the thread,
 * to which it gives the signal $WITH_SIGNAL. Or it kills the process $KILL when it has mapped its memory.
 * Or it kills what is traced after that call number $KILL_AT, or once that has made the system call number
 * $KILL_AFTER. Or that call number $FAIL_AT fails, by EIO.
 * Or from that call number $FULL_AT on what is traced may map no more memory.
 * Into the file $COUNT_IN goes how many there were so far, as a number of 4 bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

static int number(const char *name)
{
	const char *text = getenv(name);

	return text && !strcmp(program_invocation_short_name, "pollux") ? atoi(text) : 0;
}

long ptrace(enum __ptrace_request request, ...)
{
	static atomic_int n_calls;
	int at = number("DIE_AT"), kill_at = number("KILL_AT"), fail_at = number("FAIL_AT");
	int full_at = number("FULL_AT");
	bool counts = n_calls || request == PTRACE_SETOPTIONS || getenv("FROM_THE_FIRST");
	int call = counts ? ++n_calls : 0;
	va_list args;

	if (call && getenv("COUNT_IN")) {
		int fd = open(getenv("COUNT_IN"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		(void)!write(fd, &call, sizeof(call));
		close(fd);
	}
	va_start(args, request);
	long pid = va_arg(args, long), addr = va_arg(args, long), data = va_arg(args, long);
	va_end(args);
	if (call && call == full_at) {
		const struct rlimit none = {4096, RLIM_INFINITY};

		prlimit((pid_t)pid, RLIMIT_AS, &none, NULL);
	}
	if (call && call == fail_at) {
		errno = EIO;
		return -1;
	}
	long rc = syscall(SYS_ptrace, request, pid, addr, data);
	if (request == PTRACE_GETREGS && number("KILL_AFTER") && rc == 0) {
		const struct user_regs_struct *regs = (const struct user_regs_struct *)data;

		if ((long)regs->orig_rax == number("KILL_AFTER") && (long)regs->rax >= 0)
			kill((pid_t)pid, SIGKILL);
	}
	if (call && call == at)
		kill(getpid(), SIGKILL);
	if (call && call == kill_at) {
		kill((pid_t)pid, SIGKILL);
		usleep(5000); /* it has ended when pollux waits for it */
	}
	if (request == PTRACE_SETREGS && getenv("WITH_SIGNAL")) {
		syscall(SYS_tkill, pid, atoi(getenv("WITH_SIGNAL")));
		kill(getpid(), SIGKILL);
	}
	return rc;
}

void *shmat(int id, const void *addr, int flags)
{
	void *map = (void *)syscall(SYS_shmat, id, addr, flags);

	if (getenv("KILL"))
		kill(atoi(getenv("KILL")), SIGKILL);
	return map;
}
