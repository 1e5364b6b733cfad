/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See block_machine.h. The offsets follow struct block_frame. While a block runs, tpidr_el0
 * points to memory that is the block's: the C library keeps its thread's data there.
 */
#define REPETITIONS	 8
#define ENTRY		 24

	.bss
	.balign	8
host_stack:
	.skip	8
host_thread:
	.skip	8

	.macro	address reg, symbol
	adrp	\reg, \symbol
	add	\reg, \reg, :lo12:\symbol
	.endm

	/* The block's thread pointer, as BLOCK_THREAD says. */
	.macro	lend reg
	mov	\reg, #0x0c00
	movk	\reg, #0x2200, lsl #16
	msr	tpidr_el0, \reg
	.endm

	.text
	.globl	block_call
	.type	block_call, %function
block_call:
	stp	x29, x30, [sp, #-160]!
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	stp	d8, d9, [sp, #96]
	stp	d10, d11, [sp, #112]
	stp	d12, d13, [sp, #128]
	stp	d14, d15, [sp, #144]
	address	x9, block_frame
	str	x0, [x9, #REPETITIONS]
	ldr	x11, [x9, #ENTRY]
	address	x9, host_stack
	mov	x10, sp
	str	x10, [x9]
	address	x9, host_thread
	mrs	x10, tpidr_el0
	str	x10, [x9]
	lend	x9
	br	x11
	.size	block_call, . - block_call

	.globl	block_leave
	.type	block_leave, %function
block_leave:
	address	x9, host_stack
	ldr	x10, [x9]
	mov	sp, x10
	address	x9, host_thread
	ldr	x10, [x9]
	msr	tpidr_el0, x10
	msr	fpcr, xzr
	ldp	x19, x20, [sp, #16]
	ldp	x21, x22, [sp, #32]
	ldp	x23, x24, [sp, #48]
	ldp	x25, x26, [sp, #64]
	ldp	x27, x28, [sp, #80]
	ldp	d8, d9, [sp, #96]
	ldp	d10, d11, [sp, #112]
	ldp	d12, d13, [sp, #128]
	ldp	d14, d15, [sp, #144]
	ldp	x29, x30, [sp], #160
	ret
	.size	block_leave, . - block_leave

	.globl	block_on_signal
	.type	block_on_signal, %function
block_on_signal:
	stp	x29, x30, [sp, #-16]!
	address	x9, host_thread
	ldr	x10, [x9]
	msr	tpidr_el0, x10
	bl	block_signal
	lend	x9
	ldp	x29, x30, [sp], #16
	ret
	.size	block_on_signal, . - block_on_signal

	.section .note.GNU-stack, "", %progbits
