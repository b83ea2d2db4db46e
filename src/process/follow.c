/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Following execs by ptrace.
 *
 * The tracer waits for events of its program. It passes signals and stops by job control on at
 * once; a program that executed another one stays stopped until the caller takes it. To stop
 * following, the tracer's thread ends: then, as when pollux dies, the kernel releases the program.
 *
 * A program that gains rights by an exec (sudo) does not get them while it is traced by one without
 * CAP_SYS_PTRACE. So without that the tracer checks each system call, and releases the program
 * before such an exec. That slows it down, so it is done for the first calls of a program only: a
 * wrapper has executed what it wraps by then.
 *
 * Each signal stops a traced program for some 30 us. So the tracer releases one that gets very
 * many (from a profiler's timer, or of a runtime that preempts by signals).
 */
#include "process/follow.h"

#include "arch/regs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file_map.h"
#include "base/file.h"
#include "base/units.h"
#include "process/interrupted.h"
#include "process/rights.h"

#include <asm/unistd.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define MAX_CALLS 4000u
#define MAX_LINE 256u /* what the kernel reads of a script */
#define MAX_SCRIPTS 6u
/* At 200 a second, less than a hundredth of the program's time is spent on them. */
#define MAX_SIGNALS 2000u
#define SIGNALS_NS (10 * NSEC_PER_SEC)
#define WAKE_SIGNAL SIGURG
#define WAKE_NS 1000000l

struct follow {
	pid_t pid;
	struct tracer *tracer;
	uint64_t image;	    /* struct process.image, when it was taken */
	bool careful;	    /* system calls are checked */
	unsigned n_calls;   /* how many were checked so far */
	unsigned n_signals; /* since signals_ns */
	uint64_t signals_ns;
	_Atomic int state;	 /* enum follow_state */
	_Atomic bool leaving;	 /* follow_end() was called */
	_Atomic bool done;	 /* the tracer has nothing to do any more */
	pthread_t waiter, owner; /* owner: is woken when something has happened */
	int status;
};

/* ---- execs that give rights ---- */

/* Reads a text in the program's memory; false if it can't be read. */
static bool read_text(pid_t pid, uint64_t addr, char *out, size_t size)
{
	char path[32];

	/* A filter may forbid process_vm_readv(). */
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	_cleanup_close_ int fd = file_open(path, FILE_EMPTY, NULL);
	/* The text may end in this page, and the next page may not be mapped. */
	size_t here = PAGE - addr % PAGE < size ? PAGE - addr % PAGE : size;
	ssize_t n = fd < 0 ? -1 : pread(fd, out, here, (off_t)addr);

	if (n == (ssize_t)here && here < size && !memchr(out, 0, here)) {
		ssize_t more = pread(fd, out + n, size - here, (off_t)(addr + here));

		n += more > 0 ? more : 0;
	}
	return n > 0 && memchr(out, 0, (size_t)n);
}

/* The path by which pollux reaches the file that has `path` for the program. */
static void path_for_us(pid_t pid, const char *path, char out[PATH_MAX + 64])
{
	snprintf(out, PATH_MAX + 64, "/proc/%d/%s/%s", pid, *path == '/' ? "root" : "cwd", path);
}

/* What a script has after its "#!", in place of its path; false: it is no script. */
static bool read_interpreter(const char *full, char path[PATH_MAX])
{
	_cleanup_close_ int fd = file_open(full, FILE_EMPTY, NULL);
	char line[MAX_LINE + 2] = "", *from = line + 2;
	ssize_t n = fd < 0 ? 0 : read(fd, line, MAX_LINE);

	if (n < 2 || line[0] != '#' || line[1] != '!')
		return false;
	from += strspn(from, " \t");
	from[strcspn(from, " \t\n")] = 0;
	snprintf(path, PATH_MAX, "%s", from);
	return true;
}

static bool gives_rights(pid_t pid, uint64_t path_addr)
{
	char path[PATH_MAX], full[PATH_MAX + 64];
	struct stat st;

	if (!read_text(pid, path_addr, path, sizeof(path)))
		return true;
	for (unsigned i = 0; i < MAX_SCRIPTS; i++) {
		path_for_us(pid, path, full);
		if (stat(full, &st) < 0)
			return errno != ENOENT &&
			       errno != ENOTDIR; /* a search in PATH: it goes on */
		if (st.st_mode & (S_ISUID | S_ISGID) ||
		    getxattr(full, "security.capability", NULL, 0) > 0)
			return true;
		if (!S_ISREG(st.st_mode) || !read_interpreter(full, path))
			return false;
	}
	return true;
}

/* At a stop before or after a system call: whether the program may be kept. */
static bool may_keep(struct follow *f)
{
	struct arch_regs regs;

	/* One of 32 bits has other numbers for its calls. */
	if (arch_regs_read(f->pid, &regs) < 0 || !regs.native)
		return false;
	if (!regs.enters) /* after it */
		return true;
	if (regs.call == __NR_execve)
		return !gives_rights(f->pid, regs.args[0]);
	return regs.call != __NR_execveat && ++f->n_calls < MAX_CALLS;
}

/* ---- on the tracer ---- */

static int resume(const struct follow *f, int signal)
{
	return (int)ptrace(f->careful ? PTRACE_SYSCALL : PTRACE_CONT, f->pid, 0, (long)signal);
}

/* At a signal's stop: whether the program got too many. */
static bool spends_time(struct follow *f)
{
	uint64_t now = clock_monotonic_ns();

	if (now - f->signals_ns > SIGNALS_NS) {
		f->signals_ns = now;
		f->n_signals = 0;
	}
	return ++f->n_signals > MAX_SIGNALS;
}

/* The program may have been killed meanwhile: then its end comes next. If it can't be resumed for
 * another reason, the tracer ends, so that the kernel resumes it. */
static bool has_resumed(struct follow *f, bool resumed, int signal)
{
	if (resumed || errno == ESRCH)
		return true;
	ptrace(PTRACE_DETACH, f->pid, 0, (long)signal);
	f->state = FOLLOW_LOST;
	return false;
}

/* What a stop means; false: nothing more is to be waited for. */
static bool handle_stop(struct follow *f, int status)
{
	int event = status >> 16, signal = WSTOPSIG(status);

	if (event == PTRACE_EVENT_EXEC) {
		f->state = FOLLOW_EXEC;
		return false;
	}
	if (event == PTRACE_EVENT_STOP && signal != SIGTRAP)
		return has_resumed(f, ptrace(PTRACE_LISTEN, f->pid, 0, 0) == 0, 0);
	bool call = !event && signal == (SIGTRAP | 0x80);
	/* To one that is not traced the kernel does not even give a signal that it ignores. */
	if (!call)
		interrupted_again(f->pid);
	if (call || event)
		signal = 0;
	if (call ? !may_keep(f) : !event && spends_time(f)) {
		ptrace(PTRACE_DETACH, f->pid, 0, (long)signal);
		f->state = FOLLOW_LOST;
		return false;
	}
	return has_resumed(f, resume(f, signal) == 0, signal);
}

/* A thread or child that it has made with CLONE_PTRACE, so that its tracer has that, too. */
static void let_go(pid_t tid, int status)
{
	if (WIFSTOPPED(status))
		ptrace(PTRACE_DETACH, tid, 0, status >> 16 ? 0L : (long)WSTOPSIG(status));
}

static int wait_for(void *arg)
{
	struct follow *f = arg;
	int status;

	while (!f->leaving) {
		pid_t got = waitpid(-1, &status, __WALL | __WNOTHREAD);

		if (got < 0 && errno == EINTR)
			continue;
		if (got > 0 && got != f->pid) {
			let_go(got, status);
			continue;
		}
		if (got != f->pid) { /* another thread of it has called exec */
			f->state = FOLLOW_LOST;
			break;
		}
		if (!WIFSTOPPED(status)) {
			f->status = status;
			f->state = FOLLOW_ENDED;
			break;
		}
		if (!handle_stop(f, status))
			break;
	}
	return 0;
}

static uint64_t image_now(pid_t pid)
{
	struct process p = PROCESS_INIT;
	uint64_t image = process_open(pid, &p, NULL) == 0 ? p.image : 0;

	process_close(&p);
	return image;
}

static int let_run(void *arg)
{
	struct follow *f = arg;

	f->image = image_now(f->pid);
	/* From here on it does not end with its tracer. */
	if (ptrace(PTRACE_SETOPTIONS, f->pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD) < 0)
		return -errno;
	/* It may be held right before a system call. */
	if (f->careful && !may_keep(f))
		return -EPERM;
	return resume(f, 0) < 0 ? -errno : 0;
}

static int seize(void *arg)
{
	struct follow *f = arg;

	if (ptrace(PTRACE_SEIZE, f->pid, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD) < 0)
		return -errno;
	f->image = image_now(f->pid);
	return f->careful && ptrace(PTRACE_INTERRUPT, f->pid, 0, 0) < 0 ? -errno : 0;
}

/* ---- the waiter: it calls the tracer, so that no other thread waits for it ---- */

static void on_wake(int signal_number)
{
	(void)signal_number;
}

static int unblock_and_wait(void *arg)
{
	struct sigaction act = {.sa_handler = on_wake};
	sigset_t own, before;
	struct follow *f = arg;

	sigaction(WAKE_SIGNAL, &act, NULL);
	sigemptyset(&own);
	sigaddset(&own, WAKE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &own, &before);
	int rc = wait_for(f);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static void *waiter(void *arg)
{
	struct follow *f = arg;

	tracer_call(f->tracer, unblock_and_wait, f);
	if (!f->leaving)
		pthread_kill(f->owner, WAKE_SIGNAL);
	f->done = true;
	return NULL;
}

static int begin(struct tracer *tracer, pid_t pid, int (*first)(void *arg), struct follow **ret)
{
	struct follow *f = calloc(1, sizeof(*f));
	sigset_t before;
	int rc;

	if (!f)
		return -ENOMEM;
	f->pid = pid;
	f->tracer = tracer;
	f->owner = pthread_self();
	f->careful = !rights_any_exec();
	rc = tracer_call(tracer, first, f);
	file_map_block_signals(&before);
	if (rc == 0)
		rc = -pthread_create(&f->waiter, NULL, waiter, f);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc < 0)
		free(f);
	else
		*ret = f;
	return rc;
}

int follow_stopped(struct tracer *tracer, pid_t pid, struct follow **ret_follow)
{
	return begin(tracer, pid, let_run, ret_follow);
}

int follow_running(pid_t pid, struct follow **ret_follow)
{
	struct tracer *tracer;
	int rc;

	TRY(tracer_start(&tracer, NULL));
	rc = begin(tracer, pid, seize, ret_follow);
	if (rc < 0)
		tracer_end(tracer);
	return rc;
}

enum follow_state follow_look(const struct follow *f)
{
	return (enum follow_state)f->state;
}

bool follow_has_executed(const struct follow *f)
{
	return image_now(f->pid) != f->image;
}

struct tracer *follow_take(struct follow *f)
{
	struct tracer *tracer = f->tracer;

	pthread_join(f->waiter, NULL);
	free(f);
	return tracer;
}

enum follow_state follow_end(struct follow *f, int *ret_status)
{
	enum follow_state state;

	if (!f)
		return FOLLOW_LOST;
	f->leaving = true;
	/* The signal may come just before the tracer waits: then another one is needed. */
	while (!f->done) {
		tracer_signal(f->tracer, WAKE_SIGNAL);
		nanosleep(&(struct timespec){.tv_nsec = WAKE_NS}, NULL);
	}
	state = follow_look(f);
	if (ret_status)
		*ret_status = f->status;
	tracer_end(follow_take(f));
	return state;
}
