/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ../chains.h and chains.h. The count arrives in rdi. */
	.macro	FUNCTION name
	.globl	\name
	.type	\name, @function
	.balign	64
\name:
	.endm

	/* .Lword is the place of a word of the line, another one in each. */
	.macro	COPIES count, instruction:vararg
	.set	.Lword, 0
	.rept	\count
	\instruction
	.set	.Lword, (.Lword + 8) % 64
	.endr
	.endm

	.macro	LOOP name, instruction:vararg
	FUNCTION \name
	lea	line(%rip), %rsi
	mov	%rsi, %rax
	mov	$5, %ecx
	.balign	64
.L\name:
	COPIES	64, \instruction
	dec	%rdi
	jnz	.L\name
	ret
	.size	\name, . - \name
	.endm

	/* So many iterations a turn: 64 loads are no whole number of cycles where three go in one. */
	.macro	STREAM name, turn, instruction:vararg
	FUNCTION \name
	lea	line(%rip), %rsi
	mov	$5, %ecx
	sub	$\turn, %rdi
	jb	.Lrest_\name
	.balign	64
.L\name:
	COPIES	\turn*64, \instruction
	sub	$\turn, %rdi
	jae	.L\name
.Lrest_\name:
	add	$\turn, %rdi
	jz	.Lend_\name
.Lone_\name:
	COPIES	64, \instruction
	dec	%rdi
	jnz	.Lone_\name
.Lend_\name:
	ret
	.size	\name, . - \name
	.endm

	.text
	LOOP	chain_add, add %rcx, %rax
	LOOP	chain_xor, xor %rcx, %rax
	LOOP	chain_multiply, imul %eax, %eax
	LOOP	chain_load, mov (%rax), %rax
	LOOP	chain_adc, adc %rcx, %rax
	LOOP	chain_lea, lea (%rax, %rcx), %rax
	LOOP	chain_add_constant, add $0x12345, %rax
	/* The words of a line by turns: some cores load one word twice a cycle, three thrice. */
	STREAM	stream_load, 3, mov .Lword(%rsi), %rax
	STREAM	stream_store, 3, mov %rcx, 8(%rsi)
	STREAM	stream_multiply, 3, imul $7, %ecx, %eax
	/* Four bytes each: more than 48 one-byte nops in 64 bytes leave Golden Cove's op cache. */
	STREAM	stream_nop, 12, nopl 8(%rax)

	FUNCTION taken_branches
	shl	$6, %rdi
	.balign	64
.Ltaken:
	dec	%rdi
	jnz	.Ltaken
	ret
	.size	taken_branches, . - taken_branches

	.data
	.balign	64
line:
	.quad	line
	.skip	56

	.section .note.GNU-stack, "", @progbits
