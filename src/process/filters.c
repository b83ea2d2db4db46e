/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The machine is classic BPF as seccomp allows it (kernel/seccomp.c, seccomp_check_filter): loads
 * of aligned words of struct seccomp_data, arithmetic, forward jumps, 16 words of memory.
 */
#include "process/filters.h"

#include "arch/arch.h"
#include "base/cleanup.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#define MAX_FILTERS 256ul

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

uint32_t filters_run(const struct sock_filter *program, size_t len, const struct seccomp_data *data,
		     unsigned unknown)
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
				 i->k <= sizeof(*data) - 4 && !(unknown >> i->k / 4 & 1))
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

/* Bits of the two words of an argument, and of where the call is made from. */
#define ARG_WORDS(k) (3u << (offsetof(struct seccomp_data, args) / 4 + 2 * (k)))
#define PLACE_WORDS (3u << offsetof(struct seccomp_data, instruction_pointer) / 4)

static bool permits(const struct sock_filter *program, size_t len, const struct stub_call *call)
{
	struct seccomp_data data = {.nr = (int)call->nr, .arch = ARCH_SECCOMP};
	unsigned unknown = PLACE_WORDS;

	for (unsigned k = 0; k < 6; k++) {
		data.args[k] = call->args[k];
		if (call->from_memory >> k & 1)
			unknown |= ARG_WORDS(k);
	}
	uint32_t answer = filters_run(program, len, &data, unknown) & SECCOMP_RET_ACTION_FULL;
	/* An error is no harm where the list goes on whatever comes, but for what it puts back. */
	return answer == SECCOMP_RET_ALLOW || answer == SECCOMP_RET_LOG ||
	       (answer == SECCOMP_RET_ERRNO && call->check == STUB_ANY && !call->always);
}

static bool may_administer(const char *status)
{
	static const char *const sets[] = {
		"\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:", "\nCapAmb:"};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		const char *line = strstr(status, sets[i]);

		if (!line || strtoull(line + strlen(sets[i]), NULL, 16) >> CAP_SYS_ADMIN & 1)
			return true;
	}
	return false;
}

int filters_read(const struct process *p, pid_t tid, struct filters *ret)
{
	char text[PROCESS_STATUS_BYTES];

	if (!process_read_status(p, tid, text))
		return -ESRCH;
	ret->mode = process_status_number(text, "Seccomp", false);
	ret->n = process_status_number(text, "Seccomp_filters", false);
	ret->fixed = process_status_number(text, "NoNewPrivs", false) == 0 && !may_administer(text);
	if (ret->mode < 0)
		ret->mode = 0; /* a kernel without seccomp */
	return 0;
}

int filters_permit(pid_t tid, const struct stub_call *calls, size_t n, uint32_t *ret_nr)
{
	for (unsigned long index = 0; index < MAX_FILTERS; index++) {
		long len = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, NULL);

		if (len < 0 && errno == ENOENT && index > 0)
			return 1; /* that were all */
		if (len <= 0 || len > BPF_MAXINSNS)
			return 0;
		_cleanup_free_ struct sock_filter *program = calloc((size_t)len, sizeof(*program));
		if (!program)
			return -ENOMEM;
		if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, program) != len)
			return 0;
		for (size_t i = 0; i < n; i++) {
			if (permits(program, (size_t)len, &calls[i]))
				continue;
			*ret_nr = calls[i].nr;
			return -EPERM;
		}
	}
	return 0;
}

bool filters_permit_restart(pid_t tid)
{
	/* The arguments are those of the call that was interrupted. */
	static const struct stub_call restart = {
		.nr = __NR_restart_syscall, .from_memory = 0x3f, .always = 1};
	char path[32];
	struct filters theirs;
	uint32_t nr;

	snprintf(path, sizeof(path), "/proc/%d", tid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct process thread = {.proc_fd = fd};

	if (fd < 0 || filters_read(&thread, 0, &theirs) < 0)
		return false;
	return theirs.mode == 0 || filters_permit(tid, &restart, 1, &nr) == 1;
}
