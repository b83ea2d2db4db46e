/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Seccomp filters of the target.
 *
 * A sandboxed program may have forbidden itself memfd_create or mmap with PROT_EXEC, and the
 * kernel's answer may be SIGSYS. So a thread makes a call for pollux only if that is proven to be
 * allowed. There are three proofs:
 *
 *   - It has no filter.
 *   - Its filters can be read (PTRACE_SECCOMP_GET_FILTER: by root who is under no filter). They are
 *     run here on the calls. A filter that looks at what isn't known beforehand (where a call is
 *     made from, an argument that an earlier call gives) proves nothing.
 *   - Its filters are exactly those of pollux, and a child of pollux has made the calls and lives.
 *     Filters are inherited and only ever added, so a program that pollux has started and that has
 *     as many as pollux, has the same. In one container (the same namespaces, the same cgroup) the
 *     runtime puts the same filters around each program that it starts; where pollux's are the
 *     runtime's alone, a thread with as many has added none. They are the runtime's alone if no
 *     process since could add one, which takes no_new_privs or CAP_SYS_ADMIN.
 *
 * That two processes have the same number of filters proves nothing by itself. All else is refused,
 * or risked if the user says so (process.forced).
 *
 * What can't be proven is what comes later: a program may shut itself in at any time, between the
 * look and the call too, some 500 us. So the calls that the agent makes itself, on all threads, are
 * fewer: see seccomp_allows_all().
 *
 * A thread may also have the kernel hand its system calls to the program itself, by SIGSYS (syscall
 * user dispatch, as Wine does), all but those made from the program's own place. Those of pollux
 * come from another, so they are never made there.
 *
 * The machine is classic BPF as seccomp allows it (kernel/seccomp.c, seccomp_check_filter): loads
 * of aligned words of struct seccomp_data, arithmetic, forward jumps, 16 words of memory.
 */
#include "process/seccomp.h"

#include "arch/arch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "process/threads.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
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

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif
#define MAX_FILTERS 256ul

static bool alu(unsigned op, uint32_t *a, uint32_t operand)
{
	switch (op) {
	case BPF_ADD:
		*a += operand;
		return true;
	case BPF_SUB:
		*a -= operand;
		return true;
	case BPF_MUL:
		*a *= operand;
		return true;
	case BPF_DIV:
		if (!operand)
			return false;
		*a /= operand;
		return true;
	case BPF_AND:
		*a &= operand;
		return true;
	case BPF_OR:
		*a |= operand;
		return true;
	case BPF_XOR:
		*a ^= operand;
		return true;
	case BPF_LSH:
		*a = operand < 32 ? *a << operand : 0;
		return true;
	case BPF_RSH:
		*a = operand < 32 ? *a >> operand : 0;
		return true;
	case BPF_NEG:
		*a = -*a;
		return true;
	default:
		return false;
	}
}

static bool jumps(unsigned op, uint32_t a, uint32_t operand)
{
	switch (op) {
	case BPF_JEQ:
		return a == operand;
	case BPF_JGT:
		return a > operand;
	case BPF_JGE:
		return a >= operand;
	default: /* BPF_JSET */
		return (a & operand) != 0;
	}
}

uint32_t seccomp_run(const struct sock_filter *program, size_t len, const struct seccomp_data *data,
		     unsigned unknown)
{
	uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};

	/* Jumps go forward only, so this ends. */
	for (size_t pc = 0; pc < len; pc++) {
		const struct sock_filter *i = &program[pc];
		unsigned op = i->code & 0xf0;
		uint32_t operand = i->code & BPF_X ? x : i->k;

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
		case BPF_LDX: {
			uint32_t value;

			if (BPF_MODE(i->code) == BPF_IMM)
				value = i->k;
			else if (BPF_MODE(i->code) == BPF_MEM && i->k < BPF_MEMWORDS)
				value = memory[i->k];
			else if (BPF_MODE(i->code) == BPF_LEN)
				value = sizeof(*data);
			else if (BPF_MODE(i->code) == BPF_ABS && i->k % 4 == 0 &&
				 i->k <= sizeof(*data) - 4 && !(unknown >> i->k / 4 & 1))
				memcpy(&value, (const char *)data + i->k, sizeof(value));
			else
				return SECCOMP_RET_KILL_PROCESS;
			*(BPF_CLASS(i->code) == BPF_LD ? &a : &x) = value;
			break;
		}
		case BPF_ST:
		case BPF_STX:
			if (i->k >= BPF_MEMWORDS)
				return SECCOMP_RET_KILL_PROCESS;
			memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? a : x;
			break;
		case BPF_ALU:
			if (!alu(op, &a, operand))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_JMP: {
			size_t skip = op == BPF_JA ? i->k : jumps(op, a, operand) ? i->jt : i->jf;

			if (skip >= len - pc)
				return SECCOMP_RET_KILL_PROCESS;
			pc += skip;
			break;
		}
		case BPF_RET:
			return BPF_RVAL(i->code) == BPF_A ? a : i->k;
		default: /* BPF_MISC */
			if (BPF_MISCOP(i->code) == BPF_TAX)
				x = a;
			else
				a = x;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* Bits of the two words of an argument, and of where the call is made from. */
#define ARG_WORDS(k) (3u << (offsetof(struct seccomp_data, args) / 4 + 2 * (k)))
#define PLACE_WORDS (3u << offsetof(struct seccomp_data, instruction_pointer) / 4)

static bool permits(const struct sock_filter *program, size_t len, const struct stub_call *call)
{
	struct seccomp_data data = {.nr = (int)call->nr, .arch = ARCH_SECCOMP};
	unsigned unknown = PLACE_WORDS;

	for (unsigned k = 0; k < 6; k++) {
		data.args[k] = call->args[k];
		if (call->from_memory >> k & 1)
			unknown |= ARG_WORDS(k);
	}
	uint32_t answer = seccomp_run(program, len, &data, unknown) & SECCOMP_RET_ACTION_FULL;
	/* An error is no harm where the list goes on whatever comes, but for what it puts back. */
	return answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG ||
	       (answer == SECCOMP_RET_ERRNO && call->check == STUB_ANY && !call->always);
}

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

struct filters {
	long mode;  /* 0: none; 1: strict; 2: filters */
	long n;	    /* -1: a kernel before 5.9 */
	bool fixed; /* it may add none: no no_new_privs, and CAP_SYS_ADMIN not in any set */
};

static bool may_administer(const char *status)
{
	static const char *const sets[] = {
		"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		const char *line = strstr(status, sets[i]);

		if (!line || strtoull(line + strlen(sets[i]), NULL, 16) >> CAP_SYS_ADMIN & 1)
			return true;
	}
	return false;
}

static int read_filters(const struct process *p, pid_t tid, struct filters *ret)
{
	char text[PROCESS_STATUS_BYTES];

	if (!process_read_status(p, tid, text))
		return -ESRCH;
	ret->mode = process_status_number(text, "Seccomp", false);
	ret->n = process_status_number(text, "Seccomp_filters", false);
	ret->fixed = process_status_number(text, "NoNewPrivs", false) == 0 && !may_administer(text);
	if (ret->mode < 0)
		ret->mode = 0; /* a kernel without seccomp */
	return 0;
}

static int read_own(struct filters *ret)
{
	_cleanup_close_ int fd = open("/proc/thread-self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct process self = {.proc_fd = fd};

	return fd < 0 ? -errno : read_filters(&self, 0, ret);
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

/* The calls take less than a ms; one may wait for ever (a filter may hand it to another program). But a
 * child that could run only needs its turn on a busy CPU. */
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
	"start it with `pollux record -- CMD`, or record it before it shuts itself in";

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
	return error_set(
		err, -EPERM,
		"process %d runs under seccomp filters that pollux can't read, and that they "
		"allow what the agent needs isn't proven: run pollux as root outside of the "
		"container, or %s, or take the risk with --force that the kernel kills the "
		"program for it (SIGSYS)",
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

/* 1: all filters were read and allow it; 0: they can't be read; -EPERM. A caller without a process asks for no
 * sentence. */
static int run_filters(const struct process *p, pid_t tid, const struct stub_call *calls, size_t n,
		       struct error *err)
{
	for (unsigned long index = 0; index < MAX_FILTERS; index++) {
		long len = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, NULL);

		if (len < 0 && errno == ENOENT && index > 0)
			return 1; /* that were all */
		if (len <= 0 || len > BPF_MAXINSNS)
			return 0;
		_cleanup_free_ struct sock_filter *program = calloc((size_t)len, sizeof(*program));
		if (!program)
			return error_sys(err, -ENOMEM, "cannot read a seccomp filter");
		if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program) != len)
			return 0;
		for (size_t i = 0; i < n; i++)
			if (!permits(program, (size_t)len, &calls[i]))
				return p ? forbidden(p, calls[i].nr, err) : -EPERM;
	}
	return 0;
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
			 "thread %d of process %d has its system calls handed to the program "
			 "(syscall user dispatch), which the agent's would break: pollux can't "
			 "record it",
			 tid, p->pid);
}

int seccomp_allows(const struct process *p, pid_t tid, const struct stub_call *calls, size_t n,
		   const struct seccomp_trial *trial, struct error *err)
{
	struct filters theirs;
	int rc;

	TRY(seccomp_undispatched(p, tid, err));
	rc = read_filters(p, tid, &theirs);
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
	rc = run_filters(p, tid, calls, n, err);
	if (rc)
		return rc < 0 ? rc : 0;
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
		if (read_filters(p, tids[i], &theirs) < 0 || theirs.mode == 0)
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

bool seccomp_lets_restart(pid_t tid)
{
	/* The arguments are those of the call that was interrupted. */
	static const struct stub_call restart = {
		.nr = __NR_restart_syscall, .from_memory = 0x3f, .always = 1};
	char path[32];
	struct filters theirs;

	snprintf(path, sizeof(path), "/proc/%d", tid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct process thread = {.proc_fd = fd};

	if (fd < 0 || read_filters(&thread, 0, &theirs) < 0)
		return false;
	return theirs.mode == 0 || run_filters(NULL, tid, &restart, 1, NULL) == 1;
}

bool seccomp_none(const struct process *p)
{
	_cleanup_free_ pid_t *tids = NULL;
	size_t n;

	if (threads_list(p, &tids, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		struct filters theirs;

		if (read_filters(p, tids[i], &theirs) == 0 && theirs.mode)
			return false;
	}
	return true;
}

long seccomp_count(const struct process *p, pid_t tid)
{
	struct filters theirs;

	if (read_filters(p, tid, &theirs) < 0)
		return -1;
	return theirs.mode == 0 ? 0 : theirs.n > 0 ? theirs.n : 1;
}
