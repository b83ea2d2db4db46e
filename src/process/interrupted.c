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
 */
#include "process/interrupted.h"

#include "arch/regs.h"

#include <asm/unistd.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>

#define ERESTARTNOHAND 514 /* include/linux/errno.h of the kernel */

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
#ifdef __NR_io_uring_enter
	case __NR_io_uring_enter:
		return arg[3] & IORING_ENTER_GETEVENTS && !(arg[3] & IORING_ENTER_EXT_ARG);
#endif
	default:
		return false;
	}
}

void interrupted_again(pid_t tid)
{
	struct arch_regs regs;

	if (arch_regs_read(tid, &regs) < 0 || !regs.native || regs.call < 0 ||
	    (int64_t)regs.result != -EINTR || !may_be_made_again(&regs))
		return;
	regs.result = (uint64_t)-ERESTARTNOHAND;
	arch_regs_write(tid, &regs);
}
