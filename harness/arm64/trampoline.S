/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * void trampoline(void): call trampoline_target with all registers from trampoline_in, save them
 * to trampoline_out. x17 carries the target and x30 the return address, so trampoline_in is
 * brought in line with both. Offsets follow struct cpu_state.
 */
#define SP_AT	 8 * 31
#define FLAGS_AT 8 * 32

	.bss
	.balign	8
host_stack:
	.skip	8

	.macro	address reg, symbol
	adrp	\reg, \symbol
	add	\reg, \reg, :lo12:\symbol
	.endm

	.macro	vectors op
	.irp	n, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
	vector_pair \op, \n, %(\n + 1)
	.endr
	.endm

	.macro	vector_pair op, n, next
	\op	q\n, q\next, [x9, #16 * \n]
	.endm

	.macro	load_pair n, next
	ldp	x\n, x\next, [x30, #8 * \n]
	.endm

	.macro	store_pair n, next
	stp	x\n, x\next, [x30, #8 * \n]
	.endm

	.text
	.globl	trampoline
	.type	trampoline, @function
trampoline:
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
	address	x9, host_stack
	mov	x10, sp
	str	x10, [x9]
	address	x9, trampoline_vectors_in
	.altmacro
	vectors	ldp
	address	x30, trampoline_in
	address	x9, trampoline_target
	ldr	x9, [x9]
	str	x9, [x30, #8 * 17]
	adr	x9, returned
	str	x9, [x30, #8 * 30]
	ldr	x9, [x30, #FLAGS_AT]
	msr	nzcv, x9
	ldr	x9, [x30, #SP_AT]
	mov	sp, x9
	.irp	n, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28
	load_pair \n, %(\n + 1)
	.endr
	ldr	x30, [x30, #8 * 30]
	br	x17
returned:
	str	x30, [sp, #-16]!
	address	x30, trampoline_out
	.irp	n, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28
	store_pair \n, %(\n + 1)
	.endr
	ldr	x0, [sp], #16
	str	x0, [x30, #8 * 30]
	mov	x0, sp
	str	x0, [x30, #SP_AT]
	mrs	x0, nzcv
	str	x0, [x30, #FLAGS_AT]
	address	x9, trampoline_vectors_out
	vectors	stp
	address	x9, host_stack
	ldr	x10, [x9]
	mov	sp, x10
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
	.size	trampoline, . - trampoline

	.section .note.GNU-stack, "", @progbits
