/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The image's header and the thunks: where a stub goes with its hook's number in %eax, and where the
 * call goes on to the original.
 *
 * When agent_switch is off, a thunk is five instructions and a jump. Every instruction has its unwind
 * rules (.eh_frame, registered with the program's unwinder): a profiler's signal may come anywhere, and
 * a panic passes through async-task's frame. Frames keep a frame pointer for those that know no rules.
 */
#include "agent/thunks.h"

/* struct agent_image */
	.section .image_header, "a", @progbits
	.globl agent_image
	.hidden agent_image
	.type agent_image, @object
agent_image:
	.quad 0x0031786c6c6f70	/* AGENT_MAGIC */
	.long IMAGE_ABI
	.long agent_image_end - agent_image
	.long AGENT_STATE_BYTES
	.long agent_eh_frame - agent_image
	.long agent_eh_frame_end - agent_image
	.long agent_stubs_range - agent_image
	.long 0 /* AH_NONE, then in the order of enum agent_hook_type */
	.long thunk_tokio_poll - agent_image
	.long thunk_tokio_schedule - agent_image
	.long thunk_drop - agent_image
	.long thunk_tokio_shutdown - agent_image
	.long thunk_tokio_wake - agent_image
	.long thunk_async_run - agent_image
	.long thunk_async_schedule - agent_image
	.long thunk_drop - agent_image
	.long thunk_async_wake - agent_image
	.long thunk_root_wake - agent_image
	.long thunk_call - agent_image
	.long thunk_spawn - agent_image
	.long thunk_root_enter - agent_image
	.long thunk_raise - agent_image
	.long thunk_async_cancel - agent_image
	.long thunk_future - agent_image
	.long thunk_tokio_read - agent_image
	.long thunk_wait - agent_image
	.long thunk_root_park - agent_image
	.long 0 /* AH_ROOT_SITE */
	.long thunk_confine - agent_image
	.long thunk_fork - agent_image
	.fill 24 - 23, 4, 0
agent_image_state:
	.quad 0
agent_image_hooks:
	.quad 0
agent_image_live:
	.quad 0
	.long AGENT_NOTES
	.long AGENT_NOTES_BYTES
	.size agent_image, . - agent_image

/* %rax = the hook; off: straight on to the original. */
	.macro ENTER
	shlq $HOOK_SHIFT, %rax
	addq agent_image_hooks(%rip), %rax
	movq agent_image_live(%rip), %r11
	cmpl $0, (%r11)
	jne .Lon\@
	jmp *HOOK_ORIG(%rax)
.Lon\@:
	.endm

	.macro FUNCTION name
	.text
	.p2align 4
	.type \name, @function
\name:
	.cfi_startproc
	.endm

	.macro END name
	.cfi_endproc
	.size \name, . - \name
	.endm

/*
 * _Unwind_Reason_Code personality(version, actions, class, exception, context). There is nothing to land
 * on: what must be done when a panic passes is done by \unwound(forced, context, from), and the unwinding
 * goes on. Global, since ld takes those of local symbols for the same.
 */
	.macro PERSONALITY name, unwound
	.globl \name
	.hidden \name
	FUNCTION \name
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	testb $2, %sil	/* _UA_CLEANUP_PHASE */
	je .Lcontinue\@
	movl %esi, %edi
	shrl $3, %edi	/* _UA_FORCE_UNWIND is 8 */
	andl $1, %edi
	movq %r8, %rsi
	movq 8(%rbp), %rdx	/* in the unwinder's code */
	call \unwound
.Lcontinue\@:
	movl $8, %eax	/* _URC_CONTINUE_UNWIND */
	popq %rbp
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	END \name
	.endm

/* Calls \to(first argument, hook, frame: the caller's %rbp, the return address, what it had on the stack),
 * then jumps to the original with its three arguments as they were. */
	.macro RECORD to
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rdi
	pushq %rsi
	pushq %rax
	pushq %rdx
	movq %rax, %rsi
	movq %rbp, %rdx
	call \to
	movq -32(%rbp), %rdx
	movq -24(%rbp), %rax
	movq -16(%rbp), %rsi
	movq -8(%rbp), %rdi
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	jmp *HOOK_ORIG(%rax)
	.endm

	.macro RECORDING name, to
	FUNCTION \name
	ENTER
	RECORD \to
	END \name
	.endm

	RECORDING thunk_tokio_schedule, agent_tokio_schedule
	RECORDING thunk_tokio_wake, agent_tokio_wake
	RECORDING thunk_async_schedule, agent_async_schedule
	RECORDING thunk_async_wake, agent_async_wake
	RECORDING thunk_async_cancel, agent_async_cancel
	RECORDING thunk_root_wake, agent_root_wake
	RECORDING thunk_drop, agent_drop
	RECORDING thunk_raise, agent_raise

/* Calls \whole(header, hook) in place of the original. Tokio lets no panic out of these two. */
	.macro WRAPPING name, whole
	FUNCTION \name
	ENTER
	movq %rax, %rsi
	jmp \whole
	END \name
	.endm

	WRAPPING thunk_tokio_poll, agent_tokio_poll
	WRAPPING thunk_tokio_shutdown, agent_tokio_shutdown

/* "JoinHandle polled after completion" is a panic that leaves it, so our frame must be known. */
FUNCTION thunk_tokio_read
	ENTER
	testw $FLAG_FRAME, HOOK_FLAGS(%rax)
	je 1f
	movq agent_image_state(%rip), %r11
	cmpl $REGISTERED, STATE_REGISTERED(%r11)
	jne 1f
	movq %rax, %rcx
	jmp agent_tokio_read
1:
	RECORD agent_tokio_read_tail
END thunk_tokio_read

/*
 * bool run(header). The frame holds what the end needs, in registers that calls preserve: the header, the
 * hook, the open poll, and whether we hold a reference.
 */
FUNCTION thunk_async_run
	.cfi_personality 0x1b, agent_personality
	ENTER
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rbx
	.cfi_offset %rbx, -24
	pushq %r12
	.cfi_offset %r12, -32
	pushq %r13
	.cfi_offset %r13, -40
	pushq %r14
	.cfi_offset %r14, -48
	movq %rdi, %rbx
	movq %rax, %r12
	movq %rax, %rsi
	call agent_async_begin
	movq %rax, %r13
	movq %rdx, %r14
	movq %rbx, %rdi
	testq %rax, %rax
	je 1f
	call *HOOK_ORIG(%r12)
	movzbl %al, %r8d
	movq %r14, %rcx
	movq %r13, %rdx
	movl %r8d, %r14d
	movq %r12, %rsi
	movq %rbx, %rdi
	call agent_async_end
	movl %r14d, %eax
	.cfi_remember_state
	leaq -32(%rbp), %rsp
	popq %r14
	.cfi_restore %r14
	popq %r13
	.cfi_restore %r13
	popq %r12
	.cfi_restore %r12
	popq %rbx
	.cfi_restore %rbx
	popq %rbp
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_restore_state
1:	movq %r12, %rax
	popq %r14
	.cfi_restore %r14
	popq %r13
	.cfi_restore %r13
	popq %r12
	.cfi_restore %r12
	popq %rbx
	.cfi_restore %rbx
	popq %rbp
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
	jmp *HOOK_ORIG(%rax)
END thunk_async_run

/* Of the frame above. */
PERSONALITY agent_personality, agent_async_unwound

/*
 * A future's poll: the future and the context, before them where the result goes if it goes to memory. An
 * optimiser may have made other arguments of them, so all that can be arguments are kept, and all that can
 * be results. Below the frame pointer: %rbx, then struct agent_future.
 */
	.macro AROUND begin, end
	ENTER
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rbx
	.cfi_offset %rbx, -24
	subq $FUTURE_BYTES + 8, %rsp
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	movq %rax, %rbx
	movq %rsi, %rcx
	movq %rdi, %rdx
	leaq -8 - FUTURE_BYTES(%rbp), %rsi
	movq %rax, %rdi
	call \begin
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	testb %al, %al
	je 1f
	call *HOOK_ORIG(%rbx)
	movq %rax, %rbx
	pushq %rcx
	pushq %rdx
	movq %rax, %rsi
	leaq -8 - FUTURE_BYTES(%rbp), %rdi
	call \end
	popq %rdx
	popq %rcx
	movq %rbx, %rax
	.cfi_remember_state
	movq -8(%rbp), %rbx
	.cfi_restore %rbx
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	.cfi_restore_state
1:	movq %rbx, %rax
	movq -8(%rbp), %rbx
	.cfi_restore %rbx
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	jmp *HOOK_ORIG(%rax)
	.endm

FUNCTION thunk_future
	.cfi_personality 0x1b, agent_future_personality
	AROUND agent_future_begin, agent_future_end
END thunk_future

/* What a block_on does between two polls. */
FUNCTION thunk_root_park
	AROUND agent_root_park_begin, agent_root_park_end
END thunk_root_park

/* Of the frame above. */
PERSONALITY agent_future_personality, agent_future_unwound

/*
 * A libc function of up to six arguments in registers. Most of its calls are short, and then nothing is
 * touched but the hook and two readings of the clock: system calls leave little in the nearest caches.
 */
FUNCTION thunk_call
	shlq $HOOK_SHIFT, %rax
	addq agent_image_hooks(%rip), %rax
	movq agent_image_live(%rip), %r11
	cmpl $0, (%r11)
	je 2f
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rbx
	.cfi_offset %rbx, -24
	pushq %r12
	.cfi_offset %r12, -32
	pushq %rdi	/* the descriptor and what may be flags: agent_call_long */
	pushq %rcx
	pushq %rax	/* the hook, and since when: process/open_call.c */
	movq %rax, %rbx
	movq %rdx, %r10
	rdtsc
	shlq $32, %rdx
	orq %rdx, %rax
	pushq %rax
	movq %rax, %r12
	movq %r10, %rdx
	xorl %eax, %eax	/* no vector registers, for a variadic one */
	/* What unwinds a thread that sleeps in there doesn't know its %rbp. */
	.cfi_def_cfa %rsp, 64
	call *HOOK_ORIG(%rbx)
	.cfi_def_cfa %rbp, 16
	movq %rax, %rcx
	/* A signal handler may have forbidden the clock meanwhile. */
	movq agent_image_live(%rip), %rdx
	cmpl $0, (%rdx)
	je 1f
	rdtsc
	shlq $32, %rdx
	orq %rdx, %rax
	subq %r12, %rax
	movq agent_image_state(%rip), %rdx
	movl STATE_CALL_MIN(%rdx), %edx
	cmpq %rdx, %rax
	jb 1f
	pushq %rcx
	subq $8, %rsp
	movq %rbx, %rdi
	movq %rax, %rsi
	movq %rbp, %rdx
	call agent_call_long
	addq $8, %rsp
	popq %rcx
1:	movq %rcx, %rax
	addq $32, %rsp
	popq %r12
	.cfi_restore %r12
	popq %rbx
	.cfi_restore %rbx
	popq %rbp
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
	ret
2:	movq HOOK_ORIG(%rax), %r11
	xorl %eax, %eax
	jmp *%r11
END thunk_call

/*
 * The same where a thread waits: its begin is recorded too. One argument more may be on the stack
 * (syscall's last). Of the futex operations only those that wait are looked at.
 */
FUNCTION thunk_wait
	shlq $HOOK_SHIFT, %rax
	addq agent_image_hooks(%rip), %rax
	cmpw $CALL_FUTEX, HOOK_KIND(%rax)
	jne 1f
	cmpl $SYS_FUTEX, %edi
	jne .Lconfine_syscall
	movl %edx, %r10d
	andl $127, %r10d
	cmpl $31, %r10d
	ja 2f
	movl $FUTEX_WAITS, %r11d
	btl %r10d, %r11d
	jnc 2f
1:	movq agent_image_live(%rip), %r11
	cmpl $0, (%r11)
	je 2f
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rbx
	.cfi_offset %rbx, -24
	pushq %r12
	.cfi_offset %r12, -32
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	movq %rax, %rbx
	movq %rax, %rdi
	call agent_wait_begin
	movq %rax, %r12
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	subq $8, %rsp
	pushq 16(%rbp)	/* the seventh */
	xorl %eax, %eax	/* no vector registers, for the variadic one */
	/* What unwinds a thread that sleeps in there doesn't know its %rbp. */
	.cfi_def_cfa %rsp, 48
	call *HOOK_ORIG(%rbx)
	.cfi_def_cfa %rbp, 16
	movq %rax, (%rsp)
	movq %rax, %rcx
	movq %r12, %rsi
	movq %rbx, %rdi
	movq %rbp, %rdx
	call agent_wait_end
	popq %rax
	addq $8, %rsp
	popq %r12
	.cfi_restore %r12
	popq %rbx
	.cfi_restore %rbx
	popq %rbp
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 8
	ret
2:	movq HOOK_ORIG(%rax), %r11
	xorl %eax, %eax
	jmp *%r11
END thunk_wait

/*
 * A function that may bring a seccomp filter, or have system calls handed to the program. From the
 * moment before on the agent makes no more system calls: the thread makes its next step when it is
 * back, and other threads that the filter is put on, too, see the word before the kernel does that.
 * Also while the agent is off: the tool may be about to enable it. Where the thread forbids itself
 * to read the clock, the agent is switched off. No register is touched but those that a call through a PLT may change.
 */
FUNCTION thunk_confine
	shlq $HOOK_SHIFT, %rax
	addq agent_image_hooks(%rip), %rax
	cmpw $CONFINE_SYSCALL, HOOK_KIND(%rax)
	je .Lconfine_syscall
	cmpw $CONFINE_PRCTL, HOOK_KIND(%rax)
	jne 2f
	cmpl $PR_SET_SECCOMP, %edi
	je 2f
	cmpl $PR_SET_SYSCALL_USER_DISPATCH, %edi
	je 2f
	cmpl $PR_SET_TSC, %edi
	jne 3f
	cmpl $PR_TSC_SIGSEGV, %esi
	jne 3f
	jmp 4f
.Lconfine_syscall:
	cmpl $SYS_SECCOMP, %edi
	jne 1f
	cmpl $SECCOMP_SET_MODE_FILTER, %esi
	ja 3f
	jmp 2f
1:	cmpl $SYS_PRCTL, %edi
	jne 3f
	cmpl $PR_SET_SECCOMP, %esi
	je 2f
	cmpl $PR_SET_SYSCALL_USER_DISPATCH, %esi
	je 2f
	cmpl $PR_SET_TSC, %esi
	jne 3f
	cmpl $PR_TSC_SIGSEGV, %edx
	jne 3f
	/* The tool enables it first, and then looks at the other word. */
4:	movq agent_image_live(%rip), %r11
	movl $1, SWITCH_NO_CLOCK(%r11)
	movl $0, (%r11)
	jmp 3f
2:	movq agent_image_state(%rip), %r11
	movl $0, STATE_MAY_CALL(%r11)
3:	movq HOOK_ORIG(%rax), %r11
	xorl %eax, %eax	/* no vector registers, for a variadic one */
	jmp *%r11
END thunk_confine

/* pid_t fork(void): in the child the agent looks after itself. Also while it is off: it may have been on
 * when the thread's signal handler, which forks, came. */
FUNCTION thunk_fork
	shlq $HOOK_SHIFT, %rax
	addq agent_image_hooks(%rip), %rax
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	call *HOOK_ORIG(%rax)
	testl %eax, %eax
	jne 1f
	call agent_child
	xorl %eax, %eax
1:	popq %rbp
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
END thunk_fork

/*
 * From a trampoline: any register may be in use but %rax and the flags, which the trampoline keeps. The
 * stack may be aligned to eight bytes only. \to(hook, frame): of the frame pointer on lie %rbp, %r11, the
 * return address, %rax, the flags, a red zone, and then what the program has at its %rsp.
 */
	.macro TRAMPOLINED name, to
	FUNCTION \name
	pushq %r11
	.cfi_adjust_cfa_offset 8
	shlq $HOOK_SHIFT, %rax
	addq agent_image_hooks(%rip), %rax
	movq agent_image_live(%rip), %r11
	cmpl $0, (%r11)
	je 1f
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	pushq %r10
	andq $-16, %rsp
	cld
	movq %rax, %rdi
	movq %rbp, %rsi
	call \to
	leaq -56(%rbp), %rsp
	popq %r10
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	popq %rbp
	.cfi_restore %rbp
	.cfi_def_cfa %rsp, 16
1:	popq %r11
	.cfi_adjust_cfa_offset -8
	ret
	END \name
	.endm

	TRAMPOLINED thunk_spawn, agent_spawn
	TRAMPOLINED thunk_root_enter, agent_root_enter

/*
 * Unwind rules for the stubs, which the tool writes behind the image: the return address is on top of the
 * stack. By hand, since only the tool knows how many there are. The linker must not look into it, hence
 * the section's own name; it comes first in .eh_frame.
 */
	.section .stubs_frame, "a", @progbits
	.p2align 3
.Lcie:	.long .Lcie_end - .Lcie_id
.Lcie_id:
	.long 0
	.byte 1		/* version */
	.string "zR"
	.uleb128 1	/* code alignment */
	.sleb128 -8	/* data alignment */
	.byte 16	/* return address */
	.uleb128 1
	.byte 0x1b	/* pc-relative, 4 bytes signed */
	.byte 0x0c, 7, 8 /* DW_CFA_def_cfa rsp, 8 */
	.byte 0x80 | 16, 1 /* DW_CFA_offset return address, 1 */
	.p2align 3, 0
.Lcie_end:
.Lfde:	.long .Lfde_end - .Lfde_id
.Lfde_id:
	.long .Lfde_id - .Lcie
	.long agent_image_end - .
agent_stubs_range:
	.long 16
	.uleb128 0
	.p2align 3, 0
.Lfde_end:

	.section .note.GNU-stack, "", @progbits
