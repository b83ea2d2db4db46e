/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The agent's image as data in the tool: extern const unsigned char pollux_agent_image[], ..._end[]. */
	.section .rodata
	.globl pollux_agent_image
	.globl pollux_agent_image_end
	.p2align 4
pollux_agent_image:
	.incbin AGENT_BIN
pollux_agent_image_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
