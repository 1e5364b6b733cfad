/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See ../chains.h. The count arrives in x0. */
	.macro	FUNCTION name
	.globl	\name
	.type	\name, %function
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
	adrp	x1, line
	add	x1, x1, :lo12:line
	mov	x2, x1
	mov	x3, #5
	.balign	64
.L\name:
	COPIES	64, \instruction
	subs	x0, x0, #1
	b.ne	.L\name
	ret
	.size	\name, . - \name
	.endm

	/* So many iterations a turn: 64 loads are no whole number of cycles where three go in one. */
	.macro	STREAM name, turn, instruction:vararg
	FUNCTION \name
	adrp	x1, line
	add	x1, x1, :lo12:line
	mov	x3, #5
	subs	x0, x0, #\turn
	b.lo	.Lrest_\name
	.balign	64
.L\name:
	COPIES	\turn*64, \instruction
	subs	x0, x0, #\turn
	b.hs	.L\name
.Lrest_\name:
	adds	x0, x0, #\turn
	b.eq	.Lend_\name
.Lone_\name:
	COPIES	64, \instruction
	subs	x0, x0, #1
	b.ne	.Lone_\name
.Lend_\name:
	ret
	.size	\name, . - \name
	.endm

	.text
	LOOP	chain_add, add x2, x2, x3
	LOOP	chain_xor, eor x2, x2, x3
	LOOP	chain_multiply, mul w2, w2, w2
	LOOP	chain_load, ldr x2, [x2]
	/* The words of a line by turns: some cores load one word twice a cycle, three thrice. */
	STREAM	stream_load, 3, ldr x4, [x1, #.Lword]
	STREAM	stream_store, 3, str x3, [x1, #8]
	STREAM	stream_nop, 12, nop

	FUNCTION taken_branches
	lsl	x0, x0, #6
	.balign	64
.Ltaken:
	subs	x0, x0, #1
	b.ne	.Ltaken
	ret
	.size	taken_branches, . - taken_branches

	.data
	.balign	64
line:
	.quad	line
	.skip	56

	.section .note.GNU-stack, "", %progbits
