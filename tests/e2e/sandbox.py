# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs under seccomp filters.

    sandbox.py allow|CALL[:ARG=VALUE]... -- COMMAND     runs it under one: killed for these calls
    sandbox.py error CALL[:ARG=VALUE]... -- COMMAND     the same, but they fail with EPERM
    sandbox.py old-engine -- COMMAND                    old_engine()

And `Later`: a library to be preloaded that puts all threads of a program under one when it is asked to, or lets
each of them do that to itself.
"""
import ctypes
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

CALLS = {"memfd_create": 319, "futex": 202, "mmap": 9, "rt_sigprocmask": 14, "shmget": 29,
         "perf_event_open": 298, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "bpf": 321,
         "userfaultfd": 323}
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050001
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2


def program(*rules, answer=KILL):
    """The filter that gives this answer to these: ("futex", {1: 132}) is futex with 132 as its second
    argument."""
    out = []
    for call, arguments in rules:
        tests = [(0, CALLS[call]), *((16 + 8 * k, value) for k, value in arguments.items())]
        n = 2 * len(tests) + 1
        for i, (offset, value) in enumerate(tests):
            out += [(LOAD, 0, 0, offset), (EQUAL, 0, n - 2 * i - 2, value)]
        out.append((RETURN, 0, 0, answer))
    return [*out, (RETURN, 0, 0, ALLOW)]


def shut_in(filter_program):
    """From now on this process is under the filter."""
    code = b"".join(struct.pack("=HBBI", *one) for one in filter_program)
    buffer = ctypes.create_string_buffer(code)
    fprog = struct.pack("=HxxxxxxQ", len(filter_program), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, MODE_FILTER, fprog, 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")


# Linux 4.18 has system calls up to rseq's number.
LAST_CALL_OF_4_18, ENOSYS, EINVAL, EIO = 334, 38, 22, 5
ERROR_NOT_THERE = 0x00050000 | ENOSYS
JUMP_IF_GREATER, JUMP_IF_SET = 0x25, 0x45
# Newer ways of older calls: number, argument, how it is compared, with what, the answer of 4.18. Not here: what
# pollux chooses by the kernel's version, which a filter can't change (memfd_create: MFD_NOEXEC_SEAL).
NEWER_THAN_4_18 = (
    (25, 3, JUMP_IF_SET, 4, EINVAL),  # mremap: MREMAP_DONTUNMAP
    (101, 0, EQUAL, 0x420E, EIO),  # ptrace: PTRACE_GET_SYSCALL_INFO
    (101, 0, EQUAL, 0x420F, EIO),  # PTRACE_GET_RSEQ_CONFIGURATION
    (157, 0, EQUAL, 0x53564D41, EINVAL),  # prctl: PR_SET_VMA
    (28, 2, JUMP_IF_GREATER, 19, EINVAL),  # madvise: MADV_COLD and later; 100 and 101 are not used
    (318, 2, JUMP_IF_SET, ~3 & 0xFFFFFFFF, EINVAL),  # getrandom: GRND_INSECURE
    (247, 0, EQUAL, 3, EINVAL),  # waitid: P_PIDFD
)


def linux_4_18():
    """The filter that leaves of the system calls those of Linux 4.18, and their flags."""
    out = [(LOAD, 0, 0, 0), (JUMP_IF_GREATER, 0, 1, LAST_CALL_OF_4_18), (RETURN, 0, 0, ERROR_NOT_THERE)]
    for number, argument, how, value, error in NEWER_THAN_4_18:
        out += [(LOAD, 0, 0, 0), (EQUAL, 0, 3, number), (LOAD, 0, 0, 16 + 8 * argument), (how, 0, 1, value),
                (RETURN, 0, 0, 0x00050000 | error)]
    return [*out, (RETURN, 0, 0, ALLOW)]


CLONE3 = 435


def old_engine(clone3=ERROR):
    """The filter of a container engine that is older than the calls: it answers EPERM to what it does not know, and to
    what it gave to programs with more rights. For the programs of a new libc: `clone3` is the answer to that call."""
    out = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, clone3), (JUMP_IF_GREATER, 0, 1, LAST_CALL_OF_4_18),
           (RETURN, 0, 0, ERROR)]
    for call in ("process_vm_readv", "process_vm_writev", "kcmp", "bpf", "userfaultfd", "perf_event_open"):
        out += [(EQUAL, 0, 1, CALLS[call]), (RETURN, 0, 0, ERROR)]
    return [*out, (RETURN, 0, 0, ALLOW)]


def under(*rules, error=False):
    """Prefix of a command."""
    words = ["error"] * error + [call + "".join(f":{k}={value}" for k, value in arguments.items()) for call, arguments in rules]
    return (sys.executable, __file__, *(words or ["allow"]), "--")


LATER = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static struct sock_filter code[] = {%s};

static unsigned long libc_start, libc_bytes; /* of its code */

static void find_libc(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long end;

		if (strstr(line, "/libc.so") && sscanf(line, "%%lx-%%lx r-x", &libc_start, &end) == 2 && strstr(line, " r-x")) {
			libc_bytes = end - libc_start;
			break;
		}
	}
	if (maps)
		fclose(maps);
}

/* The thread that gets the signal, and no other. */
static void shut_in_myself(int signo)
{
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	long rc = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);

	/* From now on SIGSYS for each system call that libc does not make. */
	if (signo == 38) {
		static char block = 1;
		char name[300];

		snprintf(name, sizeof(name), "%%s.%%d", getenv("SHUT_IN"), gettid());
		rc |= prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, libc_start, libc_bytes, &block);
		if (!rc)
			close(open(name, O_WRONLY | O_CREAT, 0600));
	} else if (signo == 35)
		rc |= prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
	else if (signo == 36)
		rc |= syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	else
		__asm__ volatile("syscall"
				 : "=a"(rc)
				 : "0"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(&program)
				 : "rcx", "r11", "memory");
	if (rc)
		_exit(99);
}

static void *wait_for_it(void *path)
{
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	while (access(path, F_OK))
		usleep(2000);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		_exit(99);
	unlink(path);
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	find_libc();
	for (int signo = 35; signo <= 38 && getenv("SHUT_IN"); signo++)
		sigaction(signo, &(struct sigaction){.sa_handler = shut_in_myself, .sa_flags = SA_RESTART}, NULL);
	if (getenv("SHUT_IN"))
		pthread_create(&thread, NULL, wait_for_it, getenv("SHUT_IN"));
}
"""


class Later:
    """A program that is put under a filter while it runs: `env` for it, then shut_in()."""

    def __init__(self, folder, *rules):
        source, self.library, self.path = folder / "later.c", folder / "later.so", folder / "shut-in"
        code = ",".join("{%d, %d, %d, %du}" % one for one in program(*rules))
        source.write_text(LATER % code)
        subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", self.library, source], check=True)
        self.env = {"LD_PRELOAD": str(self.library), "SHUT_IN": str(self.path)}

    def shut_in_each(self, pid, by):
        """Each thread but the main one, by "prctl", "syscall" or "itself" (no function of libc's); or "dispatch": it has its
        system calls handed to the program."""
        libc, deadline = ctypes.CDLL(None, use_errno=True), time.monotonic() + 30
        tids = [int(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) != pid]
        for tid in tids:
            assert libc.tgkill(pid, tid, 35 + ("prctl", "syscall", "itself", "dispatch").index(by)) == 0

        def is_in(tid):
            if by == "dispatch":
                return Path(f"{self.path}.{tid}").exists()
            return "\nSeccomp:\t2\n" in Path(f"/proc/{pid}/task/{tid}/status").read_text()

        while not all(is_in(tid) for tid in tids):
            assert time.monotonic() < deadline, "they were not shut in"
            time.sleep(0.002)
        return len(tids)

    def shut_in(self):
        self.path.touch()
        deadline = time.monotonic() + 30
        while self.path.exists():
            assert time.monotonic() < deadline, "it was not shut in"
            time.sleep(0.002)


def main():
    words, command = sys.argv[1:], []
    at = words.index("--")
    words, command = words[:at], words[at + 1:]
    if words == ["old-engine"]:
        shut_in(old_engine(clone3=ERROR_NOT_THERE))
        os.execvp(command[0], command)
    rules = []
    for word in words:
        call, *arguments = word.split(":")
        if call not in ("allow", "error"):
            rules.append((call, {int(k): int(v) for k, v in (a.split("=") for a in arguments)}))
    shut_in(program(*rules, answer=ERROR if "error" in words else KILL))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
