/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "arch/code.h"

#include "agent/ring.h"

#include <string.h>

enum { INT3 = ARCH_BREAKPOINT, JUMP = ARCH_JUMP, MAX_INSN = 15 };
enum { LITERAL = 8, JUMP_FIRST = 28 }; /* of a trampoline: its last word, and the earliest jump */

static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

#define PUT(at, ...)                                                                               \
	put((at), (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static uint8_t *put_u32(uint8_t *at, uint32_t v)
{
	return put(at, &v, sizeof(v));
}

/* At `addr` in the program. */
static uint8_t *put_jump(uint8_t *at, uint64_t addr, uint64_t target)
{
	at = PUT(at, JUMP);
	return put_u32(at, (uint32_t)(target - (addr + ARCH_JUMP_BYTES)));
}

void arch_put_padding(uint8_t *out, uint64_t bytes)
{
	memset(out, INT3, bytes);
}

void arch_put_stub(uint8_t *out, uint64_t addr, uint32_t hook, uint64_t thunk)
{
	uint8_t *at = PUT(out, 0xb8); /* mov $hook,%eax */

	at = put_u32(at, hook);
	put_jump(at, addr + (uint64_t)(at - out), thunk);
}

/*
 * After a REX prefix, which a jump may have, too, if there is room. Its first byte stays the same:
 * the kernel writes that byte when it removes a breakpoint that another tool (perf, bpftrace) put
 * there meanwhile.
 */
int arch_jump_at(const uint8_t *insn, uint8_t len)
{
	if (len < ARCH_JUMP_BYTES || len > MAX_INSN)
		return -1;
	return (insn[0] & 0xf0) == 0x40 && len > ARCH_JUMP_BYTES;
}

void arch_put_jump(uint8_t *out, uint64_t addr, uint64_t target)
{
	put_jump(out, addr, target);
}

int arch_jump_left(const uint8_t live[8], const uint8_t saved[8])
{
	for (int at = 0; at < 2; at++)
		if (live[at] == JUMP && saved[at] != JUMP &&
		    (!at || live[0] == saved[0] || live[0] == INT3) &&
		    !memcmp(live + at + ARCH_JUMP_BYTES, saved + at + ARCH_JUMP_BYTES,
			    3 - (size_t)at))
			return at;
	return -1;
}

/* The displaced instruction, made to mean the same elsewhere. */
static uint8_t *put_displaced(uint8_t *at, const uint8_t *b, uint8_t len, uint64_t addr)
{
	/* lea disp32(%rip),%reg: REX.W [REX.R] 8d, mod 00 rm 101 -> movabs $address,%reg */
	if (len == 7 && (b[0] & 0xfb) == 0x48 && b[1] == 0x8d && (b[2] & 0xc7) == 0x05) {
		uint8_t reg = b[2] >> 3 & 7, high = b[0] >> 2 & 1;
		int32_t disp;

		memcpy(&disp, b + 3, sizeof(disp));
		uint64_t target = addr + len + (uint64_t)(int64_t)disp;
		at = PUT(at, (uint8_t)(0x48 | high), (uint8_t)(0xb8 | reg));
		return put(at, &target, sizeof(target));
	}
	/* mov $imm32 to a register or to the stack frame: means the same anywhere */
	return put(at, b, len);
}

static const uint8_t head[] = {0x48, 0x8d, 0x64, 0x24, 0x80, /* lea -128(%rsp),%rsp */
			       0x9c, 0x50,		     /* pushfq; push %rax */
			       0xb8};			     /* mov $hook,%eax */

void arch_put_trampoline(uint8_t *out, uint64_t addr, uint32_t hook, uint64_t thunk,
			 const uint8_t *insn, uint8_t len, uint64_t insn_addr)
{
	uint8_t *literal = out + ARCH_TRAMPOLINE_BYTES - LITERAL;
	uint8_t *at = put_u32(put(out, head, sizeof(head)), hook);

	at = PUT(at, 0xff, 0x15); /* call *thunk(%rip) */
	at = put_u32(at, (uint32_t)(literal - (at + 4)));
	at = PUT(at, 0x58, 0x9d);				      /* pop %rax; popfq */
	at = PUT(at, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00); /* lea 128(%rsp),%rsp */
	at = put_displaced(at, insn, len, insn_addr);
	put_jump(at, addr + (uint64_t)(at - out), insn_addr + len);
	put(literal, &thunk, LITERAL);
}

bool arch_leave_trampoline(const uint8_t *t, uint64_t addr, unsigned o, uint64_t *ret_pc,
			   uint64_t *ret_lowered)
{
	const unsigned end = ARCH_TRAMPOLINE_BYTES - LITERAL, last = end - ARCH_JUMP_BYTES;
	unsigned k = JUMP_FIRST;
	int32_t disp;

	if (memcmp(t, head, sizeof(head)) != 0)
		return false;
	/* The jump back is followed by nothing but int3, up to the thunk's address. */
	for (; k <= last; k++) {
		unsigned fill = k + ARCH_JUMP_BYTES;

		while (t[k] == JUMP && fill < end && t[fill] == INT3)
			fill++;
		if (t[k] == JUMP && fill == end)
			break;
	}
	if (k > last)
		return false;
	memcpy(&disp, t + k + 1, sizeof(disp));
	*ret_pc = addr + k + ARCH_JUMP_BYTES + (uint64_t)(int64_t)disp;
	/* What the instructions before `o` have taken from the stack pointer, or given back. */
	*ret_lowered = o < 5	? 0
		       : o < 6	? 128
		       : o < 7	? 136
		       : o < 19 ? 144
		       : o < 20 ? 136
		       : o < 28 ? 128
				: 0;
	return true;
}

bool arch_call_field(uint64_t addr, uint64_t target, uint32_t *ret_field)
{
	int64_t far = (int64_t)(target - (addr + sizeof(*ret_field)));

	*ret_field = (uint32_t)far;
	return far == (int32_t)far;
}
