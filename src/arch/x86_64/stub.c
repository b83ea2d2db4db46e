/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The self-restoring stub for x86-64.
 *
 * The stub restores the flags and all registers that it changes: a system call changes rax, rcx and
 * r11, and its arguments some more. Their values are known when the stub is written for a stopped
 * thread, so the code contains them. The stub does not touch the stack: there may be none below its
 * pointer (a coroutine's is as small as it needs, a signal's on its alternate stack too, and the
 * pointer may be any other number).
 *
 *     { arguments ; mov $nr,%eax ; syscall ; store the result ; check it } ...
 *     store done
 *     { the calls that are always made } ...
 *     overflow flag ; the other flags, by sahf
 *     mov $rcx,%rcx ... mov $r11,%r11
 *     mov $rax,%rax ; jmp *0(%rip) ; .quad rip
 *
 * A thread that was interrupted inside a system call holds the kernel's own restart code in rax.
 * The kernel would restart the call on its way back to user mode; since we put another place in its
 * way (and orig_rax = -1, so that it does not try), the stub must do the same: go back to the
 * `syscall` instruction, two bytes before, with the call's number, or that of restart_syscall, in
 * rax.
 */
#include "arch/stub.h"

#include "arch/arch.h"

#include <asm/unistd.h>
#include <cpuid.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* include/linux/errno.h of the kernel: not for user space, except to those who look with ptrace. */
#define ERESTARTSYS 512
#define ERESTARTNOINTR 513
#define ERESTARTNOHAND 514
#define ERESTART_RESTARTBLOCK 516

#define OVERFLOW_FLAG 0x800u /* of x86' rflags */

void stub_resume_of(const struct arch_regs *regs, struct stub_resume *ret)
{
	long rax = (long)regs->result;

	*ret = (struct stub_resume){.regs = regs, .pc = regs->pc, .result = regs->result};
	if (regs->call < 0)
		return;
	if (rax == -ERESTARTSYS || rax == -ERESTARTNOINTR || rax == -ERESTARTNOHAND)
		ret->result = (uint64_t)regs->call;
	else if (rax == -ERESTART_RESTARTBLOCK)
		ret->result = __NR_restart_syscall;
	else
		return;
	ret->pc = regs->pc - ARCH_SYSCALL_BYTES;
}

struct code {
	uint8_t *pos, *end;
	bool full;
};

static void emit(struct code *c, const void *bytes, size_t n)
{
	if ((size_t)(c->end - c->pos) < n) {
		c->full = true;
		return;
	}
	memcpy(c->pos, bytes, n);
	c->pos += n;
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

/* mov $value,reg, as x86 numbers the registers; no flag changes. */
static void load(struct code *c, uint8_t reg, uint64_t value)
{
	uint8_t low = reg & 7, high = reg >> 3;

	if (value <= UINT32_MAX) {
		if (high)
			EMIT(c, 0x41);
		EMIT(c, (uint8_t)(0xb8 | low)); /* mov $imm32,reg: the upper half becomes 0 */
		emit_u32(c, (uint32_t)value);
	} else if (value >= (uint64_t)INT32_MIN) {
		EMIT(c, (uint8_t)(0x48 | high), 0xc7, (uint8_t)(0xc0 | low)); /* sign-extended */
		emit_u32(c, (uint32_t)value);
	} else {
		EMIT(c, (uint8_t)(0x48 | high), (uint8_t)(0xb8 | low)); /* movabs $imm64,reg */
		emit_u64(c, value);
	}
}

enum { RCX = 1, RDX = 2, RSI = 6, RDI = 7, R8 = 8, R9, R10, R11 };

/* Of a system call's arguments. */
static const uint8_t arg_reg[6] = {RDI, RSI, RDX, R10, R8, R9};

static void load_arg(struct code *c, unsigned i, uint64_t value, bool from_memory)
{
	uint8_t reg = arg_reg[i], low = reg & 7, high = reg >> 3;

	if (!from_memory && !value) {
		if (high)
			EMIT(c, 0x45);
		EMIT(c, 0x31, (uint8_t)(0xc0 | low << 3 | low)); /* xor reg,reg */
	} else if (from_memory) {
		EMIT(c, 0x48, 0xa1); /* movabs value,%rax */
		emit_u64(c, value);
		EMIT(c, (uint8_t)(0x48 | high), 0x89, (uint8_t)(0xc0 | low)); /* mov %rax,reg */
	} else {
		load(c, reg, value);
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

/* What the stub has changed. */
static void restore(struct code *c, const struct stub_resume *resume)
{
	const struct user_regs_struct *r = &resume->regs->kernel;

	/* 0x7f + 1 overflows, 0 + 1 doesn't. sahf sets the flags but that one; no system call, and
	 * no instruction here, changes those above. */
	EMIT(c, 0xb0, (uint8_t)(r->eflags & OVERFLOW_FLAG ? 0x7f : 0)); /* mov $imm8,%al */
	EMIT(c, 0xfe, 0xc0);						/* inc %al */
	EMIT(c, 0xb4, (uint8_t)r->eflags, 0x9e);			/* mov $imm8,%ah ; sahf */
	load(c, RCX, r->rcx);
	load(c, RDX, r->rdx);
	load(c, RSI, r->rsi);
	load(c, RDI, r->rdi);
	load(c, R8, r->r8);
	load(c, R9, r->r9);
	load(c, R10, r->r10);
	load(c, R11, r->r11);
	load(c, 0, resume->result);
	EMIT(c, 0xff, 0x25, 0, 0, 0, 0); /* jmp *0(%rip) */
	emit_u64(c, resume->pc);
}

/* A processor of before 2006 may lack it. */
static bool has_sahf(void)
{
	unsigned a, b, c = 0, d;

	return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LAHF_LM;
}

#define MAX_CALLS 64

/* The jumps whose rel32 are at these places. */
static void lead_here(const struct code *c, uint8_t *const *places, size_t n)
{
	for (size_t i = 0; i < n && !c->full; i++) {
		int32_t rel = (int32_t)(c->pos - (places[i] + 4));
		memcpy(places[i], &rel, sizeof(rel));
	}
}

long stub_build(uint8_t *out, size_t cap, const struct stub_call *calls, size_t n, uint64_t done_at,
		uint64_t done_value, const struct stub_resume *resume)
{
	struct code c = {.pos = out, .end = out + cap};
	/* Places of rel32 that lead to where the list is done, and to where it ends before. */
	uint8_t *dones[MAX_CALLS], *exits[MAX_CALLS];
	size_t n_dones = 0, n_exits = 0;

	if (n > MAX_CALLS)
		return -ENOSPC;
	if (!has_sahf())
		return -ENOTSUP;
	size_t i = 0;
	for (; i < n && !calls[i].always; i++) {
		const struct stub_call *call = &calls[i];

		emit_call(&c, call);
		if (call->check == STUB_NO_ERROR) {
			EMIT(&c, 0x48, 0x3d); /* cmp $-4095,%rax */
			emit_u32(&c, (uint32_t)-4095);
			EMIT(&c, 0x0f, 0x83); /* jae out */
		} else if (call->check == STUB_EQUAL || call->check == STUB_DONE) {
			EMIT(&c, 0x48, 0xb9); /* movabs $expected,%rcx */
			emit_u64(&c, call->expected);
			EMIT(&c, 0x48, 0x39, 0xc8); /* cmp %rcx,%rax */
			/* jne out; je done */
			EMIT(&c, 0x0f, call->check == STUB_EQUAL ? 0x85 : 0x84);
		} else {
			continue;
		}
		*(call->check == STUB_DONE ? &dones[n_dones++] : &exits[n_exits++]) = c.pos;
		emit_u32(&c, 0);
	}
	lead_here(&c, dones, n_dones);
	if (done_at) {
		EMIT(&c, 0x48, 0xb8); /* movabs $done_value,%rax */
		emit_u64(&c, done_value);
	}
	/* The exits come here with the result in rax. */
	lead_here(&c, exits, n_exits);
	if (done_at)
		store_rax(&c, done_at);
	for (; i < n; i++)
		emit_call(&c, &calls[i]);
	restore(&c, resume);
	return c.full ? -ENOSPC : c.pos - out;
}
