/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The function whose call with a probe on it is measured. Its first byte is a nop, which the kernel
 * emulates as it does a push or a jump. A file of its own: link-time optimisation loses symbols that
 * an asm statement among C defines.
 */
	.text
	.balign	16
	.globl	arch_measured
	.hidden	arch_measured
	.type	arch_measured, @function
arch_measured:
	nop
	ret
	.size	arch_measured, . - arch_measured
	.section .note.GNU-stack, "", @progbits
