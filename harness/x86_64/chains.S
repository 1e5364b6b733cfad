/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See chains.h. The count arrives in rdi. */
	.macro	LOOP name, instruction:vararg
	.globl	\name
	.type	\name, @function
	.balign	64
\name:
	lea	line(%rip), %rsi
	mov	$3, %eax
	mov	$5, %ecx
	.balign	64
.L\name:
	.rept	64
	\instruction
	.endr
	dec	%rdi
	jnz	.L\name
	ret
	.size	\name, . - \name
	.endm

	.text
	LOOP	chain_add, add %rcx, %rax
	LOOP	chain_cross, imul %rax, %rax
	LOOP	stream_load, mov (%rsi), %rax

	.section .rodata
	.globl	chain_cross_cycles
	.balign	64
line:
	.skip	64
chain_cross_cycles:
	.double	3.0

	.section .note.GNU-stack, "", @progbits
