/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The self-restoring stub for x86-64.
 *
 * What the thread may not notice: the 128 bytes below its stack pointer (the red zone of leaf
 * functions), flags, and every register, of which a system call changes rax, rcx and r11 and our
 * arguments some more. So:
 *
 *     lea -128(%rsp),%rsp ; pushfq ; push rcx rdx rsi rdi r8 r9 r10 r11
 *     { arguments ; mov $nr,%eax ; syscall ; store the result ; check it } ...
 *     push rax ; { the calls that are always made } ... ; pop rax
 *     store done
 *     pop r11 ... rcx ; popfq ; lea 128(%rsp),%rsp
 *     movabs $rax,%rax ; jmp *0(%rip) ; .quad rip
 *
 * A thread that was interrupted inside a system call holds the kernel's own restart code in rax.
 * The kernel would restart the call on its way back to user mode; since we put another place in its
 * way (and orig_rax = -1, so that it does not try), the stub must do the same: go back to the
 * `syscall` instruction, two bytes before, with the call's number, or that of restart_syscall, in
 * rax.
 */
#include "process/stub.h"

#include <asm/unistd.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* include/linux/errno.h of the kernel: not for user space, except to those who look with ptrace. */
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

void stub_resume_of(const struct user_regs_struct *regs, struct stub_resume *ret)
{
	long long rax = (long long)regs->rax;

	*ret = (struct stub_resume){.rip = regs->rip, .rax = regs->rax};
	if ((long long)regs->orig_rax < 0)
		return;
	if (rax == -ERESTARTSYS || rax == -ERESTARTNOINTR || rax == -ERESTARTNOHAND)
		*ret = (struct stub_resume){.rip = regs->rip - 2, .rax = regs->orig_rax};
	else if (rax == -ERESTART_RESTARTBLOCK)
		*ret = (struct stub_resume){.rip = regs->rip - 2, .rax = __NR_restart_syscall};
}

struct code {
	uint8_t *at, *end;
	bool full;
};

static void emit(struct code *c, const void *bytes, size_t n)
{
	if ((size_t)(c->end - c->at) < n) {
		c->full = true;
		return;
	}
	memcpy(c->at, bytes, n);
	c->at += n;
}

#define EMIT(c, ...)                                                                               \
	emit((c), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void emit_u32(struct code *c, uint32_t v)
{
	emit(c, &v, sizeof(v));
}

static void emit_u64(struct code *c, uint64_t v)
{
	emit(c, &v, sizeof(v));
}

/* Registers of a system call's arguments, as x86 numbers them: rdi rsi rdx r10 r8 r9. */
static const uint8_t arg_reg[6] = {7, 6, 2, 10, 8, 9};

static void load_arg(struct code *c, unsigned i, uint64_t value, bool from_memory)
{
	uint8_t reg = arg_reg[i], low = reg & 7, high = reg >> 3;

	if (from_memory) {
		EMIT(c, 0x48, 0xa1); /* movabs value,%rax */
		emit_u64(c, value);
		EMIT(c, (uint8_t)(0x48 | high), 0x89, (uint8_t)(0xc0 | low)); /* mov %rax,reg */
	} else if (value == 0) {
		if (high)
			EMIT(c, 0x45, 0x31, (uint8_t)(0xc0 | low << 3 | low)); /* xor reg,reg */
		else
			EMIT(c, 0x31, (uint8_t)(0xc0 | low << 3 | low));
	} else if (value <= UINT32_MAX) {
		if (high)
			EMIT(c, 0x41);
		EMIT(c, (uint8_t)(0xb8 | low)); /* mov $imm32,reg: the upper half becomes 0 */
		emit_u32(c, (uint32_t)value);
	} else {
		EMIT(c, (uint8_t)(0x48 | high), (uint8_t)(0xb8 | low)); /* movabs $imm64,reg */
		emit_u64(c, value);
	}
}

static void store_rax(struct code *c, uint64_t addr)
{
	EMIT(c, 0x48, 0xa3); /* movabs %rax,addr */
	emit_u64(c, addr);
}

static void emit_call(struct code *c, const struct stub_call *call)
{
	for (unsigned k = 0; k < 6; k++)
		load_arg(c, k, call->args[k], call->from_memory >> k & 1);
	EMIT(c, 0xb8); /* mov $nr,%eax */
	emit_u32(c, call->nr);
	EMIT(c, 0x0f, 0x05); /* syscall */
	if (call->result_at)
		store_rax(c, call->result_at);
}

#define MAX_CALLS 64

long stub_build(uint8_t *out, size_t cap, const struct stub_call *calls, size_t n, uint64_t done_at,
		uint64_t done_value, const struct stub_resume *resume)
{
	struct code c = {.at = out, .end = out + cap};
	uint8_t *exits[MAX_CALLS]; /* places of rel32 that lead to the end of the list */
	size_t n_exits = 0;

	if (n > MAX_CALLS)
		return -ENOSPC;
	EMIT(&c, 0x48, 0x8d, 0x64, 0x24, 0x80);			  /* lea -128(%rsp),%rsp */
	EMIT(&c, 0x9c);						  /* pushfq */
	EMIT(&c, 0x51, 0x52, 0x56, 0x57);			  /* push rcx rdx rsi rdi */
	EMIT(&c, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53); /* push r8 r9 r10 r11 */

	size_t i = 0;
	for (; i < n && !calls[i].always; i++) {
		const struct stub_call *call = &calls[i];

		emit_call(&c, call);
		if (call->check == STUB_NO_ERROR) {
			EMIT(&c, 0x48, 0x3d); /* cmp $-4095,%rax */
			emit_u32(&c, (uint32_t)-4095);
			EMIT(&c, 0x0f, 0x83); /* jae out */
		} else if (call->check == STUB_EQUAL) {
			EMIT(&c, 0x48, 0xb9); /* movabs $expected,%rcx */
			emit_u64(&c, call->expected);
			EMIT(&c, 0x48, 0x39, 0xc8); /* cmp %rcx,%rax */
			EMIT(&c, 0x0f, 0x85);	    /* jne out */
		} else {
			continue;
		}
		exits[n_exits++] = c.at;
		emit_u32(&c, 0);
	}
	if (done_at) {
		EMIT(&c, 0x48, 0xb8); /* movabs $done_value,%rax */
		emit_u64(&c, done_value);
	}
	/* The exits come here with the result in rax. */
	for (size_t k = 0; k < n_exits && !c.full; k++) {
		int32_t rel = (int32_t)(c.at - (exits[k] + 4));
		memcpy(exits[k], &rel, sizeof(rel));
	}
	EMIT(&c, 0x50); /* push %rax */
	for (; i < n; i++)
		emit_call(&c, &calls[i]);
	EMIT(&c, 0x58); /* pop %rax */
	if (done_at)
		store_rax(&c, done_at);
	EMIT(&c, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58); /* pop r11 r10 r9 r8 */
	EMIT(&c, 0x5f, 0x5e, 0x5a, 0x59);			  /* pop rdi rsi rdx rcx */
	EMIT(&c, 0x9d);						  /* popfq */
	EMIT(&c, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0);	  /* lea 128(%rsp),%rsp */
	EMIT(&c, 0x48, 0xb8);					  /* movabs $rax,%rax */
	emit_u64(&c, resume->rax);
	EMIT(&c, 0xff, 0x25, 0, 0, 0, 0); /* jmp *0(%rip) */
	emit_u64(&c, resume->rip);
	return c.full ? -ENOSPC : c.at - out;
}
