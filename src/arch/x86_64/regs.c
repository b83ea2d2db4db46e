/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A core file's notes hold the same structure as ptrace gives (Linux
 * include/uapi/linux/elfcore.h, struct elf_prstatus). */
#include "arch/regs.h"

#include <errno.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>

#define USER_CS 0x33 /* 64-bit user code segment: Linux' fixed selector */
#define TRAP_FLAG 0x100u

static void set(struct arch_regs *ret, pid_t tid, const struct user_regs_struct *r)
{
	*ret = (struct arch_regs){
		.tid = tid,
		.pc = r->rip,
		.sp = r->rsp,
		.fp = r->rbp,
		.thread = r->fs_base,
		.call = (long)r->orig_rax,
		.result = r->rax,
		.args = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9},
		.others = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->r8, r->r9, r->r10,
			   r->r11, r->r12, r->r13, r->r14, r->r15},
		.n_others = 14,
		.native = r->cs == USER_CS,
		.steps = r->eflags & TRAP_FLAG,
		.enters = (long)r->rax == -ENOSYS,
		.kernel = *r,
	};
}

int arch_regs_read(pid_t tid, struct arch_regs *ret)
{
	struct user_regs_struct r;

	if (ptrace(PTRACE_GETREGS, tid, 0, &r) < 0)
		return -errno;
	set(ret, tid, &r);
	return 0;
}

int arch_regs_write(pid_t tid, const struct arch_regs *regs)
{
	struct user_regs_struct r = regs->kernel;

	r.rip = regs->pc;
	r.orig_rax = (unsigned long)regs->call;
	r.rax = regs->result;
	r.rdi = regs->args[0];
	r.rsi = regs->args[1];
	r.rdx = regs->args[2];
	r.r10 = regs->args[3];
	r.r8 = regs->args[4];
	r.r9 = regs->args[5];
	return ptrace(PTRACE_SETREGS, tid, 0, &r) < 0 ? -errno : 0;
}

bool arch_regs_of_prstatus(const void *data, size_t len, struct arch_regs *ret)
{
	struct elf_prstatus status;
	struct user_regs_struct r;

	_Static_assert(sizeof(r) <= sizeof(status.pr_reg), "registers of a core are these");
	if (len < sizeof(status))
		return false;
	memcpy(&status, data, sizeof(status));
	memcpy(&r, &status.pr_reg, sizeof(r));
	set(ret, status.pr_pid, &r);
	return true;
}
