/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Seccomp filters of the target.
 *
 * A sandboxed program may have forbidden itself memfd_create or mmap with PROT_EXEC, and the
 * kernel's answer may be SIGSYS. So a thread makes a call for pollux only if that is proven to be
 * allowed. There are three proofs:
 *
 * - It has no filter. - Its filters can be read (PTRACE_SECCOMP_GET_FILTER: by root who is under no
 * filter). They are run (filters.h) on the calls. A filter that looks at what isn't known
 * beforehand (where a call is made from, an argument that an earlier call gives) proves nothing. -
 * Its filters are exactly those of pollux, and a child of pollux has made the calls and lives.
 * Filters are inherited and only ever added, so a program that pollux has started and that has as
 * many as pollux, has the same. In one container (the same namespaces, the same cgroup) the runtime
 * puts the same filters around each program that it starts; where pollux's are the runtime's alone,
 * a thread with as many has added none. They are the runtime's alone if no process since could add
 * one, which takes no_new_privs or CAP_SYS_ADMIN.
 *
 * That two processes have the same number of filters proves nothing by itself. All else is refused,
 * or risked if the user says so (process.forced).
 *
 * Nothing can be proven of filters that come later: a program may install one at any time, also
 * between the check and the call, some 500 us. So the calls that the agent makes itself, on all
 * threads, are fewer: see seccomp_allows_all().
 *
 * A thread may also have the kernel hand its system calls to the program itself, by SIGSYS (syscall
 * user dispatch, as Wine does), all but those made from the program's own place. Those of pollux
 * come from another, so they are never made there.
 */
#include "process/seccomp.h"

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "process/filters.h"
#include "process/threads.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif

/* For people. */
static const char *name_of(uint32_t nr)
{
	static const struct {
		uint32_t nr;
		const char *name;
	} names[] = {
		{__NR_mmap, "mmap"},
		{__NR_munmap, "munmap"},
		{__NR_mprotect, "mprotect"},
		{__NR_madvise, "madvise"},
		{__NR_memfd_create, "memfd_create"},
		{__NR_ftruncate, "ftruncate"},
		{__NR_fcntl, "fcntl"},
		{__NR_close, "close"},
		{__NR_prctl, "prctl"},
		{__NR_shmget, "shmget"},
		{__NR_shmat, "shmat"},
		{__NR_shmctl, "shmctl"},
		{__NR_futex, "futex"},
		{__NR_gettid, "gettid"},
		{__NR_rt_sigprocmask, "rt_sigprocmask"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].nr == nr)
			return names[i].name;
	return "a system call";
}

/* ---- a thread's state ---- */

static int read_own(struct filters *ret)
{
	_cleanup_close_ int fd = open("/proc/thread-self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct process self = {.proc_fd = fd};

	return fd < 0 ? -errno : filters_read(&self, 0, ret);
}

static bool same_container(const struct process *p)
{
	static const char *const kinds[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};
	_cleanup_close_ int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct process self = {.proc_fd = fd};
	char own[4096], theirs[4096];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (process_same_ns(p, kinds[i]) != 1)
			return false;
	return fd >= 0 && process_read_file(&self, "cgroup", own, sizeof(own)) > 0 &&
	       process_read_file(p, "cgroup", theirs, sizeof(theirs)) > 0 && !strcmp(own, theirs);
}

/* Exactly our filters: see the head. */
static bool are_pollux_filters(const struct process *p, const struct filters *theirs)
{
	struct filters own;

	return read_own(&own) == 0 && own.mode == 2 && theirs->mode == 2 && theirs->n > 0 &&
	       theirs->n == own.n && (p->launched || (own.fixed && same_container(p)));
}

/* ---- a child of pollux ---- */

/* The calls take less than a ms; one may wait for ever (a filter may hand it to another
 * program). But a child that could run only needs its turn on a busy CPU. */
#define TRIAL_TIMEOUT NSEC_PER_SEC
#define TRIAL_LONGEST (30 * NSEC_PER_SEC)
#define MAX_CALLS 64u

/* What an argument from memory is in the child: what an earlier call of its own gave. */
static uint64_t argument(const struct stub_call *calls, size_t i, unsigned k,
			 const uint64_t *results)
{
	if (!(calls[i].from_memory >> k & 1))
		return calls[i].args[k];
	for (size_t before = i; before-- > 0;)
		if (calls[before].result_at && calls[before].result_at == calls[i].args[k])
			return results[before];
	return 1;
}

enum { TRIAL_REFUSED = 1 }; /* exit status: a call that must be allowed */

/* Nothing else than raw calls: of all our threads the child has this one. What it does to memory it
 * does to its own; what advice may do to memory that it shares with us, it does to new one. */
static _Noreturn void make_calls(const struct stub_call *calls, size_t n, volatile uint32_t *ret_at)
{
	uint64_t results[MAX_CALLS];

	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core file */
	for (size_t i = 0; i < n; i++) {
		uint64_t a[6];

		for (unsigned k = 0; k < 6; k++)
			a[k] = argument(calls, i, k, results);
		if (calls[i].nr == __NR_madvise)
			(void)mmap((void *)a[0], a[1], PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
		*ret_at = (uint32_t)i;
		long rc = syscall(calls[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		results[i] = rc < 0 ? (uint64_t)-errno : (uint64_t)rc;
		/* What the list puts back at its end must be allowed, not just survived. */
		if (calls[i].always && rc < 0 &&
		    (errno == EPERM || errno == EACCES || errno == ENOSYS))
			_exit(TRIAL_REFUSED);
	}
	_exit(0);
}

static bool could_run(pid_t pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct process child = {.proc_fd = fd};

	return fd >= 0 && strchr("RD", process_thread_state(&child, pid));
}

/* As thread_wait(); one that has not ended is killed. */
static int wait_for_child(pid_t pid, int *ret_status)
{
	const uint64_t until = clock_monotonic_ns() + TRIAL_LONGEST;
	bool ran;
	int rc;

	do {
		rc = thread_wait(pid, TRIAL_TIMEOUT, ret_status);
		ran = rc == -ETIMEDOUT && could_run(pid);
	} while (ran && clock_monotonic_ns() < until);
	if (rc == -ETIMEDOUT && kill(pid, SIGKILL) == 0)
		waitpid(pid, ret_status, __WALL);
	return ran ? -EBUSY : rc;
}

struct seccomp_trial seccomp_try(const struct stub_call *calls, size_t n)
{
	struct seccomp_trial trial = {.rc = -EAGAIN};
	volatile uint32_t *at;
	struct filters own;
	sigset_t all, before;
	int status, rc;
	void *shared;

	if (read_own(&own) < 0 || own.mode != 2 || n > MAX_CALLS)
		return trial;
	shared = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return trial;
	at = shared;
	*at = UINT32_MAX;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before); /* no handler of pollux runs in the child */
	pid_t pid = fork();
	if (pid == 0)
		make_calls(calls, n, at);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	rc = pid < 0 ? -EBUSY : wait_for_child(pid, &status);
	/* An address of the target's may be that of something which the child needs. */
	if (rc == 0 && WIFSIGNALED(status) && WTERMSIG(status) != SIGSYS)
		rc = -EBUSY;
	if (rc == -EBUSY)
		trial.rc = rc;
	if (rc == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		trial.rc = 0;
	if (rc == 0 && *at < n &&
	    (WIFSIGNALED(status) ? WTERMSIG(status) == SIGSYS
				 : WEXITSTATUS(status) == TRIAL_REFUSED))
		trial = (struct seccomp_trial){.rc = -EPERM, .nr = calls[*at].nr};
	munmap(shared, sizeof(*at));
	return trial;
}

/* ---- the answer ---- */

static const char advice[] =
	"start it with `pollux record -- CMD`, or record it before it installs the filter";

static int forbidden(const struct process *p, uint32_t nr, struct error *err)
{
	return error_set(err, -EPERM,
			 "the seccomp filter of process %d forbids %s, which the agent needs: %s",
			 p->pid, name_of(nr), advice);
}

static int unproven(const struct process *p, struct error *err)
{
	if (p->forced)
		return 0;
	return error_set(err, -EPERM,
			 "process %d runs under seccomp filters that pollux can't read, and it "
			 "isn't proven that they allow what the agent needs: run pollux as root "
			 "outside of the container, or %s, or accept with --force the risk that "
			 "the kernel kills the program (SIGSYS)",
			 p->pid, advice);
}

/* The trial says nothing this time. */
static int untried(const struct process *p, struct error *err)
{
	if (p->forced)
		return 0;
	return error_set(err, -EAGAIN,
			 "the seccomp filters of process %d could not be tried out: try again",
			 p->pid);
}

int seccomp_undispatched(const struct process *p, pid_t tid, struct error *err)
{
	struct {
		uint64_t mode, selector, offset, len;
	} config = {0};

	/* A kernel before 6.4 does not report it. */
	if (ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, sizeof(config), &config) < 0 ||
	    !config.mode)
		return 0;
	return error_set(err, -EPERM,
			 "the kernel hands the system calls of thread %d of process %d to the "
			 "program (syscall user dispatch), which those of the agent would break: "
			 "pollux can't record it",
			 tid, p->pid);
}

int seccomp_allows(const struct process *p, pid_t tid, const struct stub_call *calls, size_t n,
		   const struct seccomp_trial *trial, struct error *err)
{
	struct filters theirs;
	uint32_t nr;
	int rc;

	TRY(seccomp_undispatched(p, tid, err));
	rc = filters_read(p, tid, &theirs);
	if (rc < 0)
		return error_sys(err, rc, "cannot look at thread %d", tid);
	if (theirs.mode == 0)
		return 0;
	if (theirs.mode == 1)
		return error_set(
			err, -EPERM,
			"process %d is in seccomp's strict mode, which allows nothing that "
			"the agent needs: %s",
			p->pid, advice);
	rc = filters_permit(tid, calls, n, &nr);
	if (rc == -EPERM)
		return forbidden(p, nr, err);
	if (rc < 0)
		return error_sys(err, rc, "cannot read a seccomp filter");
	if (rc > 0)
		return 0;
	if (!are_pollux_filters(p, &theirs))
		return unproven(p, err);
	if (trial->rc == -EPERM)
		return forbidden(p, trial->nr, err);
	if (trial->rc == -EBUSY)
		return untried(p, err);
	return trial->rc == 0 ? 0 : unproven(p, err);
}

int seccomp_allows_all(const struct process *p, const struct stub_call *calls, size_t n,
		       struct error *err)
{
	const struct seccomp_trial trial = seccomp_try(calls, n);
	_cleanup_free_ pid_t *tids = NULL;
	size_t n_tids;
	int rc = threads_list(p, &tids, &n_tids);

	if (rc < 0)
		return error_sys(err, rc, "cannot look at process %d", p->pid);
	for (size_t i = 0; i < n_tids && rc == 0; i++) {
		struct stopped_thread t;
		struct filters theirs;

		/* One that is gone makes no calls. */
		if (filters_read(p, tids[i], &theirs) < 0 || theirs.mode == 0)
			continue;
		if (tids[i] == p->stopped_tid) {
			rc = seccomp_allows(p, tids[i], calls, n, &trial, err);
			continue;
		}
		rc = thread_stop(p, tids[i], THREAD_STOP_TIMEOUT, &t);
		if (rc == 0) {
			rc = seccomp_allows(p, tids[i], calls, n, &trial, err);
			thread_resume(&t);
		} else if (rc == -ESRCH) {
			rc = 0;
		} else {
			error_sys(err, rc, "cannot stop thread %d of process %d", tids[i], p->pid);
		}
	}
	return rc;
}

bool seccomp_none(const struct process *p)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;

	if (threads_list(p, &tids, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		struct filters theirs;

		if (filters_read(p, tids[i], &theirs) == 0 && theirs.mode)
			return false;
	}
	return true;
}

long seccomp_count(const struct process *p, pid_t tid)
{
	struct filters theirs;

	if (filters_read(p, tid, &theirs) < 0)
		return -1;
	return theirs.mode == 0 ? 0 : theirs.n > 0 ? theirs.n : 1;
}
