/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that a stop ends.
 *
 * A thread that waits in the kernel leaves the call to be stopped. For most calls the kernel keeps
 * a code in the register of the result by which it makes the call again (ERESTARTSYS and its like). Some
 * have none and return EINTR, also where no signal handler has run (signal(7), "Interruption of system calls
 * and library functions by stop signals"). A program that has no handlers does not expect that: many end.
 * So EINTR is replaced by the code that means "again, unless a handler runs first". Nothing has been done
 * by the call then: what had moved some bytes returns their number.
 *
 * The wait begins again. Where it has a limit that would come later. For a socket's (SO_RCVTIMEO) that is less
 * harm than an error. For an event loop, whose timers depend on it, it is not; a loop knows EINTR. So calls
 * whose limit is an argument are made again only without one: epoll_wait(..., 100) returns EINTR.
 *
 * Where a wait has a limit that the kernel knows (nanosleep, poll, futex), it makes restart_syscall() in the call's
 * place: a system call that the program has never made, and that its seccomp filter may forbid, on pain of death.
 * So where the filter is not proven to allow it, the call itself is made again. For a futex with an absolute
 * time, and for a sleep that has its remaining time written over its time (as sleep() of glibc, Rust's
 * thread::sleep), that is the same; other limits begin again.
 *
 * And the kernel gives up the verification of a BPF program for any stop, with EAGAIN: that is made again.
 */
#include "process/interrupted.h"

#include "arch/regs.h"
#include "process/filters.h"

#include <asm/unistd.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>

/* include/linux/errno.h of the kernel */
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

static bool may_be_made_again(const struct arch_regs *regs)
{
	const uint64_t *arg = regs->args;

	switch (regs->call) {
	/* A socket with SO_RCVTIMEO or SO_SNDTIMEO. */
	case __NR_read:
	case __NR_readv:
	case __NR_write:
	case __NR_writev:
	case __NR_preadv2: /* from no place, as readv() */
	case __NR_pwritev2:
	case __NR_recvfrom:
	case __NR_recvmsg:
	case __NR_sendto:
	case __NR_sendmsg:
	case __NR_sendmmsg:
	case __NR_sendfile:
	case __NR_splice:
	case __NR_connect:
	case __NR_accept:
	case __NR_accept4:
	case __NR_semop:
		return true;
#ifdef __NR_epoll_wait
	case __NR_epoll_wait:
#endif
	case __NR_epoll_pwait:
		return (int)arg[3] < 0;
#ifdef __NR_epoll_pwait2
	case __NR_epoll_pwait2:
		return !arg[3];
#endif
	case __NR_semtimedop:
		return !arg[3];
	case __NR_rt_sigtimedwait:
		return !arg[2];
	case __NR_recvmmsg:
	case __NR_io_getevents:
		return !arg[4];
	/* On tmpfs and hugetlbfs. What was allocated is freed again, or is there already. */
	case __NR_fallocate:
		return !(arg[1] & ~(uint64_t)FALLOC_FL_KEEP_SIZE);
#ifdef __NR_io_uring_enter
	case __NR_io_uring_enter:
		return arg[3] & IORING_ENTER_GETEVENTS && !(arg[3] & IORING_ENTER_EXT_ARG);
#endif
	default:
		return false;
	}
}

/* Whether the call has its arguments still when it is made as it was: they are the time at which it ends. */
static bool ends_at_time(const struct arch_regs *regs)
{
	return regs->call == __NR_futex &&
	       (regs->args[1] & (uint64_t)FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

/* The code for "again", 0: what is there is right. */
static int again(pid_t tid, const struct arch_regs *regs)
{
	switch (-(int64_t)regs->result) {
	case EINTR:
		return may_be_made_again(regs) ? ERESTARTNOHAND : 0;
	case EAGAIN: /* the verifier's, for a signal (kernel/bpf/verifier.c, do_check) */
		return regs->call == __NR_bpf && regs->args[0] == BPF_PROG_LOAD ? ERESTARTNOINTR
										: 0;
	case ERESTART_RESTARTBLOCK:
		return ends_at_time(regs) || !filters_permit_restart(tid) ? ERESTARTNOHAND : 0;
	default:
		return 0;
	}
}

void interrupted_again(pid_t tid)
{
	struct arch_regs regs;
	int code;

	if (arch_regs_read(tid, &regs) < 0 || !regs.native || regs.call < 0)
		return;
	code = again(tid, &regs);
	if (!code)
		return;
	regs.result = (uint64_t) - (int64_t)code;
	arch_regs_write(tid, &regs);
}
