/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "capture/kernel/calls.h"

#include "arch/pt_regs.h"
#include "trace/event.h"

#include <asm/unistd.h>

const struct kernel_call kernel_calls[] = {
	{__NR_futex, TB_FUTEX, {KC_FUTEX}},
#ifdef __NR_poll
	{__NR_epoll_wait, TB_EPOLL_WAIT, {KC_WAIT}},
	{__NR_poll, TB_POLL, {KC_WAIT}},
	{__NR_select, TB_SELECT, {KC_WAIT}},
#endif
	{__NR_epoll_pwait, TB_EPOLL_PWAIT, {KC_WAIT}},
	{__NR_epoll_pwait2, TB_EPOLL_PWAIT2, {KC_WAIT}},
	{__NR_ppoll, TB_PPOLL, {KC_WAIT}},
	{__NR_pselect6, TB_SELECT, {KC_WAIT}},
	{__NR_nanosleep, TB_NANOSLEEP, {KC_WAIT}},
	{__NR_clock_nanosleep, TB_CLOCK_NANOSLEEP, {KC_WAIT}},
	{__NR_wait4, TB_WAITPID, {KC_WAIT}},
	{__NR_waitid, TB_WAITID, {KC_WAIT}},
	{__NR_read, TB_READ, {KC_BLOCK}},
	{__NR_pread64, TB_PREAD, {KC_BLOCK}},
	{__NR_readv, TB_READV, {KC_BLOCK}},
	{__NR_write, TB_WRITE, {KC_BLOCK}},
	{__NR_pwrite64, TB_PWRITE, {KC_BLOCK}},
	{__NR_writev, TB_WRITEV, {KC_BLOCK}},
	{__NR_recvfrom, TB_RECVFROM, {KC_BLOCK, REG_CALL_ARG_4}},
	{__NR_recvmsg, TB_RECVMSG, {KC_BLOCK, REG_ARG_3}},
	{__NR_sendto, TB_SENDTO, {KC_BLOCK, REG_CALL_ARG_4}},
	{__NR_sendmsg, TB_SENDMSG, {KC_BLOCK, REG_ARG_3}},
	{__NR_accept, TB_ACCEPT, {KC_BLOCK}},
	{__NR_accept4, TB_ACCEPT4, {KC_BLOCK}},
	{__NR_connect, TB_CONNECT, {KC_BLOCK}},
	{__NR_fsync, TB_FSYNC, {KC_BLOCK}},
	{__NR_fdatasync, TB_FDATASYNC, {KC_BLOCK}},
	{__NR_flock, TB_FLOCK, {KC_BLOCK}},
	{__NR_sched_yield, TB_SCHED_YIELD, {KC_BLOCK}},
};
const size_t kernel_n_calls = sizeof(kernel_calls) / sizeof(kernel_calls[0]);

uint16_t kernel_call_of(uint64_t number)
{
	for (size_t i = 0; i < kernel_n_calls; i++)
		if (kernel_calls[i].number == number)
			return kernel_calls[i].call;
	return TB_NONE;
}
