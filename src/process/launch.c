/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Launch.
 *
 * The child waits on a pipe until the tracer has seized it, then calls exec. It runs to a
 * breakpoint at its entry point: the loader has done the relocations then. A static program does
 * them itself, after its entry, so it runs on, system call by system call, until it has told the
 * kernel where its tid is kept (set_tid_address): libc is set up then, and still nothing of the
 * program itself has run. It is held there, and returns to a breakpoint there after each remote
 * call.
 *
 * If pollux dies before it released the program, the program dies with it (PTRACE_O_EXITKILL): it
 * has done nothing yet. What a followed program executes lives on: no breakpoint is there while it
 * is held, but only for the ms in which it runs to it.
 */
#include "process/launch.h"

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
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>

#define EXEC_TIMEOUT (10000 * NSEC_PER_MSEC)
#define START_TIMEOUT (60000 * NSEC_PER_MSEC)
#define MAX_SYSCALLS 64
#define MAX_STEPS 64

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

/* Where the loader's mprotect() begins, as glibc and musl call it. 0: there is none. */
static uint64_t find_relro(const struct process *p)
{
	Elf64_Phdr phdr[PROCESS_MAX_HEADERS];
	uint64_t bias, start = 0, end = 0;
	size_t n = process_headers(p, phdr, &bias);

	for (size_t i = 0; i < n; i++)
		if (phdr[i].p_type == PT_GNU_RELRO) {
			start = phdr[i].p_vaddr;
			end = start + phdr[i].p_memsz;
		}
	start = (bias + start) & ~(PAGE - 1);
	end = (bias + end) & ~(PAGE - 1);
	return start < end ? start : 0;
}

/* The end of the loader, which the kernel has mapped. */
static uint64_t loader_end(const struct process *p, uint64_t base)
{
	struct process_maps maps = {0};
	const struct process_map *first;
	uint64_t end = 0;

	if (maps_read(p, &maps, NULL) < 0)
		return 0;
	first = maps_at(&maps, base);
	for (size_t i = 0; first && i < maps.n; i++)
		if (maps.v[i].inode == first->inode && maps.v[i].start >= base)
			end = maps.v[i].end;
	maps_done(&maps);
	return end;
}

/* Runs to the end of that call. A system call that the loader does not make comes too late. */
static int run_to_relro(struct launch *l, uint64_t relro)
{
	uint64_t base = process_auxv(l->process, AT_BASE), end = loader_end(l->process, base);
	struct user_regs_struct regs;
	int status, signal = 0;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, l->pid, 0, (long)signal) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		TRY(next_stop(l, &status));
		signal = status >> 16 ? 0 : WSTOPSIG(status);
		if (signal != (SIGTRAP | 0x80))
			continue;
		signal = 0;
		if (ptrace(PTRACE_GETREGS, l->pid, 0, &regs) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		if ((long)regs.rax == -ENOSYS) /* before a call */
			continue;
		if (regs.rip < base || regs.rip >= end)
			return error_set(l->err, -ENOTSUP, "%s has an unknown loader", l->name);
		if (regs.orig_rax == __NR_mprotect && regs.rdi == relro && regs.rax == 0)
			break;
	}
	l->parked->at = regs.rip - 2;
	l->parked->call = __NR_mprotect;
	return 0;
}

static int lift_breakpoint(struct launch *l)
{
	int rc = memory_write(l->process, l->parked->at, &l->parked->byte, 1);

	return rc < 0 ? error_sys(l->err, rc, "cannot lift a breakpoint in %s", l->name) : 0;
}

/* Runs to a breakpoint, with whatever signals come on the way, and lifts it. */
static int run_to(struct launch *l, uint64_t addr)
{
	static const uint8_t int3 = 0xcc;
	struct user_regs_struct regs;
	int rc, status, signal = 0;

	l->parked->at = addr;
	rc = memory_read(l->process, addr, &l->parked->byte, 1);
	if (rc == 0)
		rc = memory_write(l->process, addr, &int3, 1);
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
		if (ptrace(PTRACE_GETREGS, l->pid, 0, &regs) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		if (regs.rip == addr + 1)
			break;
	}
	regs.rip = addr;
	if (ptrace(PTRACE_SETREGS, l->pid, 0, &regs) < 0)
		return error_sys(l->err, -errno, "cannot start %s", l->name);
	return lift_breakpoint(l);
}

/* libc keeps what set_tid_address returns, in one of the next few instructions. */
static int step_to_tid(struct launch *l, struct user_regs_struct *regs)
{
	pid_t own = process_own_tid(l->process, l->pid);
	int status;

	for (int i = 0; i < MAX_STEPS; i++) {
		if (inject_known_tid_offset(l->process, regs->fs_base, own))
			return 0;
		if (ptrace(PTRACE_SINGLESTEP, l->pid, 0, 0) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		TRY(next_stop(l, &status));
		if (ptrace(PTRACE_GETREGS, l->pid, 0, regs) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
	}
	return 0; /* another libc: the error says that its tids were not found */
}

/* A static program: on to where its libc is set up. */
static int run_to_libc(struct launch *l)
{
	struct user_regs_struct regs = {0};
	int rc = 0, signal = 0;

	for (int stops = 0; rc == 0 && stops < 2 * MAX_SYSCALLS;) {
		int status;

		if (ptrace(PTRACE_SYSCALL, l->pid, 0, (long)signal) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		rc = next_stop(l, &status);
		if (rc < 0)
			return rc;
		signal = 0;
		if (status >> 16)
			continue;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
			signal = WSTOPSIG(status);
			continue;
		}
		/* Stops come in pairs: before and after a call. */
		stops++;
		if (ptrace(PTRACE_GETREGS, l->pid, 0, &regs) < 0)
			return error_sys(l->err, -errno, "cannot start %s", l->name);
		if (stops % 2 == 0 && regs.orig_rax == __NR_set_tid_address)
			break;
	}
	if (rc == 0)
		rc = step_to_tid(l, &regs);
	/* Its next instruction is the place to come back to. */
	l->parked->at = regs.rip;
	if (rc == 0)
		rc = memory_read(l->process, regs.rip, &l->parked->byte, 1);
	return rc < 0 ? error_sys(l->err, rc, "cannot start %s", l->name) : 0;
}

static bool loses_rights(const struct process *p)
{
	struct stat st;

	return geteuid() != 0 && fstatat(p->proc_fd, "exe", &st, 0) == 0 &&
	       ((st.st_mode & S_ISUID) ||
		(st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP));
}

static bool has_interpreter(const struct process *p)
{
	/* The kernel passes a program the address of its loader, and 0 if there is none. */
	return process_auxv(p, AT_BASE) != 0;
}

/* From the stop of an exec to where its libraries are there. */
static int park(struct launch *l)
{
	uint64_t entry = process_auxv(l->process, AT_ENTRY);
	uint64_t relro = l->followed && has_interpreter(l->process) ? find_relro(l->process) : 0;

	l->process->stopped_tid = l->pid;
	l->process->launched = true;
	l->parked->tid = l->pid;
	if (!entry)
		return error_set(l->err, -ENOEXEC, "%s has no entry point", l->name);
	if (relro)
		return run_to_relro(l, relro);
	TRY(run_to(l, entry));
	return !has_interpreter(l->process) ? run_to_libc(l) : 0;
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
	int rc = r->parked->call ? 0 : memory_write(r->process, r->parked->at, &r->parked->byte, 1);

	if (rc < 0)
		return error_sys(r->err, rc, "cannot let process %d go", r->process->pid);
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
	if (l.pid && parked.at) {
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
	int status;

	if (p->pid > 0 && kill(p->pid, SIGKILL) == 0)
		waitpid(p->pid, &status, __WALL);
	process_close(p);
}
