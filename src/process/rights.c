/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why ptrace is refused.
 *
 * The kernel says EPERM for half a dozen reasons (ptrace(2), "Ptrace access mode checking"; Yama:
 * Documentation/admin-guide/LSM/Yama.rst). They are distinguished here by checking what the kernel
 * checks, in its order: tracer, user, dumpable, capabilities, Yama.
 */
#include "process/rights.h"

#include "arch/arch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAP_SYS_PTRACE_BIT 19

static int read_exe_header(const struct process *p, unsigned char ident[static 20])
{
	_cleanup_close_ int fd = file_open_at(p->proc_fd, "exe", 0, 0, NULL);

	if (fd < 0)
		return fd;
	return pread(fd, ident, 20, 0) == 20 ? 0 : -ENOEXEC;
}

static int yama_scope(void)
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char digit;

	return fd >= 0 && read(fd, &digit, 1) == 1 ? digit - '0' : 0;
}

static bool is_own_thread(long tid)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/self/task/%ld", tid);
	return access(path, F_OK) == 0;
}

void rights_log(const struct process *p)
{
	static const char *const fields[] = {"State", "Tgid",	"NSpid",   "TracerPid",
					     "Uid",   "CapEff", "Threads", "Seccomp"};
	_cleanup_buf_ struct buf text = BUF_INIT;
	char status[PROCESS_STATUS_BYTES];

	if (!log_on(LOG_ATTACH) || !process_read_status(p, 0, status))
		return;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		char key[32];
		const char *line;

		snprintf(key, sizeof(key), "\n%s:\t", fields[i]);
		line = strstr(status, key);
		if (!line)
			continue;
		buf_printf(&text, "%s%s", i ? ", " : "", fields[i]);
		for (line += strlen(key) - 1; *line && *line != '\n'; line++)
			buf_char(&text, *line == '\t' ? ' ' : *line);
	}
	log_write(LOG_ATTACH, "process %d: %s", p->pid, buf_failed(&text) ? "?" : text.data);
	log_write(LOG_ATTACH, "pollux: Uid %u, CapEff %016llx; kernel.yama.ptrace_scope %d",
		  geteuid(), (unsigned long long)rights_own_caps(), yama_scope());
}

static bool is_own_proc(void)
{
	char number[16] = "";

	return readlink("/proc/self", number, sizeof(number) - 1) > 0 && atoi(number) == getpid();
}

/* What of a process can't be opened is no proof that it is gone. */
static int no_status(pid_t pid, struct error *err)
{
	int code = -errno;

	if (code == -EMFILE || code == -ENFILE)
		return error_sys(err, code,
				 "cannot look at process %d: raise the limit of pollux' open files "
				 "(ulimit -n)",
				 pid);
	return error_set(err, -ESRCH, "there is no process %d", pid);
}

int rights_check(const struct process *p, struct error *err)
{
	char status[PROCESS_STATUS_BYTES];
	unsigned char ident[20];
	int rc;

	if (!is_own_proc())
		return error_set(err, -ENOTSUP,
				 "/proc is that of another pid namespace, in which process numbers "
				 "differ from pollux's: run pollux outside, or mount a /proc "
				 "(unshare --mount-proc)");
	if (!process_read_status(p, 0, status))
		return no_status(p->pid, err);

	long group = process_status_number(status, "Tgid", false);
	if (group > 0 && group != p->pid)
		return error_set(err, -EINVAL, "%d is a thread of process %ld: give that number",
				 p->pid, group);
	bool ended = strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX");
	if (ended && process_status_number(status, "Threads", false) > 1 &&
	    process_lost(p, err) < 0)
		return -ESRCH;
	if (ended)
		return error_set(err, -ESRCH, "process %d has ended (it is a zombie)", p->pid);
	if (!strstr(status, "\nVmSize:"))
		return error_set(err, -EINVAL, "%d is a kernel thread: it runs no program", p->pid);

	long tracer = process_status_number(status, "TracerPid", false);
	if (tracer > 0 && !is_own_thread(tracer)) {
		char comm[16];

		process_thread_name((pid_t)tracer, (pid_t)tracer, comm);
		return error_set(
			err, -EBUSY,
			"process %d is already traced by process %ld (%s), and the kernel allows "
			"one tracer: end that one first",
			p->pid, tracer, comm);
	}

	rc = read_exe_header(p, ident);
	if (rc == 0) {
		uint16_t machine = (uint16_t)(ident[18] | ident[19] << 8);

		if (memcmp(ident, ELFMAG, SELFMAG) || ident[EI_CLASS] != ELFCLASS64 ||
		    machine != ARCH_ELF_MACHINE)
			return error_set(err, -ENOEXEC,
					 "process %d is not a " ARCH_NAME
					 " program: pollux can't trace it yet",
					 p->pid);
	}
	return 0;
}

uint64_t rights_own_caps(void)
{
	_cleanup_close_ int fd = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct process self = {.proc_fd = fd};
	char status[PROCESS_STATUS_BYTES];
	const char *caps = fd >= 0 && process_read_status(&self, 0, status)
				   ? strstr(status, "\nCapEff:")
				   : NULL;

	return caps ? strtoull(caps + 8, NULL, 16) : 0;
}

bool rights_any_exec(void)
{
	return rights_own_caps() >> CAP_SYS_PTRACE_BIT & 1;
}

int rights_explain(pid_t pid, int code, struct error *err)
{
	char path[32], status[PROCESS_STATUS_BYTES];
	struct process p = {.pid = pid, .mem_fd = -1};

	snprintf(path, sizeof(path), "/proc/%d", pid);
	_cleanup_close_ int proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p.proc_fd = proc_fd;
	if (proc_fd < 0 || !process_read_status(&p, 0, status))
		return no_status(pid, err);
	if (code != -EPERM && code != -EACCES)
		return error_sys(err, code, "process %d can't be traced", pid);
	if (rights_check(&p, err) < 0)
		return err ? err->code : code;

	long uid = process_status_number(status, "Uid", false);
	bool cap = rights_any_exec();
	int scope = yama_scope();

	if (!cap && uid >= 0 && (uid_t)uid != geteuid()) {
		if (geteuid() == 0)
			return error_set(err, code,
					 "process %d belongs to user %ld, and this root lacks "
					 "CAP_SYS_PTRACE "
					 "(a container?): add the capability (docker run "
					 "--cap-add=SYS_PTRACE) or run pollux on the host",
					 pid, uid);
		return error_set(
			err, code,
			"process %d belongs to user %ld: run pollux as that user or as root", pid,
			uid);
	}
	if (scope == 3)
		return error_set(err, code,
				 "ptrace is forbidden for all users until the next boot (yama "
				 "ptrace_scope=3): process %d can't be traced",
				 pid);
	if (!cap && scope == 2)
		return error_set(
			err, code,
			"ptrace is forbidden by yama ptrace_scope=2: run pollux as root, or set "
			"kernel.yama.ptrace_scope=0 (sysctl)");
	if (!cap && scope == 1)
		return error_set(
			err, code,
			"ptrace of a running process is forbidden by yama ptrace_scope=1: start "
			"the program with `pollux record -- CMD`, run pollux as root, or set "
			"kernel.yama.ptrace_scope=0 (sysctl)");
	if (!cap && process_same_ns(&p, "user") == 0)
		return error_set(
			err, code,
			"process %d lives in another user namespace: run pollux as root on the "
			"host, or inside that container",
			pid);
	if (!cap)
		return error_set(
			err, code,
			"you may not read process %d: it has more rights than you, or made "
			"itself undumpable (setuid, file capabilities, prctl PR_SET_DUMPABLE): run "
			"pollux as root, with CAP_SYS_PTRACE (containers have it only on demand)",
			pid);
	return error_set(
		err, code,
		"the kernel forbids tracing process %d although pollux has CAP_SYS_PTRACE: a "
		"security module (SELinux, AppArmor), kernel lockdown or a seccomp filter around "
		"pollux forbids it",
		pid);
}
