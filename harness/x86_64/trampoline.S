/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * void trampoline(void): call trampoline_target with all registers from trampoline_in, save them
 * to trampoline_out. Offsets follow struct cpu_state. xsave keeps the vector registers away from
 * the C code on both sides.
 */
#define GPR(area, n) area + 8 * (n)(%rip)
#define FLAGS(area)  area + 8 * 32(%rip)

	.bss
	.balign	8
host_stack:
	.skip	8

	.text
	.globl	trampoline
	.type	trampoline, @function
trampoline:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, host_stack(%rip)
	mov	trampoline_components(%rip), %eax
	xor	%edx, %edx
	xrstor64 trampoline_vectors_in(%rip)
	mov	GPR(trampoline_in, 4), %rsp
	push	FLAGS(trampoline_in)
	popf
	mov	GPR(trampoline_in, 0), %rax
	mov	GPR(trampoline_in, 1), %rcx
	mov	GPR(trampoline_in, 2), %rdx
	mov	GPR(trampoline_in, 3), %rbx
	mov	GPR(trampoline_in, 5), %rbp
	mov	GPR(trampoline_in, 6), %rsi
	mov	GPR(trampoline_in, 7), %rdi
	mov	GPR(trampoline_in, 8), %r8
	mov	GPR(trampoline_in, 9), %r9
	mov	GPR(trampoline_in, 10), %r10
	mov	GPR(trampoline_in, 11), %r11
	mov	GPR(trampoline_in, 12), %r12
	mov	GPR(trampoline_in, 13), %r13
	mov	GPR(trampoline_in, 14), %r14
	mov	GPR(trampoline_in, 15), %r15
	call	*trampoline_target(%rip)
	mov	%rax, GPR(trampoline_out, 0)
	mov	%rcx, GPR(trampoline_out, 1)
	mov	%rdx, GPR(trampoline_out, 2)
	mov	%rbx, GPR(trampoline_out, 3)
	mov	%rsp, GPR(trampoline_out, 4)
	mov	%rbp, GPR(trampoline_out, 5)
	mov	%rsi, GPR(trampoline_out, 6)
	mov	%rdi, GPR(trampoline_out, 7)
	mov	%r8, GPR(trampoline_out, 8)
	mov	%r9, GPR(trampoline_out, 9)
	mov	%r10, GPR(trampoline_out, 10)
	mov	%r11, GPR(trampoline_out, 11)
	mov	%r12, GPR(trampoline_out, 12)
	mov	%r13, GPR(trampoline_out, 13)
	mov	%r14, GPR(trampoline_out, 14)
	mov	%r15, GPR(trampoline_out, 15)
	mov	host_stack(%rip), %rsp
	pushf
	pop	FLAGS(trampoline_out)
	/* A set direction flag, or AC, must not reach the C code. */
	push	$0x202
	popf
	mov	trampoline_components(%rip), %eax
	xor	%edx, %edx
	xsave64	trampoline_vectors_out(%rip)
	fninit
	ldmxcsr	default_mxcsr(%rip)
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
	.size	trampoline, . - trampoline

	.section .rodata
	.balign	4
default_mxcsr:
	.long	0x1f80

	.section .note.GNU-stack, "", @progbits
