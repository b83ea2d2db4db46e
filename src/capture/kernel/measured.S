/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The function whose call with a probe on it is measured. Its first byte is a nop, which the kernel
 * emulates as it does a push or a jump. A file of its own: link-time optimisation loses symbols that
 * an asm statement among C defines.
 */
	.text
	.balign	16
	.globl	kernel_core_measured
	.hidden	kernel_core_measured
	.type	kernel_core_measured, @function
kernel_core_measured:
	nop
	ret
	.size	kernel_core_measured, . - kernel_core_measured
	.section .note.GNU-stack, "", @progbits
