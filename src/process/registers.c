/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Registers, x86-64: from ptrace and from the notes of a core file, which hold the same structure
 * (Linux include/uapi/linux/elfcore.h, struct elf_prstatus).
 */
#include "process/registers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/user.h>

static struct thread_registers registers_of(pid_t tid, const struct user_regs_struct *r)
{
	return (struct thread_registers){
		.tid = tid,
		.ip = r->rip,
		.sp = r->rsp,
		.bp = r->rbp,
		.fs_base = r->fs_base,
		.call = (long)r->orig_rax,
		.others = {r->rax, r->rbx, r->rcx, r->rdx, r->rsi, r->rdi, r->r8, r->r9, r->r10,
			   r->r11, r->r12, r->r13, r->r14, r->r15},
	};
}

int registers_read(const struct process_stop *stopped, struct thread_registers **ret, size_t *ret_n)
{
	struct thread_registers *v = calloc(stopped->n ? stopped->n : 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < stopped->n; i++) {
		struct user_regs_struct r;

		if (stopped->v[i].state != THREAD_GONE &&
		    ptrace(PTRACE_GETREGS, stopped->v[i].tid, 0, &r) == 0)
			v[n++] = registers_of(stopped->v[i].tid, &r);
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

bool registers_of_prstatus(const void *data, size_t len, struct thread_registers *ret)
{
	struct elf_prstatus status;
	struct user_regs_struct r;

	_Static_assert(sizeof(r) <= sizeof(status.pr_reg), "registers of a core are these");
	if (len < sizeof(status))
		return false;
	memcpy(&status, data, sizeof(status));
	memcpy(&r, &status.pr_reg, sizeof(r));
	*ret = registers_of(status.pr_pid, &r);
	return true;
}
