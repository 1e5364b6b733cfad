/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See chains.h. The count arrives in x0. The other chain is one of exclusive or: the latency of a
 * multiplication differs between cores.
 */
	.macro	LOOP name, instruction:vararg
	.globl	\name
	.type	\name, %function
	.balign	64
\name:
	adrp	x1, line
	add	x1, x1, :lo12:line
	mov	x2, #3
	mov	x3, #5
	.balign	64
.L\name:
	.rept	64
	\instruction
	.endr
	subs	x0, x0, #1
	b.ne	.L\name
	ret
	.size	\name, . - \name
	.endm

	.text
	LOOP	chain_add, add x2, x2, x3
	LOOP	chain_cross, eor x2, x2, x3
	LOOP	stream_load, ldr x4, [x1]

	.section .rodata
	.globl	chain_cross_cycles
	.balign	64
line:
	.skip	64
chain_cross_cycles:
	.double	1.0

	.section .note.GNU-stack, "", %progbits
