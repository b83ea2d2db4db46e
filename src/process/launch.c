/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Launch.
 *
 * The child waits on a pipe until the tracer has seized it, then calls exec. Where it is held then
 * depends on what may become of it if pollux dies.
 *
 * What pollux started runs to a breakpoint at its entry point: the loader has done the relocations
 * then. It dies with pollux until that has released it (PTRACE_O_EXITKILL): it has done nothing yet.
 *
 * What a followed program executes lives on. So it gets no breakpoint, which would kill it if its
 * tracer is gone; nor is it stepped, since the kernel leaves the trap flag to a thread whose tracer
 * dies. It runs from system call to system call, and is held right before one. After each remote
 * call it comes back to there, to make that call for the first time; without pollux it makes it at
 * once. That call is the first one after the relocations, which a dynamic program's loader
 * announces to debuggers (struct r_debug): mostly the loader's own, before the program's first
 * instruction.
 *
 * A static program does the relocations itself. It is held, started or executed, right before the
 * system call that comes after set_tid_address: libc is set up then, and knows its tid.
 */
#include "process/launch.h"

#include "arch/regs.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/units.h"
#include "process/maps.h"
#include "process/memory.h"
#include "process/objects.h"

#include <asm/unistd.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXEC_TIMEOUT (10000 * NSEC_PER_MSEC)
#define START_TIMEOUT (60000 * NSEC_PER_MSEC)
#define MAX_STATIC_CALLS 64u
#define MAX_LOADER_CALLS 20000u

struct launch {
	pid_t pid;
	int go_fd;    /* closing it lets the child exec */
	int error_fd; /* errno of a failed exec; closed by a successful one */
	const char *name;
	struct process *process;
	struct entry_stop *parked;
	bool followed;
	int status; /* waitpid's, when it has ended */
	struct error *err;
};

static _Noreturn void child(char *const argv[], int go_fd, int error_fd)
{
	char byte;
	int code;

	while (read(go_fd, &byte, 1) < 0 && errno == EINTR)
		;
	execvp(argv[0], argv);
	code = errno;
	if (write(error_fd, &code, sizeof(code)) != sizeof(code))
		_exit(126);
	_exit(127);
}

static int ended(struct launch *l, int status)
{
	l->pid = 0; /* waiting for it has reaped it */
	l->status = status;
	if (WIFEXITED(status))
		return error_set(l->err, -ESRCH, "%s ended at its start with status %d", l->name,
				 WEXITSTATUS(status));
	return error_set(l->err, -ESRCH, "%s was killed at its start by signal %d", l->name,
			 WTERMSIG(status));
}

/* Waits for the next stop; signals are kept for later, the first of them. -ESRCH if it ended. */
static int next_stop(struct launch *l, int *ret_status)
{
	int rc = thread_wait(l->pid, START_TIMEOUT, ret_status);

	if (rc < 0)
		return error_sys(l->err, rc, "%s does not start", l->name);
	if (!WIFSTOPPED(*ret_status))
		return ended(l, *ret_status);
	return 0;
}

static int wait_exec(struct launch *l)
{
	int status, rc;

	for (;;) {
		rc = next_stop(l, &status);
		if (rc < 0) {
			int code;

			if (read(l->error_fd, &code, sizeof(code)) == sizeof(code))
				return error_sys(l->err, -code, "cannot run %s", l->name);
			return rc;
		}
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
			return 0;
		if (ptrace(PTRACE_CONT, l->pid, 0, status >> 16 ? 0L : (long)WSTOPSIG(status)) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
	}
}

static int lift_breakpoint(struct launch *l)
{
	int rc = memory_write(l->process, l->parked->addr, &l->parked->original,
			      sizeof(l->parked->original));

	return rc < 0 ? error_sys(l->err, rc, "cannot lift a breakpoint in %s", l->name) : 0;
}

/* Runs to a breakpoint, with whatever signals come on the way, and lifts it. */
static int run_to(struct launch *l, uint64_t addr)
{
	static const arch_breakpoint breakpoint = ARCH_BREAKPOINT;
	struct arch_regs regs;
	int rc, status, signal = 0;

	l->parked->addr = addr;
	rc = memory_read(l->process, addr, &l->parked->original, sizeof(l->parked->original));
	if (rc == 0)
		rc = memory_write(l->process, addr, &breakpoint, sizeof(breakpoint));
	if (rc < 0)
		return error_sys(l->err, rc, "cannot set a breakpoint in %s", l->name);
	for (;;) {
		if (ptrace(PTRACE_CONT, l->pid, 0, (long)signal) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		rc = next_stop(l, &status);
		if (rc < 0)
			return rc;
		signal = status >> 16 ? 0 : WSTOPSIG(status);
		if (signal != SIGTRAP)
			continue;
		if (arch_regs_read(l->pid, &regs) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		if (regs.pc == addr + ARCH_BREAKPOINT_PASSED)
			break;
	}
	regs.pc = addr;
	if (arch_regs_write(l->pid, &regs) < 0)
		return error_sys(l->err, -errno, "cannot start %s", l->name);
	return lift_breakpoint(l);
}

static bool has_interpreter(const struct process *p)
{
	/* The kernel passes a program the address of its loader, and 0 if there is none. */
	return process_auxv(p, AT_BASE) != 0;
}

/* The word in which the loader gives debuggers the address of its struct r_debug. 0: there is none. */
static uint64_t find_debug(const struct process *p)
{
	Elf64_Phdr phdr[PROCESS_MAX_HEADERS];
	uint64_t bias;
	size_t n = process_headers(p, phdr, &bias);
	Elf64_Dyn entry;

	for (size_t i = 0; i < n; i++)
		for (uint64_t at = 0;
		     phdr[i].p_type == PT_DYNAMIC && at + sizeof(entry) <= phdr[i].p_memsz;
		     at += sizeof(entry)) {
			uint64_t addr = bias + phdr[i].p_vaddr + at;

			if (memory_read(p, addr, &entry, sizeof(entry)) < 0)
				return 0;
			if (entry.d_tag == DT_DEBUG)
				return addr + offsetof(Elf64_Dyn, d_un);
		}
	return 0;
}

static bool is_relocated(const struct process *p, uint64_t debug)
{
	struct r_debug r;
	uint64_t at;

	/* glibc sets the version first, then RT_ADD until it is done; musl sets the version when it
	 * is done. */
	return memory_read_u64(p, debug, &at) == 0 && at &&
	       memory_read(p, at, &r, sizeof(r)) == 0 && r.r_version && r.r_state == RT_CONSISTENT;
}

/* Runs to a system call by which the program is set up, and no further. */
static int run_to_call(struct launch *l)
{
	bool dynamic = has_interpreter(l->process), has_tid = false;
	uint64_t debug = dynamic ? find_debug(l->process) : 0;
	struct arch_regs regs;
	int status, signal = 0;

	if (dynamic && !debug)
		return error_set(l->err, -ENOTSUP, "%s has an unknown loader", l->name);
	for (unsigned calls = 0; calls < (dynamic ? MAX_LOADER_CALLS : MAX_STATIC_CALLS);) {
		if (ptrace(PTRACE_SYSCALL, l->pid, 0, (long)signal) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		TRY(next_stop(l, &status));
		signal = status >> 16 ? 0 : WSTOPSIG(status);
		if (signal != (SIGTRAP | 0x80))
			continue;
		signal = 0;
		if (arch_regs_read(l->pid, &regs) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		if (!regs.enters) { /* after a call */
			has_tid = has_tid || regs.call == __NR_set_tid_address;
			continue;
		}
		calls++;
		l->parked->addr = regs.pc - ARCH_SYSCALL_BYTES;
		l->parked->is_call = true;
		l->parked->call = regs.call;
		if (dynamic ? is_relocated(l->process, debug) : has_tid)
			return 0;
	}
	return dynamic ? error_set(l->err, -ENOTSUP, "%s has an unknown loader", l->name) : 0;
}

static bool loses_rights(const struct process *p)
{
	struct stat st;

	return geteuid() != 0 && fstatat(p->proc_fd, "exe", &st, 0) == 0 &&
	       ((st.st_mode & S_ISUID) ||
		(st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP));
}

/* From the stop of an exec to where its libraries are there. */
static int park(struct launch *l)
{
	uint64_t entry = process_auxv(l->process, AT_ENTRY);

	l->process->stopped_tid = l->pid;
	l->process->launched = true;
	l->parked->tid = l->pid;
	if (!entry)
		return error_set(l->err, -ENOEXEC, "%s has no entry point", l->name);
	return has_interpreter(l->process) && !l->followed ? run_to(l, entry) : run_to_call(l);
}

static int trace_start(void *arg)
{
	struct launch *l = arg;

	if (ptrace(PTRACE_SEIZE, l->pid, 0,
		   PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) < 0)
		return error_sys(l->err, -errno, "cannot trace %s", l->name);
	close(l->go_fd);
	l->go_fd = -1;
	TRY(wait_exec(l));
	TRY(process_open(l->pid, l->process, l->err));
	if (loses_rights(l->process))
		return error_set(
			l->err, -EPERM,
			"%s is setuid or setgid and would run without these rights under pollux: "
			"start it by itself and attach as root",
			l->name);
	return park(l);
}

static int next_start(void *arg)
{
	struct launch *l = arg;
	int rc = process_open(l->pid, l->process, l->err);

	return rc < 0 ? rc : park(l);
}

int launch_parked(struct tracer *tracer, char *const argv[], struct process *ret_process,
		  struct entry_stop *ret_parked, struct error *err)
{
	struct process process = PROCESS_INIT;
	struct entry_stop parked = {0};
	struct launch l = {.name = argv[0], .process = &process, .parked = &parked, .err = err};
	int go[2] = {-1, -1}, error[2] = {-1, -1}, rc;

	if (pipe2(go, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0) {
		rc = error_sys(err, -errno, "cannot start %s", argv[0]);
		goto out;
	}
	l.pid = fork();
	if (l.pid < 0) {
		rc = error_sys(err, -errno, "cannot start %s", argv[0]);
		goto out;
	}
	if (l.pid == 0) {
		close(go[1]);
		child(argv, go[0], error[1]);
	}
	close(error[1]);
	error[1] = -1;
	l.go_fd = go[1];
	l.error_fd = error[0];
	rc = tracer_call(tracer, trace_start, &l);
	go[1] = l.go_fd;
	if (rc < 0) {
		process.pid = l.pid;
		launch_abort(&process);
		goto out;
	}
	*ret_process = process;
	*ret_parked = parked;
out:
	for (int i = 0; i < 2; i++) {
		if (go[i] >= 0)
			close(go[i]);
		if (error[i] >= 0)
			close(error[i]);
	}
	return rc;
}

struct release {
	struct process *process;
	const struct entry_stop *parked;
	struct error *err;
};

/* The breakpoint at which it is held, if a remote call has failed. */
static int lift(void *arg)
{
	const struct release *r = arg;
	int rc = r->parked->is_call
			 ? 0
			 : memory_write(r->process, r->parked->addr, &r->parked->original,
					sizeof(r->parked->original));

	if (rc < 0)
		return error_sys(r->err, rc, "cannot stop tracing process %d", r->process->pid);
	r->process->stopped_tid = 0;
	return 0;
}

static int release(void *arg)
{
	const struct release *r = arg;

	TRY(lift(arg));
	if (ptrace(PTRACE_DETACH, r->parked->tid, 0, 0L) < 0)
		return error_sys(r->err, -errno, "cannot let process %d go", r->process->pid);
	return 0;
}

int launch_follow(struct tracer *tracer, struct process *p, const struct entry_stop *parked,
		  struct follow **ret_follow)
{
	struct release r = {.process = p, .parked = parked};
	int rc = tracer_call(tracer, lift, &r);

	return rc < 0 ? rc : follow_stopped(tracer, p->pid, ret_follow);
}

int launch_next(struct tracer *tracer, pid_t pid, struct process *ret_process,
		struct entry_stop *ret_parked, int *ret_status, struct error *err)
{
	struct process process = PROCESS_INIT;
	struct entry_stop parked = {0};
	struct launch l = {.pid = pid,
			   .name = "the program",
			   .followed = true,
			   .process = &process,
			   .parked = &parked,
			   .err = err};
	int rc = tracer_call(tracer, next_start, &l);

	if (rc == 0) {
		*ret_process = process;
		*ret_parked = parked;
		return 0;
	}
	if (l.pid && parked.addr) {
		struct release r = {.process = &process, .parked = &parked};
		tracer_call(tracer, lift, &r);
	}
	process_close(&process);
	*ret_status = l.status;
	return l.pid ? rc : -ECHILD;
}

int launch_go(struct tracer *tracer, struct process *p, const struct entry_stop *parked,
	      struct error *err)
{
	struct release r = {.process = p, .parked = parked, .err = err};

	return tracer_call(tracer, release, &r);
}

void launch_abort(struct process *p)
{
	int status, rc = -1;

	/* Its end may have been waited for: then the number may be another process'. Without a handle it
	 * was not yet. */
	if (p->pidfd >= 0)
		rc = (int)syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
	else if (p->pid > 0)
		rc = kill(p->pid, SIGKILL);
	if (rc == 0)
		waitpid(p->pid, &status, __WALL);
	process_close(p);
}
