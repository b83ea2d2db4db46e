/*
 * Seccomp filters of the target.
 *
 * A sandboxed program may have forbidden itself memfd_create or mmap with PROT_EXEC, and the
 * kernel's answer may be SIGSYS. So the filters of a thread are asked before it is sent on an
 * errand: root reads them by ptrace (PTRACE_SECCOMP_GET_FILTER) and they are run here, on the
 * errand's own calls. Without root there is one case that is safe all the same: the thread has as
 * many filters as we have, as in a container whose runtime put the same ones around both of us.
 *
 * The machine is classic BPF as seccomp allows it (kernel/seccomp.c, seccomp_check_filter): loads
 * of aligned words of struct seccomp_data, arithmetic, forward jumps, 16 words of memory.
 */
#include "process/seccomp.h"

#include "base/cleanup.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#define MAX_FILTERS 256

static bool alu(unsigned op, uint32_t *a, uint32_t operand)
{
	switch (op) {
	case BPF_ADD:
		*a += operand;
		return true;
	case BPF_SUB:
		*a -= operand;
		return true;
	case BPF_MUL:
		*a *= operand;
		return true;
	case BPF_DIV:
		if (!operand)
			return false;
		*a /= operand;
		return true;
	case BPF_AND:
		*a &= operand;
		return true;
	case BPF_OR:
		*a |= operand;
		return true;
	case BPF_XOR:
		*a ^= operand;
		return true;
	case BPF_LSH:
		*a = operand < 32 ? *a << operand : 0;
		return true;
	case BPF_RSH:
		*a = operand < 32 ? *a >> operand : 0;
		return true;
	case BPF_NEG:
		*a = -*a;
		return true;
	default:
		return false;
	}
}

static bool jumps(unsigned op, uint32_t a, uint32_t operand)
{
	switch (op) {
	case BPF_JEQ:
		return a == operand;
	case BPF_JGT:
		return a > operand;
	case BPF_JGE:
		return a >= operand;
	default: /* BPF_JSET */
		return (a & operand) != 0;
	}
}

uint32_t seccomp_run(const struct sock_filter *program, size_t len, const struct seccomp_data *data)
{
	uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};

	/* Jumps go forward only, so this ends. */
	for (size_t pc = 0; pc < len; pc++) {
		const struct sock_filter *i = &program[pc];
		unsigned op = i->code & 0xf0;
		uint32_t operand = i->code & BPF_X ? x : i->k;

		switch (BPF_CLASS(i->code)) {
		case BPF_LD:
		case BPF_LDX: {
			uint32_t value;

			if (BPF_MODE(i->code) == BPF_IMM)
				value = i->k;
			else if (BPF_MODE(i->code) == BPF_MEM && i->k < BPF_MEMWORDS)
				value = memory[i->k];
			else if (BPF_MODE(i->code) == BPF_LEN)
				value = sizeof(*data);
			else if (BPF_MODE(i->code) == BPF_ABS && i->k % 4 == 0 &&
				 i->k <= sizeof(*data) - 4)
				memcpy(&value, (const char *)data + i->k, sizeof(value));
			else
				return SECCOMP_RET_KILL_PROCESS;
			*(BPF_CLASS(i->code) == BPF_LD ? &a : &x) = value;
			break;
		}
		case BPF_ST:
		case BPF_STX:
			if (i->k >= BPF_MEMWORDS)
				return SECCOMP_RET_KILL_PROCESS;
			memory[i->k] = BPF_CLASS(i->code) == BPF_ST ? a : x;
			break;
		case BPF_ALU:
			if (!alu(op, &a, operand))
				return SECCOMP_RET_KILL_PROCESS;
			break;
		case BPF_JMP: {
			size_t skip = op == BPF_JA ? i->k : jumps(op, a, operand) ? i->jt : i->jf;

			if (skip >= len - pc)
				return SECCOMP_RET_KILL_PROCESS;
			pc += skip;
			break;
		}
		case BPF_RET:
			return BPF_RVAL(i->code) == BPF_A ? a : i->k;
		default: /* BPF_MISC */
			if (BPF_MISCOP(i->code) == BPF_TAX)
				x = a;
			else
				a = x;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static bool permits(const struct sock_filter *program, size_t len, const struct stub_call *call)
{
	struct seccomp_data data = {.nr = (int)call->nr, .arch = AUDIT_ARCH_X86_64};

	/* An argument that is known only on the way is a file descriptor. */
	for (unsigned k = 0; k < 6; k++)
		data.args[k] = call->from_memory >> k & 1 ? 3 : call->args[k];
	uint32_t answer = seccomp_run(program, len, &data) & SECCOMP_RET_ACTION_FULL;
	/* An error is no harm where the list goes on whatever comes. */
	return answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG ||
	       (answer == SECCOMP_RET_ERRNO && call->check == STUB_ANY);
}

/* The names of what errands call, for people. */
static const char *name_of(uint32_t nr)
{
	switch (nr) {
	case __NR_mmap:
		return "mmap";
	case __NR_madvise:
		return "madvise";
	case __NR_memfd_create:
		return "memfd_create";
	case __NR_ftruncate:
		return "ftruncate";
	case __NR_fcntl:
		return "fcntl";
	case __NR_close:
		return "close";
	default:
		return "a system call";
	}
}

static int read_counts(const struct process *p, pid_t tid, long *ret_mode, long *ret_theirs,
		       long *ret_ours)
{
	struct process self = {
		.proc_fd = open("/proc/thread-self", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	char name[48], text[8192];

	snprintf(name, sizeof(name), "task/%d/status", tid);
	*ret_ours = -1;
	if (self.proc_fd >= 0) {
		if (process_read_file(&self, "status", text, sizeof(text)) > 0)
			*ret_ours = process_status_number(text, "Seccomp_filters", false);
		close(self.proc_fd);
	}
	if (process_read_file(p, name, text, sizeof(text)) <= 0)
		return -ESRCH;
	*ret_mode = process_status_number(text, "Seccomp", false);
	*ret_theirs = process_status_number(text, "Seccomp_filters", false);
	return 0;
}

int seccomp_allows(const struct process *p, pid_t tid, const struct stub_call *calls, size_t n,
		   struct error *err)
{
	static const char advice[] =
		"start it with `pollux record -- CMD`, or record it before it shuts itself in";
	long mode, theirs, ours;
	int rc = read_counts(p, tid, &mode, &theirs, &ours);

	if (rc < 0)
		return error_sys(err, rc, "cannot look at thread %d", tid);
	if (mode <= 0 || (mode == 2 && theirs > 0 && theirs == ours))
		return 0;
	for (long index = 0; mode == 2 && index < MAX_FILTERS; index++) {
		long len = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, NULL);

		if (len < 0 && errno == ENOENT && index > 0)
			return 0; /* that were all */
		if (len <= 0 || len > BPF_MAXINSNS)
			break;
		_cleanup_free_ struct sock_filter *program = calloc((size_t)len, sizeof(*program));
		if (!program)
			return error_sys(err, -ENOMEM, "cannot read a seccomp filter");
		if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program) != len)
			break;
		for (size_t i = 0; i < n; i++)
			if (!permits(program, (size_t)len, &calls[i]))
				return error_set(
					err, -EPERM,
					"the seccomp filter of process %d forbids %s, which "
					"the agent needs: %s",
					p->pid, name_of(calls[i].nr), advice);
	}
	return error_set(
		err, -EPERM,
		"process %d is shut in by a seccomp filter that pollux can't read and so won't "
		"risk: run pollux as root, or inside the same container, or %s",
		p->pid, advice);
}
