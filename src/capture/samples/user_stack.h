/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A thread's registers and the top of its stack, as BPF programs copy them and
 * capture/samples/stacks.h walks them. Fixed widths, since clang compiles this for both sides.
 */
#pragma once

#define USER_STACK_BYTES 8192u
#define USER_STACK_PIECE 512u

struct user_stack {
	__u64 ip, sp, bp;
	__u64 n; /* of the bytes, as many as could be read */
	__u8 bytes[USER_STACK_BYTES];
};

#ifdef __bpf__
/* The registers are there: reads what sp points at, up to where the stack ends. */
static __always_inline void user_stack_copy(struct user_stack *s)
{
	__u32 i;

	for (i = 0; i < USER_STACK_BYTES / USER_STACK_PIECE; i++)
		if (bpf_probe_read_user(s->bytes + i * USER_STACK_PIECE, USER_STACK_PIECE,
					(void *)(s->sp + i * USER_STACK_PIECE)))
			break;
	s->n = i * USER_STACK_PIECE;
}
#endif
